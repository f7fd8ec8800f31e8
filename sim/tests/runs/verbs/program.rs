//! Two programs beside two hosts, what they do, and the model of what must come of it.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};

use hostd::{ClientId, Command, FromVerbs, ToVerbs};
use link::PortState;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use sim::{Twin, TwinConfig};
use topologies::{Graph, NodeId, NodeKind};
use transport::{Atomic, Memory, MemoryFault, SpaceId};
use uverbs::entry::{Completion, Data, Piece, Receive, Send, opcode, send_flag};
use uverbs::{
    AddressAttributes, Capabilities, QpAttributes, QpInit, RegionInit, Reply, Request, attribute,
};
use wire::{Lid, PortNum};

pub(crate) const RC: u32 = 2;
pub(crate) const UC: u32 = 3;
pub(crate) const SUCCESS: u32 = 0;
pub(crate) const FLUSHED: u32 = 5;
pub(crate) const RETRY_EXCEEDED: u32 = 12;

const SECOND_NS: u64 = 1_000_000_000;
/// Where every program's memory starts.
const BASE: u64 = 0x10_0000;
const BYTES: usize = 1 << 16;
/// Parts of it, each of as many slots: what is sent, or has been received; what is written, or has been read; what is read.
const OUT: usize = 0;
const IN: usize = 0x4000;
const READ: usize = 0x8000;
const COUNTER: usize = 0xf000;
const SLOT: usize = 1024;
const SLOTS: usize = 16;
/// Requests under way at most: a slot is not used again before its request is done.
const UNDER_WAY_MAX: usize = 8;
/// All rights.
const ALL: u32 = 0xf;
const CLIENT: ClientId = ClientId(500);

/// The memory of the programs beside both hosts.
#[derive(Clone, Default)]
struct Spaces(Arc<Mutex<Vec<u8>>>);

impl Spaces {
    fn with<T>(
        &self,
        address: u64,
        len: usize,
        use_it: impl FnOnce(&mut [u8]) -> T,
    ) -> Result<T, MemoryFault> {
        let mut memory = self.0.lock().unwrap();
        let at = address.checked_sub(BASE).ok_or(MemoryFault)?;
        let at = usize::try_from(at).map_err(|_| MemoryFault)?;
        Ok(use_it(memory.get_mut(at..at + len).ok_or(MemoryFault)?))
    }
}

impl Memory for Spaces {
    fn read(&mut self, _: SpaceId, address: u64, out: &mut [u8]) -> Result<(), MemoryFault> {
        self.with(address, out.len(), |memory| out.copy_from_slice(memory))
    }

    fn write(&mut self, _: SpaceId, address: u64, bytes: &[u8]) -> Result<(), MemoryFault> {
        self.with(address, bytes.len(), |memory| memory.copy_from_slice(bytes))
    }

    fn atomic(&mut self, _: SpaceId, address: u64, what: Atomic) -> Result<u64, MemoryFault> {
        self.with(address, 8, |memory| {
            let original = u64::from_ne_bytes((&*memory).try_into().unwrap());
            memory.copy_from_slice(&what.applied_to(original).to_ne_bytes());
            original
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Send,
    Write,
    Read,
    Add,
}

/// A request of the first program; its number is its `wr_id` and its immediate data.
#[derive(Clone, Copy, Debug)]
struct Work {
    kind: Kind,
    len: usize,
}

/// A program and its queue pair.
#[derive(Debug)]
struct Program {
    host: String,
    key: u32,
    qpn: u32,
}

/// What message number `number` holds.
fn content(number: usize, len: usize) -> Vec<u8> {
    let byte = |at: usize| u8::try_from((number * 31 + at * 7) % 251).unwrap();
    (0..len).map(byte).collect()
}

/// A fabric with two programs, of which the first works and the second is worked on.
pub(crate) struct World {
    pub(crate) twin: Twin,
    graph: Graph,
    rng: ChaCha8Rng,
    service: u32,
    spaces: [Spaces; 2],
    programs: Vec<Program>,
    replies: VecDeque<Reply>,
    work: Vec<Work>,
    /// Requests of the first program that have ended, in order, with their status.
    ended: Vec<u32>,
    /// Numbers of the messages that the second program has got.
    heard: Vec<usize>,
    received: u64,
    connections: u32,
}

impl World {
    pub(crate) fn new(fabric: &str, seed: u64, service: u32) -> Self {
        let graph = topologies::parse(fabric).unwrap().graph;
        let mut twin = Twin::new(&graph, &TwinConfig::default()).unwrap();
        twin.run_until_up(10 * SECOND_NS).unwrap();
        let mut world = Self {
            twin,
            graph,
            rng: ChaCha8Rng::seed_from_u64(seed),
            service,
            spaces: Default::default(),
            programs: Vec::new(),
            replies: VecDeque::new(),
            work: Vec::new(),
            ended: Vec::new(),
            heard: Vec::new(),
            received: 0,
            connections: 0,
        };
        world.connect_anew();
        world
    }

    /// The hosts of the programs: the first one and the last one, which are at different switches.
    pub(crate) fn nodes(&self) -> [NodeId; 2] {
        let mut hosts = self.graph.hosts();
        [hosts.next().unwrap(), hosts.last().unwrap()]
    }

    /// Switches without hosts: those on the way of which another one can take the place.
    pub(crate) fn switches(&self) -> Vec<NodeId> {
        let is_host = |id: NodeId| self.graph.node(id).kind == NodeKind::Host;
        let is_leaf = |id: &NodeId| {
            let mut cables = self.graph.cables(*id);
            cables.any(|(_, peer)| is_host(peer.node))
        };
        let all = self.graph.ids().filter(|&id| !is_host(id));
        all.filter(|id| !is_leaf(id)).collect()
    }

    pub(crate) fn run(&mut self, ns: u64) {
        self.twin.run_for(ns);
        self.listen();
    }

    fn ask(&mut self, host: usize, request: Request) -> Reply {
        let name = self.host(host);
        let message = ToVerbs::Request(request);
        self.tell(&name, message);
        self.listen();
        self.replies.pop_front().expect("answered at once")
    }

    fn host(&self, host: usize) -> String {
        self.graph.node(self.nodes()[host]).name.clone()
    }

    fn tell(&mut self, host: &str, message: ToVerbs) {
        let client = CLIENT;
        let command = Command::Verbs { client, message };
        self.twin.command(host, command).unwrap();
    }

    fn handle(&mut self, host: usize, request: Request) -> u32 {
        match self.ask(host, request) {
            Reply::Handle(handle) => handle,
            Reply::Cq { cq, .. } => cq,
            Reply::Qp { qpn, .. } => qpn,
            other => panic!("{other:?}"),
        }
    }

    /// Lets time pass until both hosts have been set up by the subnet manager.
    fn run_until_addressed(&mut self) {
        let limit = self.twin.now() + 20 * SECOND_NS;
        for host in 0..2 {
            let name = self.host(host);
            let is_active = |twin: &Twin| {
                let host = twin.host(&name).unwrap();
                host.lid() != Lid::ZERO && host.port().state() == PortState::Active
            };
            while !is_active(&self.twin) {
                self.run(1_000_000);
                assert!(self.twin.now() < limit, "{name}");
            }
        }
    }

    /// Both programs begin, with new contexts and memory, and connect.
    pub(crate) fn connect_anew(&mut self) {
        self.run_until_addressed();
        self.connections += 1;
        (self.work, self.ended, self.heard) = Default::default();
        self.received = 0;
        self.programs.clear();
        for host in 0..2 {
            let name = self.host(host);
            let client = CLIENT;
            self.twin
                .command(&name, Command::VerbsGone { client })
                .unwrap();
            let mut memory = vec![0; BYTES];
            memory[READ..READ + SLOTS * SLOT].copy_from_slice(&content(99, SLOTS * SLOT));
            *self.spaces[host].0.lock().unwrap() = memory;
            let space = self.spaces[host].clone();
            let device = self.twin.host_mut(&name).unwrap();
            device.set_memory(|| Box::new(space.clone()));
            let port = PortNum::new(1);
            self.tell(&name, ToVerbs::Open { port });
            self.listen();
            self.replies.clear();
            let program = self.begin(host, name);
            self.programs.push(program);
        }
        for host in 0..2 {
            self.connect(host);
        }
        for slot in 0..SLOTS {
            self.post_receive(slot);
        }
    }

    fn begin(&mut self, host: usize, name: String) -> Program {
        let pd = self.handle(host, Request::AllocPd);
        let entries = 256;
        let cq = self.handle(
            host,
            Request::CreateCq {
                entries,
                channel: None,
                cookie: 0,
            },
        );
        let region = RegionInit {
            pd,
            address: BASE,
            length: BYTES as u64,
            iova: BASE,
            access: ALL,
        };
        let key = self.handle(host, Request::RegMr(region));
        let init = QpInit {
            pd,
            qp_type: self.service,
            send_cq: cq,
            recv_cq: cq,
            srq: None,
            cap: Capabilities {
                max_send_wr: 64,
                max_recv_wr: 64,
                max_send_sge: 1,
                max_recv_sge: 1,
                max_inline_data: 0,
            },
            sq_sig_all: true,
            cookie: 0,
        };
        let qpn = self.handle(host, Request::CreateQp(Box::new(init)));
        Program {
            host: name,
            key,
            qpn,
        }
    }

    fn connect(&mut self, host: usize) {
        use attribute as a;
        let peer = self.host(1 - host);
        let dlid = self.twin.host(&peer).unwrap().lid().get();
        // Packets of an earlier connection must not count for this one.
        let psn = 1000 * self.connections;
        let attributes = QpAttributes {
            qp_access_flags: ALL,
            port_num: 1,
            path_mtu: 1,
            dest_qp_num: self.programs[1 - host].qpn,
            rq_psn: psn,
            sq_psn: psn,
            ah_attr: AddressAttributes {
                dlid,
                port_num: 1,
                ..AddressAttributes::default()
            },
            max_rd_atomic: 4,
            max_dest_rd_atomic: 4,
            min_rnr_timer: 1,
            // 268 ms.
            timeout: 16,
            retry_cnt: 7,
            rnr_retry: 7,
            ..QpAttributes::default()
        };
        let (mut rtr, mut rts) = (a::AV | a::PATH_MTU | a::DEST_QPN | a::RQ_PSN, a::SQ_PSN);
        if self.service == RC {
            rtr |= a::MAX_DEST_RD_ATOMIC | a::MIN_RNR_TIMER;
            rts |= a::TIMEOUT | a::RETRY_CNT | a::RNR_RETRY | a::MAX_QP_RD_ATOMIC;
        }
        let init = a::PKEY_INDEX | a::PORT | a::ACCESS_FLAGS;
        let qpn = self.programs[host].qpn;
        for (mask, qp_state) in [(init, 1), (rtr, 2), (rts, 3)] {
            let attributes = Box::new(QpAttributes {
                qp_state,
                ..attributes
            });
            let mask = mask | a::STATE;
            let request = Request::ModifyQp {
                qpn,
                mask,
                attributes,
            };
            assert_eq!(self.ask(host, request), Reply::Done);
        }
    }

    fn piece(&self, host: usize, at: usize, len: usize) -> Piece {
        Piece {
            address: BASE + at as u64,
            length: u32::try_from(len).unwrap(),
            lkey: self.programs[host].key,
        }
    }

    fn post_receive(&mut self, slot: usize) {
        let pieces = vec![self.piece(1, OUT + slot * SLOT, SLOT)];
        let (host, qpn) = (self.programs[1].host.clone(), self.programs[1].qpn);
        let wr_id = slot as u64;
        let requests = vec![Receive { wr_id, pieces }];
        self.tell(&host, ToVerbs::Receive { qpn, requests });
    }

    /// The first program posts so many random requests.
    pub(crate) fn post(&mut self, count: usize) {
        for _ in 0..count {
            let kinds = match self.service {
                UC => &[Kind::Send, Kind::Write][..],
                _ => &[Kind::Send, Kind::Write, Kind::Read, Kind::Add],
            };
            let kind = kinds[self.rng.random_range(0..kinds.len())];
            let len = match kind {
                Kind::Add => 8,
                _ => self.rng.random_range(0..SLOT),
            };
            let number = self.work.len();
            self.work.push(Work { kind, len });
            self.post_one(number, kind, len);
        }
        self.listen();
    }

    fn post_one(&mut self, number: usize, kind: Kind, len: usize) {
        let slot = number % SLOTS * SLOT;
        let (at, there, opcode) = match kind {
            Kind::Send => (OUT + slot, 0, opcode::SEND_WITH_IMM),
            Kind::Write => (OUT + slot, IN + slot, opcode::RDMA_WRITE_WITH_IMM),
            Kind::Read => (IN + slot, READ + slot, opcode::RDMA_READ),
            Kind::Add => (IN + slot, COUNTER, opcode::ATOMIC_FETCH_AND_ADD),
        };
        let data = content(number, len);
        self.spaces[0].0.lock().unwrap()[OUT + slot..][..len].copy_from_slice(&data);
        let request = Send {
            wr_id: number as u64,
            opcode,
            flags: send_flag::SIGNALED,
            immediate: u32::try_from(number).unwrap(),
            remote_address: BASE + there as u64,
            rkey: self.programs[1].key,
            compare_add: 3,
            swap: 0,
            handle: 0,
            remote_qpn: 0,
            remote_qkey: 0,
            data: Data::Pieces(vec![self.piece(0, at, len)]),
        };
        let (host, qpn) = (self.programs[0].host.clone(), self.programs[0].qpn);
        let requests = vec![request];
        self.tell(&host, ToVerbs::Send { qpn, requests });
    }

    /// Lets the first program do so many requests more, a few at a time, until all have ended.
    pub(crate) fn work_off(&mut self, count: usize) {
        let total = self.work.len() + count;
        let limit = self.twin.now() + 60 * SECOND_NS;
        while self.ended.len() < total {
            let under_way = self.work.len() - self.ended.len();
            let more = UNDER_WAY_MAX
                .saturating_sub(under_way)
                .min(total - self.work.len());
            self.post(more);
            self.run(100_000);
            assert!(self.twin.now() < limit, "{} of {total}", self.ended.len());
        }
        // What is on its way for the second program arrives.
        self.run(1_000_000);
    }

    /// Takes what the programs are told.
    fn listen(&mut self) {
        while let Some((host, client, message)) = self.twin.told() {
            assert_eq!(client, CLIENT);
            match message {
                FromVerbs::Reply(reply) => self.replies.push_back(reply),
                FromVerbs::Completions { completions, .. } => {
                    for done in completions {
                        match host == self.host(0) {
                            true => self.has_ended(&done),
                            false => self.has_come(&done),
                        }
                    }
                }
                FromVerbs::Event { .. } => {}
            }
        }
    }

    /// A request of the first program has ended: they do in order, with what they were to bring.
    fn has_ended(&mut self, done: &Completion) {
        let number = self.ended.len();
        assert_eq!(done.wr_id, number as u64, "{done:?}");
        self.ended.push(done.status);
        if done.status != SUCCESS {
            return;
        }
        let Work { kind, len } = self.work[number];
        let landed = IN + number % SLOTS * SLOT;
        let landed = self.spaces[0].0.lock().unwrap()[landed..][..len].to_vec();
        match kind {
            Kind::Send | Kind::Write => {}
            Kind::Read => {
                let from = number % SLOTS * SLOT;
                assert_eq!(landed, content(99, SLOTS * SLOT)[from..][..len], "{number}");
            }
            Kind::Add => {
                let before = self.work[..number].iter();
                let added = before.filter(|work| work.kind == Kind::Add).count() as u64;
                assert_eq!(landed, (3 * added).to_ne_bytes(), "{number}: once each");
            }
        }
    }

    /// A message has come to the second program: whole, and behind those before it.
    fn has_come(&mut self, done: &Completion) {
        if done.status != SUCCESS {
            return;
        }
        let number = usize::try_from(done.immediate).unwrap();
        assert!(
            self.heard.last().is_none_or(|&last| last < number),
            "{done:?}"
        );
        let Work { kind, len } = self.work[number];
        let slot = usize::try_from(done.wr_id).unwrap();
        assert_eq!(
            slot as u64,
            self.received % SLOTS as u64,
            "receives are used in order"
        );
        let at = match kind {
            Kind::Send => OUT + slot * SLOT,
            _ => IN + number % SLOTS * SLOT,
        };
        let got = self.spaces[1].0.lock().unwrap()[at..][..len].to_vec();
        assert_eq!((done.byte_len as usize, got), (len, content(number, len)));
        self.heard.push(number);
        self.received += 1;
        self.post_receive(slot);
    }

    /// How many requests of the first program are done, and how many messages the second one has got.
    pub(crate) fn progress(&self) -> (u64, u64) {
        let done = self.ended.iter().filter(|&&status| status == SUCCESS);
        (done.count() as u64, self.heard.len() as u64)
    }

    /// How many of the first so many requests are messages that the second program gets.
    pub(crate) fn messages_before(&self, count: u64) -> u64 {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let first = self.work.iter().take(count);
        let is_message = |work: &&Work| matches!(work.kind, Kind::Send | Kind::Write);
        first.filter(is_message).count() as u64
    }

    /// Everything has been done once and in order: the model, and both memories, agree.
    pub(crate) fn assert_all_done(&self) {
        assert_eq!(self.statuses(), [SUCCESS].into());
        assert_eq!(self.ended.len(), self.work.len());
        let (_, heard) = self.progress();
        assert_eq!(heard, self.messages_before(u64::MAX), "each once");
        let adds = self.work.iter().filter(|work| work.kind == Kind::Add);
        let counter = self.spaces[1].0.lock().unwrap()[COUNTER..][..8].to_vec();
        assert_eq!(counter, (3 * adds.count() as u64).to_ne_bytes());
    }

    /// Lets time pass until all requests have ended: how those that have failed did.
    pub(crate) fn ends_of_failed_work(&mut self) -> Vec<u32> {
        let limit = self.twin.now() + 60 * SECOND_NS;
        while self.ended.len() < self.work.len() {
            self.run(10_000_000);
            assert!(
                self.twin.now() < limit,
                "{} of {}",
                self.ended.len(),
                self.work.len()
            );
        }
        let failed = self.ended.iter().copied();
        failed.skip_while(|&status| status == SUCCESS).collect()
    }

    pub(crate) fn statuses(&self) -> BTreeSet<u32> {
        self.ended.iter().copied().collect()
    }
}
