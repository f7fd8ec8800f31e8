//! What a golden vector proves.

use std::fmt::Debug;

use wire::{Format, Gid, ParseError};

/// The bytes of hexadecimal text; anything that is no digit separates.
pub(crate) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

/// The GID of these bytes.
pub(crate) fn gid(text: &str) -> Gid {
    Gid(hex(text).try_into().unwrap())
}

/// A field's refusal.
pub(crate) fn bad(what: &'static str, value: u64) -> ParseError {
    ParseError::BadValue { what, value }
}

/// `text` and `value` are the same thing: the bytes parse to the value and leave what follows; the
/// value emits the bytes, all of them and nothing behind; no shorter length parses.
pub(crate) fn golden<F: Format + Debug + PartialEq>(value: &F, text: &str) {
    let bytes = hex(text);
    assert_eq!(bytes.len(), F::LEN, "{}: length of the vector", F::NAME);

    let mut followed = bytes.clone();
    followed.extend_from_slice(&[1, 2, 3]);
    let (parsed, rest) = F::parse(&followed).unwrap();
    assert_eq!(&parsed, value);
    assert_eq!(rest, [1, 2, 3]);

    let mut out = vec![0xa5; F::LEN + 8];
    value.emit(&mut out);
    assert_eq!(&out[..F::LEN], bytes, "{}: emitted", F::NAME);
    assert_eq!(
        &out[F::LEN..],
        [0xa5; 8],
        "{}: bytes behind it are not touched",
        F::NAME
    );

    for have in 0..F::LEN {
        let refused = F::parse(&bytes[..have]).unwrap_err();
        assert_eq!(
            refused,
            ParseError::Truncated {
                what: F::NAME,
                need: F::LEN,
                have
            }
        );
    }
}

/// The golden bytes with one changed are refused with this error.
pub(crate) fn refused<F: Format + Debug + PartialEq>(text: &str, at: usize, to: u8) -> ParseError {
    let mut bytes = hex(text);
    bytes[at] = to;
    F::parse(&bytes).unwrap_err()
}
