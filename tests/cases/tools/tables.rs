//! Tables and subscriptions that subnet administration has, by saquery: service levels, arbitration,
//! partitions, GUIDs, multicast tables, services.

use std::collections::{BTreeMap, BTreeSet};

use e2e::Outcome;
use topologies::{NodeId, NodeKind};
use wire::attr::{SlToVlTable, VlArbTable};
use wire::{Lid, PortNum};

use super::printed::{Verdict, number, parsed, records, same, same_set};
use super::row::{Row, works};
use super::truth::{Manager, Truth};

const LEVELS: &str = "the tables that the device has; OpenSM without -Q sets none and tells zeros";

pub(crate) const ROWS: &[Row] = &[
    works(
        "saquery SL2VLTableRecord {switch}",
        LEVELS,
        |truth, outcome| service_levels(truth, outcome, truth.switch),
    ),
    works("saquery SL2VL {switch}/1/2", LEVELS, |truth, outcome| {
        same("records", records(&outcome.stdout).len(), 1)?;
        service_levels(truth, outcome, truth.switch)
    }),
    works("saquery SL2VL {far}", LEVELS, |truth, outcome| {
        service_levels(truth, outcome, truth.far)
    }),
    works(
        "saquery VLArbitrationTableRecord {switch}",
        LEVELS,
        |truth, outcome| arbitration(truth, outcome, truth.switch),
    ),
    works("saquery VLAR {far}/1/1", LEVELS, |truth, outcome| {
        same("records", records(&outcome.stdout).len(), 1)?;
        arbitration(truth, outcome, truth.far)
    }),
    works(
        "saquery VLAR",
        "tables of every port, those of switches with port 0",
        |truth, outcome| {
            let all = records(&outcome.stdout);
            let printed = all
                .iter()
                .map(|record| Ok((number(record, "LID")?, number(record, "Port")?)))
                .collect::<Result<BTreeSet<_>, String>>()?;
            let switches = truth.graph.switches().flat_map(|id| {
                let ports = 0..=truth.graph.node(id).ports;
                ports.map(move |port| (u64::from(truth.lid(id)), u64::from(port)))
            });
            let hosts = truth.graph.hosts();
            let hosts = hosts.map(|id| (u64::from(truth.lid(id)), 1));
            same_set(
                "ports with tables",
                &printed,
                &switches.chain(hosts).collect(),
            )
        },
    ),
    works(
        "saquery --smkey 1 PKeyTableRecord {far}",
        "full member of the default partition only",
        |_, outcome| {
            let words = outcome.stdout.split_whitespace();
            let keys: Vec<&str> = words.filter(|word| word.starts_with("0x")).collect();
            same("first", keys.first().copied(), Some("0xffff"))?;
            let free = keys.iter().skip(1).filter(|&&key| key == "0x0000").count();
            same("free entries", free, 31)
        },
    ),
    works(
        "saquery GUIDInfoRecord {far}",
        "the port's GUID is the only one",
        |truth, outcome| port_guids(outcome, BTreeSet::from([truth.far]), truth),
    ),
    works("saquery GIR", "the same of all nodes", |truth, outcome| {
        port_guids(outcome, truth.graph.ids().collect(), truth)
    }),
    works(
        "saquery MFTRecord",
        "every switch's ports of every multicast LID are the installed ones",
        multicast,
    ),
    works("saquery ServiceRecord", "no service is registered", nothing),
    works(
        "saquery InformInfoRecord",
        "there is no subscription",
        nothing,
    ),
];

fn nothing(_: &Truth<'_>, outcome: &Outcome) -> Verdict {
    same("records", records(&outcome.stdout).len(), 0)
}

/// The numbers between bars behind each `label:` of a record, in order.
fn barred(record: &str, label: &str) -> Vec<u64> {
    let lines = record.lines().map(str::trim_start);
    let rows = lines.filter_map(|line| line.strip_prefix(label)?.trim_start().strip_prefix(':'));
    rows.flat_map(|row| row.split('|'))
        .filter_map(|word| word.trim().parse().ok())
        .collect()
}

/// Whether that is port 0 of a switch.
fn is_port0(truth: &Truth<'_>, id: NodeId, port: PortNum) -> bool {
    truth.node(id).kind == NodeKind::Switch && port == PortNum::MANAGEMENT
}

fn service_levels(truth: &Truth<'_>, outcome: &Outcome, id: NodeId) -> Verdict {
    let mut smps = truth.fabric.smps(&truth.name(truth.here));
    let lid = truth.lid(id);
    let all = records(&outcome.stdout);
    same("records", all.is_empty(), false)?;
    for record in all {
        same("LID", number(record, "LID")?, lid.into())?;
        let [input, output] = ["InPort", "OutPort"].map(|name| {
            let port = number(record, name)
                .ok()
                .and_then(|port| u8::try_from(port).ok());
            port.map(PortNum::new)
        });
        let (Some(input), Some(output)) = (input, output) else {
            return Err("a record without ports".to_owned());
        };
        let modifier = match truth.node(id).kind {
            NodeKind::Switch => SlToVlTable::switch_modifier(input, output),
            NodeKind::Host => 0,
        };
        let expected: Vec<u64> = match truth.manager {
            // Nothing goes to a switch's port 0 by a VL.
            Manager::Ours if is_port0(truth, id, output) => vec![0; 16],
            Manager::Ours => {
                let table: SlToVlTable = smps.get(Lid::new(lid), modifier);
                table.0.iter().map(|vl| vl.get().into()).collect()
            }
            Manager::OpenSm => vec![0; 16],
        };
        same(
            &format!("VLs from {input} to {output}"),
            barred(record, "VL"),
            expected,
        )?;
    }
    Ok(())
}

fn arbitration(truth: &Truth<'_>, outcome: &Outcome, id: NodeId) -> Verdict {
    let mut smps = truth.fabric.smps(&truth.name(truth.here));
    let lid = truth.lid(id);
    let all = records(&outcome.stdout);
    same("records", all.is_empty(), false)?;
    for record in all {
        same("LID", number(record, "LID")?, lid.into())?;
        let small = |name: &str| {
            let number = number(record, name)?;
            u8::try_from(number).map_err(|_| format!("{name} {number}"))
        };
        let (port, block) = (PortNum::new(small("Port")?), small("Block")?);
        let entries: Vec<(u64, u64)> = match truth.manager {
            Manager::Ours if is_port0(truth, id, port) => vec![(0, 0); 32],
            Manager::Ours => {
                let modifier = VlArbTable::modifier(block, port);
                let table: VlArbTable = smps.get(Lid::new(lid), modifier);
                let entries = table.0.iter();
                entries
                    .map(|entry| (entry.vl.get().into(), entry.weight.into()))
                    .collect()
            }
            Manager::OpenSm => vec![(0, 0); 32],
        };
        let (vls, weights): (Vec<u64>, Vec<u64>) = entries.into_iter().unzip();
        same(&format!("VLs of port {port}"), barred(record, "VL"), vls)?;
        same(
            &format!("weights of port {port}"),
            barred(record, "Weight"),
            weights,
        )?;
    }
    Ok(())
}

fn port_guids(outcome: &Outcome, ids: BTreeSet<NodeId>, truth: &Truth<'_>) -> Verdict {
    let all = records(&outcome.stdout);
    let printed = all.iter().map(|record| {
        let others = (1..8).map(|index| number(record, &format!("GUID {index}")));
        let others: u64 = others.sum::<Result<u64, String>>()?;
        Ok((number(record, "LID")?, number(record, "GUID 0")?, others))
    });
    let expected = ids
        .into_iter()
        .map(|id| (u64::from(truth.lid(id)), truth.port_guid(id), 0));
    same_set(
        "ports",
        &printed.collect::<Result<_, String>>()?,
        &expected.collect(),
    )
}

/// The ports of every multicast LID, by switch.
fn multicast(truth: &Truth<'_>, outcome: &Outcome) -> Verdict {
    let mut printed: BTreeMap<u64, BTreeMap<u16, u32>> = BTreeMap::new();
    for record in records(&outcome.stdout) {
        let lid = number(record, "LID")?;
        let shift = 16 * u32::try_from(number(record, "Position")?).unwrap_or(0);
        let table = printed.entry(lid).or_default();
        for line in record.lines() {
            let Some((mlid, mask)) = line.trim().split_once('\t') else {
                continue;
            };
            let (Ok(mlid), Ok(mask)) = (parsed(mlid), parsed(mask.trim())) else {
                continue;
            };
            let (mlid, mask) = (u16::try_from(mlid), u32::try_from(mask));
            if let (Ok(mlid), Ok(mask @ 1..)) = (mlid, mask) {
                *table.entry(mlid).or_insert(0) |= mask << shift;
            }
        }
    }
    printed.retain(|_, table| !table.is_empty());
    let switches = truth.graph.switches();
    let installed = switches.map(|id| (u64::from(truth.lid(id)), truth.multicast(id).clone()));
    let installed: BTreeMap<_, _> = installed.filter(|(_, table)| !table.is_empty()).collect();
    same("tables", printed, installed)
}
