//! Requests of the local control socket.

use link::Time;
use wire::control::{DeviceReply, DeviceRequest, PortStatus};

use super::{Event, Host};
use crate::adapter::PORT;
use crate::control::{HostIdentity, PingRequest, Reply, Request};
use crate::traffic::rounded;

impl Host {
    /// Serves a request; a ping is answered later.
    pub(super) fn control(&mut self, now: Time, token: u64, request: Request) {
        let refuse = |result: Result<(), String>| match result {
            Ok(()) => Reply::Done,
            Err(why) => Reply::Refused(why),
        };
        let no_flow = |flow| Reply::Refused(format!("there is no flow {flow}"));
        let reply = match request {
            Request::Device(request) => Reply::Device(self.device(now, request)),
            Request::Identity => Reply::Identity(self.host_identity()),
            Request::Ping(request) => match self.start_ping(now, token, request) {
                Ok(()) => return,
                Err(why) => Reply::Refused(why),
            },
            Request::PerfStart(request) => {
                let pkey = self.own_pkey();
                refuse(self.source.start(now, request, &self.adapter, pkey))
            }
            Request::PerfStartGranted(request) => {
                let pkey = self.own_pkey();
                let adapter = &self.adapter;
                refuse(self.source.start_granted(now, request, adapter, pkey))
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

    fn start_ping(&mut self, now: Time, token: u64, request: PingRequest) -> Result<(), String> {
        rounded(request.size, self.adapter.settings.mtu)?;
        self.pinger.start(now, token, request)
    }

    fn host_identity(&self) -> HostIdentity {
        let settings = &self.adapter.settings;
        let identity = &self.adapter.identity;
        HostIdentity {
            name: identity.description.clone(),
            guid: identity.node_guid,
            port_guid: identity.port_guid(PORT),
            lid: settings.lid,
            lmc: settings.lmc,
            sm_lid: settings.sm_lid,
            state: self.adapter.port.state().code(),
            mtu: settings.mtu.bytes(),
            is_sm: self.clients.is_sm(),
        }
    }

    fn device(&mut self, now: Time, request: DeviceRequest) -> DeviceReply {
        match request {
            DeviceRequest::Identify => DeviceReply::Identity {
                name: self.adapter.identity.description.clone(),
                guid: self.adapter.identity.node_guid,
                pid: self.pid,
            },
            DeviceRequest::Ports => DeviceReply::Ports(vec![self.port_status()]),
            DeviceRequest::Cable {
                port: PORT,
                plugged,
            } => {
                self.adapter
                    .port
                    .set_plugged(now, plugged, &mut self.adapter.pool);
                DeviceReply::Done
            }
            DeviceRequest::Cable { port, .. } => {
                DeviceReply::Refused(format!("a host has port 1 only, not {port}"))
            }
            DeviceRequest::Shutdown => {
                self.adapter
                    .port
                    .set_plugged(now, false, &mut self.adapter.pool);
                self.push_event(Event::Shutdown);
                DeviceReply::Done
            }
            DeviceRequest::Endpoints | DeviceRequest::Connect { .. } => {
                DeviceReply::Refused("link addresses belong to the daemon".to_owned())
            }
        }
    }

    fn port_status(&self) -> PortStatus {
        let port = &self.adapter.port;
        let settings = &self.adapter.settings;
        PortStatus {
            port: PORT,
            state: port.state().code(),
            lid: settings.lid.get(),
            lmc: settings.lmc.get(),
            vls: port.operational_vls(),
            mtu: port.neighbor_mtu().bytes(),
            counters: self.adapter.counters(self.outbox.packets()),
        }
    }
}
