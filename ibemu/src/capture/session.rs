//! A capture from its beginning to its end: the device's socket, limits, signals.

use std::io::{self, Write as _};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use daemon::signals::ShutdownSignals;
use netio::seqpacket::Connection;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use wire::Format as _;
use wire::capture::{CaptureReply, CaptureRequest, MessageHeader};

use super::Target;
use super::sink::{Sink, Written};
use crate::dir::FabricDir;
use crate::output;

/// Messages between the socket and the writer at most.
const QUEUE: usize = 8;

/// How long the device may take for its first answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

/// How long the device may take to hand over what it has when the capture ends, and the writer to write it.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// How often a device that has ended is looked for.
const RETURN_INTERVAL: Duration = Duration::from_millis(50);

/// When a capture ends by itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// After so many packets.
    pub count: Option<u64>,
    /// After so long.
    pub duration: Option<Duration>,
    /// Only faults are told.
    pub is_quiet: bool,
}

/// What came of a capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Packets written.
    pub captured: u64,
    /// Packets that passed the filter, and for which the device or the writer had no room.
    pub lost: u64,
}

/// Tells something on standard error. A closed one is no reason to fail.
pub(crate) fn tell(text: &str) {
    let _ = writeln!(io::stderr(), "{}", output::printable(text));
}

/// Why the messages of a device have ended.
enum Ending {
    /// A limit, a signal, or the writer: the device is still there.
    Enough,
    /// The device has ended.
    Gone,
    /// The device has sent its last message.
    Last,
}

/// What a capture waits for beside packets.
struct Ends {
    signals: ShutdownSignals,
    at: Option<Instant>,
    batches: mpsc::Sender<Vec<u8>>,
}

impl Ends {
    /// Resolves at a signal, at the limit of time, or when the writer has ended.
    async fn enough(&mut self) {
        let timeout = async {
            match self.at {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.signals.next() => {}
            () = timeout => {}
            () = self.batches.closed() => {}
        }
    }

    /// Hands a message to the writer; gives it back if the capture ends before there is room.
    async fn pass(&mut self, message: Vec<u8>) -> Result<(), Vec<u8>> {
        let batches = self.batches.clone();
        let place = tokio::select! {
            biased;
            place = batches.reserve() => place.ok(),
            () = self.enough() => None,
        };
        match place {
            Some(place) => {
                place.send(message);
                Ok(())
            }
            None => Err(message),
        }
    }
}

/// Captures until a limit is reached, a signal comes (SIGINT, SIGTERM), nobody reads what is written, or the fabric is gone. If the
/// device ends it is waited for; both is told.
///
/// # Errors
/// If the device cannot be asked or refuses, if something cannot be written, or if the fabric is taken down.
pub async fn run(
    dir: &FabricDir,
    target: &Target,
    request: &CaptureRequest,
    sink: Sink,
    limits: Limits,
) -> Result<Tally> {
    let signals = ShutdownSignals::new().context("cannot wait for signals")?;
    let started = begin(target, request).await?;
    let mut connection = started.with_context(|| {
        let name = &target.device;
        format!("{name} cannot be asked; does it run? (ibemu status; ibemu restart {name})")
    })?;
    let tell_about = |text: &str| {
        if !limits.is_quiet {
            tell(text);
        }
    };
    tell_about(&format!(
        "capturing at {}; an interrupt ends it",
        target.name
    ));
    let (batches, received) = mpsc::channel(QUEUE);
    let (done_sender, mut done) = oneshot::channel();
    let writer = std::thread::Builder::new().name("writer".to_owned());
    writer
        .spawn(move || done_sender.send(sink.write_all(received, limits.count)))
        .context("cannot start the writer")?;
    let mut ends = Ends {
        signals,
        at: limits.duration.map(|duration| Instant::now() + duration),
        batches,
    };
    let mut lost = 0;
    let outcome = loop {
        let (ending, lost_here) = follow(&mut connection, &mut ends).await;
        lost += lost_here;
        match ending {
            Ending::Enough | Ending::Last => break Ok(()),
            Ending::Gone => {}
        }
        tell_about(&format!(
            "{} has ended; the capture goes on when it runs again (ibemu restart {})",
            target.device, target.device
        ));
        match back(dir, target, request, &mut ends).await {
            Ok(Some(again)) => connection = again,
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        }
        tell_about(&format!(
            "{} runs again; the capture goes on",
            target.device
        ));
    };
    drop(ends);
    let Ok(written) = tokio::time::timeout(END_TIMEOUT, &mut done).await else {
        bail!("what is captured is not read: the rest of it was given up");
    };
    let Written { captured } = written.context("the writer has failed")??;
    outcome?;
    Ok(Tally { captured, lost })
}

/// Asks the device. The inner error is that it is not there.
async fn begin(target: &Target, request: &CaptureRequest) -> Result<Result<Connection>> {
    let exchange = async {
        let connection = Connection::connect(&target.socket).await?;
        connection.send(&wire::control::encode(request)?).await?;
        let reply = connection.receive().await?;
        Ok::<_, anyhow::Error>((connection, reply))
    };
    let answered = match tokio::time::timeout(ANSWER_TIMEOUT, exchange).await {
        Ok(answered) => answered,
        Err(_) => bail!("{} does not answer", target.device),
    };
    let (connection, reply) = match answered {
        Ok((connection, Some(reply))) => (connection, reply),
        Ok((_, None)) => return Ok(Err(io::Error::from(io::ErrorKind::BrokenPipe).into())),
        Err(error) => return Ok(Err(error)),
    };
    match wire::control::decode(&reply)? {
        CaptureReply::Started => Ok(Ok(connection)),
        CaptureReply::Refused(why) => bail!("{} refuses: {why}", target.name),
    }
}

/// Waits for a device that has ended; `None` if that is enough.
async fn back(
    dir: &FabricDir,
    target: &Target,
    request: &CaptureRequest,
    ends: &mut Ends,
) -> Result<Option<Connection>> {
    loop {
        tokio::select! {
            () = ends.enough() => return Ok(None),
            () = tokio::time::sleep(RETURN_INTERVAL) => {}
        }
        if !dir.exists() {
            bail!("the fabric was taken down");
        }
        if let Ok(connection) = begin(target, request).await? {
            return Ok(Some(connection));
        }
    }
}

/// Passes messages on until they end; also how many packets the device has lost.
async fn follow(connection: &mut Connection, ends: &mut Ends) -> (Ending, u64) {
    let mut lost = 0;
    let mut unwritten = None;
    loop {
        let received = tokio::select! {
            biased;
            () = ends.enough() => break,
            received = connection.receive() => received,
        };
        match taken(received, &mut lost) {
            Ok(message) => {
                if let Err(message) = ends.pass(message).await {
                    unwritten = Some(message);
                    break;
                }
            }
            Err(ending) => return (ending, lost),
        }
    }
    let rest = rest(connection, ends, unwritten, &mut lost);
    // Whatever a device does not hand over within this time is not known.
    let _ = tokio::time::timeout(END_TIMEOUT, rest).await;
    (Ending::Enough, lost)
}

/// Ends the capture at the device, and takes what it still has, behind what the writer had no room for.
async fn rest(connection: &Connection, ends: &Ends, unwritten: Option<Vec<u8>>, lost: &mut u64) {
    let asked = connection.send(&[0]).await;
    if let Some(message) = unwritten {
        let _ = ends.batches.send(message).await;
    }
    if asked.is_err() {
        return;
    }
    // After the writer has ended, messages only tell what is lost.
    while let Ok(message) = taken(connection.receive().await, lost) {
        let _ = ends.batches.send(message).await;
    }
}

fn taken(received: io::Result<Option<Vec<u8>>>, lost: &mut u64) -> Result<Vec<u8>, Ending> {
    let Ok(Some(message)) = received else {
        return Err(Ending::Gone);
    };
    let Ok((header, _)) = MessageHeader::parse(&message) else {
        return Err(Ending::Gone);
    };
    *lost = header.lost;
    if header.is_last {
        return Err(Ending::Last);
    }
    Ok(message)
}
