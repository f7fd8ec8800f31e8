//! Bytes to values and back, and nothing else: every packet, management datagram and control
//! message that crosses an ibemu fabric or one of its local sockets.
//!
//! No state, no IO, no time. Parsers never panic and never allocate for a length that the bytes
//! do not hold; emitters write every byte, reserved bits as zero.
//!
//! - a link packet: [`lrh`], [`grh`], [`bth`], [`opcode`], [`transport`], [`flow`], [`crc`], [`packet`],
//!   [`iba`];
//! - a management datagram: [`mad`], [`smp`] and [`attr`], [`pma`], [`cc`], [`sa`], [`cm`],
//!   [`vendor`];
//! - what carries them between processes: [`record`], [`ether`], [`udplink`], [`tunnel`], [`erf`];
//! - local sockets: [`control`], [`capture`], [`umad`], [`umad2sim`];
//! - numbers with a range: [`Lid`], [`PortNum`] and the like, [`mtu`], [`rate`],
//!   [`LinkRates`]; from one number
//!   type to another: [`convert`]; choices among named values: [`mod@choice`];
//!   the management key as its administrator keeps it: [`MKey`]; partition keys: [`p_key`].
//!
//! A format of fixed length implements [`Format`].

pub mod attr;
pub mod bth;
pub mod capture;
pub mod cc;
pub mod choice;
pub mod cm;
pub mod control;
pub mod convert;
pub mod crc;
pub mod erf;
mod error;
pub mod ether;
pub mod flow;
mod format;
pub mod grh;
pub mod iba;
pub mod ipoib;
mod link_rates;
pub mod lrh;
mod m_key;
pub mod mad;
pub mod mtu;
pub mod opcode;
pub mod p_key;
pub mod packet;
pub mod pma;
pub mod rate;
pub mod record;
pub mod sa;
pub mod smp;
pub mod traffic;
pub mod transport;
pub mod tunnel;
mod types;
pub mod udplink;
pub mod umad;
pub mod umad2sim;
pub mod vendor;

pub use bth::Bth;
pub use error::{EmitError, ParseError};
pub use flow::{FlowControl, FlowOp};
pub use format::Format;
pub use grh::{Gid, Grh};
pub use iba::{ExtendedHeaders, IbaPacket};
pub use link_rates::LinkRates;
pub use lrh::{Lnh, Lrh};
pub use m_key::{MKey, MKeyError, SaKey};
pub use mad::{AttributeId, Mad, MadHeader, MadStatus, Method, MgmtClass};
pub use mtu::Mtu;
pub use opcode::{Opcode, Operation, Service};
pub use packet::{DataPacket, GlobalRoute, Transport, UdPacket};
pub use rate::{LinkRate, LinkSpeed, LinkWidth};
pub use record::{Delimiter, Record, RecordKind, Records, Training};
pub use traffic::TrafficKind;
pub use transport::{Aeth, AtomicAckEth, AtomicEth, Deth, NakCode, Reth, Syndrome};
pub use types::{Guid, Lid, Lmc, OutOfRange, PortNum, Psn, Qpn, Sl, Vl};
