//! Arguments of the offline verbs.

use std::path::PathBuf;

use clap::Args;
use daemon::choice::{choice, plain_choice};
use routing::lid_assignment::PathScheme;
use routing::qos::{Layout, LinkRate};
use routing::quality::Pattern;
use routing::{DATA_VLS, LidBase, RoutingEngine, multicast};
use strum::{EnumMessage, IntoStaticStr, VariantArray};

use crate::levels::Levels;

use super::lids::{Assign, assign_parser, path_parser};

/// Which tables.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Tables")]
pub struct Scheme {
    /// Where the LIDs of hosts begin; switches stand behind all hosts
    #[arg(long, value_parser = choice::<LidBase>(), default_value_t = LidBase::Aligned)]
    pub lid_base: LidBase,
    /// LID mask control of the hosts, 0 to 7: each has 2^LMC LIDs [default: what the routing engine
    /// wants]
    #[arg(long, value_name = "LMC", value_parser = clap::value_parser!(u8).range(0..=7))]
    pub lmc: Option<u8>,
    /// Data VLs that every port has, 1 to 15, for engines that need several
    #[arg(long, value_name = "VLS", default_value_t = DATA_VLS,
          value_parser = clap::value_parser!(u8).range(1..=15))]
    pub vls: u8,
    /// Seed of random traffic patterns; the engines use none
    #[arg(long, default_value_t = 1, value_name = "NUMBER")]
    pub seed: u64,
    #[command(flatten)]
    /// Its levels.
    pub levels: Levels,
}

/// Multicast groups and connections on top of the tables.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Multicast and connections")]
pub struct Extras {
    /// A multicast group by its members, or `all` for all hosts; once for each group
    #[arg(long = "group", value_name = "HOST,HOST..")]
    pub groups: Vec<String>,
    /// How groups are given trees
    #[arg(long, value_parser = choice::<multicast::Scheme>(), value_name = "SCHEME",
          default_value_t = multicast::Scheme::SpanningTree, requires = "groups")]
    pub multicast: multicast::Scheme,
    /// A connection with promised bandwidth (VLARB01), as SOURCE,DESTINATION,RATE with RATE in
    /// bits a second (k, M and G are understood), and `,dbts` behind it if it is time sensitive;
    /// once for each connection
    #[arg(long = "connection", value_name = "CONNECTION")]
    pub connections: Vec<String>,
    /// Rate of every link, for connections: 1x is 2.5 Gbit/s
    #[arg(long, value_parser = choice::<LinkRate>(), default_value_t = LinkRate::X4,
          requires = "connections")]
    pub rate: LinkRate,
}

/// A table to print as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Dump {
    /// Forwarding tables as dump_fts prints them; OpenSM takes them with -R file -U
    Lft,
    /// Multicast forwarding tables as dump_fts -M prints them; --group makes some
    Mft,
    /// LIDs as OpenSM's file guid2lid: port GUID, first LID, last LID
    Lids,
    /// Service levels as OpenSM's opensm-path-records.dump: by source port and LID the SL
    Sl,
    /// SL-to-VL tables as OpenSM's opensm-sl2vl.dump
    Sl2vl,
}
wire::choice!(Dump, "table to print");

/// `ibemu route`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Without --json, --dump and --path a summary is printed:
  HOSTS, SWITCHES, LMC   host ports and switches with LIDs; the largest LMC of a host
  LIDS                   LIDs in use, those of switches among them
  TOP                    the largest LID in use
  ENTRIES                forwarding table entries that lead somewhere, over all switches
Columns of --path: IN and OUT are the ports by which the packet enters and leaves the node.
Exit code: 0; 1 if the packet of --path does not arrive; 2 if there can be no such tables.")]
pub struct Route {
    /// A generated topology or a file, as for `up`
    pub topology: String,
    /// Routing engine
    #[arg(long, value_parser = choice::<RoutingEngine>(), default_value_t = RoutingEngine::Auto,
          value_name = "ENGINE")]
    pub routing: RoutingEngine,
    /// For --routing file: tables in the text of dump_fts
    #[arg(long, value_name = "PATH", required_if_eq("routing", "file"))]
    pub tables: Option<PathBuf>,
    #[command(flatten)]
    /// Which tables.
    pub scheme: Scheme,
    #[command(flatten)]
    /// What is on top of them.
    pub extras: Extras,
    /// Print LIDs and all tables, or with --path the way, as JSON
    #[arg(long, conflicts_with = "dump", help_heading = "Output")]
    pub json: bool,
    /// Print one kind of table as text
    #[arg(long, value_parser = choice::<Dump>(), value_name = "TABLE", help_heading = "Output")]
    pub dump: Option<Dump>,
    /// Print the way of a packet from one node to another, to the LID that the scheme selects
    #[arg(
        long,
        value_name = "SOURCE,DESTINATION",
        conflicts_with = "dump",
        help_heading = "Output"
    )]
    pub path: Option<String>,
}

/// The help of `--pattern`.
fn pattern_help() -> String {
    let forms = Pattern::forms().into_iter().map(|form| {
        let is_of_host = form.ends_with("HOST");
        form + if is_of_host {
            " (by number, from 0)"
        } else {
            ""
        }
    });
    format!(
        "A traffic pattern to count link loads for, besides those always counted: {}; once for each",
        forms.collect::<Vec<_>>().join(", ")
    )
}

/// `ibemu verify`.
#[derive(Clone, Debug, Args)]
#[command(
    group(clap::ArgGroup::new("which").required(true).args(["routing", "tables"]).multiple(true)),
    after_help = "\
Every LID is followed from every switch. Reported are: LIDs that do not reach their owner,
with what stops them (no entry, a port without cable, a wrong node, a loop with its switches);
paths that are longer, or turn upwards after going down, where the engine promises otherwise;
credit loops, as SWITCH port PORT VL NUMBER -> ..; copies of
multicast packets (--group; --mft, whose members are the hosts that its tables send to) that
are missing, double, stray, or come back; arbitration tables (--connection) that promise more
slots than a frame has, or other than the connections add up to.

Figures:
  FOLLOWED     (switch, LID) pairs whose path was followed
  HOPS         cables between switches on the longest path
  NOT MINIMAL  pairs of a switch with hosts and a host LID whose path is longer than the
               shortest, whether any host selects that LID or not
  LIDS         LIDs in use, those of switches among them
  ENTRIES      forwarding table entries that lead somewhere, over all switches
  VLS          data VLs that the tables use
and those of quality, as `ibemu compare --help` explains them. Then a line for each traffic
pattern:
  FLOWS        pairs that send
  BUSIEST CABLE  flows on the busiest cable between switches, each direction for itself
  MEAN         the mean over all such cables
Exit code: 0 if nothing is wrong, 1 if something is, 2 if there can be no such tables."
)]
pub struct Verify {
    /// A generated topology or a file, as for `up`
    pub topology: String,
    /// Routing engine, as for `route`
    #[arg(long, value_parser = plain_choice::<RoutingEngine>(), value_name = "ENGINE")]
    pub routing: Option<RoutingEngine>,
    /// Tables in the text of dump_fts
    #[arg(long, value_name = "PATH")]
    pub tables: Option<PathBuf>,
    /// Service levels of the tables, or their SL-to-VL tables: OpenSM's opensm-path-records.dump
    /// and opensm-sl2vl.dump, what `saquery PR` prints, or --dump sl and --dump sl2vl of `ibemu route`; once
    /// for each file [default: all packets on VL 0]
    #[arg(long = "sls", value_name = "PATH", requires = "tables")]
    pub sls: Vec<PathBuf>,
    /// Multicast tables in the text of dump_fts -M, to be verified too
    #[arg(long, value_name = "PATH")]
    pub mft: Option<PathBuf>,
    #[command(flatten)]
    /// Which tables.
    pub scheme: Scheme,
    #[command(flatten)]
    /// What is on top of them.
    pub extras: Extras,
    /// Traffic patterns to count link loads for.
    #[arg(long = "pattern", value_name = "PATTERN", help_heading = "Quality",
          help = pattern_help())]
    pub patterns: Vec<Pattern>,
    /// Leave the figures of quality out: they take longest on large fabrics
    #[arg(long, conflicts_with = "patterns", help_heading = "Quality")]
    pub no_quality: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `ibemu compare`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Columns, a line for each engine:
  LMC          the largest of any host
  LIDS         LIDs in use, those of switches among them
  ENTRIES      forwarding table entries that lead somewhere, over all switches
  HOPS         cables between switches on the longest path
  NOT MINIMAL  pairs of a switch with hosts and a host LID whose path is longer than the
               shortest, whether any host selects that LID or not
  VLS          data VLs that the tables use
  DEADLOCK     whether there is a credit loop
  PROBLEMS     what `ibemu verify` finds wrong, credit loops apart
Quality, counted on the cables between switches when every source sends to the LID that the
scheme selects:
  ALL-TO-ALL   flows on the busiest cable when every host sends to every other
  TO-ONE       flows on the busiest cable that leads up (in the engine's order; any cable if
               it has none) when all hosts send to the first
  SHIFT        flows on the busiest cable when host i sends to host i + k, the most over k =
               1, 2, 4 ..
  RANDOM       flows on the busiest cable, mean over 16 random permutations
  PAIRS        flows on the busiest cable, mean over 16 random pairings of one half of the
               hosts with the other
  EBB          effective bisection bandwidth as ORCS defines it: the mean over all pairs of
               100 such pairings of 1 / (flows on the pair's busiest cable); 1 is full
               bandwidth
  PATHS        mean number of different paths that a host's LIDs offer from another switch
An engine that cannot apply has a line that says why, below the table.")]
pub struct Compare {
    /// A generated topology or a file, as for `up`
    pub topology: String,
    /// Routing engines, as for `route` (but file), separated by commas. `auto` has lines for all engines that it
    /// has measured [default: auto]
    #[arg(
        long,
        visible_alias = "engines",
        value_parser = plain_choice::<RoutingEngine>(),
        value_name = "ENGINE,ENGINE..",
        value_delimiter = ','
    )]
    pub routing: Vec<RoutingEngine>,
    #[command(flatten)]
    /// Which tables.
    pub scheme: Scheme,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `ibemu lids`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Columns, a line for each assignment:
  ASSIGN           the scheme
  LIDS             the sum over all hosts of their LIDs, each host's rounded up to a power of
                   two
  PER DESTINATION  their mean and the most of one host
  FLOWS            paths on the busiest cable between switches when every host sends to every
                   other
  LOAD             the same divided by the number of hosts less one
fully-explicit and renaming bring paths of their own; all others assign LIDs to those of
--paths.
Exit code: 0; 1 if a scheme finds no assignment (exact gives up on large fabrics).")]
pub struct Lids {
    /// A generated topology or a file, as for `up`
    pub topology: String,
    /// Path computation
    #[arg(long, value_parser = path_parser(), default_value_t = PathScheme::PathSelection,
          value_name = "PATHS")]
    pub paths: PathScheme,
    /// Assignment of LIDs, separated by commas; to compare with: fully-explicit, renaming
    #[arg(
        long,
        value_parser = assign_parser(),
        default_value = "color-l",
        value_name = "NAME,NAME..",
        value_delimiter = ','
    )]
    pub assign: Vec<Assign>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `ibemu admit`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Random connections of the four DB bands are asked for in turn (VLARB01, section 5.2) until
--tries are done, or one finds no place in --retries draws.
Columns:
  SL           service level of the band
  ESTABLISHED  connections that stand
Then: the mean and the most of any link's share of its frame that connections own; how many
draws were refused for want of bandwidth and of table entries; and the first refusal, with its
link.
Exit code: 0; 1 if a link has promised more than it has (never).")]
pub struct Admit {
    /// A generated topology or a file, as for `up`
    pub topology: String,
    /// Rate of every link
    #[arg(long, value_parser = choice::<LinkRate>(), default_value_t = LinkRate::X1)]
    pub rate: LinkRate,
    /// Connections to try, 1 to 1000000
    #[arg(long, default_value_t = 3072, value_name = "NUMBER",
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub tries: u32,
    /// Draws of source, destination and rate for one connection, 1 to 10000000
    #[arg(long, default_value_t = 10_000, value_name = "NUMBER",
          value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub retries: u32,
    /// Seed of sources, destinations and rates
    #[arg(long, default_value_t = 1, value_name = "NUMBER")]
    pub seed: u64,
    /// Routing engine that gives the paths, as for `route` (but file)
    #[arg(long, value_parser = plain_choice::<RoutingEngine>(),
          default_value_t = RoutingEngine::Auto, value_name = "ENGINE")]
    pub routing: RoutingEngine,
    /// Where the next entry of a VL in an arbitration table goes
    #[arg(long, value_parser = choice::<Layout>(), default_value_t = Layout::Contiguous)]
    pub layout: Layout,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `ibemu window`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Each line of the file is a window: [[source,destination],...], hosts numbered from 0; host i
is at leaf i / HOSTS. A connection lasts for the windows in which it is asked for; a request
that cannot be served waits and is asked for again by itself.
Columns, a line for each window:
  ADMITTED  connections of the window, those that go on among them
  MOVED     those of them that have another tree than in the window before
  DEFERRED  requests that wait: their source or destination is busy, or no tree is left
Exit code: 0; 2 if a line cannot be read or names a host that is not there.")]
pub struct Window {
    /// Leaf switches, 1 to 4096
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub leaves: u16,
    /// Hosts at each leaf, 1 to 254
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=254))]
    pub hosts: u16,
    /// Spine switches, 1 to 4096
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub spines: u16,
    /// Cables between a leaf and a spine, 1 to 254
    #[arg(long, default_value_t = 1, value_name = "NUMBER",
          value_parser = clap::value_parser!(u16).range(1..=254))]
    pub links: u16,
    /// Requests, a window a line; - for standard input
    #[arg(long, value_name = "FILE")]
    pub requests: PathBuf,
    /// Never move a standing connection; needs 2 * HOSTS - 1 trees (spines times links)
    #[arg(long)]
    pub strict: bool,
    /// Go on after the last line until nothing waits
    #[arg(long)]
    pub drain: bool,
    /// Print a line of JSON for each window
    #[arg(long)]
    pub json: bool,
}
