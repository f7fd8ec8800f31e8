//! The transport at the port: what the subnet manager sets, packets of programs' queue pairs out, contexts of their verbs.

use link::{Admission, DropReason, PortState, Time};
use transport::{PortAttributes, Transmitted};
use uverbs::{DeviceAttributes, Request};
use wire::attr::PortInfo;
use wire::packet::Transport;
use wire::{AttributeId, DataPacket, Gid, Mad, Method, Mtu, PortNum, Sl, Vl};

use super::Endpoint;
use crate::clients::ClientId;
use crate::host::Event;
use crate::verbs::{PortView, ToVerbs, Verbs};

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
                self.refresh();
                let device = self.describe(now);
                self.verbs.open(client, device);
            }
            ToVerbs::Request(Request::Describe) => {
                let device = self.describe(now);
                self.verbs.describe(client, device);
            }
            message => self.verbs.handle(&mut self.engine, now, client, message),
        }
    }

    /// A context has ended.
    pub(crate) fn close_verbs(&mut self, client: ClientId) {
        self.verbs.close(&mut self.engine, client);
    }

    /// Hands out what the verbs have for their contexts.
    pub(super) fn settle_verbs(&mut self, now: Time) {
        self.verbs.settle(&mut self.engine, now);
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

    /// Has the engine know the port and its groups as they are now.
    #[inline]
    pub(super) fn refresh(&mut self) {
        let ip_has_changed = || self.ip.as_ref().is_some_and(|ip| ip.has_changed());
        if self.engine_stale || self.multicast.has_changed() || ip_has_changed() {
            self.refresh_now();
        }
    }

    #[cold]
    fn refresh_now(&mut self) {
        if self.engine_stale {
            self.update_engine();
        }
        if let Some(heard) = self.multicast.take_heard() {
            self.engine.set_direct_groups(self.own.sink, heard);
        }
        if let Some(ip) = &mut self.ip
            && ip.take_changed()
            && let Some(own) = self.own.ip
        {
            self.engine.set_direct_qkey(own, ip.qkey());
            self.engine.set_direct_groups(own, ip.heard());
        }
    }

    /// The subnet manager may have set the port anew, or its state has changed.
    fn update_engine(&mut self) {
        self.engine_stale = false;
        let reregistered = std::mem::take(&mut self.reregistered);
        let view = PortView {
            is_active: self.adapter.port.state() == PortState::Active,
            sm_lid: self.adapter.settings.sm_lid.get(),
        };
        let port = self.transport_port();
        let old = self.engine.port();
        self.verbs.port_changed(old, &port, view, reregistered);
        if *old != port {
            self.engine.set_port(port);
        }
    }

    /// Does what is due in the queue pairs.
    pub(super) fn tick_verbs(&mut self, now: Time) {
        if self.engine.deadline().is_some_and(|due| due <= now) {
            self.engine.tick(now, &mut self.memory);
        }
    }

    /// The service levels of which queue pairs may send a packet now, a bit each.
    pub(super) fn sendable_sls(&self) -> u16 {
        let ready = self.engine.ready_sls();
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
        if self.engine.ready_sls() == 0 {
            return;
        }
        let mut looped = 0;
        loop {
            let mut sent = 0;
            while sent < BURST_MAX {
                let sls = self.sendable_sls();
                if sls == 0 {
                    break;
                }
                let out = self.outbox.packet_mut();
                let Some(packet) = self.engine.transmit(now, &mut self.memory, sls, out) else {
                    break;
                };
                self.send_verbs_packet(now, packet);
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
    }

    /// Sends the packet that a queue pair has written.
    fn send_verbs_packet(&mut self, now: Time, packet: Transmitted) {
        let bytes = self.outbox.packet_mut().get(..packet.len);
        let Ok(parsed) = DataPacket::parse(bytes.unwrap_or_default()) else {
            return self.drop_one(DropReason::BadLength);
        };
        let dlid = parsed.lrh().dlid;
        if self.adapter.owns(dlid) {
            return self.outbox.loop_back(&mut self.adapter, packet.len);
        }
        // No switch sends a multicast packet back to where it came in.
        if dlid.is_multicast()
            && let Ok(Transport { grh: Some(grh), .. }) = parsed.transport()
            && self.engine.is_attached(grh.dgid)
        {
            self.outbox.loop_back(&mut self.adapter, packet.len);
        }
        if packet.vl == Vl::MANAGEMENT {
            return self.drop_one(DropReason::OutputVl);
        }
        self.outbox.post(now, &mut self.adapter, packet);
    }
}
