//! InfiniBand management without IO: SMI, SMA, PMA, transactions, and the messages of local MAD
//! sockets.

mod layout;
pub mod local;
pub mod sma;
pub mod smi;
pub mod transaction;
