//! The host's shell: its arguments, its link, its control socket, and the sockets of programs that
//! send management datagrams, or have verbs.
//!
//! ```text
//!  <name>.ctl ---- DeviceControl ---+
//!  <name>.mad ---- MadServer -----+--- orders ---> dataplane thread (Host)
//!  <name>.ibumad - Ibumad --------+                     |
//!  <name>.cm ----- CmServer ------+                     |
//!  <name>.verbs --- VerbsServer --+                     |  (in Ringed)
//!  ib0, ib1, ------ Interfaced ---+                     |
//!  <base>:ctl, --- Umad ----------+                     |
//!  <base>:out<K>                  ^                     |
//!                                 +------ events -------+
//! ```

mod cm;
mod ibumad;
mod interfaces;
mod mads;
mod sysfs;
mod timers;
mod umad;
mod verbs;

use std::rc::Rc;

use anyhow::{Context, Result};
use clap::Parser;
use daemon::args::{DeviceArgs, LinkArgs};
use daemon::device::{DeviceControl, DeviceReply, DeviceRequest, Protocol};
use daemon::hardware::HardwareArgs;
use daemon::shell::{Daemon, Plan};
use hostd::control::{PortRequest, Reply, Request};
use hostd::{Command, Event, Host, HostConfig, IpPort};
use netio::event::Doorbells;
use netio::seqpacket::Listener;
use recording::Kind;
use tokio::task::JoinSet;
use wire::PortNum;

use cm::CmServer;
use ibumad::Ibumad;
use interfaces::{Interfaced, Interfaces};
use mads::MadServer;
use umad::Umad;
use verbs::{Contexts, Programs, Ringed, VerbsServer};

/// Runs one end node of an ibemu fabric
#[derive(Parser, Debug)]
#[command(name = "hostd", version)]
pub(crate) struct Arguments {
    #[command(flatten)]
    device: DeviceArgs,

    /// Ports, 1 to 254
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=254))]
    ports: u8,

    /// Serve programs linked to libibumad, started with ibsim's client library, at the abstract
    /// sockets BASE:ctl and BASE:out<K>, for port P from 2 on at BASE.P:ctl and so on; without it, the
    /// environment's IBEMU_UMAD_SOCKET counts
    #[arg(long, value_name = "BASE")]
    umad_socket: Option<String>,

    /// A port with internet addresses: its number among those of the fabric, 1 to 65534, and its interface; without that
    /// it has an address of the loopback interface
    #[arg(long, value_name = "PORT=NUMBER[:INTERFACE]", value_parser = interfaces::ip_port)]
    ip: Vec<IpPort>,

    #[command(flatten)]
    hardware: HardwareArgs,

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
        let by_environment = || std::env::var(hostd::UMAD_SOCKET).ok();
        self.umad_socket.clone().or_else(by_environment)
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
        ports: arguments.ports,
        hardware: arguments.hardware.hardware(),
        port: arguments.link.port_config()?,
        ip: arguments.ip.clone(),
        traffic_tick_ns: HostConfig::LIVE_TRAFFIC_TICK_NS,
    };
    let plan = Plan {
        kind: Kind::Host,
        config: &config,
        ports: config.ports,
        port: &config.port,
        device,
        links: &arguments.link,
    };
    let mut host = Host::new(config.clone())?;
    let programs = Programs::default();
    host.set_memory(|| Box::new(programs.clone()));
    let contexts = Contexts::default();
    let doorbells = Doorbells::new().context("cannot watch the doorbells of programs")?;
    let interfaces = Interfaces::open(&config, &doorbells);
    let ringed = |core| Ringed::new(Interfaced::new(core, interfaces), contexts.clone());
    let rung = Some(doorbells.clone());
    let daemon = Daemon::<HostProtocol, Event>::start_with(&plan, host, rung, ringed)?;
    let handle = daemon.control().handle();
    let sockets = Rc::new(Sockets {
        mads: Rc::new(MadServer::new(handle.clone())),
        ibumad: Rc::new(Ibumad::new(device, &config, handle.clone())),
        cm: Rc::new(CmServer::new(handle.clone())),
        verbs: Rc::new(VerbsServer::new(
            handle.clone(),
            programs,
            contexts,
            doorbells,
        )),
        umads: match &arguments.umad_base() {
            Some(base) => (1..=config.ports)
                .map(|port| Umad::open(base, device, port, handle.clone()).map(Rc::new))
                .collect::<Result<_>>()?,
            None => Vec::new(),
        },
        control: Rc::clone(daemon.control()),
    });
    let mad_listener = Listener::bind(&device.socket("mad"))?;
    let ibumad_listener = Listener::bind(&device.socket("ibumad"))?;
    let verbs_listener = Listener::bind(&device.socket("verbs"))?;
    let cm_listener = Listener::bind(&device.socket("cm"))?;
    let beside = {
        let sockets = Rc::clone(&sockets);
        async move {
            tokio::select! {
                ended = sockets.mads.serve(&mad_listener) => ended.context("the MAD socket failed"),
                ended = Ibumad::serve(&sockets.ibumad, &ibumad_listener) => ended,
                ended = sockets.verbs.serve(&verbs_listener) => ended,
                ended = sockets.cm.serve(&cm_listener) => ended,
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
    ibumad: Rc<Ibumad>,
    verbs: Rc<VerbsServer>,
    cm: Rc<CmServer>,
    /// One a port, or none.
    umads: Vec<Rc<Umad>>,
}

impl Sockets {
    async fn serve_umad(&self) -> Result<()> {
        if self.umads.is_empty() {
            return std::future::pending().await;
        }
        let mut serving = JoinSet::new();
        for umad in &self.umads {
            let umad = Rc::clone(umad);
            serving.spawn_local(async move { Umad::serve(&umad).await });
        }
        match serving.join_next().await {
            Some(ended) => ended.context("a task of the umad2sim sockets failed")?,
            None => Ok(()),
        }
    }

    /// Passes an event of the core to its socket.
    fn on_message(&self, event: Event) {
        match event {
            Event::Control { token, reply } => self.control.finish(token, reply),
            Event::Mad { client, message } if client.0 >= ibumad::FIRST_CLIENT => {
                self.ibumad.on_message(client, message);
            }
            Event::Mad { client, message } => match umad::slot(client) {
                Some((port, slot)) => {
                    let umad = usize::from(port).checked_sub(1);
                    if let Some(umad) = umad.and_then(|at| self.umads.get(at)) {
                        umad.on_message(slot, message);
                    }
                }
                None => self.mads.on_message(client, message),
            },
            Event::Verbs { client, message } => self.verbs.on_message(client, message),
            Event::Cm { client, message } => self.cm.on_message(client, message),
            // The first two are logged by the core. The last are taken by the dataplane thread.
            Event::PortState(_) | Event::Shutdown | Event::Ip { .. } => {}
        }
    }
}

/// The control protocol of a host.
struct HostProtocol;

impl Protocol for HostProtocol {
    type Request = PortRequest;
    type Reply = Reply;
    type Command = Command;

    fn from_device(request: DeviceRequest) -> PortRequest {
        PortRequest {
            port: PortNum::MANAGEMENT,
            request: Request::Device(request),
        }
    }

    fn as_device(request: &PortRequest) -> Option<&DeviceRequest> {
        match &request.request {
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

    fn command(token: u64, PortRequest { port, request }: PortRequest) -> Command {
        Command::Control {
            token,
            port,
            request,
        }
    }
}
