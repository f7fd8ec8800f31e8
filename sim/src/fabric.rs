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

use link::{DropReason, FrameBuf, Time};
use routing::Tables;
use topologies::{Endpoint, Graph, NodeId};
use wire::PortNum;

use crate::cable::Cables;
use crate::datagrams::Datagrams;
use crate::deadlock::Deadlock;
use crate::event_queue::EventQueue;
use crate::extra_tables::ExtraTables;
use crate::faults::{Fault, FaultPlan};
use crate::flow_counters::FlowCounters;
use crate::interposer::{Interposer, Passage};
use crate::measurement::MeasurementWindow;
use crate::model::{CreditReturn, Model};
use crate::node::Node;
use crate::numbers::index;
use crate::packet_tracker::PacketTracker;

mod audit;
mod configure;
mod departure;
mod faults;
mod flight;
mod management;
mod waits;

use flight::FrameInFlight;
use management::Management;

pub use configure::ManagementError;

/// Room of one frame: the flow control of all VLs and the longest packet.
const FRAME_BYTES: usize = 8192;
/// A wake-up later than this counts as far ahead, nanoseconds.
const FAR_NS: u64 = 100_000;
/// A device is woken at most so often within one nanosecond.
const WAKES_A_MOMENT: u32 = 64;
/// So many devices do not stay in the processor's caches.
const MANY_DEVICES: usize = 512;

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
    /// Their bytes, at the same places.
    bytes_in_flight: Vec<Vec<u8>>,
    free_slots: Vec<u32>,
    /// By node.
    wake_times: Vec<WakeTimes>,
    scratch: Vec<u8>,
    ideal: bool,
    /// Whether devices are too many for the processor's caches.
    looks_ahead: bool,
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
            looks_ahead: count >= MANY_DEVICES,
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
            bytes_in_flight: Vec::new(),
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
            if self.looks_ahead {
                self.look_ahead();
            }
            match event {
                Event::Arrive(flight) => self.arrive(at, flight),
                Event::Wake(node) => self.wake(node),
                Event::Fault(fault) => self.fault(index(fault)),
                Event::LinkCheck(cable) => self.check_links(index(cable)),
                Event::Manager(manager) => self.wake_manager(index(manager)),
                Event::Audit => self.audit(),
            }
        }
        self.now = self.now.max(until);
    }

    /// Reads what the event after this one needs of its device. Devices are visited in no order, and in a large fabric none is in
    /// the processor's caches when its event comes; these reads wait for nothing and for no other, so that the memory has come
    /// when it is needed.
    #[inline]
    fn look_ahead(&self) {
        let read = match self.queue.peek() {
            Some(Event::Arrive(slot)) => {
                let FrameInFlight { node, port, .. } = self.frames_in_flight[index(slot)];
                self.nodes[index(node)].read_ahead(port)
            }
            Some(Event::Wake(node)) => self.nodes[index(node)].read_ahead(PortNum::MANAGEMENT),
            _ => 0,
        };
        core::hint::black_box(read);
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
        loop {
            let ready = self.nodes[node].ready(self.now);
            if ready.is_empty() {
                return;
            }
            let mut sent = false;
            for port in ready.iter() {
                sent |= self.pull_port(node, port);
            }
            if !sent {
                return;
            }
        }
    }

    /// Lets a device fill a frame for a port and puts that on the cable. Whether there was anything.
    fn pull_port(&mut self, node: usize, port: PortNum) -> bool {
        let mut scratch = core::mem::take(&mut self.scratch);
        let mut frame = match self.hands_over {
            true => FrameBuf::for_handing(&mut scratch),
            false => FrameBuf::new(&mut scratch, usize::MAX),
        };
        let records = self.nodes[node].transmit(self.now, port, &mut frame);
        self.collect_injected(node);
        if records > 0 {
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
        self.scratch = scratch;
        records > 0
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
