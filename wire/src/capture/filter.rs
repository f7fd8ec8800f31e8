//! Which packets a capture takes: `vl=15,mad=smp`.
//!
//! ```text
//! FILTER := TERM { "," TERM }
//! TERM   := "control" | "mad" | KEY "=" VALUES
//! KEY    := "vl" | "lnh" | "dlid" | "slid" | "qp" | "mad"
//! VALUES := VALUE [ "-" VALUE ]          a number, 0x for hexadecimal, or a name of the key's
//! ```
//! A packet passes if it has, for each key that is named, one of the values that are named for it; the empty filter takes all
//! data packets. Flow-control packets pass only with `control`, and only by their VL.

use core::fmt;
use core::str::FromStr;

use bincode::{Decode, Encode};
use strum::{EnumMessage, IntoStaticStr, VariantArray};
use thiserror::Error;

use crate::choice::Choice as _;
use crate::{Bth, Deth, FlowControl, Format, Grh, Lnh, Lrh, Qpn, RecordKind, Service, convert};

/// Terms of a filter at most.
pub const TERMS_MAX: usize = 32;

/// What a term looks at.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, EnumMessage, IntoStaticStr, VariantArray, Encode, Decode,
)]
#[strum(serialize_all = "kebab-case")]
pub enum Key {
    /// The virtual lane, 0 to 15.
    Vl,
    /// What follows the LRH, 0 to 3: raw, ipv6, local, global.
    Lnh,
    /// The destination LID.
    Dlid,
    /// The source LID.
    Slid,
    /// The destination queue pair, or of a datagram the source's.
    Qp,
    /// The class of a management datagram: smp, sa, perf, bm, cm, cc, vendor, or its number.
    Mad,
}
crate::choice!(Key, "key of filters");

impl Key {
    /// The largest value.
    const fn max(self) -> u32 {
        match self {
            Self::Vl => 15,
            Self::Lnh => 3,
            Self::Dlid | Self::Slid => 0xffff,
            Self::Qp => Qpn::MAX.get(),
            Self::Mad => 0xff,
        }
    }

    /// The ranges of values that have a name.
    const fn names(self) -> &'static [(&'static str, &'static [(u8, u8)])] {
        match self {
            Self::Lnh => &[
                ("raw", &[(0, 0)]),
                ("ipv6", &[(1, 1)]),
                ("local", &[(2, 2)]),
                ("global", &[(3, 3)]),
            ],
            Self::Mad => &[
                ("smp", &[(0x01, 0x01), (0x81, 0x81)]),
                ("sa", &[(0x03, 0x03)]),
                ("perf", &[(0x04, 0x04)]),
                ("bm", &[(0x05, 0x05)]),
                ("cm", &[(0x07, 0x07)]),
                ("cc", &[(0x21, 0x21)]),
                ("vendor", &[(0x09, 0x0f), (0x30, 0x4f)]),
            ],
            Self::Vl | Self::Dlid | Self::Slid | Self::Qp => &[],
        }
    }
}

/// One term: a key and the values from one to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
struct Term {
    key: Key,
    from: u32,
    to: u32,
}

/// Which packets a capture takes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Filter {
    terms: Vec<Term>,
    control: bool,
}

/// Why a text is no filter.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FilterError {
    /// No key of that name, or a key without values.
    #[error(
        "{term:?} is no term of a filter: use {}, each with =VALUE or =FIRST-LAST, or control, or mad, with commas between",
        Key::names_of_all()
    )]
    Term {
        /// What was given.
        term: String,
    },
    /// A value is no number and no name of the key's, or too large.
    #[error("{value:?} is no value of {}: use {}", key.name(), key.values())]
    Value {
        /// The key.
        key: Key,
        /// What was given.
        value: String,
    },
    /// The first value of a range is above the last one.
    #[error("{value:?} is an empty range of {}: put the lower number first", key.name())]
    Empty {
        /// The key.
        key: Key,
        /// What was given.
        value: String,
    },
    /// Too many terms.
    #[error("a filter has {TERMS_MAX} terms at most (a name may stand for two)")]
    TooLong,
}

impl Key {
    /// All of them, for a message.
    fn names_of_all() -> String {
        <Self as crate::choice::Choice>::names()
            .collect::<Vec<_>>()
            .join(", ")
    }

    /// What values there are, for a message.
    fn values(self) -> String {
        let mut text = format!("a number from 0 to {} (0x for hexadecimal)", self.max());
        for (name, _) in self.names() {
            text.push_str(", ");
            text.push_str(name);
        }
        text
    }

    fn number(self, text: &str) -> Option<u32> {
        let is_decimal = text.bytes().all(|byte| byte.is_ascii_digit());
        let number: u64 = match text.strip_prefix("0x") {
            Some(digits) => convert::hexadecimal(digits)?,
            None if is_decimal => text.parse().ok()?,
            None => return None,
        };
        u32::try_from(number).ok().filter(|&n| n <= self.max())
    }
}

impl FromStr for Filter {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Self, FilterError> {
        let mut filter = Self::default();
        let all = text.split(',').map(str::trim);
        for term in all.filter(|_| !text.trim().is_empty()) {
            filter.add(term)?;
            if filter.terms.len() > TERMS_MAX {
                return Err(FilterError::TooLong);
            }
        }
        Ok(filter)
    }
}

impl Filter {
    fn add(&mut self, text: &str) -> Result<(), FilterError> {
        let unknown = || FilterError::Term {
            term: text.to_owned(),
        };
        let term = |key, from, to| Term { key, from, to };
        match text {
            "control" => self.control = true,
            "mad" => self.terms.push(term(Key::Mad, 0, Key::Mad.max())),
            _ => {
                let (name, value) = text.split_once('=').ok_or_else(unknown)?;
                let key = Key::from_name(name.trim()).map_err(|_| unknown())?;
                let value = value.trim();
                if let Some((_, ranges)) = key.names().iter().find(|(name, _)| *name == value) {
                    let terms = ranges.iter();
                    self.terms
                        .extend(terms.map(|&(from, to)| term(key, from.into(), to.into())));
                    return Ok(());
                }
                let (first, last) = value.split_once('-').unwrap_or((value, value));
                let (Some(from), Some(to)) = (key.number(first.trim()), key.number(last.trim()))
                else {
                    let value = value.to_owned();
                    return Err(FilterError::Value { key, value });
                };
                if from > to {
                    let value = value.to_owned();
                    return Err(FilterError::Empty { key, value });
                }
                self.terms.push(term(key, from, to));
            }
        }
        Ok(())
    }

    /// Takes flow-control packets, too.
    pub fn add_control(&mut self) {
        self.control = true;
    }

    /// Whether the filter has no more terms than one that was read from a text.
    #[must_use]
    pub fn is_bounded(&self) -> bool {
        self.terms.len() <= TERMS_MAX
    }

    /// Whether a link packet passes. Of a data packet only headers are looked at; whatever is too short for a field that is named does
    /// not pass. Training and link-down records never do.
    #[must_use]
    pub fn takes(&self, kind: RecordKind, packet: &[u8]) -> bool {
        match kind {
            RecordKind::Data if self.terms.is_empty() => true,
            RecordKind::Data => Fields::of(packet).is_some_and(|fields| {
                Key::VARIANTS
                    .iter()
                    .all(|&key| self.allows(key, &fields.values(key)))
            }),
            RecordKind::FlowControl if self.control => match FlowControl::parse(packet) {
                Ok((control, _)) => self.allows(Key::Vl, &[Some(control.vl.get().into()), None]),
                Err(_) => self.terms.is_empty(),
            },
            RecordKind::FlowControl | RecordKind::Training | RecordKind::LinkDown => false,
        }
    }

    /// Whether one of the values that a packet has is one that is named for the key, or none is named.
    fn allows(&self, key: Key, values: &[Option<u32>; 2]) -> bool {
        let mut terms = self.terms.iter().filter(|term| term.key == key).peekable();
        let is_in = |term: &Term| {
            let mut values = values.iter().flatten();
            values.any(|value| (term.from..=term.to).contains(value))
        };
        terms.peek().is_none() || terms.any(is_in)
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut between = "";
        for Term { key, from, to } in &self.terms {
            write!(f, "{between}{key}={from}")?;
            if to > from {
                write!(f, "-{to}")?;
            }
            between = ",";
        }
        if self.control {
            write!(f, "{between}control")?;
        }
        Ok(())
    }
}

/// What a filter looks at in a data packet.
struct Fields {
    lrh: Lrh,
    dest_qp: Option<u32>,
    src_qp: Option<u32>,
    class: Option<u32>,
}

impl Fields {
    /// Those of a packet; `None` without a whole LRH. Check sums and lengths are not looked at.
    fn of(packet: &[u8]) -> Option<Self> {
        let (lrh, behind) = Lrh::parse(packet).ok()?;
        let mut fields = Self {
            lrh,
            dest_qp: None,
            src_qp: None,
            class: None,
        };
        let transport = match lrh.lnh {
            Lnh::IbaLocal => Some(behind),
            Lnh::IbaGlobal => behind.get(Grh::LEN..),
            Lnh::Raw | Lnh::Ipv6Raw => None,
        };
        if let Some((bth, behind)) = transport.and_then(|raw| Bth::parse(raw).ok()) {
            fields.dest_qp = Some(bth.dest_qp.get());
            if bth.opcode.0 >> 5 == Service::Ud as u8
                && let Ok((deth, payload)) = Deth::parse(behind)
            {
                fields.src_qp = Some(deth.src_qp.get());
                // QP0 and QP1 take management datagrams only.
                if bth.dest_qp.get() <= 1 {
                    fields.class = payload.get(1).map(|&class| class.into());
                }
            }
        }
        Some(fields)
    }

    fn values(&self, key: Key) -> [Option<u32>; 2] {
        let one = |value: u32| [Some(value), None];
        match key {
            Key::Vl => one(self.lrh.vl.get().into()),
            Key::Lnh => one(self.lrh.lnh.bits().into()),
            Key::Dlid => one(self.lrh.dlid.get().into()),
            Key::Slid => one(self.lrh.slid.get().into()),
            Key::Qp => [self.dest_qp, self.src_qp],
            Key::Mad => [self.class, None],
        }
    }
}
