//! The control sockets of devices and controllers: in turn, a few each sample, so that a large fabric costs no more
//! than a small one.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use daemon::control::{AsyncControlClient, ControlError};
use hostd::control::PortRequest;
use wire::PortNum;
use wire::control::{DeviceReply, DeviceRequest, LaneStatus, PortLanes, PortStatus};
use wire::convert::real;

use super::{DeviceSocket, Source};
use crate::model::{ControllerFacts, Device, DeviceFacts, Fabric, Lane};

/// How long an answer is waited for: who is slower is asked again in its next turn.
const TIMEOUT: Duration = Duration::from_millis(200);
/// What the names of drop counters begin with.
const DROP: &str = "drop.";

/// What the sockets have told.
#[derive(Debug, Default)]
pub(super) struct Told {
    pub(super) devices: Vec<DeviceFacts>,
    pub(super) controllers: Vec<ControllerFacts>,
    /// Which device of the source is next.
    next: usize,
}

impl Told {
    /// Asks the controllers. Whether one has completed a sweep since it was asked before.
    pub(super) async fn ask_controllers(&mut self, source: &Source) -> bool {
        let mut facts = Vec::with_capacity(source.controllers.len());
        for (name, socket) in &source.controllers {
            let told = controller_facts(name, socket).await;
            facts.push(told.unwrap_or_else(|| ControllerFacts {
                name: name.clone(),
                ..ControllerFacts::default()
            }));
        }
        let sweeps = |facts: &[ControllerFacts]| -> Vec<(bool, u64)> {
            facts.iter().map(|it| (it.is_master, it.sweeps)).collect()
        };
        let has_swept = sweeps(&facts) != sweeps(&self.controllers);
        self.controllers = facts;
        has_swept
    }

    /// Whether one of the fabric's own controllers runs the subnet, whose sweeps show here.
    pub(super) fn tells_changes(&self) -> bool {
        self.controllers
            .iter()
            .any(|it| it.is_running && it.is_master)
    }

    /// Asks the devices whose turn it is.
    pub(super) async fn ask_devices(
        &mut self,
        source: &Source,
        devices_max: usize,
        fabric: &Fabric,
        now_ms: u64,
    ) {
        self.devices
            .resize_with(fabric.nodes.len(), DeviceFacts::default);
        let count = source.devices.len();
        for _ in 0..count.min(devices_max) {
            let device = &source.devices[self.next % count];
            self.next = (self.next + 1) % count;
            let Some(node) = fabric.node(device.guid) else {
                continue;
            };
            let known = &mut self.devices[node];
            match ask(device).await {
                Ok((lanes, ports)) => {
                    let device = updated(known, now_ms, &lanes, &ports);
                    *known = DeviceFacts(Arc::new(device));
                }
                Err(error) => {
                    tracing::debug!(socket = %device.socket.display(), "a device is not asked: {error}");
                    *known = DeviceFacts::default();
                }
            }
        }
    }
}

async fn controller_facts(name: &str, socket: &Path) -> Option<ControllerFacts> {
    use controller::control::{Phase, Reply, Request};
    let mut client = AsyncControlClient::connect(socket, TIMEOUT).await.ok()?;
    let Reply::Status(status) = client.request(&Request::Status).await.ok()? else {
        return None;
    };
    let seconds = |ns: u64| real(ns) / 1e9;
    Some(ControllerFacts {
        name: name.to_owned(),
        is_running: true,
        is_master: matches!(
            status.phase,
            Phase::Up | Phase::Programming | Phase::Discovering | Phase::Failed { .. }
        ),
        sweeps: status.generation,
        discovery_s: seconds(status.discovery_ns),
        programming_s: seconds(status.programming_ns),
        smps_sent: status.smps_sent,
        smps_timed_out: status.smps_timed_out,
        sa_requests: status.sa_requests,
    })
}

/// Lanes and counters of a device's ports.
async fn ask(device: &DeviceSocket) -> Result<(Vec<PortLanes>, Vec<PortStatus>), ControlError> {
    let mut client = AsyncControlClient::connect(&device.socket, TIMEOUT).await?;
    let lanes = match request(&mut client, device.is_switch, DeviceRequest::Lanes).await? {
        DeviceReply::Lanes(lanes) => lanes,
        _ => Vec::new(),
    };
    let ports = match request(&mut client, device.is_switch, DeviceRequest::Ports).await? {
        DeviceReply::Ports(ports) => ports,
        _ => Vec::new(),
    };
    Ok((lanes, ports))
}

async fn request(
    client: &mut AsyncControlClient,
    is_switch: bool,
    request: DeviceRequest,
) -> Result<DeviceReply, ControlError> {
    if is_switch {
        let request = switchd::control::Request::Device(request);
        let switchd::control::Reply::Device(reply) = client.request(&request).await?;
        return Ok(reply);
    }
    let request = PortRequest {
        port: PortNum::default(),
        request: hostd::control::Request::Device(request),
    };
    Ok(match client.request(&request).await? {
        hostd::control::Reply::Device(reply) => reply,
        _ => DeviceReply::Done,
    })
}

fn updated(before: &Device, now_ms: u64, lanes: &[PortLanes], ports: &[PortStatus]) -> Device {
    let lanes = lanes.iter().map(|port| {
        let number = port.port.get();
        let before = before.lanes.get(&number).map_or(&[][..], Vec::as_slice);
        (number, shares(before, &port.lanes))
    });
    let drops = ports.iter().map(|port| {
        let drops = port.counters.iter().filter_map(|(name, count)| {
            let reason = name.strip_prefix(DROP)?;
            (*count > 0).then(|| (reason.to_owned(), *count))
        });
        (port.port.get(), drops.collect())
    });
    Device {
        at_ms: now_ms,
        lanes: lanes.collect(),
        drops: drops.collect(),
    }
}

/// The lanes of a port, and what each got of what was sent since `before`.
fn shares(before: &[Lane], now: &[LaneStatus]) -> Vec<Lane> {
    let sent = |(at, lane): (usize, &LaneStatus)| {
        let before = before.get(at).map_or(0, |lane| lane.xmit_bytes);
        lane.xmit_words.saturating_mul(4).saturating_sub(before)
    };
    let all = now
        .iter()
        .enumerate()
        .map(sent)
        .fold(0, u64::saturating_add);
    let part = |of: u64, whole: u64| {
        if whole == 0 {
            0.0
        } else {
            real(of) / real(whole)
        }
    };
    let lanes = now.iter().enumerate().map(|(at, lane)| Lane {
        input_share: part(lane.input_used.into(), lane.input_capacity.into()),
        input_blocks: lane.input_capacity,
        output_blocks: lane.output_used,
        credits: lane.credits,
        xmit_bytes: lane.xmit_words.saturating_mul(4),
        share: part(sent((at, lane)), all),
        wait_s: real(lane.xmit_wait_ns) / 1e9,
    });
    lanes.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_what_was_sent_since_the_last_look() {
        let lane = |xmit_words| LaneStatus {
            xmit_words,
            input_used: 8,
            input_capacity: 32,
            ..LaneStatus::default()
        };
        let first = shares(&[], &[lane(100), lane(0)]);
        assert!((first[0].share - 1.0).abs() < 1e-9 && first[1].share == 0.0);
        assert!((first[0].input_share - 0.25).abs() < 1e-9);
        let second = shares(&first, &[lane(125), lane(75)]);
        assert!((second[0].share - 0.25).abs() < 1e-9 && (second[1].share - 0.75).abs() < 1e-9);
        let idle = shares(&second, &[lane(125), lane(75)]);
        assert!(idle.iter().all(|lane| lane.share == 0.0));
        let restarted = shares(&second, &[lane(5), lane(0)]);
        assert!(restarted.iter().all(|lane| lane.share == 0.0));
    }
}
