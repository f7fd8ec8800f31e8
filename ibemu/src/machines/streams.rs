//! Local sockets of a fabric's directory, carried over a connection between two machines.
//!
//! On the machine where a device does not run, a listener stands in place of its socket; each connection to it is a
//! stream to the machine where the device runs, whose end there is a connection to the device's own socket.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use cluster::message::{CHUNK_BYTES_MAX, MESSAGE_COST, Message, STREAMS_MAX, WINDOW_BYTES, cost};
use netio::seqpacket::{Connection, Listener, MESSAGE_BYTES_MAX};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::wire::Outgoing;
use crate::dir::FabricDir;

/// What may wait in a stream: a whole window of the shortest chunks, as much credit, and the end.
const QUEUE: usize = 8192;
const _: () = assert!(QUEUE as u64 > 2 * (WINDOW_BYTES / MESSAGE_COST) as u64 + 1024);
/// What a peer may have sent beyond what was credited: its last message.
const EXCESS: u32 = 2 * WINDOW_BYTES;

/// What has come for a stream.
#[derive(Debug)]
enum Event {
    Data { is_last: bool, bytes: Vec<u8> },
    Credit(u32),
    Close,
}

#[derive(Debug)]
struct Stream {
    events: mpsc::Sender<Event>,
    /// What has come and was not credited yet.
    uncredited: Rc<Cell<u32>>,
}

/// The streams of one connection.
#[derive(Debug)]
pub(super) struct Streams {
    dir: FabricDir,
    outgoing: Outgoing,
    next: Cell<u32>,
    /// Sockets that the peer may open.
    served: BTreeSet<String>,
    open: RefCell<BTreeMap<u32, Stream>>,
    /// Listeners in place of the peer's sockets.
    listeners: RefCell<Vec<JoinHandle<()>>>,
}

impl Streams {
    /// Streams over the connection that `outgoing` sends by; the peer may open sockets of `served`.
    pub(super) fn new(
        dir: &FabricDir,
        outgoing: Outgoing,
        is_supervisor: bool,
        served: BTreeSet<String>,
    ) -> Rc<Self> {
        Rc::new(Self {
            dir: dir.clone(),
            outgoing,
            next: Cell::new(u32::from(!is_supervisor)),
            served,
            open: RefCell::default(),
            listeners: RefCell::default(),
        })
    }

    /// Listens in place of sockets of the peer.
    ///
    /// # Errors
    /// If one cannot be bound.
    pub(super) fn stand_for<'a>(
        self: &Rc<Self>,
        sockets: impl IntoIterator<Item = &'a String>,
    ) -> anyhow::Result<()> {
        for socket in sockets {
            let listener = Listener::bind(&self.dir.path().join(socket))?;
            let streams = Rc::clone(self);
            let socket = socket.clone();
            let listening = tokio::task::spawn_local(async move {
                while let Ok(connection) = listener.accept().await {
                    streams.begin(connection, &socket).await;
                }
            });
            self.listeners.borrow_mut().push(listening);
        }
        Ok(())
    }

    async fn begin(self: &Rc<Self>, local: Connection, socket: &str) {
        let number = self.next.get();
        self.next.set(number.wrapping_add(2));
        let Some(carried) = self.add(number) else {
            return;
        };
        let open = Message::Open {
            stream: number,
            socket: socket.to_owned(),
        };
        if self.outgoing.send(open).await {
            tokio::task::spawn_local(Rc::clone(self).carry(number, local, carried));
        }
    }

    fn add(&self, number: u32) -> Option<Carried> {
        let mut open = self.open.borrow_mut();
        if open.len() >= STREAMS_MAX || open.contains_key(&number) {
            tracing::warn!("too many connections to devices of another machine: one is refused");
            return None;
        }
        let (sender, events) = mpsc::channel(QUEUE);
        let uncredited = Rc::new(Cell::new(0));
        let stream = Stream {
            events: sender,
            uncredited: Rc::clone(&uncredited),
        };
        open.insert(number, stream);
        Some(Carried { events, uncredited })
    }

    /// Takes a message about streams; others are passed over. Never waits.
    pub(super) fn take(self: &Rc<Self>, message: Message) {
        match message {
            Message::Open { stream, socket } => self.opened(stream, socket),
            Message::Data {
                stream,
                is_last,
                bytes,
            } => self.pass(stream, Event::Data { is_last, bytes }),
            Message::Credit { stream, bytes } => self.pass(stream, Event::Credit(bytes)),
            Message::Close { stream } => self.pass(stream, Event::Close),
            _ => {}
        }
    }

    fn opened(self: &Rc<Self>, number: u32, socket: String) {
        let is_peers = number % 2 != self.next.get() % 2;
        let carried = match is_peers && self.served.contains(&socket) {
            true => self.add(number),
            false => None,
        };
        let streams = Rc::clone(self);
        tokio::task::spawn_local(async move {
            let connected = match &carried {
                Some(_) => Connection::connect(&streams.dir.path().join(socket))
                    .await
                    .ok(),
                None => None,
            };
            match (connected, carried) {
                (Some(local), Some(carried)) => streams.carry(number, local, carried).await,
                (_, carried) => {
                    if carried.is_some() {
                        streams.open.borrow_mut().remove(&number);
                    }
                    let _ = streams
                        .outgoing
                        .send(Message::Close { stream: number })
                        .await;
                }
            }
        });
    }

    fn pass(&self, number: u32, event: Event) {
        let mut open = self.open.borrow_mut();
        let Some(stream) = open.get(&number) else {
            // It has ended here while the message was on its way.
            return;
        };
        if let Event::Data { bytes, .. } = &event {
            let uncredited = stream.uncredited.get().saturating_add(cost(bytes.len()));
            stream.uncredited.set(uncredited);
        }
        let is_beyond = stream.uncredited.get() > EXCESS;
        if is_beyond || stream.events.try_send(event).is_err() {
            // The end of the sender ends the stream.
            open.remove(&number);
        }
    }

    /// Carries messages between a local socket and a stream until either ends.
    async fn carry(self: Rc<Self>, number: u32, local: Connection, carried: Carried) {
        let mut end = End {
            streams: &self,
            number,
            local: &local,
            room: i64::from(WINDOW_BYTES),
            partial: Vec::new(),
            owed: 0,
            uncredited: carried.uncredited,
        };
        let mut events = carried.events;
        loop {
            let goes_on = tokio::select! {
                received = local.receive(), if end.room > 0 => match received {
                    Ok(Some(message)) => end.send(&message).await,
                    _ => false,
                },
                event = events.recv() => match event {
                    Some(Event::Data { is_last, bytes }) => end.take(is_last, &bytes).await,
                    Some(Event::Credit(bytes)) => {
                        end.room = (end.room + i64::from(bytes)).min(i64::from(WINDOW_BYTES));
                        true
                    }
                    Some(Event::Close) | None => false,
                },
            };
            if !goes_on {
                break;
            }
        }
        self.open.borrow_mut().remove(&number);
        let _ = self.outgoing.send(Message::Close { stream: number }).await;
    }

    /// Ends all streams, and no longer stands for any socket.
    pub(super) fn end(&self) {
        for listener in self.listeners.borrow_mut().drain(..) {
            listener.abort();
        }
        self.open.borrow_mut().clear();
    }
}

#[derive(Debug)]
struct Carried {
    events: mpsc::Receiver<Event>,
    uncredited: Rc<Cell<u32>>,
}

/// One end of a stream.
struct End<'a> {
    streams: &'a Streams,
    number: u32,
    local: &'a Connection,
    /// What may still be sent.
    room: i64,
    /// The chunks of a message so far.
    partial: Vec<u8>,
    /// What was taken and is not credited yet.
    owed: u32,
    uncredited: Rc<Cell<u32>>,
}

impl End<'_> {
    /// Sends a message of the local socket; whether the connection stands.
    async fn send(&mut self, message: &[u8]) -> bool {
        let count = message.len().div_ceil(CHUNK_BYTES_MAX);
        for (chunk, bytes) in (1..).zip(message.chunks(CHUNK_BYTES_MAX)) {
            self.room -= i64::from(cost(bytes.len()));
            let data = Message::Data {
                stream: self.number,
                is_last: chunk == count,
                bytes: bytes.to_vec(),
            };
            if !self.streams.outgoing.send(data).await {
                return false;
            }
        }
        true
    }

    /// Takes a chunk; with the last one the message goes to the local socket. Whether that stands.
    async fn take(&mut self, is_last: bool, bytes: &[u8]) -> bool {
        self.owed = self.owed.saturating_add(cost(bytes.len()));
        if self.partial.len() + bytes.len() > MESSAGE_BYTES_MAX {
            return false;
        }
        self.partial.extend_from_slice(bytes);
        if !is_last {
            return true;
        }
        let message = std::mem::take(&mut self.partial);
        if message.is_empty() || self.local.send(&message).await.is_err() {
            return false;
        }
        let owed = std::mem::take(&mut self.owed);
        self.uncredited
            .set(self.uncredited.get().saturating_sub(owed));
        let credit = Message::Credit {
            stream: self.number,
            bytes: owed,
        };
        self.streams.outgoing.send(credit).await
    }
}
