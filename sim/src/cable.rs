//! A cable between two ports: its far end, packets in flight, and faults.

use link::blocks;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use topologies::{Endpoint, Graph};
use wire::convert::saturate;
use wire::{Delimiter, FlowControl, Format, PortNum, RecordKind};

use crate::faults::PPM_MAX;
use crate::numbers::number;

/// VLs of a port.
const VLS: usize = 16;

/// The fate of a packet on a cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Impairment {
    None,
    Lost,
    Corrupted,
}

/// Arrivals of a management packet that is not lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SmpCopies {
    /// How many come, 1 or 2.
    pub(crate) copies: usize,
    /// How much later than others each comes.
    pub(crate) delays_ns: [u64; 2],
}

impl SmpCopies {
    const NONE: Self = Self {
        copies: 1,
        delays_ns: [0; 2],
    };
}

/// How management packets are disturbed.
#[derive(Clone, Copy, Debug, Default)]
struct SmpImpairment {
    duplication_ppm: u32,
    delay_ppm: u32,
    delay_ns_max: u64,
}

/// One end of a cable, as what leaves by it is concerned. Every packet looks at it: one line of memory.
#[derive(Clone, Debug, Default)]
#[repr(align(64))]
struct End {
    peer: Option<(u32, PortNum)>,
    up: bool,
    /// Whether anything of `disturbances` happens here.
    is_disturbed: bool,
    /// How often the cable has been pulled or put in.
    plug_epoch: u32,
    /// How many packets have come to the other end, and VL and blocks of the last one.
    received: u32,
    last_received: (u8, u16),
    /// Blocks in flight, by VL.
    in_flight: [u16; VLS],
}

/// What happens to that which leaves by an end.
#[derive(Clone, Debug, Default)]
struct Disturbance {
    loss_ppm: u32,
    corruption_ppm: u32,
    credit_loss_ppm: u32,
    impairment: SmpImpairment,
}

/// All cables, by node and port of either end.
#[derive(Debug)]
pub(crate) struct Cables {
    first: Vec<usize>,
    ends: Vec<End>,
    /// By end.
    disturbances: Vec<Disturbance>,
    random: ChaCha8Rng,
}

impl Cables {
    pub(crate) fn new(graph: &Graph, seed: u64) -> Self {
        let mut first = Vec::with_capacity(graph.len());
        let mut ends = Vec::new();
        for node in graph.ids() {
            first.push(ends.len());
            for port in (0..=graph.node(node).ports).map(PortNum::new) {
                let peer = graph.peer(Endpoint { node, port });
                ends.push(End {
                    peer: peer.map(|peer| (number(peer.node.index()), peer.port)),
                    up: peer.is_some(),
                    ..End::default()
                });
            }
        }
        Self {
            first,
            disturbances: vec![Disturbance::default(); ends.len()],
            ends,
            random: ChaCha8Rng::seed_from_u64(seed ^ 0x6361_626c),
        }
    }

    #[inline]
    fn end(&self, node: usize, port: PortNum) -> &End {
        &self.ends[self.first[node] + port.index()]
    }

    #[inline]
    fn end_mut(&mut self, node: usize, port: PortNum) -> &mut End {
        &mut self.ends[self.first[node] + port.index()]
    }

    fn disturbance(&self, node: usize, port: PortNum) -> &Disturbance {
        &self.disturbances[self.first[node] + port.index()]
    }

    fn disturb(&mut self, node: usize, port: PortNum) -> &mut Disturbance {
        self.end_mut(node, port).is_disturbed = true;
        &mut self.disturbances[self.first[node] + port.index()]
    }

    /// Where the cable of a port leads to, while it is in.
    #[inline]
    pub(crate) fn peer(&self, node: usize, port: PortNum) -> Option<(u32, PortNum)> {
        let end = self.end(node, port);
        end.peer.filter(|_| end.up)
    }

    /// Where the cable leads to, in or not.
    pub(crate) fn other_end(&self, node: usize, port: PortNum) -> Option<(u32, PortNum)> {
        self.end(node, port).peer
    }

    /// The number of an end.
    #[inline]
    pub(crate) fn end_of(&self, node: usize, port: PortNum) -> usize {
        self.first[node] + port.index()
    }

    /// How often the cable of an end has been pulled or put in.
    #[inline]
    pub(crate) fn plug_epoch(&self, end: usize) -> u32 {
        self.ends[end].plug_epoch
    }

    /// Whether the cable of an end has been in since that epoch, so that what was put on it there arrives.
    #[inline]
    pub(crate) fn is_unbroken(&self, end: usize, plug_epoch: u32) -> bool {
        let end = &self.ends[end];
        end.up && end.plug_epoch == plug_epoch
    }

    /// Pulls a cable or puts it in again, as seen from one end.
    pub(crate) fn set_up(&mut self, node: usize, port: PortNum, up: bool) {
        let end = self.end_mut(node, port);
        end.up = up;
        end.plug_epoch += 1;
    }

    /// A packet of that VL and so many blocks has been put on the cable.
    #[inline]
    pub(crate) fn packet_sent(&mut self, node: usize, port: PortNum, (vl, blocks): (usize, u16)) {
        let in_flight = &mut self.end_mut(node, port).in_flight[vl];
        *in_flight = in_flight.wrapping_add(blocks);
    }

    /// A packet of that VL and so many blocks, put on the cable at an end, has come to the other.
    #[inline]
    pub(crate) fn packet_received(&mut self, from: usize, (vl, blocks): (usize, u16)) {
        let end = &mut self.ends[from];
        end.in_flight[vl] = end.in_flight[vl].wrapping_sub(blocks);
        end.received = end.received.wrapping_add(1);
        end.last_received = (saturate(vl), blocks);
    }

    /// How many packets from a port have come to the other end.
    #[inline]
    pub(crate) fn received(&self, node: usize, port: PortNum) -> u32 {
        self.end(node, port).received
    }

    /// Adds to the counts of flow control that overtook packets those that have come from that end after it
    /// was sent, when `received` had come: one at most, in the same moment. Without this the count of that
    /// packet would be taken back, and credits with it that would not be returned.
    #[inline]
    pub(crate) fn add_received(&self, from: usize, received: u32, control: &mut [u8]) {
        if let Some((received_vl, blocks)) = self.received_since(from, received) {
            rewrite_fctbs(control, |vl, fctbs| {
                let more = if vl == received_vl { blocks } else { 0 };
                fctbs.wrapping_add(more)
            });
        }
    }

    /// The same of flow control as a value.
    #[inline]
    pub(crate) fn add_received_to(&self, from: usize, received: u32, packet: &mut FlowControl) {
        if let Some((vl, blocks)) = self.received_since(from, received)
            && packet.vl.index() == vl
        {
            packet.fctbs = packet.fctbs.wrapping_add(blocks) % FlowControl::MODULUS;
        }
    }

    /// VL and blocks of the packet that has come from an end since `received` had.
    #[inline]
    fn received_since(&self, from: usize, received: u32) -> Option<(usize, u16)> {
        let end = &self.ends[from];
        let (vl, blocks) = end.last_received;
        (end.received != received).then_some((usize::from(vl), blocks))
    }

    /// Subtracts the packets in flight from the counts of flow control that overtakes them.
    pub(crate) fn subtract_in_flight(&self, node: usize, port: PortNum, control: &mut [u8]) {
        let in_flight = &self.end(node, port).in_flight;
        if in_flight.iter().all(|&blocks| blocks == 0) {
            return;
        }
        rewrite_fctbs(control, |vl, fctbs| fctbs.wrapping_sub(in_flight[vl]));
    }

    /// The same of flow control as a value.
    #[inline]
    pub(crate) fn subtract_in_flight_from(
        &self,
        node: usize,
        port: PortNum,
        packet: &mut FlowControl,
    ) {
        let in_flight = self.end(node, port).in_flight[packet.vl.index()];
        packet.fctbs = packet.fctbs.wrapping_sub(in_flight) % FlowControl::MODULUS;
    }

    /// Sets the rates of loss and damage of what leaves a port, in millionths.
    pub(crate) fn set_rates(&mut self, node: usize, port: PortNum, loss: u32, corruption: u32) {
        let end = self.disturb(node, port);
        end.loss_ppm = loss.min(PPM_MAX);
        end.corruption_ppm = corruption.min(PPM_MAX);
    }

    /// Sets the rate at which flow control that leaves a port is lost, in millionths.
    pub(crate) fn set_credit_loss(&mut self, node: usize, port: PortNum, loss: u32) {
        self.disturb(node, port).credit_loss_ppm = loss.min(PPM_MAX);
    }

    /// Sets the rates, in millionths, at which management packets that leave a port come twice, and
    /// come late by up to `delay_ns_max`.
    pub(crate) fn set_smp_impairment(
        &mut self,
        node: usize,
        port: PortNum,
        (duplication_ppm, delay_ppm): (u32, u32),
        delay_ns_max: u64,
    ) {
        self.disturb(node, port).impairment = SmpImpairment {
            duplication_ppm: duplication_ppm.min(PPM_MAX),
            delay_ppm: delay_ppm.min(PPM_MAX),
            delay_ns_max,
        };
    }

    /// How often a packet that leaves a port comes to the other end, and when. Only packets of VL15
    /// are disturbed: others are in an order and have credits.
    #[inline]
    pub(crate) fn draw_smp_copies(
        &mut self,
        node: usize,
        port: PortNum,
        record: &[u8],
    ) -> SmpCopies {
        if !self.end(node, port).is_disturbed {
            return SmpCopies::NONE;
        }
        let impairment = self.disturbance(node, port).impairment;
        if impairment.duplication_ppm | impairment.delay_ppm == 0
            || weight(record).0 != wire::Vl::MANAGEMENT.index()
            || !is_alone(record)
        {
            return SmpCopies::NONE;
        }
        let is_double = self.random.random_range(0..PPM_MAX) < impairment.duplication_ppm;
        let delays_ns =
            [0; 2].map(
                |_| match self.random.random_range(0..PPM_MAX) < impairment.delay_ppm {
                    true => self.random.random_range(0..=impairment.delay_ns_max),
                    false => 0,
                },
            );
        SmpCopies {
            copies: 1 + usize::from(is_double),
            delays_ns,
        }
    }

    /// Whether link control that leaves a port is lost.
    #[inline]
    pub(crate) fn loses_credit(&mut self, node: usize, port: PortNum) -> bool {
        if !self.end(node, port).is_disturbed {
            return false;
        }
        let rate = self.disturbance(node, port).credit_loss_ppm;
        rate != 0 && self.random.random_range(0..PPM_MAX) < rate
    }

    /// Draws the fate of a packet that leaves a port; changes its bytes, if it has any, where they arrive damaged.
    #[inline]
    pub(crate) fn impair(&mut self, node: usize, port: PortNum, record: &mut [u8]) -> Impairment {
        if !self.end(node, port).is_disturbed {
            return Impairment::None;
        }
        let &Disturbance {
            loss_ppm,
            corruption_ppm,
            ..
        } = self.disturbance(node, port);
        if loss_ppm | corruption_ppm == 0 {
            return Impairment::None;
        }
        if self.random.random_range(0..PPM_MAX) < loss_ppm {
            return Impairment::Lost;
        }
        if self.random.random_range(0..PPM_MAX) < corruption_ppm {
            if record.is_empty() {
                // Handed over without bytes, which a plan that damages any does not have.
                return Impairment::None;
            }
            // Behind LRH and BTH of the first packet, so that the receiver can count the drop by source.
            let end = Delimiter::parse(record).map_or(record.len(), |(delimiter, _)| {
                (Delimiter::LEN + usize::from(delimiter.len)).clamp(1, record.len())
            });
            let at = self.random.random_range(24.min(end - 1)..end);
            record[at] ^= 1 << self.random.random_range(0..8u8);
            return Impairment::Corrupted;
        }
        Impairment::None
    }
}

/// Changes the counts of sent blocks (FCTBS) in the flow control of a frame, given VL and count.
fn rewrite_fctbs(control: &mut [u8], change: impl Fn(usize, u16) -> u16) {
    let mut at = 0;
    while let Ok((Delimiter { kind, len }, _)) = Delimiter::parse(&control[at..]) {
        let len = usize::from(len);
        let Some(bytes) = control.get_mut(at + Delimiter::LEN..at + Delimiter::LEN + len) else {
            return;
        };
        if kind == RecordKind::FlowControl
            && let Ok((mut packet, _)) = FlowControl::parse(bytes)
        {
            packet.fctbs = change(packet.vl.index(), packet.fctbs) % FlowControl::MODULUS;
            packet.emit(bytes);
        }
        at += Delimiter::LEN + len;
    }
}

/// Whether a frame holds one packet: where links have no rate, others may stand behind it.
fn is_alone(frame: &[u8]) -> bool {
    Delimiter::parse(frame)
        .is_ok_and(|(delimiter, behind)| usize::from(delimiter.len) == behind.len())
}

/// VL and blocks of a data record.
#[inline]
pub(crate) fn weight(record: &[u8]) -> (usize, u16) {
    let vl = record.get(Delimiter::LEN).map_or(0, |byte| byte >> 4);
    (
        usize::from(vl),
        blocks(record.len().saturating_sub(Delimiter::LEN)),
    )
}
