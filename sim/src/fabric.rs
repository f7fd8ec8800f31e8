//! The engine: devices, cables between them, and the order in which things happen.
//!
//! ```text
//!          +-- wake-ups ---------------------------+
//!          v                                       |
//!  queue of events --> handle --> ready? transmit --> frames in flight --> queue of events
//!                      a device   as long as any      (flight time, byte time)
//! ```
//!
//! An event is a frame's first byte at a port, a device's deadline, a fault or an audit. After each
//! event the device that it was for is pulled until it has nothing more to send at this moment, as
//! a daemon's shell does (see [`link::Device`]). The byte time of a packet is the port's own: its
//! frame says when the last byte leaves.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use link::{DropReason, FrameBuf, HandedPacket, Time};
use routing::Tables;
use topologies::{Endpoint, Graph, NodeId};
use wire::{FlowControl, Lrh, PortNum};

use crate::cable::{Cables, weight};
use crate::datagrams::Datagrams;
use crate::deadlock::Deadlock;
use crate::event_queue::EventQueue;
use crate::extra_tables::ExtraTables;
use crate::faults::{Fault, FaultPlan};
use crate::flow_counters::FlowCounters;
use crate::frame::packets_in;
use crate::interposer::{Interposer, Passage};
use crate::measurement::MeasurementWindow;
use crate::model::{CreditReturn, Model};
use crate::node::Node;
use crate::numbers::{index, number};
use crate::packet_tracker::{PacketId, PacketTracker};

mod audit;
mod configure;
mod departure;
mod faults;
mod management;
mod waits;

use management::Management;

pub use configure::ManagementError;

/// Room of one frame: the flow control of all VLs and the longest packet.
const FRAME_BYTES: usize = 8192;
/// A wake-up later than this counts as far ahead, nanoseconds.
const FAR_NS: u64 = 100_000;
/// A device is woken at most so often within one nanosecond.
const WAKES_A_MOMENT: u32 = 64;

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    /// The first byte of a frame is at a port.
    Arrive(u32),
    /// A device's deadline is due.
    Wake(u32),
    /// A fault of the plan happens.
    Fault(u32),
    /// A cable that was put in again is looked at: are the links up?
    LinkCheck(u32),
    /// A subnet manager's deadline is due.
    Manager(u32),
    /// The checkers look at everything.
    Audit,
}

/// What a frame on a cable holds.
#[derive(Clone, Copy, Debug)]
enum FrameContents {
    /// Link control.
    Control {
        /// How many packets from the same port had come to the other end when it was sent.
        received: u32,
    },
    /// A packet, and its identity if it is tracked.
    Packet(Option<PacketId>),
    /// A packet without bytes.
    Handed(HandedPacket, Option<PacketId>),
    /// Flow control without bytes; `received` as above.
    Credits { received: u32, packet: FlowControl },
}

/// VL and blocks of a packet.
#[inline]
fn weight_of(lrh: &Lrh) -> (usize, u16) {
    (lrh.vl.index(), link::blocks(lrh.packet_bytes()))
}

impl Default for FrameContents {
    fn default() -> Self {
        Self::Packet(None)
    }
}

/// A frame on a cable.
#[derive(Debug, Default)]
struct FrameInFlight {
    node: u32,
    port: PortNum,
    head: Time,
    tail: Time,
    /// The plug epoch of the cable: frames of an earlier one are lost.
    plug_epoch: u32,
    what: FrameContents,
    bytes: Vec<u8>,
}

/// When a device is woken.
#[derive(Clone, Copy, Debug)]
struct WakeTimes {
    /// When it is to be woken.
    wake: Time,
    /// The earliest wake-up far ahead that is scheduled for it.
    far_wake: Time,
    /// How often it was woken at which moment.
    woken: (Time, u32),
}

impl WakeTimes {
    const EMPTY: Self = Self {
        wake: Time::NEVER,
        far_wake: Time::NEVER,
        woken: (Time::ZERO, 0),
    };
}

/// How often something has happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunCounters {
    /// Events handled.
    pub events: u64,
    /// Frames that have been put on cables.
    pub frames: u64,
    /// Packets lost on cables: by loss, with the cable pulled, in a crashed device.
    pub lost: u64,
    /// Packets damaged on cables.
    pub corrupted: u64,
    /// Packets that cables have made two of.
    pub duplicated: u64,
    /// Audits made.
    pub audits: u64,
}

/// Whether packets go over cables without bytes: where nothing damages any, and each frame has one packet because a link takes
/// time for it.
pub(crate) fn hands_over(model: &Model, faults: &FaultPlan) -> bool {
    let shortest = u64::from(crate::model::PACKET_BYTES_MIN);
    !faults.damages() && model.rate.transmit_ps(shortest) >= 1000
}

/// A fabric in virtual time.
#[derive(Debug)]
pub(crate) struct Fabric {
    pub(crate) now: Time,
    pub(crate) graph: Arc<Graph>,
    /// The tables that were installed; `None` where a subnet manager makes them.
    pub(crate) tables: Option<Arc<Tables>>,
    pub(crate) model: Model,
    pub(crate) nodes: Vec<Node>,
    pub(crate) cables: Cables,
    pub(crate) tracker: PacketTracker,
    pub(crate) measure: MeasurementWindow,
    pub(crate) counters: RunCounters,
    pub(crate) faults: FaultPlan,
    /// What is counted by flows and links, if anything.
    pub(crate) flow_counters: Option<Box<FlowCounters>>,
    /// Tables beside those of unicast forwarding.
    pub(crate) extra_tables: Arc<ExtraTables>,
    /// By node: which host it is.
    pub(crate) host_numbers: Vec<Option<u32>>,
    /// The subnet managers, where some run.
    pub(crate) management: Management,
    /// What full hosts send and receive, where there are some.
    pub(crate) datagrams: Option<Box<Datagrams>>,
    /// Interposers, in order.
    pub(crate) interposers: Vec<Box<dyn Interposer>>,
    /// Data packets on cables.
    pub(crate) in_flight: u64,
    /// The first cycle that was found.
    pub(crate) deadlock: Option<Deadlock>,
    /// Whether everything is looked at from time to time.
    pub(crate) audits: bool,
    /// Drops of devices that have crashed.
    pub(crate) dropped_before: BTreeMap<DropReason, u64>,
    /// Multicast copies of devices that have crashed, and packets that went with their last one.
    pub(crate) copies_before: (u64, u64),
    /// Switches that have been started again and have no tables yet.
    pub(crate) unconfigured: BTreeSet<usize>,
    pub(crate) queue: EventQueue<Event>,
    frames_in_flight: Vec<FrameInFlight>,
    free_slots: Vec<u32>,
    /// By node.
    wake_times: Vec<WakeTimes>,
    scratch: Vec<u8>,
    ideal: bool,
    /// Whether packets and flow control go over cables without bytes: full hosts need them.
    pub(crate) hands_over: bool,
}

impl Fabric {
    pub(crate) fn assemble(
        graph: Arc<Graph>,
        tables: Option<Arc<Tables>>,
        model: Model,
        (nodes, host_numbers): (Vec<Node>, Vec<Option<u32>>),
        tracker: PacketTracker,
        faults: FaultPlan,
    ) -> Self {
        let count = nodes.len();
        Self {
            now: Time::ZERO,
            cables: Cables::new(&graph, faults.seed),
            ideal: model.credits == CreditReturn::Ideal,
            hands_over: false,
            graph,
            tables,
            model,
            nodes,
            tracker,
            measure: MeasurementWindow::new(),
            counters: RunCounters::default(),
            faults,
            flow_counters: None,
            extra_tables: Arc::default(),
            host_numbers,
            management: Management::default(),
            datagrams: None,
            interposers: Vec::new(),
            in_flight: 0,
            deadlock: None,
            audits: true,
            dropped_before: BTreeMap::new(),
            copies_before: (0, 0),
            unconfigured: BTreeSet::new(),
            queue: EventQueue::new(),
            frames_in_flight: Vec::new(),
            free_slots: Vec::new(),
            wake_times: vec![WakeTimes::EMPTY; count],
            scratch: vec![0; FRAME_BYTES],
        }
    }

    /// Lets everything happen until `until`, and makes that the present.
    pub(crate) fn run(&mut self, until: Time) {
        while let Some((at, event)) = self.queue.pop(until) {
            self.now = self.now.max(at);
            self.counters.events += 1;
            match event {
                Event::Arrive(flight) => self.arrive(flight),
                Event::Wake(node) => self.wake(node),
                Event::Fault(fault) => self.fault(index(fault)),
                Event::LinkCheck(cable) => self.check_links(index(cable)),
                Event::Manager(manager) => self.wake_manager(index(manager)),
                Event::Audit => self.audit(),
            }
        }
        self.now = self.now.max(until);
    }

    fn wake(&mut self, id: u32) {
        let node = index(id);
        if self.wake_times[node].far_wake == self.now {
            self.wake_times[node].far_wake = Time::NEVER;
            self.schedule_wake(id);
        }
        let times = &mut self.wake_times[node];
        if times.wake != self.now {
            return;
        }
        times.wake = Time::NEVER;
        let (at, count) = times.woken;
        times.woken = (self.now, if at == self.now { count + 1 } else { 1 });
        self.nodes[node].tick(self.now);
        self.service(id);
    }

    fn arrive(&mut self, flight: u32) {
        let slot = index(flight);
        let FrameInFlight {
            node,
            port,
            head,
            tail,
            plug_epoch,
            what,
            ..
        } = self.frames_in_flight[slot];
        let at = index(node);
        match what {
            FrameContents::Handed(packet, id) => {
                self.free_slots.push(flight);
                self.in_flight -= 1;
                self.packet_received(at, port, weight_of(&packet.lrh), id);
                if self.cables.is_unbroken(at, port, plug_epoch) {
                    self.nodes[at].handed(self.now, port, (head, tail), packet);
                    self.service(node);
                } else {
                    self.counters.lost += 1;
                }
                return;
            }
            FrameContents::Credits {
                received,
                mut packet,
            } => {
                self.free_slots.push(flight);
                if self.ideal {
                    self.cables.add_received_to(at, port, received, &mut packet);
                }
                if self.cables.is_unbroken(at, port, plug_epoch) {
                    self.nodes[at].credits(self.now, port, packet);
                    self.service(node);
                }
                return;
            }
            FrameContents::Packet(_) | FrameContents::Control { .. } => {}
        }
        let mut bytes = core::mem::take(&mut self.frames_in_flight[slot].bytes);
        match what {
            FrameContents::Packet(id) => {
                self.in_flight -= 1;
                self.packet_received(at, port, weight(&bytes), id);
            }
            FrameContents::Handed(..) | FrameContents::Credits { .. } => {}
            FrameContents::Control { received } if self.ideal => {
                self.cables
                    .add_received(index(node), port, received, &mut bytes);
            }
            FrameContents::Control { .. } => {}
        }
        if self.cables.is_unbroken(index(node), port, plug_epoch) {
            if let (Some(datagrams), Node::Host(_)) =
                (&mut self.datagrams, &self.nodes[index(node)])
                && let Some(what) = datagrams.at_host(self.now, node, &bytes)
            {
                self.tracker.report_violation(self.now, what);
            }
            self.nodes[index(node)].frame(self.now, port, (head, tail), &bytes);
            self.service(node);
        } else if matches!(what, FrameContents::Packet(_)) {
            self.counters.lost += packets_in(&bytes);
        }
        self.frames_in_flight[slot].bytes = bytes;
        self.free_slots.push(flight);
    }

    /// Tells cable and checkers of a packet that comes to a port.
    #[inline]
    fn packet_received(
        &mut self,
        node: usize,
        port: PortNum,
        weight: (usize, u16),
        id: Option<PacketId>,
    ) {
        self.cables.packet_received(node, port, weight);
        if let Some(id) = id
            && self.nodes[node].is_switch()
        {
            self.tracker.enter_switch(self.now, id);
        }
    }

    /// Pulls a device until it has nothing more to send now, and notes when it is to be woken.
    pub(crate) fn service(&mut self, id: u32) {
        let node = index(id);
        match &self.nodes[node] {
            Node::Switch(_) => self.pull(node),
            Node::TrafficHost(_) => {
                self.pull(node);
                self.collect_received(node);
            }
            Node::Host(_) => loop {
                self.pull(node);
                if !self.exchange_with_host(id) {
                    break;
                }
            },
        }
        self.schedule(id);
    }

    fn pull(&mut self, node: usize) {
        let mut scratch = core::mem::take(&mut self.scratch);
        loop {
            let ready = self.nodes[node].ready(self.now);
            if ready.is_empty() {
                break;
            }
            let mut sent = false;
            for port in ready.iter() {
                let mut frame = match self.hands_over {
                    true => FrameBuf::for_handing(&mut scratch),
                    false => FrameBuf::new(&mut scratch, usize::MAX),
                };
                let records = self.nodes[node].transmit(self.now, port, &mut frame);
                self.collect_injected(node);
                if records == 0 {
                    continue;
                }
                sent = true;
                if let Some(packet) = frame.take_credits() {
                    self.put_credits_on_cable(node, port, packet);
                }
                let tail = frame.tail();
                if !frame.as_bytes().is_empty() {
                    self.put_on_cable(node, port, frame.as_bytes_mut(), tail);
                }
                if let Some(packet) = frame.handed() {
                    self.put_handed_on_cable(node, port, packet, tail);
                }
            }
            if !sent {
                break;
            }
        }
        self.scratch = scratch;
    }

    fn schedule(&mut self, id: u32) {
        let node = index(id);
        let mut at = self.nodes[node].due_at().max(self.now);
        let times = &mut self.wake_times[node];
        if at == self.now && times.woken.0 == at && times.woken.1 >= WAKES_A_MOMENT {
            at = self.now + 1;
        }
        if at != times.wake {
            times.wake = at;
            self.schedule_wake(id);
        }
    }

    /// Schedules the wake-up of a device at its deadline. That of an idle device is its next keep-alive,
    /// over and over again: far ahead, one that comes no later than wanted is enough.
    fn schedule_wake(&mut self, id: u32) {
        let times = &mut self.wake_times[index(id)];
        let at = times.wake;
        if at == Time::NEVER {
            return;
        }
        if at.since_ns(self.now) > FAR_NS {
            if times.far_wake <= at {
                return;
            }
            times.far_wake = at;
        }
        self.queue.push(at, Event::Wake(id));
    }

    fn collect_injected(&mut self, node: usize) {
        if let Node::TrafficHost(host) = &mut self.nodes[node]
            && let Some(source) = self.host_numbers[node]
        {
            for packet in host.injected.drain(..) {
                self.tracker.inject(self.now, source, &packet);
            }
        }
    }

    fn collect_received(&mut self, node: usize) {
        if let Node::TrafficHost(host) = &mut self.nodes[node]
            && let Some(at) = self.host_numbers[node]
        {
            if let Some(flow_counters) = &mut self.flow_counters
                && let Some(source) = host.source_mut()
            {
                source
                    .generated
                    .drain(..)
                    .for_each(|generated| flow_counters.generated(&generated));
            }
            for packet in host.received.drain(..) {
                if let Some(delivery) = self.tracker.deliver(self.now, at, &packet) {
                    self.measure.record(delivery);
                    if let Some(flow_counters) = &mut self.flow_counters {
                        flow_counters.delivered(&delivery);
                    }
                }
            }
        }
    }

    /// Passes a frame through the interposers.
    #[inline]
    fn pass(&mut self, node: usize, port: PortNum, frame: &mut [u8]) -> Passage {
        let node = NodeId::from_index(node);
        let mut passage = Passage::Once;
        for interposer in &mut self.interposers {
            match interposer.pass(self.now, Endpoint { node, port }, frame) {
                Passage::Never => return Passage::Never,
                Passage::Once => {}
                Passage::Twice => passage = Passage::Twice,
            }
        }
        passage
    }

    fn schedule_arrival(
        &mut self,
        (node, port): (u32, PortNum),
        (head, tail): (Time, Time),
        bytes: &[u8],
        what: FrameContents,
    ) {
        self.counters.frames += 1;
        let slot = self.free_slots.pop().unwrap_or_else(|| {
            self.frames_in_flight.push(FrameInFlight::default());
            number(self.frames_in_flight.len() - 1)
        });
        let flight = &mut self.frames_in_flight[index(slot)];
        flight.node = node;
        flight.port = port;
        flight.head = head;
        flight.tail = tail;
        flight.plug_epoch = self.cables.plug_epoch(index(node), port);
        flight.what = what;
        if !bytes.is_empty() {
            flight.bytes.clear();
            flight.bytes.extend_from_slice(bytes);
        }
        self.queue.push(head, Event::Arrive(slot));
    }

    /// Schedules what the plan of faults holds, from `start` on.
    pub(crate) fn schedule_faults(&mut self, start: Time) {
        for (at, fault) in (0u32..).zip(&self.faults.faults) {
            self.queue.push(start + fault.at_ns, Event::Fault(at));
        }
    }

    fn fault(&mut self, at: usize) {
        let Some(Fault { what, .. }) = self.faults.faults.get(at).cloned() else {
            return;
        };
        self.apply_fault(&what);
    }
}
