//! The flows of one host: which of them sends next.
//!
//! Flows that may send are in a ring of their service level and take turns, a packet each. Flows
//! that wait for a time are in a set of timers; those that wait for their sink are in neither. Those that have to query their
//! sinks take turns ([`Queries`]).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use link::{Admission, DropReason, Packet, Time};
use transport::{DirectQp, Engine};
use wire::{Lid, Mtu, Qpn, Sl, TrafficKind, Vl};

use super::flow::{Flow, ToGroup};
use super::queries::{Patience, Queries};
use super::sink::Sink;
use super::steps::Steps;
use crate::adapter::Adapter;
use crate::control::{
    AWAITED_MAX, Awaited, FLOWS_MAX, FlowReport, FlowState, FlowsProgress, GROUP_PACKET_BYTES_MIN,
    Latency, PACKET_BYTES_MIN, PERF_REPORTS_MAX, PerfRequest, Step, WINDOW_MAX,
};
use crate::service::{FlowHead, SinkCounts};

/// A query to a sink.
#[derive(Debug)]
pub(crate) struct Query {
    pub(crate) dlid: Lid,
    pub(crate) qpn: Qpn,
    pub(crate) sl: Sl,
    pub(crate) head: FlowHead,
}

/// The flows of one host.
#[derive(Debug)]
pub(crate) struct Source {
    flows: BTreeMap<u32, Flow>,
    /// By service level, the flows that may send.
    rings: [VecDeque<u32>; 16],
    timers: BTreeSet<(Time, u32)>,
    queries: Queries,
    patience: Patience,
    last_run: u32,
    /// Flows that send only where a grant lets them.
    waiting: BTreeSet<u32>,
    /// The latest grant: base LID of the destination, and by which LID.
    grant: Option<(Lid, Lid)>,
    /// What steps wait for: source and number of a flow, how many packets of it, and which step.
    steps: Steps,
    /// Flows with a rate are scheduled no more often than this, and then send in one burst.
    tick_ns: u64,
    /// The queue pair that they send from.
    qp: DirectQp,
}

/// A packet length that PktLen can encode: rounded up to whole words and the VCRC.
pub(crate) fn rounded(size: u16, mtu: Mtu) -> Result<u16, String> {
    let rounded = size.saturating_sub(2).next_multiple_of(4) + 2;
    // LRH, BTH, DETH before the payload, ICRC and VCRC behind.
    let max = mtu.bytes() + 34;
    if rounded < PACKET_BYTES_MIN || rounded > max {
        return Err(format!(
            "a packet of {size} bytes: {PACKET_BYTES_MIN} to {max} under the MTU of {}",
            mtu.bytes()
        ));
    }
    Ok(rounded)
}

impl Source {
    pub(crate) fn new(qp: DirectQp, tick_ns: u64) -> Self {
        Self {
            flows: BTreeMap::new(),
            rings: Default::default(),
            timers: BTreeSet::new(),
            queries: Queries::default(),
            patience: Patience::default(),
            last_run: 0,
            waiting: BTreeSet::new(),
            grant: None,
            steps: Steps::default(),
            tick_ns,
            qp,
        }
    }

    /// Starts a flow that sends from `starts` on.
    pub(crate) fn start(
        &mut self,
        now: Time,
        starts: Time,
        request: PerfRequest,
        port: (&Adapter, &Engine),
    ) -> Result<(), String> {
        if !request.dlid.is_unicast() {
            return Err(format!("LID {} is no destination", request.dlid));
        }
        if request.window == 0 && request.rate == 0 {
            return Err("a flow needs a window or a rate".to_owned());
        }
        self.insert(now, starts, (request, None), port)
    }

    /// Starts a flow to a multicast group, from `starts` on.
    pub(crate) fn start_to_group(
        &mut self,
        now: Time,
        starts: Time,
        (request, group): (PerfRequest, ToGroup),
        port: (&Adapter, &Engine),
    ) -> Result<(), String> {
        if request.window != 0 {
            return Err("nobody acknowledges packets to a group: no window".to_owned());
        }
        if request.size < GROUP_PACKET_BYTES_MIN {
            return Err(format!(
                "a packet of {} bytes to a group: {GROUP_PACKET_BYTES_MIN} at least",
                request.size
            ));
        }
        self.insert(now, starts, (request, Some(group)), port)
    }

    fn insert(
        &mut self,
        now: Time,
        starts: Time,
        (request, group): (PerfRequest, Option<ToGroup>),
        port: (&Adapter, &Engine),
    ) -> Result<(), String> {
        let (adapter, engine) = port;
        let size = rounded(request.size, adapter.settings.mtu)?;
        if adapter.owns(request.dlid) {
            return Err("the destination is this host itself".to_owned());
        }
        if request.window > WINDOW_MAX {
            return Err(format!("a window has at most {WINDOW_MAX} packets"));
        }
        let old = self.flows.get(&request.flow);
        if old.is_some_and(|old| matches!(old.state, FlowState::Running | FlowState::Draining)) {
            return Err(format!("flow {} is under way: stop it first", request.flow));
        }
        if old.is_none() && self.flows.len() >= FLOWS_MAX {
            return Err(format!(
                "a host holds {FLOWS_MAX} flows at most: clear some"
            ));
        }
        // Not 0, and different after a restart, because the clock is later then.
        let [.., a, b, c, d] = (now.0 >> 10).to_be_bytes();
        self.last_run = self
            .last_run
            .max(u32::from_be_bytes([a, b, c, d]))
            .wrapping_add(1);
        let id = request.flow;
        let flow = Flow::new(
            starts,
            (request, group),
            self.last_run,
            size,
            self.tick_ns,
            (engine, self.qp),
        );
        let flow = flow.map_err(|why| why.to_string())?;
        self.flows.insert(id, flow);
        self.waiting.remove(&id);
        self.steps.forget(id);
        self.reschedule(now, id);
        Ok(())
    }

    /// Starts a flow that sends only while a grant names its destination, to the LID granted.
    pub(crate) fn start_granted(
        &mut self,
        now: Time,
        request: PerfRequest,
        port: (&Adapter, &Engine),
    ) -> Result<(), String> {
        let id = request.flow;
        self.start(now, now, request, port)?;
        self.waiting.insert(id);
        self.apply_grant(now, id);
        Ok(())
    }

    /// Starts a flow that begins when others have got so far, by what `sink` has received of them.
    pub(crate) fn start_step(
        &mut self,
        now: Time,
        starts: Time,
        step: Step,
        port: (&Adapter, &Engine),
        sink: &Sink,
    ) -> Result<(), String> {
        let Step { flow, after } = step;
        if after.len() > AWAITED_MAX {
            return Err(format!("a step waits for {AWAITED_MAX} flows at most"));
        }
        if flow.count == 0 || flow.duration_ms != 0 {
            return Err("a step has a number of packets, and no other end".to_owned());
        }
        let id = flow.flow;
        // It may not send before it is known what it waits for.
        self.start(now, Time::NEVER, flow, port)?;
        let lid = port.0.settings.lid;
        let has_come = |awaited: &Awaited| {
            let of = match awaited.source == lid {
                true => self.flows.get(&awaited.flow).map_or(0, Flow::sent),
                false => sink.received(awaited.source, awaited.flow),
            };
            of >= awaited.packets
        };
        let missing: Vec<Awaited> = after.into_iter().filter(|one| !has_come(one)).collect();
        if let Some(flow) = self.flows.get_mut(&id) {
            flow.begin_at(starts, missing.len());
        }
        self.steps.wait(id, &missing);
        self.reschedule(now, id);
        Ok(())
    }

    /// Whether any step waits.
    #[inline]
    pub(crate) fn awaits_any(&self) -> bool {
        !self.steps.is_empty()
    }

    /// A flow has got so far: lets begin what has waited for that.
    pub(crate) fn advanced(&mut self, now: Time, of: (Lid, u32), packets: u64) {
        for id in self.steps.advanced(of, packets) {
            if let Some(flow) = self.flows.get_mut(&id) {
                flow.let_begin(now);
                self.reschedule(now, id);
            }
        }
    }

    /// Applies a grant: to which host flows that wait for one may send, and by which LID.
    pub(crate) fn grant(&mut self, now: Time, grant: Option<(Lid, Lid)>) {
        self.grant = grant;
        let waiting: Vec<u32> = self.waiting.iter().copied().collect();
        for id in waiting {
            self.apply_grant(now, id);
        }
    }

    fn apply_grant(&mut self, now: Time, id: u32) {
        if let Some(flow) = self.flows.get_mut(&id) {
            let mine = |&(destination, _): &(Lid, Lid)| destination == flow.request.dlid;
            let dlid = self.grant.filter(mine).map(|(_, dlid)| dlid);
            flow.apply_grant(dlid);
            self.reschedule(now, id);
        }
    }

    /// Updates the flow's membership in its ring and its timer after a change. A timer that is too
    /// early stays: it finds nothing to do and is set anew.
    fn reschedule(&mut self, now: Time, id: u32) {
        let Some(flow) = self.flows.get_mut(&id) else {
            return;
        };
        if !flow.in_ring && flow.may_send(now) {
            flow.in_ring = true;
            self.rings[flow.request.sl.index()].push_back(id);
        }
        let Some(due) = flow.deadline(now + self.tick_ns, self.patience) else {
            return;
        };
        if flow.timer.is_some_and(|timer| timer <= due) {
            return;
        }
        if let Some(late) = flow.timer.replace(due) {
            self.timers.remove(&(late, id));
        }
        self.timers.insert((due, id));
    }

    /// Does what is due at `now` and returns the next query to be sent. Call until `None`.
    pub(crate) fn poll(&mut self, now: Time) -> Option<Query> {
        loop {
            if let Some(id) = self.queries.next(now) {
                if let Some(query) = self.ask(now, id) {
                    return Some(query);
                }
                continue;
            }
            let &(at, id) = self.timers.first()?;
            if at > now {
                return None;
            }
            self.timers.pop_first();
            let Some(flow) = self.flows.get_mut(&id) else {
                continue;
            };
            flow.timer = None;
            if flow.tick(now, self.patience) && !flow.waits_to_ask {
                flow.waits_to_ask = true;
                self.queries.wait(id);
            }
            self.reschedule(now, id);
        }
    }

    /// It is a flow's turn to query its sink, if it still has to.
    fn ask(&mut self, now: Time, id: u32) -> Option<Query> {
        let flow = self.flows.get_mut(&id)?;
        flow.waits_to_ask = false;
        let query = (flow.tick(now, self.patience) && flow.ask(now)).then(|| {
            let (dlid, qpn) = flow.destination();
            self.queries.begin(now + self.patience.stall_ns(0), id);
            Query {
                dlid,
                qpn,
                sl: flow.request.sl,
                head: flow.query(now),
            }
        });
        self.reschedule(now, id);
        query
    }

    /// When something is due.
    pub(crate) fn deadline(&self) -> Option<Time> {
        let timer = self.timers.first().map(|&(at, _)| at);
        timer.into_iter().chain(self.queries.deadline()).min()
    }

    /// Whether [`Source::fill`] would find a packet and room for it.
    pub(crate) fn can_fill(&self, adapter: &Adapter) -> bool {
        (0u8..)
            .map(Sl::truncate)
            .zip(&self.rings)
            .any(|(sl, ring)| {
                let flow = ring.front().and_then(|id| self.flows.get(id));
                flow.is_some_and(
                    |flow| match admission(adapter, adapter.vl(sl), flow.size()) {
                        Admission::Room => true,
                        Admission::Full => false,
                        Admission::Drop(reason) => reason != DropReason::OutputInactive,
                    },
                )
            })
    }

    /// Writes packets into the port's output VLs, as long as flows may send and VLs have room.
    pub(crate) fn fill(&mut self, now: Time, adapter: &mut Adapter, engine: &mut Engine) {
        for sl in (0..16).map(Sl::truncate) {
            let vl = adapter.vl(sl);
            while let Some(&id) = self.rings[sl.index()].front() {
                if !self.fill_one(now, (adapter, engine), id, vl) {
                    break;
                }
            }
        }
    }

    /// Lets the flow at the front of its ring send one packet, or takes it out of the ring.
    /// Returns `false` if the VL takes no more now.
    #[inline]
    fn fill_one(
        &mut self,
        now: Time,
        (adapter, engine): (&mut Adapter, &mut Engine),
        id: u32,
        vl: Vl,
    ) -> bool {
        let Some(flow) = self.flows.get_mut(&id) else {
            self.rings
                .iter_mut()
                .for_each(|ring| ring.retain(|&other| other != id));
            return true;
        };
        let ring = &mut self.rings[flow.request.sl.index()];
        if flow.may_send(now) {
            match admission(adapter, vl, flow.size()) {
                Admission::Room => {
                    emit(now, flow, adapter, engine);
                    if flow.may_send(now) {
                        ring.rotate_left(1);
                        return true;
                    }
                    if flow.is_count_reached() && !self.steps.is_empty() {
                        let sent = flow.sent();
                        ring.pop_front();
                        flow.in_ring = false;
                        self.reschedule(now, id);
                        self.advanced(now, (adapter.settings.lid, id), sent);
                        return true;
                    }
                }
                Admission::Full | Admission::Drop(DropReason::OutputInactive) => return false,
                Admission::Drop(reason) => {
                    adapter.counts().drop_one(reason);
                    flow.abandon(now);
                }
            }
        }
        ring.pop_front();
        flow.in_ring = false;
        self.reschedule(now, id);
        true
    }

    /// Handles a sink's reply.
    pub(crate) fn handle_reply(
        &mut self,
        now: Time,
        head: &FlowHead,
        counts: SinkCounts,
        latency: Option<Latency>,
    ) {
        let Some(flow) = self.flows.get_mut(&head.flow) else {
            return;
        };
        if flow.run == head.run {
            if head.kind == TrafficKind::Report {
                self.queries.end(head.flow);
            }
            flow.handle_reply(now, head, counts, latency, &mut self.patience);
            self.reschedule(now, head.flow);
        }
    }

    /// Ends a flow; `false` if there is none of this number.
    pub(crate) fn stop(&mut self, now: Time, id: u32) -> bool {
        let Some(flow) = self.flows.get_mut(&id) else {
            return false;
        };
        flow.drain(now);
        self.reschedule(now, id);
        true
    }

    /// Ends all flows that run.
    pub(crate) fn stop_all(&mut self, now: Time) {
        let all: Vec<u32> = self.flows.keys().copied().collect();
        for id in all {
            self.stop(now, id);
        }
    }

    /// How far all flows are together.
    pub(crate) fn progress(&self) -> FlowsProgress {
        let mut progress = FlowsProgress::default();
        for flow in self.flows.values() {
            let is_under_way = matches!(flow.state, FlowState::Running | FlowState::Draining);
            progress.flows += 1;
            progress.waiting += u32::from(flow.is_waiting());
            progress.under_way += u32::from(is_under_way);
            progress.sent += flow.next;
            progress.delivered += flow.delivered();
        }
        progress
    }

    /// Forgets all flows.
    pub(crate) fn clear(&mut self) {
        self.flows.clear();
        self.waiting.clear();
        self.steps = Steps::default();
        self.timers.clear();
        self.queries = Queries::default();
        self.patience = Patience::default();
        self.rings = Default::default();
    }

    pub(crate) fn report(&self, now: Time, id: u32) -> Option<FlowReport> {
        self.flows.get(&id).map(|flow| flow.report(now))
    }

    pub(crate) fn reports(&self, now: Time, from: u32) -> Vec<FlowReport> {
        let flows = self.flows.range(from..).take(PERF_REPORTS_MAX);
        flows.map(|(_, flow)| flow.report(now)).collect()
    }
}

/// Whether the port takes a packet of traffic on a VL. VL15 in the SL-to-VL table means drop.
fn admission(adapter: &Adapter, vl: Vl, size: usize) -> Admission {
    if vl == Vl::MANAGEMENT {
        return Admission::Drop(DropReason::OutputVl);
    }
    adapter.port.admits(vl, size)
}

/// Puts the flow's next packet into the VL's output queue. Without memory it is dropped and
/// counted.
#[inline]
fn emit(now: Time, flow: &mut Flow, adapter: &mut Adapter, engine: &mut Engine) {
    adapter.traffic.count_sent(flow.kind);
    let kind = flow.kind;
    let packet = flow.next_packet(now, engine);
    let (bytes, vl) = match packet {
        Ok(packet) => packet,
        Err(_) => return adapter.counts().drop_packet(DropReason::OutputVl, kind),
    };
    match Packet::from_bytes(&mut adapter.pool, now, bytes) {
        Ok(packet) => adapter.port.enqueue(now, vl, packet),
        Err(_) => adapter.counts().drop_packet(DropReason::PoolFull, kind),
    }
}
