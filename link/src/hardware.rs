//! What a device is: the properties that its management agents report and that no request sets.

use std::collections::{BTreeMap, BTreeSet};

use bincode::{Decode, Encode};
use wire::{Guid, LinkRate, LinkWidth, PortNum};

use crate::PortConfig;

/// The vendor of ibemu's own devices: a locally administered OUI, no vendor's.
const VENDOR_ID: u32 = 0x02_1bed;
/// The device number of ibemu's own devices.
const DEVICE_ID: u16 = 1;

/// What a device says of itself in NodeInfo and NodeDescription (IBA 14.2.5.2, 14.2.5.3), and which of its
/// links run at a rate of their own.
///
/// `Hardware::default()` is ibemu's own device: described by its name, in a box of its own.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Hardware {
    /// Node description; `None`: the device's name.
    pub description: Option<String>,
    /// GUID of the box that holds the device; `None`: the node GUID.
    pub system_image_guid: Option<Guid>,
    /// Vendor, 24 bits (an OUI).
    pub vendor_id: u32,
    /// The vendor's number of the device.
    pub device_id: u16,
    /// Whether an end node is a router (NodeType 3).
    pub is_router: bool,
    /// Whether a switch has an enhanced port 0 (SwitchInfo:EnhancedPort0).
    pub enhanced_port0: bool,
    /// GUIDs of an end node's ports other than node GUID + port number, by port.
    pub port_guids: BTreeMap<u8, Guid>,
    /// Width and speed of links that do not run at [`PortConfig::rate`], by port.
    pub rates: BTreeMap<u8, LinkRate>,
    /// Ports that are switched off when the device starts (PortPhysicalState Disabled).
    pub disabled_ports: BTreeSet<u8>,
}

impl Default for Hardware {
    fn default() -> Self {
        Self {
            description: None,
            system_image_guid: None,
            vendor_id: VENDOR_ID,
            device_id: DEVICE_ID,
            is_router: false,
            enhanced_port0: false,
            port_guids: BTreeMap::new(),
            rates: BTreeMap::new(),
            disabled_ports: BTreeSet::new(),
        }
    }
}

impl Hardware {
    /// The configuration of port `number` of a device whose ports are built like `common`.
    #[must_use]
    pub fn port_config(&self, number: PortNum, common: PortConfig) -> PortConfig {
        let own = self.rates.get(&number.get()).copied();
        PortConfig {
            rate: own.unwrap_or(common.rate),
            is_enabled: common.is_enabled && !self.disabled_ports.contains(&number.get()),
            ..common
        }
    }

    /// The greatest width and speed that the device's ports support. A description of a fabric has at
    /// which rates links run, not what their ports could do: a device supports what the best of its links
    /// shows, and at least 4x. So a link at 1x, or slower than its neighbours, shows as degraded.
    #[must_use]
    pub fn supported(&self, common: LinkRate) -> LinkRate {
        let widths = self.rates.values().map(|rate| rate.width);
        let speeds = self.rates.values().map(|rate| rate.speed);
        LinkRate {
            width: match widths.max_by_key(|width| width.lanes()) {
                None => common.width,
                Some(width) if width.lanes() < LinkWidth::X4.lanes() => LinkWidth::X4,
                Some(width) => width,
            },
            speed: speeds.max().unwrap_or(common.speed),
        }
    }

    /// The description of the device called `name`.
    #[must_use]
    pub fn description(&self, name: &str) -> String {
        self.description.clone().unwrap_or_else(|| name.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use wire::LinkSpeed;

    use super::*;

    const fn rate(width: LinkWidth, speed: LinkSpeed) -> LinkRate {
        LinkRate { width, speed }
    }

    #[test]
    fn a_device_supports_what_its_best_link_shows_and_at_least_4x() {
        let common = rate(LinkWidth::X4, LinkSpeed::Qdr);
        let mut hardware = Hardware::default();
        assert_eq!(hardware.supported(common), common);
        let slow = rate(LinkWidth::X1, LinkSpeed::Sdr);
        hardware.rates.insert(2, slow);
        let best = rate(LinkWidth::X4, LinkSpeed::Sdr);
        assert_eq!(hardware.supported(common), best);
        hardware
            .rates
            .insert(3, rate(LinkWidth::X2, LinkSpeed::Hdr));
        assert_eq!(
            hardware.supported(common),
            rate(LinkWidth::X4, LinkSpeed::Hdr)
        );
        let config = PortConfig {
            rate: common,
            ..PortConfig::default()
        };
        let of = |port| hardware.port_config(PortNum::new(port), config).rate;
        assert_eq!([of(1), of(2)], [common, slow]);
    }
}
