//! Conditions, curves and tables.

use crate::figure::{Axis, Curve, Figure};
use crate::windows::Point;
use crate::windows::judge::points_of;
use crate::windows::plan::{Fabric, WindowsPlan};
use sim::real;

/// A part of the packets and its quantile of the latency.
type Quantile = (f64, fn(&Point) -> u64);

/// Number of decimals and value of a cell of the table.
type Cell = (usize, fn(&Point) -> f64);

const QUANTILES: [Quantile; 8] = [
    (0.1, |point| point.latency_p10_ns),
    (0.25, |point| point.latency_p25_ns),
    (0.5, |point| point.latency_p50_ns),
    (0.75, |point| point.latency_p75_ns),
    (0.9, |point| point.latency_p90_ns),
    (0.99, |point| point.latency_p99_ns),
    (0.999, |point| point.latency_p999_ns),
    (1.0, |point| point.latency_max_ns),
];

pub(super) fn conditions(plan: &WindowsPlan) -> Vec<(&'static str, String)> {
    let model = plan.model();
    let guards: Vec<String> = plan.guards_ns.iter().map(u64::to_string).collect();
    vec![
        ("Runs of each point", plan.runs.to_string()),
        (
            "Network",
            format!(
                "{} ns of flight, {} ns of routing, {} ns a packet of {} bytes (LRH to ICRC), \
                 virtual cut-through, 1 VL, {} packets in each buffer, ideal credits",
                model.flight_ns,
                model.routing_ns,
                model.byte_time_ns(),
                model.packet_bytes,
                plan.buffer_packets
            ),
        ),
        (
            "Windows",
            format!(
                "{} of {} ns; no host sends in the last {} ns",
                plan.windows,
                plan.window_ns,
                guards.join(" or ")
            ),
        ),
        (
            "Traffic",
            format!(
                "in each window every host sends to one other and receives from one other; {} % of \
                 the connections continue in the next window, the others are drawn again; a \
                 constant rate, the first packet at a random time of the first interval",
                plan.keep_percent
            ),
        ),
        (
            "Latency",
            "from the generation of a packet, including the wait at its source, to the arrival of \
             its last byte"
                .to_owned(),
        ),
        (
            "Schemes",
            "controller: CLOS04's, over the tables of engine clos; random-tree: each connection \
             uses a random tree in each window; random-packet: each packet uses one; others: the \
             tables and path selection of that engine. slid and mlid apply to m-port 2-trees \
             only; where the fabric is none, minhop has one LID a host as slid has, and clos one \
             path for each source and destination as mlid has"
                .to_owned(),
        ),
    ]
}

pub(super) fn figures(plan: &WindowsPlan, points: &[Point]) -> Vec<Figure> {
    let mut figures = Vec::new();
    let Some(&guard_ns) = plan.guards_ns.first() else {
        return figures;
    };
    let means = Means {
        plan,
        points,
        guard_ns,
    };
    for fabric in &plan.fabric {
        figures.extend(
            plan.loads
                .last()
                .map(|&load| means.distribution(fabric, load)),
        );
        figures.push(means.over_loads(fabric, "99th percentile", |point| {
            real(point.latency_p99_ns)
        }));
        figures.push(means.accepted(fabric));
        figures.push(means.table(fabric));
    }
    figures
}

/// Means over runs.
struct Means<'a> {
    plan: &'a WindowsPlan,
    points: &'a [Point],
    guard_ns: u64,
}

impl Means<'_> {
    fn mean(
        &self,
        fabric: &Fabric,
        scheme: usize,
        load: f64,
        of: impl Fn(&Point) -> f64,
    ) -> Option<f64> {
        let here = points_of(self.points, fabric, &fabric.schemes[scheme], self.guard_ns);
        let here = here.filter(|point| point.rate.total_cmp(&load).is_eq());
        let (count, sum) = here.fold((0u32, 0.0), |(count, sum), point| {
            (count + 1, sum + of(point))
        });
        (count > 0).then(|| sum / f64::from(count))
    }

    /// The cumulative distribution of latencies at a load.
    fn distribution(&self, fabric: &Fabric, load: f64) -> Figure {
        let curve = |scheme: usize| {
            Curve::measured(
                fabric.schemes[scheme].to_string(),
                QUANTILES
                    .iter()
                    .filter_map(|&(part, of)| {
                        let ns = self.mean(fabric, scheme, load, |point| real(of(point)))?;
                        Some((ns, part))
                    })
                    .collect(),
            )
        };
        Figure::Plot {
            heading: format!(
                "{}, {load} bytes/ns: cumulative distribution of the latency",
                fabric.topology
            ),
            curves: (0..fabric.schemes.len()).map(curve).collect(),
            x: Axis::logarithmic("latency, ns"),
            y: Axis::linear("part of the packets"),
        }
    }

    fn curves(&self, fabric: &Fabric, of: impl Fn(&Point) -> f64 + Copy) -> Vec<Curve> {
        let curve = |scheme: usize| {
            Curve::measured(
                fabric.schemes[scheme].to_string(),
                self.plan
                    .loads
                    .iter()
                    .filter_map(|&load| Some((load, self.mean(fabric, scheme, load, of)?)))
                    .collect(),
            )
        };
        (0..fabric.schemes.len()).map(curve).collect()
    }

    fn over_loads(&self, fabric: &Fabric, what: &str, of: impl Fn(&Point) -> f64 + Copy) -> Figure {
        Figure::Plot {
            heading: format!("{}: {what} of the latency", fabric.topology),
            curves: self.curves(fabric, of),
            x: Axis::linear("rate of a connection, bytes/ns"),
            y: Axis::logarithmic("latency, ns"),
        }
    }

    fn accepted(&self, fabric: &Fabric) -> Figure {
        Figure::Plot {
            heading: format!("{}: throughput", fabric.topology),
            curves: self.curves(fabric, |point| point.accepted),
            x: Axis::linear("rate of a connection, bytes/ns"),
            y: Axis::linear("accepted traffic, bytes/ns per host"),
        }
    }

    fn table(&self, fabric: &Fabric) -> Figure {
        let columns = [
            "scheme",
            "bytes/ns",
            "mean ns",
            "p50",
            "p99",
            "max",
            "waited, %",
            "links shared, all windows",
            "most connections on one",
            "moves per connection",
            "accepted/offered, %",
        ];
        let mut rows = Vec::new();
        for (place, scheme) in fabric.schemes.iter().enumerate() {
            for &load in &self.plan.loads {
                let mut row = vec![scheme.to_string(), load.to_string()];
                let cells: [Cell; 9] = [
                    (0, |p| p.latency_mean_ns),
                    (0, |p| real(p.latency_p50_ns)),
                    (0, |p| real(p.latency_p99_ns)),
                    (0, |p| real(p.latency_max_ns)),
                    (1, |p| 100.0 * real(p.waited) / real(p.packets.max(1))),
                    (0, |p| real(p.links_shared)),
                    (1, |p| real(p.connections_on_a_link_max)),
                    (3, |p| real(p.moved) / real(p.connections.max(1))),
                    (1, |p| 100.0 * p.accepted / p.offered),
                ];
                row.extend(cells.iter().map(|(decimals, of)| {
                    let mean = self.mean(fabric, place, load, of);
                    mean.map_or_else(String::new, |mean| format!("{mean:.decimals$}"))
                }));
                rows.push(row);
            }
        }
        Figure::Table {
            heading: format!("{}, means over runs", fabric.topology),
            columns: columns.map(str::to_owned).into(),
            rows,
        }
    }
}
