//! Attributes of ports, counters and records, read and set by stock infiniband-diags.

use std::time::Duration;

use e2e::{Fabric, Transport, diags, named, within};

const RECOVERY: Duration = Duration::from_secs(30);

/// The text behind `name:.....`.
fn field<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    Some(line.trim_start_matches('.'))
}

/// How often the link at that port of the switch of a star has gone down.
fn downed(fabric: &Fabric, port: &str) -> u64 {
    let ports = fabric.switch_ports("s0");
    let status = ports.iter().find(|status| status.port.to_string() == port);
    named(status.expect("a port"))["LinkDownedCounter"]
}

/// Lets `change` take a link of a star down for a moment. Waits until it has gone down, and then until
/// all three are active.
fn bounces(fabric: &Fabric, port: &str, change: impl FnOnce()) {
    let before = downed(fabric, port);
    change();
    within(RECOVERY, "the link goes down", || {
        match downed(fabric, port) {
            now if now > before => Ok(()),
            _ => Err("not yet".to_owned()),
        }
    });
    active(fabric, 3);
}

/// Waits until so many links are active.
fn active(fabric: &Fabric, wanted: u64) {
    within(RECOVERY, "so many links are active", || {
        let active = fabric.status()["links"]["active"].as_u64();
        match active == Some(wanted) {
            true => Ok(()),
            false => Err(format!("{active:?} are, not {wanted}")),
        }
    });
}

/// `ibportstate` on a port of the switch of a star, from a host.
fn port_state(fabric: &Fabric, host: &str, port: &str, command: &[&str]) -> String {
    let lid = fabric.device("s0")["lid"].to_string();
    let call = [&["ibportstate", &lid, port], command].concat();
    diags(fabric, host, &call).success().stdout
}

#[test]
fn a_port_is_reset_disabled_and_taken_down_also_by_a_host_behind_it() {
    let fabric = Fabric::up(Transport::Udp, "star-3", &[]);
    for port in ["1", "2", "3"] {
        for command in ["reset", "down"] {
            bounces(&fabric, port, || {
                let _ = port_state(&fabric, "h1", port, &[command]);
            });
        }
    }
    for port in ["1", "2", "3"] {
        let told = field(&port_state(&fabric, "h1", port, &[]), "LinkState").map(str::to_owned);
        assert_eq!(told.as_deref(), Some("Active"), "port {port}");
    }
    fabric.all_pairs().expect("all links are back");
    fabric.assert_no_errors_logged();
    fabric.down();
}

#[test]
fn a_link_retrains_to_the_widths_and_speeds_that_are_enabled() {
    let fabric = Fabric::up(Transport::Udp, "star-3", &["--speed", "edr"]);
    let lid = fabric.device("s0")["lid"].to_string();
    let shown = |port: &str| {
        let call = ["smpquery", "portinfo", &lid, port];
        let text = diags(&fabric, "h1", &call).success().stdout;
        ["LinkWidthActive", "LinkSpeedActive", "LinkSpeedExtActive"]
            .map(|name| field(&text, name).unwrap_or("none").to_owned())
    };
    let becomes = |wanted: [&str; 3]| {
        within(RECOVERY, "the link has trained and is active", || {
            let now = shown("3");
            match now == wanted.map(str::to_owned) {
                true => Ok(()),
                false => Err(format!("{now:?}")),
            }
        });
        active(&fabric, 3);
    };
    let reset = || {
        bounces(&fabric, "3", || {
            let _ = port_state(&fabric, "h1", "3", &["reset"]);
        });
    };
    let full = ["4X", "10.0 Gbps", "25.78125 Gbps"];
    becomes(full);
    let slow = ["speed", "3", "espeed", "30", "width", "1"];
    let _ = port_state(&fabric, "h1", "3", &slow);
    assert_eq!(shown("3"), full.map(str::to_owned), "not before a reset");
    reset();
    becomes(["1X", "5.0 Gbps", "No Extended Speed"]);
    let _ = port_state(&fabric, "h1", "3", &["espeed", "1"]);
    reset();
    becomes(["1X", "10.0 Gbps", "14.0625 Gbps"]);
    let all = ["speed", "15", "espeed", "31", "width", "255"];
    let _ = port_state(&fabric, "h1", "3", &all);
    reset();
    becomes(full);
    fabric.all_pairs().expect("all links work");
    fabric.down();
}

/// A number behind `name:.....`.
fn number(text: &str, name: &str) -> u64 {
    let value = field(text, name).unwrap_or_else(|| panic!("no {name} in {text}"));
    value
        .parse()
        .unwrap_or_else(|_| panic!("{name} is no number in {text}"))
}

/// What `perfquery` prints of every attribute, and how its first counter is called.
const ARRAYS: [(&str, &str); 17] = [
    ("--xmtsl", "XmtDataSL0"),
    ("--rcvsl", "RcvDataSL0"),
    ("--xmtdisc", "PortInactiveDiscards"),
    ("--rcverr", "PortLocalPhysicalErrors"),
    ("--extended_speeds", "SyncHeaderErrorCounter"),
    ("--oprcvcounters", "PortOpRcvPkts"),
    ("--flowctlcounters", "PortXmitFlowPkts"),
    ("--vloppackets", "PortVLOpPackets0"),
    ("--vlopdata", "PortVLOpData0"),
    ("--vlxmitflowctlerrors", "PortVLXmitFlowCtlUpdateErrors0"),
    ("--vlxmitcounters", "PortVLXmitWait0"),
    ("--swportvlcong", "SWPortVLCongestion0"),
    ("--rcvcc", "PortPktRcvFECN"),
    ("--slrcvfecn", "PortSLRcvFECN0"),
    ("--slrcvbecn", "PortSLRcvBECN0"),
    ("--xmitcc", "PortXmitTimeCong"),
    ("--vlxmittimecc", "PortVLXmitTimeCong0"),
];

#[test]
fn perfquery_reads_and_clears_every_attribute_and_its_values_are_what_was_sent() {
    const PINGS: u64 = 20;
    let fabric = Fabric::up(Transport::Udp, "star-3", &[]);
    let lid = |name: &str| fabric.device(name)["lid"].to_string();
    let (switch, host) = (lid("s0"), lid("h2"));
    let query = |options: &[&str], lid: &str, port: &str| {
        let call = [&["perfquery"], options, &[lid, port]].concat();
        diags(&fabric, "h0", &call).success().stdout
    };
    for (option, first) in ARRAYS {
        let _ = number(&query(&[option], &switch, "3"), first);
        let _ = query(&["-R", option], &switch, "3");
        if option != "--swportvlcong" {
            let _ = number(&query(&[option], &host, "1"), first);
        }
    }
    let samples = query(&["-c"], &switch, "3");
    assert_eq!(number(&samples, "CounterWidth"), 4, "{samples}");

    // The requests to the host have gone through that port.
    for option in ["--xmtsl", "--rcvsl", "--vloppackets", "--vlopdata"] {
        let _ = query(&["-R", option], &switch, "3");
    }
    let pings = PINGS.to_string();
    let ping = fabric.call(&["ping", "h1", "h2", "--count", &pings]);
    let _ = ping.success();
    let count = |option: &str, name: &str| number(&query(&[option], &switch, "3"), name);
    let sent = count("--xmtsl", "XmtDataSL0");
    assert!(sent > 0 && sent % PINGS == 0, "{sent} words");
    assert_eq!(count("--rcvsl", "RcvDataSL0"), sent, "as much comes back");
    assert_eq!(count("--vloppackets", "PortVLOpPackets0"), PINGS);
    assert_eq!(
        count("--vlopdata", "PortVLOpData0"),
        sent / 256,
        "kilobytes"
    );
    assert_eq!(count("--vlopdata", "PortVLOpData1"), 0);
    assert!(count("--flowctlcounters", "PortRcvFlowPkts") > 0);
    fabric.down();
}

#[test]
fn classes_without_a_server_are_refused_at_once() {
    let fabric = Fabric::up(Transport::Udp, "star-3", &[]);
    for name in ["s0", "h2"] {
        let lid = fabric.device(name)["lid"].to_string();
        // With a timeout of 30 s an answer is told from none.
        let asked = diags(&fabric, "h0", &["vendstat", "-t", "30000", "-N", &lid]);
        assert_ne!(asked.code, 0, "{asked}");
        assert!(!asked.stderr.contains("timed out"), "{asked}");
    }
    fabric.down();
}

#[test]
fn congestion_control_settings_are_read_back_under_their_key() {
    let fabric = Fabric::up(Transport::Udp, "star-3", &[]);
    let lid = |name: &str| fabric.device(name)["lid"].to_string();
    let (switch, host) = (lid("s0"), lid("h2"));
    let query = |options: &[&str]| {
        let call = [&["ibccquery"], options].concat();
        diags(&fabric, "h0", &call)
    };
    let config = |options: &[&str]| {
        let call = [&["ibccconfig"], options].concat();
        diags(&fabric, "h0", &call)
    };
    let info = query(&["CongestionInfo", &host]).success().stdout;
    assert_eq!(number(&info, "ControlTableCap"), 2, "{info}");
    let setting = [
        "SwitchCongestionSetting",
        &switch,
        "0x1f",
        "0x0",
        "0x0",
        "0xf",
        "8",
        "0",
        "0:0",
        "10",
    ];
    let _ = config(&setting).success();
    let shown = query(&["SwitchCongestionSetting", &switch])
        .success()
        .stdout;
    assert_eq!(number(&shown, "Packet_Size"), 8, "{shown}");
    assert_eq!(number(&shown, "Marking_Rate"), 10, "{shown}");
    let key = ["CongestionKeyInfo", &host, "0x77", "1", "0", "0"];
    let _ = config(&key).success();
    let hidden = query(&["CongestionKeyInfo", &host]).success().stdout;
    assert_eq!(
        field(&hidden, "CC_Key"),
        Some("0x0000000000000000"),
        "{hidden}"
    );
    let known = query(&["-c", "0x77", "CongestionKeyInfo", &host])
        .success()
        .stdout;
    assert_eq!(
        field(&known, "CC_Key"),
        Some("0x0000000000000077"),
        "{known}"
    );
    fabric.down();
}

#[test]
fn a_port_tells_by_port_info_extended_that_its_link_has_no_forward_error_correction() {
    let fabric = Fabric::up(Transport::Udp, "star-2", &["--speed", "edr"]);
    let lid = fabric.device("h1")["lid"].to_string();
    let call = ["smpquery", "PortInfoExtended", &lid];
    let text = diags(&fabric, "h0", &call).success().stdout;
    for (name, value) in [
        ("CapMask", "0x00000001"),
        ("FECModeActive", "0"),
        ("FDRFECModeSupported", "0x0001"),
        ("FDRFECModeEnabled", "0x0001"),
        ("EDRFECModeSupported", "0x0001"),
        ("EDRFECModeEnabled", "0x0001"),
    ] {
        assert_eq!(field(&text, name), Some(value), "{name}: {text}");
    }
    let text = diags(&fabric, "h0", &["smpquery", "PI", &lid])
        .success()
        .stdout;
    assert!(text.contains("IsPortInfoExtended"), "{text}");
    fabric.down();
}
