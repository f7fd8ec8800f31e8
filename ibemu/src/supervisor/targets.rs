//! The processes of a fabric by name, and how they end as text.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use wire::convert::usize_of;

use super::protocol::Target;
use crate::names::CONTROLLERS;
use crate::state::FabricState;

/// Every process that the fabric has.
pub(super) fn targets(state: &FabricState) -> impl Iterator<Item = Target> + '_ {
    let devices = (0u32..)
        .zip(state.devices())
        .map(|(node, _)| Target::Device(node));
    let controllers = (0u32..).zip(&state.sm_nodes);
    devices.chain(controllers.map(|(controller, _)| Target::Controller(controller)))
}

/// A process as the journal has it: the position of a device, or that of a controller.
pub(super) fn place(target: Target) -> (Option<u32>, u32) {
    match target {
        Target::Device(node) => (Some(node), 0),
        Target::Controller(controller) => (None, controller),
    }
}

/// The handle of a controller.
pub(super) fn controller_handle(controller: u32) -> &'static str {
    let handle = CONTROLLERS.get(usize_of(controller));
    handle.copied().unwrap_or("a further controller")
}

pub(crate) fn ignore_absent(result: std::io::Result<()>) -> std::io::Result<()> {
    match result {
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(()),
        other => other,
    }
}

/// How a process has ended, as text.
#[must_use]
pub(crate) fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(0), _) => "exited".to_owned(),
        (Some(code), _) => format!("exited with code {code}"),
        (None, Some(libc::SIGKILL)) => "was killed (signal 9)".to_owned(),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => format!("ended: {status}"),
    }
}
