//! Subnet administration by saquery.

use std::collections::BTreeSet;

use e2e::Outcome;
use topologies::{NodeId, NodeKind};

use super::printed::{Verdict, contains, counts, number, records, same, same_set, says, value};
use super::row::{Row, works};
use super::truth::Truth;

pub(crate) const ROWS: &[Row] = &[
    works("saquery ClassPortInfo", "class version 2", |_, outcome| {
        says(&outcome.stdout, "Base version", 1)?;
        says(&outcome.stdout, "Class version", 2)
    }),
    works(
        "saquery NodeRecord {far}",
        "the host's LID, GUIDs and name",
        |truth, outcome| node(truth, outcome, truth.far),
    ),
    works(
        "saquery NR {switch}",
        "the switch's LID, GUIDs and name",
        |truth, outcome| node(truth, outcome, truth.switch),
    ),
    works(
        "saquery LinkRecord {switch}/1",
        "the cable",
        |truth, outcome| {
            let end = truth.peer(truth.switch, 1).ok_or("no cable")?;
            let record = only(outcome)?;
            counts(record, "FromLID", truth.lid(truth.switch))?;
            counts(record, "FromPort", 1_u64)?;
            counts(record, "ToLID", truth.lid(end.node))?;
            counts(record, "ToPort", end.port.get())
        },
    ),
    works(
        "saquery PR --src-to-dst {here}:{far}",
        "LIDs and GIDs of both ends",
        path,
    ),
    works("saquery PR --slid {here} --dlid {far}", "the same", path),
    works(
        "saquery PR --sgid {here.gid} --dgid {far.gid}",
        "the same",
        path,
    ),
    works(
        "saquery PortInfoRecord {switch}/1",
        "state of the port",
        |truth, outcome| {
            let record = only(outcome)?;
            counts(record, "EndPortLid", truth.lid(truth.switch))?;
            counts(record, "PortNum", 1_u64)
        },
    ),
    works(
        "saquery PIR {far}",
        "the host's port and no more",
        |truth, outcome| {
            let record = only(outcome)?;
            counts(record, "EndPortLid", truth.lid(truth.far))?;
            counts(record, "PortNum", 1_u64)
        },
    ),
    works(
        "saquery SwitchInfoRecord {switch}",
        "LinearFDBTop",
        |truth, outcome| {
            let record = only(outcome)?;
            counts(record, "LID", truth.lid(truth.switch))?;
            let top = truth.linear(truth.switch).keys().next_back().copied();
            counts(record, "LinearFDBTop", top.unwrap_or(0))
        },
    ),
    works(
        "saquery SMInfoRecord {sm}",
        "LID and GUID of the manager, which is master",
        |truth, outcome| {
            let record = only(outcome)?;
            counts(record, "LID", truth.lid(truth.sm))?;
            says(
                record,
                "GUID",
                format!("{:#018x}", truth.port_guid(truth.sm)),
            )?;
            counts(record, "SMState", 3_u64)
        },
    ),
    works(
        "saquery SMIR",
        "the manager and no more",
        |truth, outcome| counts(only(outcome)?, "LID", truth.lid(truth.sm)),
    ),
    works(
        "saquery LFTRecord {switch}/0",
        "the installed entries",
        |truth, outcome| {
            let record = only(outcome)?;
            counts(record, "LID", truth.lid(truth.switch))?;
            let table = truth.linear(truth.switch);
            let entries = record.lines().filter_map(|line| {
                let (lid, port) = line.trim().split_once('\t')?;
                Some((lid.parse::<u16>().ok()?, port.trim().parse::<u8>().ok()?))
            });
            let printed: Vec<(u16, u8)> = entries.collect();
            let installed = (0..64).map(|lid| (lid, table.get(&lid).copied().unwrap_or(u8::MAX)));
            same("entries", printed, installed.collect())
        },
    ),
    works(
        "saquery NR",
        "all nodes: LID, GUID and name",
        |truth, outcome| {
            let all = records(&outcome.stdout);
            let printed = all.iter().map(|record| {
                let name = value(record, "NodeDescription")?.to_owned();
                Ok((number(record, "lid")?, number(record, "node_guid")?, name))
            });
            let ids = truth.graph.ids();
            let nodes = ids.map(|id| (u64::from(truth.lid(id)), truth.guid(id), truth.name(id)));
            same_set(
                "nodes",
                &printed.collect::<Result<_, String>>()?,
                &nodes.collect(),
            )
        },
    ),
    works(
        "saquery PIR",
        "all ports, those of switches with port 0",
        |truth, outcome| {
            let all = records(&outcome.stdout);
            let printed = all
                .iter()
                .map(|record| Ok((number(record, "EndPortLid")?, number(record, "PortNum")?)));
            let mut ports = BTreeSet::new();
            for id in truth.graph.ids() {
                let first = u64::from(truth.node(id).kind == NodeKind::Host);
                let numbers = first..=u64::from(truth.node(id).ports);
                ports.extend(numbers.map(|port| (u64::from(truth.lid(id)), port)));
            }
            same_set("ports", &printed.collect::<Result<_, String>>()?, &ports)
        },
    ),
    works("saquery LR", "both directions of every cable", cables),
    works("saquery -x", "the same", cables),
    works("saquery SWIR", "all switches", |truth, outcome| {
        let all = records(&outcome.stdout);
        let printed = all.iter().map(|record| number(record, "LID"));
        let switches = truth.graph.switches();
        let lids = switches.map(|id| u64::from(truth.lid(id)));
        same_set(
            "switches",
            &printed.collect::<Result<_, String>>()?,
            &lids.collect(),
        )
    }),
    works(
        "saquery LFTR {switch}",
        "every installed entry of all blocks",
        |truth, outcome| {
            let entries = outcome.stdout.lines().filter_map(|line| {
                let (lid, port) = line.trim().split_once('\t')?;
                Some((lid.parse::<u16>().ok()?, port.trim().parse::<u8>().ok()?))
            });
            let printed = entries.filter(|&(_, port)| port != u8::MAX).collect();
            same_set(
                "entries",
                &printed,
                &truth.linear(truth.switch).into_iter().collect(),
            )
        },
    ),
    works(
        "saquery -N {far.name}",
        "the host of that name",
        |truth, outcome| node(truth, outcome, truth.far),
    ),
    works("saquery -L {far.name}", "its LIDs", |truth, outcome| {
        contains(&outcome.stdout, &truth.lid(truth.far).to_string())
    }),
    works("saquery -l {far.name}", "its LID", |truth, outcome| {
        same(
            "LID",
            outcome.stdout.trim(),
            truth.lid(truth.far).to_string().as_str(),
        )
    }),
    works("saquery -G {far.name}", "its GUID", |truth, outcome| {
        contains(
            &outcome.stdout,
            &format!("{:#018x}", truth.port_guid(truth.far)),
        )
    }),
    works(
        "saquery -O {far}",
        "the name of the host with that LID",
        |truth, outcome| {
            same(
                "name",
                outcome.stdout.trim(),
                truth.name(truth.far).as_str(),
            )
        },
    ),
    works(
        "saquery -U {far.port-guid}",
        "the name of the host with that GUID",
        |truth, outcome| {
            same(
                "name",
                outcome.stdout.trim(),
                truth.name(truth.far).as_str(),
            )
        },
    ),
    works(
        "saquery --list",
        "all hosts: LID and name",
        |truth, outcome| {
            let lines = outcome.stdout.lines().filter_map(|line| {
                let (lid, name) = line.split_once('"')?;
                Some((
                    lid.trim().parse::<u16>().ok()?,
                    name.trim_end_matches('"').to_owned(),
                ))
            });
            let hosts = truth.graph.hosts();
            let expected = hosts.map(|id| (truth.lid(id), truth.name(id))).collect();
            same_set("hosts", &lines.collect(), &expected)
        },
    ),
    works(
        "saquery --src-to-dst {here.name}:{far.name}",
        "a path by names",
        path,
    ),
    works("saquery -s", "the manager's port", |truth, outcome| {
        counts(first(outcome)?, "EndPortLid", truth.lid(truth.sm))
    }),
    works(
        "saquery PR",
        "paths between all pairs of hosts, by LIDs of theirs",
        all_paths,
    ),
    works(
        "saquery --smkey 1 -m",
        "the group's members by name and GID",
        |truth, outcome| {
            let all = records(&outcome.stdout);
            let group = u64::from(truth.group_lid);
            let of_group = all
                .into_iter()
                .filter(|record| number(record, "Mlid") == Ok(group));
            let printed = of_group.map(|record| {
                let (name, gid) = (value(record, "NodeDescription")?, value(record, "PortGid")?);
                Ok((name.to_owned(), gid.to_owned()))
            });
            let members = [truth.here, truth.far].map(|id| (truth.name(id), truth.gid(id)));
            same_set(
                "members",
                &printed.collect::<Result<_, String>>()?,
                &members.into(),
            )
        },
    ),
    works(
        "saquery -g",
        "the group, with its multicast LID",
        |truth, outcome| {
            let all = records(&outcome.stdout);
            let ours = all
                .iter()
                .find(|record| value(record, "MGID") == Ok("ff12:1bed::1"));
            counts(ours.ok_or("no group")?, "Mlid", truth.group_lid)
        },
    ),
];

/// The first record.
fn first(outcome: &Outcome) -> Result<&str, String> {
    let all = records(&outcome.stdout);
    all.first()
        .copied()
        .ok_or_else(|| "no record is printed".to_owned())
}

/// The only record.
fn only(outcome: &Outcome) -> Result<&str, String> {
    same("records", records(&outcome.stdout).len(), 1)?;
    first(outcome)
}

/// Each pair of hosts has a path, whose GIDs and LIDs are theirs.
fn all_paths(truth: &Truth<'_>, outcome: &Outcome) -> Verdict {
    let mut pairs = BTreeSet::new();
    for record in records(&outcome.stdout) {
        let owner = |lid: &str| {
            let lid = u16::try_from(number(record, lid)?).ok();
            let owner = lid.and_then(|lid| truth.owner(lid));
            owner.ok_or_else(|| "a LID of nobody".to_owned())
        };
        let ends = [owner("slid")?, owner("dlid")?];
        let is_host = |id: NodeId| truth.node(id).kind == NodeKind::Host;
        if ends[0] != ends[1] && ends.into_iter().all(is_host) {
            says(record, "sgid", truth.gid(ends[0]))?;
            says(record, "dgid", truth.gid(ends[1]))?;
            pairs.insert(ends.map(|id| truth.name(id)));
        }
    }
    let hosts = || truth.graph.hosts();
    let others = |from| {
        hosts()
            .filter(move |&to| to != from)
            .map(move |to| (from, to))
    };
    let all = hosts().flat_map(others);
    let all = all.map(|(from, to)| [from, to].map(|id| truth.name(id)));
    same_set("pairs", &pairs, &all.collect())
}

fn node(truth: &Truth<'_>, outcome: &Outcome, id: NodeId) -> Verdict {
    let record = first(outcome)?;
    counts(record, "lid", truth.lid(id))?;
    says(record, "node_guid", truth.node(id).guid)?;
    says(
        record,
        "port_guid",
        format!("{:#018x}", truth.port_guid(id)),
    )?;
    counts(record, "num_ports", truth.node(id).ports)?;
    says(record, "NodeDescription", truth.name(id))
}

fn path(truth: &Truth<'_>, outcome: &Outcome) -> Verdict {
    let record = first(outcome)?;
    contains(
        record,
        &format!("sgid....................{}\n", truth.gid(truth.here)),
    )?;
    contains(
        record,
        &format!("dgid....................{}\n", truth.gid(truth.far)),
    )?;
    let (slid, dlid) = (value(record, "slid")?, value(record, "dlid")?);
    let owner = |lid: &str| lid.parse().ok().and_then(|lid| truth.owner(lid));
    same(
        "owners of the LIDs",
        (owner(slid), owner(dlid)),
        (Some(truth.here), Some(truth.far)),
    )?;
    says(record, "pkey", "0xFFFF")
}

fn cables(truth: &Truth<'_>, outcome: &Outcome) -> Verdict {
    let all = records(&outcome.stdout);
    let names = ["FromLID", "FromPort", "ToLID", "ToPort"];
    let printed = all.iter().map(|record| {
        let numbers = names.map(|name| number(record, name));
        numbers.into_iter().collect::<Result<Vec<u64>, String>>()
    });
    let ends = truth.cable_ends().into_iter();
    let expected =
        ends.map(|(a, p, b, q)| vec![truth.lid(a).into(), p.into(), truth.lid(b).into(), q.into()]);
    same_set(
        "cables",
        &printed.collect::<Result<_, String>>()?,
        &expected.collect(),
    )
}
