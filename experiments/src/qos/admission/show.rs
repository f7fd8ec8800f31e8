//! The tables of VLARB01, and the causes of refusals.

use routing::qos::frame_ns;
use wire::choice::Choice as _;
use wire::convert::u64_of;

use super::judge::established;
use super::{AdmissionPlan, Point, RatePlan, frame_in_paper_ns};
use crate::figure::{Axis, Curve, Figure};
use crate::qos::judge::span;
use sim::real;

/// The key of the paper.
const PAPER: &str = "VLARB01";

/// Table 1.
pub(super) fn frames(plan: &AdmissionPlan) -> Figure {
    let row = |table: &RatePlan| {
        let ns = frame_ns(table.rate.bps()).unwrap_or(0);
        vec![
            table.rate.name().to_owned(),
            format!("{}", real(table.rate.bps()) / 1e9),
            format!("{:.6}", real(ns) / 1e6),
            format!("{:.6}", real(frame_in_paper_ns(table.rate)) / 1e6),
        ]
    };
    Figure::Table {
        heading: "Table 1: time of a frame".to_owned(),
        columns: [
            "speed",
            "link rate, Gbit/s",
            "frame, ms",
            "in the paper, ms",
        ]
        .map(str::to_owned)
        .into(),
        rows: plan.rates.iter().map(row).collect(),
    }
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
    Figure::Table {
        heading: format!(
            "{}: connections established, {}",
            table.table,
            table.rate.name()
        ),
        columns,
        rows: table.tries.iter().map(row).collect(),
    }
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
        curves.push(Curve::measured(topology.as_str(), over_tries(&middle)));
        let paper = plan.paper(table.rate, topology).into_iter().flatten();
        for (bytes, all) in ["256", "4,096"].into_iter().zip(paper) {
            let points = over_tries(&|tries| Some(f64::from(all.min(tries))));
            let name = format!("{topology}, {bytes} bytes");
            curves.push(Curve::of_paper(PAPER, name, points));
        }
    }
    Figure::Plot {
        heading: format!(
            "{}: connections established, {}",
            table.table,
            table.rate.name()
        ),
        curves,
        x: Axis::linear("connections tried"),
        y: Axis::linear("connections established, middle of the runs"),
    }
}

/// Causes of refusals.
pub(super) fn refusals(plan: &AdmissionPlan, points: &[Point]) -> Figure {
    let columns = [
        "rate",
        "network",
        "connections",
        "slots owned, mean",
        "slots owned, most",
        "draws refused for bandwidth",
        "draws refused for entries",
    ];
    let mut rows = Vec::new();
    for rate in plan.rates.iter().map(|table| table.rate) {
        for topology in &plan.topologies {
            let here = points
                .iter()
                .filter(|point| point.rate == rate && point.topology == *topology);
            let here: Vec<&Point> = here.collect();
            let count = real(u64_of(here.len().max(1)));
            let mean = |value: fn(&Point) -> f64| {
                here.iter().map(|point| value(point)).sum::<f64>() / count
            };
            rows.push(vec![
                rate.name().to_owned(),
                topology.clone(),
                format!("{:.0}", mean(|point| f64::from(point.established))),
                format!("{:.4}", mean(|point| point.reserved_mean)),
                format!("{:.4}", mean(|point| point.reserved_max)),
                format!("{:.0}", mean(|point| f64::from(point.refused_bandwidth))),
                format!("{:.0}", mean(|point| f64::from(point.refused_entries))),
            ]);
        }
    }
    Figure::Table {
        heading: "Why no more are established (means over the runs)".to_owned(),
        columns: columns.map(str::to_owned).into(),
        rows,
    }
}
