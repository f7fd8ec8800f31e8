//! Paths in the form of subnet administration, which some commands have.

use uverbs::cm::PathEntry;
use wire::sa::{PathRecord, Selector};
use wire::{Format as _, Gid, Lid, Sl};

/// `struct ib_path_rec_data`: flags, a reserved word, a record.
const ENTRY_LEN: usize = 8 + PathRecord::LEN;
/// A path for everything, there and back (`IB_PATH_GMP | IB_PATH_PRIMARY | IB_PATH_BIDIRECTIONAL`).
const FLAGS: u32 = 1 | 1 << 1 | 1 << 3 | 1 << 5;

/// A path as the kernel tells of it.
pub(super) fn entry(record: &PathRecord) -> PathEntry {
    PathEntry {
        dgid: record.dgid.0,
        sgid: record.sgid.0,
        dlid: record.dlid.get(),
        slid: record.slid.get(),
        flow_label: record.flow_label,
        hop_limit: record.hop_limit,
        traffic_class: record.tclass,
        pkey: record.pkey,
        sl: record.sl.get(),
        mtu: record.mtu,
        rate: record.rate,
        packet_life_time: record.packet_life_time,
        reversible: record.reversible,
    }
}

fn record(entry: &PathEntry) -> PathRecord {
    PathRecord {
        dgid: Gid(entry.dgid),
        sgid: Gid(entry.sgid),
        dlid: Lid::new(entry.dlid),
        slid: Lid::new(entry.slid),
        flow_label: entry.flow_label,
        hop_limit: entry.hop_limit,
        tclass: entry.traffic_class,
        pkey: entry.pkey,
        sl: Sl::truncate(entry.sl),
        mtu_selector: Selector::Exactly,
        mtu: entry.mtu,
        rate_selector: Selector::Exactly,
        rate: entry.rate,
        packet_life_time_selector: Selector::Exactly,
        packet_life_time: entry.packet_life_time,
        reversible: entry.reversible,
        numb_path: 1,
        ..PathRecord::default()
    }
}

/// `struct rdma_ucm_query_path_resp`.
pub(super) fn paths(path: Option<&PathEntry>) -> Vec<u8> {
    let count = u32::from(path.is_some());
    let mut bytes = count.to_ne_bytes().to_vec();
    bytes.extend([0; 4]);
    if let Some(path) = path {
        bytes.extend(FLAGS.to_ne_bytes());
        bytes.extend([0; 4]);
        let at = bytes.len();
        bytes.resize(at + PathRecord::LEN, 0);
        record(path).emit(&mut bytes[at..]);
    }
    bytes
}

/// The path that a program gives itself (`RDMA_OPTION_IB_PATH`): the first of the option's that is for everything.
pub(super) fn path_of_option(value: &[u8]) -> Option<PathEntry> {
    let (entries, []) = value.as_chunks::<ENTRY_LEN>() else {
        return None;
    };
    let fits = |bytes: &&[u8; ENTRY_LEN]| {
        let flags = u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        flags == FLAGS
    };
    let (record, _) = PathRecord::parse(&entries.iter().find(fits)?[8..]).ok()?;
    record.dlid.is_unicast().then(|| entry(&record))
}
