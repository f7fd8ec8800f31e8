//! Tools that read and clear counters: perfquery and ibqueryerrors.
//!
//! A port's counters move while a tool asks for them, so what is printed lies between what the device
//! itself says before and after.

use e2e::Outcome;
use topologies::Endpoint;
use wire::PortNum;

use super::ports::between;
use super::printed::{Verdict, contains, counts, fails, number, same, says};
use super::row::{Row, reads, refused, works};
use super::truth::{COPIES, Counters, Truth};

const BOUNDS: &str = "every counter is the device's own, between before and after";
const CLEARED: &str = "afterwards no more is counted than has moved since";

/// Counters of PortCounters as tools and as devices call them.
const BASIC: [(&str, &str); 16] = [
    ("SymbolErrorCounter", "SymbolErrorCounter"),
    ("LinkErrorRecoveryCounter", "LinkErrorRecoveryCounter"),
    ("LinkDownedCounter", "LinkDownedCounter"),
    ("PortRcvErrors", "PortRcvErrors"),
    ("PortRcvRemotePhysicalErrors", "PortRcvRemotePhysicalErrors"),
    ("PortRcvSwitchRelayErrors", "PortRcvSwitchRelayErrors"),
    ("PortXmitDiscards", "PortXmitDiscards"),
    ("PortXmitConstraintErrors", "PortXmitConstraintErrors"),
    ("PortRcvConstraintErrors", "PortRcvConstraintErrors"),
    ("LocalLinkIntegrityErrors", "LocalLinkIntegrityErrors"),
    (
        "ExcessiveBufferOverrunErrors",
        "ExcessiveBufferOverrunErrors",
    ),
    ("VL15Dropped", "VL15Dropped"),
    ("PortXmitData", "PortXmitData"),
    ("PortRcvData", "PortRcvData"),
    ("PortXmitPkts", "PortXmitPkts"),
    ("PortRcvPkts", "PortRcvPkts"),
];

/// Those of PortCountersExtended.
const EXTENDED: [(&str, &str); 8] = [
    ("PortXmitData", "PortXmitData"),
    ("PortRcvData", "PortRcvData"),
    ("PortXmitPkts", "PortXmitPkts"),
    ("PortRcvPkts", "PortRcvPkts"),
    ("PortUnicastXmitPkts", "PortUnicastXmitPkts"),
    ("PortUnicastRcvPkts", "PortUnicastRcvPkts"),
    ("PortMulticastXmitPkts", "PortMultiCastXmitPkts"),
    ("PortMulticastRcvPkts", "PortMultiCastRcvPkts"),
];

/// Those that may count on a fabric at rest.
const MOVING: [&str; 8] = [
    "PortXmitData",
    "PortRcvData",
    "PortXmitPkts",
    "PortRcvPkts",
    "PortUnicastXmitPkts",
    "PortUnicastRcvPkts",
    "PortMulticastXmitPkts",
    "PortMulticastRcvPkts",
];

pub(crate) const ROWS: &[Row] = &[
    reads("perfquery", BOUNDS, here, basic),
    reads("perfquery {switch} 1", BOUNDS, switch, basic),
    reads("perfquery {far} 1", BOUNDS, far, basic),
    reads("perfquery -G {far.port-guid} 1", BOUNDS, far, basic),
    reads("perfquery -x", BOUNDS, here, extended),
    reads("perfquery -x {switch} 1", BOUNDS, switch, extended),
    works(
        "perfquery -x {far} 1",
        "as many multicast packets as were sent to the group",
        |_, outcome| {
            counts(&outcome.stdout, "PortMulticastRcvPkts", COPIES)?;
            counts(&outcome.stdout, "PortMulticastXmitPkts", 0_u64)
        },
    ),
    works(
        "perfquery -x {here} 1",
        "the same at the sender",
        |_, outcome| counts(&outcome.stdout, "PortMulticastXmitPkts", COPIES),
    ),
    works(
        "perfquery -a {switch}",
        "port 255, no less than port 1 alone",
        all_ports,
    ),
    works(
        "perfquery -x -a {switch}",
        "the same of the extended counters",
        all_ports,
    ),
    works(
        "perfquery -x -l {switch} 1-3",
        "ports 1, 2 and 3, each with the counters of its own",
        |truth, outcome| each_port(truth, outcome, &[1, 2, 3]),
    ),
    works(
        "perfquery -x -l {switch} 1,3",
        "ports 1 and 3",
        |truth, outcome| each_port(truth, outcome, &[1, 3]),
    ),
    works(
        "perfquery -x -a {switch} 1,3",
        "their sum",
        |truth, outcome| {
            says(&outcome.stdout, "PortSelect", 255)?;
            let sum = [1, 3].map(|port| truth.counters(at(truth.switch, port))["PortXmitPkts"]);
            between(&outcome.stdout, "PortXmitPkts", 1, sum.iter().sum())
        },
    ),
    reads(
        "perfquery -D {switch} 1",
        "nothing was discarded",
        switch,
        |_, outcome, _, _| {
            for name in [
                "PortInactiveDiscards",
                "PortNeighborMTUDiscards",
                "PortSwLifetimeLimitDiscards",
                "PortSwHOQLifetimeLimitDiscards",
            ] {
                counts(&outcome.stdout, name, 0_u64)?;
            }
            Ok(())
        },
    ),
    reads(
        "perfquery -E {switch} 1",
        "nothing was received with an error",
        switch,
        |_, outcome, _, _| {
            for name in [
                "PortLocalPhysicalErrors",
                "PortMalformedPktErrors",
                "PortBufferOverrunErrors",
                "PortDLIDMappingErrors",
                "PortVLMappingErrors",
                "PortLoopingErrors",
            ] {
                counts(&outcome.stdout, name, 0_u64)?;
            }
            Ok(())
        },
    ),
    refused("perfquery {far} 2", "the host has no port 2", not_there),
    refused(
        "perfquery {switch}",
        "port 0 of a switch that is not enhanced counts nothing",
        not_there,
    ),
    works(
        "ibqueryerrors -s PortXmitWait",
        "all nodes and ports, no error",
        whole,
    ),
    works(
        "ibqueryerrors -s PortXmitWait --details --data -r",
        "the same",
        whole,
    ),
    works(
        "ibqueryerrors -s PortXmitWait --skip-sl -c --switch",
        "switches, no error",
        |truth, outcome| checked(outcome, truth.graph.switches().count()),
    ),
    works(
        "ibqueryerrors -s PortXmitWait --ca",
        "hosts, no error",
        |truth, outcome| checked(outcome, truth.graph.hosts().count()),
    ),
    works(
        "ibqueryerrors -s PortXmitWait --router",
        "there is none",
        |_, outcome| checked(outcome, 0),
    ),
    reads(
        "ibqueryerrors --counters -G {far.port-guid}",
        "the host's counters, between before and after",
        far,
        |truth, outcome, before, after| {
            contains(&outcome.stdout, &format!("\"{}\"", truth.name(truth.far)))?;
            for name in &MOVING[..4] {
                bracketed(&outcome.stdout, name, before[*name], after[*name])?;
            }
            Ok(())
        },
    ),
    works(
        "ibqueryerrors --counters",
        "a line for each port",
        |truth, outcome| {
            same(
                "lines",
                outcome.stdout.matches("[PortXmitData == ").count(),
                truth.cable_ends().len(),
            )
        },
    ),
    works(
        "ibqueryerrors --counters -D 0,1",
        "the ports of the switch beside the host",
        |truth, outcome| {
            let leaf = truth.peer(truth.here, 1).ok_or("no cable")?.node;
            let cables = truth.graph.cables(leaf).count();
            same(
                "lines",
                outcome.stdout.matches("[PortXmitData == ").count(),
                cables,
            )
        },
    ),
    reads(
        "perfquery -r {switch} 1 >/dev/null && perfquery {switch} 1",
        CLEARED,
        switch,
        cleared,
    )
    .alone(),
    reads(
        "perfquery -R {switch} 1 && perfquery {switch} 1",
        CLEARED,
        switch,
        cleared,
    )
    .alone(),
    reads(
        "perfquery -x -R {switch} 1 && perfquery -x {switch} 1",
        CLEARED,
        switch,
        cleared,
    )
    .alone(),
    reads(
        "perfquery -R -a {switch} && perfquery {switch} 1",
        CLEARED,
        switch,
        cleared,
    )
    .alone(),
    reads(
        "perfquery -R {far} 1 0xf000 && perfquery {far} 1",
        CLEARED,
        far,
        cleared,
    )
    .alone(),
    works(
        "perfquery -R {far} 1 0x0fff && perfquery {far} 1",
        "data counters stay",
        |_, outcome| between(&outcome.stdout, "PortXmitPkts", 1, u64::from(u32::MAX)),
    )
    .alone(),
    works(
        "ibqueryerrors -k -K >/dev/null; perfquery -x {far} 1",
        "the multicast packets are forgotten",
        |_, outcome| counts(&outcome.stdout, "PortMulticastRcvPkts", 0_u64),
    )
    .alone(),
];

fn at(node: topologies::NodeId, port: u8) -> Endpoint {
    let port = PortNum::new(port);
    Endpoint { node, port }
}

fn here(truth: &Truth<'_>) -> Endpoint {
    at(truth.here, 1)
}

fn far(truth: &Truth<'_>) -> Endpoint {
    at(truth.far, 1)
}

fn switch(truth: &Truth<'_>) -> Endpoint {
    at(truth.switch, 1)
}

fn bounded(
    outcome: &Outcome,
    names: &[(&str, &str)],
    before: &Counters,
    after: &Counters,
) -> Verdict {
    for (printed, own) in names {
        between(&outcome.stdout, printed, before[*own], after[*own])?;
    }
    Ok(())
}

fn basic(_: &Truth<'_>, outcome: &Outcome, before: &Counters, after: &Counters) -> Verdict {
    says(&outcome.stdout, "PortSelect", 1)?;
    bounded(outcome, &BASIC, before, after)
}

fn extended(_: &Truth<'_>, outcome: &Outcome, before: &Counters, after: &Counters) -> Verdict {
    says(&outcome.stdout, "PortSelect", 1)?;
    bounded(outcome, &EXTENDED, before, after)
}

fn all_ports(truth: &Truth<'_>, outcome: &Outcome) -> Verdict {
    says(&outcome.stdout, "PortSelect", 255)?;
    let ports = truth.graph.cables(truth.switch).map(|(port, _)| port.get());
    let now = ports.map(|port| truth.counters(at(truth.switch, port))["PortXmitPkts"]);
    between(&outcome.stdout, "PortXmitPkts", 1, now.sum())
}

fn each_port(truth: &Truth<'_>, outcome: &Outcome, ports: &[u8]) -> Verdict {
    let parts: Vec<&str> = outcome
        .stdout
        .split("# Port extended counters")
        .skip(1)
        .collect();
    same("ports", parts.len(), ports.len())?;
    for (part, &port) in parts.iter().zip(ports) {
        counts(part, "PortSelect", port)?;
        let now = truth.counters(at(truth.switch, port));
        between(part, "PortXmitPkts", 1, now["PortXmitPkts"])?;
    }
    Ok(())
}

fn not_there(_: &Truth<'_>, outcome: &Outcome) -> Verdict {
    fails(outcome, "failed: perfquery")
}

fn whole(truth: &Truth<'_>, outcome: &Outcome) -> Verdict {
    checked(outcome, truth.graph.len())?;
    contains(
        &outcome.stdout,
        &format!("{} ports checked", truth.cable_ends().len()),
    )
}

fn checked(outcome: &Outcome, nodes: usize) -> Verdict {
    contains(
        &outcome.stdout,
        &format!("Summary: {nodes} nodes checked, 0 bad nodes found"),
    )
}

/// A counter as ibqueryerrors writes it: `[PortXmitPkts == 227 (227.000)]`.
fn bracketed(text: &str, name: &str, low: u64, high: u64) -> Verdict {
    let part = text.split(&format!("[{name} == ")).nth(1);
    let digits = part
        .and_then(|part| part.split(' ').next())
        .ok_or_else(|| format!("no {name}"))?;
    let line = format!("{name}:{digits}");
    between(&line, name, low, high)
}

fn cleared(_: &Truth<'_>, outcome: &Outcome, before: &Counters, after: &Counters) -> Verdict {
    for name in MOVING {
        let own = name.replace("PortMulticast", "PortMultiCast");
        if let Ok(printed) = number(&outcome.stdout, name) {
            let moved = after[&own] - before[&own];
            if printed > moved {
                return Err(format!("{name}: printed {printed}, {moved} since"));
            }
        }
    }
    Ok(())
}
