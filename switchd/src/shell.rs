//! The switch's shell: its arguments, its links and its control socket.

use std::rc::Rc;

use anyhow::Result;
use clap::Parser;
use daemon::args::{DeviceArgs, LinkArgs};
use daemon::hardware::HardwareArgs;
use daemon::shell::{Daemon, Plan};
use recording::Kind;
use switchd::control::{Reply, Request};
use switchd::{Command, Event, Switch, SwitchConfig, Timing};

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
    hardware: HardwareArgs,

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
        hardware: arguments.hardware.hardware(),
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

daemon::device_protocol! {
    /// The control protocol of a switch.
    SwitchProtocol(Request, Reply, Command) = |token, request| Command { token, request }
}
