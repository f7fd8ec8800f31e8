//! A comparison of multicast schemes as its plan says it.

use core::fmt;

use routing::RoutingEngine;
use routing::multicast::Scheme;
use serde::{Deserialize, Serialize};
use sim::{Model, PACKET_BYTES_MIN};
use strum::{EnumMessage, IntoStaticStr, VariantArray};
use wire::choice::{Choice, UnknownName};
use wire::convert::saturate;

use crate::checks::{self, Refusal, ascending, between, bounds, distinct, graph, not_empty};

/// The most packets of a message.
const PACKETS_MAX: u32 = 1024;

/// Messages to groups, by several schemes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MulticastPlan {
    /// Name of the topology, a fat tree.
    pub(super) topology: String,
    /// The routing engine; its paths are those of unicast.
    pub(super) routing: RoutingEngine,
    /// What is compared.
    pub(super) schemes: Vec<Delivery>,
    /// Whose groups they are; the first is the one that statements and bands are about.
    #[serde(default = "own")]
    pub(super) grouping: Vec<Grouping>,
    /// How many hosts send.
    pub(super) sources: Vec<Share>,
    /// How many hosts a group has, ascending.
    pub(super) groups: Vec<Share>,
    /// Bytes of a message, all its packets from LRH to ICRC, ascending.
    pub(super) sizes_bytes: Vec<u32>,
    /// Bytes of the longest packet, LRH to ICRC: longer messages go as several of them.
    pub(super) packet_bytes: u16,
    /// Draws of sources and groups at each point.
    pub(super) runs: u32,
    /// The same for unicast, which takes longest; left out: as many.
    pub(super) unicast_runs: Option<u32>,
    /// What the report shows beside tables.
    pub(super) shows: Vec<Show>,
    /// Statements of the paper that are judged.
    #[serde(default)]
    pub(super) statements: Vec<Statement>,
    /// Ranges that ratios of times should be in.
    #[serde(default)]
    pub(super) band: Vec<Band>,
}

fn own() -> Vec<Grouping> {
    vec![Grouping::Own]
}

/// How a message comes to a group, written by the name of the multicast scheme, or `unicast`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) enum Delivery {
    /// By the trees of a multicast scheme.
    Multicast(Scheme),
    /// To one member after the other.
    Unicast,
}

impl Delivery {
    pub(super) const CYCLIC: Self = Self::Multicast(Scheme::Cyclic);
    pub(super) const SPANNING_TREE: Self = Self::Multicast(Scheme::SpanningTree);

    fn name(self) -> &'static str {
        match self {
            Self::Multicast(scheme) => scheme.name(),
            Self::Unicast => "unicast",
        }
    }
}

impl TryFrom<String> for Delivery {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        if name == Self::Unicast.name() {
            return Ok(Self::Unicast);
        }
        let scheme = name.parse().map(Self::Multicast);
        scheme.map_err(|error: UnknownName| format!("{error}; or {}", Self::Unicast))
    }
}

impl From<Delivery> for String {
    fn from(delivery: Delivery) -> Self {
        delivery.name().to_owned()
    }
}

impl fmt::Display for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Whose groups they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub(crate) enum Grouping {
    /// Each source has drawn a group of its own among the other hosts.
    Own,
    /// All sources send to one group, drawn among all hosts.
    Common,
}
wire::choice!(Grouping, "grouping");

/// How many of the hosts, written `one`, `40%`, `all`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) enum Share {
    /// A single one.
    One,
    /// That part of all of them, 1 to 100 percent, rounded, but at least one.
    Percent(u8),
}

impl TryFrom<String> for Share {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let percent = match text.as_str() {
            "one" => return Ok(Self::One),
            "all" => Some(100),
            text => text.strip_suffix('%').and_then(|part| part.parse().ok()),
        };
        match percent {
            Some(percent @ 1..=100) => Ok(Self::Percent(percent)),
            _ => Err(format!("{text:?}: one, 1% to 100%, or all")),
        }
    }
}

impl From<Share> for String {
    fn from(share: Share) -> Self {
        share.to_string()
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One => f.write_str("one"),
            Self::Percent(100) => f.write_str("all"),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

impl Share {
    /// How many of `hosts` that is.
    pub(super) fn of(self, hosts: u32) -> u32 {
        match self {
            Self::One => 1,
            Self::Percent(percent) => {
                let part = (u64::from(hosts) * u64::from(percent) + 50) / 100;
                saturate::<u32>(part).max(1)
            }
        }
    }

    /// The part in percent, for an axis; `None` of a single one.
    pub(super) fn percent(self) -> Option<f64> {
        match self {
            Self::One => None,
            Self::Percent(percent) => Some(f64::from(percent)),
        }
    }

    /// Whether it is all of them.
    pub(super) fn is_all(self) -> bool {
        self == Self::Percent(100)
    }
}

/// What a report shows beside tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub(crate) enum Show {
    /// Times against sizes of messages, one plot for each number of sources and size of groups.
    Times,
    /// How much faster cyclic is, against the size of groups.
    Gains,
}
wire::choice!(Show, "plot");

/// A statement of MCAST07, or a consequence of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub(crate) enum Statement {
    /// Both multicast schemes are faster than unicast (cases 1 and 2, remark 1).
    FasterThanUnicast,
    /// From one source, both multicast schemes take the same time (case 1, remark 2).
    SameFromOneSource,
    /// With many sources, cyclic is faster than the spanning tree for groups of up to 40 % of the
    /// hosts (case 2, remark 2).
    FasterForSmallGroups,
    /// With many sources and groups of all hosts, it is a little faster (cases 2 and 3, remark 2,
    /// figure 17).
    LittleFasterForAll,
    /// The smaller the group the more it gains (figure 17).
    GainFallsWithGroup,
    /// The more sources the longer it takes (case 3).
    LongerWithSources,
    /// Over unicast, it gains more with longer messages, more sources, larger groups (section 1).
    GrowingLead,
    /// With one group for all sources long messages gain nothing: the last links carry everything
    /// under any scheme. The paper does not say it.
    NoGainInCommon,
}
wire::choice!(Statement, "statement");

/// A range for the ratio of the times of two schemes, groups being those of the first grouping.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Band {
    /// The scheme.
    pub(super) scheme: Delivery,
    /// The one to divide by.
    pub(super) over: Delivery,
    /// How many hosts send.
    pub(super) sources: Share,
    /// How many hosts a group has.
    pub(super) groups: Share,
    /// Bytes of a message.
    pub(super) size_bytes: u32,
    /// The least.
    pub(super) min: f64,
    /// The most.
    pub(super) max: f64,
}

impl MulticastPlan {
    pub(super) fn check(&self) -> Result<(), Refusal> {
        not_empty("shows", &self.shows)?;
        self.check_fabric()?;
        self.check_sizes()?;
        ascending("groups", &self.groups)?;
        distinct("schemes", &self.schemes)?;
        distinct("grouping", &self.grouping)?;
        ascending("sources", &self.sources)?;
        if let Some(runs) = self.unicast_runs {
            // At most the runs of the other schemes.
            between("unicast_runs", runs, (1, self.runs))?;
        }
        let mut bands = self.band.iter();
        bands.try_for_each(|band| bounds(band.min, band.max))
    }

    fn check_fabric(&self) -> Result<(), Refusal> {
        let graph = graph("topology", &self.topology)?;
        let hosts = graph.hosts().count();
        if hosts < 2 {
            return Err(("topology", format!("{hosts} hosts: at least 2")));
        }
        let labels = routing::fat_tree::recognise(&graph);
        if let (Err(reason), true) = (labels, self.schemes.contains(&Delivery::CYCLIC)) {
            let what = format!("cyclic multicast needs a fat tree: {reason}");
            return Err(("topology", what));
        }
        Ok(())
    }

    fn check_sizes(&self) -> Result<(), Refusal> {
        let model = Model {
            packet_bytes: self.packet_bytes,
            ..Model::mlid04(1)
        };
        checks::model("packet_bytes", &model)?;
        let least = u32::from(PACKET_BYTES_MIN);
        let packet = u32::from(self.packet_bytes);
        if packet == least {
            let what = format!("{packet}: more than {least}, or a message has no payload");
            return Err(("packet_bytes", what));
        }
        let is_size = |&bytes: &u32| {
            let is_one = (least..=packet).contains(&bytes) && bytes.is_multiple_of(4);
            is_one
                || (bytes.is_multiple_of(packet) && (2..=PACKETS_MAX).contains(&(bytes / packet)))
        };
        if !self.sizes_bytes.iter().all(is_size) {
            let what = format!(
                "{least} to {packet} in words of 4, or 2 to {PACKETS_MAX} packets of {packet}"
            );
            return Err(("sizes_bytes", what));
        }
        ascending("sizes_bytes", &self.sizes_bytes)
    }

    /// Draws of a scheme.
    pub(super) fn runs_of(&self, scheme: Delivery) -> u32 {
        match scheme {
            Delivery::Unicast => self.unicast_runs.unwrap_or(self.runs),
            Delivery::Multicast(_) => self.runs,
        }
    }

    /// The network's model for messages of a size: buffers hold one packet of it.
    pub(super) fn model(&self, size_bytes: u32) -> Model {
        Model {
            packet_bytes: u16::try_from(size_bytes)
                .map_or(self.packet_bytes, |bytes| bytes.min(self.packet_bytes)),
            ..Model::mlid04(1)
        }
    }

    /// Packets of a message.
    pub(super) fn packets(&self, size_bytes: u32) -> u32 {
        size_bytes.div_ceil(u32::from(self.packet_bytes))
    }
}
