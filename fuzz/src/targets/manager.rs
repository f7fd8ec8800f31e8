//! A subnet manager and a fabric of two hosts at one switch, which answers as it should unless the
//! input says otherwise.

mod fabric;

use std::collections::VecDeque;

use controller::control::{LIST_MAX, Phase, Reply};
use controller::{QosChoice, Sm, SmConfig};
use link::Time;
use mad::local::{FromAgent, MadMessage, ToAgent};
use wire::attr::{SmInfo, SmState};
use wire::control::encode;
use wire::{Guid, Lid, Mad, Qpn, Sl};

use super::mads;
use super::mads::{fields_of, requests};
use crate::Parts;
use crate::fields::Fields;
use fabric::{Fabric, OTHER, SWITCH};

/// Requests that wait for an answer at most; the oldest are never answered.
const WAITING_MAX: usize = 4096;

/// Turns that a fabric without faults is given to come up.
const TURNS: usize = 60_000;

/// How long an answer takes, nanoseconds.
const ANSWER_NS: u64 = 10_000;

/// The manager and its fabric.
struct Bench {
    now: Time,
    manager: Sm,
    fabric: Fabric,
    /// Requests that wait for their answer.
    waiting: VecDeque<MadMessage>,
    /// What is done to the next answer: bytes of the MAD and what they are changed by.
    changes: Vec<(usize, u8)>,
}

impl Bench {
    fn new(config: SmConfig) -> Self {
        Self {
            now: Time(1),
            manager: Sm::new(config).expect("a sound configuration"),
            fabric: Fabric::new(),
            waiting: VecDeque::new(),
            changes: Vec::new(),
        }
    }

    /// Takes what the manager has to say.
    fn drain(&mut self) {
        while let Some(message) = self.manager.poll_transmit() {
            match message {
                ToAgent::Send(message) => {
                    let mad = Mad::from_bytes(*message.mad);
                    if mad.class().is_subnet_management() && !mad.method().is_response() {
                        self.waiting.push_back(message);
                    }
                    if self.waiting.len() > WAITING_MAX {
                        self.waiting.pop_front();
                    }
                }
                ToAgent::Register { class } => {
                    let registered = true;
                    self.manager
                        .handle(self.now, FromAgent::Registered { class, registered });
                }
                ToAgent::SetIsSm(_) | ToAgent::Unregister { .. } => {}
                ToAgent::RegisterMethods(_) | ToAgent::UnregisterMethods(_) => {
                    panic!("a manager registers whole classes")
                }
                ToAgent::ReadOwn(_) | ToAgent::Attach { .. } => {
                    panic!("a manager has no driver, and its shell has chosen the port")
                }
            }
        }
        while self.manager.poll_event().is_some() {}
    }

    fn tick(&mut self, ns: u64) {
        self.now = self.now + ns;
        self.manager.tick(self.now);
        self.drain();
    }

    /// Answers the oldest request; whether there was one.
    fn answer(&mut self) -> bool {
        let Some(request) = self.waiting.pop_front() else {
            return false;
        };
        self.now = self.now + ANSWER_NS;
        if let Some(mut answer) = self.fabric.answer(&request) {
            for (at, change) in self.changes.drain(..) {
                answer.mad[at] ^= change;
            }
            self.manager.handle(self.now, FromAgent::Received(answer));
        }
        self.drain();
        true
    }

    /// Answers and lets time pass, so many times.
    fn go_on(&mut self, turns: usize) {
        for _ in 0..turns {
            if !self.answer() {
                self.wait();
            }
        }
    }

    /// Lets time pass until the manager has something to do.
    fn wait(&mut self) {
        let due = self
            .manager
            .deadline()
            .map_or(0, |due| due.at.since_ns(self.now));
        self.tick(due.max(1));
    }

    /// Hands the manager a datagram that it has not asked for.
    fn unsolicited(&mut self, fields: &mut Fields<'_>) {
        let (lid, guest) = (fields.byte(), fields.byte());
        let mad = mads::mad(fields);
        let qpn = if mad.class().is_subnet_management() {
            Qpn::SMI
        } else {
            Qpn::GSI
        };
        let message = MadMessage {
            lid: if guest & 1 == 0 {
                Lid::new(lid.into())
            } else {
                Lid::PERMISSIVE
            },
            qpn,
            sl: Sl::default(),
            mad: Box::new(*mad.as_bytes()),
            way: None,
        };
        self.manager.handle(self.now, FromAgent::Received(message));
        self.drain();
    }

    /// Hands the manager an invented answer to a request that waits.
    fn made_up_answer(&mut self, fields: &mut Fields<'_>) {
        let at = usize::from(fields.byte());
        if let Some(request) = self.waiting.get(at % self.waiting.len().max(1)) {
            let mut answer = request.clone();
            answer.mad[3] |= 0x80;
            for (to, byte) in answer.mad[64..].iter_mut().zip(fields.rest()) {
                *to = *byte;
            }
            self.manager.handle(self.now, FromAgent::Received(answer));
            self.drain();
        }
    }

    fn step(&mut self, part: &[u8]) {
        let mut fields = Fields::of(part);
        match fields.byte() % 10 {
            0 => self.go_on(usize::from(fields.byte())),
            1 => {
                let pairs = fields.rest().chunks_exact(2).take(16);
                self.changes
                    .extend(pairs.map(|pair| (usize::from(pair[0]), pair[1])));
                self.answer();
            }
            2 => drop(self.waiting.pop_front()),
            3 => self.unsolicited(&mut fields),
            4 => self.tick(fields.nanoseconds()),
            5 => self.fabric.other_manager = Some(other_manager(&mut fields)),
            6 => {
                let class = fields.one_of(&[0x01, 0x81, 0x03, 0x30]);
                let registered = true;
                let message = FromAgent::Registered { class, registered };
                self.manager.handle(self.now, message);
                self.drain();
            }
            7 => {
                self.fabric.plugged = fields.flag();
                self.fabric.ports.remove(&(SWITCH, 2));
                self.fabric.ports.remove(&(OTHER, 1));
            }
            8 => {
                self.manager.resweep(self.now);
                self.drain();
            }
            _ => self.made_up_answer(&mut fields),
        }
        self.check_status();
    }

    /// Asserts that lists of the status are bounded.
    fn check_status(&self) {
        let status = self.manager.status(self.now);
        assert!(status.warnings.len() <= LIST_MAX && status.unreachable.len() <= LIST_MAX);
        assert!(status.missing.len() <= LIST_MAX && status.managers.len() <= LIST_MAX);
        let reply = Reply::Status(Box::new(status));
        encode(&reply).expect("a status that fits a message");
    }
}

/// SMInfo of a manager beside the other host.
fn other_manager(fields: &mut Fields<'_>) -> SmInfo {
    let states = [
        SmState::NotActive,
        SmState::Discovering,
        SmState::Standby,
        SmState::Master,
    ];
    let state = fields.one_of(&states);
    SmInfo {
        guid: Guid(0x301),
        sm_key: u64::from(fields.byte() & 1),
        act_count: fields.four(),
        priority: fields.byte() & 0x0f,
        state,
    }
}

/// The first part says how the manager is configured; each other part is a step: answers as they
/// should be, a changed one, none, an unsolicited datagram, time, a manager beside the
/// other host, a cable, a restart of the manager's host.
///
/// # Panics
/// If a list is longer than it may be, or the subnet does not come up once the fabric answers as it
/// should and no other manager runs.
pub(crate) fn manager(bytes: &[u8]) {
    let mut parts = Parts::of(bytes);
    let mut head = Fields::of(parts.next().unwrap_or_default());
    let options = head.byte();
    let mut bench = Bench::new(SmConfig {
        routing: routing::RoutingEngine::Updn,
        qos: match options & 1 {
            0 => QosChoice::None,
            _ => QosChoice::Vlarb01,
        },
        priority: head.byte() & 0x0f,
        lmc: wire::Lmc::new(head.byte() % 3).ok(),
        smps_in_flight: usize::from(head.byte() % 8) + 1,
        ..SmConfig::default()
    });
    bench.tick(1);
    bench.go_on(usize::from(head.two()));
    for part in parts {
        bench.step(part);
    }
    bench.changes.clear();
    bench.fabric.other_manager = None;
    bench.fabric.plugged = true;
    bench.fabric.ports.clear();
    bench.fabric.tables.clear();
    let cured = bench.now;
    for _ in 0..TURNS {
        bench.go_on(1);
        let phase = bench.manager.status(bench.now).phase;
        let rests = phase == Phase::Up && bench.waiting.is_empty();
        // Another manager has disabled this one: only a manager may enable it.
        if phase == Phase::NotActive || rests && bench.now.since_ns(cured) > 60_000_000_000 {
            return;
        }
    }
    panic!(
        "the subnet is not up: {:?}",
        bench.manager.status(bench.now)
    );
}

/// A manager that comes up and is then asked, told and disturbed.
pub(crate) fn manager_inputs() -> Vec<Vec<u8>> {
    // Configuration, and turns enough to come up.
    let up = [0, 8, 0, 7, 2, 0];
    let promised = [1, 8, 1, 7, 2, 0];
    let unsolicited = requests();
    let unsolicited: Vec<Vec<u8>> = unsolicited
        .iter()
        .map(|mad| [&[3, 2, 0][..], &fields_of(mad)].concat())
        .collect();
    let mut inputs = vec![Parts::join([up]), Parts::join([promised])];
    for step in &unsolicited {
        inputs.push(Parts::join([&up[..], step, &[0, 20]]));
    }
    inputs.push(Parts::join(
        core::iter::once(promised.to_vec()).chain(unsolicited),
    ));
    let others: [&[&[u8]]; 7] = [
        &[
            &[5, 3, 1, 0, 0, 0, 1, 15],
            &[8],
            &[0, 200],
            &[4, 100],
            &[0, 100],
        ],
        &[&[5, 2, 1, 0, 0, 0, 1, 3], &[8], &[0, 200]],
        &[&[7, 1], &[8], &[0, 200], &[7, 0], &[8], &[0, 200]],
        &[&[8], &[1, 65, 1, 66, 3], &[1, 3, 0x80], &[2], &[0, 100]],
        &[&[6, 1], &[0, 100], &[4, 127], &[0, 100]],
        &[&[8], &[9, 0, 1, 1, 2, 4], &[9, 1, 0xff], &[0, 50]],
        &[&[8], &[2], &[2], &[2], &[4, 115], &[4, 115], &[0, 100]],
    ];
    for steps in others {
        let up = core::iter::once(&up[..]);
        inputs.push(Parts::join(up.chain(steps.iter().copied())));
    }
    inputs
}
