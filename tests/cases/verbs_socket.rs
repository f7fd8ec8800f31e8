//! The verbs socket of a host: programs' queue pairs, with their memory and rings, and those that lie.

mod hostile;
mod library;

use std::io::Read as _;
use std::path::PathBuf;

use e2e::{Fabric, Outcome, Transport, ibemu_command};
use uverbs::entry::{Data, opcode};
use uverbs::ring::Arming;
use uverbs::{AsyncEvent, Reply, Request, errno};

use library::{CompletionQueue, Library, QueuePair, request};

const SUCCESS: u32 = 0;
const RETRY_EXCEEDED: u32 = 12;

fn socket(fabric: &Fabric, host: &str) -> PathBuf {
    fabric.dir().join(format!("{host}.verbs"))
}

/// A program's end of a connection.
struct End {
    library: Library,
    cq: CompletionQueue,
    qp: QueuePair,
}

impl End {
    fn open(fabric: &Fabric, host: &str) -> Self {
        let library = Library::open(&socket(fabric, host));
        let cq = library.cq(64, None, 1);
        let qp = library.qp(&cq, 2);
        Self { library, cq, qp }
    }

    fn connect(&self, other: &Self, timeout: u8) {
        let lid = other.library.device.port.lid;
        let (own, peer) = (self.qp.qpn, other.qp.qpn);
        self.library.connect(own, lid, peer, timeout);
    }

    /// An operation on the peer's memory, done.
    fn remote(&mut self, peer: &Self, opcode: u8, words: (u64, u32), at: u64, add: u64) {
        let data = Data::Pieces(vec![self.library.piece(words.0, words.1)]);
        let mut send = request(7, opcode, data);
        send.remote_address = peer.library.memory.address() + at * 8;
        send.rkey = peer.library.key;
        send.compare_add = add;
        self.library.send(&mut self.qp.sends, &send);
        let done = self.cq.next();
        assert_eq!((done.wr_id, done.status, done.retired), (7, SUCCESS, 1));
    }
}

fn pair(fabric: &Fabric, timeout: u8) -> [End; 2] {
    let ends = ["h0", "h1"].map(|host| End::open(fabric, host));
    ends[0].connect(&ends[1], timeout);
    ends[1].connect(&ends[0], timeout);
    ends
}

/// Messages, WRITE, READ and atomics between two programs, whose memory is that of this process.
fn work(fabric: &Fabric) {
    let [mut a, mut b] = pair(fabric, 20);
    for round in 0..100u64 {
        a.library.memory.set(0, round);
        let place = b.library.piece(100 + round, 1);
        b.library.receive(&mut b.qp.receives, round, place);
        let data = Data::Pieces(vec![a.library.piece(0, 1)]);
        let send = request(round, opcode::SEND, data);
        a.library.send(&mut a.qp.sends, &send);
        assert_eq!((a.cq.next().wr_id, b.cq.next().wr_id), (round, round));
        assert_eq!(
            b.library
                .memory
                .get(100 + usize::try_from(round).expect("a small number")),
            round
        );
    }
    for word in 0..8192 {
        a.library.memory.set(word, word as u64 * 3);
    }
    a.remote(&b, opcode::RDMA_WRITE, (0, 8192), 4096, 0);
    assert!((0..8192).all(|word| b.library.memory.get(4096 + word) == word as u64 * 3));
    a.remote(&b, opcode::RDMA_READ, (20_000, 4096), 4097, 0);
    assert!((0..4096).all(|word| a.library.memory.get(20_000 + word) == (word as u64 + 1) * 3));
    b.library.memory.set(1, 40);
    a.remote(&b, opcode::ATOMIC_FETCH_AND_ADD, (9, 1), 1, 2);
    assert_eq!((a.library.memory.get(9), b.library.memory.get(1)), (40, 42));
}

#[test]
fn programs_reach_each_other_s_memory_and_the_hosts_replay_to_the_same_bytes() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().join("recordings");
    let record = ["--record", folder.to_str().expect("UTF-8")];
    let fabric = Fabric::up(Transport::Udp, "star-2", &record);
    work(&fabric);
    fabric.assert_no_errors_logged();
    fabric.down();
    for host in ["h0", "h1"] {
        let mut replay = ibemu_command(&["sim", "replay"]);
        replay.arg(folder.join(format!("{host}.rec")));
        let outcome = Outcome::of(&mut replay).success();
        let same = outcome.stdout.contains("the same to the last byte");
        assert!(same, "{outcome}");
    }
}

#[test]
fn a_channel_tells_once_for_each_arming() {
    let fabric = Fabric::up(Transport::Udp, "star-2", &[]);
    let [mut a, b] = pair(&fabric, 20);
    let (channel, mut events) = b.library.channel();
    let mut cq = b.library.cq(64, Some(channel), 0xc00c1e);
    let mut qp = b.library.qp(&cq, 3);
    let lid = a.library.device.port.lid;
    a.qp = a.library.qp(&a.cq, 4);
    b.library.connect(qp.qpn, lid, a.qp.qpn, 20);
    let lid = b.library.device.port.lid;
    a.library.connect(a.qp.qpn, lid, qp.qpn, 20);
    for round in 0..20 {
        for _ in 0..2 {
            b.library
                .receive(&mut qp.receives, round, b.library.piece(0, 1));
        }
        cq.consumer.arm(cq.memory.words(), Arming::Next);
        for _ in 0..2 {
            let send = request(round, opcode::SEND, Data::Inline(vec![1]));
            a.library.send(&mut a.qp.sends, &send);
            assert_eq!(a.cq.next().status, SUCCESS);
        }
        let mut cookie = [0; 8];
        events.read_exact(&mut cookie).expect("an event");
        assert_eq!(u64::from_ne_bytes(cookie), 0xc00c1e);
        assert_eq!((cq.next().wr_id, cq.next().wr_id), (round, round));
    }
    let handle = cq.handle;
    let destroy = Request::DestroyChannel { channel };
    let in_use = b.library.ask(&destroy).0;
    assert!(matches!(in_use, Reply::Refused { errno, .. } if errno == errno::EBUSY));
    b.library.done(&Request::DestroyQp { qpn: qp.qpn });
    b.library.done(&Request::DestroyCq { cq: handle });
    b.library.done(&destroy);
    // With the channel went its only writer: no event more has been there.
    assert_eq!(events.read(&mut [0; 8]).expect("the end"), 0);
    fabric.down();
}

#[test]
fn a_program_that_ends_leaves_nothing_and_its_peer_is_told_by_its_completion() {
    let fabric = Fabric::up(Transport::Udp, "star-2", &[]);
    let [mut a, b] = pair(&fabric, 8);
    drop(b);
    let send = request(1, opcode::SEND, Data::Inline(vec![1]));
    a.library.send(&mut a.qp.sends, &send);
    let done = a.cq.next();
    assert_eq!((done.wr_id, done.status), (1, RETRY_EXCEEDED));
    // Many come and go, each with as much as it may have of something.
    for _ in 0..3 {
        let library = Library::open(&socket(&fabric, "h1"));
        let cq = library.cq(64, None, 0);
        let qps: Vec<QueuePair> = (0..1000).map(|cookie| library.qp(&cq, cookie)).collect();
        assert_eq!(qps.len(), 1000);
        let keys = (0..10_000).map(|_| library.handle(&library.region()));
        assert_eq!(keys.count(), 10_000);
    }
    work(&fabric);
    fabric.assert_no_errors_logged();
    fabric.down();
}

/// As many as a large program has.
const MANY_PAIRS: usize = 1000;
const MANY_REGIONS: usize = 10_000;

#[test]
fn a_thousand_queue_pairs_and_ten_thousand_regions_serve_and_go_with_their_program() {
    let fabric = Fabric::up(Transport::Udp, "star-2", &[]);
    for round in 0..2 {
        let [mut a, mut b] = pair(&fabric, 20);
        let [many_a, many_b] = [&a, &b].map(|end| end.library.cq(2048, None, 3));
        let (mut cqs, mut pairs) = ([many_a, many_b], Vec::new());
        for _ in 0..MANY_PAIRS {
            let own = a.library.qp(&cqs[0], 4);
            let other = b.library.qp(&cqs[1], 4);
            let lids = [&a, &b].map(|end| end.library.device.port.lid);
            a.library.connect(own.qpn, lids[1], other.qpn, 20);
            b.library.connect(other.qpn, lids[0], own.qpn, 20);
            pairs.push((own, other));
        }
        for (number, (own, other)) in (0..).zip(&mut pairs) {
            let place = b.library.piece(number, 1);
            b.library.receive(&mut other.receives, number, place);
            let data = Data::Pieces(vec![a.library.piece(number, 1)]);
            a.library
                .memory
                .set(usize::try_from(number).expect("a small number"), number * 7);
            a.library
                .send(&mut own.sends, &request(number, opcode::SEND, data));
        }
        let mut came: Vec<u64> = pairs.iter().map(|_| cqs[1].next().wr_id).collect();
        came.sort_unstable();
        assert_eq!(came, (0..MANY_PAIRS as u64).collect::<Vec<_>>());
        assert!((0..MANY_PAIRS).all(|word| b.library.memory.get(word) == word as u64 * 7));
        for _ in &pairs {
            assert_eq!(cqs[0].next().status, SUCCESS);
        }
        let keys: Vec<u32> = (0..MANY_REGIONS)
            .map(|_| b.library.handle(&b.library.region()))
            .collect();
        b.library.key = keys[MANY_REGIONS / 2];
        a.library.memory.set(5, 77 + round);
        a.remote(&b, opcode::RDMA_WRITE, (5, 1), 9000, 0);
        assert_eq!(b.library.memory.get(9000), 77 + round);
        b.library.done(&Request::DeregMr { key: keys[0] });
        // The rest goes with the two programs' connections; each context has its limits anew.
    }
    fabric.assert_no_errors_logged();
    fabric.down();
}

#[test]
fn a_completion_queue_without_room_is_in_error_and_its_queue_pairs_with_it() {
    let fabric = Fabric::up(Transport::Udp, "star-2", &[]);
    let [mut a, b] = pair(&fabric, 20);
    let mut small = a.library.cq(4, None, 0x5a11);
    let mut qp = a.library.qp(&small, 0xbad);
    let lid = b.library.device.port.lid;
    a.library.connect(qp.qpn, lid, b.qp.qpn, 20);
    a.qp.qpn = qp.qpn;
    for wr_id in 0..5 {
        let mut write = request(wr_id, opcode::RDMA_WRITE, Data::Inline(vec![1; 8]));
        (write.remote_address, write.rkey) = (b.library.memory.address(), b.library.key);
        // Its peer is connected to another queue pair: no answer, until it is reset.
        a.library.send(&mut qp.sends, &write);
    }
    // All are flushed at once.
    a.library.done(&Request::ModifyQp {
        qpn: qp.qpn,
        mask: uverbs::attribute::STATE,
        attributes: Box::new(uverbs::QpAttributes {
            qp_state: 6,
            ..uverbs::QpAttributes::default()
        }),
    });
    let mut events = Vec::new();
    while events.len() < 2 {
        let mut bytes = [0; AsyncEvent::BYTES];
        a.library.events.read_exact(&mut bytes).expect("an event");
        let event = AsyncEvent::parse(&bytes);
        if event.port == 0 {
            events.push((event.kind, event.cookie));
        }
    }
    assert_eq!(events, [(0, 0x5a11), (1, 0xbad)]);
    let flushed = (0..4).map(|_| small.next().wr_id);
    assert_eq!(flushed.collect::<Vec<u64>>(), [0, 1, 2, 3]);
    assert!(small.poll().is_none());
    fabric.down();
}
