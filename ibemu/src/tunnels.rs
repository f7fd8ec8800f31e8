//! Which cables are tunnels, and the secret that their keys are made of.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::process::Command;

use anyhow::{Context, Result, bail};
use netio::secret_file::read_secret;
use netio::transport::{JobSecret, Medium, Transport, TunnelSocket};

use crate::dir::{self, FabricDir};
use crate::state::{End, FabricState};

/// Bytes of the secret.
const SECRET_BYTES: usize = 32;

impl FabricState {
    /// The cables that `--tunnel` names, each by its smaller end.
    ///
    /// # Errors
    /// If a name is not that of a port with a cable.
    pub(crate) fn choose_tunnels(&self) -> Result<BTreeSet<End>> {
        let peers = self.peers();
        let chosen = |name: &String| {
            let what = || format!("--tunnel {name}");
            let Some((node, port)) = name.rsplit_once(':') else {
                bail!("--tunnel {name}: write NODE:PORT");
            };
            let port = port
                .parse()
                .ok()
                .filter(|&port: &u8| port > 0)
                .with_context(|| format!("--tunnel {name}: {port} is no port, 1 to 254"))?;
            let node = self.device_of(self.find(node).with_context(what)?);
            let end = End { node, port };
            let peer = peers.get(&end);
            let peer =
                peer.with_context(|| format!("--tunnel {name}: no cable is in that port"))?;
            Ok(end.min(*peer))
        };
        self.options.tunnel.iter().map(chosen).collect()
    }

    /// How the cable between these ends is made.
    #[must_use]
    pub fn medium(&self, [one, other]: [End; 2]) -> Transport {
        match self.tunnels.contains(&one.min(other)) {
            true => Transport::Tunnel,
            false => self.options.transport,
        }
    }

    /// Whether a cable is a tunnel.
    #[must_use]
    pub fn has_tunnels(&self) -> bool {
        self.options.transport == Transport::Tunnel || !self.tunnels.is_empty()
    }
}

/// Draws the secret, if the fabric has tunnels, and puts it where the supervisor reads it.
///
/// # Errors
/// If it cannot be drawn or written.
pub(crate) fn keep(dir: &FabricDir, state: &FabricState) -> Result<()> {
    if !state.has_tunnels() {
        return Ok(());
    }
    let secret: [u8; SECRET_BYTES] = netio::random::bytes()?;
    let mut text: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
    text.push('\n');
    Ok(dir.require()?.replace(dir::LINK_SECRET, text.as_bytes())?)
}

/// Sockets for the tunnels at `ends`, in the namespace of this process: the device, in one of its own, inherits them.
///
/// # Errors
/// If no socket is to be had.
pub(crate) fn sockets(
    state: &FabricState,
    ends: &[End],
    command: &mut Command,
    sockets: &mut Vec<TunnelSocket>,
) -> Result<BTreeMap<u8, Medium>> {
    let peers = state.peers();
    let mut inherited = BTreeMap::new();
    for end in ends {
        let peer = peers.get(end).copied().unwrap_or(*end);
        if state.medium([*end, peer]) == Transport::Tunnel {
            let socket = TunnelSocket::bind(SocketAddr::from((state.address([*end, peer]), 0)))?;
            inherited.insert(end.port, socket.inherit(command));
            sockets.push(socket);
        }
    }
    Ok(inherited)
}

impl FabricDir {
    /// What the keys of the fabric's tunnels are made of.
    ///
    /// # Errors
    /// If its file is not there, or is none.
    pub fn link_secret(&self) -> Result<JobSecret> {
        let path = self.path().join(dir::LINK_SECRET);
        let text = read_secret(&path)?;
        let secret = secret(&text)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no secret of links"));
        Ok(JobSecret::new(secret.with_context(|| {
            format!("{}: 64 hexadecimal digits are expected", path.display())
        })?))
    }
}

/// The bytes of 64 hexadecimal digits.
fn secret(text: &str) -> Option<[u8; SECRET_BYTES]> {
    let digits = text.trim_end().as_bytes();
    if digits.len() != 2 * SECRET_BYTES {
        return None;
    }
    let mut bytes = [0; SECRET_BYTES];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let number = wire::convert::hexadecimal(str::from_utf8(pair).ok()?)?;
        *byte = u8::try_from(number).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Verb};
    use crate::process::ProcessRecord;
    use clap::Parser;

    fn plan(arguments: &[&str]) -> Result<FabricState> {
        let line = ["ibemu", "up", "star-3"].iter().chain(arguments);
        let Verb::Up(up) = Cli::try_parse_from(line)?.verb else {
            panic!("not up");
        };
        let dir = FabricDir::at(std::path::Path::new("/run/ibemu/ib"))?;
        let topology = topologies::parse(&up.topology).unwrap();
        let own = ProcessRecord::own()?;
        FabricState::plan(dir.fabric(), &topology.graph, topology.name, &up, own)
    }

    #[test]
    fn a_tunnel_is_named_by_either_end_and_the_other_cables_are_as_before() {
        for name in ["s0:2", "h1:1"] {
            let state = plan(&["--transport", "shm", "--tunnel", name]).unwrap();
            let media: Vec<_> = state.links.iter().map(|&ends| state.medium(ends)).collect();
            let expected = [Transport::Shm, Transport::Tunnel, Transport::Shm];
            assert_eq!(media, expected, "{name}");
            assert!(state.has_tunnels());
        }
        let all = plan(&["--transport", "tunnel"]).unwrap();
        assert!(
            all.links
                .iter()
                .all(|&ends| all.medium(ends) == Transport::Tunnel)
        );
        assert!(!plan(&[]).unwrap().has_tunnels());
    }

    #[test]
    fn a_port_without_a_cable_is_no_tunnel() {
        for (name, what) in [
            ("s0", "NODE:PORT"),
            ("s0:0", "is no port"),
            ("s0:x", "is no port"),
            ("s0:9", "no cable"),
            ("s7:1", "--tunnel s7:1"),
        ] {
            let error = format!("{:#}", plan(&["--tunnel", name]).unwrap_err());
            assert!(error.contains(what), "{name}: {error}");
        }
    }

    #[test]
    fn a_secret_is_64_digits() {
        let text = "00ff".repeat(16);
        assert_eq!(secret(&text).unwrap()[..4], [0, 0xff, 0, 0xff]);
        for wrong in [
            "",
            "00",
            &text[1..],
            &format!("{}x", &text[1..]),
            &text.repeat(2),
        ] {
            assert!(secret(wrong).is_none(), "{wrong}");
        }
    }
}
