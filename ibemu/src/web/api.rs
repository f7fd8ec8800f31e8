//! What can be asked below `/api`, as JSON ([docs/formats.md](../../../docs/formats.md)).

use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::{Deserialize, Serialize};

use super::site::{Live, Site};
use super::{control, device, loops, map, tables};
use crate::names::PortName;
use crate::verbs;

/// Everything below `/api`.
pub(super) fn router() -> Router<Arc<Site>> {
    Router::new()
        .route("/api/map", get(map_of))
        .route("/api/stream", get(stream))
        .route("/api/span", get(span))
        .route("/api/sample", get(sample))
        .route("/api/series", get(series))
        .route("/api/events", get(events))
        .route("/api/device", get(device_of))
        .route("/api/lane", get(lane))
        .route("/api/lids", get(lids_of))
        .route("/api/tables", get(tables_of))
        .route("/api/path", get(path))
        .route("/api/paths", get(paths))
        .route("/api/loops", get(loops_of))
        .route("/api/groups", get(groups))
        .route("/api/trees", get(trees))
        .route("/api/status", get(status))
        .route("/api/traffic", get(control::running))
        .route("/api/traffic/start", post(control::start))
        .route("/api/traffic/stop", post(control::stop))
        .route("/api/cable", post(control::cable))
        .route("/api/restart", post(control::restart))
        .route("/metrics", get(metrics))
        .fallback(nothing)
}

/// Why something cannot be answered.
#[derive(Debug)]
pub(super) struct Failure {
    status: StatusCode,
    error: anyhow::Error,
}

impl Failure {
    /// A failure with another status than 404.
    pub(super) fn new(status: StatusCode, error: anyhow::Error) -> Self {
        Self { status, error }
    }

    /// What cannot be done with a stored history.
    pub(super) fn stored() -> Self {
        let error = anyhow!("this is a stored history: there is no fabric to ask");
        Self::new(StatusCode::CONFLICT, error)
    }
}

impl From<anyhow::Error> for Failure {
    /// What was asked about is not there, or does not answer.
    fn from(error: anyhow::Error) -> Self {
        Self::new(StatusCode::NOT_FOUND, error)
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let error = format!("{:#}", self.error);
        (self.status, Json(serde_json::json!({ "error": error }))).into_response()
    }
}

/// An answer as JSON.
pub(super) type Answer<T> = Result<Json<T>, Failure>;

async fn nothing() -> Failure {
    let error = anyhow!("there is nothing at this address (docs/formats.md lists all)");
    Failure::new(StatusCode::NOT_FOUND, error)
}

/// The map, and what this server can do.
#[derive(Serialize)]
struct MapAnswer<'a> {
    #[serde(flatten)]
    map: &'a map::Map,
    /// Whether actions are allowed.
    control: bool,
    /// Whether this is a stored history.
    replay: bool,
}

async fn map_of(State(site): State<Arc<Site>>) -> Response {
    let answer = MapAnswer {
        map: site.map(),
        control: site.is_controlled(),
        replay: site.live().is_err(),
    };
    Json(answer).into_response()
}

async fn stream(State(site): State<Arc<Site>>) -> Result<Response, Failure> {
    Ok(site.live()?.hub.listen().into_response())
}

/// From when to when there are samples.
#[derive(Serialize)]
struct Span {
    first_ms: Option<u64>,
    last_ms: Option<u64>,
}

async fn span(State(site): State<Arc<Site>>) -> Json<Span> {
    let (first_ms, last_ms) = site.span();
    Json(Span { first_ms, last_ms })
}

#[derive(Deserialize)]
struct At {
    at: u64,
}

async fn sample(
    State(site): State<Arc<Site>>,
    Query(At { at }): Query<At>,
) -> Answer<super::sample::Sample> {
    let sample = site.sample_at(at).context("there is no sample yet")?;
    Ok(Json(sample))
}

#[derive(Deserialize)]
struct CableAt {
    cable: usize,
    #[serde(default)]
    until: Option<u64>,
}

async fn series(
    State(site): State<Arc<Site>>,
    Query(asked): Query<CableAt>,
) -> Answer<super::site::Series> {
    let cables = site.map().cables.len();
    if asked.cable >= cables {
        return Err(anyhow!("there are cables 0 to {}", cables.saturating_sub(1)).into());
    }
    Ok(Json(site.series(asked.cable, asked.until)))
}

async fn events(State(site): State<Arc<Site>>) -> Json<Vec<super::events::Event>> {
    Json(site.events())
}

#[derive(Deserialize)]
struct DeviceAt {
    name: String,
    /// One of its ports.
    #[serde(default)]
    port: Option<u8>,
    /// A moment of the past.
    #[serde(default)]
    at: Option<u64>,
}

async fn device_of(
    State(site): State<Arc<Site>>,
    Query(asked): Query<DeviceAt>,
) -> Answer<device::Device> {
    if asked.at.is_none()
        && let Ok(live) = site.live()
    {
        let position = live.device(&asked.name)?;
        return Ok(Json(device::of(live, site.map(), position, asked.port)?));
    }
    let mut devices = site.map().devices.iter();
    let position = devices.position(|device| device.name == asked.name);
    let position = position.with_context(|| format!("there is no node {}", asked.name))?;
    let at = asked.at.unwrap_or(u64::MAX);
    let device = site.at(at, |map, fabric, frame| {
        device::past((map, fabric, frame), position, asked.port)
    });
    Ok(Json(device.context("there is no sample yet")??))
}

#[derive(Deserialize)]
struct LaneOf {
    vl: u8,
}

/// How full a lane is at each cable's ends.
async fn lane(State(site): State<Arc<Site>>, Query(asked): Query<LaneOf>) -> Answer<Vec<[u16; 2]>> {
    let vls = site.map().vls;
    if asked.vl >= vls {
        let last = vls.saturating_sub(1);
        return Err(anyhow!("there are data lanes 0 to {last}").into());
    }
    Ok(Json(site.lane(asked.vl.into())?))
}

/// Which LIDs there are.
async fn lids_of(State(site): State<Arc<Site>>) -> Answer<Vec<device::Lids>> {
    let lids = site.at(u64::MAX, |map, fabric, _| device::lids(map, fabric));
    Ok(Json(lids.context("there is no sample yet")?))
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

async fn tables_of(
    State(site): State<Arc<Site>>,
    Query(asked): Query<Named>,
) -> Answer<tables::Tables> {
    let live = site.live()?;
    let position = live.device(&asked.name)?;
    let names = device::names_of_lids(&live.sampler.current().fabric);
    Ok(Json(
        tables::read(&live.dir, &live.state, position, &names).await?,
    ))
}

#[derive(Deserialize)]
struct Pair {
    from: String,
    to: String,
    #[serde(default)]
    offset: Option<u16>,
}

/// A path, and why a packet does not arrive, if so.
#[derive(Serialize)]
struct Path {
    #[serde(flatten)]
    report: verbs::path::Report,
    problem: Option<String>,
}

async fn path_of(live: &Live, asked: &Pair, offset: Option<u16>) -> Result<Path> {
    let hosts = [&*asked.from, &asked.to];
    let (report, verdict) = verbs::path::between(&live.dir, &live.state, hosts, offset).await?;
    Ok(Path {
        report,
        problem: verdict.err().map(|error| format!("{error:#}")),
    })
}

async fn path(State(site): State<Arc<Site>>, Query(asked): Query<Pair>) -> Answer<Path> {
    Ok(Json(path_of(site.live()?, &asked, asked.offset).await?))
}

/// The paths to all LIDs of a host.
async fn paths(State(site): State<Arc<Site>>, Query(asked): Query<Pair>) -> Answer<Vec<Path>> {
    let live = site.live()?;
    let to = live.state.find_host(&asked.to)?;
    let target = crate::lids::of_host(&live.dir, &live.state, to).await?;
    let mut paths = Vec::new();
    for offset in 0..target.identity.lmc.lids() {
        paths.push(path_of(live, &asked, Some(offset)).await?);
    }
    Ok(Json(paths))
}

/// Credit loops of the switches' tables.
async fn loops_of(State(site): State<Arc<Site>>) -> Answer<loops::Loops> {
    let live = site.live()?;
    let sample = site.sample_at(u64::MAX);
    let sample = sample.context("nothing was sampled yet; ask again in a second")?;
    Ok(Json(loops::find(live, &sample.state).await?))
}

async fn groups(State(site): State<Arc<Site>>) -> Answer<Vec<verbs::mcast::GroupListing>> {
    let live = site.live()?;
    Ok(Json(verbs::mcast::listing(&live.dir, &live.state).await?))
}

async fn trees(State(site): State<Arc<Site>>) -> Answer<verbs::mcast::tables::Tables> {
    let live = site.live()?;
    Ok(Json(
        verbs::mcast::tables::read(&live.dir, &live.state).await?,
    ))
}

async fn status(State(site): State<Arc<Site>>) -> Answer<verbs::status::Report> {
    let live = site.live()?;
    Ok(Json(
        verbs::status::report(&live.dir, &live.state, &[]).await?,
    ))
}

/// All that is known as metrics, in the format that the request asks for.
async fn metrics(State(site): State<Arc<Site>>, headers: HeaderMap) -> Result<Response, Failure> {
    let snapshot = site.live()?.sampler.current();
    let accept = headers
        .get(header::ACCEPT)
        .and_then(|accept| accept.to_str().ok());
    let format = monitor::Format::accepted(accept.unwrap_or_default());
    // A large fabric's text takes a while to write, and pages wait for samples.
    let text = tokio::task::spawn_blocking(move || monitor::render(&snapshot, format)).await;
    let text = text.context("the metrics could not be written")?;
    Ok(([(header::CONTENT_TYPE, format.content_type())], text).into_response())
}

/// The two ends of the cable that a port names.
pub(super) fn cable_at(live: &Live, port: &str) -> Result<[crate::state::End; 2]> {
    let port: PortName = port.parse()?;
    let (end, peer) = verbs::cable_ends(&live.state, &port)?;
    Ok([end, peer])
}
