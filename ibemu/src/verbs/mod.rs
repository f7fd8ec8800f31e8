//! The verbs of the command.

mod cable;
mod campaign;
mod chaos;
mod clos;
mod down;
mod exec;
mod experiment;
mod mcast;
pub mod offline;
mod path;
mod perf;
mod ping;
mod qos;
mod replay;
mod restart;
mod run;
mod status;
mod topo;
mod up;

pub use cable::run as link;
pub(crate) use cable::set as set_cable;
pub use chaos::{Chaos, run as chaos};
pub use clos::{Clos, run as clos};
pub use down::run as down;
pub use exec::run as exec;
pub use experiment::{Sim, run as sim};
pub use mcast::{Mcast, run as mcast};
pub use path::run as path;
pub use perf::run as perf;
pub use ping::run as ping;
pub use qos::{Qos, run as qos};
pub use restart::run as restart;
pub use run::run;
pub use status::run as status;
pub use topo::run as topo;
pub use up::run as up;
