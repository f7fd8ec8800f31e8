//! What plans of several kinds say about the network: packets, credits, faults.

use serde::Deserialize;
use sim::{CableEnd, CreditReturn, Fault, FaultPlan, Model};
use wire::PortNum;

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

/// A fault, see [`sim::FaultKind`].
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedFault {
    /// When, in nanoseconds after the fabric has come up.
    pub at_ns: u64,
    /// Which.
    pub what: FaultKind,
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
    /// From one packet that a slow host takes in to the next, nanoseconds; 0: at once.
    #[serde(default)]
    pub ns_per_packet: u64,
}

/// Kinds of faults, see [`sim::FaultKind`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
    /// A cable is pulled.
    LinkDown,
    /// It is put in again.
    LinkUp,
    /// Packets are lost and damaged.
    Rates,
    /// Flow control is lost.
    CreditLoss,
    /// A switch crashes.
    Crash,
    /// It is started again.
    Restart,
    /// A host takes packets in slowly.
    SlowDrain,
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
                FaultKind::LinkDown => sim::FaultKind::LinkDown(end),
                FaultKind::LinkUp => sim::FaultKind::LinkUp(end),
                FaultKind::Rates => sim::FaultKind::Rates {
                    end,
                    loss_ppm,
                    corruption_ppm,
                },
                FaultKind::CreditLoss => sim::FaultKind::CreditLoss { end, loss_ppm },
                FaultKind::Crash => sim::FaultKind::Crash(end.node),
                FaultKind::Restart => sim::FaultKind::Restart(end.node),
                FaultKind::SlowDrain => sim::FaultKind::SlowDrain {
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
