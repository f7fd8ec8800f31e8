//! Partitions at the external ports (IBA 10.9.8): where the subnet manager asks for it, a port lets packets
//! in only if their P_Key's partition is in its table, and out only if their P_Key matches the table.
//!
//! What comes in of a limited member has a limited key. OpenSM gives the switch's port the table of the
//! host behind it, with that same limited key: membership is for the receiver to check.

use std::collections::BTreeMap;

use link::{DropReason, Packet, Pool, PortSet};
use wire::attr::Trap259;
use wire::lrh::Lnh;
use wire::{Bth, Format as _, Grh, PortNum, p_key};

/// What the external ports enforce, and what they have stopped.
#[derive(Debug)]
pub(crate) struct Partitions {
    /// The ports that check what comes in.
    inbound: PortSet,
    /// The ports that check what goes out.
    outbound: PortSet,
    /// By port.
    keys: Box<[[u16; 32]]>,
    /// What was stopped since the last trap, by port: how many packets, and the last.
    stopped: BTreeMap<PortNum, (u16, Trap259)>,
}

impl Partitions {
    /// Nothing is enforced at any of `ports` ports.
    pub(crate) fn new(ports: u8) -> Self {
        Self {
            inbound: PortSet::EMPTY,
            outbound: PortSet::EMPTY,
            keys: vec![[0; 32]; usize::from(ports) + 1].into_boxed_slice(),
            stopped: BTreeMap::new(),
        }
    }

    /// Sets what a port enforces.
    pub(crate) fn enforce(&mut self, port: PortNum, inbound: bool, outbound: bool) {
        for (set, wanted) in [(&mut self.inbound, inbound), (&mut self.outbound, outbound)] {
            match wanted {
                true => set.insert(port),
                false => set.remove(port),
            }
        }
    }

    /// Sets the keys of a port.
    pub(crate) fn set_keys(&mut self, port: PortNum, keys: &[u16; 32]) {
        if let Some(entry) = self.keys.get_mut(port.index()) {
            *entry = *keys;
        }
    }

    /// Whether a port checks what comes in.
    #[inline]
    pub(crate) fn checks_in(&self, port: PortNum) -> bool {
        self.inbound.contains(port)
    }

    /// Whether a port checks what goes out.
    #[inline]
    pub(crate) fn checks_out(&self, port: PortNum) -> bool {
        self.outbound.contains(port)
    }

    /// Whether any port checks what goes out.
    #[inline]
    pub(crate) fn checks_any_out(&self) -> bool {
        !self.outbound.is_empty()
    }

    /// Whether the keys of a port let a packet in. One that is stopped is noted. Raw packets have no key
    /// and pass.
    pub(crate) fn lets_in(&mut self, port: PortNum, packet: &Packet, pool: &Pool) -> bool {
        self.passes(port, packet, pool, |keys, key| {
            p_key::own_key(keys, key).is_some()
        })
    }

    /// The same of a packet on the way out.
    pub(crate) fn lets_out(&mut self, port: PortNum, packet: &Packet, pool: &Pool) -> bool {
        self.passes(port, packet, pool, p_key::admits)
    }

    fn passes(
        &mut self,
        port: PortNum,
        packet: &Packet,
        pool: &Pool,
        admits: impl Fn(&[u16], u16) -> bool,
    ) -> bool {
        let Some(bth) = bth(packet, pool) else {
            return true;
        };
        let keys = self.keys.get(port.index()).map_or(&[][..], |keys| keys);
        if admits(keys, bth.pkey) {
            return true;
        }
        let lrh = &packet.lrh;
        let (count, last) = self.stopped.entry(port).or_default();
        *count = count.saturating_add(1);
        // The source QP is in DETH, which not all transport services have.
        *last = Trap259 {
            valid: Trap259::LID1 | Trap259::LID2 | Trap259::PKEY | Trap259::SL | Trap259::QP2,
            slid: lrh.slid,
            dlid: lrh.dlid,
            p_key: bth.pkey,
            sl: lrh.sl,
            dest_qp: bth.dest_qp,
            port,
            ..Trap259::default()
        };
        false
    }

    /// Whether anything was stopped since [`Partitions::take_stopped`] gave all of it.
    #[inline]
    pub(crate) fn has_stopped(&self) -> bool {
        !self.stopped.is_empty()
    }

    /// Takes out what was stopped at a port: how many packets, and the last.
    pub(crate) fn take_stopped(&mut self) -> Option<(u16, Trap259)> {
        self.stopped.pop_first().map(|(_, stopped)| stopped)
    }
}

/// The reason to drop what a port stops.
pub(crate) const INBOUND: DropReason = DropReason::RcvPartition;
/// The same on the way out.
pub(crate) const OUTBOUND: DropReason = DropReason::XmitPartition;

/// The base transport header of a packet, if it has one.
fn bth(packet: &Packet, pool: &Pool) -> Option<Bth> {
    let at = match packet.lrh.lnh {
        Lnh::Raw | Lnh::Ipv6Raw => return None,
        Lnh::IbaLocal => 0,
        Lnh::IbaGlobal => Grh::LEN,
    };
    let bytes = pool.bytes(&packet.payload).get(at..)?;
    Bth::parse(bytes).ok().map(|(bth, _)| bth)
}
