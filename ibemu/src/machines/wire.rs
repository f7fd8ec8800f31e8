//! One connection between the supervisor of a job and an agent: the handshake, frames, keep-alives.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use cluster::message::Message;
use cluster::session::{
    ANSWER_BYTES, Channel, GREETING_BYTES, Initiator, LENGTH_BYTES, Opener, PROOF_BYTES, Responder,
    Sealer, Secret,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;
use tokio::time::timeout;

/// How long the handshake may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long connecting may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The interval of keep-alives.
const ALIVE_INTERVAL: Duration = Duration::from_millis(500);
/// A peer that says nothing for so long is lost.
const SILENCE_LIMIT: Duration = Duration::from_millis(2500);
/// Messages that wait to be written.
const QUEUE: usize = 64;

/// A connection whose peer has proven itself.
#[derive(Debug)]
pub(super) struct Wire {
    /// Sends.
    pub outgoing: Outgoing,
    /// Receives.
    pub incoming: Incoming,
    /// What a credential is bound to.
    pub binding: [u8; 32],
    /// The peer's address.
    pub peer: SocketAddr,
}

/// The sending end; copies share it.
#[derive(Clone, Debug)]
pub(super) struct Outgoing(mpsc::Sender<Message>);

impl Outgoing {
    /// Queues a message; waits while the queue is full. Whether the connection still stands.
    pub(super) async fn send(&self, message: Message) -> bool {
        self.0.send(message).await.is_ok()
    }
}

/// The receiving end.
#[derive(Debug)]
pub(super) struct Incoming {
    half: OwnedReadHalf,
    opener: Opener,
}

impl Incoming {
    /// The next message that is more than a keep-alive.
    ///
    /// # Errors
    /// If the connection ends, is silent for too long, or what comes is no message of this job.
    pub(super) async fn next(&mut self) -> Result<Message> {
        loop {
            let message = timeout(SILENCE_LIMIT, self.receive()).await;
            let message =
                message.with_context(|| format!("it was silent for {SILENCE_LIMIT:?}"))?;
            match message? {
                Message::Alive => {}
                message => return Ok(message),
            }
        }
    }

    async fn receive(&mut self) -> Result<Message> {
        let mut head = [0; LENGTH_BYTES];
        let closed = "the connection has ended";
        self.half.read_exact(&mut head).await.context(closed)?;
        let mut sealed = vec![0; Opener::length(head)?];
        self.half.read_exact(&mut sealed).await.context(closed)?;
        let message = self.opener.open(head, &mut sealed)?;
        Message::decode(message).context("it says what is no message")
    }
}

impl Wire {
    /// Connects to the supervisor.
    ///
    /// # Errors
    /// If it cannot be reached, or one of both does not know the secret.
    pub(super) async fn connect(address: SocketAddr, secret: Secret) -> Result<Self> {
        let connecting = timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await;
        let mut stream = match connecting {
            Ok(connected) => connected?,
            Err(_) => bail!("no answer within {CONNECT_TIMEOUT:?}"),
        };
        let shaken = timeout(HANDSHAKE_TIMEOUT, initiate(&mut stream, secret)).await;
        let channel = shaken.context("no greeting in time")??;
        Self::new(stream, channel)
    }

    /// Takes a connection that an agent has made.
    ///
    /// # Errors
    /// As [`Self::connect`].
    pub(super) async fn accept(mut stream: TcpStream, secret: Secret) -> Result<Self> {
        let shaken = timeout(HANDSHAKE_TIMEOUT, respond(&mut stream, secret)).await;
        let channel = shaken.context("no greeting in time")??;
        Self::new(stream, channel)
    }

    fn new(stream: TcpStream, channel: Channel) -> Result<Self> {
        stream.set_nodelay(true)?;
        let peer = stream.peer_addr()?;
        let (reader, writer) = stream.into_split();
        let (sender, queue) = mpsc::channel(QUEUE);
        tokio::task::spawn_local(write(writer, channel.sealer, queue));
        Ok(Self {
            outgoing: Outgoing(sender),
            incoming: Incoming {
                half: reader,
                opener: channel.opener,
            },
            binding: channel.binding,
            peer,
        })
    }
}

async fn initiate(stream: &mut TcpStream, secret: Secret) -> Result<Channel> {
    let (initiator, greeting) = Initiator::begin(secret)?;
    stream.write_all(&greeting).await?;
    let mut answer = [0; ANSWER_BYTES];
    stream.read_exact(&mut answer).await?;
    let (proof, channel) = initiator.finish(&answer)?;
    stream.write_all(&proof).await?;
    Ok(channel)
}

async fn respond(stream: &mut TcpStream, secret: Secret) -> Result<Channel> {
    let mut greeting = [0; GREETING_BYTES];
    stream.read_exact(&mut greeting).await?;
    let (responder, answer) = Responder::begin(secret, &greeting)?;
    stream.write_all(&answer).await?;
    let mut proof = [0; PROOF_BYTES];
    stream.read_exact(&mut proof).await?;
    Ok(responder.finish(&proof)?)
}

/// Writes what is queued until all senders are gone or the connection ends; keep-alives meanwhile.
async fn write(mut half: OwnedWriteHalf, mut sealer: Sealer, mut queue: mpsc::Receiver<Message>) {
    loop {
        let message = match timeout(ALIVE_INTERVAL, queue.recv()).await {
            Ok(Some(message)) => message,
            Ok(None) => break,
            Err(_) => Message::Alive,
        };
        let frame = match message.encode() {
            Ok(bytes) => sealer.seal(&bytes),
            Err(error) => {
                tracing::warn!("a message was left out: {error}");
                continue;
            }
        };
        let Ok(frame) = frame else { break };
        if half.write_all(&frame).await.is_err() {
            break;
        }
    }
    // A peer that is gone already hears nothing.
    let _ = half.shutdown().await;
}
