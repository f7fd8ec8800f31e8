//! `ibemu events`: what happens in the fabric, as it happens.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use daemon::choice::choice;
use daemon::signals::ShutdownSignals;
use monitor::events::{Event, Host, Kind};
use monitor::{Options, Sampler};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};
use wire::choice::Choice as _;

use crate::capture::tell;
use crate::dir::FabricDir;
use crate::names::FabricName;
use crate::state::{FabricState, Kind as NodeKind};
use crate::{output, quantity, sampling};

/// How often the supervisor is asked for processes.
const PROCESSES: Duration = Duration::from_secs(1);
/// Devices that are asked for drops in one second.
const DEVICES_MAX: usize = 64;
/// How long to listen at most, seconds: a year, so that clocks hold it.
const SECONDS_MAX: f64 = 31_536_000.0;

/// `ibemu events`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Traps are those that subnet administration reports: a subscription (InformInfo) through a host that no other program listens through, \
whichever subnet manager runs. The rest is what has changed from one second to the next in the tables of subnet administration, at the \
supervisor and in the devices' counters. It goes on until an interrupt (SIGINT, SIGTERM), --count or --seconds, and ends the subscription.")]
pub struct Events {
    /// Print JSON, a line an event
    #[arg(long)]
    pub json: bool,
    /// End after so many events, at least 1
    #[arg(short, long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// End after so many seconds, above 0
    #[arg(long, value_name = "SECONDS", value_parser = quantity::positive)]
    pub seconds: Option<f64>,
    /// Only events of these kinds, with commas between
    #[arg(long, value_name = "KIND", value_delimiter = ',', value_parser = choice::<Kind>())]
    pub kind: Vec<Kind>,
    /// Hear traps through this host [default: the first that no other program listens through]
    #[arg(long, value_name = "HOST")]
    pub host: Option<String>,
}

impl Events {
    fn shows(&self, kind: Kind) -> bool {
        self.kind.is_empty() || self.kind.contains(&kind)
    }
}

/// Prints events until a limit or a signal, and tells how many on standard error.
///
/// # Errors
/// If there is no such fabric or host, or traps are asked for and subnet administration refuses to report them.
pub async fn run(fabric: &FabricName, options: &Events) -> Result<()> {
    let mut signals = ShutdownSignals::new().context("cannot wait for signals")?;
    if options.seconds.is_some_and(|seconds| seconds > SECONDS_MAX) {
        bail!(crate::usage::UsageError(format!(
            "--seconds: at most {SECONDS_MAX}"
        )));
    }
    let dir = FabricDir::of(fabric);
    let state = FabricState::require(&dir)?;
    let hosts = hosts(&dir, &state, options.host.as_deref())?;
    let sampler = Options {
        devices_max: DEVICES_MAX,
        ..Options::default()
    };
    let sampler = sampling::start(&dir, &state, sampler).await?;
    let (mut events, mut receiver) =
        monitor::events::Events::start(hosts, &sampler).context("cannot start listening")?;
    let mut shown = Shown {
        options,
        count: 0,
        has_heard: false,
    };
    let ended = tokio::select! {
        () = signals.next() => Ok(()),
        () = end(options.seconds) => Ok(()),
        () = follow(&dir, &state, &sampler) => {
            tell("the fabric is down");
            Ok(())
        }
        ended = async {
            while let Some(event) = receiver.recv().await {
                if shown.event(&event)? {
                    return Ok(());
                }
            }
            bail!("the event stream has ended")
        } => ended,
    };
    events.stop();
    ended?;
    while let Ok(event) = receiver.try_recv() {
        if shown.is_enough() || shown.event(&event)? {
            break;
        }
    }
    tell(&format!("{} events, {} lost", shown.count, events.lost()));
    Ok(())
}

/// The hosts to hear through, in the order in which they are tried: those with a subnet manager of the fabric's own last,
/// which hears reports itself.
///
/// # Errors
/// If there is no such host, or the subnet's keys cannot be read.
pub(crate) fn hosts(dir: &FabricDir, state: &FabricState, name: Option<&str>) -> Result<Vec<Host>> {
    let chosen = match name {
        Some(name) => {
            let node = state.find(name)?;
            if state.nodes[node].kind != NodeKind::Host {
                bail!("{name} is no host: traps are heard through a host (ibemu status)");
            }
            vec![node]
        }
        None => {
            let has_manager = |node: usize| state.controllers().any(|(at, _)| at.node == node);
            let mut all: Vec<usize> = state.real_hosts().collect();
            all.sort_by_key(|&node| has_manager(node));
            all
        }
    };
    let host = |node: usize| {
        let name = state.nodes[node].name.clone();
        let source = sampling::source(dir, state, node)?;
        Ok(Host { name, source })
    };
    chosen.into_iter().map(host).collect()
}

async fn end(seconds: Option<f64>) {
    match seconds {
        Some(seconds) => sleep_until(Instant::now() + Duration::from_secs_f64(seconds)).await,
        None => std::future::pending().await,
    }
}

/// Tells the sampler what the supervisor says of processes, as long as there is a fabric.
async fn follow(dir: &FabricDir, state: &FabricState, sampler: &Sampler) {
    let mut ticks = interval(PROCESSES);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        match sampling::running(dir, state).await {
            Ok(processes) => sampler.set_processes(processes),
            // A supervisor that was killed is started by the next command that needs it.
            Err(_) if matches!(FabricState::load(dir), Ok(None)) => return,
            Err(_) => {}
        }
    }
}

/// What has been shown.
struct Shown<'a> {
    options: &'a Events,
    count: u64,
    has_heard: bool,
}

impl Shown<'_> {
    fn is_enough(&self) -> bool {
        self.options.count.is_some_and(|count| self.count >= count)
    }

    /// Shows an event, if its kind is asked for. Whether that was the last.
    fn event(&mut self, event: &Event) -> Result<bool> {
        if event.kind == Kind::Listener {
            self.listener(event)?;
        }
        if !self.options.shows(event.kind) {
            return Ok(false);
        }
        match self.options.json {
            true => output::json_line(event)?,
            false => output::line(line(event))?,
        }
        self.count += 1;
        Ok(self.is_enough() || output::is_closed())
    }

    /// Traps that are asked for and refused from the beginning on are an error.
    fn listener(&mut self, event: &Event) -> Result<()> {
        let field = |name: &str| event.fields.get(name);
        self.has_heard |= field("heard").is_some_and(|heard| heard == true);
        let why = field("why").and_then(|why| why.as_str());
        let is_final = matches!(why, Some("refused" | "taken")) && !self.has_heard;
        if is_final && self.options.shows(Kind::Trap) {
            bail!(
                "{}; --host chooses a host, --kind other kinds of events",
                event.text
            );
        }
        Ok(())
    }
}

/// An event for people: time of day (UTC), kind, text.
fn line(event: &Event) -> String {
    let ms = event.at_ms % 86_400_000;
    let (s, ms) = (ms / 1000, ms % 1000);
    let (min, s) = (s / 60, s % 60);
    let (h, min) = (min / 60, min % 60);
    let kind = event.kind.name();
    format!(
        "{h:02}:{min:02}:{s:02}.{ms:03}Z  {kind:<10}  {}",
        event.text
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_line_has_the_time_of_day_the_kind_and_the_text() {
        let event = Event {
            at_ms: 86_400_000 * 3 + 3_723_004,
            kind: Kind::Trap,
            device: None,
            port: None,
            text: "h1 is in service".to_owned(),
            fields: BTreeMap::new(),
        };
        assert_eq!(line(&event), "01:02:03.004Z  trap        h1 is in service");
    }
}
