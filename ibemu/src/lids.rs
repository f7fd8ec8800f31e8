//! Which LIDs the hosts of a live fabric have.

use anyhow::{Result, anyhow, bail};
use futures_util::{StreamExt, TryStreamExt, stream};
use hostd::control::HostIdentity;
use serde::Serialize;
use wire::Lid;

use crate::ask::{DeviceClient, REQUEST_TIMEOUT};
use crate::dir::FabricDir;
use crate::output;
use crate::state::FabricState;

/// How many hosts are queried at a time.
const AT_ONCE: usize = 64;
/// Hosts that a verdict names; the rest is counted.
const NAMES_MAX: usize = 20;
/// The state of a port that packets may cross (IBA 14.2.5.6).
const ACTIVE: u8 = 4;

/// A host that can be reached.
#[derive(Clone, Debug)]
pub struct HostLids {
    /// The host's position.
    pub node: usize,
    /// Its identity and addresses.
    pub identity: HostIdentity,
}

impl HostLids {
    /// The LID at this offset from the base LID.
    ///
    /// # Errors
    /// If the host has not that many.
    pub fn with_offset(&self, offset: u16) -> Result<Lid> {
        let lids = self.identity.lmc.lids();
        if offset >= lids {
            bail!(
                "--dlid-offset {offset}: {} has {lids} LIDs (LMC {}), so 0 to {}",
                self.identity.name,
                self.identity.lmc,
                lids - 1
            );
        }
        Ok(Lid::new(self.identity.lid.get().saturating_add(offset)))
    }
}

/// The LIDs of one host.
///
/// # Errors
/// If it does not run, or has none yet.
pub async fn of_host(dir: &FabricDir, state: &FabricState, node: usize) -> Result<HostLids> {
    let mut client = DeviceClient::connect(dir, &state.nodes[node], REQUEST_TIMEOUT).await?;
    let identity = client.identity().await?;
    if identity.lid == Lid::ZERO {
        bail!(
            "{} has no LID yet: no subnet manager has set it (start one: ibemu exec {} opensm)",
            identity.name,
            identity.name
        );
    }
    if identity.state != ACTIVE {
        bail!(
            "the port of {} is not Active: its cable is pulled, or no subnet manager has brought it up",
            identity.name
        );
    }
    Ok(HostLids { node, identity })
}

/// A host that cannot take part.
#[derive(Clone, Debug, Serialize)]
pub struct LeftOut {
    /// Its name.
    pub name: String,
    /// Why, and what to do.
    pub reason: String,
}

impl LeftOut {
    /// What a verb that is for all hosts fails with when some cannot take part; `None` if all can.
    #[must_use]
    pub fn verdict(left_out: &[Self]) -> Option<String> {
        let names: Vec<&str> = left_out
            .iter()
            .take(NAMES_MAX)
            .map(|host| host.name.as_str())
            .collect();
        let more = match left_out.len() - names.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        (!left_out.is_empty()).then(|| {
            format!(
                "{} hosts cannot be reached and are left out: {}{more} (ibemu status)",
                left_out.len(),
                names.join(", ")
            )
        })
    }

    /// Prints one line a host.
    ///
    /// # Errors
    /// If standard output fails.
    pub fn print(left_out: &[Self]) -> Result<()> {
        left_out.iter().try_for_each(|host| {
            output::line(format!("{} is left out: {}", host.name, host.reason))
        })
    }
}

/// Those of the hosts at positions `nodes` that can be reached, and those that cannot, each in
/// order.
pub async fn reachable(
    dir: &FabricDir,
    state: &FabricState,
    nodes: impl IntoIterator<Item = usize>,
) -> (Vec<HostLids>, Vec<LeftOut>) {
    let asked: Vec<(usize, Result<HostLids>)> = stream::iter(nodes)
        .map(|node| async move { (node, of_host(dir, state, node).await) })
        .buffered(AT_ONCE)
        .collect()
        .await;
    let (mut hosts, mut left_out) = (Vec::with_capacity(asked.len()), Vec::new());
    for (node, host) in asked {
        match host {
            Ok(host) => hosts.push(host),
            Err(error) => left_out.push(LeftOut {
                name: state.nodes[node].name.clone(),
                reason: format!("{error:#}"),
            }),
        }
    }
    (hosts, left_out)
}

/// The first host that can be reached.
///
/// # Errors
/// If none can: why the first cannot.
pub async fn of_any(dir: &FabricDir, state: &FabricState) -> Result<HostLids> {
    let mut first_error = None;
    for node in state.hosts() {
        match of_host(dir, state, node).await {
            Ok(host) => return Ok(host),
            Err(error) => first_error = first_error.or(Some(error)),
        }
    }
    Err(first_error.unwrap_or_else(|| anyhow!("the fabric has no host")))
}

/// The LIDs of all hosts, in order.
///
/// # Errors
/// If one does not run or has none yet.
pub async fn of_all(dir: &FabricDir, state: &FabricState) -> Result<Vec<HostLids>> {
    stream::iter(state.hosts())
        .map(|node| of_host(dir, state, node))
        .buffered(AT_ONCE)
        .try_collect()
        .await
}
