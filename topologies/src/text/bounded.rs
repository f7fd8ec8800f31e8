//! Text of files, in bounded memory.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use thiserror::Error;

/// How much is read at once.
const CHUNK: usize = 1 << 16;

/// Why a file is not read as text.
#[derive(Debug, Error)]
pub enum ReadError {
    /// The system does not let it be read.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// It goes on and on.
    #[error("it is longer than {bytes_max} bytes, the most that is read of a {what}")]
    TooLong {
        /// What the text should be.
        what: &'static str,
        /// The most that is read.
        bytes_max: usize,
    },
    /// It holds zero bytes.
    #[error("byte {at} is 0: this is binary data and no {what}")]
    Binary {
        /// What the text should be.
        what: &'static str,
        /// The first zero byte, from 1.
        at: usize,
    },
}

/// The text of a file, device or pipe: UTF-8, or UTF-16 behind a byte order mark; the mark is left out, and what is
/// no text becomes U+FFFD. No more than `bytes_max` bytes are read. `what` is what messages call the text.
///
/// # Errors
/// [`ReadError`]; zero bytes are found before the rest is read.
pub fn read_bounded(
    path: &Path,
    what: &'static str,
    bytes_max: usize,
) -> Result<String, ReadError> {
    let mut file = File::open(path)?;
    let mut bytes = Vec::new();
    let mut chunk = vec![0; CHUNK];
    loop {
        let count = match file.read(&mut chunk) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error.into()),
        };
        let before = bytes.len();
        bytes.extend_from_slice(&chunk[..count]);
        if bytes.len() > bytes_max {
            return Err(ReadError::TooLong { what, bytes_max });
        }
        let zero = bytes[before..].iter().position(|&byte| byte == 0);
        if let Some(place) = zero.filter(|_| utf16(&bytes).is_none()) {
            let at = before + place + 1;
            return Err(ReadError::Binary { what, at });
        }
    }
    Ok(text(bytes))
}

/// How two bytes make a number in UTF-16, if that is what the byte order mark says.
fn utf16(bytes: &[u8]) -> Option<fn([u8; 2]) -> u16> {
    match bytes {
        [0xff, 0xfe, ..] => Some(u16::from_le_bytes),
        [0xfe, 0xff, ..] => Some(u16::from_be_bytes),
        _ => None,
    }
}

fn text(bytes: Vec<u8>) -> String {
    let text = match utf16(&bytes) {
        Some(number) => {
            let (pairs, _) = bytes.as_chunks::<2>();
            let numbers: Vec<u16> = pairs.iter().map(|&pair| number(pair)).collect();
            String::from_utf16_lossy(&numbers)
        }
        None => match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        },
    };
    match text.strip_prefix('\u{feff}') {
        Some(rest) => rest.to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn read(bytes: &[u8], bytes_max: usize) -> Result<String, ReadError> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        read_bounded(file.path(), "topology", bytes_max)
    }

    #[test]
    fn marks_at_the_beginning_are_left_out_and_both_orders_of_utf16_are_read() {
        let text = "Ca 1 \"ä\"\n";
        let little: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let big: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
        for bytes in [
            text.as_bytes().to_vec(),
            [b"\xef\xbb\xbf", text.as_bytes()].concat(),
            [b"\xff\xfe", &little[..]].concat(),
            [b"\xfe\xff", &big[..]].concat(),
        ] {
            assert_eq!(read(&bytes, 100).unwrap(), text);
        }
        assert_eq!(read(b"a\xff", 100).unwrap(), "a\u{fffd}");
    }

    #[test]
    fn what_is_binary_or_has_no_end_is_refused_after_little_reading() {
        let message = |path: &str| {
            let error = read_bounded(Path::new(path), "topology", 1 << 20).unwrap_err();
            error.to_string()
        };
        assert_eq!(
            message("/dev/zero"),
            "byte 1 is 0: this is binary data and no topology"
        );
        let error = read(&[b'a'; 101], 100).unwrap_err().to_string();
        assert!(error.starts_with("it is longer than 100 bytes"), "{error}");
        assert!(matches!(
            read(b"ab\0", 100),
            Err(ReadError::Binary { at: 3, .. })
        ));
        assert!(matches!(
            read_bounded(Path::new("/no/such/file"), "topology", 1),
            Err(ReadError::Io(_))
        ));
        assert_eq!(read(&[b'a'; 100], 100).unwrap().len(), 100);
    }
}
