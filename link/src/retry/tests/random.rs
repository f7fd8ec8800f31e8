//! Whatever the channel does, what comes is what was sent, as far as it has come; and once the channel behaves, all comes.

use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;

/// What a channel does to datagrams, in a thousand.
#[derive(Clone, Copy, Debug)]
struct Weather {
    lost: u32,
    doubled: u32,
    /// Delayed by up to the time of so many others.
    late: u64,
    /// Times that one of the ends begins anew, both being told.
    restarts: u32,
}

fn weather() -> impl Strategy<Value = Weather> {
    (0u32..400, 0u32..300, 0u64..40, 0u32..3).prop_map(|(lost, doubled, late, restarts)| Weather {
        lost,
        doubled,
        late,
        restarts,
    })
}

/// A datagram that arrives at its time, at that end.
struct Flying {
    at: Time,
    to: usize,
    life: u32,
    datagram: Datagram,
}

struct Bed {
    ends: [End; 2],
    written: [Vec<u8>; 2],
    flying: Vec<Flying>,
    life: u32,
    now: Time,
    rng: ChaCha8Rng,
    gaps: u64,
    /// What records are filled with.
    count: u8,
}

const STEP_NS: u64 = 50_000;

impl Bed {
    fn new(seed: u64) -> Self {
        let limits = Limits {
            unacknowledged_bytes: 40 * 1024,
            ..Limits::default()
        };
        Self {
            ends: [0, 1].map(|_| End::new(limits)),
            written: [Vec::new(), Vec::new()],
            flying: Vec::new(),
            life: 0,
            now: NOW,
            rng: ChaCha8Rng::seed_from_u64(seed),
            gaps: 0,
            count: 0,
        }
    }

    /// One of the ends is started again: both have a new life of this cable.
    fn restart(&mut self) {
        let fresh = Self::new(0);
        self.ends = fresh.ends;
        self.written = fresh.written;
        self.life += 1;
    }

    fn write(&mut self) {
        let end = self.rng.random_range(0..2usize);
        for _ in 0..self.rng.random_range(0..20) {
            self.count = self.count.wrapping_add(1);
            let length = self.rng.random_range(0..900);
            let record = record(&vec![self.count; length]);
            if self.ends[end].write(&record) {
                self.written[end].extend_from_slice(&record);
            }
        }
    }

    fn send(&mut self, weather: Weather) {
        for from in 0..2 {
            let most = self.rng.random_range(100..3000);
            let Some(datagram) = self.ends[from].next(self.now, most) else {
                continue;
            };
            for copy in 0..2 {
                let is_there = match copy {
                    0 => self.rng.random_range(0..1000) >= weather.lost,
                    _ => self.rng.random_range(0..1000) < weather.doubled,
                };
                if is_there {
                    let late = self.rng.random_range(0..=weather.late);
                    self.flying.push(Flying {
                        at: self.now + STEP_NS * (1 + late),
                        to: 1 - from,
                        life: self.life,
                        datagram: datagram.clone(),
                    });
                }
            }
        }
    }

    fn deliver(&mut self) {
        let due = |flying: &Flying| flying.at <= self.now;
        let (arrived, flying) = self.flying.drain(..).partition(due);
        self.flying = flying;
        let arrived: Vec<Flying> = arrived;
        for Flying {
            to, life, datagram, ..
        } in arrived
        {
            if life != self.life {
                continue;
            }
            let before = self.ends[to].received.len();
            let arrival = self.ends[to].take(self.now, &datagram);
            assert_ne!(arrival, Arrival::Malformed);
            self.gaps += u64::from(arrival == Arrival::Gap);
            let received = &self.ends[to].received;
            assert_eq!(
                received[before..],
                self.written[1 - to][before..received.len()]
            );
        }
    }

    fn step(&mut self, weather: Weather) {
        for end in &mut self.ends {
            end.retry.tick(self.now);
        }
        self.send(weather);
        self.now = self.now + STEP_NS;
        self.deliver();
    }

    fn is_done(&self) -> bool {
        let is_here = |to: usize| self.ends[to].received.len() == self.written[1 - to].len();
        let is_quiet = |end: &End| end.retry.unacknowledged_bytes() == 0;
        is_here(0) && is_here(1) && self.ends.iter().all(is_quiet)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn everything_comes_once_and_in_order_whatever_the_channel_does(
        seed in any::<u64>(),
        weather in weather(),
    ) {
        let mut bed = Bed::new(seed);
        for turn in 0..600u32 {
            if turn % 5 == 0 {
                bed.write();
            }
            bed.step(weather);
            if turn % 200 == 199 && turn / 200 < weather.restarts {
                bed.restart();
            }
        }
        let calm = Weather { lost: 0, doubled: 0, late: 0, restarts: 0 };
        // The longest timeout, and what is left after it.
        let steps = 3 * Timeout::MOST_NS / STEP_NS;
        let done = (0..steps).any(|_| {
            bed.step(calm);
            bed.is_done()
        });
        prop_assert!(done, "not all has come");
    }
}

#[test]
fn a_thousandth_lost_costs_no_timeout() {
    let mut bed = Bed::new(1);
    let weather = Weather {
        lost: 1,
        doubled: 0,
        late: 0,
        restarts: 0,
    };
    let mut timeouts = 0;
    for _ in 0..10_000 {
        bed.write();
        for end in &mut bed.ends {
            timeouts += u32::from(end.retry.tick(bed.now));
        }
        bed.step(weather);
    }
    assert!(bed.gaps > 20, "some were lost: {}", bed.gaps);
    assert!(timeouts <= 2, "NAKs repair what is lost: {timeouts}");
}
