//! Captures: packets of a port from its device's capture socket into files, a pipe or lines of text.
//!
//! ```text
//!  <node>.tap ──► session (connects, again if the device restarts) ──► writer thread ──► sink: files, pipe, lines
//!                 signals, limits of time                     channel  limit of count
//! ```
//! The writer has a thread of its own, so that a pipe that nobody reads does not keep the command from ending.

mod line;
mod session;
mod sink;

use std::path::PathBuf;

use anyhow::{Result, bail};
use wire::PortNum;

use crate::dir::FabricDir;
use crate::names::PortName;
use crate::state::{End, FabricState, Kind};

pub(crate) use session::tell;
pub use session::{Limits, Tally, run};
pub use sink::{Ring, Sink};

/// The port that is looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// `NODE:PORT`.
    pub name: String,
    /// What `ibemu restart` calls its device.
    pub device: String,
    /// The device's capture socket.
    pub socket: PathBuf,
    /// The port.
    pub port: PortNum,
}

impl Target {
    /// The port that is called `name`: `NODE:PORT`, or a host's name alone if that has one port.
    ///
    /// # Errors
    /// If there is no such port, or no cable is in it.
    pub fn find(dir: &FabricDir, state: &FabricState, name: &str) -> Result<Self> {
        let end = match state.find(name) {
            Ok(node) if state.nodes[node].kind == Kind::Host => state.host_end(node),
            _ => {
                let PortName { node, port } = name.parse()?;
                let node = state.device_of(state.find(&node)?);
                End { node, port }
            }
        };
        if !state.peers().contains_key(&end) {
            let ports = state.nodes[end.node].ports;
            if end.port > ports {
                bail!(
                    "{name}: {} has ports 1 to {ports}",
                    state.nodes[end.node].name
                );
            }
            bail!("{name}: no cable is in that port");
        }
        Ok(Self::at(dir, state, end))
    }

    /// The port at one end of a cable.
    #[must_use]
    pub fn at(dir: &FabricDir, state: &FabricState, end: End) -> Self {
        let node = &state.nodes[end.node];
        Self {
            name: state.end_name(end),
            device: node.name.clone(),
            socket: dir.captures(&node.handle),
            port: PortNum::new(end.port),
        }
    }

    /// All ports with a cable, in order of device and port.
    #[must_use]
    pub fn all(dir: &FabricDir, state: &FabricState) -> Vec<Self> {
        let ends = state.peers();
        ends.keys().map(|&end| Self::at(dir, state, end)).collect()
    }
}
