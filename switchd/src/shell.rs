//! The switch's shell: its arguments, its links and its control socket.

use std::rc::Rc;

use anyhow::Result;
use clap::Parser;
use daemon::args::{DeviceArgs, LinkArgs};
use daemon::device::Protocol;
use daemon::shell::{Daemon, Plan};
use recording::Kind;
use switchd::control::{Reply, Request};
use switchd::{Command, Event, Switch, SwitchConfig, Timing};
use wire::control::{DeviceReply, DeviceRequest};

/// Runs one switch of an ibemu fabric
#[derive(Parser, Debug)]
#[command(name = "switchd", version)]
pub(crate) struct Arguments {
    #[command(flatten)]
    device: DeviceArgs,

    /// External ports, 1 to 254
    #[arg(long, value_name = "N")]
    ports: u8,

    #[command(flatten)]
    link: LinkArgs,
}

/// Runs the switch until shutdown is requested.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    daemon::shell::run(&arguments.device.logs, serve_fabric(arguments))
}

async fn serve_fabric(arguments: &Arguments) -> Result<()> {
    let device = &arguments.device;
    let config = SwitchConfig {
        name: device.name.clone(),
        guid: device.guid,
        ports: arguments.ports,
        port: arguments.link.port_config()?,
        timing: Timing::default(),
    };
    let plan = Plan {
        kind: Kind::Switch,
        config: &config,
        ports: config.ports,
        port: &config.port,
        device,
        links: &arguments.link,
    };
    let daemon = Daemon::<SwitchProtocol, Event>::start(&plan, Switch::new(&config)?)?;
    let control = Rc::clone(daemon.control());
    let on_event = move |Event::Reply { token, reply }| control.finish(token, reply);
    daemon.serve(on_event, std::future::pending()).await
}

/// The control messages of a switch.
struct SwitchProtocol;

impl Protocol for SwitchProtocol {
    type Request = Request;
    type Reply = Reply;
    type Command = Command;

    fn from_device(request: DeviceRequest) -> Request {
        Request::Device(request)
    }

    fn as_device(request: &Request) -> Option<&DeviceRequest> {
        match request {
            Request::Device(request) => Some(request),
            Request::Drops => None,
        }
    }

    fn reply(reply: DeviceReply) -> Reply {
        Reply::Device(reply)
    }

    fn as_device_reply(reply: &mut Reply) -> Option<&mut DeviceReply> {
        match reply {
            Reply::Device(reply) => Some(reply),
            Reply::Drops(_) => None,
        }
    }

    fn command(token: u64, request: Request) -> Command {
        Command { token, request }
    }
}
