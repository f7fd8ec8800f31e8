//! Command lines of the daemons, and their start.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use clap::Parser as _;
use netio::namespace::Namespace;
use netio::process::Signal;

use super::protocol::Target;
use crate::addresses;
use crate::dir::{self, FabricDir};
use crate::process::{ENVIRONMENT_LABEL, ProcessRecord};
use crate::recordings;
use crate::state::{End, FabricState, HardwareState, Kind, NodeState, SmNode};
use crate::tunnels;
use crate::umad;
use netio::transport::{Medium, Transport, TunnelSocketAt};
use wire::choice::Choice as _;

/// Variables of a program that `ibemu exec` runs: not the daemons', if a fabric is brought up from
/// inside another one.
pub(crate) const GUEST_VARIABLES: [&str; 10] = [
    ENVIRONMENT_LABEL,
    "IBEMU_FABRIC",
    "IBEMU_NODE",
    addresses::VARIABLE,
    cmdevice::SOCKET,
    ibumad::environment::ADAPTERS,
    ibumad::environment::PORT,
    "IBSIM_SOCKNAME",
    "SIM_HOST",
    "LD_PRELOAD",
];

/// The path of a program that stands beside this one.
///
/// # Errors
/// If it is not there.
pub(super) fn program(name: &str) -> Result<PathBuf> {
    let own = netio::process::own_executable()?;
    let path = own.with_file_name(name);
    if !path.is_file() {
        bail!(
            "{name} is missing beside {}: build the whole workspace (cargo build --release)",
            own.display()
        );
    }
    Ok(path)
}

/// Checks that every daemon is there.
///
/// # Errors
/// If one is not.
pub fn check_programs() -> Result<()> {
    for name in ["switchd", "hostd", "controller"] {
        program(name)?;
    }
    Ok(())
}

/// The arguments of the device at position `node`; `ends` are its connected ports, and `inherited` what it is given of their cables
/// when it is started.
#[must_use]
pub(super) fn device_arguments(
    dir: &FabricDir,
    state: &FabricState,
    node: usize,
    ends: &[End],
    inherited: &BTreeMap<u8, Medium>,
) -> Vec<OsString> {
    let device = &state.nodes[node];
    let mut arguments = Arguments::default();
    arguments.add("--name", &device.name);
    if device.handle != device.name {
        arguments.add("--handle", &device.handle);
    }
    arguments.add("--guid", format!("{:#018x}", device.guid));
    hardware_arguments(&mut arguments, device);
    if device.kind == Kind::Switch || device.ports > 1 {
        arguments.add("--ports", device.ports.to_string());
    }
    match device.kind {
        Kind::Switch => {}
        Kind::Host if state.options.transport.has_namespaces() => {
            arguments.add("--umad-socket", umad::in_namespace(device.adapter));
        }
        // Every user can read command lines; only the process's own user and root its environment.
        Kind::Host => {}
    }
    for address in addresses::of_device(state, node) {
        let port = state.nodes[address.node].port;
        let interface = match state.options.transport {
            Transport::Veth => format!(":{}", address.interface),
            Transport::Udp | Transport::Shm | Transport::Tunnel => String::new(),
        };
        arguments.add(
            "--ip",
            format!("{port}={}{interface}", address.number.get()),
        );
    }
    arguments.add("--dir", dir.path());
    let peers = state.peers();
    for end in ends {
        let peer = peers.get(end).copied().unwrap_or(*end);
        let here = SocketAddr::from((state.address([*end, peer]), 0));
        let medium = match (inherited.get(&end.port), state.medium([*end, peer])) {
            (Some(medium), _) => medium.clone(),
            (None, Transport::Veth) => Medium::Veth(state.interface(*end)),
            (None, Transport::Udp) => Medium::Udp(here),
            (None, Transport::Shm) => Medium::Shm,
            (None, Transport::Tunnel) => Medium::Tunnel(TunnelSocketAt::Address(here)),
        };
        arguments.add("--link", format!("{}={medium}", end.port));
    }
    if state.has_tunnels() {
        arguments.add("--link-security", state.options.link_security.name());
        if let Some(mtu) = state.options.tunnel_mtu {
            arguments.add("--tunnel-mtu", mtu.to_string());
        }
    }
    arguments.add("--log-level", state.options.links.log_level.name());
    log_arguments(&mut arguments, dir, state, &device.handle);
    if let Some(folder) = &state.options.record {
        arguments.add("--record", recordings::file(folder, &device.handle));
    }
    link_arguments(&mut arguments, state);
    arguments.0
}

/// What the device says of itself, as far as it is not what a device of ibemu's own says.
fn hardware_arguments(arguments: &mut Arguments, device: &NodeState) {
    let HardwareState {
        description,
        system_image_guid,
        vendor_id,
        device_id,
        is_router,
        enhanced_port0,
        port_guids,
        rates,
        disabled_ports,
    } = &device.hardware;
    let own = link::Hardware::default();
    if *description != device.name {
        // A description may begin with a dash.
        let mut option = OsString::from("--description=");
        option.push(description);
        arguments.0.push(option);
    }
    if *system_image_guid != device.guid {
        arguments.add("--system-image-guid", format!("{system_image_guid:#x}"));
    }
    if *vendor_id != own.vendor_id {
        arguments.add("--vendor-id", format!("{vendor_id:#x}"));
    }
    if *device_id != own.device_id {
        arguments.add("--device-id", format!("{device_id:#x}"));
    }
    if *is_router {
        arguments.0.push("--router".into());
    }
    if *enhanced_port0 {
        arguments.0.push("--enhanced-port0".into());
    }
    for (port, guid) in port_guids {
        arguments.add("--port-guid", format!("{port}={guid:#x}"));
    }
    for (port, (width, speed)) in rates {
        arguments.add(
            "--rate",
            format!("{port}={}-{}", width.name(), speed.name()),
        );
    }
    for port in disabled_ports {
        arguments.add("--disabled-port", port.to_string());
    }
}

/// Checks that the devices will take their link options.
///
/// # Errors
/// Which option is out of range.
pub fn check_link_options(state: &FabricState) -> Result<()> {
    #[derive(clap::Parser)]
    struct Device {
        #[command(flatten)]
        links: daemon::args::LinkArgs,
    }
    let mut arguments = Arguments(vec!["device".into()]);
    link_arguments(&mut arguments, state);
    let device = Device::try_parse_from(arguments.0)?;
    device.links.port_config()?;
    Ok(())
}

fn log_arguments(arguments: &mut Arguments, dir: &FabricDir, state: &FabricState, handle: &str) {
    arguments.add("--log", dir.log(handle));
    arguments.add("--log-bytes", state.options.links.log_bytes.to_string());
}

fn link_arguments(arguments: &mut Arguments, state: &FabricState) {
    let links = &state.options.links;
    arguments.add("--vls", links.vls.to_string());
    arguments.add("--mtu", links.mtu.name());
    arguments.add("--width", links.width.name());
    arguments.add("--speed", links.speed.name());
    if links.unpaced {
        arguments.0.push("--unpaced".into());
    } else {
        arguments.add("--time-scale", links.time_scale.to_string());
    }
    arguments.add("--buffer", links.buffer.to_string());
    let (keepalive, silence) = state.keepalive_and_silence_ms();
    arguments.add("--keepalive-ms", keepalive.to_string());
    arguments.add("--silence-ms", silence.to_string());
    if let Some(packets) = links.frame_packets {
        arguments.add("--frame-packets", packets.to_string());
    }
}

/// The arguments of the controller with that handle.
#[must_use]
pub(super) fn controller_arguments(
    dir: &FabricDir,
    state: &FabricState,
    sm_node: SmNode,
    handle: &str,
) -> Vec<OsString> {
    let options = &state.options;
    let mut arguments = Arguments::default();
    arguments.add("--mad-socket", dir.mad(&state.nodes[sm_node.node].handle));
    let port = state.nodes[sm_node.node].port;
    if port != 1 {
        arguments.add("--port", port.to_string());
    }
    arguments.add("--dir", dir.path());
    arguments.add("--handle", handle);
    arguments.add("--priority", sm_node.priority.to_string());
    arguments.add("--sm-key", options.sm_key.to_string());
    arguments.add("--routing", options.routing.to_string());
    if options.tables.is_some() {
        arguments.add("--tables", dir.tables());
    }
    for number in 0..options.sls.len() {
        arguments.add("--sls", dir.levels(number));
    }
    if let Some(lmc) = options.lmc {
        arguments.add("--lmc", lmc.to_string());
    }
    if options.lmc_esp0 {
        arguments.0.push("--lmc-esp0".into());
    }
    for (option, is_given, file) in [
        ("--roots", options.levels.roots.is_some(), dir::ROOTS),
        (
            "--io-guids",
            options.levels.io_guids.is_some(),
            dir::IO_GUIDS,
        ),
        (
            "--compute-guids",
            options.levels.compute_guids.is_some(),
            dir::COMPUTE_GUIDS,
        ),
    ] {
        if is_given {
            arguments.add(option, dir.level_guids(file));
        }
    }
    if let Some(protection) = state.m_key_protection() {
        arguments.add("--m-key", dir.m_key_file());
        arguments.add("--m-key-protection", protection.to_string());
        let lease = options.m_key_lease.unwrap_or_default();
        arguments.add("--m-key-lease", lease.to_string());
    }
    if options.sa_key.is_some() {
        arguments.add("--sa-key", dir.sa_key_file());
    }
    if options.partitions.is_some() {
        arguments.add("--partitions", dir.partitions());
        let enforcement = options.partition_enforcement.name();
        arguments.add("--partition-enforcement", enforcement);
    }
    arguments.add("--multicast", options.multicast.name());
    arguments.add("--qos", options.qos.name());
    if let Some(windows) = options.windows {
        arguments.add("--windows", windows.to_string());
    }
    log_arguments(&mut arguments, dir, state, handle);
    arguments.0
}

#[derive(Debug, Default)]
struct Arguments(Vec<OsString>);

impl Arguments {
    fn add(&mut self, option: &str, value: impl Into<OsString>) {
        self.0.push(option.into());
        self.0.push(value.into());
    }
}

/// A process just started.
#[derive(Debug)]
pub(super) struct Spawned {
    /// To be reaped when it has ended.
    pub child: Child,
    /// Which it is.
    pub process: ProcessRecord,
}

/// Starts the process of `target`, in its namespace if it has one, its log appended to.
///
/// # Errors
/// If it cannot be started.
pub(super) fn spawn(
    dir: &FabricDir,
    state: &FabricState,
    target: Target,
    ends: &[End],
) -> Result<Spawned> {
    let (name, handle, namespace, node) = match target {
        Target::Device(node) => {
            let node = usize::try_from(node)?;
            let device = &state.nodes[node];
            (
                device.kind.program(),
                device.handle.as_str(),
                state.namespace(node),
                Ok(node),
            )
        }
        Target::Controller(controller) => {
            let mut controllers = state.controllers();
            let (sm_node, handle) = controllers
                .nth(usize::try_from(controller)?)
                .context("this fabric has no such controller")?;
            (
                "controller",
                handle,
                state
                    .namespace(sm_node.node)
                    .filter(|_| state.is_here(state.device_of(sm_node.node))),
                Err(sm_node),
            )
        }
    };
    let log = dir.append_log(handle)?;
    let mut command = Command::new(program(name)?);
    // They stay until the process has been started.
    let mut sockets = Vec::new();
    let arguments = match node {
        Ok(node) => {
            let inherited = match namespace {
                Some(_) => tunnels::sockets(state, ends, &mut command, &mut sockets)?,
                None => BTreeMap::new(),
            };
            device_arguments(dir, state, node, ends, &inherited)
        }
        Err(sm_node) => controller_arguments(dir, state, sm_node, handle),
    };
    command
        .args(arguments)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log);
    for variable in GUEST_VARIABLES {
        command.env_remove(variable);
    }
    if name == Kind::Host.program() && !state.options.transport.has_namespaces() {
        command.env(hostd::UMAD_SOCKET, umad::draw(dir, handle)?);
    }
    let namespace = namespace.map(Namespace::open).transpose()?;
    if let Some(namespace) = &namespace {
        namespace.join_command(&mut command);
    }
    if state.job.is_some() {
        // A job leaves nothing behind, whatever ends its agent.
        netio::process::end_with_parent(&mut command, Signal::KILL);
    }
    let child = command
        .spawn()
        .with_context(|| format!("cannot start {name} for {handle}"))?;
    let process = ProcessRecord::of_child(&child)
        .with_context(|| format!("cannot read /proc/{}/stat; is /proc mounted?", child.id()))?;
    Ok(Spawned { child, process })
}

/// Starts a device of this machine for another process than the supervisor.
///
/// # Errors
/// As [`spawn`].
pub(crate) fn spawn_device(
    dir: &FabricDir,
    state: &FabricState,
    node: u32,
    ends: &[End],
) -> Result<Child> {
    Ok(spawn(dir, state, Target::Device(node), ends)?.child)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Verb};

    fn state(arguments: &[&str]) -> (FabricDir, FabricState) {
        let line = ["ibemu", "up"].iter().chain(arguments);
        let Verb::Up(up) = Cli::try_parse_from(line).unwrap().verb else {
            panic!("not up");
        };
        let dir = FabricDir::at(std::path::Path::new("/run/ibemu/ib")).unwrap();
        let topology = topologies::parse(&up.topology).unwrap();
        let own = ProcessRecord::own().unwrap();
        let state =
            FabricState::plan(dir.fabric(), &topology.graph, topology.name, &up, own).unwrap();
        (dir, state)
    }

    fn text(arguments: Vec<OsString>) -> String {
        let words: Vec<String> = arguments
            .into_iter()
            .map(|word| word.into_string().unwrap())
            .collect();
        words.join(" ")
    }

    #[test]
    fn the_arguments_of_a_switch_are_its_name_ports_cables_and_link_options() {
        let (dir, state) = state(&["star-2", "--unpaced", "--frame-packets", "1"]);
        let switch = state.switches().next().unwrap();
        let ends = [1, 2].map(|port| End { node: switch, port });
        let line = text(device_arguments(
            &dir,
            &state,
            switch,
            &ends,
            &BTreeMap::new(),
        ));
        for part in [
            "--name s0",
            "--dir /run/ibemu/ib",
            "--link 1=veth:p1 --link 2=veth:p2",
            "--vls 4 --mtu 2048 --width 4x --speed qdr --unpaced --buffer 65536",
            "--keepalive-ms 250 --silence-ms 1000 --frame-packets 1",
        ] {
            assert!(line.contains(part), "no {part:?} in {line}");
        }
        assert!(
            !line.contains("--time-scale") && !line.contains("--handle"),
            "{line}"
        );
    }

    #[test]
    fn tunnels_have_addresses_and_options_and_other_cables_stay_as_they_are() {
        let (dir, state) = state(&[
            "star-2",
            "--transport",
            "shm",
            "--tunnel",
            "s0:2",
            "--link-security",
            "none",
            "--tunnel-mtu",
            "1500",
        ]);
        let switch = state.switches().next().unwrap();
        let ends = [1, 2].map(|port| End { node: switch, port });
        let line = text(device_arguments(
            &dir,
            &state,
            switch,
            &ends,
            &BTreeMap::new(),
        ));
        for part in [
            "--link 1=shm --link 2=tunnel:127.0.0.1:0",
            "--link-security none --tunnel-mtu 1500",
        ] {
            assert!(line.contains(part), "no {part:?} in {line}");
        }
    }

    #[test]
    fn the_controller_runs_beside_the_host_that_was_asked_for() {
        let (dir, state) = state(&[
            "star-3",
            "--transport",
            "udp",
            "--sm-node",
            "h2",
            "--lmc",
            "1",
        ]);
        let (sm_node, handle) = state.controllers().next().unwrap();
        assert_eq!(
            text(controller_arguments(&dir, &state, sm_node, handle)),
            "--mad-socket /run/ibemu/ib/h2.mad --dir /run/ibemu/ib --handle controller --priority 8 \
             --sm-key 1 --routing auto --lmc 1 --multicast spanning-tree --qos none --log \
             /run/ibemu/ib/log/controller.log --log-bytes 8388608"
        );
        let line = text(device_arguments(
            &dir,
            &state,
            sm_node.node,
            &[],
            &BTreeMap::new(),
        ));
        assert!(!line.contains("umad"), "every user can read it: {line}");
        assert!(line.contains("--ip 1=3 "), "{line}");
    }
}
