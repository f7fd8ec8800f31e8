//! The plan of a fabric, written to `fabric.json` before anything of it is created, so that `down`
//! knows what to remove whatever happens to `up`.

use std::collections::BTreeMap;
use std::io;

use anyhow::{Context, Result, bail};
use netio::transport::Transport;
use serde::{Deserialize, Serialize};
use topologies::{Graph, NodeKind};
use wire::Guid;
use wire::convert::saturate;

use crate::cli::{Sm, Up};
use crate::dir::{self, FabricDir};
use crate::names::{self, CONTROLLERS, FabricName};
use crate::process::ProcessRecord;

/// The version of the file's layout.
const VERSION: u32 = 3;

/// The stage of `up`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// Being created.
    Creating,
    /// The fabric is up.
    Up,
}

/// The kind of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A process `switchd`.
    Switch,
    /// A process `hostd`.
    Host,
}

impl Kind {
    /// The name of its process.
    #[must_use]
    pub const fn program(self) -> &'static str {
        match self {
            Self::Switch => "switchd",
            Self::Host => "hostd",
        }
    }

    /// The name of the kind.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Switch => "switch",
            Self::Host => "host",
        }
    }
}

/// A switch or host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeState {
    /// Its name in the topology: the node description.
    pub name: String,
    /// Its name in files, namespaces and arguments.
    pub handle: String,
    /// What it is.
    pub kind: Kind,
    /// Node GUID.
    pub guid: u64,
    /// How many external ports it has.
    pub ports: u8,
}

impl NodeState {
    /// Node GUID.
    #[must_use]
    pub const fn guid(&self) -> Guid {
        Guid(self.guid)
    }

    /// GUID of a host's port.
    #[must_use]
    pub const fn port_guid(&self) -> Guid {
        Guid(self.guid.wrapping_add(1))
    }
}

/// One end of a cable: the node's position and its port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct End {
    /// Position in [`FabricState::nodes`].
    pub node: usize,
    /// The port, from 1.
    pub port: u8,
}

/// A host beside which a controller runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SmNode {
    /// Position in [`FabricState::nodes`].
    pub node: usize,
    /// Its priority among subnet managers, 0..=15.
    pub priority: u8,
}

/// The priority of the first controller; each further one has one less, unless told otherwise.
const FIRST_PRIORITY: u8 = 8;

/// One fabric.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FabricState {
    version: u32,
    /// Its name.
    pub fabric: FabricName,
    /// The stage of `up`.
    pub stage: Stage,
    /// The process that runs `up`.
    pub up: ProcessRecord,
    /// The topology's name in its normal form, or the path of the file.
    pub topology: String,
    /// What was asked for.
    pub options: Up,
    /// Switches and hosts, in the order of the topology.
    pub nodes: Vec<NodeState>,
    /// Every cable once.
    pub links: Vec<[End; 2]>,
    /// The hosts beside which controllers run, in the order in which they were named; none with
    /// `--sm none`.
    pub sm_nodes: Vec<SmNode>,
    /// Which namespaces exist because of this fabric: names, in the order of `nodes`; none over
    /// UDP.
    pub namespaces: Vec<String>,
}

/// M_KeyProtectBits without `--m-key-protection`: diagnostics read, and only who knows the key sets.
const M_KEY_PROTECTION: u8 = 1;

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
        let nodes: Vec<NodeState> = graph
            .ids()
            .zip(handles)
            .map(|(id, handle)| {
                let node = graph.node(id);
                NodeState {
                    name: node.name.clone(),
                    handle,
                    kind: match node.kind {
                        NodeKind::Switch => Kind::Switch,
                        NodeKind::Host => Kind::Host,
                    },
                    guid: node.guid.0,
                    ports: node.ports,
                }
            })
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
        let namespaces = match options.transport {
            Transport::Veth => nodes
                .iter()
                .map(|node| fabric.namespace(&node.handle))
                .collect(),
            Transport::Udp => Vec::new(),
        };
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
        };
        state.sm_nodes = state.choose_sm_nodes()?;
        Ok(state)
    }

    fn choose_sm_nodes(&self) -> Result<Vec<SmNode>> {
        if self.options.sm == Sm::None {
            return Ok(Vec::new());
        }
        let Some(text) = &self.options.sm_node else {
            let first = self.hosts().next().context(
                "the topology has no host that a subnet manager could run beside; use --sm none",
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

    /// The handles of the controllers, in order.
    pub fn controllers(&self) -> impl Iterator<Item = (SmNode, &'static str)> + '_ {
        self.sm_nodes.iter().copied().zip(CONTROLLERS)
    }

    /// Reads the state of the fabric in `dir`; `None` if there is none, or none that can be read.
    ///
    /// # Errors
    /// If the file is there but damaged or of another version, or where it stands is not safe to use.
    pub fn load(dir: &FabricDir) -> Result<Option<Self>> {
        let path = dir.state();
        let Some(directory) = dir.open()? else {
            return Ok(None);
        };
        let text = match directory.read(dir::STATE) {
            Ok(text) => text,
            Err(error) if error.cause.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let state: Self = serde_json::from_slice(&text)
            .with_context(|| format!("{} is damaged", path.display()))?;
        if state.version != VERSION {
            bail!(
                "{} is of version {}, this ibemu knows version {VERSION}",
                path.display(),
                state.version
            );
        }
        Ok(Some(state))
    }

    /// The state of a fabric that must be there.
    ///
    /// # Errors
    /// If there is no such fabric, or its state cannot be read.
    pub fn require(dir: &FabricDir) -> Result<Self> {
        if let Some(state) = Self::load(dir)? {
            return Ok(state);
        }
        let fabric = dir.fabric();
        let hint = if netio::process::effective_uid() != 0
            && std::path::Path::new("/run/ibemu")
                .join(fabric.as_str())
                .exists()
        {
            "; root has one: act as root (sudo)"
        } else {
            "; bring one up with `ibemu up TOPOLOGY`, or name another with --fabric"
        };
        bail!("there is no fabric {fabric}{hint}")
    }

    /// Writes the state so that a reader finds the old one or the new one, never half of it.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn save(&self, dir: &FabricDir) -> Result<()> {
        let text = serde_json::to_vec(self).context("cannot write the fabric's state")?;
        Ok(dir.require()?.replace(dir::STATE, &text)?)
    }

    /// The position of the node that is called `name`, or whose handle that is.
    ///
    /// # Errors
    /// If there is none; the error lists some names.
    pub fn find(&self, name: &str) -> Result<usize> {
        let by_name = self.nodes.iter().position(|node| node.name == name);
        let found = by_name.or_else(|| self.nodes.iter().position(|node| node.handle == name));
        found.with_context(|| {
            let hosts: Vec<&str> = self
                .hosts()
                .map(|node| self.nodes[node].name.as_str())
                .collect();
            let examples = match hosts.as_slice() {
                [] => String::new(),
                [only] => format!("; its host is {only}"),
                [first, .., last] => format!("; its hosts are {first} to {last}"),
            };
            format!(
                "there is no node {name} in fabric {}{examples} (ibemu status lists all nodes)",
                self.fabric
            )
        })
    }

    /// The position of the host that is called `name`.
    ///
    /// # Errors
    /// If there is none, or it is a switch.
    pub fn find_host(&self, name: &str) -> Result<usize> {
        let node = self.find(name)?;
        if self.nodes[node].kind != Kind::Host {
            bail!("{name} is a switch; name a host");
        }
        Ok(node)
    }

    /// The positions of all hosts.
    pub fn hosts(&self) -> impl Iterator<Item = usize> + '_ {
        self.of_kind(Kind::Host)
    }

    /// The positions of all switches.
    pub fn switches(&self) -> impl Iterator<Item = usize> + '_ {
        self.of_kind(Kind::Switch)
    }

    fn of_kind(&self, kind: Kind) -> impl Iterator<Item = usize> + '_ {
        (0..self.nodes.len()).filter(move |&node| self.nodes[node].kind == kind)
    }

    /// The namespace of a node; `None` over UDP.
    #[must_use]
    pub fn namespace(&self, node: usize) -> Option<&str> {
        self.namespaces.get(node).map(String::as_str)
    }

    /// What each connected port of each node leads to.
    #[must_use]
    pub fn peers(&self) -> BTreeMap<End, End> {
        self.links
            .iter()
            .flat_map(|&[a, b]| [(a, b), (b, a)])
            .collect()
    }

    /// How many cables each node has, by position.
    #[must_use]
    pub fn cable_counts(&self) -> Vec<usize> {
        let mut counts = vec![0; self.nodes.len()];
        for end in self.links.iter().flatten() {
            counts[end.node] += 1;
        }
        counts
    }

    /// `NODE:PORT` of an end, for messages.
    #[must_use]
    pub fn end_name(&self, end: End) -> String {
        format!("{}:{}", self.nodes[end.node].name, end.port)
    }

    /// Keep-alive and silence limit, milliseconds: as requested, else growing with the fabric, so
    /// that the idle load of the machine does not depend on its size.
    #[must_use]
    pub fn keepalive_and_silence_ms(&self) -> (u32, u32) {
        let cables = saturate::<u32>(self.links.len());
        let links = &self.options.links;
        let keepalive = links
            .keepalive_ms
            .unwrap_or_else(|| 250u32.saturating_mul(cables.div_ceil(256).max(1)));
        let silence = links.silence_ms.unwrap_or(keepalive.saturating_mul(4));
        (keepalive, silence)
    }

    /// M_KeyProtectBits of the ports, if an M_Key protects them.
    #[must_use]
    pub fn m_key_protection(&self) -> Option<u8> {
        let options = &self.options;
        options.m_key.as_ref()?;
        Some(options.m_key_protection.unwrap_or(M_KEY_PROTECTION))
    }
}

#[cfg(test)]
mod tests;
