//! The traffic of the cables between switches, from the port counters at their ends.

use std::collections::BTreeMap;

use anyhow::Result;
use futures_util::{StreamExt, TryStreamExt, stream};
use serde::Serialize;

use crate::ask::{DeviceClient, REQUEST_TIMEOUT};
use crate::dir::FabricDir;
use crate::state::{End, FabricState, Kind};

/// How many switches are queried at a time.
const AT_ONCE: usize = 16;
/// PortXmitData counts words of four bytes.
const WORD_BYTES: u64 = 4;
/// A link that has carried more than this many flows was shared: the rest (queries and replies of
/// the flows, management) is far less.
const SHARED_ABOVE: f64 = 1.5;
/// A link that has carried less than this part of a flow has carried none.
const USED_ABOVE: f64 = 0.5;

/// Bytes sent by each port that a cable joins to another switch.
pub(super) type Sent = BTreeMap<End, u64>;

/// The traffic of one direction of a cable.
#[derive(Debug, Serialize)]
pub(super) struct Load {
    /// The switch that sends.
    pub(super) node: String,
    /// Its port.
    pub(super) port: u8,
    /// Bytes, LRH to ICRC.
    pub(super) bytes: u64,
    /// The same in flows.
    pub(super) load: f64,
}

impl Load {
    pub(super) fn is_used(&self) -> bool {
        self.load > USED_ABOVE
    }

    pub(super) fn is_shared(&self) -> bool {
        self.load > SHARED_ABOVE
    }
}

/// Bytes that all ports between switches have sent until now.
pub(super) async fn sent(dir: &FabricDir, state: &FabricState) -> Result<Sent> {
    let peers = state.peers();
    let between = |end: End| {
        let peer = peers.get(&end);
        peer.is_some_and(|peer| state.nodes[peer.node].kind == Kind::Switch)
    };
    let switches: Vec<Vec<(End, u64)>> = stream::iter(state.switches())
        .map(|node| async move {
            let mut client =
                DeviceClient::connect(dir, &state.nodes[node], REQUEST_TIMEOUT).await?;
            let ports = client.ports().await?;
            let words = |counters: &[(String, u64)]| {
                let found = counters.iter().find(|(name, _)| name == "PortXmitData");
                found.map_or(0, |&(_, words)| words)
            };
            let sent = ports.iter().map(|port| {
                let number = port.port.get();
                let bytes = words(&port.counters).saturating_mul(WORD_BYTES);
                (End { node, port: number }, bytes)
            });
            anyhow::Ok(sent.collect())
        })
        .buffered(AT_ONCE)
        .try_collect()
        .await?;
    let all = switches.into_iter().flatten();
    Ok(all.filter(|&(end, _)| between(end)).collect())
}

/// Bytes sent between two readings; `flow` is the number of bytes of a flow.
#[expect(clippy::cast_precision_loss, reason = "a ratio for people")]
pub(super) fn loads(
    state: &FabricState,
    before: &Sent,
    after: &Sent,
    flow_bytes: u64,
) -> Vec<Load> {
    let load = |(&end, &bytes): (&End, &u64)| {
        let bytes = bytes.saturating_sub(before.get(&end).copied().unwrap_or(0));
        Load {
            node: state.nodes[end.node].name.clone(),
            port: end.port,
            bytes,
            load: bytes as f64 / flow_bytes.max(1) as f64,
        }
    };
    after.iter().map(load).collect()
}
