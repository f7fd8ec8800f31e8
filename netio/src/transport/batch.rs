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
use std::os::fd::{AsRawFd, BorrowedFd};

use wire::convert::usize_of;

use crate::error::{check, check_len};
use crate::memory::HighWater;

/// Frames that one receiving call takes at most.
pub(crate) const RECEIVE_MAX: usize = 16;

/// Room of a received frame, bytes: an Ethernet frame of MTU 65,535, in whole pages.
const RECEIVE_STRIDE: usize = 17 * 4096;

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

// SAFETY: the raw pointers lead into boxes that the same value owns (the buffers' bases are set
// from an exclusive borrow before every call), so they move between threads with it.
unsafe impl<const N: usize> Send for Vectors<N> {}

/// Received frames.
pub(crate) struct ReceiveBatch {
    memory: Vec<u8>,
    high_water: HighWater,
    vectors: Vectors<RECEIVE_MAX>,
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
        }
    }

    /// Gives memory back that was not needed since the last call. No frame is there afterwards.
    pub(crate) fn review(&mut self) {
        self.high_water.review(&mut self.memory);
    }

    /// Takes what waits at `fd`, [`RECEIVE_MAX`] frames at most, without blocking. Returns how many
    /// were taken; they are there until the next call.
    pub(crate) fn receive(&mut self, fd: BorrowedFd<'_>) -> io::Result<usize> {
        let frames = self.memory.chunks_exact_mut(RECEIVE_STRIDE);
        for (buffer, frame) in self.vectors.buffers.iter_mut().zip(frames) {
            buffer.iov_base = frame.as_mut_ptr().cast();
            buffer.iov_len = frame.len();
        }
        // SAFETY: every header points to its own buffer, and every buffer to its own part of
        // `memory`, which is borrowed exclusively; a null timeout is none.
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
