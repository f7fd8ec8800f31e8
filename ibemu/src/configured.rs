//! Waiting until a device that was started again can be used as before: a subnet manager has to find it, to write its LIDs
//! and tables, and to make its ports Active.
//!
//! Waited for is every link that was Active before, and every other one that is up: both its ends are to be Active, the port of a host
//! is to have its LID, and the fabric's own master, if there is one, is to be at rest again, since it writes some tables after that.
//! Where no manager is at work nothing is waited for.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Result, bail};
use controller::control::Phase;
use tokio::time::{Instant, sleep};
use wire::control::PortStatus;

use crate::ask::{self, DeviceClient, REQUEST_TIMEOUT};
use crate::dir::FabricDir;
use crate::lids;
use crate::linkup::{INIT, POLL_INTERVAL};
use crate::state::{End, FabricState, Kind};

/// The logical state of a port that packets may cross (IBA 14.2.5.6).
const ACTIVE: u8 = 4;
/// How long the report of a controller may take: one that is stopped gives none.
const REPORT_TIMEOUT: Duration = Duration::from_secs(2);

/// What a device was before it is started again, and whether somebody will configure it.
#[derive(Debug)]
pub struct Before {
    node: usize,
    active: BTreeSet<u8>,
    is_managed: bool,
}

impl Before {
    /// Looks at the device at `node`, which need not run, and at the managers.
    pub async fn look(dir: &FabricDir, state: &FabricState, node: usize) -> Self {
        let ports = ports(dir, state, node).await.unwrap_or_default();
        let active = ports.iter().filter(|port| port.state == ACTIVE);
        let active: BTreeSet<u8> = active.map(|port| port.port.get()).collect();
        let is_managed = !active.is_empty()
            || has_master(dir, state).await
            || lids::of_any(dir, state).await.is_ok();
        Self {
            node,
            active,
            is_managed,
        }
    }

    /// Waits until the device, which runs again, is configured, for `limit` at most.
    ///
    /// # Errors
    /// If it is not: what is missing.
    pub async fn wait(&self, dir: &FabricDir, state: &FabricState, limit: Duration) -> Result<()> {
        if !self.is_managed {
            return Ok(());
        }
        let deadline = Instant::now() + limit;
        let mut pause = POLL_INTERVAL.0;
        while let Some(missing) = self.missing(dir, state).await? {
            if Instant::now() > deadline {
                bail!("after {} s {missing} (ibemu status)", limit.as_secs());
            }
            sleep(pause).await;
            pause = (pause * 2).min(POLL_INTERVAL.1);
        }
        Ok(())
    }

    /// What is still missing.
    async fn missing(&self, dir: &FabricDir, state: &FabricState) -> Result<Option<String>> {
        let ports = ports(dir, state, self.node).await?;
        let peers = state.peers();
        let mut others = BTreeSet::new();
        for port in &ports {
            let end = End {
                node: self.node,
                port: port.port.get(),
            };
            let is_expected = self.active.contains(&end.port) || port.state >= INIT;
            let Some(&peer) = peers.get(&end).filter(|_| is_expected) else {
                continue;
            };
            let is_host = state.nodes[self.node].kind == Kind::Host;
            if port.state != ACTIVE || is_host && port.lid == 0 {
                let name = state.end_name(end);
                return Ok(Some(format!("no subnet manager has configured {name}")));
            }
            others.insert(peer);
        }
        for peer in others {
            let there = self::ports(dir, state, peer.node).await.unwrap_or_default();
            let port = there.iter().find(|port| port.port.get() == peer.port);
            if port.is_some_and(|port| port.state != ACTIVE) {
                let name = state.end_name(peer);
                return Ok(Some(format!("no subnet manager has configured {name}")));
            }
        }
        let reports = ask::subnets(dir, state, REPORT_TIMEOUT).await;
        let phases = reports.iter().flatten().map(|report| &report.phase);
        let mut at_work = phases.filter(|phase| {
            matches!(
                phase,
                Phase::Starting | Phase::Discovering | Phase::Programming
            )
        });
        Ok(at_work
            .next()
            .map(|_| "the subnet manager is still at work".to_owned()))
    }
}

/// The ports of the device at `node`.
async fn ports(dir: &FabricDir, state: &FabricState, node: usize) -> Result<Vec<PortStatus>> {
    let mut client = DeviceClient::connect(dir, &state.nodes[node], REQUEST_TIMEOUT).await?;
    client.ports().await
}

/// Whether one of the fabric's own controllers is master, or about to be.
async fn has_master(dir: &FabricDir, state: &FabricState) -> bool {
    let reports = ask::subnets(dir, state, REPORT_TIMEOUT).await;
    let mut phases = reports.iter().flatten().map(|report| &report.phase);
    phases.any(|phase| !matches!(phase, Phase::Standby { .. } | Phase::NotActive))
}
