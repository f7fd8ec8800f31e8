//! Messages of communication management.

use std::net::{Ipv4Addr, Ipv6Addr};

use wire::cm::{
    IpCmHeader, Mra, PORT_SPACE_TCP, PORT_SPACE_UDP, Rej, RejReason, Rep, Req, SidrRep, SidrReq,
    SidrStatus, Subject, id, ip_service, ip_service_parts,
};
use wire::{Guid, Mad, Psn, Qpn};

use crate::check::{bad, golden, hex, refused};
use crate::fixtures::{cm_req, counting};

/// The bytes of `counting` as hexadecimal text.
fn counted(first: u8, len: usize) -> String {
    let mut next = first;
    let digits = (0..len).map(|_| {
        next = next.wrapping_add(1);
        format!("{:02x}", next.wrapping_sub(1))
    });
    digits.collect()
}

#[test]
fn a_request_of_a_connection() {
    let text = format!(
        "01020304 00000000 0000000001061c06 1112131415161718 00000000 21222324
         313233 34 000000 35 000000 93 414243 9e ffff 53 f8
         5152 5354 fe800000000000000000000000000001 fe800000000000000000000000000002
         61626 027 63 64 98 a0 {}
         00 40 d1d2 00000000000000000000000 00a490001 00000000000000000000000 00a490002 {}",
        "00".repeat(44),
        counted(0x40 + 36, Req::PRIVATE_LEN - 36)
    );
    golden(&cm_req(), &text);
}

#[test]
fn answers_to_a_request() {
    let rep = Rep {
        local_comm_id: 0x0102_0304,
        remote_comm_id: 0x0506_0708,
        local_qkey: 0x1112_1314,
        local_qpn: Qpn::constant(0x21_2223),
        starting_psn: Psn::constant(0x31_3233),
        responder_resources: 0x34,
        initiator_depth: 0x35,
        target_ack_delay: 0x12,
        failover_accepted: 1,
        end_to_end_flow_control: true,
        rnr_retry_count: 5,
        srq: true,
        local_ca_guid: Guid(0x4142_4344_4546_4748),
        private_data: counting(0x60),
    };
    let text = format!(
        "01020304 05060708 11121314 212223 00 00000000 313233 00 34 35 93 b0 4142434445464748 {}",
        counted(0x60, Rep::PRIVATE_LEN)
    );
    golden(&rep, &text);
    let mra = Mra {
        local_comm_id: 1,
        remote_comm_id: 2,
        message: Subject::Rep,
        service_timeout: 0x11,
        private_data: counting(0),
    };
    let text = format!("00000001 00000002 40 88 {}", counted(0, 222));
    golden(&mra, &text);
    assert_eq!(
        refused::<Mra>(&text, 8, 0xc0),
        bad("CM MRA:MessageMRAed", 3)
    );
    let rej = Rej {
        local_comm_id: 1,
        remote_comm_id: 2,
        message: Subject::Other,
        info_len: 72,
        reason: RejReason::STALE_CONNECTION,
        info: counting(1),
        private_data: counting(0x80),
    };
    let text = format!(
        "00000001 00000002 80 90 000a {} {}",
        counted(1, 72),
        counted(0x80, 148)
    );
    golden(&rej, &text);
    assert_eq!(
        refused::<Rej>(&text, 8, 0xff),
        bad("CM REJ:MessageREJected", 3)
    );
}

#[test]
fn queue_pairs_of_datagrams() {
    let req = SidrReq {
        request_id: 0x0102_0304,
        pkey: 0x7fff,
        service_id: ip_service(PORT_SPACE_UDP, 0x1234),
        private_data: counting(3),
    };
    let text = format!("01020304 7fff 0000 0000000001111234 {}", counted(3, 216));
    golden(&req, &text);
    let rep = SidrRep {
        request_id: 0x0102_0304,
        status: SidrStatus::REJECTED,
        info_len: 3,
        qpn: Qpn::constant(0x11_1213),
        service_id: 0x2122_2324_2526_2728,
        qkey: 0x0123_4567,
        info: counting(5),
        private_data: counting(0x90),
    };
    let text = format!(
        "01020304 02 03 0000 111213 00 2122232425262728 01234567 {} {}",
        counted(5, 72),
        counted(0x90, 136)
    );
    golden(&rep, &text);
}

#[test]
fn addresses_in_front_of_private_data() {
    let v4 = IpCmHeader {
        source_port: 0x0102,
        source: Ipv4Addr::new(10, 73, 0, 1).into(),
        destination: Ipv4Addr::new(10, 73, 0, 2).into(),
    };
    let zeros = "00".repeat(12);
    let text = format!("00 40 0102 {zeros} 0a490001 {zeros} 0a490002");
    golden(&v4, &text);
    assert_eq!(
        refused::<IpCmHeader>(&text, 1, 0x50),
        bad("IP CM header:IPVersion", 5)
    );
    let v6 = IpCmHeader {
        source_port: 9,
        source: Ipv6Addr::LOCALHOST.into(),
        destination: Ipv6Addr::new(0xfd73, 0, 0, 0, 0, 0, 0, 7).into(),
    };
    let text = "00 60 0009 00000000000000000000000000000001 fd730000000000000000000000000007";
    golden(&v6, text);
}

#[test]
fn services_by_ports() {
    assert_eq!(ip_service(PORT_SPACE_TCP, 7174), 0x0106_1c06);
    assert_eq!(ip_service_parts(0x0111_0005), Some((PORT_SPACE_UDP, 5)));
    assert_eq!(ip_service_parts(0x0000_0001_0106_0005), None);
    assert_eq!(ip_service_parts(0x0206_0005), None);
}

#[test]
fn datagrams_carry_class_version_and_attribute() {
    let mad = Mad::cm(7, &cm_req());
    let head = hex("01 07 02 03 0000 0000 0000000000000007 0010 0000 00000000");
    assert_eq!(mad.as_bytes()[..24], head);
    assert!(mad.is_cm() && mad.attr_id() == id::REQ);
    assert_eq!(mad.cm_message::<Req>(), Ok(cm_req()));
    for (at, other) in [(0, 2), (1, 4), (2, 1), (3, 1)] {
        let mut mad = mad;
        mad.as_bytes_mut()[at] = other;
        assert!(!mad.is_cm(), "byte {at}");
    }
}
