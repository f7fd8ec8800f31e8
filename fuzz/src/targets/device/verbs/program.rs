//! A program: its end of what it shares with the host.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};

use hostd::ClientId;
use netio::shared_memory::SharedMemory;
use uverbs::entry::{
    COMPLETION_WORDS, Completion, Data, Piece, Receive, Send, opcode, receive_stride, send_flag,
    send_stride,
};
use uverbs::ring::{Arming, Consumer, Layout, Producer};
use uverbs::{
    AddressAttributes, Capabilities, QpAttributes, QpInit, RegionInit, Reply, Request, attribute,
    doorbell,
};

use super::super::OWN;
use super::rings::Rings;
use super::{Answer, BASE, IDLE, Lab};
use crate::fields::Fields;

/// Bytes of a program's memory.
pub(super) const BYTES: usize = 8192;
/// What stands in it.
pub(super) const FIRST_BYTE: u8 = 0x5a;
/// All rights: local write, remote write, read and atomic.
const ALL_RIGHTS: u32 = 0xf;
/// The right to write to one's own memory.
const LOCAL_WRITE: u32 = 1;
const QKEY: u32 = 7;
/// Numbers in requests below this are places in the lists of what the program has.
const NAMES: u32 = 8;
/// Words at whose start the indices of a ring are: those of most effect.
const INDICES: [usize; 4] = [0, 8, 16, 32];

/// A ring that the program fills.
struct WorkRing {
    memory: SharedMemory,
    producer: Producer,
    doorbell: u32,
    is_send: bool,
}

/// A ring that the host fills.
struct Completions {
    memory: SharedMemory,
    consumer: Consumer,
}

/// A program and its context.
pub(super) struct Program {
    pub(super) client: ClientId,
    /// The host's end.
    pub(super) rings: Rings,
    /// It has put something into shared memory that a library would not.
    pub(super) has_lied: bool,
    page: SharedMemory,
    _events: OwnedFd,
    work: Vec<WorkRing>,
    completions: Vec<Completions>,
    /// Ends of pipes stay open.
    channels: Vec<OwnedFd>,
    domains: Vec<u32>,
    keys: Vec<u32>,
    handles: Vec<u32>,
    cqs: Vec<u32>,
    srqs: Vec<u32>,
    qps: Vec<u32>,
    posted: u64,
    ended: BTreeSet<u64>,
}

fn word(memory: &SharedMemory, at: usize) -> &AtomicU64 {
    let words = memory.words();
    &words[at % words.len()]
}

impl Program {
    pub(super) fn new(client: ClientId) -> Self {
        let (rings, opening) = Rings::new().expect("memory and a pipe");
        let page = SharedMemory::open(&opening.page, doorbell::WORDS);
        Self {
            client,
            rings,
            has_lied: false,
            page: page.expect("the doorbell page"),
            _events: opening.events,
            work: Vec::new(),
            completions: Vec::new(),
            channels: Vec::new(),
            domains: Vec::new(),
            keys: Vec::new(),
            handles: Vec::new(),
            cqs: Vec::new(),
            srqs: Vec::new(),
            qps: Vec::new(),
            posted: 0,
            ended: BTreeSet::new(),
        }
    }

    /// Its queue pairs.
    pub(super) fn pairs(&self) -> Vec<u32> {
        self.qps.clone()
    }

    /// What a peer writes to and sends to: a key and a queue pair.
    pub(super) fn target(&self) -> (u32, u32) {
        let first = |numbers: &[u32]| numbers.first().copied().unwrap_or_default();
        (first(&self.keys), first(&self.qps))
    }

    /// A request with the numbers of what the program has in the place of small ones.
    pub(super) fn named(&self, mut request: Request) -> Request {
        let name = |number: &mut u32, of: &[u32]| {
            if *number < NAMES
                && let Some(&known) = usize::try_from(*number)
                    .ok()
                    .and_then(|at| of.get(at % of.len().max(1)))
            {
                *number = known;
            }
        };
        match &mut request {
            Request::DeallocPd { pd }
            | Request::CreateAh { pd, .. }
            | Request::CreateSrq { pd, .. }
            | Request::RegMr(RegionInit { pd, .. }) => name(pd, &self.domains),
            Request::ReregMr { key, region } => {
                name(key, &self.keys);
                name(&mut region.pd, &self.domains);
            }
            Request::DeregMr { key } => name(key, &self.keys),
            Request::DestroyAh { handle } => name(handle, &self.handles),
            Request::ResizeCq { cq, .. } | Request::DestroyCq { cq } => name(cq, &self.cqs),
            Request::ModifySrq { srq, .. }
            | Request::QuerySrq { srq }
            | Request::DestroySrq { srq } => name(srq, &self.srqs),
            Request::CreateQp(init) => {
                name(&mut init.pd, &self.domains);
                name(&mut init.send_cq, &self.cqs);
                name(&mut init.recv_cq, &self.cqs);
                if let Some(srq) = &mut init.srq {
                    name(srq, &self.srqs);
                }
            }
            Request::ModifyQp { qpn, .. }
            | Request::QueryQp { qpn }
            | Request::DestroyQp { qpn }
            | Request::AttachMcast { qpn, .. }
            | Request::DetachMcast { qpn, .. } => name(qpn, &self.qps),
            _ => {}
        }
        request
    }

    /// Keeps what an answer gives, as a library does.
    pub(super) fn keep(&mut self, request: &Request, answer: Answer) {
        let Answer { reply, descriptors } = answer;
        match (request, reply) {
            (Request::AllocPd, Reply::Handle(number)) => self.domains.push(number),
            (Request::RegMr(_), Reply::Handle(number)) => self.keys.push(number),
            (Request::CreateAh { .. }, Reply::Handle(number)) => self.handles.push(number),
            (Request::CreateChannel, Reply::Handle(_)) => self.channels.extend(descriptors),
            (_, Reply::Cq { cq, entries }) => {
                if matches!(request, Request::CreateCq { .. }) {
                    self.cqs.push(cq);
                }
                let words = u32::try_from(COMPLETION_WORDS).expect("few words");
                let layout = Layout::new(entries.max(1), words).expect("the host's ring");
                let memory = SharedMemory::open(&descriptors[0], layout.words());
                self.completions.push(Completions {
                    memory: memory.expect("the host's ring"),
                    consumer: Consumer::new(layout),
                });
            }
            (
                Request::CreateSrq {
                    max_wr, max_sge, ..
                },
                Reply::Srq { srq, doorbell, .. },
            ) => {
                self.srqs.push(srq);
                let shape = (*max_wr, receive_stride(*max_sge));
                self.add_work(&descriptors[0], shape, doorbell, false);
            }
            (
                Request::CreateQp(init),
                Reply::Qp {
                    qpn,
                    send_doorbell,
                    receive_doorbell,
                    ..
                },
            ) => {
                self.qps.push(qpn);
                let cap = &init.cap;
                let send = send_stride(cap.max_send_sge, cap.max_inline_data);
                self.add_work(
                    &descriptors[0],
                    (cap.max_send_wr, send),
                    send_doorbell,
                    true,
                );
                if let Some(file) = descriptors.get(1) {
                    let shape = (cap.max_recv_wr, receive_stride(cap.max_recv_sge));
                    self.add_work(file, shape, receive_doorbell, false);
                }
            }
            _ => {}
        }
    }

    fn add_work(&mut self, file: &OwnedFd, shape: (u32, u32), doorbell: u32, is_send: bool) {
        let layout = Layout::new(shape.0.max(1), shape.1).expect("the host's ring");
        let memory = SharedMemory::open(file, layout.words()).expect("the host's ring");
        self.work.push(WorkRing {
            memory,
            producer: Producer::new(layout),
            doorbell,
            is_send,
        });
    }

    fn piece(&self, fields: &mut Fields<'_>) -> Piece {
        let key = usize::from(fields.byte());
        Piece {
            address: BASE.wrapping_add(u64::from(fields.two() % 9000)),
            length: u32::from(fields.two() % 2000),
            lkey: self
                .keys
                .get(key % (self.keys.len() + 1))
                .copied()
                .unwrap_or(7),
        }
    }

    /// Posts a request as a library does.
    pub(super) fn post(&mut self, fields: &mut Fields<'_>, (rkey, remote_qpn): (u32, u32)) {
        let Some(at) = usize::from(fields.byte()).checked_rem(self.work.len()) else {
            return;
        };
        let (pieces, wr_id) = (vec![self.piece(fields), self.piece(fields)], self.posted);
        let handle = self.handles.first().copied().unwrap_or_default();
        let ring = &mut self.work[at];
        let mut words = Vec::new();
        if ring.is_send {
            let request = Send {
                wr_id,
                opcode: fields.one_of(&[
                    opcode::SEND,
                    opcode::RDMA_WRITE,
                    opcode::RDMA_READ,
                    opcode::ATOMIC_FETCH_AND_ADD,
                    opcode::RDMA_WRITE_WITH_IMM,
                    opcode::SEND_WITH_INV,
                    77,
                ]),
                flags: send_flag::SIGNALED | fields.byte() & 5,
                immediate: rkey,
                remote_address: BASE.wrapping_add(u64::from(fields.two() % 9000) & !7),
                rkey,
                compare_add: 1,
                swap: 2,
                handle,
                remote_qpn,
                remote_qkey: QKEY,
                data: match fields.byte() % 4 {
                    1 => Data::Inline(vec![1; usize::from(fields.byte() % 33)]),
                    _ => Data::Pieces(pieces),
                },
            };
            request.emit(&mut words);
        } else {
            Receive { wr_id, pieces }.emit(&mut words);
        }
        // What has no room a library refuses.
        let fits = words.len() <= ring.producer.layout().stride();
        if fits && ring.producer.push(ring.memory.words(), &words) == Ok(true) {
            self.posted += 1;
            let _ = doorbell::ring(self.page.words(), ring.doorbell);
        }
    }

    /// Puts any words into a ring as an entry.
    pub(super) fn post_raw(&mut self, fields: &mut Fields<'_>) {
        let Some(at) = usize::from(fields.byte()).checked_rem(self.work.len()) else {
            return;
        };
        self.has_lied = true;
        let ring = &mut self.work[at];
        let stride = ring.producer.layout().stride();
        let words: Vec<u64> = (0..stride)
            .map(|_| u64::from_le_bytes(fields.array()))
            .collect();
        let _ = ring.producer.push(ring.memory.words(), &words);
        let _ = doorbell::ring(self.page.words(), ring.doorbell);
    }

    /// Writes any word anywhere into a ring or the doorbell page.
    pub(super) fn scribble(&mut self, fields: &mut Fields<'_>) {
        let which = usize::from(fields.byte());
        let at = match fields.byte() {
            near @ 0..8 => INDICES[usize::from(near) % INDICES.len()],
            _ => usize::from(fields.two()),
        };
        let change = fields.byte();
        let value = u64::from_be_bytes(fields.array());
        let rings = self.work.iter().map(|ring| (&ring.memory, ring.doorbell));
        let queues = self.completions.iter().map(|ring| (&ring.memory, 0));
        let mut all: Vec<(&SharedMemory, u32)> = rings.chain(queues).collect();
        all.push((&self.page, 0));
        let (memory, doorbell) = all[which % all.len()];
        let word = word(memory, at);
        match change % 4 {
            0 => drop(word.fetch_add(value % 5, Ordering::Relaxed)),
            1 => drop(word.fetch_sub(value % 5, Ordering::Relaxed)),
            _ => word.store(value, Ordering::Relaxed),
        }
        let _ = doorbell::ring(self.page.words(), doorbell);
        self.has_lied = true;
    }

    /// Rings any doorbell.
    pub(super) fn doorbell(&mut self, fields: &mut Fields<'_>) {
        let _ = doorbell::ring(self.page.words(), fields.two().into());
        let _ = self.rings.sleep();
    }

    /// Takes completions, and arms the queue.
    pub(super) fn poll(&mut self, fields: &mut Fields<'_>) {
        let Some(at) = usize::from(fields.byte()).checked_rem(self.completions.len()) else {
            return;
        };
        let queue = &mut self.completions[at];
        let arming = fields.one_of(&[Arming::Solicited, Arming::Next]);
        queue.consumer.arm(queue.memory.words(), arming);
        let mut words = [0; COMPLETION_WORDS];
        for _ in 0..fields.byte() {
            if queue.consumer.pop(queue.memory.words(), &mut words) != Ok(true) {
                break;
            }
            let completion = Completion::parse(&words);
            let is_new = self.ended.insert(completion.wr_id);
            assert!(is_new || self.has_lied, "a request ends once");
        }
    }
}

/// A program makes a domain, a completion queue, a region, an address handle and queue pairs.
pub(super) fn set_up(lab: &mut Lab, place: usize, (qp_type, shared): (u32, bool)) {
    let pd = lab.number(place, Request::AllocPd);
    let cq = Request::CreateCq {
        entries: 16,
        channel: None,
        cookie: 3,
    };
    let cq = lab.number(place, cq);
    let rights = if place == IDLE {
        LOCAL_WRITE
    } else {
        ALL_RIGHTS
    };
    lab.number(place, Request::RegMr(region(pd, rights)));
    let attributes = address();
    lab.number(place, Request::CreateAh { pd, attributes });
    let srq = shared.then(|| {
        let request = Request::CreateSrq {
            pd,
            max_wr: 4,
            max_sge: 2,
            cookie: 4,
        };
        lab.number(place, request)
    });
    lab.number(
        place,
        Request::CreateQp(Box::new(pair((pd, cq), qp_type, srq))),
    );
}

pub(super) fn region(pd: u32, access: u32) -> RegionInit {
    RegionInit {
        pd,
        address: BASE,
        length: BYTES as u64,
        iova: BASE,
        access,
    }
}

pub(super) fn pair((pd, cq): (u32, u32), qp_type: u32, srq: Option<u32>) -> QpInit {
    QpInit {
        pd,
        qp_type,
        send_cq: cq,
        recv_cq: cq,
        srq,
        cap: Capabilities {
            max_send_wr: 8,
            max_recv_wr: 8,
            max_send_sge: 2,
            max_recv_sge: 2,
            max_inline_data: 32,
        },
        sq_sig_all: true,
        cookie: 5,
    }
}

fn address() -> AddressAttributes {
    AddressAttributes {
        dlid: OWN.get(),
        port_num: 1,
        ..AddressAttributes::default()
    }
}

/// The requests that connect a queue pair with another one of the same host.
pub(super) fn connecting(qpn: u32, peer: u32) -> [Request; 7] {
    use attribute as a;
    let attributes = QpAttributes {
        qp_access_flags: ALL_RIGHTS,
        port_num: 1,
        path_mtu: 1,
        qkey: QKEY,
        dest_qp_num: peer,
        ah_attr: address(),
        max_rd_atomic: 2,
        max_dest_rd_atomic: 2,
        min_rnr_timer: 1,
        timeout: 1,
        retry_cnt: 3,
        rnr_retry: 3,
        ..QpAttributes::default()
    };
    let init = a::STATE | a::PKEY_INDEX | a::PORT;
    let receive = a::STATE | a::AV | a::PATH_MTU | a::DEST_QPN | a::RQ_PSN;
    let send = a::STATE | a::SQ_PSN;
    // Those that are not of the queue pair's service are refused.
    let masks = [
        (init | a::ACCESS_FLAGS, 1),
        (init | a::QKEY, 1),
        (receive | a::MAX_DEST_RD_ATOMIC | a::MIN_RNR_TIMER, 2),
        (receive, 2),
        (a::STATE, 2),
        (
            send | a::TIMEOUT | a::RETRY_CNT | a::RNR_RETRY | a::MAX_QP_RD_ATOMIC,
            3,
        ),
        (send, 3),
    ];
    masks.map(|(mask, qp_state)| Request::ModifyQp {
        qpn,
        mask,
        attributes: Box::new(QpAttributes {
            qp_state,
            ..attributes
        }),
    })
}
