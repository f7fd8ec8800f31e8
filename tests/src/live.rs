//! Speaking with the devices of a fabric directly: their control sockets, and their tables by
//! management packets.

use std::collections::BTreeMap;
use std::time::Duration;

use controller::control::{Phase, Reply, Request, Status};
use daemon::control::ControlClient;
use hostd::control as host;
use mad::local::{FromAgent, MadMessage, ToAgent};
use netio::seqpacket::BlockingConnection;
use wire::attr::Attribute;
use wire::control::{DeviceReply, DeviceRequest, PortStatus};
use wire::sa::{SaHeader, SaRecord};
use wire::{Lid, Mad, Method, PortNum, Qpn, Sl};

use crate::{Fabric, within};

/// How long a device may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

impl Fabric {
    fn control(&self, device: &str) -> ControlClient {
        let path = self.dir().join(format!("{device}.ctl"));
        ControlClient::connect(&path, ANSWER_TIMEOUT)
            .unwrap_or_else(|error| panic!("{device}: {error}"))
    }

    /// What the first controller says of the subnet.
    ///
    /// # Errors
    /// Why it does not.
    pub fn subnet(&self) -> Result<Status, String> {
        let path = self.dir().join("controller.ctl");
        let client = ControlClient::connect(&path, ANSWER_TIMEOUT);
        let reply = client.and_then(|mut client| client.request(&Request::Status));
        match reply {
            Ok(Reply::Status(status)) => Ok(*status),
            Ok(other) => Err(format!("{other:?}")),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Sweeps that the first controller has completed.
    ///
    /// # Panics
    /// If it does not tell.
    #[track_caller]
    #[must_use]
    pub fn sweeps(&self) -> u64 {
        let status = self.subnet();
        status.unwrap_or_else(|why| panic!("{why}")).generation
    }

    /// Asserts that the fabric heals within `limit`: the controller has written all tables of what
    /// `is_seen` in the subnet by then, and the first echo of every pair that is sent after that is
    /// answered. Echoes that were sent before would cost their timeouts, which are no part of healing.
    ///
    /// # Panics
    /// If it does not.
    #[track_caller]
    pub fn heals(&self, limit: Duration, what: &str, is_seen: impl Fn(&Status) -> bool) {
        within(limit, what, || match self.subnet()? {
            status if status.phase == Phase::Up && is_seen(&status) => Ok(()),
            status => Err(format!("{status:?}")),
        });
        self.all_pairs()
            .unwrap_or_else(|why| panic!("{what}: all tables are written, but {why}"));
    }

    /// What a host answers on its control socket.
    ///
    /// # Panics
    /// If it does not within a minute.
    #[track_caller]
    #[must_use]
    pub fn ask_host(&self, host: &str, request: &host::Request) -> host::Reply {
        let request = host::PortRequest {
            port: PortNum::new(1),
            request: request.clone(),
        };
        let reply = self.control(host).request(&request);
        reply.unwrap_or_else(|error| panic!("{host}: {error}"))
    }

    /// The ports of a host as it sees them.
    ///
    /// # Panics
    /// If it does not tell.
    #[track_caller]
    #[must_use]
    pub fn host_ports(&self, host: &str) -> Vec<PortStatus> {
        match self.ask_host(host, &host::Request::Device(DeviceRequest::Ports)) {
            host::Reply::Device(DeviceReply::Ports(ports)) => ports,
            other => panic!("{host}: {other:?}"),
        }
    }

    /// The ports of a switch as it sees them.
    ///
    /// # Panics
    /// If it does not tell.
    #[track_caller]
    #[must_use]
    pub fn switch_ports(&self, switch: &str) -> Vec<PortStatus> {
        let request = switchd::control::Request::Device(DeviceRequest::Ports);
        match self.control(switch).request(&request) {
            Ok(switchd::control::Reply::Device(DeviceReply::Ports(ports))) => ports,
            other => panic!("{switch}: {other:?}"),
        }
    }

    /// The flow that a host sends, once something of it has arrived.
    ///
    /// # Errors
    /// What its flows are, if none runs.
    ///
    /// # Panics
    /// If the host does not answer.
    #[track_caller]
    pub fn running_flow(&self, host: &str) -> Result<u32, String> {
        let flows = match self.ask_host(host, &host::Request::PerfReports { from: 0 }) {
            host::Reply::PerfAll(flows) => flows,
            other => panic!("{host}: {other:?}"),
        };
        let runs =
            |flow: &&host::FlowReport| flow.state == host::FlowState::Running && flow.delivered > 0;
        let running = flows.iter().find(runs).map(|flow| flow.flow);
        running.ok_or_else(|| format!("{flows:?}"))
    }

    /// Management packets through a host.
    ///
    /// # Panics
    /// If it does not run.
    #[track_caller]
    #[must_use]
    pub fn smps(&self, host: &str) -> Smps {
        let path = self.dir().join(format!("{host}.mad"));
        let connection = BlockingConnection::connect(&path, ANSWER_TIMEOUT);
        Smps {
            connection: connection.unwrap_or_else(|error| panic!("{host}: {error}")),
            tid: 0,
        }
    }
}

/// The counters of a port by name.
#[must_use]
pub fn named(status: &PortStatus) -> BTreeMap<String, u64> {
    status.counters.iter().cloned().collect()
}

/// Asks devices for their attributes by management packets.
#[derive(Debug)]
pub struct Smps {
    connection: BlockingConnection,
    tid: u64,
}

impl Smps {
    /// An attribute of the device at `lid`.
    ///
    /// # Panics
    /// If it does not answer or refuses.
    #[track_caller]
    pub fn get<A: Attribute>(&mut self, lid: Lid, modifier: u32) -> A {
        self.tid += 1;
        let mad = Mad::lid_smp(Method::GET, A::ID, modifier, self.tid);
        let answer = self.exchange(lid, Qpn::SMI, &mad);
        assert_eq!(answer.status().0, 0, "LID {lid}");
        answer.smp_attribute().expect("the attribute asked for")
    }

    /// The answer of subnet administration at `lid` to a request with one record.
    ///
    /// # Panics
    /// If it does not answer.
    #[track_caller]
    pub fn ask_administration<R: SaRecord>(
        &mut self,
        lid: Lid,
        method: Method,
        component_mask: u64,
        record: &R,
    ) -> Mad {
        self.tid += 1;
        let mut mad = Mad::sa(method, R::ID, 0, self.tid);
        mad.set_sa_header(&SaHeader {
            component_mask,
            ..SaHeader::default()
        });
        mad.set_sa_record(record);
        self.exchange(lid, Qpn::GSI, &mad)
    }

    fn exchange(&mut self, lid: Lid, qpn: Qpn, mad: &Mad) -> Mad {
        let message = ToAgent::Send(MadMessage {
            lid,
            qpn,
            sl: Sl::default(),
            mad: Box::new(*mad.as_bytes()),
            way: None,
        });
        let bytes = wire::control::encode(&message).expect("a MAD can be encoded");
        self.connection.send(&bytes).expect("the host takes MADs");
        let answer = self.connection.receive().expect("an answer in time");
        let answer = answer.expect("the host lives");
        let Ok(FromAgent::Received(answer)) = wire::control::decode(&answer) else {
            panic!("something else than a MAD");
        };
        let (mad, _) = Mad::parse(&answer.mad[..]).expect("a MAD");
        assert_eq!(mad.tid(), self.tid, "LID {lid}");
        mad
    }
}
