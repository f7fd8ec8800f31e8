//! The internet addresses and names of a fabric's hosts.
//!
//! Every port beside which programs run has a number ([`hostd::addresses`]), in the order of the fabric's nodes: the
//! first ports of all hosts, then further ones. The interfaces of one host are `ib0`, `ib1` and so on, in the order
//! of adapters and ports. The host's name is that of `ib0`, further ones are called `HOST-ib1` and so on; the name of the
//! adapter or port, or its handle, is a name too, as far as it can be one.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use anyhow::Result;
use hostd::addresses::{HostNumber, Network};
use netio::transport::Transport;

use crate::dir::{self, FabricDir};
use crate::state::{FabricState, NodeState};

/// The variable in which `exec` tells a program the IPv4 address of its node.
pub const VARIABLE: &str = "IBEMU_ADDRESS";

/// The interface whose name is the host's.
const FIRST_INTERFACE: &str = "ib0";
/// The system's own file of names.
const SYSTEM_HOSTS: &str = "/etc/hosts";
/// What interfaces are made with.
const TUN: &str = "/dev/net/tun";
/// What the system's own names are cut to, bytes.
const SYSTEM_HOSTS_MAX: usize = 1 << 20;
/// Names of the loopback interface, where the system has no file.
const LOOPBACK_HOSTS: &str = "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n";

/// A host's port with addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostAddress {
    /// Its position in [`FabricState::nodes`].
    pub node: usize,
    /// Its number.
    pub number: HostNumber,
    /// Its interface, where hosts have namespaces.
    pub interface: String,
    /// Its names, the first of which is told where one is.
    pub names: Vec<String>,
    network: Network,
}

impl HostAddress {
    /// The IPv4 address.
    #[must_use]
    pub const fn ipv4(&self) -> Ipv4Addr {
        self.number.ipv4(self.network)
    }

    /// The IPv6 address; none without namespaces.
    #[must_use]
    pub const fn ipv6(&self) -> Option<Ipv6Addr> {
        match self.network {
            Network::Interfaces => Some(self.number.ipv6()),
            Network::Loopback => None,
        }
    }

    /// Both.
    pub fn all(&self) -> impl Iterator<Item = IpAddr> {
        let ipv6 = self.ipv6().map(IpAddr::from);
        std::iter::once(self.ipv4().into()).chain(ipv6)
    }
}

/// All addresses of a fabric in order; none if it was brought up without.
#[must_use]
pub(crate) fn of_fabric(state: &FabricState) -> Vec<HostAddress> {
    if state.options.no_ip {
        return Vec::new();
    }
    let network = match state.options.transport {
        Transport::Veth => Network::Interfaces,
        Transport::Udp | Transport::Shm | Transport::Tunnel => Network::Loopback,
    };
    let interfaces = interfaces(state);
    let mut taken = BTreeSet::new();
    let numbers = (0..).map_while(HostNumber::of_position);
    let ports: Vec<(usize, HostNumber)> = state.real_hosts().zip(numbers).collect();
    ports
        .into_iter()
        .map(|(node, number)| {
            let place = interfaces.get(&node).copied().unwrap_or_default();
            HostAddress {
                node,
                number,
                interface: format!("ib{place}"),
                names: names(&state.nodes[node], place, &mut taken),
                network,
            }
        })
        .collect()
}

/// The name of the host that a node is of, where hosts have names.
#[must_use]
pub fn host_name(state: &FabricState, node: usize) -> Option<&str> {
    let host = host_of(&state.nodes[node]);
    let is_first = |address: &&HostAddress| {
        address.interface == FIRST_INTERFACE && host_of(&state.nodes[address.node]) == host
    };
    let address = state.addresses().iter().find(is_first)?;
    address.names.first().map(String::as_str)
}

/// What tells the host of a port: its name, or without one its device.
fn host_of(port: &NodeState) -> (bool, &str) {
    match &port.in_host {
        Some(at) => (true, at.host.as_str()),
        None => (false, port.handle.as_str()),
    }
}

/// The addresses of the ports of a device.
pub fn of_device(state: &FabricState, device: usize) -> impl Iterator<Item = &HostAddress> {
    let all = state.addresses().iter();
    all.filter(move |address| state.device_of(address.node) == device)
}

/// Whether interfaces can be made on this system; why not.
///
/// # Errors
/// The system's error.
pub(crate) fn check_interfaces() -> std::io::Result<()> {
    let tun = std::fs::File::options().read(true).write(true).open(TUN);
    tun.map(drop)
}

/// The place of each port among the interfaces of its host.
fn interfaces(state: &FabricState) -> BTreeMap<usize, usize> {
    /// Adapter, port and node.
    type Port = (u8, u8, usize);
    let mut of_host: BTreeMap<(bool, &str), Vec<Port>> = BTreeMap::new();
    for node in state.real_hosts() {
        let port = &state.nodes[node];
        let ports = of_host.entry(host_of(port)).or_default();
        ports.push((port.adapter, port.port, node));
    }
    let mut places = BTreeMap::new();
    for mut ports in of_host.into_values() {
        ports.sort_unstable();
        for (place, (.., node)) in ports.into_iter().enumerate() {
            places.insert(node, place);
        }
    }
    places
}

/// The names of a port at that place among its host's, without those that others have.
fn names(port: &NodeState, place: usize, taken: &mut BTreeSet<String>) -> Vec<String> {
    let own = match is_host_name(&port.name) {
        true => port.name.clone(),
        false => port.handle.clone(),
    };
    let host = port.in_host.as_ref().map(|at| at.host.clone());
    let host = host.filter(|name| is_host_name(name));
    // The name of a further port holds a colon, its handle is the device's.
    let is_further = port.device.is_some();
    let of_place = |name: String| match place {
        0 => name,
        _ => format!("{name}-ib{place}"),
    };
    let of_host = of_place(host.unwrap_or_else(|| own.clone()));
    let wanted = match is_further {
        true => vec![of_host, of_place(own)],
        false => vec![of_host, own],
    };
    let is_free = |name: &String| is_host_name(name) && taken.insert(name.to_ascii_lowercase());
    wanted.into_iter().filter(is_free).collect()
}

/// Whether a name can be one in `/etc/hosts`: letters, digits, dashes and underscores between dots, as resolvers
/// take it (RFC 1123 but for underscores), and no address.
fn is_host_name(name: &str) -> bool {
    let is_label = |label: &str| {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        (1..=63).contains(&label.len())
            && label.chars().all(fits)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let is_number = name.chars().all(|c| c.is_ascii_digit() || c == '.');
    name.len() <= 253 && !is_number && name.split('.').all(is_label)
}

/// The text of `/etc/hosts` of a fabric's hosts, behind the system's own.
fn text(system: &str, addresses: &[HostAddress]) -> String {
    let mut text = system.to_owned();
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    for address in addresses.iter().filter(|address| !address.names.is_empty()) {
        let names = address.names.join(" ");
        for ip in address.all() {
            // A string takes everything.
            let _ = writeln!(text, "{ip} {names}");
        }
    }
    text
}

/// Puts the names where `exec` finds them; nothing for a fabric without addresses.
///
/// # Errors
/// If the file cannot be written.
pub(crate) fn keep(dir: &FabricDir, state: &FabricState) -> Result<()> {
    let addresses = state.addresses();
    if addresses.is_empty() {
        return Ok(());
    }
    let system = std::path::Path::new(SYSTEM_HOSTS);
    let system = topologies::read_bounded(system, "file of names", SYSTEM_HOSTS_MAX);
    let system = system.unwrap_or_else(|_| LOOPBACK_HOSTS.to_owned());
    let text = text(&system, addresses);
    let directory = dir.require()?;
    Ok(directory.replace_for_all(dir::HOSTS, text.as_bytes())?)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Verb};
    use crate::process::ProcessRecord;

    fn plan(arguments: &[&str]) -> FabricState {
        let line = ["ibemu", "up"].iter().chain(arguments);
        let cli = Cli::try_parse_from(line).expect("a command line");
        let Verb::Up(up) = cli.verb else {
            panic!("not up");
        };
        let topology = topologies::parse(&up.topology).expect("a topology");
        let own = ProcessRecord::own().expect("a process");
        FabricState::plan(&cli.fabric, &topology.graph, topology.name, &up, own).expect("a plan")
    }

    fn told(state: &FabricState) -> String {
        text("127.0.0.1 localhost", &of_fabric(state))
    }

    #[test]
    fn hosts_are_numbered_in_the_order_of_the_topology() {
        let state = plan(&["fat-tree-4-2"]);
        let text = told(&state);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[..4],
            [
                "127.0.0.1 localhost",
                "10.73.0.1 h0.0",
                "fd73::1 h0.0",
                "10.73.0.2 h0.1"
            ]
        );
        assert_eq!(lines.len(), 1 + 2 * 8);
        let first = state.find("h0.0").expect("a host");
        let interfaces = |node: usize| -> Vec<&str> {
            let own = of_device(&state, node);
            own.map(|address| address.interface.as_str()).collect()
        };
        assert_eq!(interfaces(first), ["ib0"]);
        assert!(interfaces(state.switches().next().expect("one")).is_empty());
    }

    #[test]
    fn over_udp_the_addresses_are_of_the_loopback_interface() {
        let state = plan(&["star-2", "--transport", "udp"]);
        assert_eq!(
            told(&state),
            "127.0.0.1 localhost\n127.73.0.1 h0\n127.73.0.2 h1\n"
        );
        let without = plan(&["star-2", "--transport", "udp", "--no-ip"]);
        assert_eq!(of_fabric(&without), []);
    }

    #[test]
    fn ports_and_adapters_of_one_host_are_its_interfaces_in_order() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../topologies/files");
        let state = plan(&[&format!("{folder}/quirks.ibnetdiscover")]);
        let all = of_fabric(&state);
        assert_eq!(all.len(), state.real_hosts().count());
        let named = |name: &str| {
            let node = state.find(name).expect("a port");
            let address = all.iter().find(|address| address.node == node);
            let address = address.expect("addresses");
            (address.interface.clone(), address.names.join(" "))
        };
        let pair = |interface: &str, names: &str| (interface.to_owned(), names.to_owned());
        assert_eq!(
            named("node01 mlx4_0"),
            pair("ib0", "node01 node01_mlx4_0"),
            "the host's name, and the handle of the adapter"
        );
        assert_eq!(
            named("node01 mlx4_0:2"),
            pair("ib1", "node01-ib1 node01_mlx4_0-ib1")
        );
        assert_eq!(
            named("node06 mlx5_1"),
            pair("ib1", "node06-ib1 node06_mlx5_1")
        );
        let mut names: Vec<&String> = all.iter().flat_map(|address| &address.names).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count, "no name is of two");
    }

    #[test]
    fn what_is_no_host_name_is_told_by_its_handle() {
        for good in ["h0.0.1", "node-7", "a_b", "x1"] {
            assert!(is_host_name(good), "{good}");
        }
        for bad in [
            "",
            "a b",
            "a:2",
            "-a",
            "a.-b",
            "a..b",
            "10.73.0.1",
            "12",
            "é",
            "a#",
        ] {
            assert!(!is_host_name(bad), "{bad}");
        }
    }
}
