//! Packets of every transport service: headers to and from bytes, with a payload that is written in place.
//!
//! ```text
//! LRH (8) | GRH (40)? | BTH (12) | extended headers | payload | pad (0..=3) | ICRC (4) | VCRC (2)
//! ```
//!
//! The extended headers follow from the opcode ([`Opcode::extensions`]).

use crate::format::{put_u16, put_u32, u32_at};
use crate::packet::{DataPacket, GlobalRoute, ICRC_LEN, Transport, VCRC_LEN};
use crate::{
    Aeth, AtomicAckEth, AtomicEth, Bth, Deth, EmitError, Format as _, Grh, Lid, Lnh, Lrh, Opcode,
    ParseError, Reth, Sl, Vl, crc,
};

/// An extended transport header (IBA 9.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Extension {
    /// [`Deth`].
    Deth,
    /// [`Reth`].
    Reth,
    /// [`AtomicEth`].
    Atomic,
    /// [`Aeth`].
    Aeth,
    /// [`AtomicAckEth`].
    AtomicAck,
    /// Immediate data: ImmDt.
    Immediate,
    /// The remote key to be invalidated: IETH.
    Invalidate,
}

impl Extension {
    /// The length in bytes.
    #[must_use]
    pub const fn len(self) -> usize {
        match self {
            Self::Deth => Deth::LEN,
            Self::Reth => Reth::LEN,
            Self::Atomic => AtomicEth::LEN,
            Self::Aeth => Aeth::LEN,
            Self::AtomicAck => AtomicAckEth::LEN,
            Self::Immediate | Self::Invalidate => 4,
        }
    }

    /// Always false.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        false
    }
}

/// The extended headers of a packet. Those that its opcode does not have are `None`; when emitting, one that
/// it has and that is `None` is written as zeroes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ExtendedHeaders {
    /// Datagram header.
    pub deth: Option<Deth>,
    /// RDMA header.
    pub reth: Option<Reth>,
    /// Atomic header.
    pub atomic: Option<AtomicEth>,
    /// ACK header.
    pub aeth: Option<Aeth>,
    /// Atomic ACK header.
    pub atomic_ack: Option<AtomicAckEth>,
    /// Immediate data.
    pub immediate: Option<u32>,
    /// Remote key to be invalidated.
    pub invalidate: Option<u32>,
}

impl ExtendedHeaders {
    /// Their length in bytes in a packet of this opcode.
    #[must_use]
    pub fn len_of(opcode: Opcode) -> usize {
        let extensions = opcode.extensions().unwrap_or_default();
        extensions.iter().map(|extension| extension.len()).sum()
    }

    /// Reads the headers of a packet of this opcode and returns them with what follows.
    ///
    /// # Errors
    /// [`ParseError::BadValue`] for an opcode without meaning; [`ParseError::Truncated`].
    #[inline]
    pub fn parse(opcode: Opcode, bytes: &[u8]) -> Result<(Self, &[u8]), ParseError> {
        let Some(extensions) = opcode.extensions() else {
            return Err(ParseError::BadValue {
                what: "BTH:OpCode",
                value: u64::from(opcode.0),
            });
        };
        let mut headers = Self::default();
        let mut rest = bytes;
        for &extension in extensions {
            rest = headers.parse_one(extension, rest)?;
        }
        Ok((headers, rest))
    }

    fn parse_one<'a>(
        &mut self,
        extension: Extension,
        bytes: &'a [u8],
    ) -> Result<&'a [u8], ParseError> {
        fn keep<'a, T>(slot: &mut Option<T>, (value, rest): (T, &'a [u8])) -> &'a [u8] {
            *slot = Some(value);
            rest
        }
        Ok(match extension {
            Extension::Deth => keep(&mut self.deth, Deth::parse(bytes)?),
            Extension::Reth => keep(&mut self.reth, Reth::parse(bytes)?),
            Extension::Atomic => keep(&mut self.atomic, AtomicEth::parse(bytes)?),
            Extension::Aeth => keep(&mut self.aeth, Aeth::parse(bytes)?),
            Extension::AtomicAck => keep(&mut self.atomic_ack, AtomicAckEth::parse(bytes)?),
            Extension::Immediate => keep(&mut self.immediate, word("ImmDt", bytes)?),
            Extension::Invalidate => keep(&mut self.invalidate, word("IETH", bytes)?),
        })
    }

    /// Writes the headers of a packet of this opcode and returns their length.
    fn emit(&self, opcode: Opcode, out: &mut [u8]) -> usize {
        let mut at = 0;
        for &extension in opcode.extensions().unwrap_or_default() {
            let raw = &mut out[at..at + extension.len()];
            raw.fill(0);
            match extension {
                Extension::Deth => self.deth.iter().for_each(|header| header.emit(raw)),
                Extension::Reth => self.reth.iter().for_each(|header| header.emit(raw)),
                Extension::Atomic => self.atomic.iter().for_each(|header| header.emit(raw)),
                Extension::Aeth => self.aeth.iter().for_each(|header| header.emit(raw)),
                Extension::AtomicAck => {
                    self.atomic_ack.iter().for_each(|header| header.emit(raw));
                }
                Extension::Immediate => put_u32(raw, 0, self.immediate.unwrap_or_default()),
                Extension::Invalidate => put_u32(raw, 0, self.invalidate.unwrap_or_default()),
            }
            at += extension.len();
        }
        at
    }
}

fn word<'a>(what: &'static str, bytes: &'a [u8]) -> Result<(u32, &'a [u8]), ParseError> {
    match bytes.split_at_checked(4) {
        Some((raw, rest)) => Ok((u32_at(raw, 0), rest)),
        None => Err(ParseError::Truncated {
            what,
            need: 4,
            have: bytes.len(),
        }),
    }
}

/// All headers of a packet of any transport service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IbaPacket {
    /// Virtual lane.
    pub vl: Vl,
    /// Service level.
    pub sl: Sl,
    /// Destination LID.
    pub dlid: Lid,
    /// Source LID.
    pub slid: Lid,
    /// Global route; `None` leaves the header out.
    pub global: Option<GlobalRoute>,
    /// Base transport header. Its pad count is set by the payload when emitting.
    pub bth: Bth,
    /// Extended headers as the opcode has them.
    pub extended: ExtendedHeaders,
}

impl IbaPacket {
    /// The length of everything in front of the payload, in bytes.
    #[must_use]
    pub fn payload_at(&self) -> usize {
        let grh = if self.global.is_some() { Grh::LEN } else { 0 };
        Lrh::LEN + grh + Bth::LEN + ExtendedHeaders::len_of(self.bth.opcode)
    }

    /// The length of the link packet with such a payload in bytes, VCRC included.
    #[must_use]
    pub fn len(&self, payload_len: usize) -> usize {
        self.payload_at() + payload_len.next_multiple_of(4) + ICRC_LEN + VCRC_LEN
    }

    /// Writes the whole packet to the front of `out`, its payload by `fill`, and returns its length. `fill`
    /// gets exactly `payload_len` bytes whose content is undefined; what it fails with is returned in the
    /// inner result, and `out` is then of no use.
    ///
    /// # Errors
    /// [`EmitError::NoRoom`] if `out` is too short; [`EmitError::TooLong`] if PktLen cannot state the length.
    #[inline]
    pub fn emit_with<E>(
        &self,
        payload_len: usize,
        out: &mut [u8],
        fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<Result<usize, E>, EmitError> {
        const WHAT: &str = "IBA packet";
        let (need, have) = (self.len(payload_len), out.len());
        let Some(out) = out.get_mut(..need) else {
            let what = WHAT;
            return Err(EmitError::NoRoom { what, need, have });
        };
        let (icrc_at, vcrc_at) = (need - VCRC_LEN - ICRC_LEN, need - VCRC_LEN);
        let pkt_len_words = match u16::try_from(need / 4) {
            Ok(words) if words <= Lrh::PKT_LEN_MAX => words,
            _ => {
                return Err(EmitError::TooLong {
                    what: WHAT,
                    len: need,
                    max: usize::from(Lrh::PKT_LEN_MAX) * 4 + VCRC_LEN,
                });
            }
        };
        let mut at = self.emit_routes(pkt_len_words, out);
        let padded = payload_len.next_multiple_of(4);
        let bth = Bth {
            pad: u8::try_from(padded - payload_len).unwrap_or_default(),
            ..self.bth
        };
        bth.emit(&mut out[at..]);
        at += Bth::LEN;
        at += self.extended.emit(self.bth.opcode, &mut out[at..]);
        let (payload, pad) = out[at..icrc_at].split_at_mut(payload_len);
        pad.fill(0);
        if let Err(error) = fill(payload) {
            return Ok(Err(error));
        }
        let icrc = crc::icrc(&out[..icrc_at]);
        put_u32(out, icrc_at, icrc);
        let vcrc = crc::vcrc(&out[..vcrc_at]);
        put_u16(out, vcrc_at, vcrc);
        Ok(Ok(need))
    }

    /// Writes LRH and GRH and returns their length.
    fn emit_routes(&self, pkt_len_words: u16, out: &mut [u8]) -> usize {
        let lrh = Lrh {
            vl: self.vl,
            lver: Lrh::VERSION,
            sl: self.sl,
            lnh: match self.global {
                Some(_) => Lnh::IbaGlobal,
                None => Lnh::IbaLocal,
            },
            dlid: self.dlid,
            pkt_len_words,
            slid: self.slid,
        };
        lrh.emit(out);
        let Some(global) = self.global else {
            return Lrh::LEN;
        };
        // PktLen counts words up to the ICRC: what follows the GRH is shorter than 8 KiB.
        let pay_len = (pkt_len_words * 4).saturating_sub(48);
        let grh = Grh {
            tclass: global.tclass,
            flow_label: global.flow_label,
            pay_len,
            next_header: Grh::NEXT_HEADER,
            hop_limit: global.hop_limit,
            sgid: global.sgid,
            dgid: global.dgid,
        };
        grh.emit(&mut out[Lrh::LEN..]);
        Lrh::LEN + Grh::LEN
    }

    /// Reads a packet and returns its headers and payload, without pad. Neither CRC is looked at.
    ///
    /// # Errors
    /// What [`DataPacket::transport`] and [`ExtendedHeaders::parse`] say; [`ParseError::LengthMismatch`] for
    /// more padding than content.
    #[inline]
    pub fn parse<'a>(packet: &DataPacket<'a>) -> Result<(Self, &'a [u8]), ParseError> {
        Self::of_transport(packet.lrh(), &packet.transport()?)
    }

    /// As [`Self::parse`], of a packet whose transport headers have been read.
    ///
    /// # Errors
    /// What [`ExtendedHeaders::parse`] says; [`ParseError::LengthMismatch`] for more padding than content.
    #[inline]
    pub fn of_transport<'a>(
        lrh: &Lrh,
        transport: &Transport<'a>,
    ) -> Result<(Self, &'a [u8]), ParseError> {
        let Transport { grh, bth, content } = transport;
        let (extended, padded) = ExtendedHeaders::parse(bth.opcode, content)?;
        let Some(len) = padded.len().checked_sub(usize::from(bth.pad)) else {
            return Err(ParseError::LengthMismatch {
                what: "BTH:PadCnt",
                stated: usize::from(bth.pad),
                actual: padded.len(),
            });
        };
        let headers = Self {
            vl: lrh.vl,
            sl: lrh.sl,
            dlid: lrh.dlid,
            slid: lrh.slid,
            global: grh.map(|grh| GlobalRoute {
                tclass: grh.tclass,
                flow_label: grh.flow_label,
                hop_limit: grh.hop_limit,
                sgid: grh.sgid,
                dgid: grh.dgid,
            }),
            bth: *bth,
            extended,
        };
        Ok((headers, &padded[..len]))
    }
}
