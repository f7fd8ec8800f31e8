//! The papers' experiments: plans, runs, reports.
//!
//! A [`Plan`] is one TOML file for one result: which networks, schemes and workloads, how much of
//! each, and what is expected. [`run`] runs every point, as many side by side as asked for, and
//! writes three files beside each other: the points as CSV and, with the conditions and verdicts,
//! as JSON, and a report as one HTML file with its plots. The same plan, size and seed give the
//! same bytes on any machine. Interrupted, it goes on where it was. [`report`] writes one page
//! over the results of many plans.
//!
//! ```text
//! plan.toml --> Plan --> Experiment (its kind) --> points, any order, any thread --> checkpoints
//!                                                                                         |
//!                                  .csv .json .html <-- statements, figures <-------------+
//! ```

mod axes;
mod batch;
mod checkpoint;
mod checks;
mod document;
mod error;
mod escape;
#[cfg(test)]
mod example;
mod experiment;
mod figure;
mod html;
mod kind;
mod lids;
mod load;
mod multicast;
mod network;
mod output;
mod overview;
mod paper;
mod plan;
mod plan_error;
mod qos;
mod requests;
mod run;
mod sparkline;
mod statement;
mod svg;
mod trace;
mod variant;
mod windows;
mod work;

pub use batch::{batch, part, run};
pub use error::ExperimentError;
pub use figure::{Axis, Columns, Curve, Figure};
pub use html::page_of_figures;
pub use lids::LidsPlan;
pub use load::{Band, LoadPlan};
pub use multicast::MulticastPlan;
pub use network::PlannedFault;
pub use output::csv;
pub use overview::{Overview, page_over, report};
pub use plan::Plan;
pub use plan_error::PlanError;
pub use qos::{
    AdmissionPlan, AdmissionReference, BestEffort, QosPlan, RatePlan, Reference, Subject,
};
pub use requests::RequestsPlan;
pub use run::{Options, Results};
pub use statement::Statement;
pub use trace::{Trace, TraceError, TraceFile, TraceFlow, TracePlan, TraceVlChoice};
pub use windows::WindowsPlan;
