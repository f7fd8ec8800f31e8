//! Attributes of subnet management, one file each (IBA 14.2.5).
//!
//! In a Set request 0 means "leave as it is" for many components of PortInfo; such components
//! have a variant or `None` for it. A reserved value in a component that the receiver would act on
//! is an error, which an agent answers with [`MadStatus::BAD_FIELD`](crate::mad::MadStatus).

mod extended_port_info;
mod forwarding;
mod guid_info;
mod node_description;
mod node_info;
mod notice;
mod pkey_table;
mod port_info;
mod port_info_extended;
mod security_traps;
mod sl_to_vl;
mod sm_info;
mod switch_info;
mod vl_arb;

pub use extended_port_info::ExtendedPortInfo;
pub use forwarding::{LinearForwardingTable, MulticastForwardingTable};
pub use guid_info::GuidInfo;
pub use node_description::NodeDescription;
pub use node_info::{NodeInfo, NodeType};
pub use notice::{Notice, Trap144, Trap145, TrapGid, TrapLid, TrapPort, trap};
pub use pkey_table::PKeyTable;
pub use port_info::{PortInfo, PortPhysState, PortState, VlCount, capability};
pub use port_info_extended::{FecModes, PortInfoExtended};
pub use security_traps::{Trap256, Trap257, Trap259, TrapRoute};
pub use sl_to_vl::SlToVlTable;
pub use sm_info::{SmInfo, SmState};
pub use switch_info::SwitchInfo;
pub use vl_arb::{VlArbEntry, VlArbTable};

use crate::Format;
use crate::mad::AttributeId;

/// An attribute of subnet management: at most 64 bytes.
pub trait Attribute: Format {
    /// The id by which SMPs ask for it.
    const ID: AttributeId;
}
