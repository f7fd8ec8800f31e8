//! What is answered to whom.

use std::net::TcpListener;
use std::process::Command;
use std::time::Duration;

use e2e::{Fabric, Outcome, Transport, within};
use serde_json::{Value, json};

use super::{Server, quiet, without_fabric};

/// How long a sample may take on a loaded machine.
const SAMPLED: Duration = Duration::from_secs(60);

#[test]
fn only_this_servers_page_with_its_token_is_served_and_a_get_changes_nothing() {
    let fabric = quiet("star-2");
    let server = Server::of(&fabric, &["--control"]);
    let cookie = format!("Cookie: ibemu-{}={}", server.address.port(), server.token);
    let origin = format!("Origin: http://{}", server.address);
    let json = "Content-Type: application/json";

    // The token in the address becomes a cookie that scripts cannot read and other sites do not send.
    let opened = server.ask("GET", &format!("/?token={}", server.token), &[], "");
    assert_eq!(opened.status, 303, "{opened:?}");
    let head = opened.head.to_lowercase();
    assert!(head.contains("location: /\r\n"), "{head}");
    assert!(head.contains("httponly; samesite=strict"), "{head}");
    let page = server.ask("GET", "/", &[&cookie], "");
    assert_eq!(page.status, 200);
    assert!(
        page.head
            .to_lowercase()
            .contains("content-security-policy: default-src 'none'; script-src 'self'")
    );

    // Nothing at all without the token, whatever is asked for.
    for path in [
        "/",
        "/main.js",
        "/api/map",
        "/api/stream",
        "/metrics",
        "/nothing",
    ] {
        assert_eq!(server.ask("GET", path, &[], "").status, 401, "{path}");
        assert_eq!(
            server.ask("GET", path, &["Cookie: ibemu-1=x"], "").status,
            401,
            "{path}"
        );
    }

    // DNS rebinding: a page of evil.example, whose name leads here now, sends its own name.
    let rebound = server.send(&format!(
        "GET /api/map HTTP/1.1\r\nHost: evil.example:{}\r\n{cookie}\r\nConnection: close\r\n\r\n",
        server.address.port()
    ));
    assert_eq!(rebound.status, 421, "{rebound:?}");
    let nameless = server.send(&format!("GET / HTTP/1.0\r\n{cookie}\r\n\r\n"));
    assert_eq!(nameless.status, 421, "{nameless:?}");

    // CSRF: the browser adds the cookie to what a page of another site, or of another port, sends.
    let pull = r#"{"port": "s0:1", "plugged": false}"#;
    for other in [
        "Origin: http://evil.example",
        "Origin: null",
        "Origin: http://127.0.0.1:1",
    ] {
        let refused = server.ask("POST", "/api/cable", &[&cookie, other, json], pull);
        assert_eq!(refused.status, 403, "{other}: {refused:?}");
    }
    assert_eq!(
        server
            .ask("POST", "/api/cable", &[&cookie, json], pull)
            .status,
        403
    );
    // A form cannot send JSON.
    let form = server.ask(
        "POST",
        "/api/cable",
        &[&cookie, &origin, "Content-Type: text/plain"],
        pull,
    );
    assert_eq!(form.status, 415, "{form:?}");
    // A GET of an action is none.
    for path in [
        "/api/cable",
        "/api/restart",
        "/api/traffic/start",
        "/api/traffic/stop",
    ] {
        let path = format!("{path}?port=s0:1&plugged=false&name=s0");
        assert_eq!(
            server.ask("GET", &path, &[&cookie, &origin], "").status,
            405,
            "{path}"
        );
    }
    assert_eq!(
        server
            .ask("DELETE", "/api/map", &[&cookie, &origin], "")
            .status,
        405
    );
    let active = |count: u64| match fabric.status()["links"]["active"].as_u64() {
        Some(active) if active == count => Ok(()),
        other => Err(format!("{other:?} links are active")),
    };
    active(2).unwrap();

    // The page itself may.
    let pulled = server.ask("POST", "/api/cable", &[&cookie, &origin, json], pull);
    assert_eq!(pulled.status, 200, "{pulled:?}");
    within(SAMPLED, "the cable is pulled", || active(1));
    drop(server);
    fabric.down();
}

#[test]
fn a_server_that_shows_only_changes_nothing() {
    let fabric = quiet("star-2");
    let server = Server::of(&fabric, &[]);
    assert_eq!(server.get("/api/map").json()["control"], false);
    for (path, body) in [
        ("/api/cable", r#"{"port": "s0:1", "plugged": false}"#),
        ("/api/restart", r#"{"name": "s0"}"#),
        ("/api/traffic/start", r#"{"pattern": "uniform"}"#),
        ("/api/traffic/stop", "{}"),
    ] {
        let refused = server.post(path, body);
        assert_eq!(refused.status, 403, "{path}: {refused:?}");
        assert!(refused.body.contains("--control"), "{refused:?}");
    }
    assert_eq!(fabric.status()["links"]["active"], 2);
    drop(server);
    fabric.down();
}

#[test]
fn what_is_asked_is_what_the_command_says() {
    let fabric = quiet("fat-tree-4-2");
    let server = Server::of(&fabric, &["--control"]);
    let map = server.get("/api/map").json();
    assert_eq!(map["arrangement"], "levels");
    assert_eq!(map["devices"].as_array().unwrap().len(), 14);
    let hosts: Vec<&str> = map["devices"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|device| device["kind"] == "host")
        .map(|device| device["name"].as_str().unwrap())
        .collect();
    let (from, to) = (hosts[0], hosts[hosts.len() - 1]);
    let path = server.get(&format!("/api/path?from={from}&to={to}")).json();
    let told = fabric.call(&["path", from, to, "--json"]).success().json();
    for key in ["source", "destination", "dlid", "sl", "hops"] {
        assert_eq!(path[key], told[key]);
    }
    assert_eq!(path["problem"], Value::Null);
    let paths = server
        .get(&format!("/api/paths?from={from}&to={to}"))
        .json();
    let lmc = fabric.device(to)["lmc"].as_u64().unwrap();
    assert_eq!(paths.as_array().unwrap().len(), 1 << lmc);

    // Every cable is Active, and is said to be Down once it is pulled.
    let sampled = |state: u64| {
        let answer = server.get(&format!("/api/sample?at={}", u64::MAX));
        if answer.status != 200 {
            return Err(answer.body);
        }
        let states = answer.json()["state"].clone();
        let is_so = states
            .as_array()
            .unwrap()
            .iter()
            .any(|cable| *cable == state);
        is_so.then_some(()).ok_or_else(|| states.to_string())
    };
    within(SAMPLED, "a sample with cables that are Active", || {
        sampled(4)
    });
    let device = server.get(&format!("/api/device?name={from}")).json();
    assert_eq!(device["guid"], fabric.device(from)["guid"]);
    let lids = server.get("/api/lids").json();
    let mut positions = map["devices"].as_array().unwrap().iter();
    let position = positions.position(|it| it["name"] == from);
    let own = lids
        .as_array()
        .unwrap()
        .iter()
        .find(|range| range["device"] == json!(position));
    assert_eq!(own.unwrap()["lid"], fabric.device(from)["lid"]);
    let lane = server.get("/api/lane?vl=0").json();
    assert_eq!(
        lane.as_array().unwrap().len(),
        map["cables"].as_array().unwrap().len()
    );
    assert_eq!(device["is_present"], true);
    let leaf = path["hops"][1]["node"].as_str().unwrap();
    let tables = server.get(&format!("/api/tables?name={leaf}")).json();
    let row = tables["forwarding"]
        .as_array()
        .unwrap()
        .iter()
        .find(|row| row["lid"] == path["dlid"]);
    let row = row.unwrap();
    assert_eq!(
        (&row["port"], &row["name"]),
        (&path["hops"][1]["out"], &json!(to))
    );
    let is_told = |kind: &str, text: &str| {
        let events = server.get("/api/events").json();
        let events = events.as_array().unwrap();
        let is_it = |event: &&Value| {
            event["kind"] == kind && event["text"].as_str().unwrap().contains(text)
        };
        let found = events.iter().find(is_it).cloned();
        found.ok_or_else(|| format!("{events:?}"))
    };
    let _ = within(SAMPLED, "a listener", || {
        is_told("listener", "traps are heard")
    });
    let pulled = server.post(
        "/api/cable",
        &json!({"port": format!("{leaf}:3"), "plugged": false}).to_string(),
    );
    assert_eq!(pulled.status, 200, "{pulled:?}");
    within(SAMPLED, "a sample with a cable that is Down", || sampled(1));
    // The switch has told the subnet manager, which has told whoever listens.
    let trap = within(SAMPLED, "a trap", || is_told("trap", leaf));
    assert_eq!(trap["device"], leaf);
    let events = server.get("/api/events").json();
    let texts: Vec<&str> = events
        .as_array()
        .unwrap()
        .iter()
        .map(|event| event["text"].as_str().unwrap())
        .collect();
    assert!(
        texts.iter().any(|text| text.contains("is pulled")),
        "{texts:?}"
    );
    // Names that are not there, numbers that are none.
    for (path, status, said) in [
        ("/api/device?name=nobody", 404, "there is no node nobody"),
        ("/api/path?from=nobody&to=x", 404, "there is no node nobody"),
        ("/api/series?cable=99999", 404, "there are cables 0 to"),
        ("/api/lane?vl=15", 404, "there are data lanes 0 to"),
        (
            "/api/device?name=nobody&at=1",
            404,
            "there is no node nobody",
        ),
        ("/api/series?cable=x", 400, "cable"),
        ("/api/nothing", 404, "docs/formats.md"),
    ] {
        let answer = server.get(path);
        assert_eq!(answer.status, status, "{path}: {answer:?}");
        assert!(answer.body.contains(said), "{path}: {answer:?}");
    }
    for (body, said) in [
        (r#"{"port": "s9:1", "plugged": true}"#, "no node"),
        (r#"{"port": "x", "plugged": true}"#, "NODE:PORT"),
    ] {
        let answer = server.post("/api/cable", body);
        assert_eq!(answer.status, 404, "{answer:?}");
        assert!(answer.body.contains(said), "{answer:?}");
    }
    assert_eq!(server.post("/api/cable", "{").status, 400);
    assert_eq!(server.post("/api/cable", &"x".repeat(20_000)).status, 413);
    drop(server);
    fabric.down();
}

#[test]
fn a_recording_is_shown_without_its_fabric_and_what_is_damaged_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let file = |name: &str, bytes: &[u8]| {
        std::fs::write(path(name), bytes).unwrap();
        path(name)
    };
    let refused = |options: &[&str], code, said: &str| {
        Outcome::of(&mut without_fabric(options)).fails_with(code, said);
    };
    let fabric = quiet("star-2");
    let good = path("history");
    let server = Server::of(&fabric, &["--record", &good]);
    let map = server.get("/api/map").json();
    // What has happened by then is recorded with the next sample.
    within(SAMPLED, "an event", || {
        let events = server.get("/api/events").json();
        let is_any = events.as_array().is_some_and(|events| !events.is_empty());
        is_any.then_some(()).ok_or(events.to_string())
    });
    let heard_at = server.get("/api/span").json()["last_ms"].as_u64();
    let (first, last) = within(SAMPLED, "two samples later", || {
        let span = server.get("/api/span").json();
        let end = |key: &str| span[key].as_u64().unwrap_or(0);
        let (first, last) = (end("first_ms"), end("last_ms"));
        (last > first && Some(last) > heard_at)
            .then_some((first, last))
            .ok_or(span.to_string())
    });
    let sample = server.get(&format!("/api/sample?at={first}")).json();
    let again = fabric.call(&["web", "--listen", "127.0.0.1:0", "--record", &good]);
    again.fails_with(2, "is there already");
    drop(server);
    fabric.down();

    let server = Server::start(without_fabric(&["--replay", &good]));
    let shown = server.get("/api/map").json();
    assert_eq!(shown["replay"], true);
    assert_eq!(
        (&shown["devices"], &shown["cables"]),
        (&map["devices"], &map["cables"])
    );
    let span = server.get("/api/span").json();
    assert!(span["last_ms"].as_u64() >= Some(last), "{span}");
    assert_eq!(
        server.get(&format!("/api/sample?at={first}")).json(),
        sample
    );
    // What was known of a device then; of its counters a history keeps the rates.
    let host = format!("/api/device?name=h0&port=1&at={first}");
    let device = server.get(&host).json();
    assert_eq!(device["ports"][0]["state"], "active", "{device}");
    assert_eq!(device["ports"][0]["peer"], "s0:1");
    assert_eq!(device["ports"][0]["counters"], Value::Null);
    assert_eq!(
        server.get("/api/lids").json()[0]["count"],
        1,
        "LIDs are those of the last sample"
    );
    // A trap listener is told of at the start, and nothing else has happened.
    let events = server.get("/api/events").json();
    assert_eq!(events[0]["kind"], "listener", "{events}");
    for path in [
        "/api/stream",
        "/api/lane?vl=0",
        "/api/path?from=a&to=b",
        "/metrics",
    ] {
        let refused = server.get(path);
        assert_eq!(refused.status, 409, "{path}: {refused:?}");
        assert!(refused.body.contains("stored history"), "{refused:?}");
    }
    let whole = std::fs::read(&good).unwrap();
    let mut damaged = whole.clone();
    damaged[40] ^= 1;
    refused(&["--replay", &path("nothing")], 2, "--replay");
    refused(
        &["--replay", &file("text", b"hello")],
        2,
        "it is no history of ibemu",
    );
    refused(
        &["--replay", &file("damaged", &damaged)],
        2,
        "damaged: the chunk at byte 12",
    );
    refused(
        &["--replay", &file("short", &whole[..whole.len() - 1])],
        2,
        "cut short",
    );
    refused(&["--replay", &good, "--control"], 2, "--control");
    refused(
        &["--replay", &good, "--token-file", &file("token", b"abc")],
        1,
        "--token-file",
    );

    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let listen = |address: &str| {
        let arguments = ["web", "--replay", &good, "--listen", address];
        Outcome::of(&mut e2e::ibemu_command(&arguments))
    };
    listen(&address).fails_with(1, "is taken by another program");
    listen("0.0.0.0:0").fails_with(2, "--allow-remote");
    refused(
        &["--fabric", "nothing-there"],
        1,
        "there is no fabric nothing-there",
    );
}

#[test]
fn traffic_is_started_seen_and_stopped_and_nothing_else_is_started_by_its_name() {
    let fabric = quiet("star-4");
    let server = Server::of(&fabric, &["--control"]);
    for bad in [
        json!({"pattern": "/etc/passwd"}),
        json!({"pattern": "--help"}),
        json!({"pattern": "uniform", "rate": "--json"}),
        json!({"pattern": "uniform", "seconds": 0}),
    ] {
        let refused = server.post("/api/traffic/start", &bad.to_string());
        assert_eq!(refused.status, 400, "{bad}: {refused:?}");
    }
    assert_eq!(server.post("/api/traffic/stop", "{}").status, 409);
    let start = json!({"pattern": "all-to-all", "rate": "20M", "seconds": 600}).to_string();
    assert_eq!(server.post("/api/traffic/start", &start).status, 200);
    assert_eq!(server.post("/api/traffic/start", &start).status, 409);
    assert_eq!(server.get("/api/traffic").json()["running"], "all-to-all");
    within(SAMPLED, "cables are loaded", || {
        let answer = server.get(&format!("/api/sample?at={}", u64::MAX));
        let loads: Value = serde_json::from_str(&answer.body).map_err(|_| answer.body)?;
        let loads = loads["load"].as_array().cloned().unwrap_or_default();
        // Each host offers 20 thousandths of its link; samples by themselves are below one.
        let is_loaded = |load: &Value| load[0].as_u64() > Some(10) && load[1].as_u64() > Some(10);
        let all = loads.len() == 4 && loads.iter().all(is_loaded);
        all.then_some(()).ok_or(format!("{loads:?}"))
    });
    // Each lane of the switch's first port, as the switch itself tells it.
    within(SAMPLED, "lanes that have sent", || {
        let device = server.get("/api/device?name=s0").json();
        let ports = device["ports"].as_array().unwrap();
        let first = ports.iter().find(|port| port["port"] == 1).unwrap();
        let lanes = &first["lanes"];
        let sent = lanes[0]["xmit_bytes"].as_u64() > Some(0);
        let has_credits = lanes[0]["credits"].as_u64() > Some(0);
        (sent && has_credits).then_some(()).ok_or(lanes.to_string())
    });
    assert_eq!(server.post("/api/traffic/stop", "{}").status, 200);
    within(SAMPLED, "the traffic has ended", || {
        let events = server.get("/api/events").json();
        let is_end = |event: &Value| event["text"] == "traffic all-to-all has ended";
        let ended = events
            .as_array()
            .is_some_and(|events| events.iter().any(is_end));
        ended.then_some(()).ok_or(events.to_string())
    });
    assert_eq!(server.get("/api/traffic").json()["running"], Value::Null);
    let metrics = server.get("/metrics");
    assert!(
        metrics
            .body
            .contains("infiniband_switch_port_transmit_data_bytes_total{"),
        "{metrics:?}"
    );
    drop(server);
    fabric.down();
}

#[test]
fn sweeps_routing_connections_processes_and_drops_are_told_as_ibemu_events_tells_them() {
    let options = ["--no-ip", "--qos", "vlarb01", "--vls", "4"];
    let fabric = Fabric::up(Transport::Udp, "star-4", &options);
    let server = Server::of(&fabric, &[]);
    let is_told = |kind: &str, holds: &dyn Fn(&Value) -> bool| {
        let events = server.get("/api/events").json();
        let found = events.as_array().and_then(|events| {
            let mut of_kind = events.iter().filter(|event| event["kind"] == kind);
            of_kind.find(|event| holds(event)).cloned()
        });
        found.ok_or_else(|| events.to_string())
    };
    let _ = within(SAMPLED, "traps are heard", || {
        is_told("listener", &|event| event["device"] != Value::Null)
    });
    let connect = ["qos", "connect", "h2", "h3", "--rate", "64M"];
    let _ = fabric.call(&connect).success();
    let admitted = within(SAMPLED, "a connection", || is_told("connection", &|_| true));
    assert_eq!(admitted["device"], "h2");
    assert_eq!(admitted["fields"]["outcome"], "admitted");
    let _ = fabric.call(&["link", "down", "s0:4"]).success();
    let begun = within(SAMPLED, "a sweep with its cause", || {
        is_told("sweep", &|event| event["fields"]["cause"].is_string())
    });
    assert_eq!(begun["fields"]["controller"], "controller");
    let _ = within(SAMPLED, "its end", || {
        is_told("sweep", &|event| event["fields"]["hosts"] == 3)
    });
    let routed = within(SAMPLED, "tables are written", || {
        is_told("routing", &|_| true)
    });
    assert!(routed["fields"]["engine"].is_string(), "{routed}");
    let _ = fabric.call(&["restart", "h1"]).success();
    let ended = within(SAMPLED, "a process", || {
        is_told("process", &|event| event["device"] == "h1")
    });
    assert!(ended["fields"]["restarts"].is_u64(), "{ended}");
    // A datagram to a LID that nobody has is dropped by the switch, which tells the reason.
    let _ = e2e::diags(&fabric, "h0", &["perfquery", "-t", "200", "9999", "1"]);
    let dropped = within(SAMPLED, "a drop by reason", || {
        is_told("drop", &|event| event["device"] == "s0")
    });
    let reasons = dropped["fields"]["reasons"].as_object().unwrap();
    assert!(!reasons.is_empty(), "{dropped}");
    drop(server);
    fabric.down();
}

/// Nobody else has the page's usual port in a network namespace of its own.
#[test]
fn up_with_web_serves_the_page_at_its_usual_address_and_an_interrupt_leaves_the_fabric_up() {
    let fabric = Fabric::planned(Transport::Udp);
    let up = fabric.up_command("star-2", &["--no-ip", "--web"]);
    let alone = "ip link set lo up && exec \"$0\" \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--net", "sh", "-c", alone]);
    command.arg(up.get_program()).args(up.get_args());
    let variables = up.get_envs();
    command.envs(variables.filter_map(|(name, value)| Some((name, value?))));
    let mut server = Server::start(command);
    assert_eq!(server.address.to_string(), "127.0.0.1:8480");
    let pid = server.child.id().to_string();
    let inside = format!("--net=/proc/{pid}/ns/net");
    let mut asked = Command::new("nsenter");
    asked.args([&inside, "curl", "-sS", "--max-time", "60", "-H"]);
    asked.args([&server.bearer(), "http://127.0.0.1:8480/api/map"]);
    let map = Outcome::of(&mut asked).success().json();
    assert_eq!(map["devices"].as_array().map(Vec::len), Some(3));
    let _ = Outcome::of(Command::new("kill").args(["-s", "INT", &pid])).success();
    let ended = server.child.wait().expect("it ends");
    assert_eq!(ended.code(), Some(0));
    assert_eq!(fabric.status()["links"]["active"], 2);
    drop(server);
    fabric.down();
}
