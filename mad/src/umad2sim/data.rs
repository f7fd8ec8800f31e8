//! The data sockets: MADs from programs to the fabric and back.

use link::Time;
use tracing::debug;
use wire::mad::{Mad, Method, MgmtClass};
use wire::sa::{Rmpp, RmppKind, SaHeader, rmpp_flag};
use wire::umad2sim::DataDatagram;
use wire::{Format, Lid, Sl};

use super::{InFlight, Output, Purpose, QUEUE_MAX, QUEUE_MIN, SM_CLASSES, Server, WAITING_MAX};
use crate::local::{FromAgent, MadMessage, ToAgent};
use crate::rmpp;
use crate::transaction::Due;

/// Bytes of a MAD.
const MAD_BYTES: u64 = 256;
/// Bytes of a MAD up to the end of RMPP's header, from where its payload length counts.
const RMPP_END: u64 = 36;

/// Whether a MAD of this method is answered: with a response, a trap with its TrapRepress.
fn is_answered(method: Method) -> bool {
    !method.is_response() && !matches!(method, Method::SEND | Method::TRAP_REPRESS)
}

fn message(lid: Lid, qpn: wire::Qpn, mad: &Mad) -> ToAgent {
    let mad = Box::new(*mad.as_bytes());
    ToAgent::Send(MadMessage {
        lid,
        qpn,
        sl: Sl::default(),
        mad,
        way: None,
    })
}

impl<A> InFlight<A> {
    /// A request to the host.
    fn message(&self) -> ToAgent {
        match self.purpose {
            Purpose::Program(_) => message(self.lid, self.qpn, &self.mad),
            Purpose::Control { .. } => ToAgent::ReadOwn(Box::new(*self.mad.as_bytes())),
        }
    }
}

impl<A: Clone> Server<A> {
    /// Takes in a datagram from the data socket of `slot`. It is dropped when [`super::OUTPUTS_MAX`]
    /// actions wait.
    pub fn handle_data(&mut self, now: Time, slot: u16, bytes: &[u8]) {
        if !self.takes_datagrams() {
            return;
        }
        let datagram = match DataDatagram::parse(bytes) {
            Ok((datagram, [])) if self.slots.contains_key(&slot) => datagram,
            Ok(_) | Err(_) => {
                self.counts.malformed += 1;
                return;
            }
        };
        let mut datagram = Box::new(datagram);
        let (lid, qpn) = (datagram.dlid, datagram.dest_qp);
        if !is_answered(datagram.mad.method()) {
            close_transfer(&mut datagram.mad, datagram.len);
            let message = message(lid, qpn, &datagram.mad);
            self.outputs.push_back(Output::Agent { slot, message });
            return;
        }
        let tid = datagram.mad.tid() & 0x0000_ffff_ffff_ffff;
        datagram.mad.set_tid(u64::from(slot) << 48 | tid);
        let mad = Box::new(datagram.mad);
        let purpose = Purpose::Program(datagram);
        self.start(
            now,
            InFlight {
                slot,
                lid,
                qpn,
                mad,
                purpose,
            },
        );
    }

    /// Sends a request now, or when others have been answered.
    pub(super) fn start(&mut self, now: Time, request: InFlight<A>) {
        if self.waiting.len() >= WAITING_MAX {
            return self.give_up(request);
        }
        self.waiting.push_back(request);
        self.start_waiting(now);
    }

    pub(super) fn start_waiting(&mut self, now: Time) {
        while self.in_flight.room() > 0
            && let Some(request) = self.waiting.pop_front()
        {
            let (slot, tid) = (request.slot, request.mad.tid());
            let message = request.message();
            let timing = self.config.timing;
            // There is room, so nothing is refused; the same id again replaces a request whose
            // program has given it up.
            if let Ok(Some(replaced)) = self.in_flight.start(now, tid, timing, request) {
                self.give_up(replaced);
            }
            self.outputs.push_back(Output::Agent { slot, message });
        }
    }

    /// Ends a request without a response: a program's own goes back to it as timed out.
    fn give_up(&mut self, request: InFlight<A>) {
        match request.purpose {
            Purpose::Program(mut datagram) => {
                self.counts.timed_out += 1;
                datagram.status = DataDatagram::TIMED_OUT;
                self.queue(request.slot, &datagram);
            }
            Purpose::Control { to, request } => self.refuse(to, &request),
        }
    }

    /// Retries requests that are due, and ends those that have no attempts left.
    pub fn tick(&mut self, now: Time) {
        loop {
            match self.in_flight.poll(now) {
                Some(Due::Retry { request, .. }) => {
                    let message = request.message();
                    let slot = request.slot;
                    self.outputs.push_back(Output::Agent { slot, message });
                }
                Some(Due::TimedOut { request, .. }) => self.give_up(request),
                None => break,
            }
        }
        self.start_waiting(now);
    }

    /// Handles a message of the host for its client number `slot`.
    pub fn handle_agent(&mut self, now: Time, slot: u16, message: FromAgent) {
        match message {
            FromAgent::Received(message) => self.received(now, slot, &message),
            FromAgent::Registered {
                registered: true, ..
            } => {}
            FromAgent::Registered {
                class,
                registered: false,
            } => {
                debug!(slot, class, "class has another client already");
            }
        }
    }

    fn received(&mut self, now: Time, slot: u16, message: &MadMessage) {
        let mad = Mad::from_bytes(*message.mad);
        if !mad.method().is_response() && mad.method() != Method::TRAP_REPRESS {
            return self.unsolicited(slot, message, mad);
        }
        let asked = self
            .in_flight
            .get(mad.tid())
            .is_some_and(|request| request.slot == slot);
        let request = if asked {
            self.in_flight.finish(mad.tid())
        } else {
            None
        };
        let Some(request) = request else {
            // The answer to a request that was sent twice, or given up.
            self.counts.unexpected += 1;
            return;
        };
        match request.purpose {
            Purpose::Program(asked) => {
                let answer = DataDatagram {
                    dlid: asked.slid,
                    slid: asked.dlid,
                    dest_qp: asked.src_qp,
                    src_qp: asked.dest_qp,
                    status: 0,
                    len: mad_len(&mad),
                    mad,
                };
                self.queue(slot, &answer);
            }
            Purpose::Control { to, request } => self.answer_control(to, &request, &mad),
        }
        self.start_waiting(now);
    }

    /// A request or trap: for a subnet manager, and of the classes that such a program registers.
    fn unsolicited(&mut self, slot: u16, message: &MadMessage, mad: Mad) {
        let is_sm_class = SM_CLASSES.contains(&mad.class());
        let is_sm = self.slots.get(&slot).is_some_and(|program| program.is_sm);
        // These programs leave RMPP to the kernel, which keeps its control packets to itself.
        let is_control = mad.class() == MgmtClass::SUBN_ADM && rmpp::is_control(&mad);
        if !(is_sm && is_sm_class) || is_control {
            self.counts.unexpected += 1;
            return;
        }
        let datagram = DataDatagram {
            dlid: Lid::ZERO,
            slid: message.lid,
            dest_qp: message.qpn,
            src_qp: message.qpn,
            status: 0,
            len: 256,
            mad,
        };
        self.queue(slot, &datagram);
    }

    /// Has a datagram wait until the program in `slot` reads it; drops and counts it if too much waits.
    fn queue(&mut self, slot: u16, datagram: &DataDatagram) {
        let all = || {
            self.slots
                .values()
                .map(|slot| slot.queue.len())
                .sum::<usize>()
        };
        let Some(waits) = self.slots.get(&slot).map(|slot| slot.queue.len()) else {
            return;
        };
        // Summing up is for the few programs that lag far behind.
        let is_full = waits >= QUEUE_MAX || waits >= QUEUE_MIN && all() >= QUEUE_MAX;
        match self.slots.get_mut(&slot) {
            Some(slot) if !is_full => slot.queue.push_back(Box::new(datagram.to_bytes())),
            _ => self.counts.queue_full += 1,
        }
    }
}

/// Completes the RMPP header of a table that is one datagram, which the program leaves to the kernel: the
/// first segment and the last, of the length that the program has given. Of one of 256 bytes the program has cut
/// the rest, so that its length is unknown: it stays as it is.
fn close_transfer(mad: &mut Mad, len: u64) {
    let open = rmpp::header(mad).filter(|rmpp| {
        let is_set = rmpp.flags & (rmpp_flag::FIRST | rmpp_flag::LAST) != 0;
        let is_table = mad.class() == MgmtClass::SUBN_ADM && mad.method().is_response();
        is_table && matches!(rmpp.kind, RmppKind::Data | RmppKind::None) && !is_set
    });
    let payload = len.checked_sub(RMPP_END).filter(|_| len < MAD_BYTES);
    let (Some(open), Some(payload)) = (open, payload.and_then(|len| u32::try_from(len).ok()))
    else {
        return;
    };
    let closed = Rmpp {
        version: Rmpp::VERSION,
        kind: RmppKind::Data,
        flags: open.flags | rmpp_flag::FIRST | rmpp_flag::LAST,
        data1: 1,
        data2: payload,
        ..open
    };
    if let Ok(header) = mad.sa_header() {
        mad.set_sa_header(&SaHeader {
            rmpp: closed,
            ..header
        });
    }
}

/// The length of a response: of a table in one segment that of its records only, so that a program
/// can count them (IBA 13.6.2.1).
fn mad_len(mad: &Mad) -> u64 {
    let alone = rmpp_flag::FIRST | rmpp_flag::LAST;
    let header = match mad.class() {
        MgmtClass::SUBN_ADM => rmpp::header(mad),
        _ => None,
    };
    header
        .filter(|rmpp| rmpp.kind == RmppKind::Data && rmpp.flags & alone == alone)
        .map_or(MAD_BYTES, |rmpp| {
            (RMPP_END + u64::from(rmpp.data2)).min(MAD_BYTES)
        })
}
