//! perfquery's further attributes: what a port counts by virtual lane, by service level and by operation,
//! and its samples.

use e2e::Outcome;
use topologies::Endpoint;
use wire::PortNum;

use super::printed::{Verdict, counts, fails, number};
use super::row::{Row, reads, refused, works};
use super::truth::{Counters, Truth};

const SENT: &str =
    "the sum over service levels is no more than was sent, which is with subnet management";
const NO_MARKS: &str = "0, since no port marks packets";

/// Words of a kilobyte.
const KILOBYTE: u64 = 256;
/// Virtual lanes of data.
const DATA_VLS: usize = 15;
/// Virtual lanes, or service levels.
const ALL: usize = 16;
/// Nanoseconds of a tick of PortVLXmitWait.
const TICK_NS: u64 = 1000;

pub(crate) const ROWS: &[Row] = &[
    reads("perfquery --xmtsl {switch} 1", SENT, switch, sent),
    reads("perfquery --xmtsl {far} 1", SENT, far, sent),
    reads(
        "perfquery --rcvsl {switch} 1 && perfquery --vlopdata {switch} 1",
        "the sum over service levels is that over the VLs of data, but for what these requests move and what kilobytes round",
        switch,
        received,
    )
    .alone(),
    reads(
        "perfquery --oprcvcounters {switch} 1",
        "packets and words received, between before and after",
        switch,
        |_, outcome, before, after| {
            let text = &outcome.stdout;
            for (printed, own) in [("PortOpRcvPkts", "PortRcvPkts"), ("PortOpRcvData", "PortRcvData")] {
                in_range(printed, number(text, printed)?, before[own], after[own])?;
            }
            Ok(())
        },
    ),
    works(
        "perfquery --flowctlcounters {switch} 1",
        "flow-control packets in both directions",
        |_, outcome| {
            no_less(&outcome.stdout, "PortXmitFlowPkts", 1)?;
            no_less(&outcome.stdout, "PortRcvFlowPkts", 1)
        },
    ),
    reads(
        "perfquery --vloppackets {switch} 1",
        "the sum over VLs is what was received, between before and after; subnet management on VL 15",
        switch,
        packets_by_vl,
    ),
    reads(
        "perfquery --vloppackets {far} 1",
        "the same",
        far,
        packets_by_vl,
    ),
    reads(
        "perfquery --vlopdata {switch} 1",
        "the sum over VLs is the kilobytes received, each VL rounded down",
        switch,
        |_, outcome, before, after| {
            let kilobytes = sum(&outcome.stdout, "PortVLOpData", ALL)?;
            let vls = u64::try_from(ALL).unwrap_or(u64::MAX);
            let low = (before["PortRcvData"] / KILOBYTE).saturating_sub(vls);
            in_range("kilobytes", kilobytes, low, after["PortRcvData"] / KILOBYTE)
        },
    ),
    works(
        "perfquery --vlxmitflowctlerrors {switch} 1",
        "no VL has an error",
        |_, outcome| none(outcome, "PortVLXmitFlowCtlUpdateErrors", ALL),
    ),
    reads(
        "perfquery --vlxmitcounters {switch} 1",
        "the VLs of data have waited for no longer than the port has",
        switch,
        |_, outcome, _, after| {
            let ticks = sum(&outcome.stdout, "PortVLXmitWait", DATA_VLS)?;
            in_range("ticks", ticks, 0, after["PortXmitWait"] / TICK_NS)
        },
    ),
    works(
        "perfquery --swportvlcong {switch} 1",
        "no VL has discarded a packet that waited for too long",
        |_, outcome| none(outcome, "SWPortVLCongestion", ALL),
    ),
    refused(
        "perfquery --swportvlcong {far} 1",
        "a host is no switch",
        |_, outcome| fails(outcome, "cannot query SwPortVLCongestion"),
    ),
    works("perfquery --rcvcc {far} 1", NO_MARKS, |_, outcome| {
        counts(&outcome.stdout, "PortPktRcvFECN", 0_u64)?;
        counts(&outcome.stdout, "PortPktRcvBECN", 0_u64)
    }),
    works("perfquery --slrcvfecn {far} 1", NO_MARKS, |_, outcome| {
        none(outcome, "PortSLRcvFECN", ALL)
    }),
    works("perfquery --slrcvbecn {far} 1", NO_MARKS, |_, outcome| {
        none(outcome, "PortSLRcvBECN", ALL)
    }),
    works("perfquery --xmitcc {switch} 1", NO_MARKS, |_, outcome| {
        counts(&outcome.stdout, "PortXmitTimeCong", 0_u64)
    }),
    works(
        "perfquery --vlxmittimecc {switch} 1",
        NO_MARKS,
        |_, outcome| none(outcome, "PortVLXmitTimeCong", DATA_VLS),
    ),
    works(
        "perfquery --extended_speeds {switch} 1",
        "0, since a record on a link has no line code",
        |_, outcome| {
            counts(&outcome.stdout, "SyncHeaderErrorCounter", 0_u64)?;
            counts(&outcome.stdout, "UnknownBlockCounter", 0_u64)?;
            none(outcome, "ErrorDetectionCounterLane", 12)?;
            none(outcome, "FECCorrectableBlockCtrLane", 12)
        },
    ),
    works(
        "perfquery --smplctl {switch} 1",
        "counters of 32 bits, no sampling under way",
        |_, outcome| {
            counts(&outcome.stdout, "PortSelect", 1_u64)?;
            counts(&outcome.stdout, "CounterWidth", 4_u64)?;
            counts(&outcome.stdout, "SampleStatus", 0_u64)
        },
    ),
    reads(
        "perfquery -R --xmtsl {switch} 1 && perfquery --xmtsl {switch} 1",
        "afterwards no more is counted than has moved since",
        switch,
        |_, outcome, before, after| {
            let words = sum(&outcome.stdout, "XmtDataSL", ALL)?;
            let moved = after["PortXmitData"] - before["PortXmitData"];
            in_range("words", words, 0, moved)
        },
    )
    .alone(),
    reads(
        "perfquery -R --vloppackets {switch} 1 && perfquery --vloppackets {switch} 1",
        "afterwards no more is counted than has moved since",
        switch,
        |_, outcome, before, after| {
            let packets = sum(&outcome.stdout, "PortVLOpPackets", ALL)?;
            let moved = after["PortRcvPkts"] - before["PortRcvPkts"];
            in_range("packets", packets, 0, moved)
        },
    )
    .alone(),
];

fn switch(truth: &Truth<'_>) -> Endpoint {
    Endpoint {
        node: truth.switch,
        port: PortNum::new(1),
    }
}

fn far(truth: &Truth<'_>) -> Endpoint {
    Endpoint {
        node: truth.far,
        port: PortNum::new(1),
    }
}

fn sent(_: &Truth<'_>, outcome: &Outcome, _: &Counters, after: &Counters) -> Verdict {
    let words = sum(&outcome.stdout, "XmtDataSL", ALL)?;
    in_range("words", words, 1, after["PortXmitData"])
}

fn received(_: &Truth<'_>, outcome: &Outcome, before: &Counters, after: &Counters) -> Verdict {
    let words = sum(&outcome.stdout, "RcvDataSL", ALL)?;
    let kilobytes = sum(&outcome.stdout, "PortVLOpData", DATA_VLS)?;
    let moved = after["PortRcvData"] - before["PortRcvData"];
    let vls = u64::try_from(DATA_VLS).unwrap_or(u64::MAX);
    let low = (words / KILOBYTE).saturating_sub(vls);
    in_range("kilobytes", kilobytes, low, (words + moved) / KILOBYTE)
}

fn packets_by_vl(_: &Truth<'_>, outcome: &Outcome, before: &Counters, after: &Counters) -> Verdict {
    let text = &outcome.stdout;
    let packets = sum(text, "PortVLOpPackets", ALL)?;
    in_range(
        "packets",
        packets,
        before["PortRcvPkts"],
        after["PortRcvPkts"],
    )?;
    no_less(text, "PortVLOpPackets15", 1)
}

/// The sum of the counters `name0` and so on.
fn sum(text: &str, name: &str, counters: usize) -> Result<u64, String> {
    (0..counters)
        .map(|index| number(text, &format!("{name}{index}")))
        .sum()
}

fn none(outcome: &Outcome, name: &str, counters: usize) -> Verdict {
    in_range(name, sum(&outcome.stdout, name, counters)?, 0, 0)
}

fn no_less(text: &str, name: &str, low: u64) -> Verdict {
    in_range(name, number(text, name)?, low, u64::MAX)
}

fn in_range(what: &str, printed: u64, low: u64, high: u64) -> Verdict {
    match (low..=high).contains(&printed) {
        true => Ok(()),
        false => Err(format!("{what}: printed {printed}, is {low} to {high}")),
    }
}
