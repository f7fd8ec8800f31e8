//! `ibemu capture`: the packets of one port, for Wireshark or to read.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use wire::capture::{CaptureRequest, Direction, Filter};

use crate::capture::{self, Limits, Ring, Sink, Target};
use crate::dir::FabricDir;
use crate::names::FabricName;
use crate::quantity;
use crate::state::FabricState;
use crate::usage::UsageError;

/// How long to capture at most, seconds: a year, so that clocks hold it.
const SECONDS_MAX: f64 = 31_536_000.0;

/// `ibemu capture`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
A filter is a list of terms with commas between. vl=, lnh=, dlid=, slid= and qp= take a number (0x for hexadecimal) or a range FIRST-LAST, \
lnh= also raw, ipv6, local and global, mad= a class (smp, sa, perf, bm, cm, cc, vendor, or a number); mad alone is any management datagram. A \
packet passes if it has one of the values that are named, for each key that is named. Flow-control packets are left out unless the filter \
has the term control. Captures are pcap files of ERF records, with times of the devices' clock; the number of a record's interface is 0 for \
received and 1 for sent packets. An interrupt (SIGINT, SIGTERM) ends the capture.")]
pub struct Capture {
    /// The port; of a host with one port its name alone
    #[arg(value_name = "NODE:PORT")]
    pub port: String,
    /// Write a capture to FILE, which may be a pipe; - is standard output [default: print a line a packet]
    #[arg(short, long, value_name = "FILE")]
    pub write: Option<PathBuf>,
    /// Which packets: vl=, lnh=, dlid=, slid=, qp=, mad=, control, with commas between [default: all data packets]
    #[arg(
        long,
        value_name = "FILTER",
        default_value = "",
        hide_default_value = true
    )]
    pub filter: Filter,
    /// Only packets that the port receives
    #[arg(long, conflicts_with_all = ["tx", "both"])]
    pub rx: bool,
    /// Only packets that the port sends
    #[arg(long, conflicts_with = "both")]
    pub tx: bool,
    /// Packets of both directions, which is the default
    #[arg(long)]
    pub both: bool,
    /// End after so many packets, at least 1
    #[arg(short, long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// End after so many seconds, above 0
    #[arg(long, value_name = "SECONDS", value_parser = quantity::positive)]
    pub seconds: Option<f64>,
    /// Bytes of each packet to keep, from the LRH on, 8 to 65535
    #[arg(long, value_name = "BYTES", default_value_t = u16::MAX, value_parser = clap::value_parser!(u16).range(8..))]
    pub snaplen: u16,
    /// Begin a new file after so many bytes (k, M and G are understood): FILE_00001 and so on
    #[arg(long, value_name = "BYTES", requires = "write", value_parser = quantity::file_bytes)]
    pub file_size: Option<u64>,
    /// Keep so many files, 1 to 100000; the oldest is removed [default: all]
    #[arg(long, value_name = "NUMBER", requires = "file_size", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub files: Option<u32>,
}

/// Captures until a limit or a signal, and tells how much on standard error.
///
/// # Errors
/// If there is no such port, its device refuses, or something cannot be written.
pub async fn run(fabric: &FabricName, options: &Capture) -> Result<()> {
    let dir = FabricDir::of(fabric);
    let state = FabricState::require(&dir)?;
    let target = Target::find(&dir, &state, &options.port)?;
    let limits = limits(options)?;
    let ring = options.file_size.map(|file_bytes| Ring {
        file_bytes,
        files: options.files.map(wire::convert::usize_of),
    });
    let sink = match &options.write {
        Some(path) if ring.is_some() && path.as_os_str() == "-" => {
            let why = "--file-size needs files: standard output (-w -) is none";
            return Err(UsageError(format!("{why}; name a file of {}", path.display())).into());
        }
        Some(path) => Sink::capture(path, ring)?,
        None => Sink::lines(),
    };
    let request = CaptureRequest {
        port: target.port,
        direction: match (options.rx, options.tx) {
            (true, _) => Some(Direction::Received),
            (_, true) => Some(Direction::Sent),
            _ => None,
        },
        snap_len: options.snaplen,
        filter: options.filter.clone(),
    };
    let tally = capture::run(&dir, &target, &request, sink, limits).await?;
    capture::tell(&format!(
        "{} packets captured at {}, {} lost in the capture",
        tally.captured, target.name, tally.lost
    ));
    Ok(())
}

fn limits(options: &Capture) -> Result<Limits> {
    if options.seconds.is_some_and(|seconds| seconds > SECONDS_MAX) {
        return Err(UsageError(format!("--seconds: at most {SECONDS_MAX}")).into());
    }
    Ok(Limits {
        count: options.count,
        duration: options.seconds.map(Duration::from_secs_f64),
        is_quiet: false,
    })
}
