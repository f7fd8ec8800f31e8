//! A fabric on several machines, without IO: which device runs on which machine ([`placement`]), how the
//! processes of a job find each other ([`pmi`]), how they know each other ([`session`]) and what they say
//! to each other ([`message`]).
//!
//! ```text
//! rank 0: supervisor, agent ----TCP, sealed---- rank 1: agent
//!                 |                             rank 2: agent
//!                 `---------TCP, sealed-------- the machine that the job was submitted from: gateway
//! ```

pub mod placement;
