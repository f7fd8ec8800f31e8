//! A host that is as simple as can be: one context, queue pairs that are joined to each other, SEND, RDMA WRITE and
//! READ by copies of the program's memory, no packets. What it does not have it refuses.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt as _;

use netio::shared_memory::SharedMemory;
use rustix::event::{EventfdFlags, eventfd};
use uverbs::entry::{
    COMPLETION_WORDS, Completion, Data, Piece, Receive, Send, opcode, receive_stride, send_flag,
    send_stride, wc_flag,
};
use uverbs::ring::{Consumer, Layout, Producer};
use uverbs::{
    AsyncEvent, DeviceAttributes, PortAttributes, QpAttributes, QpInit, Reply, Request, attribute,
    doorbell, errno,
};

/// A ring that the program fills.
struct Work {
    memory: SharedMemory,
    consumer: Consumer,
    stride: usize,
}

struct Cq {
    memory: SharedMemory,
    producer: Producer,
    channel: Option<u32>,
    cookie: u64,
}

struct Qp {
    init: QpInit,
    set: QpAttributes,
    send: Work,
    receive: Work,
    /// Send requests that no completion has told of.
    untold: u32,
}

/// One context.
pub(crate) struct Host {
    memory: Option<File>,
    pub(crate) waker: OwnedFd,
    pub(crate) page: SharedMemory,
    events: Option<File>,
    channels: BTreeMap<u32, File>,
    cqs: BTreeMap<u32, Cq>,
    qps: BTreeMap<u32, Qp>,
    last: u32,
}

pub(crate) type Answer = Result<(Reply, Vec<OwnedFd>), u16>;

fn done(reply: Reply) -> Answer {
    Ok((reply, Vec::new()))
}

fn ring(entries: u32, stride: u32) -> (SharedMemory, OwnedFd, Layout) {
    let layout = Layout::new(entries, stride).expect("a small ring");
    let (memory, file) = SharedMemory::create("ring", layout.words()).expect("memory");
    (memory, file, layout)
}

fn work(entries: u32, stride: u32) -> (Work, OwnedFd) {
    let (memory, file, layout) = ring(entries.max(1), stride);
    let consumer = Consumer::new(layout);
    let stride = layout.stride();
    (
        Work {
            memory,
            consumer,
            stride,
        },
        file,
    )
}

fn completion_stride() -> u32 {
    u32::try_from(COMPLETION_WORDS).expect("a short entry")
}

impl Work {
    fn pop(&mut self) -> Option<Vec<u64>> {
        let mut words = vec![0; self.stride];
        let popped = self.consumer.pop(self.memory.words(), &mut words);
        popped.expect("an honest program").then_some(words)
    }
}

pub(crate) fn device() -> DeviceAttributes {
    DeviceAttributes {
        description: "model".to_owned(),
        node_guid: 0x0002_c903_0000_0001,
        sys_image_guid: 0x0002_c903_0000_0003,
        vendor_id: 0x2c9,
        vendor_part_id: 4099,
        max_mr_size: 1 << 40,
        max_qp: 100,
        max_qp_wr: 64,
        max_sge: 4,
        max_cq: 100,
        max_cqe: 1024,
        max_mr: 100,
        max_pd: 100,
        port: PortAttributes {
            number: 1,
            state: 4,
            phys_state: 5,
            max_mtu: 5,
            active_mtu: 4,
            max_msg_sz: 1 << 31,
            lid: 7,
            sm_lid: 1,
            active_width: 2,
            active_speed: 256,
            gids: vec![[1; 16], [0; 16], [3; 16]],
            gid_tbl_len: 8,
            pkeys: vec![0xffff, 0x8001],
            pkey_tbl_len: 16,
            ..PortAttributes::default()
        },
        ..DeviceAttributes::default()
    }
}

impl Host {
    pub(crate) fn new() -> (Self, OwnedFd) {
        let (page, file) = SharedMemory::create("page", doorbell::WORDS).expect("memory");
        let host = Self {
            memory: None,
            waker: eventfd(0, EventfdFlags::NONBLOCK).expect("an event descriptor"),
            page,
            events: None,
            channels: BTreeMap::new(),
            cqs: BTreeMap::new(),
            qps: BTreeMap::new(),
            last: 0x10,
        };
        (host, file)
    }

    fn next(&mut self) -> u32 {
        self.last += 1;
        self.last
    }

    fn pipe(&mut self) -> (File, OwnedFd) {
        let (reader, writer) = rustix::pipe::pipe().expect("a pipe");
        (writer.into(), reader)
    }

    pub(crate) fn answer(
        &mut self,
        request: Request,
        descriptors: Vec<OwnedFd>,
        page: &OwnedFd,
    ) -> Answer {
        match request {
            Request::Open { version, port } => {
                if version != uverbs::VERSION || port != 1 {
                    return Err(errno::ENOENT);
                }
                self.memory = descriptors.into_iter().next().map(File::from);
                let (events, reader) = self.pipe();
                self.events = Some(events);
                let copy = |descriptor: BorrowedFd<'_>| descriptor.try_clone_to_owned();
                let waker = copy(self.waker.as_fd()).expect("a copy");
                let page = copy(page.as_fd()).expect("a copy");
                Ok((Reply::Opened(Box::new(device())), vec![waker, page, reader]))
            }
            Request::Describe => done(Reply::Device(Box::new(device()))),
            Request::AllocPd => done(Reply::Handle(self.next())),
            Request::RegMr(region) if region.access > 0xf => Err(errno::EOPNOTSUPP),
            Request::RegMr(_) | Request::CreateAh { .. } => done(Reply::Handle(self.next())),
            Request::CreateChannel => {
                let handle = self.next();
                let (writer, reader) = self.pipe();
                self.channels.insert(handle, writer);
                Ok((Reply::Handle(handle), vec![reader]))
            }
            Request::DestroyChannel { channel } => {
                if self.cqs.values().any(|cq| cq.channel == Some(channel)) {
                    return Err(errno::EBUSY);
                }
                self.channels.remove(&channel);
                done(Reply::Done)
            }
            Request::CreateCq {
                entries,
                channel,
                cookie,
            } => {
                let handle = self.next();
                let (memory, file, layout) = ring(entries, completion_stride());
                let producer = Producer::new(layout);
                let entries = layout.entries();
                self.cqs.insert(
                    handle,
                    Cq {
                        memory,
                        producer,
                        channel,
                        cookie,
                    },
                );
                Ok((
                    Reply::Cq {
                        cq: handle,
                        entries,
                    },
                    vec![file],
                ))
            }
            Request::ResizeCq { cq, entries } => {
                let queue = self.cqs.get_mut(&cq).ok_or(errno::ENOENT)?;
                let (memory, file, layout) = ring(entries, completion_stride());
                (queue.memory, queue.producer) = (memory, Producer::new(layout));
                Ok((
                    Reply::Cq {
                        cq,
                        entries: layout.entries(),
                    },
                    vec![file],
                ))
            }
            Request::DestroyCq { cq } => {
                let uses = |qp: &Qp| qp.init.send_cq == cq || qp.init.recv_cq == cq;
                if self.qps.values().any(uses) {
                    return Err(errno::EBUSY);
                }
                self.cqs.remove(&cq);
                done(Reply::Done)
            }
            other => self.answer_queue_pair(other),
        }
    }

    fn answer_queue_pair(&mut self, request: Request) -> Answer {
        match request {
            Request::CreateQp(init) => {
                let qpn = self.next();
                let cap = init.cap;
                let sends = send_stride(cap.max_send_sge, cap.max_inline_data);
                let (send, send_file) = work(cap.max_send_wr, sends);
                let receives = receive_stride(cap.max_recv_sge);
                let (receive, receive_file) = work(cap.max_recv_wr, receives);
                let qp = Qp {
                    init: *init,
                    set: QpAttributes::default(),
                    send,
                    receive,
                    untold: 0,
                };
                self.qps.insert(qpn, qp);
                let (send_doorbell, receive_doorbell) = (qpn, qpn + 1000);
                let reply = Reply::Qp {
                    qpn,
                    cap,
                    send_doorbell,
                    receive_doorbell,
                };
                Ok((reply, vec![send_file, receive_file]))
            }
            Request::ModifyQp {
                qpn,
                mask,
                attributes,
            } => {
                if mask & attribute::ALT_PATH != 0 {
                    return Err(errno::EOPNOTSUPP);
                }
                let qp = self.qps.get_mut(&qpn).ok_or(errno::ENOENT)?;
                let mut set = qp.set;
                if mask & attribute::STATE != 0 {
                    set.qp_state = attributes.qp_state;
                }
                if mask & attribute::DEST_QPN != 0 {
                    set.dest_qp_num = attributes.dest_qp_num;
                }
                if mask & attribute::AV != 0 {
                    set.ah_attr = attributes.ah_attr;
                }
                qp.set = set;
                if set.qp_state == 0 {
                    while qp.send.pop().is_some() || qp.receive.pop().is_some() {}
                    qp.untold = 0;
                }
                done(Reply::Done)
            }
            Request::QueryQp { qpn } => {
                let qp = self.qps.get(&qpn).ok_or(errno::ENOENT)?;
                done(Reply::QpAttributes(Box::new(qp.set)))
            }
            Request::DestroyQp { qpn } => {
                self.qps.remove(&qpn).ok_or(errno::ENOENT)?;
                done(Reply::Done)
            }
            // Serves to have an event told.
            Request::AttachMcast { qpn, .. } => {
                let cookie = self.qps.get(&qpn).ok_or(errno::ENOENT)?.init.cookie;
                let event = AsyncEvent {
                    kind: 4,
                    port: 0,
                    cookie,
                };
                let events = self.events.as_mut().expect("an open context");
                events.write_all(&event.emit()).expect("room in the pipe");
                done(Reply::Done)
            }
            Request::DeallocPd { .. }
            | Request::ReregMr { .. }
            | Request::DeregMr { .. }
            | Request::DestroyAh { .. }
            | Request::DetachMcast { .. } => done(Reply::Done),
            _ => Err(errno::EOPNOTSUPP),
        }
    }

    fn complete(&mut self, cq: u32, solicited: bool, completion: Completion) {
        let queue = self.cqs.get_mut(&cq).expect("a completion queue");
        let pushed = queue
            .producer
            .push(queue.memory.words(), &completion.emit());
        assert_eq!(
            pushed,
            Ok(true),
            "the program has made the queue large enough"
        );
        if queue.producer.take_arming(queue.memory.words(), solicited) {
            let channel = queue
                .channel
                .and_then(|channel| self.channels.get(&channel));
            if let Some(mut channel) = channel {
                channel
                    .write_all(&queue.cookie.to_ne_bytes())
                    .expect("room in the pipe");
            }
        }
    }

    fn gather(&self, data: &Data) -> Vec<u8> {
        let pieces = match data {
            Data::Inline(bytes) => return bytes.clone(),
            Data::Pieces(pieces) => pieces,
        };
        let mut bytes = Vec::new();
        for piece in pieces {
            let mut part = vec![0; piece.length as usize];
            let memory = self.memory.as_ref().expect("the program's memory");
            memory
                .read_exact_at(&mut part, piece.address)
                .expect("mapped memory");
            bytes.extend(part);
        }
        bytes
    }

    fn scatter(&self, pieces: &[Piece], mut bytes: &[u8]) {
        for piece in pieces {
            let (part, rest) = bytes.split_at(bytes.len().min(piece.length as usize));
            let memory = self.memory.as_ref().expect("the program's memory");
            memory
                .write_all_at(part, piece.address)
                .expect("mapped memory");
            bytes = rest;
        }
    }

    /// Does all send requests that can be done.
    pub(crate) fn work(&mut self) {
        let numbers: Vec<u32> = self.qps.keys().copied().collect();
        for qpn in numbers {
            while self.step(qpn) {}
        }
    }

    fn step(&mut self, qpn: u32) -> bool {
        let qp = self.qps.get_mut(&qpn).expect("a queue pair");
        if qp.set.qp_state < 3 {
            return false;
        }
        let Some(words) = qp.send.pop() else {
            return false;
        };
        let send = Send::parse(&words).expect("an honest program");
        qp.untold += 1;
        let (peer, cq) = (qp.set.dest_qp_num, qp.init.send_cq);
        let is_signaled = send.flags & send_flag::SIGNALED != 0 || qp.init.sq_sig_all;
        let retired = qp.untold;
        if is_signaled {
            qp.untold = 0;
        }
        let has_immediate = send.opcode == opcode::SEND_WITH_IMM;
        let kind = match send.opcode {
            opcode::SEND | opcode::SEND_WITH_IMM => 0,
            opcode::RDMA_WRITE => 1,
            opcode::RDMA_READ => 2,
            other => panic!("operation {other}"),
        };
        let remote = |length| Piece {
            address: send.remote_address,
            length,
            lkey: send.rkey,
        };
        let bytes = self.gather(&send.data);
        let length = u32::try_from(bytes.len()).expect("a short message");
        match (kind, &send.data) {
            (0, _) => {
                let peer_qp = self.qps.get_mut(&peer).expect("a peer");
                let words = peer_qp.receive.pop().expect("a receive request");
                let cq = peer_qp.init.recv_cq;
                let receive = Receive::parse(&words).expect("an honest program");
                self.scatter(&receive.pieces, &bytes);
                let completion = Completion {
                    wr_id: receive.wr_id,
                    opcode: 128,
                    byte_len: length,
                    immediate: send.immediate,
                    flags: if has_immediate { wc_flag::WITH_IMM } else { 0 },
                    qpn: peer,
                    retired: 1,
                    time_ns: 77,
                    ..Completion::default()
                };
                let solicited = send.flags & send_flag::SOLICITED != 0;
                self.complete(cq, solicited, completion);
            }
            (2, Data::Pieces(pieces)) => {
                let read = self.gather(&Data::Pieces(vec![remote(length)]));
                self.scatter(pieces, &read);
            }
            _ => self.scatter(&[remote(length)], &bytes),
        }
        if is_signaled {
            let completion = Completion {
                wr_id: send.wr_id,
                opcode: kind,
                byte_len: length,
                qpn,
                retired,
                time_ns: 78,
                ..Completion::default()
            };
            self.complete(cq, false, completion);
        }
        true
    }
}
