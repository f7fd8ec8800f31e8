//! Fabrics as text: what ibnetdiscover prints and what ibsim loads.
//!
//! The two are one language. A node is a line such as
//!
//! ```text
//! Switch  8 "S-021be20000000010"   # "s0" base port 0 lid 0 lmc 0
//! ```
//!
//! followed by a line for each connected port, `[own port] "id of peer"[port of peer]`. ibsim's
//! files use names as ids and have no comment behind them; `switchguid=` and `caguid=` (also
//! `hcaguids=`) lines before a node give its GUID, otherwise GUIDs count up from ibsim's defaults.
//! What the graph does not hold is skipped: LIDs, widths, speeds, vendor and device ids, routers'
//! being routers.

mod read;
mod write;

pub use read::read_text;
pub use write::{write_ibnetdiscover, write_net};

#[cfg(test)]
mod tests;
