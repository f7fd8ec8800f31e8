//! `ibemu exec`: runs a command beside a node.
//!
//! The command replaces this process, inside the node's namespace (veth). Beside a host it finds a libibumad of
//! ibemu's own before the system's: a program that uses libibumad sees the host's adapters, whose management
//! datagrams cross the fabric; and a libibverbs, whose devices are those adapters, with files below
//! `/dev/infiniband` that some programs look for. With `--umad2sim`, ibsim's client library is loaded into it
//! instead, which stands in for `/dev/infiniband`, and shows one adapter with one port.

use std::ffi::{CString, OsStr, OsString};
use std::io::{ErrorKind, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use ibumad::environment::{self, Place};
use mad::umad::{Reply, Request};
use netio::namespace::{ClassFolders, DeviceNodes, Namespace, View};
use netio::seqpacket::BlockingConnection;

use crate::addresses;
use crate::cli::Exec;
use crate::dir::FabricDir;
use crate::machines::visit;
use crate::names::FabricName;
use crate::process::ENVIRONMENT_LABEL;
use crate::state::{FabricState, Kind, NodeState};
use crate::umad;
use netio::transport::Transport;

/// The warning for a program that will not find the fabric.
const UMAD2SIM_MISSING: &str = "ibemu: libumad2sim.so is not installed, so this program will not \
    find the fabric: install ibsim's client library (Debian: apt-get install ibsim-utils), or say \
    where it is with IBEMU_UMAD2SIM";

/// The same, without `--umad2sim`.
const LIBIBUMAD_MISSING: &str = "ibemu: there is no folder libibumad with ibemu's libibumad.so.3 beside \
    ibemu, so this program will not find the fabric: build all of ibemu (cargo build --workspace)";

/// How long a host may take to write the adapter's files.
const SYSFS_TIMEOUT: Duration = Duration::from_secs(5);

/// The folder beside the executable in which a libibumad is, and nothing else.
const LIBIBUMAD_FOLDER: &str = "libibumad";
/// What programs look for in it.
const LIBIBUMAD: &str = "libibumad.so.3";
/// Which libraries the loader loads before all others.
const PRELOAD: &str = "LD_PRELOAD";
/// Where the loader looks first.
const LIBRARY_PATH: &str = "LD_LIBRARY_PATH";

/// Becomes the command; returns only if that fails.
///
/// # Errors
/// If there is no such node, its namespace cannot be entered, or the command cannot be started.
pub fn run(fabric: &FabricName, options: &Exec) -> Result<std::convert::Infallible> {
    let dir = FabricDir::of(fabric);
    let state = FabricState::require(&dir)?;
    let node = state.find(&options.node)?;
    let device = state.device_of(node);
    if let Some(job) = &state.job
        && !state.is_here(device)
    {
        let source = visit(job, device, &arguments_of(fabric, options))?.exec();
        let program = "srun".to_owned();
        return Err(CannotRun { program, source }.into());
    }
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
    match state
        .addresses()
        .iter()
        .find(|address| address.node == node)
    {
        Some(address) => command.env(addresses::VARIABLE, address.ipv4().to_string()),
        None => command.env_remove(addresses::VARIABLE),
    };
    let (mut sysfs, mut nodes) = (None, None);
    if state.nodes[node].kind == Kind::Host && !options.no_preload {
        let found = match options.umad2sim {
            true => preload_umad2sim(&mut command, &dir, &state, node)?,
            false => {
                let places = adapters(&dir, &state, node);
                sysfs = Sysfs::of(&places);
                nodes = DeviceNodes::new(&device_nodes(&state, node));
                let socket = dir.cm(&state.nodes[state.device_of(node)].handle);
                prepare_libraries(&mut command, &places, &socket, state.nodes[node].port)?
            }
        };
        if !found && uses_libibumad(program) {
            let warning = match options.umad2sim {
                true => UMAD2SIM_MISSING,
                false => LIBIBUMAD_MISSING,
            };
            // A closed standard error does not prevent the command from running.
            let _ = writeln!(std::io::stderr(), "{warning}");
        }
    }
    if state.nodes[node].kind == Kind::Switch {
        warn_of_switch(&state, node, program);
    }
    let namespace = match state.namespace(node) {
        Some(name) => Some(Namespace::open(name)?),
        None => None,
    };
    // The command inherits the connections, and the hosts keep the files as long as it has them.
    let (classes, _connections) = match sysfs {
        Some(Sysfs {
            classes,
            connections,
        }) => (Some(classes), connections),
        None => (None, Vec::new()),
    };
    let hosts = CString::new(dir.hosts().into_os_string().into_vec()).ok();
    let is_named = dir.hosts().exists();
    // Programs of several hosts know by it that they are not on one machine, and use different files.
    let host_name = addresses::host_name(&state, node);
    let view = View {
        classes,
        nodes,
        hosts: hosts.filter(|_| is_named),
        host_name: host_name
            .filter(|_| is_named)
            .and_then(|name| CString::new(name).ok()),
    };
    match &namespace {
        Some(namespace) => namespace.join_command_with_sysfs(&mut command, view),
        None => view.show_to(&mut command),
    }
    let source = command.exec();
    let program = program.to_string_lossy().into_owned();
    Err(CannotRun { program, source }.into())
}

/// The arguments of the same call.
fn arguments_of(fabric: &FabricName, options: &Exec) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = vec!["--fabric".into(), fabric.as_str().into()];
    arguments.push("exec".into());
    for (is_given, option) in [
        (options.no_preload, "--no-preload"),
        (options.umad2sim, "--umad2sim"),
    ] {
        if is_given {
            arguments.push(option.into());
        }
    }
    arguments.push(options.node.clone().into());
    arguments.extend(options.command.iter().cloned());
    arguments
}

/// A command that cannot be started.
#[derive(Debug, thiserror::Error)]
#[error("cannot run {program}")]
pub struct CannotRun {
    program: String,
    source: std::io::Error,
}

impl CannotRun {
    /// The exit code that shells have for it: 127 for what is not there, 126 for what is no program.
    #[must_use]
    pub fn code(&self) -> u8 {
        match self.source.kind() {
            ErrorKind::NotFound => 127,
            _ => 126,
        }
    }
}

/// Says what a program beside a switch does not find: programs of hosts run beside hosts.
fn warn_of_switch(state: &FabricState, node: usize, program: &OsStr) {
    let name = &state.nodes[node].name;
    let transport = state.options.transport;
    let host = state.hosts().next().map(|host| &state.nodes[host].name);
    let host = host.map_or("HOST", String::as_str);
    let missing = match (uses_libibumad(program), state.namespace(node)) {
        (true, _) => "has no adapter for programs of hosts",
        (false, None) => "has no adapter, and over this transport no namespace",
        (false, Some(_)) => return,
    };
    let _ = writeln!(
        std::io::stderr(),
        "ibemu: {name} is a switch: over {transport} it {missing}; run it beside a host (ibemu exec {host} ...)"
    );
}

/// The adapters' files, for programs that look for them below `/sys/class/infiniband` themselves.
struct Sysfs {
    classes: ClassFolders,
    /// The hosts keep the files up to date as long as these stand.
    connections: Vec<OwnedFd>,
}

impl Sysfs {
    /// The files of these adapters; `None` if a host does not keep any. Programs of libibumad need none.
    fn of(places: &[Place]) -> Option<Self> {
        let mut trees = Vec::new();
        let mut connections = Vec::new();
        for place in places {
            let connection = BlockingConnection::connect(&place.socket, SYSFS_TIMEOUT).ok()?;
            let name = place.name.clone();
            let request = wire::control::encode(&Request::Sysfs { name }).ok()?;
            connection.send(&request).ok()?;
            let reply = connection.receive().ok()??;
            let Ok(Reply::Sysfs { path }) = wire::control::decode(&reply) else {
                return None;
            };
            trees.push((path.into(), Path::new("infiniband").join(&place.name)));
            connections.push(connection.into_inherited().ok()?);
        }
        let classes = ClassFolders::new(&trees)?;
        Some(Self {
            classes,
            connections,
        })
    }
}

/// Sets the variables by which the command finds our own libibumad and libibverbs and their adapters. Whether
/// libibumad is there.
fn prepare_libraries(
    command: &mut Command,
    places: &[Place],
    connections: &Path,
    port: u8,
) -> Result<bool> {
    let value = environment::value(places)
        .context("the paths of the host's sockets do not fit into a variable")?;
    command
        .env(environment::ADAPTERS, value)
        .env(environment::PORT, port.to_string());
    let executable = std::env::current_exe().context("cannot find this executable")?;
    let folder = executable.with_file_name(LIBIBUMAD_FOLDER);
    if !folder.join(LIBIBUMAD).exists() {
        return Ok(false);
    }
    let verbs = executable.with_file_name(::verbs::FOLDER);
    let folders = [folder, verbs];
    command.env(LIBRARY_PATH, in_front(&folders, LIBRARY_PATH));
    // A shell that was started with ibsim's library would load it still.
    let loaded = match umad2sim() {
        Some(library) => without(&library, PRELOAD),
        None => std::env::var_os(PRELOAD).unwrap_or_default(),
    };
    let device = executable
        .with_file_name(cmdevice::FOLDER)
        .join(cmdevice::LIBRARY);
    match device.exists() {
        true => {
            command.env(cmdevice::SOCKET, connections);
            command.env(PRELOAD, in_front_of(&[device], &list(&loaded, PRELOAD)));
        }
        false => {
            command.env(PRELOAD, loaded);
        }
    }
    Ok(true)
}

/// The positions of the adapters of a node's host: its own first, then the others of that host.
fn positions(state: &FabricState, node: usize) -> impl Iterator<Item = usize> {
    let own = state.nodes[node].device.unwrap_or(node);
    let host_of = move |node: usize| {
        let adapter = state.nodes[node].in_host.as_ref();
        adapter.map(|adapter| &adapter.host)
    };
    let others = (0..state.nodes.len()).filter(move |&other| {
        let device = &state.nodes[other];
        let is_device = device.kind == Kind::Host && device.device.is_none();
        is_device && other != own && host_of(own).is_some() && host_of(other) == host_of(own)
    });
    [own].into_iter().chain(others)
}

/// The names of the files of a node's devices of verbs: one for each port of its host's adapters.
fn device_nodes(state: &FabricState, node: usize) -> Vec<String> {
    let ports = positions(state, node).map(|own| {
        let further = |node: &&NodeState| node.device == Some(own);
        1 + state.nodes.iter().filter(further).count()
    });
    (0..ports.sum())
        .map(|index| format!("uverbs{index}"))
        .collect()
}

/// The adapters of a node's host: its own first, then the others of that host.
fn adapters(dir: &FabricDir, state: &FabricState, node: usize) -> Vec<Place> {
    let mut places: Vec<Place> = Vec::new();
    for position in positions(state, node) {
        let device = &state.nodes[position];
        let called = device.in_host.as_ref().map(|adapter| &adapter.name);
        let is_free = |name: &&String| {
            environment::is_name(name) && places.iter().all(|place| place.name != **name)
        };
        let name = called.filter(is_free).cloned();
        let socket = dir.ibumad(&device.handle);
        let name = name.unwrap_or_else(|| format!("ibemu{}", device.adapter));
        places.push(Place { name, socket });
    }
    places.truncate(environment::ADAPTERS_MAX);
    places
}

/// Has ibsim's client library loaded into the command. Whether it is there.
fn preload_umad2sim(
    command: &mut Command,
    dir: &FabricDir,
    state: &FabricState,
    node: usize,
) -> Result<bool> {
    let library = umad2sim();
    if let Some(library) = &library {
        command.env(PRELOAD, in_front(std::slice::from_ref(library), PRELOAD));
    }
    let base = match state.options.transport {
        Transport::Udp | Transport::Shm | Transport::Tunnel => {
            umad::of_running(dir, &state.nodes[node].handle)?
        }
        Transport::Veth => umad::in_namespace(state.nodes[node].adapter),
    };
    let own = umad::of_port(&base, state.nodes[node].port);
    // Without it the library takes this base.
    match own == umad::in_namespace(0) {
        true => command.env_remove("IBSIM_SOCKNAME"),
        false => command.env("IBSIM_SOCKNAME", own),
    };
    Ok(library.is_some())
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

/// The entries of a variable with paths: they are separated by colons, those of libraries to be loaded by
/// spaces too.
fn entries(variable: &str) -> Vec<OsString> {
    list(&std::env::var_os(variable).unwrap_or_default(), variable)
}

/// The entries of a value of that variable.
fn list(value: &OsStr, variable: &str) -> Vec<OsString> {
    let spaces = variable == PRELOAD;
    let separates = |byte: &u8| *byte == b':' || spaces && *byte == b' ';
    let entries = value.as_bytes().split(separates);
    let named = entries.filter(|entry| !entry.is_empty());
    named
        .map(|entry| OsStr::from_bytes(entry).to_owned())
        .collect()
}

/// Paths in front of what a variable holds already.
fn in_front(paths: &[PathBuf], variable: &str) -> OsString {
    in_front_of(paths, &entries(variable))
}

fn in_front_of(paths: &[PathBuf], others: &[OsString]) -> OsString {
    let is_other = |other: &&OsString| paths.iter().all(|path| Path::new(other) != path);
    let own = paths.iter().map(|path| path.as_os_str());
    let all: Vec<&OsStr> = own
        .chain(others.iter().filter(is_other).map(OsString::as_os_str))
        .collect();
    all.join(OsStr::new(":"))
}

/// What a variable holds but a path.
fn without(path: &Path, variable: &str) -> OsString {
    let others = entries(variable);
    let others = others.iter().filter(|other| Path::new(other) != path);
    let others: Vec<&OsStr> = others.map(OsString::as_os_str).collect();
    others.join(OsStr::new(":"))
}
