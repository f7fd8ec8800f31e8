//! A fabric on several machines, without IO of its own: which device runs on which machine ([`placement`]), how the
//! processes of a job find each other ([`pmi`], [`slurm`]), how they know each other ([`session`]) and what they say
//! to each other ([`message`]).
//!
//! ```text
//! rank 0: supervisor and agent ---- sealed TCP ---- rank 1: agent
//!                        |   `----- sealed TCP ---- rank 2: agent
//!                        `--------- sealed TCP ---- the machine that `up` was called on: gateway
//! ```

pub mod message;
pub mod placement;
pub mod pmi;
pub mod session;
pub mod slurm;
