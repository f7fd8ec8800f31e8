//! Stock infiniband-diags under our own controller.

use std::time::Duration;

use e2e::{Fabric, Outcome, Transport, diags, within};

/// A port that waited for credits is no error.
const UNCONCERNED: [&str; 2] = ["-s", "PortXmitWait"];

fn errors(fabric: &Fabric, host: &str, options: &[&str]) -> Outcome {
    diags(fabric, host, &[&["ibqueryerrors"], options].concat())
}

/// The value of `name:.....value` lines.
fn value(text: &str, name: &str) -> u64 {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let digits = line.map(|line| line.trim_start_matches('.').trim());
    digits
        .and_then(|digits| digits.parse().ok())
        .unwrap_or_else(|| panic!("no number {name} in {text}"))
}

/// Asserts that `ibqueryerrors` sees the whole fabric and nothing wrong in it.
fn nothing_wrong(fabric: &Fabric, host: &str, nodes: usize, ports: usize) {
    for options in [
        &[][..],
        &["--details"],
        &["--details", "-r"],
        &["--data", "-c"],
    ] {
        let printed = errors(fabric, host, &[&UNCONCERNED, options].concat()).success();
        let summary = format!("Summary: {nodes} nodes checked, 0 bad nodes found");
        assert!(printed.stdout.contains(&summary), "{printed}");
        assert!(
            printed.stdout.contains(&format!("{ports} ports checked")),
            "{printed}"
        );
        assert!(!printed.stderr.contains("failed"), "{printed}");
    }
}

#[test]
fn error_counters_of_all_nodes_are_read_from_any_host_and_by_guid() {
    for (transport, topology, nodes, ports, hosts) in [
        (
            Transport::Veth,
            "fat-tree-4-3",
            36,
            96,
            ["h0.0.0", "h3.1.1"],
        ),
        (Transport::Udp, "irregular-8-2-3-7", 24, 56, ["h0", "h9"]),
    ] {
        let fabric = Fabric::up(transport, topology, &[]);
        for host in hosts {
            nothing_wrong(&fabric, host, nodes, ports);
            for target in hosts {
                let guid = fabric.device(target)["guid"]
                    .as_str()
                    .expect("a GUID")
                    .to_owned();
                // A host's port GUID follows its node GUID.
                let digits = guid.trim_start_matches("0x");
                let port = u64::from_str_radix(digits, 16).expect("hexadecimal") + 1;
                let printed = errors(&fabric, host, &["-G", &format!("{port:#018x}")]).success();
                assert!(
                    printed.stdout.contains("Summary: 1 nodes checked"),
                    "{printed}"
                );
            }
        }
        fabric.assert_no_errors_logged();
        fabric.down();
    }
}

#[test]
fn packets_that_a_switch_cannot_forward_are_counted_named_and_cleared() {
    let fabric = Fabric::up(Transport::Udp, "ring-5-1", &[]);
    let lid = |name: &str| fabric.device(name)["lid"].to_string();
    let (gone, switch) = (lid("h3"), lid("s1"));
    let _ = fabric.call(&["link", "down", "h3:1"]).success();
    within(
        Duration::from_secs(10),
        "the host's LID leads nowhere",
        || match fabric.status()["sm"]["hosts"] == 4 {
            true => Ok(()),
            false => Err("the subnet manager has not noticed".to_owned()),
        },
    );
    let asked = diags(&fabric, "h1", &["perfquery", &gone, "1"]);
    assert_ne!(asked.code, 0, "{asked}");

    let printed = errors(&fabric, "h1", &["--details"]);
    assert_eq!(printed.code, 1, "{printed}");
    assert!(!printed.stderr.contains("query failed"), "{printed}");
    assert!(
        printed.stdout.contains("[PortRcvSwitchRelayErrors == "),
        "{printed}"
    );
    let basic = diags(&fabric, "h1", &["perfquery", &switch, "1"])
        .success()
        .stdout;
    let relayed = value(&basic, "PortRcvSwitchRelayErrors");
    assert!(relayed > 0, "{basic}");
    let details = ["perfquery", "--rcverr", &switch, "1"];
    let details = diags(&fabric, "h1", &details).success().stdout;
    assert_eq!(value(&details, "PortDLIDMappingErrors"), relayed);
    assert_eq!(value(&details, "PortLoopingErrors"), 0);
    let sent = diags(&fabric, "h1", &["perfquery", "--xmtdisc", &switch, "1"]).success();
    assert_eq!(value(&sent.stdout, "PortInactiveDiscards"), 0);

    let _ = errors(&fabric, "h1", &["-k", "-K"]);
    let printed = errors(&fabric, "h1", &UNCONCERNED).success();
    assert!(printed.stdout.contains("0 bad nodes found"), "{printed}");
    fabric.down();
}

#[test]
fn links_paths_and_records_are_what_the_fabric_is() {
    let fabric = Fabric::up(Transport::Udp, "irregular-8-2-3-7", &[]);
    let lid = |name: &str| fabric.device(name)["lid"].to_string();
    let (from, to) = (lid("h2"), lid("h13"));

    let links = diags(&fabric, "h4", &["iblinkinfo"]).success().stdout;
    let active = links.matches("Active/  LinkUp").count();
    let cables = fabric.status()["links"]["total"]
        .as_u64()
        .expect("a number");
    assert_eq!(u64::try_from(active), Ok(2 * cables), "{links}");
    assert!(!links.contains("Down"), "{links}");

    let path = fabric
        .call(&["path", "h2", "h13", "--json"])
        .success()
        .json();
    let hops = path["hops"].as_array().expect("hops");
    let traced = diags(&fabric, "h4", &["ibtracert", &from, &to])
        .success()
        .stdout;
    let named = traced
        .lines()
        .filter(|line| line.starts_with('['))
        .map(|line| {
            let name = line.split('"').nth(1);
            name.unwrap_or_else(|| panic!("no name in {line}"))
        });
    let names: Vec<&str> = named.collect();
    let expected: Vec<&str> = hops[1..]
        .iter()
        .filter_map(|hop| hop["node"].as_str())
        .collect();
    assert_eq!(names, expected, "{traced}");

    let pair = format!("{from}:{to}");
    let record = ["saquery", "PR", "--src-to-dst", &pair];
    let record = diags(&fabric, "h4", &record).success().stdout;
    assert!(
        record.contains(&format!("dlid....................{to}")),
        "{record}"
    );

    let manager = diags(&fabric, "h4", &["sminfo"]).success().stdout;
    assert!(manager.contains("SMINFO_MASTER"), "{manager}");
    fabric.assert_no_errors_logged();
    fabric.down();
}
