//! What no manager of real hardware knows: buffers, credits and drops by reason from the devices' control sockets, and
//! what the fabric's own controllers say of their work.

use core::ops::Deref;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// A device beyond its management datagrams. It is asked every few seconds only.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Device {
    /// When it was asked last, milliseconds since 1970; 0 for never: it does not run, or nobody has told where it is.
    pub at_ms: u64,
    /// By number of the port: its data VLs in order.
    pub lanes: BTreeMap<u8, Vec<Lane>>,
    /// By number of the port: packets dropped by reason, those that have happened. They begin anew with the process.
    pub drops: BTreeMap<u8, BTreeMap<String, u64>>,
}

/// [`Device`], which consecutive snapshots share as long as nothing new is known.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DeviceFacts(#[serde(with = "super::shared")] pub Arc<Device>);

impl Deref for DeviceFacts {
    type Target = Device;
    fn deref(&self) -> &Device {
        &self.0
    }
}

/// One virtual lane of a port. Blocks are of 64 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Lane {
    /// Share of the input buffer that packets take, 0 to 1.
    pub input_share: f64,
    /// Blocks that the input buffer has.
    pub input_blocks: u32,
    /// Blocks of the output queue that packets take.
    pub output_blocks: u32,
    /// Blocks that the peer's buffer still takes.
    pub credits: u16,
    /// Bytes sent since the device was started.
    pub xmit_bytes: u64,
    /// Of the bytes that the port has sent on data VLs since it was asked before, the part on this one, 0 to 1: what the
    /// arbiter gave.
    pub share: f64,
    /// Seconds since the start during which data waited and had no credits.
    pub wait_s: f64,
}

/// One of the fabric's own subnet managers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ControllerFacts {
    /// Its handle: `controller`, `controller2` and so on.
    pub name: String,
    /// Whether it answers.
    pub is_running: bool,
    /// Whether it runs the subnet.
    pub is_master: bool,
    /// Sweeps completed, programming included.
    pub sweeps: u64,
    /// Duration of the latest discovery, seconds.
    pub discovery_s: f64,
    /// Duration of the latest computation and programming, seconds.
    pub programming_s: f64,
    /// SMPs sent, repetitions included.
    pub smps_sent: u64,
    /// SMPs that were not answered in time.
    pub smps_timed_out: u64,
    /// Requests to subnet administration that it has taken.
    pub sa_requests: u64,
}
