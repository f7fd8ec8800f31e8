//! Debian's prometheus-node-exporter beside a host: its infiniband collector tells what perfquery tells.

use std::collections::BTreeMap;
use std::time::Duration;

use e2e::{Fabric, Transport, diags, within};

/// The files are written twice a second.
const SOON: Duration = Duration::from_secs(30);

/// The exporter's names, without what all have in common, and perfquery's.
const COUNTERS: [(&str, &str); 21] = [
    ("port_data_transmitted_bytes", "PortXmitData"),
    ("port_data_received_bytes", "PortRcvData"),
    ("port_packets_transmitted", "PortXmitPkts"),
    ("port_packets_received", "PortRcvPkts"),
    ("unicast_packets_transmitted", "PortUnicastXmitPkts"),
    ("unicast_packets_received", "PortUnicastRcvPkts"),
    ("multicast_packets_transmitted", "PortMulticastXmitPkts"),
    ("multicast_packets_received", "PortMulticastRcvPkts"),
    ("symbol_error", "SymbolErrorCounter"),
    ("link_error_recovery", "LinkErrorRecoveryCounter"),
    ("link_downed", "LinkDownedCounter"),
    ("port_errors_received", "PortRcvErrors"),
    (
        "port_receive_remote_physical_errors",
        "PortRcvRemotePhysicalErrors",
    ),
    (
        "port_receive_switch_relay_errors",
        "PortRcvSwitchRelayErrors",
    ),
    ("port_discards_transmitted", "PortXmitDiscards"),
    (
        "port_constraint_errors_transmitted",
        "PortXmitConstraintErrors",
    ),
    ("port_constraint_errors_received", "PortRcvConstraintErrors"),
    ("local_link_integrity_errors", "LocalLinkIntegrityErrors"),
    (
        "excessive_buffer_overrun_errors",
        "ExcessiveBufferOverrunErrors",
    ),
    ("vl15_dropped", "VL15Dropped"),
    ("port_transmit_wait", "PortXmitWait"),
];

/// Numbers by name.
type Numbers = BTreeMap<String, f64>;

/// What perfquery prints of the host's own port; asking moves nothing on its link.
fn perfquery(fabric: &Fabric, host: &str) -> Numbers {
    let mut numbers = Numbers::new();
    for call in [&["perfquery"][..], &["perfquery", "-x"]] {
        let text = diags(fabric, host, call).success().stdout;
        let fields = text.lines().filter_map(|line| line.split_once(':'));
        numbers.extend(fields.filter_map(|(name, value)| {
            let number = value.trim_start_matches('.').parse().ok()?;
            Some((name.to_owned(), number))
        }));
    }
    numbers
}

/// What the exporter tells of port 1, without what is common to all names.
fn exported(fabric: &Fabric, host: &str) -> Numbers {
    // No other process listens in the host's network namespace.
    let script = "prometheus-node-exporter --collector.disable-defaults --collector.infiniband \
        --web.listen-address=127.0.0.1:9100 >log 2>&1 & exporter=$!
        until (exec 3<>/dev/tcp/127.0.0.1/9100) 2>/dev/null; do
            kill -0 $exporter || { cat log >&2; exit 1; }
        done
        exec 3<>/dev/tcp/127.0.0.1/9100
        printf 'GET /metrics HTTP/1.0\\r\\n\\r\\n' >&3
        cat <&3
        kill $exporter";
    let text = diags(fabric, host, &["bash", "-c", script])
        .success()
        .stdout;
    let lines = text
        .lines()
        .filter_map(|line| line.strip_prefix("node_infiniband_"));
    lines
        .filter_map(|line| {
            let (name, value) = line.split_once("{device=\"ibemu0\",port=\"1\"} ")?;
            Some((name.to_owned(), value.parse().ok()?))
        })
        .collect()
}

#[test]
fn the_infiniband_collector_of_node_exporter_tells_what_perfquery_tells() {
    let fabric = Fabric::up(Transport::Veth, "star-3", &[]);
    let host = "h1";
    let _ = fabric
        .call(&["ping", "h0", host, "--count", "50"])
        .success();
    let _ = fabric.call(&["mcast", "test", "--group", "all"]).success();
    within(SOON, "both tell the same", || {
        let (before, told, after) = (
            perfquery(&fabric, host),
            exported(&fabric, host),
            perfquery(&fabric, host),
        );
        assert_eq!(told.get("state_id"), Some(&4.0), "Active: {told:?}");
        assert_eq!(
            told.get("physical_state_id"),
            Some(&5.0),
            "LinkUp: {told:?}"
        );
        assert_eq!(
            told.get("rate_bytes_per_second"),
            Some(&5e9),
            "40 Gbit/s: {told:?}"
        );
        for (name, asked) in COUNTERS {
            let is_data = name.ends_with("_bytes");
            let value = told.get(&format!("{name}_total"));
            let value = *value.unwrap_or_else(|| panic!("no {name}: {told:?}"));
            // perfquery counts words of four bytes.
            let value = if is_data { value / 4.0 } else { value };
            let asked = [&before, &after].map(|numbers| numbers.get(asked).copied());
            if asked != [Some(value); 2] {
                return Err(format!("{name}: {value}, and perfquery {asked:?}"));
            }
        }
        let moved = |name: &str| told.get(name).copied().unwrap_or_default();
        assert!(moved("port_packets_received_total") > 50.0, "{told:?}");
        assert!(moved("multicast_packets_received_total") > 0.0, "{told:?}");
        Ok(())
    });
    fabric.down();
}
