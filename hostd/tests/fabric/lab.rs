//! Programs beside the hosts of a fabric, by their verbs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use hostd::{ClientId, Command, Event, FromVerbs, ToVerbs};
use link::{DropReason, PortConfig};
use transport::{Atomic, Memory, MemoryFault, SpaceId};
use uverbs::entry::{Completion, Data, Piece, Receive, Send, send_flag};
use uverbs::{
    AddressAttributes, Capabilities, QpAttributes, QpInit, RegionInit, Reply, Request, attribute,
};
use wire::{Gid, PortNum};

use crate::bed::Bed;
use crate::manage::bring_up_star;

/// Where the memory of every program starts.
pub(crate) const BASE: u64 = 0x10_0000;
pub(crate) const BYTES: usize = 1 << 16;
/// All rights: local write, remote write, read and atomic.
pub(crate) const ALL: u32 = 0xf;
pub(crate) const RC: u32 = 2;
pub(crate) const UD: u32 = 4;
pub(crate) const QKEY: u32 = 0x1234;
pub(crate) const GROUP: Gid = Gid([
    0xff, 0x12, 0x40, 0x1b, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7,
]);
pub(crate) const SUCCESS: u32 = 0;
pub(crate) const FLUSHED: u32 = 5;
pub(crate) const REMOTE_ACCESS: u32 = 10;
pub(crate) const RETRY_EXCEEDED: u32 = 12;

/// The memory of all programs, by space.
#[derive(Clone, Default)]
pub(crate) struct Spaces(pub(crate) Arc<Mutex<BTreeMap<u32, Vec<u8>>>>);

impl Spaces {
    pub(crate) fn with<T>(
        &self,
        space: u32,
        address: u64,
        len: usize,
        use_it: impl FnOnce(&mut [u8]) -> T,
    ) -> Result<T, MemoryFault> {
        let mut all = self.0.lock().unwrap();
        let memory = all.get_mut(&space).ok_or(MemoryFault)?;
        let at = usize::try_from(address.checked_sub(BASE).ok_or(MemoryFault)?).unwrap();
        Ok(use_it(memory.get_mut(at..at + len).ok_or(MemoryFault)?))
    }
}

impl Memory for Spaces {
    fn read(&mut self, space: SpaceId, address: u64, out: &mut [u8]) -> Result<(), MemoryFault> {
        self.with(space.0, address, out.len(), |memory| {
            out.copy_from_slice(memory)
        })
    }

    fn write(&mut self, space: SpaceId, address: u64, bytes: &[u8]) -> Result<(), MemoryFault> {
        self.with(space.0, address, bytes.len(), |memory| {
            memory.copy_from_slice(bytes)
        })
    }

    fn atomic(&mut self, space: SpaceId, address: u64, what: Atomic) -> Result<u64, MemoryFault> {
        self.with(space.0, address, 8, |memory| {
            let original = u64::from_ne_bytes((&*memory).try_into().unwrap());
            memory.copy_from_slice(&what.applied_to(original).to_ne_bytes());
            original
        })
    }
}

/// A fabric of hosts on a switch, each of which reads and writes the programs' memory.
pub(crate) struct Lab {
    pub(crate) bed: Bed,
    pub(crate) spaces: Spaces,
}

/// A context of a program beside a host.
#[derive(Clone, Copy)]
pub(crate) struct Program {
    pub(crate) host: usize,
    pub(crate) client: ClientId,
    pub(crate) pd: u32,
    pub(crate) cq: u32,
    pub(crate) key: u32,
}

impl Lab {
    pub(crate) fn star(hosts: u8) -> Self {
        let mut bed = Bed::star(hosts, PortConfig::default());
        let spaces = Spaces::default();
        for host in 0..hosts {
            let spaces = spaces.clone();
            bed.at(host.into()).set_memory(|| Box::new(spaces.clone()));
        }
        bring_up_star(&mut bed, hosts);
        Self { bed, spaces }
    }

    pub(crate) fn tell(&mut self, host: usize, client: ClientId, message: ToVerbs) {
        self.bed.command(host, Command::Verbs { client, message });
    }

    /// The next message for a context that `choose` makes something of.
    pub(crate) fn heard<T>(
        &mut self,
        (host, client): (usize, ClientId),
        choose: impl Fn(&FromVerbs) -> Option<T>,
    ) -> T {
        self.bed.until(|bed| {
            let events = &mut bed.events[host];
            let found = events
                .iter()
                .enumerate()
                .find_map(|(at, event)| match event {
                    Event::Verbs {
                        client: to,
                        message,
                    } if *to == client => Some((at, choose(message)?)),
                    _ => None,
                });
            let (at, chosen) = found?;
            events.remove(at);
            Some(chosen)
        })
    }

    pub(crate) fn reply(&mut self, of: (usize, ClientId)) -> Reply {
        self.heard(of, |message| match message {
            FromVerbs::Reply(reply) => Some(reply.clone()),
            _ => None,
        })
    }

    pub(crate) fn ask(&mut self, host: usize, client: ClientId, request: Request) -> Reply {
        self.tell(host, client, ToVerbs::Request(request));
        self.reply((host, client))
    }

    pub(crate) fn handle(&mut self, of: (usize, ClientId), request: Request) -> u32 {
        match self.ask(of.0, of.1, request.clone()) {
            Reply::Handle(handle) => handle,
            Reply::Cq { cq, .. } => cq,
            Reply::Srq { srq, .. } => srq,
            Reply::Qp { qpn, .. } => qpn,
            other => panic!("{request:?}: {other:?}"),
        }
    }

    /// A program with a domain, a completion queue and all its memory registered.
    pub(crate) fn program(&mut self, host: usize, number: u32) -> Program {
        let client = ClientId(number);
        self.spaces.0.lock().unwrap().insert(number, vec![0; BYTES]);
        let port = PortNum::new(1);
        self.tell(host, client, ToVerbs::Open { port });
        let opened = self.reply((host, client));
        assert!(matches!(opened, Reply::Opened(_)), "{opened:?}");
        let of = (host, client);
        let pd = self.handle(of, Request::AllocPd);
        let cq = self.handle(of, create_cq(256));
        let key = self.handle(of, register(pd, ALL));
        Program {
            host,
            client,
            pd,
            cq,
            key,
        }
    }

    pub(crate) fn qp(&mut self, of: Program, qp_type: u32) -> u32 {
        let request = Request::CreateQp(Box::new(init(of, qp_type)));
        self.handle((of.host, of.client), request)
    }

    pub(crate) fn modify(&mut self, of: Program, qpn: u32, mask: u32, attributes: QpAttributes) {
        let reply = self.ask(of.host, of.client, modify(qpn, mask, attributes));
        assert_eq!(reply, Reply::Done, "{attributes:?}");
    }

    /// Connects two queue pairs.
    pub(crate) fn connect(&mut self, one: (Program, u32), other: (Program, u32)) {
        for ((own, qpn), (peer, peer_qpn)) in [(one, other), (other, one)] {
            let lid = u16::try_from(peer.host + 1).unwrap();
            for (mask, attributes) in steps(lid, peer_qpn) {
                self.modify(own, qpn, mask, attributes);
            }
        }
    }

    /// Two programs on two hosts with a connected pair of queue pairs.
    pub(crate) fn pair(&mut self) -> [(Program, u32); 2] {
        let ends = [(0, 100), (1, 200)].map(|(host, number)| {
            let program = self.program(host, number);
            (program, self.qp(program, RC))
        });
        self.connect(ends[0], ends[1]);
        ends
    }

    pub(crate) fn send(&mut self, (of, qpn): (Program, u32), requests: Vec<Send>) {
        self.tell(of.host, of.client, ToVerbs::Send { qpn, requests });
    }

    pub(crate) fn receive(&mut self, (of, qpn): (Program, u32), requests: Vec<Receive>) {
        self.tell(of.host, of.client, ToVerbs::Receive { qpn, requests });
    }

    pub(crate) fn completions(&mut self, of: Program) -> Vec<Completion> {
        self.heard((of.host, of.client), |message| match message {
            FromVerbs::Completions { completions, .. } => Some(completions.clone()),
            _ => None,
        })
    }

    pub(crate) fn completion(&mut self, of: Program) -> Completion {
        let completions = self.completions(of);
        assert_eq!(completions.len(), 1, "{completions:?}");
        completions[0]
    }

    pub(crate) fn put(&self, of: Program, at: usize, bytes: &[u8]) {
        let mut all = self.spaces.0.lock().unwrap();
        all.get_mut(&of.client.0).unwrap()[at..at + bytes.len()].copy_from_slice(bytes);
    }

    pub(crate) fn get(&self, of: Program, at: usize, len: usize) -> Vec<u8> {
        self.spaces.0.lock().unwrap()[&of.client.0][at..at + len].to_vec()
    }

    pub(crate) fn drops(&mut self, host: usize, reason: DropReason) -> u64 {
        self.bed.at(host).port().counts().drops[reason]
    }
}

pub(crate) fn create_cq(entries: u32) -> Request {
    Request::CreateCq {
        entries,
        channel: None,
        cookie: 0,
    }
}

pub(crate) fn register(pd: u32, access: u32) -> Request {
    Request::RegMr(RegionInit {
        pd,
        address: BASE,
        length: BYTES as u64,
        iova: BASE,
        access,
    })
}

pub(crate) fn init(of: Program, qp_type: u32) -> QpInit {
    QpInit {
        pd: of.pd,
        qp_type,
        send_cq: of.cq,
        recv_cq: of.cq,
        srq: None,
        cap: Capabilities {
            max_send_wr: 64,
            max_recv_wr: 64,
            max_send_sge: 2,
            max_recv_sge: 2,
            max_inline_data: 64,
        },
        sq_sig_all: false,
        cookie: 0,
    }
}

pub(crate) fn modify(qpn: u32, mask: u32, attributes: QpAttributes) -> Request {
    Request::ModifyQp {
        qpn,
        mask,
        attributes: Box::new(attributes),
    }
}

/// The changes of a queue pair that connect it.
pub(crate) fn steps(lid: u16, peer: u32) -> [(u32, QpAttributes); 3] {
    use attribute as a;
    let attributes = QpAttributes {
        qp_access_flags: ALL,
        port_num: 1,
        path_mtu: 3,
        dest_qp_num: peer,
        rq_psn: 77,
        sq_psn: 77,
        ah_attr: AddressAttributes {
            dlid: lid,
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
    let to = |qp_state| QpAttributes {
        qp_state,
        ..attributes
    };
    [
        (a::STATE | a::PKEY_INDEX | a::PORT | a::ACCESS_FLAGS, to(1)),
        (
            a::STATE
                | a::AV
                | a::PATH_MTU
                | a::DEST_QPN
                | a::RQ_PSN
                | a::MAX_DEST_RD_ATOMIC
                | a::MIN_RNR_TIMER,
            to(2),
        ),
        (
            a::STATE | a::TIMEOUT | a::RETRY_CNT | a::RNR_RETRY | a::SQ_PSN | a::MAX_QP_RD_ATOMIC,
            to(3),
        ),
    ]
}

pub(crate) fn piece(of: Program, at: u64, length: u32) -> Piece {
    Piece {
        address: BASE + at,
        length,
        lkey: of.key,
    }
}

pub(crate) fn request(wr_id: u64, opcode: u8, data: Data) -> Send {
    Send {
        wr_id,
        opcode,
        flags: send_flag::SIGNALED,
        immediate: 0,
        remote_address: 0,
        rkey: 0,
        compare_add: 0,
        swap: 0,
        handle: 0,
        remote_qpn: 0,
        remote_qkey: 0,
        data,
    }
}

pub(crate) fn receive(wr_id: u64, piece: Piece) -> Receive {
    Receive {
        wr_id,
        pieces: vec![piece],
    }
}

/// Brings a queue pair of datagrams into RTS.
pub(crate) fn ready(lab: &mut Lab, of: Program) -> u32 {
    use attribute as a;
    let qpn = lab.qp(of, UD);
    let attributes = QpAttributes {
        port_num: 1,
        qkey: QKEY,
        ..QpAttributes::default()
    };
    for (mask, qp_state) in [
        (a::STATE | a::PKEY_INDEX | a::PORT | a::QKEY, 1),
        (a::STATE, 2),
        (a::STATE | a::SQ_PSN, 3),
    ] {
        lab.modify(
            of,
            qpn,
            mask,
            QpAttributes {
                qp_state,
                ..attributes
            },
        );
    }
    qpn
}
