//! What was measured against the bands of the plan and the statements of the paper.

use crate::experiment::Verdict;
use crate::lids::plan::{Band, Measure, Order};
use crate::lids::summary::Summary;

/// Judges all bands and statements.
pub(super) fn judge(summary: &Summary<'_>) -> Vec<Verdict> {
    let bands = summary.plan.band.iter();
    let bands = bands.filter_map(|band| judge_band(summary, band));
    let orders = summary.plan.order.iter();
    let orders = orders.filter_map(|order| judge_order(summary, order));
    bands.chain(orders).collect()
}

fn judge_band(summary: &Summary<'_>, band: &Band) -> Option<Verdict> {
    let of = |name: &str| summary.mean(band.size, name, band.measure);
    let mean = of(&band.of)?;
    let (size, title) = (band.size, band.measure.title());
    let (what, value) = match &band.over {
        Some(over) => (
            format!("{title} of {} over {over}", band.of),
            mean / of(over)?,
        ),
        None => (format!("{title} of {}", band.of), mean),
    };
    Some(Verdict::in_range(
        format!("{size}: {what}"),
        value,
        (band.min, band.max),
        format!("{value:.3}"),
    ))
}

/// One verdict over all sizes, with what was measured on each.
pub(super) fn judge_order(summary: &Summary<'_>, order: &Order) -> Option<Verdict> {
    let mut holds = true;
    let mut measured = Vec::new();
    for &size in &summary.plan.sizes {
        let of = |name: &String| summary.mean(size, name, order.measure);
        let least = of(&order.least)?;
        let others: Option<Vec<f64>> = order.than.iter().map(of).collect();
        let others = others?;
        let is_least = others.iter().all(|&other| least <= other);
        holds &= is_least;
        let others: Vec<String> = others.iter().map(|&n| number(n, order.measure)).collect();
        measured.push(format!(
            "{size} {} against {}{}",
            number(least, order.measure),
            others.join(", "),
            if is_least { "" } else { " (not)" }
        ));
    }
    Some(Verdict {
        expected: format!(
            "{}: {} of {} at most that of {}, on every size",
            order.says,
            order.measure.title(),
            order.least,
            order.than.join(", ")
        ),
        measured: measured.join("; "),
        holds: Some(holds),
    })
}

/// LIDs with one decimal, loads with two, as the paper writes them.
pub(super) fn number(value: f64, measure: Measure) -> String {
    match measure {
        Measure::Lids => format!("{value:.1}"),
        Measure::Load => format!("{value:.2}"),
    }
}
