//! Tools that print forwarding tables and the ways through them.

use std::collections::BTreeMap;

use e2e::Outcome;
use topologies::NodeId;

use super::discovery::tables_are_installed;
use super::printed::{Verdict, fails, guids, same, tables};
use super::row::{Row, refused, works};
use super::truth::Truth;

const INSTALLED: &str = "every entry is the installed one";
const GROUPS: &str = "every switch's ports of every multicast LID are the installed ones";
const WAY: &str = "each switch and port on the way by the installed tables";

pub(crate) const ROWS: &[Row] = &[
    works("ibroute {switch}", INSTALLED, at_switch),
    works("ibroute -n {switch}", INSTALLED, at_switch),
    works("ibroute -G {switch.guid}", INSTALLED, at_switch),
    works("ibroute -n -D 0,1", INSTALLED, |truth, outcome| {
        let leaf = truth.peer(truth.here, 1).ok_or("no cable")?.node;
        tables_are_installed(truth, &outcome.stdout, &[leaf])
    }),
    works(
        "ibroute -a -n {switch}",
        "every LID up to LinearFDBTop is there",
        |truth, outcome| {
            let printed = tables(&outcome.stdout)?;
            let table = printed.get(&truth.guid(truth.switch)).ok_or("no table")?;
            let top = truth.linear(truth.switch).keys().next_back().copied();
            same(
                "LIDs",
                table.keys().copied().collect::<Vec<_>>(),
                (0..=top.unwrap_or(0)).collect(),
            )
        },
    ),
    works(
        "ibroute -n {switch} {sm} {sm}",
        "the one entry asked for",
        |truth, outcome| {
            let printed = tables(&outcome.stdout)?;
            let table = printed.get(&truth.guid(truth.switch)).ok_or("no table")?;
            same(
                "LIDs",
                table.keys().copied().collect::<Vec<_>>(),
                vec![truth.lid(truth.sm)],
            )
        },
    ),
    works(
        "ibroute -M {switch} 0xc000 0xc01f",
        GROUPS,
        |truth, outcome| groups(truth, outcome, &[truth.switch]),
    ),
    works("dump_fts", INSTALLED, everywhere),
    works("dump_fts -n", INSTALLED, everywhere),
    works("dump_lfts -n", INSTALLED, everywhere),
    works("dump_fts -M 0xc000 0xc01f", GROUPS, |truth, outcome| {
        groups(truth, outcome, &switches(truth))
    }),
    works("dump_mfts 0xc000 0xc01f", GROUPS, |truth, outcome| {
        groups(truth, outcome, &switches(truth))
    }),
    works("ibtracert {here} {far}", WAY, traced),
    works("ibtracert -n {here} {far}", WAY, traced),
    works("ibtracert -G {here.port-guid} {far.port-guid}", WAY, traced),
    works(
        "ibtracert -m {mlid} {here} {far}",
        "a way along cables by ports that the group has, to the member",
        traced_in_group,
    ),
    works(
        "ibtracert -n -m {mlid} {here} {far}",
        "the same",
        traced_in_group,
    ),
    refused(
        "ibtracert -m 0xc01f {here} {far}",
        "the group has no members",
        |_, outcome| fails(outcome, "can't find a multicast route from src to dest"),
    ),
    refused("ibroute {far}", "a host has no table", |_, outcome| {
        fails(outcome, "not a switch")
    }),
];

fn switches(truth: &Truth<'_>) -> Vec<NodeId> {
    truth.graph.switches().collect()
}

fn at_switch(truth: &Truth<'_>, outcome: &Outcome) -> Verdict {
    tables_are_installed(truth, &outcome.stdout, &[truth.switch])
}

fn everywhere(truth: &Truth<'_>, outcome: &Outcome) -> Verdict {
    tables_are_installed(truth, &outcome.stdout, &switches(truth))
}

fn groups(truth: &Truth<'_>, outcome: &Outcome, at: &[NodeId]) -> Verdict {
    let printed = tables(&outcome.stdout)?;
    same("switches", printed.len(), at.len())?;
    for &id in at {
        let table = printed
            .get(&truth.guid(id))
            .ok_or_else(|| format!("{} is not printed", truth.name(id)))?;
        // Five blanks, then two characters a port.
        let mask = |columns: &str| -> u32 {
            let crosses = columns.get(5..).unwrap_or_default().char_indices();
            crosses
                .filter(|&(_, c)| c == 'x')
                .map(|(at, _)| 1 << (at / 2))
                .sum()
        };
        let masks: BTreeMap<u16, u32> = table
            .iter()
            .map(|(&lid, columns)| (lid, mask(columns)))
            .collect();
        same(&truth.name(id), &masks, truth.multicast(id))?;
    }
    Ok(())
}

/// A hop as `ibtracert` prints it: port out, GUID behind the cable, port there.
type Hop = (u8, u64, u8);

/// The hops that `ibtracert` prints: `[3] -> switch port {0x021be20000000070}[1] lid 74-74 "s1.1.0"`.
fn hops(text: &str) -> Result<Vec<Hop>, String> {
    let lines = text.lines().filter(|line| line.starts_with('['));
    lines
        .map(|line| {
            let port = |part: &str| -> Option<u8> {
                let (_, digits) = part.split_once('[')?;
                digits.split(']').next()?.parse().ok()
            };
            let parsed = || {
                let (out, behind) = line.split_once(" -> ")?;
                Some((port(out)?, *guids(behind).first()?, port(behind)?))
            };
            parsed().ok_or_else(|| format!("{line:?} is no hop"))
        })
        .collect()
}

fn traced(truth: &Truth<'_>, outcome: &Outcome) -> Verdict {
    let path = truth.path(truth.here, truth.lid(truth.far)).into_iter();
    let expected: Vec<Hop> = path
        .map(|(out, end)| (out, truth.port_guid(end.node), end.port.get()))
        .collect();
    same("hops", hops(&outcome.stdout)?, expected)
}

fn traced_in_group(truth: &Truth<'_>, outcome: &Outcome) -> Verdict {
    let mut at = truth.here;
    for (out, guid, port) in hops(&outcome.stdout)? {
        let end = truth
            .peer(at, out)
            .ok_or_else(|| format!("no cable in port {out} of {}", truth.name(at)))?;
        same("hop", (guid, port), (truth.guid(end.node), end.port.get()))?;
        let mask = truth
            .multicast(at)
            .get(&truth.group_lid)
            .copied()
            .unwrap_or(0);
        if at != truth.here && mask & 1 << out == 0 {
            return Err(format!(
                "port {out} of {} is not the group's",
                truth.name(at)
            ));
        }
        at = end.node;
    }
    same("last hop", at, truth.far)
}
