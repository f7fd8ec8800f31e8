//! Verbs that need no fabric: tables computed, verified and compared offline, and the papers'
//! experiments on a topology.
//!
//! All of them are pure functions of their arguments: the same command prints the same bytes.
//! Nothing here opens a socket. What an engine, an assignment or an admission is lives in
//! `routing`; here it is asked for and printed.

mod admit;
pub mod args;
mod compare;
mod delivery;
mod extras;
mod figures;
mod judge;
mod lids;
mod route;
mod tables;
pub mod window;

pub use admit::run as admit;
pub use compare::run as compare;
pub use judge::run as verify;
pub use lids::run as lids;
pub use route::run as route;
pub use window::run as window;
