//! Makes a draft of texts that say only which switch is under which: Slurm's and topograph's.
//!
//! Ports are given in the order of the lines: below first, then above; GUIDs are made up in the order in which
//! nodes are named. Such texts have one cable for each pair.

use std::collections::{BTreeMap, BTreeSet};

use wire::convert::{saturate, u64_of};

use super::draft::{Draft, Record};
use crate::error::{NODES_MAX, SWITCH_PORTS_MAX, TextError, TextProblem};
use crate::graph::NodeKind;
use crate::names::{host_guid, switch_guid};

/// Switches, hosts, and what is under what.
#[derive(Default)]
pub(super) struct Tree {
    nodes: Vec<TreeNode>,
    by_name: BTreeMap<(NodeKind, String), usize>,
    /// Lower node, upper node, line.
    cables: Vec<(usize, usize, usize)>,
    /// Lower and upper node of each.
    known: BTreeSet<(usize, usize)>,
}

struct TreeNode {
    name: String,
    kind: NodeKind,
    /// The first line that names it, or the one that describes it.
    line: usize,
    is_described: bool,
    description: String,
    /// How many cables it has.
    ports: u64,
}

impl Tree {
    /// The node of that name, which may be new.
    ///
    /// # Errors
    /// [`TextProblem::TooManyNodes`].
    pub(super) fn node(
        &mut self,
        line: usize,
        kind: NodeKind,
        name: &str,
    ) -> Result<usize, TextProblem> {
        if let Some(&place) = self.by_name.get(&(kind, name.to_owned())) {
            return Ok(place);
        }
        if u64_of(self.nodes.len()) == NODES_MAX {
            return Err(TextProblem::TooManyNodes);
        }
        let place = self.nodes.len();
        self.by_name.insert((kind, name.to_owned()), place);
        self.nodes.push(TreeNode {
            name: name.to_owned(),
            kind,
            line,
            is_described: kind == NodeKind::Host,
            description: name.to_owned(),
            ports: 0,
        });
        Ok(place)
    }

    /// The switch of that name, which this line describes.
    ///
    /// # Errors
    /// A line before describes it too.
    pub(super) fn described(&mut self, line: usize, name: &str) -> Result<usize, TextProblem> {
        let place = self.node(line, NodeKind::Switch, name)?;
        let node = &mut self.nodes[place];
        if std::mem::replace(&mut node.is_described, true) {
            return Err(TextProblem::IdTaken {
                id: name.to_owned(),
                first: node.line,
            });
        }
        node.line = line;
        Ok(place)
    }

    /// The switch of that name, which needs no line of its own.
    ///
    /// # Errors
    /// [`TextProblem::TooManyNodes`].
    #[cfg(feature = "json")]
    pub(super) fn found(&mut self, line: usize, name: &str) -> Result<usize, TextProblem> {
        let place = self.node(line, NodeKind::Switch, name)?;
        self.nodes[place].is_described = true;
        Ok(place)
    }

    /// What a switch is really called.
    pub(super) fn describe(&mut self, place: usize, description: &str) {
        self.nodes[place].description = description.to_owned();
    }

    /// A cable between a node and one above it; a second one counts as the first.
    ///
    /// # Errors
    /// [`TextProblem::UnderItself`], [`TextProblem::TooManyPorts`]: a short text can name more cables than
    /// memory holds.
    pub(super) fn connect(
        &mut self,
        line: usize,
        lower: usize,
        upper: usize,
    ) -> Result<(), TextProblem> {
        if lower == upper {
            return Err(TextProblem::UnderItself(self.nodes[lower].name.clone()));
        }
        if !self.known.insert((lower, upper)) {
            return Ok(());
        }
        for place in [lower, upper] {
            let node = &mut self.nodes[place];
            if node.ports == SWITCH_PORTS_MAX {
                return Err(TextProblem::TooManyPorts(node.name.clone()));
            }
            node.ports += 1;
        }
        self.cables.push((lower, upper, line));
        Ok(())
    }

    /// Gives ports and GUIDs out.
    pub(super) fn into_draft(self, mut draft: Draft) -> Result<Draft, TextError> {
        let at = |line, problem| TextError { line, problem };
        let mut taken = vec![0_usize; self.nodes.len()];
        // By cable: ports below and above. Ports that lead down come first.
        let mut ports = vec![(0_usize, 0_usize); self.cables.len()];
        for (&(_, upper, _), ports) in self.cables.iter().zip(&mut ports) {
            taken[upper] += 1;
            ports.1 = taken[upper];
        }
        for (&(lower, ..), ports) in self.cables.iter().zip(&mut ports) {
            taken[lower] += 1;
            ports.0 = taken[lower];
        }
        let (mut hosts, mut switches) = (0, 0);
        for (node, &ports) in self.nodes.iter().zip(&taken) {
            if !node.is_described {
                return Err(at(node.line, TextProblem::NoSuchSwitch(node.name.clone())));
            }
            let id = format!("{} {}", word(node.kind), node.name);
            let mut record = Record::new(node.line, id, node.kind, saturate::<u8>(ports.max(1)));
            let (count, guid): (&mut usize, fn(usize) -> _) = match node.kind {
                NodeKind::Host => (&mut hosts, host_guid),
                NodeKind::Switch => (&mut switches, switch_guid),
            };
            record.guid = Some(guid(*count));
            *count += 1;
            record.description.clone_from(&node.description);
            draft
                .node(record)
                .map_err(|problem| at(node.line, problem))?;
        }
        for (&(lower, upper, line), (below, above)) in self.cables.iter().zip(ports) {
            let ends = (
                (lower, saturate::<u8>(below)),
                (upper, saturate::<u8>(above)),
            );
            let done = draft.cable(line, ends.0, ends.1, None);
            done.map_err(|problem| at(line, problem))?;
        }
        Ok(draft)
    }
}

fn word(kind: NodeKind) -> &'static str {
    match kind {
        NodeKind::Switch => "switch",
        NodeKind::Host => "host",
    }
}
