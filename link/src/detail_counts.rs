//! What a port counts by virtual lane (VL), by service level and by opcode (IBA 16.1.4.4 to 16.1.4.10).

use wire::packet::DataPacket;
use wire::{Bth, Grh, Lnh, Lrh, Vl};

/// Service levels, and VLs.
const LEVELS: usize = 16;
/// BTH: bits of congestion notices, forward and backward, in the byte behind the partition key.
const FECN: u8 = 0x80;
const BECN: u8 = 0x40;
/// Where that byte is.
const NOTICES_AT: usize = 4;

/// A counter for each service level or VL.
type Levels = [u64; LEVELS];

/// Received packets of one opcode.
#[derive(Clone, Debug, PartialEq, Eq)]
struct OpCodeCounts {
    op_code: u8,
    pkts_by_vl: Levels,
    words_by_vl: Levels,
}

/// Counters by virtual lane (VL), service level and opcode of one port. They never decrease. Those by service
/// level leave packets on VL15 out: they have no service level.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DetailCounts {
    /// Words of 4 bytes sent, LRH to ICRC.
    pub xmit_words_by_sl: Levels,
    /// Words of 4 bytes sent by VL, on VL15 too.
    pub xmit_words_by_vl: Levels,
    /// Words of 4 bytes received.
    pub rcv_words_by_sl: Levels,
    /// Packets received with FECN.
    pub rcv_fecn_pkts_by_sl: Levels,
    /// Packets received with BECN.
    pub rcv_becn_pkts_by_sl: Levels,
    /// Nanoseconds during which data of a VL waited and had no credits.
    pub xmit_wait_ns_by_vl: Levels,
    /// Packets discarded on their way out because they had waited for too long.
    pub expired_pkts_by_vl: Levels,
    /// Flow-control packets sent.
    pub xmit_flow_pkts: u64,
    /// Flow-control packets received.
    pub rcv_flow_pkts: u64,
    /// In order of their first packet, at most 256.
    op_codes: Vec<OpCodeCounts>,
}

impl DetailCounts {
    /// Packets received with this opcode, or with any, and their words of 4 bytes, LRH to ICRC, both by VL.
    #[must_use]
    pub fn received_by_vl(&self, op_code: Option<u8>) -> (Levels, Levels) {
        let wanted = |row: &&OpCodeCounts| op_code.is_none_or(|wanted| row.op_code == wanted);
        let (mut pkts, mut words) = ([0; LEVELS], [0; LEVELS]);
        for row in self.op_codes.iter().filter(wanted) {
            for vl in 0..LEVELS {
                pkts[vl] += row.pkts_by_vl[vl];
                words[vl] += row.words_by_vl[vl];
            }
        }
        (pkts, words)
    }

    /// Counts a packet that has been let in.
    #[inline]
    pub(crate) fn count_received(&mut self, packet: &DataPacket<'_>) {
        let lrh = packet.lrh();
        let Some(bth) = transport_header(packet) else {
            self.count_received_words(lrh);
            return;
        };
        self.count_received_op_code(lrh, bth[0]);
        if bth[NOTICES_AT] & (FECN | BECN) != 0 {
            self.rcv_fecn_pkts_by_sl[lrh.sl.index()] += u64::from(bth[NOTICES_AT] & FECN != 0);
            self.rcv_becn_pkts_by_sl[lrh.sl.index()] += u64::from(bth[NOTICES_AT] & BECN != 0);
        }
    }

    /// The same of a packet without congestion notices, by its opcode.
    #[inline]
    pub(crate) fn count_received_op_code(&mut self, lrh: &Lrh, op_code: u8) {
        self.count_received_words(lrh);
        let row = match self.op_codes.iter().position(|row| row.op_code == op_code) {
            Some(at) => &mut self.op_codes[at],
            None => self.first_of(op_code),
        };
        row.pkts_by_vl[lrh.vl.index()] += 1;
        row.words_by_vl[lrh.vl.index()] += u64::from(lrh.pkt_len_words);
    }

    #[inline]
    fn count_received_words(&mut self, lrh: &Lrh) {
        if lrh.vl != Vl::MANAGEMENT {
            self.rcv_words_by_sl[lrh.sl.index()] += u64::from(lrh.pkt_len_words);
        }
    }

    #[cold]
    fn first_of(&mut self, op_code: u8) -> &mut OpCodeCounts {
        let at = self.op_codes.len();
        self.op_codes.push(OpCodeCounts {
            op_code,
            pkts_by_vl: [0; LEVELS],
            words_by_vl: [0; LEVELS],
        });
        &mut self.op_codes[at]
    }

    /// Counts a packet that has been sent.
    #[inline]
    pub(crate) fn count_sent(&mut self, lrh: &Lrh) {
        self.xmit_words_by_vl[lrh.vl.index()] += u64::from(lrh.pkt_len_words);
        if lrh.vl != Vl::MANAGEMENT {
            self.xmit_words_by_sl[lrh.sl.index()] += u64::from(lrh.pkt_len_words);
        }
    }
}

/// The base transport header of a packet; `None` of a raw packet, and of one that ends before.
#[inline]
fn transport_header<'a>(packet: &DataPacket<'a>) -> Option<&'a [u8]> {
    let at = match packet.lrh().lnh {
        Lnh::IbaLocal => Lrh::LEN,
        Lnh::IbaGlobal => Lrh::LEN + Grh::LEN,
        _ => return None,
    };
    packet.bytes().get(at..at + Bth::LEN)
}
