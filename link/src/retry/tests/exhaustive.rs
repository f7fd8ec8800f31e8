//! A small cable in full: every order of sending, losing, doubling, overtaking and timing out of three records one way, and of
//! what is said of them the other way.

use std::collections::BTreeSet;

use super::*;

/// Datagrams on their way in one direction at most.
const FLYING_MAX: usize = 2;

/// What else is bounded, so that there is an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Budget {
    timeouts: u8,
    losses: u8,
    doubles: u8,
    overtakings: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    ends: [End; 2],
    flying: [Vec<Datagram>; 2],
    budget: Budget,
}

const RECORD: usize = 5;
const RECORDS: u8 = 3;

fn text() -> Vec<u8> {
    (0..RECORDS).flat_map(|n| record(&[n])).collect()
}

impl State {
    fn first() -> Self {
        let limits = Limits {
            unacknowledged_bytes: 4 * RECORD,
            idle_bytes: 4 * RECORD,
            record_bytes: RECORD,
        };
        let mut ends = [0, 1].map(|_| End::new(limits));
        for n in 0..RECORDS {
            assert!(ends[0].write(&record(&[n])));
        }
        Self {
            ends,
            flying: [Vec::new(), Vec::new()],
            budget: Budget {
                timeouts: 1,
                losses: 2,
                doubles: 1,
                overtakings: 1,
            },
        }
    }

    /// What `from` sends now, if it does and the channel has room.
    fn send(&self, from: usize) -> Option<Self> {
        if self.flying[from].len() == FLYING_MAX {
            return None;
        }
        let mut then = self.clone();
        let datagram = then.ends[from].next(NOW, RECORD)?;
        then.flying[from].push(datagram);
        Some(then)
    }

    /// The datagram at `place` of those from `from` arrives, and, if `stays`, will once more.
    fn deliver(&self, from: usize, place: usize, stays: bool) -> Self {
        let mut then = self.clone();
        let datagram = then.flying[from][place].clone();
        if stays {
            then.budget.doubles -= 1;
        } else {
            then.flying[from].remove(place);
        }
        let arrival = then.ends[1 - from].take(NOW, &datagram);
        assert_ne!(arrival, Arrival::Malformed);
        let received = &then.ends[1].received;
        assert!(text().starts_with(received), "{received:?}");
        then
    }

    fn lose(&self, from: usize, place: usize) -> Option<Self> {
        let mut then = self.clone();
        then.budget.losses = then.budget.losses.checked_sub(1)?;
        then.flying[from].remove(place);
        Some(then)
    }

    /// As [`Self::deliver`]; one behind others overtakes them.
    fn arrive(&self, from: usize, place: usize, stays: bool) -> Option<Self> {
        let mut then = self.clone();
        let overtakings = u8::from(place > 0);
        then.budget.overtakings = then.budget.overtakings.checked_sub(overtakings)?;
        then.budget.doubles.checked_sub(u8::from(stays))?;
        Some(then.deliver(from, place, stays))
    }

    fn time_out(&self) -> Option<Self> {
        let mut then = self.clone();
        then.budget.timeouts = then.budget.timeouts.checked_sub(1)?;
        then.ends[0].retry.tick(Time::NEVER).then_some(then)
    }

    fn all_next(&self) -> Vec<Self> {
        let mut all: Vec<Self> = [self.send(0), self.send(1), self.time_out()]
            .into_iter()
            .flatten()
            .collect();
        for from in 0..2 {
            for place in 0..self.flying[from].len() {
                all.extend(self.arrive(from, place, false));
                all.extend(self.arrive(from, place, true));
                all.extend(self.lose(from, place));
            }
        }
        all
    }

    /// Whether all comes from here on if nothing more is lost.
    fn completes(&self) -> bool {
        let mut state = self.clone();
        for _ in 0..40 {
            if state.ends[1].received == text() && state.ends[0].retry.unacknowledged_bytes() == 0 {
                return true;
            }
            let mut moved = false;
            for from in 0..2 {
                while let Some(then) = state.send(from) {
                    state = then;
                    while !state.flying[from].is_empty() {
                        state = state.deliver(from, 0, false);
                    }
                    moved = true;
                }
                while !state.flying[from].is_empty() {
                    state = state.deliver(from, 0, false);
                    moved = true;
                }
            }
            if !moved {
                // Nothing is under way any more: a deadline must be there to go on from.
                assert!(state.ends[0].retry.deadline().is_some());
                state.ends[0].retry.tick(Time::NEVER);
            }
        }
        false
    }
}

#[test]
fn in_every_order_of_events_records_come_once_in_order_and_the_last_comes_in_the_end() {
    let first = State::first();
    let mut seen = BTreeSet::from([first.clone()]);
    let mut waiting = vec![first];
    let mut finished = 0u32;
    while let Some(state) = waiting.pop() {
        assert!(state.completes(), "stuck: {state:#?}");
        finished += u32::from(state.ends[1].received == text());
        for then in state.all_next() {
            if seen.insert(then.clone()) {
                waiting.push(then);
            }
        }
        assert!(seen.len() < 200_000, "the model is small");
    }
    assert!(seen.len() > 1000, "{} states", seen.len());
    assert!(finished > 100);
}
