//! Virtual time: events, and how long a scenario runs.

use controller::Work;
use controller::control::{Phase, Status};
use link::Time;
use mad::local::FromAgent;
use topologies::{Endpoint, NodeId};

use super::Bed;
use super::packets::Packet;

/// No scenario takes longer than this, in nanoseconds of virtual time.
const SCENARIO_NS_MAX: u64 = 120_000_000_000;

pub(super) enum Event {
    Arrive(Endpoint, Box<Packet>),
    Client(NodeId, FromAgent),
    Trap(NodeId),
    /// What the manager beside a host wanted computed has been, if it is still the one of that number.
    Computed(NodeId, u64, Work),
}

impl Bed {
    pub(super) fn at(&mut self, at: Time, event: Event) {
        self.last_event += 1;
        self.events.insert((at, self.last_event), event);
    }

    /// Runs until the manager beside `host` is up again: it has completed a sweep that began no
    /// earlier than now, and nothing more is wanted of it at once.
    pub fn run_until_up(&mut self, host: NodeId) -> Status {
        let before = self.status(host).generation;
        self.run_until(host, |status| {
            status.phase == Phase::Up && status.generation > before
        })
    }

    /// Runs until the manager's report is as wanted.
    pub fn run_until(&mut self, host: NodeId, wanted: impl Fn(&Status) -> bool) -> Status {
        let limit = self.now + SCENARIO_NS_MAX;
        loop {
            let status = self.status(host);
            if wanted(&status) {
                return status;
            }
            assert!(
                self.now < limit && self.step(),
                "not reached: {status:#?}\n{:#?}",
                self.events_reported
            );
        }
    }

    /// Runs for so long.
    pub fn run_for(&mut self, ns: u64) {
        let end = self.now + ns;
        while self.next_moment().is_some_and(|at| at <= end) {
            self.step();
        }
        self.now = end;
    }

    fn next_moment(&self) -> Option<Time> {
        let event = self.events.keys().next().map(|&(at, _)| at);
        let running = self
            .managers
            .iter()
            .filter(|(host, _)| !self.halted.contains_key(host));
        let deadlines = running.filter_map(|(_, sm)| sm.deadline());
        deadlines
            .map(|deadline| deadline.at.max(self.now))
            .chain(event)
            .min()
    }

    /// Does what is next. `false` if there is nothing.
    fn step(&mut self) -> bool {
        let Some(moment) = self.next_moment() else {
            return false;
        };
        self.now = self.now.max(moment);
        let due: Vec<NodeId> = self
            .managers
            .iter()
            .filter(|(host, sm)| {
                let is_due = sm
                    .deadline()
                    .is_some_and(|deadline| deadline.at <= self.now);
                is_due && !self.halted.contains_key(host)
            })
            .map(|(&host, _)| host)
            .collect();
        for host in due {
            let now = self.now;
            self.manager(host).tick(now);
            self.drain(host);
        }
        while let Some((&(at, _), _)) = self.events.first_key_value() {
            if at > self.now {
                break;
            }
            match self.events.pop_first() {
                Some((_, Event::Arrive(end, packet))) => self.arrive(end, *packet),
                Some((_, Event::Client(host, message))) => self.client(host, message),
                Some((_, Event::Trap(id))) => self.traps(id),
                Some((_, Event::Computed(host, number, work))) => {
                    self.computed(host, number, work);
                }
                None => {}
            }
        }
        true
    }

    fn computed(&mut self, host: NodeId, number: u64, work: Work) {
        let now = self.now;
        if self.numbers.get(&host) != Some(&number) {
            return;
        }
        if let Some(sm) = self.managers.get_mut(&host) {
            sm.work_done(now, work.run());
            self.drain(host);
        }
    }

    fn client(&mut self, host: NodeId, message: FromAgent) {
        let now = self.now;
        if let Some(waiting) = self.halted.get_mut(&host) {
            waiting.push(message);
        } else if let Some(sm) = self.managers.get_mut(&host) {
            sm.handle(now, message);
            self.drain(host);
        } else if let FromAgent::Received(message) = message {
            self.received.push((host, message));
        }
    }
}
