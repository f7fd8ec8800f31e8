//! Runs tshark over a capture and compares what it shows with what was put in.

use std::collections::BTreeMap;
use std::fs::File;
use std::process::Command;

use serde_json::Value;
use wire::erf::ErfWriter;
use wire::{Lid, Mad, RecordKind, Sl, UdPacket, Vl};

/// Decoders that guess what a payload is.
const HEURISTICS: [&str; 10] = [
    "eth_over_ib",
    "fc_infiniband",
    "iser_infiniband",
    "lnet_ib",
    "mellanox_eoib",
    "nvme_rdma",
    "rpcrdma_infiniband",
    "sdp_infiniband",
    "smb_direct_infiniband",
    "smcr_infiniband",
];

/// A packet, and fields that tshark must show in it.
pub(crate) struct Case {
    name: &'static str,
    kind: RecordKind,
    packet: Vec<u8>,
    expected: Vec<(&'static str, Vec<String>)>,
}

impl Case {
    /// A link packet.
    pub(crate) fn new(name: &'static str, kind: RecordKind, packet: Vec<u8>) -> Self {
        Self {
            name,
            kind,
            packet,
            expected: Vec::new(),
        }
    }

    /// A datagram.
    pub(crate) fn ud(name: &'static str, packet: &UdPacket<'_>) -> Self {
        let mut bytes = vec![0; packet.len()];
        packet.emit(&mut bytes).unwrap();
        Self::new(name, RecordKind::Data, bytes)
    }

    /// A subnet management datagram.
    pub(crate) fn smp(name: &'static str, mad: &Mad) -> Self {
        let (slid, dlid) = (Lid::new(0x0102), Lid::new(0x0304));
        Self::ud(name, &UdPacket::smp(slid, dlid, mad))
            .field("infiniband.lrh.vl", 15u8)
            .field("infiniband.bth.destqp", 0u8)
    }

    /// A general management datagram.
    pub(crate) fn gmp(name: &'static str, mad: &Mad) -> Self {
        let (slid, dlid) = (Lid::new(0x0102), Lid::new(0x0304));
        let (sl, vl) = (Sl::constant(5), Vl::constant(6));
        Self::ud(name, &UdPacket::gmp(slid, dlid, sl, vl, mad))
            .field("infiniband.lrh.vl", 6u8)
            .field("infiniband.bth.destqp", 1u8)
            .field("infiniband.deth.q_key", 0x8001_0000u32)
    }

    /// Expects the field once, with this value.
    pub(crate) fn field(self, name: &'static str, value: impl Into<u64>) -> Self {
        self.text(name, &value.into().to_string())
    }

    /// Expects the field once, with this text.
    pub(crate) fn text(mut self, name: &'static str, text: &str) -> Self {
        self.expected.push((name, vec![text.to_owned()]));
        self
    }

    /// Expects the field as often as there are texts, in this order.
    pub(crate) fn texts(mut self, name: &'static str, texts: &[&str]) -> Self {
        self.expected
            .push((name, texts.iter().map(|&text| text.to_owned()).collect()));
        self
    }

    /// Expects the field as often as there are values, in this order.
    pub(crate) fn list<T: Into<u64>>(
        mut self,
        name: &'static str,
        values: impl IntoIterator<Item = T>,
    ) -> Self {
        let values = values
            .into_iter()
            .map(|value| value.into().to_string())
            .collect();
        self.expected.push((name, values));
        self
    }
}

/// Fields of one packet by name, in the order of the packet.
type Fields = BTreeMap<String, Vec<String>>;

fn flatten(value: &Value, name: &str, fields: &mut Fields) {
    match value {
        Value::Object(children) => {
            for (name, child) in children {
                flatten(child, name, fields);
            }
        }
        Value::Array(items) => {
            for item in items {
                flatten(item, name, fields);
            }
        }
        Value::String(text) => fields
            .entry(name.to_owned())
            .or_default()
            .push(text.clone()),
        other => panic!("{name}: unexpected JSON {other}"),
    }
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

fn same(shown: &str, expected: &str) -> bool {
    match (number(shown), number(expected)) {
        (Some(shown), Some(expected)) => shown == expected,
        _ => shown == expected,
    }
}

/// What tshark shows of the packets, one map a packet.
fn tshark(cases: &[Case]) -> Vec<Fields> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("packets.pcap");
    let mut capture = ErfWriter::new(File::create(&path).unwrap()).unwrap();
    for (index, case) in (1u64..).zip(cases) {
        capture
            .write(index * 1_500_000_000, case.kind, &case.packet)
            .unwrap();
    }
    capture.into_inner().unwrap();

    let mut command = Command::new("tshark");
    command
        .arg("-r")
        .arg(&path)
        .args(["-T", "json", "--no-duplicate-keys"]);
    for heuristic in HEURISTICS {
        command.args(["--disable-heuristic", heuristic]);
    }
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => panic!("tshark cannot be run ({error}): install it (apt install tshark)"),
    };
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "tshark failed: {stderr}");
    let packets: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(packets.len(), cases.len(), "tshark sees every packet");
    packets
        .iter()
        .map(|packet| {
            let mut fields = Fields::new();
            flatten(&packet["_source"]["layers"], "", &mut fields);
            fields
        })
        .collect()
}

/// Has tshark decode the packets and compares.
pub(crate) fn judge(cases: &[Case]) {
    let mut wrong = Vec::new();
    for (case, fields) in cases.iter().zip(tshark(cases)) {
        let malformed = fields.keys().any(|name| name.starts_with("_ws.malformed"));
        if malformed {
            wrong.push(format!("{}: malformed: {fields:?}", case.name));
        }
        for (name, expected) in &case.expected {
            let shown = fields.get(*name).map_or(&[][..], Vec::as_slice);
            let equal = shown.len() == expected.len()
                && shown
                    .iter()
                    .zip(expected)
                    .all(|(shown, expected)| same(shown, expected));
            if !equal {
                wrong.push(format!(
                    "{}: {name} shows {shown:?}, put in {expected:?}",
                    case.name
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
