//! Requests to the processes of a fabric over their control sockets.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use daemon::control::AsyncControlClient;
use wire::PortNum;
use wire::control::{DeviceReply, DeviceRequest, PortStatus};

use crate::dir::FabricDir;
use crate::state::{FabricState, Kind, NodeState};

/// Timeout of a request that a device answers at once: on a loaded machine with a thousand
/// processes it may not be scheduled for seconds.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);

/// A connection to the control socket of a switch or host.
#[derive(Debug)]
pub struct DeviceClient {
    client: AsyncControlClient,
    name: String,
    kind: Kind,
    port: PortNum,
}

impl DeviceClient {
    /// Connects to `node`, of a host to the port that it is; every request then waits `timeout` at most.
    ///
    /// # Errors
    /// If the device does not run.
    pub async fn connect(dir: &FabricDir, node: &NodeState, timeout: Duration) -> Result<Self> {
        let client = AsyncControlClient::connect(&dir.control(&node.handle), timeout)
            .await
            .with_context(|| not_running(&node.name))?;
        Ok(Self {
            client,
            name: node.name.clone(),
            kind: node.kind,
            port: node.port(),
        })
    }

    /// Sends a request that any device serves.
    ///
    /// # Errors
    /// If the device does not answer or refuses.
    pub async fn ask(&mut self, request: &DeviceRequest) -> Result<DeviceReply> {
        self.ask_with(request, &[]).await
    }

    /// As [`Self::ask`], with copies of descriptors.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub async fn ask_with(
        &mut self,
        request: &DeviceRequest,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<DeviceReply> {
        let reply = match self.kind {
            Kind::Switch => self.ask_switch(request, descriptors).await,
            Kind::Host => self.ask_host(request, descriptors).await,
        };
        match reply.with_context(|| not_answering(&self.name))? {
            DeviceReply::Refused(why) => bail!("{} refuses: {why}", self.name),
            reply => Ok(reply),
        }
    }

    async fn ask_switch(
        &mut self,
        request: &DeviceRequest,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<DeviceReply> {
        use switchd::control::{Reply, Request};
        let request = Request::Device(request.clone());
        let reply = self.client.request_with(&request, descriptors).await?;
        let Reply::Device(reply) = reply;
        Ok(reply)
    }

    async fn ask_host(
        &mut self,
        request: &DeviceRequest,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<DeviceReply> {
        use hostd::control::{PortRequest, Reply, Request};
        let request = PortRequest {
            port: self.port,
            request: Request::Device(request.clone()),
        };
        match self.client.request_with(&request, descriptors).await? {
            Reply::Device(reply) => Ok(reply),
            Reply::Refused(why) => Ok(DeviceReply::Refused(why)),
            other => Err(unexpected(&other)),
        }
    }

    /// Every port's status.
    ///
    /// # Errors
    /// As [`DeviceClient::ask`].
    pub async fn ports(&mut self) -> Result<Vec<PortStatus>> {
        match self.ask(&DeviceRequest::Ports).await? {
            DeviceReply::Ports(ports) => Ok(ports),
            other => Err(unexpected(&other)),
        }
    }

    /// Sends a request that only a host serves.
    ///
    /// # Errors
    /// If the host does not answer or refuses.
    pub async fn host(
        &mut self,
        request: &hostd::control::Request,
    ) -> Result<hostd::control::Reply> {
        use hostd::control::{PortRequest, Reply};
        let request = PortRequest {
            port: self.port,
            request: request.clone(),
        };
        let reply = self.client.request(&request).await;
        match reply.with_context(|| not_answering(&self.name))? {
            Reply::Refused(why) => bail!("{} refuses: {why}", self.name),
            reply => Ok(reply),
        }
    }

    /// The host's identity and addresses.
    ///
    /// # Errors
    /// If the host does not answer.
    pub async fn identity(&mut self) -> Result<hostd::control::HostIdentity> {
        match self.host(&hostd::control::Request::Identity).await? {
            hostd::control::Reply::Identity(identity) => Ok(hostd::control::HostIdentity {
                // The host does not know which of its ports goes by its own name.
                name: self.name.clone(),
                ..identity
            }),
            other => Err(unexpected(&other)),
        }
    }
}

/// The report of the controller with that handle on the subnet.
///
/// # Errors
/// If the controller does not run or does not answer.
pub async fn subnet(
    dir: &FabricDir,
    handle: &str,
    timeout: Duration,
) -> Result<controller::control::Status> {
    use controller::control::{Reply, Request};
    let mut client = AsyncControlClient::connect(&dir.control(handle), timeout)
        .await
        .with_context(|| not_running(handle))?;
    let reply = client.request(&Request::Status).await;
    match reply.with_context(|| not_answering(handle))? {
        Reply::Status(status) => Ok(*status),
        Reply::Refused(why) => bail!("{handle} refuses: {why}"),
        other => Err(unexpected(&other)),
    }
}

/// The reports of all controllers, in order.
pub async fn subnets(
    dir: &FabricDir,
    state: &FabricState,
    timeout: Duration,
) -> Vec<Result<controller::control::Status>> {
    let reports = state
        .controllers()
        .map(|(_, handle)| subnet(dir, handle, timeout));
    futures_util::future::join_all(reports).await
}

/// Of the reports of several controllers the master's, by its position; the first that there is if none
/// is master.
#[must_use]
pub fn master(reports: &[Result<controller::control::Status>]) -> Option<usize> {
    use controller::control::Phase;
    let rank = |report: &Result<controller::control::Status>| match report.as_ref().ok()?.phase {
        Phase::Up => Some(4),
        Phase::Programming | Phase::Failed { .. } => Some(3),
        Phase::AwaitsHandover { .. } | Phase::Discovering => Some(2),
        Phase::Standby { .. } | Phase::Starting => Some(1),
        Phase::NotActive => Some(0),
    };
    let ranked = reports.iter().enumerate().rev();
    let best = ranked.max_by_key(|(_, report)| rank(report));
    best.map(|(position, _)| position)
}

/// The host beside which the master runs, as far as the fabric's own controllers go: the one that has
/// the LID of the subnet manager; else the first with a controller, else the first.
pub async fn master_host(dir: &FabricDir, state: &FabricState) -> Option<usize> {
    for (sm_node, _) in state.controllers() {
        let node = &state.nodes[sm_node.node];
        if let Ok(mut client) = DeviceClient::connect(dir, node, REQUEST_TIMEOUT).await
            && let Ok(identity) = client.identity().await
            && identity.sm_lid == identity.lid
            && identity.lid.is_unicast()
        {
            return Some(sm_node.node);
        }
    }
    let first = state.controllers().next().map(|(sm_node, _)| sm_node.node);
    first.or_else(|| state.real_hosts().next())
}

/// Makes the controller with that handle sweep the subnet.
///
/// # Errors
/// If the controller does not run or does not answer.
pub async fn resweep(dir: &FabricDir, handle: &str, timeout: Duration) -> Result<()> {
    use controller::control::{Reply, Request};
    let mut client = AsyncControlClient::connect(&dir.control(handle), timeout).await?;
    match client.request(&Request::Resweep).await? {
        Reply::Done => Ok(()),
        other => Err(unexpected(&other)),
    }
}

/// Whether the controller with that handle answers.
///
/// # Errors
/// If it does not.
pub async fn identify_controller(dir: &FabricDir, handle: &str, timeout: Duration) -> Result<()> {
    use controller::control::{Reply, Request};
    let mut client = AsyncControlClient::connect(&dir.control(handle), timeout).await?;
    match client.request(&Request::Identify).await? {
        Reply::Identity { .. } => Ok(()),
        other => Err(unexpected(&other)),
    }
}

/// A reply that does not fit its request: the peer has another version.
pub fn unexpected<R: std::fmt::Debug>(reply: &R) -> anyhow::Error {
    anyhow!("an unexpected reply (are the binaries of one version?): {reply:?}")
}

fn not_running(name: &str) -> String {
    format!("{name} cannot be asked; does it run? (ibemu status; ibemu restart {name})")
}

fn not_answering(name: &str) -> String {
    format!("{name} does not answer")
}
