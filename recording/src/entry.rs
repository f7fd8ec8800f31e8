//! What is in a recording: its header, and an entry for each call.

use std::borrow::Cow;

use bincode::{Decode, Encode};
use link::{Input, Time};
use wire::{Delimiter, Format, PortNum, RecordKind};

/// The header of a recording.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Header {
    /// The kind of device.
    pub kind: Kind,
    /// Its node description.
    pub name: String,
    /// The configuration of its core: a message of [`wire::control`] that holds the configuration
    /// of the kind (`switchd::SwitchConfig`, `hostd::HostConfig`).
    pub config: Vec<u8>,
}

/// What a device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Kind {
    /// A switch.
    Switch,
    /// A host.
    Host,
}

impl Kind {
    /// The name of the kind.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Switch => "switch",
            Self::Host => "host",
        }
    }
}

/// One call of a device's shell. `C` is the device's command, or a reference to one.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Entry<'a, C> {
    /// [`Input::Frame`].
    Frame {
        /// When it was handed in, nanoseconds.
        now: u64,
        /// The port.
        port: PortNum,
        /// Nanoseconds from the first bit's arrival to `now`, and from the last bit's.
        ago: (u64, u64),
        /// The records.
        bytes: Cow<'a, [u8]>,
    },
    /// [`Input::Carrier`].
    Carrier {
        /// When, nanoseconds.
        now: u64,
        /// The port.
        port: PortNum,
        /// Whether there is a peer.
        up: bool,
    },
    /// [`Input::Tick`].
    Tick {
        /// When, nanoseconds.
        now: u64,
    },
    /// [`Input::Command`].
    Command {
        /// When, nanoseconds.
        now: u64,
        /// The command.
        command: C,
    },
    /// A call of `transmit`.
    Pull {
        /// When, nanoseconds.
        now: u64,
        /// The port.
        port: PortNum,
        /// Bytes and records for which the frame had room.
        room: (u64, u64),
        /// How many records the device put in.
        records: u64,
        /// They.
        bytes: Cow<'a, [u8]>,
    },
    /// A call of `poll_event` that returned an event.
    Event {
        /// The event as a message of [`wire::control`].
        bytes: Cow<'a, [u8]>,
    },
    /// Nothing more was recorded.
    End(End),
    /// What the call of the entry before read beside its input, in parts where it is long: bytes whose meaning
    /// is the device's.
    Reads {
        /// They.
        bytes: Cow<'a, [u8]>,
    },
}

/// How a recording ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub enum End {
    /// With the device.
    Closed,
    /// More happened than could be written: what followed is missing.
    Overrun,
}

impl<C> Entry<'_, C> {
    /// When it happened; `None` for what has no time of its own.
    #[must_use]
    pub const fn now(&self) -> Option<Time> {
        match *self {
            Self::Frame { now, .. }
            | Self::Carrier { now, .. }
            | Self::Tick { now }
            | Self::Command { now, .. }
            | Self::Pull { now, .. } => Some(Time(now)),
            Self::Event { .. } | Self::End(_) | Self::Reads { .. } => None,
        }
    }
}

/// One record with the bytes of `content`.
fn record<F: Format>(kind: RecordKind, content: &F) -> Vec<u8> {
    let mut bytes = vec![0; Delimiter::LEN + F::LEN];
    let (delimiter, rest) = bytes.split_at_mut(Delimiter::LEN);
    let len = u16::try_from(F::LEN).unwrap_or(u16::MAX);
    Delimiter { kind, len }.emit(delimiter);
    content.emit(rest);
    bytes
}

impl<'a, C> Entry<'a, &'a C> {
    /// The entry of an input.
    #[must_use]
    pub fn of_input(now: Time, input: &'a Input<'a, C>) -> Self {
        let Time(ns) = now;
        match *input {
            Input::Frame {
                port,
                head,
                tail,
                bytes,
            } => Self::Frame {
                now: ns,
                port,
                ago: (now.since_ns(head), now.since_ns(tail)),
                bytes: Cow::Borrowed(bytes),
            },
            // What is handed over without bytes is recorded by those that it would have at least.
            Input::Handed {
                port,
                head,
                tail,
                packet,
            } => Self::Frame {
                now: ns,
                port,
                ago: (now.since_ns(head), now.since_ns(tail)),
                bytes: Cow::Owned(record(RecordKind::Data, &packet.lrh)),
            },
            Input::Credits { port, packet } => Self::Frame {
                now: ns,
                port,
                ago: (0, 0),
                bytes: Cow::Owned(record(RecordKind::FlowControl, &packet)),
            },
            Input::Carrier { port, up } => Self::Carrier { now: ns, port, up },
            Input::Tick => Self::Tick { now: ns },
            Input::Command(ref command) => Self::Command { now: ns, command },
        }
    }
}
