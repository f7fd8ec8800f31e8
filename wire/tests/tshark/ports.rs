//! PortInfo, field by field.

use wire::attr::{PortInfo, PortState, VlCount, capability};
use wire::{Lmc, Mtu};

use crate::decode::{Case, judge};
use crate::fixtures;
use crate::subnet::both;

fn port_info() -> PortInfo {
    PortInfo {
        port_state: PortState::Armed,
        lmc: Lmc::constant(5),
        mtu_cap: Some(Mtu::Mtu2048),
        mcast_pkey_trap_suppression: 0,
        ..fixtures::port_info()
    }
}

/// All that tshark 4.0 shows: its layout ends with the round trip latency.
fn with_port_info(case: Case, port: &PortInfo) -> Case {
    let parts = [with_management, with_link, with_vls, with_enforcement];
    parts.into_iter().fold(case, |case, with| with(case, port))
}

/// Keys, LIDs and capabilities.
fn with_management(case: Case, port: &PortInfo) -> Case {
    case.field("infiniband.portinfo.m_key", port.m_key)
        .field("infiniband.portinfo.guid", port.gid_prefix)
        .field("infiniband.portinfo.lid", port.lid.get())
        .field("infiniband.portinfo.mastersmlid", port.master_sm_lid.get())
        .field("infiniband.portinfo.capabilitymask", port.capability_mask)
        .field("infiniband.portinfo.diagcode", port.diag_code)
        .field(
            "infiniband.portinfo.m_keyleaseperiod",
            port.m_key_lease_period,
        )
        .field(
            "infiniband.portinfo.localportnum",
            port.local_port_num.get(),
        )
        .field(
            "infiniband.portinfo.m_keyprotectbits",
            port.m_key_protect_bits,
        )
        .field("infiniband.portinfo.lmc", port.lmc.get())
        .field("infiniband.portinfo.mastersmsl", port.master_sm_sl.get())
        .field("infiniband.portinfo.inittype", port.init_type)
        .field("infiniband.portinfo.inittypereply", port.init_type_reply)
        .field("infiniband.portinfo.guidcap", port.guid_cap)
        .field(
            "infiniband.portinfo.clientreregister",
            port.client_reregister,
        )
}

/// Width, speed and states of the link.
fn with_link(case: Case, port: &PortInfo) -> Case {
    case.field(
        "infiniband.portinfo.linkwidthenabled",
        port.link_width_enabled,
    )
    .field(
        "infiniband.portinfo.linkwidthsupported",
        port.link_width_supported,
    )
    .field(
        "infiniband.portinfo.linkwidthactive",
        port.link_width_active,
    )
    .field(
        "infiniband.portinfo.linkspeedsupported",
        port.link_speed_supported,
    )
    .field(
        "infiniband.portinfo.linkspeedactive",
        port.link_speed_active,
    )
    .field(
        "infiniband.portinfo.linkspeedenabled",
        port.link_speed_enabled,
    )
    .field("infiniband.portinfo.portstate", port.port_state as u8)
    .field(
        "infiniband.portinfo.portphysicalstate",
        port.port_phys_state as u8,
    )
    .field(
        "infiniband.portinfo.linkdowndefaultstate",
        port.link_down_default_state,
    )
    .field("infiniband.portinfo.localphyerrors", port.local_phy_errors)
    .field("infiniband.portinfo.overrunerrors", port.overrun_errors)
    .field("infiniband.portinfo.maxcredithint", port.max_credit_hint)
    .field(
        "infiniband.portinfo.linkroundtriplatency",
        port.link_round_trip_latency,
    )
}

/// MTUs, VLs and arbitration.
fn with_vls(case: Case, port: &PortInfo) -> Case {
    case.field(
        "infiniband.portinfo.neighbormtu",
        port.neighbor_mtu.map_or(0, Mtu::code),
    )
    .field(
        "infiniband.portinfo.mtucap",
        port.mtu_cap.map_or(0, Mtu::code),
    )
    .field(
        "infiniband.portinfo.vlcap",
        port.vl_cap.map_or(0, VlCount::code),
    )
    .field(
        "infiniband.portinfo.operationalvls",
        port.operational_vls.map_or(0, VlCount::code),
    )
    .field("infiniband.portinfo.vlhighlimit", port.vl_high_limit)
    .field(
        "infiniband.portinfo.vlarbitrationhighcap",
        port.vl_arbitration_high_cap,
    )
    .field(
        "infiniband.portinfo.vlarbitrationlowcap",
        port.vl_arbitration_low_cap,
    )
    .field("infiniband.portinfo.vlstallcount", port.vl_stall_count)
    .field("infiniband.portinfo.hoqlife", port.hoq_life)
}

/// Enforcement of partitions, violations and times.
fn with_enforcement(case: Case, port: &PortInfo) -> Case {
    case.field("infiniband.portinfo.partitionenforcementinbound", true)
        .field("infiniband.portinfo.partitionenforcementoutbound", false)
        .field("infiniband.portinfo.filterrawinbound", false)
        .field("infiniband.portinfo.filterrawoutbound", true)
        .field("infiniband.portinfo.m_keyviolations", port.m_key_violations)
        .field("infiniband.portinfo.p_keyviolations", port.p_key_violations)
        .field("infiniband.portinfo.q_keyviolations", port.q_key_violations)
        .field("infiniband.portinfo.subnettimeout", port.subnet_timeout)
        .field("infiniband.portinfo.resptimevalue", port.resp_time_value)
}

#[test]
fn ports() {
    let port = port_info();
    judge(&both(&port, 1).map(|case| with_port_info(case, &port)));
}

#[test]
fn capabilities_have_the_names_that_tshark_knows() {
    let bits = [
        (capability::IS_SM, "issm"),
        (capability::IS_NOTICE, "noticesupported"),
        (capability::IS_TRAP, "trapsupported"),
        (
            capability::IS_AUTOMATIC_MIGRATION,
            "automaticmigrationsupported",
        ),
        (capability::IS_SL_MAPPING, "slmappingsupported"),
        (capability::IS_SYSTEM_IMAGE_GUID, "systemimageguidsupported"),
        (
            capability::IS_COMMUNICATION_MANAGEMENT,
            "communicationmanagementsupported",
        ),
        (capability::IS_VENDOR_CLASS, "vendorclasssupported"),
        (
            capability::IS_CAPABILITY_MASK_NOTICE,
            "capabilitymasknoticesupported",
        ),
        (
            capability::IS_LINK_ROUND_TRIP_LATENCY,
            "linkroundtriplatencysupported",
        ),
        (
            capability::IS_CLIENT_REREGISTRATION,
            "clientregistrationsupported",
        ),
        (
            capability::IS_OTHER_LOCAL_CHANGES_NOTICE,
            "otherlocalchangesnoticesupported",
        ),
    ];
    let cases: Vec<Case> = bits
        .iter()
        .flat_map(|&(set, _)| {
            let port = PortInfo {
                capability_mask: set,
                ..PortInfo::default()
            };
            both(&port, 1).map(|case| {
                bits.iter().fold(case, |case, &(bit, name)| {
                    let name = format!("infiniband.portinfo.capabilitymask.{name}");
                    case.field(name.leak(), bit == set)
                })
            })
        })
        .collect();
    judge(&cases);
}
