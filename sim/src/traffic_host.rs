//! A host as experiments want it: a port of a channel adapter with a source and a sink of
//! datagrams of any size down to no payload at all.
//!
//! The port, its VLs, credits, arbiter and check sums are those of every device
//! ([`link::Port`]). What differs from `hostd`'s host is behind the port: packets carry nothing
//! but headers, and when they were generated is written beside them, in the
//! [`PacketTracker`](crate::packet_tracker). Packets wait in one queue a service level at the
//! source, so that a VL that is blocked does not hold up the others; a packet that comes in is
//! consumed at once.

use link::{
    Arrival, ConfigError, Deadline, DeadlineCause, Device, FrameBuf, HandedPacket, Input,
    LinkCommand, Packet, Pool, Port, PortConfig, PortSet, Time,
};
use wire::convert::saturate;
use wire::packet::{ICRC_LEN, VCRC_LEN};
use wire::{DataPacket, Lid, Lnh, Lrh, Opcode, PortNum, Psn, Qpn, Sl, UdPacket, Vl};

use crate::numbers::next_in_turn;
use crate::source_queues::{Injected, SourceQueues};

/// All VLs but VL15.
const DATA_VLS: u16 = 0x7fff;
/// Where the queue pairs of sources and sinks are.
const QPN: Qpn = Qpn::constant(0x1b4);

/// A packet that has come in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Received {
    pub(crate) slid: Lid,
    pub(crate) dlid: Lid,
    pub(crate) sl: Sl,
    pub(crate) psn: Psn,
    /// Its length, LRH to ICRC.
    pub(crate) bytes: u16,
    /// When its last byte is there.
    pub(crate) tail: Time,
    /// Whether its ICRC is right.
    pub(crate) whole: bool,
}

/// A host with a source and a sink.
#[derive(Debug)]
pub(crate) struct TrafficHost {
    port: Port,
    pool: Pool,
    /// A packet of the greatest length; headers and CRCs are written for each.
    template: Vec<u8>,
    /// A packet that has come in, put together.
    inbox: Vec<u8>,
    /// The LID that its packets come from.
    lid: Lid,
    /// Whether its packets have no bytes.
    hands_over: bool,
    source: Option<SourceQueues>,
    pub(crate) injected: Vec<Injected>,
    pub(crate) received: Vec<Received>,
    drain: Drain,
}

/// How fast the host takes packets out of its input buffers.
#[derive(Debug, Default)]
struct Drain {
    /// From one to the next, nanoseconds; 0 for at once.
    ns_per_packet: u64,
    /// Not before.
    next_at: Time,
    /// The VL that had the last turn.
    vl: u32,
}

impl TrafficHost {
    /// A host of which port `number` counts.
    pub(crate) fn new(
        number: PortNum,
        config: PortConfig,
        lid: Lid,
        payload: usize,
    ) -> Result<Self, ConfigError> {
        let payload = vec![0x5a; payload];
        let packet = UdPacket {
            vl: Vl::default(),
            sl: Sl::default(),
            dlid: Lid::ZERO,
            slid: lid,
            global: None,
            solicited: false,
            pkey: 0xffff,
            dest_qp: QPN,
            psn: Psn::default(),
            qkey: 0,
            src_qp: QPN,
            immediate: None,
            payload: &payload,
        };
        let mut template = vec![0; packet.len()];
        // The template has the packet's own length, so there is room.
        let emitted = packet.emit(&mut template);
        debug_assert_eq!(emitted, Ok(template.len()));
        Ok(Self {
            port: Port::new(number, config, 0)?,
            pool: Pool::new(Pool::limit_for(config.bytes_max())),
            inbox: vec![0; template.len()],
            template,
            lid,
            hands_over: false,
            source: None,
            injected: Vec::new(),
            received: Vec::new(),
            drain: Drain::default(),
        })
    }

    /// From now on its packets have no bytes: their numbers are their tags.
    pub(crate) fn hand_over(&mut self) {
        self.hands_over = true;
    }

    pub(crate) fn port(&self) -> &Port {
        &self.port
    }

    pub(crate) fn source(&self) -> Option<&SourceQueues> {
        self.source.as_ref()
    }

    pub(crate) fn source_mut(&mut self) -> Option<&mut SourceQueues> {
        self.source.as_mut()
    }

    /// The port, to write its tables.
    pub(crate) fn port_mut(&mut self) -> &mut Port {
        &mut self.port
    }

    /// Gives the host something to send.
    pub(crate) fn start(&mut self, source: SourceQueues) {
        self.source = Some(source);
    }

    /// Packets in the port.
    pub(crate) fn packets_inside(&self) -> usize {
        self.pool.handles()
    }

    /// Sets the logical state of the port; whether it could follow.
    pub(crate) fn set_state(&mut self, now: Time, state: LinkCommand) -> bool {
        self.port.execute(now, state, &mut self.pool).is_ok()
    }

    /// Takes a packet out of the input buffers each so many nanoseconds from now on; 0: at once.
    pub(crate) fn drain_slowly(&mut self, now: Time, ns_per_packet: u64) {
        self.drain.ns_per_packet = ns_per_packet;
        self.drain.next_at = now;
    }

    fn take_all(&mut self, now: Time) {
        loop {
            let arrived = self.port.arrived();
            if arrived == 0 {
                return;
            }
            let is_slow = self.drain.ns_per_packet > 0;
            let mut number = arrived.trailing_zeros();
            if is_slow && let Some(next) = next_in_turn(arrived & DATA_VLS, self.drain.vl) {
                if now < self.drain.next_at {
                    return;
                }
                number = next;
                self.drain.vl = next;
                self.drain.next_at = now + self.drain.ns_per_packet;
            }
            let vl = Vl::constant(saturate::<u8>(number));
            let Some(mut packet) = self.port.consume(vl) else {
                return;
            };
            if vl != Vl::MANAGEMENT {
                if is_slow {
                    packet.tail = packet.tail.max(now);
                }
                self.note(&packet);
            }
            packet.release(&mut self.pool);
        }
    }

    fn note(&mut self, packet: &Packet) {
        if let Some(handed) = packet.handed() {
            self.received.push(received(packet, handed.tag, true));
            return;
        }
        let len = packet.bytes();
        // No packet of a model is longer.
        let Some(bytes) = self.inbox.get_mut(..len) else {
            return;
        };
        packet.emit(&self.pool, bytes);
        let parsed = DataPacket::parse(bytes);
        let whole = parsed.is_ok_and(|parsed| parsed.check_icrc().is_ok());
        let psn = bytes
            .get(17..20)
            .map_or(0, |psn| u32::from_be_bytes([0, psn[0], psn[1], psn[2]]));
        self.received.push(received(packet, psn, whole));
    }

    /// The moment of [`Device::deadline`] without its reason; [`Time::NEVER`] if there is none.
    #[inline]
    pub(crate) fn due_at(&self) -> Time {
        let traffic = self
            .source
            .as_ref()
            .map_or(Time::NEVER, SourceQueues::next_at);
        let drain = match self.is_drained_slowly() {
            true => self.drain.next_at,
            false => Time::NEVER,
        };
        self.port.poll_times().due_at.min(traffic).min(drain)
    }

    fn is_drained_slowly(&self) -> bool {
        self.drain.ns_per_packet > 0 && self.port.arrived() & DATA_VLS != 0
    }

    /// Whether a VL has both a packet that waits and room for it.
    fn can_fill(&self) -> bool {
        let source = self.source.as_ref();
        source.is_some_and(|source| source.can_fill(&self.port))
    }

    /// Moves waiting packets into output VLs with room.
    fn fill(&mut self, now: Time) {
        let Some(source) = &mut self.source else {
            return;
        };
        for number in 0..self.port.config().vls {
            let vl = Vl::constant(number);
            while let Some(injected) = source.take(now, &self.port, usize::from(number)) {
                let packet = if self.hands_over {
                    let handed = handed(&injected, vl, self.lid);
                    Packet::from_handed(&mut self.pool, now, now, &handed)
                } else {
                    let bytes = write(&mut self.template, &injected, vl);
                    // The pool is many times what the VLs hold.
                    let Ok(packet) = Packet::from_bytes(&mut self.pool, now, bytes) else {
                        debug_assert!(false, "a packet that the VL has room for");
                        break;
                    };
                    packet
                };
                self.injected.push(injected);
                self.port.enqueue(now, vl, packet);
            }
        }
    }
}

/// What is noted of a packet that has come in, with its number.
fn received(packet: &Packet, psn: u32, whole: bool) -> Received {
    Received {
        slid: packet.lrh.slid,
        dlid: packet.lrh.dlid,
        sl: packet.lrh.sl,
        psn: Psn::truncate(psn),
        bytes: packet.lrh.pkt_len_words.saturating_mul(4),
        tail: packet.tail,
        whole,
    }
}

/// The packet without bytes: what [`write`] would write of it, and its number as it carries it.
fn handed(injected: &Injected, vl: Vl, lid: Lid) -> HandedPacket {
    let [.., high, mid, low] = injected.sequence.to_be_bytes();
    HandedPacket {
        lrh: Lrh {
            vl,
            lver: Lrh::VERSION,
            sl: injected.sl,
            lnh: Lnh::IbaLocal,
            dlid: injected.dlid,
            pkt_len_words: injected.bytes / 4,
            slid: lid,
        },
        op_code: Opcode::UD_SEND_ONLY.0,
        tag: u32::from_be_bytes([0, high, mid, low]),
    }
}

/// Writes what differs from packet to packet; the packet, LRH to VCRC.
fn write<'t>(template: &'t mut [u8], injected: &Injected, vl: Vl) -> &'t [u8] {
    let icrc_end = usize::from(injected.bytes).min(template.len() - VCRC_LEN);
    let packet = &mut template[..icrc_end + VCRC_LEN];
    let number = injected.sequence.to_be_bytes();
    packet[0] = vl.get() << 4;
    packet[1] = injected.sl.get() << 4 | packet[1] & 0x0f;
    packet[2..4].copy_from_slice(&injected.dlid.get().to_be_bytes());
    packet[4..6].copy_from_slice(&(injected.bytes / 4).to_be_bytes());
    packet[17..20].copy_from_slice(&number[5..]);
    let icrc_at = icrc_end - ICRC_LEN;
    let icrc = wire::crc::icrc(&packet[..icrc_at]).to_be_bytes();
    packet[icrc_at..icrc_end].copy_from_slice(&icrc);
    let vcrc = wire::crc::vcrc(&packet[..icrc_end]).to_be_bytes();
    packet[icrc_end..].copy_from_slice(&vcrc);
    packet
}

impl Device for TrafficHost {
    type Command = ();
    type Event = ();

    fn handle(&mut self, now: Time, input: Input<'_, ()>) {
        match input {
            Input::Frame {
                head, tail, bytes, ..
            } => {
                let arrival = Arrival { now, head, tail };
                self.port.receive(arrival, bytes, &mut self.pool);
                self.take_all(now);
            }
            Input::Handed {
                head, tail, packet, ..
            } => {
                let arrival = Arrival { now, head, tail };
                self.port.receive_handed(arrival, &packet, &mut self.pool);
                self.take_all(now);
            }
            Input::Credits { packet, .. } => {
                self.port.receive_credits(now, packet, &mut self.pool);
            }
            Input::Carrier { up, .. } => self.port.set_carrier(now, up, &mut self.pool),
            Input::Tick => {
                self.port.tick(now, &mut self.pool);
                if let Some(source) = &mut self.source {
                    source.generate(now);
                }
                if self.drain.ns_per_packet > 0 {
                    self.take_all(now);
                }
            }
            Input::Command(()) => {}
        }
        while self.port.has_events() && self.port.poll_event().is_some() {}
    }

    fn ready(&self, now: Time) -> PortSet {
        let mut ready = PortSet::EMPTY;
        if self.port.is_ready(now) || self.can_fill() {
            ready.insert(self.port.number());
        }
        ready
    }

    fn transmit(&mut self, now: Time, _port: PortNum, frame: &mut FrameBuf<'_>) -> usize {
        let before = frame.records();
        self.port.begin_frame(now, frame);
        loop {
            self.fill(now);
            if self.port.send_next(now, frame, &mut self.pool).is_none() {
                break;
            }
        }
        frame.records() - before
    }

    fn poll_event(&mut self) -> Option<()> {
        None
    }

    fn deadline(&self) -> Option<Deadline> {
        let traffic = self.source.as_ref().map(SourceQueues::next_at);
        let traffic = traffic.filter(|&at| at < Time::NEVER).map(|at| Deadline {
            at,
            cause: DeadlineCause::Traffic,
        });
        let drain = self.is_drained_slowly().then_some(Deadline {
            at: self.drain.next_at,
            cause: DeadlineCause::Traffic,
        });
        Deadline::earlier(Deadline::earlier(self.port.deadline(), traffic), drain)
    }
}
