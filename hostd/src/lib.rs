//! An InfiniBand channel adapter without IO: QP0 and its subnet management agent, QP1 and its
//! performance agent, unreliable-datagram queue pairs, a ping responder, and a traffic source and
//! sink.

pub mod control;
