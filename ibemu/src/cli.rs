//! The command line.

mod up;

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};
use topologies::TextFormat;
use wire::choice::Choice as _;

use crate::names::{FabricName, PortName};
use crate::quantity::{self, Rate};
use crate::verbs::offline::args as offline;
pub use up::{LeaveOut, LinkOptions, Slurm, Sm, Up, Verify};

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
    /// Run a program beside several hosts at once, one process each, until the first one fails
    Run(Run),
    /// Show devices, ports, LIDs and the subnet manager
    Status(Status),
    /// Serve a live page of the fabric: map, counters, paths, events
    Web(crate::web::Web),
    /// Print what is known of the fabric as metrics: counters of every port, lanes, processes
    Metrics(Metrics),
    /// Print what happens in the fabric as it happens: traps, sweeps, restarts, drops
    Events(crate::verbs::Events),
    /// Send echo packets between hosts and time them
    Ping(Ping),
    /// Show the path of a packet hop by hop, read from the live switches' tables
    Path(PathTo),
    /// Send traffic between hosts: offered, delivered, dropped, latency
    Perf(Perf),
    /// Send traffic by a pattern or a plan: who sends to whom, how much, when, on which service level
    Traffic(Traffic),
    /// Capture the packets of a port, for Wireshark or as lines of text
    Capture(crate::verbs::Capture),
    /// Show Wireshark the ports of all fabrics as interfaces
    Extcap(crate::verbs::Extcap),
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
    /// Stop a device (if it runs), start it again, and wait until it can be used
    Restart(Restart),
    /// Let a running fabric fail, again and again, and time how it heals: processes killed and stopped,
    /// cables pulled, under traffic; 1 unless all is as it was after each round
    Chaos(crate::verbs::Chaos),
    /// Write a topology out, without bringing it up
    Topo(Topo),
    /// Show which devices would run on which of several machines, and which cables would join them
    Place(crate::verbs::Place),
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
    /// Print the completions of this command for a shell
    Completions(Completions),
    /// Print the manual page of this command, or write those of all its verbs
    Man(Man),
    /// The process of a job on one of its machines
    #[command(hide = true)]
    Agent(crate::machines::Agent),
    /// The supervisor process of one fabric
    #[command(hide = true)]
    Supervisor(Supervisor),
}

/// Takes a format that is written. ibsim's was called by the ending of its files before.
fn written_format() -> impl TypedValueParser<Value = TextFormat> {
    let values = TextFormat::writable().map(|format| {
        let value = PossibleValue::new(format.name()).help(format.about());
        match format {
            TextFormat::Ibsim => value.alias("net"),
            _ => value,
        }
    });
    PossibleValuesParser::new(values).try_map(|name| match name.as_str() {
        "net" => Ok(TextFormat::Ibsim),
        name => name.parse(),
    })
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
    /// Do not put libraries into the command by which programs that use libibumad (opensm,
    /// ibnetdiscover) or verbs (ib_write_bw) find the node's adapters
    #[arg(long)]
    pub no_preload: bool,
    /// Load ibsim's client library into the command instead of a libibumad of ibemu's own: it shows one
    /// adapter with one port
    #[arg(long, conflicts_with = "no_preload")]
    pub umad2sim: bool,
    /// The node
    pub node: String,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub command: Vec<std::ffi::OsString>,
}

/// `ibemu run`.
#[derive(Debug, Args)]
#[command(
    after_help = "Each process finds its number in IBEMU_RANK, how many there are in IBEMU_RANKS, the hosts in \
    IBEMU_HOSTS (with commas between) and in the file IBEMU_HOSTFILE (one a line). The first one reads \
    standard input. The exit code is that of the first process that fails."
)]
pub struct Run {
    /// How many processes, one a host [default: as many as hosts]
    #[arg(short, value_name = "NUMBER", value_parser = parse_number)]
    pub number: Option<usize>,
    /// The hosts, with commas between [default: all, in the order of the topology]
    #[arg(long, value_name = "HOST", value_delimiter = ',')]
    pub hosts: Vec<String>,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub command: Vec<std::ffi::OsString>,
}

/// A number of processes.
fn parse_number(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number @ 1..=65_536) => Ok(number),
        _ => Err("a number from 1 to 65536".to_owned()),
    }
}

/// `ibemu completions`.
#[derive(Debug, Args)]
#[command(
    after_help = "For bash: ibemu completions bash > /usr/share/bash-completion/completions/ibemu; \
    for zsh: ibemu completions zsh > /usr/share/zsh/vendor-completions/_ibemu; \
    for fish: ibemu completions fish > /usr/share/fish/vendor_completions.d/ibemu.fish"
)]
pub struct Completions {
    /// The shell
    pub shell: clap_complete::Shell,
}

/// `ibemu man`.
#[derive(Debug, Args)]
#[command(after_help = "To read it: ibemu man | man -l -")]
pub struct Man {
    /// A folder to write the pages to: ibemu.1, and one a verb, as ibemu-up.1 [default: ibemu.1 to
    /// standard output]
    #[arg(long, value_name = "DIR")]
    pub to: Option<PathBuf>,
}

/// `ibemu status`.
#[derive(Debug, Args)]
pub struct Status {
    /// Print JSON
    #[arg(long, conflicts_with = "verbose")]
    pub json: bool,
    /// Say why the routing engine was taken, too; JSON always has it
    #[arg(short, long)]
    pub verbose: bool,
    /// Only the devices whose name, kind (host, switch, controller, supervisor) or state (running, hung,
    /// ended) is like this: * stands for any characters, ? for one. May be given several times
    /// [default: all]
    #[arg(long, value_name = "GLOB")]
    pub filter: Vec<String>,
    /// Show it again and again, this many seconds apart, above 0, until interrupted; with --json one line
    /// each time [default: once; without a number every 2 s]
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "2",
          value_parser = quantity::positive)]
    pub watch: Option<f64>,
}

/// `ibemu metrics`.
#[derive(Debug, Args)]
pub struct Metrics {
    /// Print Prometheus' text format [default: OpenMetrics]
    #[arg(long)]
    pub text: bool,
}

/// `ibemu ping`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
An interrupt (SIGINT, SIGTERM) ends it, and what was answered until then is reported. It does not change the exit code.")]
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
#[command(after_long_help = "\
An interrupt (SIGINT, SIGTERM) ends the flows: packets under way are waited for, 10 s at most (a second interrupt ends that), \
and what was delivered until then is reported. It does not change the exit code: 0, or 1 if flows were abandoned or hosts were \
left out. Before the first flow is started there is nothing to report: 1. A flow with a --count is abandoned when its destination \
has been silent for 16 s.")]
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
    /// Print the columns of perftest's ib_send_bw instead: payload, messages, MB (of 2^20 bytes) and million messages a second.
    /// There is no peak, so that is 0
    #[arg(long, conflicts_with = "json")]
    pub perftest: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `ibemu traffic`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
A flow has one source and one destination, so a host has a flow to each host that it sends to, with its share of the host's rate. \
A plan is a TOML file of [[flows]], each with a pattern (or from and to, lists of hosts) and the options below as keys; options \
that are given replace those of all its flows. docs/formats.md has the keys, and the JSON. An interrupt ends the flows as it ends those of \
ibemu perf, and what was delivered until then is reported.")]
pub struct Traffic {
    /// uniform, all-to-all, centric-PERCENT, permutation, shift-BY, complement or multicast; a collective: ring-allreduce,
    /// tree-allreduce or alltoall; or a file, whose name has a dot or a slash
    #[arg(value_name = "PATTERN|PLAN")]
    pub what: String,
    /// The hosts that take part: * stands for any characters, ? for one. May be given several times
    /// [default: all that can be reached]
    #[arg(long, value_name = "GLOB")]
    pub hosts: Vec<String>,
    /// The host that centric-PERCENT sends to [default: the first]
    #[arg(long, value_name = "HOST")]
    pub target: Option<String>,
    /// Of a collective: bytes of each rank, at least one for each (k, M and G are understood) [default: 1M]
    #[arg(long, value_name = "BYTES", value_parser = quantity::bytes)]
    pub bytes: Option<u64>,
    /// Of a collective: how often, 1 to 512 [default: 1]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=512))]
    pub iterations: Option<u32>,
    /// Packet length from LRH to VCRC, bytes: 98 up to the MTU and its headers [default: 290, of a collective 2082]
    #[arg(short, long, value_name = "BYTES", value_parser = clap::value_parser!(u16).range(98..=4222))]
    pub size: Option<u16>,
    /// Offered load of each host in bits a second (k, M and G are understood) [default: as much as
    /// window and link allow]
    #[arg(short, long, value_name = "RATE")]
    pub rate: Option<Rate>,
    /// Packets of a flow that may be in flight, 0 to 1048576; 0 for no limit, which needs a rate
    /// [default: 256 shared by the flows of a host; with a rate 0]
    #[arg(short, long, value_name = "PACKETS", value_parser = clap::value_parser!(u32).range(0..=1_048_576))]
    pub window: Option<u32>,
    /// Packets a flow, at least 1 [default: as many as fit into --seconds]
    #[arg(short, long, value_name = "NUMBER", conflicts_with = "seconds",
          value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// How long to send, seconds, above 0 [default: 5]
    #[arg(long, value_name = "SECONDS", value_parser = quantity::positive)]
    pub seconds: Option<f64>,
    /// How long to send before anything is measured, seconds, above 0 [default: not at all]
    #[arg(long, value_name = "SECONDS", value_parser = quantity::positive)]
    pub warmup: Option<f64>,
    /// Service level, 0 to 15 [default: what the path record names, else 0]
    #[arg(long, value_name = "SL", value_parser = clap::value_parser!(u8).range(0..=15))]
    pub sl: Option<u8>,
    /// Which of the destination's 2^LMC LIDs to send to [default: what the path record names,
    /// else 0]
    #[arg(long, value_name = "OFFSET", value_parser = clap::value_parser!(u16).range(0..=127))]
    pub dlid_offset: Option<u16>,
    /// Seed of permutations, payloads and the flows' first phases [default: 1]
    #[arg(long, value_name = "NUMBER")]
    pub seed: Option<u64>,
    /// Write traffic.html, with plots, flows.csv and latency.csv into this folder, which is made if need be
    #[arg(long, value_name = "FOLDER")]
    pub report: Option<PathBuf>,
    /// Say whether this machine keeps the pace of the links, by what virtual time delivers of the same traffic, and
    /// a --time-scale of `up` at which it does; of a fabric that is --unpaced, too
    #[arg(long)]
    pub calibrate: bool,
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
    /// How long a device may take until a subnet manager has configured it, where one is at work, seconds, 0 to 86400; 0: do
    /// not wait
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(0..=86_400))]
    pub timeout: u32,
}

/// `ibemu topo`.
#[derive(Debug, Args)]
pub struct Topo {
    /// A generated topology or a file, as for `up`
    pub topology: String,
    #[command(flatten)]
    /// What of it is left out.
    pub leave_out: LeaveOut,
    /// The text to write; `net` is `ibsim`
    #[arg(long, value_parser = written_format(), default_value_t = TextFormat::Ibnetdiscover)]
    pub format: TextFormat,
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
