//! Connections of programs beside the hosts of a twin, across switches, while packets are lost, repeated, delayed and
//! overtaken and devices restart: what comes of their work, against a model.

mod program;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use link::Time;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use sim::{Interposer, Passage};
use topologies::{Endpoint, NodeId};
use wire::{Delimiter, RecordKind};

use program::{FLUSHED, RC, RETRY_EXCEEDED, SUCCESS, UC, World};

/// Chances in thousandths of what happens to a packet between programs' queue pairs.
#[derive(Clone, Copy, Debug)]
struct Chances {
    lost: u32,
    /// A packet that was kept takes the place of this one, which is kept for later: both come late.
    swapped: u32,
    /// A packet that has come before takes the place of this one: it comes twice.
    repeated: u32,
}

/// Does that to what two hosts send.
#[derive(Debug)]
struct Mangler {
    rng: ChaCha8Rng,
    hosts: [NodeId; 2],
    chances: Chances,
    /// Packets that are to come, or to come again, with where they were sent.
    kept: Vec<(Endpoint, Vec<u8>)>,
    counts: Arc<Counts>,
}

/// How many packets were lost, swapped and repeated.
#[derive(Debug, Default)]
struct Counts([AtomicU32; 3]);

impl Counts {
    fn count(&self, which: usize) {
        self.0[which].fetch_add(1, Ordering::Relaxed);
    }

    fn all(&self) -> [u32; 3] {
        self.0.each_ref().map(|count| count.load(Ordering::Relaxed))
    }
}

/// Packets that are kept at most.
const KEPT_MAX: usize = 24;

/// Whether a frame is a packet to a queue pair of a program: those have numbers above 0x10000.
fn is_between_programs(frame: &[u8]) -> bool {
    let is_data = frame.first() == Some(&(RecordKind::Data as u8));
    let packet = frame.get(Delimiter::LEN..).filter(|_| is_data);
    packet.is_some_and(|packet| packet[0] >> 4 != 15 && packet.len() > 24 && packet[8 + 5] != 0)
}

impl Interposer for Mangler {
    fn pass(&mut self, _: Time, from: Endpoint, frame: &mut [u8]) -> Passage {
        if !self.hosts.contains(&from.node) || !is_between_programs(frame) {
            return Passage::Once;
        }
        let roll = self.rng.random_range(0..1000);
        let Chances {
            lost,
            swapped,
            repeated,
        } = self.chances;
        if roll < lost {
            self.counts.count(0);
            return Passage::Never;
        }
        let is_alike = |(at, kept): &(Endpoint, Vec<u8>)| *at == from && kept.len() == frame.len();
        let alike: Vec<usize> = (0..self.kept.len())
            .filter(|&at| is_alike(&self.kept[at]))
            .collect();
        let late = (!alike.is_empty()).then(|| alike[self.rng.random_range(0..alike.len())]);
        match late {
            Some(at) if roll < lost + swapped => {
                self.counts.count(1);
                frame.swap_with_slice(&mut self.kept[at].1);
            }
            Some(at) if roll < lost + swapped + repeated => {
                self.counts.count(2);
                frame.copy_from_slice(&self.kept[at].1);
            }
            _ => {
                if self.rng.random_range(0..1000) < swapped + repeated {
                    if self.kept.len() >= KEPT_MAX {
                        self.kept.remove(0);
                    }
                    self.kept.push((from, frame.to_vec()));
                }
            }
        }
        Passage::Once
    }
}

fn mangled(seed: u64, service: u32, chances: Chances) -> (World, Arc<Counts>) {
    let mut world = World::new("fat-tree-4-2", seed, service);
    let hosts = world.nodes();
    let counts = Arc::<Counts>::default();
    world.twin.interpose(Box::new(Mangler {
        rng: ChaCha8Rng::seed_from_u64(seed),
        hosts,
        chances,
        kept: Vec::new(),
        counts: Arc::clone(&counts),
    }));
    (world, counts)
}

const QUIET: Chances = Chances {
    lost: 0,
    swapped: 0,
    repeated: 0,
};

#[test]
fn a_connection_across_switches_does_everything_once_and_in_order() {
    let (mut world, _) = mangled(1, RC, QUIET);
    world.work_off(400);
    world.assert_all_done();
}

#[test]
fn a_connection_does_everything_once_and_in_order_whatever_becomes_of_its_packets() {
    let cases = [
        Chances { lost: 40, ..QUIET },
        Chances {
            swapped: 60,
            ..QUIET
        },
        Chances {
            repeated: 60,
            ..QUIET
        },
        Chances {
            lost: 20,
            swapped: 30,
            repeated: 30,
        },
    ];
    for (seed, chances) in (10..).zip(cases) {
        let (mut world, counts) = mangled(seed, RC, chances);
        world.work_off(250);
        world.assert_all_done();
        let wanted = [chances.lost, chances.swapped, chances.repeated];
        for (chance, happened) in wanted.into_iter().zip(counts.all()) {
            assert_eq!(chance > 0, happened > 0, "{chances:?}: {:?}", counts.all());
        }
    }
}

#[test]
fn a_connection_outlives_switches_on_its_way_that_restart() {
    let (mut world, _) = mangled(
        20,
        RC,
        Chances {
            lost: 10,
            swapped: 10,
            repeated: 10,
        },
    );
    let switches: Vec<NodeId> = world.switches();
    world.work_off(20);
    for switch in switches {
        world.post(10);
        world.twin.crash(switch);
        world.run(100_000_000);
        world.twin.restart(switch);
        world.work_off(0);
    }
    world.assert_all_done();
}

#[test]
fn work_with_a_host_that_restarts_ends_in_an_error_and_a_new_connection_works() {
    let (mut world, _) = mangled(30, RC, QUIET);
    world.work_off(50);
    world.post(12);
    world.run(3_000);
    let (done, heard) = world.progress();
    world.twin.crash(world.nodes()[1]);
    let ends = world.ends_of_failed_work();
    assert_eq!(ends.first(), Some(&RETRY_EXCEEDED), "after {done}");
    assert!(
        ends.len() > 1 && ends[1..].iter().all(|&end| end == FLUSHED),
        "{ends:?}"
    );
    let (done, heard_at_last) = world.progress();
    assert_eq!(heard, heard_at_last, "a host that is gone hears nothing");
    assert!(
        world.messages_before(done) <= heard,
        "what was acknowledged was heard"
    );

    world.twin.restart(world.nodes()[1]);
    world.connect_anew();
    world.work_off(60);
    world.assert_all_done();
    assert_eq!(world.statuses(), [SUCCESS].into());
}

#[test]
fn an_unreliable_connection_delivers_whole_messages_in_order_or_none() {
    let (mut world, _) = mangled(40, UC, QUIET);
    world.work_off(100);
    let (_, heard) = world.progress();
    assert_eq!(heard, world.messages_before(u64::MAX), "nothing is lost");
    let (mut world, _) = mangled(41, UC, Chances { lost: 40, ..QUIET });
    world.work_off(200);
    let (_, heard) = world.progress();
    let sent = world.messages_before(u64::MAX);
    assert!(heard < sent && heard > sent / 4, "{heard} of {sent}");
}
