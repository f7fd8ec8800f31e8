//! `ibemu status`: devices, ports, LIDs, links, the subnet manager.

use std::time::Duration;

use anyhow::Result;
use controller::control::{Phase, Status as Subnet};
use futures_util::{StreamExt, stream};
use netio::transport::Transport;
use serde::Serialize;
use tokio::time::MissedTickBehavior;
use wire::Guid;
use wire::control::PortStatus;

use crate::ask::{self, DeviceClient};
use crate::cli::{Sm, Status};
use crate::dir::FabricDir;
use crate::drops::{self, Drops};
use crate::engines;
use crate::names::{FabricName, SUPERVISOR};
use crate::output::{self, Align, Table};
use crate::state::{FabricState, NodeState, SmNode, Stage};
use crate::supervisor::{self, protocol::Process};

/// Timeout of a device's status; one that exceeds it counts as hung.
const STATUS_TIMEOUT: Duration = Duration::from_secs(5);
/// How many devices are queried at a time.
const AT_ONCE: usize = 16;
/// Logical port states (IBA 14.2.5.6).
const INIT: u8 = 2;
const ACTIVE: u8 = 4;

/// What `ibemu status` shows.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    fabric: String,
    topology: String,
    transport: Transport,
    stage: Stage,
    directory: String,
    sm: SmReport,
    links: Links,
    drops: Drops,
    frames: Drops,
    #[serde(skip_serializing_if = "Drops::is_empty")]
    tunnels: Drops,
    devices: Vec<Device>,
}

#[derive(Debug, Default, Serialize)]
struct Links {
    total: usize,
    active: usize,
    init: usize,
    down: usize,
}

#[derive(Debug, Default, Serialize)]
struct SmReport {
    kind: &'static str,
    node: Option<String>,
    lid: Option<u16>,
    m_key_protection: Option<u8>,
    phase: Option<&'static str>,
    reason: Option<String>,
    generation: u64,
    engine: String,
    degraded: bool,
    lmc: u8,
    switches: u32,
    hosts: u32,
    links: u32,
    lids_used: u32,
    active_ports: u32,
    messages_dropped: u64,
    warnings: Vec<String>,
    unreachable: Vec<String>,
    managers: Vec<Manager>,
}

/// A subnet manager: one of the fabric's own, or another that the master has found.
#[derive(Debug, Serialize)]
struct Manager {
    name: String,
    node: String,
    priority: u8,
    phase: String,
    reason: Option<String>,
}

/// One process of the fabric.
#[derive(Debug, Serialize)]
struct Device {
    name: String,
    kind: &'static str,
    state: &'static str,
    pid: Option<u32>,
    guid: Option<String>,
    lid: Option<u16>,
    lmc: Option<u8>,
    ports: u8,
    ports_connected: usize,
    ports_active: usize,
    restarts: u32,
    exit: Option<String>,
    /// Of a fabric on several machines: the one that it is on.
    #[serde(skip_serializing_if = "Option::is_none")]
    machine: Option<String>,
    drops: u64,
    drops_by_reason: Drops,
    frames: Drops,
    #[serde(skip_serializing_if = "Drops::is_empty")]
    tunnels: Drops,
}

/// Shows the status of the fabric.
///
/// # Errors
/// If there is no such fabric, or its supervisor cannot be reached or started.
pub async fn run(fabric: &FabricName, options: &Status) -> Result<()> {
    let dir = FabricDir::of(fabric);
    let Some(interval) = options.watch else {
        let state = FabricState::require(&dir)?;
        let report = report(&dir, &state, &options.filter).await?;
        return match options.json {
            true => output::json(&report),
            false => print(&report, options.verbose),
        };
    };
    let mut interval = tokio::time::interval(Duration::from_secs_f64(interval));
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        if output::is_closed() {
            return Ok(());
        }
        let state = FabricState::require(&dir)?;
        let report = report(&dir, &state, &options.filter).await?;
        match options.json {
            true => output::json_line(&report)?,
            false => {
                output::top_of_screen()?;
                print(&report, options.verbose)?;
            }
        }
    }
}

/// What stands now; of the devices those that a filter names.
///
/// # Errors
/// If the supervisor cannot be reached or started.
pub(crate) async fn report(
    dir: &FabricDir,
    state: &FabricState,
    filter: &[String],
) -> Result<Report> {
    let mut supervisor = supervisor::ensure(dir).await?;
    let processes = supervisor.processes().await?;
    let supervisor_pid = supervisor.pid().await?;
    let asked: Vec<_> = state.nodes.iter().map(|node| ports_of(dir, node)).collect();
    let ports: Vec<Option<Vec<PortStatus>>> = stream::iter(asked).buffered(AT_ONCE).collect().await;
    let mut devices = devices(state, &processes, &ports, supervisor_pid);
    devices.retain(|device| device.is_like(filter));
    let links = links(state, &ports);
    let all_ports: Vec<PortStatus> = ports.into_iter().flatten().flatten().collect();
    Ok(Report {
        fabric: dir.fabric().to_string(),
        topology: state.topology.clone(),
        transport: state.options.transport,
        stage: state.stage,
        directory: dir.path().display().to_string(),
        sm: sm(dir, state).await,
        links,
        drops: drops::of_ports(&all_ports),
        frames: drops::frames_of_ports(&all_ports),
        tunnels: drops::tunnels_of_ports(&all_ports),
        devices,
    })
}

impl Device {
    /// Whether one of the patterns, if there are any, is like its name, kind or state.
    fn is_like(&self, filter: &[String]) -> bool {
        let known = [self.name.as_str(), self.kind, self.state];
        let like = |pattern: &String| known.iter().any(|text| topologies::matches(pattern, text));
        filter.is_empty() || filter.iter().any(like)
    }
}

/// What a device says of its ports, if it answers.
async fn ports_of(dir: &FabricDir, node: &NodeState) -> Option<Vec<PortStatus>> {
    let mut client = DeviceClient::connect(dir, node, STATUS_TIMEOUT)
        .await
        .ok()?;
    client.ports().await.ok()
}

fn devices(
    state: &FabricState,
    processes: &[Process],
    ports: &[Option<Vec<PortStatus>>],
    supervisor_pid: u32,
) -> Vec<Device> {
    let nothing = Process::default();
    let cables = state.cable_counts();
    let mut devices = Vec::with_capacity(state.nodes.len() + 2);
    for (position, node) in state.nodes.iter().enumerate() {
        let process = processes.get(state.device_of(position));
        let process = process.unwrap_or(&nothing);
        let own = |status: &PortStatus| node.device.is_none() || status.port == node.port();
        let ports: Option<Vec<PortStatus>> = ports[position]
            .as_ref()
            .map(|all| all.iter().filter(|status| own(status)).cloned().collect());
        let ports = ports.as_deref();
        let addressed =
            ports.and_then(|ports| ports.iter().find(|status| status.port == node.port()));
        let addressed = addressed.filter(|port| port.lid != 0);
        let drops = ports.map(drops::of_ports).unwrap_or_default();
        devices.push(Device {
            name: node.name.clone(),
            kind: node.kind.name(),
            state: match (process.pid, ports) {
                (None, _) if process.is_lost => "lost",
                (None, _) => "ended",
                (Some(_), None) => "hung",
                (Some(_), Some(_)) => "running",
            },
            pid: process.pid,
            guid: Some(node.guid().to_string()),
            lid: addressed.map(|port| port.lid),
            lmc: addressed.map(|port| port.lmc),
            ports: node.ports,
            ports_connected: cables[position],
            ports_active: ports.map_or(0, |ports| {
                let external = ports.iter().filter(|port| port.port.get() != 0);
                external.filter(|port| port.state == ACTIVE).count()
            }),
            restarts: process.restarts,
            exit: process.exit.clone(),
            machine: state
                .job
                .as_ref()
                .map(|job| job.machine_name(state.device_of(position)).to_owned()),
            drops: drops.values().sum(),
            drops_by_reason: drops,
            frames: ports.map(drops::frames_of_ports).unwrap_or_default(),
            tunnels: ports.map(drops::tunnels_of_ports).unwrap_or_default(),
        });
    }
    for (position, (_, handle)) in (state.devices().len()..).zip(state.controllers()) {
        let process = processes.get(position).unwrap_or(&nothing);
        let state = if process.pid.is_some() {
            "running"
        } else {
            "ended"
        };
        devices.push(Device {
            restarts: process.restarts,
            exit: process.exit.clone(),
            ..without_ports(handle, "controller", process.pid, state)
        });
    }
    let (name, pid) = (SUPERVISOR, Some(supervisor_pid));
    devices.push(without_ports(name, name, pid, "running"));
    devices
}

fn without_ports(name: &str, kind: &'static str, pid: Option<u32>, state: &'static str) -> Device {
    Device {
        name: name.to_owned(),
        kind,
        state,
        pid,
        guid: None,
        lid: None,
        lmc: None,
        ports: 0,
        ports_connected: 0,
        ports_active: 0,
        restarts: 0,
        exit: None,
        machine: None,
        drops: 0,
        drops_by_reason: Drops::new(),
        frames: Drops::new(),
        tunnels: Drops::new(),
    }
}

/// A cable is in the lower of its two ends' states.
fn links(state: &FabricState, ports: &[Option<Vec<PortStatus>>]) -> Links {
    let end_state = |end: &crate::state::End| {
        let ports = ports[end.node].as_deref().unwrap_or_default();
        let port = ports.iter().find(|port| port.port.get() == end.port);
        port.map_or(0, |port| port.state)
    };
    let mut links = Links {
        total: state.links.len(),
        ..Links::default()
    };
    for link in &state.links {
        match link.iter().map(end_state).min().unwrap_or(0) {
            ACTIVE.. => links.active += 1,
            INIT.. => links.init += 1,
            _ => links.down += 1,
        }
    }
    links
}

async fn sm(dir: &FabricDir, state: &FabricState) -> SmReport {
    let report = SmReport {
        kind: "none",
        lid: sm_lid_of_hosts(dir, state).await,
        ..SmReport::default()
    };
    let mut reports = ask::subnets(dir, state, STATUS_TIMEOUT).await;
    let (Sm::Ibemu, Some(master)) = (state.options.sm, ask::master(&reports)) else {
        return report;
    };
    let managers: Vec<Manager> = state
        .controllers()
        .zip(&reports)
        .map(|((sm_node, handle), report)| manager(state, sm_node, handle, report))
        .collect();
    let report = SmReport {
        kind: "ibemu",
        node: managers.get(master).map(|manager| manager.node.clone()),
        managers,
        m_key_protection: state.m_key_protection(),
        ..report
    };
    match reports.swap_remove(master) {
        Ok(subnet) => with_subnet(report, state, subnet),
        Err(error) => SmReport {
            phase: Some("unreachable"),
            reason: Some(format!("{error:#}")),
            ..report
        },
    }
}

/// One of the fabric's own managers.
fn manager(state: &FabricState, sm_node: SmNode, handle: &str, report: &Result<Subnet>) -> Manager {
    let (phase, reason) = match report {
        Ok(subnet) => phase(&subnet.phase),
        Err(error) => ("unreachable", Some(format!("{error:#}"))),
    };
    Manager {
        name: handle.to_owned(),
        node: state.nodes[sm_node.node].name.clone(),
        priority: sm_node.priority,
        phase: phase.to_owned(),
        reason,
    }
}

fn phase(phase: &Phase) -> (&'static str, Option<String>) {
    match phase {
        Phase::Starting => ("starting", None),
        Phase::Discovering => ("discovering", None),
        Phase::Programming => ("programming", None),
        Phase::Up => ("up", None),
        Phase::Standby { master } => ("standby", Some(format!("{master} is master"))),
        Phase::AwaitsHandover { master } => (
            "waiting",
            Some(format!("{master} is master too and is to hand over")),
        ),
        Phase::NotActive => ("disabled", Some("by the master".to_owned())),
        Phase::Failed { reason } => ("failed", Some(reason.clone())),
    }
}

fn with_subnet(mut report: SmReport, state: &FabricState, subnet: Subnet) -> SmReport {
    let (phase, reason) = phase(&subnet.phase);
    // Managers of others, which the master has found.
    let own: Vec<Guid> = state
        .controllers()
        .map(|(sm_node, _)| state.nodes[sm_node.node].port_guid())
        .collect();
    let foreign = subnet.managers.into_iter();
    let foreign = foreign.filter(|manager| !own.contains(&manager.guid));
    report.managers.extend(foreign.map(|manager| Manager {
        name: manager.guid.to_string(),
        node: manager.name,
        priority: manager.priority,
        phase: manager.state,
        reason: None,
    }));
    let unreachable = subnet
        .unreachable
        .iter()
        .map(|device| format!("{}: {}", device.name, device.reason));
    SmReport {
        phase: Some(phase),
        reason,
        generation: subnet.generation,
        engine: subnet.engine,
        degraded: subnet.degraded,
        lmc: subnet.lmc,
        switches: subnet.switches,
        hosts: subnet.hosts,
        links: subnet.links,
        lids_used: subnet.lids_used,
        active_ports: subnet.active_ports,
        messages_dropped: subnet.messages_dropped,
        warnings: subnet.warnings,
        unreachable: unreachable.collect(),
        ..report
    }
}

/// The LID of the subnet manager in the first host's PortInfo.
async fn sm_lid_of_hosts(dir: &FabricDir, state: &FabricState) -> Option<u16> {
    let host = state.hosts().next()?;
    let mut client = DeviceClient::connect(dir, &state.nodes[host], STATUS_TIMEOUT)
        .await
        .ok()?;
    let lid = client.identity().await.ok()?.sm_lid.get();
    (lid != 0).then_some(lid)
}

fn print(report: &Report, verbose: bool) -> Result<()> {
    let unfinished = match report.stage {
        Stage::Up => "",
        Stage::Creating => " (not finished: `ibemu up` is at work or was killed)",
    };
    let transport = report.transport;
    output::line(format!(
        "fabric {}: {} over {transport}{unfinished}",
        report.fabric, report.topology
    ))?;
    output::line(format!("subnet manager: {}", sm_line(&report.sm, verbose)))?;
    if report.sm.managers.len() > 1 {
        for manager in &report.sm.managers {
            let reason = manager.reason.as_deref().unwrap_or_default();
            output::line(format!(
                "  {} beside {}, priority {}: {} {reason}",
                manager.name, manager.node, manager.priority, manager.phase
            ))?;
        }
    }
    for warning in report.sm.warnings.iter().chain(&report.sm.unreachable) {
        output::line(format!("  {warning}"))?;
    }
    let links = &report.links;
    output::line(format!(
        "links: {} of {} active, {} in Init, {} down",
        links.active, links.total, links.init, links.down
    ))?;
    let dropped: Vec<String> = report
        .drops
        .iter()
        .map(|(reason, count)| format!("{count} {reason}"))
        .collect();
    if !dropped.is_empty() {
        output::line(format!("dropped: {}", dropped.join(", ")))?;
    }
    let lost: Vec<String> = drops::lost_frames(&report.frames)
        .map(|(what, count)| format!("{count} {what}"))
        .collect();
    if !lost.is_empty() {
        output::line(format!("frames: {}", lost.join(", ")))?;
    }
    output::line("")?;
    output::line(table(&report.devices))
}

fn sm_line(sm: &SmReport, verbose: bool) -> String {
    if sm.kind == "none" {
        return match sm.lid {
            Some(lid) => format!("not ibemu's; MasterSMLID of the hosts is {lid}"),
            None => "none found (--sm none)".to_owned(),
        };
    }
    let node = sm.node.as_deref().unwrap_or("");
    let phase = sm.phase.unwrap_or("");
    let reason = sm
        .reason
        .as_ref()
        .map_or_else(String::new, |reason| format!(": {reason}"));
    let degraded = if sm.degraded { ", degraded" } else { "" };
    let engine = if sm.engine.is_empty() {
        String::new()
    } else {
        let name = match verbose {
            true => &sm.engine,
            false => engines::name(&sm.engine),
        };
        format!("; {name}, LMC {}, {} LIDs", sm.lmc, sm.lids_used)
    };
    let m_key = sm.m_key_protection.map_or_else(String::new, |protection| {
        format!("; M_Key protection {protection}")
    });
    format!("beside {node}, {phase}{reason}{degraded}{engine}{m_key}")
}

fn table(devices: &[Device]) -> Table {
    let mut table = Table::new(&[
        ("NAME", Align::Left),
        ("KIND", Align::Left),
        ("STATE", Align::Left),
        ("PID", Align::Right),
        ("LID", Align::Right),
        ("LMC", Align::Right),
        ("ACTIVE", Align::Right),
        ("RESTARTS", Align::Right),
        ("DROPS", Align::Right),
        ("LAST EXIT", Align::Left),
    ]);
    let number = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    for device in devices {
        let active = if device.ports == 0 {
            "-".to_owned()
        } else {
            format!("{}/{}", device.ports_active, device.ports_connected)
        };
        table.row([
            device.name.clone(),
            device.kind.to_owned(),
            device.state.to_owned(),
            number(device.pid.map(|pid| pid.to_string())),
            number(device.lid.map(|lid| lid.to_string())),
            number(device.lmc.map(|lmc| lmc.to_string())),
            active,
            device.restarts.to_string(),
            device.drops.to_string(),
            device.exit.clone().unwrap_or_default(),
        ]);
    }
    table
}
