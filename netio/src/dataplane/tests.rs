mod shared;

use std::cell::Cell;
use std::collections::VecDeque;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use link::{Deadline, DeadlineCause, Device, FrameBuf, Input, PortSet, Time};
use wire::PortNum;
use wire::udplink::{LinkSecret, UdpEndpoint};

use super::*;
use crate::transport::{LinkCounter, LinkSpec, Medium, TunnelOptions};

/// An event of a toy.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    Carrier(bool),
    /// A record, and how many were in its frame.
    Record(Vec<u8>, usize),
    Tick,
}

/// A command to a toy.
#[derive(Debug)]
enum Ask {
    Send(Vec<u8>),
    TickIn(u64),
}

/// A device of one port that tells what comes, and sends what it is asked to, one length byte in
/// front of each record. One that echoes sends back instead of telling.
struct Toy {
    echoes: bool,
    waiting: VecDeque<Vec<u8>>,
    seen: VecDeque<Seen>,
    due: Option<Time>,
}

const PORT: PortNum = PortNum::new(1);

impl Toy {
    fn new(echoes: bool) -> Self {
        Self {
            echoes,
            waiting: VecDeque::new(),
            seen: VecDeque::new(),
            due: None,
        }
    }
}

impl Device for Toy {
    type Command = Ask;
    type Event = Seen;

    fn handle(&mut self, now: Time, input: Input<'_, Ask>) {
        match input {
            Input::Frame { mut bytes, .. } => {
                let mut records = Vec::new();
                while let Some((&length, rest)) = bytes.split_first() {
                    let (record, rest) = rest.split_at(usize::from(length));
                    records.push(record.to_vec());
                    bytes = rest;
                }
                let count = records.len();
                for record in records {
                    if self.echoes {
                        self.waiting.push_back(record);
                    } else {
                        self.seen.push_back(Seen::Record(record, count));
                    }
                }
            }
            Input::Carrier { up, .. } => self.seen.push_back(Seen::Carrier(up)),
            Input::Tick => {
                if self.due.take_if(|due| *due <= now).is_some() {
                    self.seen.push_back(Seen::Tick);
                }
            }
            Input::Command(Ask::Send(record)) => self.waiting.push_back(record),
            // What this shell hands in has bytes.
            Input::Handed { .. } | Input::Credits { .. } => {}
            Input::Command(Ask::TickIn(ns)) => self.due = Some(now + ns),
        }
    }

    fn ready(&self, _: Time) -> PortSet {
        self.waiting.front().map(|_| PORT).into_iter().collect()
    }

    fn transmit(&mut self, _: Time, _: PortNum, frame: &mut FrameBuf<'_>) -> usize {
        while let Some(record) = self.waiting.front() {
            let Some(room) = frame.push(record.len() + 1) else {
                break;
            };
            room[0] = u8::try_from(record.len()).unwrap();
            room[1..].copy_from_slice(record);
            self.waiting.pop_front();
        }
        frame.records()
    }

    fn poll_event(&mut self) -> Option<Seen> {
        self.seen.pop_front()
    }

    fn deadline(&self) -> Option<Deadline> {
        let at = self.due?;
        Some(Deadline {
            at,
            cause: DeadlineCause::Traffic,
        })
    }
}

fn open() -> Link {
    open_medium(Medium::Udp(SocketAddr::from(([127, 0, 0, 1], 0))))
}

fn open_medium(medium: Medium) -> Link {
    let spec = LinkSpec { port: PORT, medium };
    Link::open(&spec, TunnelOptions::default()).unwrap()
}

fn start(link: Link, echoes: bool, frame_packets: usize) -> Running<Ask, Seen> {
    let settings = Settings {
        name: "toy".to_owned(),
        frame_packets,
    };
    spawn(settings, vec![link], move || Toy::new(echoes)).unwrap()
}

async fn next(running: &mut Running<Ask, Seen>) -> Seen {
    tokio::time::timeout(Duration::from_secs(10), running.events.next())
        .await
        .expect("an event within ten seconds")
        .unwrap()
        .expect("the thread lives")
}

async fn stop(mut running: Running<Ask, Seen>) {
    running.handle.stop().unwrap();
    while tokio::time::timeout(Duration::from_secs(10), running.events.next())
        .await
        .expect("the thread ends")
        .unwrap()
        .is_some()
    {}
    running.thread.join().unwrap();
}

/// A sender and an echo, each knowing the other.
async fn pair(frame_packets: usize) -> (Running<Ask, Seen>, Running<Ask, Seen>) {
    let (one, other) = (open(), open());
    let (at_one, at_other) = (one.endpoint().unwrap(), other.endpoint().unwrap());
    let mut sender = start(one, false, frame_packets);
    let mut echo = start(other, true, frame_packets);
    echo.handle.connect(PORT, at_one).unwrap();
    assert_eq!(next(&mut echo).await, Seen::Carrier(true));
    sender.handle.connect(PORT, at_other).unwrap();
    assert_eq!(next(&mut sender).await, Seen::Carrier(true));
    (sender, echo)
}

#[tokio::test]
async fn records_come_back_in_order_from_an_echo_in_another_thread() {
    let (mut sender, echo) = pair(100).await;
    for number in 0..200u8 {
        sender.handle.command(Ask::Send(vec![number; 100])).unwrap();
    }
    for number in 0..200u8 {
        let Seen::Record(record, _) = next(&mut sender).await else {
            panic!("something else than a record");
        };
        assert_eq!(record, vec![number; 100]);
    }
    stop(sender).await;
    stop(echo).await;
}

#[tokio::test]
async fn a_frame_holds_no_more_records_than_allowed() {
    let (mut sender, echo) = pair(1).await;
    for number in 0..50u8 {
        sender.handle.command(Ask::Send(vec![number])).unwrap();
    }
    for number in 0..50u8 {
        assert_eq!(next(&mut sender).await, Seen::Record(vec![number], 1));
    }
    stop(sender).await;
    stop(echo).await;
}

#[tokio::test]
async fn a_deadline_is_kept_without_any_input() {
    let mut running = start(open(), false, 1);
    running.handle.command(Ask::TickIn(2_000_000)).unwrap();
    assert_eq!(next(&mut running).await, Seen::Tick);
    stop(running).await;
}

/// A plain socket as the end of a link.
fn end_of(socket: &UdpSocket) -> UdpEndpoint {
    UdpEndpoint {
        address: socket.local_addr().unwrap(),
        secret: LinkSecret(1),
        epoch: 2,
    }
}

#[tokio::test]
async fn datagrams_of_foreign_senders_are_never_handed_in() {
    let link = open();
    let counters = Arc::clone(link.counters());
    let at = link.endpoint().unwrap().address;
    let mut running = start(link, false, 1);
    let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    running.handle.connect(PORT, end_of(&peer)).unwrap();
    assert_eq!(next(&mut running).await, Seen::Carrier(true));
    stranger
        .send_to(&[1, 0, 0, 0, 0, 0, 0, 0, 1, 7], at)
        .unwrap();
    // The peer itself, without a link header that makes sense.
    peer.send_to(&[0xff; 20], at).unwrap();
    running.handle.command(Ask::TickIn(1)).unwrap();
    assert_eq!(next(&mut running).await, Seen::Tick, "no record before it");
    stop(running).await;
    assert_eq!(counters.get(LinkCounter::Foreign), 1);
    assert_eq!(counters.get(LinkCounter::FramesReceived), 1);
}

#[tokio::test]
async fn an_absent_peer_is_counted_and_not_fatal() {
    let gone = UdpSocket::bind("127.0.0.1:0").unwrap();
    let end = end_of(&gone);
    drop(gone);
    let link = open();
    let counters = Arc::clone(link.counters());
    let mut running = start(link, false, 1);
    running.handle.connect(PORT, end).unwrap();
    assert_eq!(next(&mut running).await, Seen::Carrier(true));
    for _ in 0..4 {
        running.handle.command(Ask::Send(vec![1])).unwrap();
        running.handle.command(Ask::TickIn(1)).unwrap();
        assert_eq!(next(&mut running).await, Seen::Tick);
    }
    stop(running).await;
    assert!(counters.get(LinkCounter::PeerAbsent) > 0);
}

/// A device with memory that it shares with others. It tells how often it has looked into it in vain when it finds something.
struct Sharing {
    /// Something is put in when the device is about to sleep for the so manieth time from now on.
    comes_after: Cell<Option<u32>>,
    has_come: Cell<bool>,
    /// Others keep it awake, though they put nothing in.
    is_lied_to: bool,
    looks: Arc<AtomicU64>,
    found: bool,
}

impl Device for Sharing {
    type Command = ();
    type Event = ();

    fn handle(&mut self, _: Time, _: Input<'_, ()>) {}

    fn ready(&self, _: Time) -> PortSet {
        PortSet::EMPTY
    }

    fn transmit(&mut self, _: Time, _: PortNum, _: &mut FrameBuf<'_>) -> usize {
        0
    }

    fn poll_event(&mut self) -> Option<()> {
        std::mem::take(&mut self.found).then_some(())
    }

    fn deadline(&self) -> Option<Deadline> {
        None
    }

    fn look(&mut self, _: Time) -> bool {
        self.looks.fetch_add(1, Ordering::SeqCst);
        self.found = self.has_come.take();
        self.found
    }

    fn may_sleep(&self) -> bool {
        let left = self.comes_after.get().and_then(|left| left.checked_sub(1));
        self.comes_after.set(left);
        self.has_come.set(self.has_come.get() || left == Some(0));
        !self.has_come.get() && !self.is_lied_to
    }
}

fn start_sharing(comes_after: Option<u32>, is_lied_to: bool) -> (Running<(), ()>, Arc<AtomicU64>) {
    let looks = Arc::new(AtomicU64::new(0));
    let settings = Settings {
        name: "sharing".to_owned(),
        frame_packets: 1,
    };
    let device = Sharing {
        comes_after: Cell::new(comes_after),
        has_come: Cell::new(false),
        is_lied_to,
        looks: Arc::clone(&looks),
        found: false,
    };
    (spawn(settings, Vec::new(), move || device).unwrap(), looks)
}

#[tokio::test]
async fn what_is_put_into_shared_memory_while_the_thread_falls_asleep_is_found() {
    let (mut running, _) = start_sharing(Some(1), false);
    let found = tokio::time::timeout(Duration::from_secs(10), running.events.next()).await;
    assert_eq!(found.expect("no other input wakes it").unwrap(), Some(()));
    running.handle.stop().unwrap();
    running.thread.join().unwrap();
}

#[tokio::test]
async fn a_thread_that_is_kept_awake_for_nothing_pauses() {
    let began = std::time::Instant::now();
    let (running, looks) = start_sharing(None, true);
    while looks.load(Ordering::SeqCst) < 200 {
        tokio::task::yield_now().await;
    }
    let counted = u128::from(looks.load(Ordering::SeqCst));
    let most = began.elapsed().as_nanos() / u128::from(shell::PAUSE_NS) + 4;
    running.handle.stop().unwrap();
    running.thread.join().unwrap();
    assert!(counted <= most, "{counted} looks, {most} pauses");
}
