//! Sends devices the state of their cables: the other end (UDP and tunnels: its address, its secret and its
//! epoch, and what a tunnel's keys are made of; shared memory: the memory, [`super::shared`]), and whether it is plugged.
//!
//! A cable counts as plugged at one end unless it was pulled by request or the device at its other end does
//! not run.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use futures_util::{StreamExt, TryStreamExt, stream};
use netio::transport::Transport;
use wire::PortNum;
use wire::control::{DeviceReply, DeviceRequest};
use wire::convert::saturate;
use wire::udplink::UdpEndpoint;

use super::fleet::Fleet;
use super::protocol::Target;
use crate::ask::{self, DeviceClient};
use crate::linkup;
use crate::state::End;

/// Timeout of the notification of a neighbour of a dead device, and of adopted devices.
pub(super) const NEIGHBOUR_TIMEOUT: Duration = Duration::from_secs(5);
/// How long links may take to come up before other requests are served.
const LINK_UP_TIMEOUT: Duration = Duration::from_secs(1);
/// How many devices are requested at a time.
pub(super) const AT_ONCE: usize = 16;

impl Fleet {
    pub(super) fn target(node: usize) -> Target {
        Target::Device(saturate(node))
    }

    pub(super) async fn client(&self, node: usize, timeout: Duration) -> Result<DeviceClient> {
        DeviceClient::connect(&self.dir, &self.state.nodes[node], timeout).await
    }

    /// Notifies the neighbours of a device that has ended that their cables to it are pulled.
    pub(super) async fn unplug_peers(&self, node: usize) {
        let peers: Vec<End> = self
            .ends(node)
            .iter()
            .filter_map(|end| self.peers.get(end).copied())
            .filter(|peer| peer.node != node)
            .collect();
        stream::iter(peers)
            .for_each_concurrent(AT_ONCE, |peer| self.send_plugged(peer, false))
            .await;
    }

    /// Notifies one end whether its cable is plugged, if its device runs.
    async fn send_plugged(&self, end: End, plugged: bool) {
        if !self.is_running(Self::target(end.node)) {
            return;
        }
        if let Err(error) = self.set_plugged(end, plugged).await {
            tracing::warn!(
                "{} was not notified of its cable: {error:#}",
                self.state.end_name(end)
            );
        }
    }

    async fn set_plugged(&self, end: End, plugged: bool) -> Result<()> {
        let mut client = self.client(end.node, NEIGHBOUR_TIMEOUT).await?;
        let port = PortNum::new(end.port);
        client.ask(&DeviceRequest::Cable { port, plugged }).await?;
        Ok(())
    }

    /// Whether the cable at `end` is pulled by request.
    fn is_pulled(&self, end: End) -> bool {
        self.pulled.borrow().contains(&self.canonical(end))
    }

    /// The end under which the cable at `end` is recorded.
    pub(super) fn canonical(&self, end: End) -> End {
        self.peers.get(&end).map_or(end, |&peer| end.min(peer))
    }

    /// Pulls or plugs the cable at `end`, at both its ends.
    pub(super) async fn pull_or_plug(&self, end: End, plugged: bool) -> Result<()> {
        let peer = *self
            .peers
            .get(&end)
            .with_context(|| format!("port {} has no cable", self.state.end_name(end)))?;
        let was_pulled = self.is_pulled(end);
        self.record_cable(end.min(peer), plugged);
        let both_run = [end, peer].map(|end| self.is_running(Self::target(end.node)));
        if plugged && was_pulled && both_run == [true; 2] && self.is_shared(end) {
            self.join(end, ask::REQUEST_TIMEOUT).await?;
        }
        for (here, there) in [(end, peer), (peer, end)] {
            if !self.is_running(Self::target(here.node)) {
                continue;
            }
            let plugged = plugged && self.is_running(Self::target(there.node));
            self.set_plugged(here, plugged).await?;
        }
        if plugged
            && self.is_running(Self::target(end.node))
            && self.is_running(Self::target(peer.node))
        {
            self.await_links(end.node, vec![end]).await?;
        }
        Ok(())
    }

    /// Waits for links that are about to come up. One that does not delays the caller by the
    /// timeout only.
    async fn await_links(&self, node: usize, ends: Vec<End>) -> Result<()> {
        if !linkup::wait(&self.dir, &self.state, node, ends, LINK_UP_TIMEOUT).await? {
            tracing::warn!("a link of {} has not come up", self.state.nodes[node].name);
        }
        Ok(())
    }

    /// Sends all devices the other ends of their cables.
    pub(super) async fn connect_all(&self) -> Result<()> {
        self.connect_all_addresses().await?;
        self.join_all().await
    }

    /// How the cable at `end` is made: between machines as a tunnel, else as the fabric's are.
    pub(super) fn medium(&self, end: End) -> Transport {
        let peer = self.peers.get(&end).copied().unwrap_or(end);
        self.state.medium([end, peer])
    }

    /// Whether the end of the cable at `end` has an address.
    fn has_address(&self, end: End) -> bool {
        matches!(self.medium(end), Transport::Udp | Transport::Tunnel)
    }

    /// Whether a device has ends of cables with addresses.
    fn has_addresses(&self, node: usize) -> bool {
        let ends = self.ends(node);
        ends.into_iter().any(|end| self.has_address(end))
    }

    async fn connect_all_addresses(&self) -> Result<()> {
        let all = 0..self.state.devices().len();
        let nodes: Vec<usize> = all.filter(|&node| self.has_addresses(node)).collect();
        let endpoints: Vec<BTreeMap<End, UdpEndpoint>> = stream::iter(nodes.clone())
            .map(|node| self.endpoints(node, ask::REQUEST_TIMEOUT))
            .buffered(AT_ONCE)
            .try_collect()
            .await?;
        let endpoints: BTreeMap<End, UdpEndpoint> = endpoints.into_iter().flatten().collect();
        stream::iter(nodes)
            .map(|node| self.connect(node, &endpoints, ask::REQUEST_TIMEOUT))
            .buffer_unordered(AT_ONCE)
            .try_collect()
            .await
    }

    /// Sends the devices that run the other ends of their cables again, which changes nothing where
    /// they have them: a predecessor may have been ended before it had sent all.
    pub(super) async fn connect_adopted(&self) {
        self.connect_adopted_addresses().await;
        self.join_adopted().await;
    }

    async fn connect_adopted_addresses(&self) {
        let runs = |&node: &usize| self.has_addresses(node) && self.is_running(Self::target(node));
        let running: Vec<usize> = (0..self.state.devices().len()).filter(runs).collect();
        let mut endpoints = BTreeMap::new();
        let mut asked = stream::iter(running.clone())
            .map(|node| async move { (node, self.endpoints(node, NEIGHBOUR_TIMEOUT).await) })
            .buffer_unordered(AT_ONCE);
        while let Some((node, ends)) = asked.next().await {
            match ends {
                Ok(ends) => endpoints.extend(ends),
                Err(error) => self.warn_unconnected(node, &error),
            }
        }
        stream::iter(running)
            .for_each_concurrent(AT_ONCE, |node| {
                let endpoints = &endpoints;
                async move {
                    let sent = self.connect(node, endpoints, NEIGHBOUR_TIMEOUT).await;
                    if let Err(error) = sent {
                        self.warn_unconnected(node, &error);
                    }
                }
            })
            .await;
    }

    pub(super) fn warn_unconnected(&self, node: usize, error: &anyhow::Error) {
        let name = &self.state.nodes[node].name;
        tracing::warn!("{name} was not sent the ends of its cables: {error:#}");
    }

    /// A device's own ends.
    async fn endpoints(
        &self,
        node: usize,
        timeout: Duration,
    ) -> Result<BTreeMap<End, UdpEndpoint>> {
        let mut client = self.client(node, timeout).await?;
        match client.ask(&DeviceRequest::Endpoints).await? {
            DeviceReply::Endpoints(endpoints) => Ok(endpoints
                .into_iter()
                .map(|(port, address)| {
                    let port = port.get();
                    (End { node, port }, address)
                })
                .collect()),
            other => Err(ask::unexpected(&other)),
        }
    }

    /// Sends a device the other ends of its cables, as far as `endpoints` has them.
    async fn connect(
        &self,
        node: usize,
        endpoints: &BTreeMap<End, UdpEndpoint>,
        timeout: Duration,
    ) -> Result<()> {
        let mut client = self.client(node, timeout).await?;
        for end in self.ends(node) {
            if let Some(&peer) = self.peers.get(&end).and_then(|peer| endpoints.get(peer)) {
                client.ask(&self.connection(end, peer)?).await?;
            }
        }
        Ok(())
    }

    /// What the device at `end` is told of the other end of that cable.
    fn connection(&self, end: End, peer: UdpEndpoint) -> Result<DeviceRequest> {
        let port = PortNum::new(end.port);
        if self.medium(end) != Transport::Tunnel {
            return Ok(DeviceRequest::Connect { port, peer });
        }
        let name = self.state.end_name(self.canonical(end));
        let secret = self.dir.link_secret()?.cable(&name);
        Ok(DeviceRequest::ConnectTunnel { port, peer, secret })
    }

    /// Reconnects a device that was started again: the ends of its cables, and whether they are plugged.
    pub(super) async fn rejoin(&self, node: usize) -> Result<()> {
        let ends = self.ends(node);
        if self.has_addresses(node) {
            self.reconnect(node, &ends).await?;
        }
        self.rejoin_all(&ends).await?;
        let mut plugged = Vec::new();
        for end in ends {
            let Some(&peer) = self.peers.get(&end) else {
                continue;
            };
            let peer_runs = self.is_running(Self::target(peer.node));
            if self.is_pulled(end) || !peer_runs {
                self.set_plugged(end, false).await?;
            } else {
                self.send_plugged(peer, true).await;
                plugged.push(end);
            }
        }
        self.await_links(node, plugged).await
    }

    /// Exchanges ends between a device that was started again and its running neighbours.
    async fn reconnect(&self, node: usize, ends: &[End]) -> Result<()> {
        let mut endpoints = self.endpoints(node, ask::REQUEST_TIMEOUT).await?;
        let neighbours: std::collections::BTreeSet<usize> = ends
            .iter()
            .filter(|&&end| self.has_address(end))
            .filter_map(|end| self.peers.get(end).map(|peer| peer.node))
            .filter(|&neighbour| neighbour != node && self.is_running(Self::target(neighbour)))
            .collect();
        for &neighbour in &neighbours {
            endpoints.extend(self.endpoints(neighbour, ask::REQUEST_TIMEOUT).await?);
        }
        self.connect(node, &endpoints, ask::REQUEST_TIMEOUT).await?;
        for &neighbour in &neighbours {
            // Only the ports that lead to the restarted device: the others are as they were.
            let mut client = self.client(neighbour, ask::REQUEST_TIMEOUT).await?;
            for end in ends {
                let Some(&peer) = self.peers.get(end) else {
                    continue;
                };
                if let (true, Some(&address)) = (peer.node == neighbour, endpoints.get(end)) {
                    client.ask(&self.connection(peer, address)?).await?;
                }
            }
        }
        Ok(())
    }
}
