//! Faults of the fabric while programs run.

use e2e::{Fabric, Transport, within};

use super::{START, pair, start_pair};

/// Packets that a port of a host has sent.
fn sent(fabric: &Fabric, host: &str) -> u64 {
    let ports = fabric.host_ports(host);
    let counters = e2e::named(&ports[0]);
    let packets = counters.get("PortXmitPkts").copied();
    packets.unwrap_or_else(|| panic!("{counters:?}"))
}

/// Waits until a host has sent so many packets more.
fn sends(fabric: &Fabric, host: &str, more: u64) {
    let before = sent(fabric, host);
    within(START, "packets are sent", || {
        match sent(fabric, host) - before {
            count if count >= more => Ok(()),
            count => Err(count.to_string()),
        }
    });
}

#[test]
fn programs_go_on_when_a_link_of_their_path_is_pulled() {
    let fabric = Fabric::up(Transport::Udp, "fat-tree-4-3", &[]);
    let hosts = ["h0.0.0", "h3.1.1"];
    // Its acknowledgements may be late by 4.096 us * 2^18, a second, seven times.
    let program = ["ib_write_bw", "-F", "-s", "4096", "-u", "18", "-D", "5"];
    let (mut server, mut client) = start_pair(&fabric, hosts, &program);
    sends(&fabric, hosts[1], 1000);
    // The leaf's cable that leads up on the path.
    let path = fabric.call(&["path", hosts[1], hosts[0]]).success().stdout;
    let leaf = path.lines().find(|line| line.contains("s2.3.1"));
    let port = leaf.and_then(|line| line.split_whitespace().last());
    let cable = format!("s2.3.1:{}", port.unwrap_or_else(|| panic!("{path}")));
    let _ = fabric.call(&["link", "down", &cable]).success();
    sends(&fabric, hosts[1], 1000);
    let _ = client.end().success();
    let _ = server.end().success();
    fabric.assert_no_errors_logged();
    fabric.down();
}

#[test]
fn a_program_whose_peer_s_host_is_killed_is_told_by_its_completion() {
    let fabric = Fabric::up(Transport::Udp, "star-2", &[]);
    let program = ["ib_write_bw", "-F", "-s", "4096", "-D", "60"];
    let (mut server, mut client) = start_pair(&fabric, ["h0", "h1"], &program);
    sends(&fabric, "h1", 1000);
    fabric.kill("h0");
    let told = client.end();
    assert_ne!(told.code, 0, "{told}");
    // IBV_WC_RETRY_EXC_ERR.
    assert!(format!("{told}").contains("status 12"), "{told}");
    server.kill();
    fabric.down();
}

#[test]
fn programs_that_are_killed_in_the_middle_of_transfers_disturb_no_others() {
    let fabric = Fabric::up(Transport::Udp, "star-2", &[]);
    for program in ["ib_write_bw", "ib_send_bw", "ib_read_bw"] {
        let program = [program, "-F", "-s", "100000", "-D", "60"];
        let (mut server, mut client) = start_pair(&fabric, ["h0", "h1"], &program);
        sends(&fabric, "h1", 100);
        client.kill();
        server.kill();
        let _ = (client.end(), server.end());
        let printed = pair(
            &fabric,
            ["h0", "h1"],
            &["ib_write_bw", "-F", "-u", "20", "-n", "50"],
        );
        assert!(printed.contains("BW average"), "{printed}");
    }
    fabric.assert_no_errors_logged();
    fabric.down();
}
