//! Local datagram sockets with abstract names (unix(7)): names that live in the network namespace
//! and go with their socket.
//!
//! Abstract names have no owner and no permissions: every process of the namespace can send to one. A receiver
//! that is not connected therefore has the kernel add each sender's credentials.

use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

use rustix::net::sockopt::set_socket_passcred;
use socket2::{Domain, SockAddr, SockAddrStorage, Socket, Type};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::NetError;
use crate::error::check_len;
use crate::poll::register;

/// Room for exactly one control message with a `ucred`. Credentials come first, so no room is left for
/// descriptors that a sender adds: the kernel closes what does not fit.
const CONTROL_BYTES: usize = (size_of::<libc::cmsghdr>() + size_of::<libc::ucred>())
    .next_multiple_of(align_of::<libc::cmsghdr>());

/// The address of a socket.
pub type Address = SockAddr;

/// A received datagram's sender.
#[derive(Clone, Debug)]
pub struct Sender {
    /// Where an answer goes.
    pub address: Address,
    /// Process and user, where the socket asked for them.
    pub credentials: Option<Credentials>,
}

/// The sender of a datagram as the kernel states it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// Process; 0 if it is not of this process's pid namespace.
    pub pid: u32,
    /// User: the real one of the sending process, unless it states its effective or saved one
    /// (`SCM_CREDENTIALS`).
    pub uid: u32,
}

/// A datagram socket with an abstract name.
#[derive(Debug)]
pub struct AbstractSocket {
    fd: AsyncFd<Socket>,
    name: String,
    /// The kernel adds the sender's credentials to every datagram.
    with_credentials: bool,
}

impl AbstractSocket {
    /// Binds to the abstract name `name`. As the C programs on the other side do it, the address
    /// holds the string's closing NUL. To be called inside a tokio runtime with IO.
    ///
    /// # Errors
    /// `AddrInUse` if the name is taken in this network namespace; `InvalidInput` if it is longer
    /// than 106 bytes.
    pub fn bind(name: &str) -> Result<Self, NetError> {
        let failed = |source| NetError::new(format!("bind the abstract socket @{name}"), source);
        let socket = Socket::new(Domain::UNIX, Type::DGRAM.nonblocking(), None).map_err(failed)?;
        socket
            .bind(&address(name).map_err(failed)?)
            .map_err(failed)?;
        Ok(Self {
            fd: register(socket, Interest::READABLE | Interest::WRITABLE).map_err(failed)?,
            name: name.to_owned(),
            with_credentials: false,
        })
    }

    /// From now on sends to, and receives only from, the socket of that abstract name.
    ///
    /// # Errors
    /// `ConnectionRefused` if there is none.
    pub fn connect(&self, name: &str) -> Result<(), NetError> {
        address(name)
            .and_then(|address| self.fd.get_ref().connect(&address))
            .map_err(|source| NetError::new(format!("connect @{} to @{name}", self.name), source))
    }

    /// Has the kernel add the sender's credentials to every datagram.
    ///
    /// # Errors
    /// If it will not.
    pub fn enable_credentials(&mut self) -> Result<(), NetError> {
        set_socket_passcred(self.fd.get_ref(), true)
            .map_err(|errno| NetError::new("ask for the credentials of senders", errno.into()))?;
        self.with_credentials = true;
        Ok(())
    }

    /// The next datagram, cut to the buffer: its length and its sender. Nothing is lost if the
    /// future is dropped.
    ///
    /// # Errors
    /// `ConnectionRefused` or `ConnectionReset` if the connected peer is gone.
    pub async fn receive(&self, buffer: &mut [u8]) -> io::Result<(usize, Sender)> {
        self.fd
            .async_io(Interest::READABLE, |socket| {
                receive(socket, buffer, self.with_credentials)
            })
            .await
    }

    /// Sends to the connected peer if it has room now.
    ///
    /// # Errors
    /// `WouldBlock` if it has none, `ConnectionRefused` if it is gone.
    pub fn try_send(&self, datagram: &[u8]) -> io::Result<()> {
        self.fd.get_ref().send(datagram).map(drop)
    }

    /// Sends to the connected peer; waits while it has no room. If the future is dropped the
    /// datagram has gone whole or not at all.
    ///
    /// # Errors
    /// `ConnectionRefused` if it is gone.
    pub async fn send(&self, datagram: &[u8]) -> io::Result<()> {
        self.fd
            .async_io(Interest::WRITABLE, |socket| socket.send(datagram).map(drop))
            .await
    }

    /// Sends to `receiver`; waits while it has no room, for ever if it never reads. If the future is
    /// dropped the datagram has gone whole or not at all.
    ///
    /// A socket without a peer counts as writable however full its receivers are, but it is woken
    /// when one of them has read something from it, which is when it is worth another attempt.
    ///
    /// # Errors
    /// `ConnectionRefused` if it is gone.
    pub async fn send_to(&self, datagram: &[u8], receiver: &Address) -> io::Result<()> {
        let send = |socket: &Socket| socket.send_to(datagram, receiver).map(drop);
        self.fd.async_io(Interest::WRITABLE, send).await
    }
}

fn address(name: &str) -> io::Result<SockAddr> {
    SockAddr::unix(Path::new(&format!("\0{name}\0")))
}

/// Receives one datagram. By hand, because rustix's credentials have no value for process 0, which
/// is what the kernel states for a sender in another pid namespace.
fn receive(
    socket: &Socket,
    buffer: &mut [u8],
    with_credentials: bool,
) -> io::Result<(usize, Sender)> {
    let mut control = Control([0; CONTROL_BYTES]);
    let mut vector = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    // SAFETY: all fields of the structure are integers and pointers, for which zero is valid.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &raw mut vector;
    header.msg_iovlen = 1;
    if with_credentials {
        header.msg_control = control.0.as_mut_ptr().cast();
        header.msg_controllen = CONTROL_BYTES;
    }
    let receive = |storage: *mut SockAddrStorage, length: *mut libc::socklen_t| {
        header.msg_name = storage.cast();
        // SAFETY: both pointers lead to the address under construction; the header's others to
        // the vector, the caller's buffer and the control buffer, all alive and exclusive.
        unsafe {
            header.msg_namelen = *length;
            let received = check_len(libc::recvmsg(
                socket.as_raw_fd(),
                &raw mut header,
                libc::MSG_CMSG_CLOEXEC,
            ))?;
            *length = header.msg_namelen;
            Ok(received)
        }
    };
    // SAFETY: the kernel has written an address of the length that it states.
    let (length, address) = unsafe { SockAddr::try_init(receive) }?;
    let credentials = credentials(&control, header.msg_controllen);
    Ok((
        length,
        Sender {
            address,
            credentials,
        },
    ))
}

/// A buffer for control messages, aligned as their headers must be.
#[repr(C, align(8))]
struct Control([u8; CONTROL_BYTES]);

/// The credentials in the first control message, if that is what it holds.
fn credentials(control: &Control, length: usize) -> Option<Credentials> {
    let header_bytes = size_of::<libc::cmsghdr>();
    if length < header_bytes + size_of::<libc::ucred>() {
        return None;
    }
    let start = control.0.as_ptr();
    // SAFETY: the buffer is aligned for the header, and is longer than header and
    // credentials; both structures are plain integers.
    let (header, credentials) = unsafe {
        (
            start.cast::<libc::cmsghdr>().read(),
            start.add(header_bytes).cast::<libc::ucred>().read(),
        )
    };
    let is_it = header.cmsg_level == libc::SOL_SOCKET && header.cmsg_type == libc::SCM_CREDENTIALS;
    is_it.then(|| Credentials {
        pid: u32::try_from(credentials.pid).unwrap_or(0),
        uid: credentials.uid,
    })
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::mem::MaybeUninit;
    use std::os::fd::AsFd as _;

    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

    use super::*;
    use crate::other_user::{OTHER_USER, as_other_user};

    fn name(of: &str) -> String {
        format!("netio-test-{}-{of}", std::process::id())
    }

    #[tokio::test]
    async fn a_datagram_comes_with_its_sender_and_can_be_answered() {
        let mut server = AbstractSocket::bind(&name("server")).unwrap();
        server.enable_credentials().unwrap();
        let client = AbstractSocket::bind(&name("client")).unwrap();
        client.connect(&name("server")).unwrap();
        client.try_send(b"request").unwrap();
        let mut buffer = [0; 16];
        let (length, sender) = server.receive(&mut buffer).await.unwrap();
        assert_eq!(&buffer[..length], b"request");
        let expected = Credentials {
            pid: std::process::id(),
            uid: crate::process::effective_uid(),
        };
        assert_eq!(sender.credentials, Some(expected));
        server.send_to(b"answer", &sender.address).await.unwrap();
        let (length, _) = client.receive(&mut buffer).await.unwrap();
        assert_eq!(&buffer[..length], b"answer");
    }

    #[tokio::test]
    async fn a_full_reader_is_waited_for_and_a_dead_one_is_noticed() {
        let sender = AbstractSocket::bind(&name("sender")).unwrap();
        let reader = AbstractSocket::bind(&name("reader")).unwrap();
        sender.connect(&name("reader")).unwrap();
        let full = loop {
            if let Err(error) = sender.try_send(&[1; 288]) {
                break error;
            }
        };
        assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
        let mut buffer = [0; 288];
        let (sent, received) = tokio::join!(sender.send(&[2; 288]), reader.receive(&mut buffer));
        sent.unwrap();
        assert_eq!(received.unwrap().0, 288);
        drop(reader);
        let gone = sender.try_send(&[3; 288]).unwrap_err();
        assert_eq!(gone.kind(), io::ErrorKind::ConnectionRefused);
    }

    #[tokio::test]
    async fn a_full_receiver_is_waited_for_without_a_connection() {
        let sender = AbstractSocket::bind(&name("unconnected")).unwrap();
        let receiver = AbstractSocket::bind(&name("receiver")).unwrap();
        let to = address(&name("receiver")).unwrap();
        let mut sent: u32 = 0;
        let send = async {
            loop {
                sender.send_to(&sent.to_ne_bytes(), &to).await.unwrap();
                sent += 1;
            }
        };
        let mut received: u32 = 0;
        let receive = async {
            tokio::task::yield_now().await;
            let mut buffer = [0; 4];
            while received < 1_000 {
                receiver.receive(&mut buffer).await.unwrap();
                assert_eq!(u32::from_ne_bytes(buffer), received);
                received += 1;
            }
        };
        tokio::select! {
            biased;
            () = send => {}
            () = receive => {}
        }
    }

    /// Sends a datagram with a descriptor: the writing end of a pipe, whose reading end is returned.
    fn send_descriptor(sender: &AbstractSocket) -> std::io::PipeReader {
        let (reader, writer) = std::io::pipe().unwrap();
        let descriptors = [writer.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(control.push(SendAncillaryMessage::ScmRights(&descriptors)));
        let bytes = [std::io::IoSlice::new(b"descriptor")];
        sendmsg(
            sender.fd.get_ref(),
            &bytes,
            &mut control,
            SendFlags::empty(),
        )
        .unwrap();
        reader
    }

    #[tokio::test]
    async fn a_descriptor_that_comes_with_a_message_is_closed() {
        for with_credentials in [false, true] {
            let part = format!("keeper{with_credentials}");
            let mut server = AbstractSocket::bind(&name(&part)).unwrap();
            if with_credentials {
                server.enable_credentials().unwrap();
            }
            let client = AbstractSocket::bind(&name(&format!("giver{with_credentials}"))).unwrap();
            client.connect(&name(&part)).unwrap();
            let mut reader = send_descriptor(&client);
            let mut buffer = [0; 16];
            let (length, sender) = server.receive(&mut buffer).await.unwrap();
            assert_eq!(&buffer[..length], b"descriptor");
            assert_eq!(sender.credentials.is_some(), with_credentials);
            rustix::io::ioctl_fionbio(&reader, true).unwrap();
            // The end of the pipe: no process has its writing end open. Else reading would block.
            assert_eq!(reader.read(&mut [0; 1]).unwrap(), 0, "{with_credentials}");
        }
    }

    #[tokio::test]
    async fn a_datagram_of_another_user_shows_that_user() {
        let mut server = AbstractSocket::bind(&name("asked")).unwrap();
        server.enable_credentials().unwrap();
        let to = address(&name("asked")).unwrap();
        as_other_user(|| {
            let client = Socket::new(Domain::UNIX, Type::DGRAM, None).unwrap();
            client.send_to(b"request", &to).unwrap();
        });
        let (_, sender) = server.receive(&mut [0; 16]).await.unwrap();
        let uid = sender.credentials.map(|credentials| credentials.uid);
        assert_eq!(uid, Some(OTHER_USER));
    }

    #[tokio::test]
    async fn a_name_is_taken_once() {
        let _first = AbstractSocket::bind(&name("taken")).unwrap();
        let error = AbstractSocket::bind(&name("taken")).unwrap_err();
        assert_eq!(error.cause.kind(), io::ErrorKind::AddrInUse);
    }
}
