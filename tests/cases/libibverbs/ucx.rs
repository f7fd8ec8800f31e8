//! UCX: its own measurements, over connections and over datagrams.

use e2e::{Fabric, Transport};

use super::pair;

/// Runs `ucx_perftest` over one of UCX's transports; only by it the two may reach each other.
fn measures(transport: &str) {
    let fabric = Fabric::up(Transport::Udp, "star-2", &[]);
    let transports = format!("UCX_TLS={transport},self");
    let program = [
        "env",
        &transports,
        "UCX_NET_DEVICES=ibemu0:1",
        "ucx_perftest",
    ];
    for test in [
        "tag_lat",
        "tag_bw",
        "ucp_put_lat",
        "ucp_put_bw",
        "ucp_get",
        "ucp_fadd",
    ] {
        let size = match test {
            "ucp_fadd" => "8",
            _ => "20000",
        };
        let arguments = ["-t", test, "-s", size, "-n", "50", "-w", "5"];
        let printed = pair(&fabric, ["h0", "h1"], &[&program[..], &arguments].concat());
        assert!(printed.contains("Final:"), "{test}: {printed}");
    }
    fabric.assert_no_errors_logged();
    fabric.down();
}

#[test]
fn ucx_measures_over_reliable_connections() {
    measures("rc_v");
}

#[test]
fn ucx_measures_over_datagrams() {
    measures("ud_v");
}
