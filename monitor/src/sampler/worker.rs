//! The sampler's loop: connect, discover, sample, publish.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use netio::clock;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::control::Told;
use super::discovery::{self, Tables};
use super::round::{Books, Query, Round, Templates};
use super::{Options, Shared, Source, lock};
use crate::client::{Client, ClientError};
use crate::model::{Collection, Fabric, Snapshot};
use crate::wall::now_ms;

/// Time between two attempts to reach the host.
const RECONNECT: Duration = Duration::from_millis(500);

/// How long answers gather before the next ones are taken: one wake-up is for many.
const GATHER: Duration = Duration::from_millis(1);

/// The whole fabric is looked at so many times more seldom where a controller tells when it has swept.
const SELDOM: u32 = 6;

/// What is known, whatever happens to the connection.
#[derive(Debug, Default)]
struct Known {
    sequence: u64,
    fabric: Arc<Fabric>,
    books: Books,
    told: Told,
    discovered_at: Option<Instant>,
}

/// Samples for ever, through one connection after the other: the host may be restarted.
pub(super) async fn work(shared: &Shared, source: &Source, options: Options) -> Infallible {
    let mut known = Known::default();
    loop {
        let Err(error) = serve(shared, source, options, &mut known).await;
        tracing::debug!("sampling is interrupted: {error}");
        known.discovered_at = None;
        let collection = Collection {
            failure: Some(error.to_string()),
            ..Collection::default()
        };
        publish(shared, &mut known, collection);
        tokio::time::sleep(RECONNECT).await;
    }
}

/// Samples through one connection until it fails.
async fn serve(
    shared: &Shared,
    source: &Source,
    options: Options,
    known: &mut Known,
) -> Result<Infallible, ClientError> {
    let mut client = Client::connect(source).await?;
    let mut templates = Templates::new();
    let mut queries: Vec<Query> = Vec::new();
    let mut ticks = interval(options.interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let is_asked = tokio::select! {
            _ = ticks.tick() => false,
            () = shared.discover.notified() => true,
        };
        let last = known.discovered_at;
        let has_swept = known.told.ask_controllers(source).await;
        let seldom = match known.told.tells_changes() {
            true => SELDOM,
            false => 1,
        };
        let is_due = last.is_none_or(|last| last.elapsed() >= options.discovery_interval * seldom);
        if is_asked || is_due || has_swept {
            discover(&mut client, source, known).await?;
        }
        known.books.plan(&known.fabric, &mut queries);
        let begun = Instant::now();
        let round = Round::new(&known.fabric, &mut known.books, &queries, &mut templates);
        let requests = run(&mut client, round).await?;
        let nodes = known.books.nodes.iter();
        let count = |of: fn(&crate::model::NodeCollection) -> bool| {
            nodes
                .clone()
                .map(|node| u64::from(of(&node.collection)))
                .sum()
        };
        let collection = Collection {
            duration_s: begun.elapsed().as_secs_f64(),
            requests,
            errors: count(|node| node.is_error),
            timeouts: count(|node| node.is_timeout),
            failure: None,
        };
        known.sequence += 1;
        let told = &mut known.told;
        told.ask_devices(source, options.devices_max, &known.fabric, now_ms())
            .await;
        let snapshot = publish(shared, known, collection);
        lock(&shared.history).push(&snapshot);
    }
}

/// Asks subnet administration for all devices, ports and cables.
async fn discover(
    client: &mut Client,
    source: &Source,
    known: &mut Known,
) -> Result<(), ClientError> {
    let own = client.own_port().await?;
    let sm = own.master_sm_lid;
    if !sm.is_unicast() {
        return Err(ClientError::NoManager);
    }
    let key = source.sa_key.get();
    let tables = Tables {
        nodes: client.table(sm, key).await?,
        ports: client.table(sm, key).await?,
        links: client.table(sm, key).await?,
    };
    let mut fabric = Fabric::clone(&known.fabric);
    if discovery::update(&mut fabric, &tables) {
        known.books.fit(&fabric);
        known.fabric = Arc::new(fabric);
    }
    known.discovered_at = Some(Instant::now());
    Ok(())
}

/// Sends the requests of a sample and takes the answers; how many were sent.
async fn run(client: &mut Client, mut round: Round<'_>) -> Result<u64, ClientError> {
    let mut is_blocked = false;
    while !round.is_over() {
        while !is_blocked {
            let now = clock::now();
            let mut is_all = false;
            while !client.is_full() {
                let tid = client.next_tid();
                let Some((lid, mad)) = round.next(now, || tid) else {
                    is_all = true;
                    break;
                };
                client.prepare(lid, mad)?;
            }
            is_blocked = !client.try_send()?;
            if is_all {
                break;
            }
        }
        if round.is_over() {
            break;
        }
        let now = clock::now();
        let due = round
            .deadline()
            .map_or(0, |due| due.0.saturating_sub(now.0));
        tokio::select! {
            biased;
            answer = client.receive() => {
                let (lid, mad) = answer?;
                let now = clock::now();
                round.answered(now, lid, &mad);
                while let Some((lid, mad)) = client.try_receive()? {
                    round.answered(now, lid, &mad);
                }
                if !round.is_over() {
                    tokio::time::sleep(GATHER).await;
                }
            }
            sent = client.send_prepared(), if is_blocked => {
                sent?;
                client.is_sent();
                is_blocked = false;
            }
            () = tokio::time::sleep(Duration::from_nanos(due)), if !is_blocked => {}
        }
    }
    Ok(round.end())
}

/// Makes all that is known the latest snapshot.
fn publish(shared: &Shared, known: &mut Known, collection: Collection) -> Arc<Snapshot> {
    let books = &known.books;
    let snapshot = Arc::new(Snapshot {
        sequence: known.sequence,
        at_ms: now_ms(),
        fabric: Arc::clone(&known.fabric),
        readings: books.ports.iter().map(|port| port.reading()).collect(),
        nodes: books.nodes.iter().map(|node| node.collection).collect(),
        devices: known.told.devices.as_slice().into(),
        controllers: known.told.controllers.as_slice().into(),
        processes: Arc::clone(&lock(&shared.processes)),
        collection,
    });
    shared.latest.send_replace(Arc::clone(&snapshot));
    snapshot
}
