//! Local sockets: bincode messages and the protocol of ibsim's client library.

use proptest::prelude::*;
use wire::control::{ControlError, MESSAGE_LEN_MAX, append, decode, decode_first, encode};
use wire::umad2sim::{Connect, ControlDatagram, ControlKind, DataDatagram, Vendor};
use wire::{Guid, Lid, Lmc, Mad, Method, ParseError, PortNum, Qpn, Sl, Vl};

use crate::check::{golden, refused};

type Message = (Vec<(PortNum, String)>, Option<Guid>, Result<u32, bool>);

#[test]
fn a_message_of_small_numbers_is_a_few_bytes() {
    let bytes = encode(&(PortNum::new(7), Guid(300), true)).unwrap();
    assert_eq!(bytes, [7, 251, 0x2c, 0x01, 1]);
}

#[test]
fn appended_messages_are_those_that_are_encoded_alone() {
    let mut out = vec![0xa5];
    let len = append(&(Guid(300), true), &mut out).unwrap();
    assert_eq!((len, &out[1..]), (4, &*encode(&(Guid(300), true)).unwrap()));
    let large = vec![0u8; MESSAGE_LEN_MAX];
    assert!(append(&large, &mut out).is_err());
    assert_eq!(out.len(), 5, "what did not fit leaves nothing behind");
}

#[test]
fn messages_one_behind_the_other_are_read_in_order() {
    let mut bytes = Vec::new();
    for number in [7u32, 70_000, 1] {
        append(&number, &mut bytes).unwrap();
    }
    let mut rest = bytes.as_slice();
    let mut read = Vec::new();
    while !rest.is_empty() {
        let number: u32;
        (number, rest) = decode_first(rest).unwrap();
        read.push(number);
    }
    assert_eq!(read, [7, 70_000, 1]);
    assert!(decode_first::<u32>(&[]).is_err());
    let long = vec![0; MESSAGE_LEN_MAX + 1];
    let error = decode_first::<u32>(&long);
    assert!(matches!(error, Err(ControlError::TooLong { .. })));
}

#[test]
fn bytes_behind_a_message_are_an_error() {
    let mut bytes = encode(&7u8).unwrap();
    bytes.extend([0, 0]);
    assert!(matches!(
        decode::<u8>(&bytes),
        Err(ControlError::Trailing { extra: 2 })
    ));
}

#[test]
fn a_message_that_ends_early_is_an_error_at_every_length() {
    let message: Message = (
        vec![(PortNum::new(1), "s0.0".into())],
        Some(Guid(u64::MAX)),
        Ok(70_000),
    );
    let bytes = encode(&message).unwrap();
    for len in 0..bytes.len() {
        let error = decode::<Message>(&bytes[..len]).unwrap_err();
        assert!(matches!(error, ControlError::Decode(_)), "{len}: {error}");
    }
    assert_eq!(decode::<Message>(&bytes).unwrap(), message);
}

#[test]
fn a_number_out_of_its_range_makes_a_message_malformed() {
    assert_eq!(decode::<Sl>(&[15]).unwrap(), Sl::constant(15));
    let error = decode::<(Guid, Sl)>(&[0, 16]).unwrap_err().to_string();
    assert!(error.contains("Sl 0x10 is out of range"), "{error}");
    assert!(decode::<Lmc>(&[8]).is_err() && decode::<Vl>(&[16]).is_err());
    let too_much = encode(&(1u32 << 24)).unwrap();
    assert!(decode::<Qpn>(&too_much).is_err());
}

#[test]
fn a_length_that_the_bytes_do_not_hold_allocates_nothing() {
    // A vector that claims 2^64 - 1 elements.
    let bytes = [253, 255, 255, 255, 255, 255, 255, 255, 255];
    assert!(matches!(
        decode::<Vec<u64>>(&bytes),
        Err(ControlError::Decode(_))
    ));
}

#[test]
fn a_message_above_the_limit_is_refused_both_ways() {
    let fits = vec![0u8; MESSAGE_LEN_MAX - 5];
    let bytes = encode(&fits).unwrap();
    assert_eq!(bytes.len(), MESSAGE_LEN_MAX);
    assert_eq!(decode::<Vec<u8>>(&bytes).unwrap(), fits);
    let large = vec![0u8; MESSAGE_LEN_MAX - 4];
    assert!(matches!(encode(&large), Err(ControlError::TooLong { len }) if len > MESSAGE_LEN_MAX));
    let bytes = vec![0; MESSAGE_LEN_MAX + 1];
    assert!(matches!(
        decode::<Vec<u8>>(&bytes),
        Err(ControlError::TooLong { .. })
    ));
}

#[test]
fn umad2sim_control() {
    let mut data = [0; 64];
    data[0] = 1;
    data[63] = 2;
    let value = ControlDatagram {
        client: 0x0102_0304,
        kind: ControlKind::GET_PORT_INFO,
        len: 64,
        data,
    };
    let text = format!(
        "efbeadde 04030201 08000000 40000000 01 {} 02",
        "00".repeat(62)
    );
    golden(&value, &text);
    assert_eq!(
        refused::<ControlDatagram>(&text, 0, 0),
        ParseError::BadValue {
            what: "umad2sim magic",
            value: 0xdead_be00
        }
    );
}

#[test]
fn umad2sim_connect_and_vendor() {
    let value = Connect {
        id: 0x0102,
        qp: 0,
        is_sm: true,
        node: Connect::node_bytes("h0.0"),
    };
    golden(
        &value,
        &format!("02010000 00000000 01000000 68302e30 {}", "00".repeat(28)),
    );
    assert_eq!(value.node_name(), Some("h0.0"));
    let long = Connect {
        node: Connect::node_bytes(&"x".repeat(40)),
        ..value
    };
    assert_eq!(long.node_name(), Some("x".repeat(31).as_str()));
    assert_eq!(
        Connect {
            node: [0xff; 32],
            ..value
        }
        .node_name(),
        None
    );

    let value = Vendor {
        vendor_id: 0x01,
        part_id: 0x0203,
        hw_version: 0x04,
        fw_version: 0x0506_0708_090a_0b0c,
    };
    golden(
        &value,
        "01000000 03020000 04000000 00000000 0c0b0a0908070605",
    );
}

#[test]
fn umad2sim_data() {
    let mad = Mad::lid_smp(Method::GET, wire::AttributeId::NODE_INFO, 0, 1);
    let value = DataDatagram {
        dlid: Lid::new(0x0102),
        slid: Lid::PERMISSIVE,
        dest_qp: Qpn::GSI,
        src_qp: Qpn::constant(0x030405),
        status: DataDatagram::TIMED_OUT,
        len: 256,
        mad,
    };
    let mad: String = mad
        .as_bytes()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let text =
        format!("01020000 ffff0000 00000001 00030405 0000006e 00000000 0000000000000100 {mad}");
    golden(&value, &text);
    assert_eq!(
        refused::<DataDatagram>(&text, 8, 1),
        ParseError::BadValue {
            what: "umad2sim QP",
            value: 0x0100_0001
        }
    );
}

proptest! {
    #[test]
    fn decode_inverts_encode(
        ports in proptest::collection::vec((any::<u8>(), ".{0,20}"), 0..50),
        guid: Option<u64>,
        result: Result<u32, bool>,
    ) {
        let ports = ports.into_iter().map(|(port, name)| (PortNum::new(port), name)).collect();
        let message: Message = (ports, guid.map(Guid), result);
        let bytes = encode(&message).unwrap();
        prop_assert_eq!(decode::<Message>(&bytes).unwrap(), message);
    }

    #[test]
    fn no_bytes_make_decode_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode::<Message>(&bytes);
    }
}
