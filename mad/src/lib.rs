//! InfiniBand management without IO: SMI, SMA, PMA, congestion control, communication management, transactions, reliable transfer of tables
//! (RMPP), and the messages of local MAD sockets.

mod access;
pub mod agent;
pub mod cc;
pub mod cm;
mod key_guard;
pub mod local;
pub mod pma;
pub mod rmpp;
pub mod sma;
pub mod smi;
pub mod transaction;
pub mod umad;
pub mod umad2sim;
