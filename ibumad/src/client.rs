//! What the library asks the host, and how MADs go to it and come from it.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use mad::umad::{Adapter, AgentRequest, PART_BYTES, Refusal, Reply, Request};
use netio::seqpacket::{self, BlockingConnection};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, recv, sendmsg};
use wire::convert::{saturate, usize_of};
use wire::umad::UserMadHeader;
use wire::{Format, PortNum};

use crate::environment::{self, Place};

/// How long the host may take to answer, and to take or give the next part of a MAD.
const HOST_TIMEOUT: Duration = Duration::from_secs(10);
/// The same in seconds.
const HOST_TIMEOUT_S: i64 = 10;
/// Before the adapter's position and the number of a descriptor in its address.
const ADDRESS: &str = "ibemu.umad.";
/// How long a call on a descriptor whose host has gone takes at least, so that a program that calls again and
/// again leaves the processors alone.
const GONE_PAUSE: Duration = Duration::from_millis(500);

/// Why something did not work, as an error number of C.
pub type Result<T> = std::result::Result<T, Errno>;

fn errno_of(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

fn errno(refusal: Refusal) -> Errno {
    match refusal {
        Refusal::Invalid => Errno::INVAL,
        Refusal::Absent => Errno::NODEV,
        Refusal::Full => Errno::NOMEM,
        Refusal::Failed => Errno::IO,
    }
}

fn connect(place: &Place) -> Result<BlockingConnection> {
    let connected = BlockingConnection::connect(&place.socket, HOST_TIMEOUT);
    connected.map_err(|error| errno_of(&error.cause))
}

fn ask_by(connection: &BlockingConnection, request: &Request) -> Result<Reply> {
    let message = wire::control::encode(request).map_err(|_| Errno::INVAL)?;
    connection
        .send(&message)
        .map_err(|error| errno_of(&error))?;
    answer(connection)
}

fn answer(connection: &BlockingConnection) -> Result<Reply> {
    let reply = connection.receive().map_err(|error| errno_of(&error))?;
    let reply = reply.ok_or(Errno::IO)?;
    match wire::control::decode(&reply) {
        Ok(Reply::Refused(refusal)) => Err(errno(refusal)),
        Ok(reply) => Ok(reply),
        Err(_) => Err(Errno::IO),
    }
}

fn ask(place: &Place, request: &Request) -> Result<Reply> {
    ask_by(&connect(place)?, request)
}

/// What an adapter is like.
pub(crate) fn describe(place: &Place) -> Result<Adapter> {
    match ask(place, &Request::Describe)? {
        Reply::Adapter(adapter) => Ok(*adapter),
        _ => Err(Errno::IO),
    }
}

/// The file whose readers make a port's IsSM true.
pub(crate) fn is_sm_file(place: &Place, port: u8) -> Result<String> {
    let port = PortNum::new(port);
    match ask(place, &Request::IsSmFile { port })? {
        Reply::IsSmFile { path } => Ok(path),
        _ => Err(Errno::IO),
    }
}

/// Opens a port of the adapter at this position.
pub(crate) fn open(position: usize, place: &Place, port: u8) -> Result<OwnedFd> {
    let random = netio::random::bytes::<16>().map_err(|error| errno_of(&error.cause))?;
    let descriptor = u128::from_ne_bytes(random);
    let address = format!("{ADDRESS}{position}.{descriptor:032x}");
    let connected = BlockingConnection::connect_named(&place.socket, &address, HOST_TIMEOUT);
    let connection = connected.map_err(|error| errno_of(&error.cause))?;
    let port = PortNum::new(port);
    match ask_by(&connection, &Request::Open { port, descriptor })? {
        Reply::Done => connection
            .into_descriptor()
            .map_err(|error| errno_of(&error)),
        _ => Err(Errno::IO),
    }
}

/// The host of a descriptor, and the descriptor's number there.
fn identify(descriptor: BorrowedFd<'_>) -> Result<(Place, u128)> {
    let address = seqpacket::name_of(descriptor).ok_or(Errno::INVAL)?;
    let identity = address.strip_prefix(ADDRESS).and_then(|rest| {
        let (position, number) = rest.split_once('.')?;
        let number = u128::from_str_radix(number, 16).ok()?;
        let mut places = environment::places().into_iter();
        Some((places.nth(position.parse().ok()?)?, number))
    });
    identity.ok_or(Errno::INVAL)
}

/// Registers an agent; its number.
pub(crate) fn register(descriptor: BorrowedFd<'_>, agent: AgentRequest) -> Result<u32> {
    let (place, descriptor) = identify(descriptor)?;
    match ask(&place, &Request::Register { descriptor, agent })? {
        Reply::Registered { agent } => Ok(agent),
        _ => Err(Errno::IO),
    }
}

/// Ends an agent.
pub(crate) fn unregister(descriptor: BorrowedFd<'_>, agent: u32) -> Result<()> {
    let (place, descriptor) = identify(descriptor)?;
    let request = Request::Unregister { descriptor, agent };
    match ask(&place, &request) {
        Ok(Reply::Done) => Ok(()),
        Ok(_) => Err(Errno::IO),
        // What the kernel says of an agent that is not registered.
        Err(Errno::NODEV) => Err(Errno::INVAL),
        Err(error) => Err(error),
    }
}

/// Sends a MAD.
pub(crate) fn send(descriptor: BorrowedFd<'_>, header: &UserMadHeader, mad: &[u8]) -> Result<()> {
    let length = UserMadHeader::LEN + mad.len();
    let header = UserMadHeader {
        length: saturate(length),
        ..*header
    };
    let header = header.to_bytes::<{ UserMadHeader::LEN }>();
    if length > PART_BYTES {
        return send_long(descriptor, &header, mad);
    }
    let parts = [IoSlice::new(&header), IoSlice::new(mad)];
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    loop {
        let mut none = SendAncillaryBuffer::default();
        match sendmsg(descriptor, &parts, &mut none, flags) {
            Ok(_) => return Ok(()),
            Err(Errno::AGAIN) => wait(descriptor, PollFlags::OUT)?,
            Err(Errno::INTR) => {}
            Err(Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN) => return Err(Errno::IO),
            Err(error) => return Err(error),
        }
    }
}

/// Sends a MAD that is longer than a message: by a connection of its own, so that the parts of two stay
/// apart.
fn send_long(descriptor: BorrowedFd<'_>, header: &[u8], mad: &[u8]) -> Result<()> {
    let (place, descriptor) = identify(descriptor)?;
    let length = u32::try_from(header.len() + mad.len()).map_err(|_| Errno::MSGSIZE)?;
    let connection = connect(&place)?;
    let request = Request::Send { descriptor, length };
    let request = wire::control::encode(&request).map_err(|_| Errno::INVAL)?;
    let parts = [request.as_slice(), header];
    for part in parts.into_iter().chain(mad.chunks(PART_BYTES)) {
        connection.send(part).map_err(|error| errno_of(&error))?;
    }
    match answer(&connection)? {
        Reply::Done => Ok(()),
        _ => Err(Errno::IO),
    }
}

/// Waits until a descriptor is ready.
fn wait(descriptor: BorrowedFd<'_>, ready: PollFlags) -> Result<()> {
    let limit = Timespec {
        tv_sec: HOST_TIMEOUT_S,
        tv_nsec: 0,
    };
    let mut polled = [PollFd::from_borrowed_fd(descriptor, ready)];
    match poll(&mut polled, Some(&limit))? {
        0 => Err(Errno::TIMEDOUT),
        _ => Ok(()),
    }
}

/// A MAD that has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// It is in the buffer: header and MAD, so many bytes.
    Whole {
        /// The agent that it is for.
        agent: u32,
        /// How many bytes.
        length: usize,
    },
    /// The buffer is too small for it. It can still be received.
    NeedsRoom {
        /// How many bytes header and MAD take.
        length: usize,
    },
}

/// Takes the next MAD that waits, which a host has sent to the descriptor of an opened port.
///
/// # Errors
/// `AGAIN`: none waits. `INVAL`: what waits is no user MAD. `IO`: the host has ended. `TIMEDOUT`: the rest of a
/// long MAD does not come.
pub fn receive(descriptor: BorrowedFd<'_>, buffer: &mut [MaybeUninit<u8>]) -> Result<Received> {
    let _turn = Turn::take(descriptor);
    let room = buffer.len();
    let peek = RecvFlags::PEEK | RecvFlags::TRUNC | RecvFlags::DONTWAIT;
    let ((seen, _), length) = match recv(descriptor, &mut *buffer, peek) {
        Err(Errno::CONNRESET) => return Err(gone()),
        other => other?,
    };
    if length == 0 {
        return Err(gone());
    }
    let header = UserMadHeader::parse(seen);
    let (header, _) = header.map_err(|_| Errno::INVAL)?;
    let whole = usize_of(header.length);
    if whole > room {
        return Ok(Received::NeedsRoom { length: whole });
    }
    discard(descriptor)?;
    let mut filled = length;
    while filled < whole {
        let rest = buffer.get_mut(filled..whole).ok_or(Errno::IO)?;
        wait(descriptor, PollFlags::IN)?;
        match recv(descriptor, rest, RecvFlags::DONTWAIT) {
            Ok((_, 0)) => return Err(Errno::IO),
            Ok((_, part)) => filled += part,
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Received::Whole {
        agent: header.agent,
        length: whole,
    })
}

/// Takes a message away that has been seen.
fn discard(descriptor: BorrowedFd<'_>) -> Result<()> {
    let mut nothing = [0; 0];
    recv(descriptor, &mut nothing, RecvFlags::DONTWAIT)?;
    Ok(())
}

/// The host of a descriptor has ended.
fn gone() -> Errno {
    std::thread::sleep(GONE_PAUSE);
    Errno::IO
}

/// Descriptors share so many locks.
const LOCKS: usize = 64;
/// The process that has its turn at the descriptors of a lock; 0: none.
static HOLDERS: [AtomicU32; LOCKS] = [const { AtomicU32::new(0) }; LOCKS];
/// How long a thread waits for its turn before it takes it from the holder.
const TURN_TIMEOUT: Duration = Duration::from_secs(30);

/// The turn of one thread to look at a message and to take it away. A lock that another thread held when this
/// process was forked counts as free here: it holds the number of the other process.
struct Turn(&'static AtomicU32);

impl Turn {
    fn take(descriptor: BorrowedFd<'_>) -> Self {
        let number = usize::try_from(descriptor.as_raw_fd()).unwrap_or_default();
        let lock = &HOLDERS[number % LOCKS];
        let own = std::process::id();
        let begun = Instant::now();
        loop {
            let holder = lock.load(Ordering::Relaxed);
            let is_free = holder != own || begun.elapsed() > TURN_TIMEOUT;
            if is_free
                && lock
                    .compare_exchange_weak(holder, own, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
            {
                return Self(lock);
            }
            std::thread::yield_now();
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Release);
    }
}
