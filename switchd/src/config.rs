//! What a switch is built with.

use bincode::{Decode, Encode};
use link::{ConfigError, Hardware, PortConfig};
use thiserror::Error;
use wire::Guid;

/// The most external ports that a switch can have.
const PORTS_MAX: u8 = 254;

/// What a switch is built with.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct SwitchConfig {
    /// Its name; its node description too, unless [`SwitchConfig::hardware`] has another.
    pub name: String,
    /// Node GUID, which is also that of port 0.
    pub guid: Guid,
    /// External ports, 1..=254.
    pub ports: u8,
    /// What each external port is built with; its `node_guid` is set to [`SwitchConfig::guid`],
    /// and every port gets epochs of its own.
    pub port: PortConfig,
    /// What the switch says of itself, and which of its links run at a rate of their own.
    pub hardware: Hardware,
    /// How long packets take inside the switch.
    pub timing: Timing,
}

/// How long packets take inside a switch. All zero in a daemon: there the machine takes the time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Timing {
    /// From the arrival of a packet's first byte until it may enter the crossbar, in nanoseconds:
    /// look-up and arbitration (the routing time of MLID04).
    pub routing_delay_ns: u64,
    /// How long a byte takes through the crossbar, in picoseconds; 0 for no time. An input buffer
    /// is freed when the packet's last byte has gone through.
    pub crossbar_ps_per_byte: u64,
}

/// Why a switch cannot be built as asked.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SwitchError {
    /// The number of ports is not 1..=254.
    #[error("{requested} ports: a switch has 1 to {PORTS_MAX}")]
    Ports {
        /// What was asked for.
        requested: u8,
    },
    /// A setting of the ports is out of range.
    #[error(transparent)]
    Port(#[from] ConfigError),
}

impl SwitchConfig {
    /// Checks that a switch can be built like this.
    ///
    /// # Errors
    /// [`SwitchError`]: which setting is out of range.
    pub fn check(&self) -> Result<(), SwitchError> {
        if !(1..=PORTS_MAX).contains(&self.ports) {
            return Err(SwitchError::Ports {
                requested: self.ports,
            });
        }
        Ok(self.port.check()?)
    }
}
