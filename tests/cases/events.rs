//! `ibemu events`: traps as a manager of real hardware hears them, whichever subnet manager runs, and what else happens.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use e2e::{Fabric, OpenSm, Outcome, Transport, diags, within};
use mad::local::{MadMessage, ToAgent};
use monitor::events::{Event, Kind};
use netio::seqpacket::BlockingConnection;
use wire::mad::MadStatus;
use wire::sa::InformInfo;
use wire::{AttributeId, Gid, Lid, Mad, Method, Qpn, Sl};

/// How long an event may take on a loaded machine.
const LIMIT: Duration = Duration::from_secs(40);

/// A running `ibemu events --json`.
struct Listening {
    child: Child,
    events: mpsc::Receiver<Event>,
    /// What has come so far.
    seen: Vec<Event>,
}

impl Listening {
    /// Starts it and waits until it hears traps.
    #[track_caller]
    fn start(fabric: &Fabric, options: &[&str]) -> Self {
        let mut command = fabric.command(&["events", "--json"]);
        command
            .args(options)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("ibemu events starts");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let (sender, events) = mpsc::channel();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let event = serde_json::from_str(&line).expect("an event");
                let _ = sender.send(event);
            }
        });
        let mut listening = Self {
            child,
            events,
            seen: Vec::new(),
        };
        let _ = listening.sees("traps are heard", |event| {
            event.kind == Kind::Listener && event.fields["heard"] == true
        });
        listening
    }

    /// The first event for which that holds, of those that have come or still come.
    #[track_caller]
    fn sees(&mut self, what: &str, holds: impl Fn(&Event) -> bool) -> Event {
        if let Some(event) = self.seen.iter().find(|event| holds(event)) {
            return event.clone();
        }
        loop {
            match self.events.recv_timeout(LIMIT) {
                Ok(event) => {
                    self.seen.push(event.clone());
                    if holds(&event) {
                        return event;
                    }
                }
                Err(why) => panic!("{what}: {why}; there were {:#?}", self.seen),
            }
        }
    }

    /// Waits for a trap about a device.
    #[track_caller]
    fn hears(&mut self, trap: u16, device: &str) -> Event {
        self.sees(&format!("trap {trap} of {device}"), |event| {
            let is_of_device = event.device.as_deref() == Some(device);
            event.kind == Kind::Trap && event.fields["trap"] == trap && is_of_device
        })
    }

    /// What comes from now on counts.
    fn forget(&mut self) {
        while self.events.try_recv().is_ok() {}
        self.seen.clear();
    }

    /// Interrupts it: it ends at once and without an error. What it has said.
    #[track_caller]
    fn interrupt(mut self) -> String {
        let pid = self.child.id().to_string();
        let _ = Outcome::of(Command::new("kill").args(["-s", "INT", &pid])).success();
        let status = within(LIMIT, "the stream ends", || {
            let ended = self.child.try_wait().map_err(|error| error.to_string())?;
            ended.ok_or_else(|| "it runs".to_owned())
        });
        let mut said = String::new();
        let mut stderr = self.child.stderr.take().expect("a pipe");
        std::io::Read::read_to_string(&mut stderr, &mut said).expect("text");
        assert_eq!(status.code(), Some(0), "{said}");
        said
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How many subscriptions of a host stock saquery finds at subnet administration.
fn subscriptions(fabric: &Fabric, host: &str) -> usize {
    let records = diags(fabric, host, &["saquery", "IIR"]).success();
    records.stdout.matches("InformInfoRecord dump").count()
}

/// Pulls a cable and plugs it, kills a host and starts it: the traps of all that are heard, and what became of it is seen.
#[track_caller]
fn hears_a_cable_and_a_host(fabric: &Fabric, listening: &mut Listening) {
    // Both ends of the cable are switches; each reports it if a way is left.
    let _ = fabric.call(&["link", "down", "s1.0:3"]).success();
    let _ = listening.hears(128, "s1.0");
    let is_cable = |event: &Event, state: &str| {
        let is_port = event.device.as_deref() == Some("s1.0") && event.port == Some(3);
        let is_peer = event.fields.get("peer").is_some_and(|it| it == "s1.0")
            && event.fields["peer_port"] == 3;
        event.kind == Kind::Link && (is_port || is_peer) && event.fields["state"] == state
    };
    let cable = listening.sees("the cable is down", |event| is_cable(event, "down"));
    assert_eq!(cable.fields["before"], "active");
    listening.forget();
    let _ = fabric.call(&["link", "up", "s1.0:3"]).success();
    let _ = listening.hears(128, "s1.0");
    let _ = listening.sees("the cable is active", |event| is_cable(event, "active"));

    listening.forget();
    fabric.kill("h3.1");
    let gone = listening.hears(65, "h3.1");
    assert_eq!(
        (gone.port, &gone.fields["name"]),
        (Some(1), &"GID out of service".into())
    );
    let of_host = |kind: Kind| {
        move |event: &Event| event.kind == kind && event.device.as_deref() == Some("h3.1")
    };
    let ended = listening.sees("its process", of_host(Kind::Process));
    assert_eq!(ended.text, "h3.1 does not run any more");
    let left = listening.sees("the device", of_host(Kind::Device));
    assert_eq!(left.fields["present"], false);
    listening.forget();
    let _ = fabric.call(&["restart", "h3.1"]).success();
    let _ = listening.hears(64, "h3.1");
    let runs = listening.sees("its process", of_host(Kind::Process));
    assert_eq!(runs.fields["restarts"], 1);
    let back = listening.sees("the device", of_host(Kind::Device));
    assert_eq!(back.fields["present"], true);
}

#[test]
fn a_cable_and_a_host_are_heard_under_our_controller_and_the_subscription_ends_with_the_stream() {
    let fabric = Fabric::up(Transport::Udp, "fat-tree-4-2", &["--no-ip"]);
    assert_eq!(subscriptions(&fabric, "h1.0"), 0);
    let mut listening = Listening::start(&fabric, &["--host", "h1.0"]);
    assert_eq!(subscriptions(&fabric, "h1.0"), 1);
    hears_a_cable_and_a_host(&fabric, &mut listening);
    says_what_the_controller_does(&fabric, &mut listening);
    let said = listening.interrupt();
    assert!(said.contains("events, 0 lost"), "{said}");
    assert_eq!(subscriptions(&fabric, "h1.0"), 0);
    fabric.down();
}

#[test]
fn a_cable_and_a_host_are_heard_under_opensm() {
    let options = ["--no-ip", "--sm", "none"];
    let fabric = Fabric::up(Transport::Udp, "fat-tree-4-2", &options);
    let _sm = OpenSm::start(&fabric, "h0.0", &[]);
    let mut listening = Listening::start(&fabric, &["--host", "h1.0"]);
    assert_eq!(subscriptions(&fabric, "h1.0"), 1);
    hears_a_cable_and_a_host(&fabric, &mut listening);
    let _ = listening.interrupt();
    assert_eq!(subscriptions(&fabric, "h1.0"), 0);
    fabric.down();
}

/// A host is killed: the sweep begins with its cause, tables are written, and it ends.
#[track_caller]
fn says_what_the_controller_does(fabric: &Fabric, listening: &mut Listening) {
    fabric.kill("h3.0");
    let _ = listening.sees("a sweep begins", |event| {
        event.kind == Kind::Sweep
            && event
                .fields
                .get("cause")
                .is_some_and(|it| it == "trap 128 of s1.3")
    });
    let ended = listening.sees("it ends", |event| {
        event.kind == Kind::Sweep && event.fields.get("hosts").is_some_and(|it| it == 7)
    });
    let counts = ["switches", "links"].map(|name| ended.fields[name].as_u64());
    assert_eq!(counts, [Some(6), Some(15)]);
    assert_eq!(ended.fields["degraded"], true);
    assert_eq!(ended.fields["controller"], "controller");
    // The cable before was one between switches.
    let routed = listening.sees("tables are written", |event| event.kind == Kind::Routing);
    assert!(routed.fields["blocks"].as_u64() > Some(0), "{routed:?}");
}

#[test]
fn a_connection_and_another_subnet_manager_are_told() {
    let options = [
        "--no-ip",
        "--sm-node",
        "h0:9,h1:3",
        "--qos",
        "vlarb01",
        "--vls",
        "4",
    ];
    let fabric = Fabric::up(Transport::Udp, "star-4", &options);
    let mut listening = Listening::start(&fabric, &[]);
    let connect = ["qos", "connect", "h2", "h3", "--rate", "64M"];
    let _ = fabric.call(&connect).success();
    let admitted = listening.sees("a connection", |event| event.kind == Kind::Connection);
    assert_eq!(admitted.device.as_deref(), Some("h2"));
    assert_eq!(admitted.fields["destination"], "h3");
    assert_eq!(admitted.fields["rate_bps"], 64_000_000);
    assert_eq!(admitted.fields["outcome"], "admitted");
    listening.forget();
    fabric.kill("controller");
    let ended = listening.sees("the process", |event| event.kind == Kind::Process);
    assert_eq!(ended.device.as_deref(), Some("controller"));
    let master = listening.sees("the other manager", |event| event.kind == Kind::Master);
    assert_eq!(master.device.as_deref(), Some("h1"));
    assert_eq!(master.fields["before"], "h0");
    // The subscription is the new manager's as well.
    let _ = listening.sees("traps are heard", |event| event.kind == Kind::Listener);
    let _ = fabric.call(&["link", "down", "s0:4"]).success();
    let _ = listening.hears(65, "h3");
    let _ = listening.interrupt();
    fabric.down();
}

/// Sends something to `lid` as the subnet manager's host would.
fn send(connection: &BlockingConnection, lid: Lid, mad: &Mad) {
    let message = ToAgent::Send(MadMessage {
        lid,
        qpn: Qpn::GSI,
        sl: Sl::default(),
        mad: Box::new(*mad.as_bytes()),
        way: None,
    });
    let bytes = wire::control::encode(&message).expect("a MAD can be encoded");
    connection.send(&bytes).expect("the host takes MADs");
}

fn lid_of(fabric: &Fabric, host: &str) -> Lid {
    let lid = fabric.device(host)["lid"].as_u64().expect("a LID");
    Lid::new(u16::try_from(lid).expect("a LID"))
}

#[test]
fn garbage_for_reports_and_a_second_listener_do_no_harm() {
    let fabric = Fabric::up(Transport::Udp, "star-3", &["--no-ip"]);
    let mut listening = Listening::start(&fabric, &["--host", "h2", "--kind", "trap,listener"]);
    // From the manager's own port, so that they are taken for its reports.
    let manager = fabric.dir().join("h0.mad");
    let manager = BlockingConnection::connect(&manager, LIMIT).expect("the MAD socket");
    let listener = lid_of(&fabric, "h2");
    for seed in 0..200_u8 {
        let mut mad = Mad::sa(Method::REPORT, AttributeId::NOTICE, 0, u64::from(seed));
        let data = mad.sa_data_mut();
        for (at, byte) in (0_u8..).zip(data.iter_mut()) {
            *byte = at.wrapping_mul(seed).wrapping_add(seed);
        }
        // A generic trap of each number that is known, with details that make no sense.
        let numbers = [
            64_u16, 65, 66, 67, 128, 129, 130, 131, 144, 145, 256, 257, 258, 259,
        ];
        let number = numbers[usize::from(seed) % numbers.len()];
        data[0] = 0x80 | seed;
        data[4..6].copy_from_slice(&number.to_be_bytes());
        send(&manager, listener, &mad);
    }
    let _ = listening.sees("the last of them", |event| {
        event.kind == Kind::Trap && event.fields["trap"] == 131
    });
    // A host is one listener's.
    let second = ["events", "--host", "h2", "--seconds", "20"];
    let second = fabric.call(&second);
    second.fails_with(1, "another program has subscribed through the host");
    // Without a host named another one is found.
    let _ = Listening::start(&fabric, &["--seconds", "600"]).interrupt();
    listening.forget();
    let _ = fabric.call(&["link", "down", "h1:1"]).success();
    let _ = listening.hears(65, "h1");
    let _ = listening.interrupt();
    fabric.down();
}

#[test]
fn a_refused_subscription_is_said_and_other_events_are_there_without() {
    let fabric = Fabric::up(Transport::Udp, "star-3", &["--no-ip"]);
    let manager = lid_of(&fabric, "h0");
    let mut requests = fabric.smps("h2");
    let mut status = MadStatus::OK;
    // As many subscriptions of one port as there may be.
    for trap_number in 0..64 {
        let info = InformInfo {
            gid: Gid::default(),
            lid_first: Lid::new(InformInfo::ANY),
            lid_last: Lid::ZERO,
            is_generic: true,
            subscribe: true,
            notice_type: InformInfo::ANY,
            trap_number,
            qpn: Qpn::GSI,
            resp_time: 18,
            producer_type: InformInfo::ANY_PRODUCER,
        };
        let answer = requests.ask_administration(manager, Method::SET, 0, &info);
        status = answer.status();
        if status != MadStatus::OK {
            break;
        }
    }
    assert_eq!(status, MadStatus::SA_NO_RESOURCES);
    let refused = fabric.call(&["events", "--host", "h2", "--seconds", "60"]);
    refused.fails_with(1, "refuses the subscription");
    let options = [
        "events", "--host", "h2", "--kind", "listener", "--count", "1",
    ];
    let told = fabric.call(&options).success();
    assert!(told.stdout.contains("traps are not heard"), "{told}");
    let switch = fabric.call(&["events", "--host", "s0"]);
    switch.fails_with(1, "s0 is no host");
    let unknown = fabric.call(&["events", "--kind", "rumour"]);
    unknown.fails_with(2, "rumour");
    fabric.down();
}
