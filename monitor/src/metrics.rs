//! All that a snapshot knows as metrics: names of the field first, ours beside them.
//!
//! `infiniband_switch_*`, `infiniband_hca_*` and `infiniband_exporter_*` have the names, labels and help of
//! treydock/infiniband_exporter 0.10, so that its dashboards and alerts work unchanged; `ibemu_*` are ours. Counters are
//! sums that never run backwards as long as the sampler lives; a new one begins with what the devices show, which
//! Prometheus takes for a reset if it is less. Ports of a node that has left the fabric are left out until it is back.

mod families;
mod field;
mod own;

use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, text};
use prometheus_client::registry::Registry;

use crate::model::Snapshot;
use families::Families;

/// How metrics are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// Prometheus' text format 0.0.4.
    Text,
}

impl Format {
    /// The format that an HTTP header `Accept` asks for: OpenMetrics if it names that, else text.
    #[must_use]
    pub fn accepted(accept: &str) -> Self {
        match accept.contains("application/openmetrics-text") {
            true => Self::OpenMetrics,
            false => Self::Text,
        }
    }

    /// What an HTTP header `Content-Type` says of it.
    #[must_use]
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// A snapshot as metrics.
#[must_use]
pub fn render(snapshot: &Arc<Snapshot>, format: Format) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Scrape {
        snapshot: Arc::clone(snapshot),
        format,
    }));
    // About 100 bytes a sample, 40 samples a port.
    let mut out = String::with_capacity(4096 * (snapshot.fabric.ports.len() + 4));
    let encoded = match format {
        Format::OpenMetrics => text::encode(&mut out, &registry),
        Format::Text => text::encode_registry(&mut out, &registry),
    };
    debug_assert!(encoded.is_ok(), "a text takes what it is given");
    out
}

/// One look at a snapshot.
#[derive(Debug)]
struct Scrape {
    snapshot: Arc<Snapshot>,
    format: Format,
}

impl Collector for Scrape {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let mut families = Families::new(encoder, self.format);
        field::encode(&self.snapshot, &mut families)?;
        own::encode(&self.snapshot, &mut families)
    }
}

#[cfg(test)]
mod tests;
