//! Requests to the supervisor over `supervisor.sock`.
//!
//! Messages are encoded by `wire::control`, one message a packet, one reply a request, in order.

use bincode::{Decode, Encode};

/// The most entries of one [`Reply::Processes`].
pub const PROCESSES_MAX: usize = 512;

/// A request to the supervisor.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Request {
    /// Identifies the supervisor. Answered by [`Reply::Hello`].
    Hello,
    /// Starts every device that does not run. Answered by [`Reply::Done`] at once.
    Start,
    /// The progress of the start. Answered by [`Reply::Progress`] when it differs from `seen`, or
    /// after a timeout.
    Progress {
        /// The progress that the caller has seen.
        seen: Progress,
    },
    /// Starts the controllers that do not run; answered when all answer.
    StartControllers,
    /// The state of every process, in the order of the fabric's nodes, then the controllers.
    /// Answered by [`Reply::Processes`], at most [`PROCESSES_MAX`] from the `skip`-th.
    Processes {
        /// How many to leave out.
        skip: u32,
    },
    /// Pulls or plugs the cable at a port; answered when both its devices are notified.
    Cable {
        /// The node's position.
        node: u32,
        /// Its port.
        port: u8,
        /// Whether it is plugged.
        plugged: bool,
    },
    /// Stops a process if it runs and starts it again; answered when it answers.
    Restart {
        /// What.
        what: Target,
    },
    /// Ends a fabric on several machines; answered at once.
    End,
}

/// A process of the fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub enum Target {
    /// The device at this position of the fabric's nodes.
    Device(u32),
    /// The subnet manager at this position of the fabric's controllers.
    Controller(u32),
}

/// A reply of the supervisor.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Reply {
    /// The supervisor itself.
    Hello {
        /// Its process id.
        pid: u32,
    },
    /// The progress of the start.
    Progress(Progress),
    /// The state of processes.
    Processes(Vec<Process>),
    /// Done.
    Done,
    /// The request could not be met: what was wrong, and what to do.
    Refused(String),
}

/// The progress of the start of the devices.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Progress {
    /// Processes started.
    pub started: u32,
    /// Devices that answer.
    pub ready: u32,
    /// Whether all answer, and have the other ends of their cables.
    pub done: bool,
    /// The error, if there was one.
    pub failed: Option<Failure>,
}

/// A device that could not be started.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Failure {
    /// The device's handle.
    pub handle: String,
    /// The error.
    pub reason: String,
}

/// The state of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Process {
    /// Its process id; `None` if it does not run.
    pub pid: Option<u32>,
    /// How often it was started again.
    pub restarts: u32,
    /// How it ended last, if it has.
    pub exit: Option<String>,
    /// Whether its machine is lost.
    pub is_lost: bool,
}
