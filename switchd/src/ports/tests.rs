//! The state that a switch caches of its ports and VLs equals theirs.

use core::num::NonZeroU64;

use link::{Device, FrameBuf, Input, Pacing, PortConfig, PortSet, PortState, Time};
use mad::sma::{LinkCommand, Node};
use proptest::prelude::*;
use wire::{
    Delimiter, Format, Guid, Lid, LinkRate, LinkSpeed, LinkWidth, Mtu, PortNum, Psn, Qpn,
    RecordKind, Sl, UdPacket, Vl,
};

use crate::{Switch, SwitchConfig, Timing};

/// External ports: more than one block of them.
const PORTS: u8 = 10;
const VLS: u8 = 2;

fn switch(guid: u64) -> Switch {
    let config = SwitchConfig {
        name: format!("switch {guid}"),
        guid: Guid(guid),
        ports: PORTS,
        port: PortConfig {
            vls: VLS,
            mtu: Mtu::Mtu256,
            rate: LinkRate {
                width: LinkWidth::X1,
                speed: LinkSpeed::Sdr,
            },
            pacing: Pacing::Paced {
                scale_milli: NonZeroU64::new(1000).unwrap(),
                tick_ns: 0,
            },
            packet_bytes_limit: Some(64),
            buffer_bytes: 128,
            output_bytes: 64,
            ..PortConfig::default()
        },
        hardware: link::Hardware::default(),
        timing: Timing {
            routing_delay_ns: 100,
            crossbar_ps_per_byte: 4000,
        },
    };
    Switch::new(&config).unwrap()
}

/// Two switches, port n to port n.
struct Pair {
    switches: [Switch; 2],
    now: Time,
}

impl Pair {
    /// With all links up and active, LID n behind port n, and lifetimes.
    fn new() -> Self {
        let mut pair = Self {
            switches: [switch(1), switch(2)],
            now: Time(1),
        };
        for number in (1..=PORTS).map(PortNum::new) {
            for at in [0, 1] {
                let up = Input::Carrier {
                    port: number,
                    up: true,
                };
                pair.switches[at].handle(pair.now, up);
            }
        }
        (0..20).for_each(|_| pair.exchange());
        let block = core::array::from_fn(|lid| match u8::try_from(lid) {
            Ok(lid @ 1..=PORTS) => PortNum::new(lid),
            _ => PortNum::NONE,
        });
        let now = pair.now;
        for switch in &mut pair.switches {
            switch.plane.linear.set_block(0, &block);
            switch.plane.linear.set_top(Lid::new(63));
            for number in (1..=PORTS).map(PortNum::new) {
                switch.plane.command_link(now, number, LinkCommand::Arm);
                switch
                    .plane
                    .command_link(now, number, LinkCommand::Activate);
                let port = switch.plane.port_mut(number).unwrap();
                port.set_device_life_ns(Some(20_000));
                port.set_head_of_queue_life_ns(Some(8_000));
                assert_eq!(port.state(), PortState::Active);
            }
            switch.plane.ports.refresh(now);
        }
        pair
    }

    /// Pulls every ready port once and hands its frame to the other switch.
    fn exchange(&mut self) {
        for from in [0, 1] {
            for port in self.switches[from].ready(self.now).iter() {
                self.pull(from, port, true);
            }
        }
    }

    fn pull(&mut self, from: usize, port: PortNum, arrives: bool) {
        let mut memory = [0; 8192];
        let mut frame = FrameBuf::new(&mut memory, 4);
        self.switches[from].transmit(self.now, port, &mut frame);
        self.check(from);
        if arrives && !frame.is_empty() {
            let tail = frame.tail().max(self.now);
            let bytes = frame.as_bytes().to_vec();
            self.receive(1 - from, port, tail, &bytes);
        }
    }

    fn receive(&mut self, at: usize, port: PortNum, tail: Time, bytes: &[u8]) {
        let head = self.now;
        let frame = Input::Frame {
            port,
            head,
            tail,
            bytes,
        };
        self.switches[at].handle(self.now, frame);
        self.check(at);
    }

    /// Compares the cached state with that of the ports and queues.
    fn check(&self, at: usize) {
        let switch = &self.switches[at];
        let plane = &switch.plane;
        for now in [self.now, self.now + 128, self.now + 10_000_000_000] {
            let set = |holds: &dyn Fn(&link::Port) -> bool| -> PortSet {
                let ports = plane.ports.iter().filter(|port| holds(port));
                ports.map(link::Port::number).collect()
            };
            assert_eq!(switch.ready(now), set(&|port| port.is_ready(now)), "ready");
            let due = set(&|port| port.deadline().is_some_and(|due| due.at <= now));
            assert_eq!(plane.ports.due(now), due, "due");
        }
        for port in plane.ports.iter() {
            let times = port.poll_times();
            let due_at = port.deadline().map_or(Time::NEVER, |due| due.at);
            assert_eq!((times.ready_at, times.due_at), (port.ready_at(), due_at));
        }
        let first = plane
            .ports
            .iter()
            .filter_map(link::Port::deadline)
            .min_by_key(|due| due.at);
        let timer = plane.timers.next().map(|(at, ..)| at);
        let ports = first.map(|due| due.at);
        let trap = switch.trap_due_at();
        let earliest = [ports, timer, trap].into_iter().flatten().min();
        assert_eq!(switch.deadline().map(|due| due.at), earliest, "deadline");
        assert_eq!(switch.due_at(), earliest.unwrap_or(Time::NEVER), "due_at");
        for (port, &vls) in plane.ports.iter().zip(&plane.waiting_vls) {
            let number = port.number();
            assert_eq!(
                plane.waiting_ports.contains(number),
                vls != 0,
                "waiting ports"
            );
            for vl in (0..VLS).map(Vl::truncate) {
                let output = crate::plane::PortVl { port: number, vl };
                let queue = &plane.queues[plane.index(output)];
                assert_eq!(vls & (1 << vl.get()) != 0, !queue.is_empty(), "waiting VLs");
            }
        }
    }
}

/// A record of a datagram without payload.
fn data(vl: u8, dlid: u16) -> Vec<u8> {
    let packet = UdPacket {
        vl: Vl::constant(vl),
        sl: Sl::constant(vl),
        dlid: Lid::new(dlid),
        slid: Lid::new(40),
        global: None,
        solicited: false,
        pkey: 0xffff,
        dest_qp: Qpn::constant(9),
        psn: Psn::default(),
        qkey: 0,
        src_qp: Qpn::constant(9),
        immediate: None,
        payload: &[],
    };
    let mut bytes = vec![0; Delimiter::LEN + packet.len()];
    let len = u16::try_from(packet.len()).unwrap();
    let kind = RecordKind::Data;
    Delimiter { kind, len }.emit(&mut bytes[..Delimiter::LEN]);
    packet.emit(&mut bytes[Delimiter::LEN..]).unwrap();
    bytes
}

#[derive(Clone, Debug)]
enum Step {
    Wait(u64),
    Exchange,
    Lose {
        at: usize,
        port: u8,
    },
    Data {
        at: usize,
        port: u8,
        vl: u8,
        dlid: u16,
    },
    Cable {
        port: u8,
        up: bool,
    },
    Nonsense {
        at: usize,
        port: u8,
        bytes: Vec<u8>,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let (at, port) = (0..2usize, 1..=PORTS);
    let some_bytes = prop::collection::vec(any::<u8>(), 0..40);
    prop_oneof![
        6 => prop_oneof![0..300u64, 0..30_000u64, 0..2_000_000_000u64].prop_map(Step::Wait),
        6 => Just(Step::Exchange),
        1 => (at.clone(), port.clone()).prop_map(|(at, port)| Step::Lose { at, port }),
        12 => (at.clone(), 1..=4u8, 0..VLS, 1..6u16)
            .prop_map(|(at, port, vl, dlid)| Step::Data { at, port, vl, dlid }),
        1 => (port.clone(), any::<bool>()).prop_map(|(port, up)| Step::Cable { port, up }),
        1 => (at, port, some_bytes)
            .prop_map(|(at, port, bytes)| Step::Nonsense { at, port, bytes }),
    ]
}

proptest! {
    #[test]
    fn cached_deadlines_and_readiness_equal_recomputed_ones(
        steps in prop::collection::vec(step(), 0..200),
    ) {
        let mut pair = Pair::new();
        for step in steps {
            match step {
                Step::Wait(ns) => {
                    pair.now = pair.now + ns;
                    for at in [0, 1] {
                        pair.switches[at].handle(pair.now, Input::Tick);
                        pair.check(at);
                    }
                }
                Step::Exchange => pair.exchange(),
                Step::Lose { at, port } => pair.pull(at, PortNum::new(port), false),
                Step::Data { at, port, vl, dlid } => {
                    let (tail, bytes) = (pair.now + 128, data(vl, dlid));
                    pair.receive(at, PortNum::new(port), tail, &bytes);
                }
                Step::Cable { port, up } => for at in [0, 1] {
                    let port = PortNum::new(port);
                    pair.switches[at].handle(pair.now, Input::Carrier { port, up });
                    pair.check(at);
                },
                Step::Nonsense { at, port, bytes } => {
                    let tail = pair.now;
                    pair.receive(at, PortNum::new(port), tail, &bytes);
                }
            }
        }
    }
}
