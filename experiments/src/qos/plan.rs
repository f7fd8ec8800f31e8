//! Parameters of plans of promised bandwidth in simulation.

use core::num::NonZeroU16;

use routing::RoutingEngine;
use routing::qos::Layout;
use serde::Deserialize;
use sim::Model;
use strum::{EnumMessage, IntoStaticStr, VariantArray};

use crate::checks::{self, Refusal, between, graph, not_empty};
use crate::qos::workload::{DATA_VLS, Span};

/// The most connections that are tried, and the most draws for one.
const TRIES_MAX: u32 = 1_000_000;
/// The longest run, in packets of a busy link.
const PACKETS_MAX: u64 = 10_000_000;
/// How long VLARB01's arbitration takes, and how long a bit flies (which it leaves open), in
/// nanoseconds of a link that carries a byte in 4 ns: 20 ns where a byte takes 3.2.
const DELAY_NS: u64 = 25;

/// Connections with promised bandwidth at work.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QosPlan {
    /// Names of topologies.
    pub topologies: Vec<String>,
    /// Routing engine.
    pub routing: RoutingEngine,
    /// Bytes of a packet, LRH to ICRC.
    pub packet_bytes: Vec<u16>,
    /// Where the entries of a VL stand in a table.
    #[serde(default = "contiguous")]
    pub layouts: Vec<Layout>,
    /// What hosts send in addition to the connections.
    #[serde(default = "idle")]
    pub best_effort: Vec<BestEffort>,
    /// Packets that a VL's input and output buffers hold each; 4, as in the paper, if left out.
    #[serde(default = "four")]
    pub buffer_packets: NonZeroU16,
    /// Connections that are tried, ascending.
    pub tries: Vec<u32>,
    /// Draws for a connection before no more are tried.
    pub retries: u32,
    /// Warm-up time, in packets that a busy link carries.
    pub warmup_packets: u64,
    /// Time of measurement, in packets that a busy link carries.
    pub measure_packets: u64,
    /// Runs of each point, with connections of their own.
    pub runs: u32,
    /// What the report shows and judges.
    pub shows: Vec<Subject>,
    /// The expected number of established connections where the most are tried: least and most.
    pub established: Option<[u32; 2]>,
    /// The paper's numbers.
    #[serde(default)]
    pub reference: Vec<Reference>,
}

fn contiguous() -> Vec<Layout> {
    vec![Layout::Contiguous]
}

fn four() -> NonZeroU16 {
    NonZeroU16::MIN.saturating_add(3)
}

fn idle() -> Vec<BestEffort> {
    vec![BestEffort::Idle]
}

/// What hosts send in addition to the connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum BestEffort {
    /// Nothing; its share stays reserved.
    Idle,
    /// As much as possible, to all other hosts in turn.
    Backlogged,
}
wire::choice!(BestEffort, "best effort");

/// What a report shows and judges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Subject {
    /// Connections tried against traffic delivered (figure 4).
    Throughput,
    /// How busy links are (figures 5 to 7).
    Utilisation,
    /// Delays in inter-arrival times (figure 8).
    Delays,
    /// Jitter in inter-arrival times (figure 9).
    Jitter,
    /// The best and the worst connection of each service level (figures 10 to 12).
    Extremes,
    /// Contiguous against interleaved entries.
    Layouts,
}
wire::choice!(Subject, "subject");

/// A number of the paper.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reference {
    /// The topology as the plan names it.
    pub topology: String,
    /// Bytes of a packet.
    pub packet_bytes: u16,
    /// Connections established where the most are tried.
    pub established: u32,
}

/// Topology, packet, best effort, layout, tries, run.
pub(super) type At = [usize; 6];

/// The parameters of a point.
#[derive(Clone, Copy, Debug)]
pub(super) struct Task {
    pub(super) topology: usize,
    pub(super) packet_bytes: u16,
    pub(super) layout: Layout,
    pub(super) best_effort: BestEffort,
    pub(super) tries: u32,
    pub(super) run: u32,
}

impl QosPlan {
    pub(super) fn check(&self) -> Result<(), Refusal> {
        not_empty("shows", &self.shows)?;
        check_topologies(&self.topologies)?;
        for &bytes in &self.packet_bytes {
            checks::model("packet_bytes", &self.model(bytes))?;
        }
        check_tries("tries", &self.tries)?;
        check_tries("retries", &[self.retries])?;
        between("warmup_packets", self.warmup_packets, (0, PACKETS_MAX))?;
        between("measure_packets", self.measure_packets, (1, PACKETS_MAX))?;
        check_range("established", self.established)
    }

    /// The point with these coordinates.
    pub(super) fn task(&self, [topology, bytes, best_effort, layout, tries, run]: At) -> Task {
        Task {
            topology,
            packet_bytes: self.packet_bytes[bytes],
            layout: self.layouts[layout],
            best_effort: self.best_effort[best_effort],
            tries: self.tries[tries],
            run: sim::number(run),
        }
    }

    /// The network of VLARB01, section 5.1, with links that carry a byte in 4 ns.
    pub(super) fn model(&self, packet_bytes: u16) -> Model {
        Model {
            flight_ns: DELAY_NS,
            routing_ns: DELAY_NS,
            crossbar_at_link_rate: false,
            packet_bytes,
            input_packets: self.buffer_packets,
            output_packets: self.buffer_packets,
            ..Model::mlid04(DATA_VLS)
        }
    }

    /// Warm-up and measurement times of a run.
    pub(super) fn span(&self, model: &Model) -> Span {
        let packet_ns = model.byte_time_ns();
        Span {
            warmup_ns: self.warmup_packets * packet_ns,
            measure_ns: self.measure_packets * packet_ns,
        }
    }

    /// Where the most connections are tried.
    pub(super) fn tries_max(&self) -> u32 {
        self.tries.iter().copied().max().unwrap_or(0)
    }

    pub(super) fn shows(&self, subject: Subject) -> bool {
        self.shows.contains(&subject)
    }
}

/// Checks names of topologies and that connections are possible on them.
pub(super) fn check_topologies(names: &[String]) -> Result<(), Refusal> {
    for name in names {
        if graph("topologies", name)?.hosts().count() < 2 {
            let what = format!("{name}: connections need at least two hosts");
            return Err(("topologies", what));
        }
    }
    Ok(())
}

/// Checks numbers of connections or draws.
pub(super) fn check_tries(key: &'static str, tries: &[u32]) -> Result<(), Refusal> {
    let allowed = 1..=TRIES_MAX;
    if tries.iter().all(|tries| allowed.contains(tries)) && tries.is_sorted() {
        return Ok(());
    }
    Err((key, format!("1 to {TRIES_MAX}, ascending")))
}

/// Checks that a range is one.
pub(super) fn check_range(key: &'static str, range: Option<[u32; 2]>) -> Result<(), Refusal> {
    match range {
        Some([least, most]) if least > most => Err((
            key,
            format!("{least} to {most}: the least first, then the most"),
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
