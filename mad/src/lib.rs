//! InfiniBand management without IO: SMI, SMA, PMA, transactions, reliable transfer of tables
//! (RMPP), and the messages of local MAD sockets.

pub mod agent;
pub mod local;
pub mod pma;
pub mod rmpp;
pub mod sma;
pub mod smi;
pub mod transaction;
pub mod umad2sim;
