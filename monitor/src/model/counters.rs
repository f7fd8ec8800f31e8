//! Counters of a port as sums that never run backwards, and what follows from them.

use core::ops::{Index, IndexMut};
use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

macro_rules! counters {
    ($($(#[$doc:meta])* $counter:ident = $name:literal,)+) => {
        /// A counter of performance management (IBA 16.1.3.5, 16.1.4).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Counter {
            $($(#[$doc])* $counter,)+
        }

        impl Counter {
            /// All of them, in order.
            pub const ALL: [Self; COUNTERS] = [$(Self::$counter),+];

            /// The specification's name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$counter => $name,)+
                }
            }
        }

        /// How many counters there are.
        pub const COUNTERS: usize = [$(Counter::$counter),+].len();
    };
}

counters! {
    /// Words of 4 bytes sent, LRH to ICRC.
    XmitData = "PortXmitData",
    /// Words of 4 bytes received.
    RcvData = "PortRcvData",
    /// Packets sent.
    XmitPkts = "PortXmitPkts",
    /// Packets received.
    RcvPkts = "PortRcvPkts",
    /// Unicast packets sent.
    UnicastXmitPkts = "PortUnicastXmitPkts",
    /// Unicast packets received.
    UnicastRcvPkts = "PortUnicastRcvPkts",
    /// Multicast packets sent.
    MulticastXmitPkts = "PortMulticastXmitPkts",
    /// Multicast packets received.
    MulticastRcvPkts = "PortMulticastRcvPkts",
    /// Minor link errors.
    SymbolErrors = "SymbolErrorCounter",
    /// Link restarts that succeeded.
    LinkErrorRecoveries = "LinkErrorRecoveryCounter",
    /// How often the link has gone down.
    LinkDowned = "LinkDownedCounter",
    /// Packets received with an error.
    RcvErrors = "PortRcvErrors",
    /// Packets that the sender marked as bad.
    RcvRemotePhysicalErrors = "PortRcvRemotePhysicalErrors",
    /// Packets that a switch could not forward.
    RcvSwitchRelayErrors = "PortRcvSwitchRelayErrors",
    /// Packets that could not leave.
    XmitDiscards = "PortXmitDiscards",
    /// Packets refused on the way out.
    XmitConstraintErrors = "PortXmitConstraintErrors",
    /// Packets refused on the way in.
    RcvConstraintErrors = "PortRcvConstraintErrors",
    /// Bursts of errors.
    LocalLinkIntegrityErrors = "LocalLinkIntegrityErrors",
    /// Packets that came without credits and found no room.
    ExcessiveBufferOverrunErrors = "ExcessiveBufferOverrunErrors",
    /// Management packets dropped for want of room.
    Vl15Dropped = "VL15Dropped",
    /// Ticks (of ibemu's devices: microseconds) during which data waited and no credit let it go.
    XmitWait = "PortXmitWait",
    /// General-service packets dropped for want of room.
    Qp1Dropped = "QP1Dropped",
    /// Of the errors received: damaged packets.
    LocalPhysicalErrors = "PortLocalPhysicalErrors",
    /// Of the errors received: packets that make no sense.
    MalformedPktErrors = "PortMalformedPktErrors",
    /// Of the errors received: buffers that were full.
    BufferOverrunErrors = "PortBufferOverrunErrors",
    /// Of the relay errors: destinations without an entry.
    DlidMappingErrors = "PortDLIDMappingErrors",
    /// Of the relay errors: service levels without a lane.
    VlMappingErrors = "PortVLMappingErrors",
    /// Of the relay errors: packets that would have left where they came in.
    LoopingErrors = "PortLoopingErrors",
}

/// A value for every counter. In JSON an object of the specification's names; a counter that is not named is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counters(pub [u64; COUNTERS]);

impl Serialize for Counters {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter().map(|(counter, value)| (counter.name(), value)))
    }
}

impl<'de> Deserialize<'de> for Counters {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let named = BTreeMap::<String, u64>::deserialize(deserializer)?;
        let mut counters = Self::default();
        for counter in Counter::ALL {
            counters[counter] = named.get(counter.name()).copied().unwrap_or(0);
        }
        Ok(counters)
    }
}

impl Default for Counters {
    fn default() -> Self {
        Self([0; COUNTERS])
    }
}

impl Index<Counter> for Counters {
    type Output = u64;
    fn index(&self, counter: Counter) -> &u64 {
        &self.0[counter as usize]
    }
}

impl IndexMut<Counter> for Counters {
    fn index_mut(&mut self, counter: Counter) -> &mut u64 {
        &mut self.0[counter as usize]
    }
}

impl Counters {
    /// Every counter with its value.
    pub fn iter(&self) -> impl Iterator<Item = (Counter, u64)> {
        Counter::ALL.into_iter().zip(self.0)
    }

    /// All errors and discards together; none of the details counts twice.
    #[must_use]
    pub fn errors(&self) -> u64 {
        const ERRORS: [Counter; 12] = [
            Counter::SymbolErrors,
            Counter::LinkErrorRecoveries,
            Counter::LinkDowned,
            Counter::RcvErrors,
            Counter::RcvRemotePhysicalErrors,
            Counter::RcvSwitchRelayErrors,
            Counter::XmitDiscards,
            Counter::XmitConstraintErrors,
            Counter::RcvConstraintErrors,
            Counter::LocalLinkIntegrityErrors,
            Counter::ExcessiveBufferOverrunErrors,
            Counter::Vl15Dropped,
        ];
        let values = ERRORS.iter().map(|&counter| self[counter]);
        values.fold(0, u64::saturating_add)
    }
}

/// Rates of a port between its last two readings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// Bytes sent a second.
    pub xmit_bytes_per_s: f64,
    /// Bytes received a second.
    pub rcv_bytes_per_s: f64,
    /// Packets sent a second.
    pub xmit_pkts_per_s: f64,
    /// Packets received a second.
    pub rcv_pkts_per_s: f64,
    /// Ticks of PortXmitWait a second; of ibemu's devices 1,000,000 is all the time.
    pub xmit_wait_per_s: f64,
    /// Errors and discards a second.
    pub errors_per_s: f64,
}

/// What is known of the counters of one port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reading {
    /// Whether its counters were ever read.
    pub is_known: bool,
    /// Whether its last request was not answered, or refused: the rest is older.
    pub is_stale: bool,
    /// Sums since the counters' last reset before the sampler began, reset or not since then: they never run backwards.
    pub counters: Counters,
    /// Rates between the last two readings.
    pub rates: Rates,
    /// How often counters have begun anew: cleared, or a device was restarted.
    pub resets: u32,
    /// Whether a counter of PortCounters stands at its largest value and cannot grow: clear it (perfquery -R).
    pub is_saturated: bool,
}
