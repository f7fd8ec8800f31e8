//! Why a request of the consumer is refused.

use thiserror::Error;

use crate::attributes::QpState;

/// Why a request is refused. Nothing has changed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Refused {
    /// There is no such object.
    #[error("there is no such {0}")]
    NoSuch(&'static str),
    /// As many objects exist as may.
    #[error("there are as many {0} as there may be: destroy some")]
    TooMany(&'static str),
    /// Something else uses the object.
    #[error("the {0} is in use")]
    InUse(&'static str),
    /// A value makes no sense: what holds.
    #[error("invalid: {0}")]
    Invalid(&'static str),
    /// The specification has it, this engine does not.
    #[error("not supported: {0}")]
    NotSupported(&'static str),
    /// The queue is full.
    #[error("the {0} is full")]
    Full(&'static str),
    /// The queue pair does not take this in its state.
    #[error("a queue pair in state {0} does not take this")]
    State(QpState),
    /// The specification has no such change of state.
    #[error("a queue pair does not go from {from} to {to}")]
    Transition {
        /// The state that it is in.
        from: QpState,
        /// The state that was asked for.
        to: QpState,
    },
    /// An attribute that the change of state requires is missing.
    #[error("from {from} to {to}, the attribute {attribute} is required")]
    Missing {
        /// The state that the queue pair is in.
        from: QpState,
        /// The state that was asked for.
        to: QpState,
        /// The attribute.
        attribute: &'static str,
    },
    /// An attribute that the change of state does not permit is given.
    #[error("from {from} to {to}, the attribute {attribute} cannot be given")]
    NotPermitted {
        /// The state that the queue pair is in.
        from: QpState,
        /// The state that was asked for.
        to: QpState,
        /// The attribute.
        attribute: &'static str,
    },
}
