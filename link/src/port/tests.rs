//! Two ports and a cable, in virtual time.

mod credits;
mod linkup;
mod rates;
mod sending;

use wire::{Lid, LinkRate, LinkSpeed, LinkWidth, Mad, Mtu, PortNum, Psn, Qpn, Sl, UdPacket, Vl};

use super::*;
use crate::{Deadline, FrameBuf, LinkCommand, LinkTimeouts, Pool};

/// Room of the frames in these tests.
const FRAME_BYTES: usize = 9000;

/// One end of the cable.
struct End {
    port: Port,
    pool: Pool,
    /// VL and payload length of every data packet that was taken out of the VL input buffers.
    taken: Vec<(Vl, usize)>,
    events: Vec<PortEvent>,
}

impl End {
    fn new(config: PortConfig, number: u8) -> Self {
        Self {
            port: Port::new(PortNum::new(number), config, 0).unwrap(),
            pool: Pool::new(config.bytes_max() * 2),
            taken: Vec::new(),
            events: Vec::new(),
        }
    }

    /// Offers a data packet of `bytes` (LRH to VCRC) on `vl`.
    fn offer(&mut self, now: Time, vl: u8, bytes: usize) -> Result<(), Refusal> {
        let packet = packet(&mut self.pool, now, vl, bytes);
        self.port
            .offer(now, Vl::constant(vl), packet, &mut self.pool)
    }

    /// Takes everything out of the VL input buffers.
    fn drain(&mut self) {
        for vl in (0..16).map(Vl::truncate) {
            while let Some(packet) = self.port.consume(vl) {
                self.taken.push((vl, packet.bytes()));
                packet.release(&mut self.pool);
            }
        }
    }

    fn spec(&self) -> &crate::SpecCounters {
        &self.port.counts().spec
    }

    fn dropped(&self, reason: DropReason) -> u64 {
        self.port.counts().drops[reason]
    }
}

/// A packet of `bytes` on VL `vl`, LRH to VCRC: an SMP on VL15.
fn packet(pool: &mut Pool, now: Time, vl: u8, bytes: usize) -> Packet {
    let raw = raw_packet(vl, bytes);
    Packet::from_bytes(pool, now, &raw).unwrap()
}

fn raw_packet(vl: u8, bytes: usize) -> Vec<u8> {
    let mad = Mad::from_bytes([7; 256]);
    let payload = vec![0x5a; bytes.saturating_sub(34)];
    let datagram = if vl == 15 {
        UdPacket::smp(Lid::new(1), Lid::new(2), &mad)
    } else {
        UdPacket {
            vl: Vl::constant(vl),
            sl: Sl::default(),
            dlid: Lid::new(2),
            slid: Lid::new(1),
            global: None,
            solicited: false,
            pkey: 0xffff,
            dest_qp: Qpn::constant(9),
            psn: Psn::default(),
            qkey: 1,
            src_qp: Qpn::constant(8),
            immediate: None,
            payload: &payload,
        }
    };
    let mut raw = vec![0; datagram.len()];
    datagram.emit(&mut raw).unwrap();
    raw
}

/// A frame with one record around `packet`.
fn data_record(packet: &[u8]) -> Vec<u8> {
    let len = u16::try_from(packet.len()).unwrap().to_be_bytes();
    [&[1, 0, len[0], len[1]], packet].concat()
}

fn config() -> PortConfig {
    PortConfig {
        mtu: Mtu::Mtu256,
        vls: 2,
        buffer_bytes: 4096,
        output_bytes: 8192,
        ..PortConfig::default()
    }
}

fn sdr_1x() -> LinkRate {
    LinkRate {
        width: LinkWidth::X1,
        speed: LinkSpeed::Sdr,
    }
}

/// Two ends and the time.
struct Pair {
    ends: [End; 2],
    now: Time,
    /// Frames that went from each end.
    frames: [usize; 2],
}

impl Pair {
    fn new(config: PortConfig) -> Self {
        let other = PortConfig {
            epoch_seed: 77,
            ..config
        };
        let mut pair = Self {
            ends: [End::new(config, 1), End::new(other, 2)],
            now: Time(1_000_000_000),
            frames: [0; 2],
        };
        for at in 0..2 {
            pair.set_carrier(at, true);
        }
        pair
    }

    /// A pair whose link is up and Active at both ends.
    fn active(config: PortConfig) -> Self {
        let mut pair = Self::new(config);
        pair.settle();
        for state in [LinkCommand::Arm, LinkCommand::Activate] {
            for at in 0..2 {
                pair.set_state(at, state);
            }
        }
        for end in &mut pair.ends {
            while end.port.poll_event().is_some() {}
            end.events.clear();
        }
        pair
    }

    fn set_carrier(&mut self, at: usize, carrier: bool) {
        let End { port, pool, .. } = &mut self.ends[at];
        port.set_carrier(self.now, carrier, pool);
    }

    fn set_state(&mut self, at: usize, state: LinkCommand) {
        let End { port, pool, .. } = &mut self.ends[at];
        port.execute(self.now, state, pool).unwrap();
    }

    fn states(&self) -> [PortState; 2] {
        [self.ends[0].port.state(), self.ends[1].port.state()]
    }

    /// Hands a frame to an end.
    fn hand_in(&mut self, at: usize, frame: &[u8]) {
        let End { port, pool, .. } = &mut self.ends[at];
        port.receive(Arrival::whole(self.now), frame, pool);
    }

    /// One frame from an end to the other, if it has one; `lose` decides whether it arrives.
    fn step(&mut self, from: usize, lose: &mut dyn FnMut() -> bool) -> bool {
        let mut memory = [0; FRAME_BYTES];
        let mut frame = FrameBuf::new(&mut memory, usize::MAX);
        let End { port, pool, .. } = &mut self.ends[from];
        if !port.is_ready(self.now) {
            return false;
        }
        assert!(
            port.transmit(self.now, &mut frame, pool) > 0,
            "a ready port has something to send"
        );
        self.frames[from] += 1;
        if !lose() {
            self.hand_in(1 - from, frame.as_bytes());
        }
        true
    }

    /// Exchanges frames until no port has anything to send at this moment.
    fn settle_lossy(&mut self, lose: &mut dyn FnMut() -> bool) {
        for _ in 0..1000 {
            let sent = [self.step(0, lose), self.step(1, lose)];
            for end in &mut self.ends {
                end.events
                    .extend(core::iter::from_fn(|| end.port.poll_event()));
            }
            if sent == [false, false] {
                return;
            }
        }
        panic!("the ends keep each other busy");
    }

    fn settle(&mut self) {
        self.settle_lossy(&mut || false);
    }

    fn deadline(&self) -> Option<Deadline> {
        Deadline::earlier(self.ends[0].port.deadline(), self.ends[1].port.deadline())
    }

    fn tick(&mut self) {
        for End { port, pool, .. } in &mut self.ends {
            port.tick(self.now, pool);
        }
    }

    /// Lets `ns` pass, from deadline to deadline.
    fn pass(&mut self, ns: u64) {
        self.pass_lossy(ns, &mut || false);
    }

    fn pass_lossy(&mut self, ns: u64, lose: &mut dyn FnMut() -> bool) {
        let end = self.now + ns;
        while let Some(due) = self.deadline().filter(|due| due.at <= end) {
            self.now = self.now.max(due.at);
            self.tick();
            self.settle_lossy(lose);
        }
        self.now = end;
    }
}

fn timeouts() -> LinkTimeouts {
    config().timeouts
}
