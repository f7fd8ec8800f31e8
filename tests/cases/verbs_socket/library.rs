//! A verbs library as small as can be: what speaks with a host's verbs socket in these tests.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use netio::event;
use netio::seqpacket::BlockingConnection;
use netio::shared_memory::SharedMemory;
use uverbs::entry::{
    COMPLETION_WORDS, Completion, Data, Piece, Receive, Send, receive_stride, send_stride,
};
use uverbs::ring::{Consumer, Layout, Producer};
use uverbs::{
    AddressAttributes, Capabilities, DeviceAttributes, QpAttributes, QpInit, RegionInit, Reply,
    Request, attribute, doorbell,
};

/// How long a machine under load may take for anything.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
const WORDS: usize = 1 << 15;
/// All rights.
pub(crate) const ALL: u32 = 0xf;
pub(crate) const RC: u32 = 2;

/// Memory of this process that other ones write.
pub(crate) struct Memory(Box<[AtomicU64]>);

impl Memory {
    fn new() -> Self {
        Self((0..WORDS).map(|_| AtomicU64::new(0)).collect())
    }

    pub(crate) fn address(&self) -> u64 {
        self.0.as_ptr().addr().try_into().expect("a 64-bit address")
    }

    pub(crate) fn get(&self, word: usize) -> u64 {
        self.0[word].load(Ordering::SeqCst)
    }

    pub(crate) fn set(&self, word: usize, value: u64) {
        self.0[word].store(value, Ordering::SeqCst);
    }
}

/// A queue that this library fills.
pub(crate) struct WorkQueue {
    pub(crate) memory: SharedMemory,
    producer: Producer,
    doorbell: u32,
}

/// A queue of completions.
pub(crate) struct CompletionQueue {
    pub(crate) handle: u32,
    pub(crate) memory: SharedMemory,
    pub(crate) consumer: Consumer,
}

/// A queue pair.
pub(crate) struct QueuePair {
    pub(crate) qpn: u32,
    pub(crate) sends: WorkQueue,
    pub(crate) receives: WorkQueue,
}

/// A context.
pub(crate) struct Library {
    connection: BlockingConnection,
    pub(crate) device: DeviceAttributes,
    pub(crate) page: SharedMemory,
    doorbell: OwnedFd,
    pub(crate) events: File,
    pub(crate) memory: Memory,
    pub(crate) pd: u32,
    pub(crate) key: u32,
}

pub(crate) fn own_memory() -> OwnedFd {
    let mut options = File::options();
    let file = options.read(true).write(true).open("/proc/self/mem");
    file.expect("this process's memory").into()
}

pub(crate) fn connect(path: &Path) -> BlockingConnection {
    BlockingConnection::connect(path, PATIENCE).expect("a verbs socket")
}

pub(crate) fn open_request() -> Request {
    let version = uverbs::VERSION;
    Request::Open { version, port: 1 }
}

/// One request and its reply.
pub(crate) fn exchange(
    connection: &BlockingConnection,
    request: &Request,
    descriptors: &[OwnedFd],
) -> (Reply, Vec<OwnedFd>) {
    let message = wire::control::encode(request).expect("it can be encoded");
    let lent: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
    connection.send_with(&message, &lent).expect("a host");
    let (message, descriptors) = connection
        .receive_with()
        .expect("a reply")
        .expect("a host that has not closed the connection");
    (
        wire::control::decode(&message).expect("a reply"),
        descriptors,
    )
}

impl Library {
    pub(crate) fn open(path: &Path) -> Self {
        let connection = connect(path);
        let (reply, descriptors) = exchange(&connection, &open_request(), &[own_memory()]);
        let Reply::Opened(device) = reply else {
            panic!("{reply:?}");
        };
        let [doorbell, page, events] = descriptors.try_into().expect("three descriptors");
        let mut library = Self {
            connection,
            device: *device,
            page: SharedMemory::open(page, doorbell::WORDS).expect("the doorbell page"),
            doorbell,
            events: events.into(),
            memory: Memory::new(),
            pd: 0,
            key: 0,
        };
        library.pd = library.handle(&Request::AllocPd);
        library.key = library.handle(&library.region());
        library
    }

    pub(crate) fn region(&self) -> Request {
        let address = self.memory.address();
        Request::RegMr(RegionInit {
            pd: self.pd,
            address,
            length: (WORDS * 8) as u64,
            iova: address,
            access: ALL,
        })
    }

    pub(crate) fn ask(&self, request: &Request) -> (Reply, Vec<OwnedFd>) {
        exchange(&self.connection, request, &[])
    }

    /// The same with descriptors, which no request but the first one has.
    pub(crate) fn ask_with(
        &self,
        request: &Request,
        descriptors: &[OwnedFd],
    ) -> (Reply, Vec<OwnedFd>) {
        exchange(&self.connection, request, descriptors)
    }

    pub(crate) fn handle(&self, request: &Request) -> u32 {
        match self.ask(request).0 {
            Reply::Handle(handle) => handle,
            other => panic!("{request:?}: {other:?}"),
        }
    }

    pub(crate) fn done(&self, request: &Request) {
        assert_eq!(self.ask(request).0, Reply::Done, "{request:?}");
    }

    /// A completion channel.
    pub(crate) fn channel(&self) -> (u32, File) {
        let (reply, mut descriptors) = self.ask(&Request::CreateChannel);
        match (reply, descriptors.pop()) {
            (Reply::Handle(channel), Some(descriptor)) => (channel, descriptor.into()),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn cq(&self, entries: u32, channel: Option<u32>, cookie: u64) -> CompletionQueue {
        let (reply, mut descriptors) = self.ask(&Request::CreateCq {
            entries,
            channel,
            cookie,
        });
        let Reply::Cq { cq, entries } = reply else {
            panic!("{reply:?}");
        };
        let layout = Layout::new(entries, u32::try_from(COMPLETION_WORDS).expect("few words"))
            .expect("a layout");
        CompletionQueue {
            handle: cq,
            memory: SharedMemory::open(descriptors.pop().expect("a descriptor"), layout.words())
                .expect("the ring"),
            consumer: Consumer::new(layout),
        }
    }

    pub(crate) fn init(&self, cq: &CompletionQueue, cookie: u64) -> QpInit {
        QpInit {
            pd: self.pd,
            qp_type: RC,
            send_cq: cq.handle,
            recv_cq: cq.handle,
            srq: None,
            cap: Capabilities {
                max_send_wr: 32,
                max_recv_wr: 32,
                max_send_sge: 1,
                max_recv_sge: 1,
                max_inline_data: 64,
            },
            sq_sig_all: false,
            cookie,
        }
    }

    pub(crate) fn qp(&self, cq: &CompletionQueue, cookie: u64) -> QueuePair {
        let request = Request::CreateQp(Box::new(self.init(cq, cookie)));
        let (reply, descriptors) = self.ask(&request);
        let Reply::Qp {
            qpn,
            cap,
            send_doorbell,
            receive_doorbell,
        } = reply
        else {
            panic!("{reply:?}");
        };
        let [sends, receives] = descriptors.try_into().expect("two descriptors");
        let queue = |file: OwnedFd, entries, stride, doorbell| {
            let layout = Layout::new(entries, stride).expect("a layout");
            WorkQueue {
                memory: SharedMemory::open(file, layout.words()).expect("the ring"),
                producer: Producer::new(layout),
                doorbell,
            }
        };
        let send = send_stride(cap.max_send_sge, cap.max_inline_data);
        let receive = receive_stride(cap.max_recv_sge);
        QueuePair {
            qpn,
            sends: queue(sends, cap.max_send_wr, send, send_doorbell),
            receives: queue(receives, cap.max_recv_wr, receive, receive_doorbell),
        }
    }

    /// Connects a queue pair to one at a LID.
    pub(crate) fn connect(&self, qpn: u32, lid: u16, peer: u32, timeout: u8) {
        use attribute as a;
        let attributes = QpAttributes {
            qp_access_flags: ALL,
            port_num: 1,
            path_mtu: 4,
            dest_qp_num: peer,
            rq_psn: 5,
            sq_psn: 5,
            ah_attr: AddressAttributes {
                dlid: lid,
                port_num: 1,
                ..AddressAttributes::default()
            },
            max_rd_atomic: 1,
            max_dest_rd_atomic: 1,
            min_rnr_timer: 12,
            timeout,
            retry_cnt: 7,
            rnr_retry: 7,
            ..QpAttributes::default()
        };
        let init = a::STATE | a::PKEY_INDEX | a::PORT | a::ACCESS_FLAGS;
        let path = a::AV | a::PATH_MTU | a::DEST_QPN | a::RQ_PSN;
        let rtr = a::STATE | path | a::MAX_DEST_RD_ATOMIC | a::MIN_RNR_TIMER;
        let retries = a::TIMEOUT | a::RETRY_CNT | a::RNR_RETRY;
        let rts = a::STATE | retries | a::SQ_PSN | a::MAX_QP_RD_ATOMIC;
        for (qp_state, mask) in [(1, init), (2, rtr), (3, rts)] {
            self.done(&Request::ModifyQp {
                qpn,
                mask,
                attributes: Box::new(QpAttributes {
                    qp_state,
                    ..attributes
                }),
            });
        }
    }

    pub(crate) fn piece(&self, word: u64, words: u32) -> Piece {
        Piece {
            address: self.memory.address() + word * 8,
            length: words * 8,
            lkey: self.key,
        }
    }

    pub(crate) fn send(&self, queue: &mut WorkQueue, send: &Send) {
        let mut words = Vec::new();
        send.emit(&mut words);
        self.put(queue, &words);
    }

    pub(crate) fn receive(&self, queue: &mut WorkQueue, wr_id: u64, piece: Piece) {
        let pieces = vec![piece];
        let mut words = Vec::new();
        Receive { wr_id, pieces }.emit(&mut words);
        self.put(queue, &words);
    }

    fn put(&self, queue: &mut WorkQueue, words: &[u64]) {
        let put = queue.producer.push(queue.memory.words(), words);
        assert_eq!(put, Ok(true), "the ring is full");
        self.ring(queue.doorbell);
    }

    pub(crate) fn ring(&self, number: u32) {
        if doorbell::ring(self.page.words(), number) {
            event::signal(&self.doorbell);
        }
    }

    /// Rings whether or not the host says that it sleeps.
    pub(crate) fn ring_loudly(&self, queue: &WorkQueue) {
        self.ring(queue.doorbell);
        event::signal(&self.doorbell);
    }

    /// Whether the host closes the connection, and says nothing before.
    pub(crate) fn is_closed_by_host(&self) -> bool {
        matches!(self.connection.receive(), Ok(None))
    }
}

impl CompletionQueue {
    pub(crate) fn poll(&mut self) -> Option<Completion> {
        let mut words = [0; COMPLETION_WORDS];
        let popped = self.consumer.pop(self.memory.words(), &mut words);
        popped
            .expect("indices in range")
            .then(|| Completion::parse(&words))
    }

    /// Polls until there is a completion.
    pub(crate) fn next(&mut self) -> Completion {
        e2e::within(PATIENCE, "a completion", || {
            self.poll().ok_or_else(|| "none has come".to_owned())
        })
    }
}

/// A signaled request.
pub(crate) fn request(wr_id: u64, opcode: u8, data: Data) -> Send {
    Send {
        wr_id,
        opcode,
        flags: uverbs::entry::send_flag::SIGNALED,
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
