//! Entries of shared queues, in 64-bit words of the machine's byte order.
//!
//! ```text
//!  send request                                        receive request
//!  0  wr_id                                            0  wr_id
//!  1  opcode | flags << 8 | pieces << 16 | imm << 32   1  pieces
//!  2  remote address                                   2.. pieces
//!  3  rkey | inline bytes << 32
//!  4  compare, or what is added                        piece, two words
//!  5  swap                                             0  address
//!  6  address handle | remote queue pair << 32         1  length | lkey << 32
//!  7  Q_Key
//!  8.. pieces; or inline bytes, eight a word, the first one lowest
//!
//!  completion
//!  0  wr_id
//!  1  status | opcode << 32
//!  2  byte_len | imm_data or invalidated rkey << 32
//!  3  queue pair | source queue pair << 32
//!  4  wc_flags | pkey_index << 32 | slid << 48
//!  5  sl | dlid_path_bits << 8 | retired << 32
//!  6  time of the completion, nanoseconds
//!  7  vendor_err
//! ```
//!
//! Immediate data is a plain number here; ibverbs has it in network byte order. `retired` counts the requests of
//! the queue (send or receive, as the opcode says) whose places are free with this completion: those before it
//! that had no completion of their own count in. Of a shared receive queue it is 1.

use bincode::{Decode, Encode};
use thiserror::Error;

/// Words of a send request in front of its pieces or inline bytes.
pub const SEND_WORDS: usize = 8;
/// Words of a receive request in front of its pieces.
pub const RECEIVE_WORDS: usize = 2;
/// Words of a completion.
pub const COMPLETION_WORDS: usize = 8;
/// Words of a piece.
pub const PIECE_WORDS: usize = 2;

/// Flags of a send request: `ibv_send_flags`.
pub mod send_flag {
    /// Waits until the READs and atomics before it are done.
    pub const FENCE: u8 = 1;
    /// Success makes a completion.
    pub const SIGNALED: u8 = 2;
    /// The peer's completion is a solicited event.
    pub const SOLICITED: u8 = 4;
    /// The data is in the entry.
    pub const INLINE: u8 = 8;
}

/// Operations of send requests: `ibv_wr_opcode`.
pub mod opcode {
    /// RDMA WRITE.
    pub const RDMA_WRITE: u8 = 0;
    /// RDMA WRITE with immediate data.
    pub const RDMA_WRITE_WITH_IMM: u8 = 1;
    /// SEND.
    pub const SEND: u8 = 2;
    /// SEND with immediate data.
    pub const SEND_WITH_IMM: u8 = 3;
    /// RDMA READ.
    pub const RDMA_READ: u8 = 4;
    /// Compare and swap.
    pub const ATOMIC_CMP_AND_SWP: u8 = 5;
    /// Fetch and add.
    pub const ATOMIC_FETCH_AND_ADD: u8 = 6;
    /// SEND that invalidates a key of the peer; the key is in the place of immediate data.
    pub const SEND_WITH_INV: u8 = 9;
}

/// Flags of a completion: `ibv_wc_flags`.
pub mod wc_flag {
    /// The first 40 bytes of a datagram hold a global route header.
    pub const GRH: u32 = 1;
    /// There is immediate data.
    pub const WITH_IMM: u32 = 2;
    /// A key was invalidated.
    pub const WITH_INV: u32 = 8;
}

/// The words of an entry make no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("an entry of a shared queue makes no sense: {0}")]
pub struct BadEntry(pub &'static str);

/// A piece of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Piece {
    /// Where it starts.
    pub address: u64,
    /// Its length in bytes.
    pub length: u32,
    /// The local key of its region.
    pub lkey: u32,
}

/// The data of a send request.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Data {
    /// In memory.
    Pieces(Vec<Piece>),
    /// In the entry.
    Inline(Vec<u8>),
}

/// A send request.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Send {
    /// The program's name of it.
    pub wr_id: u64,
    /// What it does: a number of [`opcode`].
    pub opcode: u8,
    /// Flags of [`send_flag`]; [`send_flag::INLINE`] is set where the data is inline, and only there.
    pub flags: u8,
    /// Immediate data, or the key to be invalidated.
    pub immediate: u32,
    /// The peer's memory.
    pub remote_address: u64,
    /// The peer's key.
    pub rkey: u32,
    /// What memory must hold, or what is added.
    pub compare_add: u64,
    /// What is stored.
    pub swap: u64,
    /// Of datagrams: the path.
    pub handle: u32,
    /// Of datagrams: the queue pair.
    pub remote_qpn: u32,
    /// Of datagrams: its key.
    pub remote_qkey: u32,
    /// The data.
    pub data: Data,
}

/// A receive request.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Receive {
    /// The program's name of it.
    pub wr_id: u64,
    /// Where the message goes.
    pub pieces: Vec<Piece>,
}

/// A completion: what `ibv_wc` holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Completion {
    /// The program's name of the request.
    pub wr_id: u64,
    /// How it ended: `ibv_wc_status`.
    pub status: u32,
    /// What it was: `ibv_wc_opcode`.
    pub opcode: u32,
    /// Bytes received or read.
    pub byte_len: u32,
    /// Immediate data, or the key that was invalidated.
    pub immediate: u32,
    /// The queue pair.
    pub qpn: u32,
    /// The queue pair that a datagram comes from.
    pub src_qp: u32,
    /// Flags of [`wc_flag`].
    pub flags: u32,
    /// The index of a datagram's partition.
    pub pkey_index: u16,
    /// The LID that a datagram comes from.
    pub slid: u16,
    /// Service level of a datagram.
    pub sl: u8,
    /// The low bits of the LID that a datagram was sent to.
    pub dlid_path_bits: u8,
    /// How many places of the queue are free with it.
    pub retired: u32,
    /// When it came, nanoseconds.
    pub time_ns: u64,
    /// The adapter's own code of an error.
    pub vendor_err: u32,
}

const fn pair(low: u32, high: u32) -> u64 {
    low as u64 | (high as u64) << 32
}

fn halves(word: u64) -> (u32, u32) {
    let [a, b, c, d, e, f, g, h] = word.to_le_bytes();
    (
        u32::from_le_bytes([a, b, c, d]),
        u32::from_le_bytes([e, f, g, h]),
    )
}

/// Words of a send request with room for so many pieces or inline bytes.
#[must_use]
pub const fn send_stride(pieces: u32, inline_bytes: u32) -> u32 {
    let (pieces, inline) = (pieces.saturating_mul(2), inline_bytes.div_ceil(8));
    let data = if pieces > inline { pieces } else { inline };
    data.saturating_add(8)
}

/// Words of a receive request with room for so many pieces.
#[must_use]
pub const fn receive_stride(pieces: u32) -> u32 {
    pieces.saturating_mul(2).saturating_add(2)
}

fn emit_pieces(pieces: &[Piece], out: &mut Vec<u64>) {
    for piece in pieces {
        out.push(piece.address);
        out.push(pair(piece.length, piece.lkey));
    }
}

fn parse_pieces(words: &[u64], count: usize) -> Result<Vec<Piece>, BadEntry> {
    let words = words.get(..count * PIECE_WORDS);
    let words = words.ok_or(BadEntry("more pieces than an entry has room for"))?;
    let pieces = words.chunks_exact(PIECE_WORDS).map(|words| {
        let (length, lkey) = halves(words[1]);
        Piece {
            address: words[0],
            length,
            lkey,
        }
    });
    Ok(pieces.collect())
}

impl Send {
    /// Writes the request behind what is in `out`.
    pub fn emit(&self, out: &mut Vec<u64>) {
        let (pieces, inline_bytes): (&[Piece], &[u8]) = match &self.data {
            Data::Pieces(pieces) => (pieces, &[]),
            Data::Inline(bytes) => (&[], bytes),
        };
        let flags = match self.data {
            Data::Pieces(_) => self.flags & !send_flag::INLINE,
            Data::Inline(_) => self.flags | send_flag::INLINE,
        };
        let count = u16::try_from(pieces.len()).unwrap_or(u16::MAX);
        let inline = u32::try_from(inline_bytes.len()).unwrap_or(u32::MAX);
        let what = u32::from(self.opcode) | u32::from(flags) << 8 | u32::from(count) << 16;
        out.extend([
            self.wr_id,
            pair(what, self.immediate),
            self.remote_address,
            pair(self.rkey, inline),
            self.compare_add,
            self.swap,
            pair(self.handle, self.remote_qpn),
            u64::from(self.remote_qkey),
        ]);
        emit_pieces(pieces, out);
        for eight in inline_bytes.chunks(8) {
            let mut word = [0; 8];
            word[..eight.len()].copy_from_slice(eight);
            out.push(u64::from_le_bytes(word));
        }
    }

    /// Reads a request.
    ///
    /// # Errors
    /// [`BadEntry`]: more data than the words hold.
    pub fn parse(words: &[u64]) -> Result<Self, BadEntry> {
        let Some((&head, rest)) = words.split_first_chunk::<SEND_WORDS>() else {
            return Err(BadEntry("it is too short"));
        };
        let [
            wr_id,
            what,
            remote_address,
            key,
            compare_add,
            swap,
            to,
            qkey,
        ] = head;
        let (what, immediate) = halves(what);
        let [opcode, flags, low, high] = what.to_le_bytes();
        let (rkey, inline) = halves(key);
        let (handle, remote_qpn) = halves(to);
        let data = if flags & send_flag::INLINE == 0 {
            let count = u16::from_le_bytes([low, high]);
            Data::Pieces(parse_pieces(rest, usize::from(count))?)
        } else {
            let length = usize::try_from(inline).unwrap_or(usize::MAX);
            let words = rest.get(..length.div_ceil(8));
            let words = words.ok_or(BadEntry("more inline bytes than an entry has room for"))?;
            let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            bytes.truncate(length);
            Data::Inline(bytes)
        };
        Ok(Self {
            wr_id,
            opcode,
            flags,
            immediate,
            remote_address,
            rkey,
            compare_add,
            swap,
            handle,
            remote_qpn,
            remote_qkey: halves(qkey).0,
            data,
        })
    }
}

impl Receive {
    /// Writes the request behind what is in `out`.
    pub fn emit(&self, out: &mut Vec<u64>) {
        out.push(self.wr_id);
        out.push(self.pieces.len() as u64);
        emit_pieces(&self.pieces, out);
    }

    /// Reads a request.
    ///
    /// # Errors
    /// [`BadEntry`]: more pieces than the words hold.
    pub fn parse(words: &[u64]) -> Result<Self, BadEntry> {
        let Some((&[wr_id, count], rest)) = words.split_first_chunk::<RECEIVE_WORDS>() else {
            return Err(BadEntry("it is too short"));
        };
        let count = u16::try_from(count).map_err(|_| BadEntry("the count of pieces"))?;
        Ok(Self {
            wr_id,
            pieces: parse_pieces(rest, usize::from(count))?,
        })
    }
}

impl Completion {
    /// The completion's words.
    #[must_use]
    pub fn emit(&self) -> [u64; COMPLETION_WORDS] {
        [
            self.wr_id,
            pair(self.status, self.opcode),
            pair(self.byte_len, self.immediate),
            pair(self.qpn, self.src_qp),
            pair(
                self.flags,
                u32::from(self.pkey_index) | u32::from(self.slid) << 16,
            ),
            pair(
                u32::from(self.sl) | u32::from(self.dlid_path_bits) << 8,
                self.retired,
            ),
            self.time_ns,
            u64::from(self.vendor_err),
        ]
    }

    /// Reads a completion.
    #[must_use]
    pub fn parse(words: &[u64; COMPLETION_WORDS]) -> Self {
        let [wr_id, how, length, pairs, flags, from, time_ns, vendor_err] = *words;
        let (status, opcode) = halves(how);
        let (byte_len, immediate) = halves(length);
        let (qpn, src_qp) = halves(pairs);
        let (flags, origin) = halves(flags);
        let [a, b, c, d] = origin.to_le_bytes();
        let (levels, retired) = halves(from);
        let [sl, dlid_path_bits, ..] = levels.to_le_bytes();
        Self {
            wr_id,
            status,
            opcode,
            byte_len,
            immediate,
            qpn,
            src_qp,
            flags,
            pkey_index: u16::from_le_bytes([a, b]),
            slid: u16::from_le_bytes([c, d]),
            sl,
            dlid_path_bits,
            retired,
            time_ns,
            vendor_err: halves(vendor_err).0,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn piece() -> impl Strategy<Value = Piece> {
        any::<(u64, u32, u32)>().prop_map(|(address, length, lkey)| Piece {
            address,
            length,
            lkey,
        })
    }

    fn data() -> impl Strategy<Value = Data> {
        prop_oneof![
            proptest::collection::vec(piece(), 0..33).prop_map(Data::Pieces),
            proptest::collection::vec(any::<u8>(), 0..300).prop_map(Data::Inline),
        ]
    }

    proptest! {
        #[test]
        fn parse_inverts_emit(
            words in any::<[u64; 5]>(),
            numbers in any::<[u32; 5]>(),
            bytes in any::<[u8; 2]>(),
            data in data(),
        ) {
            let inline = matches!(data, Data::Inline(_));
            let flags = bytes[1] & !send_flag::INLINE;
            let send = Send {
                wr_id: words[0],
                opcode: bytes[0],
                flags: if inline { flags | send_flag::INLINE } else { flags },
                immediate: numbers[0],
                remote_address: words[1],
                rkey: numbers[1],
                compare_add: words[2],
                swap: words[3],
                handle: numbers[2],
                remote_qpn: numbers[3],
                remote_qkey: numbers[4],
                data: data.clone(),
            };
            let mut out = Vec::new();
            send.emit(&mut out);
            prop_assert_eq!(Send::parse(&out), Ok(send));
            for short in 0..out.len() {
                prop_assert!(Send::parse(&out[..short]).is_err());
            }
            let (pieces, inline_bytes) = match &data {
                Data::Pieces(pieces) => (pieces.len(), 0),
                Data::Inline(bytes) => (0, bytes.len()),
            };
            let stride = send_stride(pieces.try_into().unwrap(), inline_bytes.try_into().unwrap());
            prop_assert_eq!(stride as usize, out.len());
            if let Data::Pieces(pieces) = data {
                let receive = Receive { wr_id: words[4], pieces };
                let mut out = Vec::new();
                receive.emit(&mut out);
                let count = receive.pieces.len().try_into().unwrap();
                prop_assert_eq!(receive_stride(count) as usize, out.len());
                prop_assert_eq!(Receive::parse(&out), Ok(receive));
            }
        }

        #[test]
        fn whatever_stands_in_an_entry_nothing_panics(words in proptest::collection::vec(any::<u64>(), 0..80)) {
            let _ = Send::parse(&words);
            let _ = Receive::parse(&words);
        }

        #[test]
        fn a_completion_is_read_as_it_was_written(words in any::<[u64; COMPLETION_WORDS]>()) {
            let completion = Completion::parse(&words);
            prop_assert_eq!(Completion::parse(&completion.emit()), completion);
        }
    }
}
