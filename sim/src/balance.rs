//! The balance of packets: each packet that has entered a fabric is in it, or is counted as delivered, dropped
//! or lost.

/// Counts of the packets that have entered a fabric, by where they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Balance {
    /// Put into the ports of hosts.
    pub injected: u64,
    /// Copies that switches have made of multicast packets; one that could not be made is among
    /// those dropped, too.
    pub copied: u64,
    /// Multicast packets of which switches have made all copies.
    pub replicated: u64,
    /// Delivered at hosts.
    pub delivered: u64,
    /// In devices.
    pub queued: u64,
    /// On cables.
    pub in_flight: u64,
    /// Dropped by devices, all reasons together.
    pub dropped: u64,
    /// Lost on cables and in crashed devices.
    pub lost: u64,
}

impl Balance {
    /// Whether all packets that have entered are counted.
    #[must_use]
    pub fn is_balanced(&self) -> bool {
        let gone = self.delivered + self.replicated + self.dropped + self.lost;
        self.injected + self.copied == gone + self.queued + self.in_flight
    }
}
