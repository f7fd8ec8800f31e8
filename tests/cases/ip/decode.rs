//! IP over InfiniBand as a stock analyser reads it from the link.

use e2e::{Fabric, Transport, capture, tshark_fields};
use wire::Qpn;

use super::ping;

/// The queue pair of every interface.
const IPOIB: Qpn = Qpn::constant(0x1b4);

#[test]
fn tshark_decodes_arp_with_link_addresses_of_20_bytes_and_echoes_of_both_versions() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let records = folder.path().join("records");
    let recorded = records.to_str().expect("UTF-8");
    let fabric = Fabric::up(Transport::Veth, "star-2", &["--record", recorded]);
    ping(&fabric, "-4", "h0", "h1");
    ping(&fabric, "-6", "h0", "h1");
    fabric.assert_no_errors_logged();
    fabric.down();

    let path = folder.path().join("ip.pcap");
    let of_interface = |qpn| qpn == IPOIB;
    capture(&records.join("h0.rec"), &path, |datagram| {
        of_interface(datagram.src_qp) || of_interface(datagram.dest_qp)
    });
    let shown = |filter: &str, fields: &[&str]| tshark_fields(&path, &["-Y", filter], fields);
    let arp = shown(
        "arp",
        &[
            "arp.opcode",
            "arp.hw.type",
            "arp.hw.size",
            "arp.src.proto_ipv4",
            "arp.dst.proto_ipv4",
        ],
    );
    let row = |opcode: &str, from: &str, to: &str| {
        [opcode, "32", "20", from, to].map(str::to_owned).to_vec()
    };
    let asked = row("1", "10.73.0.1", "10.73.0.2");
    let answered = row("2", "10.73.0.2", "10.73.0.1");
    assert!(arp.contains(&asked) && arp.contains(&answered), "{arp:?}");
    let echoes = |filter: &str, kind: &str| shown(filter, &[kind]).concat().join(" ");
    // Three requests, each with its answer: a second and a third may be on the way at once.
    let mut kinds: Vec<String> = shown("icmp", &["icmp.type"]).concat();
    kinds.sort_unstable();
    assert_eq!(kinds, ["0", "0", "0", "8", "8", "8"]);
    let sums = shown("icmp", &["icmp.checksum.status"]).concat();
    assert!(
        sums.iter().all(|status| status == "1"),
        "all are right: {sums:?}"
    );
    let six = echoes("icmpv6.type == 128 || icmpv6.type == 129", "ipv6.src");
    assert_eq!(six.matches("fd73::1").count(), 3, "{six}");
    assert_eq!(six.matches("fd73::2").count(), 3, "{six}");
    let discovery = shown("icmpv6.type == 135 || icmpv6.type == 136", &["icmpv6.type"]).concat();
    assert!(discovery.contains(&"135".to_owned()), "{discovery:?}");
    assert!(discovery.contains(&"136".to_owned()), "{discovery:?}");
    let malformed = shown("_ws.malformed", &["frame.number", "_ws.col.Info"]);
    assert!(malformed.is_empty(), "{malformed:?}");
}
