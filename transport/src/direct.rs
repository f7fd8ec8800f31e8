//! Direct queue pairs: unreliable datagrams of consumers inside the host, by reference.
//!
//! ```text
//!  packet in   --> keys, partition, group --> Taken: which direct queue pairs; the datagram is where it lies in the packet
//!  packet out  <-- headers, number, CRCs  <-- DirectSend: a payload where the consumer has it
//!                                         <-- Prepared: the same packet again, with a payload that is written in place
//! ```
//!
//! A consumer in the engine's own process (an agent of QP1, an interface for internet packets, a traffic source), like one
//! in a kernel, needs no memory regions, requests and completions. All else is as for every queue pair of datagrams: its
//! Q_Key, the port's partitions, multicast groups, service levels and lanes, sequence numbers, drops and their reasons.
//! Their numbers are below those of other queue pairs, and are chosen by the consumer: well-known ones.
//!
//! What is left out: queues. A datagram is taken while its packet is processed, and leaves in the call that sends it;
//! whether the consumer or the port has room for it is theirs to say. As with QP1, packets of every partition of the port are
//! taken, and each datagram says in which one it is sent (IBA 10.9.3).

use std::collections::BTreeMap;

use wire::packet::{ICRC_LEN, Transport, VCRC_LEN};
use wire::{
    Bth, Deth, Gid, GlobalRoute, Grh, Lid, Lrh, Opcode, Psn, Qpn, Sl, UdPacket, Vl, crc, p_key,
};

use crate::engine::{Engine, Transmitted};
use crate::error::Refused;
use crate::ids::FIRST_QPN;
use crate::shared::{PacketDrop, Shared};

/// Direct queue pairs of an engine at most.
pub const DIRECT_MAX: usize = 16;
/// How far in front of the payload the sequence number stands: the last three bytes of the BTH, then the DETH.
const PSN_BEFORE_PAYLOAD: usize = 3 + Deth::LEN;

/// The name of a direct queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DirectQp(u8);

/// Some of an engine's direct queue pairs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirectSet(u16);

impl DirectSet {
    /// None.
    pub const EMPTY: Self = Self(0);

    /// Whether this one is among them.
    #[inline]
    #[must_use]
    pub const fn contains(self, qp: DirectQp) -> bool {
        self.0 & (1 << qp.0) != 0
    }

    /// Whether there is none.
    #[inline]
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    const fn with(self, qp: DirectQp) -> Self {
        Self(self.0 | 1 << qp.0)
    }
}

/// What has become of a packet that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The direct queue pairs that it is for: a datagram, which lies in the packet. Without any, queue pairs have got it.
    pub direct: DirectSet,
    /// Why a member of its group did not get it, while others did.
    pub missed: Option<PacketDrop>,
}

impl Taken {
    /// By queue pairs, and by nobody else.
    pub(crate) const BY_QUEUE_PAIRS: Self = Self {
        direct: DirectSet::EMPTY,
        missed: None,
    };
}

/// In which partition a datagram is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Partition {
    /// The first of the port's table.
    First,
    /// The one of this key, as a full member if the port is one; the first if the port is none.
    Of(u16),
    /// By the key at this index of the table.
    At(u16),
}

/// A datagram of a direct queue pair.
#[derive(Clone, Copy, Debug)]
pub struct DirectSend<'a> {
    /// Destination LID.
    pub dlid: Lid,
    /// The low bits of the source LID, as far as the port's LMC leaves them free.
    pub src_path_bits: u8,
    /// Service level.
    pub sl: Sl,
    /// Global route; `None` leaves the header out.
    pub global: Option<GlobalRoute>,
    /// The partition.
    pub partition: Partition,
    /// The destination's queue pair; [`Qpn::MULTICAST`] for a group.
    pub dest_qp: Qpn,
    /// Its key.
    pub qkey: u32,
    /// The payload. What is longer than the link's MTU is for the port to drop.
    pub payload: &'a [u8],
}

/// Why a datagram is not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum SendDrop {
    /// Its service level has no virtual lane.
    #[error("the service level has no virtual lane")]
    NoLane,
    /// There is no key at the index.
    #[error("there is no P_Key at the index")]
    Partition,
    /// A packet cannot be so long.
    #[error("a packet cannot be so long")]
    TooLong,
    /// There is no such direct queue pair.
    #[error("there is no such queue pair")]
    NoQueuePair,
}

/// A datagram that is sent often: its packet is written once, and what differs for each sending.
#[derive(Debug)]
pub struct Prepared {
    from: DirectQp,
    /// The whole packet, LRH to VCRC.
    bytes: Box<[u8]>,
    payload_at: usize,
    vl: Vl,
    /// How it was addressed: without its payload, which is in the packet.
    to: DirectSend<'static>,
    /// As which the port was set when the headers were written.
    version: u32,
}

impl Prepared {
    /// The packet's length in bytes, LRH to VCRC.
    #[inline]
    #[must_use]
    pub fn packet_len(&self) -> usize {
        self.bytes.len()
    }

    /// Sends it to another LID from now on.
    pub fn set_dlid(&mut self, dlid: Lid) {
        self.to.dlid = dlid;
        self.bytes[2..4].copy_from_slice(&dlid.get().to_be_bytes());
    }
}

/// One of them.
#[derive(Debug)]
struct Direct {
    qpn: Qpn,
    /// Without a key it takes nothing.
    qkey: Option<u32>,
    /// The number of the next packet.
    psn: Psn,
}

/// The direct queue pairs of an engine.
#[derive(Debug, Default)]
pub(crate) struct DirectQueuePairs {
    all: Vec<Direct>,
    /// By group, those that are attached to it, and the group's key.
    groups: BTreeMap<Gid, Vec<(DirectQp, u32)>>,
}

impl DirectQueuePairs {
    #[inline]
    fn find(&self, qpn: Qpn) -> Option<(DirectQp, &Direct)> {
        let index = self.all.iter().position(|one| one.qpn == qpn)?;
        // There are no more than DIRECT_MAX.
        let name = DirectQp(u8::try_from(index).ok()?);
        Some((name, self.all.get(index)?))
    }

    #[inline]
    fn of(&mut self, qp: DirectQp) -> Option<&mut Direct> {
        self.all.get_mut(usize::from(qp.0))
    }

    /// Takes a packet to the number of one of them.
    ///
    /// # Errors
    /// [`PacketDrop`].
    #[inline]
    pub(crate) fn receive(&self, transport: &Transport<'_>) -> Result<Taken, PacketDrop> {
        let found = self.find(transport.bth.dest_qp);
        let (qp, direct) = found.ok_or(PacketDrop::NoQueuePair)?;
        let stated = qkey_of(transport)?;
        match direct.qkey {
            None => Err(PacketDrop::State),
            Some(qkey) if qkey != stated => Err(PacketDrop::QKey),
            Some(_) => Ok(Taken {
                direct: DirectSet::EMPTY.with(qp),
                missed: None,
            }),
        }
    }

    /// Takes a datagram to a group. Those who have it; `None` if none of them is attached to the group.
    ///
    /// # Errors
    /// [`PacketDrop::QKey`] if none of those attached has its key.
    pub(crate) fn receive_group(
        &self,
        mgid: Gid,
        transport: &Transport<'_>,
    ) -> Option<Result<DirectSet, PacketDrop>> {
        let attached = self.groups.get(&mgid)?;
        let stated = match qkey_of(transport) {
            Ok(stated) => stated,
            Err(drop) => return Some(Err(drop)),
        };
        let with_key = attached.iter().filter(|(_, qkey)| *qkey == stated);
        let set = with_key.fold(DirectSet::EMPTY, |set, &(qp, _)| set.with(qp));
        Some(match set.is_empty() {
            true => Err(PacketDrop::QKey),
            false => Ok(set),
        })
    }

    /// Whether one of them but `beside` is attached to a group.
    pub(crate) fn is_attached(&self, mgid: Gid, beside: Option<DirectQp>) -> bool {
        let attached = self.groups.get(&mgid).into_iter().flatten();
        attached.into_iter().any(|&(qp, _)| Some(qp) != beside)
    }
}

/// The Q_Key of a datagram.
#[inline]
fn qkey_of(transport: &Transport<'_>) -> Result<u32, PacketDrop> {
    match transport.bth.opcode {
        Opcode::UD_SEND_ONLY | Opcode::UD_SEND_ONLY_IMM => {}
        opcode if opcode.parts().is_none() => return Err(PacketDrop::Malformed),
        _ => return Err(PacketDrop::Service),
    }
    // The first field of the DETH.
    let deth = transport.content.first_chunk::<{ Deth::LEN }>();
    let [a, b, c, d, ..] = deth.ok_or(PacketDrop::Malformed)?;
    Ok(u32::from_be_bytes([*a, *b, *c, *d]))
}

impl Shared {
    /// The key of packets in a partition.
    fn key_of(&self, partition: Partition) -> Result<u16, SendDrop> {
        let keys = &self.port.pkeys;
        let first = || {
            let first = keys.iter().copied().find(|&key| key != 0);
            first.unwrap_or(p_key::DEFAULT_PARTITION | p_key::FULL)
        };
        match partition {
            Partition::First => Ok(first()),
            Partition::Of(key) => Ok(p_key::own_key(keys, key).unwrap_or_else(first)),
            Partition::At(index) => match self.pkey(index) {
                key if key & p_key::PARTITION != 0 => Ok(key),
                _ => Err(SendDrop::Partition),
            },
        }
    }

    /// The port's LID with these path bits; 0 if it has none.
    fn local_lid(&self, path_bits: u8) -> Lid {
        match self.port.lid {
            Lid::ZERO => Lid::ZERO,
            lid => Lid::new(lid.get() | u16::from(path_bits) & (self.port.lmc.lids() - 1)),
        }
    }

    /// A datagram's packet.
    fn direct_packet<'a>(
        &self,
        from: (Qpn, Psn),
        send: &DirectSend<'a>,
    ) -> Result<UdPacket<'a>, SendDrop> {
        let (src_qp, psn) = from;
        Ok(UdPacket {
            vl: self.vl(send.sl),
            sl: send.sl,
            dlid: send.dlid,
            slid: self.local_lid(send.src_path_bits),
            global: send.global,
            solicited: false,
            pkey: self.key_of(send.partition)?,
            dest_qp: send.dest_qp,
            psn,
            qkey: send.qkey,
            src_qp,
            immediate: None,
            payload: send.payload,
        })
    }
}

impl Engine {
    /// Makes a direct queue pair of that number. It takes datagrams once it has a key.
    ///
    /// # Errors
    /// [`Refused::Invalid`] for a number that is in use, or that is one of other queue pairs (0x400 and above);
    /// [`Refused::TooMany`] beyond [`DIRECT_MAX`].
    pub fn create_direct_qp(&mut self, qpn: Qpn, qkey: Option<u32>) -> Result<DirectQp, Refused> {
        if qpn.get() >= FIRST_QPN || self.direct.find(qpn).is_some() {
            return Err(Refused::Invalid(
                "the number is not free for a direct queue pair",
            ));
        }
        let index = u8::try_from(self.direct.all.len()).ok();
        let index = index.filter(|&index| usize::from(index) < DIRECT_MAX);
        let index = index.ok_or(Refused::TooMany("direct queue pairs"))?;
        let psn = Psn::default();
        self.direct.all.push(Direct { qpn, qkey, psn });
        Ok(DirectQp(index))
    }

    /// Gives a direct queue pair another key, or none: then it takes nothing.
    pub fn set_direct_qkey(&mut self, qp: DirectQp, qkey: Option<u32>) {
        if let Some(direct) = self.direct.of(qp) {
            direct.qkey = qkey;
        }
    }

    /// Attaches a direct queue pair to these groups, each with its key, and to no others. The port must be a member of them.
    pub fn set_direct_groups(
        &mut self,
        qp: DirectQp,
        groups: impl IntoIterator<Item = (Gid, u32)>,
    ) {
        let all = &mut self.direct.groups;
        all.retain(|_, attached| {
            attached.retain(|&(other, _)| other != qp);
            !attached.is_empty()
        });
        for (mgid, qkey) in groups {
            all.entry(mgid).or_default().push((qp, qkey));
        }
    }

    /// Writes a datagram of a direct queue pair to the front of `out`, CRCs included.
    ///
    /// # Errors
    /// [`SendDrop`]: why it was dropped.
    pub fn send_direct(
        &mut self,
        from: DirectQp,
        send: &DirectSend<'_>,
        out: &mut [u8],
    ) -> Result<Transmitted, SendDrop> {
        let direct = self.direct.of(from).ok_or(SendDrop::NoQueuePair)?;
        let packet = self.shared.direct_packet((direct.qpn, direct.psn), send)?;
        if packet.vl == Vl::MANAGEMENT {
            return Err(SendDrop::NoLane);
        }
        let len = packet.emit(out).map_err(|_| SendDrop::TooLong)?;
        direct.psn = direct.psn.plus(1);
        let vl = packet.vl;
        Ok(Transmitted { len, vl })
    }

    /// Prepares a datagram that is to be sent often, by [`Self::send_prepared`].
    ///
    /// # Errors
    /// [`SendDrop`]: why it cannot be sent as the port is set now.
    pub fn prepare(&self, from: DirectQp, send: &DirectSend<'_>) -> Result<Prepared, SendDrop> {
        let direct = self.direct.all.get(usize::from(from.0));
        let direct = direct.ok_or(SendDrop::NoQueuePair)?;
        let packet = self.shared.direct_packet((direct.qpn, direct.psn), send)?;
        let mut bytes = vec![0; packet.len()].into_boxed_slice();
        packet.emit(&mut bytes).map_err(|_| SendDrop::TooLong)?;
        let grh = send.global.map_or(0, |_| Grh::LEN);
        Ok(Prepared {
            from,
            bytes,
            payload_at: Lrh::LEN + grh + Bth::LEN + Deth::LEN,
            vl: packet.vl,
            to: DirectSend {
                payload: &[],
                ..*send
            },
            version: self.shared.port_version,
        })
    }

    /// The next packet of a prepared datagram, LRH to VCRC, and its virtual lane. `fill` changes the payload, which has what it
    /// had the last time; the rest of it is as the port is set now.
    ///
    /// # Errors
    /// [`SendDrop`]: why it was dropped.
    #[inline]
    pub fn send_prepared<'p>(
        &mut self,
        prepared: &'p mut Prepared,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(&'p [u8], Vl), SendDrop> {
        if prepared.version != self.shared.port_version {
            self.address_anew(prepared)?;
        }
        if prepared.vl == Vl::MANAGEMENT {
            return Err(SendDrop::NoLane);
        }
        let direct = self.direct.of(prepared.from).ok_or(SendDrop::NoQueuePair)?;
        let [_, psn @ ..] = direct.psn.get().to_be_bytes();
        direct.psn = direct.psn.plus(1);
        // The payload has no pad: a packet is as long as it was prepared.
        let (covered, vcrc) = prepared.bytes.split_at_mut(prepared.bytes.len() - VCRC_LEN);
        let (body, icrc) = covered.split_at_mut(covered.len() - ICRC_LEN);
        let (headers, payload) = body.split_at_mut(prepared.payload_at);
        let psn_at = headers.len() - PSN_BEFORE_PAYLOAD;
        headers[psn_at..psn_at + 3].copy_from_slice(&psn);
        fill(payload);
        icrc.copy_from_slice(&crc::icrc(body).to_be_bytes());
        vcrc.copy_from_slice(&crc::vcrc(covered).to_be_bytes());
        Ok((&prepared.bytes, prepared.vl))
    }

    /// The port has been set anew since the headers were written.
    #[cold]
    fn address_anew(&self, prepared: &mut Prepared) -> Result<(), SendDrop> {
        let end = prepared.bytes.len() - VCRC_LEN - ICRC_LEN;
        let payload = prepared.bytes[prepared.payload_at..end].to_vec();
        let send = DirectSend {
            payload: &payload,
            ..prepared.to
        };
        *prepared = self.prepare(prepared.from, &send)?;
        Ok(())
    }

    /// Whether any queue pair is attached to a group, `but` one.
    #[must_use]
    pub fn is_attached_beside(&self, mgid: Gid, but: DirectQp) -> bool {
        self.groups.contains_key(&mgid) || self.direct.is_attached(mgid, Some(but))
    }
}
