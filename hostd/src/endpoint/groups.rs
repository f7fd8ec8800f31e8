//! The host's own multicast groups: between the administrator, the port and the control side.

use link::{DropReason, PortState, Time};
use transport::{DirectSend, Partition};
use wire::attr::PortInfo;
use wire::mad::{Mad, MadStatus, Method};
use wire::sa::McMemberRecord;
use wire::{AttributeId, Format as _, GlobalRoute, Lid, Qpn, Sl, TrafficKind, UdPacket};

use super::Endpoint;
use crate::connections::OF_CONNECTIONS;
use crate::control::{FLOWS_MAX, MulticastSend, PerfRequest, Reply, SOURCE_QPN};
use crate::host::Event;
use crate::membership;
use crate::multicast::{GroupPacket, MulticastHead};
use crate::service::FlowHead;
use crate::traffic::{Peer, ToGroup, rounded};

/// Bytes of a packet to a group besides its payload, LRH to VCRC.
const GROUP_OVERHEAD: usize = 74;
/// Packets handed to the port in one go at most.
const BURST_MAX: usize = 256;

impl Endpoint {
    /// Joins or leaves a group; answered when the administrator has.
    pub(super) fn change_group(
        &mut self,
        now: Time,
        token: u64,
        mgid: wire::Gid,
        join: Option<bool>,
    ) -> Result<(), String> {
        if self.adapter.settings.sm_lid == Lid::ZERO
            || self.adapter.port.state() != PortState::Active
        {
            return Err("the port is not Active, or no subnet manager has set it up".to_owned());
        }
        match join {
            Some(send_only) => self.multicast.join(now, token, mgid, send_only),
            None => self.multicast.leave(now, token, mgid),
        }
    }

    /// Starts to send to a group; answered when the last packet is with the port.
    pub(super) fn start_send_job(
        &mut self,
        token: u64,
        request: MulticastSend,
    ) -> Result<(), String> {
        rounded(request.size, self.adapter.settings.mtu)?;
        self.multicast.send(token, request)
    }

    /// Starts flows to a group that the host is in.
    pub(super) fn start_group_flows(
        &mut self,
        now: Time,
        delay_ms: u32,
        mgid: wire::Gid,
        requests: Vec<PerfRequest>,
    ) -> Result<(), String> {
        if requests.len() > FLOWS_MAX {
            return Err(format!("a host holds {FLOWS_MAX} flows at most"));
        }
        let record = self.multicast.record(mgid);
        let record = record.ok_or_else(|| format!("this host is not in {mgid}: join first"))?;
        let group = ToGroup {
            global: self.route_to(&record),
            qkey: record.qkey,
            pkey: record.pkey,
        };
        self.refresh();
        let starts = now + u64::from(delay_ms) * 1_000_000;
        for request in requests {
            let request = PerfRequest {
                dlid: record.mlid,
                qpn: Qpn::MULTICAST,
                sl: record.sl,
                ..request
            };
            let port = (&self.adapter, &self.engine);
            self.source
                .start_to_group(now, starts, (request, group), port)?;
        }
        Ok(())
    }

    fn route_to(&self, record: &McMemberRecord) -> GlobalRoute {
        GlobalRoute {
            tclass: record.tclass,
            flow_label: record.flow_label,
            hop_limit: record.hop_limit,
            sgid: self.own_gid(),
            dgid: record.mgid,
        }
    }

    /// Takes in a packet of a flow to a group that the host is in.
    pub(super) fn hear(
        &mut self,
        at: Time,
        datagram: &UdPacket<'_>,
        bytes: usize,
    ) -> Result<(), DropReason> {
        let Ok((head, _)) = FlowHead::parse(datagram.payload) else {
            return Ok(());
        };
        if datagram.src_qp != SOURCE_QPN || head.kind != TrafficKind::Data {
            return Ok(());
        }
        let from = Peer {
            lid: datagram.slid,
            qpn: datagram.src_qp,
            sl: datagram.sl,
            to: datagram.dlid,
        };
        let heard = self.sink.hear(at, from, &head, bytes);
        heard.map_err(|_| DropReason::ReceiverFull)
    }

    /// Sends the requests to the administrator that are due, and reports the results of those
    /// answered.
    pub(super) fn poll_groups(&mut self, now: Time) {
        let (gid, pkey) = (self.own_gid(), self.own_pkey());
        while let Some(mad) = self.multicast.poll(now, gid, pkey) {
            self.ask_administration(now, &mad);
        }
        while let Some((token, outcome)) = self.multicast.poll_outcome() {
            let reply = match outcome {
                Ok(membership) => Reply::Membership(membership),
                Err(why) => Reply::Refused(why),
            };
            self.push_event(Event::Control { token, reply });
        }
    }

    /// Sends a request of the host's own to subnet administration. One that gives up a membership which others at the host need
    /// is answered here: subnet administration knows one for all of them.
    pub(super) fn ask_administration(&mut self, now: Time, mad: &Mad) {
        let is_needed = |(mgid, join_state)| {
            let ip = self.ip.as_ref();
            self.multicast.holds(mgid, join_state)
                || self.connections.holds(mgid, join_state)
                || ip.is_some_and(|ip| ip.holds(mgid, join_state))
        };
        if membership::given_up(mad).is_some_and(is_needed) {
            let mut answer = *mad;
            answer.answer(MadStatus::OK);
            return self.administration_answered(now, &answer);
        }
        let sm = self.adapter.settings.sm_lid;
        self.send_gmp(now, mad, sm, Qpn::GSI, Sl::default());
    }

    /// Hands an answer of subnet administration to who has asked.
    fn administration_answered(&mut self, now: Time, mad: &Mad) {
        match &mut self.ip {
            Some(ip) if crate::ipoib::is_own(mad.tid()) => ip.answered(now, mad),
            _ if mad.tid() & OF_CONNECTIONS != 0 => self.connections.answered(now, mad),
            _ => self.multicast.answered(now, mad),
        }
    }

    /// Whether a packet to a group can be handed to the port.
    pub(super) fn can_send_multicast(&self) -> bool {
        self.multicast.is_sending() && !self.outbox.is_waiting()
    }

    /// Passes packets to the port as long as it has room.
    pub(super) fn send_multicast(&mut self, now: Time) {
        for _ in 0..BURST_MAX {
            if !self.can_send_multicast() {
                return;
            }
            let Some(packet) = self.multicast.next_packet() else {
                continue;
            };
            self.send_group_packet(now, &packet);
            while let Some(own) = self.outbox.poll_looped() {
                self.accept(now, now, &own);
            }
            if let Some(token) = packet.last_of {
                let reply = Reply::Done;
                self.push_event(Event::Control { token, reply });
            }
        }
    }

    fn send_group_packet(&mut self, now: Time, packet: &GroupPacket) {
        let mut payload = [0; wire::Mtu::Mtu4096.bytes() as usize];
        let room = usize::from(packet.size).saturating_sub(GROUP_OVERHEAD) / 4 * 4;
        let len = room.clamp(MulticastHead::LEN, payload.len());
        packet.head.emit(&mut payload);
        let record = &packet.record;
        let send = DirectSend {
            dlid: record.mlid,
            src_path_bits: 0,
            sl: record.sl,
            global: Some(self.route_to(record)),
            partition: Partition::Of(record.pkey),
            dest_qp: Qpn::MULTICAST,
            qkey: record.qkey,
            payload: &payload[..len],
        };
        self.refresh();
        let is_heard = self.engine.is_attached(record.mgid);
        self.send_to_group(now, self.own.source, &send, is_heard);
    }

    /// Whether an SMP indicates that the subnet manager may have lost this host's memberships.
    pub(super) fn is_reregistration(mad: &Mad) -> bool {
        mad.method() == Method::SET
            && mad.attr_id() == AttributeId::PORT_INFO
            && mad
                .smp_attribute::<PortInfo>()
                .is_ok_and(|info| info.client_reregister)
    }
}
