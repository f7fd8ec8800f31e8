//! Credit loops of live tables, as the page shows them; the judge is `ibemu verify` on tables computed without a fabric.

use std::collections::BTreeSet;

use e2e::{Fabric, Outcome, Transport, ibemu_command, within};
use serde_json::Value;

use super::Server;
use super::browser::{Driver, SHOWN, click, until};
use super::pictures::{Album, WINDOW, tidy};

/// Minimal paths round a ring of six wait for each other.
const RING: &str = "ring-6-1";

fn ring(routing: &str) -> (Fabric, Server) {
    let fabric = Fabric::up(Transport::Udp, RING, &["--no-ip", "--routing", routing]);
    let server = Server::of(&fabric, &[]);
    within(SHOWN, "a sample in which all is Active", || {
        let sample = server.get(&format!("/api/sample?at={}", u64::MAX));
        let is_whole = sample.status == 200 && {
            let sample = sample.json();
            let states = sample["state"].as_array();
            states.is_some_and(|states| states.iter().all(|state| *state == 4))
        };
        is_whole.then_some(()).ok_or(sample.body)
    });
    (fabric, server)
}

/// The lanes of a cycle, whose first one says nothing.
fn channels(cycle: &Value, node: &str) -> BTreeSet<String> {
    let channels = cycle.as_array().expect("a cycle");
    let channel = |channel: &Value| {
        let node = channel[node].as_str().expect("a name");
        format!("{node}:{}/{}", channel["port"], channel["vl"])
    };
    channels.iter().map(channel).collect()
}

#[test]
fn a_credit_loop_of_live_tables_is_what_verify_finds_and_is_marked_on_the_map() {
    let (fabric, server) = ring("minhop");
    let verdict = Outcome::of(&mut ibemu_command(&[
        "verify",
        RING,
        "--routing",
        "minhop",
        "--json",
    ]));
    let expected = channels(&verdict.json()["cycle"], "switch");
    assert_eq!(expected.len(), 6, "{expected:?}");

    let found = server.get("/api/loops").json();
    assert_eq!(found["switches"], 6);
    assert_eq!(found["loops"][0]["among"], "packets between hosts");
    assert_eq!(channels(&found["loops"][0]["channels"], "node"), expected);

    let driver = Driver::start();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let page = driver.browser(&[WINDOW]).await;
        page.goto(&server.url).await.expect("the page");
        until(&page, SHOWN, "the map", "return document.querySelector('#state').textContent.startsWith('12 devices')").await;
        click(&page, "#tab-loops").await;
        click(&page, "#loops button").await;
        let shown = "return document.querySelector('#loops [data-loop]')?.dataset.loop";
        let shown = until(&page, SHOWN, "a loop", shown).await;
        let shown: BTreeSet<String> = shown.as_str().expect("text").split(' ').map(str::to_owned).collect();
        assert_eq!(shown, expected);
        // Six cables and six switches are marked.
        let label = "return document.querySelector('fabric-map canvas').getAttribute('aria-label').includes('6 cables marked')";
        until(&page, SHOWN, "cables that are marked", label).await;
        tidy(&page, RING).await;
        Album::open().keep(&page, "web-loop.png").await;
        page.close().await.expect("the browser closes");
    });

    // Without one of its cables the ring is a line.
    let _ = fabric.call(&["link", "down", "s0:2"]).success();
    within(SHOWN, "no loop without a cable", || {
        let answer = server.get("/api/loops");
        let is_none = answer.status == 200 && answer.json()["loops"] == Value::Array(Vec::new());
        is_none.then_some(()).ok_or(answer.body)
    });
    drop(server);
    fabric.down();
}

#[test]
fn layers_that_break_the_cycle_are_seen_in_the_live_tables_of_service_levels() {
    let (fabric, server) = ring("dfsssp");
    let found = server.get("/api/loops").json();
    assert_eq!(found["switches"], 6);
    assert_eq!(found["loops"], Value::Array(Vec::new()));
    drop(server);
    fabric.down();
}
