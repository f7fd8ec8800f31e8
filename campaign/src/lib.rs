//! Fault campaigns in virtual time: from a seed to a fabric, its traffic and its faults; checkers
//! that look at every step; and what must hold when faults have ceased.
//!
//! ```text
//!  seed --generate--> Schedule --run--> Outcome: failure? digest
//!                       ^   |                      |
//!           one line of |   |  fewer faults,       | the same kind of failure
//!           words       v   v  a smaller fabric    v
//!                      text      <------------- shrink
//! ```
//!
//! A schedule runs on a [`sim::Twin`]: the very switches, hosts and subnet manager that the daemons
//! are made of. Under all faults these hold at each step: credits never exceed buffers, unicast
//! datagrams are never duplicated, datagrams of one (SLID, DLID, SL) stay in order while tables do not
//! change, LIDs do not change under engines that keep them, hosts of different partitions receive none of
//! each other's packets, nothing panics. When faults have ceased, within a bounded time: one manager is master in each part,
//! has found what is left and rests, and the others stand by; where ports have an M_Key, no request
//! without it changes anything; the tables are those that the engine
//! computes for that, and do what it promises; every host reaches every LID by packets; nothing is
//! lost, doubled or reordered; no packet is stuck and no credit is missing.
//!
//! [`heal`] measures instead how long it takes until all pairs of hosts are connected again when the master fails together
//! with something else.
//!
//! Everything follows from the schedule: no clock, no thread, no IO. `ibemu sim campaign` runs many
//! on threads.
//!
//! ```
//! let quiet: campaign::Schedule = "topology=star-2 cut@1000+5000:0".parse()?;
//! assert_eq!(campaign::run(&quiet).failure, None);
//! # Ok::<(), campaign::ScheduleError>(())
//! ```

mod bed;
mod dataplane;
mod generate;
pub mod heal;
mod hostile;
mod keys;
mod lies;
mod managers;
mod outcome;
mod partitions;
mod probes;
mod run;
mod schedule;
mod shrink;
mod tables;
mod text;

pub use generate::Limits;
pub use outcome::{Failure, FailureKind, Outcome};
pub use run::{run, run_with};
pub use schedule::{
    Division, Fault, FaultKind, Hostility, ITEMS_MAX, KeyProtection, LENGTH_US_MAX, Lie,
    PARTITIONS_MAX, STANDBYS_MAX, Schedule, Standby, Traffic, TrafficKind,
};
pub use shrink::shrink;
pub use text::ScheduleError;
