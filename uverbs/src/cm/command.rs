//! Commands as programs write them: `struct rdma_ucm_cmd_hdr` and a structure behind it.

use super::COMMAND_BYTES_MAX;
use super::layout::SocketAddress;
use crate::errno;

/// Numbers of commands: `RDMA_USER_CM_CMD_*`.
mod number {
    pub(super) const CREATE_ID: u32 = 0;
    pub(super) const DESTROY_ID: u32 = 1;
    pub(super) const BIND_IP: u32 = 2;
    pub(super) const RESOLVE_IP: u32 = 3;
    pub(super) const RESOLVE_ROUTE: u32 = 4;
    pub(super) const QUERY_ROUTE: u32 = 5;
    pub(super) const CONNECT: u32 = 6;
    pub(super) const LISTEN: u32 = 7;
    pub(super) const ACCEPT: u32 = 8;
    pub(super) const REJECT: u32 = 9;
    pub(super) const DISCONNECT: u32 = 10;
    pub(super) const INIT_QP_ATTR: u32 = 11;
    pub(super) const GET_EVENT: u32 = 12;
    pub(super) const SET_OPTION: u32 = 14;
    pub(super) const NOTIFY: u32 = 15;
    pub(super) const JOIN_IP_MCAST: u32 = 16;
    pub(super) const LEAVE_MCAST: u32 = 17;
    pub(super) const MIGRATE_ID: u32 = 18;
    pub(super) const QUERY: u32 = 19;
    pub(super) const BIND: u32 = 20;
    pub(super) const RESOLVE_ADDR: u32 = 21;
    pub(super) const JOIN_MCAST: u32 = 22;
    pub(super) const WRITE_CM_EVENT: u32 = 24;
}

/// Where in a written command, header included, the pointer to the answer's room is; `None` if it has none.
#[must_use]
pub fn response_offset(command: u32) -> Option<usize> {
    match command {
        number::CREATE_ID => Some(16),
        number::DESTROY_ID
        | number::BIND_IP
        | number::QUERY_ROUTE
        | number::INIT_QP_ATTR
        | number::GET_EVENT
        | number::JOIN_IP_MCAST
        | number::LEAVE_MCAST
        | number::MIGRATE_ID
        | number::QUERY
        | number::JOIN_MCAST => Some(8),
        _ => None,
    }
}

/// `struct rdma_ucm_conn_param`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConnectionParameters {
    /// Queue pair.
    pub qp_num: u32,
    /// Q_Key; datagrams only.
    pub qkey: u32,
    /// Private data.
    pub private_data: Vec<u8>,
    /// The queue pair uses a shared receive queue.
    pub srq: bool,
    /// READs and atomics that are answered at a time.
    pub responder_resources: u8,
    /// READs and atomics under way at a time.
    pub initiator_depth: u8,
    /// The queue pair issues credits.
    pub flow_control: bool,
    /// Repetitions of packets.
    pub retry_count: u8,
    /// Repetitions after RNR NAKs.
    pub rnr_retry_count: u8,
}

impl ConnectionParameters {
    /// The length of the structure.
    pub(super) const LEN: usize = 272;
}

/// What `QUERY` asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryKind {
    /// Addresses.
    Address,
    /// Paths.
    Path,
    /// GIDs.
    Gid,
}

/// A question about the way of an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteQuery {
    /// `QUERY_ROUTE`.
    Route,
    /// `QUERY`.
    Of(QueryKind),
}

/// A command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Makes an id.
    CreateId {
        /// The library's name of it.
        uid: u64,
        /// Port space.
        space: u16,
        /// `ibv_qp_type`.
        qp_type: u8,
    },
    /// Destroys one.
    DestroyId {
        /// It.
        id: u32,
    },
    /// Gives it an address of its own.
    Bind {
        /// It.
        id: u32,
        /// The address; zeros stand for any.
        address: SocketAddress,
    },
    /// Finds the peer.
    ResolveAddress {
        /// For which id.
        id: u32,
        /// The address of its own, if it is chosen here.
        source: Option<SocketAddress>,
        /// The peer's.
        destination: SocketAddress,
        /// How long that may take.
        timeout_ms: u32,
    },
    /// Finds the path to the peer.
    ResolveRoute {
        /// For which id.
        id: u32,
        /// How long that may take.
        timeout_ms: u32,
    },
    /// Asks for what is known of its way.
    Query {
        /// Of which id.
        id: u32,
        /// What.
        what: RouteQuery,
    },
    /// Asks the peer for a connection.
    Connect {
        /// By which id.
        id: u32,
        /// How.
        parameters: Box<ConnectionParameters>,
    },
    /// Waits for peers.
    Listen {
        /// By which id.
        id: u32,
        /// How many may wait; 0 for as many as there may be.
        backlog: u32,
    },
    /// Accepts a connection, or says that the queue pair of one is ready.
    Accept {
        /// Its id.
        id: u32,
        /// The library's name of it.
        uid: u64,
        /// How; `None` to say it is ready.
        parameters: Option<Box<ConnectionParameters>>,
    },
    /// Refuses a connection.
    Reject {
        /// Its id.
        id: u32,
        /// Why; 0 for the consumer's wish.
        reason: u8,
        /// Private data.
        private_data: Vec<u8>,
    },
    /// Ends a connection.
    Disconnect {
        /// Its id.
        id: u32,
    },
    /// Asks for the attributes of a queue pair.
    InitQp {
        /// Of which id.
        id: u32,
        /// For which state: `ibv_qp_state`.
        state: u32,
    },
    /// Asks for the next event.
    GetEvent,
    /// Sets an option.
    SetOption {
        /// Of which id.
        id: u32,
        /// `RDMA_OPTION_ID` or `RDMA_OPTION_IB`.
        level: u32,
        /// Which.
        name: u32,
        /// To what.
        value: Vec<u8>,
    },
    /// Tells of an asynchronous event of the queue pair.
    Notify {
        /// Of which id.
        id: u32,
        /// `ibv_event_type`.
        event: u32,
    },
    /// Joins a multicast group.
    JoinMulticast {
        /// By which id.
        id: u32,
        /// The library's name of the membership.
        uid: u64,
        /// The group.
        address: SocketAddress,
        /// As one that sends only.
        send_only: bool,
    },
    /// Leaves one.
    LeaveMulticast {
        /// The membership.
        id: u32,
    },
    /// Moves an id to this channel.
    MigrateId {
        /// It.
        id: u32,
    },
    /// Puts an event of the program's own into the queue.
    WriteEvent {
        /// Of which id.
        id: u32,
        /// Which; the program's own, or the library's.
        event: u32,
        /// Its status.
        status: u32,
        /// Its argument.
        argument: u64,
    },
}

/// Fields of a structure; what is behind its end is zero, as older programs have shorter ones.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn array<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut out = [0; N];
        let there = self.0.get(at..).unwrap_or_default();
        let len = there.len().min(N);
        out[..len].copy_from_slice(&there[..len]);
        out
    }

    fn u8(&self, at: usize) -> u8 {
        u8::from_ne_bytes(self.array(at))
    }

    fn u16(&self, at: usize) -> u16 {
        u16::from_ne_bytes(self.array(at))
    }

    fn u32(&self, at: usize) -> u32 {
        u32::from_ne_bytes(self.array(at))
    }

    fn u64(&self, at: usize) -> u64 {
        u64::from_ne_bytes(self.array(at))
    }

    fn parameters(&self, at: usize) -> Box<ConnectionParameters> {
        let data: [u8; 256] = self.array(at + 8);
        Box::new(ConnectionParameters {
            qp_num: self.u32(at),
            qkey: self.u32(at + 4),
            private_data: data[..usize::from(self.u8(at + 264))].to_vec(),
            srq: self.u8(at + 265) != 0,
            responder_resources: self.u8(at + 266),
            initiator_depth: self.u8(at + 267),
            flow_control: self.u8(at + 268) != 0,
            retry_count: self.u8(at + 269).min(7),
            rnr_retry_count: self.u8(at + 270).min(7),
        })
    }

    fn address(&self, at: usize) -> Result<SocketAddress, u16> {
        SocketAddress::parse(&self.array(at)).ok_or(errno::EINVAL)
    }

    /// An address that may be left out: family 0.
    fn optional_address(&self, at: usize) -> Result<Option<SocketAddress>, u16> {
        match self.u16(at) {
            0 => Ok(None),
            _ => self.address(at).map(Some),
        }
    }
}

impl Command {
    /// The command that a program has written, and how many bytes it has room for.
    ///
    /// # Errors
    /// The errno that the kernel has for it.
    pub fn parse(bytes: &[u8], value: &[u8]) -> Result<(Self, usize), u16> {
        let (Some(header), true) = (bytes.get(..8), bytes.len() <= COMMAND_BYTES_MAX) else {
            return Err(errno::EINVAL);
        };
        let header = Fields(header);
        let (command, len) = (header.u32(0), usize::from(header.u16(4)));
        let room = usize::from(header.u16(6));
        let body = bytes.get(8..8 + len).ok_or(errno::EINVAL)?;
        if body.len() < shortest(command).ok_or(super::errno::ENOSYS)? {
            return Err(errno::EINVAL);
        }
        Ok((Self::of(command, &Fields(body), value)?, room))
    }

    fn of(command: u32, fields: &Fields<'_>, value: &[u8]) -> Result<Self, u16> {
        Ok(match command {
            number::CREATE_ID => Self::CreateId {
                uid: fields.u64(0),
                space: fields.u16(16),
                qp_type: fields.u8(18),
            },
            number::DESTROY_ID => Self::DestroyId { id: fields.u32(8) },
            number::BIND_IP => Self::Bind {
                id: fields.u32(36),
                address: fields.address(8)?,
            },
            number::BIND => Self::Bind {
                id: fields.u32(0),
                address: fields.address(8)?,
            },
            number::RESOLVE_IP => Self::ResolveAddress {
                id: fields.u32(56),
                source: fields.optional_address(0)?,
                destination: fields.address(28)?,
                timeout_ms: fields.u32(60),
            },
            number::RESOLVE_ADDR => Self::ResolveAddress {
                id: fields.u32(0),
                source: match fields.u16(8) {
                    0 => None,
                    _ => fields.optional_address(16)?,
                },
                destination: fields.address(144)?,
                timeout_ms: fields.u32(4),
            },
            number::RESOLVE_ROUTE => Self::ResolveRoute {
                id: fields.u32(0),
                timeout_ms: fields.u32(4),
            },
            number::QUERY_ROUTE | number::QUERY => Self::query(command, fields)?,
            number::CONNECT => Self::Connect {
                id: fields.u32(ConnectionParameters::LEN),
                parameters: fields.parameters(0),
            },
            number::LISTEN => Self::Listen {
                id: fields.u32(0),
                backlog: fields.u32(4),
            },
            number::ACCEPT => Self::Accept {
                uid: fields.u64(0),
                id: fields.u32(8 + ConnectionParameters::LEN),
                // The last byte of the parameters: whether they are there.
                parameters: (fields.u8(8 + 271) != 0).then(|| fields.parameters(8)),
            },
            number::REJECT => {
                let data: [u8; 256] = fields.array(8);
                Self::Reject {
                    id: fields.u32(0),
                    reason: fields.u8(5),
                    private_data: data[..usize::from(fields.u8(4))].to_vec(),
                }
            }
            number::DISCONNECT => Self::Disconnect { id: fields.u32(0) },
            number::INIT_QP_ATTR => Self::InitQp {
                id: fields.u32(8),
                state: fields.u32(12),
            },
            number::GET_EVENT => Self::GetEvent,
            number::SET_OPTION => Self::SetOption {
                id: fields.u32(8),
                level: fields.u32(12),
                name: fields.u32(16),
                value: value.to_vec(),
            },
            number::NOTIFY => Self::Notify {
                id: fields.u32(0),
                event: fields.u32(4),
            },
            number::JOIN_IP_MCAST => Self::JoinMulticast {
                uid: fields.u64(8),
                address: fields.address(16)?,
                id: fields.u32(44),
                send_only: false,
            },
            number::JOIN_MCAST => Self::JoinMulticast {
                uid: fields.u64(8),
                id: fields.u32(16),
                address: fields.address(24)?,
                send_only: fields.u16(22) == 1,
            },
            number::LEAVE_MCAST => Self::LeaveMulticast { id: fields.u32(8) },
            number::MIGRATE_ID => Self::MigrateId { id: fields.u32(8) },
            number::WRITE_CM_EVENT => Self::WriteEvent {
                id: fields.u32(0),
                event: fields.u32(8),
                status: fields.u32(12),
                argument: fields.u64(16),
            },
            _ => return Err(super::errno::ENOSYS),
        })
    }

    fn query(command: u32, fields: &Fields<'_>) -> Result<Self, u16> {
        let what = match (command, fields.u32(12)) {
            (number::QUERY_ROUTE, _) => RouteQuery::Route,
            (_, 0) => RouteQuery::Of(QueryKind::Address),
            (_, 1) => RouteQuery::Of(QueryKind::Path),
            (_, 2) => RouteQuery::Of(QueryKind::Gid),
            _ => return Err(super::errno::ENOSYS),
        };
        let id = fields.u32(8);
        Ok(Self::Query { id, what })
    }
}

/// The bytes that a command has at least, without its header; `None` if there is no such command.
fn shortest(command: u32) -> Option<usize> {
    Some(match command {
        number::CREATE_ID => 19,
        number::DESTROY_ID | number::LEAVE_MCAST | number::QUERY_ROUTE => 12,
        number::BIND_IP => 40,
        number::RESOLVE_IP => 64,
        number::RESOLVE_ROUTE | number::LISTEN | number::NOTIFY => 8,
        number::CONNECT => ConnectionParameters::LEN + 4,
        number::ACCEPT => ConnectionParameters::LEN + 12,
        number::REJECT => 264,
        number::DISCONNECT => 4,
        number::INIT_QP_ATTR | number::MIGRATE_ID | number::QUERY => 16,
        number::GET_EVENT => 8,
        number::SET_OPTION | number::WRITE_CM_EVENT => 24,
        number::JOIN_IP_MCAST => 48,
        number::BIND => 136,
        number::RESOLVE_ADDR => 272,
        number::JOIN_MCAST => 152,
        _ => return None,
    })
}
