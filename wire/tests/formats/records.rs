//! Frames of several records.

use wire::{
    Delimiter, FlowControl, FlowOp, Format, Guid, Lid, Mad, Method, ParseError, PortNum, Record,
    RecordKind, Records, Training, UdPacket, Vl,
};

fn record(kind: RecordKind, bytes: &[u8]) -> Vec<u8> {
    let len = u16::try_from(bytes.len()).unwrap();
    let mut record = vec![0xa5; Delimiter::LEN];
    Delimiter { kind, len }.emit(&mut record);
    record.extend_from_slice(bytes);
    record
}

fn data_packet() -> Vec<u8> {
    let mad = Mad::lid_smp(Method::GET, wire::AttributeId::NODE_INFO, 0, 1);
    let mut packet = vec![0; wire::packet::MAD_PACKET_LEN];
    UdPacket::smp(Lid::new(1), Lid::new(2), &mad)
        .emit(&mut packet)
        .unwrap();
    packet
}

fn flow_packet() -> Vec<u8> {
    let packet = FlowControl {
        op: FlowOp::Normal,
        fctbs: 1,
        vl: Vl::constant(0),
        fccl: 2,
    };
    packet.to_bytes::<{ FlowControl::LEN }>().to_vec()
}

fn training_packet() -> Vec<u8> {
    let port = PortNum::new(1);
    let training = Training {
        guid: Guid(9),
        port,
        epoch: 1,
        heard_epoch: 0,
        rates: wire::LinkRates::NONE,
    };
    training.to_bytes::<{ Training::LEN }>().to_vec()
}

#[test]
fn a_frame_yields_its_records_in_order() {
    let (data, flow, training) = (data_packet(), flow_packet(), training_packet());
    let mut frame = record(RecordKind::Training, &training);
    frame.extend(record(RecordKind::Data, &data));
    frame.extend(record(RecordKind::FlowControl, &flow));
    frame.extend(record(RecordKind::LinkDown, &[]));
    let records: Result<Vec<Record<'_>>, ParseError> = Records::new(&frame).collect();
    let expected = [
        (RecordKind::Training, &training[..]),
        (RecordKind::Data, &data),
        (RecordKind::FlowControl, &flow),
        (RecordKind::LinkDown, &[]),
    ]
    .map(|(kind, bytes)| Record { kind, bytes });
    assert_eq!(records.unwrap(), expected);
}

#[test]
fn an_empty_frame_and_a_frame_of_zeros_have_no_records() {
    assert_eq!(Records::new(&[]).count(), 0);
    assert_eq!(Records::new(&[0; 46]).count(), 0);
}

#[test]
fn zeros_that_fill_a_short_ethernet_frame_end_it() {
    let mut frame = record(RecordKind::FlowControl, &flow_packet());
    frame.resize(46, 0);
    assert!(Records::new(&frame).all(|record| record.is_ok()));
    assert_eq!(Records::new(&frame).count(), 1);
}

#[test]
fn a_length_that_disagrees_with_pktlen_drops_that_record_only() {
    let mut long = data_packet();
    long.push(0);
    let mut frame = record(RecordKind::Data, &long);
    frame.extend(record(RecordKind::Data, &long[..7]));
    frame.extend(record(RecordKind::Data, &[]));
    frame.extend(record(RecordKind::FlowControl, &[0; 5]));
    frame.extend(record(RecordKind::Training, &[0; 25]));
    frame.extend(record(RecordKind::LinkDown, &[1]));
    frame.extend(record(RecordKind::Data, &data_packet()));
    let records: Vec<_> = Records::new(&frame).collect();
    let mismatch = |what, stated, actual| {
        Err(ParseError::LengthMismatch {
            what,
            stated,
            actual,
        })
    };
    assert_eq!(records[0], mismatch("data record", 290, 291));
    assert_eq!(records[1], mismatch("data record", 290, 7));
    assert_eq!(records[2], mismatch("data record", 8, 0));
    assert_eq!(records[3], mismatch("flow-control record", 6, 5));
    assert_eq!(records[4], mismatch("training record", 24, 25));
    assert_eq!(records[5], mismatch("link-down record", 0, 1));
    assert_eq!(records[6].unwrap().bytes, data_packet());
    assert_eq!(records.len(), 7);
}

#[test]
fn an_unknown_kind_drops_that_record_only() {
    let mut frame = vec![9, 0, 0, 2, 0xaa, 0xbb];
    frame.extend(record(RecordKind::FlowControl, &flow_packet()));
    let records: Vec<_> = Records::new(&frame).collect();
    assert_eq!(
        records[0],
        Err(ParseError::BadValue {
            what: "record kind",
            value: 9
        })
    );
    assert_eq!(records[1].unwrap().bytes, flow_packet());
    assert_eq!(records.len(), 2);
}

#[test]
fn a_frame_cut_anywhere_keeps_its_whole_records_and_ends_with_an_error() {
    let mut frame = record(RecordKind::Data, &data_packet());
    let first = frame.len();
    frame.extend(record(RecordKind::FlowControl, &flow_packet()));
    for len in 0..frame.len() {
        let mut records: Vec<_> = Records::new(&frame[..len]).collect();
        let whole = usize::from(len >= first);
        if len != 0 && len != first {
            let last = records.pop().unwrap();
            assert!(
                matches!(last, Err(ParseError::Truncated { .. })),
                "{len}: {last:?}"
            );
        }
        assert_eq!(records.len(), whole, "{len}");
        assert!(records.iter().all(Result::is_ok));
    }
}
