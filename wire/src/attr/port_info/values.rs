//! Values of fields of PortInfo: capabilities, states of a port, numbers of VLs.

use super::bad;
use crate::ParseError;

/// Bits of PortInfo's CapabilityMask.
pub mod capability {
    /// A subnet manager runs on the port.
    pub const IS_SM: u32 = 1 << 1;
    /// Notices are supported.
    pub const IS_NOTICE: u32 = 1 << 2;
    /// Traps are supported.
    pub const IS_TRAP: u32 = 1 << 3;
    /// Automatic path migration is supported.
    pub const IS_AUTOMATIC_MIGRATION: u32 = 1 << 5;
    /// The SL-to-VL table is supported.
    pub const IS_SL_MAPPING: u32 = 1 << 6;
    /// SystemImageGUID is supported.
    pub const IS_SYSTEM_IMAGE_GUID: u32 = 1 << 11;
    /// Speeds from FDR on are supported.
    pub const IS_EXTENDED_SPEEDS: u32 = 1 << 14;
    /// CapabilityMask2 is supported.
    pub const IS_CAPABILITY_MASK2: u32 = 1 << 15;
    /// A communication manager runs on the port.
    pub const IS_COMMUNICATION_MANAGEMENT: u32 = 1 << 16;
    /// A vendor class is supported.
    pub const IS_VENDOR_CLASS: u32 = 1 << 20;
    /// Changes of the capability mask raise trap 144.
    pub const IS_CAPABILITY_MASK_NOTICE: u32 = 1 << 22;
    /// LinkRoundTripLatency is supported.
    pub const IS_LINK_ROUND_TRIP_LATENCY: u32 = 1 << 24;
    /// ClientReregister is supported.
    pub const IS_CLIENT_REREGISTRATION: u32 = 1 << 25;
    /// Other local changes raise trap 144.
    pub const IS_OTHER_LOCAL_CHANGES_NOTICE: u32 = 1 << 26;
    /// MulticastFDBTop of a switch is supported.
    pub const IS_MULTICAST_FDB_TOP: u32 = 1 << 30;
    /// CapabilityMask2: PortInfoExtended is supported.
    pub const IS_PORT_INFO_EXTENDED: u16 = 1 << 1;
    /// CapabilityMask2: the width 2x is supported.
    pub const IS_LINK_WIDTH_2X: u16 = 1 << 4;
    /// CapabilityMask2: the speed HDR is supported.
    pub const IS_LINK_SPEED_HDR: u16 = 1 << 5;
    /// CapabilityMask2: the speed NDR is supported.
    pub const IS_LINK_SPEED_NDR: u16 = 1 << 10;
    /// CapabilityMask2: speeds from XDR on are supported.
    pub const IS_EXTENDED_SPEEDS_2: u16 = 1 << 11;
}

/// Logical state of a port (IBA 7.2.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum PortState {
    /// In a Set: leave as it is.
    NoChange = 0,
    /// No peer.
    Down = 1,
    /// The link is up; only SMPs pass.
    Init = 2,
    /// Configured; data is taken in but not sent.
    Armed = 3,
    /// Everything passes.
    Active = 4,
}

/// Physical state of a port (IBA 5.10).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum PortPhysState {
    /// In a Set: leave as it is.
    NoChange = 0,
    /// Sleeping.
    Sleep = 1,
    /// Looking for a peer.
    Polling = 2,
    /// Switched off.
    Disabled = 3,
    /// Training with a peer.
    ConfigurationTraining = 4,
    /// Up.
    LinkUp = 5,
    /// Recovering from errors.
    ErrorRecovery = 6,
    /// Under test.
    PhyTest = 7,
}

/// How many data VLs: the discriminant is the code of VLCap and OperationalVLs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum VlCount {
    /// VL0.
    One = 1,
    /// VL0 and VL1.
    Two = 2,
    /// VL0 to VL3.
    Four = 3,
    /// VL0 to VL7.
    Eight = 4,
    /// VL0 to VL14.
    Fifteen = 5,
}

impl VlCount {
    /// The count with this code, 1..=5.
    #[must_use]
    pub const fn from_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::One),
            2 => Some(Self::Two),
            3 => Some(Self::Four),
            4 => Some(Self::Eight),
            5 => Some(Self::Fifteen),
            _ => None,
        }
    }

    /// The largest count that needs no more than `vls` data VLs; `None` for 0.
    #[must_use]
    pub const fn at_most(vls: u8) -> Option<Self> {
        match vls {
            0 => None,
            1 => Some(Self::One),
            2 | 3 => Some(Self::Two),
            4..=7 => Some(Self::Four),
            8..=14 => Some(Self::Eight),
            _ => Some(Self::Fifteen),
        }
    }

    /// The specification's code.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// How many data VLs.
    #[must_use]
    pub const fn vls(self) -> u8 {
        match self {
            Self::One => 1,
            Self::Two => 2,
            Self::Four => 4,
            Self::Eight => 8,
            Self::Fifteen => 15,
        }
    }
}

pub(super) fn port_state(code: u8) -> Result<PortState, ParseError> {
    Ok(match code {
        0 => PortState::NoChange,
        1 => PortState::Down,
        2 => PortState::Init,
        3 => PortState::Armed,
        4 => PortState::Active,
        other => return Err(bad("PortInfo:PortState", other)),
    })
}

pub(super) fn port_phys_state(code: u8) -> Result<PortPhysState, ParseError> {
    Ok(match code {
        0 => PortPhysState::NoChange,
        1 => PortPhysState::Sleep,
        2 => PortPhysState::Polling,
        3 => PortPhysState::Disabled,
        4 => PortPhysState::ConfigurationTraining,
        5 => PortPhysState::LinkUp,
        6 => PortPhysState::ErrorRecovery,
        7 => PortPhysState::PhyTest,
        other => return Err(bad("PortInfo:PortPhysicalState", other)),
    })
}

pub(super) fn vl_count(what: &'static str, code: u8) -> Result<Option<VlCount>, ParseError> {
    match (code, VlCount::from_code(code)) {
        (0, _) => Ok(None),
        (_, Some(count)) => Ok(Some(count)),
        (_, None) => Err(bad(what, code)),
    }
}
