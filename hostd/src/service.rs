//! Payloads of the hosts' own datagrams: pings, traffic and its acknowledgements.
//!
//! All numbers are big endian. Each payload starts with a magic number and a kind, so that a
//! datagram of another origin is recognised as foreign.

use wire::traffic::{KIND_AT, MAGIC as FLOW_MAGIC};
use wire::{Format, Lid, ParseError, TrafficKind};

/// The first four bytes of a ping: "ping".
const ECHO_MAGIC: u32 = 0x7069_6e67;

/// Bytes of a node name in an answer to a ping.
pub(crate) const NAME_LEN: usize = 32;

fn bytes<const N: usize>(raw: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&raw[at..at + N]);
    out
}

fn u16_at(raw: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(bytes(raw, at))
}

fn u32_at(raw: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes(raw, at))
}

fn u64_at(raw: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(bytes(raw, at))
}

fn put<const N: usize>(raw: &mut [u8], at: usize, bytes: [u8; N]) {
    raw[at..at + N].copy_from_slice(&bytes);
}

fn bad(what: &'static str, value: u32) -> ParseError {
    ParseError::BadValue {
        what,
        value: u64::from(value),
    }
}

/// A ping or its answer.
///
/// ```text
/// 0 magic | 4 kind (1 request, 2 answer) | 5 0 | 6 responder's LID | 8 job | 12 target
/// 16 sequence | 20 0 | 24 sent at, ns | 32 responder's name (32)
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Echo {
    /// Whether this is the answer.
    pub(crate) answer: bool,
    /// The responder's base LID; 0 in a request.
    pub(crate) responder: Lid,
    /// Which job of the requester this belongs to.
    pub(crate) job: u32,
    /// Which target of that job.
    pub(crate) target: u32,
    /// Counts the requests to the target.
    pub(crate) sequence: u32,
    /// When the request was sent, nanoseconds of the requester's clock.
    pub(crate) sent_at_ns: u64,
    /// The responder's node description, zero padded; zero in a request.
    pub(crate) name: [u8; NAME_LEN],
}

impl Echo {
    pub(crate) const LEN: usize = 64;
}

impl Format for Echo {
    const NAME: &'static str = "ping";
    const LEN: usize = Self::LEN;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        match (u32_at(raw, 0), raw[4]) {
            (ECHO_MAGIC, 1 | 2) => {}
            (ECHO_MAGIC, kind) => return Err(bad("ping kind", kind.into())),
            (magic, _) => return Err(bad("ping magic", magic)),
        }
        Ok(Self {
            answer: raw[4] == 2,
            responder: Lid::new(u16_at(raw, 6)),
            job: u32_at(raw, 8),
            target: u32_at(raw, 12),
            sequence: u32_at(raw, 16),
            sent_at_ns: u64_at(raw, 24),
            name: bytes(raw, 32),
        })
    }

    fn write(&self, raw: &mut [u8]) {
        put(raw, 0, ECHO_MAGIC.to_be_bytes());
        raw[4] = if self.answer { 2 } else { 1 };
        put(raw, 6, self.responder.get().to_be_bytes());
        put(raw, 8, self.job.to_be_bytes());
        put(raw, 12, self.target.to_be_bytes());
        put(raw, 16, self.sequence.to_be_bytes());
        put(raw, 24, self.sent_at_ns.to_be_bytes());
        put(raw, 32, self.name);
    }
}

/// The head of each datagram of a flow.
///
/// ```text
/// 0 magic | 4 kind | 5 0 | 6 acknowledge every | 8 flow | 12 run | 16 sequence | 24 sent at, ns
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FlowHead {
    /// Its kind.
    pub(crate) kind: TrafficKind,
    /// The sink acknowledges after this many packets; 0: only when it is quiet.
    pub(crate) ack_every: u16,
    /// The flow's number at its source.
    pub(crate) flow: u32,
    /// Number of the run: a flow that replaces one of the same number has another.
    pub(crate) run: u32,
    /// Data: the packet's number, from 0. Query: how many packets have been sent. From the sink:
    /// the number after the highest that has come.
    pub(crate) sequence: u64,
    /// Data: when the packet was queued. Query: when it was sent; a report brings it back.
    pub(crate) sent_at_ns: u64,
}

impl FlowHead {
    pub(crate) const LEN: usize = 32;
    /// Where the sequence stands, for a source that writes it into a ready-made packet.
    pub(crate) const SEQUENCE_AT: usize = 16;
    /// Where the time stands.
    pub(crate) const SENT_AT: usize = 24;
}

impl Format for FlowHead {
    const NAME: &'static str = "traffic";
    const LEN: usize = Self::LEN;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        let magic = u32_at(raw, 0);
        if magic != FLOW_MAGIC {
            return Err(bad("traffic magic", magic));
        }
        Ok(Self {
            kind: TrafficKind::from_code(raw[KIND_AT])
                .ok_or_else(|| bad("traffic kind", raw[KIND_AT].into()))?,
            ack_every: u16_at(raw, 6),
            flow: u32_at(raw, 8),
            run: u32_at(raw, 12),
            sequence: u64_at(raw, 16),
            sent_at_ns: u64_at(raw, 24),
        })
    }

    fn write(&self, raw: &mut [u8]) {
        put(raw, 0, FLOW_MAGIC.to_be_bytes());
        raw[KIND_AT] = self.kind.code();
        put(raw, 6, self.ack_every.to_be_bytes());
        put(raw, 8, self.flow.to_be_bytes());
        put(raw, 12, self.run.to_be_bytes());
        put(raw, Self::SEQUENCE_AT, self.sequence.to_be_bytes());
        put(raw, Self::SENT_AT, self.sent_at_ns.to_be_bytes());
    }
}

/// Behind the head of an acknowledgement or report: what the sink has counted, 8 bytes each in
/// this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SinkCounts {
    pub(crate) received: u64,
    pub(crate) duplicates: u64,
    pub(crate) reordered: u64,
    /// When the last packet came, on the sink's clock.
    pub(crate) last_at_ns: u64,
}

impl SinkCounts {
    pub(crate) const LEN: usize = 32;
}

impl Format for SinkCounts {
    const NAME: &'static str = "sink counts";
    const LEN: usize = Self::LEN;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self {
            received: u64_at(raw, 0),
            duplicates: u64_at(raw, 8),
            reordered: u64_at(raw, 16),
            last_at_ns: u64_at(raw, 24),
        })
    }

    fn write(&self, raw: &mut [u8]) {
        let fields = [
            self.received,
            self.duplicates,
            self.reordered,
            self.last_at_ns,
        ];
        for (at, field) in fields.into_iter().enumerate() {
            put(raw, at * 8, field.to_be_bytes());
        }
    }
}

/// Behind the counts of a report: latency at the sink, 8 bytes each in this order.
impl Format for crate::control::Latency {
    const NAME: &'static str = "latency";
    const LEN: usize = 64;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self {
            samples: u64_at(raw, 0),
            min_ns: u64_at(raw, 8),
            mean_ns: u64_at(raw, 16),
            p50_ns: u64_at(raw, 24),
            p90_ns: u64_at(raw, 32),
            p99_ns: u64_at(raw, 40),
            p999_ns: u64_at(raw, 48),
            max_ns: u64_at(raw, 56),
        })
    }

    fn write(&self, raw: &mut [u8]) {
        let fields = [
            self.samples,
            self.min_ns,
            self.mean_ns,
            self.p50_ns,
            self.p90_ns,
            self.p99_ns,
            self.p999_ns,
            self.max_ns,
        ];
        for (at, field) in fields.into_iter().enumerate() {
            put(raw, at * 8, field.to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::control::Latency;

    fn there_and_back<F: Format + PartialEq + std::fmt::Debug>(value: &F) {
        let mut raw = vec![0xa5; F::LEN + 3];
        value.emit(&mut raw);
        let (back, rest) = F::parse(&raw).unwrap();
        assert_eq!(&back, value);
        assert_eq!(rest, [0xa5; 3]);
        for short in 0..F::LEN {
            assert!(matches!(
                F::parse(&raw[..short]),
                Err(ParseError::Truncated { .. })
            ));
        }
    }

    proptest! {
        #[test]
        fn parse_inverts_emit(n in any::<u64>(), m in any::<u32>(), lid in any::<u16>()) {
            there_and_back(&Echo {
                answer: n & 1 == 1,
                responder: Lid::new(lid),
                job: m,
                target: m ^ 1,
                sequence: m ^ 2,
                sent_at_ns: n,
                name: [7; NAME_LEN],
            });
            for kind in TrafficKind::ALL {
                there_and_back(&FlowHead {
                    kind,
                    ack_every: lid,
                    flow: m,
                    run: m ^ 1,
                    sequence: n,
                    sent_at_ns: n ^ 1,
                });
            }
            there_and_back(&SinkCounts {
                received: n,
                duplicates: n ^ 1,
                reordered: n ^ 2,
                last_at_ns: n ^ 3,
            });
            there_and_back(&Latency { samples: n, p999_ns: n ^ 1, ..Latency::default() });
        }

        #[test]
        fn foreign_bytes_are_refused(raw in prop::collection::vec(any::<u8>(), 0..80)) {
            let foreign = |magic: u32| raw.get(..4).is_none_or(|at| at != magic.to_be_bytes());
            prop_assert!(!foreign(ECHO_MAGIC) || Echo::parse(&raw).is_err());
            prop_assert!(!foreign(FLOW_MAGIC) || FlowHead::parse(&raw).is_err());
        }
    }
}
