//! A placement by hand: a text of lines `MACHINE NODE`.
//!
//! ```text
//! # the first pod stays together
//! 0 s0
//! n2 s1*
//! 2 node07 mlx5_1
//! ```
//!
//! MACHINE is a machine's number from 0 or its name; NODE, the rest of the line, is the name of a device, or a
//! pattern with `*` (any characters) and `?` (one). Of several lines for one device the last counts. Blank lines, and
//! what follows a `#` that begins a line, are passed over.

use topologies::{Graph, NodeKind};

use super::{PlacementError, leaf};

/// A machine's name, if it has one yet.
pub type MachineName = Option<String>;

/// The machine of each node, by position.
pub(super) fn read(
    text: &str,
    graph: &Graph,
    machines: &[MachineName],
) -> Result<Vec<usize>, PlacementError> {
    let mut of: Vec<Option<usize>> = vec![None; graph.len()];
    for (line, content) in (1..).zip(text.lines()) {
        let content = content.trim();
        if content.is_empty() || content.starts_with('#') {
            continue;
        }
        let wrong = |problem: String| PlacementError::Line { line, problem };
        let (machine, pattern) = content
            .split_once(char::is_whitespace)
            .ok_or_else(|| wrong("write MACHINE NODE, as in: 0 s1".to_owned()))?;
        let machine = find(machine, machines).map_err(wrong)?;
        let pattern = pattern.trim();
        let mut found = false;
        let named = graph.find(pattern);
        for id in graph.ids() {
            let is_it = match named {
                Some(named) => named == id,
                None => topologies::matches(pattern, &graph.node(id).name),
            };
            if is_it {
                of[id.index()] = Some(machine);
                found = true;
            }
        }
        if !found {
            return Err(wrong(format!(
                "the fabric has no device that is called {pattern}, or like it (ibemu topo lists all)"
            )));
        }
    }
    graph
        .ids()
        .map(|id| {
            let follows = || {
                let is_host = graph.node(id).kind == NodeKind::Host;
                let leaf = is_host.then(|| leaf(graph, id)).flatten()?;
                of[leaf.index()]
            };
            of[id.index()]
                .or_else(follows)
                .ok_or_else(|| PlacementError::Unplaced {
                    name: graph.node(leaf(graph, id).unwrap_or(id)).name.clone(),
                })
        })
        .collect()
}

fn find(text: &str, machines: &[MachineName]) -> Result<usize, String> {
    let by_name = machines
        .iter()
        .position(|name| name.as_deref() == Some(text));
    let by_number = || {
        text.parse()
            .ok()
            .filter(|&number: &usize| number < machines.len())
    };
    by_name.or_else(by_number).ok_or_else(|| {
        let names: Vec<&str> = machines.iter().flatten().map(String::as_str).collect();
        let names = match names.as_slice() {
            [] => String::new(),
            names => format!(", or one of {}", names.join(", ")),
        };
        let last = machines.len().saturating_sub(1);
        format!("there is no machine {text}: write a number from 0 to {last}{names}")
    })
}
