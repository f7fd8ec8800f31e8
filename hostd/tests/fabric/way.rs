//! P_Key, path bits and GRH of MADs that programs send and are given.

use hostd::Command;
use link::{DropReason, PortConfig};
use mad::local::{MadGlobalRoute, MadMessage, MadWay, ToAgent};
use wire::attr::{GuidInfo, PKeyTable};
use wire::mad::{AttributeId, Mad, Method};
use wire::{Gid, Guid, Lmc, Qpn, Sl};

use crate::bed::{Bed, CLIENT, lid};
use crate::manage::{bring_up_star, set_port};

const ALIAS: Guid = Guid(0x0a11_a500_0000_0001);

fn send(bed: &mut Bed, to: u16, way: MadWay) {
    let mad = Mad::pma(Method::GET, AttributeId::CLASS_PORT_INFO, 0, 5);
    let message = ToAgent::Send(MadMessage {
        lid: lid(to),
        qpn: Qpn::GSI,
        sl: Sl::default(),
        mad: Box::new(*mad.as_bytes()),
        way: Some(way),
    });
    let client = CLIENT;
    bed.command(0, Command::Mad { client, message });
}

fn global(gid_index: u8, remote: Gid) -> MadWay {
    MadWay {
        global: Some(MadGlobalRoute {
            gid_index,
            remote,
            flow_label: 0x0004_5678,
            hop_limit: 3,
            traffic_class: 0x21,
        }),
        ..MadWay::default()
    }
}

fn answer_way(bed: &mut Bed) -> MadWay {
    let (message, _) = bed.until(|bed| bed.receive_mad(0, CLIENT));
    message.way.expect("a datagram of QP1 has one")
}

/// Two hosts; the second one has an alias GUID and a partition of both's.
fn bed() -> Bed {
    let mut bed = Bed::star(2, PortConfig::default());
    bring_up_star(&mut bed, 2);
    for path in [&[][..], &[1, 2]] {
        let mut keys = PKeyTable::default();
        keys.0[..2].copy_from_slice(&[PKeyTable::DEFAULT_FULL, 0x8005]);
        let _set = bed.directed(Method::SET, AttributeId::PKEY_TABLE, 0, path, |mad| {
            mad.set_smp_attribute(&keys);
        });
        let mut guids = GuidInfo::default();
        guids.0[1] = ALIAS;
        let _set = bed.directed(Method::SET, AttributeId::GUID_INFO, 0, path, |mad| {
            mad.set_smp_attribute(&guids);
        });
    }
    bed
}

fn gid_of(bed: &mut Bed, path: &[u8]) -> Gid {
    let info = bed.directed(Method::GET, AttributeId::GUID_INFO, 0, path, |_| {});
    let GuidInfo([own, ..]) = info.smp_attribute().unwrap();
    Gid::new(Gid::DEFAULT_PREFIX, own)
}

#[test]
fn an_answer_comes_by_the_key_the_lid_and_the_gids_of_its_request() {
    let mut bed = bed();
    let alias = Gid::new(Gid::DEFAULT_PREFIX, ALIAS);
    let by_key = MadWay {
        pkey_index: 1,
        ..MadWay::default()
    };
    send(&mut bed, 2, by_key);
    assert_eq!(answer_way(&mut bed), by_key);
    let far = gid_of(&mut bed, &[1, 2]);
    for (index, remote) in [(0, far), (0, alias), (1, far)] {
        let asked = global(index, remote);
        send(&mut bed, 2, asked);
        let answered = answer_way(&mut bed).global.unwrap();
        let wanted = MadGlobalRoute {
            hop_limit: MadGlobalRoute::HOP_LIMIT_MAX,
            ..asked.global.unwrap()
        };
        assert_eq!(answered, wanted);
    }
    let _info = set_port(&mut bed, &[], 1, |info| {
        info.lid = lid(4);
        info.lmc = Lmc::constant(1);
    });
    let own = MadWay {
        path_bits: 0xff,
        ..MadWay::default()
    };
    // The other one of its own two LIDs.
    send(&mut bed, 5, own);
    assert_eq!(answer_way(&mut bed).path_bits, 1);
}

#[test]
fn what_the_tables_do_not_have_is_not_sent_and_a_strangers_gid_is_not_taken() {
    let mut bed = bed();
    let dropped = |bed: &mut Bed, host, reason| bed.at(host).port().counts().drops[reason];
    for (way, host, reason) in [
        (
            MadWay {
                pkey_index: 2,
                ..MadWay::default()
            },
            0,
            DropReason::XmitPartition,
        ),
        (
            MadWay {
                pkey_index: u16::MAX,
                ..MadWay::default()
            },
            0,
            DropReason::XmitPartition,
        ),
        (global(2, Gid::default()), 0, DropReason::BadMad),
        (global(0xff, Gid::default()), 0, DropReason::BadMad),
        (
            global(0, Gid::new(Gid::DEFAULT_PREFIX, Guid(77))),
            1,
            DropReason::NotForUs,
        ),
        (
            global(0, Gid::new(Gid::DEFAULT_PREFIX, Guid(0))),
            1,
            DropReason::NotForUs,
        ),
    ] {
        let before = dropped(&mut bed, host, reason);
        send(&mut bed, 2, way);
        bed.settle();
        assert_eq!(dropped(&mut bed, host, reason), before + 1, "{way:?}");
    }
}
