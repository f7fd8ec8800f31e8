//! The plan of a fabric, written to `fabric.json` before anything of it is created, so that `down`
//! finds there what to remove whatever happens to `up`.

mod device;
mod file;
mod plan;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use wire::Guid;
use wire::convert::saturate;

use crate::addresses::{self, HostAddress};
use crate::cli::Up;
use crate::machines::Job;
use crate::names::{CONTROLLERS, FabricName};
use crate::net;
use crate::process::ProcessRecord;
pub use device::{HardwareState, Kind, NodeState};

/// The stage of `up`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// Being created.
    Creating,
    /// The fabric is up.
    Up,
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
    /// Switches and hosts, in the order of the topology, and behind them further ports of hosts.
    pub nodes: Vec<NodeState>,
    /// Every cable once.
    pub links: Vec<[End; 2]>,
    /// The hosts beside which controllers run, in the order in which they were named; none with
    /// `--sm none`.
    pub sm_nodes: Vec<SmNode>,
    /// Which namespaces exist because of this fabric: names, in the order of the devices; the adapters of one
    /// host share one. None over UDP.
    pub namespaces: Vec<String>,
    /// The cables that are tunnels though the others are not: the smaller end of each.
    #[serde(default)]
    pub tunnels: BTreeSet<End>,
    /// The job on whose machines it is; `None` on one machine.
    #[serde(default)]
    pub job: Option<Job>,
    /// What [`Self::addresses`] has computed.
    #[serde(skip)]
    addresses: OnceLock<Vec<HostAddress>>,
}

/// How long `up` of a small fabric may take without `--timeout`, seconds.
const UP_TIMEOUT_S: u32 = 120;
/// How many devices more give it another second.
const DEVICES_A_SECOND: u32 = 5;

/// The limit of silence of a small fabric's ports, milliseconds: four keep-alives. That of a large one is three.
const SILENCE_MS: u32 = 1000;
/// M_KeyProtectBits without `--m-key-protection`: a Get is answered without the key, a Set is not.
const M_KEY_PROTECTION: u8 = 1;

impl FabricState {
    /// The handles of the controllers, in order.
    pub fn controllers(&self) -> impl Iterator<Item = (SmNode, &'static str)> + '_ {
        self.sm_nodes.iter().copied().zip(CONTROLLERS)
    }

    /// The position of the node that is called `name`, or whose handle that is.
    ///
    /// # Errors
    /// If there is none; the error lists some names.
    pub fn find(&self, name: &str) -> Result<usize> {
        let by_name = self.nodes.iter().position(|node| node.name == name);
        let by_handle = || self.nodes.iter().position(|node| node.handle == name);
        let of_host = |node: &NodeState| node.in_host.as_ref().is_some_and(|at| at.host == name);
        let by_host = || self.devices().iter().position(of_host);
        let found = by_name
            .or_else(by_handle)
            .or_else(|| self.find_port(name))
            .or_else(by_host);
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

    /// The position of the host's port that `HOST:PORT` names.
    fn find_port(&self, name: &str) -> Option<usize> {
        let (host, port) = name.rsplit_once(':')?;
        let port: u8 = port.parse().ok()?;
        self.nodes.iter().position(|node| {
            let device = node.device.map_or(node, |device| &self.nodes[device]);
            node.port == port && port != 0 && (device.name == host || device.handle == host)
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

    /// The positions of all ports of hosts that have a cable: devices first, then further ports.
    pub fn hosts(&self) -> impl Iterator<Item = usize> + '_ {
        self.of_kind(Kind::Host)
            .filter(|&node| self.nodes[node].cabled)
    }

    /// Those of [`Self::hosts`] beside which programs run.
    pub fn real_hosts(&self) -> impl Iterator<Item = usize> + '_ {
        self.hosts().filter(|&node| self.nodes[node].is_real_host())
    }

    /// All devices, which is what processes run for: the first of [`Self::nodes`].
    #[must_use]
    pub fn devices(&self) -> &[NodeState] {
        let devices = self.nodes.partition_point(|node| node.device.is_none());
        &self.nodes[..devices]
    }

    /// The addresses of all hosts in order; none if the fabric was brought up without.
    pub fn addresses(&self) -> &[HostAddress] {
        self.addresses.get_or_init(|| addresses::of_fabric(self))
    }

    /// The position of the device that a node is, or is a further port of.
    #[must_use]
    pub fn device_of(&self, node: usize) -> usize {
        self.nodes[node].device.unwrap_or(node)
    }

    /// The end of a host port's cable.
    #[must_use]
    pub fn host_end(&self, node: usize) -> End {
        End {
            node: self.device_of(node),
            port: self.nodes[node].port,
        }
    }

    /// The position of what the cable at `end` leads into: of a switch, or of the host's port.
    #[must_use]
    pub fn node_at(&self, end: End) -> usize {
        let is_it = |node: &NodeState| node.device == Some(end.node) && node.port == end.port;
        let further = self.nodes[self.devices().len()..].iter().position(is_it);
        further.map_or(end.node, |position| self.devices().len() + position)
    }

    /// The name of the host port with this GUID; the GUID if there is none.
    #[must_use]
    pub fn port_name(&self, port: Guid) -> String {
        let mut hosts = self.hosts().map(|host| &self.nodes[host]);
        let host = hosts.find(|host| host.port_guid() == port);
        host.map_or_else(|| port.to_string(), |host| host.name.clone())
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
        let device = self.device_of(node);
        self.namespaces.get(device).map(String::as_str)
    }

    /// What each connected port of each node leads to.
    #[must_use]
    pub fn peers(&self) -> BTreeMap<End, End> {
        self.links
            .iter()
            .flat_map(|&[a, b]| [(a, b), (b, a)])
            .collect()
    }

    /// How many cables each node has, by position; a further port has one.
    #[must_use]
    pub fn cable_counts(&self) -> Vec<usize> {
        let further = |node: &NodeState| usize::from(node.device.is_some());
        let mut counts: Vec<usize> = self.nodes.iter().map(further).collect();
        for end in self.links.iter().flatten() {
            counts[end.node] += 1;
        }
        counts
    }

    /// The interface at an end of a cable, in the namespace of its device.
    #[must_use]
    pub fn interface(&self, end: End) -> String {
        net::interface(self.nodes[end.node].adapter, end.port)
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
            .unwrap_or_else(|| 250u32.saturating_mul(cables.max(256)) / 256);
        let grown = keepalive.saturating_mul(4).min(SILENCE_MS);
        let silence = links
            .silence_ms
            .unwrap_or_else(|| keepalive.saturating_mul(3).max(grown));
        (keepalive, silence)
    }

    /// How long `up` may take, seconds: as requested, else growing with the fabric.
    #[must_use]
    pub fn timeout_s(&self) -> u32 {
        let grown = UP_TIMEOUT_S + saturate::<u32>(self.devices().len()) / DEVICES_A_SECOND;
        self.options.timeout.unwrap_or(grown)
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
