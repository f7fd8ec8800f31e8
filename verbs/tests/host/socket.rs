//! The socket of the model, and when it works.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::thread::{self, JoinHandle};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketType, accept, bind, listen, recvmsg,
    sendmsg, socket,
};
use uverbs::{Reply, doorbell};

use crate::model::Host;

fn serve(connection: &OwnedFd) {
    let (mut host, page) = Host::new();
    assert!(!doorbell::sleep(host.page.words()), "a new page");
    loop {
        let mut polled = [
            PollFd::new(connection, PollFlags::IN),
            PollFd::new(&host.waker, PollFlags::IN),
        ];
        poll(&mut polled, None).expect("poll");
        let requested = !polled[0].revents().is_empty();
        let _ = rustix::io::read(&host.waker, &mut [0; 8]);
        // Before a request is done, so is what the program has posted before it.
        loop {
            doorbell::wake(host.page.words());
            doorbell::take(host.page.words(), |_| {});
            host.work();
            if !doorbell::sleep(host.page.words()) {
                break;
            }
        }
        if !requested {
            continue;
        }
        let mut bytes = vec![0; 1 << 16];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let parts = &mut [IoSliceMut::new(&mut bytes)];
        let received = recvmsg(connection, parts, &mut control, RecvFlags::CMSG_CLOEXEC);
        let Ok(received) = received.map(|received| received.bytes) else {
            return;
        };
        if received == 0 {
            return;
        }
        let descriptors = control.drain().flat_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => descriptors.collect(),
            _ => Vec::new(),
        });
        let descriptors: Vec<OwnedFd> = descriptors.collect();
        let request = wire::control::decode(&bytes[..received]).expect("a request");
        let answered = host.answer(request, descriptors, &page);
        let (reply, descriptors) = answered.unwrap_or_else(|errno| {
            let why = "the model does not".to_owned();
            (Reply::Refused { errno, why }, Vec::new())
        });
        let reply = wire::control::encode(&reply).expect("a reply");
        let borrowed: Vec<BorrowedFd<'_>> = descriptors.iter().map(AsFd::as_fd).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !borrowed.is_empty() {
            assert!(control.push(SendAncillaryMessage::ScmRights(&borrowed)));
        }
        let parts = &[IoSlice::new(&reply)];
        if sendmsg(connection, parts, &mut control, SendFlags::NOSIGNAL).is_err() {
            return;
        }
    }
}

/// Listens at a path, and serves each connection as a context of its own, for as long as this process lives.
pub(crate) fn listen_at(path: &Path) -> JoinHandle<()> {
    let listener = socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).expect("a socket");
    bind(&listener, &SocketAddrUnix::new(path).expect("a short path")).expect("a free path");
    listen(&listener, 8).expect("a listener");
    thread::spawn(move || {
        while let Ok(connection) = accept(&listener) {
            thread::spawn(move || serve(&connection));
        }
    })
}
