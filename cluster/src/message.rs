//! What the supervisor of a job and the agents of its machines say to each other, each message a sealed frame
//! ([`crate::session`]).
//!
//! Local sockets of a fabric are carried message by message as *streams*: who opens one names a socket of the fabric's
//! directory on the other machine. Each direction of a stream has a window ([`WINDOW_BYTES`]), so that one whose reader
//! is slow keeps no other waiting. Streams that the supervisor opens have even numbers, those of the others odd ones.

use bincode::{Decode, Encode};
use wire::control::ControlError;

/// The most bytes of a socket's message, or of a file, in one [`Message`].
pub const CHUNK_BYTES_MAX: usize = 64 * 1024;
/// What one direction of a stream may have under way: bytes, and [`MESSAGE_COST`] for each chunk.
pub const WINDOW_BYTES: u32 = 512 * 1024;
/// What a chunk counts for beside its bytes.
pub const MESSAGE_COST: u32 = 256;
/// Streams of one connection at once.
pub const STREAMS_MAX: usize = 4096;
/// The longest text in a message, bytes.
pub const TEXT_BYTES_MAX: usize = 4096;
/// The longest file that is handed over, bytes.
pub const FILE_BYTES_MAX: usize = 256 << 20;

/// Who connects.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Hello {
    /// The version of its package, and what its program's content sums up to: programs of different builds do not
    /// understand each other.
    pub build: String,
    /// Its rank in the job step; `None` for the machine that `up` was called on.
    pub rank: Option<u32>,
    /// What Slurm calls its machine.
    pub machine: String,
    /// A credential of MUNGE over the channel's binding, where the job asks for one.
    pub credential: Option<String>,
}

/// One message.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Message {
    /// Who connects: the first message of an agent.
    Hello(Hello),
    /// The supervisor takes the agent.
    Welcome,
    /// The supervisor does not, or the fabric cannot be: why. The last message.
    Refused(String),
    /// A part of a file of the fabric's directory.
    File {
        /// Its name there.
        name: String,
        /// The next bytes of it.
        bytes: Vec<u8>,
        /// Whether these are the last.
        is_last: bool,
    },
    /// All files have been sent.
    Files,
    /// Nothing but that the sender is there.
    Alive,
    /// An agent is to do something.
    Order {
        /// Names it in the answer.
        number: u32,
        /// What.
        order: Order,
    },
    /// It is done, or why not.
    Done {
        /// The order's number.
        number: u32,
        /// A process's number for [`Order::Start`], else 0.
        outcome: Result<u32, String>,
    },
    /// A process has ended.
    Ended {
        /// The position of its device.
        node: u32,
        /// The process.
        pid: u32,
        /// How.
        how: String,
    },
    /// Opens a stream to a socket of the fabric's directory.
    Open {
        /// Its number.
        stream: u32,
        /// The socket's name there.
        socket: String,
    },
    /// A part of a message of a stream.
    Data {
        /// The stream.
        stream: u32,
        /// Whether the message ends with it.
        is_last: bool,
        /// Its bytes.
        bytes: Vec<u8>,
    },
    /// The reader of a stream has taken so much.
    Credit {
        /// The stream.
        stream: u32,
        /// As [`WINDOW_BYTES`] counts.
        bytes: u32,
    },
    /// The stream has ended at the sender's end.
    Close {
        /// The stream.
        stream: u32,
    },
    /// The fabric ends: everything is to be ended and removed.
    End {
        /// Why, for people; empty if it was asked for.
        why: String,
    },
}

/// What an agent is asked to do.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Order {
    /// Makes the namespaces and cables of its machine.
    Prepare,
    /// Starts a device.
    Start {
        /// Its position.
        node: u32,
    },
    /// Ends a device's process.
    Stop {
        /// Its position.
        node: u32,
        /// At once (SIGKILL), or orderly (SIGTERM).
        kill: bool,
    },
    /// Makes the memory of a cable and hands it to both its devices.
    Join {
        /// The cable's ends: position and port.
        ends: [(u32, u8); 2],
    },
}

impl Message {
    /// Its bytes.
    ///
    /// # Errors
    /// If it is too long.
    pub fn encode(&self) -> Result<Vec<u8>, ControlError> {
        wire::control::encode(self)
    }

    /// The message of these bytes; `None` if they are none, or one that breaks a bound.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let message: Self = wire::control::decode(bytes).ok()?;
        message.is_bounded().then_some(message)
    }

    fn is_bounded(&self) -> bool {
        let text = |text: &String| text.len() <= TEXT_BYTES_MAX;
        match self {
            Self::Hello(hello) => {
                let credential = hello.credential.as_ref();
                text(&hello.build) && is_name(&hello.machine) && credential.is_none_or(text)
            }
            Self::Refused(why) | Self::End { why } => text(why),
            Self::Ended { how, .. } => text(how),
            Self::Done { outcome, .. } => outcome.as_ref().err().is_none_or(text),
            Self::File { name, bytes, .. } => is_name(name) && bytes.len() <= CHUNK_BYTES_MAX,
            Self::Open { socket, .. } => is_name(socket),
            Self::Data { bytes, .. } => bytes.len() <= CHUNK_BYTES_MAX,
            Self::Welcome
            | Self::Files
            | Self::Alive
            | Self::Order { .. }
            | Self::Credit { .. }
            | Self::Close { .. } => true,
        }
    }
}

/// What a chunk of a stream counts for in its window.
#[must_use]
pub fn cost(bytes: usize) -> u32 {
    wire::convert::saturate::<u32>(bytes).saturating_add(MESSAGE_COST)
}

/// Whether a text may name a file in a directory, or a machine: 1 to 255 bytes without a slash, not beginning
/// with a dot.
#[must_use]
pub fn is_name(text: &str) -> bool {
    let is_fit = |c: char| c != '/' && !c.is_control();
    (1..=255).contains(&text.len()) && !text.starts_with('.') && text.chars().all(is_fit)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn messages_that_break_a_bound_are_none() {
        let file = |name: &str, bytes| Message::File {
            name: name.to_owned(),
            bytes: vec![0; bytes],
            is_last: true,
        };
        let decoded = |message: &Message| Message::decode(&message.encode().unwrap());
        let good = file("fabric.json", CHUNK_BYTES_MAX);
        assert_eq!(decoded(&good), Some(good));
        for wrong in [
            file("../etc", 1),
            file(".", 1),
            file("", 1),
            file("x", CHUNK_BYTES_MAX + 1),
            Message::Refused("x".repeat(TEXT_BYTES_MAX + 1)),
            Message::Open {
                stream: 1,
                socket: "a/b".to_owned(),
            },
        ] {
            assert_eq!(decoded(&wrong), None, "{wrong:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_message_that_reads_back_or_none(
            bytes in prop::collection::vec(any::<u8>(), 0..200)
        ) {
            if let Some(message) = Message::decode(&bytes) {
                prop_assert_eq!(Message::decode(&message.encode().unwrap()), Some(message));
            }
        }
    }
}
