//! What the interface counts.

/// Why a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum IpDrop {
    /// From the programs: no IP packet, or one with a length that it does not have.
    NotIp,
    /// From the programs: longer than the MTU.
    TooLong,
    /// From the programs: the port is no member of the group of all interfaces.
    NotJoined,
    /// No answer to who has the address.
    Unreachable,
    /// Subnet administration knows no way.
    NoPath,
    /// A queue is full.
    Full,
    /// Nobody is in the multicast group.
    NoGroup,
    /// From the link: shorter than it must be, or of a version that it does not state.
    Malformed,
    /// From the link: of no known type.
    UnknownType,
    /// From the link: neighbour discovery that makes no sense.
    BadDiscovery,
    /// From the link: it tells another's link-layer address as the sender's own.
    Lie,
    /// From the link: another port claims an address of this one.
    Conflict,
    /// From the link: there is no interface.
    NoInterface,
}

impl IpDrop {
    const COUNT: usize = Self::NoInterface as usize + 1;
    const NAMES: [&'static str; Self::COUNT] = [
        "not-ip",
        "too-long",
        "not-joined",
        "unreachable",
        "no-path",
        "full",
        "no-group",
        "malformed",
        "unknown-type",
        "bad-discovery",
        "lie",
        "conflict",
        "no-interface",
    ];
}

/// Packets sent, received and dropped.
#[derive(Clone, Debug, Default)]
pub(crate) struct IpCounts {
    pub(crate) sent: u64,
    pub(crate) received: u64,
    drops: [u64; IpDrop::COUNT],
}

impl IpCounts {
    /// Counts packets that are dropped.
    pub(crate) fn drop_many(&mut self, reason: IpDrop, packets: usize) {
        self.drops[reason as usize] += u64::try_from(packets).unwrap_or(u64::MAX);
    }

    /// Those that are not 0: `ip.sent`, `ip.received` and `ip.dropped.REASON`.
    pub(crate) fn named(&self) -> impl Iterator<Item = (String, u64)> {
        let passed = [("sent", self.sent), ("received", self.received)];
        let passed = passed.map(|(name, count)| (format!("ip.{name}"), count));
        let drops = IpDrop::NAMES.iter().zip(self.drops);
        let drops = drops.map(|(name, count)| (format!("ip.dropped.{name}"), count));
        passed
            .into_iter()
            .chain(drops)
            .filter(|&(_, count)| count > 0)
    }
}
