//! Counters of frames, below the records, where the control thread can read them.

use std::sync::atomic::{AtomicU64, Ordering};
use wire::convert::u64_of;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// A counter of a link.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum LinkCounter {
            $($(#[$doc])* $name,)*
        }

        /// All counters, in the order in which they show.
        const ALL: &[(LinkCounter, &str)] = &[$((LinkCounter::$name, $text),)*];
    };
}

counters! {
    /// Frames received, before any check.
    FramesReceived = "frames_received",
    /// Frames handed to the system.
    FramesSent = "frames_sent",
    /// Received frames longer than any that is sent.
    Truncated = "frames_dropped_truncated",
    /// Received frames that are not of this link, or of another version.
    Foreign = "frames_dropped_foreign",
    /// UDP: received frames without this end's secret: their sender cannot be its peer.
    WrongSecret = "frames_dropped_wrong_secret",
    /// Tunnel: received datagrams whose seal is not the peer's: damaged, or forged.
    Forged = "frames_dropped_forged",
    /// Tunnel: received datagrams that came a second time, or too late to tell.
    Replayed = "frames_dropped_replayed",
    /// Tunnel: received datagrams of the peer that no honest peer sends.
    Malformed = "frames_dropped_malformed",
    /// UDP: received frames of another life of the peer than the one that this end is connected to.
    StaleEpoch = "frames_dropped_stale_epoch",
    /// Received frames that came twice, or after a later one.
    OutOfOrder = "frames_dropped_out_of_order",
    /// Frames that never came, by the gaps in the sequence: lost below, most often because the
    /// socket's buffer was full (`net.core.rmem_max`).
    Missing = "frames_missing",
    /// Received frames of a link whose carrier was not reported to the core yet.
    NoCarrier = "frames_dropped_no_carrier",
    /// Frames that could not be sent and were dropped.
    SendFailed = "frames_dropped_send_failed",
    /// Times that the system was short of queue room.
    SendQueueFull = "send_queue_full",
    /// Times that the peer's socket was not there.
    PeerAbsent = "peer_absent",
    /// Shared memory: times that what the peer has put into a ring made no sense, so that the link went down.
    RingBroken = "ring_broken",
    /// Shared memory: times that the peer slept and was woken.
    Doorbells = "doorbells",
    /// Tunnel: datagrams that had not come when a later one did, by the gaps in their numbers.
    TunnelMissing = "tunnel_missing",
    /// Tunnel: those of them that came after all.
    TunnelLate = "tunnel_late",
    /// Tunnel: datagrams dropped behind a gap; what was in them comes again.
    TunnelGaps = "tunnel_gaps",
    /// Tunnel: datagrams dropped because what was in them had come before.
    TunnelDuplicates = "tunnel_duplicates",
    /// Tunnel: datagrams sent with something that was sent before.
    TunnelRepeated = "tunnel_repeated",
    /// Tunnel: times that the peer has acknowledged nothing for too long.
    TunnelTimeouts = "tunnel_timeouts",
    /// Tunnel: times that this end has told of a gap.
    TunnelNaksSent = "tunnel_naks_sent",
    /// Tunnel: times that the peer has told of a gap.
    TunnelNaksReceived = "tunnel_naks_received",
    /// Tunnel: times that the path was found to take datagrams of another length.
    TunnelPathChanges = "tunnel_path_changes",
    /// Tunnel: times that what the peer has sent made no sense, so that the link went down.
    TunnelBroken = "tunnel_broken",
    /// Times that the interface was found down.
    InterfaceDown = "interface_down",
}

/// The counters of one link. The dataplane thread counts, any thread reads.
#[derive(Debug)]
pub struct LinkCounters([AtomicU64; ALL.len()]);

impl Default for LinkCounters {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; ALL.len()])
    }
}

impl LinkCounters {
    pub(crate) fn add(&self, counter: LinkCounter) {
        self.add_many(counter, 1);
    }

    pub(crate) fn add_many(&self, counter: LinkCounter, count: usize) {
        // One thread writes, so no addition is lost and none needs a locked instruction.
        let cell = &self.0[counter as usize];
        let count = u64_of(count);
        cell.store(
            cell.load(Ordering::Relaxed).wrapping_add(count),
            Ordering::Relaxed,
        );
    }

    /// The value of one counter.
    #[must_use]
    pub fn get(&self, counter: LinkCounter) -> u64 {
        self.0[counter as usize].load(Ordering::Relaxed)
    }

    /// All counters that are not zero, by name, in a stable order.
    pub fn nonzero(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        ALL.iter()
            .map(|&(counter, name)| (name, self.get(counter)))
            .filter(|&(_, value)| value != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_show_by_name_and_only_if_they_have_counted() {
        let counters = LinkCounters::default();
        counters.add_many(LinkCounter::FramesSent, 3);
        counters.add(LinkCounter::Foreign);
        let shown: Vec<_> = counters.nonzero().collect();
        assert_eq!(shown, [("frames_sent", 3), ("frames_dropped_foreign", 1)]);
    }
}
