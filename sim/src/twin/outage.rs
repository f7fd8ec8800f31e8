//! Devices that crash and start again, cables that are cut and plugged, and whatever else is done to
//! a twin while it runs.

use controller::Sm;
use hostd::{ClientId, Command};
use mad::local::ToAgent;
use topologies::{Endpoint, NodeId};
use wire::{Delimiter, Format, RecordKind};

use super::{Twin, TwinError};
use crate::faults::{Fault, FaultKind, FaultPlan};
use crate::interposer::Interposer;
use crate::numbers::number;

/// A program of its own beside a host, which is not the manager.
const STRANGER: ClientId = ClientId(2);

impl Twin {
    /// Puts something between the ends of all cables.
    pub fn interpose(&mut self, interposer: Box<dyn Interposer>) {
        self.fabric.interposer = Some(interposer);
    }

    /// Loss, damage and unrest on cables from now on. For cables and devices that come and go see
    /// [`Twin::cut`] and [`Twin::crash`], which know of each other.
    ///
    /// # Errors
    /// [`TwinError::Fault`]: it names what is not there.
    pub fn disturb(&mut self, what: FaultKind) -> Result<(), TwinError> {
        let faults = vec![Fault { at_ns: 0, what }];
        let plan = FaultPlan { faults, seed: 0 };
        plan.check(&self.fabric.graph)?;
        for fault in &plan.faults {
            self.fabric.apply_fault(&fault.what);
        }
        Ok(())
    }

    /// Pulls the cable at that end; one that is pulled stays so.
    pub fn cut(&mut self, end: Endpoint) {
        if self.fabric.graph.peer(end).is_some() && !self.is_cut(end) {
            self.cut.insert(end);
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
        let was_cut = self.cut.remove(&end) | self.cut.remove(&other);
        if was_cut && self.has_peers(end) {
            self.fabric.plug(end.node.index(), end.port);
        }
    }

    /// Whether the cable at that end is pulled.
    #[must_use]
    pub fn is_cut(&self, end: Endpoint) -> bool {
        let other = self.fabric.graph.peer(end);
        self.cut.contains(&end) || other.is_some_and(|other| self.cut.contains(&other))
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

    /// A device loses all that it has and is silent. The subnet manager is a process of its own: it
    /// survives its host, and talks to it again after its restart.
    pub fn crash(&mut self, node: NodeId) {
        if !self.down.insert(node) {
            return;
        }
        if self.manager_host() == Some(node) {
            self.fabric.management.is_host_down = true;
        }
        let name = self.fabric.graph.node(node).name.clone();
        self.fabric.crash(&name);
    }

    /// A device that has crashed is started again.
    pub fn restart(&mut self, node: NodeId) {
        if !self.down.remove(&node) {
            return;
        }
        if self.manager_host() == Some(node) {
            self.fabric.management.is_host_down = false;
        }
        self.fabric.host_is_back(number(node.index()));
        let graph = std::sync::Arc::clone(&self.fabric.graph);
        for (port, _) in graph.cables(node) {
            let end = Endpoint { node, port };
            if self.has_peers(end) && !self.is_cut(end) {
                self.fabric.plug(node.index(), port);
            }
        }
    }

    /// The host beside which the manager runs, or ran last.
    #[must_use]
    pub fn manager_host(&self) -> Option<NodeId> {
        let running = self.fabric.management.manager.as_ref();
        let place = running.map(|(beside, _)| *beside).or(self.manager_place)?;
        Some(NodeId::from_index(crate::numbers::index(place)))
    }

    /// The subnet manager is killed.
    pub fn crash_manager(&mut self) {
        if let Some(beside) = self.fabric.stop_manager() {
            self.manager_place = Some(beside);
        }
    }

    /// The subnet manager is started again beside the same host, with what it had persisted.
    ///
    /// # Errors
    /// [`TwinError::Manager`]: what it persisted cannot be read.
    pub fn restart_manager(&mut self) -> Result<(), TwinError> {
        let Some(beside) = self.manager_place.take() else {
            return Ok(());
        };
        let persisted = self.fabric.management.persisted.clone();
        let config = controller::SmConfig {
            guid2lid: persisted.guid2lid.or(self.manager.guid2lid.clone()),
            connections: persisted.connections.or(self.manager.connections.clone()),
            ..self.manager.clone()
        };
        self.fabric
            .start_manager(beside, Box::new(Sm::new(config)?));
        Ok(())
    }

    /// A program beside a host, which is not the subnet manager, asks its MAD socket for something.
    ///
    /// # Errors
    /// [`TwinError::NoSuchHost`].
    pub fn say(&mut self, host: &str, message: ToAgent) -> Result<(), TwinError> {
        let unknown = || TwinError::NoSuchHost(host.to_owned());
        let id = self.fabric.graph.find(host).ok_or_else(unknown)?;
        let client = STRANGER;
        self.fabric
            .command_host(number(id.index()), Command::Mad { client, message });
        Ok(())
    }

    /// Puts a packet, LRH to VCRC, on the cable of a port as if its device had sent it. Meant for
    /// VL15: packets of data VLs would take credits that their port knows nothing of.
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
