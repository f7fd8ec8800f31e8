//! A sampler of a live fabric: which host it samples through, and what the supervisor says of processes.

use anyhow::{Context, Result};
use monitor::model::ProcessFacts;
use monitor::{DeviceSocket, Options, Sampler, Source, Usage};

use crate::ask;
use crate::dir::FabricDir;
use crate::state::{FabricState, Kind};
use crate::supervisor::protocol::Process;
use crate::supervisor::{self, Client};

/// Starts a sampler of the fabric in `dir`, through the host beside which its subnet manager runs, or else the first.
///
/// # Errors
/// If the fabric has no host to sample through, or its keys cannot be read.
pub async fn start(dir: &FabricDir, state: &FabricState, options: Options) -> Result<Sampler> {
    let host = ask::master_host(dir, state).await;
    let host = host.context("the fabric has no host with a cable that could be sampled through")?;
    let devices = state.devices().iter().map(|device| DeviceSocket {
        guid: device.guid(),
        is_switch: device.kind == Kind::Switch,
        socket: dir.control(&device.handle),
    });
    let source = Source {
        devices: devices.collect(),
        ..source(dir, state, host)?
    };
    Sampler::start(source, options).context("cannot start sampling")
}

/// The host at this position of the fabric's nodes to ask through; no control sockets of devices are told.
///
/// # Errors
/// If the fabric's keys cannot be read.
pub fn source(dir: &FabricDir, state: &FabricState, host: usize) -> Result<Source> {
    let host = &state.nodes[host];
    Ok(Source {
        mad_socket: dir.mad(&host.handle),
        port: host.port(),
        sa_key: dir.sa_key()?,
        devices: Vec::new(),
        controllers: (state.controllers())
            .map(|(_, handle)| (handle.to_owned(), dir.control(handle)))
            .collect(),
    })
}

/// What the supervisor says of the fabric's processes now.
///
/// # Errors
/// If it can be neither reached nor started.
pub async fn processes(dir: &FabricDir, state: &FabricState) -> Result<Vec<ProcessFacts>> {
    facts(supervisor::ensure(dir).await?, state, monitor::usage_of).await
}

/// Which processes run now, without what they use. No supervisor is started for that.
///
/// # Errors
/// If the supervisor cannot be reached.
pub async fn running(dir: &FabricDir, state: &FabricState) -> Result<Vec<ProcessFacts>> {
    let client = Client::connect(dir).await?;
    facts(client, state, |_| Usage::default()).await
}

async fn facts(
    mut client: Client,
    state: &FabricState,
    usage_of: impl Fn(u32) -> Usage,
) -> Result<Vec<ProcessFacts>> {
    let processes = client.processes().await?;
    let supervisor = Process {
        pid: Some(client.pid().await?),
        ..Process::default()
    };
    let managers_are_elsewhere = state.managers_are_elsewhere();
    let devices = state.devices().iter().enumerate();
    let devices =
        devices.map(|(at, device)| (device.name.as_str(), device.kind.name(), !state.is_here(at)));
    let controllers = state
        .controllers()
        .map(|(_, handle)| (handle, "controller", managers_are_elsewhere));
    let named = devices.chain(controllers).zip(&processes);
    let own = ("supervisor", "supervisor", managers_are_elsewhere);
    let all = named.chain(std::iter::once((own, &supervisor)));
    let facts = all.map(|((name, role, is_elsewhere), process)| {
        // On this machine its number is another process's, or none's.
        let measured = process.pid.filter(|_| !is_elsewhere);
        let usage = measured.map(&usage_of).unwrap_or_default();
        ProcessFacts {
            name: name.to_owned(),
            role: role.to_owned(),
            pid: process.pid,
            restarts: process.restarts,
            cpu_s: usage.cpu_s,
            resident_bytes: usage.resident_bytes,
            is_elsewhere,
        }
    });
    Ok(facts.collect())
}
