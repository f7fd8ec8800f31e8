//! A fabric on several machines, without IO: which device runs on which machine ([`placement`]).

pub mod placement;
