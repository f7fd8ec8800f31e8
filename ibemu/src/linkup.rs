//! Waiting for links: a cable that is plugged at both ends is in Init a few packets later.

use std::time::Duration;

use anyhow::Result;
use tokio::time::{Instant, sleep};

use crate::ask::{self, DeviceClient};
use crate::dir::FabricDir;
use crate::state::{End, FabricState};

/// The logical state from which on a link is up (IBA 14.2.5.6: 2 is Init).
pub const INIT: u8 = 2;
/// The interval at which a device is polled: first, longest.
pub const POLL_INTERVAL: (Duration, Duration) =
    (Duration::from_millis(2), Duration::from_millis(50));

/// Those of a device's `ends` that are not in Init yet.
///
/// # Errors
/// If the device does not answer.
pub async fn still_down(
    dir: &FabricDir,
    state: &FabricState,
    node: usize,
    mut ends: Vec<End>,
) -> Result<Vec<End>> {
    let mut client = DeviceClient::connect(dir, &state.nodes[node], ask::REQUEST_TIMEOUT).await?;
    let ports = client.ports().await?;
    ends.retain(|end| {
        let port = ports.iter().find(|port| port.port.get() == end.port);
        port.is_none_or(|port| port.state < INIT)
    });
    Ok(ends)
}

/// Waits until all `ends` of one device are in Init, `limit` at most; whether they are.
///
/// # Errors
/// If the device does not answer.
pub async fn wait(
    dir: &FabricDir,
    state: &FabricState,
    node: usize,
    ends: Vec<End>,
    limit: Duration,
) -> Result<bool> {
    let deadline = Instant::now() + limit;
    let mut pause = POLL_INTERVAL.0;
    let mut ends = ends;
    loop {
        ends = still_down(dir, state, node, ends).await?;
        if ends.is_empty() {
            return Ok(true);
        }
        if Instant::now() > deadline {
            return Ok(false);
        }
        sleep(pause).await;
        pause = (pause * 2).min(POLL_INTERVAL.1);
    }
}
