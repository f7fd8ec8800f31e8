//! The counters of a port: those of the specification, and drops by reason.
//!
//! Every packet that is not passed on is dropped for a [`DropReason`]; the reason has a count of
//! its own and feeds the counter that the specification names for it (IBA 16.1.3.5).

use core::ops::Index;

use wire::TrafficKind;

use crate::detail_counts::DetailCounts;

macro_rules! counters {
    ($($(#[$doc:meta])* $field:ident = $name:literal,)+) => {
        /// The counters of one port (IBA 16.1.3.5, 16.1.4.4), 64 bits wide: what management
        /// reports saturates at the width of its field. Those of VL15 alone are ours: how much
        /// management there is depends on time, so what is left is what was offered.
        ///
        /// Those that every packet counts in come first, in one line of memory.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        #[repr(C, align(64))]
        pub struct SpecCounters {
            $($(#[$doc])* pub $field: u64,)+
        }

        impl SpecCounters {
            /// Every counter with the specification's name, in a stable order.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$(($name, self.$field)),+].into_iter()
            }
        }
    };
}

counters! {
    /// Words of 4 bytes sent in data packets of all VLs, LRH to ICRC.
    xmit_data_words = "PortXmitData",
    /// Words of 4 bytes received in data packets of all VLs, LRH to ICRC.
    rcv_data_words = "PortRcvData",
    /// Data packets sent on all VLs.
    xmit_pkts = "PortXmitPkts",
    /// Data packets received on all VLs.
    rcv_pkts = "PortRcvPkts",
    /// Unicast data packets sent.
    unicast_xmit_pkts = "PortUnicastXmitPkts",
    /// Unicast data packets received.
    unicast_rcv_pkts = "PortUnicastRcvPkts",
    /// Multicast data packets sent.
    multicast_xmit_pkts = "PortMultiCastXmitPkts",
    /// Multicast data packets received.
    multicast_rcv_pkts = "PortMultiCastRcvPkts",
    /// Words of 4 bytes sent on VL15, which count in [`SpecCounters::xmit_data_words`] too.
    vl15_xmit_data_words = "VL15XmitData",
    /// Words of 4 bytes received on VL15.
    vl15_rcv_data_words = "VL15RcvData",
    /// Packets sent on VL15.
    vl15_xmit_pkts = "VL15XmitPkts",
    /// Packets received on VL15.
    vl15_rcv_pkts = "VL15RcvPkts",
    /// Records whose delimiter made no sense: the symbols of a real link.
    symbol_errors = "SymbolErrorCounter",
    /// Link restarts that succeeded without the link going down.
    link_error_recoveries = "LinkErrorRecoveryCounter",
    /// How often the link has gone down.
    link_downed = "LinkDownedCounter",
    /// Packets received with an error: CRC, version, length, VL.
    rcv_errors = "PortRcvErrors",
    /// Packets that the sender marked as bad.
    rcv_remote_physical_errors = "PortRcvRemotePhysicalErrors",
    /// Packets that a switch could not forward: DLID without a port, loop back.
    rcv_switch_relay_errors = "PortRcvSwitchRelayErrors",
    /// Packets refused on the way in, for whatever reason. Ours: what a peer has sent is received,
    /// refused, or lost on the cable.
    rcv_refused_pkts = "RcvRefusedPkts",
    /// Packets that could not leave: port not active, too long, lifetime over.
    xmit_discards = "PortXmitDiscards",
    /// Packets refused on the way out: partition or raw filter.
    xmit_constraint_errors = "PortXmitConstraintErrors",
    /// Packets refused on the way in: partition or raw filter.
    rcv_constraint_errors = "PortRcvConstraintErrors",
    /// Bursts of errors above the port's threshold.
    local_link_integrity_errors = "LocalLinkIntegrityErrors",
    /// Packets that came without credits and found no room.
    excessive_buffer_overruns = "ExcessiveBufferOverrunErrors",
    /// VL15 packets dropped for want of room.
    vl15_dropped = "VL15Dropped",
    /// Nanoseconds during which data waited and no credit let it go.
    xmit_wait_ns = "PortXmitWait",
}

/// The specification counter that a drop increments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SpecCounter {
    RcvErrors,
    SymbolErrors,
    SwitchRelayErrors,
    XmitDiscards,
    XmitConstraint,
    RcvConstraint,
    BufferOverrun,
    Vl15Dropped,
    Nothing,
}

macro_rules! reasons {
    ($($(#[$doc:meta])* $reason:ident = $name:literal => $feeds:ident,)+) => {
        /// Why something was dropped.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum DropReason {
            $($(#[$doc])* $reason,)+
        }

        impl DropReason {
            /// Every reason, in a stable order.
            pub const ALL: &'static [Self] = &[$(Self::$reason),+];
            const COUNT: usize = Self::ALL.len();

            /// The reason's name in tables and logs.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$reason => $name,)+
                }
            }

            const fn feeds(self) -> SpecCounter {
                match self {
                    $(Self::$reason => SpecCounter::$feeds,)+
                }
            }

            const fn index(self) -> usize {
                self as usize
            }
        }
    };
}

reasons! {
    /// A record's delimiter has an unknown kind or runs past the frame.
    BadRecord = "drop.bad-record" => SymbolErrors,
    /// A flow-control, training or link-down record is damaged.
    BadControl = "drop.bad-control" => SymbolErrors,
    /// The packet ends before its headers do, or states another length than it has.
    BadLength = "drop.bad-length" => RcvErrors,
    /// The VCRC is wrong.
    BadVcrc = "drop.bad-vcrc" => RcvErrors,
    /// The ICRC is wrong.
    BadIcrc = "drop.bad-icrc" => RcvErrors,
    /// LVer is not 0.
    BadVersion = "drop.bad-version" => RcvErrors,
    /// The packet is longer than the port's MTU allows.
    TooLong = "drop.too-long" => RcvErrors,
    /// The VL is not one of the port's operational ones.
    BadVl = "drop.bad-vl" => RcvErrors,
    /// DLID 0, or the permissive DLID on a data VL.
    BadDlid = "drop.bad-dlid" => RcvErrors,
    /// A VL15 packet that is no SMP by its length, header or service level.
    BadManagement = "drop.bad-vl15" => RcvErrors,
    /// The port's state lets this packet not in.
    PortNotReady = "drop.port-not-ready" => Nothing,
    /// More was sent than credits allowed and the VL's buffer is full.
    BufferOverrun = "drop.buffer-overrun" => BufferOverrun,
    /// VL15's buffer is full, or there is no memory for it.
    Vl15Full = "drop.vl15-full" => Vl15Dropped,
    /// The device's packet memory is at its limit: it has run out before the buffers that credits
    /// promise, or a host holds as much as it may of what its own programs send.
    PoolFull = "drop.pool-full" => Nothing,
    /// The forwarding table has no port for the DLID.
    NoRoute = "drop.no-route" => SwitchRelayErrors,
    /// The forwarding table sends the packet out of the port that it came in on.
    LoopBack = "drop.loop-back" => SwitchRelayErrors,
    /// A switch's SL-to-VL table maps the service level to VL15, or to a VL that the output does not
    /// operate. Counted at the port that the packet came in on (IBA 16.1.3.5, PortVLMappingErrors).
    SlToVl = "drop.sl2vl" => SwitchRelayErrors,
    /// What a device sends itself is on a service level that its SL-to-VL table maps to VL15, or on a
    /// VL that its port does not operate.
    OutputVl = "drop.output-vl" => XmitDiscards,
    /// The outgoing port is not active.
    OutputInactive = "drop.output-inactive" => XmitDiscards,
    /// The packet is longer than the neighbour's MTU.
    NeighborMtu = "drop.neighbor-mtu" => XmitDiscards,
    /// The packet was at the head of its queue for longer than HOQLife.
    HeadOfQueue = "drop.head-of-queue" => XmitDiscards,
    /// The packet was in the switch for longer than its lifetime limit.
    Lifetime = "drop.lifetime" => XmitDiscards,
    /// The link went down with the packet in a queue.
    LinkDown = "drop.link-down" => XmitDiscards,
    /// A partition key does not match (outgoing).
    XmitPartition = "drop.pkey-out" => XmitConstraint,
    /// A partition key does not match (incoming).
    RcvPartition = "drop.pkey-in" => RcvConstraint,
    /// The packet is for this device, which has no use for it.
    NotForUs = "drop.not-for-us" => Nothing,
    /// The packet is management addressed to this device that makes no sense.
    BadMad = "drop.bad-mad" => Nothing,
    /// The queue pair does not exist or does not take this packet.
    NoQueuePair = "drop.no-qp" => Nothing,
    /// The Q_Key does not match.
    BadQkey = "drop.bad-qkey" => Nothing,
    /// A local receiver was too slow.
    ReceiverFull = "drop.receiver-full" => Nothing,
}

/// Counts by reason.
type ByReason = [u64; DropReason::COUNT];

/// Drops by reason, and those of the hosts' traffic by kind as well.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drops {
    /// `None` until there is one, which saves memory in a large fabric.
    all: Option<Box<ByReason>>,
    /// By kind; `None` until there is one, which saves memory in a large fabric.
    traffic: Option<Box<[ByReason; TrafficKind::COUNT]>>,
}

impl Index<DropReason> for Drops {
    type Output = u64;
    fn index(&self, reason: DropReason) -> &u64 {
        match &self.all {
            Some(all) => &all[reason.index()],
            None => &0,
        }
    }
}

impl Drops {
    /// Every reason with its count, in a stable order.
    pub fn iter(&self) -> impl Iterator<Item = (DropReason, u64)> {
        DropReason::ALL.iter().map(|&reason| (reason, self[reason]))
    }

    /// How many of the drops for a reason were packets of traffic of that kind.
    #[must_use]
    pub fn of_kind(&self, reason: DropReason, kind: TrafficKind) -> u64 {
        let traffic = self.traffic.as_ref();
        traffic.map_or(0, |traffic| traffic[kind.index()][reason.index()])
    }

    /// The kinds and reasons for which packets of traffic were dropped, with their counts, in a
    /// stable order.
    pub fn traffic(&self) -> impl Iterator<Item = (TrafficKind, DropReason, u64)> {
        let any = self.traffic.is_some();
        let kinds = TrafficKind::ALL.into_iter().filter(move |_| any);
        kinds
            .flat_map(|kind| DropReason::ALL.iter().map(move |&reason| (kind, reason)))
            .map(|(kind, reason)| (kind, reason, self.of_kind(reason, kind)))
            .filter(|&(_, _, count)| count > 0)
    }

    /// Whether anything was ever dropped.
    #[must_use]
    pub fn has_any(&self) -> bool {
        self.all.is_some()
    }

    /// All drops together.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.all.iter().flat_map(|all| all.iter()).sum()
    }
}

/// Everything that a port counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// The specification's counters.
    pub spec: SpecCounters,
    /// Drops by reason.
    pub drops: Drops,
    /// By virtual lane, service level and opcode.
    pub details: DetailCounts,
}

impl Counts {
    /// Counts the drop of a packet, which is of `kind` if it is of the hosts' traffic.
    pub fn drop_packet(&mut self, reason: DropReason, kind: Option<TrafficKind>) {
        self.drop_one(reason);
        if let Some(kind) = kind {
            let traffic = self.drops.traffic.get_or_insert_default();
            traffic[kind.index()][reason.index()] += 1;
        }
    }

    /// Counts one drop, under its reason and under the specification's counter.
    pub fn drop_one(&mut self, reason: DropReason) {
        self.drop_many(reason, 1);
    }

    /// Counts `count` drops for the same reason.
    pub fn drop_many(&mut self, reason: DropReason, count: u64) {
        let drops = self.drops.all.get_or_insert_default();
        drops[reason.index()] += count;
        let spec = &mut self.spec;
        let counter = match reason.feeds() {
            SpecCounter::RcvErrors => &mut spec.rcv_errors,
            SpecCounter::SymbolErrors => &mut spec.symbol_errors,
            SpecCounter::SwitchRelayErrors => &mut spec.rcv_switch_relay_errors,
            SpecCounter::XmitDiscards => &mut spec.xmit_discards,
            SpecCounter::XmitConstraint => &mut spec.xmit_constraint_errors,
            SpecCounter::RcvConstraint => &mut spec.rcv_constraint_errors,
            SpecCounter::BufferOverrun => &mut spec.excessive_buffer_overruns,
            SpecCounter::Vl15Dropped => &mut spec.vl15_dropped,
            SpecCounter::Nothing => return,
        };
        *counter += count;
    }

    /// Every count that is worth a line: the specification's counters, then the drops that have
    /// happened, by name; then those of traffic, as `dropped.KIND.REASON`.
    pub fn named(&self) -> impl Iterator<Item = (String, u64)> {
        let spec = self.spec.iter();
        let drops = self
            .drops
            .iter()
            .map(|(reason, count)| (reason.name(), count));
        let traffic = self.drops.traffic().map(|(kind, reason, count)| {
            let reason = reason.name().trim_start_matches("drop.");
            (format!("dropped.{}.{reason}", kind.name()), count)
        });
        spec.chain(drops.filter(|&(_, count)| count > 0))
            .map(|(name, count)| (name.to_owned(), count))
            .chain(traffic)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drop_counts_under_its_reason_and_under_the_specification_s_counter() {
        let mut counts = Counts::default();
        for &reason in DropReason::ALL {
            counts.drop_one(reason);
        }
        assert!(counts.drops.iter().all(|(_, count)| count == 1));
        let spec = &counts.spec;
        assert_eq!(spec.rcv_errors, 8, "CRCs, version, lengths, VL, DLID, VL15");
        assert_eq!(spec.rcv_switch_relay_errors, 3, "no entry, loop, no VL");
        assert_eq!(spec.vl15_dropped, 1);
        assert_eq!(spec.excessive_buffer_overruns, 1);
        assert_eq!(spec.symbol_errors, 2);
    }

    #[test]
    fn reasons_have_names_of_their_own() {
        let mut names: Vec<_> = DropReason::ALL.iter().map(|reason| reason.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), DropReason::ALL.len());
    }

    #[test]
    fn drops_of_traffic_count_among_all_and_by_kind() {
        let mut counts = Counts::default();
        counts.drop_packet(DropReason::LinkDown, Some(TrafficKind::Data));
        counts.drop_packet(DropReason::LinkDown, Some(TrafficKind::Data));
        counts.drop_packet(DropReason::LinkDown, Some(TrafficKind::Report));
        counts.drop_packet(DropReason::LinkDown, None);
        assert_eq!(counts.drops[DropReason::LinkDown], 4);
        assert_eq!(counts.spec.xmit_discards, 4);
        let listed: Vec<_> = counts
            .named()
            .filter(|(name, _)| name.starts_with("drop"))
            .collect();
        let wanted = [
            ("drop.link-down", 4),
            ("dropped.data.link-down", 2),
            ("dropped.report.link-down", 1),
        ];
        assert_eq!(listed, wanted.map(|(name, count)| (name.to_owned(), count)));
    }

    #[test]
    fn only_drops_that_happened_are_listed() {
        let mut counts = Counts::default();
        counts.drop_one(DropReason::NoRoute);
        let drops: Vec<_> = counts
            .named()
            .filter(|(name, _)| name.starts_with("drop."))
            .collect();
        assert_eq!(drops, [("drop.no-route".to_owned(), 1)]);
    }
}
