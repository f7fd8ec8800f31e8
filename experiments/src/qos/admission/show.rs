//! The tables of VLARB01, and the causes of refusals.

use routing::qos::{LinkRate, frame_ns};
use wire::choice::Choice as _;

use super::judge::established;
use super::{AdmissionPlan, Point, RatePlan, frame_in_paper_ns};
use crate::experiment::mean;
use crate::figure::{Axis, Columns, Curve, Figure};
use crate::qos::judge::span;
use sim::real;

/// The key of the paper.
const PAPER: &str = "VLARB01";

/// Table 1.
pub(super) fn frames(plan: &AdmissionPlan) -> Figure {
    let ns = |table: &RatePlan| real(frame_ns(table.rate.bps()).unwrap_or(0));
    let columns: &Columns<'_, &RatePlan> = &[
        ("speed", &|table| table.rate.name().to_owned()),
        ("link rate, Gbit/s", &|table| {
            format!("{}", real(table.rate.bps()) / 1e9)
        }),
        ("frame, ms", &|table| format!("{:.6}", ns(table) / 1e6)),
        ("in the paper, ms", &|table| {
            format!("{:.6}", real(frame_in_paper_ns(table.rate)) / 1e6)
        }),
    ];
    Figure::rows("Table 1: time of a frame", columns, &plan.rates)
}

/// The heading of table 2, 3 or 4.
fn heading(table: &RatePlan) -> String {
    let rate = table.rate.name();
    format!("{}: connections established, {rate}", table.table)
}

/// Table 2, 3 or 4.
pub(super) fn table(plan: &AdmissionPlan, table: &RatePlan, points: &[Point]) -> Figure {
    let mut columns = vec!["tried".to_owned()];
    for topology in &plan.topologies {
        columns.push(topology.clone());
        if plan.paper(table.rate, topology).is_some() {
            columns.push("paper, 256 bytes".to_owned());
            columns.push("paper, 4,096 bytes".to_owned());
        }
    }
    let row = |&tries: &u32| {
        let mut row = vec![tries.to_string()];
        for topology in &plan.topologies {
            let [least, most] =
                established(points, table.rate, topology, tries).unwrap_or_default();
            row.push(span(least, most));
            let paper = plan.paper(table.rate, topology).into_iter().flatten();
            row.extend(paper.map(|established| established.min(tries).to_string()));
        }
        row
    };
    Figure::table(heading(table), columns, table.tries.iter().map(row))
}

/// Table 2, 3 or 4 as a plot: the middle between the least and the most of the runs.
pub(super) fn plot(plan: &AdmissionPlan, table: &RatePlan, points: &[Point]) -> Figure {
    let mut curves = Vec::new();
    let over_tries = |of: &dyn Fn(u32) -> Option<f64>| -> Vec<(f64, f64)> {
        let tries = table.tries.iter();
        tries
            .filter_map(|&tries| Some((f64::from(tries), of(tries)?)))
            .collect()
    };
    for topology in &plan.topologies {
        let middle = |tries| {
            let [least, most] = established(points, table.rate, topology, tries)?;
            Some(f64::midpoint(f64::from(least), f64::from(most)))
        };
        curves.push(Curve::measured(topology, over_tries(&middle)));
        let paper = plan.paper(table.rate, topology).into_iter().flatten();
        for (bytes, all) in ["256", "4,096"].into_iter().zip(paper) {
            let points = over_tries(&|tries| Some(f64::from(all.min(tries))));
            let name = format!("{topology}, {bytes} bytes");
            curves.push(Curve::of_paper(PAPER, name, points));
        }
    }
    Figure::plot(
        heading(table),
        curves,
        Axis::linear("connections tried"),
        Axis::linear("connections established, middle of the runs"),
    )
}

/// The fills of a topology at a rate.
type Fills<'a> = (LinkRate, &'a String, Vec<&'a Point>);

/// Causes of refusals.
pub(super) fn refusals(plan: &AdmissionPlan, points: &[Point]) -> Figure {
    let mut groups = Vec::new();
    for rate in plan.rates.iter().map(|table| table.rate) {
        for topology in &plan.topologies {
            let here = points.iter();
            let here = here.filter(|point| point.rate == rate && point.topology == *topology);
            groups.push((rate, topology, here.collect()));
        }
    }
    let mean = |(_, _, here): &Fills<'_>, decimals: usize, value: fn(&Point) -> f64| {
        let mean = mean(here.iter().map(|point| value(point)));
        format!("{:.decimals$}", mean.unwrap_or(0.0))
    };
    let columns: &Columns<'_, Fills<'_>> = &[
        ("rate", &|(rate, ..)| rate.name().to_owned()),
        ("network", &|(_, topology, _)| (*topology).clone()),
        ("connections", &|fills| {
            mean(fills, 0, |point| point.established.into())
        }),
        ("slots owned, mean", &|fills| {
            mean(fills, 4, |point| point.reserved_mean)
        }),
        ("slots owned, most", &|fills| {
            mean(fills, 4, |point| point.reserved_max)
        }),
        ("draws refused for bandwidth", &|fills| {
            mean(fills, 0, |point| point.refused_bandwidth.into())
        }),
        ("draws refused for entries", &|fills| {
            mean(fills, 0, |point| point.refused_entries.into())
        }),
    ];
    let heading = "Why no more are established (means over the runs)";
    Figure::rows(heading, columns, groups)
}
