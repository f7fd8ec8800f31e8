//! The subnet managers that run beside some of the hosts, and what hosts answer on their control
//! sockets.

use std::collections::{BTreeMap, VecDeque};

use controller::{ConfigError, Remembered, Sm, SmConfig, SmEvent};
use hostd::control::Reply;
use hostd::{ClientId, Command, Event as HostEvent, FromVerbs};
use link::{Device, Input, PortConfig, Time};
use mad::local::{FromAgent, ToAgent};
use switchd::Timing;

use super::{Event, Fabric};
use crate::node::Node;
use crate::numbers::{index, number};

/// A manager's connection to its host.
const MANAGER: ClientId = ClientId(1);
/// Messages that wait for a stopped manager at most: what its socket holds.
const INBOX_MAX: usize = 256;

/// A process that is a subnet manager, whether it runs or not.
#[derive(Debug)]
pub(crate) struct Manager {
    /// The node beside which it runs.
    pub(crate) beside: u32,
    /// How it is configured.
    pub(crate) config: SmConfig,
    /// The manager; `None` after it was killed.
    pub(crate) sm: Option<Box<Sm>>,
    /// What has come for it since it was stopped; `None` while it is not.
    stopped: Option<VecDeque<FromAgent>>,
    /// Whether its host is down: nothing passes between the two.
    pub(crate) is_host_down: bool,
    /// Whether its host has been down and it has not registered there since.
    is_cut_off: bool,
    /// What it has registered for at its host, to be repeated when that was restarted.
    registrations: Vec<ToAgent>,
    /// When it is woken next.
    wake: Option<Time>,
    /// Whether it was handed something since its messages and events were last taken.
    is_touched: bool,
}

impl Manager {
    /// Whether it works: it runs, is not stopped, and has a host.
    fn is_at_work(&self) -> bool {
        self.stopped.is_none() && !self.is_host_down
    }

    /// Takes a message of its host. A stopped manager gets it when it is continued, a killed one never.
    fn receive(&mut self, now: Time, message: FromAgent) {
        if let Some(inbox) = &mut self.stopped {
            // The socket is full: the host drops the message.
            if inbox.len() < INBOX_MAX {
                inbox.push_back(message);
            }
        } else if let Some(sm) = &mut self.sm {
            sm.handle(now, message);
            self.is_touched = true;
        }
    }
}

/// The subnet managers and the answers of hosts that have not been taken yet.
#[derive(Debug, Default)]
pub(crate) struct Management {
    /// The managers, each beside another host.
    pub(crate) managers: Vec<Manager>,
    /// By token.
    pub(crate) replies: BTreeMap<u64, Reply>,
    /// What programs beside hosts have been told by their verbs and not heard yet, with the host's number.
    pub(crate) told: VecDeque<(u32, ClientId, FromVerbs)>,
    /// What a device that has crashed is built with again, where that is not the model's.
    pub(crate) devices: Option<(PortConfig, Timing)>,
    /// What managers have written to the files that all of them share.
    persisted: Remembered,
}

impl Management {
    /// Adds a manager beside a host, which has not been started.
    pub(crate) fn add(&mut self, beside: u32, config: SmConfig) {
        self.managers.push(Manager {
            beside,
            config,
            sm: None,
            stopped: None,
            is_host_down: false,
            is_cut_off: false,
            registrations: Vec::new(),
            wake: None,
            is_touched: false,
        });
    }

    /// The number of the manager beside a host.
    fn beside(&self, id: u32) -> Option<usize> {
        self.managers
            .iter()
            .position(|manager| manager.beside == id)
    }
}

/// Handles an event of a manager: stores what it persists, or hands it what was persisted.
fn take_event(persisted: &mut Remembered, sm: &mut Sm, event: SmEvent) {
    match event {
        SmEvent::Persist(text) => persisted.guid2lid = Some(text),
        SmEvent::PersistConnections(text) => persisted.connections = Some(text),
        SmEvent::PersistGroups(text) => persisted.groups = Some(text),
        SmEvent::PersistAliases(text) => persisted.aliases = Some(text),
        SmEvent::Recall => sm.recall(persisted),
        _ => {}
    }
}

impl Fabric {
    /// Takes the events of a host and hands its manager's messages to it; whether the node was given
    /// something that may make it send.
    pub(crate) fn exchange_with_host(&mut self, id: u32) -> bool {
        let now = self.now;
        let Node::Host(host) = &mut self.nodes[index(id)] else {
            return false;
        };
        let at = self.management.beside(id);
        let Management {
            managers,
            replies,
            told,
            persisted,
            ..
        } = &mut self.management;
        let mut manager = at.and_then(|at| managers.get_mut(at));
        while let Some(event) = host.poll_event() {
            match event {
                HostEvent::Mad {
                    client: MANAGER,
                    message,
                } => {
                    if let Some(manager) = manager.as_deref_mut() {
                        manager.receive(now, message);
                    }
                }
                HostEvent::Control { token, reply } => {
                    replies.insert(token, reply);
                }
                HostEvent::Verbs { client, message } => told.push_back((id, client, message)),
                // States show in the ports; no program connects here, and no port has an interface.
                HostEvent::Mad { .. }
                | HostEvent::PortState(_)
                | HostEvent::Shutdown
                | HostEvent::Cm { .. }
                | HostEvent::Ip { .. } => {}
            }
        }
        let Some(manager) = manager.filter(|manager| manager.is_at_work()) else {
            return false;
        };
        let Some(sm) = &mut manager.sm else {
            return false;
        };
        if !core::mem::take(&mut manager.is_touched) {
            return false;
        }
        while let Some(event) = sm.poll_event() {
            take_event(persisted, sm, event);
        }
        let mut sent = false;
        while let Some(message) = sm.poll_transmit() {
            let registrations = &mut manager.registrations;
            if !matches!(message, ToAgent::Send(_)) && !registrations.contains(&message) {
                registrations.push(message.clone());
            }
            let command = Command::Mad {
                client: MANAGER,
                message,
            };
            host.handle(now, Input::Command(command));
            sent = true;
        }
        self.schedule_manager(at.unwrap_or_default());
        sent
    }

    /// A manager ends at once, as a killed process does.
    pub(crate) fn kill_manager(&mut self, at: usize) {
        let Some(manager) = self.management.managers.get_mut(at) else {
            return;
        };
        manager.stopped = None;
        if manager.sm.take().is_none() {
            return;
        }
        manager.registrations.clear();
        manager.wake = None;
        let beside = manager.beside;
        self.command_host(beside, Command::MadGone { client: MANAGER });
    }

    /// A manager is started with what managers have persisted; one that runs is left as it is.
    ///
    /// # Errors
    /// [`ConfigError`]: its configuration, or what was persisted, cannot be used.
    pub(crate) fn start_manager(&mut self, at: usize) -> Result<(), ConfigError> {
        let kept = self.management.persisted.clone();
        let Some(manager) = self.management.managers.get_mut(at) else {
            return Ok(());
        };
        if manager.sm.is_some() {
            return Ok(());
        }
        let config = &manager.config;
        let sm = Sm::new(SmConfig {
            guid2lid: kept.guid2lid.or(config.guid2lid.clone()),
            connections: kept.connections.or(config.connections.clone()),
            groups: kept.groups.or(config.groups.clone()),
            ..config.clone()
        })?;
        manager.sm = Some(Box::new(sm));
        manager.is_cut_off = false;
        manager.wake = None;
        self.queue.push(self.now + 1, Event::Manager(number(at)));
        Ok(())
    }

    /// A manager is stopped, as a process by SIGSTOP; messages of its host fill its socket.
    pub(crate) fn stop_manager(&mut self, at: usize) {
        if let Some(manager) = self.management.managers.get_mut(at)
            && manager.sm.is_some()
        {
            manager.stopped.get_or_insert_default();
        }
    }

    /// A stopped manager is continued (SIGCONT): it reads the messages that have come meanwhile.
    pub(crate) fn continue_manager(&mut self, at: usize) {
        let now = self.now;
        let Some(manager) = self.management.managers.get_mut(at) else {
            return;
        };
        let Some(inbox) = manager.stopped.take() else {
            return;
        };
        if let Some(sm) = &mut manager.sm {
            for message in inbox {
                sm.handle(now, message);
            }
            manager.is_touched = true;
        }
        let beside = manager.beside;
        self.connect_manager(at);
        self.service(beside);
    }

    /// A host crashes: a manager beside it survives, and is cut off.
    pub(crate) fn host_crashed(&mut self, id: u32) {
        if let Some(at) = self.management.beside(id) {
            let manager = &mut self.management.managers[at];
            manager.is_host_down = true;
            manager.is_cut_off = true;
        }
    }

    /// A host has been started again.
    pub(crate) fn host_restarted(&mut self, id: u32) {
        if let Some(at) = self.management.beside(id) {
            self.management.managers[at].is_host_down = false;
            self.connect_manager(at);
        }
    }

    /// Reconnects a manager with its host; it registers again if the host was restarted.
    fn connect_manager(&mut self, at: usize) {
        let manager = &mut self.management.managers[at];
        if manager.sm.is_none() || !manager.is_at_work() {
            return;
        }
        manager.wake = None;
        let beside = manager.beside;
        let again = match core::mem::take(&mut manager.is_cut_off) {
            true => manager.registrations.clone(),
            false => Vec::new(),
        };
        self.queue.push(self.now + 1, Event::Manager(number(at)));
        for message in again {
            let client = MANAGER;
            self.command_host(beside, Command::Mad { client, message });
        }
    }

    /// Hands a command to a full host.
    pub(crate) fn command_host(&mut self, id: u32, command: Command) {
        if let Node::Host(host) = &mut self.nodes[index(id)] {
            host.handle(self.now, Input::Command(command));
            self.service(id);
        }
    }

    fn schedule_manager(&mut self, at: usize) {
        let Some(manager) = self.management.managers.get_mut(at) else {
            return;
        };
        let deadline = manager.sm.as_ref().and_then(|sm| sm.deadline());
        let wanted = deadline.map(|deadline| deadline.at.max(self.now + 1));
        if let Some(wake) = wanted
            && manager
                .wake
                .is_none_or(|before| before <= self.now || wake < before)
        {
            manager.wake = Some(wake);
            self.queue.push(wake, Event::Manager(number(at)));
        }
    }

    /// A manager's deadline is due, or was: an early tick does no harm.
    pub(crate) fn wake_manager(&mut self, at: usize) {
        let Some(manager) = self.management.managers.get_mut(at) else {
            return;
        };
        // As the daemon's shell, which only waits while its host is down.
        if !manager.is_at_work() {
            return;
        }
        let Some(sm) = &mut manager.sm else {
            return;
        };
        let beside = manager.beside;
        sm.tick(self.now);
        manager.is_touched = true;
        manager.wake = None;
        self.schedule_manager(at);
        self.service(beside);
    }
}
