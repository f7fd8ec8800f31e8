//! The report: one HTML file that needs nothing else.

use core::fmt::Write as _;

use crate::Options;
use crate::document::Head;
use crate::experiment::Verdict;
use crate::figure::Figure;
use crate::svg::plot;

const STYLE: &str = "body{font:15px/1.5 sans-serif;max-width:960px;margin:2em auto;padding:0 1em}\
table{border-collapse:collapse;margin:1em 0}td,th{border:1px solid #ccc;padding:.25em .6em;\
text-align:left;font-size:13px}.yes{background:#dff2df}.no{background:#f8d7d7}";

/// A page with that title around `body`.
pub(super) fn page(title: &str, body: &str) -> String {
    let title = escape(title);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <title>{title}</title><style>{STYLE}</style></head><body>\n<h1>{title}</h1>\n\
         {body}</body></html>\n"
    )
}

/// A report with conditions, verdicts, plots and tables.
pub(super) fn report(
    head: &Head,
    options: Options,
    conditions: &[(&'static str, String)],
    verdicts: &[Verdict],
    figures: &[Figure],
) -> String {
    let size = if options.quick { "reduced" } else { "full" };
    let mut body = "<table>\n".to_owned();
    let always = [
        ("Plan", head.name.clone()),
        ("Source", head.paper.clone()),
        ("Size of the run", size.to_owned()),
        ("Seed", options.seed.to_string()),
    ];
    for (name, value) in always.iter().chain(conditions) {
        let value = escape(value);
        // Writing into a string cannot fail.
        let _ = writeln!(body, "<tr><th>{name}</th><td>{value}</td></tr>");
    }
    body.push_str("</table>\n");
    body.push_str(&self::verdicts(verdicts));
    for figure in figures {
        match figure {
            Figure::Plot {
                heading,
                curves,
                x,
                y,
            } => {
                let _ = writeln!(body, "<h2>{}</h2>", escape(heading));
                body.push_str(&plot(curves, x, y));
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
    page(&head.title, &body)
}

/// What was expected, what was measured, and whether it holds.
pub(super) fn verdicts(verdicts: &[Verdict]) -> String {
    let mut html =
        "<table>\n<tr><th>expected</th><th>measured</th><th>holds</th></tr>\n".to_owned();
    for Verdict {
        expected,
        measured,
        holds,
    } in verdicts
    {
        let (class, word) = match holds {
            Some(true) => ("yes", "pass"),
            Some(false) => ("no", "fail"),
            None => ("", "-"),
        };
        let (expected, measured) = (escape(expected), escape(measured));
        let _ = writeln!(
            html,
            "<tr class=\"{class}\"><td>{expected}</td><td>{measured}</td><td>{word}</td></tr>"
        );
    }
    html.push_str("</table>\n");
    html
}

/// Rows under names of columns.
fn table(columns: &[String], rows: &[Vec<String>]) -> String {
    let mut html = "<table>\n<tr>".to_owned();
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
    html.push_str("</table>\n");
    html
}

/// Text that stands in HTML for itself.
pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
