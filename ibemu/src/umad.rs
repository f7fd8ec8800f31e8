//! The bases of the abstract socket names on which hosts answer ibsim's client library.
//!
//! Such names have no owner: every process that has learned one can take it while it is free. In a namespace of
//! its own a host has the library's default. Without namespaces a host gets a random name of 128 bits, another one at
//! each start: names once taken show in `/proc/net/unix`, so a second life
//! under the first one's could be kept from starting. The host gets it by its environment, and the programs that
//! `ibemu exec` runs beside it by the file `<node>.umad` in the fabric's directory.

use std::io;

use anyhow::{Context, Result, bail};

use crate::dir::FabricDir;

/// The base in a namespace of its own: the library's default, but for the further adapters of one host.
pub(crate) fn in_namespace(adapter: u8) -> String {
    match adapter {
        0 => "sim".to_owned(),
        _ => format!("sim-{adapter}"),
    }
}

/// How many random bytes a name holds.
const RANDOM_BYTES: usize = 16;

/// The base for a port of a host whose base this is (hostd --umad-socket).
pub(crate) fn of_port(base: &str, port: u8) -> String {
    match port {
        1 => base.to_owned(),
        _ => format!("{base}.{port}"),
    }
}

fn file(handle: &str) -> String {
    format!("{handle}.umad")
}

/// Draws the name of a host that is about to be started, and writes it down.
///
/// # Errors
/// If there is nothing random, or it cannot be written.
pub(crate) fn draw(dir: &FabricDir, handle: &str) -> Result<String> {
    let random = u128::from_ne_bytes(netio::random::bytes::<RANDOM_BYTES>()?);
    let base = format!("ibemu.{random:032x}");
    dir.require()?.replace(&file(handle), base.as_bytes())?;
    Ok(base)
}

/// The name of a host that was started.
///
/// # Errors
/// If it was not, or the file cannot be read.
pub(crate) fn of_running(dir: &FabricDir, handle: &str) -> Result<String> {
    let bytes = match dir.require()?.read(&file(handle)) {
        Err(error) if error.cause.kind() == io::ErrorKind::NotFound => {
            bail!("{handle} has not been started: restart it (ibemu restart {handle})")
        }
        other => other?,
    };
    let path = || dir.path().join(file(handle));
    String::from_utf8(bytes).with_context(|| format!("{} is damaged", path().display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_start_of_each_host_has_a_name_that_cannot_be_guessed() {
        let folder = tempfile::tempdir().unwrap();
        let dir = FabricDir::at(&folder.path().join("ib")).unwrap();
        dir.create().unwrap();
        let absent = format!("{:#}", of_running(&dir, "h0").unwrap_err());
        assert!(absent.contains("ibemu restart h0"), "{absent}");
        let first = draw(&dir, "h0").unwrap();
        let random = first.strip_prefix("ibemu.").unwrap();
        assert!(random.len() == 32 && u128::from_str_radix(random, 16).is_ok());
        assert_eq!(of_running(&dir, "h0").unwrap(), first);
        let again = draw(&dir, "h0").unwrap();
        let other = draw(&dir, "h1").unwrap();
        assert!(first != again && again != other && first != other);
        assert_eq!(of_running(&dir, "h0").unwrap(), again);
    }
}
