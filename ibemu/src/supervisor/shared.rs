//! Cables in shared memory: made here, and handed to both devices by descriptor. Nothing of them stays here.
//!
//! A device that is started again gets new memory for all its cables, with its neighbours, and so does a cable that is
//! plugged again: what was in it is gone.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context as _, Result};
use futures_util::{StreamExt, TryStreamExt, stream};
use netio::transport::{Cable, Transport};
use wire::PortNum;
use wire::control::{DeviceReply, DeviceRequest};

use super::cables::{AT_ONCE, NEIGHBOUR_TIMEOUT};
use super::fleet::Fleet;
use crate::ask::{self, DeviceClient};
use crate::dir::FabricDir;
use crate::state::{End, FabricState};

/// Makes the memory of a cable between two devices of this machine, and hands it to both.
pub(crate) async fn join_here(
    dir: &FabricDir,
    state: &FabricState,
    ends: [End; 2],
    timeout: Duration,
) -> Result<()> {
    let memory = Cable::create()?;
    for (end, second) in ends.into_iter().zip([false, true]) {
        let mut client = DeviceClient::connect(dir, &state.nodes[end.node], timeout).await?;
        let request = DeviceRequest::Attach {
            port: PortNum::new(end.port),
            cable: memory.number(),
            second,
        };
        let descriptors = memory.descriptors(second);
        client.ask_with(&request, &descriptors).await?;
    }
    Ok(())
}

impl Fleet {
    /// Whether the cable at `end` is in shared memory.
    pub(super) fn is_shared(&self, end: End) -> bool {
        self.medium(end) == Transport::Shm
    }

    /// Makes the memory of the cable at `end` and hands it to both its devices, which run.
    pub(super) async fn join(&self, end: End, timeout: Duration) -> Result<()> {
        let peer = self.peers.get(&end).copied();
        let peer = peer.with_context(|| format!("no cable is in {}", self.state.end_name(end)))?;
        match self.join_elsewhere([end, peer]).await {
            Some(joined) => joined,
            None => join_here(&self.dir, &self.state, [end, peer], timeout).await,
        }
    }

    /// Joins all cables.
    pub(super) async fn join_all(&self) -> Result<()> {
        stream::iter(self.shared_cables())
            .map(|end| self.join(end, ask::REQUEST_TIMEOUT))
            .buffer_unordered(AT_ONCE)
            .try_collect()
            .await
    }

    /// Joins the cables at `ends`, those of a device that was started again, whose other devices run.
    pub(super) async fn rejoin_all(&self, ends: &[End]) -> Result<()> {
        for end in self.cables_of(ends) {
            if self.is_shared(end) && self.both_run(end) {
                self.join(end, ask::REQUEST_TIMEOUT).await?;
            }
        }
        Ok(())
    }

    /// Joins the cables between running devices that do not have the same memory: a predecessor may have been ended
    /// between the two.
    pub(super) async fn join_adopted(&self) {
        let shared = self.shared_cables();
        if shared.is_empty() {
            return;
        }
        let running = |&node: &usize| self.is_running(Self::target(node));
        let nodes = (0..self.state.devices().len()).filter(running);
        let mut asked = stream::iter(nodes)
            .map(|node| async move { (node, self.attached(node).await) })
            .buffer_unordered(AT_ONCE);
        let mut cables = BTreeMap::new();
        while let Some((node, attached)) = asked.next().await {
            match attached {
                Ok(attached) => cables.extend(attached),
                Err(error) => self.warn_unconnected(node, &error),
            }
        }
        for end in shared {
            let [one, other] =
                [Some(&end), self.peers.get(&end)].map(|end| end.and_then(|end| cables.get(end)));
            if (one.is_none() || one != other)
                && self.both_run(end)
                && let Err(error) = self.join(end, NEIGHBOUR_TIMEOUT).await
            {
                self.warn_unconnected(end.node, &error);
            }
        }
    }

    /// The numbers of the cables that a device has.
    async fn attached(&self, node: usize) -> Result<Vec<(End, u64)>> {
        let mut client = self.client(node, NEIGHBOUR_TIMEOUT).await?;
        match client.ask(&DeviceRequest::Attached).await? {
            DeviceReply::Attached(cables) => Ok(cables
                .into_iter()
                .map(|(port, cable)| {
                    let port = port.get();
                    (End { node, port }, cable)
                })
                .collect()),
            other => Err(ask::unexpected(&other)),
        }
    }

    /// The cables in shared memory, each once.
    fn shared_cables(&self) -> BTreeSet<End> {
        self.cables_of(self.peers.keys().filter(|&&end| self.is_shared(end)))
    }

    /// The cables at these ends, each once.
    fn cables_of<'a>(&self, ends: impl IntoIterator<Item = &'a End>) -> BTreeSet<End> {
        let ends = ends.into_iter();
        ends.map(|&end| self.canonical(end)).collect()
    }

    fn both_run(&self, end: End) -> bool {
        let peer = self.peers.get(&end);
        let runs = |end: &End| self.is_running(Self::target(end.node));
        runs(&end) && peer.is_some_and(runs)
    }
}
