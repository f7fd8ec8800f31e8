//! Where a program's adapters are: `ibemu exec` writes it into the environment.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

/// The variable with the adapters: `NAME=SOCKET`, a line each. The sockets are those of libibumad; that of
/// verbs stands beside each, with the ending [`ENDING`].
const ADAPTERS: &str = "IBEMU_ADAPTERS";
/// The variable with the port of the first adapter that is preferred.
const PORT: &str = "IBEMU_PORT";
/// How the names of sockets for verbs end.
const ENDING: &str = "verbs";
/// Adapters at most.
const ADAPTERS_MAX: usize = 128;
/// The longest name of an adapter in bytes.
const NAME_BYTES_MAX: usize = 19;

/// An adapter and its host's socket for verbs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The adapter's name.
    pub name: String,
    /// The path of the socket.
    pub socket: PathBuf,
}

/// The adapters that a value of the variable says; lines that say none are passed over.
#[must_use]
pub fn parse(value: &OsStr) -> Vec<Place> {
    let lines = value.as_bytes().split(|&byte| byte == b'\n');
    let places = lines.filter_map(|line| {
        let at = line.iter().position(|&byte| byte == b'=')?;
        let name = str::from_utf8(line.get(..at)?).ok()?;
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        let is_name = (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(plain);
        let socket = PathBuf::from(OsStr::from_bytes(line.get(at + 1..)?));
        is_name.then(|| Place {
            name: name.to_owned(),
            socket: socket.with_extension(ENDING),
        })
    });
    places.take(ADAPTERS_MAX).collect()
}

/// This program's adapters.
pub(crate) fn places() -> Vec<Place> {
    let value: Option<OsString> = env::var_os(ADAPTERS);
    value.map_or_else(Vec::new, |value| parse(&value))
}

/// The port of the first adapter that is preferred.
pub(crate) fn preferred_port() -> Option<u8> {
    env::var(PORT).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_for_verbs_stand_beside_those_of_libibumad_and_nonsense_is_passed_over() {
        let value =
            OsStr::new("\n=\nno path\na/b=/s\nibemu0=/run/ibemu/ib/h0.0.0.ibumad\nx=/a=b.ibumad\n");
        let place = |name: &str, socket: &str| Place {
            name: name.to_owned(),
            socket: socket.into(),
        };
        let expected = [
            place("ibemu0", "/run/ibemu/ib/h0.0.0.verbs"),
            place("x", "/a=b.verbs"),
        ];
        assert_eq!(parse(value), expected);
    }
}
