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

use anyhow::{Context, Result};
use clap::Parser;
use daemon::args::{DeviceArgs, LinkArgs};
use daemon::device::{ControlSide, Protocol};
use daemon::shell::{Daemon, Plan};
use hostd::control::{Reply, Request};
use hostd::{Command, Event, Host, HostConfig};
use netio::seqpacket::Listener;
use recording::Kind;
use wire::control::{DeviceReply, DeviceRequest};

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
    daemon::shell::run(arguments.device.log_level, serve_fabric(arguments))
}

async fn serve_fabric(arguments: &Arguments) -> Result<()> {
    let device = &arguments.device;
    let config = HostConfig {
        name: device.name.clone(),
        guid: device.guid,
        pid: std::process::id(),
        port: arguments.link.port_config()?,
        traffic_tick_ns: HostConfig::LIVE_TRAFFIC_TICK_NS,
    };
    let plan = Plan {
        kind: Kind::Host,
        config: &config,
        ports: PORTS,
        port: &config.port,
        device,
        links: &arguments.link,
    };
    let daemon = Daemon::<Speech, Event>::start(&plan, Host::new(config.clone())?)?;
    let handle = daemon.control().handle();
    let sides = Rc::new(Sides {
        mads: Rc::new(MadServer::new(handle.clone())),
        umad: match &arguments.umad_socket {
            Some(base) => Some(Rc::new(Umad::open(base, device, handle.clone())?)),
            None => None,
        },
        control: Rc::clone(daemon.control()),
    });
    let mad_listener = Listener::bind(&device.socket("mad"))?;
    let beside = {
        let sides = Rc::clone(&sides);
        async move {
            tokio::select! {
                ended = sides.mads.serve(&mad_listener) => ended.context("the MAD socket failed"),
                ended = sides.serve_umad() => ended,
            }
        }
    };
    daemon.serve(move |event| sides.hear(event), beside).await
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

    /// Hands what the core tells to whom it is for.
    fn hear(&self, event: Event) {
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
