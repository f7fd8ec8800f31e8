//! Points that a paper gives, drawn beside those measured.

use serde::Deserialize;

use crate::figure::{Curve, Figure};

/// Points that the paper gives for a plot: `[[paper_points]]` of a plan.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PaperPoints {
    /// Which plots: a part of the heading, or all of it.
    pub(crate) plot: String,
    /// What they are of.
    pub(crate) name: String,
    /// x and y.
    #[serde(default)]
    pub(crate) points: Vec<(f64, f64)>,
    /// A value of y that the paper gives without x: a line across the plot.
    pub(crate) level: Option<f64>,
}

/// The key of the paper that a plan is of: what its source begins with.
pub(crate) fn key(paper: &str) -> &str {
    let end = paper.find(|c: char| !c.is_ascii_alphanumeric());
    paper.get(..end.unwrap_or(paper.len())).unwrap_or(paper)
}

/// Adds the paper's points to the plots that they belong to.
pub(crate) fn add(figures: &mut [Figure], paper: &str, given: &[PaperPoints]) {
    for figure in figures {
        let Figure::Plot {
            heading, curves, ..
        } = figure
        else {
            continue;
        };
        for one in given.iter().filter(|one| heading.contains(&one.plot)) {
            let mut points = one.points.clone();
            if let Some(level) = one.level {
                points.extend(ends(curves).map(|x| (x, level)));
            }
            curves.push(Curve::of_paper(key(paper), one.name.as_str(), points));
        }
    }
}

/// The least and the greatest x of what was measured, if anything was.
fn ends(curves: &[Curve]) -> impl Iterator<Item = f64> + use<> {
    let measured = curves.iter().filter(|curve| curve.paper.is_none());
    let values = measured
        .flat_map(|curve| &curve.points)
        .map(|point| point.0);
    let ends = values.fold(None, |ends: Option<[f64; 2]>, x| {
        let [least, most] = ends.unwrap_or([x, x]);
        Some([least.min(x), most.max(x)])
    });
    ends.into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::Axis;

    #[test]
    fn a_papers_points_go_to_the_plots_of_their_heading() {
        let plot = |heading: &str| Figure::Plot {
            heading: heading.to_owned(),
            curves: vec![Curve::measured("ours", vec![(2.0, 1.0), (5.0, 3.0)])],
            x: Axis::linear("x"),
            y: Axis::linear("y"),
        };
        let mut figures = [plot("Figure 4: traffic"), plot("Figure 5")];
        let given = PaperPoints {
            plot: "Figure 4".to_owned(),
            name: "256 bytes".to_owned(),
            points: Vec::new(),
            level: Some(0.75),
        };
        add(&mut figures, "VLARB01, figure 4", &[given]);
        let curves = |figure: &Figure| match figure {
            Figure::Plot { curves, .. } => curves.clone(),
            Figure::Table { .. } => Vec::new(),
        };
        let across = Curve::of_paper("VLARB01", "256 bytes", vec![(2.0, 0.75), (5.0, 0.75)]);
        assert_eq!(curves(&figures[0])[1], across);
        assert_eq!(curves(&figures[1]).len(), 1);
    }
}
