//! Shared receive queues (IBA 10.2.9).

use crate::error::Refused;
use crate::ids::PdId;
use crate::ring::Ring;
use crate::work::{ReceiveRequest, ReceiveWork};

/// A shared receive queue.
#[derive(Debug)]
pub(crate) struct SharedReceiveQueue {
    pub(crate) pd: PdId,
    sges_max: u32,
    requests: Ring<ReceiveWork>,
    /// The consumer is told when fewer requests than this are left; 0 is never.
    limit: u32,
    /// Queue pairs that take from it.
    pub(crate) users: u32,
}

impl SharedReceiveQueue {
    pub(crate) fn new(pd: PdId, requests_max: u32, sges_max: u32) -> Self {
        Self {
            pd,
            sges_max,
            requests: Ring::new(requests_max),
            limit: 0,
            users: 0,
        }
    }

    pub(crate) fn post(&mut self, request: &ReceiveRequest<'_>) -> Result<(), Refused> {
        if request.sges.len() > self.sges_max as usize {
            return Err(Refused::Invalid(
                "a scatter list has as many pieces as its queue was created for",
            ));
        }
        let slot = self.requests.push();
        slot.ok_or(Refused::Full("shared receive queue"))?
            .fill(request);
        Ok(())
    }

    /// Takes the next request into `into`: `None` if there is none, else whether the limit was reached.
    pub(crate) fn take(&mut self, into: &mut ReceiveWork) -> Option<bool> {
        std::mem::swap(self.requests.get_mut(0)?, into);
        self.requests.pop();
        let reached = self.requests.len() < self.limit as usize;
        if reached {
            self.limit = 0;
        }
        Some(reached)
    }

    /// Puts a request that was taken and not used back in front. The consumer may have filled its place meanwhile,
    /// though it was not told that it is free: the request is lost then.
    pub(crate) fn give_back(&mut self, work: &mut ReceiveWork) {
        if let Some(slot) = self.requests.push_front() {
            std::mem::swap(slot, work);
        }
    }

    pub(crate) fn set_limit(&mut self, limit: u32) {
        self.limit = limit;
    }

    pub(crate) const fn limit(&self) -> u32 {
        self.limit
    }
}
