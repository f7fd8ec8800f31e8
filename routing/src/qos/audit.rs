//! Holding arbitration tables against the connections that they are to serve, however they came to
//! be: the tables may have been read back from the devices.

use std::collections::BTreeMap;

use topologies::Endpoint;
use wire::Vl;

use super::admission::Connection;
use super::class::Class;
use super::link_state::{LinkState, Options};
use super::slots::{ENTRIES, FRAME_SLOTS, slots};
use super::table::Entry;

/// The two tables of an output port, and its link's rate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortTables {
    /// The output port.
    pub port: Endpoint,
    /// The link's rate in bits per second.
    pub link_bps: u64,
    /// The high-priority table.
    pub high: [Entry; ENTRIES],
    /// The low-priority table.
    pub low: [Entry; ENTRIES],
}

impl PortTables {
    /// The tables that a port should have.
    #[must_use]
    pub fn of(port: Endpoint, link: &LinkState) -> Self {
        Self {
            port,
            link_bps: link.link_bps(),
            high: *link.high().entries(),
            low: *link.low().entries(),
        }
    }
}

/// A fault in the tables of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A VL has other weights in a table than its connections own together.
    Weights {
        /// The output port.
        at: Endpoint,
        /// Whether it is the high-priority table.
        high: bool,
        /// The VL.
        vl: Vl,
        /// The sum of its weights.
        have: u32,
        /// The slots of its connections, or of what is reserved for it.
        want: u32,
    },
    /// More slots than a frame has.
    Overbooked {
        /// The output port.
        at: Endpoint,
        /// The sum of all weights of both tables.
        have: u32,
    },
    /// A connection over a port that has no tables.
    NoTables {
        /// The output port.
        at: Endpoint,
    },
}

/// Adds up what connections own on each port and VL, from their rates alone, and compares.
/// Ports are looked at in the order given.
#[must_use]
pub fn audit<'a>(
    options: &Options,
    connections: impl IntoIterator<Item = &'a Connection>,
    ports: &[PortTables],
) -> Vec<Fault> {
    let rates: BTreeMap<Endpoint, u64> = ports
        .iter()
        .map(|port| (port.port, port.link_bps))
        .collect();
    let mut owned: BTreeMap<(Endpoint, bool, Vl), u32> = BTreeMap::new();
    let mut faults = Vec::new();
    for connection in connections {
        let high = matches!(connection.class, Class::TimeSensitive(_));
        let vl = options.vl(connection.class);
        for &(at, _) in &connection.links {
            let needed = rates
                .get(&at)
                .and_then(|&link_bps| slots(connection.rate_bps, link_bps).ok());
            match needed {
                Some(needed) => *owned.entry((at, high, vl)).or_default() += needed,
                None => faults.push(Fault::NoTables { at }),
            }
        }
    }
    for port in ports {
        for (class, slots) in options.reserved() {
            *owned
                .entry((port.port, false, options.vl(class)))
                .or_default() += slots;
        }
        check(port, &owned, &mut faults);
    }
    faults
}

fn check(port: &PortTables, owned: &BTreeMap<(Endpoint, bool, Vl), u32>, faults: &mut Vec<Fault>) {
    let at = port.port;
    let mut all = 0;
    for (high, table) in [(true, &port.high), (false, &port.low)] {
        let mut sums = [0u32; 16];
        for entry in table {
            sums[entry.vl.index()] += u32::from(entry.weight);
        }
        for (vl, have) in (0u8..).zip(sums) {
            let vl = Vl::constant(vl);
            let want = owned.get(&(at, high, vl)).copied().unwrap_or(0);
            if have != want {
                faults.push(Fault::Weights {
                    at,
                    high,
                    vl,
                    have,
                    want,
                });
            }
            all += have;
        }
    }
    if all > FRAME_SLOTS {
        faults.push(Fault::Overbooked { at, have: all });
    }
}

#[cfg(test)]
mod tests {
    use topologies::parse;
    use wire::PortNum;

    use super::super::admission::{Admission, Request};
    use super::super::class::Band;
    use super::super::slots::link_rate;
    use super::*;

    fn filled() -> (Admission, Vec<PortTables>) {
        let graph = parse("star-3").unwrap().graph;
        let mut fabric = Admission::new(&graph, Options::default(), |_| link_rate::X1).unwrap();
        let ends: Vec<Endpoint> = graph
            .hosts()
            .map(|node| Endpoint {
                node,
                port: PortNum::new(1),
            })
            .collect();
        for (source, to, class, rate_bps) in [
            (0, 1, Class::Dedicated(Band::VeryHigh), 300_000_000),
            (2, 1, Class::TimeSensitive(Band::High), 64_000_000),
            (0, 2, Class::Dedicated(Band::Low), 1_550_000),
        ] {
            let path = [ends[source], graph.peer(ends[to]).unwrap()];
            fabric
                .request(&Request {
                    class,
                    rate_bps,
                    path: &path,
                })
                .unwrap();
        }
        let ports = fabric
            .links()
            .map(|(port, link)| PortTables::of(port, link))
            .collect();
        (fabric, ports)
    }

    fn faults(fabric: &Admission, ports: &[PortTables]) -> Vec<Fault> {
        let connections = fabric.connections().map(|(_, connection)| connection);
        audit(&fabric.options(), connections, ports)
    }

    #[test]
    fn what_admission_fills_is_what_connections_own() {
        let (fabric, ports) = filled();
        assert_eq!(faults(&fabric, &ports), []);
    }

    #[test]
    fn every_changed_entry_of_every_port_is_noticed() {
        let (fabric, ports) = filled();
        for port in 0..ports.len() {
            for entry in 0..ENTRIES {
                for high in [true, false] {
                    let mut wrong = ports.clone();
                    let table = if high {
                        &mut wrong[port].high
                    } else {
                        &mut wrong[port].low
                    };
                    table[entry].weight ^= 1;
                    assert_eq!(faults(&fabric, &wrong).len(), 1);
                }
            }
        }
    }

    #[test]
    fn an_entry_that_names_another_vl_is_missing_on_its_own() {
        let (fabric, mut ports) = filled();
        ports[0].low[0].vl = Vl::constant(14);
        assert_eq!(faults(&fabric, &ports).len(), 2);
    }

    #[test]
    fn full_tables_on_top_of_each_other_are_overbooked() {
        let (fabric, mut ports) = filled();
        let at = ports[0].port;
        for entry in &mut ports[0].high {
            entry.weight = 255;
        }
        assert!(
            faults(&fabric, &ports).iter().any(|fault| {
                matches!(fault, Fault::Overbooked { at: found, .. } if *found == at)
            })
        );
    }

    #[test]
    fn a_connection_over_an_unknown_port_is_reported() {
        let (fabric, ports) = filled();
        let found = faults(&fabric, &ports[1..]);
        assert!(found.contains(&Fault::NoTables { at: ports[0].port }));
    }
}
