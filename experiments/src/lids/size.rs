//! Sizes of random fabrics.

use core::fmt;

use serde::Deserialize;

/// Hosts and switches, written 128/16.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Size {
    /// Hosts, a multiple of the switches.
    pub(super) hosts: u32,
    /// Switches.
    pub(super) switches: u32,
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.hosts, self.switches)
    }
}

impl TryFrom<String> for Size {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let numbers = text
            .split_once('/')
            .and_then(|(hosts, switches)| Some((hosts.parse().ok()?, switches.parse().ok()?)));
        match numbers {
            Some((hosts, switches)) => Ok(Self { hosts, switches }),
            None => Err(format!("{text:?}: hosts/switches, such as 128/16")),
        }
    }
}
