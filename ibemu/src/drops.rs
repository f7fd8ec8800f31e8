//! Drop counters of ports, by reason.

use std::collections::BTreeMap;

use wire::control::PortStatus;

/// The prefix of the names of drop counters.
pub const PREFIX: &str = "drop.";

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

/// Adds `drops` to `sum`.
pub fn add(sum: &mut Drops, drops: &Drops) {
    for (reason, count) in drops {
        *sum.entry(reason.clone()).or_default() += count;
    }
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
