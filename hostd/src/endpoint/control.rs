//! Requests of the local control socket.

use link::Time;
use wire::control::PortStatus;

use super::Endpoint;
use crate::adapter::Adapter;
use crate::control::{FLOWS_MAX, HostIdentity, PerfRequest, PingRequest, Reply, Request, Step};
use crate::host::Event;
use crate::ipoib::Asker;
use crate::traffic::rounded;

impl Endpoint {
    /// Serves a request; a ping is answered later.
    pub(crate) fn control(&mut self, now: Time, token: u64, request: Request) {
        let refuse = |result: Result<(), String>| match result {
            Ok(()) => Reply::Done,
            Err(why) => Reply::Refused(why),
        };
        let no_flow = |flow| Reply::Refused(format!("there is no flow {flow}"));
        let reply = match request {
            // The host answers these for all its ports.
            Request::Device(_) => Reply::Refused("this is asked of the whole host".to_owned()),
            Request::Identity => Reply::Identity(self.host_identity()),
            Request::Ping(request) => match self.start_ping(now, token, request) {
                Ok(()) => return,
                Err(why) => Reply::Refused(why),
            },
            Request::PerfStart(request) => {
                self.refresh();
                let port = (&self.adapter, &self.engine);
                refuse(self.source.start(now, now, request, port))
            }
            Request::PerfStartGranted(request) => {
                self.refresh();
                let port = (&self.adapter, &self.engine);
                refuse(self.source.start_granted(now, request, port))
            }
            Request::PerfStartAll(requests) => refuse(self.start_flows(now, 0, requests)),
            Request::PerfStartAfter { delay_ms, flows } => {
                refuse(self.start_flows(now, delay_ms, flows))
            }
            Request::PerfStartSteps { delay_ms, steps } => {
                refuse(self.start_steps(now, delay_ms, steps))
            }
            Request::SinkDurations {
                sources,
                first_flow,
                last_flow,
            } => {
                let sources = sources.into_iter().collect();
                let durations = self.sink.durations(&sources, first_flow..=last_flow);
                Reply::Durations(Box::new(durations))
            }
            Request::PerfStartGroup {
                delay_ms,
                mgid,
                flows,
            } => refuse(self.start_group_flows(now, delay_ms, mgid, flows)),
            Request::SinkJitter {
                sources,
                first_flow,
                last_flow,
            } => {
                let sources = sources.into_iter().collect();
                let jitter = self.sink.jitter(&sources, first_flow..=last_flow);
                Reply::Durations(Box::new(jitter))
            }
            Request::PerfReport { flow } => match self.source.report(now, flow) {
                Some(report) => Reply::Perf(Box::new(report)),
                None => no_flow(flow),
            },
            Request::PerfReports { from } => Reply::PerfAll(self.source.reports(now, from)),
            Request::PerfStop { flow } => match self.source.stop(now, flow) {
                true => Reply::Done,
                false => no_flow(flow),
            },
            Request::PerfStopAll => {
                self.source.stop_all(now);
                Reply::Done
            }
            Request::PerfProgress => Reply::PerfProgress(self.source.progress()),
            Request::PerfClear { sources } => {
                self.source.clear();
                self.sink.clear(&sources.into_iter().collect());
                Reply::Done
            }
            Request::Join { mgid, send_only } => {
                match self.change_group(now, token, mgid, Some(send_only)) {
                    Ok(()) => return,
                    Err(why) => Reply::Refused(why),
                }
            }
            Request::Leave { mgid } => match self.change_group(now, token, mgid, None) {
                Ok(()) => return,
                Err(why) => Reply::Refused(why),
            },
            Request::Resolve { address } => match &mut self.ip {
                Some(ip) => {
                    ip.resolve(now, Asker::Control(token), address);
                    return self.settle_ip();
                }
                None => Reply::Refused("this port has no internet addresses".to_owned()),
            },
            Request::Groups => Reply::Groups(self.multicast.memberships()),
            Request::MulticastSend(request) => match self.start_send_job(token, request) {
                Ok(()) => return,
                Err(why) => Reply::Refused(why),
            },
            Request::MulticastReport { mgid, skip } => {
                Reply::Multicast(self.multicast.report(mgid, skip))
            }
            Request::SinkReport { skip } => Reply::Sink(self.sink.reports(skip)),
        };
        self.push_event(Event::Control { token, reply });
    }

    fn start_flows(
        &mut self,
        now: Time,
        delay_ms: u32,
        requests: Vec<PerfRequest>,
    ) -> Result<(), String> {
        if requests.len() > FLOWS_MAX {
            return Err(format!("a host holds {FLOWS_MAX} flows at most"));
        }
        self.refresh();
        let port = (&self.adapter, &self.engine);
        let starts = now + u64::from(delay_ms) * 1_000_000;
        for request in requests {
            self.source.start(now, starts, request, port)?;
        }
        Ok(())
    }

    fn start_steps(&mut self, now: Time, delay_ms: u32, steps: Vec<Step>) -> Result<(), String> {
        if steps.len() > FLOWS_MAX {
            return Err(format!("a host holds {FLOWS_MAX} flows at most"));
        }
        self.refresh();
        let port = (&self.adapter, &self.engine);
        let starts = now + u64::from(delay_ms) * 1_000_000;
        for step in steps {
            self.source
                .start_step(now, starts, step, port, &self.sink)?;
        }
        Ok(())
    }

    fn start_ping(&mut self, now: Time, token: u64, request: PingRequest) -> Result<(), String> {
        rounded(request.size, self.adapter.settings.mtu)?;
        self.pinger.start(now, token, request)
    }

    fn host_identity(&self) -> HostIdentity {
        let settings = &self.adapter.settings;
        let identity = &self.adapter.identity;
        HostIdentity {
            name: self.name.clone(),
            guid: identity.node_guid,
            port: self.number(),
            port_guid: identity.port_guid(self.number()),
            lid: settings.lid,
            lmc: settings.lmc,
            sm_lid: settings.sm_lid,
            state: self.adapter.port.state().code(),
            mtu: settings.mtu.bytes(),
            is_sm: self.clients.is_sm(),
        }
    }

    /// What the port counts, and what the interface for internet packets does.
    fn counters(&self) -> Vec<(String, u64)> {
        let mut counters = self.adapter.counters(self.outbox.packets());
        counters.extend(self.ip.iter().flat_map(|ip| ip.counts().named()));
        counters
    }

    /// Plugs the port's cable in, or pulls it.
    pub(crate) fn set_plugged(&mut self, now: Time, plugged: bool) {
        let Adapter { port, pool, .. } = &mut self.adapter;
        port.set_plugged(now, plugged, pool);
    }

    /// The status of the port.
    pub(crate) fn port_status(&self) -> PortStatus {
        let port = &self.adapter.port;
        let settings = &self.adapter.settings;
        PortStatus {
            port: port.number(),
            state: port.state().code(),
            lid: settings.lid.get(),
            lmc: settings.lmc.get(),
            vls: port.operational_vls(),
            mtu: port.neighbor_mtu().bytes(),
            counters: self.counters(),
        }
    }
}
