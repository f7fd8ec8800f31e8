//! A libibverbs whose devices are the adapters of a host of an ibemu fabric, for programs that were written for
//! RDMA adapters: perftest, UCX, MPI and the like, unchanged.
//!
//! The public names, their versions, structures and errors are those of rdma-core. Names that are private
//! to rdma-core's own libraries of drivers are there too, as such libraries are loaded with many programs: they
//! refuse (`EOPNOTSUPP`), as there is no kernel's device behind this library.
//!
//! `unsafe` is in [`mod@abi`] alone: what C programs call.

pub mod abi;
mod names;
mod rates;
