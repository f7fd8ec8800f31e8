//! The host's shell: its arguments, its link, its control socket, and the sockets of programs that
//! send management datagrams.
//!
//! ```text
//!  <name>.ctl ---- DeviceControl ---+
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
use daemon::device::DeviceControl;
use daemon::shell::{Daemon, Plan};
use hostd::control::{Reply, Request};
use hostd::{Command, Event, Host, HostConfig};
use netio::seqpacket::Listener;
use recording::Kind;

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
    /// sockets BASE:ctl and BASE:out<K>; without it, the environment's IBEMU_UMAD_SOCKET counts
    #[arg(long, value_name = "BASE")]
    umad_socket: Option<String>,

    #[command(flatten)]
    link: LinkArgs,
}

impl Arguments {
    /// The base of the abstract names. Other users can read a command line, but no environment.
    #[expect(
        clippy::disallowed_methods,
        reason = "the daemon reads its environment for the core"
    )]
    fn umad_base(&self) -> Option<String> {
        let told = || std::env::var(hostd::UMAD_SOCKET).ok();
        self.umad_socket.clone().or_else(told)
    }
}

/// Runs the host until shutdown is requested.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    daemon::shell::run(&arguments.device.logs, serve_fabric(arguments))
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
    let daemon = Daemon::<HostProtocol, Event>::start(&plan, Host::new(config.clone())?)?;
    let handle = daemon.control().handle();
    let sockets = Rc::new(Sockets {
        mads: Rc::new(MadServer::new(handle.clone())),
        umad: match &arguments.umad_base() {
            Some(base) => Some(Rc::new(Umad::open(base, device, handle.clone())?)),
            None => None,
        },
        control: Rc::clone(daemon.control()),
    });
    let mad_listener = Listener::bind(&device.socket("mad"))?;
    let beside = {
        let sockets = Rc::clone(&sockets);
        async move {
            tokio::select! {
                ended = sockets.mads.serve(&mad_listener) => ended.context("the MAD socket failed"),
                ended = sockets.serve_umad() => ended,
            }
        }
    };
    daemon
        .serve(move |event| sockets.on_message(event), beside)
        .await
}

/// The sockets of the host's control thread.
struct Sockets {
    control: Rc<DeviceControl<HostProtocol>>,
    mads: Rc<MadServer>,
    umad: Option<Rc<Umad>>,
}

impl Sockets {
    async fn serve_umad(&self) -> Result<()> {
        match &self.umad {
            Some(umad) => Umad::serve(umad).await,
            None => std::future::pending().await,
        }
    }

    /// Passes an event of the core to its socket.
    fn on_message(&self, event: Event) {
        match event {
            Event::Control { token, reply } => self.control.finish(token, reply),
            Event::Mad { client, message } => match (umad::slot(client), &self.umad) {
                (Some(slot), Some(umad)) => umad.on_message(slot, message),
                (Some(_), None) => {}
                (None, _) => self.mads.on_message(client, message),
            },
            // The first two are logged by the core. No local socket opens queue pairs yet.
            Event::PortState(_) | Event::Shutdown | Event::Datagram { .. } => {}
        }
    }
}

daemon::device_protocol! {
    /// The control protocol of a host.
    HostProtocol(Request, Reply, Command) = |token, request| Command::Control { token, request }
}
