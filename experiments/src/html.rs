//! The report: one HTML file that needs nothing else.

use core::fmt::Write as _;

use crate::escape::escape;
use crate::experiment::rounded;
use crate::figure::{Axis, Curve, Figure};
use crate::output::Report;
use crate::statement::Statement;
use crate::svg::plot;

const STYLE: &str = "body{font:15px/1.5 sans-serif;max-width:960px;margin:2em auto;padding:0 1em}\
.scroll{overflow-x:auto}svg{max-width:100%;height:auto}table{border-collapse:collapse;margin:1em 0}\
td,th{border:1px solid #ccc;padding:.25em .6em;text-align:left;font-size:13px;\
overflow-wrap:break-word}td.n{text-align:right}summary{cursor:pointer;font-size:13px}\
.yes{background:#dff2df}.no{background:#f8d7d7}.why td{padding-left:2em}";

/// A page with that title around `body`.
pub(super) fn page(title: &str, body: &str) -> String {
    let title = escape(title);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <title>{title}</title><style>{STYLE}</style></head><body>\n<h1>{title}</h1>\n\
         {body}</body></html>\n"
    )
}

/// A report with conditions, statements, plots and tables.
pub(super) fn report(report: &Report<'_>) -> String {
    let Report { head, options, .. } = report;
    let size = if options.quick { "reduced" } else { "full" };
    let mut body = "<p><a href=\"index.html\">All results</a></p>\n<table>\n".to_owned();
    let always = [
        ("Plan", head.name.clone()),
        ("Source", head.paper.clone()),
        ("Size of the run", size.to_owned()),
        ("Seed", options.seed.to_string()),
    ];
    for (name, value) in always.iter().chain(report.conditions) {
        let value = escape(value);
        // Writing into a string cannot fail.
        let _ = writeln!(body, "<tr><th>{name}</th><td>{value}</td></tr>");
    }
    body.push_str("</table>\n");
    body.push_str(&statements(report.statements));
    body.push_str(&figures(report.figures));
    page(&head.title, &body)
}

/// A page of conditions, plots and tables, for results of other programs than plans.
#[must_use]
pub fn page_of_figures(title: &str, conditions: &[(&str, String)], all: &[Figure]) -> String {
    let mut body = "<table>\n".to_owned();
    for (name, value) in conditions {
        let (name, value) = (escape(name), escape(value));
        // Writing into a string cannot fail.
        let _ = writeln!(body, "<tr><th>{name}</th><td>{value}</td></tr>");
    }
    body.push_str("</table>\n");
    body.push_str(&figures(all));
    page(title, &body)
}

/// Plots with their data, and tables.
fn figures(all: &[Figure]) -> String {
    let mut body = String::new();
    for figure in all {
        match figure {
            Figure::Plot {
                heading,
                curves,
                x,
                y,
            } => {
                let (columns, rows) = data(curves, x, y);
                let _ = writeln!(
                    body,
                    "<h2>{}</h2>\n{}<details><summary>Data of this plot</summary>\n{}</details>",
                    escape(heading),
                    plot(curves, x, y),
                    table(&columns, &rows)
                );
            }
            Figure::Table {
                heading,
                columns,
                rows,
            } => {
                let _ = writeln!(body, "<h2>{}</h2>", escape(heading));
                body.push_str(&table(columns, rows));
            }
        }
    }
    body
}

/// What was expected, what was measured, and whether it holds; below one that does not, why.
fn statements(statements: &[Statement]) -> String {
    let mut html =
        "<table>\n<tr><th>expected</th><th>measured</th><th>holds</th></tr>\n".to_owned();
    for statement in statements {
        let (class, word) = match statement.holds {
            Some(true) => ("yes", "pass"),
            Some(false) => ("no", "fail"),
            None => ("", "-"),
        };
        let (expected, measured) = (escape(&statement.expected), escape(&statement.measured));
        let _ = writeln!(
            html,
            "<tr class=\"{class}\"><td>{expected}</td><td>{measured}</td><td>{word}</td></tr>"
        );
        if statement.holds == Some(false) {
            let why = statement.why.as_deref().unwrap_or("not explained");
            let why = escape(why);
            let _ = writeln!(
                html,
                "<tr class=\"no why\"><td colspan=\"3\"><b>Why:</b> {why}</td></tr>"
            );
        }
    }
    html.push_str("</table>\n");
    html
}

/// The points of a plot: a row for each x and a column for each curve, or, where curves share few
/// values of x, a row for each point.
fn data(curves: &[Curve], x: &Axis, y: &Axis) -> (Vec<String>, Vec<Vec<String>>) {
    let mut values: Vec<f64> = curves
        .iter()
        .flat_map(|curve| curve.points.iter().map(|point| point.0))
        .collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    let longest = curves.iter().map(|curve| curve.points.len()).max();
    if values.len() > 2 * longest.unwrap_or(0) {
        let columns = ["curve", &x.name, &y.name].map(str::to_owned);
        let rows = curves.iter().flat_map(|curve| {
            let row = |&(x, y): &(f64, f64)| vec![curve.label(), cell(x), cell(y)];
            curve.points.iter().map(row)
        });
        return (columns.into(), rows.collect());
    }
    let labels = curves.iter().map(Curve::label);
    let columns = core::iter::once(x.name.clone()).chain(labels).collect();
    let row = |&x: &f64| {
        let of = |curve: &Curve| {
            let mut here = curve
                .points
                .iter()
                .filter(|point| point.0.total_cmp(&x).is_eq());
            here.next().map(|point| cell(point.1)).unwrap_or_default()
        };
        let cells = curves.iter().map(of);
        core::iter::once(cell(x)).chain(cells).collect()
    };
    (columns, values.iter().map(row).collect())
}

/// A number, to six decimals at most.
fn cell(value: f64) -> String {
    rounded(value).to_string()
}

/// Rows under names of columns.
fn table(columns: &[String], rows: &[Vec<String>]) -> String {
    let mut html = "<div class=\"scroll\"><table>\n<tr>".to_owned();
    for column in columns {
        let _ = write!(html, "<th>{}</th>", escape(column));
    }
    html.push_str("</tr>\n");
    for row in rows {
        html.push_str("<tr>");
        for cell in row {
            let _ = write!(html, "<td>{}</td>", escape(cell));
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</table></div>\n");
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_that_does_not_hold_says_why_in_the_next_row() {
        let statement = |holds, why: Option<&str>| Statement {
            expected: "all arrive".to_owned(),
            measured: "9 of 10".to_owned(),
            holds: Some(holds),
            why: why.map(str::to_owned),
        };
        let all = [
            statement(true, None),
            statement(false, Some("One is < late.")),
            statement(false, None),
        ];
        let html = statements(&all);
        let rows: Vec<&str> = html.lines().collect();
        assert!(rows[3].contains("fail"), "{html}");
        assert!(rows[4].contains("One is &lt; late."), "{html}");
        assert!(rows[6].contains("not explained"), "{html}");
        assert_eq!(html.matches("Why:").count(), 2);
    }

    #[test]
    fn the_data_of_a_plot_stand_by_x_or_one_by_one() {
        let axis = Axis::linear;
        let shared = [
            Curve::measured("slid", vec![(1.0, 0.5), (2.0, 0.25)]),
            Curve::of_paper("MLID04", "slid", vec![(2.0, 0.3)]),
        ];
        let (columns, rows) = data(&shared, &axis("load"), &axis("latency"));
        assert_eq!(columns, ["load", "slid", "slid, MLID04"]);
        assert_eq!(rows, [["1", "0.5", ""], ["2", "0.25", "0.3"]]);
        let apart = [
            Curve::measured("a", vec![(1.0, 0.5)]),
            Curve::measured("b", vec![(2.0, 0.25)]),
            Curve::measured("c", vec![(3.0, 0.125)]),
        ];
        let (columns, rows) = data(&apart, &axis("load"), &axis("latency"));
        assert_eq!(columns, ["curve", "load", "latency"]);
        assert_eq!(rows[1], ["b", "2", "0.25"]);
    }
}
