//! Messages of local sockets, and the files of a fabric's directory.

use bincode::{Decode, Encode};
use controller::{Sm, SmConfig};
use ibemu::state::FabricState;
use ibemu::supervisor::{journaled, protocol};
use mad::local::{FromAgent, ToAgent};
use wire::control::{decode, encode};

use crate::fields::Fields;

/// One kind of message, by the socket and direction on which it comes.
pub(crate) struct MessageKind {
    pub(crate) name: &'static str,
    check: fn(&[u8]),
}

/// Bytes are refused, or are a message that is the same after it was written and read again.
fn inverse<M: Encode + Decode<()> + PartialEq + core::fmt::Debug>(bytes: &[u8]) {
    if let Ok(message) = decode::<M>(bytes) {
        let again = encode(&message).expect("a message that came in a packet");
        assert_eq!(decode::<M>(&again).expect("what was written"), message);
    }
}

macro_rules! kinds {
    ($($name:literal: $message:ty),* $(,)?) => {
        /// Every kind of message that a process of a fabric receives from another one.
        pub(crate) const KINDS: &[MessageKind] = &[
            $(MessageKind { name: $name, check: inverse::<$message> }),*
        ];
    };
}

kinds! {
    "request to a switch": switchd::control::Request,
    "reply of a switch": switchd::control::Reply,
    "request to a host": hostd::control::PortRequest,
    "reply of a host": hostd::control::Reply,
    "request to the controller": controller::control::Request,
    "reply of the controller": controller::control::Reply,
    "request to the supervisor": protocol::Request,
    "reply of the supervisor": protocol::Reply,
    "to a MAD socket": ToAgent,
    "from a MAD socket": FromAgent,
    "request to a socket of libibumad": mad::umad::Request,
    "reply of a socket of libibumad": mad::umad::Reply,
    "request to a socket of captures": wire::capture::CaptureRequest,
    "reply of a socket of captures": wire::capture::CaptureReply,
    "command of a switch": switchd::Command,
    "event of a switch": switchd::Event,
    "command of a host": hostd::Command,
    "event of a host": hostd::Event,
    "configuration of a switch": switchd::SwitchConfig,
    "configuration of a host": hostd::HostConfig,
    "request of a program of verbs": uverbs::Request,
    "reply to a program of verbs": uverbs::Reply,
    "of a context of verbs": hostd::ToVerbs,
    "to a context of verbs": hostd::FromVerbs,
}

/// The first byte says which kind of message the others are.
///
/// # Panics
/// If a message that was read cannot be written, or is then another one.
pub(crate) fn message(bytes: &[u8]) {
    if let Some((&which, bytes)) = bytes.split_first() {
        (KINDS[usize::from(which) % KINDS.len()].check)(bytes);
    }
}

/// What managers leave for those after them: the first byte says which of `guid2lid`, `connections`,
/// `groups` and `aliases` the others are. A manager starts with it or refuses it with a line; one that runs
/// takes it in or warns.
///
/// # Panics
/// If one does and the other does not.
pub(crate) fn memory(bytes: &[u8]) {
    let mut fields = Fields::of(bytes);
    let which = fields.byte();
    let text = String::from_utf8_lossy(fields.rest()).into_owned();
    let mut remembered = controller::Remembered::default();
    match which % 4 {
        0 => remembered.guid2lid = Some(text),
        1 => remembered.connections = Some(text),
        2 => remembered.groups = Some(text),
        _ => remembered.aliases = Some(text),
    }
    let config = SmConfig {
        qos: controller::QosChoice::Vlarb01,
        ..SmConfig::default()
    };
    let mut running = Sm::new(config.clone()).expect("a sound configuration");
    running.recall(&remembered);
    let warned = !running.status(link::Time::ZERO).warnings.is_empty();
    let started = Sm::new(SmConfig {
        guid2lid: remembered.guid2lid,
        connections: remembered.connections,
        groups: remembered.groups,
        aliases: remembered.aliases,
        ..config
    });
    assert_eq!(
        started.is_err(),
        warned,
        "the same text is read by the same rules"
    );
    if let Ok(mut started) = started {
        started.tick(link::Time(1));
        while started.poll_event().is_some() {}
    }
}

/// What the supervisor keeps: the first byte says whether `fabric.json` or `processes.jsonl`. What
/// `fabric.json` names is there.
pub(crate) fn supervisor_files(bytes: &[u8]) {
    let mut fields = Fields::of(bytes);
    let which = fields.byte();
    let text = fields.rest();
    if which % 2 == 1 {
        let _ = journaled(&String::from_utf8_lossy(text));
        return;
    }
    let Ok(state) = FabricState::read(text) else {
        return;
    };
    let _ = (
        state.peers(),
        state.cable_counts(),
        state.keepalive_and_silence_ms(),
    );
    let _ = (
        state.hosts().count(),
        state.controllers().count(),
        state.m_key_protection(),
    );
    for end in state.links.iter().flatten() {
        let _ = state.end_name(*end);
        let _ = state.namespace(end.node);
    }
    for node in &state.nodes {
        let _ = state.find(&node.name).expect("it is there");
    }
}
