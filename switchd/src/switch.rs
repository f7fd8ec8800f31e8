//! The switch: the contract of a device over dataplane and management.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use bincode::{Decode, Encode};
use link::{
    Arrival, Cause, Deadline, Device, FrameBuf, HandedPacket, Input, PortEvent, PortSet, PortState,
    queued_counters,
};
use link::{DeadlineCause, Port, Time};
use tracing::{info, trace};
use wire::control::{DeviceReply, DeviceRequest, PortStatus};
use wire::{PortNum, Vl};

use crate::control::{Reply, Request};
use crate::management::Management;
use crate::plane::{Plane, PortVl};
use crate::{SwitchConfig, SwitchError};

/// Replies that wait for the shell at most; further ones are discarded.
const EVENTS_MAX: usize = 1024;

/// A request from the local control side.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Command {
    /// Chosen by the shell; comes back with the reply.
    pub token: u64,
    /// What is asked.
    pub request: Request,
}

/// An event for the shell.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Event {
    /// The answer to a [`Command`].
    Reply {
        /// The command's token.
        token: u64,
        /// The answer.
        reply: Reply,
    },
}

/// An InfiniBand switch without IO.
#[derive(Debug)]
#[repr(C)]
pub struct Switch {
    /// When the next trap goes out, or counters are sampled.
    trap_at: Time,
    pub(crate) plane: Plane,
    pub(crate) management: Management,
    events: VecDeque<Event>,
}

impl Switch {
    /// A switch without cables: [`Input::Carrier`] plugs them in.
    ///
    /// # Errors
    /// [`SwitchError`]: which setting is out of range.
    pub fn new(config: &SwitchConfig) -> Result<Self, SwitchError> {
        use mad::sma::Node;
        let mut plane = Plane::new(config)?;
        let management = Management::new(&plane);
        for number in (0..=config.ports).map(PortNum::new) {
            let settings = management.sma.settings(number);
            plane.configure(Time::ZERO, number, &settings);
        }
        plane.ports.refresh(Time::ZERO);
        Ok(Self {
            plane,
            trap_at: Time::NEVER,
            management,
            events: VecDeque::new(),
        })
    }

    /// One of the external ports, for tests and the simulator's statistics.
    #[inline]
    #[must_use]
    pub fn port(&self, number: PortNum) -> Option<&link::Port> {
        self.plane.port(number)
    }

    /// What port 0 counts: packets of the switch's own, such as traps, that were dropped before an external
    /// port had them.
    #[must_use]
    pub fn own_counts(&self) -> &link::Counts {
        &self.plane.own_counts
    }

    /// How many packets are inside the switch: 0 when everything has been passed on or dropped.
    #[must_use]
    pub fn packets_inside(&self) -> usize {
        self.plane.pool.handles()
    }

    /// Copies of multicast packets, each made or dropped, and multicast packets whose last copy is
    /// made or dropped. Packets received plus the first number equal packets sent, inside and
    /// dropped plus the second.
    #[must_use]
    pub fn copies(&self) -> (u64, u64) {
        (self.plane.copies_made, self.plane.replicated)
    }

    /// Makes the memory of a switch small that stands in a large simulated fabric: its linear table is shared with all that have the
    /// same, and what management has needed is given back. Nothing that it does changes.
    pub fn share_memory(&mut self, tables: &mut BTreeSet<Arc<[PortNum]>>) {
        self.plane.linear.share(tables);
        self.plane.pool.release_unused();
        for port in self.plane.ports.iter_mut() {
            port.release_memory();
        }
        self.plane.ports.refresh(Time::ZERO);
    }

    /// Reads what a packet needs of the switch and of one of its ports, so that it is in the processor's caches when the packet
    /// comes: for the simulator, whose switches are many. What is read means nothing.
    #[inline]
    #[must_use]
    pub fn read_ahead(&self, number: PortNum) -> u64 {
        self.trap_at.0 ^ self.plane.read_ahead(number)
    }

    /// Bytes that packet memory has grown to.
    #[must_use]
    pub fn pool_bytes(&self) -> usize {
        self.plane.pool.bytes_made()
    }

    /// The moment of [`Device::deadline`] without its reason, which would cost one more access to a
    /// port; [`Time::NEVER`] if there is none.
    #[inline]
    #[must_use]
    pub fn due_at(&self) -> Time {
        self.plane.due_at().min(self.trap_at)
    }

    /// When the agent's next trap is due.
    #[cfg(test)]
    pub(crate) fn trap_due_at(&self) -> Option<Time> {
        self.management.sma.deadline()
    }

    fn receive(&mut self, arrival: Arrival, number: PortNum, bytes: &[u8]) {
        let plane = &mut self.plane;
        let Some(port) = plane.ports.by_number_mut(number) else {
            trace!(port = number.get(), "frame on a port that does not exist");
            return;
        };
        port.receive(arrival, bytes, &mut plane.pool);
        if port.arrived() & (1 << Vl::MANAGEMENT.get()) != 0 {
            self.management.take_vl15(arrival.now, plane, number);
            self.trap_at = self.management.trap_at();
        }
        plane.advance_arrived(arrival.now, number);
        if !plane.inbox.is_empty() {
            self.management.take_inbox(arrival.now, plane);
            self.trap_at = self.management.trap_at();
        }
    }

    fn receive_handed(&mut self, arrival: Arrival, number: PortNum, handed: &HandedPacket) {
        let plane = &mut self.plane;
        let Some(port) = plane.ports.by_number_mut(number) else {
            return;
        };
        port.receive_handed(arrival, handed, &mut plane.pool);
        plane.advance_arrived(arrival.now, number);
        if !plane.inbox.is_empty() {
            self.management.take_inbox(arrival.now, plane);
            self.trap_at = self.management.trap_at();
        }
    }

    fn tick(&mut self, now: Time) {
        for number in self.plane.ports.due(now).iter() {
            self.plane.ports[number.index() - 1].tick(now, &mut self.plane.pool);
        }
        self.plane.run_timers(now);
        if self.plane.pool.review(now) {
            for port in self.plane.ports.iter_mut() {
                port.release_memory();
            }
        }
        let mut from = PortNum::MANAGEMENT;
        while !self.plane.waiting_ports.is_empty()
            && let Some(number) = self.plane.waiting_ports.at_or_after(from)
        {
            self.plane.serve_all(now, number);
            // A switch has 254 ports at most.
            from = PortNum::new(number.get().saturating_add(1));
        }
        if !(self.plane.inbox.is_empty() && self.plane.replies.is_empty()) {
            self.management.take_inbox(now, &mut self.plane);
            self.trap_at = self.management.trap_at();
        }
    }

    /// Whether [`Switch::poll_ports`] has anything to do, after a refresh of the ports.
    #[inline]
    fn has_reports(&self, now: Time) -> bool {
        self.plane.ports.have_events() || self.trap_at <= now || self.plane.partitions.has_stopped()
    }

    /// Handles events of ports, and sends traps that are due.
    #[cold]
    fn poll_ports(&mut self, now: Time) {
        self.take_events(now);
        while let Some((count, packet)) = self.plane.partitions.take_stopped() {
            self.management.sma.p_key_blocked(now, count, &packet);
            self.trap_at = self.management.trap_at();
        }
        if self.trap_at <= now {
            self.management.send_traps(now, &mut self.plane);
            self.trap_at = self.management.trap_at();
        }
    }

    fn take_events(&mut self, now: Time) {
        let mut trap = false;
        for number in self.plane.ports.with_events().iter() {
            let at = number.index() - 1;
            while let Some(event) = self.plane.ports[at].poll_event() {
                trap |= self.state_changed(now, number, event);
            }
        }
        if trap {
            self.management.sma.link_changed(now);
            self.trap_at = self.management.trap_at();
        }
    }

    /// Handles a change of state. Returns whether a trap is to be raised (IBA 14.3.7, trap 128).
    fn state_changed(&mut self, now: Time, number: PortNum, event: PortEvent) -> bool {
        let PortEvent::StateChanged { from, to, cause } = event;
        info!(
            switch = %self.plane.identity.description,
            port = number.get(),
            ?from,
            ?to,
            ?cause,
            "port state"
        );
        // Packets that wait for a VL of this port are sent now, or dropped.
        self.plane.serve_all(now, number);
        cause == Cause::Link && (from == PortState::Down || to == PortState::Down)
    }

    fn execute(&mut self, now: Time, command: Command) {
        let Request::Device(request) = command.request;
        let reply = Reply::Device(self.execute_device(now, &request));
        if self.events.len() < EVENTS_MAX {
            self.events.push_back(Event::Reply {
                token: command.token,
                reply,
            });
        }
    }

    fn execute_device(&mut self, now: Time, request: &DeviceRequest) -> DeviceReply {
        match *request {
            DeviceRequest::Identify => DeviceReply::Identity {
                name: self.plane.identity.description.clone(),
                guid: self.plane.identity.node_guid,
                // A core does not know its process: the shell fills this in.
                pid: 0,
            },
            DeviceRequest::Ports => DeviceReply::Ports(self.port_statuses()),
            DeviceRequest::Lanes => {
                DeviceReply::Lanes(self.plane.ports.iter().map(Port::lanes).collect())
            }
            DeviceRequest::Cable { port, plugged } => {
                let plane = &mut self.plane;
                let Some(port) = plane.ports.by_number_mut(port) else {
                    let ports = plane.identity.ports;
                    return DeviceReply::Refused(format!("no port {port}: it has 1 to {ports}"));
                };
                port.set_plugged(now, plugged, &mut plane.pool);
                DeviceReply::Done
            }
            DeviceRequest::Shutdown => {
                for port in self.plane.ports.iter_mut() {
                    port.set_plugged(now, false, &mut self.plane.pool);
                }
                DeviceReply::Done
            }
            DeviceRequest::Endpoints
            | DeviceRequest::Connect { .. }
            | DeviceRequest::Attach { .. }
            | DeviceRequest::Attached
            | DeviceRequest::ConnectTunnel { .. } => {
                DeviceReply::Refused("the ends of cables belong to the daemon".to_owned())
            }
        }
    }

    /// State and counters of port 0 and all others, as [`DeviceReply::Ports`] has them.
    #[must_use]
    pub fn port_statuses(&self) -> Vec<PortStatus> {
        let own_drops = self.plane.own_counts.named();
        let own_drops = own_drops.filter(|(name, _)| name.starts_with("drop."));
        let management = PortStatus {
            port: PortNum::MANAGEMENT,
            state: PortState::Active.code(),
            lid: self.plane.lid.get(),
            lmc: self.plane.lmc.get(),
            vls: self.plane.port_config.vls,
            mtu: self.plane.port_config.mtu.bytes(),
            counters: own_drops.collect(),
        };
        let external = self.plane.ports.iter().map(|port| PortStatus {
            port: port.number(),
            state: port.state().code(),
            lid: 0,
            lmc: 0,
            vls: port.operational_vls(),
            mtu: port.neighbor_mtu().bytes(),
            counters: self.counters(port),
        });
        core::iter::once(management).chain(external).collect()
    }

    /// What a port counts, and as `queued.KIND` the packets of traffic that are in it.
    fn counters(&self, port: &Port) -> Vec<(String, u64)> {
        let queued = port.queued_traffic(&self.plane.pool);
        let counts = port.counts().named();
        counts.chain(queued_counters(queued)).collect()
    }
}

impl Device for Switch {
    type Command = Command;
    type Event = Event;

    fn handle(&mut self, now: Time, input: Input<'_, Command>) {
        match input {
            Input::Frame {
                port,
                head,
                tail,
                bytes,
            } => self.receive(Arrival { now, head, tail }, port, bytes),
            Input::Handed {
                port,
                head,
                tail,
                packet,
            } => self.receive_handed(Arrival { now, head, tail }, port, &packet),
            Input::Credits { port, packet } => {
                let plane = &mut self.plane;
                if let Some(port) = plane.ports.by_number_mut(port) {
                    port.receive_credits(now, packet, &mut plane.pool);
                }
            }
            Input::Carrier { port, up } => {
                let plane = &mut self.plane;
                if let Some(port) = plane.ports.by_number_mut(port) {
                    port.set_carrier(now, up, &mut plane.pool);
                }
            }
            Input::Tick => self.tick(now),
            Input::Command(command) => self.execute(now, command),
        }
        self.plane.ports.refresh(now);
        if self.has_reports(now) {
            self.poll_ports(now);
            self.plane.ports.refresh(now);
        }
    }

    #[inline]
    fn ready(&self, now: Time) -> PortSet {
        self.plane.ports.ready(now)
    }

    fn transmit(&mut self, now: Time, number: PortNum, frame: &mut FrameBuf<'_>) -> usize {
        let plane = &mut self.plane;
        let Some(at) = number.index().checked_sub(1) else {
            return 0;
        };
        let Some(port) = plane.ports.get_mut(at) else {
            return 0;
        };
        let before = frame.records();
        let state = port.state();
        port.begin_frame(now, frame);
        if plane.waiting_vls[at] != 0 {
            plane.serve_all(now, number);
        }
        while let Some(vl) = plane.ports[at].send_next(now, frame, &mut plane.pool) {
            if plane.waiting_vls[at] & (1 << vl.get()) != 0 {
                plane.serve(now, PortVl { port: number, vl });
            }
        }
        // Room in an output VL may have let a packet for port 0 through behind the one that got it.
        if !(plane.inbox.is_empty() && plane.replies.is_empty()) {
            self.management.take_inbox(now, plane);
            self.trap_at = self.management.trap_at();
        }
        // A command that waited for its response to leave.
        if plane.ports[at].state() != state {
            self.poll_ports(now);
        }
        self.plane.ports.refresh(now);
        frame.records() - before
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn deadline(&self) -> Option<Deadline> {
        let trap = (self.trap_at < Time::NEVER).then_some(Deadline {
            at: self.trap_at,
            cause: DeadlineCause::Trap,
        });
        Deadline::earlier(self.plane.deadline(), trap)
    }
}
