//! InfiniBand management without IO: SMI, SMA, PMA, transactions, and the messages of local MAD
//! sockets.

pub mod local;
pub mod sma;
