//! Faults of a running twin: devices that crash and are restarted, cables that are unplugged and plugged,
//! managers that are killed and stopped, packets that are injected.

use hostd::{ClientId, Command};
use mad::local::ToAgent;
use topologies::{Endpoint, NodeId};
use wire::{Delimiter, Format, RecordKind};

use super::{Twin, TwinError};
use crate::faults::{Fault, FaultKind, FaultPlan};
use crate::interposer::Interposer;
use crate::numbers::number;

/// A program beside a host other than the subnet manager, as a client of its MAD socket.
const OTHER_CLIENT: ClientId = ClientId(2);

impl Twin {
    /// Puts something between the ends of all cables, behind what is there already.
    pub fn interpose(&mut self, interposer: Box<dyn Interposer>) {
        self.fabric.interposers.push(interposer);
    }

    /// Loss, damage, duplication and delay of packets on cables from now on. For cables and devices that come and go see
    /// [`Twin::unplug`] and [`Twin::crash`], which know of each other.
    ///
    /// # Errors
    /// [`TwinError::Fault`]: it names what is not there.
    pub fn impair(&mut self, what: FaultKind) -> Result<(), TwinError> {
        let faults = vec![Fault { at_ns: 0, what }];
        let plan = FaultPlan { faults, seed: 0 };
        plan.check(&self.fabric.graph)?;
        for fault in &plan.faults {
            self.fabric.apply_fault(&fault.what);
        }
        Ok(())
    }

    /// Pulls the cable at that end; one that is pulled stays so.
    pub fn unplug(&mut self, end: Endpoint) {
        if self.fabric.graph.peer(end).is_some() && !self.is_unplugged(end) {
            self.unplugged.insert(end);
            if self.has_peers(end) {
                self.fabric.unplug(end.node.index(), end.port);
            }
        }
    }

    /// Puts the cable at that end in again. It carries nothing while one of its devices is down.
    pub fn plug(&mut self, end: Endpoint) {
        let Some(other) = self.fabric.graph.peer(end) else {
            return;
        };
        let was_unplugged = self.unplugged.remove(&end) | self.unplugged.remove(&other);
        if was_unplugged && self.has_peers(end) {
            self.fabric.plug(end.node.index(), end.port);
        }
    }

    /// Whether the cable at that end is pulled.
    #[must_use]
    pub fn is_unplugged(&self, end: Endpoint) -> bool {
        let other = self.fabric.graph.peer(end);
        self.unplugged.contains(&end) || other.is_some_and(|other| self.unplugged.contains(&other))
    }

    /// Whether both devices of a cable run.
    fn has_peers(&self, end: Endpoint) -> bool {
        let other = self.fabric.graph.peer(end);
        !self.down.contains(&end.node)
            && other.is_some_and(|other| !self.down.contains(&other.node))
    }

    /// Whether a device has crashed and not been started again.
    #[must_use]
    pub fn is_down(&self, node: NodeId) -> bool {
        self.down.contains(&node)
    }

    /// A device crashes: it loses its state and sends nothing. A subnet manager is a process of its own: it
    /// survives its host, and connects to it again after its restart.
    pub fn crash(&mut self, node: NodeId) {
        if !self.down.insert(node) {
            return;
        }
        self.fabric.host_crashed(number(node.index()));
        let name = self.fabric.graph.node(node).name.clone();
        self.fabric.crash(&name);
    }

    /// A device that has crashed is started again.
    pub fn restart(&mut self, node: NodeId) {
        if !self.down.remove(&node) {
            return;
        }
        self.fabric.host_restarted(number(node.index()));
        let graph = std::sync::Arc::clone(&self.fabric.graph);
        for (port, _) in graph.cables(node) {
            let end = Endpoint { node, port };
            if self.has_peers(end) && !self.is_unplugged(end) {
                self.fabric.plug(node.index(), port);
            }
        }
    }

    /// How many subnet managers there are, running or not.
    #[must_use]
    pub fn managers(&self) -> usize {
        self.fabric.management.managers.len()
    }

    /// The host beside which a manager runs, or is to run again.
    #[must_use]
    pub fn manager_host(&self, manager: usize) -> Option<NodeId> {
        let manager = self.fabric.management.managers.get(manager)?;
        Some(NodeId::from_index(crate::numbers::index(manager.beside)))
    }

    /// The priority of a manager.
    #[must_use]
    pub fn priority_of(&self, manager: usize) -> u8 {
        let manager = self.fabric.management.managers.get(manager);
        manager.map_or(0, |manager| manager.config.priority)
    }

    /// A subnet manager is killed.
    pub fn crash_manager(&mut self, manager: usize) {
        self.fabric.kill_manager(manager);
    }

    /// A subnet manager that was killed is started again beside the same host, with what managers
    /// have persisted.
    ///
    /// # Errors
    /// [`TwinError::Manager`]: what they persisted cannot be read.
    pub fn restart_manager(&mut self, manager: usize) -> Result<(), TwinError> {
        Ok(self.fabric.start_manager(manager)?)
    }

    /// A subnet manager is stopped, as a process by SIGSTOP: it neither reads nor writes, and gets no tick.
    /// Its connection to its host stays open, and fills.
    pub fn stop_manager(&mut self, manager: usize) {
        self.fabric.stop_manager(manager);
    }

    /// A stopped subnet manager is continued (SIGCONT).
    pub fn continue_manager(&mut self, manager: usize) {
        self.fabric.continue_manager(manager);
    }

    /// A program beside a host, which is not the subnet manager, asks its MAD socket for something.
    ///
    /// # Errors
    /// [`TwinError::NoSuchHost`].
    pub fn send_to_agent(&mut self, host: &str, message: ToAgent) -> Result<(), TwinError> {
        let unknown = || TwinError::NoSuchHost(host.to_owned());
        let id = self.fabric.graph.find(host).ok_or_else(unknown)?;
        let client = OTHER_CLIENT;
        self.fabric
            .command_host(number(id.index()), Command::Mad { client, message });
        Ok(())
    }

    /// Puts a packet, LRH to VCRC, on the cable of a port as if its device had sent it. Meant for
    /// VL15: packets of data VLs would take credits that their port does not count.
    pub fn inject(&mut self, from: Endpoint, packet: &[u8]) {
        let Ok(len) = u16::try_from(packet.len()) else {
            return;
        };
        let mut record = vec![0; Delimiter::LEN + packet.len()];
        Delimiter {
            kind: RecordKind::Data,
            len,
        }
        .emit(&mut record);
        record[Delimiter::LEN..].copy_from_slice(packet);
        let now = self.fabric.now;
        self.fabric
            .put_on_cable(from.node.index(), from.port, &mut record, now);
    }
}
