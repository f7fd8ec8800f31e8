//! The points of a plan: the product of its axes, numbered once, the last axis running fastest.
//!
//! A number is turned into coordinates as an odometer turns: divided by the lengths of the axes
//! from the last to the first. Nothing is listed, except where a kind leaves points out: then the
//! numbers in the product of those that stay are.
//!
//! ```text
//! axes      topologies [a, b]   vls [1, 2, 4]   runs 2
//! point 7 = 1 * (3 * 2) + 0 * 2 + 1  -->  b, 1 VL, run 1
//! ```

use core::fmt::Display;

use wire::convert::usize_of;

use crate::checks::{Refusal, not_empty};

/// The product of the axes has at most so many times the points that a kind allows: leaving out is
/// for a part of the product, not for nearly all of it.
const PRODUCT_MAX: usize = 64;

/// An axis: the key of the plan that it comes from, and its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Axis {
    key: &'static str,
    values: Values,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Values {
    /// Of a list, as messages show them.
    List(Vec<String>),
    /// The numbers from 0 on: how many.
    Count(usize),
}

impl Axis {
    /// The values of a list.
    pub(crate) fn list(key: &'static str, values: impl IntoIterator<Item: Display>) -> Self {
        let values = values.into_iter().map(|value| value.to_string());
        Self {
            key,
            values: Values::List(values.collect()),
        }
    }

    /// The numbers from 0 to below `count`.
    pub(crate) fn count(key: &'static str, count: u32) -> Self {
        Self {
            key,
            values: Values::Count(usize_of(count)),
        }
    }

    fn len(&self) -> usize {
        match &self.values {
            Values::List(values) => values.len(),
            Values::Count(count) => *count,
        }
    }

    /// The value at a place, for messages: `vls 4`, `runs 0`.
    pub(crate) fn label(&self, place: usize) -> String {
        match &self.values {
            Values::List(values) => {
                let value = values.get(place).map_or("?", String::as_str);
                format!("{} {value}", self.key)
            }
            Values::Count(_) => format!("{} {place}", self.key),
        }
    }
}

/// The points of a plan by number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Points<const AXES: usize> {
    lengths: [usize; AXES],
    product: usize,
    /// Numbers in the product of the points there are; `None`: all of it.
    chosen: Option<Vec<usize>>,
}

impl<const AXES: usize> Points<AXES> {
    /// The points of the product that `has` does not leave out; at most `max`.
    ///
    /// # Errors
    /// An empty list, no points at all, or too many: the key of the axis, and what is allowed.
    pub(crate) fn new(
        axes: [Axis; AXES],
        max: usize,
        has: impl Fn([usize; AXES]) -> bool,
    ) -> Result<Self, Refusal> {
        for axis in &axes {
            if let Values::List(values) = &axis.values {
                not_empty(axis.key, values)?;
            }
        }
        let last = axes.last().map_or("kind", |axis| axis.key);
        let refuse = |points: usize| Err((last, format!("{points} points: 1 to {max}")));
        let lengths = axes.map(|axis| axis.len());
        let product = lengths
            .iter()
            .fold(1, |all: usize, &one| all.saturating_mul(one));
        if product == 0 || product > max.saturating_mul(PRODUCT_MAX) {
            return refuse(product);
        }
        let mut points = Self {
            lengths,
            product,
            chosen: None,
        };
        let chosen: Vec<usize> = (0..product)
            .filter(|&number| has(points.coordinates(number)))
            .collect();
        if chosen.is_empty() || chosen.len() > max {
            return refuse(chosen.len());
        }
        if chosen.len() < product {
            points.chosen = Some(chosen);
        }
        Ok(points)
    }

    /// How many points there are.
    pub(crate) fn len(&self) -> usize {
        self.chosen.as_ref().map_or(self.product, Vec::len)
    }

    /// The coordinates of a point: along each axis, the place of its value.
    ///
    /// # Panics
    /// There is no such point.
    pub(crate) fn at(&self, point: usize) -> [usize; AXES] {
        assert!(point < self.len(), "there is no point {point}");
        self.coordinates(self.chosen.as_ref().map_or(point, |chosen| chosen[point]))
    }

    fn coordinates(&self, mut number: usize) -> [usize; AXES] {
        let mut at = [0; AXES];
        for (place, length) in at.iter_mut().zip(self.lengths).rev() {
            *place = number % length;
            number /= length;
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axes() -> [Axis; 3] {
        [
            Axis::list("topologies", ["a", "b"]),
            Axis::list("vls", [1, 2, 4]),
            Axis::count("runs", 2),
        ]
    }

    #[test]
    fn the_last_axis_runs_fastest() {
        let points = Points::new(axes(), 12, |_| true).unwrap();
        let mut expected = Vec::new();
        for topology in 0..2 {
            for vls in 0..3 {
                for run in 0..2 {
                    expected.push([topology, vls, run]);
                }
            }
        }
        let all: Vec<_> = (0..points.len()).map(|point| points.at(point)).collect();
        assert_eq!(all, expected);
    }

    #[test]
    fn points_that_are_left_out_have_no_number() {
        // The second topology has one number of VLs only.
        let points = Points::new(axes(), 12, |[topology, vls, _]| topology == 0 || vls == 2);
        let points = points.unwrap();
        assert_eq!(points.len(), 8);
        assert_eq!(points.at(5), [0, 2, 1]);
        assert_eq!(points.at(6), [1, 2, 0]);
    }

    #[test]
    fn what_makes_no_plan_is_told_with_the_key_of_its_axis() {
        let empty: [u8; 0] = [];
        let refused = Points::new([Axis::list("vls", empty)], 9, |_| true);
        let what = "the list is empty: at least one".to_owned();
        assert_eq!(refused, Err(("vls", what)));
        let many = Points::new(axes(), 11, |_| true);
        assert_eq!(many, Err(("runs", "12 points: 1 to 11".to_owned())));
        let none = Points::new([Axis::count("runs", 0)], 9, |_| true);
        assert_eq!(none, Err(("runs", "0 points: 1 to 9".to_owned())));
        let none = Points::new(axes(), 12, |_| false);
        assert_eq!(none, Err(("runs", "0 points: 1 to 12".to_owned())));
        let huge = Points::new([(); 3].map(|()| Axis::count("runs", u32::MAX)), 9, |_| true);
        assert!(huge.is_err());
    }
    #[test]
    fn a_value_is_shown_with_its_key() {
        let [topologies, _, runs] = axes();
        assert_eq!(topologies.label(1), "topologies b");
        assert_eq!(runs.label(1), "runs 1");
    }
}
