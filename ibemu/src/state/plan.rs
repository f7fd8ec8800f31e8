//! The plan of a fabric: what `up` will create, from the topology and the options.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use anyhow::{Context, Result, bail};
use netio::transport::Transport;
use topologies::Graph;

use super::device::{device, further_ports, number_adapters};
use super::file::VERSION;
use super::{End, FabricState, Kind, NodeState, SmNode, Stage};
use crate::adapters::AdapterNames;
use crate::cli::{Sm, Up};
use crate::names::{self, CONTROLLERS, FabricName};
use crate::process::ProcessRecord;

/// The priority of the first controller; each further one has one less, where `--sm-node` names none.
const FIRST_PRIORITY: u8 = 8;

impl FabricState {
    /// Plans the fabric: names everything, creates nothing.
    ///
    /// # Errors
    /// If the graph cannot run as processes, or the subnet manager's host is not one of its hosts.
    pub fn plan(
        fabric: &FabricName,
        graph: &Graph,
        topology: String,
        options: &Up,
        up: ProcessRecord,
    ) -> Result<Self> {
        let handles = names::handles(graph.ids().map(|id| graph.node(id).name.as_str()));
        let mut nodes: Vec<NodeState> = graph
            .ids()
            .zip(handles)
            .map(|(id, handle)| device(graph, id, handle, AdapterNames(&options.adapter_names)))
            .collect();
        let links = graph
            .links()
            .map(|ends| {
                <[_; 2]>::from(ends).map(|end| End {
                    node: end.node.index(),
                    port: end.port.get(),
                })
            })
            .collect();
        let hosts = number_adapters(&mut nodes);
        let namespaces = match options.transport {
            Transport::Veth => hosts.iter().map(|host| fabric.namespace(host)).collect(),
            Transport::Udp | Transport::Shm | Transport::Tunnel => Vec::new(),
        };
        nodes.extend(further_ports(graph, &nodes));
        let mut state = Self {
            version: VERSION,
            fabric: fabric.clone(),
            stage: Stage::Creating,
            up,
            topology,
            options: options.clone(),
            nodes,
            links,
            sm_nodes: Vec::new(),
            namespaces,
            tunnels: BTreeSet::new(),
            job: None,
            addresses: OnceLock::new(),
        };
        state.tunnels = state.choose_tunnels()?;
        state.sm_nodes = state.choose_sm_nodes()?;
        Ok(state)
    }

    fn choose_sm_nodes(&self) -> Result<Vec<SmNode>> {
        if self.options.sm == Sm::None {
            return Ok(Vec::new());
        }
        let Some(text) = &self.options.sm_node else {
            let real = self.real_hosts().next().or_else(|| self.hosts().next());
            let first = real.context(
                "the topology has no host with a cable that a subnet manager could run beside; use --sm none",
            )?;
            return Ok(vec![SmNode {
                node: first,
                priority: FIRST_PRIORITY,
            }]);
        };
        // A node's name may hold commas and colons.
        let names: Vec<&str> = match self.find(text) {
            Ok(_) => vec![text],
            Err(_) => text.split(',').collect(),
        };
        if names.len() > CONTROLLERS.len() {
            bail!(
                "--sm-node names {} hosts; at most {} controllers run",
                names.len(),
                CONTROLLERS.len()
            );
        }
        let mut chosen: Vec<SmNode> = Vec::new();
        for (name, default) in names.into_iter().zip((0..=FIRST_PRIORITY).rev()) {
            let sm_node = self.sm_node(name, default)?;
            if chosen.iter().any(|other| other.node == sm_node.node) {
                bail!("--sm-node {name}: a host has one controller");
            }
            chosen.push(sm_node);
        }
        Ok(chosen)
    }

    /// A host, with its priority if one is given: `NODE` or `NODE:PRIORITY`.
    fn sm_node(&self, text: &str, default: u8) -> Result<SmNode> {
        let with_priority = || {
            let (name, priority) = text.rsplit_once(':')?;
            let priority = priority.parse().ok().filter(|priority| *priority <= 15)?;
            let node = self.find(name).ok()?;
            Some(SmNode { node, priority })
        };
        let chosen = match self.find(text) {
            Ok(node) => SmNode {
                node,
                priority: default,
            },
            Err(error) => with_priority().ok_or(error).with_context(|| {
                format!("--sm-node {text}: write NODE or NODE:PRIORITY, a priority from 0 to 15")
            })?,
        };
        if self.nodes[chosen.node].kind != Kind::Host {
            bail!("--sm-node {text}: it is a switch; name a host");
        }
        Ok(chosen)
    }
}
