//! The report: one HTML file that needs nothing else.

use core::fmt::Write as _;

use crate::experiments::Options;
use crate::experiments::judge::Verdict;
use crate::experiments::plan::{Credits, Lanes, Plan};
use crate::experiments::points::Point;
use crate::experiments::svg::{Curve, plot};

const STYLE: &str = "body{font:15px/1.5 sans-serif;max-width:960px;margin:2em auto;padding:0 1em}\
table{border-collapse:collapse;margin:1em 0}td,th{border:1px solid #ccc;padding:.25em .6em;\
text-align:left;font-size:13px}.yes{background:#dff2df}.no{background:#f8d7d7}";

/// A report with conditions, verdicts and a plot for each network and workload.
pub(super) fn report(
    plan: &Plan,
    options: Options,
    points: &[Point],
    verdicts: &[Verdict],
) -> String {
    let title = escape(&plan.title);
    let mut html = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <title>{title}</title><style>{STYLE}</style></head><body>\n<h1>{title}</h1>\n"
    );
    html.push_str(&conditions(plan, options));
    html.push_str(&table_of(verdicts));
    for topology in &plan.topologies {
        for traffic in &plan.traffic {
            let name = traffic.name();
            let heading = escape(&format!("{topology}, {name}"));
            let _ = writeln!(html, "<h2>{heading}</h2>");
            let curves = curves(plan, points, topology, &name);
            html.push_str(&plot(
                &curves,
                "accepted traffic, bytes/ns and host",
                "mean latency, ns",
            ));
        }
    }
    html.push_str("</body></html>\n");
    html
}

fn conditions(plan: &Plan, options: Options) -> String {
    let model = plan.model(1);
    let credits = match plan.credits {
        Credits::Ideal => "ideal: in the moment in which a buffer is freed",
        Credits::Packets => "flow-control packets, which fly like all others and take no byte time",
    };
    let lanes = match plan.lanes {
        Lanes::Random => "drawn for each packet",
        Lanes::Connection => "drawn for each pair of hosts",
    };
    let faults = match plan.fault.len() {
        0 => "none".to_owned(),
        count => format!("{count}, as the plan says"),
    };
    let lifetime = match plan.lifetime.and_then(link::life_time_ns) {
        Some(ns) => format!("{ns} ns"),
        None => "for ever".to_owned(),
    };
    let size = if options.quick { "reduced" } else { "full" };
    let rows = [
        ("Source", plan.paper.clone()),
        ("Size of the run", size.to_owned()),
        (
            "Seed",
            format!("{}, {} run(s) of each point", options.seed, plan.runs),
        ),
        (
            "Network",
            format!(
                "{} ns of flight, {} ns of routing, {} ns a packet of {} bytes (LRH to ICRC), \
                 virtual cut-through, a packet leaves its input buffer at the link's rate",
                model.flight_ns,
                model.routing_ns,
                model.byte_time_ns(),
                model.packet_bytes
            ),
        ),
        (
            "Buffers",
            "one packet in, one packet out, for each lane of a port".to_owned(),
        ),
        ("Credits", credits.to_owned()),
        ("Faults", faults),
        ("Lifetime of packets in a switch", lifetime),
        ("Lane of a packet", lanes.to_owned()),
        (
            "Time",
            format!(
                "{} ns to warm up, {} ns measured",
                plan.warmup_ns, plan.measure_ns
            ),
        ),
        (
            "Latency",
            "from a packet's first byte on its first link to its last byte at its host".to_owned(),
        ),
    ];
    let mut html = "<table>\n".to_owned();
    for (name, value) in rows {
        let value = escape(&value);
        let _ = writeln!(html, "<tr><th>{name}</th><td>{value}</td></tr>");
    }
    html.push_str("</table>\n");
    html
}

fn table_of(verdicts: &[Verdict]) -> String {
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

/// One curve for each scheme and number of lanes; of several runs, all points.
fn curves(plan: &Plan, points: &[Point], topology: &str, traffic: &str) -> Vec<Curve> {
    let mut curves = Vec::new();
    for &vls in &plan.vls {
        for scheme in &plan.schemes {
            let here = points.iter().filter(|point| {
                point.topology == topology
                    && point.traffic == traffic
                    && point.vls == vls
                    && point.scheme == *scheme
                    && point.run == 0
            });
            curves.push(Curve {
                name: escape(&format!("{scheme}, {vls} VL")),
                points: here
                    .map(|point| (point.accepted, point.latency_ns))
                    .collect(),
            });
        }
    }
    curves
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
