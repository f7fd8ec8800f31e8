//! The switch's shell: its arguments, its links and its control socket.

use std::rc::Rc;

use anyhow::{Context, Result, bail};
use clap::Parser;
use link::control::{DeviceReply, DeviceRequest};
use netio::args::{DeviceArgs, LinkArgs};
use netio::cables::Cables;
use netio::control::{Answer, Pending, serve};
use netio::dataplane::{self, Events, Handle, Running, Settings};
use netio::seqpacket::Listener;
use netio::signals::LeaveSignals;
use switchd::control::{Reply, Request};
use switchd::{Command, Event, Switch, SwitchConfig, Timing};
use tokio::sync::Notify;
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
    let switch = Switch::new(&SwitchConfig {
        name: device.name.clone(),
        guid: device.guid,
        ports: arguments.ports,
        port: arguments.link.port_config()?,
        timing: Timing::default(),
    })?;
    let (cables, links) = Cables::open(&device.links, arguments.ports)?;
    let settings = Settings {
        name: device.name.clone(),
        frame_packets: usize::from(arguments.link.frame_packets),
    };
    let Running {
        handle,
        mut events,
        thread,
    } = dataplane::spawn(settings, links, move || switch)?;
    let control = Rc::new(Control {
        handle,
        cables,
        pending: Pending::default(),
        leave: Rc::default(),
    });
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
        ended = control.pass_events(&mut events) => {
            ended.and_then(|()| bail!("the dataplane thread has ended by itself"))
        }
        () = control.leave.notified() => Ok(()),
        () = signals.next() => Ok(()),
    };
    control.leave_fabric(&mut events).await?;
    if thread.join().is_err() {
        bail!("the dataplane thread has panicked");
    }
    outcome
}

/// What the control socket's clients reach.
struct Control {
    handle: Handle<Command>,
    cables: Cables,
    pending: Pending<Reply>,
    /// The reply to a request to leave has gone.
    leave: Rc<Notify>,
}

impl Control {
    async fn answer(&self, request: Request) -> Answer<Reply> {
        let Request::Device(request) = request else {
            return self.ask(request).await.into();
        };
        match request {
            DeviceRequest::Endpoints => {
                Reply::Device(DeviceReply::Endpoints(self.cables.endpoints())).into()
            }
            DeviceRequest::Connect { port, .. } if !self.cables.has_endpoint(port) => {
                refused(format!("port {port} has no UDP cable")).into()
            }
            DeviceRequest::Connect { port, peer } => match self.handle.connect(port, peer) {
                Ok(()) => Reply::Device(DeviceReply::Done).into(),
                Err(busy) => refused(busy.to_string()).into(),
            },
            DeviceRequest::Shutdown => Answer {
                reply: Reply::Device(DeviceReply::Done),
                sent: Some(Rc::clone(&self.leave)),
            },
            request => self.ask(Request::Device(request)).await.into(),
        }
    }

    /// Has the core answer.
    async fn ask(&self, request: Request) -> Reply {
        let (token, reply) = self.pending.begin();
        if let Err(busy) = self.handle.command(Command { token, request }) {
            return refused(busy.to_string());
        }
        let Ok(mut reply) = reply.await else {
            return refused("the switch is too busy to answer; try again".to_owned());
        };
        if let Reply::Device(reply) = &mut reply {
            self.cables.complete(reply);
        }
        reply
    }

    /// Hands the core's answers to those who wait for them; ends when the dataplane thread does.
    async fn pass_events(&self, events: &mut Events<Event>) -> Result<()> {
        while let Some(Event::Reply { token, reply }) =
            events.next().await.context("cannot wait for events")?
        {
            self.pending.finish(token, reply);
        }
        Ok(())
    }

    /// Tells the peers that the links go down, and waits until that is out and the dataplane
    /// thread has ended.
    async fn leave_fabric(&self, events: &mut Events<Event>) -> Result<()> {
        let (token, _) = self.pending.begin();
        let request = Request::Device(DeviceRequest::Shutdown);
        // A thread that takes no orders has ended, or will be ended with the process.
        if self.handle.command(Command { token, request }).is_ok() && self.handle.stop().is_ok() {
            self.pass_events(events).await?;
        }
        Ok(())
    }
}

fn refused(why: String) -> Reply {
    Reply::Device(DeviceReply::Refused(why))
}
