//! State that the queue pairs of an engine share.

use std::collections::VecDeque;

use wire::{Gid, GlobalRoute, Lid, Lmc, Mtu, PortNum, Qpn, Sl, Vl, p_key};

use crate::attributes::Path;
use crate::completion::{Completion, CompletionQueue, Queued};
use crate::error::Refused;
use crate::event::{Event, QpEvent};
use crate::ids::{AhId, CqId, PdId, SrqId};
use crate::memory::Regions;
use crate::shared_receive::SharedReceiveQueue;
use crate::slab::Slab;
use crate::stage::Stages;

/// The attributes of the port that the subnet manager has set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortAttributes {
    /// Its number.
    pub number: PortNum,
    /// Base LID.
    pub lid: Lid,
    /// How many LIDs it has.
    pub lmc: Lmc,
    /// The longest payload that the link carries.
    pub mtu: Mtu,
    /// The virtual lane of each service level; [`Vl::MANAGEMENT`] drops.
    pub sl_to_vl: [Vl; 16],
    /// Partition keys; 0 is no key.
    pub pkeys: Vec<u16>,
    /// GIDs.
    pub gids: Vec<Gid>,
}

/// How many objects an engine has at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Protection domains.
    pub protection_domains: u32,
    /// Memory regions.
    pub regions: u32,
    /// Address handles.
    pub address_handles: u32,
    /// Completion queues.
    pub completion_queues: u32,
    /// Completions of a queue.
    pub completions: u32,
    /// Shared receive queues.
    pub shared_receive_queues: u32,
    /// Queue pairs; at most 61,440.
    pub queue_pairs: u32,
    /// Requests of a queue.
    pub requests: u32,
    /// Pieces of a request's memory.
    pub sges: u32,
    /// Inline bytes of a send request.
    pub inline_bytes: u32,
    /// READs and atomics under way, of either side of a queue pair.
    pub rd_atomic: u8,
    /// Multicast groups that queue pairs are attached to.
    pub groups: usize,
    /// Queue pairs that are attached to one group.
    pub group_members: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            protection_domains: 4096,
            regions: 1 << 16,
            address_handles: 1 << 16,
            completion_queues: 1 << 14,
            completions: 1 << 20,
            shared_receive_queues: 4096,
            queue_pairs: 16384,
            requests: 1 << 15,
            sges: 32,
            inline_bytes: 1024,
            rd_atomic: 16,
            groups: 4096,
            group_members: 256,
        }
    }
}

/// Packets that an engine has dropped, by reason; none is told to the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PacketDrop {
    /// Its headers make no sense, or its length.
    Malformed,
    /// There is no such queue pair.
    NoQueuePair,
    /// It is for a group that no queue pair is attached to.
    NoMember,
    /// The queue pair does not receive in its state.
    State,
    /// The operation is not of the queue pair's service.
    Service,
    /// The partition is not the queue pair's.
    PKey,
    /// The Q_Key is not the queue pair's.
    QKey,
    /// It does not come from the peer that the queue pair is connected to, or not to its LID.
    Peer,
    /// It answers nothing that is under way.
    Ghost,
    /// A packet before it is missing. On a reliable connection it comes again.
    Sequence,
    /// No receive request waits. On a reliable connection it comes again.
    NoReceive,
    /// It is longer than the receive request's memory, or violates a remote key (unreliable services).
    Refused,
}

#[derive(Debug)]
pub(crate) struct AddressHandle {
    pub(crate) pd: PdId,
    pub(crate) path: Path,
}

/// Everything but the queue pairs.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) limits: Limits,
    pub(crate) port: PortAttributes,
    /// Another one each time that the port is set.
    pub(crate) port_version: u32,
    /// By domain, how many objects use it.
    pub(crate) pds: Slab<u32>,
    pub(crate) regions: Regions,
    pub(crate) handles: Slab<AddressHandle>,
    pub(crate) cqs: Slab<CompletionQueue>,
    pub(crate) srqs: Slab<SharedReceiveQueue>,
    pub(crate) events: VecDeque<Event>,
    /// Completion queues that have got completions; each once.
    pub(crate) filled: VecDeque<CqId>,
    pub(crate) stages: Stages,
}

impl Shared {
    pub(crate) fn new(limits: Limits, port: PortAttributes) -> Self {
        Self {
            limits,
            port,
            port_version: 0,
            pds: Slab::new(limits.protection_domains),
            regions: Regions::new(limits.regions),
            handles: Slab::new(limits.address_handles),
            cqs: Slab::new(limits.completion_queues),
            srqs: Slab::new(limits.shared_receive_queues),
            events: VecDeque::new(),
            filled: VecDeque::new(),
            stages: Stages::default(),
        }
    }

    pub(crate) fn use_pd(&mut self, pd: PdId) -> Result<(), Refused> {
        let users = self.pds.get_mut(pd.place());
        *users.ok_or(Refused::NoSuch("protection domain"))? += 1;
        Ok(())
    }

    pub(crate) fn leave_pd(&mut self, pd: PdId) {
        if let Some(users) = self.pds.get_mut(pd.place()) {
            *users -= 1;
        }
    }

    pub(crate) fn handle(&self, handle: AhId) -> Option<&AddressHandle> {
        self.handles.get(handle.place())
    }

    pub(crate) fn srq_mut(&mut self, srq: SrqId) -> Option<&mut SharedReceiveQueue> {
        self.srqs.get_mut(srq.place())
    }

    /// Queues a completion; `false` if the queue has overrun.
    pub(crate) fn complete(&mut self, cq: CqId, completion: Completion, solicited: bool) -> bool {
        let Some(queue) = self.cqs.get_mut(cq.place()) else {
            return false;
        };
        if !std::mem::replace(&mut queue.listed, true) {
            self.filled.push_back(cq);
        }
        match queue.push(completion, solicited) {
            Queued::Quietly => return true,
            Queued::WithEvent => {
                self.events.push_back(Event::Completion(cq));
                return true;
            }
            Queued::Overrun => self.events.push_back(Event::CqError(cq)),
            Queued::Lost => {}
        }
        false
    }

    pub(crate) fn tell(&mut self, qpn: Qpn, event: QpEvent) {
        self.events.push_back(Event::QueuePair { qpn, event });
    }

    /// Checks a path against the port.
    pub(crate) fn check_path(&self, path: &Path) -> Result<(), Refused> {
        if path.dlid == Lid::ZERO || path.dlid == Lid::PERMISSIVE {
            return Err(Refused::Invalid("a path has a destination LID"));
        }
        if u16::from(path.src_path_bits) >= self.port.lmc.lids() {
            return Err(Refused::Invalid("the path bits name no LID of the port"));
        }
        if let Some(global) = path.global
            && usize::from(global.sgid_index) >= self.port.gids.len()
        {
            return Err(Refused::Invalid("the index names no GID of the port"));
        }
        Ok(())
    }

    pub(crate) fn slid(&self, path: &Path) -> Lid {
        Lid::new(self.port.lid.get() | u16::from(path.src_path_bits))
    }

    pub(crate) fn vl(&self, sl: Sl) -> Vl {
        self.port.sl_to_vl[sl.index()]
    }

    pub(crate) fn global(&self, path: &Path) -> Option<GlobalRoute> {
        let global = path.global?;
        let sgid = self.port.gids.get(usize::from(global.sgid_index));
        Some(GlobalRoute {
            tclass: global.tclass,
            flow_label: global.flow_label,
            hop_limit: global.hop_limit,
            sgid: sgid.copied().unwrap_or_default(),
            dgid: global.dgid,
        })
    }

    /// The key at an index of the port's table; 0 if there is none.
    pub(crate) fn pkey(&self, index: u16) -> u16 {
        let keys = &self.port.pkeys;
        keys.get(usize::from(index)).copied().unwrap_or_default()
    }

    /// Whether a packet's key fits that of a queue pair.
    pub(crate) fn admits_pkey(&self, index: u16, pkey: u16) -> bool {
        let own = self.pkey(index);
        own & p_key::PARTITION != 0 && p_key::matches(own, pkey)
    }

    /// The path bits of a LID of the port's; `None` if it is none of them.
    pub(crate) fn path_bits(&self, dlid: Lid) -> Option<u8> {
        if !dlid.belongs_to(self.port.lid, self.port.lmc) {
            return None;
        }
        let [_, low] = (dlid.get() & (self.port.lmc.lids() - 1)).to_be_bytes();
        Some(low)
    }
}
