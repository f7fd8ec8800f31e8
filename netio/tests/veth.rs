//! Links over veth pairs, in namespaces that each test makes for itself. These tests need root.

#![expect(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

mod toy;

use std::process::Command;

use netio::namespace::{Namespace, View};
use netio::transport::{Link, LinkCounter, LinkSpec, Medium, TunnelOptions};

use toy::{End, Event, Namespaces, PORT, ip, veth};

/// Two namespaces, and a veth pair between them.
fn pair(test: &str) -> Namespaces<2> {
    let both = Namespaces::new(test, ["a", "b"]);
    connect(&both);
    both
}

/// The pair, `p1` at both ends.
fn connect(both: &Namespaces<2>) {
    let [a, b] = both.0.each_ref().map(|namespace| [namespace.name(), "p1"]);
    veth("65535", a, b);
}

fn start(namespace: &Namespace) -> End {
    let spec = LinkSpec {
        port: PORT,
        medium: Medium::Veth("p1".to_owned()),
    };
    let open = || Link::open(&spec, TunnelOptions::default()).unwrap();
    End::start(namespace, open, |_| ()).0
}

fn frame(bytes: &[u8]) -> [Vec<u8>; 1] {
    [bytes.to_vec()]
}

/// Waits for an event, which must be this one.
async fn next_is(end: &mut End, event: Event) {
    assert_eq!(end.next().await, event);
}

#[tokio::test]
async fn frames_of_all_sizes_cross_a_veth_pair_both_ways() {
    let namespaces = pair("cross");
    let (mut a, mut b) = (start(&namespaces.0[0]), start(&namespaces.0[1]));
    next_is(&mut a, Event::Carrier(true)).await;
    next_is(&mut b, Event::Carrier(true)).await;
    for length in [1, 46, 290, 1500, 9000, 31_000] {
        a.send(&frame(&vec![0xa5; length]));
        next_is(&mut b, Event::Frame(vec![0xa5; length])).await;
        b.send(&frame(&vec![0x5a; length]));
        next_is(&mut a, Event::Frame(vec![0x5a; length])).await;
    }
    a.stop().await;
    b.stop().await;
}

#[tokio::test]
async fn setting_one_end_down_takes_the_carrier_from_both_and_up_brings_it_back() {
    let namespaces = pair("down");
    let (mut a, mut b) = (start(&namespaces.0[0]), start(&namespaces.0[1]));
    next_is(&mut a, Event::Carrier(true)).await;
    next_is(&mut b, Event::Carrier(true)).await;
    let name = namespaces.0[0].name();
    ip(&["-n", name, "link", "set", "p1", "down"]);
    next_is(&mut a, Event::Carrier(false)).await;
    next_is(&mut b, Event::Carrier(false)).await;
    ip(&["-n", name, "link", "set", "p1", "up"]);
    next_is(&mut a, Event::Carrier(true)).await;
    next_is(&mut b, Event::Carrier(true)).await;
    a.send(&frame(b"back"));
    next_is(&mut b, Event::Frame(b"back".to_vec())).await;
    a.stop().await;
    b.stop().await;
}

#[tokio::test]
async fn a_deleted_interface_is_bound_again_when_one_of_its_name_returns() {
    let namespaces = pair("delete");
    let (mut a, mut b) = (start(&namespaces.0[0]), start(&namespaces.0[1]));
    next_is(&mut a, Event::Carrier(true)).await;
    next_is(&mut b, Event::Carrier(true)).await;
    ip(&["-n", namespaces.0[0].name(), "link", "delete", "p1"]);
    next_is(&mut a, Event::Carrier(false)).await;
    next_is(&mut b, Event::Carrier(false)).await;
    // To nowhere: counted, and not kept for the new cable.
    a.send(&frame(b"lost"));
    connect(&namespaces);
    next_is(&mut a, Event::Carrier(true)).await;
    next_is(&mut b, Event::Carrier(true)).await;
    a.send(&frame(b"again"));
    next_is(&mut b, Event::Frame(b"again".to_vec())).await;
    assert_eq!(a.counters.get(LinkCounter::SendFailed), 1);
    a.stop().await;
    b.stop().await;
}

#[tokio::test]
async fn an_interface_that_is_not_there_yet_is_waited_for() {
    let namespaces = pair("wait");
    ip(&["-n", namespaces.0[0].name(), "link", "delete", "p1"]);
    let mut a = start(&namespaces.0[0]);
    connect(&namespaces);
    next_is(&mut a, Event::Carrier(true)).await;
    a.stop().await;
}

#[test]
fn a_namespace_is_made_listed_entered_and_deleted() {
    let namespaces = pair("life");
    let first = &namespaces.0[0];
    let listed = Namespace::list().unwrap();
    assert!(listed.iter().any(|name| name == first.name()), "{listed:?}");
    let again = Namespace::create(first.name()).unwrap_err();
    assert!(again.to_string().contains("stands already"), "{again}");

    let interfaces = |command: &mut Command| {
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let mut command = Command::new("ls");
    command.arg("/sys/class/net");
    first.join_command_with_sysfs(&mut command, View::default());
    assert_eq!(interfaces(&mut command), "lo\np1\n");
    let mut command = Command::new("ip");
    command.args(["-o", "link", "show", "p1"]);
    first.join_command(&mut command);
    assert!(interfaces(&mut command).contains("mtu 65535"));
    let inside = first.run(|| std::fs::read_to_string("/proc/thread-self/net/dev"));
    assert!(inside.unwrap().unwrap().contains("p1:"));

    Namespace::delete(first.name()).unwrap();
    Namespace::delete(first.name()).unwrap();
    assert!(Namespace::open(first.name()).is_err());
}
