//! Objects of an engine: making, changing and destroying them, and giving them work. This is what a verbs
//! server calls. The owner of each object is its business.

use link::Time;
use wire::{Gid, Qpn, Service};

use crate::attributes::{Path, QpAttributes, QpConfig, QpModify};
use crate::completion::{Arming, Completion, CompletionQueue};
use crate::engine::Engine;
use crate::error::Refused;
use crate::ids::{AhId, CqId, PdId, SrqId, place_of_qpn, qpn};
use crate::memory::RegionConfig;
use crate::qp::QueuePair;
use crate::shared::AddressHandle;
use crate::shared_receive::SharedReceiveQueue;
use crate::work::{ReceiveRequest, SendRequest};

const NO_QP: Refused = Refused::NoSuch("queue pair");
const NO_CQ: Refused = Refused::NoSuch("completion queue");
const NO_SRQ: Refused = Refused::NoSuch("shared receive queue");

impl Engine {
    /// Makes a protection domain.
    ///
    /// # Errors
    /// [`Refused::TooMany`].
    pub fn create_pd(&mut self) -> Result<PdId, Refused> {
        let place = self.shared.pds.insert(0);
        Ok(PdId::new(
            place.ok_or(Refused::TooMany("protection domains"))?,
        ))
    }

    /// Destroys a protection domain.
    ///
    /// # Errors
    /// [`Refused::NoSuch`]; [`Refused::InUse`] while it has regions, handles or queues.
    pub fn destroy_pd(&mut self, pd: PdId) -> Result<(), Refused> {
        match self.shared.pds.get(pd.place()) {
            None => Err(Refused::NoSuch("protection domain")),
            Some(0) => {
                self.shared.pds.remove(pd.place());
                Ok(())
            }
            Some(_) => Err(Refused::InUse("protection domain")),
        }
    }

    /// Registers a memory region. The key that is returned is its local and its remote key; its low byte is
    /// another one each time that the key's place is used again.
    ///
    /// # Errors
    /// [`Refused`]: no such domain, no length, an end beyond the address space, remote write or atomic access
    /// without local write access, too many regions.
    pub fn register_region(&mut self, config: RegionConfig) -> Result<u32, Refused> {
        if self.shared.pds.get(config.pd.place()).is_none() {
            return Err(Refused::NoSuch("protection domain"));
        }
        let key = self.shared.regions.register(config)?;
        self.shared.use_pd(config.pd)?;
        Ok(key)
    }

    /// Registers a region anew: another domain, memory or rights under the key that it has. Work that uses the key
    /// finds what it is from now on.
    ///
    /// # Errors
    /// As of [`Self::register_region`], and [`Refused::NoSuch`] if there is no such region.
    pub fn reregister_region(&mut self, key: u32, config: RegionConfig) -> Result<(), Refused> {
        self.shared.use_pd(config.pd)?;
        let replaced = self.shared.regions.replace(key, config);
        let left = replaced.as_ref().map_or(config.pd, |region| region.pd);
        self.shared.leave_pd(left);
        replaced.map(|_| ())
    }

    /// Deregisters a region. Work that still uses its key ends in an error.
    ///
    /// # Errors
    /// [`Refused::NoSuch`].
    pub fn deregister_region(&mut self, key: u32) -> Result<(), Refused> {
        let region = self.shared.regions.deregister(key)?;
        self.shared.leave_pd(region.pd);
        Ok(())
    }

    /// Makes an address handle.
    ///
    /// # Errors
    /// [`Refused`]: no such domain, a path that the port does not have, too many handles.
    pub fn create_handle(&mut self, pd: PdId, path: Path) -> Result<AhId, Refused> {
        self.shared.check_path(&path)?;
        self.shared.use_pd(pd)?;
        match self.shared.handles.insert(AddressHandle { pd, path }) {
            Some(place) => Ok(AhId::new(place)),
            None => {
                self.shared.leave_pd(pd);
                Err(Refused::TooMany("address handles"))
            }
        }
    }

    /// Destroys an address handle. A datagram that still waits with it fails.
    ///
    /// # Errors
    /// [`Refused::NoSuch`].
    pub fn destroy_handle(&mut self, handle: AhId) -> Result<(), Refused> {
        let removed = self.shared.handles.remove(handle.place());
        let removed = removed.ok_or(Refused::NoSuch("address handle"))?;
        self.shared.leave_pd(removed.pd);
        Ok(())
    }

    /// Makes a completion queue of `depth` completions.
    ///
    /// # Errors
    /// [`Refused::Invalid`] for a depth of 0 or above the limit; [`Refused::TooMany`].
    pub fn create_cq(&mut self, depth: u32) -> Result<CqId, Refused> {
        self.check_depth(depth)?;
        let place = self.shared.cqs.insert(CompletionQueue::new(depth));
        Ok(CqId::new(
            place.ok_or(Refused::TooMany("completion queues"))?,
        ))
    }

    fn check_depth(&self, depth: u32) -> Result<(), Refused> {
        if depth == 0 || depth > self.shared.limits.completions {
            return Err(Refused::Invalid(
                "the depth of a completion queue is beyond the limit",
            ));
        }
        Ok(())
    }

    /// Changes the depth of a completion queue.
    ///
    /// # Errors
    /// [`Refused::NoSuch`]; [`Refused::Invalid`] for a depth beyond the limit, or below what waits.
    pub fn resize_cq(&mut self, cq: CqId, depth: u32) -> Result<(), Refused> {
        self.check_depth(depth)?;
        let queue = self.shared.cqs.get_mut(cq.place()).ok_or(NO_CQ)?;
        match queue.resize(depth) {
            true => Ok(()),
            false => Err(Refused::Invalid("more completions wait than that")),
        }
    }

    /// Destroys a completion queue.
    ///
    /// # Errors
    /// [`Refused::NoSuch`]; [`Refused::InUse`] while a queue pair completes there.
    pub fn destroy_cq(&mut self, cq: CqId) -> Result<(), Refused> {
        match self.shared.cqs.get(cq.place()) {
            None => Err(NO_CQ),
            Some(queue) if queue.users > 0 => Err(Refused::InUse("completion queue")),
            Some(_) => {
                self.shared.cqs.remove(cq.place());
                Ok(())
            }
        }
    }

    /// Takes the oldest completion; `None` if none waits, or there is no such queue.
    pub fn poll_cq(&mut self, cq: CqId) -> Option<Completion> {
        self.shared.cqs.get_mut(cq.place())?.pop()
    }

    /// A completion queue that has got completions since it was last returned here; `None` if there is none.
    pub fn poll_filled(&mut self) -> Option<CqId> {
        loop {
            let cq = self.shared.filled.pop_front()?;
            if let Some(queue) = self.shared.cqs.get_mut(cq.place()) {
                queue.listed = false;
                return Some(cq);
            }
        }
    }

    /// Has [`crate::Event::Completion`] told for the next completion that comes.
    ///
    /// # Errors
    /// [`Refused::NoSuch`].
    pub fn arm_cq(&mut self, cq: CqId, arming: Arming) -> Result<(), Refused> {
        let queue = self.shared.cqs.get_mut(cq.place()).ok_or(NO_CQ)?;
        queue.arm(arming);
        Ok(())
    }

    /// Makes a shared receive queue.
    ///
    /// # Errors
    /// [`Refused`]: no such domain, sizes beyond the limits, too many queues.
    pub fn create_srq(&mut self, pd: PdId, requests: u32, sges: u32) -> Result<SrqId, Refused> {
        let limits = &self.shared.limits;
        if requests == 0 || requests > limits.requests || sges > limits.sges {
            return Err(Refused::Invalid(
                "the size of the queue is beyond the limits",
            ));
        }
        self.shared.use_pd(pd)?;
        let queue = SharedReceiveQueue::new(pd, requests, sges);
        match self.shared.srqs.insert(queue) {
            Some(place) => Ok(SrqId::new(place)),
            None => {
                self.shared.leave_pd(pd);
                Err(Refused::TooMany("shared receive queues"))
            }
        }
    }

    /// Has [`crate::Event::SrqLimitReached`] told, once, when fewer requests than `limit` are left. 0 disarms.
    ///
    /// # Errors
    /// [`Refused::NoSuch`].
    pub fn set_srq_limit(&mut self, srq: SrqId, limit: u32) -> Result<(), Refused> {
        let queue = self.shared.srqs.get_mut(srq.place()).ok_or(NO_SRQ)?;
        queue.set_limit(limit);
        Ok(())
    }

    /// The limit that is armed; 0 if none is.
    ///
    /// # Errors
    /// [`Refused::NoSuch`].
    pub fn srq_limit(&self, srq: SrqId) -> Result<u32, Refused> {
        let queue = self.shared.srqs.get(srq.place()).ok_or(NO_SRQ)?;
        Ok(queue.limit())
    }

    /// Destroys a shared receive queue.
    ///
    /// # Errors
    /// [`Refused::NoSuch`]; [`Refused::InUse`] while a queue pair takes from it.
    pub fn destroy_srq(&mut self, srq: SrqId) -> Result<(), Refused> {
        let queue = self.shared.srqs.get(srq.place()).ok_or(NO_SRQ)?;
        if queue.users > 0 {
            return Err(Refused::InUse("shared receive queue"));
        }
        let pd = queue.pd;
        self.shared.srqs.remove(srq.place());
        self.shared.leave_pd(pd);
        Ok(())
    }

    /// Queues a receive request of a shared receive queue.
    ///
    /// # Errors
    /// [`Refused`]: no such queue, too many pieces, the queue is full.
    pub fn post_srq_receive(
        &mut self,
        srq: SrqId,
        request: &ReceiveRequest<'_>,
    ) -> Result<(), Refused> {
        let queue = self.shared.srqs.get_mut(srq.place()).ok_or(NO_SRQ)?;
        queue.post(request)
    }

    /// Makes a queue pair, in state RESET.
    ///
    /// # Errors
    /// [`Refused`]: no such domain or queue, sizes beyond the limits, a shared receive queue of another
    /// domain, too many queue pairs.
    pub fn create_qp(&mut self, config: QpConfig) -> Result<Qpn, Refused> {
        let limits = &self.shared.limits;
        let wanted = &config.capabilities;
        if wanted.send_requests > limits.requests
            || wanted.receive_requests > limits.requests
            || wanted.send_sges > limits.sges
            || wanted.receive_sges > limits.sges
            || wanted.inline_bytes > limits.inline_bytes
        {
            return Err(Refused::Invalid("the size of a queue is beyond the limits"));
        }
        for cq in [config.send_cq, config.receive_cq] {
            if self.shared.cqs.get(cq.place()).is_none() {
                return Err(NO_CQ);
            }
        }
        if let Some(srq) = config.srq {
            let queue = self.shared.srqs.get(srq.place()).ok_or(NO_SRQ)?;
            if queue.pd != config.pd {
                return Err(Refused::Invalid(
                    "the shared receive queue is of another protection domain",
                ));
            }
        }
        self.shared.use_pd(config.pd)?;
        let Some(place) = self.qps.insert(QueuePair::new(Qpn::default(), config)) else {
            self.shared.leave_pd(config.pd);
            return Err(Refused::TooMany("queue pairs"));
        };
        let number = qpn(place);
        if let Some(qp) = self.qps.get_mut(place) {
            qp.qpn = number;
        }
        self.count_users(&config, true);
        Ok(number)
    }

    fn count_users(&mut self, config: &QpConfig, more: bool) {
        let count = |users: &mut u32| match more {
            true => *users += 1,
            false => *users -= 1,
        };
        for cq in [config.send_cq, config.receive_cq] {
            if let Some(queue) = self.shared.cqs.get_mut(cq.place()) {
                count(&mut queue.users);
            }
        }
        if let Some(queue) = config.srq.and_then(|srq| self.shared.srq_mut(srq)) {
            count(&mut queue.users);
        }
    }

    /// Destroys a queue pair. Its requests end without completions, and those that wait are forgotten; one of a
    /// shared receive queue whose message had begun goes back there.
    ///
    /// # Errors
    /// [`Refused::NoSuch`]; [`Refused::InUse`] while it is attached to a multicast group.
    pub fn destroy_qp(&mut self, qpn: Qpn) -> Result<(), Refused> {
        let place = place_of_qpn(qpn).ok_or(NO_QP)?;
        if self.qps.get(place).ok_or(NO_QP)?.groups > 0 {
            return Err(Refused::InUse("queue pair"));
        }
        if let Some(mut qp) = self.qps.remove(place) {
            self.forget(place.index, &qp);
            qp.give_back(&mut self.shared);
            self.count_users(&qp.config, false);
            for cq in [qp.config.send_cq, qp.config.receive_cq] {
                if let Some(queue) = self.shared.cqs.get_mut(cq.place()) {
                    queue.forget(qpn);
                }
            }
            self.shared.leave_pd(qp.config.pd);
        }
        Ok(())
    }

    /// Changes state and attributes of a queue pair by the tables of IBA 11.2.5.2.
    ///
    /// # Errors
    /// [`Refused`]: what is missing, not permitted, not supported or out of range; nothing has changed then.
    pub fn modify_qp(&mut self, now: Time, qpn: Qpn, modify: &QpModify) -> Result<(), Refused> {
        let place = place_of_qpn(qpn).ok_or(NO_QP)?;
        let qp = self.qps.get_mut(place).ok_or(NO_QP)?;
        qp.modify(&mut self.shared, modify)?;
        self.reschedule(now, place.index);
        Ok(())
    }

    /// The attributes of a queue pair.
    ///
    /// # Errors
    /// [`Refused::NoSuch`].
    pub fn query_qp(&self, qpn: Qpn) -> Result<QpAttributes, Refused> {
        let place = place_of_qpn(qpn).ok_or(NO_QP)?;
        Ok(self.qps.get(place).ok_or(NO_QP)?.query())
    }

    /// Queues a send request.
    ///
    /// # Errors
    /// [`Refused`]: the state, the operation, a size, a full queue. Keys and bounds are looked at when the
    /// data is sent.
    pub fn post_send(
        &mut self,
        now: Time,
        qpn: Qpn,
        request: &SendRequest<'_>,
    ) -> Result<(), Refused> {
        let place = place_of_qpn(qpn).ok_or(NO_QP)?;
        let qp = self.qps.get_mut(place).ok_or(NO_QP)?;
        qp.post_send(&mut self.shared, request)?;
        self.reschedule(now, place.index);
        Ok(())
    }

    /// Queues a receive request.
    ///
    /// # Errors
    /// [`Refused`]: the state, a size, a full queue, a queue pair with a shared receive queue.
    pub fn post_receive(&mut self, qpn: Qpn, request: &ReceiveRequest<'_>) -> Result<(), Refused> {
        let place = place_of_qpn(qpn).ok_or(NO_QP)?;
        let qp = self.qps.get_mut(place).ok_or(NO_QP)?;
        qp.post_receive(&mut self.shared, request)
    }

    /// Attaches a queue pair to a multicast group. The port must be a member of it.
    ///
    /// # Errors
    /// [`Refused`]: no such queue pair, not one of datagrams, no multicast GID, too many groups or members.
    pub fn attach(&mut self, qpn: Qpn, mgid: Gid) -> Result<(), Refused> {
        let place = place_of_qpn(qpn).ok_or(NO_QP)?;
        let qp = self.qps.get_mut(place).ok_or(NO_QP)?;
        if qp.config.service != Service::Ud {
            return Err(Refused::Invalid(
                "only queue pairs of datagrams have multicast",
            ));
        }
        if !mgid.is_multicast() {
            return Err(Refused::Invalid("the GID is not a multicast GID"));
        }
        let limits = &self.shared.limits;
        if !self.groups.contains_key(&mgid) && self.groups.len() >= limits.groups {
            return Err(Refused::TooMany("multicast groups"));
        }
        let members = self.groups.entry(mgid).or_default();
        if members.contains(&qpn) {
            return Ok(());
        }
        if members.len() >= limits.group_members {
            return Err(Refused::TooMany("queue pairs of a multicast group"));
        }
        members.push(qpn);
        qp.groups += 1;
        Ok(())
    }

    /// Detaches a queue pair from a multicast group.
    ///
    /// # Errors
    /// [`Refused::NoSuch`]: no such queue pair, or not attached.
    pub fn detach(&mut self, qpn: Qpn, mgid: Gid) -> Result<(), Refused> {
        let members = self.groups.get_mut(&mgid);
        let members = members.ok_or(Refused::NoSuch("multicast group"))?;
        let at = members.iter().position(|&member| member == qpn);
        members.remove(at.ok_or(Refused::NoSuch("member of the multicast group"))?);
        if members.is_empty() {
            self.groups.remove(&mgid);
        }
        if let Some(qp) = self.qp_mut(qpn) {
            qp.groups -= 1;
        }
        Ok(())
    }
}
