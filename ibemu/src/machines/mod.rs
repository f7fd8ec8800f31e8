//! A fabric on several machines.

mod place;

pub use place::{Placed, place};
