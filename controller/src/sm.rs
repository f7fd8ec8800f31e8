//! The subnet manager as its shell sees it: inputs, outputs, and which part a datagram is for.

mod computing;
mod managers;
mod sequence;
mod serving;
mod trap;

use std::collections::BTreeSet;

use link::{Deadline, DeadlineCause, Time};
use mad::local::{FromAgent, MadMessage, ToAgent};
use wire::sa::PathRecord;
use wire::{Guid, Mad, Method, MgmtClass, Qpn, vendor};

use crate::absence::Absence;
use crate::aliases::Aliases;
use crate::control::{LogPage, Phase, Status};
use crate::election::Election;
use crate::exchange::{Exchange, Expired};
use crate::fabric::Fabric;
use crate::groups::Groups;
use crate::inventory::Inventory;
use crate::outbox::Outbox;
use crate::persistence::Persistence;
use crate::plan::Planner;
use crate::protection::given_key;
use crate::qos::Qos;
use crate::report::{Report, Source};
use crate::sa::{Administration, Context, View};
use crate::schedule::{Cause, Schedule};
use crate::smp::{Answer, message};
use crate::subnet::Index;
use crate::traps::LinkTraps;
use crate::vendor::Services;
use crate::verification::{self, Verification};
use crate::windows::Windows;
use crate::writer::{Mirrors, Write};
use crate::{ConfigError, QosChoice, Remembered, SmConfig, SmEvent, discovery, light_sweep};

use computing::Computing;
pub use computing::{Done, Work};
use sequence::Activity;

/// The management classes that the manager takes requests of.
const CLASSES: [MgmtClass; 4] = [
    MgmtClass::SUBN_LID,
    MgmtClass::SUBN_DIR,
    MgmtClass::SUBN_ADM,
    vendor::CLASS,
];

/// The purpose of an SMP in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Job {
    /// Discovery.
    Discovery(discovery::Query),
    /// Programming.
    Write(Write),
    /// Light sweep.
    LightSweep(light_sweep::Query),
    /// Light sweep: a table or port is read back.
    Verify(Index, verification::Item),
    /// Mastership is handed over to the manager beside that device.
    HandOver(Index),
    /// A switch is asked whether a port has changed its state since the discovery that has read it.
    LateTrap(Guid),
}

/// A subnet manager without IO. See the crate's documentation for how to run one, and for its
/// parts.
#[derive(Debug)]
pub struct Sm {
    config: SmConfig,
    /// The SMPs under way.
    exchange: Exchange<Job>,
    activity: Activity,
    schedule: Schedule,
    election: Election,
    absence: Absence,
    /// Whether another manager may have become master since this one last knew: until a discovery has
    /// asked, nothing is written and no request served.
    is_mastership_unconfirmed: bool,
    /// The subnet is given to a better manager once what is being written is.
    hands_over_next: bool,
    inventory: Inventory,
    link_traps: LinkTraps,
    fabric: Fabric,
    planner: Planner,
    computing: Computing,
    mirrors: Mirrors,
    verification: Verification,
    groups: Groups,
    administration: Administration,
    aliases: Aliases,
    qos: Qos,
    windows: Windows,
    report: Report,
    persistence: Persistence,
    outbox: Outbox,
    /// Messages dropped when that was last looked at.
    dropped_before: u64,
    /// When a lesser master was last told to hand over.
    reminded_at: Option<Time>,
    started: bool,
    /// The management classes that the host has granted.
    registered: BTreeSet<u8>,
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
            activity: Activity::Idle,
            schedule: Schedule::new(config.sweep_interval_ns),
            election: Election::new(config.priority, config.sm_key),
            absence: Absence::new(&config),
            is_mastership_unconfirmed: false,
            hands_over_next: false,
            inventory: Inventory::default(),
            link_traps: LinkTraps::default(),
            fabric: Fabric::default(),
            planner: Planner::new(&config)?,
            computing: Computing::default(),
            mirrors: Mirrors::new(),
            verification: Verification::default(),
            groups: recalled_groups(&config)?,
            administration: Administration::new(config.sa_key),
            aliases: recalled_aliases(&config)?,
            qos: Qos::new(config.qos != QosChoice::None, config.connections.as_deref())?,
            windows: Windows::new(config.windows_per_s),
            report: Report::default(),
            persistence: Persistence::default(),
            outbox: Outbox::default(),
            dropped_before: 0,
            reminded_at: None,
            started: false,
            registered: BTreeSet::new(),
            config,
        })
    }

    /// Takes in what has arrived on the host's MAD socket.
    pub fn handle(&mut self, now: Time, message: FromAgent) {
        self.report.set_now(now);
        self.note_absence(now);
        match message {
            FromAgent::Received(message) => self.received(now, &message),
            FromAgent::Registered {
                class,
                registered: true,
            } => {
                self.report.resolve(Source::Class(class));
                // A second answer: the host was restarted, and its port has lost its LID. The subnet
                // may have had another master while this manager could not send.
                if !self.registered.insert(class) {
                    if class == MgmtClass::SUBN_LID.0 && !self.election.leaves_to_another() {
                        self.invalidate_memory();
                    }
                    self.request_sweep(now, Cause::OwnHost);
                }
            }
            FromAgent::Registered { class, .. } if class == vendor::CLASS.0 => {
                let text = format!(
                    "another program of this host serves management class {class:#04x}: neither \
                     connections nor windows can be asked for"
                );
                self.report.warn_of(Source::Class(class), text);
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
                self.outbox.register(ToAgent::Register { class: class.0 });
            }
            self.outbox.register(ToAgent::SetIsSm(true));
            self.schedule.request_sweep(now, Cause::Start);
        }
        self.report.set_now(now);
        self.note_absence(now);
        self.groups.expire(now);
        while let Some(expired) = self.exchange.expire(now) {
            match expired {
                Expired::Repeated(job) => self.repeated(job),
                Expired::GivenUp(job) => self.complete(now, job, Answer::Timeout),
            }
        }
        self.pump(now);
    }

    /// The next message for the host's MAD socket, oldest first. If the socket takes no more,
    /// keep the message and try again: nothing is lost but time.
    pub fn poll_transmit(&mut self) -> Option<ToAgent> {
        self.outbox.pop()
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
                cause: DeadlineCause::Transaction,
            });
        }
        let sweep = self.sweep_deadline();
        let request = self.exchange.deadline();
        let window = self.windows.deadline();
        let answer = self.administration.deadline();
        let change = self.qos.deadline();
        let members = self.groups.deadline();
        let awake = self.absence.deadline();
        let due = [sweep, request, window, answer, change, members, awake];
        let at = due.into_iter().flatten().min();
        at.map(|at| Deadline {
            at,
            cause: DeadlineCause::Transaction,
        })
    }

    /// Starts a full sweep at once; one that is under way starts anew. In standby the master is polled
    /// instead.
    pub fn resweep(&mut self, now: Time) {
        self.report.set_now(now);
        self.request_sweep(now, Cause::Request);
        self.pump(now);
    }

    /// Replaces what this manager remembers by what another one has persisted: the answer to
    /// [`SmEvent::Recall`]. A text that is missing or damaged leaves what this manager remembers itself,
    /// and a damaged one gives a warning.
    pub fn recall(&mut self, remembered: &Remembered) {
        let is_promised = self.config.qos != QosChoice::None;
        let mut damaged = Vec::new();
        if let Some(text) = &remembered.guid2lid {
            damaged.extend(self.planner.recall(text).err());
        }
        if let Some(text) = &remembered.connections {
            match Qos::new(is_promised, Some(text)) {
                Ok(qos) => self.qos = qos,
                Err(error) => damaged.push(error),
            }
        }
        if let Some(text) = &remembered.groups {
            damaged.extend(self.groups.recall(text).err());
        }
        if let Some(text) = &remembered.aliases {
            match Aliases::recalled(text) {
                Ok(aliases) => self.aliases = aliases,
                Err(error) => damaged.push(error),
            }
        }
        self.persistence.read(remembered);
        for error in damaged {
            let text = format!("what the manager before has left is not used: {error}");
            self.report.warn(text);
        }
    }

    /// Whether it is to sweep the whole subnet again, or does so: without input it then does not rest.
    #[must_use]
    pub fn is_sweep_due(&self) -> bool {
        let is_under_way = !matches!(self.activity, Activity::Idle | Activity::LightSweep(..));
        is_under_way || self.schedule.is_heavy_sweep_due()
    }

    /// What this manager has done since the entry of its log with that number.
    #[must_use]
    pub fn log(&self, now: Time, after: u64) -> LogPage {
        self.report.log(now, after)
    }

    /// How the subnet stands.
    #[must_use]
    pub fn status(&self, now: Time) -> Status {
        Status {
            smps_sent: self.exchange.sent(),
            smps_timed_out: self.exchange.timed_out(),
            messages_dropped: self.outbox.dropped(),
            priority: self.config.priority,
            sa_requests: self.administration.requests(),
            ..self.report.status(now)
        }
    }

    /// The path record by which one host port reaches another, as a query of the first would be answered;
    /// `None` if there is no path, or the subnet is not up. Ports by GUID.
    #[must_use]
    pub fn path_record(&self, source: Guid, destination: Guid) -> Option<PathRecord> {
        let view = View {
            fabric: &self.fabric,
            groups: &self.groups,
            aliases: &self.aliases,
            mirrors: &self.mirrors,
            is_trusted: false,
            sm_info: None,
        };
        view.between(source, destination)
    }

    /// The M_Key of this manager's requests.
    fn m_key(&self) -> u64 {
        given_key(self.config.protection.as_ref())
    }

    fn received(&mut self, now: Time, message: &MadMessage) {
        let mad = Mad::from_bytes(*message.mad);
        let is_response = mad.method().is_response();
        if mad.class().is_subnet_management() {
            if mad.method() == Method::TRAP {
                self.trap(now, message, &mad);
            } else if !is_response {
                self.sm_info_request(now, message, &mad);
            } else if let Some(job) = self.exchange.answered(now, mad.tid()) {
                self.complete(now, job, Answer::Mad(&mad));
            }
        } else if mad.is_vendor() {
            self.vendor_mad(now, message, &mad);
        } else if mad.class() == MgmtClass::SUBN_ADM {
            if is_response {
                self.administration.response(&mad);
            } else {
                self.administration_request(now, message, &mad);
            }
        }
    }

    fn vendor_mad(&mut self, now: Time, from: &MadMessage, mad: &Mad) {
        // As with subnet administration, the master is asked.
        if self.leaves_requests() {
            return;
        }
        let mut services = Services {
            qos: &mut self.qos,
            windows: &mut self.windows,
        };
        if mad.method().is_response() {
            services.answered(now, mad);
        } else if let Some(response) = services.request(now, from.lid, mad, &self.fabric) {
            self.outbox.send(message(from.lid, Qpn::GSI, &response));
        }
    }

    fn administration_request(&mut self, now: Time, from: &MadMessage, request: &Mad) {
        // Only the master's administration answers (IBA 15.4.2); who asks here will learn its LID.
        if self.leaves_requests() {
            return;
        }
        let mut context = Context {
            sm_info: self.sm_info(),
            fabric: &self.fabric,
            mirrors: &self.mirrors,
            groups: &mut self.groups,
            aliases: &mut self.aliases,
            outbox: &mut self.outbox,
        };
        self.administration
            .request(now, from, request, &mut context);
    }

    /// Sends what may be sent, and goes on to the next stage when no SMP is under way.
    fn pump(&mut self, now: Time) {
        if !self.started {
            return;
        }
        self.outbox.send_all(self.windows.run(now));
        self.outbox.send_all(self.qos.poll_notices(now));
        loop {
            self.abort_for_sweep(now);
            while let Some((transaction, job)) = self.exchange.next(now) {
                let request = self.smp_request(job);
                match request.and_then(|request| request.message(transaction, self.m_key())) {
                    Some(message) => self.outbox.send(message),
                    None => self.exchange.withdraw(transaction),
                }
            }
            if !self.exchange.is_idle() || !self.advance(now) {
                break;
            }
        }
        self.outbox.send_all(self.administration.poll(now));
        self.report_dropped();
    }

    /// Warns when messages have been dropped, once until a sweep is complete.
    fn report_dropped(&mut self) {
        let dropped = self.outbox.dropped();
        if core::mem::replace(&mut self.dropped_before, dropped) == dropped {
            return;
        }
        let text = "this host takes messages too slowly: some were dropped (messages_dropped in the \
                    status) and are asked for again";
        self.report.replace(Source::Outbox, vec![text.to_owned()]);
    }
}

/// The alias GUIDs that the manager starts with.
fn recalled_aliases(config: &SmConfig) -> Result<Aliases, ConfigError> {
    let text = config.aliases.as_deref();
    text.map_or_else(|| Ok(Aliases::default()), Aliases::recalled)
}

/// The groups that the manager starts with.
fn recalled_groups(config: &SmConfig) -> Result<Groups, ConfigError> {
    let mut groups = Groups::new(config.multicast, config.partitions.as_ref());
    if let Some(text) = &config.groups {
        groups.recall(text)?;
    }
    Ok(groups)
}
