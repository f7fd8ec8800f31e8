//! The host's shell: its arguments, its link, its control socket, and the sockets of programs that
//! send management datagrams.
//!
//! ```text
//!  <name>.ctl ---- ControlSide ---+
//!  <name>.mad ---- MadServer -----+--- orders ---> dataplane thread (Host)
//!  <base>:ctl, --- Umad ----------+                     |
//!  <base>:out<K>                  ^                     |
//!                                 +------ events -------+
//! ```

mod mads;
mod umad;

use std::rc::Rc;

use anyhow::{Context, Result, bail};
use clap::Parser;
use hostd::control::{Reply, Request};
use hostd::{Command, Event, Host, HostConfig};
use link::control::{DeviceReply, DeviceRequest};
use netio::args::{DeviceArgs, LinkArgs};
use netio::cables::Cables;
use netio::control::serve;
use netio::dataplane::{self, Events, Running, Settings};
use netio::device::{ControlSide, Protocol};
use netio::seqpacket::Listener;
use netio::signals::LeaveSignals;
use tokio::task::LocalSet;

use mads::MadServer;
use umad::Umad;

/// The only port of a host.
const PORTS: u8 = 1;

/// Runs one end node of an ibemu fabric
#[derive(Parser, Debug)]
#[command(name = "hostd", version)]
pub(crate) struct Arguments {
    #[command(flatten)]
    device: DeviceArgs,

    /// Serve programs linked to libibumad, started with ibsim's client library, at the abstract
    /// sockets BASE:ctl and BASE:out<K>
    #[arg(long, value_name = "BASE")]
    umad_socket: Option<String>,

    #[command(flatten)]
    link: LinkArgs,
}

/// Runs the host until it is told to leave.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    netio::logging::to_stderr(arguments.device.log_level);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()
        .context("cannot start the control runtime")?;
    LocalSet::new().block_on(&runtime, serve_fabric(arguments))
}

async fn serve_fabric(arguments: &Arguments) -> Result<()> {
    let mut signals = LeaveSignals::new().context("cannot watch for signals")?;
    let device = &arguments.device;
    let port = arguments.link.port_config()?;
    let host = Host::new(HostConfig {
        name: device.name.clone(),
        guid: device.guid,
        pid: std::process::id(),
        port,
        traffic_tick_ns: HostConfig::LIVE_TRAFFIC_TICK_NS,
    })?;
    let (cables, links) = Cables::open(&device.links, PORTS)?;
    Cables::check_room(&links, &port);
    let settings = Settings {
        name: device.name.clone(),
        frame_packets: usize::from(arguments.link.frame_packets),
    };
    let Running {
        handle,
        mut events,
        thread,
    } = dataplane::spawn(settings, links, move || host)?;
    let sides = Sides {
        mads: Rc::new(MadServer::new(handle.clone())),
        umad: match &arguments.umad_socket {
            Some(base) => Some(Rc::new(Umad::open(base, device, handle.clone())?)),
            None => None,
        },
        control: Rc::new(ControlSide::new(handle, cables)),
    };
    let mad_listener = Listener::bind(&device.socket("mad"))?;
    let listener = Listener::bind(&device.socket("ctl"))?;
    let handler = {
        let control = Rc::clone(&sides.control);
        move |request| {
            let control = Rc::clone(&control);
            async move { control.answer(request).await }
        }
    };
    let outcome = tokio::select! {
        ended = serve(&listener, handler) => ended.context("the control socket failed"),
        ended = sides.mads.serve(&mad_listener) => ended.context("the MAD socket failed"),
        ended = sides.serve_umad() => ended,
        ended = sides.pass_events(&mut events) => {
            ended.and_then(|()| bail!("the dataplane thread has ended by itself"))
        }
        () = sides.control.told_to_leave() => Ok(()),
        () = signals.next() => Ok(()),
    };
    if sides.control.leave() {
        sides.pass_events(&mut events).await?;
    }
    if thread.join().is_err() {
        bail!("the dataplane thread has panicked");
    }
    outcome
}

/// All that speaks to the host from its control thread.
struct Sides {
    control: Rc<ControlSide<Speech>>,
    mads: Rc<MadServer>,
    umad: Option<Rc<Umad>>,
}

impl Sides {
    async fn serve_umad(&self) -> Result<()> {
        match &self.umad {
            Some(umad) => Umad::serve(umad).await,
            None => std::future::pending().await,
        }
    }

    /// Hands what the core tells to whom it is for; ends when the dataplane thread does.
    async fn pass_events(&self, events: &mut Events<Event>) -> Result<()> {
        while let Some(event) = events.next().await.context("cannot wait for events")? {
            match event {
                Event::Control { token, reply } => self.control.finish(token, reply),
                Event::Mad { client, message } => match (umad::slot(client), &self.umad) {
                    (Some(slot), Some(umad)) => umad.hear(slot, message),
                    (Some(_), None) => {}
                    (None, _) => self.mads.hear(client, message),
                },
                // Logged by the core, and awaited by whoever asked for it.
                // No local socket opens queue pairs yet.
                Event::PortState(_) | Event::Shutdown | Event::Datagram { .. } => {}
            }
        }
        Ok(())
    }
}

/// How a host is spoken to.
struct Speech;

impl Protocol for Speech {
    type Request = Request;
    type Reply = Reply;
    type Command = Command;

    fn from_device(request: DeviceRequest) -> Request {
        Request::Device(request)
    }

    fn as_device(request: &Request) -> Option<&DeviceRequest> {
        match request {
            Request::Device(request) => Some(request),
            _ => None,
        }
    }

    fn reply(reply: DeviceReply) -> Reply {
        Reply::Device(reply)
    }

    fn as_device_reply(reply: &mut Reply) -> Option<&mut DeviceReply> {
        match reply {
            Reply::Device(reply) => Some(reply),
            _ => None,
        }
    }

    fn command(token: u64, request: Request) -> Command {
        Command::Control { token, request }
    }
}
