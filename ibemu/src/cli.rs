//! The command line.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};
use controller::{PartitionEnforcement, QosChoice};
use daemon::choice::{choice, plain_choice};
use daemon::logging::{LOG_BYTES, LOG_BYTES_MIN, LogLevel};
use netio::transport::Transport;
use routing::RoutingEngine;
use routing::multicast::Scheme;
use serde::{Deserialize, Serialize};
use strum::{EnumMessage, IntoStaticStr, VariantArray};
use wire::choice::Choice as _;
use wire::{LinkSpeed, LinkWidth, Mtu};

use crate::names::{FabricName, PortName};
use crate::quantity::{self, Rate};
use crate::verbs::offline::args as offline;

/// An InfiniBand fabric on this machine: every switch and host a process, real packets between
/// them, a real subnet manager.
#[derive(Debug, Parser)]
#[command(name = "ibemu", version, max_term_width = 100)]
pub struct Cli {
    /// Name of the fabric: 1 to 32 of a-z, 0-9 and '-'. Several may be up side by side
    #[arg(long, global = true, default_value = "ib", value_name = "NAME")]
    pub fabric: FabricName,
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Bring a fabric up: namespaces, links, devices, subnet manager; then verify it
    Up(Box<Up>),
    /// Take a fabric down and remove everything that `up` created
    Down(Down),
    /// Run a command beside a node: in its namespace, with its adapter
    Exec(Exec),
    /// Show devices, ports, LIDs and the subnet manager
    Status(Status),
    /// Send echo packets between hosts and time them
    Ping(Ping),
    /// Show the path of a packet hop by hop, read from the live switches' tables
    Path(PathTo),
    /// Send traffic between hosts: offered, delivered, dropped, latency
    Perf(Perf),
    /// Multicast groups: join, leave, send, count, tables
    #[command(subcommand)]
    Mcast(crate::verbs::Mcast),
    /// Ask for connections with promised bandwidth, on a fabric brought up with --qos vlarb01
    #[command(subcommand)]
    Qos(crate::verbs::Qos),
    /// Send without interference, on a fabric brought up with --routing clos
    #[command(subcommand)]
    Clos(crate::verbs::Clos),
    /// Pull or plug a cable
    #[command(subcommand)]
    Link(Link),
    /// Stop a device (if it runs) and start it again
    Restart(Restart),
    /// Write a topology out, without bringing it up
    Topo(Topo),
    /// Compute LIDs and forwarding tables, without a fabric
    Route(Box<offline::Route>),
    /// Verify tables, computed or your own: reachability, loops, deadlock, quality
    Verify(Box<offline::Verify>),
    /// Compare routing engines on a topology, in one table
    Compare(Box<offline::Compare>),
    /// Count the LIDs that it takes to realise given paths (LID07)
    Lids(offline::Lids),
    /// Admit random connections with promised bandwidth until the fabric is full (VLARB01)
    Admit(offline::Admit),
    /// Run the connection controller of a Clos fabric on windows of requests (CLOS04)
    Window(offline::Window),
    /// Run the papers' experiments in virtual time
    #[command(subcommand)]
    Sim(crate::verbs::Sim),
    /// The supervisor process of one fabric
    #[command(hide = true)]
    Supervisor(Supervisor),
}

/// Who manages the subnet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Sm {
    /// ibemu's own controller
    Ibemu,
    /// None: links stay in Init until you start one
    None,
}
wire::choice!(Sm, "subnet manager");

/// Which pairs of hosts `up` sends a packet between.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Verify {
    /// Every pair
    All,
    /// Every host, with some others chosen by the seed
    Sample,
    /// No pair
    None,
}
wire::choice!(Verify, "sort of verification");

/// What names a topology: the forms of all kinds, or a file.
fn topology_help() -> String {
    format!(
        "{}; or the path of a file in the text of ibnetdiscover or ibsim",
        topologies::forms().join(", ")
    )
}

/// Takes a log level, but not `off`: what fails on a fabric is always logged.
fn log_level() -> impl TypedValueParser<Value = LogLevel> {
    let names = LogLevel::names().filter(|&name| name != LogLevel::Off.name());
    PossibleValuesParser::new(names).try_map(|name| name.parse::<LogLevel>())
}

/// `ibemu up`.
#[derive(Clone, Debug, Args, Serialize, Deserialize)]
pub struct Up {
    /// A generated topology or a file.
    #[arg(help = topology_help())]
    pub topology: String,

    /// How cables are made
    #[arg(long, value_parser = choice::<Transport>(), default_value_t = Transport::Veth,
          help_heading = "Fabric")]
    pub transport: Transport,
    /// Seed of the pairs of --verify sample
    #[arg(
        long,
        default_value_t = 1,
        value_name = "NUMBER",
        help_heading = "Fabric"
    )]
    pub seed: u64,
    /// Pairs of hosts to send a packet between before `up` ends [default: all up to 64 hosts,
    /// sample above]
    #[arg(long, value_parser = choice::<Verify>(), help_heading = "Fabric")]
    pub verify: Option<Verify>,
    /// Record all that every switch and host is handed and does, each to a file of this folder,
    /// which must be new or empty; for ibemu sim replay [default: no recording]
    #[arg(long, value_name = "FOLDER", help_heading = "Fabric")]
    #[serde(default)]
    pub record: Option<std::path::PathBuf>,
    /// How long `up` may take before it gives up, seconds, 1 to 86400
    #[arg(long, default_value_t = 120, value_name = "SECONDS", help_heading = "Fabric",
          value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub timeout: u32,

    /// Who manages the subnet
    #[arg(long, value_parser = choice::<Sm>(), default_value_t = Sm::Ibemu,
          help_heading = "Subnet manager")]
    pub sm: Sm,
    /// The host beside which the controller runs, or several with commas between, each as NODE or
    /// NODE:PRIORITY: the first of the highest priority, 0 to 15, is master, the others stand by
    /// [default: the first host; priorities 8, 7, ...]
    #[arg(long, value_name = "NODES", help_heading = "Subnet manager")]
    pub sm_node: Option<String>,
    /// SM_Key that the controllers show and expect of other subnet managers, decimal; 0 trusts all
    #[arg(
        long,
        default_value_t = 1,
        value_name = "KEY",
        help_heading = "Subnet manager"
    )]
    #[serde(default)]
    pub sm_key: u64,
    /// Routing engine
    #[arg(
        long,
        value_parser = choice::<RoutingEngine>(),
        default_value_t = RoutingEngine::Auto,
        value_name = "ENGINE",
        help_heading = "Subnet manager"
    )]
    pub routing: RoutingEngine,
    /// For --routing file: LIDs and forwarding tables in the text of dump_fts, as `ibemu route
    /// --dump lft` writes it and `opensm -R file -U` takes it. Refused unless all hosts reach each
    /// other and nothing loops [default: none]
    #[arg(
        long,
        value_name = "PATH",
        required_if_eq("routing", "file"),
        help_heading = "Subnet manager"
    )]
    #[serde(default)]
    pub tables: Option<PathBuf>,
    /// LID mask control of the hosts, 0 to 7: each answers to 2^LMC LIDs [default: what the
    /// routing engine wants; the tables of path-selection, shortest-widest, renaming,
    /// fully-explicit and file settle it]
    #[arg(long, value_name = "LMC", help_heading = "Subnet manager",
          value_parser = clap::value_parser!(u8).range(0..=7))]
    pub lmc: Option<u8>,

    /// Protect the subnet by an M_Key: whoever does not know it cannot change switches and hosts. A
    /// file with 0x and up to 16 hexadecimal digits that nobody else can read, or the word random for
    /// a key that is drawn; either way it stands in the fabric's directory, file m_key (docs/security.md)
    /// [default: no M_Key, as OpenSM's]
    #[arg(long, value_name = "FILE", help_heading = "Subnet manager")]
    #[serde(default)]
    pub m_key: Option<PathBuf>,
    /// What may be read without the M_Key: 0 everything, the key too; 1 everything but the key; 2 and 3
    /// nothing (M_KeyProtectBits) [default: 1]
    #[arg(long, value_name = "LEVEL", requires = "m_key", help_heading = "Subnet manager",
          value_parser = clap::value_parser!(u8).range(0..=3))]
    #[serde(default)]
    pub m_key_protection: Option<u8>,
    /// How long after a refused request a port without a subnet manager that knows the M_Key lets it be
    /// read, seconds, 0 to 65535; 0: never (M_KeyLeasePeriod) [default: 0]
    #[arg(
        long,
        value_name = "SECONDS",
        requires = "m_key",
        help_heading = "Subnet manager"
    )]
    #[serde(default)]
    pub m_key_lease: Option<u16>,

    /// The SM_Key by which subnet administration knows trusted requests, which are shown members of groups
    /// and P_Key tables: a file as that of --m-key, or the word random; file sa_key of the fabric's
    /// directory [default: 1, as OpenSM's and saquery's]
    #[arg(long, value_name = "FILE", help_heading = "Subnet manager")]
    #[serde(default)]
    pub sa_key: Option<PathBuf>,
    /// Which ports belong to which partitions, in OpenSM's syntax of partitions.conf (docs/security.md). Hosts
    /// without a partition in common do not reach each other [default: all are full members of the default
    /// partition]
    #[arg(long, value_name = "FILE", help_heading = "Subnet manager")]
    #[serde(default)]
    pub partitions: Option<PathBuf>,
    /// What switches check at the ports towards hosts, besides what hosts check themselves
    #[arg(long, value_parser = choice::<PartitionEnforcement>(), value_name = "DIRECTIONS",
          default_value_t = PartitionEnforcement::Both, help_heading = "Subnet manager")]
    #[serde(default)]
    pub partition_enforcement: PartitionEnforcement,

    /// Whether connections may be promised bandwidth (ibemu qos); needs two or more --vls, and 8 or
    /// 15 to keep rates apart
    #[arg(long, value_parser = choice::<QosChoice>(), default_value_t = QosChoice::None,
          help_heading = "Subnet manager")]
    #[serde(default)]
    pub qos: QosChoice,
    /// Windows a second on a fabric routed by clos (ibemu clos), 1 to 1000 [default: 60]
    #[arg(long, value_name = "RATE", help_heading = "Subnet manager",
          value_parser = clap::value_parser!(u16).range(1..=1000))]
    #[serde(default)]
    pub windows: Option<u16>,

    /// How multicast groups are given trees: one of each group, or one of each offset of a fat tree
    /// (MCAST07)
    #[arg(long, value_parser = choice::<Scheme>(), default_value_t = Scheme::SpanningTree,
          value_name = "SCHEME", help_heading = "Subnet manager")]
    #[serde(default)]
    pub multicast: Scheme,

    #[command(flatten)]
    /// Link options.
    pub links: LinkOptions,
}

/// Link options.
#[derive(Clone, Debug, Args, Serialize, Deserialize)]
#[command(next_help_heading = "Links")]
pub struct LinkOptions {
    /// Data VLs that every port supports, 1 to 15
    #[arg(long, default_value_t = 4, value_name = "VLS",
          value_parser = clap::value_parser!(u8).range(1..=15))]
    pub vls: u8,
    /// Largest payload of a packet, bytes
    #[arg(long, default_value_t = Mtu::Mtu2048, value_name = "BYTES",
          value_parser = plain_choice::<Mtu>())]
    pub mtu: Mtu,
    /// Link width: physical lanes of the cable
    #[arg(long, default_value_t = LinkWidth::X4, value_name = "WIDTH",
          value_parser = plain_choice::<LinkWidth>())]
    pub width: LinkWidth,
    /// Speed of a physical lane
    #[arg(long, default_value_t = LinkSpeed::Qdr, value_name = "SPEED",
          value_parser = choice::<LinkSpeed>())]
    pub speed: LinkSpeed,
    /// Links run this many times slower than real ones, so that virtual lanes and congestion matter
    /// on few cores; above 0
    #[arg(long, default_value_t = 100.0, value_name = "FACTOR",
          value_parser = quantity::positive)]
    pub time_scale: f64,
    /// Do not pace links: show what the machine can do [default: paced]
    #[arg(long, conflicts_with = "time_scale")]
    pub unpaced: bool,
    /// Input buffer of each data VL of a port, bytes (k and M are understood): at least one
    /// packet of the MTU, at most 131072
    #[arg(long, default_value = "65536", value_name = "BYTES", value_parser = quantity::buffer_bytes)]
    pub buffer: u32,
    /// Link packets that one Ethernet frame or datagram carries at most, 1 to 65535 [default: as
    /// many as are waiting and fit]
    #[arg(long, value_name = "PACKETS",
          value_parser = clap::value_parser!(u32).range(1..=65_535))]
    pub frame_packets: Option<u32>,
    /// Keep-alive interval of an idle port, milliseconds, 1 to 600000 [default: 250,
    /// more from 256 cables up]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u32).range(1..=600_000))]
    pub keepalive_ms: Option<u32>,
    /// A port that receives nothing for this long goes down, milliseconds, 1 to 3600000 [default:
    /// four times --keepalive-ms]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u32).range(1..=3_600_000))]
    pub silence_ms: Option<u32>,
    /// Log level of the devices
    #[arg(long, default_value_t = LogLevel::Info, value_name = "LEVEL", help_heading = "Fabric",
          value_parser = log_level())]
    pub log_level: LogLevel,
    /// Length at which a log becomes LOG.1, in place of an older one, and a new one begins, bytes,
    /// 4096 or more
    #[arg(long, default_value_t = LOG_BYTES, value_name = "BYTES", help_heading = "Fabric",
          value_parser = clap::value_parser!(u64).range(LOG_BYTES_MIN..))]
    #[serde(default = "log_bytes")]
    pub log_bytes: u64,
}

/// For fabrics that were brought up before there was the option.
fn log_bytes() -> u64 {
    LOG_BYTES
}

/// `ibemu down`.
#[derive(Debug, Args)]
pub struct Down {
    /// Take down every fabric of this user
    #[arg(long)]
    pub all: bool,
}

/// `ibemu exec`.
#[derive(Debug, Args)]
pub struct Exec {
    /// Do not load ibsim's client library into the command, by which programs that use libibumad
    /// (opensm, ibnetdiscover) find the node's adapter
    #[arg(long)]
    pub no_preload: bool,
    /// The node
    pub node: String,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub command: Vec<std::ffi::OsString>,
}

/// `ibemu status`.
#[derive(Debug, Args)]
pub struct Status {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `ibemu ping`.
#[derive(Debug, Args)]
pub struct Ping {
    /// The host that sends the requests
    #[arg(required_unless_present = "all")]
    pub source: Option<String>,
    /// The host that answers
    #[arg(required_unless_present = "all")]
    pub destination: Option<String>,
    /// Every pair of hosts; exit code 1 unless all answer
    #[arg(long, conflicts_with_all = ["source", "destination"])]
    pub all: bool,
    /// Echo requests a pair, 1 to 1000000 [default: 5, with --all 1]
    #[arg(short, long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub count: Option<u32>,
    /// Time between two requests, milliseconds, 0 to 3600000, with up to three decimals
    #[arg(
        short,
        long,
        default_value = "100",
        value_name = "MS",
        value_parser = quantity::milliseconds_as_us
    )]
    pub interval: u32,
    /// Packet length from LRH to VCRC, bytes: 98 up to the MTU and its headers
    #[arg(short, long, default_value_t = 290, value_name = "BYTES",
          value_parser = clap::value_parser!(u16).range(98..=4222))]
    pub size: u16,
    /// Service level, 0 to 15 [default: what the path record names, else 0]
    #[arg(long, value_name = "SL", value_parser = clap::value_parser!(u8).range(0..=15))]
    pub sl: Option<u8>,
    /// Which of the destination's 2^LMC LIDs to send to [default: what the path record names,
    /// else 0]
    #[arg(long, value_name = "OFFSET", value_parser = clap::value_parser!(u16).range(0..=127))]
    pub dlid_offset: Option<u16>,
    /// How long to wait for each answer, milliseconds, 1 to 600000
    #[arg(long, default_value_t = 1000, value_name = "MS", value_parser = clap::value_parser!(u32).range(1..=600_000))]
    pub timeout: u32,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `ibemu path`.
#[derive(Debug, Args)]
pub struct PathTo {
    /// The host that sends
    pub source: String,
    /// The host that receives
    pub destination: String,
    /// Which of the destination's 2^LMC LIDs the packet is sent to [default: what the path record
    /// names, else 0]
    #[arg(long, value_name = "OFFSET", value_parser = clap::value_parser!(u16).range(0..=127))]
    pub dlid_offset: Option<u16>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `ibemu perf`.
#[derive(Debug, Args)]
pub struct Perf {
    /// The host that sends
    #[arg(required_unless_present = "all")]
    pub source: Option<String>,
    /// The host that receives
    #[arg(required_unless_present = "all")]
    pub destination: Option<String>,
    /// Every host sends to every other
    #[arg(long, conflicts_with_all = ["source", "destination"])]
    pub all: bool,
    /// Packet length from LRH to VCRC, bytes: 98 up to the MTU and its headers
    #[arg(short, long, default_value_t = 290, value_name = "BYTES",
          value_parser = clap::value_parser!(u16).range(98..=4222))]
    pub size: u16,
    /// Packets a flow, at least 1 [default: as many as fit into --seconds]
    #[arg(short, long, value_name = "NUMBER", conflicts_with = "seconds",
          value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// How long to send, seconds, above 0 [default: 5]
    #[arg(long, value_name = "SECONDS", value_parser = quantity::positive)]
    pub seconds: Option<f64>,
    /// Packets of a flow that may be in flight, 0 to 1048576; 0 for no limit, which needs --rate
    /// [default: 256, with --all 256 shared by the flows of a host]
    #[arg(short, long, value_name = "PACKETS", value_parser = clap::value_parser!(u32).range(0..=1_048_576))]
    pub window: Option<u32>,
    /// Offered load of each host in bits a second (k, M and G are understood) [default: as much as
    /// window and link allow]
    #[arg(short, long, value_name = "RATE")]
    pub rate: Option<Rate>,
    /// Service level, 0 to 15 [default: what the path record names, else 0]
    #[arg(long, value_name = "SL", value_parser = clap::value_parser!(u8).range(0..=15))]
    pub sl: Option<u8>,
    /// Which of the destination's 2^LMC LIDs to send to [default: what the path record names,
    /// else 0]
    #[arg(long, value_name = "OFFSET", value_parser = clap::value_parser!(u16).range(0..=127))]
    pub dlid_offset: Option<u16>,
    /// Seed of payloads and of the flows' first phases
    #[arg(long, default_value_t = 1, value_name = "NUMBER")]
    pub seed: u64,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `ibemu link`.
#[derive(Debug, Subcommand)]
pub enum Link {
    /// Pull the cable of a port
    Down(LinkEnd),
    /// Plug the cable of a port in again; a deleted veth pair is made anew
    Up(LinkEnd),
}

/// One end of a cable.
#[derive(Debug, Args)]
pub struct LinkEnd {
    /// The port, as NODE:PORT
    #[arg(value_name = "NODE:PORT")]
    pub port: PortName,
}

/// `ibemu restart`.
#[derive(Debug, Args)]
pub struct Restart {
    /// The node, or `controller`, `controller2`, ...
    pub node: String,
}

/// The text of a topology file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum TopoFormat {
    /// As ibnetdiscover prints it
    Ibnetdiscover,
    /// As ibsim reads it
    Net,
}
wire::choice!(TopoFormat, "format of topologies");

/// `ibemu topo`.
#[derive(Debug, Args)]
pub struct Topo {
    /// A generated topology or a file, as for `up`
    pub topology: String,
    /// The text to write
    #[arg(long, value_parser = choice::<TopoFormat>(), default_value_t = TopoFormat::Ibnetdiscover)]
    pub format: TopoFormat,
}

/// `ibemu supervisor`.
#[derive(Debug, Args)]
pub struct Supervisor {
    /// The fabric's directory
    #[arg(long)]
    pub dir: PathBuf,
}

#[cfg(test)]
mod tests;
