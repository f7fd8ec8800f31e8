//! Numbers with units, as the command line takes them and the tables show them.

use std::str::FromStr;

use thiserror::Error;
use wire::convert::saturate;

/// A number that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BadQuantity {
    /// Not a number.
    #[error("{0:?} is no number; write digits, with k, M or G behind them for thousands")]
    NotANumber(String),
    /// Outside its range.
    #[error("{value} is out of range: {range}")]
    OutOfRange {
        /// What was given.
        value: String,
        /// What is allowed.
        range: &'static str,
    },
}

/// Bits a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate(pub u64);

impl FromStr for Rate {
    type Err = BadQuantity;

    fn from_str(text: &str) -> Result<Self, BadQuantity> {
        let bits = scaled(text, 1000)?;
        if bits == 0 {
            return Err(BadQuantity::OutOfRange {
                value: text.to_owned(),
                range: "at least 1 bit a second",
            });
        }
        Ok(Self(bits))
    }
}

/// Digits, perhaps with a fraction, perhaps with `k`, `M` or `G` behind them.
fn scaled(text: &str, thousand: u64) -> Result<u64, BadQuantity> {
    let bad = || BadQuantity::NotANumber(text.to_owned());
    let (digits, factor) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], thousand),
        Some(b'M') => (&text[..text.len() - 1], thousand.pow(2)),
        Some(b'G') => (&text[..text.len() - 1], thousand.pow(3)),
        _ => (text, 1),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if fraction.len() > 9 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(bad());
    }
    let whole: u64 = whole.parse().map_err(|_| bad())?;
    let part: u64 = if fraction.is_empty() {
        0
    } else {
        fraction.parse().map_err(|_| bad())?
    };
    let places = 10u128.pow(u32::try_from(fraction.len()).map_err(|_| bad())?);
    let part = u128::from(part) * u128::from(factor) / places;
    whole
        .checked_mul(factor)
        .and_then(|value| value.checked_add(u64::try_from(part).ok()?))
        .ok_or_else(bad)
}

/// The size of a file, bytes.
///
/// # Errors
/// [`BadQuantity`]
pub fn file_bytes(text: &str) -> Result<u64, BadQuantity> {
    let bytes = scaled(text, 1024)?;
    if bytes < 1024 {
        return Err(BadQuantity::OutOfRange {
            value: text.to_owned(),
            range: "at least 1k",
        });
    }
    Ok(bytes)
}

/// An input buffer, bytes.
///
/// # Errors
/// If it is no number, or more than credits can count.
pub fn buffer_bytes(text: &str) -> Result<u32, BadQuantity> {
    let bytes = scaled(text, 1024)?;
    u32::try_from(bytes)
        .ok()
        .filter(|bytes| (64..=131_072).contains(bytes))
        .ok_or_else(|| BadQuantity::OutOfRange {
            value: text.to_owned(),
            range: "64 to 131072 bytes (credits count up to 2048 blocks of 64)",
        })
}

/// Bytes, with k, M and G for powers of 1024.
///
/// # Errors
/// If it is no number, or 0.
pub fn bytes(text: &str) -> Result<u64, BadQuantity> {
    match scaled(text, 1024)? {
        0 => Err(BadQuantity::OutOfRange {
            value: text.to_owned(),
            range: "at least 1 byte",
        }),
        bytes => Ok(bytes),
    }
}

/// A number above 0.
///
/// # Errors
/// If it is not.
pub fn positive(text: &str) -> Result<f64, BadQuantity> {
    let value: f64 = text
        .parse()
        .map_err(|_| BadQuantity::NotANumber(text.to_owned()))?;
    if value.is_finite() && value > 0.0 && value <= 1e9 {
        Ok(value)
    } else {
        Err(BadQuantity::OutOfRange {
            value: text.to_owned(),
            range: "above 0, at most 1000000000",
        })
    }
}

/// Milliseconds, perhaps with a fraction, as microseconds.
///
/// # Errors
/// If it is no number or longer than an hour.
pub fn milliseconds_as_us(text: &str) -> Result<u32, BadQuantity> {
    let bad = || BadQuantity::NotANumber(text.to_owned());
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if fraction.len() > 3 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(bad());
    }
    let us = format!("{whole}{fraction:0<3}");
    let us: u32 = us.parse().map_err(|_| bad())?;
    if us > 3_600_000_000 {
        return Err(BadQuantity::OutOfRange {
            value: text.to_owned(),
            range: "0 to 3600000 milliseconds",
        });
    }
    Ok(us)
}

/// Nanoseconds as text: three digits and a unit.
#[must_use]
pub fn duration(ns: u64) -> String {
    with_unit(
        ns,
        &[
            ("ns", 1),
            ("us", 1_000),
            ("ms", 1_000_000),
            ("s", 1_000_000_000),
        ],
    )
}

/// Bits a second as text.
#[must_use]
pub fn bit_rate(bits: u64) -> String {
    with_unit(
        bits,
        &[
            ("bit/s", 1),
            ("kbit/s", 1_000),
            ("Mbit/s", 1_000_000),
            ("Gbit/s", 1_000_000_000),
        ],
    )
}

/// `amount` a `duration_ns`, a second; 0 if no time has passed.
#[must_use]
pub fn per_second(amount: u64, duration_ns: u64) -> u64 {
    if duration_ns == 0 {
        return 0;
    }
    let rate = u128::from(amount) * 1_000_000_000 / u128::from(duration_ns);
    saturate::<u64>(rate)
}

/// Bits a second of a link that is that much slower, at least one.
#[must_use]
pub fn scaled_down(bits: u64, time_scale: f64) -> u64 {
    // A second of the full link is so long.
    let second = std::time::Duration::from_secs_f64(time_scale.clamp(1e-6, 1e9));
    let scaled = u128::from(bits) * 1_000_000_000 / second.as_nanos().max(1);
    wire::convert::saturate::<u64>(scaled).max(1)
}

/// Bytes a second as text.
#[must_use]
pub fn byte_rate(bytes: u64) -> String {
    with_unit(
        bytes,
        &[
            ("B/s", 1),
            ("kB/s", 1_000),
            ("MB/s", 1_000_000),
            ("GB/s", 1_000_000_000),
        ],
    )
}

/// The value in the largest unit that it fills, with at most two decimals.
fn with_unit(value: u64, units: &[(&str, u64)]) -> String {
    let (name, unit) = units
        .iter()
        .rev()
        .find(|(_, unit)| value >= *unit)
        .or(units.first())
        .copied()
        .unwrap_or(("", 1));
    let whole = value / unit;
    let hundredths = (u128::from(value % unit) * 100) / u128::from(unit);
    match whole {
        _ if unit == 1 => format!("{whole} {name}"),
        0..10 => format!("{whole}.{hundredths:02} {name}"),
        10..100 => format!("{whole}.{} {name}", hundredths / 10),
        _ => format!("{whole} {name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_understand_thousands_and_fractions() {
        assert_eq!("20M".parse(), Ok(Rate(20_000_000)));
        assert_eq!("1.5G".parse(), Ok(Rate(1_500_000_000)));
        assert_eq!("800".parse(), Ok(Rate(800)));
        for bad in ["", "M", "-1", "1.2.3", "1e9", "0", "99999999999G", "1.x"] {
            assert!(bad.parse::<Rate>().is_err(), "{bad}");
        }
    }

    #[test]
    fn buffers_count_in_kibibytes_and_end_where_credits_end() {
        assert_eq!(buffer_bytes("64k"), Ok(65_536));
        assert_eq!(buffer_bytes("131072"), Ok(131_072));
        assert!(buffer_bytes("131073").is_err());
        assert!(buffer_bytes("0").is_err());
    }

    #[test]
    fn milliseconds_may_have_a_fraction() {
        assert_eq!(milliseconds_as_us("100"), Ok(100_000));
        assert_eq!(milliseconds_as_us("0.05"), Ok(50));
        assert!(milliseconds_as_us("0.0005").is_err());
        assert!(milliseconds_as_us("x").is_err());
    }

    #[test]
    fn durations_have_three_digits_and_a_unit() {
        assert_eq!(duration(0), "0 ns");
        assert_eq!(duration(999), "999 ns");
        assert_eq!(duration(1_234), "1.23 us");
        assert_eq!(duration(72_940), "72.9 us");
        assert_eq!(duration(5_000_000_000), "5.00 s");
        assert_eq!(bit_rate(320_000_000), "320 Mbit/s");
    }

    #[test]
    fn a_rate_over_no_time_is_nothing() {
        assert_eq!(per_second(10, 0), 0);
        assert_eq!(per_second(10, 500_000_000), 20);
    }
}
