//! The way of packets to the port, for everything but traffic, which hands its packets to the port when that has room:
//! packets are written here, wait here while their VL is full, and are looped back if they are for
//! the host itself.

use std::collections::VecDeque;

use link::{Admission, DropReason, Packet, PacketError, Refusal, Time};
use tracing::warn;
use transport::Transmitted;
use wire::packet::VCRC_LEN;
use wire::{Mtu, TrafficKind, UdPacket, Vl};

use crate::adapter::Adapter;

/// Packets that wait for room in their VLs at most, all VLs together.
const BACKLOG_MAX: usize = 4096;
/// From so many waiting packets on the replies of the traffic sink are held back, and become one a
/// flow; the source repeats its queries later.
const HIGH_WATERMARK: usize = 256;
/// Packets to the host itself that wait at most.
const LOOPED_MAX: usize = 4096;
/// The longest packet, LRH to VCRC.
pub(crate) const PACKET_BYTES_MAX: usize = Mtu::Mtu4096.bytes() as usize + Mtu::OVERHEAD_MAX;

/// Packets on their way to the port.
#[derive(Debug)]
pub(crate) struct Outbox {
    scratch: Box<[u8]>,
    /// By VL.
    backlog: [VecDeque<Packet>; 16],
    waiting: usize,
    looped: VecDeque<Box<[u8]>>,
    /// When the last byte of the packet that is being answered arrives: its answer cannot end
    /// before.
    not_before: Time,
}

impl Outbox {
    pub(crate) fn new() -> Self {
        Self {
            scratch: vec![0; PACKET_BYTES_MAX].into_boxed_slice(),
            backlog: Default::default(),
            waiting: 0,
            looped: VecDeque::new(),
            not_before: Time::ZERO,
        }
    }

    /// Packets sent from now on answer a packet whose last byte arrives at `tail`; in virtual time
    /// that may be later than now.
    pub(crate) fn answer_from(&mut self, tail: Time) {
        self.not_before = tail;
    }

    /// Memory for the packet that is sent next, by [`Self::post`] or [`Self::loop_back`].
    pub(crate) fn packet_mut(&mut self) -> &mut [u8] {
        &mut self.scratch
    }

    /// Sends a management packet of VL 15: to the port, or back if it is for this host. What cannot be sent is dropped and
    /// counted.
    pub(crate) fn send_smp(&mut self, now: Time, adapter: &mut Adapter, datagram: &UdPacket<'_>) {
        let packet = match datagram.emit(&mut self.scratch) {
            Ok(len) => Transmitted {
                len,
                vl: Vl::MANAGEMENT,
            },
            Err(error) => {
                warn!(%error, "datagram not sent");
                return adapter.counts().drop_one(DropReason::NeighborMtu);
            }
        };
        match adapter.owns(datagram.dlid) {
            true => self.loop_back(adapter, packet.len),
            false => self.post(now, adapter, packet),
        }
    }

    /// Sends the packet that has been written, for another host. What cannot be sent is dropped and counted.
    pub(crate) fn post(&mut self, now: Time, adapter: &mut Adapter, written: Transmitted) {
        let bytes = &self.scratch[..written.len];
        match Packet::from_bytes(&mut adapter.pool, now, bytes) {
            Ok(mut packet) => {
                packet.tail = now.max(self.not_before);
                self.push(now, adapter, written.vl, packet);
            }
            Err(error) => {
                let reason = match error {
                    PacketError::Pool(_) => DropReason::PoolFull,
                    PacketError::Malformed(_) => DropReason::BadLength,
                };
                let kind = TrafficKind::of_packet(bytes);
                adapter.counts().drop_packet(reason, kind);
            }
        }
    }

    /// Loops the packet that has been written, of so many bytes, back to this host, as if it came from the link.
    pub(crate) fn loop_back(&mut self, adapter: &mut Adapter, len: usize) {
        let bytes = &self.scratch[..len];
        if self.looped.len() < LOOPED_MAX {
            self.looped.push_back(bytes.into());
        } else {
            let kind = TrafficKind::of_packet(bytes);
            adapter.counts().drop_packet(DropReason::ReceiverFull, kind);
        }
    }

    /// Whether packets of a VL wait for room in it.
    pub(crate) fn holds(&self, vl: Vl) -> bool {
        !self.backlog[vl.index()].is_empty()
    }

    /// Whether packets from this host to itself wait.
    pub(crate) fn is_looping(&self) -> bool {
        !self.looped.is_empty()
    }

    fn push(&mut self, now: Time, adapter: &mut Adapter, vl: Vl, packet: Packet) {
        let backlog = &mut self.backlog[vl.index()];
        let packet = if backlog.is_empty() {
            match adapter.port.offer(now, vl, packet, &mut adapter.pool) {
                Err(Refusal::Full(packet)) => packet,
                Ok(()) | Err(Refusal::Dropped(_)) => return,
            }
        } else {
            packet
        };
        if self.waiting < BACKLOG_MAX {
            backlog.push_back(packet);
            self.waiting += 1;
        } else {
            let reason = if vl == Vl::MANAGEMENT {
                DropReason::Vl15Full
            } else {
                DropReason::PoolFull
            };
            let kind = packet.traffic_kind(&adapter.pool);
            packet.release(&mut adapter.pool);
            adapter.counts().drop_packet(reason, kind);
        }
    }

    /// Moves waiting packets into VLs that have room now.
    pub(crate) fn flush(&mut self, now: Time, adapter: &mut Adapter) {
        if self.waiting == 0 {
            return;
        }
        for (vl, backlog) in (0u8..).map(Vl::truncate).zip(&mut self.backlog) {
            while let Some(packet) = backlog.pop_front() {
                match adapter.port.offer(now, vl, packet, &mut adapter.pool) {
                    Err(Refusal::Full(packet)) => {
                        backlog.push_front(packet);
                        break;
                    }
                    Ok(()) | Err(Refusal::Dropped(_)) => self.waiting -= 1,
                }
            }
        }
    }

    /// All packets that wait for room in their VLs.
    pub(crate) fn packets(&self) -> impl Iterator<Item = &Packet> {
        self.backlog.iter().flatten()
    }

    /// Whether something waits for room in its VL.
    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting > 0
    }

    /// Whether so much waits that replies and queries that can be made later are to wait.
    pub(crate) fn is_above_watermark(&self) -> bool {
        self.waiting >= HIGH_WATERMARK
    }

    /// Gives the memory of queues that were long before back to the allocator.
    pub(crate) fn release_memory(&mut self) {
        self.looped.shrink_to_fit();
        for backlog in &mut self.backlog {
            backlog.shrink_to_fit();
        }
    }

    /// Whether [`Outbox::flush`] would move something.
    pub(crate) fn can_flush(&self, adapter: &Adapter) -> bool {
        self.waiting > 0
            && (0u8..)
                .map(Vl::truncate)
                .zip(&self.backlog)
                .any(|(vl, backlog)| {
                    backlog.front().is_some_and(|packet| {
                        adapter.port.admits(vl, packet.bytes()) != Admission::Full
                    })
                })
    }

    /// The next packet from this host to itself, LRH to VCRC.
    pub(crate) fn poll_looped(&mut self) -> Option<Box<[u8]>> {
        self.looped.pop_front()
    }
}

/// Assembles the bytes of a received packet, LRH to VCRC, and returns its length.
pub(crate) fn assemble(adapter: &Adapter, packet: &Packet, out: &mut [u8]) -> Option<usize> {
    let len = packet.bytes();
    debug_assert!(len >= VCRC_LEN);
    packet.emit(&adapter.pool, out.get_mut(..len)?);
    Some(len)
}
