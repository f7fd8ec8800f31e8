//! umad2sim: programs that use libibumad, the server of that protocol, and the host behind it.

use hostd::{ClientId, Command, Event, Host, HostConfig};
use link::{Device, Input, PortConfig, Time};
use mad::umad2sim::{Output, SLOTS_MAX, Server, ServerConfig};
use wire::Format as _;
use wire::Guid;
use wire::umad2sim::{ControlDatagram, DataDatagram};

use crate::Parts;
use crate::fields::Fields;

/// Longer than the server's retries of a request take, nanoseconds.
const LONG_NS: u64 = 2_000_000_000;

/// The server and its host.
struct Bench {
    now: Time,
    server: Server<u32>,
    host: Host,
    /// Control requests that are well formed, and answers to them.
    requests: u64,
    answers: u64,
}

impl Bench {
    fn new() -> Self {
        let config = HostConfig {
            name: "h0".to_owned(),
            guid: Guid(0x10),
            pid: 1,
            ports: 1,
            hardware: link::Hardware::default(),
            port: PortConfig::default(),
            ip: Vec::new(),
            traffic_tick_ns: HostConfig::LIVE_TRAFFIC_TICK_NS,
        };
        let server = ServerConfig {
            name: config.name.clone(),
            guid: config.guid,
            timing: ServerConfig::TIMING,
            in_flight_max: ServerConfig::IN_FLIGHT_MAX,
        };
        Self {
            now: Time(1),
            server: Server::new(server),
            host: Host::new(config).expect("a sound configuration"),
            requests: 0,
            answers: 0,
        }
    }

    /// Executes the server's outputs and hands it the host's messages, until neither has more.
    fn settle(&mut self) {
        loop {
            while let Some(output) = self.server.poll_output() {
                let command = match output {
                    Output::Control { .. } => {
                        self.answers += 1;
                        continue;
                    }
                    Output::Open { slot, .. } => {
                        assert!(slot < u16::MAX, "a slot that is no data socket");
                        continue;
                    }
                    Output::Close { .. } => continue,
                    Output::Agent { slot, message } => {
                        let client = ClientId(slot.into());
                        Command::Mad { client, message }
                    }
                    Output::AgentGone { slot } => {
                        let client = ClientId(slot.into());
                        Command::MadGone { client }
                    }
                };
                self.host.handle(self.now, Input::Command(command));
            }
            let Some(event) = self.host.poll_event() else {
                break;
            };
            if let Event::Mad { client, message } = event {
                let slot = u16::try_from(client.0).expect("a slot");
                self.server.handle_agent(self.now, slot, message);
            }
        }
    }

    fn step(&mut self, part: &[u8]) {
        let mut fields = Fields::of(part);
        let what = fields.byte();
        let slot = u16::from(fields.byte() % 4);
        let bytes = fields.rest();
        match what % 8 {
            0..=2 => {
                let well_formed =
                    ControlDatagram::parse(bytes).is_ok_and(|(_, rest)| rest.is_empty());
                self.requests += u64::from(well_formed);
                let from = slot.into();
                self.server.handle_control(self.now, from, bytes);
            }
            3 | 4 => self.server.handle_data(self.now, slot, bytes),
            5 => {
                if let Some(datagram) = self.server.next_data(slot) {
                    assert!(DataDatagram::parse(datagram).is_ok());
                    self.server.data_sent(slot);
                }
            }
            6 => {
                self.now = self.now + fields.nanoseconds();
                self.server.tick(self.now);
                self.host.handle(self.now, Input::Tick);
            }
            _ => match fields.byte() % 3 {
                0 => self.server.program_gone(self.now, slot),
                1 => self.server.offer_slot(fields.two() % 1000),
                _ => {
                    if let Ok(message) = wire::control::decode(fields.rest()) {
                        self.server.handle_agent(self.now, slot, message);
                    }
                }
            },
        }
        self.settle();
    }
}

/// Each part is a step: a datagram to the control socket or to a program's data socket, a datagram
/// read, time that passes, an end of a program.
///
/// # Panics
/// If a request waits for ever, more control requests are answered than were made, or there are more
/// programs than places.
pub(crate) fn umad2sim(bytes: &[u8]) {
    let mut bench = Bench::new();
    for part in Parts::of(bytes) {
        bench.step(part);
    }
    for _ in 0..8 {
        bench.now = bench.now + LONG_NS;
        bench.server.tick(bench.now);
        bench.host.handle(bench.now, Input::Tick);
        bench.settle();
    }
    assert_eq!(bench.server.deadline(), None, "no request waits for ever");
    assert!(bench.answers <= bench.requests, "one answer a request");
    assert!(bench.server.programs().count() <= usize::from(SLOTS_MAX));
    let counts = bench.server.counts();
    assert_eq!(
        counts.queue_full, 0,
        "an input has room for less than a queue"
    );
}
