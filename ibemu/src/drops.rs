//! Drop counters of ports, by reason.

use std::collections::BTreeMap;

use wire::control::PortStatus;

/// The prefix of the names of drop counters.
pub const PREFIX: &str = "drop.";

/// The prefix of the names of what transports count of frames.
const FRAMES: &str = "frames_";
/// The prefix of the names of what tunnels count besides.
const TUNNELS: &str = "tunnel_";
/// Drops that are no loss.
const CARRIED: [&str; 2] = ["received", "sent"];

/// Counts by reason; reasons without a count are left out.
pub type Drops = BTreeMap<String, u64>;

/// The drops of these ports.
#[must_use]
pub fn of_ports(ports: &[PortStatus]) -> Drops {
    with_prefix(ports, PREFIX)
}

/// What the transports of these ports have counted of frames: carried, missing, and dropped by reason.
#[must_use]
pub fn frames_of_ports(ports: &[PortStatus]) -> Drops {
    with_prefix(ports, FRAMES)
}

/// What the tunnels of these ports have counted besides frames: what was missing, repeated, late.
#[must_use]
pub fn tunnels_of_ports(ports: &[PortStatus]) -> Drops {
    with_prefix(ports, TUNNELS)
}

fn with_prefix(ports: &[PortStatus], prefix: &str) -> Drops {
    let mut counts = Drops::new();
    for (name, count) in ports.iter().flat_map(|port| &port.counters) {
        if let Some(what) = name.strip_prefix(prefix)
            && *count > 0
        {
            *counts.entry(what.to_owned()).or_default() += count;
        }
    }
    counts
}

/// How many of them are lost.
pub fn lost_frames(frames: &Drops) -> impl Iterator<Item = (&str, u64)> {
    let lost = frames
        .iter()
        .filter(|(what, _)| !CARRIED.contains(&what.as_str()));
    lost.map(|(what, &count)| (what.as_str(), count))
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
pub(crate) mod tests {
    use wire::PortNum;

    use super::*;

    /// A port that has counted this.
    pub(crate) fn port(number: u8, counters: &[(&str, u64)]) -> PortStatus {
        PortStatus {
            port: PortNum::new(number),
            state: 4,
            lid: 0,
            lmc: 0,
            vls: 1,
            mtu: 2048,
            counters: counters
                .iter()
                .map(|&(name, count)| (name.to_owned(), count))
                .collect(),
        }
    }

    #[test]
    fn frames_are_summed_over_ports_and_those_lost_told_apart() {
        let frames = frames_of_ports(&[
            port(1, &[("frames_sent", 9), ("frames_dropped_foreign", 1)]),
            port(
                1,
                &[
                    ("frames_sent", 2),
                    ("frames_missing", 4),
                    ("drop.lifetime", 3),
                ],
            ),
            port(
                1,
                &[
                    ("frames_dropped_foreign", 2),
                    ("frames_dropped_truncated", 0),
                ],
            ),
        ]);
        let all = [("dropped_foreign", 3), ("missing", 4), ("sent", 11)];
        let all = all.map(|(what, count)| (what.to_owned(), count));
        assert_eq!(frames, all.into());
        let lost: Vec<_> = lost_frames(&frames).collect();
        assert_eq!(lost, [("dropped_foreign", 3), ("missing", 4)]);
    }

    #[test]
    fn drops_are_summed_over_ports_and_compared_by_reason() {
        let before = of_ports(&[
            port(1, &[("PortXmitData", 9), ("drop.no-route", 1)]),
            port(1, &[("drop.no-route", 2), ("drop.lifetime", 0)]),
        ]);
        assert_eq!(before, [("no-route".to_owned(), 3)].into());
        let after = of_ports(&[port(1, &[("drop.no-route", 3), ("drop.link-down", 4)])]);
        assert_eq!(since(&after, &before), [("link-down".to_owned(), 4)].into());
    }
}
