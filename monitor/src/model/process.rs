//! What the supervisor and the kernel say of the fabric's processes.

use serde::{Deserialize, Serialize};

/// A process of the fabric. No manager of real hardware knows this.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProcessFacts {
    /// The device's name, or the controller's handle.
    pub name: String,
    /// What runs: `switch`, `host`, `controller`, `supervisor`.
    pub role: String,
    /// Process id; `None` if it does not run.
    pub pid: Option<u32>,
    /// How often it was started again.
    pub restarts: u32,
    /// CPU time in user and kernel mode, seconds. It starts anew with each process.
    pub cpu_s: f64,
    /// Resident memory, bytes.
    pub resident_bytes: u64,
    /// Whether it runs on another machine, where what it uses is not known here.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_elsewhere: bool,
}
