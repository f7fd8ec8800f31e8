//! `ibemu exec`: runs a command beside a node.
//!
//! The command replaces this process, inside the node's namespace (veth). Beside a host, ibsim's
//! client library is loaded into it, which stands in for `/dev/infiniband`: a program that uses
//! libibumad finds one adapter, whose management datagrams cross the fabric.

use std::ffi::OsStr;
use std::io::Write as _;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use netio::namespace::Namespace;

use crate::cli::Exec;
use crate::dir::FabricDir;
use crate::names::FabricName;
use crate::process::ENVIRONMENT_LABEL;
use crate::state::{FabricState, Kind};
use crate::umad;
use netio::transport::Transport;

/// The warning for a program that will not find the fabric.
const LIBRARY_MISSING: &str = "ibemu: libumad2sim.so is not installed, so this program will not \
    find the fabric: install ibsim's client library (Debian: apt-get install ibsim-utils), or say \
    where it is with IBEMU_UMAD2SIM";

/// Becomes the command; returns only if that fails.
///
/// # Errors
/// If there is no such node, its namespace cannot be entered, or the command cannot be started.
pub fn run(fabric: &FabricName, options: &Exec) -> Result<std::convert::Infallible> {
    let dir = FabricDir::of(fabric);
    let state = FabricState::require(&dir)?;
    let node = state.find(&options.node)?;
    let (program, arguments) = options
        .command
        .split_first()
        .context("no command was given")?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env("IBEMU_FABRIC", fabric.as_str())
        .env("IBEMU_NODE", &state.nodes[node].name)
        .env(ENVIRONMENT_LABEL, dir.path());
    if state.nodes[node].kind == Kind::Host && !options.no_preload {
        match umad2sim() {
            Some(library) => {
                command.env("LD_PRELOAD", preload(&library));
            }
            None if uses_libibumad(program) => {
                // A closed standard error does not prevent the command from running.
                let _ = writeln!(std::io::stderr(), "{LIBRARY_MISSING}");
            }
            None => {}
        }
        if state.options.transport == Transport::Udp {
            let base = umad::of_running(&dir, &state.nodes[node].handle)?;
            command.env("IBSIM_SOCKNAME", base);
        } else {
            command.env_remove("IBSIM_SOCKNAME");
        }
    }
    let namespace = match state.namespace(node) {
        Some(name) => Some(Namespace::open(name)?),
        None => None,
    };
    if let Some(namespace) = &namespace {
        namespace.join_command_with_sysfs(&mut command);
    }
    let error = command.exec();
    Err(error).with_context(|| format!("cannot run {}", program.to_string_lossy()))
}

/// Whether a program, by its name, is one of OpenSM's or of infiniband-diags.
fn uses_libibumad(program: &OsStr) -> bool {
    let name = Path::new(program).file_name().and_then(OsStr::to_str);
    name.is_some_and(|name| {
        let known = [
            "opensm",
            "sminfo",
            "saquery",
            "perfquery",
            "smpquery",
            "smpdump",
            "osmtest",
        ];
        name.starts_with("ib") || known.contains(&name)
    })
}

/// Where Debian and others install ibsim's client library, or where `IBEMU_UMAD2SIM` says it is.
fn umad2sim() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("IBEMU_UMAD2SIM") {
        return Some(path.into());
    }
    let architecture = std::env::consts::ARCH;
    let folders = [
        format!("/usr/lib/{architecture}-linux-gnu/umad2sim"),
        "/usr/lib64/umad2sim".to_owned(),
        "/usr/lib/umad2sim".to_owned(),
        "/usr/local/lib/umad2sim".to_owned(),
    ];
    folders
        .iter()
        .map(|folder| Path::new(folder).join("libumad2sim.so"))
        .find(|path| path.exists())
}

/// The library in front of what the caller loads already.
fn preload(library: &Path) -> std::ffi::OsString {
    let mut value = library.as_os_str().to_owned();
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        let already = others
            .to_string_lossy()
            .split([':', ' '])
            .any(|other| Path::new(other) == library);
        if already {
            return others;
        }
        value.push(":");
        value.push(others);
    }
    value
}
