//! Checks of the datagrams of full hosts: each arrives once at most, and those of one
//! (SLID, DLID, SL) arrive in the order in which they were sent.
//!
//! [`crate::packet_tracker`] has its hosts' LIDs and numbers. Hosts of a [`crate::Twin`] get their
//! LIDs in the course of a run and send any datagrams, so these are distinguished by their ICRC,
//! which covers all that does not change on the way. The same bytes sent twice may come twice.
//!
//! When tables change while datagrams are in flight, one may overtake another, and multicast ones may be
//! copied twice: order and copies are checked only of datagrams sent after the last change.
//! Unicast datagrams are never duplicated.

use std::collections::{BTreeMap, BTreeSet};

use link::Time;
use wire::mad::{AttributeId, Method, MgmtClass};
use wire::{DataPacket, Lid, RecordKind, Records, Sl, Vl, p_key};

/// Datagrams that are remembered at a time; beyond, new ones are not checked.
const WAITING_MAX: usize = 1 << 18;
/// Bytes of the headers before the BTH.
const LRH_LEN: usize = 8;
const GRH_LEN: usize = 40;
/// Bytes before the MAD of an SMP's packet: LRH, BTH, DETH.
const HEADERS: usize = 8 + 12 + 8;
/// Bytes from LRH to the end of DETH and CRCs: the shortest that is a datagram.
const DATAGRAM_MIN: usize = HEADERS + wire::packet::ICRC_LEN + wire::packet::VCRC_LEN;

/// One datagram that has been sent.
#[derive(Debug)]
struct Sent {
    sequence: u64,
    at: Time,
    by: u32,
    /// The hosts that have received it. A unicast one is removed with the first.
    got_by: Vec<u32>,
}

/// Datagrams of the same source, destination and service level.
#[derive(Debug, Default)]
struct Flow {
    next: u64,
    /// By ICRC, in the order of sending.
    waiting: BTreeMap<u32, Vec<Sent>>,
    /// By sender and receiver: the number after the last one that has come.
    order: BTreeMap<(u32, u32), u64>,
}

/// The fields of a packet that distinguish datagrams.
#[derive(Clone, Copy)]
struct Header {
    flow: (Lid, Lid, Sl),
    pkey: u16,
    icrc: u32,
}

/// All datagrams between the hosts of a twin.
#[derive(Debug, Default)]
pub(crate) struct Datagrams {
    flows: BTreeMap<(Lid, Lid, Sl), Flow>,
    /// SLIDs that hosts have used: datagrams of agents of switches are not checked.
    sources: BTreeSet<Lid>,
    waiting: usize,
    /// The P_Key tables that hosts are to have, by node; of hosts that are not in it nothing is known.
    pub(crate) partitions: BTreeMap<u32, Vec<u16>>,
    /// Datagrams that were not remembered, so that their order and number are not checked.
    pub(crate) unchecked: u64,
    /// When datagrams that are not checked any more were last removed.
    forgotten: Time,
    /// When a forwarding table or a port was last written or read.
    changed: Time,
    /// Unicast datagrams that have left hosts.
    pub(crate) sent: u64,
    /// Unicast datagrams that have come to hosts.
    pub(crate) delivered: u64,
    /// Copies of multicast datagrams that have come to hosts.
    pub(crate) copies: u64,
}

/// The datagram of a packet; `None` for VL15 and for what is no datagram.
fn header(packet: &[u8]) -> Option<Header> {
    if packet.len() < DATAGRAM_MIN || packet[0] >> 4 == Vl::MANAGEMENT.get() {
        return None;
    }
    let word = |at: usize| Lid::new(u16::from_be_bytes([packet[at], packet[at + 1]]));
    let icrc_at = packet.len() - wire::packet::VCRC_LEN - wire::packet::ICRC_LEN;
    // The low two bits of the LRH's second byte say whether a GRH follows it (LNH, IBA 7.7.6).
    let bth = match packet[1] & 3 {
        3 => LRH_LEN + GRH_LEN,
        _ => LRH_LEN,
    };
    let pkey = packet.get(bth + 2..bth + 4)?;
    Some(Header {
        flow: (word(6), word(2), Sl::new(packet[1] >> 4).ok()?),
        pkey: u16::from_be_bytes(*pkey.first_chunk()?),
        icrc: u32::from_be_bytes(*packet[icrc_at..].first_chunk()?),
    })
}

/// The packets of a frame.
fn packets(frame: &[u8]) -> impl Iterator<Item = &[u8]> {
    let records = Records::new(frame).filter_map(Result::ok);
    let data = records.filter(|record| record.kind == RecordKind::Data);
    data.map(|record| record.bytes)
}

/// Whether a packet is an SMP that changes forwarding, or the answer to one.
fn changes_tables(packet: &[u8]) -> bool {
    let Some(mad) = packet.get(HEADERS..HEADERS + wire::Mad::LEN) else {
        return false;
    };
    let attribute = AttributeId(u16::from_be_bytes([mad[16], mad[17]]));
    packet[0] >> 4 == Vl::MANAGEMENT.get()
        && MgmtClass(mad[1]).is_subnet_management()
        && [Method::SET, Method::GET_RESP].contains(&Method(mad[3]))
        && [
            AttributeId::LINEAR_FORWARDING_TABLE,
            AttributeId::MULTICAST_FORWARDING_TABLE,
            AttributeId::SL_TO_VL_TABLE,
            AttributeId::PORT_INFO,
        ]
        .contains(&attribute)
}

/// Whether a packet of that partition from the first of two hosts must not reach the second, by the tables that
/// they are to have. That limited members do not receive each other's packets is checked by the hosts.
fn is_foreign(tables: &BTreeMap<u32, Vec<u16>>, (from, to): (u32, u32), pkey: u16) -> bool {
    let (Some(sends), Some(takes)) = (tables.get(&from), tables.get(&to)) else {
        return false;
    };
    let is_default = pkey & p_key::PARTITION == p_key::DEFAULT_PARTITION;
    let is_in = |table: &[u16]| p_key::own_key(table, pkey).is_some();
    let both = is_in(sends) && is_in(takes);
    !(is_default || both)
}

impl Datagrams {
    /// Notes a change after which packets may take other paths.
    pub(crate) fn note_change(&mut self, now: Time) {
        self.changed = now;
    }

    /// A frame is put on some cable; `host` is the sender, if it is a host.
    pub(crate) fn on_cable(&mut self, now: Time, host: Option<u32>, frame: &[u8]) {
        for packet in packets(frame) {
            if changes_tables(packet) {
                self.changed = now;
            }
            if let Some(host) = host {
                self.sent(now, host, packet);
            }
        }
    }

    /// A frame comes to a host. What is wrong with what it carries, if anything; what is damaged is
    /// for the host to drop.
    pub(crate) fn at_host(&mut self, now: Time, host: u32, frame: &[u8]) -> Option<String> {
        let mut first = None;
        for packet in packets(frame) {
            let is_whole =
                DataPacket::parse(packet).is_ok_and(|packet| packet.check_vcrc().is_ok());
            if is_whole && let Some(what) = self.received(now, host, packet) {
                first.get_or_insert(what);
            }
        }
        first
    }

    fn sent(&mut self, now: Time, by: u32, packet: &[u8]) {
        let Some(Header { flow, icrc, .. }) = header(packet) else {
            return;
        };
        self.sources.insert(flow.0);
        self.sent += u64::from(!flow.1.is_multicast());
        if self.waiting >= WAITING_MAX && self.forgotten < self.changed {
            self.forget_old();
        }
        if self.waiting >= WAITING_MAX {
            self.unchecked += 1;
            return;
        }
        self.waiting += 1;
        let flow = self.flows.entry(flow).or_default();
        let sequence = flow.next;
        flow.next += 1;
        flow.waiting.entry(icrc).or_default().push(Sent {
            sequence,
            at: now,
            by,
            got_by: Vec::new(),
        });
    }

    /// Removes multicast datagrams that are not checked any more: those sent before forwarding last changed.
    fn forget_old(&mut self) {
        let changed = self.changed;
        self.forgotten = changed;
        for (_, flow) in self
            .flows
            .iter_mut()
            .filter(|(key, _)| key.1.is_multicast())
        {
            flow.waiting.retain(|_, same| {
                let before = same.len();
                same.retain(|sent| sent.at > changed);
                self.waiting -= before - same.len();
                !same.is_empty()
            });
        }
    }

    fn received(&mut self, now: Time, at: u32, packet: &[u8]) -> Option<String> {
        let Header {
            flow: key,
            pkey,
            icrc,
        } = header(packet)?;
        if !self.sources.contains(&key.0) {
            return None;
        }
        let is_multicast = key.1.is_multicast();
        if is_multicast {
            self.copies += 1;
        } else {
            self.delivered += 1;
        }
        let what = || {
            let (slid, dlid, sl) = key;
            let length = packet.len();
            format!(
                "datagram of {length} bytes from LID {slid} to LID {dlid}, SL {sl}, ICRC {icrc:#010x}"
            )
        };
        let unknown = || match self.unchecked {
            1.. => None,
            0 => Some(format!(
                "{}: came to node {at} twice, or was never sent",
                what()
            )),
        };
        let Some(flow) = self.flows.get_mut(&key) else {
            return unknown();
        };
        let Some(same) = flow.waiting.get_mut(&icrc) else {
            return unknown();
        };
        if is_multicast {
            let problem = copy_received(same, at, self.changed);
            return problem.map(|problem| format!("{}: {problem}", what()));
        }
        // The same bytes may be sent again: one that keeps the order is taken for the one that came.
        let expected = |sent: &Sent| flow.order.get(&(sent.by, at)).copied().unwrap_or(0);
        let in_order = same.iter().position(|sent| sent.sequence >= expected(sent));
        let sent = same.remove(in_order.unwrap_or(0));
        if same.is_empty() {
            flow.waiting.remove(&icrc);
        }
        self.waiting -= 1;
        if is_foreign(&self.partitions, (sent.by, at), pkey) {
            return Some(format!(
                "{}, P_Key {pkey:#06x}: came from node {} to node {at}, which is not in its partition",
                what(),
                sent.by
            ));
        }
        let next = flow.order.entry((sent.by, at)).or_default();
        *next = (*next).max(sent.sequence + 1);
        let is_settled = sent.at > self.changed;
        (in_order.is_none() && is_settled).then(|| {
            let since = now.since_ns(sent.at);
            format!(
                "{}: came after a later one, {since} ns after it was sent",
                what()
            )
        })
    }
}

/// Notes that a node has received a copy of a multicast datagram; `same` are those with its bytes that have been
/// sent. Returns what is wrong with the copy, if it was sent after the last change of the tables.
fn copy_received(same: &mut [Sent], node: u32, changed: Time) -> Option<String> {
    let Some(sent) = same.iter_mut().find(|sent| !sent.got_by.contains(&node)) else {
        let is_settled = same.iter().all(|sent| sent.at > changed);
        return is_settled.then(|| format!("came to node {node} twice"));
    };
    sent.got_by.push(node);
    let has_come_back = sent.by == node && sent.at > changed;
    has_come_back.then(|| format!("came back to node {node}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::{Qpn, UdPacket};

    /// A datagram that carries `number`.
    fn packet(dlid: u16, number: u8) -> Vec<u8> {
        let payload = [number; 16];
        let datagram = UdPacket {
            vl: Vl::default(),
            sl: Sl::default(),
            dlid: Lid::new(dlid),
            slid: Lid::new(4),
            global: None,
            solicited: false,
            pkey: 0xffff,
            dest_qp: Qpn::truncate(7),
            psn: wire::Psn::default(),
            qkey: 1,
            src_qp: Qpn::truncate(8),
            immediate: None,
            payload: &payload,
        };
        let mut bytes = vec![0; datagram.len()];
        datagram.emit(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn one_comes_once_and_in_order() {
        let mut datagrams = Datagrams::default();
        for number in 0..3 {
            datagrams.sent(Time(10), 1, &packet(5, number));
        }
        assert_eq!(datagrams.received(Time(20), 2, &packet(5, 1)), None);
        let late = datagrams.received(Time(21), 2, &packet(5, 0)).unwrap();
        assert!(late.contains("after a later one"), "{late}");
        let again = datagrams.received(Time(22), 2, &packet(5, 1)).unwrap();
        assert!(again.contains("twice"), "{again}");
        assert_eq!(datagrams.received(Time(23), 2, &packet(5, 2)), None);
        assert_eq!((datagrams.sent, datagrams.delivered), (3, 4));
    }

    #[test]
    fn one_of_a_foreign_partition_is_told() {
        let mut datagrams = Datagrams::default();
        let mut come = |tables: &[(u32, u16)]| {
            let tables = tables.iter();
            datagrams.partitions = tables.map(|&(host, key)| (host, vec![key])).collect();
            let mut of_partition = packet(5, 0);
            of_partition[10..12].copy_from_slice(&0x8005u16.to_be_bytes());
            datagrams.sent(Time(10), 1, &of_partition);
            datagrams.received(Time(20), 2, &of_partition)
        };
        assert_eq!(come(&[]), None);
        assert_eq!(come(&[(1, 0x8005), (2, 0x0005)]), None);
        for tables in [[(1, 0x8005), (2, 0x8006)], [(1, 0x0006), (2, 0x8005)]] {
            let problem = come(&tables).unwrap();
            assert!(problem.contains("P_Key 0x8005"), "{problem}");
        }
    }

    #[test]
    fn the_same_bytes_sent_again_are_another_datagram() {
        let mut datagrams = Datagrams::default();
        for number in [0, 1, 0] {
            datagrams.sent(Time(10), 1, &packet(5, number));
        }
        // The first one is lost.
        for number in [1, 0] {
            assert_eq!(datagrams.received(Time(20), 2, &packet(5, number)), None);
        }
    }

    #[test]
    fn order_is_not_checked_of_datagrams_sent_before_tables_changed() {
        let mut datagrams = Datagrams::default();
        for number in 0..2 {
            datagrams.sent(Time(10), 1, &packet(5, number));
        }
        datagrams.note_change(Time(15));
        for number in [1, 0] {
            assert_eq!(datagrams.received(Time(20), 2, &packet(5, number)), None);
        }
    }

    #[test]
    fn a_multicast_datagram_comes_once_to_each_and_never_back() {
        let mut datagrams = Datagrams::default();
        datagrams.sent(Time(10), 1, &packet(0xc001, 0));
        let mut receive = |at| datagrams.received(Time(20), at, &packet(0xc001, 0));
        assert_eq!(receive(2), None);
        assert_eq!(receive(3), None);
        assert!(receive(3).is_some_and(|what| what.contains("twice")));
        assert!(receive(1).is_some_and(|what| what.contains("came back")));
    }
}
