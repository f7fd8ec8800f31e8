//! Drawings: Graphviz and Mermaid. A cable is a line with the port numbers of its ends, and its width and speed
//! where they are known.

use core::fmt::Write as _;

use super::words::rate_word;
use crate::graph::{Graph, NodeKind};

/// The graph for Graphviz (`dot`, `neato`): switches are boxes.
pub(super) fn write_dot(graph: &Graph) -> String {
    let quoted = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
    let mut out = String::from("graph fabric {\n");
    for id in graph.ids() {
        let node = graph.node(id);
        let shape = match node.kind {
            NodeKind::Switch => "box",
            NodeKind::Host => "ellipse",
        };
        // Writing to a String cannot fail.
        let _ = writeln!(out, "  {} [shape={shape}];", quoted(&node.name));
    }
    for (a, b) in graph.links() {
        let [from, to] = [a, b].map(|end| quoted(&graph.node(end.node).name));
        let rate = graph.rate(a).map(rate_word);
        let rate = rate.map_or_else(String::new, |rate| format!(", label=\"{rate}\""));
        let (tail, head) = (a.port, b.port);
        let _ = writeln!(
            out,
            "  {from} -- {to} [taillabel=\"{tail}\", headlabel=\"{head}\"{rate}];"
        );
    }
    out.push_str("}\n");
    out
}

/// The graph as a flow chart of Mermaid: switches are boxes, hosts are round.
pub(super) fn write_mermaid(graph: &Graph) -> String {
    let mut out = String::from("flowchart BT\n");
    for id in graph.ids() {
        let node = graph.node(id);
        let name = node.name.replace('#', "#35;").replace('"', "#quot;");
        let (open, close) = match node.kind {
            NodeKind::Switch => ("[", "]"),
            NodeKind::Host => ("([", "])"),
        };
        let _ = writeln!(out, "  n{}{open}\"{name}\"{close}", id.index());
    }
    for (a, b) in graph.links() {
        let rate = graph.rate(a).map(rate_word);
        let rate = rate.map_or_else(String::new, |rate| format!(", {rate}"));
        let [from, to] = [a, b].map(|end| end.node.index());
        let (tail, head) = (a.port, b.port);
        let _ = writeln!(out, "  n{from} ---|\"{tail} - {head}{rate}\"| n{to}");
    }
    out
}
