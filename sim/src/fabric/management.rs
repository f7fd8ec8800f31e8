//! The subnet manager that runs beside one of the hosts, and what hosts answer on their control
//! sockets.

use std::collections::BTreeMap;

use controller::Sm;
use hostd::control::Reply;
use hostd::{ClientId, Command, Event as HostEvent};
use link::{Device, Input, PortConfig, Time};
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
    /// What a switch that has crashed is built with again, where that is not the model's.
    pub(crate) switches: Option<(PortConfig, Timing)>,
    /// When the manager is woken next.
    wake: Option<Time>,
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
                HostEvent::Mad { message, .. } => {
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
        let mut said = false;
        while let Some(message) = manager.poll_transmit() {
            let command = Command::Mad {
                client: MANAGER,
                message,
            };
            host.handle(now, Input::Command(command));
            said = true;
        }
        while manager.poll_event().is_some() {}
        self.schedule_manager();
        said
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
