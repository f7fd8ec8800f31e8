//! Families of metrics in either format.

use std::fmt::Error;

use prometheus_client::encoding::{
    DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, EncodeLabelSet,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;

use super::Format;

/// Nobody adds exemplars.
const NO_EXEMPLAR: Option<&Exemplar<[(&str, &str); 0], f64>> = None;

/// What families are written to.
pub(super) struct Families<'a> {
    encoder: DescriptorEncoder<'a>,
    format: Format,
    name: String,
}

impl<'a> Families<'a> {
    pub(super) fn new(encoder: DescriptorEncoder<'a>, format: Format) -> Self {
        Self {
            encoder,
            format,
            name: String::new(),
        }
    }

    /// A counter; `name` without `_total`.
    pub(super) fn counter<L: EncodeLabelSet, V: EncodeCounterValue + EncodeGaugeValue>(
        &mut self,
        name: &str,
        help: &str,
        samples: impl Iterator<Item = (L, V)>,
    ) -> Result<(), Error> {
        match self.format {
            Format::OpenMetrics => {
                let encoder = &mut self.encoder;
                let mut family =
                    encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
                for (labels, value) in samples {
                    let mut sample = family.encode_family(&labels)?;
                    sample.encode_counter(&value, NO_EXEMPLAR)?;
                }
            }
            // The text format has the suffix in the family's name, too: a sample is then written as a gauge's is.
            Format::Text => {
                self.name.clear();
                self.name.push_str(name);
                self.name.push_str("_total");
                let (encoder, name) = (&mut self.encoder, &self.name);
                let mut family =
                    encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
                for (labels, value) in samples {
                    family.encode_family(&labels)?.encode_gauge(&value)?;
                }
            }
        }
        Ok(())
    }

    /// A gauge.
    pub(super) fn gauge<L: EncodeLabelSet>(
        &mut self,
        name: &str,
        help: &str,
        samples: impl Iterator<Item = (L, f64)>,
    ) -> Result<(), Error> {
        let encoder = &mut self.encoder;
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (labels, value) in samples {
            family.encode_family(&labels)?.encode_gauge(&value)?;
        }
        Ok(())
    }
}
