use proptest::prelude::*;

use super::*;
use crate::{FlowControl, FlowOp, Lid, Mad, Method, UdPacket, Vl};

fn datagram(packet: &UdPacket<'_>) -> Vec<u8> {
    let mut bytes = vec![0; packet.len()];
    packet.emit(&mut bytes).unwrap();
    bytes
}

/// A directed-route SMP.
fn smp() -> Vec<u8> {
    let get = crate::AttributeId::NODE_INFO;
    let mad = Mad::directed_smp(Method::GET, get, 0, 1, &[]).unwrap();
    datagram(&UdPacket::smp(Lid::new(0x17), Lid::new(0xffff), &mad))
}

/// A packet of RC to queue pair 0x123456, with a GRH.
fn global() -> Vec<u8> {
    let mut bytes = vec![0x20, 0x13, 0, 9, 0, 20, 0, 5];
    bytes.resize(8 + 40, 0);
    bytes.extend([0x04, 0, 0xff, 0xff, 0, 0x12, 0x34, 0x56, 0, 0, 0, 1]);
    bytes.resize(82, 0);
    bytes
}

fn takes(filter: &str, packet: &[u8]) -> bool {
    filter
        .parse::<Filter>()
        .unwrap()
        .takes(RecordKind::Data, packet)
}

#[test]
fn a_packet_passes_with_one_of_the_values_of_each_key() {
    for (filter, is_smp, is_global) in [
        ("", true, true),
        ("control", true, true),
        ("mad", true, false),
        ("mad=smp", true, false),
        ("mad=0x81", true, false),
        ("mad=sa", false, false),
        ("mad=sa,mad=smp", true, false),
        ("vl=15", true, false),
        ("vl=0-14", false, true),
        ("vl=15,dlid=9", false, false),
        ("dlid=9", false, true),
        ("dlid=0xc000-0xffff", true, false),
        ("slid=23", true, false),
        ("lnh=local", true, false),
        ("lnh=global", false, true),
        ("lnh=2-3", true, true),
        ("qp=0", true, false),
        ("qp=0x123456", false, true),
        (" vl = 2 , qp = 1193046 ", false, true),
    ] {
        assert_eq!(takes(filter, &smp()), is_smp, "{filter}");
        assert_eq!(takes(filter, &global()), is_global, "{filter}");
    }
}

#[test]
fn flow_control_passes_if_it_is_asked_for_and_by_its_lane_only() {
    let packet = FlowControl {
        op: FlowOp::Normal,
        fctbs: 1,
        vl: Vl::constant(3),
        fccl: 2,
    };
    let bytes = packet.to_bytes::<{ FlowControl::LEN }>();
    for (filter, passes) in [
        ("", false),
        ("vl=3", false),
        ("control", true),
        ("control,vl=3", true),
        ("control,vl=4", false),
        ("control,dlid=1", true),
    ] {
        let filter: Filter = filter.parse().unwrap();
        assert_eq!(
            filter.takes(RecordKind::FlowControl, &bytes),
            passes,
            "{filter}"
        );
        assert!(!filter.takes(RecordKind::Training, &bytes));
    }
}

#[test]
fn what_is_no_filter_is_told_with_what_there_is() {
    for (text, words) in [
        ("lid=1", &["\"lid=1\"", "dlid"][..]),
        ("vl", &["vl", "VALUE"]),
        ("vl=16", &["\"16\"", "0 to 15"]),
        ("vl=", &["0 to 15"]),
        ("mad=snmp", &["\"snmp\"", "smp, sa"]),
        ("dlid=9-5", &["lower number first"]),
        ("qp=0x1000000", &["16777215"]),
        ("vl=1,,vl=2", &["\"\""]),
        ("vl=-1", &["\"-1\""]),
        ("vl=+1", &["\"+1\""]),
    ] {
        let error = text.parse::<Filter>().unwrap_err().to_string();
        for word in words {
            assert!(error.contains(word), "{text}: no {word:?} in {error}");
        }
    }
    let long = vec!["vl=1"; TERMS_MAX + 1].join(",");
    assert_eq!(long.parse::<Filter>(), Err(FilterError::TooLong));
}

#[test]
fn messages_are_the_bytes_of_the_module() {
    let header = MessageHeader {
        is_last: true,
        lost: 0x0102,
    };
    assert_eq!(
        header.to_bytes::<12>(),
        [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2]
    );
    let packet = PacketHeader {
        at_ns: 0x0a,
        direction: Direction::Sent,
        kind: RecordKind::Data,
        captured_len: 2,
        wire_len: 0x0304,
    };
    let bytes = [0, 0, 0, 0, 0, 0, 0, 10, 2, 1, 0, 0, 0, 2, 3, 4, 0xaa, 0xbb];
    let read = CapturedPackets::new(&bytes).next().unwrap().unwrap();
    assert_eq!(read.header, packet);
    assert_eq!(read.bytes, [0xaa, 0xbb]);
    for len in 1..bytes.len() {
        assert!(CapturedPackets::new(&bytes[..len]).next().unwrap().is_err());
    }
}

proptest! {
    #[test]
    fn a_filter_reads_back_from_its_text(text in "(vl|lnh|dlid|slid|qp|mad|control)(=(0x)?[0-9]{1,2}(-9)?)?(,control|,mad=sa|,qp=1)?") {
        if let Ok(filter) = text.parse::<Filter>() {
            prop_assert_eq!(filter.to_string().parse::<Filter>(), Ok(filter));
        }
    }

    #[test]
    fn any_text_and_any_packet_are_taken_without_a_panic(text: String, packet: Vec<u8>) {
        let filter = text.parse::<Filter>().unwrap_or_default();
        let all: Filter = "vl=0-15,lnh=0-3,qp=0-9,mad,control".parse().unwrap();
        for kind in [RecordKind::Data, RecordKind::FlowControl] {
            let _ = filter.takes(kind, &packet);
            let _ = all.takes(kind, &packet);
        }
        CapturedPackets::new(&packet).for_each(drop);
    }
}
