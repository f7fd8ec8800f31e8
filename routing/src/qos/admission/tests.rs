use proptest::prelude::*;
use topologies::NodeId;
use wire::PortNum;

use super::super::class::{Band, ServiceLevels};
use super::super::error::Cause;
use super::super::slots::{FRAME_SLOTS, link_rate};
use super::super::table::Layout;
use super::*;

const DB: Class = Class::Dedicated(Band::VeryHigh);

fn star(hosts: u32) -> Graph {
    topologies::parse(&format!("star-{hosts}")).unwrap().graph
}

fn fabric(graph: &Graph) -> Admission {
    Admission::new(graph, Options::default(), |_| link_rate::X1).unwrap()
}

/// Out of the source's port, and out of the switch's port to the destination.
fn path(graph: &Graph, source: usize, destination: usize) -> [Endpoint; 2] {
    let host = |index| {
        let node = graph.hosts().nth(index).unwrap();
        Endpoint {
            node,
            port: PortNum::new(1),
        }
    };
    [host(source), graph.peer(host(destination)).unwrap()]
}

#[test]
fn a_connection_owns_its_slots_on_each_link_of_its_path_and_on_no_other() {
    let graph = star(3);
    let mut fabric = fabric(&graph);
    let before = fabric.clone();
    let path = path(&graph, 0, 1);
    let id = fabric
        .request(&Request {
            class: DB,
            rate_bps: 300_000_000,
            path: &path,
        })
        .unwrap();
    for (port, link) in fabric.links() {
        let slots = if path.contains(&port) { 1959 } else { 0 };
        assert_eq!(link.low().slots(fabric.options().vl(DB)), slots);
    }
    fabric.release(id).unwrap();
    assert!(fabric.links().eq(before.links()));
    assert_eq!(fabric.release(id), Err(QosError::NoSuchConnection(0)));
}

#[test]
fn a_refusal_on_the_last_link_leaves_the_first_as_it_was() {
    let graph = star(3);
    let mut fabric = fabric(&graph);
    let first = path(&graph, 0, 2);
    fabric
        .request(&Request {
            class: DB,
            rate_bps: 1_000_000_000,
            path: &first,
        })
        .unwrap();
    let before = fabric.clone();
    let second = path(&graph, 1, 2);
    let refused = fabric.request(&Request {
        class: DB,
        rate_bps: 990_000_000,
        path: &second,
    });
    assert_eq!(
        refused,
        Err(QosError::Refused {
            at: second[1],
            cause: Cause::Entries {
                wanted: 25,
                free: 24
            }
        })
    );
    assert_eq!(fabric, before);
}

#[test]
fn requests_that_make_no_sense_are_refused_by_name() {
    let graph = star(2);
    let mut fabric = fabric(&graph);
    let path = path(&graph, 0, 1);
    let mut ask = |class, rate_bps, path: &[Endpoint]| {
        fabric
            .request(&Request {
                class,
                rate_bps,
                path,
            })
            .unwrap_err()
    };
    assert_eq!(ask(DB, 1, &[]), QosError::EmptyPath);
    assert_eq!(ask(DB, 0, &path), QosError::NoRate);
    assert_eq!(ask(Class::BestEffort, 1, &path), QosError::NotDedicated);
    assert_eq!(
        ask(DB, 1, &[path[0], path[0]]),
        QosError::PortTwice(path[0])
    );
    let nowhere = Endpoint {
        node: NodeId::from_index(0),
        port: PortNum::new(9),
    };
    assert_eq!(ask(DB, 1, &[nowhere]), QosError::NoSuchLink(nowhere));
    assert!(matches!(
        ask(DB, 3_000_000_000, &path),
        QosError::RateAboveLink { .. }
    ));
}

/// The sums that the tables must agree with.
fn check(fabric: &Admission) -> Result<(), TestCaseError> {
    let mut owned: BTreeMap<(Endpoint, Class), u32> = BTreeMap::new();
    for (_, connection) in fabric.connections() {
        for &(at, slots) in &connection.links {
            *owned.entry((at, connection.class)).or_default() += slots;
        }
    }
    for (at, link) in fabric.links() {
        let mut used = 3265;
        for class in Class::ALL.into_iter().filter(|class| class.is_dedicated()) {
            let slots = owned.get(&(at, class)).copied().unwrap_or(0);
            let vl = fabric.options().vl(class);
            let table = match class {
                Class::TimeSensitive(_) => link.high(),
                _ => link.low(),
            };
            prop_assert_eq!(table.slots(vl), slots);
            used += slots;
        }
        prop_assert_eq!(link.used(), used);
        prop_assert!(used <= FRAME_SLOTS);
        prop_assert_eq!(
            link.low().slots(fabric.options().vl(Class::BestEffort)),
            3264
        );
    }
    Ok(())
}

proptest! {
    #[test]
    fn promises_never_exceed_a_link_and_tables_are_the_sum_of_the_connections(
        interleaved: bool,
        steps in prop::collection::vec(
            (0usize..4, 0usize..4, 0usize..8, 1u64..600_000_000, prop::bool::weighted(0.3)), 1..80),
    ) {
        let graph = star(4);
        let options = Options {
            layout: if interleaved { Layout::Interleaved } else { Layout::Contiguous },
            service_levels: ServiceLevels::BestEffortFirst,
            ..Options::default()
        };
        let mut fabric = Admission::new(&graph, options, |_| link_rate::X1).unwrap();
        for (source, destination, class, rate_bps, release) in steps {
            if release {
                let oldest = fabric.connections().next().map(|(id, _)| id);
                if let Some(id) = oldest {
                    fabric.release(id).unwrap();
                }
            } else if source != destination {
                let before = fabric.clone();
                let path = path(&graph, source, destination);
                let request = Request { class: Class::ALL[class], rate_bps, path: &path };
                if fabric.request(&request).is_err() {
                    prop_assert_eq!(&fabric, &before);
                }
            }
            check(&fabric)?;
        }
    }
}
