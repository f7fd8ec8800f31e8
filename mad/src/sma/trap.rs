//! Traps: notices that are sent until the subnet manager represses them (IBA 13.4.9, 14.3.11).
//!
//! One notice of each kind is outstanding at most. A second event of the same kind while the first
//! waits gets a transaction id of its own, so that a repress on its way ends the first one only. It is sent
//! 50 ms after the first at the earliest: a switch that loses 36 links at once sends two traps and not 36.
//!
//! A notice that has not been repressed when the port gets another subnet manager is sent to that one, at once:
//! the one before may be gone, and the event with it.

use std::collections::BTreeMap;

use link::Time;
use wire::attr::Notice;
use wire::mad::{AttributeId, Mad, Method};
use wire::{Lid, PortNum, Sl};

use super::node::PortSettings;

/// Two traps of a kind are at least this far apart.
const SPACING_NS: u64 = 50_000_000;
/// How often a trap is sent if it is not repressed.
const ATTEMPTS: u8 = 16;
/// The shortest interval of repetition, for any SubnetTimeOut: half a second.
const INTERVAL_NS_MIN: u64 = 500_000_000;
/// The largest SubnetTimeOut that is followed: 17 s.
const SUBNET_TIMEOUT_MAX: u8 = 22;

/// A trap to send: LID routed, on VL15.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutgoingTrap {
    /// The subnet manager's LID.
    pub dlid: Lid,
    /// The sender's LID.
    pub slid: Lid,
    /// The service level towards the subnet manager.
    pub sl: Sl,
    /// The trap.
    pub mad: Mad,
}

#[derive(Debug)]
struct Pending {
    trap: OutgoingTrap,
    /// The port that it leaves by.
    port: PortNum,
    due: Time,
    interval_ns: u64,
    attempts_left: u8,
    last_sent: Option<Time>,
}

/// The traps of one node, by trap number.
#[derive(Debug, Default)]
pub(super) struct Traps {
    pending: BTreeMap<u16, Pending>,
    last_tid: u32,
}

impl Traps {
    /// Reports `notice` to the subnet manager of the port with that number; without one it is discarded.
    pub(super) fn raise(
        &mut self,
        now: Time,
        (number, port): (PortNum, &PortSettings),
        subnet_timeout: u8,
        notice: Notice,
    ) {
        if !port.sm_lid.is_unicast() || !port.lid.is_unicast() {
            return;
        }
        self.last_tid = self.last_tid.wrapping_add(1);
        let tid = u64::from(self.last_tid);
        let mut mad = Mad::lid_smp(Method::TRAP, AttributeId::NOTICE, 0, tid);
        mad.set_smp_attribute(&notice);
        let last_sent = self
            .pending
            .get(&notice.trap_number)
            .and_then(|old| old.last_sent);
        let trap = OutgoingTrap {
            dlid: port.sm_lid,
            slid: port.lid,
            sl: port.sm_sl,
            mad,
        };
        let pending = Pending {
            trap,
            port: number,
            due: last_sent.map_or(now, |sent| now.max(sent + SPACING_NS)),
            interval_ns: (4096 << subnet_timeout.min(SUBNET_TIMEOUT_MAX)).max(INTERVAL_NS_MIN),
            attempts_left: ATTEMPTS,
            last_sent,
        };
        self.pending.insert(notice.trap_number, pending);
    }

    /// The port with that number has been given another subnet manager, or another LID: what has not been repressed is
    /// reported anew.
    pub(super) fn readdress(&mut self, now: Time, number: PortNum, port: &PortSettings) {
        if !port.sm_lid.is_unicast() || !port.lid.is_unicast() {
            return;
        }
        for pending in self.pending.values_mut().filter(|one| one.port == number) {
            let trap = &mut pending.trap;
            (trap.dlid, trap.slid, trap.sl) = (port.sm_lid, port.lid, port.sm_sl);
            let earliest = pending.last_sent.map(|sent| sent + SPACING_NS);
            pending.due = earliest.map_or(now, |earliest| now.max(earliest));
            pending.attempts_left = ATTEMPTS;
        }
    }

    /// Ends the trap with this transaction id. Only its low half counts: the agents on the way may
    /// have changed the upper one.
    pub(super) fn repress(&mut self, tid: u64) {
        let own = |trap: &OutgoingTrap| trap.mad.tid() & 0xffff_ffff;
        self.pending
            .retain(|_, pending| own(&pending.trap) != tid & 0xffff_ffff);
    }

    /// The next trap that is due.
    pub(super) fn poll(&mut self, now: Time) -> Option<OutgoingTrap> {
        let (&number, pending) = self
            .pending
            .iter_mut()
            .find(|(_, entry)| entry.due <= now)?;
        pending.attempts_left -= 1;
        pending.due = now + pending.interval_ns;
        pending.last_sent = Some(now);
        let trap = pending.trap.clone();
        if pending.attempts_left == 0 {
            self.pending.remove(&number);
        }
        Some(trap)
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        self.pending.values().map(|pending| pending.due).min()
    }
}
