//! Measurements: packets delivered in a window of time, and their latencies.

use hdrhistogram::Histogram;
use link::Time;

use crate::packet_tracker::Delivery;

/// Longer than any packet takes, nanoseconds: ten seconds.
const LATENCY_NS_MAX: u64 = 10_000_000_000;

/// Deliveries of a window.
#[derive(Debug)]
pub(crate) struct MeasurementWindow {
    pub(crate) from: Time,
    pub(crate) until: Time,
    pub(crate) packets: u64,
    pub(crate) network_ns: u64,
    pub(crate) total_ns: u64,
    pub(crate) network: Histogram<u64>,
}

impl MeasurementWindow {
    /// A window that is not open yet.
    pub(crate) fn new() -> Self {
        Self {
            from: Time::NEVER,
            until: Time::NEVER,
            packets: 0,
            network_ns: 0,
            total_ns: 0,
            network: Histogram::new_with_max(LATENCY_NS_MAX, 2)
                .expect("the bounds are constants that suit a histogram"),
        }
    }

    #[inline]
    pub(crate) fn record(&mut self, delivery: Delivery) {
        if delivery.tail < self.from || delivery.tail >= self.until {
            return;
        }
        self.packets += 1;
        self.network_ns += delivery.network_ns;
        self.total_ns += delivery.total_ns;
        self.network.saturating_record(delivery.network_ns);
    }
}
