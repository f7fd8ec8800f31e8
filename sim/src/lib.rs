//! A fabric in virtual time: the very switches and ports of the daemons, in one process, as a
//! discrete-event simulation whose every byte follows from its plan and its seed.
//!
//! | | devices | tables | for |
//! |---|---|---|---|
//! | [`RoutedFabric`] | switches, and hosts that are a port with a source and a sink | written by management packets when the fabric comes up | loads: how much arrives, how long it takes |
//! | [`Workload`] | as [`RoutedFabric`], by [`RoutedFabric::run_workload`] | the same, and multicast, VLs and arbitration | traffic sources of each host, counted flow by flow and link by link |
//! | [`Twin`] | switches and hosts as the daemons run them | made by the subnet manager, over the fabric | what a live fabric would do |
//!
//! The crate `experiments` runs the papers' figures on it, from plans.
//!
//! What a simulation adds to the devices is the order in which things happen, the time that a cable
//! takes, and checkers that always run: packets balance (in and copies = out, queued, in flight,
//! dropped by reason and lost), credits are never above buffers, packets of a (SLID, DLID, SL) stay
//! in order and come once (a multicast packet once to every member and never back), no packet stays
//! longer in a switch than its lifetime, and packets that wait for each other in a cycle are found
//! and named ([`Deadlock`]).
//!
//! Link control takes no byte time in any model; when it arrives is [`CreditReturn`]'s choice.
//!
//! ```
//! use sim::{FaultPlan, Load, Model, RoutedFabric};
//!
//! let fabric = topologies::parse("fat-tree-4-2")?.graph;
//! let prepared = RoutedFabric::new(&fabric, routing::RoutingEngine::Mlid)?;
//! let outcome = prepared.run(
//!     &Model::mlid04(1),
//!     &Load::uniform(0.03, 1),
//!     &FaultPlan::default(),
//! )?;
//! assert_eq!(outcome.violations, []);
//! assert!((outcome.accepted - 0.03).abs() < 0.002);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod balance;
mod cable;
mod datagrams;
mod deadlock;
mod event_queue;
mod extra_tables;
mod fabric;
mod faults;
mod flow_counters;
mod frame;
mod generator;
mod interposer;
mod load;
mod measurement;
mod model;
mod node;
mod numbers;
mod packet_tracker;
mod pattern;
pub mod replay;
mod setup;
mod smp;
mod source_queues;
mod traffic_host;
mod twin;
mod workload;
mod workload_run;

pub use balance::Balance;
pub use deadlock::{Deadlock, InputVl};
pub use fabric::{ManagementError, RunCounters};
pub use faults::{CableEnd, Fault, FaultError, FaultKind, FaultName, FaultPlan};
pub use flow_counters::{FlowRecord, PortRecord, VlCounts};
pub use interposer::{Interposer, Passage};
pub use load::{Load, LoadResult, RoutedFabric, interval_ps};
pub use model::{CreditReturn, Model, ModelError, PACKET_BYTES_MAX, PACKET_BYTES_MIN};
pub use numbers::{index, number, real};
pub use packet_tracker::Violation;
pub use pattern::{Pattern, PatternError, SlChoice, permutation, split_mix};
pub use setup::SetupError;
pub use twin::{DatagramCounts, Twin, TwinConfig, TwinError};
pub use workload::{
    AddressVector, Arbitration, BACKLOG_DEFAULT, ConstantRate, Destination, FLOWS_MAX, FlowPlan,
    Group, MESSAGE_BYTES_MAX, SendRequest, TrafficSource, Until, VlTables, Workload, WorkloadError,
};
pub use workload_run::WorkloadResult;
