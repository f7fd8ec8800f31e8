//! Connections of other verbs to the supervisor, which is started if there is none.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use daemon::control::AsyncControlClient;

use super::GUEST_VARIABLES;
use super::elsewhere::{failure, is_gateway};
use super::protocol::{Process, Reply, Request};
use crate::ask::unexpected;
use crate::dir::FabricDir;
use crate::logs;
use crate::machines::STEP_TIMEOUT;
use crate::state::FabricState;

/// Timeout of a request to the supervisor: a restart of a device waits for the device.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(180);
/// Timeout of the first answer of a started supervisor.
const START_TIMEOUT: Duration = Duration::from_secs(20);
/// The interval at which a starting supervisor is polled.
const START_POLL_INTERVAL: Duration = Duration::from_millis(2);

/// A connection to the supervisor.
#[derive(Debug)]
pub struct Client {
    client: AsyncControlClient,
}

impl Client {
    pub(crate) async fn connect(dir: &FabricDir) -> Result<Self> {
        let client =
            AsyncControlClient::connect(&dir.control("supervisor"), REQUEST_TIMEOUT).await?;
        Ok(Self { client })
    }

    /// Asks; a refusal is an error.
    ///
    /// # Errors
    /// If the supervisor does not answer, or refuses.
    pub async fn ask(&mut self, request: &Request) -> Result<Reply> {
        let reply = self.client.request(request).await;
        match reply.context("the fabric's supervisor does not answer")? {
            Reply::Refused(why) => bail!("{why}"),
            reply => Ok(reply),
        }
    }

    /// The outcome of every start: devices in the fabric's order, then the controllers.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub async fn processes(&mut self) -> Result<Vec<Process>> {
        let mut all = Vec::new();
        loop {
            let skip = u32::try_from(all.len())?;
            match self.ask(&Request::Processes { skip }).await? {
                Reply::Processes(some) if some.is_empty() => return Ok(all),
                Reply::Processes(some) => all.extend(some),
                other => return Err(unexpected(&other)),
            }
        }
    }

    /// The supervisor's process id.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub async fn pid(&mut self) -> Result<u32> {
        match self.ask(&Request::Hello).await? {
            Reply::Hello { pid } => Ok(pid),
            other => Err(unexpected(&other)),
        }
    }
}

/// Connects to the supervisor of a fabric; starts one if it has none, or one that is just ending.
///
/// # Errors
/// If it cannot be started.
pub async fn ensure(dir: &FabricDir) -> Result<Client> {
    match reach(dir).await {
        Ok(client) => Ok(client),
        Err(error) => match FabricState::load(dir)? {
            // It goes with its supervisor.
            Some(FabricState { job: Some(job), .. }) => Err(error).with_context(|| {
                format!("the fabric's job {} is gone, or its supervisor is", job.id)
            }),
            _ => launch(dir).await,
        },
    }
}

/// Connects to a supervisor that answers. One that was killed takes connections until the kernel has closed its socket,
/// and never answers them.
async fn reach(dir: &FabricDir) -> Result<Client> {
    let deadline = Instant::now() + START_TIMEOUT;
    loop {
        let mut client = Client::connect(dir).await?;
        match client.pid().await {
            Ok(_) => return Ok(client),
            Err(error) if Instant::now() > deadline => return Err(error),
            Err(_) => tokio::time::sleep(START_POLL_INTERVAL).await,
        }
    }
}

/// Starts the supervisor of a fabric and waits until it answers.
///
/// # Errors
/// If it cannot be started or ends at once.
pub async fn launch(dir: &FabricDir) -> Result<Client> {
    let path = dir.log("supervisor");
    let log = dir.append_log("supervisor")?;
    let mut command = Command::new(netio::process::own_executable()?);
    command
        .arg("supervisor")
        .arg("--dir")
        .arg(dir.path())
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log);
    for variable in GUEST_VARIABLES {
        command.env_remove(variable);
    }
    let mut child = command.spawn().context("cannot start the supervisor")?;
    let limit = match FabricState::load(dir).ok().flatten() {
        // Several machines have to find each other.
        Some(state) if is_gateway(&state) => 2 * STEP_TIMEOUT,
        _ => START_TIMEOUT,
    };
    let deadline = Instant::now() + limit;
    loop {
        if let Ok(mut client) = Client::connect(dir).await
            && client.pid().await.is_ok()
        {
            return Ok(client);
        }
        if let Some(status) = child.try_wait()? {
            if let Some(why) = failure(dir.path()) {
                bail!("{why}");
            }
            let words = logs::log_tail_note(dir, "supervisor");
            bail!(
                "the supervisor ended at once ({status}){words}; its log: {}",
                path.display()
            );
        }
        if Instant::now() > deadline {
            bail!(
                "the supervisor does not answer; its log: {}",
                path.display()
            );
        }
        tokio::time::sleep(START_POLL_INTERVAL).await;
    }
}

#[cfg(test)]
mod tests {
    use netio::seqpacket::Listener;
    use tokio::task::LocalSet;

    use super::*;

    #[test]
    fn a_supervisor_that_is_just_ending_is_left_for_the_one_that_follows_it() {
        let folder = tempfile::tempdir().unwrap();
        let dir = FabricDir::at(&folder.path().join("ib")).unwrap();
        std::fs::create_dir(dir.path()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        LocalSet::new().block_on(&runtime, async {
            let listener = Listener::bind(&dir.control("supervisor")).unwrap();
            let supervisors = async {
                // The one that was killed: its socket takes a connection, which nobody answers.
                drop(listener.accept().await.unwrap());
                let connection = listener.accept().await.unwrap();
                let request = connection.receive().await.unwrap().unwrap();
                let request: Request = wire::control::decode(&request).unwrap();
                assert_eq!(request, Request::Hello);
                let reply = wire::control::encode(&Reply::Hello { pid: 7 }).unwrap();
                connection.send(&reply).await.unwrap();
            };
            let (reached, ()) = tokio::join!(reach(&dir), supervisors);
            assert!(reached.is_ok(), "{reached:?}");
        });
    }
}
