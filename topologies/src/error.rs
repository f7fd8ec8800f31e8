//! Errors in the name or text of a topology.

use std::path::PathBuf;

use thiserror::Error;
use wire::Guid;
use wire::choice::Choice as _;

use crate::graph::GraphError;
use crate::text::{ReadError, TextFormat};

/// How many LIDs a subnet has (0x0001..=0xbfff): every host and every switch needs one at least.
pub const NODES_MAX: u64 = 0xbfff;

/// How many external ports an InfiniBand switch can have.
pub const SWITCH_PORTS_MAX: u64 = 254;

/// Why there is no such topology.
#[derive(Debug, Error)]
pub enum TopologyError {
    /// Neither the name of a kind nor a file.
    #[error(
        "no topology and no file is called {given:?}{}; kinds are {kinds}; a path leads to a file \
         of {}, in front of which FORMAT: says which",
        did_you_mean(close),
        formats()
    )]
    Unknown {
        /// What was asked for.
        given: String,
        /// Kinds whose names are near.
        close: Vec<&'static str>,
        /// The forms of all kinds.
        kinds: String,
    },
    /// The name of a kind, but not the numbers which that kind takes.
    #[error("{given:?}: {problem}; the form is {form}")]
    Form {
        /// What was asked for.
        given: String,
        /// What is wrong with it.
        problem: String,
        /// How it is written.
        form: &'static str,
    },
    /// A number outside its range.
    #[error("{topology}: {what} is {value}, allowed is {min} to {max}")]
    OutOfRange {
        /// The topology.
        topology: String,
        /// Which number.
        what: &'static str,
        /// The number.
        value: u64,
        /// The least that is allowed.
        min: u64,
        /// The most that is allowed.
        max: u64,
    },
    /// Numbers that do not go together.
    #[error("{topology}: {reason}")]
    Impossible {
        /// The topology.
        topology: String,
        /// Which rule it breaks, and what would not.
        reason: String,
    },
    /// More nodes than a subnet has LIDs.
    #[error(
        "{topology}: {hosts} hosts and {switches} switches need {} LIDs, a subnet has {NODES_MAX}",
        hosts.saturating_add(*switches)
    )]
    TooManyNodes {
        /// The topology.
        topology: String,
        /// How many hosts it would have.
        hosts: u64,
        /// How many switches it would have.
        switches: u64,
    },
    /// A file that cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: ReadError,
    },
    /// A file that says something else than a fabric.
    #[error("{}:{source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Where and what.
        source: TextError,
    },
    /// A generator broke a rule of the graph: a defect of this crate.
    #[error("{topology}: {source}")]
    Graph {
        /// The topology.
        topology: String,
        /// The rule.
        source: GraphError,
    },
}

/// The formats of files.
fn formats() -> String {
    let names: Vec<&str> = TextFormat::readable().map(TextFormat::name).collect();
    names.join(", ")
}

fn did_you_mean(close: &[&str]) -> String {
    if close.is_empty() {
        String::new()
    } else {
        format!(" (did you mean {}?)", close.join(" or "))
    }
}

/// Why a text is not a fabric, and where.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{line}: {problem}")]
pub struct TextError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong there.
    pub problem: TextProblem,
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TextProblem {
    /// A line that is no comment, no assignment, no node and no port.
    #[error("this is neither a node, a port of a node, nor a setting: {0:?}")]
    NotUnderstood(String),
    /// A character that a terminal interprets instead of showing it.
    #[error(
        "character {} holds no text but controls terminals ({:?}): remove it",
        column,
        character
    )]
    ControlCharacter {
        /// Which character of the line, from 1.
        column: usize,
        /// The character.
        character: char,
    },
    /// An inclusion in a text that is no file.
    #[error("include: only files include others")]
    NoInclusion,
    /// A file that is to be included and cannot be read.
    #[error("include {name:?}: {reason}")]
    NotIncluded {
        /// Its name.
        name: String,
        /// Why not.
        reason: String,
    },
    /// Files that include others without end.
    #[error(
        "include: files within files are at most 9 deep and 1000 in all; does one include itself?"
    )]
    TooManyFiles,
    /// `module=` without a name of at most 20 characters.
    #[error("the name of the module is missing, longer than 20 characters or holds # or @")]
    BadModule,
    /// An alias that means another port.
    #[error("the alias {alias:?} already means a port in line {first}")]
    AliasTaken {
        /// The alias, with the name of its module in front.
        alias: String,
        /// Where it is given first.
        first: usize,
    },
    /// A node line without number of ports.
    #[error("the number of ports is missing or not 1 to 254")]
    NoPorts,
    /// A node or port line without a node id in quotes.
    #[error("the node id in double quotes is missing")]
    NoId,
    /// A GUID that is no number.
    #[error("{0:?} is not a GUID (up to 16 hexadecimal digits after 0x)")]
    BadGuid(String),
    /// A vendor or device number that is none.
    #[error("{text:?} is no {what}: up to {digits} hexadecimal digits after 0x")]
    BadNumber {
        /// What it should be.
        what: &'static str,
        /// What is written.
        text: String,
        /// How many digits it has at most.
        digits: u8,
    },
    /// Two nodes of one id.
    #[error("the node id {id:?} is already used in line {first}")]
    IdTaken {
        /// The id.
        id: String,
        /// Where it is used first.
        first: usize,
    },
    /// Something the graph refuses: a GUID used twice.
    #[error("{0}")]
    Refused(GraphError),
    /// A port line before any node.
    #[error("a port without a node above it")]
    PortWithoutNode,
    /// A port number that the node does not have.
    #[error("port {port} of {node:?}: it has ports 1 to {ports}")]
    NoSuchPort {
        /// The node.
        node: String,
        /// The number as written.
        port: String,
        /// How many ports it has.
        ports: u8,
    },
    /// Two lines for one port.
    #[error("port {port} of {node:?} is already connected in line {first}")]
    PortTaken {
        /// The node.
        node: String,
        /// The port.
        port: u8,
        /// Where it is connected first.
        first: usize,
    },
    /// A port that leads to a node which is not there.
    #[error("dangling link: port {port} of {node:?} leads to {peer:?}, which is not defined")]
    NoSuchNode {
        /// The node.
        node: String,
        /// Its port.
        port: u8,
        /// The id of the other node.
        peer: String,
    },
    /// A port whose other end does not name it.
    #[error(
        "dangling link: port {port} of {node:?} leads to port {peer_port} of {peer:?}, {}",
        match back {
            Some(back) => format!("which leads to {back}"),
            None => "which is not connected".to_owned(),
        }
    )]
    NotMutual {
        /// The node.
        node: String,
        /// Its port.
        port: u8,
        /// The id of the other node.
        peer: String,
        /// The other node's port.
        peer_port: u8,
        /// What that port names, if anything.
        back: Option<String>,
    },
    /// A node whose GUID is blanked out.
    #[error("the GUID of {node:?} is not there: it is given {guid}")]
    GuidMadeUp {
        /// The node.
        node: String,
        /// What it is given.
        guid: Guid,
    },
    /// A node that has no lines of its own, and is taken from those of its peers.
    #[error(
        "{0:?} has no line of its own: it and others like it are taken from the lines of their peers"
    )]
    FromPeers(String),
    /// More connections than a device has ports.
    #[error("{0:?} would have more than {SWITCH_PORTS_MAX} ports")]
    TooManyPorts(String),
    /// A switch that no line describes.
    #[error("no line describes the switch {0:?}")]
    NoSuchSwitch(String),
    /// A switch that is said to be under itself.
    #[error("the switch {0:?} cannot be under itself")]
    UnderItself(String),
    /// A list of names that is malformed or names more than a subnet has.
    #[error("{0:?} is no list of names such as node[01-16],login1, or names too many")]
    BadList(String),
    /// A file of Slurm's that says which nodes are near each other, but not by which switches.
    #[error(
        "blocks of nodes say nothing about switches: wanted is topology/tree, lines of SwitchName="
    )]
    Blocks,
    /// A text that is no JSON, or JSON of something else.
    #[error("{0}")]
    Json(String),
    /// A text without any node.
    #[error("no node is defined")]
    Empty,
    /// More nodes than a subnet has LIDs.
    #[error("more than {NODES_MAX} nodes: a subnet has no more LIDs")]
    TooManyNodes,
}
