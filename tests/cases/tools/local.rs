//! Tools that tell of the host's own port, of addresses and of the subnet manager.

use e2e::Outcome;
use topologies::NodeId;

use super::printed::{Verdict, contains, fails, same};
use super::row::{Row, refused, works};
use super::truth::{Manager, Truth};

pub(crate) const ROWS: &[Row] = &[
    works(
        "ibstat",
        "state, rate, LID, LMC, the manager's LID, GUIDs",
        |truth, outcome| {
            let text = &outcome.stdout;
            let here = truth.here;
            for (name, value) in [
                ("Node GUID", format!("{:#018x}", truth.guid(here))),
                ("System image GUID", format!("{:#018x}", truth.guid(here))),
                ("Port GUID", format!("{:#018x}", truth.port_guid(here))),
                ("State", "Active".to_owned()),
                ("Physical state", "LinkUp".to_owned()),
                ("Rate", "40".to_owned()),
                ("Base lid", truth.lid(here).to_string()),
                ("LMC", truth.lmc(here).to_string()),
                ("SM lid", truth.lid(truth.sm).to_string()),
            ] {
                contains(text, &format!("\t{name}: {value}\n"))?;
            }
            Ok(())
        },
    ),
    works("ibstat -l", "one adapter", |_, outcome| {
        same("adapters", outcome.stdout.lines().count(), 1)
    }),
    works("ibstat -s", "the adapter's GUID", |truth, outcome| {
        contains(
            &outcome.stdout,
            &format!("Node GUID: {:#018x}", truth.guid(truth.here)),
        )
    }),
    works("ibstat -p", "the port's GUID", |truth, outcome| {
        same(
            "GUID",
            outcome.stdout.trim(),
            format!("{:#018x}", truth.port_guid(truth.here)).as_str(),
        )
    }),
    works(
        "ibstatus",
        "GID, LID, the manager's LID, state and rate, as files in /sys have them",
        |truth, outcome| {
            let text = &outcome.stdout;
            let words =
                (0xfe80_u128 << 112 | u128::from(truth.port_guid(truth.here))).to_be_bytes();
            let words = words
                .chunks_exact(2)
                .map(|pair| format!("{:02x}{:02x}", pair[0], pair[1]));
            let gid = words.collect::<Vec<String>>().join(":");
            for line in [
                format!("default gid:\t {gid}"),
                format!("base lid:\t {:#x}", truth.lid(truth.here)),
                format!("sm lid:\t\t {:#x}", truth.lid(truth.sm)),
                "state:\t\t 4: ACTIVE".to_owned(),
                "phys state:\t 5: LinkUp".to_owned(),
                "rate:\t\t 40 Gb/sec (4X QDR)".to_owned(),
                "link_layer:\t InfiniBand".to_owned(),
            ] {
                contains(text, &format!("\t{line}\n"))?;
            }
            Ok(())
        },
    ),
    refused(
        "ibstatus absent",
        "there is no such adapter",
        |_, outcome| fails(outcome, "device 'absent': sys files not found"),
    ),
    works("ibaddr", "GID and LIDs of this port", |truth, outcome| {
        address(truth, outcome, truth.here)
    }),
    works("ibaddr -g", "GID", |truth, outcome| {
        contains(&outcome.stdout, &gid(truth, truth.here))
    }),
    works("ibaddr -l", "LIDs", |truth, outcome| {
        contains(&outcome.stdout, &lids(truth, truth.here))
    }),
    works("ibaddr -L", "LIDs, decimal", |truth, outcome| {
        let range = truth.lid_range(truth.here);
        contains(
            &outcome.stdout,
            &format!("LID start {} end {}", range.start(), range.end()),
        )
    }),
    works(
        "ibaddr {far}",
        "GID and LIDs of the port with that LID",
        |truth, outcome| address(truth, outcome, truth.far),
    ),
    works(
        "ibaddr -G {far.port-guid}",
        "the same by GUID",
        |truth, outcome| address(truth, outcome, truth.far),
    ),
    works(
        "ibaddr -D 0,1",
        "the switch beside the host",
        |truth, outcome| {
            let leaf = truth.peer(truth.here, 1).ok_or("no cable")?.node;
            address(truth, outcome, leaf)
        },
    ),
    works(
        "sminfo",
        "LID, GUID, priority and state of the manager",
        manager,
    ),
    works("sminfo {sm}", "the same of a given LID", manager),
    refused("sminfo {far}", "no manager is there", |_, outcome| {
        fails(outcome, "failed: query")
    }),
    refused("sminfo -D 0", "no manager is there", |_, outcome| {
        fails(outcome, "failed: query")
    }),
];

fn gid(truth: &Truth<'_>, id: NodeId) -> String {
    format!("GID {} ", truth.gid(id))
}

fn lids(truth: &Truth<'_>, id: NodeId) -> String {
    let range = truth.lid_range(id);
    format!("LID start {:#x} end {:#x}", range.start(), range.end())
}

fn address(truth: &Truth<'_>, outcome: &Outcome, id: NodeId) -> Verdict {
    contains(&outcome.stdout, &(gid(truth, id) + &lids(truth, id)))
}

fn manager(truth: &Truth<'_>, outcome: &Outcome) -> Verdict {
    let sm = truth.sm;
    let start = format!(
        "sminfo: sm lid {} sm guid {:#x}, activity count ",
        truth.lid(sm),
        truth.port_guid(sm)
    );
    let priority = match truth.manager {
        Manager::Ours => 8,
        Manager::OpenSm => 0,
    };
    contains(&outcome.stdout, &start)?;
    contains(
        &outcome.stdout,
        &format!(" priority {priority} state 3 SMINFO_MASTER"),
    )
}
