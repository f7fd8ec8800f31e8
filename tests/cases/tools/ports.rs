//! Tools that ask agents for their attributes: smpquery and smpdump.

use e2e::Outcome;
use topologies::{NodeId, NodeKind};
use wire::PortNum;

use super::printed::{Verdict, contains, counts, fails, number, same, says};
use super::row::{Row, refused, works};
use super::truth::Truth;

const NODE: &str = "type, ports, GUIDs, device and vendor";
const PORT: &str = "state, LID, LMC, the manager's LID, width, speed, MTU, VLs";
const VLS: &str = "each service level has a VL that the port has";
const NO_FEC: &str = "no forward error correction, and none at the speeds that a QDR port lacks";

pub(crate) const ROWS: &[Row] = &[
    works("smpquery NodeInfo {far}", NODE, |truth, outcome| {
        node(truth, outcome, truth.far)
    }),
    works("smpquery NI {switch}", NODE, |truth, outcome| {
        node(truth, outcome, truth.switch)
    }),
    works("smpquery -D NI 0,1", NODE, |truth, outcome| {
        node(truth, outcome, leaf(truth)?)
    }),
    works("smpquery -G NI {far.port-guid}", NODE, |truth, outcome| {
        node(truth, outcome, truth.far)
    }),
    works("smpquery -c NI {switch} 0,1", NODE, |truth, outcome| {
        let behind = truth.peer(truth.switch, 1).ok_or("no cable")?;
        node(truth, outcome, behind.node)
    }),
    works("smpquery NodeDesc {far}", "the name", |truth, outcome| {
        says(&outcome.stdout, "Node Description", truth.name(truth.far))
    }),
    works("smpquery PortInfo {far}", PORT, |truth, outcome| {
        says(&outcome.stdout, "GidPrefix", "0xfe80000000000000")?;
        port(truth, outcome, truth.far, 1)
    }),
    works(
        "smpquery PI {switch} 0",
        "LID and the manager's LID of port 0",
        |truth, outcome| {
            counts(&outcome.stdout, "Lid", truth.lid(truth.switch))?;
            counts(&outcome.stdout, "SMLid", truth.lid(truth.sm))?;
            says(&outcome.stdout, "LinkState", "Active")
        },
    ),
    works("smpquery -x PI {switch} 1", PORT, |truth, outcome| {
        port(truth, outcome, truth.switch, 1)
    }),
    works(
        "smpquery SwitchInfo {switch}",
        "LinearFDBTop, capacities, what it enforces",
        |truth, outcome| {
            let text = &outcome.stdout;
            let top = truth.linear(truth.switch).keys().next_back().copied();
            counts(text, "LinearFdbTop", top.unwrap_or(0))?;
            counts(text, "LinearFdbCap", 49_152_u64)?;
            counts(text, "McastFdbCap", 16_352_u64)?;
            counts(text, "InboundPartEnf", 1_u64)?;
            counts(text, "EnhancedPort0", 0_u64)
        },
    ),
    works(
        "smpquery PKeyTable {far}",
        "full member of the default partition only",
        |_, outcome| p_keys(outcome, 32),
    ),
    works(
        "smpquery PKeys {switch} 0",
        "the same of a switch's port 0",
        |_, outcome| p_keys(outcome, 32),
    ),
    works("smpquery SL2VLTable {far}", VLS, |truth, outcome| {
        service_levels(truth, outcome, truth.far)
    }),
    works("smpquery SL2VL {switch} 1", VLS, |truth, outcome| {
        service_levels(truth, outcome, truth.switch)
    }),
    works(
        "smpquery VLArbitration {far}",
        "the weights are of VLs that the port has",
        arbitration,
    ),
    works(
        "smpquery VLArb {switch} 1",
        "the same of a switch's port",
        arbitration,
    ),
    works(
        "smpquery GUIDInfo {far}",
        "the port's GUID is the only one",
        |truth, outcome| {
            let first = format!(
                "   0: {:#018x} 0x0000000000000000",
                truth.port_guid(truth.far)
            );
            contains(&outcome.stdout, &first)?;
            let zero = outcome.stdout.matches("0x0000000000000000").count();
            same("free entries", zero, 7)
        },
    ),
    works(
        "smpquery MlnxExtPortInfo {switch} 1",
        "no FDR10",
        |_, outcome| says(&outcome.stdout, "LinkSpeedActive", "0x00"),
    ),
    works("smpquery MEPI {far}", "no FDR10", |_, outcome| {
        says(&outcome.stdout, "LinkSpeedActive", "0x00")
    }),
    works(
        "smpdump {switch} 0x11",
        "the bytes of NodeInfo",
        |truth, outcome| {
            let guid = format!("{:016x}", truth.guid(truth.switch));
            let hex: String = outcome.stdout.split_whitespace().take(32).collect();
            same("NodeGUID", hex.get(24..40), Some(guid.as_str()))?;
            same("BaseVersion to NodeType", hex.get(..6), Some("010102"))
        },
    ),
    works(
        "smpdump -D 0,1 0x15 1",
        "the bytes of PortInfo",
        |_, outcome| {
            let hex: String = outcome.stdout.split_whitespace().take(32).collect();
            // LinkWidthActive 4x, LinkSpeedSupported up to QDR, Active.
            same("bytes 31 and 32", hex.get(62..66), Some("0274"))
        },
    ),
    works("smpdump -s -D 0,1 0x10", "the name", |truth, outcome| {
        contains(&outcome.stdout, &format!("{}\n", truth.name(leaf(truth)?)))
    }),
    works(
        "smpdump {switch} 0x19",
        "the first block of the forwarding table",
        |truth, outcome| {
            let hex: String = outcome.stdout.split_whitespace().take(32).collect();
            let table = truth.linear(truth.switch);
            let port = |lid| table.get(&lid).copied().unwrap_or(u8::MAX);
            let block: String = (0..64).map(|lid| format!("{:02x}", port(lid))).collect();
            same("block 0", hex, block)
        },
    ),
    works("smpquery PortInfoExtended {switch} 1", NO_FEC, no_fec),
    works("smpquery PIE {far}", NO_FEC, no_fec),
    works("smpquery -D PIE 0,1 1", NO_FEC, no_fec),
    refused(
        "smpquery SI {far}",
        "a host has no SwitchInfo",
        |_, outcome| fails(outcome, "switch info query failed"),
    ),
    // The switch that drops this request counts an error.
    refused("smpquery NI 48000", "no port has this LID", |_, outcome| {
        fails(outcome, "failed")
    })
    .alone(),
];

fn no_fec(_: &Truth<'_>, outcome: &Outcome) -> Verdict {
    let text = &outcome.stdout;
    counts(text, "CapMask", 1u64)?;
    counts(text, "FECModeActive", 0u64)?;
    for speed in ["FDR", "EDR"] {
        counts(text, &format!("{speed}FECModeSupported"), 0u64)?;
        counts(text, &format!("{speed}FECModeEnabled"), 0u64)?;
    }
    Ok(())
}

fn leaf(truth: &Truth<'_>) -> Result<NodeId, String> {
    truth
        .peer(truth.here, 1)
        .map(|end| end.node)
        .ok_or_else(|| "no cable".to_owned())
}

fn node(truth: &Truth<'_>, outcome: &Outcome, id: NodeId) -> Verdict {
    let text = &outcome.stdout;
    let node = truth.node(id);
    let kind = match node.kind {
        NodeKind::Switch => "Switch",
        NodeKind::Host => "Channel Adapter",
    };
    says(text, "NodeType", kind)?;
    counts(text, "NumPorts", node.ports)?;
    says(text, "SystemGuid", node.system_image_guid)?;
    says(text, "Guid", node.guid)?;
    says(text, "PortGuid", node.port_guid(PortNum::new(1)))?;
    counts(text, "DevId", node.device_id)?;
    counts(text, "VendorId", node.vendor_id)
}

fn port(truth: &Truth<'_>, outcome: &Outcome, id: NodeId, port: u8) -> Verdict {
    let text = &outcome.stdout;
    let ports = truth.ports(id);
    let own = ports
        .iter()
        .find(|status| status.port.get() == port)
        .ok_or("no such port")?;
    counts(text, "Lid", own.lid)?;
    counts(text, "LMC", own.lmc)?;
    let is_end = truth.node(id).kind == NodeKind::Host;
    counts(text, "SMLid", if is_end { truth.lid(truth.sm) } else { 0 })?;
    says(text, "LinkState", "Active")?;
    says(text, "PhysLinkState", "LinkUp")?;
    says(text, "LinkWidthActive", "4X")?;
    says(text, "LinkSpeedActive", "10.0 Gbps")?;
    counts(text, "NeighborMTU", own.mtu)?;
    says(text, "OperVLs", vls(own.vls))
}

/// A number of VLs as smpquery writes it.
fn vls(vls: u8) -> String {
    match vls {
        1 => "VL0".to_owned(),
        _ => format!("VL0-{}", vls - 1),
    }
}

fn p_keys(outcome: &Outcome, capacity: usize) -> Verdict {
    let entries: Vec<&str> = outcome
        .stdout
        .split_whitespace()
        .filter(|word| word.starts_with("0x"))
        .collect();
    same("entries", entries.len(), capacity)?;
    same("first", entries[0], "0xffff")?;
    same(
        "free entries",
        entries.iter().filter(|&&entry| entry == "0x0000").count(),
        capacity - 1,
    )
}

fn operational_vls(truth: &Truth<'_>, id: NodeId) -> u64 {
    let ports = truth.ports(id);
    ports
        .iter()
        .map(|status| u64::from(status.vls))
        .max()
        .unwrap_or(1)
}

fn service_levels(truth: &Truth<'_>, outcome: &Outcome, id: NodeId) -> Verdict {
    let rows = outcome
        .stdout
        .lines()
        .filter(|line| line.starts_with("ports:"));
    let mut lines = 0;
    for line in rows {
        lines += 1;
        let vls: Vec<u64> = line
            .split('|')
            .skip(1)
            .filter_map(|vl| vl.trim().parse().ok())
            .collect();
        same("service levels", vls.len(), 16)?;
        let limit = operational_vls(truth, id);
        if let Some(vl) = vls.iter().find(|&&vl| vl >= limit) {
            return Err(format!("VL {vl} of {limit}"));
        }
    }
    let expected = match truth.node(id).kind {
        NodeKind::Host => 1,
        NodeKind::Switch => usize::from(truth.node(id).ports) + 1,
    };
    same("ways through the node", lines, expected)
}

fn arbitration(truth: &Truth<'_>, outcome: &Outcome) -> Verdict {
    let text = &outcome.stdout;
    contains(text, "LowCap 64 HighCap 64")?;
    let entries = |start: &str| -> Vec<u64> {
        let lines = text.lines().filter(|line| line.starts_with(start));
        let words = lines.flat_map(|line| line.split('|').skip(1));
        words
            .filter_map(|word| super::printed::parsed(word.trim()).ok())
            .collect()
    };
    let (vls, weights) = (entries("VL    :"), entries("WEIGHT:"));
    same("entries", (vls.len(), weights.len()), (128, 128))?;
    let limit = operational_vls(truth, truth.far);
    let wrong = vls
        .iter()
        .zip(&weights)
        .find(|&(&vl, &weight)| weight != 0 && vl >= limit);
    match wrong {
        Some((vl, _)) => Err(format!("a weight of VL {vl} of {limit}")),
        None if weights.iter().all(|&weight| weight == 0) => Err("no VL has a weight".to_owned()),
        None => Ok(()),
    }
}

/// A number that has to be in a range.
pub(crate) fn between(text: &str, name: &str, low: u64, high: u64) -> Verdict {
    let printed = number(text, name)?;
    match (low..=high).contains(&printed) {
        true => Ok(()),
        false => Err(format!("{name}: printed {printed}, is {low} to {high}")),
    }
}
