//! Which LIDs the hosts of a live fabric have.

use anyhow::{Result, bail};
use futures_util::{StreamExt, TryStreamExt, stream};
use hostd::control::HostIdentity;
use wire::Lid;

use crate::ask::{DeviceClient, REQUEST_TIMEOUT};
use crate::dir::FabricDir;
use crate::state::FabricState;

/// How many hosts are queried at a time.
const AT_ONCE: usize = 16;
/// The state of a port that packets may cross (IBA 14.2.5.6).
const ACTIVE: u8 = 4;

/// A host that can be reached.
#[derive(Clone, Debug)]
pub struct HostLids {
    /// The host's position.
    pub node: usize,
    /// Who and where it is.
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
    let mut client = DeviceClient::connect(dir, &state.nodes[node], REQUEST_TIMEOUT)?;
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
