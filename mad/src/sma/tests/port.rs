use link::PortState as Now;
use wire::attr::{
    ExtendedPortInfo, FecModes, NodeInfo, PortInfo, PortInfoExtended, PortPhysState, PortState,
    VlCount, capability,
};
use wire::mad::MadStatus;
use wire::{Lid, LinkRates, Lmc, Mtu, Sl};

use super::super::*;
use super::fake::{Bench, Fake, port};

const BAD: Result<PortInfo, MadStatus> = Err(MadStatus::BAD_FIELD);

fn lid(number: u16) -> Lid {
    Lid::new(number)
}

/// The port's PortInfo with the states left as they are.
fn unchanged(bench: &mut Bench, port: u32) -> PortInfo {
    let mut info: PortInfo = bench.get(port);
    info.port_state = PortState::NoChange;
    info.port_phys_state = PortPhysState::NoChange;
    info
}

#[test]
fn an_adapter_s_port_shows_what_it_can_do() {
    let mut bench = Bench::new(Fake::adapter());
    let info: PortInfo = bench.get(0);
    assert_eq!(info, bench.get(1), "0 is the port of arrival");
    assert_eq!(
        (info.port_state, info.port_phys_state),
        (PortState::Init, PortPhysState::LinkUp)
    );
    assert_eq!((info.link_width_supported, info.link_width_active), (3, 2));
    assert_eq!((info.link_speed_supported, info.link_speed_active), (7, 4));
    assert_eq!(
        (info.mtu_cap, info.neighbor_mtu),
        (Some(Mtu::Mtu2048), Some(Mtu::Mtu2048))
    );
    assert_eq!(
        info.vl_cap,
        Some(VlCount::Eight),
        "nine VLs cannot be encoded"
    );
    assert_eq!((info.local_port_num, info.guid_cap), (port(1), 8));
    assert_eq!(info.gid_prefix, 0xfe80_0000_0000_0000);
    for bit in [
        capability::IS_TRAP,
        capability::IS_SL_MAPPING,
        capability::IS_CLIENT_REREGISTRATION,
        capability::IS_CAPABILITY_MASK_NOTICE,
    ] {
        assert_ne!(info.capability_mask & bit, 0);
    }
    assert_eq!(info.capability_mask & capability::IS_SM, 0);
}

#[test]
fn port_0_of_a_switch_is_active_and_its_external_ports_have_no_address() {
    let mut bench = Bench::new(Fake::switch());
    bench.node.state = Now::Down;
    let base: PortInfo = bench.get(0);
    assert_eq!(
        (base.port_state, base.port_phys_state),
        (PortState::Active, PortPhysState::LinkUp)
    );
    let mut wanted = base;
    wanted.lid = lid(9);
    wanted.master_sm_lid = lid(1);
    wanted.port_state = PortState::NoChange;
    wanted.port_phys_state = PortPhysState::NoChange;
    let after = bench.set(0, &wanted).unwrap();
    assert_eq!((after.lid, after.master_sm_lid), (lid(9), lid(1)));
    assert_eq!(bench.node.settings[&port(0)].lid, lid(9));
    assert_eq!(
        bench.set(
            0,
            &PortInfo {
                lmc: Lmc::constant(1),
                lid: lid(8),
                ..wanted
            }
        ),
        BAD
    );

    let external: PortInfo = bench.get(3);
    assert_eq!(
        (external.port_state, external.lid),
        (PortState::Down, Lid::ZERO)
    );
    let mut wanted = unchanged(&mut bench, 3);
    wanted.lid = lid(77);
    wanted.hoq_life = 16;
    assert_eq!(bench.set(3, &wanted).unwrap().lid, Lid::ZERO);
    assert_eq!(bench.node.settings[&port(3)].hoq_life, 16);
}

#[test]
fn an_enhanced_port_0_may_have_several_lids() {
    let mut node = Fake::switch();
    node.identity.enhanced_port0 = true;
    let mut bench = Bench::new(node);
    let wanted = PortInfo {
        lid: lid(8),
        lmc: Lmc::constant(2),
        port_state: PortState::NoChange,
        port_phys_state: PortPhysState::NoChange,
        ..bench.get(0)
    };
    let after = bench.set(0, &wanted).unwrap();
    assert_eq!((after.lid, after.lmc), (lid(8), Lmc::constant(2)));
    assert_eq!(after.port_state, PortState::Active, "no link of its own");
    assert_eq!(bench.node.settings[&port(0)].lmc, Lmc::constant(2));
    let odd = PortInfo {
        lid: lid(9),
        ..wanted
    };
    assert_eq!(bench.set(0, &odd), BAD, "not a multiple of four");
}

#[test]
fn an_adapter_takes_its_address_vls_and_limits() {
    let mut bench = Bench::new(Fake::adapter());
    let wanted = PortInfo {
        lid: lid(0x10),
        lmc: Lmc::constant(2),
        master_sm_lid: lid(3),
        master_sm_sl: Sl::constant(4),
        gid_prefix: 0xfec0_0000_0000_0000,
        neighbor_mtu: Some(Mtu::Mtu512),
        operational_vls: Some(VlCount::Four),
        vl_high_limit: 7,
        hoq_life: 2,
        subnet_timeout: 10,
        client_reregister: true,
        ..unchanged(&mut bench, 1)
    };
    let after = bench.set(1, &wanted).unwrap();
    assert!(!after.client_reregister, "an order, not a state");
    assert_eq!(bench.sma.gid_prefix(port(1)), 0xfec0_0000_0000_0000);
    let expected = PortSettings {
        lid: lid(0x10),
        lmc: Lmc::constant(2),
        sm_lid: lid(3),
        sm_sl: Sl::constant(4),
        mtu: Mtu::Mtu512,
        operational_vls: 4,
        hoq_life: 31,
        vl_stall_count: 0,
        vl_high_limit: 7,
        partitions_in: false,
        partitions_out: false,
        rates: wire::LinkRates::up_to(super::fake::RATE),
    };
    assert_eq!(
        bench.node.settings[&port(1)],
        expected,
        "no limit at the head of its queues"
    );
}

#[test]
fn a_set_of_nothing_but_zeros_changes_no_choice() {
    let mut bench = Bench::new(Fake::adapter());
    let before: PortInfo = bench.get(1);
    let zeros = PortInfo {
        gid_prefix: before.gid_prefix,
        ..PortInfo::default()
    };
    let after = bench.set(1, &zeros).unwrap();
    assert_eq!(
        after,
        PortInfo {
            subnet_timeout: 0,
            ..before
        }
    );
    assert!(bench.node.commands.is_empty());
}

#[test]
fn one_illegal_value_refuses_the_whole_set() {
    let mut bench = Bench::new(Fake::adapter());
    let good = PortInfo {
        lid: lid(0x20),
        ..unchanged(&mut bench, 1)
    };
    let changes: [fn(&mut PortInfo); 13] = [
        |info| info.lid = Lid::new(0xc000),
        |info| info.lid = Lid::PERMISSIVE,
        |info| info.lmc = Lmc::constant(6),
        |info| info.master_sm_lid = Lid::new(0xc000),
        |info| info.neighbor_mtu = Some(Mtu::Mtu4096),
        |info| info.operational_vls = Some(VlCount::Fifteen),
        |info| info.link_width_enabled = 8,
        |info| info.link_speed_enabled = 8,
        |info| info.link_speed_ext_enabled = 1,
        |info| info.link_down_default_state = 1,
        |info| info.port_state = PortState::Init,
        |info| info.port_phys_state = PortPhysState::LinkUp,
        |info| info.port_phys_state = PortPhysState::Sleep,
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let mut wrong = good;
        change(&mut wrong);
        assert_eq!(bench.set(1, &wrong), BAD, "change {number}");
    }
    assert_eq!(bench.get::<PortInfo>(1).lid, Lid::ZERO);
    assert!(bench.node.settings.is_empty() && bench.node.commands.is_empty());
    assert!(bench.set(1, &good).is_ok());
}

#[test]
fn widths_and_speeds_are_chosen_among_those_supported() {
    let mut bench = Bench::new(Fake::adapter());
    let choose = |width: u8, speed: u8, extended: u8, bench: &mut Bench| {
        let wanted = PortInfo {
            link_width_enabled: width,
            link_speed_enabled: speed,
            link_speed_ext_enabled: extended,
            ..unchanged(bench, 1)
        };
        let info = bench.set(1, &wanted).unwrap();
        (
            info.link_width_enabled,
            info.link_speed_enabled,
            info.link_speed_ext_enabled,
        )
    };
    assert_eq!(choose(1, 3, 30, &mut bench), (1, 3, 0));
    assert_eq!(
        choose(0, 0, 0, &mut bench),
        (1, 3, 0),
        "zero leaves the choice"
    );
    assert_eq!(
        choose(0xff, 0x0f, 31, &mut bench),
        (3, 7, 0),
        "all that is supported"
    );
}

#[test]
fn extended_speeds_are_chosen_together_and_reach_the_port() {
    let mut bench = Bench::new(Fake::adapter());
    bench.node.rates = LinkRates::ALL;
    bench.sma = Sma::new(&bench.node);
    let choose = |extended: u8, extended2: u8, bench: &mut Bench| {
        let wanted = PortInfo {
            link_speed_ext_enabled: extended,
            link_speed_ext2_enabled: extended2,
            ..unchanged(bench, 1)
        };
        let info = bench.set(1, &wanted)?;
        let rates = bench.node.settings[&port(1)].rates;
        let told = (info.link_speed_ext_enabled, info.link_speed_ext2_enabled);
        assert_eq!(told, (rates.extended_speeds(), rates.extended2_speeds()));
        Ok(told)
    };
    assert_eq!(choose(0, 0, &mut bench), Ok((0xf, 1)), "no change");
    assert_eq!(choose(6, 0, &mut bench), Ok((6, 0)), "EDR and HDR alone");
    assert_eq!(choose(0, 1, &mut bench), Ok((0, 1)), "XDR alone");
    assert_eq!(choose(30, 1, &mut bench), Ok((0, 0)), "none");
    assert_eq!(choose(0, 0, &mut bench), Ok((0, 0)), "still none");
    assert_eq!(choose(31, 0, &mut bench), Ok((0xf, 1)), "all");
    let refused: Result<(u8, u8), MadStatus> = Err(MadStatus::BAD_FIELD);
    assert_eq!(choose(0x10, 0, &mut bench), refused);
    assert_eq!(choose(1, 2, &mut bench), refused);
}

#[test]
fn fdr10_is_enabled_by_the_vendor_s_attribute() {
    let mut bench = Bench::new(Fake::switch());
    bench.node.rates = LinkRates::ALL;
    bench.sma = Sma::new(&bench.node);
    let before: ExtendedPortInfo = bench.get(3);
    let told = (before.fdr10_supported, before.fdr10_enabled);
    assert_eq!((told, before.fdr10_active), ((true, true), false));
    let off = ExtendedPortInfo {
        fdr10_enabled: false,
        ..before
    };
    assert_eq!(bench.set(3, &off), Ok(before), "no change is asked for");
    let off = ExtendedPortInfo {
        fdr10_change: true,
        ..off
    };
    assert!(!bench.set(3, &off).unwrap().fdr10_enabled);
    let rates = bench.node.settings[&port(3)].rates;
    assert_eq!(rates, LinkRates::ALL.with_fdr10(false));
    let back = bench.set(
        3,
        &ExtendedPortInfo {
            fdr10_enabled: true,
            ..off
        },
    );
    assert!(back.unwrap().fdr10_enabled);
    assert_eq!(bench.set(0, &off), Err(MadStatus::BAD_FIELD), "no link");
    let mut slow = Bench::new(Fake::switch());
    let on = ExtendedPortInfo {
        fdr10_enabled: true,
        ..off
    };
    assert_eq!(slow.set(3, &on), Err(MadStatus::BAD_FIELD), "QDR at most");
}

#[test]
fn states_follow_each_other_as_the_specification_says() {
    use LinkCommand::{Activate, Arm, Disable, Down, Poll};
    let no = PortPhysState::NoChange;
    let same = PortState::NoChange;
    let mut bench = Bench::new(Fake::switch());
    // State now, state wanted, physical state wanted, and what is asked of the link.
    let table = [
        (Now::Init, same, no, Ok(None)),
        (Now::Init, PortState::Down, no, Ok(Some(Down))),
        (Now::Init, PortState::Armed, no, Ok(Some(Arm))),
        (Now::Init, PortState::Active, no, Err(())),
        (Now::Armed, PortState::Armed, no, Ok(None)),
        (Now::Armed, PortState::Active, no, Ok(Some(Activate))),
        (Now::Active, PortState::Active, no, Ok(None)),
        (Now::Active, PortState::Armed, no, Err(())),
        (Now::Active, PortState::Down, no, Ok(Some(Down))),
        (Now::Down, PortState::Armed, no, Err(())),
        (Now::Down, PortState::Active, no, Err(())),
        (Now::Active, same, PortPhysState::Polling, Ok(Some(Poll))),
        (
            Now::Active,
            PortState::Down,
            PortPhysState::Disabled,
            Ok(Some(Disable)),
        ),
        (
            Now::Armed,
            PortState::Active,
            PortPhysState::Polling,
            Err(()),
        ),
    ];
    for (now, state, physical, expected) in table {
        bench.node.state = now;
        bench.node.commands.clear();
        let wanted = PortInfo {
            port_state: state,
            port_phys_state: physical,
            ..unchanged(&mut bench, 5)
        };
        let done = bench.set(5, &wanted).map(|_| ()).map_err(|_| ());
        let case = format!("{now:?} to {state:?} {physical:?}");
        assert_eq!(done, expected.map(|_| ()), "{case}");
        let commands: Vec<_> = expected
            .ok()
            .flatten()
            .map(|wanted| (port(5), wanted))
            .into_iter()
            .collect();
        assert_eq!(bench.node.commands, commands, "{case}");
    }
}

#[test]
fn an_agent_tells_of_the_adapters_other_ports_and_sets_its_own_only() {
    let mut first = Bench::new(Fake::adapter());
    first.node.identity.ports = 2;
    first.sma = Sma::of_port(&first.node, PortNum::new(1));
    let mut second = Bench::new(Fake::adapter());
    second.node.identity.ports = 2;
    second.arrival = PortNum::new(2);
    second.sma = Sma::of_port(&second.node, PortNum::new(2));
    let wanted = PortInfo {
        lid: Lid::new(7),
        ..PortInfo::default()
    };
    assert_eq!(second.set(2, &wanted).unwrap().lid, Lid::new(7));
    assert_eq!(
        first.get::<PortInfo>(2).lid,
        Lid::ZERO,
        "no manager has set it"
    );
    first.sma.mirror(&second.sma);
    let told: PortInfo = first.get(2);
    assert_eq!(
        (told.lid, told.local_port_num),
        (Lid::new(7), PortNum::new(1))
    );
    assert_eq!(first.set(2, &wanted), Err(MadStatus::BAD_FIELD));
    assert_eq!(first.get::<PortInfo>(0).lid, Lid::ZERO, "its own port's");
    let node: NodeInfo = second.get(0);
    assert_eq!(node.port_guid.0, node.node_guid.0 + 2);
}

#[test]
fn a_port_says_that_its_link_has_no_error_correction_at_any_speed() {
    let modes = |speeds: [bool; 4]| {
        speeds.map(|has| {
            let mode = if has { PortInfoExtended::NO_FEC } else { 0 };
            FecModes {
                supported: mode,
                enabled: mode,
            }
        })
    };
    let mut bench = Bench::new(Fake::switch());
    bench.node.rates = LinkRates::ALL;
    bench.sma = Sma::new(&bench.node);
    let all = PortInfoExtended {
        capability_mask: PortInfoExtended::IS_FEC_MODE,
        fec_mode_active: 0,
        modes: modes([true; 4]),
    };
    assert_eq!(bench.get::<PortInfoExtended>(3), all);
    assert_eq!(bench.set(3, &all), Ok(all));
    let unchanged = PortInfoExtended::default();
    assert_eq!(bench.set(3, &unchanged), Ok(all));
    let mut other = all;
    other.modes[1].enabled = 1 << 2;
    assert_eq!(bench.set(3, &other), Err(MadStatus::BAD_FIELD), "RS");
    assert_eq!(bench.set(0, &all), Err(MadStatus::BAD_FIELD), "no link");
    let info: PortInfo = bench.get(0);
    assert!(info.capability_mask & capability::IS_CAPABILITY_MASK2 != 0);
    let all_bits = capability::IS_PORT_INFO_EXTENDED
        | capability::IS_LINK_WIDTH_2X
        | capability::IS_LINK_SPEED_HDR
        | capability::IS_LINK_SPEED_NDR
        | capability::IS_EXTENDED_SPEEDS_2;
    assert_eq!(info.capability_mask2, all_bits);
    let mut slow = Bench::new(Fake::switch());
    assert_eq!(
        slow.get::<PortInfoExtended>(3).modes,
        modes([false; 4]),
        "QDR at most"
    );
    let info: PortInfo = slow.get(0);
    let slow_bits = info.capability_mask2 & !capability::IS_LINK_WIDTH_2X;
    assert_eq!(slow_bits, capability::IS_PORT_INFO_EXTENDED);
}
