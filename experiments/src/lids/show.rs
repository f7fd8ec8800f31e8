//! Tables as the paper has them, beside the paper's numbers, and plots.

use crate::figure::{Axis, Curve, Figure};
use crate::lids::judge::{judge_order, number};
use crate::lids::plan::{LidsPlan, Measure};
use crate::lids::reading::Reading;
use crate::lids::summary::Summary;

/// A table and plots for each reading and measure.
pub(super) fn figures(summary: &Summary<'_>) -> Vec<Figure> {
    let mut figures = Vec::new();
    for &reading in &summary.plan.reading {
        for &measure in &summary.plan.measures {
            figures.push(table(summary, reading, measure));
            figures.push(confidence(summary, reading, measure));
        }
    }
    if summary.plan.reading.len() > 1 && !summary.plan.order.is_empty() {
        figures.push(statements(summary));
    }
    let judged = summary.plan.reading.first();
    for &measure in &summary.plan.measures {
        figures.extend(judged.into_iter().flat_map(|&r| plots(summary, r, measure)));
    }
    figures
}

fn heading(plan: &LidsPlan, reading: Reading, what: &str) -> String {
    match plan.reading.len() {
        1 => what.to_owned(),
        _ => format!("{what}: {reading}"),
    }
}

fn columns(plan: &LidsPlan, after: impl Fn(&str) -> Vec<String>) -> Vec<String> {
    let first = ["hosts/switches".to_owned()];
    let schemes = plan.scheme.iter().flat_map(|scheme| after(&scheme.name));
    first.into_iter().chain(schemes).collect()
}

/// Means beside the paper's results.
fn table(summary: &Summary<'_>, reading: Reading, measure: Measure) -> Figure {
    let plan = summary.plan;
    let rows = plan.sizes.iter().map(|&size| {
        let mut row = vec![size.to_string()];
        for (place, scheme) in plan.scheme.iter().enumerate() {
            let mean = summary.sample(reading, size, scheme, measure);
            let mean = mean.map(|sample| sample.mean);
            row.push(mean.map_or_else(String::new, |mean| number(mean, measure)));
            row.push(match (mean, summary.reference(size, place, measure)) {
                (Some(mean), Some(paper)) => {
                    let off = 100.0 * (mean / paper - 1.0);
                    format!("{paper} ({off:+.1} %)")
                }
                _ => String::new(),
            });
        }
        row
    });
    let rows = rows.collect();
    let what = format!("{measure}, mean over graphs, beside the paper's (how far off)");
    Figure::Table {
        heading: heading(plan, reading, &what),
        columns: columns(plan, |name| vec![name.to_owned(), "paper".to_owned()]),
        rows,
    }
}

/// Confidence intervals of the means.
fn confidence(summary: &Summary<'_>, reading: Reading, measure: Measure) -> Figure {
    let plan = summary.plan;
    let rows = plan.sizes.iter().map(|&size| {
        let cells = plan.scheme.iter().map(|scheme| {
            let sample = summary.sample(reading, size, scheme, measure);
            sample.map_or_else(String::new, |sample| {
                let (margin, deviation) = (sample.margin, sample.deviation);
                format!("± {margin:.2}, {deviation:.2}")
            })
        });
        core::iter::once(size.to_string()).chain(cells).collect()
    });
    let rows = rows.collect();
    let what = format!("{measure}: 95 % interval of the mean, standard deviation of a graph");
    Figure::Table {
        heading: heading(plan, reading, &what),
        columns: columns(plan, |name| vec![name.to_owned()]),
        rows,
    }
}

/// Which of the paper's statements hold in which reading.
fn statements(summary: &Summary<'_>) -> Figure {
    let orders = &summary.plan.order;
    let rows = summary.plan.reading.iter().map(|&reading| {
        let cells = orders.iter().map(|order| {
            let holds = judge_order(summary, reading, order).and_then(|verdict| verdict.holds);
            match holds {
                Some(true) => "holds".to_owned(),
                Some(false) => "does not".to_owned(),
                None => String::new(),
            }
        });
        core::iter::once(reading.to_string()).chain(cells).collect()
    });
    let rows = rows.collect();
    let names = orders.iter().map(|order| {
        let (least, measure) = (&order.least, order.measure);
        format!("{measure}: {least} at most {}", order.than.join(", "))
    });
    Figure::Table {
        heading: "Statements by reading; only the first is judged".to_owned(),
        columns: core::iter::once("reading".to_owned())
            .chain(names)
            .collect(),
        rows,
    }
}

/// A plot over hosts for each number of switches: measured, and the paper's.
fn plots(summary: &Summary<'_>, reading: Reading, measure: Measure) -> Vec<Figure> {
    let plan = summary.plan;
    let mut switches: Vec<u32> = plan.sizes.iter().map(|size| size.switches).collect();
    switches.sort_unstable();
    switches.dedup();
    let plot = |switches: u32| {
        let mut sizes = plan.sizes.clone();
        sizes.retain(|size| size.switches == switches);
        sizes.sort_unstable();
        let curve = |name: String, of: &dyn Fn(usize) -> Option<f64>| Curve {
            name,
            points: sizes
                .iter()
                .enumerate()
                .filter_map(|(at, size)| {
                    let hosts = f64::from(size.hosts);
                    Some((hosts, of(at)? / hosts))
                })
                .collect(),
        };
        let measured = plan.scheme.iter().map(|scheme| {
            curve(scheme.name.clone(), &|at| {
                let sample = summary.sample(reading, sizes[at], scheme, measure)?;
                Some(sample.mean)
            })
        });
        let paper = plan.scheme.iter().enumerate().map(|(place, scheme)| {
            curve(format!("{}, paper", scheme.name), &|at| {
                summary.reference(sizes[at], place, measure)
            })
        });
        let curves = measured.chain(paper);
        Figure::Plot {
            heading: format!("{measure}, {switches} switches"),
            curves: curves.filter(|curve| !curve.points.is_empty()).collect(),
            x: Axis::logarithmic("hosts"),
            y: Axis::linear(match measure {
                Measure::Lids => "LIDs a host",
                Measure::Load => "load, divided by hosts",
            }),
        }
    };
    switches.into_iter().map(plot).collect()
}
