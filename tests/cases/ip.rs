//! Internet addresses and names of hosts.

use e2e::{Fabric, Transport};

#[test]
fn a_program_finds_every_host_by_its_name() {
    let system = std::fs::read_to_string("/etc/hosts").expect("/etc/hosts");
    for (transport, own, other) in [
        (Transport::Udp, "127.73.0.1", "127.73.0.2"),
        (Transport::Veth, "10.73.0.1", "fd73::2"),
    ] {
        let fabric = Fabric::up(transport, "star-2", &[]);
        let exec = |command: &[&str]| {
            let call = [&["exec", "h0"], command].concat();
            fabric.call(&call).success().stdout
        };
        let found = exec(&["getent", "hosts", "h1"]);
        assert!(found.starts_with(other), "{found}");
        assert_eq!(exec(&["printenv", "IBEMU_ADDRESS"]).trim(), own);
        let hosts = exec(&["cat", "/etc/hosts"]);
        assert!(
            hosts.starts_with(&system),
            "the system's own names stay: {hosts}"
        );
        fabric.down();
    }
    let after = std::fs::read_to_string("/etc/hosts").expect("/etc/hosts");
    assert_eq!(after, system, "the system's file is as it was");
}

#[test]
fn a_fabric_without_addresses_leaves_names_as_they_are() {
    let system = std::fs::read_to_string("/etc/hosts").expect("/etc/hosts");
    let fabric = Fabric::up(Transport::Udp, "star-2", &["--no-ip"]);
    let hosts = fabric.call(&["exec", "h0", "cat", "/etc/hosts"]).success();
    assert_eq!(hosts.stdout, system);
    let told = fabric.call(&["exec", "h0", "printenv", "IBEMU_ADDRESS"]);
    assert_eq!(told.code, 1, "{told}");
    fabric.down();
}
