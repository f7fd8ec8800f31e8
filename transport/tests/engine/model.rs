//! Random work on both sides of a connection, through a channel that loses, repeats, delays and reorders, against
//! a model of what must come of it.

mod expected;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use link::Time;
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use transport::{Data, Remote, SendOperation, Status, WorkKind};
use wire::{Mtu, Service};

use crate::bed::{BASE, Pair, Setting, Side, pattern, request};
use expected::{Expected, Model};

/// What of a side's memory is what.
const SOURCE: usize = 0;
const TARGET: usize = 0x8000;
const RECEIVED: usize = 0x10000;
const LANDING: usize = 0x18000;
const COUNTER: usize = 0x1f000;
const SLOT: usize = 1024;
const SLOTS: usize = 16;
const UNDER_WAY_MAX: usize = 12;

/// What a channel does to packets: chances in thousandths.
#[derive(Clone, Copy, Debug)]
struct Channel {
    loss: u32,
    duplication: u32,
    delay_ns_max: u64,
    /// Whether packets keep their order, as on a fabric with one path.
    ordered: bool,
}

/// A packet: its arrival, its number, the side that it is for, its bytes.
type Flying = (Time, u64, usize, Vec<u8>);

struct World {
    rng: ChaCha8Rng,
    pair: Pair,
    channel: Channel,
    models: [Model; 2],
    flying: BinaryHeap<Reverse<Flying>>,
    numbered: u64,
    latest: [Time; 2],
    rounds: u64,
}

impl World {
    fn new(seed: u64, channel: Channel, setting: &Setting) -> Self {
        let mut pair = Pair::new(setting);
        for (seed, side) in pair.sides.iter_mut().enumerate() {
            side.ram.bytes[SOURCE..TARGET].copy_from_slice(&pattern(seed, TARGET - SOURCE));
        }
        let model = || Model {
            target: vec![0; SLOTS * SLOT],
            ..Model::default()
        };
        Self {
            rng: ChaCha8Rng::seed_from_u64(seed),
            pair,
            channel,
            models: [model(), model()],
            flying: BinaryHeap::new(),
            numbered: 0,
            latest: [Time::ZERO; 2],
            rounds: 0,
        }
    }

    fn chance(&mut self, thousandths: u32) -> bool {
        self.rng.random_range(0..1000) < thousandths
    }

    /// Posts a random request of a side, if its queue has room.
    fn post(&mut self, side: usize) {
        let model = &mut self.models[side];
        if model.under_way.len() >= UNDER_WAY_MAX {
            return;
        }
        let wr_id = model.posted;
        model.posted += 1;
        let len = match self.rng.random_range(0..4) {
            0 => self.rng.random_range(0..9),
            1 => 256,
            _ => self.rng.random_range(0..SLOT),
        };
        let from = self.rng.random_range(SOURCE..TARGET - SLOT);
        let [own, peer] = match side {
            0 => self.pair.sides.each_ref(),
            _ => {
                let [a, b] = self.pair.sides.each_ref();
                [b, a]
            }
        };
        let landing = LANDING + (usize::try_from(wr_id).unwrap() % SLOTS) * SLOT;
        let source = own.ram.bytes[from..from + len].to_vec();
        let immediate = self.rng.random_bool(0.5).then(|| self.rng.next_u32());
        let counter = peer.remote(COUNTER);
        let (operation, at, len, expected) = match self.rng.random_range(0..8) {
            0..=2 => (
                SendOperation::Send { immediate },
                from,
                len,
                Expected::Nothing,
            ),
            3..=4 => {
                let slot = self.rng.random_range(0..SLOTS) * SLOT;
                let remote = peer.remote(TARGET + slot);
                model.target[slot..slot + len].copy_from_slice(&source);
                (
                    SendOperation::Write { remote, immediate },
                    from,
                    len,
                    Expected::Nothing,
                )
            }
            5..=6 => {
                let bytes = peer.ram.bytes[from..from + len].to_vec();
                let remote = peer.remote(from);
                let expected = Expected::Data { landing, bytes };
                (SendOperation::Read { remote }, landing, len, expected)
            }
            _ => {
                let bytes = model.counter.to_ne_bytes().to_vec();
                let operation = model.atomic(counter, &mut self.rng);
                (operation, landing, 8, Expected::Data { landing, bytes })
            }
        };
        let kind = operation.kind();
        model.expect_message(operation, source);
        model.under_way.push_back((wr_id, kind, expected));
        let cut = self.rng.random_range(0..=len);
        let own = &mut self.pair.sides[side];
        let sges = [own.sge(at, cut), own.sge(at + cut, len - cut)];
        let mut request = request(wr_id, operation, Data::Scattered(&sges));
        request.fence = self.rng.random_bool(0.1);
        own.engine
            .post_send(self.pair.now, own.qpn, &request)
            .unwrap();
    }

    fn post_receive(&mut self, side: usize) {
        let model = &mut self.models[side];
        if model.receives_posted - model.receives_done < SLOTS as u64 {
            let at = receive_slot(model.receives_posted);
            let own = &mut self.pair.sides[side];
            own.post_receive(
                model.receives_posted,
                &[own.sge(at, 100), own.sge(at + 100, SLOT - 100)],
            );
            model.receives_posted += 1;
        }
    }

    /// Sends what a side has through the channel.
    fn transmit(&mut self, side: usize) {
        for _ in 0..4 {
            let Some(bytes) = self.pair.sides[side].transmit(self.pair.now) else {
                return;
            };
            let copies = 1 + usize::from(self.chance(self.channel.duplication));
            for _ in 0..copies {
                if self.chance(self.channel.loss) {
                    continue;
                }
                let mut at =
                    self.pair.now + 100 + self.rng.random_range(0..=self.channel.delay_ns_max);
                if self.channel.ordered {
                    at = at.max(self.latest[side]);
                    self.latest[side] = at;
                }
                self.numbered += 1;
                let packet = Reverse((at, self.numbered, 1 - side, bytes.clone()));
                self.flying.push(packet);
            }
        }
    }

    fn deliver(&mut self) {
        while let Some(Reverse((at, ..))) = self.flying.peek() {
            if *at > self.pair.now {
                return;
            }
            if let Some(Reverse((_, _, to, bytes))) = self.flying.pop() {
                let _ = self.pair.sides[to].receive(self.pair.now, &bytes);
            }
        }
    }

    /// Compares what has completed with what must.
    fn check(&mut self, side: usize) {
        let own = &mut self.pair.sides[side];
        for completion in own.sent() {
            let model = &mut self.models[side];
            let (wr_id, kind, expected) = model.under_way.pop_front().unwrap();
            assert_eq!(
                (completion.wr_id, completion.status, completion.kind),
                (wr_id, Status::Success, kind)
            );
            if let Expected::Data { landing, bytes } = expected {
                assert_eq!(own.ram.bytes[landing..landing + bytes.len()], bytes);
            }
            model.done += 1;
        }
        for completion in own.received() {
            let wr_id = self.models[side].receives_done;
            self.models[side].receives_done += 1;
            assert_eq!(
                (completion.wr_id, completion.status),
                (wr_id, Status::Success)
            );
            let message = self.models[1 - side].messages.pop_front().unwrap();
            assert_eq!(completion.kind, message.kind);
            assert_eq!(completion.immediate, message.immediate);
            assert_eq!(completion.byte_len as usize, message.bytes.len());
            if message.kind == WorkKind::Receive {
                let at = receive_slot(wr_id);
                assert_eq!(own.ram.bytes[at..at + message.bytes.len()], message.bytes);
            }
        }
    }

    /// Works until each side has had so many requests done.
    fn run(&mut self, requests: u64) {
        while self.models.iter().any(|model| model.done < requests) {
            self.rounds += 1;
            assert!(self.rounds < 200_000, "no end in sight: {:?}", self.channel);
            for side in 0..2 {
                if self.models[side].posted < requests && self.chance(400) {
                    self.post(side);
                }
                if self.chance(300) {
                    self.post_receive(side);
                }
                self.transmit(side);
            }
            self.deliver();
            let now = self.pair.now;
            for side in &mut self.pair.sides {
                side.engine.tick(now, &mut side.ram);
            }
            for side in 0..2 {
                self.check(side);
            }
            self.pass_time();
        }
        for side in 0..2 {
            let target = &self.pair.sides[1 - side].ram.bytes[TARGET..TARGET + SLOTS * SLOT];
            assert!(
                target == self.models[side].target,
                "what was written is there"
            );
            let counter = &self.pair.sides[1 - side].ram.bytes[COUNTER..COUNTER + 8];
            assert_eq!(counter, self.models[side].counter.to_ne_bytes());
            assert!(self.models[side].messages.is_empty());
        }
    }

    /// A microsecond; to the next thing that is due if nothing else happens.
    fn pass_time(&mut self) {
        let sides = &self.pair.sides;
        let mut next = self.pair.now + 1000;
        let waits = |side: &Side| side.engine.is_ready(0xffff);
        let busy =
            sides.iter().any(waits) || self.models.iter().any(|model| model.under_way.is_empty());
        if !busy {
            let due = sides.iter().filter_map(|side| side.engine.deadline());
            let flying = self.flying.peek().map(|Reverse((at, ..))| *at);
            next = next.max(due.chain(flying).min().unwrap_or(next));
        }
        self.pair.now = next;
    }
}

fn receive_slot(wr_id: u64) -> usize {
    RECEIVED + (usize::try_from(wr_id).unwrap() % SLOTS) * SLOT
}

fn setting() -> Setting {
    Setting {
        mtu: Mtu::Mtu256,
        // 131 us: longer than any delay.
        timeout: 5,
        ..Setting::new(Service::Rc)
    }
}

const QUIET: Channel = Channel {
    loss: 0,
    duplication: 0,
    delay_ns_max: 2000,
    ordered: true,
};

fn run(channel: Channel, seeds: std::ops::Range<u64>, setting: Setting) -> u64 {
    let mut rounds = 0;
    for seed in seeds {
        let mut world = World::new(seed, channel, &setting);
        world.run(60);
        rounds += world.rounds;
    }
    rounds
}

#[test]
fn everything_arrives_once_and_in_order_on_a_quiet_channel() {
    run(QUIET, 0..4, setting());
}

#[test]
fn everything_arrives_once_and_in_order_though_packets_are_lost() {
    for loss in [5, 30, 100] {
        run(Channel { loss, ..QUIET }, 10..13, setting());
    }
}

#[test]
fn everything_arrives_once_and_in_order_though_packets_are_repeated() {
    let channel = Channel {
        duplication: 200,
        ..QUIET
    };
    run(channel, 20..23, setting());
}

#[test]
fn everything_arrives_once_and_in_order_though_packets_overtake_each_other() {
    let channel = Channel {
        ordered: false,
        delay_ns_max: 3000,
        ..QUIET
    };
    run(channel, 30..33, setting());
}

#[test]
fn everything_arrives_once_and_in_order_whatever_the_channel_does_at_once() {
    let channel = Channel {
        loss: 40,
        duplication: 100,
        ordered: false,
        delay_ns_max: 30_000,
    };
    run(channel, 40..43, setting());
    let shared = Setting {
        srq: true,
        rd_atomic: 1,
        ..setting()
    };
    run(channel, 50..52, shared);
}

/// Sends through a channel that loses on an unreliable connection: messages arrive whole, in order, or not at
/// all.
#[test]
fn an_unreliable_connection_delivers_whole_messages_or_none() {
    let setting = Setting {
        mtu: Mtu::Mtu256,
        ..Setting::new(Service::Uc)
    };
    for seed in 60..63 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut pair = Pair::new(&setting);
        let (mut arrived, mut last) = (0, None);
        for message in 0..120u32 {
            let [a, b] = &mut pair.sides;
            let len = rng.random_range(4..1000);
            let bytes = pattern(message as usize, len);
            a.ram.bytes[..len].copy_from_slice(&bytes);
            b.post_receive(0, &[b.sge(0, SLOT)]);
            let immediate = Some(message);
            a.post(
                pair.now,
                0,
                SendOperation::Send { immediate },
                &[a.sge(0, len)],
            );
            while let Some(packet) = a.transmit(pair.now) {
                if rng.random_range(0..10) > 0 {
                    let _ = b.receive(pair.now, &packet);
                }
            }
            for completion in b.received() {
                assert_eq!(completion.immediate, Some(message));
                assert!(last.is_none_or(|last| last < message));
                assert_eq!(b.ram.bytes[..len], bytes);
                arrived += 1;
                last = Some(message);
            }
            // Receive requests of lost messages are left over.
            if (message + 1) % 40 == 0 {
                pair = Pair::new(&setting);
            }
        }
        assert!((60..120).contains(&arrived), "{arrived} of 120 messages");
    }
}

#[test]
fn work_with_a_peer_that_restarts_ends_in_an_error_and_the_rest_is_flushed_in_order() {
    for fresh_connects in [false, true] {
        let setting = Setting {
            retry_count: 2,
            ..setting()
        };
        let mut pair = Pair::new(&setting);
        for wr_id in 0..4 {
            let [a, b] = &mut pair.sides;
            b.post_receive(wr_id, &[b.sge(0, SLOT)]);
            a.post(pair.now, wr_id, SendOperation::default(), &[a.sge(0, 600)]);
        }
        pair.carry(0);
        pair.carry(1);
        // A new engine at the same LID: its queue pair has the old number.
        pair.sides[1] = Side::new(0x20, &setting);
        if fresh_connects {
            let other = Setting {
                psn: 0x12_3456,
                ..setting
            };
            let (lid, qpn) = (pair.sides[0].lid, pair.sides[0].qpn);
            pair.sides[1].connect(pair.now, &other, lid, qpn);
        }
        pair.settle_in_time();
        let sent: Vec<(u64, Status)> = pair.sides[0]
            .sent()
            .iter()
            .map(|done| (done.wr_id, done.status))
            .collect();
        use Status::{Flushed, RetryExceeded};
        assert_eq!(
            sent,
            [(0, RetryExceeded), (1, Flushed), (2, Flushed), (3, Flushed)]
        );
        assert!(
            pair.sides[1].received().is_empty(),
            "nothing of the old connection is delivered"
        );
    }
}

#[test]
fn the_model_notices_memory_that_differs() {
    let mut world = World::new(1, QUIET, &setting());
    world.run(20);
    let remote = Remote {
        va: BASE + TARGET as u64 + 5,
        rkey: world.pair.sides[1].key,
    };
    let now = world.pair.now;
    let own = &mut world.pair.sides[0];
    let write = SendOperation::Write {
        remote,
        immediate: None,
    };
    own.post(now, 99, write, &[own.sge(TARGET - 8, 8)]);
    world.pair.settle();
    let target = &world.pair.sides[1].ram.bytes[TARGET..TARGET + SLOTS * SLOT];
    assert!(target != world.models[0].target);
}
