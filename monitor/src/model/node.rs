//! Nodes and their ports as subnet administration describes them.

use core::ops::Range;

use serde::{Deserialize, Serialize};
use strum::{EnumMessage, IntoStaticStr, VariantArray};
use wire::attr::{PortPhysState, PortState as WireState};
use wire::{LinkRate, LinkSpeed, LinkWidth};

/// What a node is.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, EnumMessage, IntoStaticStr, VariantArray,
)]
#[strum(serialize_all = "lowercase")]
pub enum NodeKind {
    /// A switch.
    Switch,
    /// A channel adapter.
    Host,
    /// A router.
    Router,
}
wire::choice!(NodeKind, "kind of node");

/// Logical state of a port (IBA 7.2.7).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, EnumMessage, IntoStaticStr, VariantArray,
)]
#[strum(serialize_all = "lowercase")]
pub enum PortState {
    /// Nobody has told it.
    Unknown,
    /// No peer.
    Down,
    /// The link is up; only SMPs pass.
    Init,
    /// Configured; data is taken in but not sent.
    Armed,
    /// Everything passes.
    Active,
}
wire::choice!(PortState, "port state");

impl From<WireState> for PortState {
    fn from(state: WireState) -> Self {
        match state {
            WireState::NoChange => Self::Unknown,
            WireState::Down => Self::Down,
            WireState::Init => Self::Init,
            WireState::Armed => Self::Armed,
            WireState::Active => Self::Active,
        }
    }
}

/// Physical state of a port (IBA 5.10).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, EnumMessage, IntoStaticStr, VariantArray,
)]
#[strum(serialize_all = "kebab-case")]
pub enum PhysicalState {
    /// Nobody has told it.
    Unknown,
    /// Sleeping.
    Sleep,
    /// Looking for a peer.
    Polling,
    /// Switched off.
    Disabled,
    /// Training with a peer.
    Training,
    /// Up.
    LinkUp,
    /// Recovering from errors.
    Recovery,
    /// Physical test.
    PhyTest,
}
wire::choice!(PhysicalState, "physical state");

impl From<PortPhysState> for PhysicalState {
    fn from(state: PortPhysState) -> Self {
        match state as u8 {
            1 => Self::Sleep,
            2 => Self::Polling,
            3 => Self::Disabled,
            4 => Self::Training,
            5 => Self::LinkUp,
            6 => Self::Recovery,
            7 => Self::PhyTest,
            _ => Self::Unknown,
        }
    }
}

/// A device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Node GUID; in JSON, as the other GUIDs, text: `0x` and 16 hexadecimal digits.
    #[serde(with = "super::guid_text")]
    pub guid: u64,
    /// GUID that all nodes of one box share.
    #[serde(with = "super::guid_text")]
    pub system_image_guid: u64,
    /// Node description.
    pub name: String,
    /// What it is.
    pub kind: NodeKind,
    /// Vendor, 24 bits.
    pub vendor_id: u32,
    /// The vendor's number of the device.
    pub device_id: u16,
    /// Device revision.
    pub revision: u32,
    /// Base LID: of a switch that of port 0, else that of its first port which has one; 0 without.
    pub lid: u16,
    /// Whether subnet administration knows it now.
    pub is_present: bool,
    /// The place of its first port among [`Fabric::ports`](super::Fabric::ports).
    pub first_port: usize,
    /// How many ports it has; of a switch port 0 counts.
    pub port_count: usize,
}

impl Node {
    /// The places of its ports.
    #[must_use]
    pub fn places(&self) -> Range<usize> {
        self.first_port..self.first_port.saturating_add(self.port_count)
    }
}

/// A port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Port {
    /// The place of its node.
    pub node: usize,
    /// Its number; 0 is a switch's management port.
    pub number: u8,
    /// Port GUID; of a switch that of the node.
    #[serde(with = "super::guid_text")]
    pub guid: u64,
    /// LID that it is addressed by: of a switch's port that of port 0; 0 without.
    pub lid: u16,
    /// LID mask control.
    pub lmc: u8,
    /// Logical state.
    pub state: PortState,
    /// Physical state.
    pub physical_state: PhysicalState,
    /// Width in use.
    pub width: Option<LinkWidth>,
    /// Speed in use.
    pub speed: Option<LinkSpeed>,
    /// MTU in use, bytes; 0 if unknown.
    pub mtu: u16,
    /// Data VLs in use; 0 if unknown.
    pub vls: u8,
    /// The place of the port at the other end of its cable.
    pub peer: Option<usize>,
}

impl Port {
    /// Data rate without the line code, bits a second; 0 where width and speed are unknown or there is no link.
    #[must_use]
    pub fn data_bits_per_s(&self) -> u64 {
        self.rate().map_or(0, LinkRate::data_rate_bits_per_s)
    }

    /// Rate of symbols on the wire, bits a second: with the line code.
    #[must_use]
    pub fn raw_bits_per_s(&self) -> u64 {
        let rate = self.rate();
        rate.map_or(0, |rate| {
            lane_raw_bits_per_s(rate.speed) * u64::from(rate.width.lanes())
        })
    }

    fn rate(&self) -> Option<LinkRate> {
        let has_link = self.state > PortState::Down && self.number != 0;
        Some(LinkRate {
            width: self.width.filter(|_| has_link)?,
            speed: self.speed?,
        })
    }
}

/// The signalling rate of a lane (IBA 14.2.5.6).
const fn lane_raw_bits_per_s(speed: LinkSpeed) -> u64 {
    match speed {
        LinkSpeed::Sdr => 2_500_000_000,
        LinkSpeed::Ddr => 5_000_000_000,
        LinkSpeed::Qdr => 10_000_000_000,
        LinkSpeed::Fdr10 => 10_312_500_000,
        LinkSpeed::Fdr => 14_062_500_000,
        LinkSpeed::Edr => 25_781_250_000,
        LinkSpeed::Hdr => 53_125_000_000,
        LinkSpeed::Ndr => 106_250_000_000,
        LinkSpeed::Xdr => 212_500_000_000,
    }
}
