//! The state of every packet in flight, and checks against duplicates, disorder, packets
//! at the wrong host, packets older than their lifetime.
//!
//! A packet carries its source's LID and a number of 24 bits; everything else about it stands
//! here: when it was generated, when it was sent, since when it has been in its present switch (of
//! a multicast packet, since the last of its copies has come to one). Each source has a ring of as
//! many packets as it has in flight.

use core::fmt;
use std::collections::BTreeMap;
use std::sync::Arc;

use link::{HandedPacket, Time};
use wire::{Lid, Sl, convert};

use crate::generator::NO_FLOW;
use crate::numbers::index;
use crate::source_queues::{Groups, Injected, Target};
use crate::traffic_host::Received;

/// Violations whose text is kept; beyond, they are only counted.
const VIOLATIONS_KEPT: usize = 32;
/// The shortest ring of packets in flight.
const RING_MIN: usize = 16;
/// The ring where packets may be missing, and so it is not known which are still in flight.
const RING_LOSSY: usize = 1024;
/// The longest: a quarter of what 24 bits distinguish.
const RING_MAX: usize = 1 << 22;
/// No host has that LID.
const NO_HOST: u32 = u32::MAX;
/// The part of a packet's number that it carries.
const PSN_MASK: u64 = 0x00ff_ffff;

/// A violation of an invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// When.
    pub at: Time,
    /// Which rule was broken, and by which packet.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.at, self.what)
    }
}

/// Which packet: its source and its place in the source's ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PacketId {
    source: u32,
    psn: u32,
}

/// One packet in flight.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Slot {
    sequence: u64,
    generated: Time,
    sent: Time,
    /// Since when it has been in the device where it is.
    inside_since: Time,
    to: Target,
    dlid: Lid,
    sl: Sl,
    /// Hosts that have not got it yet; 0: it is not in flight.
    remaining: u32,
    bytes: u16,
    has_explicit_dlid: bool,
    flow: u32,
}

const EMPTY: Slot = Slot {
    sequence: u64::MAX,
    generated: Time::ZERO,
    sent: Time::NEVER,
    inside_since: Time::ZERO,
    to: Target::Host(NO_HOST),
    dlid: Lid::ZERO,
    sl: Sl::constant(0),
    remaining: 0,
    bytes: 0,
    has_explicit_dlid: false,
    flow: NO_FLOW,
};

/// A delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Delivery {
    pub(crate) tail: Time,
    /// From the first byte sent to the last byte received.
    pub(crate) network_ns: u64,
    /// The same, and the time at the source before.
    pub(crate) total_ns: u64,
    pub(crate) generated: Time,
    pub(crate) flow: u32,
    pub(crate) bytes: u16,
    pub(crate) is_multicast: bool,
}

/// All packets in flight, and the rules that hold for them.
#[derive(Debug)]
pub(crate) struct PacketTracker {
    /// By LID: which host it is.
    owners: Vec<u32>,
    rings: Vec<Vec<Slot>>,
    /// By source, destination and service level: the number after the last one delivered, its lower 32 bits.
    order: Vec<u32>,
    levels: usize,
    /// The same for packets on other DLIDs than the scheme's, multicast ones among them: by source,
    /// receiver, DLID and service level.
    explicit: BTreeMap<(u32, u32, Lid, Sl), u32>,
    groups: Arc<Groups>,
    /// How long a packet may be in a switch; [`u64::MAX`]: no limit.
    lifetime_ns: u64,
    /// Whether packets may be missing: then rings do not grow for those that never come.
    lossy: bool,
    pub(crate) injected: u64,
    pub(crate) delivered: u64,
    /// Packets that have gone through a switch.
    pub(crate) traversals: u64,
    pub(crate) violations: Vec<Violation>,
    pub(crate) violations_total: u64,
}

impl PacketTracker {
    /// For hosts with these LIDs each, and so many service levels. `lossy`: packets may be
    /// missing.
    pub(crate) fn new(
        lids: &[Vec<Lid>],
        levels: u8,
        lifetime_ns: Option<u64>,
        lossy: bool,
    ) -> Self {
        let lossy = lossy || lifetime_ns.is_some();
        let ring = if lossy { RING_LOSSY } else { RING_MIN };
        let mut owners = vec![NO_HOST; Lid::UNICAST_LAST.index() + 1];
        for (number, lids) in (0u32..).zip(lids) {
            for lid in lids {
                owners[lid.index()] = number;
            }
        }
        let levels = usize::from(levels);
        Self {
            owners,
            rings: vec![vec![EMPTY; ring]; lids.len()],
            order: vec![0; lids.len() * lids.len() * levels],
            levels,
            explicit: BTreeMap::new(),
            groups: Arc::default(),
            lifetime_ns: lifetime_ns.unwrap_or(u64::MAX),
            lossy,
            injected: 0,
            delivered: 0,
            traversals: 0,
            violations: Vec::new(),
            violations_total: 0,
        }
    }

    /// Sets the members of groups.
    pub(crate) fn set_groups(&mut self, groups: Arc<Groups>) {
        self.groups = groups;
    }

    /// Notes that a rule was broken.
    #[cold]
    pub(crate) fn report_violation(&mut self, at: Time, what: String) {
        self.violations_total += 1;
        if self.violations.len() < VIOLATIONS_KEPT {
            self.violations.push(Violation { at, what });
        }
    }

    /// The packet with that SLID and number, if a host sent it.
    #[inline]
    fn id(&self, slid: Lid, psn: u32) -> Option<PacketId> {
        let source = *self.owners.get(slid.index())?;
        (source != NO_HOST).then_some(PacketId { source, psn })
    }

    /// The packet of a data record (delimiter, LRH, BTH).
    #[inline]
    pub(crate) fn of_record(&self, record: &[u8]) -> Option<PacketId> {
        let head: &[u8; 24] = record.first_chunk()?;
        let slid = Lid::new(u16::from_be_bytes([head[10], head[11]]));
        self.id(slid, u32::from_be_bytes([0, head[21], head[22], head[23]]))
    }

    /// The packet that is handed over without bytes: its tag is its number.
    #[inline]
    pub(crate) fn of_handed(&self, packet: &HandedPacket) -> Option<PacketId> {
        self.id(packet.lrh.slid, packet.tag)
    }

    #[inline]
    fn slot(&mut self, id: PacketId) -> Option<&mut Slot> {
        let ring = self.rings.get_mut(index(id.source))?;
        let at = index(id.psn) & (ring.len() - 1);
        let slot = &mut ring[at];
        (slot.remaining > 0 && slot.sequence & PSN_MASK == u64::from(id.psn)).then_some(slot)
    }

    /// A packet goes into its source's port.
    pub(crate) fn inject(&mut self, now: Time, source: u32, packet: &Injected) {
        self.injected += 1;
        let ring = &mut self.rings[index(source)];
        let place = |len: usize| convert::usize_of(packet.sequence) & (len - 1);
        if !self.lossy {
            while ring[place(ring.len())].remaining > 0 && ring.len() < RING_MAX {
                grow(ring);
            }
        }
        let at = place(ring.len());
        ring[at] = Slot {
            sequence: packet.sequence,
            generated: packet.generated,
            sent: Time::NEVER,
            inside_since: now,
            to: packet.to,
            dlid: packet.dlid,
            sl: packet.sl,
            remaining: packet.copies,
            bytes: packet.bytes,
            has_explicit_dlid: packet.has_explicit_dlid,
            flow: packet.flow,
        };
    }

    /// A packet leaves its source.
    #[inline]
    pub(crate) fn leave_source(&mut self, now: Time, id: PacketId) {
        match self.slot(id) {
            Some(slot) => slot.sent = now,
            None => self.report_violation(now, format!("{id:?} was sent and never injected")),
        }
    }

    /// A packet's first byte comes to a switch.
    #[inline]
    pub(crate) fn enter_switch(&mut self, now: Time, id: PacketId) {
        match self.slot(id) {
            Some(slot) => slot.inside_since = now,
            None => self.report_violation(now, format!("{id:?} is at a switch and not in flight")),
        }
    }

    /// A packet's first byte leaves a switch.
    #[inline]
    pub(crate) fn leave_switch(&mut self, now: Time, id: PacketId) {
        self.traversals += 1;
        let limit = self.lifetime_ns;
        let Some(slot) = self.slot(id) else {
            return self
                .report_violation(now, format!("{id:?} left a switch and is not in flight"));
        };
        let age = now.since_ns(slot.inside_since);
        if age > limit {
            self.report_violation(
                now,
                format!("{id:?} left a switch after {age} ns: limit {limit} ns"),
            );
        }
    }

    /// A packet has come to host `at`.
    pub(crate) fn deliver(&mut self, now: Time, at: u32, packet: &Received) -> Option<Delivery> {
        let id = self.id(packet.slid, packet.psn.get())?;
        let Some(slot) = self.slot(id) else {
            self.report_violation(now, format!("{id:?} was delivered and is not in flight"));
            return None;
        };
        slot.remaining -= 1;
        let slot = *slot;
        self.delivered += 1;
        let is_right = self.is_for(&slot, id.source, at) && slot.dlid == packet.dlid;
        if !is_right || slot.sl != packet.sl || slot.bytes != packet.bytes || !packet.whole {
            self.report_violation(
                now,
                format!(
                    "{id:?} for {:?} came to {at} or came changed: {packet:?}",
                    slot.to
                ),
            );
        }
        let hosts = self.rings.len();
        let number = low_bits(slot.sequence);
        let next = if slot.has_explicit_dlid {
            let key = (id.source, at, slot.dlid, slot.sl);
            Some(self.explicit.entry(key).or_default())
        } else {
            let flow = (index(id.source) * hosts + index(at)) * self.levels + packet.sl.index();
            self.order.get_mut(flow)
        };
        if let Some(next) = next {
            // Numbers in flight are far closer to each other than half of their range.
            if *next != 0 && number.wrapping_sub(*next) > u32::MAX / 2 {
                let what = "came there already, or after a later one";
                self.report_violation(now, format!("{id:?} at {at}: {what}"));
            } else {
                *next = number.wrapping_add(1);
            }
        }
        Some(Delivery {
            tail: packet.tail,
            network_ns: packet.tail.since_ns(slot.sent),
            total_ns: packet.tail.since_ns(slot.generated),
            generated: slot.generated,
            flow: slot.flow,
            bytes: slot.bytes,
            is_multicast: matches!(slot.to, Target::Group(_)),
        })
    }

    /// Whether host `at` is to have a packet of `source`.
    #[inline]
    fn is_for(&self, slot: &Slot, source: u32, at: u32) -> bool {
        match slot.to {
            Target::Host(to) => to == at,
            Target::Group(group) => {
                let members = self.groups.members.get(index(group));
                at != source && members.is_some_and(|members| members.contains(&at))
            }
        }
    }

    /// Notes packets that have not come to all that they are for: when nothing is in flight any
    /// more and nothing was dropped or lost.
    pub(crate) fn check_none_missing(&mut self, now: Time) {
        let rings = (0u32..).zip(&self.rings);
        let missing: Vec<String> = rings
            .flat_map(|(source, ring)| ring.iter().map(move |slot| (source, slot)))
            .filter(|(_, slot)| slot.remaining > 0)
            .map(|(source, slot)| {
                let (to, remaining) = (slot.to, slot.remaining);
                let number = slot.sequence;
                format!("packet {number} of {source} for {to:?}: {remaining} have not got it")
            })
            .collect();
        for what in missing {
            self.report_violation(now, what);
        }
    }
}

/// The lower 32 bits of a number.
fn low_bits(number: u64) -> u32 {
    let [_, _, _, _, bytes @ ..] = number.to_be_bytes();
    u32::from_be_bytes(bytes)
}

/// Doubles a ring; the packets in it keep their numbers.
fn grow(ring: &mut Vec<Slot>) {
    let mut wider = vec![EMPTY; ring.len() * 2];
    for slot in ring.drain(..).filter(|slot| slot.remaining > 0) {
        let at = convert::usize_of(slot.sequence) & (wider.len() - 1);
        wider[at] = slot;
    }
    *ring = wider;
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::Psn;

    fn tracker() -> PacketTracker {
        let lid = |number| vec![Lid::new(number)];
        PacketTracker::new(&[lid(4), lid(5)], 1, Some(1000), false)
    }

    fn injected(sequence: u64) -> Injected {
        Injected {
            sequence,
            generated: Time(sequence),
            to: Target::Host(1),
            dlid: Lid::new(5),
            sl: Sl::constant(0),
            bytes: 32,
            flow: NO_FLOW,
            copies: 1,
            has_explicit_dlid: false,
        }
    }

    fn received(psn: u32) -> Received {
        Received {
            slid: Lid::new(4),
            dlid: Lid::new(5),
            sl: Sl::constant(0),
            psn: Psn::truncate(psn),
            bytes: 32,
            tail: Time(500),
            whole: true,
        }
    }

    #[test]
    fn a_packet_in_order_is_delivered_with_its_times() {
        let mut tracker = tracker();
        tracker.inject(Time(10), 0, &injected(0));
        let id = tracker.id(Lid::new(4), 0).unwrap();
        tracker.leave_source(Time(20), id);
        let delivery = tracker.deliver(Time(400), 1, &received(0)).unwrap();
        assert_eq!((delivery.network_ns, delivery.total_ns), (480, 500));
        assert_eq!(tracker.violations_total, 0);
    }

    #[test]
    fn duplicates_disorder_wrong_hosts_and_old_packets_are_violations() {
        let mut tracker = tracker();
        for sequence in 0..4 {
            tracker.inject(Time(10), 0, &injected(sequence));
        }
        tracker.deliver(Time(400), 1, &received(1));
        tracker.deliver(Time(400), 1, &received(1));
        assert_eq!(tracker.violations_total, 1, "a duplicate");
        tracker.deliver(Time(400), 1, &received(0));
        assert_eq!(tracker.violations_total, 2, "out of order");
        tracker.deliver(Time(400), 0, &received(2));
        assert_eq!(tracker.violations_total, 3, "at the wrong host");
        let id = tracker.id(Lid::new(4), 3).unwrap();
        tracker.enter_switch(Time(100), id);
        tracker.leave_switch(Time(1101), id);
        assert_eq!(tracker.violations_total, 4, "too old");
    }

    #[test]
    fn a_multicast_packet_comes_once_to_every_member_and_to_no_other_host() {
        let lid = |number| vec![Lid::new(number)];
        let new = || {
            let mut tracker = PacketTracker::new(&[lid(4), lid(5), lid(6), lid(7)], 1, None, false);
            tracker.set_groups(Arc::new(Groups {
                members: vec![vec![0, 1, 2]],
            }));
            let mlid = Lid::MULTICAST_FIRST;
            let packet = Injected {
                to: Target::Group(0),
                dlid: mlid,
                copies: 2,
                has_explicit_dlid: true,
                ..injected(0)
            };
            tracker.inject(Time(10), 0, &packet);
            let copy = Received {
                dlid: mlid,
                ..received(0)
            };
            (tracker, copy)
        };
        let violations = |host_numbers: &[u32]| {
            let (mut tracker, copy) = new();
            for &at in host_numbers {
                tracker.deliver(Time(400), at, &copy);
            }
            tracker.check_none_missing(Time(500));
            tracker.violations_total
        };
        assert_eq!(violations(&[1, 2]), 0);
        assert_eq!(violations(&[1]), 1, "one has not got it");
        assert_eq!(violations(&[1, 1]), 1, "one got it twice");
        assert_eq!(violations(&[1, 0]), 1, "it came back");
        assert_eq!(violations(&[1, 3]), 1, "no member");
        assert_eq!(violations(&[1, 2, 2]), 1, "once more");
    }

    #[test]
    fn a_ring_grows_with_what_is_under_way() {
        let mut tracker = tracker();
        tracker.lossy = false;
        for sequence in 0..1000 {
            tracker.inject(Time(1), 0, &injected(sequence));
        }
        assert_eq!(tracker.rings[0].len(), 1024);
        for psn in 0..1000 {
            tracker.deliver(Time(2), 1, &received(psn));
        }
        assert_eq!((tracker.violations_total, tracker.delivered), (0, 1000));
    }
}
