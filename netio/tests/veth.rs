//! Links over veth pairs, in namespaces that each test makes for itself. These tests need root.

#![expect(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

use std::collections::VecDeque;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use link::{Deadline, Device, FrameBuf, Input, PortSet, Time};
use netio::dataplane::{self, Running, Settings};
use netio::namespace::{Namespace, View};
use netio::transport::{Link, LinkCounter, LinkCounters, LinkSpec, Medium, TunnelOptions};
use wire::PortNum;

const PORT: PortNum = PortNum::new(1);

/// A device of one port that tells of carriers and frames, and sends one frame a command.
#[derive(Default)]
struct Toy {
    waiting: VecDeque<Vec<u8>>,
    events: VecDeque<Event>,
}

#[derive(Debug, PartialEq, Eq)]
enum Event {
    Carrier(bool),
    Frame(Vec<u8>),
}

impl Device for Toy {
    type Command = Vec<u8>;
    type Event = Event;

    fn handle(&mut self, _: Time, input: Input<'_, Vec<u8>>) {
        match input {
            Input::Frame { bytes, .. } => self.events.push_back(Event::Frame(bytes.to_vec())),
            Input::Carrier { up, .. } => self.events.push_back(Event::Carrier(up)),
            Input::Command(frame) => self.waiting.push_back(frame),
            // What this shell hands in has bytes.
            Input::Handed { .. } | Input::Credits { .. } | Input::Tick => {}
        }
    }

    fn ready(&self, _: Time) -> PortSet {
        self.waiting.front().map(|_| PORT).into_iter().collect()
    }

    fn transmit(&mut self, _: Time, _: PortNum, frame: &mut FrameBuf<'_>) -> usize {
        let Some(waiting) = self.waiting.pop_front() else {
            return 0;
        };
        frame
            .push(waiting.len())
            .expect("test frames fit")
            .copy_from_slice(&waiting);
        1
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn deadline(&self) -> Option<Deadline> {
        None
    }
}

/// Two namespaces that go when this goes.
struct Namespaces([Namespace; 2]);

impl Namespaces {
    fn new(test: &str) -> Self {
        assert_eq!(
            netio::process::effective_uid(),
            0,
            "this test makes network namespaces and must run as root"
        );
        let names = ["a", "b"].map(|end| format!("netio-{test}-{}-{end}", std::process::id()));
        let both = Self(names.map(|name| Namespace::create(&name).unwrap()));
        both.connect();
        both
    }

    /// A veth pair between the two, `p1` at both ends, both up.
    fn connect(&self) {
        let [a, b] = [self.0[0].name(), self.0[1].name()];
        let pair = [
            "link", "add", "p1", "mtu", "65535", "netns", a, "type", "veth", "peer", "name", "p1",
            "mtu", "65535", "netns", b,
        ];
        ip(&pair);
        for name in [a, b] {
            ip(&["-n", name, "link", "set", "p1", "up"]);
        }
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for namespace in &self.0 {
            let _ = Namespace::delete(namespace.name());
        }
    }
}

fn ip(arguments: &[&str]) {
    let output = Command::new("ip").args(arguments).output().unwrap();
    assert!(output.status.success(), "ip {arguments:?}: {output:?}");
}

struct End {
    running: Running<Vec<u8>, Event>,
    counters: Arc<LinkCounters>,
}

impl End {
    fn start(namespace: &Namespace) -> Self {
        let spec = LinkSpec {
            port: PORT,
            medium: Medium::Veth("p1".to_owned()),
        };
        let settings = Settings {
            name: "toy".to_owned(),
            frame_packets: 64,
        };
        // Sockets belong to the namespace that they were opened in; so opens the carrier's.
        let runtime = tokio::runtime::Handle::current();
        let (running, counters) = namespace
            .run(move || {
                let _guard = runtime.enter();
                let link = Link::open(&spec, TunnelOptions::default()).unwrap();
                let counters = Arc::clone(link.counters());
                let running = dataplane::spawn(settings, vec![link], Toy::default).unwrap();
                (running, counters)
            })
            .unwrap();
        Self { running, counters }
    }

    async fn next(&mut self) -> Event {
        tokio::time::timeout(Duration::from_secs(10), self.running.events.next())
            .await
            .expect("an event within ten seconds")
            .unwrap()
            .expect("the thread lives")
    }

    async fn next_is(&mut self, events: Event) {
        assert_eq!(self.next().await, events);
    }

    fn send(&self, frame: &[u8]) {
        self.running.handle.command(frame.to_vec()).unwrap();
    }

    async fn stop(mut self) {
        self.running.handle.stop().unwrap();
        while self.running.events.next().await.unwrap().is_some() {}
        self.running.thread.join().unwrap();
    }
}

#[tokio::test]
async fn frames_of_all_sizes_cross_a_veth_pair_both_ways() {
    let namespaces = Namespaces::new("cross");
    let (mut a, mut b) = (End::start(&namespaces.0[0]), End::start(&namespaces.0[1]));
    a.next_is(Event::Carrier(true)).await;
    b.next_is(Event::Carrier(true)).await;
    for length in [1, 46, 290, 1500, 9000, 31_000] {
        a.send(&vec![0xa5; length]);
        b.next_is(Event::Frame(vec![0xa5; length])).await;
        b.send(&vec![0x5a; length]);
        a.next_is(Event::Frame(vec![0x5a; length])).await;
    }
    a.stop().await;
    b.stop().await;
}

#[tokio::test]
async fn setting_one_end_down_takes_the_carrier_from_both_and_up_brings_it_back() {
    let namespaces = Namespaces::new("down");
    let (mut a, mut b) = (End::start(&namespaces.0[0]), End::start(&namespaces.0[1]));
    a.next_is(Event::Carrier(true)).await;
    b.next_is(Event::Carrier(true)).await;
    let name = namespaces.0[0].name();
    ip(&["-n", name, "link", "set", "p1", "down"]);
    a.next_is(Event::Carrier(false)).await;
    b.next_is(Event::Carrier(false)).await;
    ip(&["-n", name, "link", "set", "p1", "up"]);
    a.next_is(Event::Carrier(true)).await;
    b.next_is(Event::Carrier(true)).await;
    a.send(b"back");
    b.next_is(Event::Frame(b"back".to_vec())).await;
    a.stop().await;
    b.stop().await;
}

#[tokio::test]
async fn a_deleted_interface_is_bound_again_when_one_of_its_name_returns() {
    let namespaces = Namespaces::new("delete");
    let (mut a, mut b) = (End::start(&namespaces.0[0]), End::start(&namespaces.0[1]));
    a.next_is(Event::Carrier(true)).await;
    b.next_is(Event::Carrier(true)).await;
    ip(&["-n", namespaces.0[0].name(), "link", "delete", "p1"]);
    a.next_is(Event::Carrier(false)).await;
    b.next_is(Event::Carrier(false)).await;
    // To nowhere: counted, and not kept for the new cable.
    a.send(b"lost");
    namespaces.connect();
    a.next_is(Event::Carrier(true)).await;
    b.next_is(Event::Carrier(true)).await;
    a.send(b"again");
    b.next_is(Event::Frame(b"again".to_vec())).await;
    assert_eq!(a.counters.get(LinkCounter::SendFailed), 1);
    a.stop().await;
    b.stop().await;
}

#[tokio::test]
async fn an_interface_that_is_not_there_yet_is_waited_for() {
    let namespaces = Namespaces::new("wait");
    ip(&["-n", namespaces.0[0].name(), "link", "delete", "p1"]);
    let mut a = End::start(&namespaces.0[0]);
    namespaces.connect();
    a.next_is(Event::Carrier(true)).await;
    a.stop().await;
}

#[test]
fn a_namespace_is_made_listed_entered_and_deleted() {
    let namespaces = Namespaces::new("life");
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
