//! A host with its agents and services, and programs beside it.

use hostd::control::{MulticastSend, PerfRequest, PingRequest, Reply, Request, SINK_QPN};
use hostd::{ClientId, Command, Event, Host, HostConfig};
use link::{Device as _, Input, Port};
use mad::local::{MadMessage, ToAgent};
use wire::attr::{PKeyTable, PortInfo};
use wire::control::{DeviceRequest, decode, encode};
use wire::{Gid, Guid, Lid, PortNum, Qpn, Sl};

use super::{Bench, Core, LIDS, OWN, port_config};
use crate::Parts;
use crate::fields::Fields;
use crate::targets::mads::{self, knows_key, requests};
use crate::targets::steps;

const PORT: PortNum = PortNum::new(1);
/// A multicast group.
const GROUP: Gid = Gid([0xff; 16]);

impl Core for Host {
    fn port(&self, number: PortNum) -> Option<&Port> {
        (number == PORT).then(|| Self::port(self))
    }

    fn inside(&self) -> usize {
        self.packets_inside()
    }
}

pub(crate) fn config() -> HostConfig {
    HostConfig {
        name: "fuzzed".into(),
        guid: Guid(1),
        pid: 1,
        ports: 1,
        hardware: link::Hardware::default(),
        port: port_config(),
        ip: Vec::new(),
        traffic_tick_ns: 0,
    }
}

/// The settings that only a request with the M_Key may change.
#[derive(Debug, PartialEq)]
struct Settings {
    m_key: u64,
    protection: (u8, u16),
    lids: (Lid, wire::Lmc, Lid),
    keys: Option<PKeyTable>,
}

impl Bench<Host> {
    fn configured() -> Self {
        let host = Host::new(config()).expect("a sound configuration");
        let mut bench = Self::new(host, 1);
        bench.activate(PORT, PORT, OWN);
        bench
    }

    fn settings(&mut self) -> Option<Settings> {
        let info: PortInfo = self.get(PORT, 1)?;
        Some(Settings {
            m_key: info.m_key,
            protection: (info.m_key_protect_bits, info.m_key_lease_period),
            lids: (info.lid, info.lmc, info.master_sm_lid),
            keys: self.get(PORT, 0),
        })
    }

    fn command(&mut self, what: u8, fields: &mut Fields<'_>) {
        let command = match what {
            8 => {
                let lid = fields.one_of(&LIDS);
                let mad = mads::mad(fields);
                let management = mad.class().is_subnet_management();
                let message = ToAgent::Send(MadMessage {
                    lid,
                    qpn: if management { Qpn::SMI } else { Qpn::GSI },
                    sl: Sl::default(),
                    mad: Box::new(*mad.as_bytes()),
                    way: None,
                });
                let client = ClientId(1);
                Command::Mad { client, message }
            }
            _ => match decode(fields.rest()) {
                Ok(command) if !knows_key(fields.rest()) => command,
                _ => return,
            },
        };
        self.device.handle(self.now, Input::Command(command));
        self.exchange();
    }

    /// The replies to the control socket.
    fn replies(&mut self) -> Vec<Reply> {
        let events = core::iter::from_fn(|| self.device.poll_event());
        let replies = events.filter_map(|event| match event {
            Event::Control { reply, .. } => Some(reply),
            _ => None,
        });
        replies.collect()
    }
}

/// Each part is a step: a frame, a record, a packet with right check sums, a management datagram, a
/// datagram, time, the cable, a program's MAD, a command.
///
/// # Panics
/// If a record is not counted, something that only the M_Key may change has changed, the host does not
/// answer its control socket, or something stays inside.
pub(crate) fn host(bytes: &[u8]) {
    let mut bench = Bench::configured();
    let before = bench.settings();
    assert!(before.is_some(), "the host answers");
    for part in Parts::of(bytes) {
        let mut fields = Fields::of(part);
        let what = fields.byte() % 10;
        let _ = fields.byte();
        if !bench.step(what, PORT, &mut fields) {
            bench.command(what, &mut fields);
        }
        for reply in bench.replies() {
            encode(&reply).expect("a reply that fits a message");
        }
    }
    let ask = |request| {
        Input::Command(Command::Control {
            token: 1,
            port: PORT,
            request,
        })
    };
    let plug = DeviceRequest::Cable {
        port: PORT,
        plugged: true,
    };
    bench.carrier(PORT, false);
    bench.pass(2_000_000_000);
    bench.device.handle(bench.now, ask(Request::Device(plug)));
    bench.carrier(PORT, true);
    bench.bring_up();
    assert_eq!(
        bench.settings(),
        before,
        "requests without the M_Key change nothing"
    );
    bench.replies();
    bench.device.handle(bench.now, ask(Request::Identity));
    let replies = bench.replies();
    let identified =
        |reply: &Reply| matches!(reply, Reply::Identity(identity) if identity.lid == OWN);
    assert!(replies.iter().any(identified), "{replies:?}");
    bench.empty();
}

/// Requests of every kind to the control socket.
fn control_requests() -> Vec<Request> {
    let flow = |flow, window, rate| PerfRequest {
        flow,
        dlid: LIDS[1],
        qpn: SINK_QPN,
        size: 98,
        window,
        rate,
        sl: Sl::constant(0),
        count: 5,
        duration_ms: 1,
        seed: 1,
    };
    let ping = PingRequest {
        targets: vec![OWN, LIDS[1]],
        count: 2,
        interval_us: 10,
        size: 98,
        sl: Sl::constant(0),
        pkey: 0,
        timeout_ms: 1,
    };
    vec![
        Request::Device(DeviceRequest::Ports),
        Request::Device(DeviceRequest::Cable {
            port: PORT,
            plugged: false,
        }),
        Request::Device(DeviceRequest::Shutdown),
        Request::Identity,
        Request::Ping(ping),
        Request::PerfStart(flow(1, 4, 0)),
        Request::PerfStart(flow(2, 0, 1_000_000)),
        Request::PerfStartGranted(flow(3, 4, 0)),
        Request::PerfReports { from: 0 },
        Request::PerfStop { flow: 1 },
        Request::PerfStartAll(vec![flow(4, 4, 0), flow(5, 4, 0)]),
        Request::PerfProgress,
        Request::PerfStopAll,
        Request::PerfClear {
            sources: vec![LIDS[1]],
        },
        Request::SinkReport { skip: 0 },
        Request::Join {
            mgid: GROUP,
            send_only: false,
        },
        Request::MulticastSend(MulticastSend {
            mgid: GROUP,
            run: 1,
            count: 3,
            size: 98,
        }),
        Request::MulticastReport {
            mgid: GROUP,
            skip: 0,
        },
        Request::Leave { mgid: GROUP },
        Request::Groups,
    ]
}

/// Steps of every kind, alone and one after the other.
pub(crate) fn host_inputs() -> Vec<Vec<u8>> {
    let client = ClientId(2);
    let to_agents = [
        ToAgent::Register { class: 0x81 },
        ToAgent::SetIsSm(true),
        ToAgent::ReadOwn(Box::new(*requests()[0].as_bytes())),
        ToAgent::Unregister { class: 0x81 },
        ToAgent::Attach { port: PORT },
    ];
    let token = 1;
    let control = control_requests().into_iter();
    let mut commands: Vec<Command> = control
        .map(|request| Command::Control {
            token,
            port: PORT,
            request,
        })
        .collect();
    commands.extend(to_agents.map(|message| Command::Mad { client, message }));
    commands.extend([
        Command::MadGone { client },
        Command::MadsDropped { count: 3 },
    ]);
    let encoded = commands
        .iter()
        .map(|command| encode(command).expect("a short message"));
    let mut inputs = steps::inputs(9, encoded.collect());
    let mads = requests();
    let sent = mads
        .iter()
        .map(|mad| steps::step(8, &[&[1][..], &mads::fields_of(mad)].concat()));
    inputs.extend(sent.map(|step| Parts::join([step])));
    inputs
}
