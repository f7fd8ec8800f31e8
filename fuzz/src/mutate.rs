//! How inputs are changed: what libFuzzer does to bytes, and changes that keep the form of texts
//! and of inputs of several parts.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::{Layout, Parts};

/// Inputs are cut at this length, bytes.
pub const INPUT_MAX: usize = 1 << 16;

/// Numbers at which things change: of any width, cut to the field.
const NUMBERS: [u64; 24] = [
    0,
    1,
    2,
    3,
    4,
    7,
    8,
    15,
    16,
    63,
    64,
    127,
    128,
    254,
    255,
    256,
    0x7fff,
    0xbfff,
    0xc000,
    0xfffe,
    0xffff,
    0x7fff_ffff,
    0x7fff_ffff_ffff_ffff,
    u64::MAX,
];

/// The same in texts, and words that are none.
const WORDS: [&str; 22] = [
    "0",
    "1",
    "-1",
    "255",
    "256",
    "49151",
    "49152",
    "65535",
    "65536",
    "2147483648",
    "4294967296",
    "18446744073709551615",
    "18446744073709551616",
    "0x0",
    "0xffffffffffffffff",
    "1e308",
    "1e400",
    "nan",
    "inf",
    "0.0001",
    "\u{e9}",
    "",
];

/// Words with a meaning in some text format.
const MARKS: &[u8] = b"\n \t\",=[]{}()'\\#:;x0";

/// Changes inputs; the same seed makes the same changes.
#[derive(Debug)]
pub struct Mutator {
    random: ChaCha8Rng,
}

impl Mutator {
    /// The changes of this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            random: ChaCha8Rng::seed_from_u64(seed),
        }
    }

    /// A number below `end`; 0 if that is 0.
    fn below(&mut self, end: usize) -> usize {
        match end {
            0 => 0,
            end => self.random.random_range(0..end),
        }
    }

    /// One of the inputs in `pool`, changed in one to sixteen ways, into `out`.
    pub fn change(&mut self, layout: Layout, pool: &[Vec<u8>], out: &mut Vec<u8>) {
        out.clear();
        if let Some(base) = pool.get(self.below(pool.len())) {
            out.extend_from_slice(base);
        }
        let other = self.below(pool.len());
        let other = pool.get(other).map_or(&[][..], Vec::as_slice);
        for _ in 0..1 << self.below(5) {
            match layout {
                Layout::Parts if self.random.random_bool(0.8) => self.change_parts(other, out),
                Layout::Text if self.random.random_bool(0.6) => self.change_text(other, out),
                Layout::Parts | Layout::Text | Layout::Bytes => self.change_bytes(other, out),
            }
        }
        out.truncate(INPUT_MAX);
    }

    fn change_bytes(&mut self, other: &[u8], out: &mut Vec<u8>) {
        let at = self.below(out.len() + 1);
        let inside = at.min(out.len().saturating_sub(1));
        match self.below(11) {
            0 => out.truncate(at),
            1 => out.insert(at, self.random.random()),
            2 => {
                let end = (at + self.below(64)).min(out.len());
                let copy = out[at..end].to_vec();
                let to = self.below(out.len() + 1);
                out.splice(to..to, copy);
            }
            3 => {
                let end = (at + 1 + self.below(16)).min(out.len());
                out.drain(at..end);
            }
            4 => {
                let from = self.below(other.len());
                let end = (from + self.below(128)).min(other.len());
                out.splice(at..at, other[from..end].iter().copied());
            }
            5 => {
                let from = self.below(other.len());
                let piece = &other[from..(from + self.below(64)).min(other.len())];
                for (to, byte) in out[inside..].iter_mut().zip(piece) {
                    *to = *byte;
                }
            }
            _ if out.is_empty() => out.push(self.random.random()),
            6 | 7 => out[inside] ^= 1 << self.below(8),
            8 => out[inside] = self.random.random(),
            9 => self.number(inside, out),
            _ => {
                let step = u8::try_from(self.below(16)).unwrap_or(1);
                out[inside] = match self.random.random_bool(0.5) {
                    true => out[inside].wrapping_add(step),
                    false => out[inside].wrapping_sub(step),
                };
            }
        }
    }

    /// A number of one to eight bytes at `at`: one at which things change, or a length that may be
    /// that of what follows.
    fn number(&mut self, at: usize, out: &mut [u8]) {
        let width = 1 << self.below(4);
        let rest = (out.len() - at) as u64;
        let value = match self.below(4) {
            0 => rest.wrapping_sub(width as u64),
            1 => rest.wrapping_sub(self.below(8) as u64),
            _ => NUMBERS[self.below(NUMBERS.len())],
        };
        let bytes = match self.random.random_bool(0.7) {
            true => value.to_be_bytes()[8 - width..].to_vec(),
            false => value.to_le_bytes()[..width].to_vec(),
        };
        for (to, byte) in out[at..].iter_mut().zip(bytes) {
            *to = byte;
        }
    }

    /// Words and lines are replaced, doubled, left out, and taken from another text.
    fn change_text(&mut self, other: &[u8], out: &mut Vec<u8>) {
        let line_at = |bytes: &[u8], at: usize| {
            let start = bytes[..at].iter().rposition(|&byte| byte == b'\n');
            let start = start.map_or(0, |start| start + 1);
            let end = bytes[at..].iter().position(|&byte| byte == b'\n');
            start..end.map_or(bytes.len(), |end| at + end + 1)
        };
        let is_word =
            |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
        let word_at = |bytes: &[u8], at: usize| {
            let start = bytes[..at].iter().rposition(|byte| !is_word(byte));
            let start = start.map_or(0, |start| start + 1);
            let end = bytes[at..].iter().position(|byte| !is_word(byte));
            start..end.map_or(bytes.len(), |end| at + end)
        };
        let at = self.below(out.len());
        let from = self.below(other.len());
        match self.below(8) {
            0 => {
                let line = out[line_at(out, at)].to_vec();
                let to = line_at(out, self.below(out.len())).start;
                out.splice(to..to, line);
            }
            1 => {
                out.drain(line_at(out, at));
            }
            2 => {
                let line = other[line_at(other, from)].to_vec();
                let to = line_at(out, at).start;
                out.splice(to..to, line);
            }
            3 | 4 => {
                let word = WORDS[self.below(WORDS.len())];
                out.splice(word_at(out, at), word.bytes());
            }
            5 => {
                let word = out[word_at(out, at)].to_vec();
                let to = self.below(out.len());
                out.splice(word_at(out, to), word);
            }
            6 => {
                let word = other[word_at(other, from)].to_vec();
                out.splice(word_at(out, at), word);
            }
            _ => {
                let mark = MARKS[self.below(MARKS.len())];
                if let Some(byte) = out.get_mut(at) {
                    *byte = mark;
                }
            }
        }
    }

    /// Parts are changed each for itself, doubled, left out, exchanged, and taken from another input.
    fn change_parts(&mut self, other: &[u8], out: &mut Vec<u8>) {
        let mut parts: Vec<Vec<u8>> = Parts::of(out).map(<[u8]>::to_vec).collect();
        let others: Vec<&[u8]> = Parts::of(other).collect();
        let at = self.below(parts.len());
        let to = self.below(parts.len() + 1);
        match self.below(10) {
            0 if !parts.is_empty() => {
                let part = parts[at].clone();
                parts.insert(to, part);
            }
            1 if parts.len() > 1 => {
                parts.remove(at);
            }
            2 if !parts.is_empty() => {
                let with = self.below(parts.len());
                parts.swap(at, with);
            }
            3 | 4 if !others.is_empty() => {
                let from = self.below(others.len());
                let end = (from + 1 + self.below(4)).min(others.len());
                let taken: Vec<Vec<u8>> =
                    others[from..end].iter().map(|part| part.to_vec()).collect();
                parts.splice(to..to, taken);
            }
            _ => {
                let from = others
                    .get(self.below(others.len()))
                    .copied()
                    .unwrap_or_default();
                if let Some(part) = parts.get_mut(at) {
                    self.change_bytes(from, part);
                    part.truncate(usize::from(u16::MAX));
                }
            }
        }
        *out = Parts::join(parts);
    }
}
