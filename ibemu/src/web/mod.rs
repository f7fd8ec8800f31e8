//! `ibemu web`: a live page of a fabric.
//!
//! ```text
//!   monitor::Sampler ──> site ──┬──> hub ──> /api/stream (server-sent events) ──> pages
//!     (PerfMgt MADs)            └──> --record FILE ──> --replay FILE
//!   monitor::events (traps, ..) ───> hub
//!   verbs (path, mcast, status, link, restart, traffic) <── /api/...
//! ```
//!
//! Everything is in this program: the page is in `ibemu/web`, plain modules without any third-party code. Who may ask
//! is `guard`'s affair, what a client may cost `server`'s.

mod api;
mod assets;
mod control;
mod device;
mod events;
mod follow;
mod guard;
mod live;
mod loops;
mod map;
mod options;
mod sample;
mod server;
mod site;
mod store;
mod tables;
mod token;

use std::sync::Arc;

use anyhow::{Context, Result};
use axum::Router;
use daemon::signals::ShutdownSignals;

use crate::dir::FabricDir;
use crate::names::FabricName;
use crate::output;
use crate::sampling;
use crate::state::FabricState;
use guard::Guard;
use map::Map;
pub use options::Web;
use site::Site;
use store::{Recording, Stored};
use token::Token;

/// Serves the page until an interrupt.
///
/// # Errors
/// If there is no such fabric or history, or the address cannot be listened on.
pub async fn run(fabric: &FabricName, options: &Web) -> Result<()> {
    let mut leave = ShutdownSignals::new().context("cannot listen to signals")?;
    let token = Token::given(options.token_file.as_deref())?;
    let (site, recording) = match &options.replay {
        Some(path) => (Site::of_history(Stored::read(path)?), None),
        None => of_fabric(fabric, options).await?,
    };
    let listener = server::bind(options).await?;
    let guard = Arc::new(Guard::new(token, server::address(&listener)?));
    let url = guard.url();
    let site = Arc::new(site);
    let mut router: Router<Arc<Site>> = api::router();
    for asset in assets::ASSETS {
        router = router.route(asset.0, assets::serve(asset));
    }
    let followed = Arc::clone(&site);
    let router = router.with_state(site);
    output::line(&url)?;
    tokio::select! {
        () = leave.next() => Ok(()),
        () = server::serve(listener, router, guard) => Ok(()),
        never = follow::follow(&followed, recording) => match never {},
    }
}

async fn of_fabric(fabric: &FabricName, options: &Web) -> Result<(Site, Option<Recording>)> {
    let dir = FabricDir::of(fabric);
    let state = FabricState::require(&dir)?;
    let map = Map::of(&state)?;
    let recording = options
        .record
        .as_deref()
        .map(|path| Recording::create(path, &map));
    let recording = recording.transpose()?;
    let sampler = sampling::start(&dir, &state, monitor::Options::default()).await?;
    Ok((
        Site::of_fabric(dir, state, map, sampler, options.control),
        recording,
    ))
}
