//! How two ends of a cable agree that there is a link (in place of IBA 5.6, link training).
//!
//! Each attempt of a port to bring its link up has a number, its epoch. Training records carry the
//! sender's epoch and the epoch that it has heard from the other end; a port that reads its own
//! epoch back knows that it is heard *now*, not by a peer that has been restarted since. The link
//! is up when a flow-control packet follows.
//!
//! ```text
//!                 peer heard              own epoch heard           flow control heard
//!  +---------+ ------------> +----------+ --------------> +------------+ -----------> +----+
//!  | Polling |               | Training |                 | Configured |              | Up |
//!  +---------+ <-----------  +----------+                 +------------+              +----+
//!    |  ^  ^     silence          |  ^                          |                        |
//!    |  |  |                      |  +--------------------------+------------------------+
//!    |  |  |                      |        peer has a new epoch (after Up: and so have we)
//!    |  |  +----------------------+-----------------------------+------------------------+
//!    |  |                               silence, link-down record, retrain
//!    v  | enable
//!  +----------+
//!  | Disabled |  <--- disable, from everywhere
//!  +----------+
//! ```
//!
//! Polling and Training send training records; Configured sends them with flow control; Up sends
//! flow control only, and answers a peer that still trains with flow control (it only lacks that)
//! or with a training record (it has not heard our epoch). An answer never asks for one by itself; still,
//! two ends of which each reads another epoch than its own would answer each other at the speed of the
//! cable, and so would a peer that changes its epoch each time. So no more than [`ANSWERS_AT_ONCE`]
//! records go at once within a keep-alive interval; each further one waits for an eighth of it.

use crate::{LinkTimeouts, PhysicalState, Time};

/// Training records that go at once within a keep-alive interval: more than any link-up takes.
const ANSWERS_AT_ONCE: u32 = 16;

/// The phase of link-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// No cable, or switched off.
    Disabled,
    /// Sends training records; no peer is heard.
    Polling,
    /// A peer is heard; it may not have heard us.
    Training,
    /// Both have heard each other.
    Configured,
    /// Flow control is exchanged.
    Up,
}

/// An input of link-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkInput {
    /// Cable plugged, or switched on.
    Enable,
    /// Cable pulled, or switched off.
    Disable,
    /// A training record.
    TrainingReceived {
        /// The sender's epoch; 0 is none and not heard.
        epoch: u32,
        /// The epoch of ours that the sender has heard; 0: none.
        echo: u32,
    },
    /// A flow-control packet.
    FlowControl,
    /// The peer takes the link down.
    PeerDown,
    /// Nothing was received for too long.
    Silence,
    /// Management restarts the link.
    Retrain,
}

/// The effect of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkEffect {
    Nothing,
    /// The link has come up.
    CameUp,
    /// The link was up and has gone down.
    WentDown,
    /// The peer waits for credit updates.
    UpdateCredits,
}

/// Link-up of one port.
#[derive(Clone, Debug)]
pub(crate) struct LinkTraining {
    phase: Phase,
    epoch: u32,
    peer: u32,
    /// When the next training record is due; [`Time::NEVER`] where none is sent.
    next_at: Time,
    /// When the keep-alive interval began within which records are counted, and how many went.
    counted: (Time, u32),
    /// When the peer was last heard, or link-up began.
    last_received_at: Time,
    keepalive_ns: u64,
    silence_ns: u64,
}

impl LinkTraining {
    pub(crate) fn new(epoch_seed: u32, timeouts: LinkTimeouts) -> Self {
        Self {
            phase: Phase::Disabled,
            epoch: epoch_seed.max(1),
            peer: 0,
            next_at: Time::NEVER,
            counted: (Time::ZERO, 0),
            last_received_at: Time::ZERO,
            keepalive_ns: timeouts.keepalive_ns,
            silence_ns: timeouts.silence_ns,
        }
    }

    #[inline]
    pub(crate) fn is_up(&self) -> bool {
        self.phase == Phase::Up
    }

    #[inline]
    pub(crate) fn is_configured(&self) -> bool {
        matches!(self.phase, Phase::Configured | Phase::Up)
    }

    #[cfg(test)]
    pub(crate) fn phase(&self) -> Phase {
        self.phase
    }

    /// Whether no peer is heard: what training offers may still change.
    pub(crate) fn is_polling(&self) -> bool {
        self.phase == Phase::Polling
    }

    /// Whether a peer is heard.
    pub(crate) fn has_peer(&self) -> bool {
        matches!(self.phase, Phase::Training | Phase::Configured | Phase::Up)
    }

    pub(crate) fn physical(&self) -> PhysicalState {
        match self.phase {
            Phase::Disabled => PhysicalState::Disabled,
            Phase::Polling => PhysicalState::Polling,
            Phase::Training | Phase::Configured => PhysicalState::Training,
            Phase::Up => PhysicalState::LinkUp,
        }
    }

    /// The number of this link-up.
    pub(crate) fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Notes that a frame came in.
    #[inline]
    pub(crate) fn note_received(&mut self, now: Time) {
        self.last_received_at = now;
    }

    /// When silence takes the link (or the attempt) down.
    #[inline]
    pub(crate) fn silence_deadline(&self) -> Time {
        match self.phase {
            Phase::Training | Phase::Configured | Phase::Up => {
                self.last_received_at + self.silence_ns
            }
            Phase::Disabled | Phase::Polling => Time::NEVER,
        }
    }

    /// The same while the link is up.
    #[inline]
    pub(crate) fn silence_deadline_up(&self) -> Time {
        self.last_received_at + self.silence_ns
    }

    /// When the next training record is due.
    #[inline]
    pub(crate) fn next_at(&self) -> Time {
        self.next_at
    }

    /// The training record to send now, as (own epoch, peer's epoch).
    pub(crate) fn record(&mut self, now: Time) -> (u32, u32) {
        let (since, count) = self.counted;
        self.counted = match now.since_ns(since) < self.keepalive_ns {
            true => (since, count.saturating_add(1)),
            false => (now, 1),
        };
        self.next_at = match self.phase {
            Phase::Polling => now + self.keepalive_ns,
            Phase::Training | Phase::Configured => now + self.keepalive_ns / 8,
            Phase::Disabled | Phase::Up => Time::NEVER,
        };
        (self.epoch, self.peer)
    }

    pub(crate) fn handle(&mut self, now: Time, input: LinkInput) -> LinkEffect {
        use Phase::{Configured, Disabled, Polling, Training, Up};
        let own = self.epoch;
        match (self.phase, input) {
            (Disabled, LinkInput::Enable) => self.start(now, Polling, 0),
            (Polling | Training | Configured | Up, LinkInput::Disable) => {
                let effect = self.leave();
                self.phase = Disabled;
                self.next_at = Time::NEVER;
                effect
            }
            (
                Polling | Training | Configured | Up,
                LinkInput::TrainingReceived { epoch: 0, .. },
            ) => LinkEffect::Nothing,
            (Up, LinkInput::TrainingReceived { epoch, echo }) if epoch == self.peer => {
                if echo == own {
                    return LinkEffect::UpdateCredits;
                }
                self.next_at = self.answer_at(now);
                LinkEffect::Nothing
            }
            (Up, LinkInput::TrainingReceived { epoch, .. }) => {
                let effect = self.leave();
                self.start(now, Training, epoch);
                effect
            }
            (Polling | Training | Configured, LinkInput::TrainingReceived { epoch, echo }) => {
                let heard = if echo == own { Configured } else { Training };
                // The peer needs an answer if its epoch is new here, or it does not echo ours.
                if self.phase != heard || self.peer != epoch || echo != own {
                    self.start(now, heard, epoch);
                }
                LinkEffect::Nothing
            }
            (Configured, LinkInput::FlowControl) => {
                self.phase = Up;
                self.next_at = Time::NEVER;
                LinkEffect::CameUp
            }
            (Training | Configured | Up, LinkInput::PeerDown | LinkInput::Silence)
            | (Polling | Training | Configured | Up, LinkInput::Retrain) => {
                let effect = self.leave();
                self.start(now, Polling, 0);
                effect
            }
            (Disabled, _)
            | (Polling | Training | Configured | Up, LinkInput::Enable)
            | (Polling, LinkInput::Silence | LinkInput::PeerDown)
            | (Polling | Training | Up, LinkInput::FlowControl) => LinkEffect::Nothing,
        }
    }

    /// When an answer may go: at once, unless too many have.
    fn answer_at(&self, now: Time) -> Time {
        let (since, count) = self.counted;
        if count < ANSWERS_AT_ONCE || now.since_ns(since) >= self.keepalive_ns {
            return now;
        }
        // One that waits goes no later for being asked for again.
        let spaced = now + self.keepalive_ns / 8;
        match self.next_at > now {
            true => spaced.min(self.next_at),
            false => spaced,
        }
    }

    /// Enters `phase` and lets a training record go at once, unless too many have gone.
    fn start(&mut self, now: Time, phase: Phase, peer: u32) -> LinkEffect {
        self.phase = phase;
        self.peer = peer;
        self.next_at = self.answer_at(now);
        self.last_received_at = now;
        LinkEffect::Nothing
    }

    /// Ends this attempt; the next one has another epoch.
    fn leave(&mut self) -> LinkEffect {
        self.epoch = self.epoch.wrapping_add(1).max(1);
        if self.phase == Phase::Up {
            LinkEffect::WentDown
        } else {
            LinkEffect::Nothing
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time(7);

    fn in_phase(phase: Phase) -> LinkTraining {
        LinkTraining {
            phase,
            epoch: 10,
            peer: 20,
            next_at: Time::NEVER,
            counted: (Time::ZERO, 0),
            last_received_at: NOW,
            keepalive_ns: 80,
            silence_ns: 800,
        }
    }

    use LinkEffect::{CameUp, Nothing as No, UpdateCredits, WentDown};
    use Phase::{Configured, Disabled, Polling, Training as Trains, Up};

    /// Phase, then phase and effect after: enable, disable, training records (own epoch echoed,
    /// not echoed, of a new epoch, of none), flow control, peer down, silence, retrain.
    #[rustfmt::skip]
    const TABLE: [(Phase, [(Phase, LinkEffect); 10]); 5] = [
        (Disabled, [
            (Polling, No), (Disabled, No),
            (Disabled, No), (Disabled, No), (Disabled, No), (Disabled, No),
            (Disabled, No), (Disabled, No), (Disabled, No), (Disabled, No),
        ]),
        (Polling, [
            (Polling, No), (Disabled, No),
            (Configured, No), (Trains, No), (Trains, No), (Polling, No),
            (Polling, No), (Polling, No), (Polling, No), (Polling, No),
        ]),
        (Trains, [
            (Trains, No), (Disabled, No),
            (Configured, No), (Trains, No), (Trains, No), (Trains, No),
            (Trains, No), (Polling, No), (Polling, No), (Polling, No),
        ]),
        (Configured, [
            (Configured, No), (Disabled, No),
            (Configured, No), (Trains, No), (Trains, No), (Configured, No),
            (Up, CameUp), (Polling, No), (Polling, No), (Polling, No),
        ]),
        (Up, [
            (Up, No), (Disabled, WentDown),
            (Up, UpdateCredits), (Up, No), (Trains, WentDown), (Up, No),
            (Up, No), (Polling, WentDown), (Polling, WentDown), (Polling, WentDown),
        ]),
    ];

    #[test]
    fn every_phase_answers_every_input_as_the_table_says() {
        let heard = |epoch, echo| LinkInput::TrainingReceived { epoch, echo };
        // In the order of the table's columns.
        let inputs = [
            LinkInput::Enable,
            LinkInput::Disable,
            heard(20, 10),
            heard(20, 0),
            heard(21, 0),
            heard(0, 0),
            LinkInput::FlowControl,
            LinkInput::PeerDown,
            LinkInput::Silence,
            LinkInput::Retrain,
        ];
        for (phase, answers) in TABLE {
            for (input, (after, effect)) in inputs.into_iter().zip(answers) {
                let mut training = in_phase(phase);
                assert_eq!(
                    training.handle(NOW, input),
                    effect,
                    "{phase:?} on {input:?}"
                );
                assert_eq!(training.phase(), after, "{phase:?} on {input:?}");
            }
        }
    }

    #[test]
    fn leaving_a_link_takes_a_new_epoch() {
        let mut training = in_phase(Phase::Up);
        training.handle(NOW, LinkInput::Silence);
        assert_eq!(training.record(NOW), (11, 0));
        training.epoch = u32::MAX;
        training.handle(NOW, LinkInput::Retrain);
        assert_eq!(training.epoch(), 1, "0 is no epoch");
    }

    #[test]
    fn two_ends_come_up_and_fall_silent() {
        let timeouts = LinkTimeouts {
            keepalive_ns: 80,
            silence_ns: 800,
        };
        let mut ends = [5, 9].map(|seed| LinkTraining::new(seed, timeouts));
        for end in &mut ends {
            end.handle(NOW, LinkInput::Enable);
        }
        let mut records = 0;
        for round in 0..10 {
            for (from, to) in [(0, 1), (1, 0)] {
                if ends[from].next_at() <= NOW {
                    records += 1;
                    let (epoch, echo) = ends[from].record(NOW);
                    ends[to].handle(NOW, LinkInput::TrainingReceived { epoch, echo });
                }
                if ends[from].is_configured() {
                    ends[to].handle(NOW, LinkInput::FlowControl);
                }
            }
            assert!(round < 4 || ends.iter().all(LinkTraining::is_up));
        }
        assert!(records <= 5, "{records} records");
    }

    #[test]
    fn a_restarted_peer_takes_the_link_down_and_up_again() {
        let mut end = in_phase(Phase::Up);
        let new_peer = LinkInput::TrainingReceived { epoch: 33, echo: 0 };
        assert_eq!(end.handle(NOW, new_peer), LinkEffect::WentDown);
        assert_eq!(end.next_at(), NOW, "it is answered at once");
        assert_eq!(end.record(NOW), (11, 33));
        let stale = LinkInput::TrainingReceived {
            epoch: 33,
            echo: 10,
        };
        end.handle(NOW, stale);
        assert_eq!(
            end.phase(),
            Phase::Training,
            "an echo of the old epoch is none"
        );
    }

    #[test]
    fn two_ends_that_read_stale_epochs_do_not_answer_each_other_at_the_speed_of_the_cable() {
        const FLIGHT_NS: u64 = 10;
        const SECOND_NS: u64 = 1_000_000_000;
        for changes in [false, true] {
            let timeouts = LinkTimeouts {
                keepalive_ns: SECOND_NS,
                silence_ns: 4 * SECOND_NS,
            };
            let mut ends = [1, 2].map(|seed| LinkTraining::new(seed, timeouts));
            for end in &mut ends {
                end.handle(Time(1), LinkInput::Enable);
            }
            let (mut now, mut records) = (Time(1), 0);
            while now < Time(1) + 10 * SECOND_NS {
                let next = ends.iter().map(LinkTraining::next_at).min().unwrap();
                now = next.max(now);
                for from in [0, 1] {
                    if ends[from].next_at() <= now {
                        let (epoch, _) = ends[from].record(now);
                        records += 1;
                        // What the other end reads is never its own epoch, and may change each time.
                        let epoch = if changes {
                            epoch + 1000 + records
                        } else {
                            epoch
                        };
                        let stale = LinkInput::TrainingReceived {
                            epoch,
                            echo: 999_999,
                        };
                        ends[1 - from].handle(now + FLIGHT_NS, stale);
                    }
                }
                now = now + FLIGHT_NS;
            }
            // Sixteen at once and eight later, both ends, in each of ten intervals.
            assert!(records <= 2 * 24 * 11, "{records} records");
        }
    }
}
