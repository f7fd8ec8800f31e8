//! The cables of one device on its control side: addresses of their ends, and counters below the core.

use std::cell::Cell;
use std::sync::Arc;

use link::PortConfig;
use wire::PortNum;
use wire::control::DeviceReply;
use wire::udplink::UdpEndpoint;

use netio::NetError;
use netio::transport::{Link, LinkCounters, LinkSpec, Transport, TunnelOptions};

/// Bytes of kernel memory that a frame takes for each byte of credit, where frames are short: one
/// packet of 290 bytes in five blocks of 64 takes 1,280.
const MEMORY_PER_CREDIT: usize = 4;

/// The cables of one device.
#[derive(Debug)]
pub struct Cables {
    ends: Vec<End>,
}

#[derive(Debug)]
struct End {
    port: PortNum,
    transport: Transport,
    endpoint: Option<UdpEndpoint>,
    /// The number of the cable in shared memory once there is one.
    cable: Cell<Option<u64>>,
    counters: Arc<LinkCounters>,
}

impl Cables {
    /// Opens the links of a device with `ports` ports.
    ///
    /// # Errors
    /// If two cables are in one port or one is in none, or a link cannot be opened.
    pub fn open(
        specs: &[LinkSpec],
        ports: u8,
        tunnels: TunnelOptions,
    ) -> Result<(Self, Vec<Link>), NetError> {
        let mut specs: Vec<&LinkSpec> = specs.iter().collect();
        specs.sort_by_key(|spec| spec.port);
        let refuse = |spec: &LinkSpec, why| NetError::refused(format!("plug in {spec}"), why);
        for pair in specs.windows(2) {
            if pair[0].port == pair[1].port {
                return Err(refuse(pair[1], "the port has a cable already"));
            }
        }
        if let Some(spec) = specs.last().filter(|spec| spec.port.get() > ports) {
            return Err(refuse(spec, "the device has fewer ports"));
        }
        let links: Vec<Link> = specs
            .into_iter()
            .map(|spec| Link::open(spec, tunnels))
            .collect::<Result<_, _>>()?;
        let ends = links
            .iter()
            .map(|link| End {
                port: link.port(),
                transport: link.transport(),
                endpoint: link.endpoint(),
                cable: Cell::new(None),
                counters: Arc::clone(link.counters()),
            })
            .collect();
        Ok((Self { ends }, links))
    }

    /// Warns if the sockets have less room than the peers have credits: frames would be lost where
    /// InfiniBand loses none. That is so where the system's limit is low and may not be passed.
    pub fn check_room(links: &[Link], config: &PortConfig) {
        let needed = MEMORY_PER_CREDIT
            .saturating_mul(usize::from(config.vls))
            .saturating_mul(config.buffer_bytes);
        let short = |link: &&Link| {
            link.receive_buffer_bytes()
                .is_some_and(|room| room < needed)
        };
        if let Some(link) = links.iter().find(short) {
            tracing::warn!(
                port = link.port().get(),
                "the system gives sockets less room than the links' buffers need, so packets may be \
                 lost under load; raise net.core.rmem_max to {} or run as root",
                // The kernel doubles what is set, for its own overhead.
                needed / 2
            );
        }
    }

    /// The ports that have a cable, in ascending order.
    #[must_use]
    pub fn ports(&self) -> Vec<PortNum> {
        self.ends.iter().map(|end| end.port).collect()
    }

    /// The ends of UDP cables and tunnels, in ascending order of port.
    #[must_use]
    pub fn endpoints(&self) -> Vec<(PortNum, UdpEndpoint)> {
        self.ends
            .iter()
            .filter_map(|end| Some((end.port, end.endpoint?)))
            .collect()
    }

    /// How the cable of `port` is made, if it has one.
    #[must_use]
    pub fn transport(&self, port: PortNum) -> Option<Transport> {
        let end = self.ends.iter().find(|end| end.port == port);
        end.map(|end| end.transport)
    }

    /// The cable of `port` is this one from now on.
    pub fn attach(&self, port: PortNum, cable: u64) {
        for end in self.ends.iter().filter(|end| end.port == port) {
            end.cable.set(Some(cable));
        }
    }

    /// The numbers of the cables in shared memory, in ascending order of port.
    #[must_use]
    pub fn attached(&self) -> Vec<(PortNum, u64)> {
        self.ends
            .iter()
            .filter_map(|end| Some((end.port, end.cable.get()?)))
            .collect()
    }

    /// Completes the reply of a core, which has neither: the process's number, and the counters of the links.
    pub fn complete(&self, reply: &mut DeviceReply) {
        match reply {
            DeviceReply::Identity { pid, .. } => *pid = std::process::id(),
            DeviceReply::Ports(statuses) => {
                for status in statuses {
                    let end = self.ends.iter().find(|end| end.port == status.port);
                    let counters = end.into_iter().flat_map(|end| end.counters.nonzero());
                    status
                        .counters
                        .extend(counters.map(|(name, value)| (name.to_owned(), value)));
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(specs: &[&str]) -> Result<Cables, NetError> {
        let specs: Vec<_> = specs.iter().map(|spec| spec.parse().unwrap()).collect();
        Cables::open(&specs, 4, TunnelOptions::default()).map(|(cables, _)| cables)
    }

    #[test]
    fn every_udp_cable_and_tunnel_has_an_address_a_secret_and_an_epoch_of_its_own() {
        let cables = open(&["3=udp:127.0.0.1", "1=tunnel:127.0.0.1"]).unwrap();
        let transports = [1, 2, 3].map(|port| cables.transport(PortNum::new(port)));
        let expected = [Some(Transport::Tunnel), None, Some(Transport::Udp)];
        assert_eq!(transports, expected);
        let endpoints = cables.endpoints();
        let ports: Vec<_> = endpoints.iter().map(|(port, _)| port.get()).collect();
        assert_eq!(ports, [1, 3]);
        let [one, other] = [0, 1].map(|at: usize| endpoints[at].1);
        assert_ne!(one.address, other.address);
        assert_ne!(one.secret, other.secret);
        assert_ne!(one.epoch, other.epoch);
    }

    #[test]
    fn a_cable_needs_a_port_of_its_own() {
        for (specs, what) in [
            (["1=udp:127.0.0.1", "1=udp:127.0.0.1"], "already"),
            (["1=udp:127.0.0.1", "5=udp:127.0.0.1"], "fewer ports"),
        ] {
            let error = open(&specs).unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        }
    }
}
