//! A fabric on several machines, as a job of Slurm.
//!
//! ```text
//! where `up` is called                 first machine of the job              another machine
//! ibemu up                             ibemu agent (rank 0)                  ibemu agent
//! ibemu supervisor = gateway --srun-->   supervisor, hub  <-- sealed TCP -->   starts and watches
//!   `----------- sealed TCP ------------>  |                                     |
//! sockets of all devices               its devices, controllers,             its devices, stand-ins
//! are stand-ins                        stand-ins for the others              for the others
//! ```
//!
//! Each machine has a fabric's directory with a socket for every device: that of a device of its own, or a stand-in
//! whose connections are carried to the machine where the device runs (`streams`). So every verb works on every
//! machine of the job, and where `up` was called. What passes descriptors cannot be carried: `exec` goes to the
//! machine of its node by `srun` (`visit`).

mod agent;
mod allocation;
mod build;
mod gateway;
mod gather;
mod hub;
mod job;
mod place;
mod rendezvous;
mod streams;
mod visit;
mod wire;

pub(crate) use agent::prepare_machine;
pub use agent::{Agent, run as agent};
pub use allocation::{Allocation, allocate};
pub(crate) use allocation::{RELEASE_TIMEOUT, release};
pub(crate) use gateway::{FAILURE, STEP_TIMEOUT, run as gateway};
pub(crate) use hub::{Hub, HubEvent};
pub use job::{Job, Machine};
pub use place::{Placed, place};
pub(crate) use visit::visit;
