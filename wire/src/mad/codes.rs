//! Numbers in the header of a management datagram: class, method, attribute, status.

use core::fmt;

use bincode::{Decode, Encode};

/// A management class (IBA 13.4.4).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub struct MgmtClass(pub u8);

impl MgmtClass {
    /// Subnet management, LID routed.
    pub const SUBN_LID: Self = Self(0x01);
    /// Subnet management, directed route.
    pub const SUBN_DIR: Self = Self(0x81);
    /// Subnet administration.
    pub const SUBN_ADM: Self = Self(0x03);
    /// Performance management.
    pub const PERF: Self = Self(0x04);
    /// Baseboard management.
    pub const BM: Self = Self(0x05);
    /// Device management.
    pub const DEV_MGT: Self = Self(0x06);
    /// Communication management.
    pub const COMM: Self = Self(0x07);
    /// Device administration.
    pub const DEV_ADM: Self = Self(0x10);
    /// Boot information service.
    pub const BIS: Self = Self(0x12);
    /// Congestion control.
    pub const CONGESTION: Self = Self(0x21);
    /// First vendor class with an OUI (range 2: 0x30..=0x4f).
    pub const VENDOR2_FIRST: Self = Self(0x30);
    /// Last vendor class with an OUI.
    pub const VENDOR2_LAST: Self = Self(0x4f);

    /// Whether a vendor's datagrams of this class name the vendor by an OUI.
    #[must_use]
    pub const fn has_oui(self) -> bool {
        Self::VENDOR2_FIRST.0 <= self.0 && self.0 <= Self::VENDOR2_LAST.0
    }

    /// Whether datagrams of this class are SMPs: QP0, VL15.
    #[must_use]
    pub const fn is_subnet_management(self) -> bool {
        self.0 & 0x7f == 0x01
    }
}

/// The method of a datagram (IBA 13.4.5). The top bit is R: a response.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub struct Method(pub u8);

impl Method {
    /// Request of an attribute.
    pub const GET: Self = Self(0x01);
    /// Change of an attribute.
    pub const SET: Self = Self(0x02);
    /// Datagram without answer.
    pub const SEND: Self = Self(0x03);
    /// Event report from an agent.
    pub const TRAP: Self = Self(0x05);
    /// Event report to a subscriber.
    pub const REPORT: Self = Self(0x06);
    /// Ends the repetition of a trap.
    pub const TRAP_REPRESS: Self = Self(0x07);
    /// Answer to Get and Set.
    pub const GET_RESP: Self = Self(0x81);
    /// Answer to Report.
    pub const REPORT_RESP: Self = Self(0x86);
    /// Request of a table (SA).
    pub const GET_TABLE: Self = Self(0x12);
    /// Request of a path trace table (SA).
    pub const GET_TRACE_TABLE: Self = Self(0x13);
    /// Request with several attributes (SA).
    pub const GET_MULTI: Self = Self(0x14);
    /// Removal of a record (SA).
    pub const DELETE: Self = Self(0x15);
    /// Answer to GetTable (SA).
    pub const GET_TABLE_RESP: Self = Self(0x92);
    /// Answer to GetMulti (SA).
    pub const GET_MULTI_RESP: Self = Self(0x94);
    /// Answer to Delete (SA).
    pub const DELETE_RESP: Self = Self(0x95);

    /// Whether this is a response.
    #[must_use]
    pub const fn is_response(self) -> bool {
        self.0 & 0x80 != 0
    }

    /// Whether this asks for a response: neither a response nor a datagram without one, nor a trap or
    /// report, which only their addressees answer.
    #[must_use]
    pub const fn is_request(self) -> bool {
        let is_notice = matches!(self, Self::TRAP | Self::REPORT | Self::TRAP_REPRESS);
        !(self.is_response() || is_notice || matches!(self, Self::SEND))
    }

    /// The method of the response to a request.
    #[must_use]
    pub const fn response(self) -> Self {
        match self {
            Self::SET => Self::GET_RESP,
            method => Self(method.0 | 0x80),
        }
    }
}

/// Which attribute a datagram carries; its meaning depends on the class (IBA 14.2.5, 15.2.5, 16.1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub struct AttributeId(pub u16);

impl AttributeId {
    /// ClassPortInfo, every class but subnet management.
    pub const CLASS_PORT_INFO: Self = Self(0x0001);
    /// Notice.
    pub const NOTICE: Self = Self(0x0002);
    /// InformInfo.
    pub const INFORM_INFO: Self = Self(0x0003);

    /// Subnet management: NodeDescription.
    pub const NODE_DESCRIPTION: Self = Self(0x0010);
    /// Subnet management: NodeInfo.
    pub const NODE_INFO: Self = Self(0x0011);
    /// Subnet management: SwitchInfo.
    pub const SWITCH_INFO: Self = Self(0x0012);
    /// Subnet management: GUIDInfo.
    pub const GUID_INFO: Self = Self(0x0014);
    /// Subnet management: PortInfo.
    pub const PORT_INFO: Self = Self(0x0015);
    /// Subnet management: P_KeyTable.
    pub const PKEY_TABLE: Self = Self(0x0016);
    /// Subnet management: SLtoVLMappingTable.
    pub const SL_TO_VL_TABLE: Self = Self(0x0017);
    /// Subnet management: VLArbitrationTable.
    pub const VL_ARB_TABLE: Self = Self(0x0018);
    /// Subnet management: LinearForwardingTable.
    pub const LINEAR_FORWARDING_TABLE: Self = Self(0x0019);
    /// Subnet management: RandomForwardingTable.
    pub const RANDOM_FORWARDING_TABLE: Self = Self(0x001a);
    /// Subnet management: MulticastForwardingTable.
    pub const MULTICAST_FORWARDING_TABLE: Self = Self(0x001b);
    /// Subnet management: SMInfo.
    pub const SM_INFO: Self = Self(0x0020);
    /// Subnet management: PortInfoExtended.
    pub const PORT_INFO_EXTENDED: Self = Self(0x0033);
    /// Subnet management, of one vendor: ExtendedPortInfo, which distinguishes FDR10 from QDR.
    pub const EXTENDED_PORT_INFO: Self = Self(0xff90);
    /// Subnet management: VendorDiag.
    pub const VENDOR_DIAG: Self = Self(0x0030);
    /// Subnet management: LedInfo.
    pub const LED_INFO: Self = Self(0x0031);

    /// Performance management: PortSamplesControl.
    pub const PORT_SAMPLES_CONTROL: Self = Self(0x0010);
    /// Performance management: PortSamplesResult.
    pub const PORT_SAMPLES_RESULT: Self = Self(0x0011);
    /// Performance management: PortCounters.
    pub const PORT_COUNTERS: Self = Self(0x0012);
    /// Performance management: PortRcvErrorDetails.
    pub const PORT_RCV_ERROR_DETAILS: Self = Self(0x0015);
    /// Performance management: PortXmitDiscardDetails.
    pub const PORT_XMIT_DISCARD_DETAILS: Self = Self(0x0016);
    /// Performance management: PortCountersExtended.
    pub const PORT_COUNTERS_EXTENDED: Self = Self(0x001d);
    /// Performance management: PortExtendedSpeedsCounters.
    pub const PORT_EXTENDED_SPEEDS_COUNTERS: Self = Self(0x001f);

    /// Congestion control: CongestionInfo.
    pub const CONGESTION_INFO: Self = Self(0x0011);
    /// Congestion control: CongestionKeyInfo.
    pub const CONGESTION_KEY_INFO: Self = Self(0x0012);
    /// Congestion control: CongestionLog.
    pub const CONGESTION_LOG: Self = Self(0x0013);
    /// Congestion control: SwitchCongestionSetting.
    pub const SWITCH_CONGESTION_SETTING: Self = Self(0x0014);
    /// Congestion control: SwitchPortCongestionSetting.
    pub const SWITCH_PORT_CONGESTION_SETTING: Self = Self(0x0015);
    /// Congestion control: CACongestionSetting.
    pub const CA_CONGESTION_SETTING: Self = Self(0x0016);
    /// Congestion control: CongestionControlTable.
    pub const CONGESTION_CONTROL_TABLE: Self = Self(0x0017);
    /// Congestion control: Timestamp.
    pub const CONGESTION_TIMESTAMP: Self = Self(0x0018);

    /// Subnet administration: NodeRecord.
    pub const NODE_RECORD: Self = Self(0x0011);
    /// Subnet administration: PortInfoRecord.
    pub const PORT_INFO_RECORD: Self = Self(0x0012);
    /// Subnet administration: SLtoVLMappingTableRecord.
    pub const SL_TO_VL_TABLE_RECORD: Self = Self(0x0013);
    /// Subnet administration: SwitchInfoRecord.
    pub const SWITCH_INFO_RECORD: Self = Self(0x0014);
    /// Subnet administration: LinearForwardingTableRecord.
    pub const LINEAR_FORWARDING_TABLE_RECORD: Self = Self(0x0015);
    /// Subnet administration: MulticastForwardingTableRecord.
    pub const MULTICAST_FORWARDING_TABLE_RECORD: Self = Self(0x0017);
    /// Subnet administration: SMInfoRecord.
    pub const SM_INFO_RECORD: Self = Self(0x0018);
    /// Subnet administration: InformInfoRecord.
    pub const INFORM_INFO_RECORD: Self = Self(0x00f3);
    /// Subnet administration: LinkRecord.
    pub const LINK_RECORD: Self = Self(0x0020);
    /// Subnet administration: GuidInfoRecord.
    pub const GUID_INFO_RECORD: Self = Self(0x0030);
    /// Subnet administration: ServiceRecord.
    pub const SERVICE_RECORD: Self = Self(0x0031);
    /// Subnet administration: P_KeyTableRecord.
    pub const PKEY_TABLE_RECORD: Self = Self(0x0033);
    /// Subnet administration: PathRecord.
    pub const PATH_RECORD: Self = Self(0x0035);
    /// Subnet administration: VLArbitrationTableRecord.
    pub const VL_ARB_TABLE_RECORD: Self = Self(0x0036);
    /// Subnet administration: MCMemberRecord.
    pub const MC_MEMBER_RECORD: Self = Self(0x0038);
    /// Subnet administration: MultiPathRecord.
    pub const MULTI_PATH_RECORD: Self = Self(0x003a);
}

/// How a request went (IBA 13.4.7). In a directed-route SMP the top bit is the direction instead.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub struct MadStatus(pub u16);

impl MadStatus {
    /// No error.
    pub const OK: Self = Self(0x0000);
    /// Busy: discarded, try again.
    pub const BUSY: Self = Self(0x0001);
    /// Redirection required.
    pub const REDIRECT: Self = Self(0x0002);
    /// Base or class version not supported.
    pub const BAD_VERSION: Self = Self(0x0004);
    /// Method not supported.
    pub const BAD_METHOD: Self = Self(0x0008);
    /// Method and attribute do not go together.
    pub const BAD_METHOD_ATTRIBUTE: Self = Self(0x000c);
    /// A field of the attribute or its modifier is invalid.
    pub const BAD_FIELD: Self = Self(0x001c);
    /// SA: no resources.
    pub const SA_NO_RESOURCES: Self = Self(0x0100);
    /// SA: the request is invalid.
    pub const SA_REQUEST_INVALID: Self = Self(0x0200);
    /// SA: no record matches.
    pub const SA_NO_RECORDS: Self = Self(0x0300);
    /// SA: more than one record matches a Get.
    pub const SA_TOO_MANY_RECORDS: Self = Self(0x0400);
    /// SA: the requester's GID is invalid.
    pub const SA_INVALID_GID: Self = Self(0x0500);
    /// SA: components that the method needs are missing.
    pub const SA_INSUFFICIENT_COMPONENTS: Self = Self(0x0600);
    /// SA: denied.
    pub const SA_DENIED: Self = Self(0x0700);

    /// The status without the direction bit of a directed-route SMP.
    #[must_use]
    pub const fn without_direction(self) -> Self {
        Self(self.0 & 0x7fff)
    }
}

macro_rules! show_as_hex {
    ($($name:ident $format:literal),*) => {
        $(impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "(", $format, ")"), self.0)
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, $format, self.0)
            }
        })*
    };
}
show_as_hex!(MgmtClass "{:#04x}", Method "{:#04x}", AttributeId "{:#06x}", MadStatus "{:#06x}");
