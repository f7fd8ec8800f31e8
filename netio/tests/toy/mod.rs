//! What tests of links between namespaces have in common: namespaces that go with the test, and a device of one port
//! at an end of a link.

use std::collections::VecDeque;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use link::{Deadline, Device, FrameBuf, Input, PortSet, Time};
use netio::dataplane::{self, Running, Settings};
use netio::namespace::Namespace;
use netio::transport::{Link, LinkCounters};
use wire::PortNum;

pub(crate) const PORT: PortNum = PortNum::new(1);

/// How long anything may take on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// Namespaces that go when this goes.
pub(crate) struct Namespaces<const N: usize>(pub(crate) [Namespace; N]);

impl<const N: usize> Namespaces<N> {
    /// One of each name, which has the test's and this process's.
    pub(crate) fn new(test: &str, names: [&str; N]) -> Self {
        assert_eq!(
            netio::process::effective_uid(),
            0,
            "this test makes network namespaces and must run as root"
        );
        let process = std::process::id();
        let full = names.map(|name| format!("netio-{test}-{process}-{name}"));
        Self(full.map(|name| Namespace::create(&name).unwrap()))
    }
}

impl<const N: usize> Drop for Namespaces<N> {
    fn drop(&mut self) {
        for namespace in &self.0 {
            let _ = Namespace::delete(namespace.name());
        }
    }
}

/// A veth pair of this MTU: an interface in one namespace, its peer in another, both up.
pub(crate) fn veth(mtu: &str, end: [&str; 2], peer: [&str; 2]) {
    let ([at, interface], [there, other]) = (end, peer);
    ip(&[
        "link", "add", interface, "mtu", mtu, "netns", at, "type", "veth", "peer", "name", other,
        "mtu", mtu, "netns", there,
    ]);
    for [namespace, interface] in [end, peer] {
        ip(&["-n", namespace, "link", "set", interface, "up"]);
    }
}

pub(crate) fn ip(arguments: &[&str]) {
    let output = Command::new("ip").args(arguments).output().unwrap();
    assert!(output.status.success(), "ip {arguments:?}: {output:?}");
}

/// A device of one port that sends what it is given, as much at a time as a frame takes, and tells of carriers and of frames that come.
#[derive(Default)]
struct Toy {
    waiting: VecDeque<Vec<u8>>,
    events: VecDeque<Event>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Carrier(bool),
    Frame(Vec<u8>),
}

impl Device for Toy {
    type Command = Vec<Vec<u8>>;
    type Event = Event;

    fn handle(&mut self, _: Time, input: Input<'_, Self::Command>) {
        match input {
            Input::Frame { bytes, .. } => self.events.push_back(Event::Frame(bytes.to_vec())),
            Input::Carrier { up, .. } => self.events.push_back(Event::Carrier(up)),
            Input::Command(parts) => self.waiting.extend(parts),
            // What this shell hands in has bytes.
            Input::Handed { .. } | Input::Credits { .. } | Input::Tick => {}
        }
    }

    fn ready(&self, _: Time) -> PortSet {
        self.waiting.front().map(|_| PORT).into_iter().collect()
    }

    fn transmit(&mut self, _: Time, _: PortNum, frame: &mut FrameBuf<'_>) -> usize {
        let mut count = 0;
        while let Some(part) = self.waiting.front()
            && let Some(room) = frame.push(part.len())
        {
            room.copy_from_slice(part);
            self.waiting.pop_front();
            count += 1;
        }
        count
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn deadline(&self) -> Option<Deadline> {
        None
    }
}

/// The device at one end of a link.
pub(crate) struct End {
    pub(crate) running: Running<Vec<Vec<u8>>, Event>,
    pub(crate) counters: Arc<LinkCounters>,
}

impl End {
    /// Opens a link and starts the device in a namespace: sockets belong to the one that they were opened in. Also what `look`
    /// sees of the link.
    pub(crate) fn start<T: Send>(
        namespace: &Namespace,
        open: impl FnOnce() -> Link + Send,
        look: impl FnOnce(&Link) -> T + Send,
    ) -> (Self, T) {
        let settings = Settings {
            name: "toy".to_owned(),
            frame_packets: usize::from(u16::MAX),
        };
        let runtime = tokio::runtime::Handle::current();
        let started = namespace.run(move || {
            let _guard = runtime.enter();
            let link = open();
            let (counters, seen) = (Arc::clone(link.counters()), look(&link));
            let running = dataplane::spawn(settings, vec![link], Toy::default).unwrap();
            (Self { running, counters }, seen)
        });
        started.unwrap()
    }

    pub(crate) async fn next(&mut self) -> Event {
        tokio::time::timeout(LIMIT, self.running.events.next())
            .await
            .expect("an event in time")
            .unwrap()
            .expect("the thread lives")
    }

    pub(crate) fn send(&self, parts: &[Vec<u8>]) {
        self.running.handle.command(parts.to_vec()).unwrap();
    }

    pub(crate) async fn stop(mut self) {
        self.running.handle.stop().unwrap();
        while self.running.events.next().await.unwrap().is_some() {}
        self.running.thread.join().unwrap();
    }
}
