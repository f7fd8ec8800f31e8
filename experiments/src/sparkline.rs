//! A plot so small that it stands in a line of a table: its curves, without axes or names.

use core::fmt::Write as _;

use crate::figure::{Axis, Curve};
use crate::svg::{Range, colour, colour_numbers};

const WIDTH: f64 = 150.0;
const HEIGHT: f64 = 36.0;
/// Room around the curves.
const MARGIN: f64 = 3.0;

/// The curves of a plot; those of one point are dots.
pub(super) fn sparkline(curves: &[Curve], x: &Axis, y: &Axis) -> String {
    let values = || curves.iter().flat_map(|curve| &curve.points);
    let across = Range::of(x.scale, values().map(|point| point.0));
    let up = Range::of(y.scale, values().map(|point| point.1));
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         width=\"{WIDTH}\" height=\"{HEIGHT}\">"
    );
    for (curve, number) in curves.iter().zip(colour_numbers(curves)) {
        let colour = colour(number);
        let dash = if curve.paper.is_some() { "1 3" } else { "none" };
        let mut line = String::new();
        for &(x, y) in &curve.points {
            let x = across.place(x).mul_add(WIDTH - 2.0 * MARGIN, MARGIN);
            let y = (1.0 - up.place(y)).mul_add(HEIGHT - 2.0 * MARGIN, MARGIN);
            // Writing into a string cannot fail.
            let _ = write!(line, "{x:.1},{y:.1} ");
        }
        let line = line.trim_end();
        if let [(_, _)] = curve.points[..] {
            let (x, y) = line.split_once(',').unwrap_or_default();
            let _ = write!(
                svg,
                "<circle cx=\"{x}\" cy=\"{y}\" r=\"2\" fill=\"{colour}\"/>"
            );
        } else {
            let _ = write!(
                svg,
                "<polyline points=\"{line}\" fill=\"none\" stroke=\"{colour}\" \
                 stroke-dasharray=\"{dash}\"/>"
            );
        }
    }
    svg.push_str("</svg>");
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sparkline_has_a_line_for_each_curve_and_a_dot_for_a_single_point() {
        let curves = [
            Curve::measured("a", vec![(1.0, 1.0), (2.0, 4.0)]),
            Curve::of_paper("LID07", "a", vec![(1.5, 2.0)]),
        ];
        let svg = sparkline(&curves, &Axis::linear("x"), &Axis::linear("y"));
        assert_eq!(svg.matches("<polyline").count(), 1);
        assert_eq!(svg.matches("<circle").count(), 1);
        assert!(!svg.contains("<text"), "{svg}");
        let empty = sparkline(&[], &Axis::linear("x"), &Axis::logarithmic("y"));
        assert!(!empty.contains("NaN"), "{empty}");
    }
}
