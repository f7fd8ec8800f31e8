//! How the cables of a daemon are made, as its arguments say it.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use strum::{EnumMessage, IntoStaticStr, VariantArray};
use wire::PortNum;

use super::TunnelSocketAt;

/// How cables are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Transport {
    /// A veth pair a cable, a network namespace a device; needs root.
    Veth,
    /// UDP on loopback; needs no privileges.
    Udp,
    /// Memory that both ends share; needs no privileges.
    Shm,
    /// UDP as between machines: sealed, cut to the path's MTU, repeated when lost; needs no privileges.
    Tunnel,
}
wire::choice!(Transport, "transport");

impl Transport {
    /// Whether a cable joins two network namespaces, each device being in one of its own.
    #[must_use]
    pub fn has_namespaces(self) -> bool {
        self == Self::Veth
    }
}

/// The transport of one link and where its frames go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Medium {
    /// The interface of this name in the daemon's namespace.
    Veth(String),
    /// A UDP socket on this local address; port 0 leaves the port to the kernel.
    Udp(SocketAddr),
    /// Memory that is handed over later.
    Shm,
    /// A UDP socket for a network that others share.
    Tunnel(TunnelSocketAt),
}

/// One link of a daemon: `PORT=veth:INTERFACE`, `PORT=udp:ADDRESS[:UDPPORT]`, `PORT=shm`, `PORT=tunnel:ADDRESS[:UDPPORT]` or
/// `PORT=tunnel:fd:DESCRIPTOR`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkSpec {
    /// The port that the cable is in.
    pub port: PortNum,
    /// How its frames travel.
    pub medium: Medium,
}

impl Medium {
    /// Reads what [`fmt::Display`] writes; an address alone has port 0.
    fn parse(text: &str) -> Result<Self, &'static str> {
        let (transport, to) = text.split_once(':').unwrap_or((text, ""));
        match transport.parse() {
            // IFNAMSIZ counts the NUL.
            Ok(Transport::Veth) if (1..=15).contains(&to.len()) => Ok(Self::Veth(to.to_owned())),
            Ok(Transport::Veth) => Err("an interface's name has 1 to 15 bytes"),
            Ok(Transport::Udp) => to
                .parse()
                .or_else(|_| to.parse().map(|ip: IpAddr| SocketAddr::new(ip, 0)))
                .map(Self::Udp)
                .map_err(|_| "the address is not a numeric IP address"),
            Ok(Transport::Shm) if text == transport => Ok(Self::Shm),
            Ok(Transport::Shm) => Err("nothing follows shm"),
            Ok(Transport::Tunnel) => TunnelSocketAt::parse(to).map(Self::Tunnel),
            Err(_) => Err("the transport is neither veth nor udp nor shm nor tunnel"),
        }
    }
}

impl fmt::Display for Medium {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Veth(name) => write!(f, "{}:{name}", Transport::Veth),
            Self::Udp(address) => write!(f, "{}:{address}", Transport::Udp),
            Self::Shm => Transport::Shm.fmt(f),
            Self::Tunnel(at) => write!(f, "{}:{at}", Transport::Tunnel),
        }
    }
}

impl FromStr for LinkSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |what: &str| {
            format!(
                "{what}; write PORT=veth:INTERFACE, PORT=udp:ADDRESS[:UDPPORT], PORT=shm, \
                 PORT=tunnel:ADDRESS[:UDPPORT] or PORT=tunnel:fd:DESCRIPTOR"
            )
        };
        let (port, medium) = text
            .split_once('=')
            .ok_or_else(|| wrong("there is no '='"))?;
        let port = port
            .parse()
            .ok()
            .and_then(|port: u8| (1..=254).contains(&port).then_some(PortNum::new(port)))
            .ok_or_else(|| wrong("the port is not a number from 1 to 254"))?;
        let medium = Medium::parse(medium).map_err(wrong)?;
        Ok(Self { port, medium })
    }
}

impl fmt::Display for LinkSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.port, self.medium)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_written_as_it_is_read() {
        for text in [
            "1=veth:p1",
            "36=udp:127.0.0.1:0",
            "254=udp:[::1]:7000",
            "2=shm",
            "3=tunnel:192.0.2.1:0",
            "4=tunnel:[2001:db8::1]:7000",
            "5=tunnel:fd:7",
        ] {
            let spec: LinkSpec = text.parse().unwrap();
            assert_eq!(spec.to_string(), text);
        }
    }

    #[test]
    fn an_address_alone_leaves_the_port_to_the_kernel() {
        for text in ["1=udp:127.0.0.1", "1=udp:::1"] {
            let spec: LinkSpec = text.parse().unwrap();
            assert!(matches!(spec.medium, Medium::Udp(at) if at.port() == 0));
        }
        let tunnel: LinkSpec = "1=tunnel:::1".parse().unwrap();
        assert_eq!(tunnel.to_string(), "1=tunnel:[::1]:0");
    }

    #[test]
    fn a_wrong_link_says_what_is_wrong() {
        for (text, what) in [
            ("1", "no '='"),
            ("0=veth:p0", "1 to 254"),
            ("x=veth:p0", "1 to 254"),
            ("1=veth:", "1 to 15 bytes"),
            ("1=veth:abcdefghijklmnop", "1 to 15 bytes"),
            ("1=udp:localhost", "numeric"),
            ("1=tcp:127.0.0.1", "neither veth nor udp"),
            ("1=shm:", "nothing follows"),
            ("1=tunnel:localhost", "numeric"),
            ("1=tunnel", "numeric"),
            ("1=tunnel:fd:2", "above 2"),
            ("1=tunnel:fd:x", "above 2"),
        ] {
            let error = text.parse::<LinkSpec>().unwrap_err();
            assert!(error.contains(what), "{text}: {error}");
        }
    }
}
