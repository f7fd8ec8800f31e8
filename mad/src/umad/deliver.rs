//! From the fabric to programs.

use link::Time;
use wire::mad::Mad;
use wire::umad::UserMadHeader;

use super::Server;
use super::agents::{RmppBy, agent_of, is_response};
use crate::local::MadMessage;
use crate::rmpp;

/// The header of a user MAD that came from the fabric: its source as a program reads it.
pub(super) fn header_of(agent: u32, from: &MadMessage) -> UserMadHeader {
    let way = from.way.unwrap_or_default();
    let global = way.global.unwrap_or_default();
    UserMadHeader {
        agent,
        qpn: from.qpn.get(),
        lid: from.lid.get(),
        sl: from.sl.get(),
        path_bits: way.path_bits,
        grh_present: u8::from(way.global.is_some()),
        gid_index: global.gid_index,
        hop_limit: global.hop_limit,
        traffic_class: global.traffic_class,
        gid: global.remote,
        flow_label: global.flow_label,
        pkey_index: way.pkey_index,
        ..UserMadHeader::default()
    }
}

impl Server {
    /// A MAD of the host for the agents of a descriptor.
    pub(super) fn received(&mut self, now: Time, descriptor: u32, message: &MadMessage) {
        let mad = Mad::from_bytes(*message.mad);
        let Some(open) = self.descriptors.get(&descriptor) else {
            return;
        };
        let agent = match is_response(mad.method()) {
            true => agent_of(mad.tid()).filter(|agent| open.agents.contains_key(agent)),
            false => {
                let mut agents = open.agents.iter();
                agents
                    .find(|(_, agent)| agent.is_for(&mad))
                    .map(|(&number, _)| number)
            }
        };
        let Some(agent) = agent else {
            self.counts.unexpected += 1;
            return;
        };
        let rmpp_by = self.rmpp_by(descriptor, agent, mad.class());
        let uses_rmpp = rmpp::header(&mad).is_some();
        match rmpp_by {
            RmppBy::Server if uses_rmpp => {
                self.received_rmpp(now, descriptor, agent, message, &mad);
            }
            RmppBy::None if rmpp::data_offset(mad.class()).is_some() && rmpp::is_control(&mad) => {
                self.counts.stray_control += 1;
            }
            _ if is_response(mad.method()) => {
                let user_rmpp = rmpp_by == RmppBy::Program && uses_rmpp;
                self.received_answer(now, descriptor, agent, message, mad, user_rmpp);
            }
            _ => self.queue(descriptor, &header_of(agent, message), mad.as_bytes()),
        }
    }

    /// An answer: its request is not in flight any more. Segments for a program that handles RMPP itself
    /// come however many answer a request.
    fn received_answer(
        &mut self,
        now: Time,
        descriptor: u32,
        agent: u32,
        message: &MadMessage,
        mut mad: Mad,
        is_segment: bool,
    ) {
        let Some(open) = self.descriptors.get_mut(&descriptor) else {
            return;
        };
        match open.in_flight.finish(mad.tid()) {
            Some(request) => mad.set_tid(request.tid),
            None if is_segment => {}
            None => {
                self.counts.unexpected += 1;
                return;
            }
        }
        self.queue(descriptor, &header_of(agent, message), mad.as_bytes());
        self.start_waiting(now, descriptor);
    }
}
