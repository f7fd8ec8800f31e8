//! Where a program's adapters are: `ibemu exec` writes it into the environment.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

/// The variable with the adapters: `NAME=SOCKET`, a line each; the first one is preferred.
pub const ADAPTERS: &str = "IBEMU_ADAPTERS";
/// The variable with the port of the first adapter that counts where a program names none.
pub const PORT: &str = "IBEMU_PORT";
/// The longest name of an adapter in bytes: `UMAD_CA_NAME_LEN` less its NUL.
pub const NAME_BYTES_MAX: usize = 19;
/// Adapters at most: `UMAD_MAX_DEVICES`.
pub const ADAPTERS_MAX: usize = 128;

/// An adapter and the socket of its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The adapter's name.
    pub name: String,
    /// The path of the socket.
    pub socket: PathBuf,
}

/// The value of [`ADAPTERS`] for these adapters; `None` if it cannot say them: a path with a line break, a
/// name that is empty, too long or no plain word.
#[must_use]
pub fn value(places: &[Place]) -> Option<OsString> {
    let mut value = Vec::new();
    for Place { name, socket } in places {
        let socket = socket.as_os_str().as_bytes();
        if !is_name(name) || socket.contains(&b'\n') {
            return None;
        }
        if !value.is_empty() {
            value.push(b'\n');
        }
        value.extend_from_slice(name.as_bytes());
        value.push(b'=');
        value.extend_from_slice(socket);
    }
    (places.len() <= ADAPTERS_MAX).then(|| OsString::from_vec(value))
}

/// Whether an adapter can have this name.
#[must_use]
pub fn is_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(plain)
}

/// The adapters that a value of [`ADAPTERS`] says; lines that say none are passed over.
#[must_use]
pub fn parse(value: &OsStr) -> Vec<Place> {
    let lines = value.as_bytes().split(|&byte| byte == b'\n');
    let places = lines.filter_map(|line| {
        let at = line.iter().position(|&byte| byte == b'=')?;
        let name = str::from_utf8(&line[..at]).ok()?;
        is_name(name).then(|| Place {
            name: name.to_owned(),
            socket: PathBuf::from(OsStr::from_bytes(&line[at + 1..])),
        })
    });
    places.take(ADAPTERS_MAX).collect()
}

/// This program's adapters.
pub(crate) fn places() -> Vec<Place> {
    env::var_os(ADAPTERS).map_or_else(Vec::new, |value| parse(&value))
}

/// The port of the first adapter that is preferred.
pub(crate) fn preferred_port() -> Option<u8> {
    env::var(PORT).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(name: &str, socket: &str) -> Place {
        Place {
            name: name.to_owned(),
            socket: socket.into(),
        }
    }

    #[test]
    fn what_is_told_is_understood() {
        let places = [
            place("ibemu0", "/run/ibemu/ib/h0.ibumad"),
            place("mlx5_1", "/tmp/a=b: c/h1.ibumad"),
        ];
        assert_eq!(parse(&value(&places).unwrap()), places);
        assert_eq!(parse(&value(&[]).unwrap()), []);
    }

    #[test]
    fn what_cannot_be_told_is_refused_and_nonsense_is_passed_over() {
        let too_long = "x".repeat(NAME_BYTES_MAX + 1);
        for name in ["", "a/b", "a=b", "..", too_long.as_str()] {
            assert_eq!(value(&[place(name, "/s")]), None, "{name:?}");
        }
        assert_eq!(value(&[place("a", "/s\n/t")]), None);
        let text = OsStr::new("\n=\nno path\na/b=/s\nib0=/s\n");
        assert_eq!(parse(text), [place("ib0", "/s")]);
    }
}
