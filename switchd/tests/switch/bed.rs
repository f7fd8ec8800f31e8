//! A small fabric: real switch cores, bare ports in place of hosts, and cables.

use std::collections::BTreeMap;

use link::{
    Arrival, Deadline, Device, FrameBuf, Input, LinkTimeouts, Packet, Pool, Port, PortConfig,
    PortState, Time,
};
use switchd::control::{Reply, Request};
use switchd::{Command, Event, Switch, SwitchConfig, Timing};
use wire::{DataPacket, Guid, Lid, Mtu, PortNum, Psn, Qpn, Sl, UdPacket, Vl};

#[path = "bed/manage.rs"]
mod manage;

/// Room of the frames.
const FRAME_BYTES: usize = 60_000;

pub(crate) fn port(number: u8) -> PortNum {
    PortNum::new(number)
}

pub(crate) fn lid(number: u16) -> Lid {
    Lid::new(number)
}

/// A bare port that sends and receives.
pub(crate) struct Host {
    pub(crate) port: Port,
    pub(crate) pool: Pool,
    /// Packets that have come in, whole, with the time at which they were complete.
    pub(crate) received: Vec<(Time, Vec<u8>)>,
    /// Whether it takes packets out of its input VLs.
    pub(crate) takes: bool,
}

impl Host {
    fn new(config: PortConfig) -> Self {
        Self {
            port: Port::new(port(1), config, 0).unwrap(),
            pool: Pool::new(config.bytes_max() * 2),
            received: Vec::new(),
            takes: true,
        }
    }

    fn take_all(&mut self) {
        if !self.takes {
            return;
        }
        for vl in (0..16).map(Vl::truncate) {
            while let Some(packet) = self.port.consume(vl) {
                let mut bytes = vec![0; packet.bytes()];
                packet.emit(&self.pool, &mut bytes);
                self.received.push((packet.tail, bytes));
                packet.release(&mut self.pool);
            }
        }
    }

    /// The data packets that have come in, by source LID and first payload byte.
    pub(crate) fn data(&self) -> Vec<(u16, u8)> {
        let datagrams = self.received.iter().filter_map(|(_, bytes)| {
            let packet = DataPacket::parse(bytes).unwrap();
            packet.check_vcrc().unwrap();
            packet.check_icrc().unwrap();
            let datagram = UdPacket::parse(&packet).unwrap();
            (datagram.dest_qp.get() > 1).then(|| (datagram.slid.get(), datagram.payload[0]))
        });
        datagrams.collect()
    }
}

/// A datagram of `bytes` in all from one LID to another; `mark` is its first payload byte.
pub(crate) fn datagram(slid: u16, dlid: u16, sl: u8, vl: u8, bytes: usize, mark: u8) -> Vec<u8> {
    let mut payload = vec![0; bytes - 34];
    payload[0] = mark;
    let datagram = UdPacket {
        vl: Vl::constant(vl),
        sl: Sl::constant(sl),
        dlid: lid(dlid),
        slid: lid(slid),
        global: None,
        solicited: false,
        pkey: 0xffff,
        dest_qp: Qpn::constant(9),
        psn: Psn::default(),
        qkey: 1,
        src_qp: Qpn::constant(8),
        immediate: None,
        payload: &payload,
    };
    let mut raw = vec![0; datagram.len()];
    datagram.emit(&mut raw).unwrap();
    raw
}

/// A frame with one data record.
pub(crate) fn record(packet: &[u8]) -> Vec<u8> {
    let len = u16::try_from(packet.len()).unwrap().to_be_bytes();
    [&[1, 0, len[0], len[1]], packet].concat()
}

/// Where a cable ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Plug {
    Switch(usize, u8),
    Host(usize),
}

/// A frame under way.
struct Flying {
    to: Plug,
    head: Time,
    tail: Time,
    bytes: Vec<u8>,
}

/// How the fabric is built.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) port: PortConfig,
    pub(crate) timing: Timing,
    pub(crate) ports: u8,
    /// How long a frame flies from one end of a cable to the other.
    pub(crate) flight_ns: u64,
    /// Records a frame.
    pub(crate) records: usize,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            port: PortConfig {
                mtu: Mtu::Mtu256,
                vls: 4,
                buffer_bytes: 4096,
                output_bytes: 1024,
                ..PortConfig::default()
            },
            timing: Timing::default(),
            ports: 8,
            flight_ns: 0,
            records: usize::MAX,
        }
    }
}

pub(crate) struct Bed {
    pub(crate) switches: Vec<Switch>,
    pub(crate) hosts: Vec<Host>,
    pub(crate) now: Time,
    plan: Plan,
    cables: BTreeMap<Plug, Plug>,
    flying: Vec<Flying>,
    tid: u64,
}

impl Bed {
    /// Switches and hosts with cables between them, links in Init.
    pub(crate) fn new(plan: Plan, switches: usize, hosts: usize, cables: &[(Plug, Plug)]) -> Self {
        let seed = |index: usize| u32::try_from(index * 1000 + 1).unwrap();
        let config = |index| SwitchConfig {
            name: format!("s{index}"),
            guid: Guid(0x1000 + index as u64),
            ports: plan.ports,
            port: PortConfig {
                epoch_seed: seed(index),
                ..plan.port
            },
            hardware: link::Hardware::default(),
            timing: plan.timing,
        };
        let host = |index: usize| {
            Host::new(PortConfig {
                epoch_seed: seed(index + 100),
                ..plan.port
            })
        };
        let mut bed = Self {
            switches: (0..switches)
                .map(|index| Switch::new(&config(index)).unwrap())
                .collect(),
            hosts: (0..hosts).map(host).collect(),
            now: Time(1_000_000_000),
            plan,
            cables: BTreeMap::new(),
            flying: Vec::new(),
            tid: 0,
        };
        for &(one, other) in cables {
            bed.cables.insert(one, other);
            bed.cables.insert(other, one);
            bed.plug(one, true);
            bed.plug(other, true);
        }
        bed.run();
        bed.pass(10_000);
        bed
    }

    /// One switch with a host on each of its first ports: host `i` on port `i + 1`, LID `i + 1`,
    /// the switch has LID 100; all links Active.
    pub(crate) fn star(plan: Plan, hosts: usize) -> Self {
        let cable = |host: usize| {
            let port = u8::try_from(host + 1).unwrap();
            (Plug::Host(host), Plug::Switch(0, port))
        };
        let cables: Vec<_> = (0..hosts).map(cable).collect();
        let mut bed = Self::new(plan, 1, hosts, &cables);
        let routes: Vec<_> = (1..=hosts)
            .map(|host| (u16::try_from(host).unwrap(), u8::try_from(host).unwrap()))
            .chain([(100, 0)])
            .collect();
        bed.set_lid(&[1], 100);
        bed.set_routes(&[1], &routes);
        for host in 1..=hosts {
            bed.activate(&[1], u8::try_from(host).unwrap());
        }
        bed.activate_hosts();
        bed
    }

    pub(crate) fn plug(&mut self, end: Plug, up: bool) {
        match end {
            Plug::Switch(at, number) => {
                let port = port(number);
                self.switches[at].handle(self.now, Input::Carrier { port, up });
            }
            Plug::Host(at) => {
                let Host { port, pool, .. } = &mut self.hosts[at];
                port.set_carrier(self.now, up, pool);
            }
        }
    }

    // Time and frames.

    fn deliver(&mut self, flying: Flying) {
        let (head, tail) = (flying.head, flying.tail);
        match flying.to {
            Plug::Switch(at, number) => {
                let port = port(number);
                let input = Input::Frame {
                    port,
                    head,
                    tail,
                    bytes: &flying.bytes,
                };
                self.switches[at].handle(self.now, input);
            }
            Plug::Host(at) => {
                let host = &mut self.hosts[at];
                let arrival = Arrival {
                    now: self.now,
                    head,
                    tail,
                };
                host.port.receive(arrival, &flying.bytes, &mut host.pool);
            }
        }
    }

    fn send(&mut self, from: Plug) -> bool {
        let mut memory = vec![0; FRAME_BYTES];
        let mut frame = FrameBuf::new(&mut memory, self.plan.records);
        let records = match from {
            Plug::Switch(at, number) => {
                self.switches[at].transmit(self.now, port(number), &mut frame)
            }
            Plug::Host(at) => {
                let Host { port, pool, .. } = &mut self.hosts[at];
                port.transmit(self.now, &mut frame, pool)
            }
        };
        if records == 0 {
            return false;
        }
        if let Some(&to) = self.cables.get(&from) {
            let flight = self.plan.flight_ns;
            self.flying.push(Flying {
                to,
                head: self.now + flight,
                tail: self.now.max(frame.tail()) + flight,
                bytes: frame.as_bytes().to_vec(),
            });
        }
        true
    }

    fn ready(&self) -> Vec<Plug> {
        let switches = self.switches.iter().enumerate().flat_map(|(at, switch)| {
            let ports = switch.ready(self.now);
            ports.iter().map(move |port| Plug::Switch(at, port.get()))
        });
        let hosts = self.hosts.iter().enumerate();
        let hosts = hosts.filter(|(_, host)| host.port.is_ready(self.now));
        switches
            .chain(hosts.map(|(at, _)| Plug::Host(at)))
            .collect()
    }

    /// Everything that can happen at this moment.
    pub(crate) fn run(&mut self) {
        for _ in 0..100_000 {
            let mut busy = false;
            let now = self.now;
            while let Some(at) = self.flying.iter().position(|flying| flying.head <= now) {
                let flying = self.flying.remove(at);
                self.deliver(flying);
                busy = true;
            }
            self.hosts.iter_mut().for_each(Host::take_all);
            for from in self.ready() {
                busy |= self.send(from);
            }
            if !busy {
                return;
            }
        }
        panic!("the fabric never comes to rest");
    }

    fn next_moment(&self) -> Option<Time> {
        let devices = self.switches.iter().map(Device::deadline);
        let hosts = self.hosts.iter().map(|host| host.port.deadline());
        let due = devices.chain(hosts).fold(None, Deadline::earlier);
        let flying = self.flying.iter().map(|flying| flying.head);
        due.map(|due| due.at).into_iter().chain(flying).min()
    }

    /// Lets `ns` pass, from one deadline to the next.
    pub(crate) fn pass(&mut self, ns: u64) {
        let end = self.now + ns;
        while let Some(at) = self.next_moment().filter(|&at| at <= end) {
            self.now = self.now.max(at);
            let now = self.now;
            for switch in &mut self.switches {
                switch.handle(now, Input::Tick);
            }
            for host in &mut self.hosts {
                host.port.tick(now, &mut host.pool);
            }
            self.run();
        }
        self.now = end;
    }

    // Packets.

    /// Offers a packet at a host; `false` if its queue is full.
    pub(crate) fn offer(&mut self, host: usize, packet: &[u8]) -> bool {
        let now = self.now;
        let Host { port, pool, .. } = &mut self.hosts[host];
        let packet = Packet::from_bytes(pool, now, packet).unwrap();
        match port.offer(now, packet.lrh.vl, packet, pool) {
            Ok(()) => true,
            Err(link::Refusal::Full(packet)) => {
                packet.release(pool);
                false
            }
            Err(link::Refusal::Dropped(reason)) => panic!("dropped: {}", reason.name()),
        }
    }

    /// Sends one small datagram between hosts of a star; SL 0, VL 0.
    pub(crate) fn send_data(&mut self, from: u16, to: u16, mark: u8) {
        let packet = datagram(from, to, 0, 0, 290, mark);
        assert!(self.offer(usize::from(from) - 1, &packet));
        self.run();
    }

    /// Asks a switch over its local control socket.
    pub(crate) fn control(&mut self, at: usize, request: Request) -> Reply {
        let token = 42;
        let command = Command { token, request };
        self.switches[at].handle(self.now, Input::Command(command));
        let Some(Event::Reply { token: 42, reply }) = self.switches[at].poll_event() else {
            panic!("no reply");
        };
        reply
    }

    pub(crate) fn state(&self, at: usize, number: u8) -> PortState {
        self.switches[at].port(port(number)).unwrap().state()
    }

    pub(crate) fn drops(&self, at: usize, number: u8, reason: link::DropReason) -> u64 {
        let switch = &self.switches[at];
        match number {
            0 => switch.own_counts().drops[reason],
            _ => switch.port(port(number)).unwrap().counts().drops[reason],
        }
    }

    pub(crate) fn link_timeouts(&self) -> LinkTimeouts {
        self.plan.port.timeouts
    }
}
