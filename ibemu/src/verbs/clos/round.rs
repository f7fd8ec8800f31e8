//! One permutation: requested, granted, sent, counted and ended.

use std::time::Duration;

use anyhow::{Result, bail};
use hostd::control::{FlowReport, FlowState, PerfRequest, Reply, Request, SINK_QPN};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use serde::Serialize;
use tokio::time::Instant;
use wire::convert::saturate;
use wire::packet::VCRC_LEN;
use wire::vendor::{PAIRS_MAX, WindowRequest};
use wire::{Lid, MadStatus, Method, Sl};

use super::{ControllerClient, Load, Permutation, Run, links};
use crate::ask::{DeviceClient, REQUEST_TIMEOUT, unexpected};
use crate::dir::FabricDir;
use crate::lids::HostLids;
use crate::state::FabricState;

/// The interval at which flows are polled.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A pair of hosts, by position.
type Pair = (usize, usize);

/// A pair and its packet counts.
#[derive(Debug, Serialize)]
pub(super) struct Sent {
    source: String,
    destination: String,
    dlid: u16,
    tree: u16,
    delivered: u64,
    lost: u64,
}

/// The result of one permutation.
#[derive(Debug, Serialize)]
pub(super) struct Round {
    pub(super) pairs: Vec<Sent>,
    pub(super) delivered: u64,
    pub(super) lost: u64,
    pub(super) links: Vec<Load>,
}

impl Round {
    /// The links that more than one pair has used.
    pub(super) fn shared(&self) -> impl Iterator<Item = &Load> {
        self.links.iter().filter(|link| link.is_shared())
    }
}

/// What all permutations have in common.
pub(super) struct Rounds<'a> {
    pub(super) dir: &'a FabricDir,
    pub(super) state: &'a FabricState,
    pub(super) hosts: &'a [HostLids],
    pub(super) options: &'a Run,
    pub(super) limit: Duration,
}

/// Sources and destinations of a round; no host sends to itself.
fn permutation(options: &Run, hosts: usize, number: u32) -> Vec<Pair> {
    let mut to: Vec<usize> = (0..hosts).collect();
    match options.permutation {
        Permutation::Random => {
            let seed = options.seed.wrapping_add(u64::from(number) << 32);
            to.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
        }
        Permutation::Shift => {
            let step = usize::try_from(number).unwrap_or(0) % hosts.saturating_sub(1).max(1);
            to.rotate_left((step + 1) % hosts.max(1));
        }
    }
    let pairs = to.into_iter().enumerate();
    pairs.filter(|(from, to)| from != to).collect()
}

impl Rounds<'_> {
    pub(super) async fn run(
        &self,
        controller: &mut ControllerClient,
        number: u32,
    ) -> Result<Round> {
        let pairs = permutation(self.options, self.hosts.len(), number);
        for &(source, _) in &pairs {
            let sources = self.hosts.iter().map(|host| host.identity.lid).collect();
            self.order(source, Request::PerfClear { sources }).await?;
        }
        let before = links::sent(self.dir, self.state).await?;
        for &pair in &pairs {
            let request = Request::PerfStartGranted(self.request(pair)?);
            self.order(pair.0, request).await?;
        }
        self.ask(controller, &pairs, WindowRequest::UNTIL_ENDED)
            .await?;
        let flows = self.finish(&pairs).await;
        self.ask(controller, &pairs, 0).await?;
        let flows = flows?;
        self.settle(controller).await?;
        let after = links::sent(self.dir, self.state).await?;
        let size = flows
            .first()
            .map_or(0, |flow| flow.size - saturate::<u16>(VCRC_LEN));
        let flow_bytes = u64::from(self.options.packets) * u64::from(size);
        Ok(Round {
            delivered: flows.iter().map(|flow| flow.delivered).sum(),
            lost: flows.iter().map(|flow| flow.lost).sum(),
            links: links::loads(self.state, &before, &after, flow_bytes),
            pairs: self.sent(&pairs, &flows),
        })
    }

    fn sent(&self, pairs: &[Pair], flows: &[FlowReport]) -> Vec<Sent> {
        let sent = pairs
            .iter()
            .zip(flows)
            .map(|(&(source, destination), flow)| {
                let destination = &self.hosts[destination].identity;
                Sent {
                    source: self.hosts[source].identity.name.clone(),
                    destination: destination.name.clone(),
                    dlid: flow.dlid.get(),
                    tree: flow.dlid.get().saturating_sub(destination.lid.get()),
                    delivered: flow.delivered,
                    lost: flow.lost,
                }
            });
        sent.collect()
    }

    fn request(&self, (source, destination): Pair) -> Result<PerfRequest> {
        let options = self.options;
        Ok(PerfRequest {
            flow: u32::try_from(destination)?,
            dlid: self.hosts[destination].identity.lid,
            qpn: SINK_QPN,
            size: options.size,
            window: options.packets,
            rate: 0,
            sl: Sl::default(),
            count: u64::from(options.packets),
            duration_ms: 0,
            seed: options.seed.wrapping_add(u64::try_from(source)?),
        })
    }

    async fn client(&self, host: usize) -> Result<DeviceClient> {
        let node = &self.state.nodes[self.hosts[host].node];
        DeviceClient::connect(self.dir, node, REQUEST_TIMEOUT).await
    }

    async fn order(&self, host: usize, request: Request) -> Result<()> {
        match self.client(host).await?.host(&request).await? {
            Reply::Done => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// Asks for connections between pairs, or ends them.
    async fn ask(
        &self,
        controller: &mut ControllerClient,
        pairs: &[Pair],
        windows: u16,
    ) -> Result<()> {
        let lid = |host: usize| self.hosts[host].identity.lid;
        let lids: Vec<(Lid, Lid)> = pairs.iter().map(|&(a, b)| (lid(a), lid(b))).collect();
        for some in lids.chunks(PAIRS_MAX) {
            let request = WindowRequest::of(windows, some);
            let answer = controller
                .client
                .vendor(controller.sm, Method::SET, 0, &request);
            match answer.await?.status() {
                MadStatus::OK => {}
                MadStatus::BUSY => bail!("the controller has too many requests for windows"),
                status => bail!("the controller refuses the request (status {status})"),
            }
        }
        Ok(())
    }

    /// Waits until no host may send any more: what the next round sends then counts as its own.
    pub(super) async fn settle(&self, controller: &mut ControllerClient) -> Result<()> {
        let end = Instant::now() + self.limit;
        loop {
            let state = controller.state().await?;
            if state.connections == 0 && state.waiting == 0 {
                return Ok(());
            }
            if Instant::now() > end {
                bail!("the controller holds other clients' connections (ibemu clos state)");
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Waits until all pairs have sent everything.
    async fn finish(&self, pairs: &[Pair]) -> Result<Vec<FlowReport>> {
        let end = Instant::now() + self.limit;
        let mut flows = Vec::with_capacity(pairs.len());
        for &(source, destination) in pairs {
            let mut client = self.client(source).await?;
            let flow = u32::try_from(destination)?;
            loop {
                let report = match client.host(&Request::PerfReport { flow }).await? {
                    Reply::Perf(report) => *report,
                    other => return Err(unexpected(&other)),
                };
                if matches!(report.state, FlowState::Finished | FlowState::Abandoned) {
                    flows.push(report);
                    break;
                }
                if Instant::now() > end {
                    let name = &self.hosts[source].identity.name;
                    bail!(
                        "{name} has sent {} of {} packets in time",
                        report.sent,
                        self.options.packets
                    );
                }
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        }
        Ok(flows)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Verb};

    fn options(line: &[&str]) -> Run {
        let line = ["ibemu", "clos", "run"].iter().chain(line);
        match Cli::try_parse_from(line).unwrap().verb {
            Verb::Clos(super::super::Clos::Run(options)) => options,
            _ => panic!("another verb"),
        }
    }

    #[test]
    fn permutations_name_every_host_once_and_no_host_sends_to_itself() {
        for kind in ["random", "shift"] {
            let options = options(&["--permutation", kind]);
            for number in 0..20 {
                let pairs = permutation(&options, 16, number);
                let receivers: BTreeSet<usize> = pairs.iter().map(|pair| pair.1).collect();
                assert_eq!(receivers.len(), pairs.len());
                assert!(pairs.iter().all(|(from, to)| from != to));
                assert!(kind == "random" || pairs.len() == 16);
                assert_eq!(pairs, permutation(&options, 16, number), "the same again");
            }
        }
    }
}
