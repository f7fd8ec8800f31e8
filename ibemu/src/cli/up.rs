//! `ibemu up`: its options.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use controller::{PartitionEnforcement, QosChoice};
use daemon::choice::{choice, plain_choice};
use daemon::logging::{LOG_BYTES, LOG_BYTES_MIN, LogLevel};
use netio::transport::tunnel::MTU_LEAST;
use netio::transport::{LinkSecurity, Transport};
use routing::RoutingEngine;
use routing::multicast::Scheme;
use serde::{Deserialize, Serialize};
use strum::{EnumMessage, IntoStaticStr, VariantArray};
use topologies::TextFormat;
use wire::choice::Choice as _;
use wire::{LinkSpeed, LinkWidth, Mtu};

use crate::levels::Levels;
use crate::quantity;

/// The subnet manager of a fabric.
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
    let formats: Vec<&str> = TextFormat::readable().map(TextFormat::name).collect();
    format!(
        "{}; or the path of a file in one of the formats {}, which is found from its content \
         unless FORMAT: stands in front of the path",
        topologies::forms().join(", "),
        formats.join(", ")
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

    #[command(flatten)]
    /// What of the topology is left out.
    #[serde(default)]
    pub leave_out: LeaveOut,

    /// What adapters are called at this site: a host whose node description is NAME and such a word is an
    /// adapter of NAME, and shares its namespace with the others: * stands for any characters, ? for one. May be
    /// given several times [default: what drivers and rdma-core call them, as mlx5_0, HCA-1, ibp59s0]
    #[arg(long, value_name = "GLOB", help_heading = "Fabric")]
    #[serde(default)]
    pub adapter_names: Vec<String>,
    /// How cables are made
    #[arg(long, value_parser = choice::<Transport>(), default_value_t = Transport::Veth,
          help_heading = "Fabric")]
    pub transport: Transport,
    /// The cable in this port is a tunnel, as one between machines is, whatever --transport says of the others. May be given
    /// several times [default: none]
    #[arg(long, value_name = "NODE:PORT", help_heading = "Fabric")]
    #[serde(default)]
    pub tunnel: Vec<String>,
    /// How the datagrams of tunnels are protected
    #[arg(long, value_parser = choice::<LinkSecurity>(), default_value_t = LinkSecurity::Aes128Gcm,
          value_name = "SECURITY", help_heading = "Fabric")]
    #[serde(default)]
    pub link_security: LinkSecurity,
    /// The longest IP packet of a tunnel, bytes, 576 to 65535 [default: what the path takes]
    #[arg(long, value_name = "BYTES", help_heading = "Fabric",
          value_parser = clap::value_parser!(u16).range(i64::from(MTU_LEAST)..))]
    #[serde(default)]
    pub tunnel_mtu: Option<u16>,
    /// Without internet addresses: hosts have no interface ib0 and no names in /etc/hosts [default: all have
    /// them]
    #[arg(long, help_heading = "Fabric")]
    #[serde(default)]
    pub no_ip: bool,
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
    /// When the fabric is up, serve a page that shows it, as `ibemu web` without options does, until an interrupt; the fabric stays
    /// up [default: no page; ibemu web serves one at any time]
    #[arg(long, help_heading = "Fabric")]
    #[serde(default)]
    pub web: bool,
    /// How long `up` may take before it gives up, seconds, 1 to 86400 [default: 120, and one more for
    /// every 5 devices]
    #[arg(long, value_name = "SECONDS", help_heading = "Fabric",
          value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub timeout: Option<u32>,

    /// The subnet manager
    #[arg(long, value_parser = choice::<Sm>(), default_value_t = Sm::Ibemu,
          help_heading = "Subnet manager")]
    pub sm: Sm,
    /// The host beside which the controller runs, or several with commas between, each as NODE or
    /// NODE:PRIORITY: the first of the highest priority, 0 to 15, is master, the others stand by
    /// [default: the first host that is no router and no aggregation node; priorities 8, 7, ...]
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
    /// Service levels for --tables, or their SL-to-VL tables, in the texts that `ibemu verify --sls` reads:
    /// paths have them, and freedom from deadlock is judged with them; once for each file [default: all packets on
    /// SL 0]
    #[arg(
        long = "sls",
        value_name = "PATH",
        requires = "tables",
        help_heading = "Subnet manager"
    )]
    #[serde(default)]
    pub sls: Vec<PathBuf>,
    /// LIDs, cables and the choice of `auto` as an earlier fabric was left: a copy of the file guid2lid of
    /// its directory. Ports keep their LIDs, and --routing auto its engine without measuring anew [default:
    /// none]
    #[arg(long, value_name = "FILE", help_heading = "Subnet manager")]
    #[serde(default)]
    pub guid2lid: Option<PathBuf>,
    /// LID mask control of the hosts, 0 to 7: each answers to 2^LMC LIDs [default: what the
    /// routing engine wants; the tables of path-selection, shortest-widest, renaming,
    /// fully-explicit and file settle it]
    #[arg(long, value_name = "LMC", help_heading = "Subnet manager",
          value_parser = clap::value_parser!(u8).range(0..=7))]
    pub lmc: Option<u8>,
    /// Enhanced ports 0 of switches have that LMC, too, as with OpenSM's lmc_esp0; for engines that do not count LIDs
    /// by labels or paths [default: they have one LID]
    #[arg(long, requires = "lmc", help_heading = "Subnet manager")]
    #[serde(default)]
    pub lmc_esp0: bool,

    /// Protect the subnet by an M_Key: requests without it cannot change switches and hosts. A
    /// file with 0x and up to 16 hexadecimal digits that no other user can read, or the word random for
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
    /// How long after a refused request a port without a subnet manager that has the M_Key lets it be
    /// read, seconds, 0 to 65535; 0: never (M_KeyLeasePeriod) [default: 0]
    #[arg(
        long,
        value_name = "SECONDS",
        requires = "m_key",
        help_heading = "Subnet manager"
    )]
    #[serde(default)]
    pub m_key_lease: Option<u16>,

    /// The SM_Key by which subnet administration recognises trusted requests, which are shown members of groups
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

    #[command(flatten)]
    /// What is said of the levels of the fabric.
    #[serde(flatten)]
    pub levels: Levels,

    /// How multicast groups are given trees: one of each group, or one of each offset of a fat tree
    /// (MCAST07)
    #[arg(long, value_parser = choice::<Scheme>(), default_value_t = Scheme::SpanningTree,
          value_name = "SCHEME", help_heading = "Subnet manager")]
    #[serde(default)]
    pub multicast: Scheme,

    #[command(flatten)]
    /// Several machines.
    #[serde(default)]
    pub several: Slurm,

    #[command(flatten)]
    /// Link options.
    pub links: LinkOptions,
}

/// A fabric on several machines.
#[derive(Clone, Debug, Default, Args, Serialize, Deserialize)]
#[command(next_help_heading = "Several machines")]
pub struct Slurm {
    /// Place the fabric on the machines of a job of Slurm: of that in which this is called (salloc, sbatch), or of one that is
    /// asked for (-N). ibemu has to stand at one path on all of them (docs/slurm.md) [default: all on this machine]
    #[arg(long)]
    pub slurm: bool,
    /// Ask Slurm for that many machines, 2 to 1024, until the fabric goes down [default: those of the job in which this is
    /// called]
    #[arg(short = 'N', long, value_name = "NUMBER", requires = "slurm",
          value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub nodes: Option<u16>,
    /// A further argument of salloc, with -N, as --salloc=--time=60. May be given several times [default: none]
    #[arg(
        long,
        value_name = "ARGUMENT",
        requires = "nodes",
        allow_hyphen_values = true
    )]
    pub salloc: Vec<String>,
    /// Which device runs on which machine, as `ibemu place --lines` prints it: lines MACHINE NODE, a machine by its number from 0
    /// or its name [default: computed, as `ibemu place` shows it]
    #[arg(long, value_name = "FILE", requires = "slurm")]
    pub placement: Option<PathBuf>,
    /// When a machine or its agent is lost, the rest goes on without its devices; the job has to be one with --no-kill, too
    /// [default: everything ends]
    #[arg(long, requires = "slurm")]
    pub no_kill: bool,
}

/// What of a topology is left out, so that one machine can carry a part of a large fabric. Done in the order
/// of the options here; what then has lost its use goes too: switches between no two hosts that are left, and
/// hosts without a cable that had one.
#[derive(Clone, Debug, Default, Args, Serialize, Deserialize)]
#[command(next_help_heading = "Leaving out")]
pub struct LeaveOut {
    /// Only the hosts whose name or node description is like this, or that are cabled to a switch whose
    /// name is: * stands for any characters, ? for one. May be given several times [default: all]
    #[arg(long, value_name = "GLOB")]
    pub only: Vec<String>,
    /// Without the hosts and switches whose name or node description is like this. May be given several
    /// times [default: all stay]
    #[arg(long, value_name = "GLOB")]
    pub without: Vec<String>,
    /// At most this many hosts on each switch: those in its lowest ports, 1 to 254 [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=254))]
    pub hosts_per_leaf: Option<u8>,
    /// A fabric of the same shape with at most this many hosts: of leaf switches, of hosts on each and of
    /// switches on each level as large a share, 2 or more [default: the whole]
    #[arg(long, value_name = "HOSTS", value_parser = clap::value_parser!(u32).range(2..))]
    pub shrink: Option<u32>,
}

/// Link options.
#[derive(Clone, Debug, Args, Serialize, Deserialize)]
#[command(next_help_heading = "Links")]
pub struct LinkOptions {
    /// Data VLs that every port supports, 1 to 15
    #[arg(long, default_value_t = routing::DATA_VLS, value_name = "VLS",
          value_parser = clap::value_parser!(u8).range(1..=15))]
    pub vls: u8,
    /// Largest payload of a packet, bytes
    #[arg(long, default_value_t = Mtu::Mtu2048, value_name = "BYTES",
          value_parser = plain_choice::<Mtu>())]
    pub mtu: Mtu,
    /// Link width, where the topology says nothing of it: physical lanes of the cable
    #[arg(long, default_value_t = LinkWidth::X4, value_name = "WIDTH",
          value_parser = plain_choice::<LinkWidth>())]
    pub width: LinkWidth,
    /// Speed of a physical lane, where the topology says nothing of it
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
    /// four times --keepalive-ms, beyond 1000 three times]
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
