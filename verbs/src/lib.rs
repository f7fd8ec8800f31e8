//! A libibverbs whose devices are the adapters of a host of an ibemu fabric, for programs that were written for
//! RDMA adapters: perftest, UCX, MPI and the like, unchanged.
//!
//! The public names, their versions, structures and errors are those of rdma-core. Names that are private
//! to rdma-core's own libraries of drivers are there too, as such libraries are loaded with many programs: they
//! refuse (`EOPNOTSUPP`), as there is no kernel's device behind this library.
//!
//! ```text
//!  program          library                                   host (uverbs)
//!  create_qp  --->  session: one connection a context  ---->  <node>.verbs
//!  post_send  --->  work_queue: ring in shared memory  ====>  (doorbell if it sleeps)
//!  poll_cq    <---  completion_queue: ring             <====
//!  get_event  <---  a pipe a channel                   <----
//! ```
//!
//! All progress is the host's: a program that waits, or polls memory without a call, is served. After a fork what the
//! parent has opened is the parent's; a child opens its own.
//!
//! `unsafe` is in [`mod@abi`] alone: what C programs call.

pub mod abi;
mod completion_queue;
mod connection;
pub mod environment;
mod events;
mod names;
mod patience;
mod rates;
mod session;
mod work_queue;

/// The folder beside the programs in which the library is, and nothing else.
pub const FOLDER: &str = "libibverbs";
