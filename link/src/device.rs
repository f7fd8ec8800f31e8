//! The contract between a device core and the shell that runs it.
//!
//! A shell (a daemon's dataplane thread, or the simulator) does, in this order:
//!
//! 1. hand in all that waits: [`Device::handle`], one call a received frame or command;
//! 2. for every port in [`Device::ready`], pull frames with [`Device::transmit`] until the core
//!    has nothing more for that port or the transport takes no more;
//! 3. take the device's events with [`Device::poll_event`];
//! 4. wait for input until [`Device::deadline`], then hand in [`Input::Tick`].
//!
//! Pulling, where a push of each packet would also do, gives the arbiter a choice and makes
//! frames that carry many packets come by themselves.

use core::fmt;

use wire::{FlowControl, PortNum};

use crate::{FrameBuf, HandedPacket, Time};

/// A device without IO: a switch or a channel adapter.
pub trait Device {
    /// Commands of the local control side (never configuration: that is a MAD).
    type Command;
    /// Events of the device, for its shell.
    type Event;

    /// Takes in one thing that has happened. Never blocks, never fails: what is wrong with a
    /// frame is a drop with a reason and a counter.
    fn handle(&mut self, now: Time, input: Input<'_, Self::Command>);

    /// The ports for which [`Device::transmit`] would now produce something.
    fn ready(&self, now: Time) -> PortSet;

    /// Fills one frame for `port` in the order of its arbiter, under credits and pacing, up to
    /// the frame's room. Returns how many records were added; 0 means nothing is ready.
    fn transmit(&mut self, now: Time, port: PortNum, frame: &mut FrameBuf<'_>) -> usize;

    /// The next event for the shell, oldest first.
    fn poll_event(&mut self) -> Option<Self::Event>;

    /// Until when nothing is due without input, and which part waits for it; `None`: nothing is.
    fn deadline(&self) -> Option<Deadline>;

    /// Takes in what others have put into memory that they share with the device, which tells no input: whether there was any.
    /// For a shell, in each of its rounds.
    fn look(&mut self, _now: Time) -> bool {
        false
    }

    /// Tells those others that the device sleeps from now on and must be woken. Whether it may: nothing has come meanwhile.
    fn may_sleep(&self) -> bool {
        true
    }

    /// Has the device keep, from now on, what it reads during its calls beside their inputs: the memory of
    /// programs. For a recording.
    fn record_reads(&mut self) {}

    /// Moves what the last call has read behind what is in `out`. Nothing for a device that reads only its
    /// inputs.
    fn take_reads(&mut self, _out: &mut Vec<u8>) {}

    /// Has the next call read what was recorded of it, instead of memory.
    fn replay_reads(&mut self, _reads: &[u8]) {}
}

/// One thing that happens to a device.
#[derive(Debug)]
pub enum Input<'a, C> {
    /// A whole received frame: records (delimiter and link packet) back to back, behind whatever
    /// header the transport puts in front.
    Frame {
        /// The port it came in on.
        port: PortNum,
        /// When its first bit arrived. In a daemon equal to `tail`.
        head: Time,
        /// When its last bit arrived.
        tail: Time,
        /// The records.
        bytes: &'a [u8],
    },
    /// A packet that is handed over without bytes.
    Handed {
        /// The port it came in on.
        port: PortNum,
        /// When its first bit arrived.
        head: Time,
        /// When its last bit arrives.
        tail: Time,
        /// The packet.
        packet: HandedPacket,
    },
    /// Flow control that is handed over without bytes.
    Credits {
        /// The port it came in on.
        port: PortNum,
        /// It.
        packet: FlowControl,
    },
    /// The transport found the cable of a port plugged (`true`) or pulled (`false`).
    Carrier {
        /// The port.
        port: PortNum,
        /// Whether there is a peer at the other end.
        up: bool,
    },
    /// The deadline is due.
    Tick,
    /// A command of the local control side.
    Command(C),
}

/// The next moment at which something is due, and what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline {
    /// The moment.
    pub at: Time,
    /// The action that is due.
    pub cause: DeadlineCause,
}

impl Deadline {
    /// The earlier of two optional deadlines.
    #[must_use]
    pub fn earlier(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        match (one, other) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }
}

/// The action that is due at a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeadlineCause {
    /// A flow-control packet or keep-alive is to be sent on this port.
    KeepAlive(PortNum),
    /// The port goes down if nothing is received until then.
    Silence(PortNum),
    /// Pacing holds back the next packet of this port.
    Pacing(PortNum),
    /// A packet at the head of a queue of this port reaches its lifetime limit.
    Lifetime(PortNum),
    /// A packet moves through the crossbar of this port's input.
    Crossbar(PortNum),
    /// A management transaction times out.
    Transaction,
    /// A trap is repeated.
    Trap,
    /// An agent's counters are sampled.
    Sampling,
    /// The traffic source sends again.
    Traffic,
}

/// A set of port numbers, 0..=255.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct PortSet([u64; 4]);

impl PortSet {
    /// The empty set.
    pub const EMPTY: Self = Self([0; 4]);

    /// Adds `port`.
    pub const fn insert(&mut self, port: PortNum) {
        self.0[port.index() / 64] |= 1 << (port.index() % 64);
    }

    /// Adds those of the eight ports from `first`, a multiple of 8, on whose bits are set.
    #[inline]
    pub const fn insert_eight(&mut self, first: PortNum, bits: u8) {
        self.0[first.index() / 64] |= (bits as u64) << (first.index() / 8 % 8 * 8);
    }

    /// Takes `port` out.
    pub const fn remove(&mut self, port: PortNum) {
        self.0[port.index() / 64] &= !(1 << (port.index() % 64));
    }

    /// Whether `port` is in the set.
    #[must_use]
    pub const fn contains(&self, port: PortNum) -> bool {
        self.0[port.index() / 64] & (1 << (port.index() % 64)) != 0
    }

    /// The external ports of a device that has `count` of them: 1..=`count`.
    #[must_use]
    pub fn external(count: u8) -> Self {
        let mut ports = Self::EMPTY;
        (1..=count).for_each(|number| ports.insert(PortNum::new(number)));
        ports
    }

    /// The ports that are in both sets.
    #[must_use]
    pub const fn intersection(&self, other: &Self) -> Self {
        let [a, b] = [&self.0, &other.0];
        Self([a[0] & b[0], a[1] & b[1], a[2] & b[2], a[3] & b[3]])
    }

    /// Whether no port is in the set.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0[0] | self.0[1] | self.0[2] | self.0[3] == 0
    }

    /// How many ports are in the set.
    #[must_use]
    pub const fn len(&self) -> u32 {
        self.0[0].count_ones()
            + self.0[1].count_ones()
            + self.0[2].count_ones()
            + self.0[3].count_ones()
    }

    /// The ports `16 * position ..` as a mask, as a block of a multicast forwarding table holds
    /// them; `position` counts modulo 16.
    #[must_use]
    pub const fn mask16(&self, position: u8) -> u16 {
        let place = position as usize % 16;
        let [low, high, ..] = (self.0[place / 4] >> (place % 4 * 16)).to_le_bytes();
        u16::from_le_bytes([low, high])
    }

    /// Replaces the ports `16 * position ..` by a mask.
    pub const fn set_mask16(&mut self, position: u8, mask: u16) {
        let place = position as usize % 16;
        let shift = place % 4 * 16;
        self.0[place / 4] &= !(0xffff << shift);
        self.0[place / 4] |= (mask as u64) << shift;
    }

    /// The lowest port of the set that is not below `from`.
    #[inline]
    #[must_use]
    pub fn at_or_after(&self, from: PortNum) -> Option<PortNum> {
        let first = from.index() / 64;
        (first..self.0.len()).find_map(|at| {
            let below = if at == first { from.index() % 64 } else { 0 };
            let word = self.0[at] & (u64::MAX << below);
            let bit = usize::try_from(word.trailing_zeros()).ok()?;
            let number = u8::try_from(at * 64 + bit).ok()?;
            (word != 0).then(|| PortNum::new(number))
        })
    }

    /// The lowest port of the set.
    #[must_use]
    pub fn first(&self) -> Option<PortNum> {
        self.iter().next()
    }

    /// The ports in ascending order.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = PortNum> + use<> {
        let [mut word, mut second, mut third, mut fourth] = self.0;
        let mut first = 0u8;
        core::iter::from_fn(move || {
            // The words move up: almost every switch has all its ports in the first one.
            while word == 0 {
                if second | third | fourth == 0 {
                    return None;
                }
                (word, second, third, fourth) = (second, third, fourth, 0);
                first += 64;
            }
            let [bit, ..] = word.trailing_zeros().to_le_bytes();
            word &= word - 1;
            Some(PortNum::new(first + bit))
        })
    }
}

impl FromIterator<PortNum> for PortSet {
    fn from_iter<I: IntoIterator<Item = PortNum>>(ports: I) -> Self {
        let mut set = Self::EMPTY;
        for port in ports {
            set.insert(port);
        }
        set
    }
}

impl fmt::Debug for PortSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set()
            .entries(self.iter().map(PortNum::get))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_set_lists_its_members_in_order() {
        let members = [3, 63, 64, 255, 0].map(PortNum::new);
        let mut set: PortSet = members.into_iter().collect();
        set.remove(PortNum::new(3));
        let listed: Vec<u8> = set.iter().map(PortNum::get).collect();
        assert_eq!(listed, [0, 63, 64, 255]);
        let after = |from| set.at_or_after(PortNum::new(from)).map(PortNum::get);
        assert_eq!(
            [0, 1, 63, 64, 65].map(after),
            [0, 63, 63, 64, 255].map(Some)
        );
        set.remove(PortNum::new(255));
        assert_eq!(set.at_or_after(PortNum::new(65)), None);
        set.insert(PortNum::new(255));
        assert_eq!(set.len(), 4);
    }

    #[test]
    fn eight_ports_are_added_at_a_time() {
        let mut set = PortSet::EMPTY;
        set.insert_eight(PortNum::new(0), 0b10);
        set.insert_eight(PortNum::new(248), 0x81);
        set.insert_eight(PortNum::new(64), 0b100);
        let listed: Vec<u8> = set.iter().map(PortNum::get).collect();
        assert_eq!(listed, [1, 66, 248, 255]);
    }

    #[test]
    fn a_port_set_reads_and_writes_the_masks_of_a_multicast_table() {
        let mut set = PortSet::EMPTY;
        set.set_mask16(0, 0x0002);
        set.set_mask16(5, 0x8001);
        let listed: Vec<u8> = set.iter().map(PortNum::get).collect();
        assert_eq!(listed, [1, 80, 95]);
        assert_eq!((set.mask16(5), set.mask16(4)), (0x8001, 0));
        set.set_mask16(5, 0);
        assert_eq!(set.len(), 1);
    }

    #[test]
    fn the_earlier_deadline_wins() {
        let at = |ns| Deadline {
            at: Time(ns),
            cause: DeadlineCause::Trap,
        };
        assert_eq!(Deadline::earlier(Some(at(2)), Some(at(1))), Some(at(1)));
        assert_eq!(Deadline::earlier(None, Some(at(1))), Some(at(1)));
        assert_eq!(Deadline::earlier(None, None), None);
    }
}
