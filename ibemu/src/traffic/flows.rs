//! What a run is to send.

use hostd::control::{FlowReport, FlowState, SinkFlow};
use wire::convert::u64_of;
use wire::{Gid, Sl};

use crate::verify::Pair;

/// How long to send where neither a count nor a duration is given, milliseconds.
pub(crate) const DURATION_MS: u32 = 5_000;
/// The window of a host's flows together where none is given, packets.
const WINDOW: u32 = 256;

/// One flow, before its path is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FlowSpec {
    /// Source and destination.
    pub(crate) pair: Pair,
    /// To which of the run's groups it belongs.
    pub(crate) group: u32,
    /// Packet length from LRH to VCRC, bytes.
    pub(crate) size: u16,
    /// Packets in flight at most; 0 for no limit.
    pub(crate) window: u32,
    /// Offered load in bits a second; 0 for as much as the window allows.
    pub(crate) rate: u64,
    /// The service level; `None` for the path record's.
    pub(crate) sl: Option<Sl>,
    /// Which of the destination's LIDs; `None` for the path record's.
    pub(crate) dlid_offset: Option<u16>,
    /// Packets; 0 for no such end.
    pub(crate) count: u64,
    /// When it begins, milliseconds from the start of the run.
    pub(crate) start_ms: u32,
    /// How long it sends, milliseconds; 0 for no such end.
    pub(crate) duration_ms: u32,
    /// Seed of its payload and first phase.
    pub(crate) seed: u64,
    /// What it is of a collective operation, if it is of one.
    pub(crate) step: Option<StepSpec>,
    /// Whether its packets go to a multicast group. Then this is what one of the members gets of them: the flows of a source to
    /// the same group are one.
    pub(crate) mgid: Option<Gid>,
    /// Whether it only fills the fabric before others are measured: it is not reported.
    pub(crate) is_warm_up: bool,
}

/// A transfer of a collective operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StepSpec {
    /// Which time of the operation it is of, from 0.
    pub(crate) iteration: u32,
    /// Which flows its source has to have sent, or received, before: positions among all flows of the run.
    pub(crate) after: Vec<usize>,
}

/// A flow and what it came to.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    pub(crate) spec: FlowSpec,
    pub(crate) report: FlowReport,
}

impl Flow {
    /// Whether its sink knows more of it than its source.
    pub(super) fn is_told_by_sink(&self) -> bool {
        self.report.state != FlowState::Finished || self.spec.mgid.is_some()
    }

    /// Takes over what the sink has counted.
    pub(super) fn take_counts(&mut self, sink: &SinkFlow) {
        let flow = &mut self.report;
        flow.delivered = sink.received.min(flow.sent);
        flow.lost = flow.sent - flow.delivered;
        flow.in_flight = 0;
        flow.duplicates = sink.duplicates;
        flow.reordered = sink.reordered;
        flow.bytes_delivered = sink.bytes;
        if self.spec.mgid.is_some() {
            flow.elapsed_ns = sink.elapsed_ns;
            flow.latency = sink.latency;
        }
    }

    /// Whether copies of a packet to a group may still be on their way.
    pub(super) fn lacks_copies(&self) -> bool {
        self.spec.mgid.is_some() && self.report.delivered < self.report.sent
    }
}

/// How a host's load and window are shared among its flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    /// Parts of this flow.
    pub(crate) parts: u32,
    /// Parts of all flows of the host together, at least `parts`.
    pub(crate) of: u32,
}

impl Share {
    /// This share of a host's bits a second, at least one.
    pub(crate) fn rate(self, rate: u64) -> u64 {
        let part = u128::from(rate) * u128::from(self.parts) / u128::from(self.of.max(1));
        u64::try_from(part).unwrap_or(rate).max(1)
    }

    /// This share of the window that a host has where none is given, at least one packet.
    pub(crate) fn window(self) -> u32 {
        let part = u64::from(WINDOW) * u64::from(self.parts) / u64::from(self.of.max(1));
        u32::try_from(part).unwrap_or(WINDOW).max(1)
    }
}

/// The seed of one flow of a run.
pub(crate) fn seed_of(seed: u64, (source, destination): Pair) -> u64 {
    let parts = [seed, u64_of(source), u64_of(destination)];
    parts.iter().fold(0, |mixed: u64, &part| {
        mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(part)
    })
}
