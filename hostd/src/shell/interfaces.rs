//! The interfaces of the host's ports for internet packets, on the dataplane thread, around the core: packets are its
//! commands and events, so that they are recorded as such.

use std::net::Ipv6Addr;

use anyhow::{Context as _, Result};
use daemon::shell::Core;
use hostd::addresses::HostNumber;
use hostd::{Command, Event, FromIp, HEADROOM, HostConfig, IpPort, MTU_FIRST, OUTGOING_MAX, ToIp};
use link::{Deadline, DeadlineCause, Device, FrameBuf, Input, PortSet, Time};
use netio::NetError;
use netio::event::Doorbells;
use netio::tun::{PACKETS_MAX, Tun, TunConfig};
use wire::{Gid, Guid, PortNum, ipoib};

/// Chunks taken from an interface at a time at most.
const CHUNKS_MAX: usize = 8;
/// Packets handed to the kernel at a time at most.
const BATCH_MAX: usize = 128;

/// Reads `PORT=NUMBER[:INTERFACE]`.
pub(super) fn ip_port(text: &str) -> Result<IpPort> {
    let form = || format!("{text:?}: write PORT=NUMBER or PORT=NUMBER:INTERFACE");
    let (port, rest) = text.split_once('=').with_context(form)?;
    let (number, interface) = match rest.split_once(':') {
        Some((number, interface)) => (number, Some(interface.to_owned())),
        None => (rest, None),
    };
    let number = number.parse().ok().and_then(HostNumber::new);
    let port = port.parse().ok().filter(|port| (1..=254).contains(port));
    Ok(IpPort {
        port: port.map(PortNum::new).with_context(form)?,
        number: number.with_context(form)?,
        interface,
    })
}

/// An interface.
struct Interface {
    port: PortNum,
    tun: Tun,
    /// Whether there may be something to read.
    is_readable: bool,
    /// How many packets the core has room for.
    room: usize,
    /// Packets for programs.
    batch: Vec<Vec<u8>>,
}

/// All interfaces of a host.
pub(super) struct Interfaces(Vec<Interface>);

impl Interfaces {
    /// Makes the interfaces of a host. Without one, the host runs on.
    pub(super) fn open(config: &HostConfig, doorbells: &Doorbells) -> Self {
        let mut all = Vec::new();
        for ip in &config.ip {
            let Some(name) = &ip.interface else {
                continue;
            };
            match open(config, ip, name, doorbells) {
                Ok(tun) => all.push(Interface {
                    port: ip.port,
                    tun,
                    is_readable: true,
                    room: OUTGOING_MAX,
                    batch: Vec::new(),
                }),
                Err(error) => tracing::warn!("no internet packets at port {}: {error}", ip.port),
            }
        }
        Self(all)
    }
}

fn open(
    config: &HostConfig,
    ip: &IpPort,
    name: &str,
    doorbells: &Doorbells,
) -> Result<Tun, NetError> {
    let guids = &config.hardware.port_guids;
    let own = Guid(config.guid.0.wrapping_add(u64::from(ip.port.get())));
    let guid = guids.get(&ip.port.get()).copied().unwrap_or(own);
    let local = ipoib::link_local(Gid::new(Gid::DEFAULT_PREFIX, guid));
    let ipv6: [(Ipv6Addr, u8); 2] = [
        (local, HostNumber::IPV6_PREFIX_LEN),
        (ip.number.ipv6(), HostNumber::IPV6_PREFIX_LEN),
    ];
    let tun = Tun::open(&TunConfig {
        name,
        ipv4: (ip.number.ipv4(ip.network()), HostNumber::IPV4_PREFIX_LEN),
        ipv6: &ipv6,
        mtu: MTU_FIRST,
    })?;
    let watched = doorbells.watch(&tun);
    watched.map_err(|cause| NetError::new(format!("watch the interface {name}"), cause))?;
    Ok(tun)
}

impl Interface {
    fn can_read(&self) -> bool {
        self.is_readable && self.room >= PACKETS_MAX
    }

    /// Packets of one chunk; none if nothing waits.
    fn read(&mut self) -> Vec<Vec<u8>> {
        match self.tun.receive(HEADROOM) {
            Ok(packets) => {
                self.is_readable = !packets.is_empty();
                self.room = self.room.saturating_sub(packets.len());
                packets
            }
            Err(error) => {
                tracing::debug!("a chunk is lost: {error}");
                // More may be behind it, but not if the interface itself is gone.
                self.is_readable = error.raw_os_error().is_none();
                Vec::new()
            }
        }
    }

    fn flush(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        if let Err(error) = self.tun.send(&mut self.batch, HEADROOM) {
            tracing::debug!("packets are lost: {error}");
        }
        self.batch.clear();
    }

    fn take(&mut self, message: FromIp) {
        match message {
            FromIp::Packet(packet) => {
                self.batch.push(packet);
                if self.batch.len() >= BATCH_MAX {
                    self.flush();
                }
            }
            FromIp::Taken(count) => {
                let count = usize::try_from(count).unwrap_or(usize::MAX);
                self.room = self.room.saturating_add(count).min(OUTGOING_MAX);
            }
            FromIp::Mtu(mtu) => {
                if let Err(error) = self.tun.set_mtu(mtu) {
                    tracing::warn!("{error}");
                }
            }
        }
    }
}

/// The core with its interfaces.
pub(super) struct Interfaced {
    core: Core<Command, Event>,
    interfaces: Vec<Interface>,
}

impl Interfaced {
    pub(super) fn new(core: Core<Command, Event>, Interfaces(interfaces): Interfaces) -> Self {
        Self { core, interfaces }
    }

    fn take_packets(&mut self, now: Time) {
        for interface in &mut self.interfaces {
            for _ in 0..CHUNKS_MAX {
                if !interface.can_read() {
                    break;
                }
                let packets = interface.read();
                if packets.is_empty() {
                    continue;
                }
                let (port, message) = (interface.port, ToIp::Packets(packets));
                let command = Command::Ip { port, message };
                self.core.handle(now, Input::Command(command));
            }
        }
    }
}

impl Device for Interfaced {
    type Command = Command;
    type Event = Event;

    fn handle(&mut self, now: Time, input: Input<'_, Command>) {
        // Interfaces ring as programs do.
        if matches!(input, Input::Tick) {
            for interface in &mut self.interfaces {
                interface.is_readable = true;
            }
        }
        self.core.handle(now, input);
        self.take_packets(now);
    }

    fn ready(&self, now: Time) -> PortSet {
        self.core.ready(now)
    }

    fn transmit(&mut self, now: Time, port: PortNum, frame: &mut FrameBuf<'_>) -> usize {
        self.core.transmit(now, port, frame)
    }

    fn poll_event(&mut self) -> Option<Event> {
        loop {
            match self.core.poll_event() {
                Some(Event::Ip { port, message }) => {
                    let mut all = self.interfaces.iter_mut();
                    if let Some(interface) = all.find(|one| one.port == port) {
                        interface.take(message);
                    }
                }
                Some(event) => return Some(event),
                None => {
                    self.interfaces.iter_mut().for_each(Interface::flush);
                    return None;
                }
            }
        }
    }

    fn deadline(&self) -> Option<Deadline> {
        if self.interfaces.iter().any(Interface::can_read) {
            return Some(Deadline {
                at: Time::ZERO,
                cause: DeadlineCause::Traffic,
            });
        }
        self.core.deadline()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_told_by_number_and_interface() {
        let port = ip_port("2=258:ib1").expect("a port");
        assert_eq!((port.port, port.number.get()), (PortNum::new(2), 258));
        assert_eq!(port.interface.as_deref(), Some("ib1"));
        assert_eq!(ip_port("1=7").expect("a port").interface, None);
        for bad in ["", "1", "1=", "0=1", "255=1", "1=0", "1=65535", "1=x:ib0"] {
            let told = ip_port(bad).expect_err("bad").to_string();
            assert!(told.contains("PORT=NUMBER"), "{told}");
        }
    }
}
