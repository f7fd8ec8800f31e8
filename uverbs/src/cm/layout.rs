//! What the kernel writes behind the pointers of commands.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::command::ConnectionParameters;
use crate::AddressAttributes;

const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;
const AF_IB: u16 = 27;
/// `struct sockaddr_in6`.
const ADDRESS_LEN: usize = 28;
/// `struct __kernel_sockaddr_storage`.
const STORAGE_LEN: usize = 128;
/// `struct ib_uverbs_ah_attr`.
const HANDLE_LEN: usize = 32;
/// No index: devices are found by their GUID.
const NO_INDEX: u32 = u32::MAX;

/// An address and a port: `struct sockaddr_in` or `struct sockaddr_in6`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SocketAddress {
    /// The address.
    pub ip: IpAddr,
    /// The port.
    pub port: u16,
}

impl SocketAddress {
    /// The address in these bytes; `None` if it is of another family.
    pub(super) fn parse(raw: &[u8; ADDRESS_LEN]) -> Option<Self> {
        let [a, b, high, low, ..] = *raw;
        let port = u16::from_be_bytes([high, low]);
        let ip = match u16::from_ne_bytes([a, b]) {
            AF_INET => Ipv4Addr::new(raw[4], raw[5], raw[6], raw[7]).into(),
            AF_INET6 => {
                let mut octets = [0; 16];
                octets.copy_from_slice(&raw[8..24]);
                Ipv6Addr::from(octets).into()
            }
            _ => return None,
        };
        Some(Self { ip, port })
    }

    fn bytes(self) -> [u8; ADDRESS_LEN] {
        let mut raw = [0; ADDRESS_LEN];
        raw[2..4].copy_from_slice(&self.port.to_be_bytes());
        match self.ip {
            IpAddr::V4(ip) => {
                raw[..2].copy_from_slice(&AF_INET.to_ne_bytes());
                raw[4..8].copy_from_slice(&ip.octets());
            }
            IpAddr::V6(ip) => {
                raw[..2].copy_from_slice(&AF_INET6.to_ne_bytes());
                raw[8..24].copy_from_slice(&ip.octets());
            }
        }
        raw
    }

    /// Bytes of its family's structure.
    fn len(self) -> u16 {
        match self.ip {
            IpAddr::V4(_) => 16,
            IpAddr::V6(_) => 28,
        }
    }
}

/// Bytes of an answer, put together from its front.
#[derive(Default)]
struct Writer(Vec<u8>);

impl Writer {
    fn put(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    fn u16(&mut self, value: u16) -> &mut Self {
        self.put(&value.to_ne_bytes())
    }

    fn u32(&mut self, value: u32) -> &mut Self {
        self.put(&value.to_ne_bytes())
    }

    /// Zeros up to this length.
    fn fill(&mut self, len: usize) -> &mut Self {
        self.0.resize(len.max(self.0.len()), 0);
        self
    }

    fn address(&mut self, address: Option<SocketAddress>) -> &mut Self {
        let bytes = address.map_or([0; ADDRESS_LEN], SocketAddress::bytes);
        self.put(&bytes)
    }

    fn storage(&mut self, bytes: &[u8]) -> &mut Self {
        let end = self.0.len() + STORAGE_LEN;
        self.put(bytes).fill(end)
    }

    fn handle(&mut self, handle: &AddressAttributes) -> &mut Self {
        let global = handle.global.unwrap_or_default();
        self.put(&global.dgid)
            .u32(global.flow_label)
            .put(&[global.sgid_index, global.hop_limit, global.traffic_class, 0])
            .u16(handle.dlid)
            .put(&[
                handle.sl,
                handle.src_path_bits,
                handle.static_rate,
                u8::from(handle.global.is_some()),
                handle.port_num,
                0,
            ])
    }
}

/// A path, as the kernel tells of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathEntry {
    /// Destination GID.
    pub dgid: [u8; 16],
    /// Source GID.
    pub sgid: [u8; 16],
    /// Destination LID.
    pub dlid: u16,
    /// Source LID.
    pub slid: u16,
    /// Flow label.
    pub flow_label: u32,
    /// Hop limit.
    pub hop_limit: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// Partition key.
    pub pkey: u16,
    /// Service level.
    pub sl: u8,
    /// Code of the path's MTU.
    pub mtu: u8,
    /// Code of its rate.
    pub rate: u8,
    /// Code of the time through the subnet.
    pub packet_life_time: u8,
    /// It leads back, too.
    pub reversible: bool,
}

impl PathEntry {
    /// `struct ib_user_path_rec`.
    fn write(&self, out: &mut Writer) {
        out.put(&self.dgid)
            .put(&self.sgid)
            .put(&self.dlid.to_be_bytes())
            .put(&self.slid.to_be_bytes())
            .u32(0)
            .put(&self.flow_label.to_be_bytes())
            .u32(self.reversible.into())
            .u32(self.mtu.into())
            .put(&self.pkey.to_be_bytes())
            // The selectors say "exactly".
            .put(&[self.hop_limit, self.traffic_class, 1, self.sl, 2, 2])
            .put(&[self.rate, 2, self.packet_life_time, 0]);
    }
}

/// `struct rdma_ucm_query_route_resp`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RouteReply {
    /// The device's node GUID; 0 for none yet.
    pub node_guid: u64,
    /// The path; only its GIDs and partition count unless [`Self::has_path`].
    pub path: PathEntry,
    /// There is one.
    pub has_path: bool,
    /// The own address.
    pub source: Option<SocketAddress>,
    /// The peer's.
    pub destination: Option<SocketAddress>,
}

impl RouteReply {
    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = Writer::default();
        out.put(&self.node_guid.to_be_bytes());
        self.path.write(&mut out);
        out.fill(136)
            .address(self.source)
            .address(self.destination)
            .u32(self.has_path.into())
            .put(&[u8::from(self.node_guid != 0), 0, 0, 0])
            .u32(NO_INDEX)
            .u32(0);
        out.0
    }
}

/// `struct rdma_ucm_query_addr_resp`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddressReply {
    /// The device's node GUID; 0 for none yet.
    pub node_guid: u64,
    /// Partition key.
    pub pkey: u16,
    /// The own address.
    pub source: Option<SocketAddress>,
    /// The peer's.
    pub destination: Option<SocketAddress>,
}

impl AddressReply {
    fn front(&self, sizes: [u16; 2]) -> Writer {
        let mut out = Writer::default();
        out.put(&self.node_guid.to_be_bytes())
            .put(&[u8::from(self.node_guid != 0), 0])
            .put(&self.pkey.to_be_bytes())
            .u16(sizes[0])
            .u16(sizes[1]);
        out
    }

    /// The bytes with addresses.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let addresses = [self.source, self.destination];
        let sizes = addresses.map(|address| address.map_or(0, SocketAddress::len));
        let mut out = self.front(sizes);
        for address in addresses {
            out.storage(&address.map_or([0; ADDRESS_LEN], SocketAddress::bytes));
        }
        out.u32(NO_INDEX).u32(0);
        out.0
    }

    /// The bytes with GIDs: `struct sockaddr_ib`.
    #[must_use]
    pub fn gid_bytes(&self, path: &PathEntry) -> Vec<u8> {
        let mut out = self.front([48, 48]);
        for gid in [path.sgid, path.dgid] {
            let mut address = Writer::default();
            address
                .u16(AF_IB)
                .put(&self.pkey.to_be_bytes())
                .u32(0)
                .put(&gid);
            out.storage(&address.0);
        }
        out.u32(NO_INDEX).u32(0);
        out.0
    }
}

/// What a queue pair of datagrams is reached by: `struct rdma_ucm_ud_param`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DatagramParameters {
    /// Queue pair.
    pub qp_num: u32,
    /// Q_Key.
    pub qkey: u32,
    /// Address.
    pub handle: AddressAttributes,
    /// Private data, 255 bytes at most.
    pub private_data: Vec<u8>,
}

/// What an event tells beside its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventParameters {
    /// Of a connection.
    Connection(Box<ConnectionParameters>),
    /// Of datagrams.
    Datagram(Box<DatagramParameters>),
    /// Of the program's own.
    Argument(u64),
}

/// `struct rdma_ucm_event_resp`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventReply {
    /// The library's name of the id.
    pub uid: u64,
    /// The id.
    pub id: u32,
    /// `rdma_cm_event_type`.
    pub event: u32,
    /// 0, an errno below 0, or the reason of a refusal.
    pub status: i32,
    /// More.
    pub parameters: EventParameters,
}

/// Private data and its length, in as much room as the structures have.
fn private_data(out: &mut Writer, data: &[u8]) {
    let len = data.len().min(255);
    let end = out.0.len() + 256;
    out.put(&data[..len]).fill(end);
    out.put(&[u8::try_from(len).unwrap_or(u8::MAX)]);
}

impl EventReply {
    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = Writer::default();
        out.put(&self.uid.to_ne_bytes())
            .u32(self.id)
            .u32(self.event)
            .put(&self.status.to_ne_bytes());
        match &self.parameters {
            EventParameters::Connection(of) => {
                out.u32(of.qp_num).u32(of.qkey);
                private_data(&mut out, &of.private_data);
                out.put(&[
                    of.srq.into(),
                    of.responder_resources,
                    of.initiator_depth,
                    of.flow_control.into(),
                    of.retry_count,
                    of.rnr_retry_count,
                    1,
                ]);
            }
            EventParameters::Datagram(of) => {
                out.u32(of.qp_num).u32(of.qkey).handle(&of.handle);
                private_data(&mut out, &of.private_data);
            }
            EventParameters::Argument(argument) => {
                out.put(&argument.to_ne_bytes());
            }
        }
        out.fill(336);
        out.0
    }
}

/// `struct ib_uverbs_qp_attr`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QpReply {
    /// Which attributes count: [`crate::attribute`].
    pub mask: u32,
    /// They.
    pub attributes: crate::QpAttributes,
}

impl QpReply {
    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let of = &self.attributes;
        let mut out = Writer::default();
        out.u32(self.mask)
            .u32(of.qp_state)
            .u32(of.cur_qp_state)
            .u32(of.path_mtu)
            .u32(0)
            .u32(of.qkey)
            .u32(of.rq_psn)
            .u32(of.sq_psn)
            .u32(of.dest_qp_num)
            .u32(of.qp_access_flags)
            .handle(&of.ah_attr)
            .fill(40 + 2 * HANDLE_LEN + 20)
            .u16(of.pkey_index)
            .u16(0)
            .put(&[of.en_sqd_async_notify.into(), 0])
            .put(&[of.max_rd_atomic, of.max_dest_rd_atomic, of.min_rnr_timer])
            .put(&[of.port_num, of.timeout, of.retry_cnt, of.rnr_retry])
            .fill(144);
        out.0
    }
}
