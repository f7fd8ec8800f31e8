//! The kinds of faults.

use std::str::FromStr;

use strum::{EnumMessage, IntoStaticStr, VariantArray};
use wire::choice::Choice as _;

/// What goes wrong. A killed process is sent SIGKILL, a stopped one SIGSTOP.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, EnumMessage, IntoStaticStr, VariantArray,
)]
#[strum(serialize_all = "kebab-case")]
pub enum FaultKind {
    /// A switch is killed; taken back by `ibemu restart`.
    SwitchKill,
    /// A host is killed, perhaps one beside which a controller runs; taken back by `ibemu restart`.
    HostKill,
    /// The master's controller is killed; taken back by `ibemu restart`.
    ControllerKill,
    /// A controller in standby is killed; taken back by `ibemu restart`.
    StandbyKill,
    /// The supervisor is killed; taken back as any verb does that needs one: it starts the next.
    SupervisorKill,
    /// A switch is stopped, so that it answers nothing; taken back by SIGCONT.
    SwitchStop,
    /// A host is stopped; taken back by SIGCONT.
    HostStop,
    /// The master's controller is stopped; taken back by SIGCONT.
    ControllerStop,
    /// `ibemu restart` of a switch, which leaves in order.
    SwitchRestart,
    /// `ibemu restart` of a host.
    HostRestart,
    /// `ibemu restart` of the master's controller.
    ControllerRestart,
    /// A cable is pulled (`ibemu link down`); taken back by `ibemu link up`.
    CablePull,
    /// Two to four cables are pulled at once.
    CablesPull,
    /// A cable is pulled and plugged three times, one after the other.
    CableBounce,
}
wire::choice!(FaultKind, "kind of fault");

impl FaultKind {
    /// Whether it is over as soon as it is done: nothing is left to take back.
    #[must_use]
    pub fn is_passing(self) -> bool {
        matches!(
            self,
            Self::SwitchRestart | Self::HostRestart | Self::ControllerRestart | Self::CableBounce
        )
    }

    /// Whether packets between hosts are none of its business: it may lose none of them.
    #[must_use]
    pub fn spares_packets(self) -> bool {
        matches!(
            self,
            Self::ControllerKill
                | Self::StandbyKill
                | Self::SupervisorKill
                | Self::ControllerStop
                | Self::ControllerRestart
        )
    }

    /// Whether it ends a switch or host, whose counts go with it.
    #[must_use]
    pub fn ends_a_device(self) -> bool {
        matches!(
            self,
            Self::SwitchKill | Self::HostKill | Self::SwitchRestart | Self::HostRestart
        )
    }
}

/// Kinds with commas between them, each once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultKinds(pub Vec<FaultKind>);

impl FromStr for FaultKinds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut kinds = Vec::new();
        for name in text.split(',') {
            let kind = FaultKind::from_name(name.trim()).map_err(|error| error.to_string())?;
            if kinds.contains(&kind) {
                return Err(format!("{kind} is named twice"));
            }
            kinds.push(kind);
        }
        Ok(Self(kinds))
    }
}

impl std::fmt::Display for FaultKinds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.0.iter().map(|kind| kind.name()).collect();
        f.write_str(&names.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_read_back_and_are_named_once() {
        let all = FaultKinds(FaultKind::VARIANTS.to_vec());
        assert_eq!(all.to_string().parse(), Ok(all));
        assert!("cable-pull,cable-pull".parse::<FaultKinds>().is_err());
        let unknown = "cable-cut".parse::<FaultKinds>().unwrap_err();
        assert!(unknown.contains("cable-pull"), "{unknown}");
    }
}
