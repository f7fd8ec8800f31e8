//! The queue pairs of programs' verbs at the port: packets in and out, what the subnet manager sets, contexts.

use link::{Admission, DropReason, PortState, Time};
use mad::sma::PacketKey;
use transport::{PacketDrop, PortAttributes, Transmitted};
use uverbs::{DeviceAttributes, Request};
use wire::attr::{PortInfo, Trap257};
use wire::packet::Transport;
use wire::{
    AttributeId, DataPacket, Deth, Format as _, Gid, Mad, Method, Mtu, PortNum, Qpn, Sl, Vl,
};

use super::Endpoint;
use crate::clients::ClientId;
use crate::host::Event;
use crate::outbox::PACKET_BYTES_MAX;
use crate::verbs::{PortView, ToVerbs, Verbs, drop_reason};

/// Packets of queue pairs handed to the port in one go at most.
const BURST_MAX: usize = 256;
/// Packets of queue pairs to the host itself that one call delivers at most.
const LOOPED_A_CALL: usize = 4096;
/// The longest message of a queue pair.
const MESSAGE_BYTES_MAX: u32 = 1 << 31;
/// Entries of the port's GID table.
const GIDS_MAX: u32 = 256;

impl Endpoint {
    /// Handles a message of a context.
    pub(crate) fn handle_verbs_message(&mut self, now: Time, client: ClientId, message: ToVerbs) {
        match message {
            ToVerbs::Open { .. } => {
                self.update_verbs();
                let device = self.describe(now);
                self.verbs.open(client, device);
            }
            ToVerbs::Request(Request::Describe) => {
                let device = self.describe(now);
                self.verbs.describe(client, device);
            }
            message => self.verbs.handle(now, client, message),
        }
    }

    /// A context has ended.
    pub(crate) fn close_verbs(&mut self, client: ClientId) {
        self.verbs.close(client);
    }

    /// Hands out what the verbs have for their contexts.
    pub(super) fn settle_verbs(&mut self, now: Time) {
        self.verbs.settle(now);
        while let Some((client, message)) = self.verbs.poll_output() {
            self.push_event(Event::Verbs { client, message });
        }
    }

    /// What a program sees of the adapter and of this port.
    fn describe(&mut self, now: Time) -> DeviceAttributes {
        let port = self.describe_port(now);
        let identity = &self.adapter.identity;
        DeviceAttributes {
            description: identity.description.clone(),
            node_guid: identity.node_guid.0,
            sys_image_guid: identity.system_image_guid.0,
            vendor_id: identity.vendor_id,
            vendor_part_id: identity.device_id.into(),
            hw_ver: identity.revision,
            port,
            ..Verbs::capabilities()
        }
    }

    fn describe_port(&mut self, now: Time) -> uverbs::PortAttributes {
        let number = self.number();
        let asked = u32::from(number.get());
        let mut mad = Mad::lid_smp(Method::GET, AttributeId::PORT_INFO, asked, 0);
        self.read_attribute(now, &mut mad);
        let Ok(info) = mad.smp_attribute::<PortInfo>() else {
            return uverbs::PortAttributes::default();
        };
        let seen = self.transport_port();
        let mtu_code = |mtu: Option<Mtu>| mtu.map_or(0, Mtu::code);
        uverbs::PortAttributes {
            number: number.get(),
            state: self.adapter.port.state().code(),
            phys_state: info.port_phys_state as u8,
            max_mtu: mtu_code(info.mtu_cap),
            active_mtu: mtu_code(info.neighbor_mtu),
            max_msg_sz: MESSAGE_BYTES_MAX,
            port_cap_flags: info.capability_mask,
            bad_pkey_cntr: info.p_key_violations.into(),
            qkey_viol_cntr: info.q_key_violations.into(),
            lid: info.lid.get(),
            sm_lid: info.master_sm_lid.get(),
            lmc: info.lmc.get(),
            max_vl_num: info.vl_cap.map_or(0, |vls| vls.code()),
            sm_sl: info.master_sm_sl.get(),
            subnet_timeout: info.subnet_timeout,
            init_type_reply: info.init_type_reply,
            active_width: self.adapter.port.rate().width as u8,
            active_speed: 1 << self.adapter.port.rate().speed as u16,
            gids: seen.gids.iter().map(|gid| gid.0).collect(),
            gid_tbl_len: GIDS_MAX,
            pkey_tbl_len: u16::try_from(seen.pkeys.len()).unwrap_or(u16::MAX),
            pkeys: seen.pkeys,
        }
    }

    /// What the transport needs to know of the port.
    fn transport_port(&self) -> PortAttributes {
        let settings = &self.adapter.settings;
        let number = self.number();
        let prefix = self.sma.gid_prefix(number);
        let gid = |guid: &wire::Guid| match guid.0 {
            0 => Gid::default(),
            _ => Gid::new(prefix, *guid),
        };
        let mut gids: Vec<Gid> = self.sma.guids(number).iter().map(gid).collect();
        while gids.len() > 1 && gids.last() == Some(&Gid::default()) {
            gids.pop();
        }
        let mut sl_to_vl = [Vl::default(); 16];
        for (sl, vl) in Sl::all().zip(&mut sl_to_vl) {
            *vl = self.adapter.vl(sl);
        }
        PortAttributes {
            number: PortNum::new(1),
            lid: settings.lid,
            lmc: settings.lmc,
            mtu: settings.mtu,
            sl_to_vl,
            pkeys: self.sma.pkeys(number).to_vec(),
            gids,
        }
    }

    /// The subnet manager may have set the port anew, or its state has changed.
    pub(super) fn update_verbs(&mut self) {
        self.verbs_stale = false;
        let reregistered = std::mem::take(&mut self.reregistered);
        let view = PortView {
            is_active: self.adapter.port.state() == PortState::Active,
            sm_lid: self.adapter.settings.sm_lid.get(),
        };
        self.verbs
            .set_port(self.transport_port(), view, reregistered);
    }

    /// A packet for a queue pair of a program's verbs. `None` if it is for none.
    pub(super) fn verbs_packet(
        &mut self,
        now: Time,
        packet: &DataPacket<'_>,
    ) -> Option<Result<(), DropReason>> {
        if !self.verbs.is_used() || packet.lrh().dlid.is_multicast() {
            return None;
        }
        let headers = packet.transport().ok()?;
        if !self.verbs.engine.has_queue_pair(headers.bth.dest_qp) {
            return None;
        }
        Some(self.take_verbs_packet(now, packet, &headers))
    }

    fn take_verbs_packet(
        &mut self,
        now: Time,
        packet: &DataPacket<'_>,
        headers: &Transport<'_>,
    ) -> Result<(), DropReason> {
        let pkey = headers.bth.pkey;
        if !self.admits_pkey(pkey) {
            let details = details(packet, headers, pkey.into());
            self.report_key_violation(now, PacketKey::PKey, &details);
            return Err(DropReason::RcvPartition);
        }
        if headers.grh.is_some_and(|grh| !self.names_port(grh.dgid)) {
            return Err(DropReason::NotForUs);
        }
        let taken = self.verbs.engine.receive(now, &mut self.memory, packet);
        if taken.is_ok() {
            self.data_has_come(now, headers.bth.dest_qp);
        }
        if taken == Err(PacketDrop::QKey)
            && let Ok((deth, _)) = Deth::parse(headers.content)
        {
            let details = Trap257 {
                src_qp: deth.src_qp,
                ..details(packet, headers, deth.qkey)
            };
            self.report_key_violation(now, PacketKey::QKey, &details);
        }
        taken.map_err(drop_reason)
    }

    /// A datagram to a group, for the queue pairs of programs' verbs. Whether one of them has taken it.
    pub(super) fn verbs_group_packet(
        &mut self,
        now: Time,
        packet: &DataPacket<'_>,
        mgid: Gid,
    ) -> Result<bool, DropReason> {
        if !self.verbs.is_attached(mgid) {
            return Ok(false);
        }
        let taken = self.verbs.engine.receive(now, &mut self.memory, packet);
        taken.map(|()| true).map_err(drop_reason)
    }

    /// Does what is due in the queue pairs.
    pub(super) fn tick_verbs(&mut self, now: Time) {
        if self.verbs.engine.deadline().is_some_and(|due| due <= now) {
            self.verbs.engine.tick(now, &mut self.memory);
        }
    }

    /// The service levels of which queue pairs may send a packet now, a bit each.
    pub(super) fn sendable_sls(&self) -> u16 {
        let ready = self.verbs.engine.ready_sls();
        if ready == 0 {
            return 0;
        }
        let longest = usize::from(self.adapter.port.neighbor_mtu().bytes()) + Mtu::OVERHEAD_MAX;
        let has_room = |sl: &Sl| {
            let vl = self.adapter.vl(*sl);
            let full = || self.adapter.port.admits(vl, longest) == Admission::Full;
            // What cannot be sent at all is dropped, as an adapter does.
            vl == Vl::MANAGEMENT || !(self.outbox.holds(vl) || full())
        };
        let open = Sl::all().filter(|sl| ready & (1 << sl.get()) != 0);
        open.filter(has_room).map(|sl| 1 << sl.get()).sum()
    }

    /// Passes packets of queue pairs to the port as long as it has room, and those to this host to itself.
    pub(super) fn send_verbs(&mut self, now: Time) {
        if !self.verbs.is_used() {
            return;
        }
        let mut out = std::mem::take(&mut self.verbs_out);
        out.resize(PACKET_BYTES_MAX, 0);
        let mut looped = 0;
        loop {
            let mut sent = 0;
            while sent < BURST_MAX {
                let sls = self.sendable_sls();
                let engine = &mut self.verbs.engine;
                if sls == 0 {
                    break;
                }
                let Some(packet) = engine.transmit(now, &mut self.memory, sls, &mut out) else {
                    break;
                };
                self.send_verbs_packet(now, packet, &out);
                sent += 1;
            }
            let before = looped;
            while looped < LOOPED_A_CALL
                && let Some(own) = self.outbox.poll_looped()
            {
                self.accept(now, now, &own);
                looped += 1;
            }
            // Without packets to the host itself, the rest waits for the port.
            if looped == before || looped >= LOOPED_A_CALL {
                break;
            }
        }
        self.verbs_out = out;
    }

    fn send_verbs_packet(&mut self, now: Time, packet: Transmitted, out: &[u8]) {
        let bytes = out.get(..packet.len).unwrap_or_default();
        let Ok(parsed) = DataPacket::parse(bytes) else {
            return self.drop_one(DropReason::BadLength);
        };
        let dlid = parsed.lrh().dlid;
        if self.adapter.owns(dlid) {
            return self.outbox.loop_bytes(&mut self.adapter, bytes);
        }
        // No switch sends a multicast packet back to where it came in.
        if dlid.is_multicast()
            && let Ok(Transport { grh: Some(grh), .. }) = parsed.transport()
            && self.hears(grh.dgid)
        {
            self.outbox.loop_bytes(&mut self.adapter, bytes);
        }
        self.outbox
            .send_bytes(now, &mut self.adapter, packet.vl, bytes);
    }

    /// Whether a queue pair of this host's, or the host itself, receives packets to a group.
    pub(super) fn hears(&self, mgid: Gid) -> bool {
        self.queue_pairs.is_attached(mgid)
            || self.verbs.is_attached(mgid)
            || self.multicast.receives(mgid)
    }
}

/// What traps 257 and 258 tell of a packet with that key.
fn details(packet: &DataPacket<'_>, headers: &Transport<'_>, key: u32) -> Trap257 {
    let lrh = packet.lrh();
    let gids = headers.grh.map(|grh| (grh.sgid, grh.dgid));
    let (sgid, dgid) = gids.unwrap_or_default();
    Trap257 {
        slid: lrh.slid,
        dlid: lrh.dlid,
        key,
        sl: lrh.sl,
        src_qp: Qpn::default(),
        dest_qp: headers.bth.dest_qp,
        sgid,
        dgid,
    }
}
