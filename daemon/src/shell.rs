//! The shell of a device's process: its core on a dataplane thread, its control socket, and the
//! way out. What one kind of device has beyond that is handed in.
//!
//! ```text
//!  <name>.ctl --- DeviceControl --- requests -> dataplane thread (core) ---> recording, if asked for
//!  others of the kind's own ---+     ^              |  |
//!                                    +--- events ---+  |
//!  <name>.tap <-- packets of captures -----------------+
//! ```

use std::future::Future;
use std::io;
use std::rc::Rc;
use std::thread::JoinHandle;
use std::time::Duration;

use bincode::{Decode, Encode};
use link::{Deadline, Device, FrameBuf, Input, PortConfig, PortSet, Time};
use recording::{Header, Kind};
use thiserror::Error;
use tokio::task::LocalSet;
use wire::PortNum;

use crate::args::{DeviceArgs, LinkArgs};
use crate::cables::Cables;
use crate::capture;
use crate::control::serve_with_descriptors;
use crate::device::{DeviceControl, Protocol};
use crate::logging::LogArgs;
use crate::recorder::{Recording, Writer};
use crate::signals::ShutdownSignals;
use netio::NetError;
use netio::dataplane::{self, Events, RequestError, Running, Settings};
use netio::directory::PrivateDirectory;
use netio::event::Doorbells;
use netio::seqpacket::Listener;

/// How long the dataplane thread may take to end after the request to stop. It sends for a tenth of
/// a second at most.
const THREAD_END_TIMEOUT: Duration = Duration::from_secs(5);

/// Why a daemon ends that was not asked to shut down.
#[derive(Debug, Error)]
pub enum DaemonError {
    /// The system refuses something at the start.
    #[error(transparent)]
    Net(#[from] NetError),
    /// The control socket, a signal or the dataplane's events cannot be waited for.
    #[error("cannot wait for {what}: {cause}")]
    Wait {
        /// For what.
        what: &'static str,
        /// Why not.
        cause: io::Error,
    },
    /// The dataplane thread is not there any more.
    #[error("the dataplane thread has ended by itself")]
    Ended,
    /// The dataplane thread takes no request to end, or does not follow it.
    #[error("the dataplane thread is stuck: it does not end when it is stopped")]
    Stuck,
    /// The core has panicked.
    #[error("the dataplane thread has panicked")]
    Panicked,
}

fn wait(what: &'static str) -> impl FnOnce(io::Error) -> DaemonError {
    move |cause| DaemonError::Wait { what, cause }
}

/// Runs a daemon's control thread: its logs, and whatever `main` waits for.
///
/// # Errors
/// If the runtime cannot be had; else what `main` returns.
pub fn run<E: From<NetError>>(
    logs: &LogArgs,
    main: impl Future<Output = Result<(), E>>,
) -> Result<(), E> {
    let _logs = crate::logging::start(logs);
    wire::crc::prepare();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()
        .map_err(|cause| NetError::new("start the control runtime", cause))?;
    LocalSet::new().block_on(&runtime, main)
}

/// A core, recorded or not.
pub struct Core<C, E>(Box<dyn Device<Command = C, Event = E> + Send>);

impl<C, E> Device for Core<C, E> {
    type Command = C;
    type Event = E;

    fn handle(&mut self, now: Time, input: Input<'_, C>) {
        self.0.handle(now, input);
    }

    fn ready(&self, now: Time) -> PortSet {
        self.0.ready(now)
    }

    fn transmit(&mut self, now: Time, port: PortNum, frame: &mut FrameBuf<'_>) -> usize {
        self.0.transmit(now, port, frame)
    }

    fn poll_event(&mut self) -> Option<E> {
        self.0.poll_event()
    }

    fn deadline(&self) -> Option<Deadline> {
        self.0.deadline()
    }
}

/// The configuration of a device and of its process.
#[derive(Debug)]
pub struct Plan<'a, C> {
    /// The kind of device.
    pub kind: Kind,
    /// The configuration of its core.
    pub config: &'a C,
    /// Its external ports.
    pub ports: u8,
    /// Each of them.
    pub port: &'a PortConfig,
    /// Who it is and where.
    pub device: &'a DeviceArgs,
    /// How its links run.
    pub links: &'a LinkArgs,
}

/// A device whose process stands.
pub struct Daemon<P: Protocol, E> {
    control: Rc<DeviceControl<P>>,
    listener: Listener,
    captures: Listener,
    cables: Vec<PortNum>,
    signals: ShutdownSignals,
    events: Events<E>,
    thread: JoinHandle<()>,
    writer: Option<Writer>,
}

impl<P, E> Daemon<P, E>
where
    P: Protocol<Request: Decode<()>, Reply: Encode> + 'static,
    P::Command: Encode + Send + 'static,
    E: Encode + Send + 'static,
{
    /// Opens the links, starts the core and binds the control socket. To be called inside
    /// [`run`].
    ///
    /// # Errors
    /// [`DaemonError`]: what the system refuses.
    pub fn start<D, C>(plan: &Plan<'_, C>, core: D) -> Result<Self, DaemonError>
    where
        D: Device<Command = P::Command, Event = E> + Send + 'static,
        C: Encode,
    {
        Self::start_with(plan, core, None, |core| core)
    }

    /// As [`Self::start`], with something around the core, outside what is recorded, that gets a tick when one
    /// of `doorbells` has been signalled.
    ///
    /// # Errors
    /// [`DaemonError`]: what the system refuses.
    pub fn start_with<D, C, O>(
        plan: &Plan<'_, C>,
        core: D,
        doorbells: Option<Doorbells>,
        around: impl FnOnce(Core<P::Command, E>) -> O,
    ) -> Result<Self, DaemonError>
    where
        D: Device<Command = P::Command, Event = E> + Send + 'static,
        C: Encode,
        O: Device<Command = P::Command, Event = E> + Send + 'static,
    {
        let signals = ShutdownSignals::new().map_err(wait("signals"))?;
        let (cables, links) = Cables::open(&plan.device.links, plan.ports, plan.device.tunnels())?;
        Cables::check_room(&links, plan.port);
        // A user who can write to the directory of the sockets could put sockets of their own there.
        drop(PrivateDirectory::open(&plan.device.dir)?);
        let settings = Settings {
            name: plan.device.name.clone(),
            frame_packets: usize::from(plan.links.frame_packets),
        };
        let (core, writer): (Core<P::Command, E>, _) = match recording(plan)? {
            None => (Core(Box::new(core)), None),
            Some(recording) => {
                let (core, writer) = recording.of(core);
                (Core(Box::new(core)), Some(writer))
            }
        };
        let device = around(core);
        let ports = cables.ports();
        let running = dataplane::spawn_with(settings, links, doorbells, move || device)?;
        let Running {
            handle,
            events,
            thread,
        } = running;
        Ok(Self {
            control: Rc::new(DeviceControl::new(handle, cables)),
            // What answers on the control socket has the other one, too.
            captures: Listener::bind(&plan.device.socket("tap"))?,
            listener: Listener::bind(&plan.device.socket("ctl"))?,
            cables: ports,
            signals,
            events,
            thread,
            writer,
        })
    }

    /// The handler of requests of the control socket.
    #[must_use]
    pub fn control(&self) -> &Rc<DeviceControl<P>> {
        &self.control
    }

    /// Serves the device until it is asked to shut down, or `other_services` ends, which may serve other
    /// sockets; `on_event` gets the events of the core. Then link-down records go to the
    /// peers, and all is closed.
    ///
    /// # Errors
    /// Of `other_services`, or [`DaemonError`].
    pub async fn serve<X: From<DaemonError>>(
        mut self,
        mut on_event: impl FnMut(E),
        other_services: impl Future<Output = Result<(), X>>,
    ) -> Result<(), X> {
        let handler = {
            let control = Rc::clone(&self.control);
            move |request, descriptors| {
                let control = Rc::clone(&control);
                async move { control.answer(request, descriptors).await }
            }
        };
        let events = &mut self.events;
        let outcome = tokio::select! {
            ended = serve_with_descriptors(&self.listener, handler) => {
                ended.map_err(wait("clients of the control socket")).map_err(X::from)
            }
            ended = capture::serve(&self.captures, self.control.handle(), &self.cables) => {
                ended.map_err(wait("clients of the capture socket")).map_err(X::from)
            }
            ended = forward_events(events, &mut on_event) => Err(ended.err().unwrap_or(DaemonError::Ended).into()),
            ended = other_services => ended,
            () = self.control.shutdown_requested() => Ok(()),
            () = self.signals.next() => Ok(()),
        };
        let left = end_dataplane(&self.control, events, &mut on_event).await;
        if matches!(left, Err(DaemonError::Stuck)) {
            // Neither the thread nor its recording can be waited for; both end with the process.
            return Err(DaemonError::Stuck.into());
        }
        let joined = self.thread.join();
        // Of a core that has panicked, what led there is worth most.
        if let Some(writer) = self.writer {
            writer.finish();
        }
        if joined.is_err() {
            return Err(DaemonError::Panicked.into());
        }
        left?;
        outcome
    }
}

/// Stops the dataplane thread, and hands on its events until it has ended.
async fn end_dataplane<P: Protocol, E>(
    control: &DeviceControl<P>,
    events: &mut Events<E>,
    on_event: &mut impl FnMut(E),
) -> Result<(), DaemonError> {
    match control.begin_shutdown().await {
        Ok(()) => {}
        Err(RequestError::Ended) => return Ok(()),
        Err(RequestError::Full) => return Err(DaemonError::Stuck),
    }
    match tokio::time::timeout(THREAD_END_TIMEOUT, forward_events(events, on_event)).await {
        Ok(ended) => ended,
        Err(_) => Err(DaemonError::Stuck),
    }
}

/// The recording that was asked for.
fn recording<C: Encode>(plan: &Plan<'_, C>) -> Result<Option<Recording>, NetError> {
    let Some(path) = &plan.device.record else {
        return Ok(None);
    };
    let config = wire::control::encode(plan.config).map_err(|error| {
        NetError::new(
            format!("record to {}", path.display()),
            io::Error::other(error),
        )
    })?;
    let header = Header {
        kind: plan.kind,
        name: plan.device.name.clone(),
        config,
    };
    Recording::start(path, &header).map(Some)
}

/// Hands on the events of the core, until the dataplane thread has ended.
async fn forward_events<E>(
    events: &mut Events<E>,
    on_event: &mut impl FnMut(E),
) -> Result<(), DaemonError> {
    let failed = wait("events of the dataplane");
    loop {
        match events.next().await {
            Ok(Some(event)) => on_event(event),
            Ok(None) => return Ok(()),
            Err(error) => return Err(failed(error)),
        }
    }
}

#[cfg(test)]
mod tests;
