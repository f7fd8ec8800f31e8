//! A libibumad whose adapters are those of a host of an ibemu fabric, for programs that were written for the
//! kernel's user MADs: OpenSM, the infiniband-diags and the like, unchanged.
//!
//! `ibemu exec` puts this library before the system's own, and says where the host is ([`environment`]). The
//! library talks to the host's socket (`mad::umad`): opening a port makes a connection, whose descriptor is
//! what the program polls; sending and receiving are one message each. Registrations and descriptions of the
//! adapter go by short connections of their own.
//!
//! The library keeps no state and starts no threads. A descriptor's own address holds its number at the
//! host, so that it can be duplicated, and shared by threads and by processes that fork, as a file of the kernel
//! can.
//!
//! `unsafe` is in [`mod@abi`] alone: what C programs call.

pub mod abi;
pub mod client;
mod device;
pub mod environment;
mod names;
