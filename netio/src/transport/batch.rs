//! Many frames in one system call: `recvmmsg` and `sendmmsg` over memory that is allocated once and
//! shared by all links of a daemon.
//!
//! The memory is asked for zeroed and so costs nothing until it is touched: an idle daemon holds the
//! pages of one or two short frames. What a busy time has touched is given back after it
//! ([`crate::memory`]).
//!
//! The calls are made by hand: rustix has no `recvmmsg`, and its `sendmmsg` builds headers for every
//! call that here are prepared once.

use std::io;
use std::mem::{size_of, size_of_val};
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};

use wire::convert::usize_of;

use super::tunnel::RECORD_ROOM;
use crate::error::{check, check_len};
use crate::memory::HighWater;

/// Frames that one receiving call takes at most.
pub(crate) const RECEIVE_MAX: usize = 16;

/// Room of a received frame, bytes: an Ethernet frame of MTU 65,535, in whole pages; behind the beginning of a record that a
/// tunnel puts in front.
const RECEIVE_STRIDE: usize = RECORD_ROOM + 17 * 4096;

/// Bytes of room for what the system says of a bundle: one control message with a number.
const CONTROL_WORDS: usize = 4;

/// Frames that one sending call takes at most.
const SEND_MAX: usize = 64;

/// Bytes that one sending call takes at most.
const SEND_BYTES: usize = 256 * 1024;

/// Arrays that the kernel reads: one header and one buffer a frame.
struct Vectors<const N: usize> {
    headers: Box<[libc::mmsghdr; N]>,
    buffers: Box<[libc::iovec; N]>,
}

impl<const N: usize> Vectors<N> {
    fn new() -> Self {
        // SAFETY: all fields of both structures are integers and pointers, for which zero is a
        // valid value.
        let (headers, buffers) = unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        let mut vectors = Self {
            headers: Box::new([headers; N]),
            buffers: Box::new([buffers; N]),
        };
        let buffers = vectors.buffers.as_mut_ptr();
        for (index, header) in vectors.headers.iter_mut().enumerate() {
            // SAFETY: `index` is below N, the length of the array; the box never moves its content.
            header.msg_hdr.msg_iov = unsafe { buffers.add(index) };
            header.msg_hdr.msg_iovlen = 1;
        }
        vectors
    }
}

// SAFETY: the raw pointers lead into boxes that the same value owns (the buffers' bases and the control memory are set
// from an exclusive borrow before every call), so they move between threads with it.
unsafe impl<const N: usize> Send for Vectors<N> {}

/// Received frames.
pub(crate) struct ReceiveBatch {
    memory: Vec<u8>,
    high_water: HighWater,
    vectors: Vectors<RECEIVE_MAX>,
    /// What the system says of each bundle.
    controls: Box<[[u64; CONTROL_WORDS]; RECEIVE_MAX]>,
}

/// One received frame.
pub(crate) struct Received<'a> {
    /// The received bytes, cut to the room of the buffer.
    pub bytes: &'a [u8],
    /// Whether it was longer than that.
    pub truncated: bool,
}

impl ReceiveBatch {
    pub(crate) fn new() -> Self {
        Self {
            memory: vec![0; RECEIVE_MAX * RECEIVE_STRIDE],
            high_water: HighWater::default(),
            vectors: Vectors::new(),
            controls: Box::new([[0; CONTROL_WORDS]; RECEIVE_MAX]),
        }
    }

    /// Gives memory back that was not needed since the last call. No frame is there afterwards.
    pub(crate) fn review(&mut self) {
        self.high_water.review(&mut self.memory);
    }

    /// Takes what waits at `fd`, [`RECEIVE_MAX`] frames at most, without blocking. Returns how many
    /// were taken; they are there until the next call.
    pub(crate) fn receive(&mut self, fd: BorrowedFd<'_>) -> io::Result<usize> {
        for header in self.vectors.headers.iter_mut() {
            header.msg_hdr.msg_control = std::ptr::null_mut();
            header.msg_hdr.msg_controllen = 0;
        }
        self.receive_behind(0, fd)
    }

    /// As [`Self::receive`]; several datagrams of one length may come as one, in front of which [`RECORD_ROOM`] bytes stay free.
    /// They are there as [`Self::bundle`].
    pub(crate) fn receive_bundles(&mut self, fd: BorrowedFd<'_>) -> io::Result<usize> {
        let controls = self.controls.iter_mut();
        for (header, control) in self.vectors.headers.iter_mut().zip(controls) {
            header.msg_hdr.msg_controllen = size_of_val(control);
            header.msg_hdr.msg_control = control.as_mut_ptr().cast();
        }
        self.receive_behind(RECORD_ROOM, fd)
    }

    fn receive_behind(&mut self, room: usize, fd: BorrowedFd<'_>) -> io::Result<usize> {
        let frames = self.memory.chunks_exact_mut(RECEIVE_STRIDE);
        for (buffer, frame) in self.vectors.buffers.iter_mut().zip(frames) {
            let frame = &mut frame[room..];
            buffer.iov_base = frame.as_mut_ptr().cast();
            buffer.iov_len = frame.len();
        }
        // SAFETY: every header points to its own buffer, and every buffer to its own part of
        // `memory`, which is borrowed exclusively; so does its control memory, if it has some, to its own part of
        // `controls`, with that length. A null timeout is none.
        let count = check(unsafe {
            libc::recvmmsg(
                fd.as_raw_fd(),
                self.vectors.headers.as_mut_ptr(),
                libc::c_uint::try_from(RECEIVE_MAX).unwrap_or(0),
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
            )
        })?;
        let count = usize::try_from(count).unwrap_or(0);
        if let Some(last) = count.checked_sub(1) {
            let longest = self.vectors.headers[..count]
                .iter()
                .map(|header| header.msg_len);
            let longest = longest.max().unwrap_or(0);
            self.high_water
                .note(last * RECEIVE_STRIDE + usize_of(longest));
        }
        Ok(count)
    }

    /// The `index`th bundle that the last call of [`Self::receive_bundles`] took: memory, where in it the datagrams stand, and how long
    /// each is but for the last. One that was cut by the system is empty: no datagram is so long.
    pub(crate) fn bundle(&mut self, index: usize) -> (&mut [u8], Range<usize>, usize) {
        let header = &self.vectors.headers[index];
        let length = match header.msg_hdr.msg_flags & libc::MSG_TRUNC {
            0 => usize_of(header.msg_len),
            _ => 0,
        };
        let length = length.min(RECEIVE_STRIDE - RECORD_ROOM);
        let each = datagram_bytes(&header.msg_hdr).unwrap_or(length);
        let start = index * RECEIVE_STRIDE;
        let memory = &mut self.memory[start..start + RECEIVE_STRIDE];
        (memory, RECORD_ROOM..RECORD_ROOM + length, each)
    }

    /// Room for one frame at a time, from elsewhere than a socket.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        &mut self.memory[..RECEIVE_STRIDE]
    }

    /// The frame of so many bytes that was put into [`Self::room`].
    pub(crate) fn in_room(&mut self, length: usize) -> &[u8] {
        self.high_water.note(length);
        &self.memory[..length]
    }

    /// The `index`th frame that the last call took.
    pub(crate) fn frame(&self, index: usize) -> Received<'_> {
        let header = &self.vectors.headers[index];
        let length = usize::try_from(header.msg_len)
            .unwrap_or(0)
            .min(RECEIVE_STRIDE);
        let start = index * RECEIVE_STRIDE;
        Received {
            bytes: &self.memory[start..start + length],
            truncated: header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
        }
    }
}

/// How long the datagrams are that the system has put into one (`UDP_GRO`), if it has.
fn datagram_bytes(header: &libc::msghdr) -> Option<usize> {
    // SAFETY: the header and its control memory are as the system has filled them in: the macros look at no more than
    // `msg_controllen` bytes of it.
    let first = unsafe { libc::CMSG_FIRSTHDR(header) };
    // SAFETY: it is null, or points to a whole header of a message in that memory.
    let message = unsafe { first.as_ref() }?;
    if message.cmsg_level != libc::SOL_UDP || message.cmsg_type != libc::UDP_GRO {
        return None;
    }
    // SAFETY: the address of the data behind a header that is there.
    let data = unsafe { libc::CMSG_DATA(first) };
    let end = message.cmsg_len;
    let has_number = end >= data.addr() - first.addr() + size_of::<libc::c_int>();
    // SAFETY: the message is long enough for a number, which need not be aligned.
    let number = has_number.then(|| unsafe { data.cast::<libc::c_int>().read_unaligned() })?;
    usize::try_from(number).ok().filter(|&bytes| bytes > 0)
}

/// Frames to be sent, one behind the other.
pub(crate) struct SendBatch {
    memory: Vec<u8>,
    high_water: HighWater,
    vectors: Vectors<SEND_MAX>,
    /// Where each frame starts and ends.
    bounds: [(usize, usize); SEND_MAX],
    count: usize,
    used: usize,
}

impl SendBatch {
    pub(crate) fn new() -> Self {
        Self {
            memory: vec![0; SEND_BYTES],
            high_water: HighWater::default(),
            vectors: Vectors::new(),
            bounds: [(0, 0); SEND_MAX],
            count: 0,
            used: 0,
        }
    }

    /// Forgets all frames, and gives memory back that was not needed since the last call.
    pub(crate) fn review(&mut self) {
        self.clear();
        self.high_water.review(&mut self.memory);
    }

    /// Forgets all frames.
    pub(crate) fn clear(&mut self) {
        self.count = 0;
        self.used = 0;
    }

    /// How many frames there are.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// How many bytes they have, about.
    pub(crate) fn bytes(&self) -> usize {
        self.used
    }

    /// Room for one more frame of `length` bytes at most; `None` if the batch is full.
    pub(crate) fn room(&mut self, length: usize) -> Option<&mut [u8]> {
        if self.count == SEND_MAX || length > self.memory.len() - self.used {
            return None;
        }
        Some(&mut self.memory[self.used..self.used + length])
    }

    /// Makes the first `length` bytes of the room given last a frame.
    pub(crate) fn commit(&mut self, length: usize) {
        let end = self.used + length;
        self.bounds[self.count] = (self.used, end);
        self.count += 1;
        self.high_water.note(end);
        // Each frame starts on a cache line of its own.
        self.used = end.next_multiple_of(64).min(self.memory.len());
    }

    /// The `index`th frame.
    pub(crate) fn frame(&self, index: usize) -> &[u8] {
        let (start, end) = self.bounds[index];
        &self.memory[start..end]
    }

    /// Sends the frames from the `first`th on, without blocking. Returns how many were taken, at
    /// least one. Mostly there is one: then the system has no headers to read.
    pub(crate) fn send(&mut self, fd: BorrowedFd<'_>, first: usize) -> io::Result<usize> {
        let frames = first..self.count;
        if frames.len() == 1 {
            let frame = self.frame(first);
            // SAFETY: the frame lies in `memory`, which nobody writes meanwhile.
            let sent = unsafe {
                libc::send(
                    fd.as_raw_fd(),
                    frame.as_ptr().cast(),
                    frame.len(),
                    libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
                )
            };
            return check_len(sent).map(|_| 1);
        }
        for index in frames.clone() {
            let (start, end) = self.bounds[index];
            let buffer = &mut self.vectors.buffers[index];
            buffer.iov_base = self.memory[start..end].as_mut_ptr().cast();
            buffer.iov_len = end - start;
        }
        let headers = &mut self.vectors.headers[frames];
        // SAFETY: the headers point to buffers whose bases and lengths were just set to frames
        // inside `memory`, which is borrowed exclusively.
        let count = check(unsafe {
            libc::sendmmsg(
                fd.as_raw_fd(),
                headers.as_mut_ptr(),
                libc::c_uint::try_from(headers.len()).unwrap_or(0),
                libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
            )
        })?;
        Ok(usize::try_from(count).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn frames_of_all_sizes_cross_in_one_call_each_way() {
        let from = UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = UdpSocket::bind("127.0.0.1:0").unwrap();
        from.connect(to.local_addr().unwrap()).unwrap();
        let mut send = SendBatch::new();
        for (index, length) in [1usize, 64, 1500, 60_000].into_iter().enumerate() {
            let room = send.room(60_000).unwrap();
            room[..length].fill(u8::try_from(index).unwrap());
            send.commit(length);
        }
        assert_eq!(send.send(from.as_fd(), 1).unwrap(), 3);
        assert_eq!(send.send(from.as_fd(), 3).unwrap(), 1, "alone");
        let mut receive = ReceiveBatch::new();
        assert_eq!(receive.receive(to.as_fd()).unwrap(), 4);
        for (index, sent) in [1, 2, 3, 3].into_iter().enumerate() {
            let frame = receive.frame(index);
            assert!(!frame.truncated);
            assert_eq!(frame.bytes, send.frame(sent));
            assert_eq!(frame.bytes.len(), [1, 64, 1500, 60_000][sent]);
        }
        assert_eq!(
            receive.receive(to.as_fd()).unwrap_err().kind(),
            io::ErrorKind::WouldBlock
        );
    }

    #[test]
    fn a_full_batch_offers_no_room() {
        let mut send = SendBatch::new();
        for _ in 0..SEND_MAX {
            send.room(100).unwrap();
            send.commit(100);
        }
        assert!(send.room(1).is_none());
        send.clear();
        for _ in 0..SEND_BYTES / 60_000 {
            send.room(60_000).unwrap();
            send.commit(60_000);
        }
        assert!(send.room(60_000).is_none());
    }
}
