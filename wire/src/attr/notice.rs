//! Notice: an event that an agent reports (IBA 13.4.8.2, 14.2.5.1).
//!
//! ```text
//! +-+-------------+-----------------------------------------------+
//! |G|    Type     |                 ProducerType                  |
//! +-+-------------+---------------+-------------------------------+
//! |          TrapNumber           |           IssuerLID           |
//! +-+-----------------------------+-------------------------------+
//! |T|            Count            |       DataDetails (54)        |
//! +-+-----------------------------+-------------------------------+
//! ```
//! A vendor's notice (G = 0) has VendorID and DeviceID for ProducerType and TrapNumber.

use crate::attr::{Attribute, Trap256, Trap257, Trap259};
use crate::format::{
    array, put, put_u16, put_u24, put_u32, put_u64, u16_at, u24_at, u32_at, u64_at,
};
use crate::mad::AttributeId;
use crate::{Format, Gid, Guid, Lid, ParseError, PortNum};

/// Numbers of generic traps (IBA 14.2.5.1).
pub mod trap {
    /// A GID is in service.
    pub const GID_IN_SERVICE: u16 = 64;
    /// A GID is out of service.
    pub const GID_OUT_OF_SERVICE: u16 = 65;
    /// A multicast group was created.
    pub const MULTICAST_GROUP_CREATED: u16 = 66;
    /// A multicast group was deleted.
    pub const MULTICAST_GROUP_DELETED: u16 = 67;
    /// A port of a switch changed its link state.
    pub const LINK_STATE_CHANGE: u16 = 128;
    /// Local link integrity threshold reached.
    pub const LINK_INTEGRITY: u16 = 129;
    /// Excessive buffer overruns.
    pub const BUFFER_OVERRUN: u16 = 130;
    /// The flow-control watchdog expired.
    pub const FLOW_CONTROL_WATCHDOG: u16 = 131;
    /// Capability mask, node description or other local settings changed.
    pub const CAPABILITY_CHANGE: u16 = 144;
    /// The system image GUID changed.
    pub const SYSTEM_IMAGE_GUID_CHANGE: u16 = 145;
    /// Bad M_Key.
    pub const BAD_M_KEY: u16 = 256;
    /// Bad P_Key.
    pub const BAD_P_KEY: u16 = 257;
    /// Bad Q_Key.
    pub const BAD_Q_KEY: u16 = 258;
    /// Bad P_Key at an external port of a switch.
    pub const BAD_P_KEY_SWITCH: u16 = 259;
}

/// An event that an agent reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Notice {
    /// Whether the specification defines this notice; else a vendor does.
    pub is_generic: bool,
    /// Severity: 0 fatal, 1 urgent, 2 security, 3 subnet management, 4 informational, 0x7f empty;
    /// 7 bits (emitting drops higher ones).
    pub notice_type: u8,
    /// Generic: node type of the producer, 4 for a class manager; vendor: its OUI. 24 bits
    /// (emitting drops higher ones).
    pub producer_type: u32,
    /// Generic: trap number; vendor: device id.
    pub trap_number: u16,
    /// LID of the reporting port.
    pub issuer_lid: Lid,
    /// Alternates with each notice that is cleared.
    pub toggle: bool,
    /// Notices waiting, 15 bits (emitting drops higher ones).
    pub count: u16,
    /// Details, by trap number.
    pub details: [u8; 54],
}

impl Notice {
    /// The length in bytes, as a constant for array types.
    pub const LEN: usize = 64;
    /// Severity: fatal.
    pub const TYPE_FATAL: u8 = 0;
    /// Severity: urgent.
    pub const TYPE_URGENT: u8 = 1;
    /// Severity: security.
    pub const TYPE_SECURITY: u8 = 2;
    /// Severity: subnet management.
    pub const TYPE_SUBNET_MANAGEMENT: u8 = 3;
    /// Severity: informational.
    pub const TYPE_INFORMATIONAL: u8 = 4;
    /// There is no notice.
    pub const TYPE_EMPTY: u8 = 0x7f;
    /// Producer: a channel adapter.
    pub const PRODUCER_CHANNEL_ADAPTER: u32 = 1;
    /// Producer: a switch.
    pub const PRODUCER_SWITCH: u32 = 2;
    /// Producer: a class manager.
    pub const PRODUCER_CLASS_MANAGER: u32 = 4;

    /// Trap 128: the switch with this LID has a port whose link state changed.
    #[must_use]
    pub fn link_state_change(lid: Lid) -> Self {
        let mut details = [0; 54];
        TrapLid { lid }.emit(&mut details);
        Self {
            is_generic: true,
            notice_type: Self::TYPE_URGENT,
            producer_type: Self::PRODUCER_SWITCH,
            trap_number: trap::LINK_STATE_CHANGE,
            issuer_lid: lid,
            toggle: false,
            count: 0,
            details,
        }
    }

    /// Trap 256: the port with this LID was sent a request without the right M_Key.
    #[must_use]
    pub fn bad_m_key(producer_type: u32, lid: Lid, request: &Trap256) -> Self {
        let mut details = [0; 54];
        request.emit(&mut details);
        Self {
            is_generic: true,
            notice_type: Self::TYPE_SECURITY,
            producer_type,
            trap_number: trap::BAD_M_KEY,
            issuer_lid: lid,
            toggle: false,
            count: 0,
            details,
        }
    }

    /// Trap 257 or 258 (`number`): the port with this LID was sent a packet with a P_Key or Q_Key that
    /// it does not take.
    #[must_use]
    pub fn bad_packet_key(number: u16, producer_type: u32, lid: Lid, packet: &Trap257) -> Self {
        let mut details = [0; 54];
        packet.emit(&mut details);
        Self {
            is_generic: true,
            notice_type: Self::TYPE_SECURITY,
            producer_type,
            trap_number: number,
            issuer_lid: lid,
            toggle: false,
            count: 0,
            details,
        }
    }

    /// Trap 259: a packet with a P_Key that a port of the switch with this LID does not let through.
    #[must_use]
    pub fn bad_p_key_at_switch(lid: Lid, packet: &Trap259) -> Self {
        let mut details = [0; 54];
        packet.emit(&mut details);
        Self {
            is_generic: true,
            notice_type: Self::TYPE_SECURITY,
            producer_type: Self::PRODUCER_SWITCH,
            trap_number: trap::BAD_P_KEY_SWITCH,
            issuer_lid: lid,
            toggle: false,
            count: 0,
            details,
        }
    }

    /// Trap 144: local settings of a port changed.
    #[must_use]
    pub fn local_change(producer_type: u32, change: Trap144) -> Self {
        let mut details = [0; 54];
        change.emit(&mut details);
        Self {
            is_generic: true,
            notice_type: Self::TYPE_INFORMATIONAL,
            producer_type,
            trap_number: trap::CAPABILITY_CHANGE,
            issuer_lid: change.lid,
            toggle: false,
            count: 0,
            details,
        }
    }
}

impl Format for Notice {
    const NAME: &'static str = "Notice";
    const LEN: usize = Self::LEN;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self {
            is_generic: raw[0] & 0x80 != 0,
            notice_type: raw[0] & 0x7f,
            producer_type: u24_at(raw, 1),
            trap_number: u16_at(raw, 4),
            issuer_lid: Lid::new(u16_at(raw, 6)),
            toggle: raw[8] & 0x80 != 0,
            count: u16_at(raw, 8) & 0x7fff,
            details: array(raw, 10),
        })
    }

    fn write(&self, raw: &mut [u8]) {
        raw[0] = (u8::from(self.is_generic) << 7) | (self.notice_type & 0x7f);
        put_u24(raw, 1, self.producer_type);
        put_u16(raw, 4, self.trap_number);
        put_u16(raw, 6, self.issuer_lid.get());
        put_u16(
            raw,
            8,
            (u16::from(self.toggle) << 15) | (self.count & 0x7fff),
        );
        put(raw, 10, self.details);
    }
}

impl Attribute for Notice {
    const ID: AttributeId = AttributeId::NOTICE;
}

/// Details of trap 128: the LID of the switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TrapLid {
    /// The LID.
    pub lid: Lid,
}

impl Format for TrapLid {
    const NAME: &'static str = "details of trap 128";
    const LEN: usize = 2;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self {
            lid: Lid::new(u16_at(raw, 0)),
        })
    }

    fn write(&self, raw: &mut [u8]) {
        put_u16(raw, 0, self.lid.get());
    }
}

/// Details of traps 129 to 131: the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TrapPort {
    /// The LID of the port; of a switch's port that of the switch.
    pub lid: Lid,
    /// Its number.
    pub port: PortNum,
}

impl Format for TrapPort {
    const NAME: &'static str = "details of traps 129 to 131";
    const LEN: usize = 5;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self {
            lid: Lid::new(u16_at(raw, 2)),
            port: PortNum::new(raw[4]),
        })
    }

    fn write(&self, raw: &mut [u8]) {
        put_u16(raw, 2, self.lid.get());
        raw[4] = self.port.get();
    }
}

/// Details of trap 145: the system image GUID that a node has now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Trap145 {
    /// The port that tells it.
    pub lid: Lid,
    /// The GUID.
    pub system_image_guid: Guid,
}

impl Format for Trap145 {
    const NAME: &'static str = "details of trap 145";
    const LEN: usize = 14;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self {
            lid: Lid::new(u16_at(raw, 2)),
            system_image_guid: Guid(u64_at(raw, 6)),
        })
    }

    fn write(&self, raw: &mut [u8]) {
        put_u16(raw, 2, self.lid.get());
        put_u64(raw, 6, self.system_image_guid.0);
    }
}

/// Details of traps 64 to 67: the GID in question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TrapGid {
    /// The GID.
    pub gid: Gid,
}

impl Format for TrapGid {
    const NAME: &'static str = "details of traps 64 to 67";
    const LEN: usize = 22;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self {
            gid: Gid(array(raw, 6)),
        })
    }

    fn write(&self, raw: &mut [u8]) {
        put(raw, 6, self.gid.0);
    }
}

/// Details of trap 144: what changed at a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Trap144 {
    /// The port.
    pub lid: Lid,
    /// Whether something else than the capability mask changed, as `change_flags` says.
    pub other_local_changes: bool,
    /// The port's capability mask now.
    pub capability_mask: u32,
    /// Which other things changed: bits named below.
    pub change_flags: u16,
}

impl Trap144 {
    /// Change flag: the node description.
    pub const NODE_DESCRIPTION_CHANGE: u16 = 0x0001;
    /// Change flag: LinkWidthEnabled.
    pub const LINK_WIDTH_ENABLED_CHANGE: u16 = 0x0002;
    /// Change flag: LinkSpeedEnabled.
    pub const LINK_SPEED_ENABLED_CHANGE: u16 = 0x0004;
    /// Change flag: the priority of the port's subnet manager.
    pub const SM_PRIORITY_CHANGE: u16 = 0x0008;
}

impl Format for Trap144 {
    const NAME: &'static str = "details of trap 144";
    const LEN: usize = 12;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self {
            lid: Lid::new(u16_at(raw, 2)),
            other_local_changes: raw[5] & 1 != 0,
            capability_mask: u32_at(raw, 6),
            change_flags: u16_at(raw, 10),
        })
    }

    fn write(&self, raw: &mut [u8]) {
        put_u16(raw, 2, self.lid.get());
        raw[5] = u8::from(self.other_local_changes);
        put_u32(raw, 6, self.capability_mask);
        put_u16(raw, 10, self.change_flags);
    }
}
