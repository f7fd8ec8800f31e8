//! `ibemu link`: pulls and plugs cables.
//!
//! Over veth the interface is set down or up, so that every program sees the change; a veth pair
//! that was deleted is created again. Of a fabric on several machines that is done on the cable's machine. Over UDP and in shared memory both
//! devices are notified.

use std::ffi::OsString;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::ask;
use crate::cli::{Link, Sm};
use crate::dir::FabricDir;
use crate::linkup;
use crate::machines::{Job, visit};
use crate::names::{FabricName, PortName};
use crate::net::{self, CableEnd, Net};
use crate::output;
use crate::state::{End, FabricState};
use crate::supervisor::{self, protocol::Request};
use netio::transport::Transport;

/// How long the link of a plugged cable may take to come up before the command returns.
const LINK_UP_TIMEOUT: Duration = Duration::from_secs(1);

/// Pulls or plugs the cable that is named.
///
/// # Errors
/// If there is no such cable, or the devices cannot be reached.
pub async fn run(fabric: &FabricName, link: &Link) -> Result<()> {
    let dir = FabricDir::of(fabric);
    let state = FabricState::require(&dir)?;
    let (name, plugged) = match link {
        Link::Down(end) => (&end.port, false),
        Link::Up(end) => (&end.port, true),
    };
    let (end, peer) = ends(&state, name)?;
    set(&dir, &state, end, peer, plugged).await?;
    output::line(format!(
        "the cable {} - {} is {}",
        state.end_name(end),
        state.end_name(peer),
        if plugged { "plugged in" } else { "pulled" }
    ))
}

/// Pulls or plugs the cable between two ends.
///
/// # Errors
/// If its interfaces are not there, or the devices cannot be reached.
pub(crate) async fn set(
    dir: &FabricDir,
    state: &FabricState,
    end: End,
    peer: End,
    plugged: bool,
) -> Result<()> {
    let elsewhere = state.job.as_ref().filter(|_| !state.is_here(end.node));
    match (state.medium([end, peer]), elsewhere) {
        (Transport::Veth, Some(job)) => set_there(dir, state, job, end, plugged).await?,
        (Transport::Veth, None) => {
            set_veth(state, end, peer, plugged).await?;
            if plugged {
                resweep(dir, state, end).await;
            }
        }
        (Transport::Udp | Transport::Shm | Transport::Tunnel, _) => {
            let mut client = supervisor::ensure(dir).await?;
            let node = u32::try_from(end.node)?;
            let port = end.port;
            client
                .ask(&Request::Cable {
                    node,
                    port,
                    plugged,
                })
                .await?;
        }
    }
    Ok(())
}

/// Makes the controllers sweep the subnet when the link is up. Switches send traps, but none can
/// report the cable between the controller's own host and its first switch.
async fn resweep(dir: &FabricDir, state: &FabricState, end: End) {
    // Without controller, or with a dead device at one end, there is nothing to wait for.
    if state.options.sm == Sm::Ibemu
        && let Ok(true) = linkup::wait(dir, state, end.node, vec![end], LINK_UP_TIMEOUT).await
    {
        for (_, handle) in state.controllers() {
            let _ = ask::resweep(dir, handle, LINK_UP_TIMEOUT).await;
        }
    }
}

/// Both ends of the cable at the port named.
///
/// # Errors
/// If there is none.
pub(crate) fn ends(state: &FabricState, name: &PortName) -> Result<(End, End)> {
    let node = state.find(&name.node)?;
    let end = End {
        node,
        port: name.port,
    };
    if let Some(&peer) = state.peers().get(&end) {
        return Ok((end, peer));
    }
    let ports = state.nodes[node].ports;
    if name.port > ports {
        bail!("{name}: {} has ports 1 to {ports}", name.node);
    }
    bail!("{name}: no cable is in that port")
}

/// Has a cable pulled or plugged on the machine of the job where it is.
async fn set_there(
    dir: &FabricDir,
    state: &FabricState,
    job: &Job,
    end: End,
    plugged: bool,
) -> Result<()> {
    let name = format!("{}:{}", state.nodes[end.node].handle, end.port);
    let verb = if plugged { "up" } else { "down" };
    let arguments = ["--fabric", dir.fabric().as_str(), "link", verb, &name].map(OsString::from);
    let command = visit(job, end.node, &arguments)?;
    let mut command = tokio::process::Command::from(command);
    let outcome = command.stdin(Stdio::null()).output().await;
    let outcome = outcome.context("cannot start srun")?;
    if !outcome.status.success() {
        let machine = job.machine_name(end.node);
        let why = String::from_utf8_lossy(&outcome.stderr);
        bail!("on {machine}: {}", why.trim());
    }
    Ok(())
}

async fn set_veth(state: &FabricState, end: End, peer: End, up: bool) -> Result<()> {
    let open = |end: End| match state.namespace(end.node) {
        Some(name) => Net::open(name),
        None => bail!("{} has no namespace", state.end_name(end)),
    };
    let nets = [open(end)?, open(peer)?];
    let ends = [(&nets[0], end), (&nets[1], peer)].map(|(net, end)| CableEnd {
        net,
        interface: state.interface(end),
    });
    if !up {
        if !net::set_cable_end(&ends[0], false).await? {
            bail!(
                "the cable at {} was deleted; link up makes it anew",
                state.end_name(end)
            );
        }
        return Ok(());
    }
    // Plugging a cable means both ends, whichever was set down.
    let here = net::set_cable_end(&ends[0], true).await?;
    let there = net::set_cable_end(&ends[1], true).await?;
    match (here, there) {
        (true, true) => Ok(()),
        (false, false) => net::create_cable(&ends[0], &ends[1], &state.fabric.label()).await,
        _ => bail!(
            "only one end of the cable {} - {} is there: the other was moved",
            state.end_name(end),
            state.end_name(peer)
        ),
    }
}
