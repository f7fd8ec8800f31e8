//! Queueing send requests.

use wire::Service;

use super::{MESSAGE_MAX, MODULUS_MASK};
use crate::attributes::QpState;
use crate::error::Refused;
use crate::qp::QueuePair;
use crate::shared::Shared;
use crate::work::{Data, SendOperation, SendRequest, length};

impl QueuePair {
    /// Queues a send request.
    pub(crate) fn post_send(
        &mut self,
        shared: &mut Shared,
        request: &SendRequest<'_>,
    ) -> Result<(), Refused> {
        if let state @ (QpState::Reset | QpState::Init | QpState::Rtr) = self.state() {
            return Err(Refused::State(state));
        }
        let (len, is_inline) = self.check_send(shared, request)?;
        if matches!(self.state(), QpState::Error | QpState::Sqe) {
            let flushed = self.flushed(request.wr_id, request.operation.kind());
            self.complete_send(shared, flushed);
            return Ok(());
        }
        let mtu = match self.config.service {
            Service::Ud => u32::from(shared.port.mtu.bytes()),
            Service::Rc | Service::Uc => u32::try_from(self.attributes.mtu()).unwrap_or(256),
        };
        let requester = &mut self.requester;
        let ssn = requester.last_ssn.wrapping_add(1) & MODULUS_MASK;
        let work = requester.queue.push().ok_or(Refused::Full("send queue"))?;
        requester.last_ssn = ssn;
        work.wr_id = request.wr_id;
        work.operation = request.operation;
        work.signaled = request.signaled || self.config.signal_all;
        work.fence = request.fence;
        work.solicited = request.solicited;
        work.destination = request.destination;
        work.sges.clear();
        work.is_inline = is_inline;
        match request.data {
            Data::Scattered(sges) => work.sges.extend_from_slice(sges),
            Data::Inline(bytes) => {
                let inline = work.inline.get_or_insert_default();
                inline.clear();
                inline.extend_from_slice(bytes);
            }
        }
        work.len = len;
        work.ssn = ssn;
        work.packets = len.div_ceil(mtu).max(1);
        work.answered = 0;
        Ok(())
    }

    /// Checks a request that does not depend on what is registered: its length, and whether it is inline.
    fn check_send(
        &self,
        shared: &Shared,
        request: &SendRequest<'_>,
    ) -> Result<(u32, bool), Refused> {
        use SendOperation as Op;
        let capabilities = &self.config.capabilities;
        let service = self.config.service;
        let fits = match request.operation {
            Op::Send { .. } => true,
            Op::Write { .. } => service != Service::Ud,
            _ => service == Service::Rc,
        };
        if !fits {
            return Err(Refused::Invalid(
                "the service of the queue pair does not have this operation",
            ));
        }
        if (service == Service::Ud) != request.destination.is_some() {
            return Err(Refused::Invalid(
                "datagrams, and they alone, have a destination",
            ));
        }
        if let Some(destination) = request.destination {
            let handle = shared.handle(destination.handle);
            if handle.is_none_or(|handle| handle.pd != self.config.pd) {
                return Err(Refused::NoSuch("address handle of the protection domain"));
            }
        }
        let (len, is_inline) = match request.data {
            Data::Scattered(sges) => {
                if sges.len() > capabilities.send_sges as usize {
                    return Err(Refused::Invalid(
                        "a gather list has as many pieces as its queue was created for",
                    ));
                }
                (length(sges), false)
            }
            Data::Inline(bytes) => {
                if request.operation.is_answered()
                    || bytes.len() > capabilities.inline_bytes as usize
                {
                    return Err(Refused::Invalid("so much data cannot be inline"));
                }
                (bytes.len() as u64, true)
            }
        };
        if len > MESSAGE_MAX {
            return Err(Refused::Invalid("a message has at most 2^31 bytes"));
        }
        if request.operation.is_atomic() && len != 8 {
            return Err(Refused::Invalid("an atomic operation is on eight bytes"));
        }
        if request.operation.is_answered() && self.attributes.max_rd_atomic == 0 {
            return Err(Refused::Invalid(
                "the queue pair has no READs and atomics (max_rd_atomic)",
            ));
        }
        Ok((u32::try_from(len).unwrap_or(u32::MAX), is_inline))
    }
}
