//! One event.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use strum::{EnumMessage, IntoStaticStr, VariantArray};

use crate::wall::now_ms;

/// What sort of thing has happened.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    EnumMessage,
    IntoStaticStr,
    VariantArray,
)]
#[strum(serialize_all = "lowercase")]
pub enum Kind {
    /// Subnet administration has reported a notice.
    Trap,
    /// A cable is in another state.
    Link,
    /// A device is in the subnet, or has left it.
    Device,
    /// Another host runs the subnet manager.
    Master,
    /// A sweep of one of the fabric's own controllers has begun or ended.
    Sweep,
    /// A controller routes by another engine, or has written forwarding tables.
    Routing,
    /// A controller has answered a request for a connection with promised bandwidth.
    Connection,
    /// A controller warns.
    Warning,
    /// A process of the fabric has ended, or was started.
    Process,
    /// A device has dropped packets.
    Drop,
    /// Traps are heard, or are not.
    Listener,
    /// Events were lost: their reader was too slow.
    Lost,
}
wire::choice!(Kind, "kind of event");

/// Something that has happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// When it was noticed, milliseconds since 1970.
    pub at_ms: u64,
    /// What sort of thing.
    pub kind: Kind,
    /// The device that it is about, by name, if one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// The number of that device's port, if it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u8>,
    /// What has happened, in words.
    pub text: String,
    /// The same for programs, by kind.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub fields: BTreeMap<String, Value>,
}

impl Event {
    /// An event of now.
    pub(super) fn new(kind: Kind, text: impl Into<String>) -> Self {
        Self {
            at_ms: now_ms(),
            kind,
            device: None,
            port: None,
            text: text.into(),
            fields: BTreeMap::new(),
        }
    }

    /// The same, of that moment.
    pub(super) fn at(mut self, at_ms: u64) -> Self {
        self.at_ms = at_ms;
        self
    }

    /// The same, about a device.
    pub(super) fn of(mut self, device: impl Into<String>) -> Self {
        self.device = Some(device.into());
        self
    }

    /// The same, about a port of its device.
    pub(super) fn port(mut self, port: Option<u8>) -> Self {
        self.port = port;
        self
    }

    /// The same with a field.
    pub(super) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.fields.insert(name.to_owned(), value.into());
        self
    }
}
