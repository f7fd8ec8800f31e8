//! The sampler: a thread that asks every port for its counters once an interval, through one host's MAD socket, and
//! subnet administration for devices, ports and cables whenever they may have changed.

mod book;
mod control;
mod discovery;
mod round;
#[cfg(test)]
pub(crate) mod tests;
mod worker;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use wire::{Guid, PortNum, SaKey};

use crate::history::{History, Point};
use crate::model::{ProcessFacts, Snapshot};

/// Through which host to sample.
#[derive(Clone, Debug)]
pub struct Source {
    /// Its MAD socket.
    pub mad_socket: PathBuf,
    /// The port of the host that its datagrams leave by.
    pub port: PortNum,
    /// The SM_Key of trusted requests, with which subnet administration tells all.
    pub sa_key: SaKey,
    /// Control sockets of devices, to be asked for what datagrams do not tell. Nothing else is asked there.
    pub devices: Vec<DeviceSocket>,
    /// Handles and control sockets of the fabric's own controllers.
    pub controllers: Vec<(String, PathBuf)>,
}

/// Where a device can be asked.
#[derive(Clone, Debug)]
pub struct DeviceSocket {
    /// Its node GUID.
    pub guid: Guid,
    /// Whether it is a switch, else a host.
    pub is_switch: bool,
    /// Its control socket.
    pub socket: PathBuf,
}

/// How to sample.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// From the begin of a sample to that of the next one.
    pub interval: Duration,
    /// From a look at the whole fabric to the next one, if nothing asks for it before. Six times that where one of the fabric's own
    /// controllers is master: it tells when it has swept, which is looked at at once.
    pub discovery_interval: Duration,
    /// Devices that are asked by their control sockets in one sample: all of them in turn.
    pub devices_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(1),
            discovery_interval: Duration::from_secs(10),
            devices_max: 32,
        }
    }
}

/// What the thread and its owner share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) latest: watch::Sender<Arc<Snapshot>>,
    history: Mutex<History>,
    processes: Mutex<Arc<[ProcessFacts]>>,
    pub(crate) discover: Notify,
    stop: Notify,
}

/// A sampler at work; its thread ends when it is dropped.
#[derive(Debug)]
pub struct Sampler {
    pub(crate) shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Sampler {
    /// Starts sampling. A host that cannot be reached is tried again: [`Snapshot::collection`] tells why.
    ///
    /// # Errors
    /// The system's, if the thread cannot be started.
    pub fn start(source: Source, options: Options) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            latest: watch::Sender::new(Arc::default()),
            history: Mutex::default(),
            processes: Mutex::new(Arc::default()),
            discover: Notify::new(),
            stop: Notify::new(),
        });
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let work = {
            let shared = Arc::clone(&shared);
            move || {
                runtime.block_on(async {
                    tokio::select! {
                        () = shared.stop.notified() => {}
                        never = worker::work(&shared, &source, options) => match never {},
                    }
                });
            }
        };
        let thread = std::thread::Builder::new()
            .name("sampler".to_owned())
            .spawn(work)?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// All that is known now; number 0 before the first sample.
    #[must_use]
    pub fn current(&self) -> Arc<Snapshot> {
        Arc::clone(&self.shared.latest.borrow())
    }

    /// Tells of each new sample; who is too slow for one gets the next.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.shared.latest.subscribe()
    }

    /// A port, by its place, in the last `span`: when, milliseconds since 1970, and what.
    #[must_use]
    pub fn history(&self, port: usize, span: Duration) -> Vec<(u64, Point)> {
        let span_ms = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        self.with_history(|history| history.port(port, span_ms))
    }

    /// Looks at the whole history. Sampling waits meanwhile: be short.
    pub fn with_history<T>(&self, look: impl FnOnce(&History) -> T) -> T {
        look(&lock(&self.shared.history))
    }

    /// Something of the fabric may have changed: look at devices, ports and cables with the next sample, which is
    /// taken at once.
    pub fn discover(&self) {
        self.shared.discover.notify_one();
    }

    /// What the supervisor says of processes; samples from here on show it.
    pub fn set_processes(&self, processes: Vec<ProcessFacts>) {
        *lock(&self.shared.processes) = processes.into();
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.shared.stop.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been told on standard error.
            let _ = thread.join();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
