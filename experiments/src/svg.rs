//! A plot of curves as SVG.

use core::fmt::Write as _;

use wire::convert::{real, u64_of};

use crate::escape::escape;
use crate::figure::{Axis, Curve, Scale};

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 440.0;
const LEFT: f64 = 90.0;
const RIGHT: f64 = 310.0;
const TOP: f64 = 20.0;
const BOTTOM: f64 = 60.0;
/// Lines between the ends of a linear axis, about.
const TICKS: f64 = 6.0;
/// Room above the highest value of a linear axis.
const HEADROOM: f64 = 1.05;
/// Height of a line of the legend.
const LINE: f64 = 18.0;
const COLOURS: [&str; 8] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#444444", "#999900",
];
/// From how many curves on the colours come again, dashed otherwise.
const DASHES: [&str; 4] = ["none", "6 3", "2 3", "8 3 2 3"];

/// Where an axis begins and ends, and the values at which it has lines.
pub(super) struct Range {
    scale: Scale,
    low: f64,
    high: f64,
    ticks: Vec<(f64, String)>,
}

impl Range {
    /// The range that holds all usable values.
    pub(super) fn of(scale: Scale, values: impl Iterator<Item = f64>) -> Self {
        let usable = |value: &f64| value.is_finite() && (scale == Scale::Linear || *value > 0.0);
        let (low, high) = values
            .filter(usable)
            .fold((f64::INFINITY, 0.0f64), |(low, high), value| {
                (low.min(value), high.max(value))
            });
        match scale {
            Scale::Linear => Self::linear(low.min(0.0), high),
            Scale::Logarithmic => Self::logarithmic(low, high),
        }
    }

    /// From 0, or a round value below the least if that is negative.
    fn linear(low: f64, high: f64) -> Self {
        let high = if high > 0.0 { high * HEADROOM } else { 1.0 };
        let step = step(high - low);
        let low = (low / step).floor() * step;
        let mut ticks = Vec::new();
        let mut value = low;
        while value <= high {
            ticks.push((value, decimal(value, step)));
            value += step;
        }
        Self {
            scale: Scale::Linear,
            low,
            high,
            ticks,
        }
    }

    /// From a power of ten, or of two if the values span no three powers of ten, to the next.
    fn logarithmic(low: f64, high: f64) -> Self {
        let (low, high) = if high > 0.0 { (low, high) } else { (1.0, 10.0) };
        let base: f64 = if high / low < 1000.0 { 2.0 } else { 10.0 };
        let power = |value: f64| value.ln() / base.ln();
        let first = (power(low) + 1e-9).floor();
        let last = (power(high) - 1e-9).ceil().max(first + 1.0);
        let mut ticks = Vec::new();
        let mut at = first;
        while at <= last {
            let value = base.powf(at);
            ticks.push((value, short(value)));
            at += 1.0;
        }
        Self {
            scale: Scale::Logarithmic,
            low: base.powf(first),
            high: base.powf(last),
            ticks,
        }
    }

    /// Where a value lies between the ends: 0 to 1.
    pub(super) fn place(&self, value: f64) -> f64 {
        match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Logarithmic => {
                let value = value.max(self.low);
                (value / self.low).ln() / (self.high / self.low).ln()
            }
        }
    }
}

/// A step of 1, 2 or 5 times a power of ten that divides `span` into some [`TICKS`] parts.
fn step(span: f64) -> f64 {
    let rough = span / TICKS;
    let power = 10f64.powf(rough.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
    steps
        .into_iter()
        .find(|&step| step >= rough)
        .unwrap_or(power)
}

/// A number of a linear axis, with as many decimals as its step needs.
fn decimal(value: f64, step: f64) -> String {
    let decimals = [1.0, 0.1, 0.01, 0.001, 0.0001];
    // A step of 0.1 may be a little less than that.
    let places = decimals.iter().position(|&least| step >= least * 0.999);
    format!("{value:.*}", places.unwrap_or(decimals.len()))
}

/// A number of a logarithmic axis: 128, 64k, 0.5.
fn short(value: f64) -> String {
    for (unit, letter) in [
        (1024.0 * 1024.0, "Mi"),
        (1024.0, "Ki"),
        (1e9, "G"),
        (1e6, "M"),
        (1e3, "k"),
    ] {
        let parts = value / unit;
        if parts >= 1.0 && (parts - parts.round()).abs() < 1e-6 {
            return format!("{parts:.0}{letter}");
        }
    }
    if value >= 1.0 {
        format!("{value:.0}")
    } else {
        format!("{value}")
    }
}

/// The drawing, and where values lie in it.
struct Drawing {
    svg: String,
    x: Range,
    y: Range,
}

impl Drawing {
    fn x(&self, value: f64) -> f64 {
        LEFT + self.x.place(value) * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, value: f64) -> f64 {
        HEIGHT - BOTTOM - self.y.place(value) * (HEIGHT - TOP - BOTTOM)
    }

    fn put(&mut self, text: &str) {
        self.svg.push_str(text);
        self.svg.push('\n');
    }

    fn axes(&mut self, x_name: &str, y_name: &str) {
        let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
        for (value, label) in self.x.ticks.clone() {
            let at = self.x(value);
            self.put(&format!(
                "<path d=\"M{at:.1} {bottom:.1}V{TOP}\" stroke=\"#ddd\"/>\
                 <text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}</text>",
                bottom + 18.0
            ));
        }
        for (value, label) in self.y.ticks.clone() {
            let at = self.y(value);
            self.put(&format!(
                "<path d=\"M{LEFT} {at:.1}H{right:.1}\" stroke=\"#ddd\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
                LEFT - 6.0,
                at + 4.0
            ));
        }
        self.put(&format!(
            "<path d=\"M{LEFT} {TOP}V{bottom:.1}H{right:.1}\" fill=\"none\" stroke=\"#000\"/>"
        ));
        self.put(&format!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            f64::midpoint(LEFT, right),
            HEIGHT - 14.0,
            escape(x_name)
        ));
        let middle = f64::midpoint(TOP, bottom);
        self.put(&format!(
            "<text x=\"20\" y=\"{middle:.1}\" text-anchor=\"middle\" \
             transform=\"rotate(-90 20 {middle:.1})\">{}</text>",
            escape(y_name)
        ));
    }

    /// A curve in the colour of `number`, and its name in line `place` of the legend. Points of a
    /// paper are hollow squares on a dotted line.
    fn curve(&mut self, place: usize, number: usize, curve: &Curve) {
        let colour = colour(number);
        let (width, dash) = match curve.paper {
            Some(_) => ("1", "1 4"),
            None => ("1.5", DASHES[number / COLOURS.len() % DASHES.len()]),
        };
        let mut line = String::new();
        for &(x, y) in &curve.points {
            // Writing into a string cannot fail.
            let _ = write!(line, "{:.1},{:.1} ", self.x(x), self.y(y));
        }
        self.put(&format!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\" \
             stroke-dasharray=\"{dash}\"/>",
            line.trim_end()
        ));
        for &(x, y) in &curve.points {
            let (x, y) = (self.x(x), self.y(y));
            self.marker(curve, x, y, colour);
        }
        let at = real(u64_of(place)).mul_add(LINE, TOP + 10.0);
        let left = WIDTH - RIGHT + 10.0;
        self.marker(curve, left + 13.0, at - 4.0, colour);
        self.put(&format!(
            "<path d=\"M{left:.1} {:.1}h26\" stroke=\"{colour}\" stroke-width=\"{width}\" \
             stroke-dasharray=\"{dash}\"/><text x=\"{:.1}\" y=\"{at:.1}\">{}</text>",
            at - 4.0,
            left + 32.0,
            escape(&curve.label())
        ));
    }

    fn marker(&mut self, curve: &Curve, x: f64, y: f64, colour: &str) {
        self.put(&match curve.paper {
            Some(_) => format!(
                "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"7\" height=\"7\" fill=\"#fff\" \
                 stroke=\"{colour}\" stroke-width=\"1.5\"/>",
                x - 3.5,
                y - 3.5
            ),
            None => format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.5\" fill=\"{colour}\"/>"),
        });
    }
}

/// The colour of that number.
pub(super) fn colour(number: usize) -> &'static str {
    COLOURS[number % COLOURS.len()]
}

/// The numbers of the curves' colours: a paper's curve has that of the measured one whose name its
/// own begins with.
pub(super) fn colour_numbers(curves: &[Curve]) -> Vec<usize> {
    let of_paper = |curve: &Curve| {
        let measured = curves.iter().enumerate();
        let measured = measured.filter(|(_, other)| {
            other.paper.is_none() && curve.name.starts_with(other.name.as_str())
        });
        let same = measured.max_by_key(|(_, other)| other.name.len());
        same.map(|(number, _)| number)
    };
    let number = |(number, curve): (usize, &Curve)| match curve.paper {
        Some(_) => of_paper(curve).unwrap_or(number),
        None => number,
    };
    curves.iter().enumerate().map(number).collect()
}

/// A plot. The curves' names stand beside it in their colours.
pub(super) fn plot(curves: &[Curve], x: &Axis, y: &Axis) -> String {
    let values = || curves.iter().flat_map(|curve| &curve.points);
    let legend = real(u64_of(curves.len())) * LINE + TOP;
    let height = HEIGHT.max(legend);
    let mut drawing = Drawing {
        svg: format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
             width=\"{WIDTH}\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\">\n"
        ),
        x: Range::of(x.scale, values().map(|point| point.0)),
        y: Range::of(y.scale, values().map(|point| point.1)),
    };
    drawing.axes(&x.name, &y.name);
    let numbers = colour_numbers(curves);
    for (place, (curve, number)) in curves.iter().zip(numbers).enumerate() {
        drawing.curve(place, number, curve);
    }
    drawing.put("</svg>");
    drawing.svg
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_round_and_divide_the_axis_into_a_few_parts() {
        for (span, wanted) in [(0.15, 0.05), (6.0, 1.0), (2409.0, 500.0), (0.07, 0.02)] {
            assert!((step(span) - wanted).abs() < 1e-9, "{span}: {}", step(span));
        }
    }

    #[test]
    fn a_plot_has_its_curves_axes_and_names() {
        let points = vec![(0.01, 700.0), (0.07, 2000.0)];
        let curves = [Curve::measured("mlid, <1 VL>", points)];
        let svg = plot(&curves, &Axis::linear("accepted"), &Axis::linear("latency"));
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
        for part in ["mlid, &lt;1 VL&gt;", "accepted", "latency", "polyline"] {
            assert!(svg.contains(part), "{part}");
        }
        let empty = plot(&[], &Axis::linear("x"), &Axis::logarithmic("y"));
        assert!(!empty.contains("NaN") && !empty.contains("inf"), "{empty}");
    }

    #[test]
    fn a_papers_points_are_squares_in_the_colour_of_those_they_compare_with() {
        let curves = [
            Curve::measured("greedy", vec![(1.0, 2.0)]),
            Curve::measured("separate", vec![(1.0, 3.0)]),
            Curve::of_paper("LID07", "separate, 1 VL", vec![(1.0, 2.5)]),
            Curve::of_paper("LID07", "other", vec![(1.0, 2.5)]),
        ];
        assert_eq!(colour_numbers(&curves), [0, 1, 1, 3]);
        let svg = plot(&curves, &Axis::linear("x"), &Axis::linear("y"));
        let square = format!("stroke=\"{}\" stroke-width=\"1.5\"/>", colour(1));
        assert!(svg.contains(&square), "{svg}");
        assert!(svg.contains(">separate, 1 VL, LID07<"), "{svg}");
    }

    #[test]
    fn a_linear_axis_begins_at_0_or_below_the_least_value() {
        let above = Range::of(Scale::Linear, [0.5, 4.0].into_iter());
        assert_eq!(above.ticks[0].1, "0");
        let below = Range::of(Scale::Linear, [-1.1, 1.0].into_iter());
        let labels: Vec<&str> = below.ticks.iter().map(|tick| tick.1.as_str()).collect();
        assert_eq!(labels, ["-1.5", "-1.0", "-0.5", "0.0", "0.5", "1.0"]);
        assert!(below.place(-1.5).abs() < 1e-9 && below.place(-1.1) > 0.0);
    }

    #[test]
    fn a_logarithmic_axis_goes_from_power_to_power() {
        let range = Range::of(Scale::Logarithmic, [32.0, 131_072.0].into_iter());
        let labels: Vec<&str> = range.ticks.iter().map(|tick| tick.1.as_str()).collect();
        assert_eq!(labels, ["10", "100", "1k", "10k", "100k", "1M"]);
        let octaves = Range::of(Scale::Logarithmic, [32.0, 1024.0].into_iter());
        let labels: Vec<&str> = octaves.ticks.iter().map(|tick| tick.1.as_str()).collect();
        assert_eq!(labels, ["32", "64", "128", "256", "512", "1Ki"]);
        assert!((octaves.place(32.0)).abs() < 1e-9 && (octaves.place(1024.0) - 1.0).abs() < 1e-9);
        let middle = octaves.place(32.0 * 32f64.sqrt());
        assert!((middle - 0.5).abs() < 1e-9, "{middle}");
    }
}
