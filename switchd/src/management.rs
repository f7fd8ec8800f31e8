//! Management packets: VL15 from any port, and what is addressed to port 0.
//!
//! Directed-route SMPs go through the SMI of every switch on their way; LID-routed ones are
//! forwarded like data, but on VL15. Requests to this switch are answered by the agents of crate
//! `mad`; answers leave in packets of their own.

use link::{Admission, DropReason, Packet, Time};
use mad::agent::{self, Arrival, Next, handle_smp};
use mad::cc::CongestionAgent;
use mad::pma::Pma;
use mad::sma::{PacketKey, Sma};
use mad::smi::Origin;
use wire::attr::Trap257;
use wire::packet::MAD_PACKET_LEN;
use wire::{DataPacket, Deth, Gid, Lid, Mad, MgmtClass, PortNum, Qpn, Sl, UdPacket, Vl, p_key};

use crate::plane::{Plane, PortVl};

/// Responses of QP1 that wait for room in an output VL at most.
const REPLIES_MAX: usize = 64;
/// A MAD with a GRH, VCRC included: the longest packet that port 0 reads.
const READ_BYTES_MAX: usize = MAD_PACKET_LEN + 40;

/// The management side of a switch.
#[derive(Debug)]
pub(crate) struct Management {
    pub(crate) sma: Sma,
    pma: Pma,
    congestion: CongestionAgent,
}

/// A management datagram that has come in, without its packet.
struct Received {
    mad: Mad,
    slid: Lid,
    dlid: Lid,
    sl: Sl,
    dest_qp: Qpn,
    src_qp: Qpn,
    pkey: u16,
    qkey: u32,
    /// Source and destination GID of its GRH.
    gids: Option<(Gid, Gid)>,
    /// When the last byte of its packet arrives: no response leaves before.
    tail: Time,
}

impl Received {
    /// What traps 257 and 258 report of it.
    fn details(&self, key: u32) -> Trap257 {
        let (sgid, dgid) = self.gids.unwrap_or_default();
        Trap257 {
            slid: self.slid,
            dlid: self.dlid,
            key,
            sl: self.sl,
            src_qp: self.src_qp,
            dest_qp: self.dest_qp,
            sgid,
            dgid,
        }
    }
}

impl Management {
    pub(crate) fn new(plane: &Plane) -> Self {
        Self {
            sma: Sma::new(plane),
            pma: Pma::new(plane.identity.ports),
            congestion: CongestionAgent::of_switch(plane.identity.ports),
        }
    }

    /// Takes all VL15 packets of a port.
    pub(crate) fn take_vl15(&mut self, now: Time, plane: &mut Plane, input: PortNum) {
        while let Some(packet) = plane
            .port_mut(input)
            .and_then(|port| port.consume(Vl::MANAGEMENT))
        {
            let dlid = packet.lrh.dlid;
            let is_own = dlid == plane.lid || dlid.belongs_to(plane.lid, plane.lmc);
            if dlid != Lid::PERMISSIVE && !is_own {
                forward_vl15(now, plane, input, packet);
                continue;
            }
            let outcome = match read(plane, packet) {
                Ok(received) => self.answer_smp(now, plane, input, received),
                Err(reason) => Err(reason),
            };
            plane.execute_link_command(now);
            if let Err(reason) = outcome {
                plane.count_drop(input, reason, None);
            }
        }
    }

    /// An SMP for this switch's SMI or SMA.
    fn answer_smp(
        &mut self,
        now: Time,
        plane: &mut Plane,
        input: PortNum,
        received: Received,
    ) -> Result<(), DropReason> {
        if received.dest_qp != Qpn::SMI {
            return Err(DropReason::NoQueuePair);
        }
        let Received { mut mad, tail, .. } = received;
        let arrival = Arrival {
            origin: Origin::Port(input),
            slid: received.slid,
            dlid: received.dlid,
        };
        match handle_smp(now, &mut self.sma, plane, &mut mad, arrival, false) {
            Next::Directed(output) => {
                let packet = build(
                    plane,
                    now,
                    tail,
                    &UdPacket::smp(Lid::PERMISSIVE, Lid::PERMISSIVE, &mad),
                )?;
                send_vl15(now, plane, output, packet);
                Ok(())
            }
            Next::ToLid { dlid, slid } => {
                send_smp(now, plane, input, tail, &UdPacket::smp(slid, dlid, &mad))
            }
            Next::Client => Err(DropReason::NotForUs),
            Next::Discard(why) => match why.drop_reason() {
                Some(reason) => Err(reason),
                None => Ok(()),
            },
        }
    }

    /// Reads packets that the crossbar has delivered to port 0, and answers them.
    pub(crate) fn take_inbox(&mut self, now: Time, plane: &mut Plane) {
        while let Some((input, packet)) = plane.inbox.pop_front() {
            let kind = packet.traffic_kind(&plane.pool);
            let outcome = match read(plane, packet) {
                Ok(received) => self.answer_gmp(now, plane, input, received),
                Err(reason) => Err(reason),
            };
            if let Err(reason) = outcome {
                plane.count_drop(input, reason, kind);
            }
        }
        send_replies(now, plane);
    }

    /// A datagram of general management for QP1 of port 0.
    fn answer_gmp(
        &mut self,
        now: Time,
        plane: &mut Plane,
        input: PortNum,
        received: Received,
    ) -> Result<(), DropReason> {
        if received.dest_qp != Qpn::GSI {
            return Err(DropReason::NoQueuePair);
        }
        let keys = self.sma.pkeys(PortNum::MANAGEMENT);
        let own_key = p_key::own_key(keys, received.pkey);
        let Some(pkey) = own_key.filter(|_| p_key::admits(keys, received.pkey)) else {
            let packet = received.details(u32::from(received.pkey));
            let at = PortNum::MANAGEMENT;
            let key = PacketKey::PKey;
            self.sma
                .packet_key_violated(now, &plane.identity, at, key, &packet);
            return Err(DropReason::RcvPartition);
        };
        if received.qkey != Deth::QKEY_GSI {
            let packet = received.details(received.qkey);
            let at = PortNum::MANAGEMENT;
            let key = PacketKey::QKey;
            self.sma
                .packet_key_violated(now, &plane.identity, at, key, &packet);
            return Err(DropReason::BadQkey);
        }
        let mut mad = received.mad;
        let is_answered = match mad.class() {
            MgmtClass::PERF => {
                let ports = &plane.ports;
                // The agent names external ports only.
                let counts = |port: PortNum| ports[port.index() - 1].counts();
                self.pma.handle(now, &mut mad, counts)
            }
            MgmtClass::CONGESTION => self.congestion.handle(now, &mut mad),
            _ => agent::refuse_class(&mut mad),
        };
        if !is_answered {
            return Err(DropReason::NotForUs);
        }
        if plane.replies.len() >= REPLIES_MAX {
            return Err(DropReason::ReceiverFull);
        }
        let answer = UdPacket {
            dest_qp: received.src_qp,
            pkey,
            ..UdPacket::gmp(
                received.dlid,
                received.slid,
                received.sl,
                Vl::default(),
                &mad,
            )
        };
        let packet = build(plane, now, received.tail, &answer)?;
        plane.replies.push_back((input, packet));
        Ok(())
    }

    /// When the next trap goes out, or counters are sampled; [`Time::NEVER`] if never.
    pub(crate) fn trap_at(&self) -> Time {
        let sampling = self.pma.deadline().unwrap_or(Time::NEVER);
        sampling.min(self.sma.deadline().unwrap_or(Time::NEVER))
    }

    /// Sends the traps and samples the counters that are due.
    pub(crate) fn send_traps(&mut self, now: Time, plane: &mut Plane) {
        let ports = &plane.ports;
        self.pma.poll(now, |port| ports[port.index() - 1].counts());
        while let Some(trap) = self.sma.poll_trap(now) {
            let packet = UdPacket::smp(trap.slid, trap.dlid, &trap.mad);
            // One that cannot be sent counts at port 0: no other port has had it.
            if let Err(reason) = send_smp(now, plane, PortNum::MANAGEMENT, now, &packet) {
                plane.count_drop(PortNum::MANAGEMENT, reason, None);
            }
        }
    }
}

/// Moves responses of QP1 into their output VLs, as far as there is room. The drop of one without a route
/// counts at the port that the request came in by.
fn send_replies(now: Time, plane: &mut Plane) {
    while let Some((_, reply)) = plane.replies.front() {
        let (lrh, bytes) = (reply.lrh, reply.bytes());
        let output = plane.linear.lookup(lrh.dlid);
        let admission = plane.port(output).map(|port| {
            let vl = port.sl_to_vl().map(PortNum::MANAGEMENT, lrh.sl);
            let admission = match vl {
                Vl::MANAGEMENT => Admission::Drop(DropReason::OutputVl),
                vl => port.admits(vl, bytes),
            };
            (PortVl { port: output, vl }, admission)
        });
        if let Some((_, Admission::Full)) = admission {
            return;
        }
        let Some((input, reply)) = plane.replies.pop_front() else {
            return;
        };
        match admission {
            Some((to, Admission::Room | Admission::Full)) => {
                if let Some(port) = plane.port_mut(to.port) {
                    port.enqueue(now, to.vl, reply);
                }
            }
            Some((to, Admission::Drop(reason))) => {
                reply.release(&mut plane.pool);
                plane.count_drop(to.port, reason, None);
            }
            None => {
                reply.release(&mut plane.pool);
                plane.count_drop(input, DropReason::NoRoute, None);
            }
        }
    }
}

/// Reads the datagram of a packet, and releases the packet.
fn read(plane: &mut Plane, packet: Packet) -> Result<Received, DropReason> {
    let mut bytes = [0; READ_BYTES_MAX];
    let (len, tail) = (packet.bytes(), packet.tail);
    let fits = bytes
        .get_mut(..len)
        .map(|out| packet.emit(&plane.pool, out));
    packet.release(&mut plane.pool);
    fits.ok_or(DropReason::NotForUs)?;
    let whole = DataPacket::parse(&bytes[..len]).map_err(|_| DropReason::BadLength)?;
    whole.check_icrc().map_err(|_| DropReason::BadIcrc)?;
    let datagram = UdPacket::parse(&whole).map_err(|_| DropReason::BadMad)?;
    Ok(Received {
        mad: datagram.mad().map_err(|_| DropReason::BadMad)?,
        slid: datagram.slid,
        dlid: datagram.dlid,
        sl: datagram.sl,
        dest_qp: datagram.dest_qp,
        src_qp: datagram.src_qp,
        pkey: datagram.pkey,
        qkey: datagram.qkey,
        gids: datagram.global.map(|global| (global.sgid, global.dgid)),
        tail,
    })
}

/// Builds a packet that this switch sends itself.
fn build(
    plane: &mut Plane,
    now: Time,
    tail: Time,
    datagram: &UdPacket<'_>,
) -> Result<Packet, DropReason> {
    let mut bytes = [0; MAD_PACKET_LEN];
    let len = datagram
        .emit(&mut bytes)
        .map_err(|_| DropReason::BadLength)?;
    let mut packet = Packet::from_bytes(&mut plane.pool, now, &bytes[..len])
        .map_err(|_| DropReason::PoolFull)?;
    packet.tail = now.max(tail);
    Ok(packet)
}

/// Sends an LID-routed SMP of this switch's own by the linear table.
fn send_smp(
    now: Time,
    plane: &mut Plane,
    input: PortNum,
    tail: Time,
    datagram: &UdPacket<'_>,
) -> Result<(), DropReason> {
    let packet = build(plane, now, tail, datagram)?;
    forward_vl15(now, plane, input, packet);
    Ok(())
}

/// Forwards an LID-routed SMP by the linear table; without a route, `input` counts the drop.
fn forward_vl15(now: Time, plane: &mut Plane, input: PortNum, mut packet: Packet) {
    let output = plane.linear.lookup(packet.lrh.dlid);
    if plane.port(output).is_none() {
        packet.release(&mut plane.pool);
        plane.count_drop(input, DropReason::NoRoute, None);
        return;
    }
    packet.head = now;
    send_vl15(now, plane, output, packet);
}

/// Puts a packet into VL15 of an external port, or drops it: VL15 has no flow control.
fn send_vl15(now: Time, plane: &mut Plane, output: PortNum, packet: Packet) {
    let admission = plane
        .port(output)
        .map_or(Admission::Drop(DropReason::NoRoute), |port| {
            port.admits(Vl::MANAGEMENT, packet.bytes())
        });
    let reason = match admission {
        Admission::Room => {
            if let Some(port) = plane.port_mut(output) {
                port.enqueue(now, Vl::MANAGEMENT, packet);
            }
            return;
        }
        Admission::Full => DropReason::Vl15Full,
        Admission::Drop(reason) => reason,
    };
    packet.release(&mut plane.pool);
    plane.count_drop(output, reason, None);
}
