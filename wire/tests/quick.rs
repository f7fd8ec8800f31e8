//! Smallest checks of the packet formats.
use wire::{AttributeId, DataPacket, Lid, Mad, Method, UdPacket, crc, packet::MAD_PACKET_LEN};

#[test]
fn the_sample_packet_of_the_specification_has_its_icrc() {
    // IBA 7.8.3, sample local packet (also quoted on linux-rdma, January 2025).
    let packet: [u8; 52] = [
        0x70, 0x12, 0x37, 0x5c, 0x00, 0x0e, 0x17, 0xd2, 0x0a, 0x20, 0x24, 0x87, 0x00, 0x87, 0xb1,
        0xb3, 0x00, 0x0d, 0xec, 0x2a, 0x01, 0x71, 0x0a, 0x1c, 0x01, 0x5d, 0x40, 0x02, 0x38, 0xf2,
        0x7a, 0x05, 0x00, 0x00, 0x00, 0x0e, 0xbb, 0x88, 0x4d, 0x85, 0xfd, 0x5c, 0xfb, 0xa4, 0x72,
        0x8b, 0xc0, 0x69, 0x0e, 0xd4, 0x00, 0x00,
    ];
    assert_eq!(crc::icrc(&packet), 0x9625_b75a);
}

#[test]
fn an_smp_crosses_a_buffer() {
    let mad = Mad::lid_smp(Method::GET, AttributeId::NODE_INFO, 0, 7);
    let ud = UdPacket::smp(Lid::truncate(1), Lid::truncate(2), &mad);
    let mut out = [0xa5; 300];
    assert_eq!(ud.emit(&mut out).unwrap(), MAD_PACKET_LEN);
    let packet = DataPacket::parse(&out[..MAD_PACKET_LEN]).unwrap();
    packet.check_vcrc().unwrap();
    packet.check_icrc().unwrap();
    let back = UdPacket::parse(&packet).unwrap();
    assert_eq!(back, ud);
    assert_eq!(back.mad().unwrap(), mad);
}
