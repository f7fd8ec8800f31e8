//! Tools that discover the fabric by directed routes: ibnetdiscover, iblinkinfo, and the scripts on
//! them.

use std::collections::BTreeSet;

use e2e::Outcome;
use topologies::{NodeId, NodeKind};

use super::printed::{Verdict, contains, fails, guids, lines_with, same, same_set, tables};
use super::row::{Row, refused, works};
use super::truth::Truth;

/// Nodes and cables, and what they are.
const TOPOLOGY: &str = "nodes with GUIDs, names and ports, every cable, LIDs";

pub(crate) const ROWS: &[Row] = &[
    works("ibnetdiscover", TOPOLOGY, topology),
    works("ibnetdiscover -f", TOPOLOGY, topology),
    works("ibnetdiscover -g", "all nodes stand outside of a chassis", |truth, outcome| {
        contains(&outcome.stdout, "Non-Chassis Nodes")?;
        guids_are(truth, outcome, &[NodeKind::Host, NodeKind::Switch])
    }),
    works("ibnetdiscover -s", "every node is found", |truth, outcome| {
        same("nodes found", outcome.stdout.matches("-> new ").count(), truth.graph.len())
    }),
    works("ibnetdiscover -l", "nodes by GUID, name, ports, device and vendor", |truth, outcome| {
        listed(truth, outcome, &[NodeKind::Host, NodeKind::Switch])
    }),
    works("ibnetdiscover -H", "channel adapters", |truth, outcome| {
        listed(truth, outcome, &[NodeKind::Host])
    }),
    works("ibnetdiscover -S", "switches", |truth, outcome| {
        listed(truth, outcome, &[NodeKind::Switch])
    }),
    works("ibnetdiscover -R", "there is no router", |truth, outcome| listed(truth, outcome, &[])),
    works("ibnetdiscover -p", "both ends of every cable: LID, port, GUID, width and speed", |truth, outcome| {
        same_set("ends of cables", &cable_report(&outcome.stdout)?, &truth.cable_ends_by_lid())
    }),
    works("ibnetdiscover -m", "the longest way is as long as the topology says", |truth, outcome| {
        let hops = format!("max hops discovered: {}\n", truth.eccentricity(truth.here));
        contains(&outcome.stdout, &hops)
    }),
    works(
        "ibnetdiscover --cache found >/dev/null && ibnetdiscover --load-cache found",
        "what is read from a cache is the fabric",
        topology,
    ),
    works(
        "rm -f same && ibnetdiscover --cache same >/dev/null && ibnetdiscover --diff same && iblinkinfo --diff same",
        "a fabric at rest differs in nothing",
        |_, outcome| same("differences", outcome.stdout.as_str(), ""),
    ),
    works(
        "rm -f as new; ibnetdiscover --cache as >/dev/null && ibcacheedit --switchguid {switch.guid}:0x99 as new && ibnetdiscover --load-cache new -S",
        "ibcacheedit: the switch has its new GUID, the others their own",
        |truth, outcome| {
            let mut expected = truth.guids(NodeKind::Switch);
            expected.remove(&truth.guid(truth.switch));
            expected.insert(0x99);
            same_set("switches", &first_guids(&outcome.stdout), &expected)
        },
    ),
    works("iblinkinfo", "both ends of every cable are Active", |truth, outcome| {
        let active = outcome.stdout.matches("Active/  LinkUp)==>").count();
        same("active ports", active, truth.cable_ends().len())
    }),
    works("iblinkinfo -l", "both ends of every cable: GUID, LID, port, name", |truth, outcome| {
        same_set("ends of cables", &link_lines(truth, &outcome.stdout)?, &truth.cable_ends())
    }),
    works("iblinkinfo -p -l", "the same, with HOQLife of each port", |truth, outcome| {
        same("ports with HOQ", outcome.stdout.matches("(HOQ:").count(), truth.cable_ends().len())
    }),
    works("iblinkinfo -d", "no link is down", |_, outcome| same("down links", outcome.stdout.as_str(), "")),
    works("iblinkinfo --switches-only -l", "the ends at switches", |truth, outcome| {
        ends_at(truth, outcome, |truth, id| truth.node(id).kind == NodeKind::Switch)
    }),
    works("iblinkinfo --cas-only -l", "the ends at channel adapters", |truth, outcome| {
        ends_at(truth, outcome, |truth, id| truth.node(id).kind == NodeKind::Host)
    }),
    works("iblinkinfo -l -S {switch.guid}", "the ends at that switch", |truth, outcome| {
        ends_at(truth, outcome, |truth, id| id == truth.switch)
    }),
    works("iblinkinfo -l -D 0,1", "the ends at the switch beside the host", |truth, outcome| {
        ends_at(truth, outcome, |truth, id| Some(id) == truth.peer(truth.here, 1).map(|end| end.node))
    }),
    works("ibhosts", "hosts by GUID and name", |truth, outcome| {
        named(truth, outcome, &[NodeKind::Host])
    }),
    works("ibswitches", "switches by GUID and name, with their LIDs", |truth, outcome| {
        named(truth, outcome, &[NodeKind::Switch])?;
        let lids = outcome.stdout.lines().filter_map(|line| {
            let guid = *guids(line).first()?;
            let (_, lid) = line.split_once(" lid ")?;
            Some((guid, lid.split(' ').next()?.parse::<u16>().ok()?))
        });
        let switches = truth.graph.switches();
        let expected = switches.map(|id| (truth.guid(id), truth.lid(id))).collect();
        same_set("LIDs", &lids.collect(), &expected)
    }),
    works("ibnodes", "hosts and switches by GUID and name", |truth, outcome| {
        named(truth, outcome, &[NodeKind::Host, NodeKind::Switch])
    }),
    works("ibrouters", "there is none", |_, outcome| same("routers", outcome.stdout.as_str(), "")),
    works("ibidsverify -R", "no LID and no GUID is there twice", |_, outcome| {
        same("faults", outcome.stdout.as_str(), "")
    })
    .alone(),
    works("ibfindnodesusing -R {switch.guid} 1", "hosts to whose base LIDs the switch's table names the port", nodes_using)
    .alone(),
    works(
        "rm -f c; ibnetdiscover --cache c >/dev/null && dump_lfts >l 2>/dev/null && check_lft_balance -l l -i c -v",
        "by switch and port the host LIDs that the installed table sends there",
        balance,
    )
    .alone(),
    refused("ibcacheedit --switchguid 1:2 /absent new", "there is no such cache", |_, outcome| {
        fails(outcome, "failed")
    }),
];

fn topology(truth: &Truth<'_>, outcome: &Outcome) -> Verdict {
    let seen = topologies::read_text(&outcome.stdout).map_err(|error| error.to_string())?;
    let ends = |graph: &topologies::Graph| -> BTreeSet<[(String, u8); 2]> {
        let links = graph.links();
        links
            .map(|(a, b)| {
                let mut ends =
                    [a, b].map(|end| (graph.node(end.node).name.clone(), end.port.get()));
                ends.sort();
                ends
            })
            .collect()
    };
    same_set("cables", &ends(&seen), &ends(&truth.graph))?;
    let nodes = |graph: &topologies::Graph| -> BTreeSet<(u64, String, u8)> {
        let ids = graph.ids().map(|id| graph.node(id));
        ids.map(|node| (node.guid.0, node.description.clone(), node.ports))
            .collect()
    };
    same_set("nodes", &nodes(&seen), &nodes(&truth.graph))?;
    for id in truth.graph.hosts() {
        let lid = format!("\"{}\" lid {} ", truth.name(id), truth.lid(id));
        contains(&outcome.stdout, &lid)?;
    }
    Ok(())
}

/// The first GUID of each line.
fn first_guids(text: &str) -> BTreeSet<u64> {
    text.lines()
        .filter_map(|line| guids(line).first().copied())
        .collect()
}

fn guids_are(truth: &Truth<'_>, outcome: &Outcome, kinds: &[NodeKind]) -> Verdict {
    let expected: BTreeSet<u64> = kinds.iter().flat_map(|&kind| truth.guids(kind)).collect();
    for kind in ["switchguid=0x", "caguid=0x"] {
        for line in outcome
            .stdout
            .lines()
            .filter_map(|line| line.strip_prefix(kind))
        {
            let digits = line.split('(').next().unwrap_or_default();
            let guid = u64::from_str_radix(digits, 16).map_err(|error| error.to_string())?;
            if !expected.contains(&guid) {
                return Err(format!("{guid:#x} is no node"));
            }
        }
    }
    let printed =
        outcome.stdout.matches("guid=0x").count() - outcome.stdout.matches("sysimgguid=0x").count();
    same("nodes", printed, expected.len())
}

/// Lines of `ibnetdiscover -l`, -H, -S.
fn listed(truth: &Truth<'_>, outcome: &Outcome, kinds: &[NodeKind]) -> Verdict {
    let ids = truth
        .graph
        .ids()
        .filter(|&id| kinds.contains(&truth.node(id).kind));
    let expected: BTreeSet<String> = ids
        .map(|id| {
            let node = truth.node(id);
            format!(
                ": {} ports {} devid {:#x} vendid {:#x} \"{}\"",
                node.guid, node.ports, node.device_id, node.vendor_id, node.description
            )
        })
        .collect();
    let lines = outcome
        .stdout
        .lines()
        .filter_map(|line| line.split_once(": "));
    let printed = lines
        .map(|(_, rest)| format!(": {}", rest.trim()))
        .collect();
    same_set("lines", &printed, &expected)
}

/// Lines of ibhosts, ibswitches, ibnodes.
fn named(truth: &Truth<'_>, outcome: &Outcome, kinds: &[NodeKind]) -> Verdict {
    let lines = outcome.stdout.lines().filter_map(|line| {
        let guid = *guids(line).first()?;
        Some((guid, super::printed::quoted(line)?.to_owned()))
    });
    let ids = truth
        .graph
        .ids()
        .filter(|&id| kinds.contains(&truth.node(id).kind));
    let expected = ids.map(|id| (truth.guid(id), truth.name(id))).collect();
    same_set("nodes", &lines.collect(), &expected)?;
    lines_with(
        &outcome.stdout,
        "",
        truth
            .graph
            .ids()
            .filter(|&id| kinds.contains(&truth.node(id).kind))
            .count(),
    )
}

/// Lines of `ibnetdiscover -p`: (GUID, port, LID) of one end and of the other.
fn cable_report(text: &str) -> Result<BTreeSet<String>, String> {
    let lines = text.lines().filter(|line| line.contains(" - "));
    lines
        .map(|line| {
            let (here, there) = line.split_once(" - ").ok_or("no cable")?;
            if !here.ends_with("4x QDR") {
                return Err(format!("{line:?} is no link of 4x QDR"));
            }
            let end = |text: &str| {
                text.split_whitespace()
                    .skip(1)
                    .take(3)
                    .collect::<Vec<_>>()
                    .join(" ")
            };
            Ok(format!("{} - {}", end(here), end(there)))
        })
        .collect()
}

/// Lines of `iblinkinfo -l`.
fn link_lines(truth: &Truth<'_>, text: &str) -> Result<BTreeSet<(NodeId, u8, NodeId, u8)>, String> {
    text.lines()
        .map(|line| {
            let wrong = || format!("{line:?} is no cable");
            let (here, there) = line.split_once("==>").ok_or_else(wrong)?;
            let (here, state) = here.split_once("==(").ok_or_else(wrong)?;
            if !state.contains("4X          10.0 Gbps Active/  LinkUp") {
                return Err(format!("{line:?} is not active"));
            }
            let name = super::printed::quoted(here).ok_or_else(wrong)?.trim();
            let words: Vec<&str> = here
                .rsplit('"')
                .next()
                .unwrap_or_default()
                .split_whitespace()
                .collect();
            let id = truth.graph.find(name).ok_or_else(wrong)?;
            same(
                "LID",
                words.first().copied(),
                Some(truth.lid(id).to_string().as_str()),
            )?;
            let port = |word: Option<&&str>| {
                word.and_then(|word| word.trim_end_matches('[').parse().ok())
                    .ok_or_else(wrong)
            };
            let other = super::printed::quoted(there).ok_or_else(wrong)?;
            let other = truth.graph.find(other).ok_or_else(wrong)?;
            let behind: Vec<&str> = there.split_whitespace().collect();
            same(
                "LID behind",
                behind.get(1).copied(),
                Some(truth.lid(other).to_string().as_str()),
            )?;
            Ok((id, port(words.get(1))?, other, port(behind.get(2))?))
        })
        .collect()
}

fn ends_at(truth: &Truth<'_>, outcome: &Outcome, at: fn(&Truth<'_>, NodeId) -> bool) -> Verdict {
    let all = truth.cable_ends();
    let expected = all
        .into_iter()
        .filter(|&(node, ..)| at(truth, node))
        .collect();
    same_set(
        "ends of cables",
        &link_lines(truth, &outcome.stdout)?,
        &expected,
    )
}

/// Hosts that `ibfindnodesusing` names for the way out of the port. It writes `h1-3` for h1, h2 and h3.
fn nodes_using(truth: &Truth<'_>, outcome: &Outcome) -> Verdict {
    let (_, out) = outcome
        .stdout
        .split_once("==>>")
        .ok_or("no way out of the port")?;
    let out = out.split("<<==").next().unwrap_or_default();
    let mut printed = BTreeSet::new();
    for word in out.lines().skip(1).flat_map(|line| line.split([' ', ','])) {
        let (first, last) = word.split_once('-').unwrap_or((word, ""));
        let stem = first.trim_end_matches(|c: char| c.is_ascii_digit());
        let first: Option<u32> = first
            .strip_prefix(stem)
            .and_then(|digits| digits.parse().ok());
        let Some(first) = first else { continue };
        let last = last.parse().unwrap_or(first);
        let names = (first..=last).map(|number| format!("{stem}{number}"));
        // The line ends with the switch's own.
        printed.extend(names.filter(|name| truth.graph.find(name).is_some()));
    }
    let table = truth.linear(truth.switch);
    let hosts = truth.graph.hosts();
    let behind = hosts.filter(|&id| table.get(&truth.lid(id)) == Some(&1));
    same_set(
        "hosts",
        &printed,
        &behind.map(|id| truth.name(id)).collect(),
    )
}

/// What `check_lft_balance` counts: by switch and port the host LIDs that its table sends there.
fn balance(truth: &Truth<'_>, outcome: &Outcome) -> Verdict {
    let (mut switches, mut counted) = (BTreeSet::new(), Vec::new());
    for line in outcome.stdout.lines() {
        if let Some(guid) = guids(line).first() {
            let id = truth
                .by_guid(*guid)
                .ok_or_else(|| format!("{line:?} is no switch"))?;
            switches.insert(id);
            let hosts = truth.graph.hosts().flat_map(|host| truth.lid_range(host));
            let table = truth.linear(id);
            counted = hosts.filter_map(|lid| table.get(&lid).copied()).collect();
        } else if let Some((port, count)) = line
            .strip_prefix("Port ")
            .and_then(|line| line.split_once(": "))
        {
            let port: u8 = port.parse().map_err(|_| format!("no port in {line:?}"))?;
            let lids = counted.iter().filter(|&&there| there == port).count();
            same(line, count.trim().to_owned(), lids.to_string())?;
        }
    }
    same_set("switches", &switches, &truth.graph.switches().collect())
}

/// The text of forwarding tables is that of the installed ones.
pub(crate) fn tables_are_installed(truth: &Truth<'_>, text: &str, switches: &[NodeId]) -> Verdict {
    let printed = tables(text)?;
    same("switches", printed.len(), switches.len())?;
    for &id in switches {
        let table = printed
            .get(&truth.guid(id))
            .ok_or_else(|| format!("{} is not printed", truth.name(id)))?;
        let ports = table.iter().map(|(&lid, words)| {
            (
                lid,
                words
                    .get(..3)
                    .unwrap_or_default()
                    .parse::<u8>()
                    .unwrap_or(u8::MAX),
            )
        });
        same_set(
            &truth.name(id),
            &ports.collect(),
            &truth.linear(id).into_iter().collect(),
        )?;
    }
    Ok(())
}
