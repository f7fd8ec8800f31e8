//! Fabrics as text, in the formats that people have them in ([`TextFormat`]).
//!
//! ibnetdiscover's text and ibsim's are one language. A node is a line such as
//!
//! ```text
//! Switch  8 "S-021be20000000010"   # "s0" base port 0 lid 0 lmc 0
//! ```
//!
//! followed by a line for each connected port, `[own port] "id of peer"[port of peer]`. ibsim's
//! files use names as ids and have no comment behind them; `switchguid=` and `caguid=` (also
//! `hcaguids=`) lines before a node give its GUID, otherwise GUIDs count up from ibsim's defaults.
//!
//! A reader per format puts nodes and cables into a draft, which decides whether what was read is
//! sound: `draft.rs` says when a line that cannot be used is a warning. Prompts and messages of programs
//! between the lines are such lines.

mod as_found;
mod bounded;
mod draft;
mod hostlist;
mod include;
#[cfg(feature = "json")]
mod json;
mod linkinfo;
mod lst;
mod netdiscover;
mod pictures;
mod ports;
mod rows;
mod slurm;
mod tree;
mod warnings;
mod words;
mod write;

use strum::{EnumMessage, IntoStaticStr, VariantArray};

pub use as_found::write_as_found;
pub use bounded::{ReadError, read_bounded};
pub(crate) use include::Source;
pub use warnings::{TextWarning, TextWarnings};
pub use write::{write_ibnetdiscover, write_net};

use crate::error::TextError;
use crate::graph::Graph;
use draft::Draft;

/// How much of a file is read, bytes: three times what ibnetdiscover prints of a subnet without a free LID.
pub const TEXT_BYTES_MAX: usize = 128 << 20;

/// How fabrics are described.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, EnumMessage, IntoStaticStr, VariantArray,
)]
#[strum(serialize_all = "kebab-case")]
pub enum TextFormat {
    /// As ibnetdiscover prints it, of any version, also with -f and -g; ibdiagnet2.ibnetdiscover.
    Ibnetdiscover,
    /// As ibsim reads it, `.net`.
    Ibsim,
    /// The ports report, ibnetdiscover -p.
    Ports,
    /// As iblinkinfo prints it, also with -l.
    Iblinkinfo,
    /// ibdiagnet2.lst, OpenSM's opensm-subnet.lst.
    Lst,
    /// Slurm's topology.conf (topology/tree), also topograph's.
    Slurm,
    /// topograph's list of instances (engine graph), JSON.
    Topograph,
    /// All that ibemu knows of a fabric, JSON.
    Json,
    /// Graphviz.
    Dot,
    /// A flow chart of Mermaid.
    Mermaid,
}
wire::choice!(TextFormat, "format of topologies");

impl TextFormat {
    /// The formats that are read.
    pub fn readable() -> impl Iterator<Item = Self> {
        let all = Self::VARIANTS.iter().copied();
        all.filter(|format| format.reader().is_some())
    }

    /// The formats that are written.
    pub fn writable() -> impl Iterator<Item = Self> {
        let all = Self::VARIANTS.iter().copied();
        all.filter(|format| format.writer().is_some())
    }

    /// The graph in this format; nothing if it is only read.
    #[must_use]
    pub fn write(self, graph: &Graph) -> Option<String> {
        Some(self.writer()?(graph))
    }

    fn reader(self) -> Option<Reader> {
        match self {
            Self::Ibnetdiscover | Self::Ibsim => Some(netdiscover::read),
            Self::Ports => Some(ports::read),
            Self::Iblinkinfo => Some(linkinfo::read),
            Self::Lst => Some(lst::read),
            Self::Slurm => Some(slurm::read),
            #[cfg(feature = "json")]
            Self::Topograph => Some(json::read_instances),
            #[cfg(feature = "json")]
            Self::Json => Some(json::read),
            #[cfg(not(feature = "json"))]
            Self::Topograph | Self::Json => None,
            Self::Dot | Self::Mermaid => None,
        }
    }

    fn writer(self) -> Option<Writer> {
        match self {
            Self::Ibnetdiscover => Some(write_ibnetdiscover),
            Self::Ibsim => Some(write_net),
            Self::Slurm => Some(slurm::write),
            #[cfg(feature = "json")]
            Self::Json => Some(json::write),
            #[cfg(not(feature = "json"))]
            Self::Json => None,
            Self::Dot => Some(pictures::write_dot),
            Self::Mermaid => Some(pictures::write_mermaid),
            Self::Ports | Self::Iblinkinfo | Self::Lst | Self::Topograph => None,
        }
    }

    /// The format of the first line that only one has; ibnetdiscover's if none has.
    #[must_use]
    pub fn of(text: &str) -> Self {
        // A line of an .lst file begins with a brace, too.
        let object = text.trim_start().strip_prefix('{').map(str::trim_start);
        if object.is_some_and(|rest| rest.starts_with(['"', '}'])) {
            return match text.contains("\"instances\"") {
                true => Self::Topograph,
                false => Self::Json,
            };
        }
        let mut formats = text.lines().filter_map(Self::of_line);
        formats.next().unwrap_or(Self::Ibnetdiscover)
    }

    fn of_line(line: &str) -> Option<Self> {
        let line = line.trim();
        // First: names, which stand in comments, may look like anything.
        if let Some(has_guids) = netdiscover::is_node(line) {
            return Some(match has_guids {
                true => Self::Ibnetdiscover,
                false => Self::Ibsim,
            });
        }
        if line.starts_with('{') && line.contains(" NodeGUID:") {
            Some(Self::Lst)
        } else if linkinfo::is_row(line) {
            Some(Self::Iblinkinfo)
        } else if ports::is_row(line) {
            Some(Self::Ports)
        } else if slurm::is_statement(line) {
            Some(Self::Slurm)
        } else {
            None
        }
    }
}

type Reader = fn(&str) -> Result<Draft, TextError>;
type Writer = fn(&Graph) -> String;

/// What a text says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// The fabric.
    pub graph: Graph,
    /// The format of the text.
    pub format: TextFormat,
    /// Lines that were not taken as they stand.
    pub warnings: TextWarnings,
}

/// Reads a description of a fabric in the format given, or in the one that its content shows.
///
/// # Errors
/// [`TextError`] with the line that makes the description unsound: text that is not understood where a node
/// is missing, ids or ports that two lines give to different things, cables of which one end is missing.
pub fn read_description(text: &str, format: Option<TextFormat>) -> Result<Description, TextError> {
    let format = format.unwrap_or_else(|| TextFormat::of(text));
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let read = format.reader().unwrap_or(netdiscover::read);
    let (graph, warnings) = read(text)?.finish(text.lines().count())?;
    Ok(Description {
        graph,
        format,
        warnings,
    })
}

/// [`read_description`] in the format that the content shows, without its warnings.
///
/// # Errors
/// [`TextError`].
pub fn read_text(text: &str) -> Result<Graph, TextError> {
    read_description(text, None).map(|description| description.graph)
}

#[cfg(test)]
mod tests;
