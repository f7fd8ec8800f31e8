//! What stock programs of verbs send over RC and UC, and their atomics, live at a port.

use std::path::Path;

use e2e::{Fabric, Transport, tshark_fields};

use super::captures_what_is_counted;
use crate::libibverbs::pair;

/// A program, and how many packets of which opcodes (IBA 9.2.1) its messages are at least: messages of 4,096 bytes on an MTU of
/// 1,024. Acknowledgements are as many as the other end finds useful.
type Case = (&'static str, &'static [(u8, usize)]);

const RUNS: [Case; 7] = [
    (
        "ib_send_bw -n 20 -s 4096 -m 1024",
        &[(0x00, 20), (0x01, 40), (0x02, 20), (0x11, 1)],
    ),
    (
        "ib_send_bw -n 20 -s 4096 -m 1024 -c UC",
        &[(0x20, 20), (0x21, 40), (0x22, 20)],
    ),
    (
        "ib_write_bw -n 20 -s 4096 -m 1024",
        &[(0x06, 20), (0x07, 40), (0x08, 20), (0x11, 1)],
    ),
    (
        "ib_write_bw -n 20 -s 4096 -m 1024 -c UC",
        &[(0x26, 20), (0x27, 40), (0x28, 20)],
    ),
    (
        "ib_read_bw -n 20 -s 4096 -m 1024",
        &[(0x0c, 20), (0x0d, 20), (0x0e, 40), (0x0f, 20)],
    ),
    (
        "ib_atomic_bw -n 20 -A FETCH_AND_ADD",
        &[(0x14, 20), (0x12, 20)],
    ),
    (
        "ib_atomic_bw -n 20 -A CMP_AND_SWAP",
        &[(0x13, 20), (0x12, 20)],
    ),
];

/// Opcodes of all packets of a capture that have one.
fn opcodes(capture: &Path) -> Vec<u8> {
    let fields = tshark_fields(
        capture,
        &["-Y", "infiniband.bth"],
        &["infiniband.bth.opcode"],
    );
    let number = |row: &Vec<String>| row[0].parse().expect("an opcode");
    fields.iter().map(number).collect()
}

#[test]
fn tshark_decodes_what_stock_programs_send_over_rc_and_uc_and_their_atomics_and_counts_as_the_port_does()
 {
    let fabric = Fabric::up(Transport::Udp, "star-2", &[]);
    let folder = tempfile::tempdir().expect("a folder");
    for (number, (program, expected)) in RUNS.iter().enumerate() {
        let path = folder.path().join(format!("{number}.pcap"));
        let words: Vec<&str> = program.split(' ').collect();
        captures_what_is_counted(&fabric, 2, &path, || {
            let _ = pair(&fabric, ["h0", "h1"], &words);
        });
        let opcodes = opcodes(&path);
        for &(opcode, packets) in *expected {
            let found = opcodes.iter().filter(|&&other| other == opcode).count();
            assert!(
                found >= packets,
                "{program}: {found} packets of opcode {opcode:#04x}"
            );
        }
    }
    fabric.assert_no_errors_logged();
    fabric.down();
}
