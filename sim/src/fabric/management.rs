//! The subnet manager that runs beside one of the hosts, and what hosts answer on their control
//! sockets.

use std::collections::BTreeMap;

use controller::{Sm, SmEvent};
use hostd::control::Reply;
use hostd::{ClientId, Command, Event as HostEvent};
use link::{Device, Input, PortConfig, Time};
use mad::local::ToAgent;
use switchd::Timing;

use super::{Event, Fabric};
use crate::node::Node;
use crate::numbers::index;

/// The manager's connection to its host.
const MANAGER: ClientId = ClientId(1);

/// The subnet manager and the answers of hosts that have not been taken yet.
#[derive(Debug, Default)]
pub(crate) struct Management {
    /// The manager, and the node beside which it runs.
    pub(crate) manager: Option<(u32, Box<Sm>)>,
    /// By token.
    pub(crate) replies: BTreeMap<u64, Reply>,
    /// What a device that has crashed is built with again, where that is not the model's.
    pub(crate) devices: Option<(PortConfig, Timing)>,
    /// What a later manager is started with.
    pub(crate) persisted: Persisted,
    /// Whether the manager's host is down: nothing passes between the two.
    pub(crate) is_host_down: bool,
    /// What the manager has registered for at its host, to be repeated when that was restarted.
    standing: Vec<ToAgent>,
    /// When the manager is woken next.
    wake: Option<Time>,
}

/// The texts that a manager wants to be kept.
#[derive(Clone, Debug, Default)]
pub(crate) struct Persisted {
    pub(crate) guid2lid: Option<String>,
    pub(crate) connections: Option<String>,
}

impl Persisted {
    fn take(&mut self, event: SmEvent) {
        match event {
            SmEvent::Persist(text) => self.guid2lid = Some(text),
            SmEvent::PersistConnections(text) => self.connections = Some(text),
            _ => {}
        }
    }
}

impl Fabric {
    /// Takes the events of a host and hands the manager's messages to its host; whether the node
    /// was given something that may make it send.
    pub(crate) fn exchange_with_host(&mut self, id: u32) -> bool {
        let now = self.now;
        let Node::Host(host) = &mut self.nodes[index(id)] else {
            return false;
        };
        while let Some(event) = host.poll_event() {
            match event {
                HostEvent::Mad {
                    client: MANAGER,
                    message,
                } => {
                    if let Some((_, manager)) = &mut self.management.manager {
                        manager.handle(now, message);
                    }
                }
                HostEvent::Control { token, reply } => {
                    self.management.replies.insert(token, reply);
                }
                // States show in the ports; no queue pair is open here.
                _ => {}
            }
        }
        let Some((beside, manager)) = &mut self.management.manager else {
            return false;
        };
        if *beside != id {
            return false;
        }
        while let Some(event) = manager.poll_event() {
            self.management.persisted.take(event);
        }
        let mut said = false;
        while let Some(message) = manager
            .poll_transmit()
            .filter(|_| !self.management.is_host_down)
        {
            let standing = &mut self.management.standing;
            if !matches!(message, ToAgent::Send(_)) && !standing.contains(&message) {
                standing.push(message.clone());
            }
            let command = Command::Mad {
                client: MANAGER,
                message,
            };
            host.handle(now, Input::Command(command));
            said = true;
        }
        self.schedule_manager();
        said
    }

    /// The manager ends at once, as a killed process does.
    pub(crate) fn stop_manager(&mut self) -> Option<u32> {
        let (beside, _) = self.management.manager.take()?;
        self.management.standing.clear();
        self.management.wake = None;
        self.command_host(beside, Command::MadGone { client: MANAGER });
        Some(beside)
    }

    /// A manager starts beside a host.
    pub(crate) fn start_manager(&mut self, beside: u32, manager: Box<Sm>) {
        self.management.manager = Some((beside, manager));
        self.management.wake = None;
        self.queue.push(self.now + 1, Event::Manager);
    }

    /// The manager's host has been started again: its manager registers anew.
    pub(crate) fn host_is_back(&mut self, id: u32) {
        let Some((beside, _)) = self.management.manager else {
            return;
        };
        if beside != id {
            return;
        }
        self.management.wake = None;
        self.queue.push(self.now + 1, Event::Manager);
        for message in self.management.standing.clone() {
            let client = MANAGER;
            self.command_host(id, Command::Mad { client, message });
        }
    }

    /// Hands a command to a full host.
    pub(crate) fn command_host(&mut self, id: u32, command: Command) {
        if let Node::Host(host) = &mut self.nodes[index(id)] {
            host.handle(self.now, Input::Command(command));
            self.service(id);
        }
    }

    fn schedule_manager(&mut self) {
        let Some((_, manager)) = &self.management.manager else {
            return;
        };
        let wanted = manager
            .deadline()
            .map(|deadline| deadline.at.max(self.now + 1));
        if let Some(at) = wanted
            && self
                .management
                .wake
                .is_none_or(|wake| wake <= self.now || at < wake)
        {
            self.management.wake = Some(at);
            self.queue.push(at, Event::Manager);
        }
    }

    /// The manager's deadline is due, or was: an early tick does no harm.
    pub(crate) fn wake_manager(&mut self) {
        // As the daemon's shell, which waits for its host and does nothing meanwhile.
        if self.management.is_host_down {
            return;
        }
        let Some((beside, manager)) = &mut self.management.manager else {
            return;
        };
        let beside = *beside;
        manager.tick(self.now);
        self.management.wake = None;
        self.schedule_manager();
        self.service(beside);
    }
}
