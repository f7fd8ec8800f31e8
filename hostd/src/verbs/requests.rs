//! Requests of contexts about their objects.

use link::Time;
use transport::{
    Access, AhId, Arming, CqId, PdId, QpConfig, QpState, RegionConfig, SpaceId, SrqId,
    service_of_type,
};
use uverbs::{AddressAttributes, QpInit, RegionInit, Reply, Request};
use wire::{Gid, Qpn};

use super::attributes::{Refusal, capabilities, modify, path, qpn, queried};
use super::work::Pending;
use super::{Context, Engine, Owned, Verbs, limit};
use crate::clients::ClientId;

/// Refuses what a context has not made.
fn owned<T>(found: Option<T>, what: &'static str) -> Result<T, Refusal> {
    found.ok_or_else(|| Refusal::absent(what))
}

/// Refuses what would be one too many.
fn room(count: usize, max: usize, what: &'static str) -> Result<(), Refusal> {
    match count < max {
        true => Ok(()),
        false => Err(Refusal::too_many(what)),
    }
}

/// Refuses a queue that is longer than any may be.
fn length(requests: u32) -> Result<(), Refusal> {
    match requests <= limit::REQUESTS {
        true => Ok(()),
        false => Err(Refusal::invalid("the size of a queue is beyond the limits")),
    }
}

/// Refuses places beyond what a context may have in all its queues.
fn places(used: u64, more: u64, max: u64, what: &'static str) -> Result<(), Refusal> {
    match used.saturating_add(more) <= max {
        true => Ok(()),
        false => Err(Refusal::too_many(what)),
    }
}

impl Verbs {
    fn context(&mut self, client: ClientId) -> Result<&mut Context, Refusal> {
        owned(self.contexts.get_mut(&client), "context")
    }

    fn domain(&mut self, client: ClientId, pd: u32) -> Result<PdId, Refusal> {
        let known = self.context(client)?.domains.contains(&PdId(pd));
        owned(known.then_some(PdId(pd)), "protection domain")
    }

    fn queue(&mut self, client: ClientId, cq: u32) -> Result<CqId, Refusal> {
        let known = self.context(client)?.cqs.contains_key(&CqId(cq));
        owned(known.then_some(CqId(cq)), "completion queue")
    }

    fn shared_queue(&mut self, client: ClientId, srq: u32) -> Result<SrqId, Refusal> {
        let known = self.context(client)?.srqs.contains_key(&SrqId(srq));
        owned(known.then_some(SrqId(srq)), "shared receive queue")
    }

    pub(super) fn queue_pair(&mut self, client: ClientId, number: u32) -> Result<Qpn, Refusal> {
        let number = qpn(number)?;
        let known = self.context(client)?.qps.contains(&number);
        owned(known.then_some(number), "queue pair")
    }

    /// Serves a request.
    pub(super) fn serve(
        &mut self,
        engine: &mut Engine,
        now: Time,
        client: ClientId,
        request: Request,
    ) -> Result<Reply, Refusal> {
        self.context(client)?;
        match request {
            Request::Open { .. }
            | Request::Describe
            | Request::CreateChannel
            | Request::DestroyChannel { .. } => {
                return Err(Refusal::invalid("this is not asked of the core"));
            }
            Request::AllocPd => return self.create_domain(engine, client),
            Request::DeallocPd { pd } => self.destroy_domain(engine, client, pd)?,
            Request::RegMr(region) => return self.register(engine, client, &region),
            Request::ReregMr { key, region } => self.reregister(engine, client, key, &region)?,
            Request::DeregMr { key } => self.deregister(engine, client, key)?,
            Request::CreateAh { pd, attributes } => {
                return self.create_handle(engine, client, pd, &attributes);
            }
            Request::DestroyAh { handle } => self.destroy_handle(engine, client, handle)?,
            Request::CreateCq { entries, .. } => return self.create_cq(engine, client, entries),
            Request::ResizeCq { cq, entries } => {
                return self.resize_cq(engine, client, cq, entries);
            }
            Request::DestroyCq { cq } => self.destroy_cq(engine, client, cq)?,
            Request::CreateSrq {
                pd,
                max_wr,
                max_sge,
                ..
            } => return self.create_srq(engine, client, pd, (max_wr, max_sge)),
            Request::ModifySrq { srq, limit } => {
                let srq = self.shared_queue(client, srq)?;
                engine.set_srq_limit(srq, limit)?;
            }
            Request::QuerySrq { srq } => {
                let srq = self.shared_queue(client, srq)?;
                return Ok(Reply::Handle(engine.srq_limit(srq)?));
            }
            Request::DestroySrq { srq } => self.destroy_srq(engine, client, srq)?,
            Request::CreateQp(init) => return self.create_qp(engine, client, &init),
            Request::ModifyQp {
                qpn,
                mask,
                attributes,
            } => {
                let qpn = self.queue_pair(client, qpn)?;
                let modify = modify(mask, &attributes)?;
                engine.modify_qp(now, qpn, &modify)?;
                if modify.state == Some(QpState::Reset)
                    && let Some(owned) = self.qps.get_mut(&qpn)
                {
                    owned.sends.clear();
                    owned.receives.clear();
                }
            }
            Request::QueryQp { qpn } => {
                let qpn = self.queue_pair(client, qpn)?;
                let attributes = queried(&engine.query_qp(qpn)?);
                return Ok(Reply::QpAttributes(Box::new(attributes)));
            }
            Request::DestroyQp { qpn } => self.destroy_qp(engine, client, qpn)?,
            Request::AttachMcast { qpn, gid } => {
                let qpn = self.queue_pair(client, qpn)?;
                engine.attach(qpn, Gid(gid))?;
                self.context(client)?.groups.insert((qpn, Gid(gid)));
            }
            Request::DetachMcast { qpn, gid } => {
                let qpn = self.queue_pair(client, qpn)?;
                engine.detach(qpn, Gid(gid))?;
                self.context(client)?.groups.remove(&(qpn, Gid(gid)));
            }
        }
        Ok(Reply::Done)
    }

    fn create_domain(&mut self, engine: &mut Engine, client: ClientId) -> Result<Reply, Refusal> {
        let count = self.context(client)?.domains.len();
        room(count, limit::DOMAINS, "protection domains")?;
        let pd = engine.create_pd()?;
        self.context(client)?.domains.insert(pd);
        Ok(Reply::Handle(pd.0))
    }

    fn destroy_domain(
        &mut self,
        engine: &mut Engine,
        client: ClientId,
        pd: u32,
    ) -> Result<(), Refusal> {
        let pd = self.domain(client, pd)?;
        engine.destroy_pd(pd)?;
        self.context(client)?.domains.remove(&pd);
        Ok(())
    }

    fn register(
        &mut self,
        engine: &mut Engine,
        client: ClientId,
        region: &RegionInit,
    ) -> Result<Reply, Refusal> {
        let count = self.context(client)?.regions.len();
        room(count, limit::REGIONS, "memory regions")?;
        let config = self.region(client, region)?;
        let key = engine.register_region(config)?;
        self.context(client)?.regions.insert(key);
        Ok(Reply::Handle(key))
    }

    fn region(&mut self, client: ClientId, region: &RegionInit) -> Result<RegionConfig, Refusal> {
        Ok(RegionConfig {
            pd: self.domain(client, region.pd)?,
            space: SpaceId(client.0),
            address: region.address,
            iova: region.iova,
            length: region.length,
            access: Access::from_bits(region.access)?,
        })
    }

    fn reregister(
        &mut self,
        engine: &mut Engine,
        client: ClientId,
        key: u32,
        region: &RegionInit,
    ) -> Result<(), Refusal> {
        let known = self.context(client)?.regions.contains(&key);
        owned(known.then_some(()), "memory region")?;
        let config = self.region(client, region)?;
        Ok(engine.reregister_region(key, config)?)
    }

    fn deregister(
        &mut self,
        engine: &mut Engine,
        client: ClientId,
        key: u32,
    ) -> Result<(), Refusal> {
        let known = self.context(client)?.regions.remove(&key);
        owned(known.then_some(()), "memory region")?;
        Ok(engine.deregister_region(key)?)
    }

    fn create_handle(
        &mut self,
        engine: &mut Engine,
        client: ClientId,
        pd: u32,
        attributes: &AddressAttributes,
    ) -> Result<Reply, Refusal> {
        let pd = self.domain(client, pd)?;
        let count = self.context(client)?.handles.len();
        room(count, limit::HANDLES, "address handles")?;
        let handle = engine.create_handle(pd, path(attributes)?)?;
        self.context(client)?.handles.insert(handle);
        Ok(Reply::Handle(handle.0))
    }

    fn destroy_handle(
        &mut self,
        engine: &mut Engine,
        client: ClientId,
        handle: u32,
    ) -> Result<(), Refusal> {
        let known = self.context(client)?.handles.remove(&AhId(handle));
        owned(known.then_some(()), "address handle")?;
        Ok(engine.destroy_handle(AhId(handle))?)
    }

    fn create_cq(
        &mut self,
        engine: &mut Engine,
        client: ClientId,
        entries: u32,
    ) -> Result<Reply, Refusal> {
        let entries = depth(entries)?;
        let context = self.context(client)?;
        room(
            context.cqs.len(),
            limit::COMPLETION_QUEUES,
            "completion queues",
        )?;
        let (used, max) = (context.completions, limit::COMPLETIONS_IN_ALL);
        places(used, entries.into(), max, "completions")?;
        let cq = engine.create_cq(entries)?;
        // So that each solicited completion is told, and can be marked.
        engine.arm_cq(cq, Arming::Solicited)?;
        self.cq_owners.insert(cq, client);
        let context = self.context(client)?;
        context.completions += u64::from(entries);
        context.cqs.insert(cq, entries);
        Ok(Reply::Cq { cq: cq.0, entries })
    }

    fn resize_cq(
        &mut self,
        engine: &mut Engine,
        client: ClientId,
        cq: u32,
        entries: u32,
    ) -> Result<Reply, Refusal> {
        let cq = self.queue(client, cq)?;
        let entries = depth(entries)?;
        let context = self.context(client)?;
        let old = context.cqs.get(&cq).copied().unwrap_or_default();
        let used = context.completions - u64::from(old);
        places(
            used,
            entries.into(),
            limit::COMPLETIONS_IN_ALL,
            "completions",
        )?;
        engine.resize_cq(cq, entries)?;
        let context = self.context(client)?;
        context.completions = used + u64::from(entries);
        context.cqs.insert(cq, entries);
        Ok(Reply::Cq { cq: cq.0, entries })
    }

    fn destroy_cq(
        &mut self,
        engine: &mut Engine,
        client: ClientId,
        cq: u32,
    ) -> Result<(), Refusal> {
        let cq = self.queue(client, cq)?;
        engine.destroy_cq(cq)?;
        self.cq_owners.remove(&cq);
        let context = self.context(client)?;
        let depth = context.cqs.remove(&cq).unwrap_or_default();
        context.completions -= u64::from(depth);
        Ok(())
    }

    fn create_srq(
        &mut self,
        engine: &mut Engine,
        client: ClientId,
        pd: u32,
        (max_wr, max_sge): (u32, u32),
    ) -> Result<Reply, Refusal> {
        let pd = self.domain(client, pd)?;
        length(max_wr)?;
        let context = self.context(client)?;
        room(
            context.srqs.len(),
            limit::SHARED_QUEUES,
            "shared receive queues",
        )?;
        let (used, max) = (context.requests, limit::REQUESTS_IN_ALL);
        places(used, max_wr.into(), max, "requests")?;
        let srq = engine.create_srq(pd, max_wr, max_sge)?;
        self.srq_owners.insert(srq, client);
        let context = self.context(client)?;
        context.requests += u64::from(max_wr);
        context.srqs.insert(srq, max_wr);
        Ok(Reply::Srq {
            srq: srq.0,
            max_wr,
            max_sge,
            doorbell: 0,
        })
    }

    fn destroy_srq(
        &mut self,
        engine: &mut Engine,
        client: ClientId,
        srq: u32,
    ) -> Result<(), Refusal> {
        let srq = self.shared_queue(client, srq)?;
        engine.destroy_srq(srq)?;
        self.srq_owners.remove(&srq);
        let context = self.context(client)?;
        let size = context.srqs.remove(&srq).unwrap_or_default();
        context.requests -= u64::from(size);
        Ok(())
    }

    fn create_qp(
        &mut self,
        engine: &mut Engine,
        client: ClientId,
        init: &QpInit,
    ) -> Result<Reply, Refusal> {
        let pd = self.domain(client, init.pd)?;
        let send_cq = self.queue(client, init.send_cq)?;
        let receive_cq = self.queue(client, init.recv_cq)?;
        let srq = match init.srq {
            Some(srq) => Some(self.shared_queue(client, srq)?),
            None => None,
        };
        let mut cap = init.cap;
        if srq.is_some() {
            (cap.max_recv_wr, cap.max_recv_sge) = (0, 0);
        }
        let config = QpConfig {
            service: service_of_type(init.qp_type)?,
            pd,
            send_cq,
            receive_cq,
            srq,
            capabilities: capabilities(&cap),
            signal_all: init.sq_sig_all,
        };
        length(cap.max_send_wr.max(cap.max_recv_wr))?;
        let context = self.context(client)?;
        room(context.qps.len(), limit::QUEUE_PAIRS, "queue pairs")?;
        let (used, max) = (context.requests, limit::REQUESTS_IN_ALL);
        places(used, size_of(&config), max, "requests")?;
        let qpn = engine.create_qp(config)?;
        let owned = Owned {
            owner: client,
            config,
            sends: Pending::default(),
            receives: Pending::default(),
        };
        self.qps.insert(qpn, owned);
        let context = self.context(client)?;
        context.requests += size_of(&config);
        context.qps.insert(qpn);
        Ok(Reply::Qp {
            qpn: qpn.get(),
            cap,
            send_doorbell: 0,
            receive_doorbell: 0,
        })
    }

    fn destroy_qp(
        &mut self,
        engine: &mut Engine,
        client: ClientId,
        number: u32,
    ) -> Result<(), Refusal> {
        let qpn = self.queue_pair(client, number)?;
        engine.destroy_qp(qpn)?;
        let size = self
            .qps
            .remove(&qpn)
            .map_or(0, |owned| size_of(&owned.config));
        let context = self.context(client)?;
        context.requests -= size;
        context.qps.remove(&qpn);
        Ok(())
    }
}

/// The depth of a completion queue: a power of two, as its ring is.
fn depth(entries: u32) -> Result<u32, Refusal> {
    match (1..=limit::COMPLETIONS).contains(&entries) {
        true => Ok(entries.next_power_of_two()),
        false => Err(Refusal::invalid(
            "the depth of a completion queue is beyond the limit",
        )),
    }
}

/// Places for requests of a queue pair.
fn size_of(config: &QpConfig) -> u64 {
    let sizes = &config.capabilities;
    u64::from(sizes.send_requests) + u64::from(sizes.receive_requests)
}
