//! Fabrics whose cables, or some of them, are tunnels as between machines.

use std::time::Duration;

use e2e::{Fabric, Transport};
use serde_json::Value;

/// How long a fabric may take to heal on a busy machine.
const RECOVERY: Duration = Duration::from_secs(30);

/// The sum of a counter over all ports of a device.
fn counted(fabric: &Fabric, device: &str, counter: &str) -> u64 {
    let device = fabric.device(device);
    device["frames"][counter].as_u64().unwrap_or(0)
}

#[test]
fn every_pair_of_a_fat_tree_answers_over_sealed_tunnels_of_an_ethernet_mtu() {
    let options = ["--verify", "all", "--tunnel-mtu", "1500", "--mtu", "4096"];
    let fabric = Fabric::up(Transport::Tunnel, "fat-tree-4-3", &options);
    fabric.all_pairs().expect("every pair of hosts answers");
    // A packet of the longest MTU takes three datagrams.
    let perf = [
        "perf", "h0.0.0", "h3.0.0", "--size", "4000", "--count", "300", "--json",
    ];
    let report = fabric.call(&perf).success().json();
    assert_eq!(report["total"]["delivered"], 300, "{report:#}");
    assert_eq!(report["total"]["lost"], 0, "{report:#}");
    for device in ["h0.0.0", "s2.0.0", "s0.0.0"] {
        for what in ["dropped_forged", "dropped_malformed", "dropped_replayed"] {
            assert_eq!(counted(&fabric, device, what), 0, "{device}: {what}");
        }
    }
    fabric.assert_no_errors_logged();
    fabric.down();
}

#[test]
fn chosen_cables_are_tunnels_beside_all_other_kinds_and_a_device_that_is_restarted_has_its_back() {
    for (transport, security) in [
        (Transport::Veth, "aes-128-gcm"),
        (Transport::Shm, "none"),
        (Transport::Udp, "aes-128-gcm"),
    ] {
        let options = [
            "--tunnel",
            "s0:1",
            "--tunnel",
            "h2:1",
            "--tunnel-mtu",
            "1500",
        ];
        let security = ["--link-security", security];
        let fabric = Fabric::up(transport, "star-3", &[&options[..], &security].concat());
        fabric.all_pairs().expect("every pair of hosts answers");
        let status = fabric.status();
        assert_eq!(status["links"]["active"], 3, "{status:#}");
        for device in ["h0", "s0"] {
            let _ = fabric.call(&["restart", device]).success();
            fabric.heals(RECOVERY, "all pairs answer after the restart", |subnet| {
                !subnet.degraded
            });
        }
        let _ = fabric.call(&["link", "down", "s0:1"]).success();
        fabric
            .call(&["ping", "h1", "h0", "--count", "1"])
            .fails_with(1, "");
        let _ = fabric.call(&["link", "up", "h0:1"]).success();
        fabric.heals(RECOVERY, "all pairs answer with the cable", |subnet| {
            !subnet.degraded
        });
        fabric.assert_no_errors_logged();
        fabric.down();
    }
}

#[test]
fn nothing_is_lost_over_tunnels_when_every_host_sends_to_every_other() {
    let options = ["--unpaced", "--tunnel-mtu", "1500"];
    let fabric = Fabric::up(Transport::Tunnel, "fat-tree-4-2", &options);
    let perf = ["perf", "--all", "--size", "256", "--count", "500", "--json"];
    let report: Value = fabric.call(&perf).success().json();
    let total = &report["total"];
    assert_eq!(total["offered"], total["delivered"], "{report:#}");
    assert_eq!(total["lost"], 0, "{report:#}");
    fabric.assert_no_errors_logged();
    fabric.down();
}

#[test]
fn a_tunnel_that_is_none_is_refused_and_nothing_is_left() {
    let fabric = Fabric::planned(Transport::Udp);
    for (name, what) in [("s0:9", "no cable"), ("s0", "NODE:PORT"), ("s9:1", "s9")] {
        fabric
            .try_up("star-2", &["--tunnel", name])
            .fails_with(2, what);
    }
    fabric.assert_gone();
}
