//! The switch's shell: its arguments, its links and its control socket.

use std::rc::Rc;

use anyhow::{Context, Result, bail};
use clap::Parser;
use link::control::{DeviceReply, DeviceRequest};
use netio::args::{DeviceArgs, LinkArgs};
use netio::cables::Cables;
use netio::control::serve;
use netio::dataplane::{self, Events, Running, Settings};
use netio::device::{ControlSide, Protocol};
use netio::seqpacket::Listener;
use netio::signals::LeaveSignals;
use switchd::control::{Reply, Request};
use switchd::{Command, Event, Switch, SwitchConfig, Timing};
use tokio::task::LocalSet;

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

/// Runs the switch until it is told to leave.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    netio::logging::to_stderr(arguments.device.log_level);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .context("cannot start the control runtime")?;
    LocalSet::new().block_on(&runtime, serve_fabric(arguments))
}

async fn serve_fabric(arguments: &Arguments) -> Result<()> {
    let mut signals = LeaveSignals::new().context("cannot watch for signals")?;
    let device = &arguments.device;
    let port = arguments.link.port_config()?;
    let switch = Switch::new(&SwitchConfig {
        name: device.name.clone(),
        guid: device.guid,
        ports: arguments.ports,
        port,
        timing: Timing::default(),
    })?;
    let (cables, links) = Cables::open(&device.links, arguments.ports)?;
    Cables::check_room(&links, &port);
    let settings = Settings {
        name: device.name.clone(),
        frame_packets: usize::from(arguments.link.frame_packets),
    };
    let Running {
        handle,
        mut events,
        thread,
    } = dataplane::spawn(settings, links, move || switch)?;
    let control = Rc::new(ControlSide::<Speech>::new(handle, cables));
    let listener = Listener::bind(&device.socket("ctl"))?;
    let handler = {
        let control = Rc::clone(&control);
        move |request| {
            let control = Rc::clone(&control);
            async move { control.answer(request).await }
        }
    };
    let outcome = tokio::select! {
        ended = serve(&listener, handler) => ended.context("the control socket failed"),
        ended = pass_events(&control, &mut events) => {
            ended.and_then(|()| bail!("the dataplane thread has ended by itself"))
        }
        () = control.told_to_leave() => Ok(()),
        () = signals.next() => Ok(()),
    };
    if control.leave() {
        pass_events(&control, &mut events).await?;
    }
    if thread.join().is_err() {
        bail!("the dataplane thread has panicked");
    }
    outcome
}

/// Hands the core's answers to those who wait for them; ends when the dataplane thread does.
async fn pass_events(control: &ControlSide<Speech>, events: &mut Events<Event>) -> Result<()> {
    let failed = "cannot wait for events";
    while let Some(Event::Reply { token, reply }) = events.next().await.context(failed)? {
        control.finish(token, reply);
    }
    Ok(())
}

/// How a switch is spoken to.
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
