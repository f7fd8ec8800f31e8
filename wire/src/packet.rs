//! Whole link packets: a checked view of any, and unreliable datagrams to and from bytes.
//!
//! ```text
//! LRH (8) | GRH (40)? | BTH (12) | DETH (8) | ImmDt (4)? | payload | pad (0..=3) | ICRC (4) | VCRC (2)
//! `------------------------- PktLen words of 4 bytes ------------------------------------'
//! ```

use crate::format::{put_u16, put_u32, u16_at, u32_at};
use crate::grh::Grh;
use crate::lrh::{Lnh, Lrh};
use crate::mad::Mad;
use crate::transport::Deth;
use crate::{Bth, EmitError, Format as _, Gid, Lid, Opcode, ParseError, Psn, Qpn, Sl, Vl, crc};

/// The length of the ICRC in bytes.
pub const ICRC_LEN: usize = 4;
/// The length of the VCRC in bytes.
pub const VCRC_LEN: usize = 2;
/// A MAD without GRH as a link packet, VCRC included, in bytes.
pub const MAD_PACKET_LEN: usize = Lrh::LEN + Bth::LEN + Deth::LEN + Mad::LEN + ICRC_LEN + VCRC_LEN;

/// One whole link packet whose length fields have been checked.
#[derive(Clone, Copy, Debug)]
pub struct DataPacket<'a> {
    lrh: Lrh,
    bytes: &'a [u8],
}

impl<'a> DataPacket<'a> {
    /// The smallest PktLen (IBA 7.7.8): a raw packet's LRH and header.
    pub const PKT_LEN_MIN: u16 = 5;

    /// Takes a packet from its first LRH byte to its last VCRC byte.
    ///
    /// # Errors
    /// [`ParseError::Truncated`] without a whole LRH; [`ParseError::BadVersion`] for LVer other
    /// than 0; [`ParseError::BadValue`] for PktLen below 5; [`ParseError::LengthMismatch`] if
    /// PktLen disagrees with the bytes.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let (lrh, _) = Lrh::parse(bytes)?;
        ParseError::check_version("LRH", lrh.lver, Lrh::VERSION)?;
        if lrh.pkt_len_words < Self::PKT_LEN_MIN {
            return Err(ParseError::BadValue {
                what: "LRH:PktLen",
                value: u64::from(lrh.pkt_len_words),
            });
        }
        if lrh.packet_bytes() != bytes.len() {
            return Err(ParseError::LengthMismatch {
                what: "LRH:PktLen",
                stated: lrh.packet_bytes(),
                actual: bytes.len(),
            });
        }
        Ok(Self { lrh, bytes })
    }

    /// The local route header.
    #[inline]
    #[must_use]
    pub const fn lrh(&self) -> &Lrh {
        &self.lrh
    }

    /// All bytes, VCRC included.
    #[inline]
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Everything between the LRH and the VCRC.
    #[inline]
    #[must_use]
    pub fn body(&self) -> &'a [u8] {
        &self.bytes[Lrh::LEN..self.bytes.len() - VCRC_LEN]
    }

    /// The VCRC that the packet carries.
    #[inline]
    #[must_use]
    pub fn vcrc(&self) -> u16 {
        u16_at(self.bytes, self.bytes.len() - VCRC_LEN)
    }

    /// Checks the VCRC.
    ///
    /// # Errors
    /// [`ParseError::BadCrc`].
    #[inline]
    pub fn check_vcrc(&self) -> Result<(), ParseError> {
        let computed = crc::vcrc(&self.bytes[..self.bytes.len() - VCRC_LEN]);
        if computed == self.vcrc() {
            return Ok(());
        }
        Err(ParseError::BadCrc {
            what: "VCRC",
            stated: u32::from(self.vcrc()),
            computed: u32::from(computed),
        })
    }

    /// Checks the ICRC of an IBA packet; raw packets have none and pass.
    ///
    /// # Errors
    /// [`ParseError::BadCrc`].
    pub fn check_icrc(&self) -> Result<(), ParseError> {
        if matches!(self.lrh.lnh, Lnh::Raw | Lnh::Ipv6Raw) {
            return Ok(());
        }
        let at = self.bytes.len() - VCRC_LEN - ICRC_LEN;
        let (stated, computed) = (u32_at(self.bytes, at), crc::icrc(&self.bytes[..at]));
        if computed == stated {
            return Ok(());
        }
        Err(ParseError::BadCrc {
            what: "ICRC",
            stated,
            computed,
        })
    }

    /// The transport headers that every IBA packet has, and what lies behind them up to the ICRC.
    ///
    /// # Errors
    /// [`ParseError::BadValue`] for a raw packet, whose first header is none of these, or a GRH
    /// whose next header is not IBA transport; [`ParseError::Truncated`] and
    /// [`ParseError::LengthMismatch`] if the headers do not fit the packet;
    /// [`ParseError::BadVersion`] for another version of GRH or BTH.
    pub fn transport(&self) -> Result<Transport<'a>, ParseError> {
        let (grh, rest) = match self.lrh.lnh {
            Lnh::IbaLocal => (None, self.body()),
            Lnh::IbaGlobal => {
                let (grh, rest) = Grh::parse(self.body())?;
                check_grh(&grh, rest)?;
                (Some(grh), rest)
            }
            raw @ (Lnh::Raw | Lnh::Ipv6Raw) => {
                return Err(ParseError::BadValue {
                    what: "LRH:LNH of an IBA packet",
                    value: u64::from(raw.bits()),
                });
            }
        };
        let (bth, rest) = Bth::parse(rest)?;
        ParseError::check_version("BTH", bth.tver, Bth::VERSION)?;
        let Some((content, _icrc)) = rest.split_last_chunk::<ICRC_LEN>() else {
            return Err(ParseError::Truncated {
                what: "ICRC",
                need: ICRC_LEN,
                have: rest.len(),
            });
        };
        Ok(Transport { grh, bth, content })
    }
}

fn check_grh(grh: &Grh, rest: &[u8]) -> Result<(), ParseError> {
    if grh.next_header != Grh::NEXT_HEADER {
        return Err(ParseError::BadValue {
            what: "GRH:NxtHdr",
            value: u64::from(grh.next_header),
        });
    }
    if usize::from(grh.pay_len) != rest.len() {
        return Err(ParseError::LengthMismatch {
            what: "GRH:PayLen",
            stated: usize::from(grh.pay_len),
            actual: rest.len(),
        });
    }
    Ok(())
}

/// The transport headers that every IBA packet has.
#[derive(Clone, Copy, Debug)]
pub struct Transport<'a> {
    /// Global route header, if there is one.
    pub grh: Option<Grh>,
    /// Base transport header.
    pub bth: Bth,
    /// Everything behind the base transport header up to the ICRC: extended headers, payload, pad.
    pub content: &'a [u8],
}

/// What a sender chooses of a global route header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GlobalRoute {
    /// Traffic class.
    pub tclass: u8,
    /// Flow label, 20 bits (emitting drops higher ones).
    pub flow_label: u32,
    /// Hop limit.
    pub hop_limit: u8,
    /// Source GID.
    pub sgid: Gid,
    /// Destination GID.
    pub dgid: Gid,
}

/// An unreliable datagram: one packet of opcode SEND Only, with or without immediate data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdPacket<'a> {
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
    /// Solicited event.
    pub solicited: bool,
    /// Partition key.
    pub pkey: u16,
    /// Destination queue pair.
    pub dest_qp: Qpn,
    /// Packet sequence number.
    pub psn: Psn,
    /// Queue key.
    pub qkey: u32,
    /// Source queue pair.
    pub src_qp: Qpn,
    /// Immediate data.
    pub immediate: Option<u32>,
    /// Payload; padded to a multiple of 4 bytes on the wire.
    pub payload: &'a [u8],
}

impl<'a> UdPacket<'a> {
    /// The packet of a subnet management datagram: QP0 to QP0 on VL15.
    #[must_use]
    pub fn smp(slid: Lid, dlid: Lid, mad: &'a Mad) -> Self {
        Self {
            vl: Vl::MANAGEMENT,
            sl: Sl::default(),
            dlid,
            slid,
            global: None,
            solicited: false,
            pkey: 0xffff,
            dest_qp: Qpn::SMI,
            psn: Psn::default(),
            qkey: 0,
            src_qp: Qpn::SMI,
            immediate: None,
            payload: mad.as_bytes(),
        }
    }

    /// The packet of a general management datagram: QP1 to QP1 on a data VL.
    #[must_use]
    pub fn gmp(slid: Lid, dlid: Lid, sl: Sl, vl: Vl, mad: &'a Mad) -> Self {
        Self {
            vl,
            sl,
            dest_qp: Qpn::GSI,
            qkey: Deth::QKEY_GSI,
            src_qp: Qpn::GSI,
            ..Self::smp(slid, dlid, mad)
        }
    }

    /// The length of the link packet in bytes, VCRC included.
    #[must_use]
    pub const fn len(&self) -> usize {
        let grh = if self.global.is_some() { Grh::LEN } else { 0 };
        let immediate = if self.immediate.is_some() { 4 } else { 0 };
        let headers = Lrh::LEN + grh + Bth::LEN + Deth::LEN + immediate;
        headers + self.payload.len().next_multiple_of(4) + ICRC_LEN + VCRC_LEN
    }

    /// Always false: even without payload there are headers.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// Writes the whole packet, padding, ICRC and VCRC included, to the front of `out` and returns
    /// its length.
    ///
    /// # Errors
    /// [`EmitError::NoRoom`] if `out` is shorter than [`Self::len`]; [`EmitError::TooLong`] if
    /// PktLen cannot state the length.
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, EmitError> {
        let (need, have) = (self.len(), out.len());
        let Some(out) = out.get_mut(..need) else {
            return Err(EmitError::NoRoom {
                what: "UD packet",
                need,
                have,
            });
        };
        let too_long = EmitError::TooLong {
            what: "UD packet",
            len: need,
            max: usize::from(Lrh::PKT_LEN_MAX) * 4 + VCRC_LEN,
        };
        let pkt_len_words = u16::try_from(need / 4).map_err(|_| too_long)?;
        if pkt_len_words > Lrh::PKT_LEN_MAX {
            return Err(too_long);
        }
        let rest = self.emit_routes(pkt_len_words, out)?;
        self.emit_transport(rest);
        let (icrc_at, vcrc_at) = (need - VCRC_LEN - ICRC_LEN, need - VCRC_LEN);
        let icrc = crc::icrc(&out[..icrc_at]);
        put_u32(out, icrc_at, icrc);
        let vcrc = crc::vcrc(&out[..vcrc_at]);
        put_u16(out, vcrc_at, vcrc);
        Ok(need)
    }

    /// Writes LRH and GRH and returns what is behind them.
    fn emit_routes<'o>(
        &self,
        pkt_len_words: u16,
        out: &'o mut [u8],
    ) -> Result<&'o mut [u8], EmitError> {
        let lrh = Lrh {
            vl: self.vl,
            lver: Lrh::VERSION,
            sl: self.sl,
            lnh: if self.global.is_some() {
                Lnh::IbaGlobal
            } else {
                Lnh::IbaLocal
            },
            dlid: self.dlid,
            pkt_len_words,
            slid: self.slid,
        };
        lrh.emit(out);
        let Some(global) = self.global else {
            return Ok(&mut out[Lrh::LEN..]);
        };
        let len = out.len() - Lrh::LEN - Grh::LEN - VCRC_LEN;
        let grh = Grh {
            tclass: global.tclass,
            flow_label: global.flow_label,
            pay_len: u16::try_from(len).map_err(|_| EmitError::TooLong {
                what: "GRH",
                len,
                max: usize::from(u16::MAX),
            })?,
            next_header: Grh::NEXT_HEADER,
            hop_limit: global.hop_limit,
            sgid: global.sgid,
            dgid: global.dgid,
        };
        grh.emit(&mut out[Lrh::LEN..]);
        Ok(&mut out[Lrh::LEN + Grh::LEN..])
    }

    /// Writes BTH, DETH, immediate data, payload and pad; `out` ends behind the VCRC.
    fn emit_transport(&self, out: &mut [u8]) {
        let padded = self.payload.len().next_multiple_of(4);
        let bth = Bth {
            opcode: match self.immediate {
                None => Opcode::UD_SEND_ONLY,
                Some(_) => Opcode::UD_SEND_ONLY_IMM,
            },
            solicited: self.solicited,
            mig_req: true,
            pad: u8::try_from(padded - self.payload.len()).unwrap_or_default(),
            tver: Bth::VERSION,
            pkey: self.pkey,
            fecn: false,
            becn: false,
            dest_qp: self.dest_qp,
            ack_req: false,
            psn: self.psn,
        };
        bth.emit(out);
        let deth = Deth {
            qkey: self.qkey,
            src_qp: self.src_qp,
        };
        deth.emit(&mut out[Bth::LEN..]);
        let mut at = Bth::LEN + Deth::LEN;
        if let Some(immediate) = self.immediate {
            put_u32(out, at, immediate);
            at += 4;
        }
        let (payload, pad) = out[at..at + padded].split_at_mut(self.payload.len());
        payload.copy_from_slice(self.payload);
        pad.fill(0);
    }

    /// Reads an unreliable datagram. Neither CRC is looked at: see [`DataPacket::check_vcrc`] and
    /// [`DataPacket::check_icrc`]. Migration state and congestion bits are not kept.
    ///
    /// # Errors
    /// What [`DataPacket::transport`] says; [`ParseError::BadValue`] for another opcode;
    /// [`ParseError::LengthMismatch`] for more padding than content.
    pub fn parse(packet: &DataPacket<'a>) -> Result<Self, ParseError> {
        Self::of_transport(packet.lrh(), &packet.transport()?)
    }

    /// As [`Self::parse`], of a packet whose transport headers have been read.
    ///
    /// # Errors
    /// [`ParseError::BadValue`] for another opcode; [`ParseError::LengthMismatch`] for more padding than content.
    #[inline]
    pub fn of_transport(lrh: &Lrh, transport: &Transport<'a>) -> Result<Self, ParseError> {
        let Transport { grh, bth, content } = transport;
        let with_immediate = match bth.opcode {
            Opcode::UD_SEND_ONLY => false,
            Opcode::UD_SEND_ONLY_IMM => true,
            Opcode(other) => {
                return Err(ParseError::BadValue {
                    what: "BTH:OpCode of an unreliable datagram",
                    value: u64::from(other),
                });
            }
        };
        let (deth, mut padded) = Deth::parse(content)?;
        let mut immediate = None;
        if with_immediate {
            let Some((value, rest)) = padded.split_first_chunk::<4>() else {
                return Err(ParseError::Truncated {
                    what: "ImmDt",
                    need: 4,
                    have: padded.len(),
                });
            };
            immediate = Some(u32::from_be_bytes(*value));
            padded = rest;
        }
        let Some(len) = padded.len().checked_sub(usize::from(bth.pad)) else {
            return Err(ParseError::LengthMismatch {
                what: "BTH:PadCnt",
                stated: usize::from(bth.pad),
                actual: padded.len(),
            });
        };
        Ok(Self {
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
            solicited: bth.solicited,
            pkey: bth.pkey,
            dest_qp: bth.dest_qp,
            psn: bth.psn,
            qkey: deth.qkey,
            src_qp: deth.src_qp,
            immediate,
            payload: &padded[..len],
        })
    }

    /// The payload as a management datagram.
    ///
    /// # Errors
    /// [`ParseError::LengthMismatch`] if it is not 256 bytes long.
    pub fn mad(&self) -> Result<Mad, ParseError> {
        match <[u8; Mad::LEN]>::try_from(self.payload) {
            Ok(bytes) => Ok(Mad::from_bytes(bytes)),
            Err(_) => Err(ParseError::LengthMismatch {
                what: "MAD",
                stated: Mad::LEN,
                actual: self.payload.len(),
            }),
        }
    }
}
