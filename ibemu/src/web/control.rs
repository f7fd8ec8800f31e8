//! What changes the fabric: only with `--control`, only by POST.

use std::process::Stdio;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use netio::process::{Pidfd, Signal};
use serde::{Deserialize, Serialize};
use tokio::io::AsyncReadExt as _;
use tokio::process::{Child, Command};
use tokio::sync::oneshot;

use super::api::{Answer, Failure, cable_at};
use super::events::Event;
use super::site::{Live, Site};
use crate::verbs;

/// The patterns that can be started.
const PATTERNS: [&str; 6] = [
    "uniform",
    "all-to-all",
    "permutation",
    "shift-1",
    "complement",
    "centric-30",
];
/// What is kept of what traffic says at its end.
const REPORT_BYTES_MAX: u64 = 64 * 1024;

/// The fabric, if it may be changed.
fn changeable(site: &Site) -> Result<&Live, Failure> {
    let live = site.live()?;
    if site.is_controlled() {
        return Ok(live);
    }
    let error = anyhow!("this server shows only: start it with --control to change the fabric");
    Err(Failure::new(StatusCode::FORBIDDEN, error))
}

/// What was done, in words.
#[derive(Serialize)]
pub(super) struct Done {
    done: String,
}

fn done(live: &Live, text: String) -> Json<Done> {
    tell(live, text.clone());
    Json(Done { done: text })
}

fn tell(live: &Live, text: String) {
    live.hub.event(Event::of_server("action", text));
}

#[derive(Deserialize)]
pub(super) struct Cable {
    port: String,
    plugged: bool,
}

/// Pulls or plugs a cable.
pub(super) async fn cable(State(site): State<Arc<Site>>, Json(asked): Json<Cable>) -> Answer<Done> {
    let live = changeable(&site)?;
    let [end, peer] = cable_at(live, &asked.port)?;
    let _one = live.changes.lock().await;
    verbs::set_cable(&live.dir, &live.state, end, peer, asked.plugged).await?;
    live.sampler.discover();
    let [end, peer] = [end, peer].map(|end| live.state.end_name(end));
    let how = if asked.plugged {
        "plugged in"
    } else {
        "pulled"
    };
    Ok(done(live, format!("the cable {end} - {peer} is {how}")))
}

#[derive(Deserialize)]
pub(super) struct Restart {
    name: String,
}

/// Restarts a device or controller.
pub(super) async fn restart(
    State(site): State<Arc<Site>>,
    Json(asked): Json<Restart>,
) -> Answer<Done> {
    let live = changeable(&site)?;
    let _one = live.changes.lock().await;
    verbs::restart_node(&live.dir, &live.state, &asked.name).await?;
    Ok(done(live, format!("{} runs again", asked.name)))
}

/// Traffic that this server has started, and that has not ended.
#[derive(Debug)]
pub(super) struct Traffic {
    what: String,
    /// Told once to end the process by an interrupt.
    stop: Option<oneshot::Sender<()>>,
}

/// Traffic, as the page shows it.
#[derive(Serialize)]
pub(super) struct Running {
    /// What runs, if anything does.
    running: Option<String>,
    /// What can be started.
    patterns: [&'static str; PATTERNS.len()],
}

/// Which traffic runs, and what can be started.
pub(super) async fn running(State(site): State<Arc<Site>>) -> Answer<Running> {
    let live = site.live()?;
    let traffic = live.traffic.lock().await;
    let running = traffic.as_ref();
    Ok(Json(Running {
        running: running.map(|traffic| traffic.what.clone()),
        patterns: PATTERNS,
    }))
}

/// A pattern of `ibemu traffic`, with a rate a host and a time.
#[derive(Deserialize)]
pub(super) struct Start {
    pattern: String,
    rate: Option<String>,
    seconds: Option<u32>,
}

/// Starts traffic.
pub(super) async fn start(State(site): State<Arc<Site>>, Json(asked): Json<Start>) -> Answer<Done> {
    let live = changeable(&site)?;
    let mut traffic = live.traffic.lock().await;
    if let Some(running) = traffic.as_ref() {
        let error = anyhow!("{} is running: stop it first", running.what);
        return Err(Failure::new(StatusCode::CONFLICT, error));
    }
    let bad = |error| Failure::new(StatusCode::BAD_REQUEST, error);
    let child = spawn(live, &asked).map_err(bad)?;
    let (stop, stopped) = oneshot::channel();
    let what = asked.pattern;
    *traffic = Some(Traffic {
        what: what.clone(),
        stop: Some(stop),
    });
    tokio::spawn(attend(Arc::clone(&site), what.clone(), child, stopped));
    Ok(done(live, format!("traffic {what} was started")))
}

/// Waits until traffic ends or is to end, and tells how it did.
async fn attend(site: Arc<Site>, what: String, mut child: Child, stopped: oneshot::Receiver<()>) {
    let errors = child.stderr.take();
    let read = async {
        let mut said = String::new();
        if let Some(errors) = errors {
            // What it says beyond that is of no use to anybody.
            let mut errors = errors.take(REPORT_BYTES_MAX);
            let _ = errors.read_to_string(&mut said).await;
        }
        said
    };
    tokio::pin!(read);
    let said = tokio::select! {
        said = &mut read => said,
        order = stopped => {
            if order.is_ok()
                && let Some(process) = child.id().and_then(|pid| Pidfd::open(pid).ok())
            {
                // If it has ended meanwhile, all the better.
                let _ = process.signal(Signal::INT);
            }
            read.await
        }
    };
    let status = child.wait().await;
    let Ok(live) = site.live() else {
        return;
    };
    *live.traffic.lock().await = None;
    let text = match status {
        Ok(status) if status.success() => format!("traffic {what} has ended"),
        _ => {
            let why = said.lines().last().unwrap_or("it was killed");
            format!("traffic {what} has failed: {why}")
        }
    };
    tell(live, text);
}

fn spawn(live: &Live, asked: &Start) -> Result<Child> {
    let pattern = PATTERNS.into_iter().find(|name| *name == asked.pattern);
    let pattern = pattern.with_context(|| {
        let known = PATTERNS.join(", ");
        format!(
            "there is no pattern {:?}: {known} can be started",
            asked.pattern
        )
    })?;
    let seconds = asked.seconds.unwrap_or(60);
    if !(1..=3600).contains(&seconds) {
        return Err(anyhow!("{seconds} seconds: 1 to 3600 are possible"));
    }
    let program = netio::process::own_executable()?;
    let mut command = Command::new(program);
    command
        .args([
            "traffic",
            "--fabric",
            live.state.fabric.as_str(),
            "--seconds",
            &seconds.to_string(),
        ])
        .arg(pattern);
    if let Some(rate) = &asked.rate {
        let _: crate::quantity::Rate = rate
            .parse()
            .map_err(|error| anyhow!("the rate {rate:?}: {error}"))?;
        command.args(["--rate", rate]);
    }
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command.spawn().context("cannot start ibemu traffic")
}

/// Stops traffic.
pub(super) async fn stop(State(site): State<Arc<Site>>) -> Answer<Done> {
    let live = changeable(&site)?;
    let mut traffic = live.traffic.lock().await;
    let running = traffic.as_mut();
    let Some((what, stop)) =
        running.and_then(|running| Some((&running.what, running.stop.take()?)))
    else {
        let error = anyhow!("no traffic runs that was started here");
        return Err(Failure::new(StatusCode::CONFLICT, error));
    };
    // It may have ended just now.
    let _ = stop.send(());
    Ok(done(live, format!("traffic {what} is stopped")))
}
