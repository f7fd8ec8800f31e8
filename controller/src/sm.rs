//! The subnet manager as its shell sees it: inputs, outputs, and the requests under way.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use link::{Deadline, Time, Why};
use mad::local::{FromAgent, MadMessage, ToAgent};
use wire::{Guid, Mad, Method, MgmtClass, PortNum, vendor};

use crate::control::{Phase, Status};
use crate::exchange::Exchange;
use crate::groups::Groups;
use crate::plan::{Plan, Planner};
use crate::qos::Qos;
use crate::report::Report;
use crate::sa::Administration;
use crate::smp::{Answer, Request};
use crate::subnet::Subnet;
use crate::sweep::{Activity, Agenda};
use crate::windows::Windows;
use crate::writer::{Mirrors, Site, Write};
use crate::{ConfigError, QosChoice, SmConfig, SmEvent, discovery, light_sweep};

/// The management classes that the manager takes requests of.
const CLASSES: [MgmtClass; 4] = [
    MgmtClass::SUBN_LID,
    MgmtClass::SUBN_DIR,
    MgmtClass::SUBN_ADM,
    vendor::CLASS,
];

/// What an SMP under way is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Job {
    /// Discovery.
    Discovery(discovery::Query),
    /// Programming.
    Write(Write),
    /// Light sweep.
    LightSweep(light_sweep::Query),
}

/// A subnet manager without IO. See the crate's documentation for how to run one.
#[derive(Debug)]
pub struct Sm {
    pub(crate) config: SmConfig,
    pub(crate) exchange: Exchange<Job>,
    pub(crate) report: Report,
    pub(crate) activity: Activity,
    pub(crate) agenda: Agenda,
    /// The subnet as last found; its PortInfo follows what has been written.
    pub(crate) subnet: Subnet,
    /// What was last planned for it.
    pub(crate) plan: Plan,
    pub(crate) planner: Planner,
    pub(crate) mirrors: Mirrors,
    /// Multicast groups.
    pub(crate) groups: Groups,
    /// What subnet administration has under way.
    pub(crate) sa: Administration,
    /// Connections with promised bandwidth.
    pub(crate) qos: Qos,
    /// Windows without interference.
    pub(crate) windows: Windows,
    /// Names of the devices that are or should be there.
    pub(crate) names: BTreeMap<Guid, String>,
    /// Ports with a link behind which nothing answered last time.
    pub(crate) unresponsive_ports: BTreeSet<(Guid, PortNum)>,
    /// Grows with every sweep (SMInfo:ActCount).
    pub(crate) act_count: u32,
    started: bool,
    /// The management classes that the host has granted.
    registered: BTreeSet<u8>,
    transmit: VecDeque<ToAgent>,
}

impl Sm {
    /// A manager that has not started: its first [`Sm::tick`] starts it.
    ///
    /// # Errors
    /// [`ConfigError`] names the option, or the line of a file, that cannot be used.
    pub fn new(config: SmConfig) -> Result<Self, ConfigError> {
        config.check()?;
        Ok(Self {
            exchange: Exchange::new(config.smps_in_flight, config.timeout_ns),
            report: Report::default(),
            activity: Activity::Idle,
            agenda: Agenda::default(),
            subnet: Subnet::default(),
            plan: Plan::default(),
            planner: Planner::new(&config)?,
            mirrors: Mirrors::new(),
            groups: Groups::new(config.multicast),
            sa: Administration::default(),
            qos: Qos::new(config.qos != QosChoice::None, config.connections.as_deref())?,
            windows: Windows::new(config.windows_per_s),
            names: BTreeMap::new(),
            unresponsive_ports: BTreeSet::new(),
            act_count: 0,
            started: false,
            registered: BTreeSet::new(),
            transmit: VecDeque::new(),
            config,
        })
    }

    /// Takes in what has arrived on the host's MAD socket.
    pub fn handle(&mut self, now: Time, message: FromAgent) {
        match message {
            FromAgent::Received(message) => self.received(now, &message),
            FromAgent::Registered {
                class,
                registered: true,
            } => {
                // A second answer: the host was restarted, and its port has lost its LID.
                if !self.registered.insert(class) {
                    self.request_sweep(now);
                }
            }
            FromAgent::Registered { class, .. } if class == vendor::CLASS.0 => {
                self.report.warn(format!(
                    "another program of this host serves management class {class:#04x}: neither \
                     connections nor windows can be asked for"
                ));
            }
            FromAgent::Registered { class, .. } => {
                let reason = format!(
                    "another program of this host already serves management class {class:#04x}; \
                     stop it, or choose another host for the manager"
                );
                self.report.enter(Phase::Failed { reason });
            }
        }
        self.pump(now);
    }

    /// Starts the manager, and does what is due by `now`. Early and extra calls do no harm.
    pub fn tick(&mut self, now: Time) {
        if !self.started {
            self.started = true;
            self.windows.begin_session(now);
            for class in CLASSES {
                self.transmit
                    .push_back(ToAgent::Register { class: class.0 });
            }
            self.transmit.push_back(ToAgent::SetIsSm(true));
            self.agenda.sweep_at = Some(now);
        }
        while let Some(job) = self.exchange.expire(now) {
            self.complete(job, Answer::Timeout);
        }
        self.pump(now);
    }

    /// The next message for the host's MAD socket, oldest first. If the socket takes no more,
    /// keep the message and try again: nothing is lost but time.
    pub fn poll_transmit(&mut self) -> Option<ToAgent> {
        self.transmit.pop_front()
    }

    /// The next event, oldest first.
    pub fn poll_event(&mut self) -> Option<SmEvent> {
        self.report.poll()
    }

    /// Until when nothing is due without input; [`Time::ZERO`] before the first [`Sm::tick`].
    #[must_use]
    pub fn deadline(&self) -> Option<Deadline> {
        if !self.started {
            return Some(Deadline {
                at: Time::ZERO,
                why: Why::Transaction,
            });
        }
        let sweep = self.next_sweep();
        let request = self.exchange.deadline();
        let window = self.windows.deadline();
        let answer = self.administration_deadline();
        let change = self.qos.deadline();
        let due = [sweep, request, window, answer, change];
        let at = due.into_iter().flatten().min();
        at.map(|at| Deadline {
            at,
            why: Why::Transaction,
        })
    }

    /// Starts a full sweep at once; one that is under way starts anew.
    pub fn resweep(&mut self, now: Time) {
        self.request_sweep(now);
        self.pump(now);
    }

    /// How the subnet stands.
    #[must_use]
    pub fn status(&self, now: Time) -> Status {
        let (discovery_ns, programming_ns) = self.durations(now);
        Status {
            discovery_ns,
            programming_ns,
            smps_sent: self.exchange.sent(),
            smps_timed_out: self.exchange.timed_out(),
            ..self.report.status.clone()
        }
    }

    /// Sends a message.
    pub(crate) fn send(&mut self, message: MadMessage) {
        self.transmit.push_back(ToAgent::Send(message));
    }

    fn received(&mut self, now: Time, message: &MadMessage) {
        let mad = Mad::from_bytes(*message.mad);
        if mad.class().is_subnet_management() {
            match mad.method() {
                Method::TRAP => self.trap(now, message, &mad),
                method if method.is_response() => {
                    if let Some(job) = self.exchange.answered(now, mad.tid()) {
                        self.complete(job, Answer::Mad(&mad));
                    }
                }
                _ => self.manager_request(now, message, &mad),
            }
        } else if mad.is_vendor() {
            if mad.method().is_response() {
                self.vendor_answer(now, &mad);
            } else {
                self.vendor_request(now, message, &mad);
            }
        } else if mad.class() == MgmtClass::SUBN_ADM {
            if mad.method().is_response() {
                self.administration_response(&mad);
            } else {
                self.administration_request(now, message, &mad);
            }
        }
    }

    /// Takes in what became of a request, and queues what follows from it.
    fn complete(&mut self, job: Job, answer: Answer<'_>) {
        let retries = self.config.retries;
        match (job, &mut self.activity) {
            (Job::Discovery(ask), Activity::Discovering(discovery)) => {
                for (ask, retries) in discovery.complete(ask, answer) {
                    self.exchange.push(Job::Discovery(ask), retries);
                }
            }
            (
                Job::Write(write),
                Activity::WritingSubnet(programming)
                | Activity::WritingQos(programming)
                | Activity::WritingMulticast(programming),
            ) => {
                let mut site = Site {
                    subnet: &mut self.subnet,
                    plan: &self.plan,
                    mirrors: &mut self.mirrors,
                    groups: &mut self.groups,
                };
                if let Some(write) = programming.complete(write, answer, &mut site) {
                    self.exchange.push(Job::Write(write), retries);
                }
            }
            (Job::LightSweep(look), Activity::LightSweep(light_sweep)) => {
                light_sweep.complete(look, answer, &self.subnet);
            }
            // An answer for what was broken off in the meantime.
            (Job::Discovery(_) | Job::Write(_) | Job::LightSweep(_), _) => {}
        }
    }

    /// Sends what may be sent, and goes on to the next stage when nothing is under way.
    fn pump(&mut self, now: Time) {
        if !self.started {
            return;
        }
        self.run_windows(now);
        self.repeat_qos_notices(now);
        loop {
            self.abort_for_sweep(now);
            while let Some((transaction, job)) = self.exchange.next(now) {
                let request = self.request(job);
                match request.and_then(|request| request.message(transaction)) {
                    Some(message) => self.send(message),
                    None => self.exchange.withdraw(transaction),
                }
            }
            if !self.exchange.is_idle() || !self.advance(now) {
                return self.administer(now);
            }
        }
    }

    fn request(&mut self, job: Job) -> Option<Request> {
        match (job, &self.activity) {
            (Job::Discovery(ask), Activity::Discovering(discovery)) => discovery.request(ask),
            (
                Job::Write(write),
                Activity::WritingSubnet(programming)
                | Activity::WritingQos(programming)
                | Activity::WritingMulticast(programming),
            ) => {
                let mut site = Site {
                    subnet: &mut self.subnet,
                    plan: &self.plan,
                    mirrors: &mut self.mirrors,
                    groups: &mut self.groups,
                };
                programming.request(write, &mut site)
            }
            (Job::LightSweep(look), Activity::LightSweep(_)) => {
                light_sweep::request(look, &self.subnet)
            }
            (Job::Discovery(_) | Job::Write(_) | Job::LightSweep(_), _) => None,
        }
    }
}
