//! Parameters of plans of packets in windows.

use core::num::NonZeroU16;

use routing::clos::{Clos, NonBlocking};
use routing::network::Network;
use serde::Deserialize;
use sim::{Model, interval_ps};
use topologies::Graph;
use wire::convert::u64_of;

use crate::checks::{self, Refusal, between, distinct, not_empty};
use crate::windows::scheme::Scheme;

/// All windows of a run are no longer than this, nanoseconds.
const SPAN_NS_MAX: u64 = 100_000_000;
/// The most packets of a run.
const PACKETS_MAX: u64 = 10_000_000;

/// Packets of connections that last for windows, under several path selection schemes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WindowsPlan {
    /// Bytes of a packet, LRH to ICRC.
    pub(super) packet_bytes: u16,
    /// Packets that each buffer of a port holds.
    pub(super) buffer_packets: NonZeroU16,
    /// What a connection sends, bytes/ns, ascending.
    pub(super) loads: Vec<f64>,
    /// Length of a window, nanoseconds.
    pub(super) window_ns: u64,
    /// Windows of a run.
    pub(super) windows: u32,
    /// Guard times: no host sends so long before the end of a window, nanoseconds. Verdicts are
    /// about the first one.
    pub(super) guards_ns: Vec<u64>,
    /// Connections that continue in the next window, percent; all others are drawn again.
    pub(super) keep_percent: u8,
    /// Runs of each point, with seeds of their own.
    pub(super) runs: u32,
    /// Fabrics, and the schemes compared on each.
    pub(super) fabric: Vec<Fabric>,
}

/// A fabric and the schemes compared on it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fabric {
    /// Name of a Clos topology.
    pub(super) topology: String,
    /// How paths are chosen.
    pub(super) schemes: Vec<Scheme>,
}

impl WindowsPlan {
    /// The network: MLID04's links, with this plan's packets and buffers.
    pub(super) fn model(&self) -> Model {
        Model {
            packet_bytes: self.packet_bytes,
            input_packets: self.buffer_packets,
            output_packets: self.buffer_packets,
            ..Model::mlid04(1)
        }
    }

    /// How long a packet takes through so many switches if it waits for no other: the flight on
    /// each cable, the routing of each switch, and its own bytes once (virtual cut-through).
    pub(super) fn empty_network_ns(&self, switches: u64) -> u64 {
        let model = self.model();
        (switches + 1) * model.flight_ns + switches * model.routing_ns + model.byte_time_ns()
    }

    /// All windows, nanoseconds.
    pub(super) fn span_ns(&self) -> u64 {
        self.window_ns.saturating_mul(u64::from(self.windows))
    }

    pub(super) fn check(&self) -> Result<(), Refusal> {
        let model = self.model();
        checks::model("packet_bytes", &model)?;
        let link = f64::from(self.packet_bytes) / sim::real(model.byte_time_ns());
        let what = format!("bytes/ns, above 0 and at most a link's {link}");
        checks::loads(&self.loads, link, &what)?;
        if self.windows == 0 || !(1..=SPAN_NS_MAX).contains(&self.span_ns()) {
            let what = format!(
                "{} windows of {} ns: at least 1, together at most {SPAN_NS_MAX} ns",
                self.windows, self.window_ns
            );
            return Err(("window_ns", what));
        }
        if let Some(guard) = self.guards_ns.iter().find(|&&ns| ns >= self.window_ns) {
            let what = format!("{guard}: less than a window, {} ns", self.window_ns);
            return Err(("guards_ns", what));
        }
        between("keep_percent", self.keep_percent, (0, 100))?;
        let mut fabrics = self.fabric.iter();
        fabrics.try_for_each(|fabric| self.check_fabric(fabric))
    }

    fn check_fabric(&self, fabric: &Fabric) -> Result<(), Refusal> {
        let name = &fabric.topology;
        not_empty("schemes", &fabric.schemes)?;
        let refuse = |what: String| Err(("topology", format!("{name}: {what}")));
        let graph = checks::graph("topology", name)?;
        let clos = match clos_of(&graph) {
            Ok(clos) => clos,
            Err(error) => return refuse(error.to_string()),
        };
        let (trees, hosts) = (clos.trees(), clos.hosts_max());
        if NonBlocking::of(trees, hosts) == NonBlocking::Not {
            return refuse(format!(
                "{trees} trees for {hosts} hosts at a leaf: at least as many, or requests are \
                 blocked"
            ));
        }
        let hosts = u64_of(graph.hosts().count());
        let model = self.model();
        let fastest = self.loads.last().copied().unwrap_or_default();
        let packets = self.span_ns() * 1000 / interval_ps(&model, fastest).max(1);
        if hosts < 2 || packets.saturating_mul(hosts) > PACKETS_MAX {
            return refuse(format!(
                "{hosts} hosts with {packets} packets each: at least 2 hosts, and {PACKETS_MAX} \
                 packets at most"
            ));
        }
        distinct("schemes", &fabric.schemes)?;
        for scheme in &fabric.schemes {
            let prepared = scheme.prepare(&graph);
            prepared.map_err(|error| ("schemes", format!("{name}: {error}")))?;
        }
        Ok(())
    }
}

/// The trees of a fabric.
pub(super) fn clos_of(graph: &Graph) -> Result<Clos, routing::RoutingError> {
    Ok(Clos::recognise(graph, &Network::new(graph))?)
}
