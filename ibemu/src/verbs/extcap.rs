//! `ibemu extcap`: Wireshark's protocol for programs that capture (extcap), so that the ports of all fabrics are among its
//! interfaces.
//!
//! Wireshark runs each program of its extcap folder: for its interfaces, for an interface's link types and options, and to capture
//! into a pipe until it ends the program (SIGTERM) or closes the pipe. `--install` puts a script there that runs this verb.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use strum::{EnumMessage, IntoStaticStr, VariantArray};
use tokio::net::unix::pipe;
use wire::capture::{CaptureRequest, Direction, Filter};

use crate::capture::{self, Limits, Sink, Target};
use crate::dir::{self, FabricDir};
use crate::output;
use crate::state::FabricState;
use crate::usage::UsageError;

/// The script's name in the extcap folder.
const SCRIPT: &str = "ibemu";
/// A line of the script, by which it is known as ours.
const MARK: &str = "# Shows Wireshark the ports of ibemu's fabrics.";
/// What names of interfaces begin with.
const PREFIX: &str = "ibemu.";
/// Wireshark runs this verb for each interface when it starts: a fabric with more ports is one interface, of which the port is an option.
const PORTS_LISTED_MAX: usize = 100;

/// How long Wireshark may take to open its pipe after it has run this verb.
const READER_TIMEOUT: Duration = Duration::from_secs(5);
/// How often that is looked for.
const READER_INTERVAL: Duration = Duration::from_millis(20);

/// `ibemu extcap`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Wireshark gives the options that begin with extcap, --capture, --fifo and those of an interface; its capture filter is one of ibemu capture. \
Wireshark 4.2 and later have an extcap folder for each user; for earlier ones install as root, or name a folder (--folder) and give \
it to Wireshark by the variable WIRESHARK_EXTCAP_DIR.")]
pub struct Extcap {
    /// Put a script that runs this verb into Wireshark's extcap folder
    #[arg(long, group = "what")]
    pub install: bool,
    /// Remove the script
    #[arg(long, group = "what")]
    pub uninstall: bool,
    /// The extcap folder for --install and --uninstall [default: as tshark -G folders says]
    #[arg(long, value_name = "FOLDER")]
    pub folder: Option<PathBuf>,
    /// Print the interfaces: every port with a cable of every fabric of this user, or one for a fabric with more than 100
    #[arg(long, group = "what")]
    pub extcap_interfaces: bool,
    /// Print the link types of an interface
    #[arg(long, group = "what", requires = "extcap_interface")]
    pub extcap_dlts: bool,
    /// Print the options of an interface
    #[arg(long, group = "what", requires = "extcap_interface")]
    pub extcap_config: bool,
    /// Capture at an interface into a pipe
    #[arg(long, group = "what", requires_all = ["extcap_interface", "fifo"])]
    pub capture: bool,
    /// The interface
    #[arg(long, value_name = "INTERFACE")]
    pub extcap_interface: Option<String>,
    /// The port of a fabric that is one interface: NODE:PORT
    #[arg(long, value_name = "NODE:PORT")]
    pub port: Option<String>,
    /// The version of Wireshark; it makes no difference
    #[arg(long, value_name = "VERSION")]
    pub extcap_version: Option<String>,
    /// Which packets, as the filter of ibemu capture; without --capture it is only checked
    #[arg(
        long,
        value_name = "FILTER",
        default_value = "",
        hide_default_value = true
    )]
    pub extcap_capture_filter: String,
    /// The pipe
    #[arg(long, value_name = "FILE")]
    pub fifo: Option<PathBuf>,
    /// Bytes of each packet to keep, from the LRH on, 8 to 65535
    #[arg(long, value_name = "BYTES", default_value_t = u16::MAX, value_parser = clap::value_parser!(u16).range(8..))]
    pub snaplen: u16,
    /// Which packets by their direction
    #[arg(long, value_parser = daemon::choice::choice::<Directions>(), default_value_t = Directions::Both)]
    pub direction: Directions,
    /// Flow-control packets, too
    #[arg(long)]
    pub control: bool,
}

/// Which packets by their direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Directions {
    /// Received and sent packets.
    Both,
    /// Packets that the port receives.
    Rx,
    /// Packets that the port sends.
    Tx,
}
wire::choice!(Directions, "direction");

/// Does what Wireshark, or the user, asks for.
///
/// # Errors
/// If there is no such interface or folder, or something cannot be written.
pub async fn run(options: &Extcap) -> Result<()> {
    if options.install || options.uninstall {
        let folder = match &options.folder {
            Some(folder) => folder.clone(),
            None => extcap_folder()?,
        };
        let script = folder.join(SCRIPT);
        if options.install {
            install(&folder, &script)?;
            return output::line(format!("{} is installed", script.display()));
        }
        uninstall(&script)?;
        return output::line(format!("{} is removed", script.display()));
    }
    if options.extcap_interfaces {
        return interfaces();
    }
    let Some(interface) = &options.extcap_interface else {
        let why = "nothing to do: --install makes the fabric's ports interfaces of Wireshark";
        return Err(UsageError(why.to_owned()).into());
    };
    if let Some(fifo) = options.fifo.as_deref().filter(|_| options.capture) {
        return match request(interface, options) {
            Ok((dir, target, request)) => into_pipe(&dir, &target, fifo, &request).await,
            Err(error) => {
                end_pipe(fifo).await;
                Err(error)
            }
        };
    }
    let (dir, is_whole) = fabric_of(interface)?;
    if !is_whole {
        let _ = find(&dir, interface)?;
    }
    if options.extcap_dlts {
        let dlt = "dlt {number=197}{name=ERF}{display=InfiniBand packets as ERF records}";
        return output::line(dlt);
    }
    if options.extcap_config {
        output::line(CONFIG)?;
        return match is_whole {
            true => output::line(PORT_CONFIG),
            false => Ok(()),
        };
    }
    // Wireshark asks whether the filter is one.
    filter(options).map(|_| ())
}

const CONFIG: &str = "\
arg {number=0}{call=--snaplen}{display=Snap length}{tooltip=Bytes of each packet to keep}{type=unsigned}{range=8,65535}{default=65535}
arg {number=1}{call=--direction}{display=Direction}{tooltip=Which packets by their direction}{type=selector}
value {arg=1}{value=both}{display=Received and sent}{default=true}
value {arg=1}{value=rx}{display=Received}{default=false}
value {arg=1}{value=tx}{display=Sent}{default=false}
arg {number=2}{call=--control}{display=Flow-control packets, too}{tooltip=Wireshark shows them without their fields}{type=boolflag}{default=false}";

/// What there is to choose of a fabric that is one interface.
const PORT_CONFIG: &str = "\
arg {number=3}{call=--port}{display=Port}{tooltip=The port to capture at: NODE:PORT, as s0:1}{type=string}{required=true}{placeholder=NODE:PORT}";

/// Prints every port of every fabric, or the fabric where there are too many.
fn interfaces() -> Result<()> {
    let version = env!("CARGO_PKG_VERSION");
    output::line(format!("extcap {{version={version}}}{{display=ibemu}}"))?;
    for fabric in dir::fabrics()? {
        let dir = FabricDir::of(&fabric);
        // A fabric that is just being brought up or taken down has no ports to show.
        let Ok(Some(state)) = FabricState::load(&dir) else {
            continue;
        };
        let targets = Target::all(&dir, &state);
        if targets.len() > PORTS_LISTED_MAX {
            let shown = format!("ibemu {fabric}, one of {} ports", targets.len());
            output::line(format!(
                "interface {{value={PREFIX}{fabric}}}{{display={shown}}}"
            ))?;
            continue;
        }
        for target in targets {
            let shown: String = target
                .name
                .chars()
                .map(|c| if matches!(c, '{' | '}') { '_' } else { c })
                .collect();
            let interface = name(&dir, &target);
            output::line(format!(
                "interface {{value={interface}}}{{display=ibemu {fabric} {shown}}}"
            ))?;
        }
    }
    Ok(())
}

/// The interface's name, which fits into the name of a pipe.
fn name(dir: &FabricDir, target: &Target) -> String {
    let handle = target.socket.file_stem().unwrap_or_default();
    let (fabric, handle) = (dir.fabric(), handle.to_string_lossy());
    format!("{PREFIX}{fabric}.{handle}.{}", target.port)
}

/// The fabric that an interface is of, and whether it is the whole fabric.
fn fabric_of(interface: &str) -> Result<(FabricDir, bool)> {
    let rest = interface.strip_prefix(PREFIX);
    let rest = rest.with_context(|| unknown(interface))?;
    // Fabrics' names have no dots.
    let (fabric, is_whole) = match rest.split_once('.') {
        Some((fabric, _)) => (fabric, false),
        None => (rest, true),
    };
    let name = fabric.parse().ok().with_context(|| unknown(interface))?;
    let dir = FabricDir::of(&name);
    if FabricState::load(&dir)?.is_none() {
        bail!("{}", unknown(interface));
    }
    Ok((dir, is_whole))
}

fn unknown(interface: &str) -> String {
    format!("no port of a fabric is the interface {interface}")
}

/// The port that an interface is.
fn find(dir: &FabricDir, interface: &str) -> Result<Target> {
    let state = FabricState::require(dir)?;
    let mut targets = Target::all(dir, &state).into_iter();
    let target = targets.find(|target| name(dir, target) == interface);
    target.with_context(|| unknown(interface))
}

/// The port that is chosen of a fabric.
fn chosen(dir: &FabricDir, port: Option<&str>) -> Result<Target> {
    let port = port.filter(|port| !port.is_empty());
    let port = port.context("this interface is a whole fabric: name the port, --port NODE:PORT")?;
    Target::find(dir, &FabricState::require(dir)?, port).context("--port")
}

/// The filter that was given.
fn filter(options: &Extcap) -> Result<Filter> {
    let text = &options.extcap_capture_filter;
    let parsed: Result<Filter, _> = text.parse();
    let named = |error| UsageError(format!("--extcap-capture-filter {text:?}: {error}"));
    let mut filter = parsed.map_err(named)?;
    if options.control {
        filter.add_control();
    }
    Ok(filter)
}

/// The port that is captured at, and what of its packets.
fn request(interface: &str, options: &Extcap) -> Result<(FabricDir, Target, CaptureRequest)> {
    let filter = filter(options)?;
    let (dir, is_whole) = fabric_of(interface)?;
    let target = match is_whole {
        true => chosen(&dir, options.port.as_deref())?,
        false => find(&dir, interface)?,
    };
    let request = CaptureRequest {
        port: target.port,
        direction: match options.direction {
            Directions::Both => None,
            Directions::Rx => Some(Direction::Received),
            Directions::Tx => Some(Direction::Sent),
        },
        snap_len: options.snaplen,
        filter,
    };
    Ok((dir, target, request))
}

/// Opens and closes Wireshark's pipe, so that it sees the end of a capture that has not begun: a pipe that nobody ever opens for
/// writing is waited for without end.
async fn end_pipe(fifo: &Path) {
    let opened = async {
        // Refused so as long as nobody reads.
        while let Err(error) = pipe::OpenOptions::new().open_sender(fifo)
            && error.raw_os_error() == Some(libc::ENXIO)
        {
            tokio::time::sleep(READER_INTERVAL).await;
        }
    };
    let _ = tokio::time::timeout(READER_TIMEOUT, opened).await;
}

/// Captures into Wireshark's pipe. Wireshark shows whatever is told, so only losses and faults are.
async fn into_pipe(
    dir: &FabricDir,
    target: &Target,
    fifo: &Path,
    request: &CaptureRequest,
) -> Result<()> {
    let limits = Limits {
        is_quiet: true,
        ..Limits::default()
    };
    let sink = Sink::capture(fifo, None)?;
    let tally = capture::run(dir, target, request, sink, limits).await?;
    if tally.lost > 0 {
        capture::tell(&format!("{} packets were lost in the capture", tally.lost));
    }
    Ok(())
}

/// The folder from which Wireshark runs programs: the user's own, or for root the system's.
fn extcap_folder() -> Result<PathBuf> {
    let asked = Command::new("tshark").args(["-G", "folders"]).output();
    let folders = asked.context("cannot ask tshark for its extcap folder; name it by --folder")?;
    let folders = String::from_utf8_lossy(&folders.stdout).into_owned();
    let folder = |name: &str| {
        let mut lines = folders.lines();
        let path = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        Some(PathBuf::from(path.trim()))
    };
    if let Some(own) = folder("Personal Extcap path") {
        return Ok(own);
    }
    match folder("Extcap path").or_else(|| folder("Global Extcap path")) {
        Some(of_all) if netio::process::effective_uid() == 0 => Ok(of_all),
        Some(_) => bail!(
            "this Wireshark has no extcap folder for each user: install as root, or name a folder by --folder and \
             set WIRESHARK_EXTCAP_DIR to it"
        ),
        None => bail!("tshark -G folders tells no extcap folder; name it by --folder"),
    }
}

/// Whether there is a script, and it is ours.
fn is_ours(script: &Path) -> Result<Option<bool>> {
    match fs::read(script) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).contains(MARK))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", script.display())),
    }
}

/// The word, as a shell takes it.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

fn install(folder: &Path, script: &Path) -> Result<()> {
    if is_ours(script)? == Some(false) {
        bail!("{} is another program: move it away", script.display());
    }
    let own = std::env::current_exe().context("cannot tell where ibemu is")?;
    let own = own.to_str().context("ibemu's path is no text")?;
    let mut text = format!("#!/bin/sh\n{MARK}\n");
    if let Some(runtime) = std::env::var_os("IBEMU_RUNTIME_DIR") {
        let runtime = runtime.to_str().context("IBEMU_RUNTIME_DIR is no text")?;
        text.push_str(&format!("export IBEMU_RUNTIME_DIR={}\n", quoted(runtime)));
    }
    text.push_str(&format!("exec {} extcap \"$@\"\n", quoted(own)));
    let write = || {
        fs::create_dir_all(folder)?;
        // Beside it and then in its place, so that Wireshark never runs half of it.
        let fresh = folder.join(format!(".{SCRIPT}.{}", std::process::id()));
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o755)
            .open(&fresh)?;
        let written = file.write_all(text.as_bytes());
        drop(file);
        let moved = written.and_then(|()| fs::rename(&fresh, script));
        if moved.is_err() {
            let _ = fs::remove_file(&fresh);
        }
        moved
    };
    write().with_context(|| format!("cannot write {}", script.display()))
}

fn uninstall(script: &Path) -> Result<()> {
    match is_ours(script)? {
        Some(true) => {}
        Some(false) => bail!("{} is another program, which stays", script.display()),
        None => bail!("{} is not there", script.display()),
    }
    fs::remove_file(script).with_context(|| format!("cannot remove {}", script.display()))
}
