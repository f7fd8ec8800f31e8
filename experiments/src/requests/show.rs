//! Conditions, curves and tables.

use crate::figure::{Axis, Curve, Figure};
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
            let shown = Shown {
                plan,
                points,
                size,
                sequence,
            };
            figures.extend(shown.plots());
            figures.push(shown.table());
        }
    }
    figures
}

struct Shown<'a> {
    plan: &'a RequestsPlan,
    points: &'a [Point],
    size: Size,
    sequence: Sequence,
}

impl Shown<'_> {
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
                let trees = self.plan.trees(self.size);
                let points = trees.map(|trees| {
                    let sum = self.sum(policy, percent, trees);
                    (f64::from(trees), of(sum))
                });
                curves.push(Curve::measured(
                    match self.sequence {
                        Sequence::Worst => policy.to_string(),
                        Sequence::Random | Sequence::Windows => format!("{policy}, {percent} %"),
                    },
                    points.collect(),
                ));
            }
        }
        let n = self.size.hosts;
        Figure::Plot {
            heading: format!(
                "{}, {}: {what} (n = {n}, 2n - 1 = {})",
                self.size,
                self.sequence,
                2 * n - 1
            ),
            curves,
            x: Axis::linear("trees"),
            y: Axis::linear(what),
        }
    }

    fn table(&self) -> Figure {
        let columns = [
            "policy",
            "occupancy, %",
            "trees",
            "requests",
            "blocked, %",
            "with moves, %",
            "moved per request",
            "moved at most",
            "deferrals per request",
            "connections per window",
        ];
        let mut rows = Vec::new();
        for &policy in &self.plan.policies {
            for &percent in self.occupancies() {
                for trees in self.plan.trees(self.size) {
                    let sum = self.sum(policy, percent, trees);
                    let part = |count: u64| real(count) / real(sum.requests.max(1));
                    let is_windows = self.sequence == Sequence::Windows;
                    let of_windows = |text: String| if is_windows { text } else { String::new() };
                    let moving = match is_windows {
                        true => real(sum.moving) / real(sum.windows.max(1)),
                        false => part(sum.moving),
                    };
                    let a_window = real(sum.connections) / real(sum.windows.max(1));
                    rows.push(vec![
                        policy.to_string(),
                        percent.to_string(),
                        trees.to_string(),
                        sum.requests.to_string(),
                        format!("{:.4}", 100.0 * part(sum.blocked)),
                        format!("{:.3}", 100.0 * moving),
                        format!("{:.4}", part(sum.moves)),
                        sum.moves_max.to_string(),
                        of_windows(format!("{:.3}", part(sum.deferred))),
                        of_windows(format!("{a_window:.2}")),
                    ]);
                }
            }
        }
        Figure::Table {
            heading: format!("{}, {}", self.size, self.sequence),
            columns: columns.map(str::to_owned).into(),
            rows,
        }
    }
}
