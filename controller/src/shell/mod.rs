//! The subnet manager's shell: its arguments, its sockets, and the loop between them.

mod agent;
mod files;
mod manager;
mod threads;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::{Context, Result};
use clap::Parser;
use controller::{
    PartitionEnforcement, Partitions, Protection, QosChoice, Remembered, Sm, SmConfig,
};
use daemon::choice::choice;
use daemon::control::serve;
use daemon::logging::LogArgs;
use daemon::signals::ShutdownSignals;
use netio::secret_file::read_secret;
use netio::seqpacket::Listener;
use routing::multicast::Scheme;
use routing::{RoutingEngine, guid_list};
use wire::{Guid, Lmc, MKey, PortNum, SaKey};

use files::{Files, read_if_there};
use manager::Manager;

/// Runs a subnet manager beside an end node of an ibemu fabric
#[derive(Parser, Debug)]
#[command(name = "controller", version)]
pub(crate) struct Arguments {
    /// The end node's MAD socket
    #[arg(long, value_name = "PATH")]
    mad_socket: PathBuf,

    /// The end node's port that the manager works through, 1 to 254
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=254))]
    port: u8,

    /// Directory of the fabric's sockets, and of the files that all its controllers share: `guid2lid`,
    /// `connections`, `groups` and `aliases`
    #[arg(long, value_name = "FABRIC_DIR")]
    dir: PathBuf,

    /// Routing engine
    #[arg(long, value_parser = choice::<RoutingEngine>(), default_value_t = RoutingEngine::Auto,
          value_name = "ENGINE")]
    routing: RoutingEngine,

    /// For --routing file: LIDs and forwarding tables, in the text of dump_fts
    #[arg(long, value_name = "PATH", required_if_eq("routing", "file"))]
    tables: Option<PathBuf>,

    /// Service levels or SL-to-VL tables for --tables; once for each file
    #[arg(long, value_name = "PATH", requires = "tables")]
    sls: Vec<PathBuf>,

    /// LID mask control of the hosts, 0 to 7; without it, what the routing wants
    #[arg(long, value_name = "N", value_parser = lmc)]
    lmc: Option<Lmc>,

    /// Enhanced ports 0 of switches have that LMC, too
    #[arg(long, requires = "lmc")]
    lmc_esp0: bool,

    /// Node GUIDs of the switches of the top level, one a line
    #[arg(long, value_name = "PATH")]
    roots: Option<PathBuf>,

    /// Node or port GUIDs of hosts that do not make leaves of their switches, one a line
    #[arg(long, value_name = "PATH")]
    io_guids: Option<PathBuf>,

    /// Node or port GUIDs of the hosts that alone do, one a line
    #[arg(long, value_name = "PATH")]
    compute_guids: Option<PathBuf>,

    /// File of the M_Key that protects the subnet; other users must not be able to read it
    #[arg(long, value_name = "PATH")]
    m_key: Option<PathBuf>,

    /// What may be read without the M_Key, 0 to 3 (M_KeyProtectBits)
    #[arg(long, value_name = "LEVEL", default_value_t = 1, requires = "m_key",
          value_parser = clap::value_parser!(u8).range(0..=3))]
    m_key_protection: u8,

    /// How long after a refused request a port lets the M_Key be read, seconds; 0: never
    /// (M_KeyLeasePeriod)
    #[arg(long, value_name = "SECONDS", default_value_t = 0, requires = "m_key")]
    m_key_lease: u16,

    /// File of the SM_Key of requests that subnet administration trusts; other users must not be able to read
    /// it [default: 1, as OpenSM's]
    #[arg(long, value_name = "PATH")]
    sa_key: Option<PathBuf>,

    /// Which ports belong to which partitions, in OpenSM's syntax of partitions.conf
    #[arg(long, value_name = "PATH")]
    partitions: Option<PathBuf>,

    /// With --partitions: what switches check at the ports towards hosts
    #[arg(long, value_parser = choice::<PartitionEnforcement>(),
          default_value_t = PartitionEnforcement::Both, value_name = "DIRECTIONS")]
    partition_enforcement: PartitionEnforcement,

    /// How multicast groups are given trees
    #[arg(long, value_name = "SCHEME", value_parser = choice::<Scheme>(),
          default_value_t = Scheme::SpanningTree)]
    multicast: Scheme,

    /// Whether connections may be promised bandwidth
    #[arg(long, value_parser = choice::<QosChoice>(), default_value_t = QosChoice::None)]
    qos: QosChoice,

    /// Windows a second on a fabric routed by clos, 1 to 1000
    #[arg(long, value_name = "RATE", default_value_t = SmConfig::default().windows_per_s)]
    windows: u16,

    /// Time between two looks at the whole subnet, milliseconds; 0 for none
    #[arg(long, value_name = "MS", default_value_t = 10_000)]
    sweep_ms: u32,

    /// Name of this controller in the fabric's directory: its control socket is `HANDLE.ctl`
    #[arg(long, value_name = "HANDLE", default_value = "controller")]
    handle: String,

    /// Priority among subnet managers, 0 to 15: the highest is master, between equals the lower GUID
    #[arg(long, value_name = "N", default_value_t = SmConfig::default().priority)]
    priority: u8,

    /// SM_Key, decimal or 0x...: managers with another one are not trusted; 0 trusts all
    #[arg(long, value_name = "KEY", value_parser = key, default_value = "1")]
    sm_key: u64,

    /// In standby, time between two polls of the master, milliseconds, 1 to 60000
    #[arg(long, value_name = "MS", default_value_t = 200)]
    poll_ms: u32,

    /// Management packets that may be unanswered at a time, 1 to 4096
    #[arg(long, value_name = "N", default_value_t = SmConfig::default().smps_in_flight)]
    smps: usize,

    #[command(flatten)]
    logs: LogArgs,
}

fn key(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| "write a 64-bit number, decimal or 0x and hexadecimal digits".to_owned())
}

fn lmc(text: &str) -> Result<Lmc, String> {
    text.parse()
        .ok()
        .and_then(|value| Lmc::new(value).ok())
        .ok_or_else(|| "write a number from 0 to 7".to_owned())
}

/// What the administrator has given in files.
struct Given {
    tables: Option<String>,
    levels: Vec<String>,
    m_key: Option<MKey>,
    sa_key: Option<MKey>,
    partitions: Option<Partitions>,
    roots: BTreeSet<Guid>,
    io_guids: BTreeSet<Guid>,
    compute_guids: BTreeSet<Guid>,
}

impl Arguments {
    fn config(&self, remembered: Remembered, given: Given) -> SmConfig {
        SmConfig {
            routing: self.routing,
            tables: given.tables,
            levels: given.levels,
            lmc: self.lmc,
            lmc_esp0: self.lmc_esp0,
            roots: given.roots,
            io_guids: given.io_guids,
            compute_guids: given.compute_guids,
            protection: given.m_key.map(|m_key| Protection {
                m_key,
                protect_bits: self.m_key_protection,
                lease_period_s: self.m_key_lease,
            }),
            sa_key: given.sa_key.map(SaKey::new).unwrap_or_default(),
            partitions: given.partitions,
            partition_enforcement: self.partition_enforcement,
            qos: self.qos,
            multicast: self.multicast,
            windows_per_s: self.windows,
            smps_in_flight: self.smps,
            sweep_interval_ns: u64::from(self.sweep_ms) * 1_000_000,
            priority: self.priority,
            sm_key: self.sm_key,
            poll_interval_ns: u64::from(self.poll_ms) * 1_000_000,
            guid2lid: remembered.guid2lid,
            connections: remembered.connections,
            groups: remembered.groups,
            aliases: remembered.aliases,
            computes_apart: true,
            ..SmConfig::default()
        }
    }
}

/// Runs the manager until shutdown is requested.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    daemon::shell::run(&arguments.logs, serve_fabric(arguments))
}

async fn serve_fabric(arguments: &Arguments) -> Result<()> {
    let mut signals = ShutdownSignals::new().context("cannot watch for signals")?;
    let files = Files::in_directory(&arguments.dir);
    let text = |path: &Path| {
        read_if_there(path)?.with_context(|| format!("{} is not there", path.display()))
    };
    let given = Given {
        tables: arguments.tables.as_deref().map(text).transpose()?,
        levels: (arguments.sls.iter())
            .map(|path| text(path))
            .collect::<Result<_>>()?,
        m_key: arguments.m_key.as_deref().map(read_key).transpose()?,
        sa_key: arguments.sa_key.as_deref().map(read_key).transpose()?,
        partitions: arguments
            .partitions
            .as_deref()
            .map(read_partitions)
            .transpose()?,
        roots: read_guids(arguments.roots.as_deref())?,
        io_guids: read_guids(arguments.io_guids.as_deref())?,
        compute_guids: read_guids(arguments.compute_guids.as_deref())?,
    };
    let config = arguments.config(files.read()?, given);
    let sm = Sm::new(config)
        .with_context(|| format!("cannot use what is in {}", arguments.dir.display()))?;
    let manager = Rc::new(Manager::new(sm, files));
    let socket = arguments.dir.join(format!("{}.ctl", arguments.handle));
    let listener = Listener::bind(&socket)?;
    let handler = {
        let manager = Rc::clone(&manager);
        move |request| std::future::ready(manager.answer(&request))
    };
    tokio::select! {
        ended = serve(&listener, handler) => ended.context("the control socket failed"),
        never = manager.work(&arguments.mad_socket, PortNum::new(arguments.port)) => match never {},
        () = manager.shutdown_requested() => Ok(()),
        () = signals.next() => Ok(()),
    }
}

fn read_key(path: &Path) -> Result<MKey> {
    let text = read_secret(path)?;
    MKey::read(&text).with_context(|| path.display().to_string())
}

fn read_guids(path: Option<&Path>) -> Result<BTreeSet<Guid>> {
    let Some(path) = path else {
        return Ok(BTreeSet::new());
    };
    let text = read_if_there(path)?.with_context(|| format!("{} is not there", path.display()))?;
    guid_list::read(&text).with_context(|| path.display().to_string())
}

fn read_partitions(path: &Path) -> Result<Partitions> {
    let text = read_if_there(path)?.with_context(|| format!("{} is not there", path.display()))?;
    Partitions::read(&text).with_context(|| path.display().to_string())
}
