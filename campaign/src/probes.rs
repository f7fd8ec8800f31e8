//! When all is quiet again: every host reaches every LID of every other by packets, flows come whole
//! and in order, groups get each packet once, and no packet is lost on the way.

use std::collections::BTreeMap;

use hostd::control::{FlowState, PingRequest, Reply, Request};
use topologies::{Graph, NodeId};
use wire::{Lid, Sl};

use crate::bed::{Bed, DATAGRAM_BYTES, group};
use crate::outcome::{Failure, FailureKind};
use crate::partitions::{self, Reach};
use crate::tables::Expected;

/// Echo requests to each LID.
const PINGS: u32 = 2;
/// Packets of each flow.
const FLOW_PACKETS: u64 = 40;
/// Packets of a flow that are under way at most.
const FLOW_WINDOW: u32 = 16;
/// Multicast packets of each member.
const COPIES: u32 = 3;
/// Flows and copies arrive within this time, nanoseconds.
const ARRIVED_NS_MAX: u64 = 20_000_000_000;
/// From one check of flows to the next, nanoseconds.
const CHECK_INTERVAL_NS: u64 = 2_000_000;

/// A host that is left: in the whole fabric and in what is left.
#[derive(Clone, Copy, Debug)]
struct Host {
    whole: NodeId,
    left: NodeId,
}

/// Packets that have not arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Missed {
    /// Dropped by the devices that are left.
    dropped: u64,
    /// Lost on any cable.
    lost: u64,
}

impl Missed {
    /// Where no manager is, switches repeat traps to the one that they had until another one comes, and these lead nowhere: what is
    /// cut off is not looked at.
    fn of(bed: &Bed<'_>, remaining: &Graph) -> Self {
        let left = remaining.ids().map(|id| &remaining.node(id).name);
        let left = left.filter_map(|name| bed.graph.find(name));
        Self {
            dropped: left.map(|id| bed.twin.dropped_by(id)).sum(),
            lost: bed.twin.datagrams().lost,
        }
    }
}

/// Probes what is left.
pub(crate) fn check(bed: &mut Bed<'_>, expected: &Expected) -> Result<(), Failure> {
    let remaining = &expected.remaining;
    let hosts: Vec<Host> = remaining
        .hosts()
        .filter_map(|left| {
            let whole = bed.graph.find(&remaining.node(left).name)?;
            Some(Host { whole, left })
        })
        .collect();
    // What was sent before faults ceased has come or is lost by now; what its hosts still repeat
    // must arrive like everything else.
    let reach = Reach::of(bed);
    let before = Missed::of(bed, remaining);
    pings(bed, expected, &hosts, &reach)?;
    // Flows know the first key of a host's table only.
    if expected.is_deadlock_free && !reach.is_divided() {
        flows(bed, expected, &hosts)?;
    }
    let after = Missed::of(bed, remaining);
    if after != before && expected.is_deadlock_free {
        let (dropped, lost) = (after.dropped - before.dropped, after.lost - before.lost);
        let what = format!("{dropped} packets were dropped and {lost} lost without a fault");
        return bed.fail(FailureKind::Lossy, what);
    }
    let lids = hosts.iter().flat_map(|host| {
        let lids = expected.lids_of(host.left).into_iter();
        lids.map(|lid| (lid, host.whole))
    });
    partitions::check(bed, &reach, &lids.collect())?;
    // Packets still come to a host that has lost its memberships by a restart; it drops them.
    multicast(bed, &hosts)
}

/// Every host asks every LID of every other.
fn pings(
    bed: &mut Bed<'_>,
    expected: &Expected,
    hosts: &[Host],
    reach: &Reach,
) -> Result<(), Failure> {
    let mut owners: BTreeMap<Lid, (NodeId, &str)> = BTreeMap::new();
    for host in hosts {
        let name = expected.remaining.node(host.left).name.as_str();
        let lids = expected.lids_of(host.left).into_iter();
        owners.extend(lids.map(|lid| (lid, (host.whole, name))));
    }
    for host in hosts {
        let own = expected.remaining.node(host.left).name.as_str();
        let mut levels: BTreeMap<(Sl, u16), Vec<Lid>> = BTreeMap::new();
        for (&lid, &(owner, _)) in owners.iter().filter(|&(_, owner)| owner.1 != own) {
            if let Some(pkey) = reach.key(host.whole, owner) {
                let sl = expected.sl(host.left, lid);
                levels.entry((sl, pkey)).or_default().push(lid);
            }
        }
        for ((sl, pkey), targets) in levels {
            let request = Request::Ping(PingRequest {
                targets,
                count: PINGS,
                interval_us: 10,
                size: DATAGRAM_BYTES,
                sl,
                pkey,
                timeout_ms: 5_000,
            });
            let Some(Reply::Ping(results)) = bed.ask(host.whole, request) else {
                return bed.fail(
                    FailureKind::Unreachable,
                    format!("{own} answers no ping request"),
                );
            };
            for result in results {
                let owner = owners.get(&result.dlid);
                let owner = owner.map(|&(_, name)| name).unwrap_or_default();
                if result.received != result.sent || result.responder != owner {
                    let what = format!("{own} asked LID {} of {owner}: {result:?}", result.dlid);
                    return bed.fail(FailureKind::Unreachable, what);
                }
            }
            bed.pass(1)?;
        }
    }
    Ok(())
}

/// Every host sends to another, all at once, as fast as credits allow.
fn flows(bed: &mut Bed<'_>, expected: &Expected, hosts: &[Host]) -> Result<(), Failure> {
    if hosts.len() < 2 {
        return Ok(());
    }
    let mut running = Vec::new();
    for (at, &from) in hosts.iter().enumerate() {
        for step in [1, hosts.len() / 2, hosts.len() - 1] {
            let to = hosts[(at + step) % hosts.len()];
            let lids = expected.lids_of(to.left);
            let Some(&lid) = lids.get(at % lids.len().max(1)).filter(|_| step > 0) else {
                continue;
            };
            let sl = expected.sl(from.left, lid);
            let request = bed.flow(lid, (FLOW_WINDOW, 0), FLOW_PACKETS, sl);
            let flow = request.flow;
            match bed.ask(from.whole, Request::PerfStart(request)) {
                Some(Reply::Done) => running.push((from, flow, lid)),
                other => {
                    let what = format!("a flow to LID {lid} was answered {other:?}");
                    return bed.fail(FailureKind::Unreachable, what);
                }
            }
        }
    }
    let limit = bed.twin.now() + ARRIVED_NS_MAX;
    while !running.is_empty() {
        bed.pass(CHECK_INTERVAL_NS)?;
        if let Some(deadlock) = bed.twin.find_deadlock() {
            return bed.fail(FailureKind::Deadlock, deadlock.to_string());
        }
        let mut left = Vec::new();
        for (from, flow, lid) in running {
            let Some(Reply::Perf(report)) = bed.ask(from.whole, Request::PerfReport { flow })
            else {
                return bed.fail(
                    FailureKind::Unreachable,
                    format!("flow {flow} is not known"),
                );
            };
            if report.lost + report.duplicates + report.reordered > 0 {
                let what = format!("a flow to LID {lid}: {report:?}");
                return bed.fail(FailureKind::Lossy, what);
            }
            if report.state != FlowState::Finished {
                left.push((from, flow, lid));
            }
            if bed.twin.now() >= limit {
                let what = format!("a flow to LID {lid} does not end: {report:?}");
                return bed.fail(FailureKind::Unreachable, what);
            }
        }
        running = left;
    }
    Ok(())
}

/// Every member sends to the group, and every other member gets that once.
fn multicast(bed: &mut Bed<'_>, hosts: &[Host]) -> Result<(), Failure> {
    let mut members = Vec::new();
    for host in hosts {
        if let Some(Reply::Groups(groups)) = bed.ask(host.whole, Request::Groups)
            && groups.iter().any(|membership| membership.joined)
        {
            members.push(host.whole);
        } else if bed.check_membership(host.whole) {
            let name = bed.graph.node(host.whole).name.clone();
            let what = format!("{name} has asked to join the group, and is in none");
            return bed.fail(FailureKind::Multicast, what);
        }
    }
    for &sender in &members {
        let request = bed.multicast(COPIES);
        let Request::MulticastSend(send) = &request else {
            continue;
        };
        let run = send.run;
        if !matches!(bed.ask(sender, request.clone()), Some(Reply::Done)) {
            return bed.fail(FailureKind::Multicast, "a member cannot send to the group");
        }
        bed.pass(CHECK_INTERVAL_NS)?;
        let guid = bed.graph.node(sender).guid;
        for &member in members.iter().filter(|&&member| member != sender) {
            let report = Request::MulticastReport {
                mgid: group(),
                skip: 0,
            };
            let Some(Reply::Multicast(sources)) = bed.ask(member, report) else {
                return bed.fail(FailureKind::Multicast, "a member has no report");
            };
            let came = sources
                .iter()
                .find(|source| source.source.0 == guid.0 + 1 && source.run == run);
            let counts = came.map(|source| (source.received, source.duplicates));
            if counts != Some((u64::from(COPIES), 0)) {
                let [from, to] = [sender, member].map(|id| &bed.graph.node(id).name);
                let what =
                    format!("of {COPIES} packets of {from} {to} got and got twice: {counts:?}");
                return bed.fail(FailureKind::Multicast, what);
            }
        }
    }
    Ok(())
}
