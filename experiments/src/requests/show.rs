//! Conditions, curves and tables.

use crate::figure::{Axis, Columns, Curve, Figure};
use crate::requests::Point;
use crate::requests::judge::{Series, Sum};
use crate::requests::plan::{Policy, RequestsPlan, Sequence, Size};
use sim::real;

pub(super) fn conditions(plan: &RequestsPlan) -> Vec<(&'static str, String)> {
    let mut conditions = vec![
        ("Runs of each point", plan.runs.to_string()),
        ("Requests of a run", plan.requests.to_string()),
        (
            "Fabrics",
            "leaves x hosts of a leaf (n); trees are spines times cables between a leaf and a \
             spine"
                .to_owned(),
        ),
    ];
    for sequence in &plan.sequences {
        conditions.push(match sequence {
            Sequence::Random => (
                "random",
                "requests one by one between leaves, from an idle host to an idle host; where \
                 the occupancy is reached, two connections end before each; a blocked request is \
                 lost, and a connection ends after it"
                    .to_owned(),
            ),
            Sequence::Worst => (
                "worst",
                "n squared requests; before the last one, the first n - 1 trees are used at its \
                 source's leaf and the other n - 1 of 2n - 2 at its destination's, if the first \
                 free tree is always taken"
                    .to_owned(),
            ),
            Sequence::Windows => (
                "windows",
                "a host has up to two pending requests, each to any other host whether that is \
                 busy or not; a request is repeated in every window until it is admitted, and \
                 then kept for two windows on average; the occupancy is the probability that a \
                 host with room for a request makes one in a window"
                    .to_owned(),
            ),
        });
    }
    conditions
}

pub(super) fn figures(plan: &RequestsPlan, points: &[Point]) -> Vec<Figure> {
    let mut figures = Vec::new();
    for &size in &plan.fabric {
        for &sequence in &plan.sequences {
            let panel = Panel {
                plan,
                points,
                size,
                sequence,
            };
            figures.extend(panel.plots());
            figures.push(panel.table());
        }
    }
    figures
}

struct Panel<'a> {
    plan: &'a RequestsPlan,
    points: &'a [Point],
    size: Size,
    sequence: Sequence,
}

impl Panel<'_> {
    fn occupancies(&self) -> &[u8] {
        match self.sequence {
            Sequence::Worst => self.plan.occupancy_percent.get(..1).unwrap_or_default(),
            Sequence::Random | Sequence::Windows => &self.plan.occupancy_percent,
        }
    }

    fn sum(&self, policy: Policy, percent: u8, trees: u32) -> Sum {
        let series = Series {
            points: self.points,
            size: self.size,
            sequence: self.sequence,
            policy,
            occupancy_percent: Some(percent),
        };
        series.sum(|here| here == trees)
    }

    fn plots(&self) -> Vec<Figure> {
        let mut plots = Vec::new();
        if self.plan.policies.contains(&Policy::Fixed) {
            plots.push(self.plot("blocked requests, part of all", |sum| {
                real(sum.blocked) / real(sum.requests.max(1))
            }));
        } else {
            plots.push(self.plot("connections moved per request", |sum| {
                real(sum.moves) / real(sum.requests.max(1))
            }));
        }
        if self.sequence == Sequence::Windows {
            plots.push(
                self.plot("windows by which a request is deferred, mean", |sum| {
                    real(sum.deferred + sum.blocked) / real(sum.requests.max(1))
                }),
            );
        }
        plots
    }

    fn plot(&self, what: &str, of: impl Fn(Sum) -> f64 + Copy) -> Figure {
        let mut curves = Vec::new();
        for &policy in &self.plan.policies {
            for &percent in self.occupancies() {
                let name = match self.sequence {
                    Sequence::Worst => policy.to_string(),
                    Sequence::Random | Sequence::Windows => format!("{policy}, {percent} %"),
                };
                let trees = self.plan.trees(self.size);
                let points = trees.map(|n| (f64::from(n), of(self.sum(policy, percent, n))));
                curves.push(Curve::measured(name, points));
            }
        }
        let n = self.size.hosts;
        Figure::plot(
            format!(
                "{}, {}: {what} (n = {n}, 2n - 1 = {})",
                self.size,
                self.sequence,
                2 * n - 1
            ),
            curves,
            Axis::linear("trees"),
            Axis::linear(what),
        )
    }

    fn table(&self) -> Figure {
        let is_windows = self.sequence == Sequence::Windows;
        let of_windows = |text: String| if is_windows { text } else { String::new() };
        let part = |sum: &Sum, count: u64| real(count) / real(sum.requests.max(1));
        let a_window = |sum: &Sum, count: u64| real(count) / real(sum.windows.max(1));
        let moving = |sum: &Sum| match is_windows {
            true => a_window(sum, sum.moving),
            false => part(sum, sum.moving),
        };
        let mut rows = Vec::new();
        for &policy in &self.plan.policies {
            for &percent in self.occupancies() {
                let trees = self.plan.trees(self.size);
                let row = |n| (policy, percent, n, self.sum(policy, percent, n));
                rows.extend(trees.map(row));
            }
        }
        let columns: &Columns<'_, (Policy, u8, u32, Sum)> = &[
            ("policy", &|(policy, ..)| policy.to_string()),
            ("occupancy, %", &|(_, percent, ..)| percent.to_string()),
            ("trees", &|(_, _, trees, _)| trees.to_string()),
            ("requests", &|(.., sum)| sum.requests.to_string()),
            ("blocked, %", &|(.., sum)| {
                format!("{:.4}", 100.0 * part(sum, sum.blocked))
            }),
            ("with moves, %", &|(.., sum)| {
                format!("{:.3}", 100.0 * moving(sum))
            }),
            ("moved per request", &|(.., sum)| {
                format!("{:.4}", part(sum, sum.moves))
            }),
            ("moved at most", &|(.., sum)| sum.moves_max.to_string()),
            ("deferrals per request", &|(.., sum)| {
                of_windows(format!("{:.3}", part(sum, sum.deferred)))
            }),
            ("connections per window", &|(.., sum)| {
                of_windows(format!("{:.2}", a_window(sum, sum.connections)))
            }),
        ];
        Figure::rows(format!("{}, {}", self.size, self.sequence), columns, rows)
    }
}
