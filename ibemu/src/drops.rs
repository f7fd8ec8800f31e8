//! Drop counters of all devices of a fabric, by reason.

use std::collections::BTreeMap;

use anyhow::Result;
use futures_util::{StreamExt, TryStreamExt, stream};
use wire::control::PortStatus;

use crate::ask::{DeviceClient, REQUEST_TIMEOUT};
use crate::dir::FabricDir;
use crate::state::FabricState;

/// How many devices are queried at a time.
const AT_ONCE: usize = 16;
/// The prefix of the names of drop counters.
const PREFIX: &str = "drop.";

/// Counts by reason; reasons without a count are left out.
pub type Drops = BTreeMap<String, u64>;

/// The drops of these ports.
#[must_use]
pub fn of_ports(ports: &[PortStatus]) -> Drops {
    let mut drops = Drops::new();
    for (name, count) in ports.iter().flat_map(|port| &port.counters) {
        if let Some(reason) = name.strip_prefix(PREFIX)
            && *count > 0
        {
            *drops.entry(reason.to_owned()).or_default() += count;
        }
    }
    drops
}

/// The drops of the whole fabric.
///
/// # Errors
/// If a device does not answer.
pub async fn of_fabric(dir: &FabricDir, state: &FabricState) -> Result<Drops> {
    stream::iter(&state.nodes)
        .map(|node| async move {
            let mut client = DeviceClient::connect(dir, node, REQUEST_TIMEOUT)?;
            Ok(of_ports(&client.ports().await?))
        })
        .buffer_unordered(AT_ONCE)
        .try_fold(Drops::new(), |sum, drops| async move {
            anyhow::Ok(add(sum, &drops))
        })
        .await
}

fn add(mut sum: Drops, drops: &Drops) -> Drops {
    for (reason, count) in drops {
        *sum.entry(reason.clone()).or_default() += count;
    }
    sum
}

/// The differences of `after` to `before`.
#[must_use]
pub fn since(after: &Drops, before: &Drops) -> Drops {
    after
        .iter()
        .filter_map(|(reason, count)| {
            let more = count.saturating_sub(before.get(reason).copied().unwrap_or(0));
            (more > 0).then(|| (reason.clone(), more))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use wire::PortNum;

    use super::*;

    #[test]
    fn drops_are_summed_over_ports_and_compared_by_reason() {
        let port = |counters: &[(&str, u64)]| PortStatus {
            port: PortNum::new(1),
            state: 4,
            lid: 0,
            lmc: 0,
            vls: 1,
            mtu: 2048,
            counters: counters
                .iter()
                .map(|&(name, count)| (name.to_owned(), count))
                .collect(),
        };
        let before = of_ports(&[
            port(&[("PortXmitData", 9), ("drop.no-route", 1)]),
            port(&[("drop.no-route", 2), ("drop.lifetime", 0)]),
        ]);
        assert_eq!(before, [("no-route".to_owned(), 3)].into());
        let after = of_ports(&[port(&[("drop.no-route", 3), ("drop.link-down", 4)])]);
        assert_eq!(since(&after, &before), [("link-down".to_owned(), 4)].into());
    }
}
