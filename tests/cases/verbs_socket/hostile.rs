//! Programs that lie to a host: about what they are, what their descriptors are, what stands in their rings, and whose objects they name.

use std::fs::File;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::sync::atomic::Ordering;

use e2e::{Fabric, Transport, within};
use netio::seqpacket::BlockingConnection;
use uverbs::cm::{CmReply, CmRequest};
use uverbs::entry::{Data, opcode};
use uverbs::{AddressAttributes, QpAttributes, Reply, Request, attribute, errno};

use super::library::{
    Library, PATIENCE, QueuePair, connect, exchange, open_request, own_memory, request,
};
use super::{End, pair, socket, work};

const LOCAL_PROTECTION: u32 = 4;
const REMOTE_ACCESS: u32 = 10;

/// What a hostile program may send instead of its memory.
fn other_descriptors() -> Vec<OwnedFd> {
    let open = |path: &str, write| {
        let file = File::options().read(true).write(write).open(path);
        file.unwrap_or_else(|error| panic!("{path}: {error}"))
    };
    vec![
        open("/dev/zero", true).into(),
        open("/proc/self/mem", false).into(),
        open("/proc/self/status", false).into(),
        std::io::pipe().expect("a pipe").0.into(),
    ]
}

fn errno_of(reply: &Reply) -> u16 {
    match reply {
        Reply::Refused { errno, .. } => *errno,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_hostile_program_is_refused_or_disconnected_and_the_others_go_on() {
    let fabric = Fabric::up(Transport::Udp, "star-2", &[]);
    let path = socket(&fabric, "h0");
    for descriptor in other_descriptors() {
        let (reply, _) = exchange(&connect(&path), &open_request(), &[descriptor]);
        assert_eq!(errno_of(&reply), errno::EINVAL, "{reply:?}");
    }
    for (open, descriptors) in [
        (open_request(), 0),
        (open_request(), 2),
        (
            Request::Open {
                version: 0,
                port: 1,
            },
            1,
        ),
        (Request::AllocPd, 1),
    ] {
        let descriptors: Vec<OwnedFd> = (0..descriptors).map(|_| own_memory()).collect();
        let (reply, _) = exchange(&connect(&path), &open, &descriptors);
        assert_eq!(errno_of(&reply), errno::EINVAL, "{open:?}");
    }
    let port = Request::Open {
        version: uverbs::VERSION,
        port: 2,
    };
    let (reply, _) = exchange(&connect(&path), &port, &[own_memory()]);
    assert_eq!(errno_of(&reply), errno::ENOENT);
    let garbage = connect(&path);
    garbage.send(&[0xff; 100]).expect("a host");
    assert!(matches!(garbage.receive(), Ok(None)));

    // Indices and entries that cannot be.
    let lies: [fn(&mut QueuePair); 3] = [
        |qp| qp.sends.memory.words()[8].store(u64::MAX, Ordering::SeqCst),
        |qp| qp.receives.memory.words()[8].store(33, Ordering::SeqCst),
        |qp| {
            let words = qp.sends.memory.words();
            words[32 + 1].store(0xffff << 16, Ordering::SeqCst);
            words[8].store(1, Ordering::SeqCst);
        },
    ];
    for lie in lies {
        let mut end = End::open(&fabric, "h0");
        lie(&mut end.qp);
        for queue in [&end.qp.sends, &end.qp.receives] {
            end.library.ring_loudly(queue);
        }
        assert!(end.library.is_closed_by_host());
    }

    // Doorbells of no queue, and a host that is said to sleep when it does not.
    let mut honest = pair(&fabric, 20);
    for number in 0..uverbs::doorbell::QUEUES_MAX {
        honest[0].library.ring(number);
    }
    honest[0].library.page.words()[0].store(u64::MAX, Ordering::SeqCst);
    let [a, b] = &mut honest;
    b.library.memory.set(0, 5);
    a.remote(b, opcode::RDMA_READ, (3, 1), 0, 0);
    assert_eq!(a.library.memory.get(3), 5);
    work(&fabric);
    fabric.down();
}

/// The descriptors of a host's process.
fn descriptors(fabric: &Fabric, host: &str) -> usize {
    let folder = Path::new("/proc").join(fabric.pid(host).to_string());
    let list = std::fs::read_dir(folder.join("fd"));
    list.expect("a process").count()
}

/// Waits until a host has no descriptors of programs.
fn keeps_nothing(fabric: &Fabric, host: &str, before: usize) {
    within(PATIENCE, "the host has closed all", || {
        match descriptors(fabric, host) {
            now if now == before => Ok(()),
            now => Err(format!("{before} descriptors, then {now}")),
        }
    });
}

#[test]
fn a_completion_queue_whose_reader_lies_fails_alone() {
    let fabric = Fabric::up(Transport::Udp, "star-2", &[]);
    let before = descriptors(&fabric, "h0");
    for lie in [1, 33, 1 << 32, u64::MAX] {
        let [mut a, b] = pair(&fabric, 20);
        // More has been taken than was ever there.
        a.cq.memory.words()[0].store(lie, Ordering::SeqCst);
        let mut write = request(1, opcode::RDMA_WRITE, Data::Inline(vec![1; 8]));
        (write.remote_address, write.rkey) = (b.library.memory.address(), b.library.key);
        a.library.send(&mut a.qp.sends, &write);
        // It goes on beside one that does not lie, of the same program.
        let honest = a.library.cq(64, None, 2);
        let other = a.library.qp(&honest, 3);
        let lid = b.library.device.port.lid;
        b.library.done(&Request::DestroyQp { qpn: b.qp.qpn });
        let fresh = b.library.qp(&b.cq, 4);
        a.library.connect(other.qpn, lid, fresh.qpn, 20);
        let lid = a.library.device.port.lid;
        b.library.connect(fresh.qpn, lid, other.qpn, 20);
        (a.cq, a.qp) = (honest, other);
        a.remote(&b, opcode::RDMA_WRITE, (0, 16), 64, 0);
    }
    keeps_nothing(&fabric, "h0", before);
    work(&fabric);
    fabric.down();
}

#[test]
fn objects_of_another_program_are_out_of_reach() {
    let fabric = Fabric::up(Transport::Udp, "star-2", &[]);
    let [own, owner] = [(); 2].map(|()| End::open(&fabric, "h0"));
    let (pd, qpn, key) = (owner.library.pd, owner.qp.qpn, owner.library.key);
    let Request::RegMr(mut region) = own.library.region() else {
        unreachable!("a registration");
    };
    region.pd = pd;
    let cq = owner.cq.handle;
    let foreign_cq = Request::CreateQp(Box::new(own.library.init(&owner.cq, 5)));
    let modify = Request::ModifyQp {
        qpn,
        mask: attribute::STATE,
        attributes: Box::new(QpAttributes::default()),
    };
    let attributes = AddressAttributes {
        dlid: 1,
        port_num: 1,
        ..AddressAttributes::default()
    };
    let gid = [0xff; 16];
    for request in [
        Request::DeallocPd { pd },
        Request::RegMr(region),
        Request::DeregMr { key },
        Request::CreateAh { pd, attributes },
        Request::DestroyCq { cq },
        Request::ResizeCq { cq, entries: 128 },
        foreign_cq,
        modify,
        Request::QueryQp { qpn },
        Request::AttachMcast { qpn, gid },
        Request::DestroyQp { qpn },
        Request::DestroyChannel { channel: 1 },
    ] {
        let (reply, descriptors) = own.library.ask(&request);
        assert_eq!(errno_of(&reply), errno::ENOENT, "{request:?}");
        assert!(descriptors.is_empty(), "{request:?}");
    }
    owner.library.done(&Request::DestroyQp { qpn });
    fabric.assert_no_errors_logged();
    fabric.down();
}

#[test]
fn memory_of_another_program_is_out_of_reach_by_its_key_and_without_one() {
    let fabric = Fabric::up(Transport::Udp, "star-2", &[]);
    let owner = End::open(&fabric, "h0");
    owner.library.memory.set(0, 0x5ec2e7);
    let (address, key) = (owner.library.memory.address(), owner.library.key);
    // By its key as if it were its own, and by a region of its own over what is mapped nowhere.
    for is_foreign in [true, false] {
        let [mut a, mut b] = pair(&fabric, 20);
        let mut piece = a.library.piece(0, 1);
        (piece.address, piece.lkey) = (address, key);
        if !is_foreign {
            let Request::RegMr(mut nowhere) = a.library.region() else {
                unreachable!("a registration");
            };
            (nowhere.address, nowhere.iova, nowhere.length) = (4096, 4096, 4096);
            (piece.address, piece.lkey) = (4096, a.library.handle(&Request::RegMr(nowhere)));
        }
        let send = request(7, opcode::SEND, Data::Pieces(vec![piece]));
        a.library.send(&mut a.qp.sends, &send);
        assert_eq!(a.cq.next().status, LOCAL_PROTECTION, "{is_foreign}");
        assert!(b.cq.poll().is_none());
    }
    // By its key, with a queue pair of another program of its host.
    let [_near, mut far] = pair(&fabric, 20);
    let place = Data::Pieces(vec![far.library.piece(0, 1)]);
    let mut read = request(8, opcode::RDMA_READ, place);
    (read.remote_address, read.rkey) = (address, key);
    far.library.send(&mut far.qp.sends, &read);
    assert_eq!(far.cq.next().status, REMOTE_ACCESS);
    assert_eq!(far.library.memory.get(0), 0);
    work(&fabric);
    fabric.assert_no_errors_logged();
    fabric.down();
}

#[test]
fn descriptors_that_nobody_asked_for_are_closed() {
    let fabric = Fabric::up(Transport::Udp, "star-2", &[]);
    let path = socket(&fabric, "h0");
    let before = descriptors(&fabric, "h0");
    let library = Library::open(&path);
    let opened = descriptors(&fabric, "h0");
    for round in 0..50 {
        let many: Vec<OwnedFd> = (0..4).map(|_| own_memory()).collect();
        let (reply, _) = library.ask_with(&Request::AllocPd, &many);
        assert!(matches!(reply, Reply::Handle(_)), "{round}: {reply:?}");
    }
    assert_eq!(descriptors(&fabric, "h0"), opened);
    for descriptor in other_descriptors() {
        let _ = exchange(&connect(&path), &open_request(), &[descriptor]);
    }
    drop(library);
    keeps_nothing(&fabric, "h0", before);
    fabric.down();
}

/// A channel of connections.
fn channel(fabric: &Fabric) -> BlockingConnection {
    let path = fabric.dir().join("h0.cm");
    let channel = BlockingConnection::connect(&path, PATIENCE).expect("a host");
    let version = uverbs::cm::VERSION;
    let open = wire::control::encode(&CmRequest::Open { version }).expect("a request");
    channel.send(&open).expect("a host");
    let reply = channel
        .receive()
        .expect("a reply")
        .expect("an open channel");
    let reply: CmReply = wire::control::decode(&reply).expect("a reply");
    assert_eq!((reply.errno, reply.bytes.len()), (0, 8));
    channel
}

/// A command of a program of librdmacm: header and body.
fn command(number: u32, body: &[u8], room: u16) -> Vec<u8> {
    let length = u16::try_from(body.len()).expect("a short body");
    let mut command = number.to_ne_bytes().to_vec();
    command.extend(length.to_ne_bytes());
    command.extend(room.to_ne_bytes());
    command.extend(body);
    command
}

#[test]
fn a_hostile_program_of_librdmacm_is_refused_or_disconnected_and_the_others_go_on() {
    let fabric = Fabric::up(Transport::Udp, "star-2", &[]);
    let before = descriptors(&fabric, "h0");
    let say = |bytes: Vec<u8>| {
        let request = CmRequest::Command {
            bytes,
            value: Vec::new(),
            channel: 1,
        };
        wire::control::encode(&request).expect("a request")
    };
    let create = command(0, &[0; 24], 4);
    // No descriptor for the reply, two of them, no request at all, a first one that does not open.
    channel(&fabric).send(&say(create.clone())).expect("a host");
    for (message, count) in [(say(create.clone()), 2), (vec![0xff; 200], 1)] {
        let channel = channel(&fabric);
        let lent: Vec<OwnedFd> = (0..count).map(|_| own_memory()).collect();
        let lent: Vec<_> = lent.iter().map(OwnedFd::as_fd).collect();
        channel.send_with(&message, &lent).expect("a host");
        assert!(matches!(channel.receive(), Ok(None)));
    }
    let path = fabric.dir().join("h0.cm");
    let unopened = BlockingConnection::connect(&path, PATIENCE).expect("a host");
    unopened.send(&say(create.clone())).expect("a host");
    let reply = unopened.receive().expect("a reply").expect("a refusal");
    let reply: CmReply = wire::control::decode(&reply).expect("a reply");
    assert_eq!(reply.errno, errno::EINVAL);
    // Replies that can go nowhere: the channel serves on.
    let open = channel(&fabric);
    for descriptor in other_descriptors() {
        open.send_with(&say(create.clone()), &[descriptor.as_fd()])
            .expect("a host");
    }
    let open = open.into_descriptor().expect("a descriptor");
    // Every command that is cut short, or full of nonsense, has an errno.
    for number in 0..32 {
        for (length, fill) in [(0, 0), (1, 0xff), (16, 0xff), (48, 0), (600, 0xff)] {
            let bytes = command(number, &vec![fill; length], u16::MAX);
            let reply = netio::seqpacket::send_with_reply(open.as_fd(), &say(bytes));
            let reply = reply.unwrap_or_else(|error| panic!("{number} {length}: {error}"));
            let reply: CmReply = wire::control::decode(&reply).expect("a reply");
            assert!(reply.bytes.len() <= 4096, "{number} {length}: {reply:?}");
        }
    }
    drop(open);
    keeps_nothing(&fabric, "h0", before);
    let _good = channel(&fabric);
    fabric.assert_no_errors_logged();
    fabric.down();
}
