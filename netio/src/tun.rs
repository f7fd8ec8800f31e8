//! The interface of a host for internet packets: a TUN device, made in the calling thread's network namespace, which goes
//! with its descriptor.
//!
//! The kernel hands over chunks of a stream of up to 64 KiB and takes such ones (virtio's header in front of each
//! packet); `tun-rs` cuts them into packets of the MTU, and puts packets together.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use tun_rs::{DeviceBuilder, GROTable, SyncDevice, VIRTIO_NET_HDR_LEN};

use crate::NetError;

/// Bytes in front of each packet that [`Tun::send`] takes, at least.
pub const HEADROOM_MIN: usize = VIRTIO_NET_HDR_LEN;
/// Packets that [`Tun::receive`] yields at most: a chunk of those of a program that wants them short.
pub const PACKETS_MAX: usize = 512;
/// Bytes in front of packets at most.
const HEADROOM_MAX: usize = 64;
/// The longest chunk of a stream.
const CHUNK_BYTES_MAX: usize = 65_535;
/// The longest packet.
const PACKET_BYTES_MAX: usize = 4096;
/// Memory of a packet.
const SLOT_BYTES: usize = HEADROOM_MAX + PACKET_BYTES_MAX;
/// Packets that wait in the kernel: a program that sends more has to wait, or loses them if it does not.
const QUEUE_PACKETS: u32 = 1000;

/// How an interface is set up.
#[derive(Clone, Debug)]
pub struct TunConfig<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its IPv4 address and the length of the network's prefix.
    pub ipv4: (Ipv4Addr, u8),
    /// Its IPv6 addresses, each with the length of its network's prefix.
    pub ipv6: &'a [(Ipv6Addr, u8)],
    /// The longest packet, bytes.
    pub mtu: u16,
}

/// The interface.
pub struct Tun {
    device: SyncDevice,
    name: String,
    /// Where packets are put together: a megabyte, which there is from the first packet on.
    coalescing: Option<GROTable>,
    chunk: Box<[u8]>,
    /// Where packets are cut into, [`SLOT_BYTES`] each. Pages that were not written to are not there.
    cut: Box<[u8]>,
    sizes: Vec<usize>,
}

impl std::fmt::Debug for Tun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Tun").field(&self.name).finish()
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the device has the descriptor open as long as it is there, which the borrow says.
        unsafe { BorrowedFd::borrow_raw(self.device.as_raw_fd()) }
    }
}

/// Writes a setting of an interface; one that the kernel does not have needs none.
fn set(family: &str, name: &str, setting: &str, value: &str) -> io::Result<()> {
    match fs::write(
        format!("/proc/sys/net/{family}/conf/{name}/{setting}"),
        value,
    ) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

impl Tun {
    /// Makes the interface, with its addresses, up.
    ///
    /// # Errors
    /// What the system refuses: without `/dev/net/tun`, or the right to administer networks.
    pub fn open(config: &TunConfig<'_>) -> Result<Self, NetError> {
        let name = config.name;
        let failed = |cause| NetError::new(format!("make the interface {name}"), cause);
        let device = Self::device(config).map_err(failed)?;
        device.set_nonblocking(true).map_err(failed)?;
        Ok(Self {
            device,
            name: name.to_owned(),
            coalescing: None,
            chunk: vec![0; VIRTIO_NET_HDR_LEN + CHUNK_BYTES_MAX].into_boxed_slice(),
            cut: vec![0; SLOT_BYTES * PACKETS_MAX].into_boxed_slice(),
            sizes: vec![0; PACKETS_MAX],
        })
    }

    fn device(config: &TunConfig<'_>) -> io::Result<SyncDevice> {
        let name = config.name;
        let (address, prefix) = config.ipv4;
        let device = DeviceBuilder::new()
            .name(name)
            .offload(true)
            .mtu(config.mtu)
            .ipv4(address, prefix, None)
            .enable(false)
            .build_sync()?;
        device.set_tx_queue_len(QUEUE_PACKETS)?;
        // No address of the kernel's own choice, and no question to a router; IPv6 is off for interfaces of a namespace
        // unless it is asked for.
        set("ipv6", name, "addr_gen_mode", "1")?;
        set("ipv6", name, "accept_ra", "0")?;
        set("ipv6", name, "disable_ipv6", "0")?;
        // Several interfaces of one host are in one network: a packet may come by either.
        set("ipv4", name, "rp_filter", "2")?;
        device.enabled(true)?;
        let has_ipv6 = fs::exists(format!("/proc/sys/net/ipv6/conf/{name}"))?;
        for &(address, prefix) in config.ipv6.iter().filter(|_| has_ipv6) {
            device.add_address_v6(address, prefix)?;
        }
        Ok(device)
    }

    /// Sets the longest packet.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn set_mtu(&self, mtu: u16) -> Result<(), NetError> {
        let set = self.device.set_mtu(mtu);
        set.map_err(|cause| NetError::new(format!("set the MTU of {}", self.name), cause))
    }

    /// Takes what programs have sent, as packets behind `headroom` bytes, 64 at most: those of one chunk. None if nothing waits.
    ///
    /// # Errors
    /// The kernel's error, or that of a chunk that makes no sense, which is lost.
    pub fn receive(&mut self, headroom: usize) -> io::Result<Vec<Vec<u8>>> {
        let headroom = headroom.min(HEADROOM_MAX);
        let (slots, _) = self.cut.as_chunks_mut::<SLOT_BYTES>();
        let received = self
            .device
            .recv_multiple(&mut self.chunk, slots, &mut self.sizes, headroom);
        let count = match received {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let packets = slots.iter().zip(&self.sizes).take(count);
        Ok(packets
            .map(|(slot, &size)| slot[..(headroom + size).min(SLOT_BYTES)].to_vec())
            .collect())
    }

    /// Hands packets to programs, each behind `headroom` bytes, [`HEADROOM_MIN`] at least.
    ///
    /// # Errors
    /// The kernel's error; some of them are lost then.
    pub fn send(&mut self, packets: &mut [Vec<u8>], headroom: usize) -> io::Result<()> {
        let coalescing = self.coalescing.get_or_insert_default();
        let sent = self.device.send_multiple(coalescing, packets, headroom);
        sent.map(|_| ())
    }
}
