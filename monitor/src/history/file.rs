//! A history in a file (docs/formats.md, "History"): chunks of little-endian numbers, each with a check sum.

use std::io::{self, Write};
use std::sync::Arc;

use thiserror::Error;
use wire::convert::{saturate, u64_of, usize_of};

use super::{Frame, History, Point};
use crate::model::{Fabric, Snapshot};

/// What a file begins with.
const MAGIC: [u8; 8] = *b"ibemuhis";
/// The version of the format.
const VERSION: u32 = 2;
/// Magic and version.
const HEAD_LEN: usize = 12;
/// Tag, length and check sum of a chunk.
const CHUNK_HEAD_LEN: usize = 9;
/// The longest chunk, bytes.
const CHUNK_MAX: usize = 64 << 20;
/// The longest event, bytes.
const EVENT_BYTES_MAX: usize = 16 << 10;
/// The most ports of a frame.
const PORTS_MAX: usize = 1 << 18;
/// Place, six rates, and how full the fullest lane is.
const ROW_LEN: usize = 30;
/// A lane that is full.
const FULL: u16 = 1000;
/// Tags of chunks.
const FABRIC: u8 = 1;
const FRAME: u8 = 2;
const ABOUT: u8 = 3;
const EVENT: u8 = 4;

/// Why a file is no history.
#[derive(Debug, Error)]
pub enum HistoryError {
    /// It begins with something else.
    #[error("it is no history of ibemu: it does not begin with `ibemuhis`")]
    NotOne,
    /// Another version of ibemu has written it.
    #[error("it is of version {0}, this ibemu reads version {VERSION}")]
    Version(u32),
    /// It ends too early.
    #[error(
        "it is cut short within the chunk at byte {at}; what stands before that is whole: truncate --size={at} FILE"
    )]
    Truncated {
        /// Where the chunk begins.
        at: usize,
    },
    /// A check sum is wrong, or something that it covers makes no sense.
    #[error("it is damaged: the chunk at byte {at} {what}")]
    Damaged {
        /// Where the chunk begins.
        at: usize,
        /// What is wrong with it.
        what: &'static str,
    },
    /// It cannot be written.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It has as many bytes as it may have.
    #[error("the history has reached its limit of {limit} bytes")]
    Full {
        /// How many that is.
        limit: u64,
    },
}

/// Writes samples to a file as they come.
#[derive(Debug)]
pub struct Recorder<W> {
    out: W,
    /// What the last structure that was written had as its generation.
    generation: Option<u64>,
    written: u64,
    limit: u64,
}

impl<W: Write> Recorder<W> {
    /// Begins a file, which gets at most `limit` bytes.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn new(mut out: W, limit: u64) -> Result<Self, HistoryError> {
        out.write_all(&MAGIC)?;
        out.write_all(&VERSION.to_le_bytes())?;
        Ok(Self {
            out,
            generation: None,
            written: u64_of(HEAD_LEN),
            limit,
        })
    }

    /// Adds what else a reader needs to know ([`History::about`]): JSON. What is added last counts.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub fn about(&mut self, about: &serde_json::Value) -> Result<(), HistoryError> {
        let payload = serde_json::to_vec(about).map_err(io::Error::from)?;
        self.chunk(ABOUT, &payload)
    }

    /// Adds an event: when, milliseconds since 1970, and what.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub fn event(&mut self, at_ms: u64, event: &serde_json::Value) -> Result<(), HistoryError> {
        let mut payload = at_ms.to_le_bytes().to_vec();
        serde_json::to_writer(&mut payload, event).map_err(io::Error::from)?;
        if payload.len() > EVENT_BYTES_MAX {
            return Err(HistoryError::Full {
                limit: u64_of(EVENT_BYTES_MAX),
            });
        }
        self.chunk(EVENT, &payload)
    }

    /// Adds a sample.
    ///
    /// # Errors
    /// [`HistoryError::Full`] at the limit: the sample is not written, and what was is whole. If it cannot be written.
    pub fn add(&mut self, snapshot: &Snapshot) -> Result<(), HistoryError> {
        self.fabric(snapshot.at_ms, &snapshot.fabric)?;
        self.frame(&Frame::of(snapshot))
    }

    fn fabric(&mut self, at_ms: u64, fabric: &Fabric) -> Result<(), HistoryError> {
        if self.generation == Some(fabric.generation) {
            return Ok(());
        }
        let mut payload = at_ms.to_le_bytes().to_vec();
        serde_json::to_writer(&mut payload, fabric).map_err(io::Error::from)?;
        self.chunk(FABRIC, &payload)?;
        self.generation = Some(fabric.generation);
        Ok(())
    }

    fn frame(&mut self, frame: &Frame) -> Result<(), HistoryError> {
        let mut payload = frame.at_ms.to_le_bytes().to_vec();
        let ports: u32 = saturate(frame.points.len());
        payload.extend(ports.to_le_bytes());
        payload.extend(frame.points.iter().map(|point| point.state));
        for (place, point) in (0u32..).zip(&frame.points) {
            let rates = rates(point);
            if rates != [0.0; 6] || point.fill != 0 {
                payload.extend(place.to_le_bytes());
                payload.extend(rates.iter().flat_map(|rate| rate.to_le_bytes()));
                payload.extend(point.fill.to_le_bytes());
            }
        }
        self.chunk(FRAME, &payload)
    }

    fn chunk(&mut self, tag: u8, payload: &[u8]) -> Result<(), HistoryError> {
        let len = u64_of(CHUNK_HEAD_LEN + payload.len());
        if payload.len() > CHUNK_MAX || self.written + len > self.limit {
            return Err(HistoryError::Full { limit: self.limit });
        }
        let mut bytes = Vec::with_capacity(CHUNK_HEAD_LEN + payload.len());
        bytes.push(tag);
        bytes.extend(saturate::<u32>(payload.len()).to_le_bytes());
        bytes.extend(check_sum(tag, payload).to_le_bytes());
        bytes.extend(payload);
        self.out.write_all(&bytes)?;
        self.written += len;
        Ok(())
    }

    /// The file, all of which is handed to the system.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn finish(mut self) -> Result<W, HistoryError> {
        self.out.flush()?;
        Ok(self.out)
    }
}

impl History {
    /// Writes all that it holds.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&self, out: impl Write) -> Result<(), HistoryError> {
        let mut recorder = Recorder::new(out, u64::MAX)?;
        if let Some(about) = &self.about {
            recorder.about(about)?;
        }
        let mut fabrics = self.fabrics.iter().peekable();
        for frame in self.frames() {
            while let Some((at_ms, fabric)) = fabrics.next_if(|(from, _)| *from <= frame.at_ms) {
                recorder.fabric(*at_ms, fabric)?;
            }
            recorder.frame(frame)?;
        }
        for (at_ms, event) in &self.events {
            recorder.event(*at_ms, event)?;
        }
        recorder.finish().map(drop)
    }

    /// The history of a file's bytes; of one that is longer than what is kept, the end.
    ///
    /// # Errors
    /// If it is damaged, or no history.
    pub fn read(bytes: &[u8]) -> Result<Self, HistoryError> {
        let magic = bytes.get(..MAGIC.len());
        if magic != Some(&MAGIC[..]) {
            return Err(HistoryError::NotOne);
        }
        let version = number(bytes, MAGIC.len()).ok_or(HistoryError::Truncated { at: 0 })?;
        if version != VERSION {
            return Err(HistoryError::Version(version));
        }
        let mut history = Self::default();
        let mut at = HEAD_LEN;
        while at < bytes.len() {
            let (tag, payload) = chunk(bytes, at)?;
            let damaged = |what| HistoryError::Damaged { at, what };
            match tag {
                FABRIC => {
                    let (at_ms, json) = moment(payload).ok_or(damaged("has no moment"))?;
                    let fabric = serde_json::from_slice(json);
                    let fabric: Fabric = fabric.map_err(|_| damaged("is no fabric"))?;
                    if !is_sound(&fabric) {
                        return Err(damaged("speaks of nodes or ports that it does not name"));
                    }
                    history.set_fabric(at_ms, &Arc::new(fabric));
                }
                FRAME => {
                    let frame = frame(payload).ok_or(damaged("is no frame"))?;
                    if !history.push_frame(frame) {
                        return Err(damaged("is not later than the one before"));
                    }
                }
                ABOUT => {
                    let about = serde_json::from_slice(payload);
                    history.about = Some(about.map_err(|_| damaged("is no JSON"))?);
                }
                EVENT if payload.len() > EVENT_BYTES_MAX => {
                    return Err(damaged("is an event that is too long"));
                }
                EVENT => {
                    let (at_ms, json) = moment(payload).ok_or(damaged("has no moment"))?;
                    let event = serde_json::from_slice(json);
                    history.push_event(at_ms, event.map_err(|_| damaged("is no JSON"))?);
                }
                _ => return Err(damaged("is of an unknown kind")),
            }
            at += CHUNK_HEAD_LEN + payload.len();
        }
        Ok(history)
    }
}

const fn rates(point: &Point) -> [f32; 6] {
    [
        point.xmit_bytes_per_s,
        point.rcv_bytes_per_s,
        point.xmit_pkts_per_s,
        point.rcv_pkts_per_s,
        point.xmit_wait_per_s,
        point.errors_per_s,
    ]
}

fn check_sum(tag: u8, payload: &[u8]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(&[tag]);
    sum.update(payload);
    sum.finalize()
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    let raw = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_le_bytes(*raw))
}

/// The tag and the payload of the chunk at a byte.
fn chunk(bytes: &[u8], at: usize) -> Result<(u8, &[u8]), HistoryError> {
    let truncated = || HistoryError::Truncated { at };
    let head = bytes.get(at..at + CHUNK_HEAD_LEN).ok_or_else(truncated)?;
    let len = usize_of(number(head, 1).ok_or_else(truncated)?);
    if len > CHUNK_MAX {
        let what = "states a length that none has";
        return Err(HistoryError::Damaged { at, what });
    }
    let from = at + CHUNK_HEAD_LEN;
    let payload = bytes.get(from..from + len).ok_or_else(truncated)?;
    if number(head, 5) != Some(check_sum(head[0], payload)) {
        let what = "does not match its check sum";
        return Err(HistoryError::Damaged { at, what });
    }
    Ok((head[0], payload))
}

/// The moment that a payload begins with, and what is behind.
fn moment(payload: &[u8]) -> Option<(u64, &[u8])> {
    let (raw, rest) = payload.split_first_chunk()?;
    Some((u64::from_le_bytes(*raw), rest))
}

fn frame(payload: &[u8]) -> Option<Frame> {
    let (at_ms, rest) = moment(payload)?;
    let ports = usize_of(number(rest, 0)?);
    let states = rest.get(4..4usize.checked_add(ports)?)?;
    if ports > PORTS_MAX {
        return None;
    }
    let mut points: Box<[Point]> = states
        .iter()
        .map(|&state| Point {
            state,
            ..Point::default()
        })
        .collect();
    let rows = rest[4 + ports..].chunks(ROW_LEN);
    for row in rows {
        let point = points.get_mut(usize_of(number(row, 0)?))?;
        let rate = |at: usize| {
            let rate = f32::from_bits(number(row, 4 + 4 * at)?);
            (rate.is_finite() && rate >= 0.0).then_some(rate)
        };
        *point = Point {
            xmit_bytes_per_s: rate(0)?,
            rcv_bytes_per_s: rate(1)?,
            xmit_pkts_per_s: rate(2)?,
            rcv_pkts_per_s: rate(3)?,
            xmit_wait_per_s: rate(4)?,
            errors_per_s: rate(5)?,
            state: point.state,
            fill: fill(row).filter(|&fill| fill <= FULL)?,
        };
    }
    Some(Frame { at_ms, points })
}

/// How full the fullest lane is, by the row of a port.
fn fill(row: &[u8]) -> Option<u16> {
    let raw = row.get(ROW_LEN - 2..)?.first_chunk()?;
    Some(u16::from_le_bytes(*raw))
}

/// Whether every place names something.
fn is_sound(fabric: &Fabric) -> bool {
    let (nodes, ports) = (&fabric.nodes, &fabric.ports);
    let has_ports = |node: &crate::model::Node| {
        let end = node.first_port.checked_add(node.port_count);
        end.is_some_and(|end| end <= ports.len())
    };
    let leads = |port: &crate::model::Port| {
        port.node < nodes.len() && port.peer.is_none_or(|peer| peer < ports.len())
    };
    ports.len() <= PORTS_MAX && nodes.iter().all(has_ports) && ports.iter().all(leads)
}
