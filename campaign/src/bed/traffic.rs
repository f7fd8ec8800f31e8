//! What hosts of a twin send.

use hostd::control::{MulticastSend, PerfRequest, PingRequest, Reply, Request, SINK_QPN};
use topologies::NodeId;
use wire::{Lid, Sl};

use super::{Bed, DATAGRAM_BYTES, group};
use crate::partitions;
use crate::schedule::TrafficKind;

impl Bed<'_> {
    /// Starts traffic of hosts. A request that a host refuses (it has no LID yet, or is the destination
    /// itself) is not repeated.
    pub(super) fn send(&mut self, what: TrafficKind) {
        match what {
            TrafficKind::Pings {
                host,
                count,
                interval_us,
            } => {
                let own = self.host(host);
                let lids = self.host_lids().into_iter();
                let targets = lids
                    .filter(|&(id, lid)| Some(id) != own && lid.is_unicast())
                    .map(|(_, lid)| lid);
                let request = Request::Ping(PingRequest {
                    targets: targets.collect(),
                    count,
                    interval_us,
                    size: DATAGRAM_BYTES,
                    sl: Sl::default(),
                    pkey: self.any_key(own),
                    timeout_ms: 100,
                });
                self.request(own, request);
            }
            TrafficKind::Flow {
                from,
                to,
                window,
                count,
                rate_kbps,
            } => {
                let Some((from, to)) = self.host(from).zip(self.host(to)) else {
                    return;
                };
                let lid = self.host_lids().get(&to).copied().unwrap_or_default();
                let rate = u64::from(rate_kbps) * 1000;
                let request = self.flow(lid, (window, rate), count.into(), Sl::default());
                self.request(Some(from), Request::PerfStart(request));
            }
            // Groups are of the default partition, in which hosts are limited members.
            TrafficKind::Join { .. } if self.schedule.partitions.is_some() => {}
            TrafficKind::Join { host } => {
                let join = Request::Join {
                    mgid: group(),
                    send_only: false,
                };
                if let Some(member) = self.host(host)
                    && let Some(token) = self.taken(member, join)
                {
                    self.members.insert(member, token);
                }
            }
            TrafficKind::Multicast { host, count } => {
                let request = self.multicast(count);
                self.request(self.host(host), request);
            }
        }
    }

    /// A P_Key that a host has, where there are partitions.
    fn any_key(&self, host: Option<NodeId>) -> u16 {
        let at = self.hosts.iter().position(|&id| Some(id) == host);
        let keys = self.schedule.partitions.zip(at);
        let keys = keys.map(|(division, at)| partitions::keys(division, at));
        keys.and_then(|keys| keys.last().copied()).unwrap_or(0)
    }

    /// A request for a run of multicast packets.
    pub(crate) fn multicast(&mut self, count: u32) -> Request {
        self.multicasts += 1;
        Request::MulticastSend(MulticastSend {
            mgid: group(),
            run: self.multicasts,
            count: count.max(1),
            size: DATAGRAM_BYTES,
        })
    }

    /// A flow with a number of its own.
    pub(crate) fn flow(
        &mut self,
        dlid: Lid,
        (window, rate): (u32, u64),
        count: u64,
        sl: Sl,
    ) -> PerfRequest {
        self.flows += 1;
        PerfRequest {
            flow: self.flows,
            dlid,
            qpn: SINK_QPN,
            size: DATAGRAM_BYTES,
            window,
            rate,
            sl,
            count: count.max(1),
            duration_ms: 0,
            seed: self.schedule.seed,
        }
    }

    /// Makes a request to a host without waiting for the answer.
    pub(super) fn request(&mut self, host: Option<NodeId>, request: Request) {
        if let Some(host) = host
            && !self.twin.is_down(host)
        {
            let name = self.graph.node(host).name.clone();
            // The host is one of the twin's.
            let _ = self.twin.request(&name, request);
        }
    }

    /// Makes a request to a host; its token, if it is not refused at once.
    fn taken(&mut self, host: NodeId, request: Request) -> Option<u64> {
        if self.twin.is_down(host) {
            return None;
        }
        let name = self.graph.node(host).name.clone();
        let token = self.twin.request(&name, request).ok()?;
        match self.twin.reply(token, 0) {
            Ok(Reply::Refused(_)) => None,
            _ => Some(token),
        }
    }

    /// Whether a host has asked to join the group, has not been refused that, and has not been started
    /// anew since.
    pub(crate) fn check_membership(&mut self, host: NodeId) -> bool {
        let token = self.members.get(&host).copied();
        let reply = token.map(|token| self.twin.reply(token, 0));
        !matches!(reply, None | Some(Ok(Reply::Refused(_))))
    }

    /// Makes a request to a host and waits for the answer.
    pub(crate) fn ask(&mut self, host: NodeId, request: Request) -> Option<Reply> {
        let name = self.graph.node(host).name.clone();
        let token = self.twin.request(&name, request).ok()?;
        self.twin.reply(token, 10_000_000_000).ok()
    }
}
