//! A plot of curves as SVG.

use core::fmt::Write as _;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 440.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 180.0;
const TOP: f64 = 20.0;
const BOTTOM: f64 = 60.0;
/// Lines between the axes, about.
const TICKS: f64 = 6.0;
const COLOURS: [&str; 8] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#444444", "#999900",
];

/// A curve.
pub(super) struct Curve {
    pub(super) name: String,
    pub(super) points: Vec<(f64, f64)>,
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

fn most(curves: &[Curve], of: fn(&(f64, f64)) -> f64) -> f64 {
    let values = curves.iter().flat_map(|curve| curve.points.iter().map(of));
    let most = values.fold(0.0, f64::max);
    if most > 0.0 { most * 1.05 } else { 1.0 }
}

/// A plot with both axes from 0. The curves' names stand beside it in their colours.
pub(super) fn plot(curves: &[Curve], x_name: &str, y_name: &str) -> String {
    let (x_most, y_most) = (most(curves, |p| p.0), most(curves, |p| p.1));
    let x = |value: f64| LEFT + value / x_most * (WIDTH - LEFT - RIGHT);
    let y = |value: f64| HEIGHT - BOTTOM - value / y_most * (HEIGHT - TOP - BOTTOM);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         width=\"{WIDTH}\" height=\"{HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\">\n"
    );
    // Writing into a string cannot fail.
    let mut put = |text: String| {
        let _ = writeln!(svg, "{text}");
    };
    let (bottom, right) = (y(0.0), x(x_most));
    for (most, is_x) in [(x_most, true), (y_most, false)] {
        let step = step(most);
        let mut value = 0.0;
        while value <= most {
            let label = label(value, step);
            put(if is_x {
                let at = x(value);
                format!(
                    "<path d=\"M{at:.1} {bottom:.1}V{TOP}\" stroke=\"#ddd\"/>\
                     <text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}</text>",
                    bottom + 18.0
                )
            } else {
                let at = y(value);
                format!(
                    "<path d=\"M{LEFT} {at:.1}H{right:.1}\" stroke=\"#ddd\"/>\
                     <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
                    LEFT - 6.0,
                    at + 4.0
                )
            });
            value += step;
        }
    }
    put(format!(
        "<path d=\"M{LEFT} {TOP}V{bottom:.1}H{right:.1}\" fill=\"none\" stroke=\"#000\"/>"
    ));
    put(format!(
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{x_name}</text>",
        f64::midpoint(LEFT, right),
        HEIGHT - 14.0
    ));
    let middle = f64::midpoint(TOP, bottom);
    put(format!(
        "<text x=\"20\" y=\"{middle:.1}\" text-anchor=\"middle\" \
         transform=\"rotate(-90 20 {middle:.1})\">{y_name}</text>"
    ));
    let mut legend_at = TOP + 10.0;
    for (curve, colour) in curves.iter().zip(COLOURS.iter().cycle()) {
        let mut line = String::new();
        for &(a, b) in &curve.points {
            let _ = write!(line, "{:.1},{:.1} ", x(a), y(b));
        }
        let line = line.trim_end();
        put(format!(
            "<polyline points=\"{line}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\"/>"
        ));
        for &(a, b) in &curve.points {
            put(format!(
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"2.5\" fill=\"{colour}\"/>",
                x(a),
                y(b)
            ));
        }
        put(format!(
            "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"4\" fill=\"{colour}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            right + 14.0,
            legend_at - 4.0,
            right + 24.0,
            legend_at,
            curve.name
        ));
        legend_at += 18.0;
    }
    svg.push_str("</svg>\n");
    svg
}

/// A number of an axis, with as many decimals as its step needs.
fn label(value: f64, step: f64) -> String {
    if step >= 1.0 {
        format!("{value:.0}")
    } else if step >= 0.1 {
        format!("{value:.1}")
    } else if step >= 0.01 {
        format!("{value:.2}")
    } else {
        format!("{value:.3}")
    }
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
        let curves = [Curve {
            name: "mlid, 1 VL".to_owned(),
            points: vec![(0.01, 700.0), (0.07, 2000.0)],
        }];
        let svg = plot(&curves, "accepted", "latency");
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
        for part in ["mlid, 1 VL", "accepted", "latency", "polyline"] {
            assert!(svg.contains(part), "{part}");
        }
        assert!(!plot(&[], "x", "y").contains("NaN"));
    }
}
