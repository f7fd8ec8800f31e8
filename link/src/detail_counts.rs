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

/// The counters of one number of a service level and of a VL. They never decrease. Those by service level leave packets on VL15
/// out: they have no service level. One line of memory: most ports only ever use one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(align(64))]
pub struct LevelCounts {
    /// Words of 4 bytes sent on the service level, LRH to ICRC.
    pub xmit_words_of_sl: u64,
    /// Words of 4 bytes sent on the VL, VL15 too.
    pub xmit_words_of_vl: u64,
    /// Words of 4 bytes received on the service level.
    pub rcv_words_of_sl: u64,
    /// Packets received with FECN on the service level.
    pub rcv_fecn_pkts_of_sl: u64,
    /// Packets received with BECN on the service level.
    pub rcv_becn_pkts_of_sl: u64,
    /// Nanoseconds during which data of the VL waited and had no credits.
    pub xmit_wait_ns_of_vl: u64,
    /// Packets discarded on their way out of the VL because they had waited for too long.
    pub expired_pkts_of_vl: u64,
}

/// Packets and words of 4 bytes.
type Received = (u64, u64);

/// Received packets of one opcode.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct OpCodeCounts {
    /// None of those that a packet can have until there is one.
    op_code: Option<u8>,
    on_vl0: Received,
    /// On VL 1 and above, once there are some.
    on_others: Option<Box<[Received; LEVELS - 1]>>,
}

impl OpCodeCounts {
    fn on(&self, vl: usize) -> Received {
        match (vl.checked_sub(1), &self.on_others) {
            (None, _) => self.on_vl0,
            (Some(at), Some(others)) => others[at],
            (Some(_), None) => (0, 0),
        }
    }

    #[inline]
    fn count(&mut self, vl: usize, words: u64) {
        let row = match vl.checked_sub(1) {
            None => &mut self.on_vl0,
            Some(at) => &mut self.on_others.get_or_insert_default()[at],
        };
        row.0 += 1;
        row.1 += words;
    }
}

/// Counters by virtual lane (VL), service level and opcode of one port. Those of level 0 and of the first opcode lie in place, the
/// others are there once something was counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct DetailCounts {
    /// Flow-control packets sent.
    pub xmit_flow_pkts: u64,
    /// Flow-control packets received.
    pub rcv_flow_pkts: u64,
    first_op_code: OpCodeCounts,
    others: Option<Box<[LevelCounts; LEVELS - 1]>>,
    first: LevelCounts,
    /// In order of their first packet, at most 255.
    other_op_codes: Vec<OpCodeCounts>,
}

impl DetailCounts {
    /// Reads what every packet counts in, see [`Port::read_ahead`](crate::Port::read_ahead).
    #[inline]
    pub(crate) fn read_ahead(&self) -> u64 {
        self.xmit_flow_pkts ^ self.first.xmit_words_of_sl
    }

    /// A counter of all levels.
    #[must_use]
    pub fn by_level(&self, counter: impl Fn(&LevelCounts) -> u64) -> Levels {
        core::array::from_fn(|level| match (level.checked_sub(1), &self.others) {
            (None, _) => counter(&self.first),
            (Some(at), Some(others)) => counter(&others[at]),
            (Some(_), None) => 0,
        })
    }

    /// The counters of a level, modulo 16.
    #[inline]
    pub fn level_mut(&mut self, level: usize) -> &mut LevelCounts {
        match (level % LEVELS).checked_sub(1) {
            None => &mut self.first,
            Some(at) => &mut self.others.get_or_insert_default()[at],
        }
    }

    /// Packets received with this opcode, or with any, and their words of 4 bytes, LRH to ICRC, both by VL.
    #[must_use]
    pub fn received_by_vl(&self, op_code: Option<u8>) -> (Levels, Levels) {
        let wanted = |row: &&OpCodeCounts| op_code.is_none() || row.op_code == op_code;
        let (mut pkts, mut words) = ([0; LEVELS], [0; LEVELS]);
        let rows = core::iter::once(&self.first_op_code).chain(&self.other_op_codes);
        for row in rows.filter(wanted) {
            for vl in 0..LEVELS {
                let (more_pkts, more_words) = row.on(vl);
                pkts[vl] += more_pkts;
                words[vl] += more_words;
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
            let level = self.level_mut(lrh.sl.index());
            level.rcv_fecn_pkts_of_sl += u64::from(bth[NOTICES_AT] & FECN != 0);
            level.rcv_becn_pkts_of_sl += u64::from(bth[NOTICES_AT] & BECN != 0);
        }
    }

    /// The same of a packet without congestion notices, by its opcode.
    #[inline]
    pub(crate) fn count_received_op_code(&mut self, lrh: &Lrh, op_code: u8) {
        self.count_received_words(lrh);
        let row = match self.first_op_code.op_code == Some(op_code) {
            true => &mut self.first_op_code,
            false => self.row_of(op_code),
        };
        row.count(lrh.vl.index(), u64::from(lrh.pkt_len_words));
    }

    #[inline]
    fn count_received_words(&mut self, lrh: &Lrh) {
        if lrh.vl != Vl::MANAGEMENT {
            let level = self.level_mut(lrh.sl.index());
            level.rcv_words_of_sl += u64::from(lrh.pkt_len_words);
        }
    }

    fn row_of(&mut self, op_code: u8) -> &mut OpCodeCounts {
        if self.first_op_code.op_code.is_none() {
            self.first_op_code.op_code = Some(op_code);
            return &mut self.first_op_code;
        }
        let rows = &mut self.other_op_codes;
        let known = rows.iter().position(|row| row.op_code == Some(op_code));
        let at = known.unwrap_or_else(|| {
            rows.push(OpCodeCounts {
                op_code: Some(op_code),
                ..OpCodeCounts::default()
            });
            rows.len() - 1
        });
        &mut rows[at]
    }

    /// Counts a packet that has been sent.
    #[inline]
    pub(crate) fn count_sent(&mut self, lrh: &Lrh) {
        let words = u64::from(lrh.pkt_len_words);
        self.level_mut(lrh.vl.index()).xmit_words_of_vl += words;
        if lrh.vl != Vl::MANAGEMENT {
            self.level_mut(lrh.sl.index()).xmit_words_of_sl += words;
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
