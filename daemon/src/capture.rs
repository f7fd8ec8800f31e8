//! The capture socket of a device: packets of its ports, for local programs ([`wire::capture`]).
//!
//! ```text
//!  <name>.tap <-- CaptureRequest ------ one task a client ---- Tap ---> dataplane thread
//!             --- CaptureReply ------->      ^                             |
//!             --- messages of packets ->     +-------- Captured <----------+
//! ```
//!
//! A client that does not read keeps its own task waiting and nobody else: what comes meanwhile is bounded and counted as
//! lost ([`netio::dataplane::Taps`]).

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use netio::dataplane::{Captured, Handle};
use netio::seqpacket::{Connection, Listener};
use tokio::task::JoinSet;
use wire::capture::{CaptureReply, CaptureRequest, MessageHeader};
use wire::{Format as _, PortNum};

/// Captures of a device at once.
pub const CAPTURES_MAX: usize = 8;

/// Clients at once, of which some may not have asked yet.
const CLIENTS_MAX: usize = 4 * CAPTURES_MAX;

/// Serves the capture socket of a device with these cables. To be run inside a [`tokio::task::LocalSet`]; dropping the future ends
/// all captures.
///
/// # Errors
/// When accepting fails.
pub async fn serve<C: 'static>(
    listener: &Listener,
    handle: &Handle<C>,
    cables: &[PortNum],
) -> io::Result<()> {
    let server = Rc::new(Server {
        handle: handle.clone(),
        cables: cables.to_vec(),
        captures: Cell::new(0),
        last: Cell::new(0),
    });
    let mut clients = JoinSet::new();
    loop {
        let connection = listener.accept().await?;
        while clients.try_join_next().is_some() {}
        if clients.len() == CLIENTS_MAX {
            // Whoever has not asked yet would not be answered either.
            tracing::warn!("a client of captures was turned away: there are {CLIENTS_MAX}");
            continue;
        }
        let server = Rc::clone(&server);
        clients.spawn_local(async move {
            if let Err(error) = server.serve(&connection).await {
                tracing::debug!("a capture ended: {error}");
            }
        });
    }
}

/// How long a client may take to say what it wants.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

struct Server<C> {
    handle: Handle<C>,
    cables: Vec<PortNum>,
    /// How many captures run.
    captures: Cell<usize>,
    /// The number of the last one.
    last: Cell<u64>,
}

/// One more capture, until this is dropped.
struct Place<'a>(&'a Cell<usize>);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl<C> Server<C> {
    async fn serve(&self, connection: &Connection) -> io::Result<()> {
        let asked = tokio::time::timeout(REQUEST_TIMEOUT, connection.receive());
        let Some(message) = asked.await.unwrap_or(Ok(None))? else {
            return Ok(());
        };
        let request = match wire::control::decode::<CaptureRequest>(&message) {
            Ok(request) => request,
            Err(error) => return refuse(connection, error.to_string()).await,
        };
        if let Err(why) = self.check(&request) {
            return refuse(connection, why).await;
        }
        self.captures.set(self.captures.get() + 1);
        let _place = Place(&self.captures);
        let number = self.last.get() + 1;
        self.last.set(number);
        let (tap, captured) = Captured::new(number, request);
        if let Err(error) = self.handle.tap(tap) {
            return refuse(connection, error.to_string()).await;
        }
        reply(connection, &CaptureReply::Started).await?;
        self.pass_on(connection, captured).await
    }

    fn check(&self, request: &CaptureRequest) -> Result<(), String> {
        if !self.cables.contains(&request.port) {
            return Err(format!("no cable is in port {}", request.port));
        }
        if !request.filter.is_bounded() {
            return Err("the filter has too many terms".to_owned());
        }
        if self.captures.get() >= CAPTURES_MAX {
            let why = "captures run at this device already, which is the most; end one of them";
            return Err(format!("{CAPTURES_MAX} {why}"));
        }
        Ok(())
    }

    /// Sends what is captured until the client has had enough, or has gone.
    async fn pass_on(&self, connection: &Connection, mut captured: Captured) -> io::Result<()> {
        loop {
            let chunk = tokio::select! {
                biased;
                // Whatever it says, it is the end.
                said = connection.receive() => match said? {
                    Some(_) => break,
                    None => return Ok(()),
                },
                chunk = captured.next() => chunk,
            };
            let Some(packets) = chunk else {
                return Ok(());
            };
            send(connection, captured.lost(), &packets).await?;
        }
        captured
            .stop(&self.handle)
            .map_err(|error| io::Error::other(error.to_string()))?;
        while let Some(packets) = captured.next().await {
            send(connection, captured.lost(), &packets).await?;
        }
        let last = MessageHeader {
            is_last: true,
            lost: captured.lost(),
        };
        connection
            .send(&last.to_bytes::<{ MessageHeader::LEN }>())
            .await
    }
}

async fn send(connection: &Connection, lost: u64, packets: &[u8]) -> io::Result<()> {
    let header = MessageHeader {
        is_last: false,
        lost,
    };
    let mut message = Vec::with_capacity(MessageHeader::LEN + packets.len());
    message.extend_from_slice(&header.to_bytes::<{ MessageHeader::LEN }>());
    message.extend_from_slice(packets);
    connection.send(&message).await
}

async fn refuse(connection: &Connection, why: String) -> io::Result<()> {
    reply(connection, &CaptureReply::Refused(why)).await
}

async fn reply(connection: &Connection, reply: &CaptureReply) -> io::Result<()> {
    let message = wire::control::encode(reply).map_err(io::Error::other)?;
    connection.send(&message).await
}
