//! Values of a plan's keys: what hosts do, bytes, bits a second.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;

use super::super::collective::Collective;
use super::super::{Pattern, PatternError};
use crate::quantity::{self, BadQuantity, Rate};

/// What the hosts of a group do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) enum What {
    /// Flows by a pattern.
    Pattern(Pattern),
    /// A collective operation.
    Collective(Collective),
}

impl FromStr for What {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        match text.parse() {
            Ok(collective) => Ok(Self::Collective(collective)),
            Err(()) => text.parse().map(Self::Pattern),
        }
    }
}

impl TryFrom<String> for What {
    type Error = PatternError;

    fn try_from(text: String) -> Result<Self, PatternError> {
        text.parse()
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pattern(pattern) => pattern.fmt(f),
            Self::Collective(collective) => collective.fmt(f),
        }
    }
}

/// Bytes, as a number or with k, M or G behind it, for powers of 1024.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "RateValue")]
pub(crate) struct ByteText(pub(crate) u64);

impl TryFrom<RateValue> for ByteText {
    type Error = BadQuantity;

    fn try_from(value: RateValue) -> Result<Self, BadQuantity> {
        quantity::bytes(&value.text()).map(Self)
    }
}

/// Bits a second, as a number or with k, M or G behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "RateValue")]
pub(crate) struct RateText(pub(crate) u64);

#[derive(Deserialize)]
#[serde(untagged)]
enum RateValue {
    Bits(u64),
    Text(String),
}

impl RateValue {
    fn text(self) -> String {
        match self {
            Self::Bits(bits) => bits.to_string(),
            Self::Text(text) => text.chars().take(40).collect(),
        }
    }
}

impl TryFrom<RateValue> for RateText {
    type Error = BadQuantity;

    fn try_from(value: RateValue) -> Result<Self, BadQuantity> {
        value.text().parse::<Rate>().map(|rate| Self(rate.0))
    }
}
