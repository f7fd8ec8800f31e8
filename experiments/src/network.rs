//! What plans of several kinds say about the network: packets, credits, faults.

use routing::RoutingEngine;
use serde::Deserialize;
use sim::{CableEnd, CreditReturn, Fault, FaultKind, FaultName, FaultPlan, Model, RoutedFabric};
use wire::PortNum;

use crate::error::ExperimentError;

/// The network of MLID04 with so many VLs, packets of that length, and these credits and lifetimes.
pub(crate) fn model(
    vls: u8,
    packet_bytes: u16,
    credits: CreditReturn,
    lifetime: Option<u8>,
) -> Model {
    Model {
        packet_bytes,
        credits,
        lifetime,
        ..Model::mlid04(vls)
    }
}

/// The fabrics of a topology with the tables of each engine.
///
/// # Errors
/// [`ExperimentError`]: there is no such topology, or an engine cannot apply.
pub(crate) fn routed(
    topology: &str,
    schemes: &[RoutingEngine],
) -> Result<Vec<RoutedFabric>, ExperimentError> {
    let graph = topologies::parse(topology)?.graph;
    let routed = |&scheme: &RoutingEngine| Ok(RoutedFabric::new(&graph, scheme)?);
    schemes.iter().map(routed).collect()
}

/// Delays and rates of a model, for the conditions of a report.
pub(crate) fn delays(model: &Model) -> String {
    format!(
        "{} ns of flight, {} ns of routing, {} ns a packet of {} bytes (LRH to ICRC)",
        model.flight_ns,
        model.routing_ns,
        model.byte_time_ns(),
        model.packet_bytes
    )
}

/// A fault, see [`FaultKind`].
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedFault {
    /// When, in nanoseconds after the fabric has come up.
    pub at_ns: u64,
    /// Which.
    pub what: FaultName,
    /// The device.
    pub node: String,
    /// The port; of a switch that crashes, none.
    #[serde(default)]
    pub port: u8,
    /// Packets or flow control lost, per million.
    #[serde(default)]
    pub loss_ppm: u32,
    /// Packets damaged, per million.
    #[serde(default)]
    pub corruption_ppm: u32,
    /// Management packets that come twice, per million.
    #[serde(default)]
    pub duplication_ppm: u32,
    /// Management packets that come late, per million.
    #[serde(default)]
    pub delay_ppm: u32,
    /// How late at most, nanoseconds.
    #[serde(default)]
    pub delay_ns_max: u64,
    /// From one packet that a slow host takes in to the next, nanoseconds; 0: at once.
    #[serde(default)]
    pub ns_per_packet: u64,
}

impl PlannedFault {
    fn fault(&self) -> Fault {
        let end = CableEnd {
            node: self.node.clone(),
            port: PortNum::new(self.port),
        };
        let (loss_ppm, corruption_ppm) = (self.loss_ppm, self.corruption_ppm);
        Fault {
            at_ns: self.at_ns,
            what: match self.what {
                FaultName::LinkDown => FaultKind::LinkDown(end),
                FaultName::LinkUp => FaultKind::LinkUp(end),
                FaultName::Rates => FaultKind::Rates {
                    end,
                    loss_ppm,
                    corruption_ppm,
                },
                FaultName::CreditLoss => FaultKind::CreditLoss { end, loss_ppm },
                FaultName::SmpImpairment => FaultKind::SmpImpairment {
                    end,
                    duplication_ppm: self.duplication_ppm,
                    delay_ppm: self.delay_ppm,
                    delay_ns_max: self.delay_ns_max,
                },
                FaultName::Crash => FaultKind::Crash(end.node),
                FaultName::Restart => FaultKind::Restart(end.node),
                FaultName::SlowDrain => FaultKind::SlowDrain {
                    node: end.node,
                    ns_per_packet: self.ns_per_packet,
                },
            },
        }
    }
}

/// The faults of a run of that seed.
pub(crate) fn fault_plan(faults: &[PlannedFault], seed: u64) -> FaultPlan {
    FaultPlan {
        faults: faults.iter().map(PlannedFault::fault).collect(),
        seed,
    }
}
