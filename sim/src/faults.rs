//! The faults of a run, and their times.

use strum::{EnumDiscriminants, EnumMessage, IntoStaticStr, VariantArray};
use thiserror::Error;
use topologies::{Endpoint, Graph, NodeKind};
use wire::PortNum;

/// Rates of loss and damage count in millionths.
pub(crate) const PPM_MAX: u32 = 1_000_000;

/// One end of a cable by the name of its device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CableEnd {
    /// The device's name.
    pub node: String,
    /// The port.
    pub port: PortNum,
}

/// A kind of fault. Rates are in millionths and hold for what leaves the port named.
#[derive(Clone, Debug, PartialEq, Eq, EnumDiscriminants)]
#[strum_discriminants(
    name(FaultName),
    derive(EnumMessage, IntoStaticStr, VariantArray),
    strum(serialize_all = "kebab-case"),
    doc = "The name of a [`FaultKind`], as plans have it."
)]
pub enum FaultKind {
    /// The cable at this end is pulled: what is on it is lost.
    LinkDown(CableEnd),
    /// The cable is put in again; its ports are made active when the link is up.
    LinkUp(CableEnd),
    /// Packets are lost and damaged at these rates from now on.
    Rates {
        /// Whose packets.
        end: CableEnd,
        /// Packets lost, per million.
        loss_ppm: u32,
        /// Packets damaged, per million.
        corruption_ppm: u32,
    },
    /// Flow control is lost at this rate from now on.
    CreditLoss {
        /// Whose flow control.
        end: CableEnd,
        /// Packets lost, per million.
        loss_ppm: u32,
    },
    /// Management packets (VL15) come twice at one rate, and late at another, from now on: those
    /// behind a late one overtake it.
    SmpImpairment {
        /// Whose management packets.
        end: CableEnd,
        /// Packets that come twice, per million.
        duplication_ppm: u32,
        /// Packets that come late, per million.
        delay_ppm: u32,
        /// How late at most, nanoseconds.
        delay_ns_max: u64,
    },
    /// A switch crashes: what is in it and on its cables is lost.
    Crash(String),
    /// It is started again and gets the tables that it had.
    Restart(String),
    /// A host takes packets out of its input buffers slowly from now on, so that credits return
    /// late.
    SlowDrain {
        /// The host.
        node: String,
        /// From one packet to the next, nanoseconds; 0: as fast as they come, again.
        ns_per_packet: u64,
    },
}

wire::choice!(FaultName, "kind of fault");

/// Something that goes wrong at a certain time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// When, in nanoseconds after the fabric has come up.
    pub at_ns: u64,
    /// What.
    pub what: FaultKind,
}

/// All that goes wrong in a run.
#[derive(Clone, Debug, Default)]
pub struct FaultPlan {
    /// The faults, in any order.
    pub faults: Vec<Fault>,
    /// Seed of what is lost and damaged.
    pub seed: u64,
}

/// A plan that names what is not there.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FaultError {
    /// No device of that name.
    #[error("fault {number}: there is no device {name:?}")]
    NoSuchNode {
        /// Which fault of the plan, from 0.
        number: usize,
        /// The name.
        name: String,
    },
    /// No cable there.
    #[error("fault {number}: port {port} of {name:?} has no cable")]
    NoCable {
        /// Which fault of the plan, from 0.
        number: usize,
        /// The device.
        name: String,
        /// The port.
        port: PortNum,
    },
    /// Only switches crash.
    #[error("fault {number}: {name:?} is a host; switches crash and restart")]
    NotASwitch {
        /// Which fault of the plan, from 0.
        number: usize,
        /// The device.
        name: String,
    },
    /// Only hosts of a load drain slowly.
    #[error("fault {number}: {name:?} is a switch; hosts drain slowly")]
    NotAHost {
        /// Which fault of the plan, from 0.
        number: usize,
        /// The device.
        name: String,
    },
    /// More than all.
    #[error("fault {number}: {ppm} per million: 0 to 1000000")]
    Rate {
        /// Which fault of the plan, from 0.
        number: usize,
        /// The rate asked for.
        ppm: u32,
    },
}

impl FaultKind {
    pub(crate) fn end(&self) -> Option<&CableEnd> {
        match self {
            Self::LinkDown(end)
            | Self::LinkUp(end)
            | Self::Rates { end, .. }
            | Self::CreditLoss { end, .. }
            | Self::SmpImpairment { end, .. } => Some(end),
            Self::Crash(_) | Self::Restart(_) | Self::SlowDrain { .. } => None,
        }
    }

    fn rates(&self) -> [u32; 2] {
        match *self {
            Self::Rates {
                loss_ppm,
                corruption_ppm,
                ..
            } => [loss_ppm, corruption_ppm],
            Self::CreditLoss { loss_ppm, .. } => [loss_ppm, 0],
            Self::SmpImpairment {
                duplication_ppm,
                delay_ppm,
                ..
            } => [duplication_ppm, delay_ppm],
            _ => [0, 0],
        }
    }
}

impl FaultPlan {
    /// Whether the bytes of some packet may be changed.
    pub(crate) fn damages(&self) -> bool {
        let kinds = self.faults.iter().map(|fault| &fault.what);
        let rates = kinds.filter_map(|what| match what {
            FaultKind::Rates { corruption_ppm, .. } => Some(*corruption_ppm),
            _ => None,
        });
        rates.into_iter().any(|rate| rate > 0)
    }

    /// Checks that everything named is there.
    ///
    /// # Errors
    /// [`FaultError`]: which fault names what is not.
    pub fn check(&self, graph: &Graph) -> Result<(), FaultError> {
        for (number, fault) in self.faults.iter().enumerate() {
            let find = |name: &str| {
                graph.find(name).ok_or_else(|| FaultError::NoSuchNode {
                    number,
                    name: name.to_owned(),
                })
            };
            for ppm in fault.what.rates() {
                if ppm > PPM_MAX {
                    return Err(FaultError::Rate { number, ppm });
                }
            }
            if let Some(CableEnd { node, port }) = fault.what.end() {
                let end = Endpoint {
                    node: find(node)?,
                    port: *port,
                };
                if graph.peer(end).is_none() {
                    return Err(FaultError::NoCable {
                        number,
                        name: node.clone(),
                        port: *port,
                    });
                }
            }
            if let FaultKind::SlowDrain { node, .. } = &fault.what
                && graph.node(find(node)?).kind != NodeKind::Host
            {
                return Err(FaultError::NotAHost {
                    number,
                    name: node.clone(),
                });
            }
            if let FaultKind::Crash(name) | FaultKind::Restart(name) = &fault.what
                && graph.node(find(name)?).kind != NodeKind::Switch
            {
                return Err(FaultError::NotASwitch {
                    number,
                    name: name.clone(),
                });
            }
        }
        Ok(())
    }
}
