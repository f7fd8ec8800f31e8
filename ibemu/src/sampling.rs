//! A sampler of a live fabric: which host it samples through, and what the supervisor says of processes.

use anyhow::{Context, Result};
use monitor::model::ProcessFacts;
use monitor::{DeviceSocket, Options, Sampler, Source};

use crate::ask;
use crate::dir::FabricDir;
use crate::state::{FabricState, Kind};
use crate::supervisor;
use crate::supervisor::protocol::Process;

/// Starts a sampler of the fabric in `dir`, through the host beside which its subnet manager runs, or else the first.
///
/// # Errors
/// If the fabric has no host to sample through, or its keys cannot be read.
pub async fn start(dir: &FabricDir, state: &FabricState, options: Options) -> Result<Sampler> {
    let host = ask::master_host(dir, state).await;
    let host = host.context("the fabric has no host with a cable that could be sampled through")?;
    let host = &state.nodes[host];
    let source = Source {
        mad_socket: dir.mad(&host.handle),
        port: host.port(),
        sa_key: dir.sa_key()?,
        devices: (state.devices().iter())
            .map(|device| DeviceSocket {
                guid: device.guid(),
                is_switch: device.kind == Kind::Switch,
                socket: dir.control(&device.handle),
            })
            .collect(),
        controllers: (state.controllers())
            .map(|(_, handle)| (handle.to_owned(), dir.control(handle)))
            .collect(),
    };
    Sampler::start(source, options).context("cannot start sampling")
}

/// What the supervisor says of the fabric's processes now.
///
/// # Errors
/// If it can be neither reached nor started.
pub async fn processes(dir: &FabricDir, state: &FabricState) -> Result<Vec<ProcessFacts>> {
    let mut client = supervisor::ensure(dir).await?;
    let processes = client.processes().await?;
    let supervisor = Process {
        pid: Some(client.pid().await?),
        ..Process::default()
    };
    let devices = state.devices().iter();
    let devices = devices.map(|device| (device.name.as_str(), device.kind.name()));
    let controllers = state
        .controllers()
        .map(|(_, handle)| (handle, "controller"));
    let named = devices.chain(controllers).zip(&processes);
    let all = named.chain(std::iter::once((("supervisor", "supervisor"), &supervisor)));
    let facts = all.map(|((name, role), process)| {
        let usage = process.pid.map(monitor::usage_of).unwrap_or_default();
        ProcessFacts {
            name: name.to_owned(),
            role: role.to_owned(),
            pid: process.pid,
            restarts: process.restarts,
            cpu_s: usage.cpu_s,
            resident_bytes: usage.resident_bytes,
        }
    });
    Ok(facts.collect())
}
