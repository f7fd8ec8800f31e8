//! Rank 0 waits for the agents of the other machines and for the machine that `up` was called on.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use cluster::message::{FILE_BYTES_MAX, Hello, Message};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{Instant, timeout, timeout_at};

use super::rendezvous::{self, Place};
use super::wire::Wire;

/// How long all may take to come.
const GATHER_TIMEOUT: Duration = Duration::from_secs(20);
/// How long an agent may take to say who it is.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);
/// Connections that have not proven themselves yet, at once.
const STRANGERS_MAX: usize = 64;

/// The connections of a job.
#[derive(Debug)]
pub(super) struct Gathered {
    /// To the agents, by machine.
    pub agents: BTreeMap<usize, Wire>,
    /// To the machine that `up` was called on.
    pub gateway: Wire,
}

impl Gathered {
    /// The address of each machine, as its agent's connection shows it.
    pub(super) fn addresses(&self, own: IpAddr) -> BTreeMap<usize, IpAddr> {
        let agents = self.agents.iter();
        let agents = agents.map(|(&machine, wire)| (machine, wire.peer.ip()));
        agents.chain([(0, own)]).collect()
    }
}

/// What is known so far.
struct Gathering<'a> {
    names: &'a [String],
    place: &'a Place,
    build: String,
    agents: BTreeMap<usize, Wire>,
    gateway: Option<Wire>,
}

/// Waits for all.
///
/// # Errors
/// Who has not come, or is not fit; all that have come are told.
pub(super) async fn gather(
    listener: TcpListener,
    place: &Place,
    names: &[String],
    build: String,
) -> Result<Gathered> {
    let mut gathering = Gathering {
        names,
        place,
        build,
        agents: BTreeMap::new(),
        gateway: None,
    };
    let outcome = gathering.all(listener).await;
    let Gathering {
        agents, gateway, ..
    } = gathering;
    let why = match (outcome, gateway) {
        (Ok(()), Some(gateway)) => return Ok(Gathered { agents, gateway }),
        (Ok(()), None) => return Err(anyhow::anyhow!("nobody has asked for this fabric")),
        (Err(error), gateway) => {
            let why = format!("{error:#}");
            for wire in agents.values().chain(&gateway) {
                wire.outgoing.send(Message::Refused(why.clone())).await;
            }
            why
        }
    };
    bail!("{why}")
}

impl Gathering<'_> {
    async fn all(&mut self, listener: TcpListener) -> Result<()> {
        let deadline = Instant::now() + GATHER_TIMEOUT;
        let (sender, mut arrivals) = mpsc::channel(STRANGERS_MAX);
        let secret = self.place.secret.clone();
        let accepting = tokio::task::spawn_local(async move {
            let permits = Arc::new(Semaphore::new(STRANGERS_MAX));
            loop {
                let Ok(permit) = Arc::clone(&permits).acquire_owned().await else {
                    return;
                };
                let Ok((stream, from)) = listener.accept().await else {
                    continue;
                };
                let (sender, secret) = (sender.clone(), secret.clone());
                tokio::task::spawn_local(async move {
                    let _permit = permit;
                    match introduce(stream, secret).await {
                        Ok(arrived) => drop(sender.send(arrived).await),
                        Err(error) => tell_stranger(from, &error),
                    }
                });
            }
        });
        let arrived = async {
            while self.agents.len() + 1 < self.names.len() || self.gateway.is_none() {
                match timeout_at(deadline, arrivals.recv()).await {
                    Ok(Some((hello, wire))) => self.take(hello, wire).await?,
                    _ => bail!("{}", self.who_is_missing()),
                }
            }
            Ok(())
        }
        .await;
        accepting.abort();
        arrived
    }

    async fn take(&mut self, hello: Hello, wire: Wire) -> Result<()> {
        let outcome = self.check(&hello, &wire);
        let answer = match &outcome {
            Ok(_) => Message::Welcome,
            Err(error) => Message::Refused(format!("{error:#}")),
        };
        wire.outgoing.send(answer).await;
        match outcome? {
            Some(machine) => drop(self.agents.insert(machine, wire)),
            None => self.gateway = Some(wire),
        }
        Ok(())
    }

    /// The machine that an agent is on; `None` for that of `up`.
    fn check(&self, hello: &Hello, wire: &Wire) -> Result<Option<usize>> {
        let machine = &hello.machine;
        if hello.build != self.build {
            bail!(
                "{machine} runs ibemu {}, and {} runs ibemu {}: the same build has to be on all machines",
                hello.build,
                self.names[0],
                self.build
            );
        }
        if self.place.has_munge {
            let credential = hello.credential.as_deref();
            let credential =
                credential.with_context(|| format!("{machine} shows no credential of MUNGE"))?;
            let text = rendezvous::unmunge(credential).with_context(|| machine.clone())?;
            if text != hex(&wire.binding) {
                bail!("{machine} shows another connection's credential of MUNGE");
            }
        }
        let Some(rank) = hello.rank else {
            return match self.gateway {
                None => Ok(None),
                Some(_) => bail!("{machine} asks for a fabric that was asked for already"),
            };
        };
        let rank = wire::convert::usize_of(rank);
        match self.names.get(rank) {
            Some(name) if name == machine && rank > 0 && !self.agents.contains_key(&rank) => {
                Ok(Some(rank))
            }
            _ => bail!("{machine} has come as rank {rank}, which it is not in this job"),
        }
    }

    fn who_is_missing(&self) -> String {
        let here = &self.names[0];
        let address = self.place.address;
        let missing: Vec<&str> = (1..)
            .zip(&self.names[1..])
            .filter(|(machine, _)| !self.agents.contains_key(machine))
            .map(|(_, name)| name.as_str())
            .collect();
        let who = match missing.as_slice() {
            [] => "the machine of `ibemu up`".to_owned(),
            missing => missing.join(", "),
        };
        let why = anyhow::anyhow!("nothing has come within {GATHER_TIMEOUT:?}");
        format!("{:#}", rendezvous::unreachable(&who, here, address, &why))
    }
}

fn tell_stranger(from: SocketAddr, error: &anyhow::Error) {
    tracing::warn!("a connection from {from} was refused: {error:#}");
}

/// The hexadecimal digits of a binding.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

async fn introduce(stream: TcpStream, secret: cluster::session::Secret) -> Result<(Hello, Wire)> {
    let mut wire = Wire::accept(stream, secret).await?;
    let hello = timeout(HELLO_TIMEOUT, wire.incoming.next()).await;
    match hello.context("it does not say who it is")?? {
        Message::Hello(hello) => Ok((hello, wire)),
        _ => bail!("it does not say who it is"),
    }
}

/// The files that a peer sends until it says that these are all.
///
/// # Errors
/// If it says something else, or sends too much.
pub(super) async fn files(wire: &mut Wire) -> Result<BTreeMap<String, Vec<u8>>> {
    let mut whole = BTreeMap::new();
    let mut part: Option<(String, Vec<u8>)> = None;
    let mut total = 0;
    loop {
        match wire.incoming.next().await? {
            Message::File {
                name,
                bytes,
                is_last,
            } => {
                total += bytes.len();
                let (begun, mut content) = part.take().unwrap_or((name.clone(), Vec::new()));
                if begun != name || total > FILE_BYTES_MAX {
                    bail!("files are handed over that are none");
                }
                content.extend(bytes);
                match is_last {
                    true => drop(whole.insert(name, content)),
                    false => part = Some((name, content)),
                }
            }
            Message::Files if part.is_none() => return Ok(whole),
            Message::Refused(why) | Message::End { why } => bail!("{why}"),
            _ => bail!("something else comes than the fabric's files"),
        }
    }
}

/// Sends files, and that these are all.
pub(super) async fn send_files(
    outgoing: &super::wire::Outgoing,
    files: &BTreeMap<String, Vec<u8>>,
) {
    for (name, content) in files {
        let mut rest = content.as_slice();
        loop {
            let (bytes, behind) = rest.split_at(rest.len().min(cluster::message::CHUNK_BYTES_MAX));
            rest = behind;
            let file = Message::File {
                name: name.clone(),
                bytes: bytes.to_vec(),
                is_last: rest.is_empty(),
            };
            outgoing.send(file).await;
            if rest.is_empty() {
                break;
            }
        }
    }
    outgoing.send(Message::Files).await;
}
