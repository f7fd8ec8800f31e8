//! A flow that has found its stride allocates nothing.

#![allow(clippy::unwrap_used, reason = "tests")]

use hostd::control::{FlowState, PerfRequest, Reply, Request, SINK_QPN};
use hostd::{ClientId, Command, Event, Host, HostConfig};
use link::{Device, FrameBuf, Input, PortConfig, PortState, Time};
use mad::local::{MadMessage, ToAgent};
use wire::attr::{self, PortInfo};
use wire::mad::{AttributeId, Mad, Method};
use wire::{Guid, Lid, PortNum, Qpn, Sl};

const PORT: PortNum = PortNum::new(1);

struct Pair {
    now: Time,
    hosts: [Host; 2],
    memory: Vec<u8>,
}

impl Pair {
    fn new() -> Self {
        let hosts = [1, 2].map(|number| {
            let config = HostConfig {
                name: format!("h{number}"),
                guid: Guid(0x100 * number),
                pid: 1,
                ports: 1,
                hardware: link::Hardware::default(),
                port: PortConfig::default(),
                ip: Vec::new(),
                traffic_tick_ns: HostConfig::LIVE_TRAFFIC_TICK_NS,
            };
            Host::new(config).unwrap()
        });
        let mut pair = Self {
            now: Time(1 << 30),
            hosts,
            memory: vec![0; 60_000],
        };
        for host in &mut pair.hosts {
            host.handle(
                pair.now,
                Input::Carrier {
                    port: PORT,
                    up: true,
                },
            );
        }
        for _ in 0..100 {
            pair.pass(10_000_000);
        }
        for state in [attr::PortState::Armed, attr::PortState::Active] {
            pair.set_state(state);
        }
        assert_eq!(pair.hosts[0].port().state(), PortState::Active);
        pair
    }

    fn set_state(&mut self, state: attr::PortState) {
        for (lid, host) in (1u16..).zip(&mut self.hosts) {
            let info = PortInfo {
                lid: Lid::new(lid),
                port_state: state,
                ..PortInfo::default()
            };
            let port = AttributeId::PORT_INFO;
            let mut mad = Mad::directed_smp(Method::SET, port, 1, 1, &[]).unwrap();
            mad.set_smp_attribute(&info);
            let message = ToAgent::Send(MadMessage {
                lid: Lid::PERMISSIVE,
                qpn: Qpn::SMI,
                sl: Sl::default(),
                mad: Box::new(*mad.as_bytes()),
                way: None,
            });
            let client = ClientId(1);
            host.handle(self.now, Input::Command(Command::Mad { client, message }));
        }
    }

    /// Lets `ns` nanoseconds pass, and everything that is ready cross once.
    fn pass(&mut self, ns: u64) {
        self.now = self.now + ns;
        for side in 0..2 {
            let (sender, receiver) = match &mut self.hosts {
                [one, other] if side == 0 => (one, other),
                [one, other] => (other, one),
            };
            sender.handle(self.now, Input::Tick);
            let mut frame = FrameBuf::new(&mut self.memory, usize::MAX);
            if sender.transmit(self.now, PORT, &mut frame) > 0 {
                let len = frame.as_bytes().len();
                let (head, tail, bytes) = (self.now, self.now, &self.memory[..len]);
                receiver.handle(
                    self.now,
                    Input::Frame {
                        port: PORT,
                        head,
                        tail,
                        bytes,
                    },
                );
            }
        }
    }

    fn delivered(&mut self) -> (u64, FlowState) {
        let request = Request::PerfReport { flow: 1 };
        let command = Command::Control {
            token: 1,
            port: PortNum::new(1),
            request,
        };
        self.hosts[0].handle(self.now, Input::Command(command));
        let mut events = std::iter::from_fn(|| self.hosts[0].poll_event());
        let report = events.find_map(|event| match event {
            Event::Control {
                reply: Reply::Perf(report),
                ..
            } => Some(report),
            _ => None,
        });
        let report = report.unwrap();
        (report.delivered, report.state)
    }
}

#[test]
fn a_packet_of_a_steady_flow_allocates_nothing() {
    let mut pair = Pair::new();
    let request = Request::PerfStart(PerfRequest {
        flow: 1,
        dlid: Lid::new(2),
        qpn: SINK_QPN,
        size: 290,
        window: 256,
        rate: 0,
        sl: Sl::default(),
        count: 0,
        duration_ms: 0,
        seed: 1,
    });
    pair.hosts[0].handle(
        pair.now,
        Input::Command(Command::Control {
            token: 1,
            port: PortNum::new(1),
            request,
        }),
    );
    for _ in 0..200 {
        pair.pass(1_000);
    }
    let (before, _) = pair.delivered();
    let made = allocation_counter::measure(|| {
        for _ in 0..900 {
            pair.pass(1_000);
        }
    });
    let (after, state) = pair.delivered();
    assert!(after - before > 50_000, "{} packets", after - before);
    assert_eq!(state, FlowState::Running);
    // A timer of a flow now and then: once a millisecond, not once a packet.
    assert!(
        made.count_total <= 4,
        "{made:?} for {} packets",
        after - before
    );
}
