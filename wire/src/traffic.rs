//! Packets of the hosts' own traffic (`ibemu perf`), distinguished by their content.
//!
//! A device on the way obeys headers only. But when it drops a packet it looks inside, so that what
//! a source has sent can be reconciled with what has arrived: a lost packet of data is a loss, a lost
//! acknowledgement is none.
//!
//! ```text
//! BTH (12) | DETH (8) | 0 magic "perf" | 4 kind | ...
//! ```
//!
//! The traffic source of a host sends from [`SOURCE_QPN`] to [`SINK_QPN`], the sink replies the
//! other way. Packets between other queue pairs are none of this traffic, whatever they hold.

use crate::{Bth, DataPacket, Deth, Format, Lnh, Opcode, Qpn, UdPacket};

/// The queue pair of every host that counts traffic and acknowledges it.
pub const SINK_QPN: Qpn = Qpn::constant(0x1b1);
/// The queue pair that traffic is sent from.
pub const SOURCE_QPN: Qpn = Qpn::constant(0x1b3);
/// The first four bytes of the payload: "perf".
pub const MAGIC: u32 = 0x7065_7266;
/// Where the kind stands in the payload.
pub const KIND_AT: usize = 4;

/// The kind of a packet of traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum TrafficKind {
    /// Source to sink: what is measured.
    Data = 1,
    /// Source to sink: all before has been sent; report.
    Query = 2,
    /// Sink to source: counts.
    Acknowledgement = 3,
    /// Sink to source: counts and latency, the answer to a query.
    Report = 4,
}

impl TrafficKind {
    /// Every kind, in the order of their codes.
    pub const ALL: [Self; Self::COUNT] =
        [Self::Data, Self::Query, Self::Acknowledgement, Self::Report];
    /// How many kinds there are.
    pub const COUNT: usize = 4;

    /// The kind's byte in a payload.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The kind with this code, if there is one.
    #[must_use]
    pub const fn from_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::Data),
            2 => Some(Self::Query),
            3 => Some(Self::Acknowledgement),
            4 => Some(Self::Report),
            _ => None,
        }
    }

    /// The kind's place in [`TrafficKind::ALL`].
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize - 1
    }

    /// The kind's name in counters, reports and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::Query => "query",
            Self::Acknowledgement => "acknowledgement",
            Self::Report => "report",
        }
    }

    /// Whether a traffic source sends it; a sink otherwise.
    #[must_use]
    pub const fn is_from_source(self) -> bool {
        matches!(self, Self::Data | Self::Query)
    }

    /// The kind of a datagram; `None` if it is none of this traffic.
    #[must_use]
    pub fn of_datagram(datagram: &UdPacket<'_>) -> Option<Self> {
        of_payload(datagram.src_qp, datagram.dest_qp, datagram.payload)
    }

    /// The kind of a datagram between these queue pairs with that payload; `None` if it is none of this traffic.
    #[must_use]
    pub fn of_payload(src_qp: Qpn, dest_qp: Qpn, payload: &[u8]) -> Option<Self> {
        of_payload(src_qp, dest_qp, payload)
    }

    /// The kind of a whole packet, LRH to VCRC; `None` if it is none of this traffic.
    #[must_use]
    pub fn of_packet(bytes: &[u8]) -> Option<Self> {
        let packet = DataPacket::parse(bytes).ok()?;
        Self::of_body(packet.lrh().lnh, packet.body())
    }

    /// The kind by the next header that the LRH names, and what lies behind the LRH; `None` if it
    /// is none of this traffic.
    #[must_use]
    pub fn of_body(lnh: Lnh, body: &[u8]) -> Option<Self> {
        if lnh != Lnh::IbaLocal {
            return None;
        }
        let (bth, rest) = Bth::parse(body).ok()?;
        if bth.opcode != Opcode::UD_SEND_ONLY {
            return None;
        }
        let (deth, payload) = Deth::parse(rest).ok()?;
        of_payload(deth.src_qp, bth.dest_qp, payload)
    }
}

fn of_payload(src_qp: Qpn, dest_qp: Qpn, payload: &[u8]) -> Option<TrafficKind> {
    let from_source = match (src_qp, dest_qp) {
        (SOURCE_QPN, SINK_QPN) => true,
        (SINK_QPN, SOURCE_QPN) => false,
        _ => return None,
    };
    if payload.first_chunk() != Some(&MAGIC.to_be_bytes()) {
        return None;
    }
    let kind = TrafficKind::from_code(*payload.get(KIND_AT)?)?;
    (kind.is_from_source() == from_source).then_some(kind)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Lid, Psn, Sl, Vl};

    fn datagram(src_qp: Qpn, dest_qp: Qpn, payload: &[u8]) -> UdPacket<'_> {
        UdPacket {
            vl: Vl::default(),
            sl: Sl::default(),
            dlid: Lid::new(2),
            slid: Lid::new(1),
            global: None,
            solicited: false,
            pkey: 0xffff,
            dest_qp,
            psn: Psn::default(),
            qkey: 1,
            src_qp,
            immediate: None,
            payload,
        }
    }

    fn kinds(src_qp: Qpn, dest_qp: Qpn, payload: &[u8]) -> Option<TrafficKind> {
        let datagram = datagram(src_qp, dest_qp, payload);
        let kind = TrafficKind::of_datagram(&datagram);
        let mut bytes = [0; 400];
        let len = datagram.emit(&mut bytes).unwrap();
        assert_eq!(TrafficKind::of_packet(&bytes[..len]), kind);
        kind
    }

    #[test]
    fn kinds_are_told_by_queue_pairs_and_content() {
        for kind in TrafficKind::ALL {
            assert_eq!(TrafficKind::ALL[kind.index()], kind);
            assert_eq!(TrafficKind::from_code(kind.code()), Some(kind));
            let mut payload = *b"perf\0\0\0\0";
            payload[KIND_AT] = kind.code();
            let (there, back) = ((SOURCE_QPN, SINK_QPN), (SINK_QPN, SOURCE_QPN));
            let (right, wrong) = match kind.is_from_source() {
                true => (there, back),
                false => (back, there),
            };
            assert_eq!(kinds(right.0, right.1, &payload), Some(kind));
            assert_eq!(kinds(wrong.0, wrong.1, &payload), None);
            assert_eq!(kinds(right.0, Qpn::constant(77), &payload), None);
            assert_eq!(kinds(Qpn::constant(77), right.1, &payload), None);
            payload[0] ^= 1;
            assert_eq!(kinds(right.0, right.1, &payload), None, "another magic");
        }
        assert_eq!(kinds(SOURCE_QPN, SINK_QPN, b"perf"), None, "no kind");
        assert_eq!(kinds(SOURCE_QPN, SINK_QPN, b"perf\x05\0\0\0"), None);
    }

    proptest! {
        #[test]
        fn any_bytes_have_a_kind_or_none(raw in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = TrafficKind::of_packet(&raw);
            for lnh in [Lnh::Raw, Lnh::Ipv6Raw, Lnh::IbaLocal, Lnh::IbaGlobal] {
                let _ = TrafficKind::of_body(lnh, &raw);
            }
        }
    }
}
