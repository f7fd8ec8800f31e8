//! JSON: ibemu's own, which holds all that a graph holds, and topograph's list of instances.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use wire::Guid;

use super::draft::{Draft, Record};
use super::tree::Tree;
use super::words;
use crate::error::{TextError, TextProblem};
use crate::graph::{Graph, NodeKind};

#[derive(Serialize, Deserialize)]
struct Fabric {
    nodes: Vec<NodeJson>,
    links: Vec<LinkJson>,
}

#[derive(Serialize, Deserialize)]
struct NodeJson {
    name: String,
    kind: Kind,
    guid: String,
    ports: u8,
    description: String,
    system_image_guid: String,
    vendor_id: u32,
    device_id: u16,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    port_guids: BTreeMap<u8, String>,
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    enhanced_port0: bool,
    /// Ports without a cable that are switched off.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    disabled_ports: BTreeSet<u8>,
}

#[derive(Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Switch,
    Host,
    Router,
}

#[derive(Serialize, Deserialize)]
struct LinkJson {
    ends: [EndJson; 2],
    /// Width and speed, as `4xHDR`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rate: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct EndJson {
    /// A position in `nodes`.
    node: usize,
    port: u8,
}

/// The graph as JSON.
#[must_use]
pub(super) fn write(graph: &Graph) -> String {
    let nodes = graph.ids().map(|id| {
        let node = graph.node(id);
        let port_guids = node.port_guids.iter();
        NodeJson {
            name: node.name.clone(),
            kind: match node.kind {
                NodeKind::Switch => Kind::Switch,
                NodeKind::Host if node.is_router => Kind::Router,
                NodeKind::Host => Kind::Host,
            },
            guid: node.guid.to_string(),
            ports: node.ports,
            description: node.description.clone(),
            system_image_guid: node.system_image_guid.to_string(),
            vendor_id: node.vendor_id,
            device_id: node.device_id,
            port_guids: port_guids
                .map(|(&port, guid)| (port, guid.to_string()))
                .collect(),
            enhanced_port0: node.enhanced_port0,
            disabled_ports: node.disabled_ports.clone(),
        }
    });
    let links = graph.links().map(|(a, b)| LinkJson {
        ends: [a, b].map(|end| EndJson {
            node: end.node.index(),
            port: end.port.get(),
        }),
        rate: graph.rate(a).map(words::rate_word),
    });
    let fabric = Fabric {
        nodes: nodes.collect(),
        links: links.collect(),
    };
    // Nothing in it can fail to be written: keys are numbers and words.
    let text = serde_json::to_string_pretty(&fabric).unwrap_or_default();
    text + "\n"
}

/// What stands in the text that [`write`] gives.
pub(super) fn read(text: &str) -> Result<Draft, TextError> {
    let fabric: Fabric = serde_json::from_str(text).map_err(|error| bad(&error))?;
    let mut draft = Draft::default();
    let all = |problem| TextError { line: 1, problem };
    let guid = |text: &str| words::hexadecimal("GUID", text, 16).map(Guid).map_err(all);
    for (place, node) in fabric.nodes.iter().enumerate() {
        let kind = match node.kind {
            Kind::Switch => NodeKind::Switch,
            Kind::Host | Kind::Router => NodeKind::Host,
        };
        if node.ports == 0 || node.ports == u8::MAX {
            return Err(all(TextProblem::NoPorts));
        }
        let words = [&node.name, &node.description];
        if let Some(problem) = words
            .into_iter()
            .find_map(|word| words::control_character(word))
        {
            return Err(all(problem));
        }
        let mut record = Record::new(1, words::name(&node.name), kind, node.ports);
        record.guid = Some(guid(&node.guid)?);
        record.description = words::name(&node.description).to_owned();
        record.system_image_guid = Some(guid(&node.system_image_guid)?);
        record.vendor_id = Some(node.vendor_id);
        record.device_id = Some(node.device_id);
        record.is_router = node.kind == Kind::Router;
        record.enhanced_port0 = node.enhanced_port0;
        let is_other = |port: &&u8| **port == 0 || **port > node.ports;
        if let Some(port) = node.disabled_ports.iter().find(is_other) {
            let problem = format!("there is no port {port} of node {place}");
            return Err(all(TextProblem::Json(problem)));
        }
        record.disabled_ports.clone_from(&node.disabled_ports);
        record.is_named_by_id = true;
        for (&port, text) in &node.port_guids {
            record.port_guids.insert(port, guid(text)?);
        }
        if draft.node(record).map_err(all)? != place {
            let problem = format!("the node {:?} is there twice", node.name);
            return Err(all(TextProblem::Json(problem)));
        }
    }
    for link in &fabric.links {
        for end in &link.ends {
            let record = draft.records.get(end.node);
            if record.is_none_or(|record| end.port == 0 || end.port > record.ports) {
                let problem = format!("there is no port {} of node {}", end.port, end.node);
                return Err(all(TextProblem::Json(problem)));
            }
        }
        let [a, b] = &link.ends;
        let rate = match &link.rate {
            None => None,
            Some(text) => Some(words::rate(text).ok_or_else(|| {
                let text = words::excerpt(text);
                all(TextProblem::Json(format!(
                    "{text:?} is no rate: write width and speed as in \"4xHDR\""
                )))
            })?),
        };
        let done = draft.cable(1, (a.node, a.port), (b.node, b.port), rate);
        done.map_err(all)?;
    }
    Ok(draft)
}

#[derive(Deserialize)]
struct Instances {
    instances: Vec<Instance>,
}

#[derive(Deserialize)]
struct Instance {
    id: String,
    /// Switches above it, the nearest first.
    network_layers: Vec<String>,
}

/// What stands in the text of topograph's engine `graph`.
pub(super) fn read_instances(text: &str) -> Result<Draft, TextError> {
    let all = |problem| TextError { line: 1, problem };
    let document: Instances = serde_json::from_str(text).map_err(|error| bad(&error))?;
    let mut tree = Tree::default();
    for instance in &document.instances {
        let names = instance.network_layers.iter().chain([&instance.id]);
        if let Some(problem) = names
            .into_iter()
            .find_map(|name| words::control_character(name))
        {
            return Err(all(problem));
        }
        let mut below = tree
            .node(1, NodeKind::Host, words::name(&instance.id))
            .map_err(all)?;
        for layer in &instance.network_layers {
            let switch = tree.found(1, words::name(layer)).map_err(all)?;
            tree.connect(1, below, switch).map_err(all)?;
            below = switch;
        }
    }
    tree.into_draft(Draft::default())
}

fn bad(error: &serde_json::Error) -> TextError {
    TextError {
        line: error.line().max(1),
        problem: TextProblem::Json(format!("this is no JSON of a fabric: {error}")),
    }
}
