//! The verbs of the command.

mod cable;
mod campaign;
mod capture;
mod chaos;
mod clos;
mod down;
mod exec;
mod experiment;
mod extcap;
mod manual;
pub(crate) use cable::{ends as cable_ends, set as set_cable};
