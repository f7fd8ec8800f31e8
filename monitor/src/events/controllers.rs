//! What the fabric's own controllers have done, from the logs that they keep.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::time::Duration;

use controller::control::{Happening, LogEntry, LogPage, Reply, Request};
use daemon::control::{AsyncControlClient, ControlError};
use wire::convert::real;

use super::event::{Event, Kind};
use super::queue::Queue;
use crate::wall::now_ms;

/// How often they are asked.
const INTERVAL: Duration = Duration::from_millis(250);
/// How long an answer is waited for.
const TIMEOUT: Duration = Duration::from_millis(500);
/// Pages of a log that are read at a time.
const PAGES_MAX: u32 = 16;

/// How far the log of one controller has been read.
#[derive(Debug)]
struct Reader<'a> {
    name: &'a str,
    socket: &'a Path,
    client: Option<AsyncControlClient>,
    /// The process, and its last entry that is known; `None` before the first attempt.
    known: Option<(u32, u64)>,
}

/// Tells what controllers log from now on: of one that does not run yet all.
pub(super) async fn follow(controllers: &[(String, PathBuf)], queue: &Queue) -> Infallible {
    let reader = |(name, socket): &'_ (String, PathBuf)| (name.clone(), socket.clone());
    let owned: Vec<(String, PathBuf)> = controllers.iter().map(reader).collect();
    let mut readers: Vec<Reader<'_>> = owned
        .iter()
        .map(|(name, socket)| Reader {
            name,
            socket,
            client: None,
            known: None,
        })
        .collect();
    loop {
        for reader in &mut readers {
            if let Err(error) = reader.read(queue).await {
                tracing::debug!(controller = reader.name, "its log is not read: {error}");
                reader.client = None;
                reader.known.get_or_insert((0, 0));
            }
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

impl Reader<'_> {
    async fn read(&mut self, queue: &Queue) -> Result<(), ControlError> {
        let mut client = match self.client.take() {
            Some(client) => client,
            None => AsyncControlClient::connect(self.socket, TIMEOUT).await?,
        };
        for _ in 0..PAGES_MAX {
            // What was done before the stream began is not told.
            let after = self.known.map_or(u64::MAX, |(_, after)| after);
            let Reply::Log(page) = client.request(&Request::Log { after }).await? else {
                return Ok(());
            };
            if !self.take(&page, queue) {
                break;
            }
        }
        self.client = Some(client);
        Ok(())
    }

    /// Tells the entries of a page. Whether there may be more.
    fn take(&mut self, page: &LogPage, queue: &Queue) -> bool {
        match self.known {
            None => {
                self.known = Some((page.pid, page.newest));
                return false;
            }
            // Another process: its log begins anew.
            Some((pid, _)) if pid != page.pid => {
                self.known = Some((page.pid, 0));
                return true;
            }
            Some(_) => {}
        }
        if page.lost > 0 {
            let text = format!("{} entries of {}'s log were lost", page.lost, self.name);
            queue.push(Event::new(Kind::Lost, text).with("count", page.lost));
        }
        let Some(last) = page.entries.last() else {
            return false;
        };
        self.known = Some((page.pid, last.number));
        for entry in &page.entries {
            queue.push(event(self.name, entry));
        }
        last.number < page.newest
    }
}

/// What an entry of that controller's log says.
pub(super) fn event(controller: &str, entry: &LogEntry) -> Event {
    let event = match &entry.what {
        Happening::SweepBegun { cause } => {
            Event::new(Kind::Sweep, format!("a sweep begins: {cause}"))
                .with("phase", "begin")
                .with("cause", cause.as_str())
        }
        Happening::SweepEnded {
            generation,
            duration_ns,
            switches,
            hosts,
            links,
            is_degraded,
        } => {
            let ms = real(*duration_ns) / 1e6;
            let missing = if *is_degraded {
                "; something is missing"
            } else {
                ""
            };
            let text = format!(
                "a sweep has ended after {ms:.1} ms: {switches} switches, {hosts} hosts, {links} cables{missing}"
            );
            Event::new(Kind::Sweep, text)
                .with("phase", "end")
                .with("sweeps", *generation)
                .with("duration_s", ms / 1e3)
                .with("switches", *switches)
                .with("hosts", *hosts)
                .with("links", *links)
                .with("degraded", *is_degraded)
        }
        Happening::Routed {
            engine,
            before,
            blocks,
        } => {
            let was = match before.as_deref() {
                None => String::new(),
                Some("") => ", the first tables".to_owned(),
                Some(before) => format!(", was {before}"),
            };
            let text = format!("routed by {engine}{was}; {blocks} blocks of tables written");
            let event = Event::new(Kind::Routing, text)
                .with("engine", engine.as_str())
                .with("blocks", *blocks);
            match before {
                Some(before) => event.with("before", before.as_str()),
                None => event,
            }
        }
        Happening::Warning { text } => Event::new(Kind::Warning, text.as_str()),
        Happening::Connection {
            id,
            source,
            destination,
            rate_bps,
            outcome,
        } => {
            let text = format!(
                "a connection from {source} to {destination} of {rate_bps} bit/s is {outcome}"
            );
            Event::new(Kind::Connection, text)
                .of(source.as_str())
                .with("id", *id)
                .with("destination", destination.as_str())
                .with("rate_bps", *rate_bps)
                .with("outcome", outcome.as_str())
        }
    };
    let at_ms = now_ms().saturating_sub(entry.age_ns / 1_000_000);
    event.at(at_ms).with("controller", controller)
}
