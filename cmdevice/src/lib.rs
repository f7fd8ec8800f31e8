//! A `/dev/infiniband/rdma_cm` for programs beside a host of an ibemu fabric: the system's librdmacm finds a device,
//! without a kernel that has one.
//!
//! The library is loaded before a program's others (`LD_PRELOAD`). It stands in front of a few functions of the C library
//! and looks at two things: whether the device is opened, and whether a descriptor is one that this has given. All else
//! passes through.
//!
//! ```text
//!  librdmacm                library                              host (uverbs::cm)
//!  open(device)   --->      connection: the descriptor   ---->   <node>.cm
//!  write(command) --->      command, a socket for its reply ---> ids, communication management
//!                 <---      bytes behind its pointer     <----
//!  poll           ...       the descriptor is readable   <----   events wait
//! ```
//!
//! There is no lock and nothing to repair after a fork: the descriptor is the connection, every command has a socket of
//! its own for the reply, and what is kept is a table of numbers.
//!
//! `unsafe` is in `abi` alone, and in `shims.c`: what C programs call.

pub mod abi;
mod channel;

pub use uverbs::cm::SOCKET;

/// The folder beside the programs in which the library is, and nothing else.
pub const FOLDER: &str = "cmdevice";
/// Its name there.
pub const LIBRARY: &str = "libcmdevice.so";
