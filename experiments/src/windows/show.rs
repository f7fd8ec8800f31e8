//! Conditions, curves and tables.

use crate::experiment::mean;
use crate::figure::{Axis, Curve, Figure};
use crate::network::delays;
use crate::windows::Point;
use crate::windows::judge::points_of;
use crate::windows::plan::{Fabric, WindowsPlan};
use sim::real;

/// A part of the packets and its quantile of the latency.
type Quantile = (f64, fn(&Point) -> u64);

/// A column of the table: its name, number of decimals and value.
type Number = (&'static str, usize, fn(&Point) -> f64);

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
    let guards: Vec<String> = plan.guards_ns.iter().map(u64::to_string).collect();
    vec![
        ("Runs of each point", plan.runs.to_string()),
        (
            "Network",
            format!(
                "{}, virtual cut-through, 1 VL, {} packets in each buffer, ideal credits",
                delays(&plan.model()),
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
        let y = Axis::logarithmic("latency, ns");
        let what = "99th percentile of the latency";
        figures.push(means.over_loads(fabric, what, y, |point| real(point.latency_p99_ns)));
        let y = Axis::linear("accepted traffic, bytes/ns per host");
        figures.push(means.over_loads(fabric, "throughput", y, |point| point.accepted));
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
        mean(here.map(of))
    }

    /// A curve for each scheme over some places.
    fn curves<T: Copy>(
        &self,
        fabric: &Fabric,
        places: &[T],
        point: impl Fn(usize, T) -> Option<(f64, f64)>,
    ) -> Vec<Curve> {
        let schemes = fabric.schemes.iter().enumerate();
        let curve = |(scheme, name)| {
            Curve::over(name, places.iter().copied(), |place| point(scheme, place))
        };
        schemes.map(curve).collect()
    }

    /// The cumulative distribution of latencies at a load.
    fn distribution(&self, fabric: &Fabric, load: f64) -> Figure {
        let curves = self.curves(fabric, &QUANTILES, |scheme, (part, of)| {
            let ns = self.mean(fabric, scheme, load, |point| real(of(point)))?;
            Some((ns, part))
        });
        Figure::plot(
            format!(
                "{}, {load} bytes/ns: cumulative distribution of the latency",
                fabric.topology
            ),
            curves,
            Axis::logarithmic("latency, ns"),
            Axis::linear("part of the packets"),
        )
    }

    fn over_loads(
        &self,
        fabric: &Fabric,
        what: &str,
        y: Axis,
        of: impl Fn(&Point) -> f64 + Copy,
    ) -> Figure {
        let curves = self.curves(fabric, &self.plan.loads, |scheme, load| {
            Some((load, self.mean(fabric, scheme, load, of)?))
        });
        let heading = format!("{}: {what}", fabric.topology);
        let x = Axis::linear("rate of a connection, bytes/ns");
        Figure::plot(heading, curves, x, y)
    }

    fn table(&self, fabric: &Fabric) -> Figure {
        let numbers: [Number; 9] = [
            ("mean ns", 0, |p| p.latency_mean_ns),
            ("p50", 0, |p| real(p.latency_p50_ns)),
            ("p99", 0, |p| real(p.latency_p99_ns)),
            ("max", 0, |p| real(p.latency_max_ns)),
            ("waited, %", 1, |p| {
                100.0 * real(p.waited) / real(p.packets.max(1))
            }),
            ("links shared, all windows", 0, |p| real(p.links_shared)),
            ("most connections on one", 1, |p| {
                real(p.connections_on_a_link_max)
            }),
            ("moves per connection", 3, |p| {
                real(p.moved) / real(p.connections.max(1))
            }),
            ("accepted/offered, %", 1, |p| 100.0 * p.accepted / p.offered),
        ];
        let columns = numbers.iter().map(|&(name, ..)| name);
        let mut rows = Vec::new();
        for (place, scheme) in fabric.schemes.iter().enumerate() {
            for &load in &self.plan.loads {
                let mut row = vec![scheme.to_string(), load.to_string()];
                row.extend(numbers.iter().map(|(_, decimals, of)| {
                    let mean = self.mean(fabric, place, load, of);
                    mean.map_or_else(String::new, |mean| format!("{mean:.decimals$}"))
                }));
                rows.push(row);
            }
        }
        let heading = format!("{}, means over runs", fabric.topology);
        let columns = ["scheme", "bytes/ns"].into_iter().chain(columns);
        Figure::table(heading, columns, rows)
    }
}
