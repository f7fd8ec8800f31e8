//! From programs to the fabric: requests, answers, and what becomes of requests without an answer.

use link::Time;
use tracing::debug;
use wire::convert::saturate;
use wire::mad::{Mad, MgmtClass};
use wire::umad::UserMadHeader;
use wire::{Format, Lid, MadHeader, Qpn, Sl};

use super::agents::{Agent, RmppBy, is_response, tid_of};
use super::transfers::Outgoing;
use super::{Descriptor, Output, Outstanding, Server, WAITING_MAX};
use crate::local::{MadGlobalRoute, MadMessage, MadWay, ToAgent};
use crate::rmpp::{self, HEADER_END};
use crate::sma::{GUIDS, PKEYS};
use crate::transaction::{Due, Timing};

/// Nanoseconds of a millisecond.
const MS: u64 = 1_000_000;

/// How often a request is sent, and how long each waits.
pub(super) fn timing(header: &UserMadHeader) -> Timing {
    Timing {
        timeout_ns: u64::from(header.timeout_ms) * MS,
        attempts: saturate::<u8>(header.retries.saturating_add(1)),
    }
}

/// The message by which the host sends a MAD to where a header says.
pub(super) fn message(header: &UserMadHeader, is_smi: bool, mad: &Mad) -> ToAgent {
    let qpn = match is_smi {
        true => Qpn::SMI,
        false => Qpn::truncate(header.qpn),
    };
    ToAgent::Send(MadMessage {
        lid: Lid::new(header.lid),
        qpn,
        sl: Sl::truncate(header.sl),
        mad: Box::new(*mad.as_bytes()),
        way: Some(MadWay {
            path_bits: header.path_bits,
            pkey_index: header.pkey_index,
            global: (header.grh_present != 0).then_some(MadGlobalRoute {
                gid_index: header.gid_index,
                remote: header.gid,
                flow_label: header.flow_label,
                hop_limit: header.hop_limit,
                traffic_class: header.traffic_class,
            }),
        }),
    })
}

/// Whether a header names entries that the port's tables can have.
fn has_known_indices(header: &UserMadHeader) -> bool {
    let has_gid = header.grh_present == 0 || header.gid_index < GUIDS;
    header.pkey_index < PKEYS && has_gid
}

/// The first 256 bytes of a MAD that a program gave; the rest of a shorter one is zero.
fn first_of(bytes: &[u8]) -> Mad {
    let mut mad = [0; Mad::LEN];
    let len = bytes.len().min(Mad::LEN);
    mad[..len].copy_from_slice(&bytes[..len]);
    Mad::from_bytes(mad)
}

impl Descriptor {
    /// The key of a request in the table of those in flight: agent and lower half of the id.
    fn key(mad: &Mad) -> u64 {
        mad.tid()
    }

    fn is_outstanding(&self, key: u64) -> bool {
        let mut waiting = self.waiting.iter();
        self.in_flight.get(key).is_some() || waiting.any(|request| Self::key(&request.mad) == key)
    }
}

impl Server {
    /// Takes in what a program sends by a descriptor: header and MAD.
    pub fn handle_data(&mut self, now: Time, descriptor: u32, bytes: &[u8]) {
        if !self.takes_mads() {
            return;
        }
        let Some(open) = self.descriptors.get(&descriptor) else {
            return;
        };
        let (header, bytes) = match UserMadHeader::parse(bytes) {
            Ok((header, mad)) if mad.len() >= HEADER_END => (header, mad),
            Ok(_) | Err(_) => {
                self.counts.malformed += 1;
                return;
            }
        };
        let mad = first_of(bytes);
        let Some(agent) = open.agents.get(&header.agent).copied() else {
            debug!(agent = header.agent, "no such agent");
            return self.refuse(descriptor, header, &mad, UserMadHeader::INVALID);
        };
        if mad.class().is_subnet_management() != agent.is_smi() {
            debug!(class = %mad.class(), "the class does not belong to the agent's queue pair");
            return self.refuse(descriptor, header, &mad, UserMadHeader::INVALID);
        }
        if !agent.is_smi() && !has_known_indices(&header) {
            debug!(
                agent = header.agent,
                "no such entry of the table of P_Keys or GUIDs"
            );
            return self.refuse(descriptor, header, &mad, UserMadHeader::INVALID);
        }
        // Of RMPP's header only that it is in use counts: the kernel writes the rest.
        match rmpp::header(&mad) {
            Some(_) if agent.rmpp_by(mad.class()) == RmppBy::Server => {
                self.begin_transfer(now, descriptor, header, mad, bytes);
            }
            _ if bytes.len() > Mad::LEN => {
                self.refuse(descriptor, header, &mad, UserMadHeader::INVALID);
            }
            _ => self.send_single(now, descriptor, agent, header, mad),
        }
    }

    /// Gives a MAD that cannot be sent back to its program, with this status.
    pub(super) fn refuse(
        &mut self,
        descriptor: u32,
        header: UserMadHeader,
        mad: &Mad,
        status: u32,
    ) {
        self.counts.malformed += 1;
        let header = UserMadHeader { status, ..header };
        self.queue(descriptor, &header, &mad.as_bytes()[..MadHeader::LEN]);
    }

    /// Sends a MAD that is one datagram.
    fn send_single(
        &mut self,
        now: Time,
        descriptor: u32,
        agent: Agent,
        header: UserMadHeader,
        mut mad: Mad,
    ) {
        let tid = mad.tid();
        if !is_response(mad.method()) {
            mad.set_tid(tid_of(header.agent, tid));
        }
        if is_response(mad.method()) || header.timeout_ms == 0 {
            let message = message(&header, agent.is_smi(), &mad);
            let client = descriptor;
            return self.outputs.push_back(Output::Agent { client, message });
        }
        let request = Outstanding {
            header,
            mad: Box::new(mad),
            tid,
        };
        self.start(now, descriptor, request);
    }

    /// Sends a request now, or when others have been answered.
    fn start(&mut self, now: Time, descriptor: u32, request: Outstanding) {
        let Some(open) = self.descriptors.get_mut(&descriptor) else {
            return;
        };
        let is_duplicate = open.is_outstanding(Descriptor::key(&request.mad));
        let is_full = open.waiting.len() >= WAITING_MAX;
        if is_duplicate || is_full {
            let status = match is_duplicate {
                true => UserMadHeader::INVALID,
                false => UserMadHeader::NO_ROOM,
            };
            let mut mad = *request.mad;
            mad.set_tid(request.tid);
            return self.refuse(descriptor, request.header, &mad, status);
        }
        open.waiting.push_back(request);
        self.start_waiting(now, descriptor);
    }

    /// Sends requests that wait, as long as there is room in flight.
    pub(super) fn start_waiting(&mut self, now: Time, descriptor: u32) {
        let Some(open) = self.descriptors.get_mut(&descriptor) else {
            return;
        };
        while open.in_flight.room() > 0
            && let Some(request) = open.waiting.pop_front()
        {
            let is_smi = request.mad.class().is_subnet_management();
            let message = message(&request.header, is_smi, &request.mad);
            let timing = timing(&request.header);
            // There is room, and no other one with this key.
            let key = Descriptor::key(&request.mad);
            let _none = open.in_flight.start(now, key, timing, request);
            let client = descriptor;
            self.outputs.push_back(Output::Agent { client, message });
        }
    }

    /// Sends requests that are due again, and ends those that have no attempts left.
    pub(super) fn retry_requests(&mut self, now: Time, descriptor: u32) {
        let mut ended = Vec::new();
        let Some(open) = self.descriptors.get_mut(&descriptor) else {
            return;
        };
        loop {
            match open.in_flight.poll(now) {
                Some(Due::Retry { request, .. }) => {
                    let is_smi = request.mad.class().is_subnet_management();
                    let message = message(&request.header, is_smi, &request.mad);
                    let client = descriptor;
                    self.outputs.push_back(Output::Agent { client, message });
                }
                Some(Due::TimedOut { request, .. }) => ended.push(request),
                None => break,
            }
        }
        for request in ended {
            self.timed_out(descriptor, request);
        }
    }

    /// Gives a request without an answer back to its program, with the status `ETIMEDOUT`.
    pub(super) fn timed_out(&mut self, descriptor: u32, request: Outstanding) {
        self.counts.timed_out += 1;
        let header = UserMadHeader {
            status: UserMadHeader::TIMED_OUT,
            ..request.header
        };
        let mut mad = *request.mad;
        mad.set_tid(request.tid);
        self.queue(descriptor, &header, &mad.as_bytes()[..MadHeader::LEN]);
    }

    /// A MAD that RMPP carries, be it one segment: the last segment states the true length.
    fn begin_transfer(
        &mut self,
        now: Time,
        descriptor: u32,
        header: UserMadHeader,
        mut mad: Mad,
        bytes: &[u8],
    ) {
        let original = mad;
        if !is_response(mad.method()) {
            mad.set_tid(tid_of(header.agent, mad.tid()));
        }
        let at = rmpp::data_offset(mad.class()).unwrap_or(Mad::LEN);
        let payload = bytes.get(at..).unwrap_or_default();
        let Some(open) = self.descriptors.get_mut(&descriptor) else {
            return;
        };
        let begun = Outgoing::new(header, original.tid(), &mad, payload.to_vec());
        let begun = begun.filter(|_| open.has_room_for(payload.len()));
        let Some((key, transfer)) = begun else {
            return self.refuse(descriptor, header, &original, UserMadHeader::NO_ROOM);
        };
        if open.outgoing.contains_key(&key) {
            return self.refuse(descriptor, header, &original, UserMadHeader::INVALID);
        }
        open.outgoing_bytes += transfer.bytes();
        open.outgoing.insert(key, transfer);
        self.poll_transfer(now, descriptor, key);
    }

    /// Waits for the answer to a request that went out in segments.
    pub(super) fn await_answer(&mut self, now: Time, descriptor: u32, request: Outstanding) {
        let Some(open) = self.descriptors.get_mut(&descriptor) else {
            return;
        };
        let timing = Timing {
            attempts: 1,
            ..timing(&request.header)
        };
        let key = Descriptor::key(&request.mad);
        if open.in_flight.room() == 0 || open.is_outstanding(key) {
            return self.timed_out(descriptor, request);
        }
        let _none = open.in_flight.start(now, key, timing, request);
    }

    /// Which side handles RMPP in an agent's datagrams of a class.
    pub(super) fn rmpp_by(&self, descriptor: u32, agent: u32, class: MgmtClass) -> RmppBy {
        let open = self.descriptors.get(&descriptor);
        let agent = open.and_then(|open| open.agents.get(&agent));
        agent.map_or(RmppBy::None, |agent| agent.rmpp_by(class))
    }
}
