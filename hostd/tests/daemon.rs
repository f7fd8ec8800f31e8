//! The daemon as a process: its sockets, its link to another one, and how it leaves.
#![expect(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

use std::io::BufReader;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::rc::Rc;
use std::time::Duration;

use daemon::control::ControlClient;
use hostd::HostConfig;
use hostd::control::{PortRequest, Reply, Request};
use link::Time;
use mad::local::{FromAgent, MadMessage, ToAgent};
use mad::umad;
use netio::clock;
use netio::datagram::AbstractSocket;
use netio::process::{Pidfd, Signal};
use netio::seqpacket::BlockingConnection;
use recording::{End, Ending, Entry, Kind, Reader};
use tempfile::TempDir;
use wire::attr::NodeInfo;
use wire::control::{DeviceReply, DeviceRequest, PortStatus};
use wire::mad::{AttributeId, Mad, Method, MgmtClass};
use wire::record::RecordKind;
use wire::udplink::{UdpEndpoint, UdpLinkHeader};
use wire::umad2sim::{Connect, ControlDatagram, ControlKind, DataDatagram};
use wire::{Format, Guid, Lid, PortNum, Qpn, Sl};

const TIMEOUT: Duration = Duration::from_secs(20);
const PORT: PortNum = PortNum::new(1);
const INIT: u8 = 2;
const DOWN: u8 = 1;

/// Tries until it works, for as long as a loaded machine may need.
fn eventually<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let end = clock::now() + u64::try_from(TIMEOUT.as_nanos()).unwrap();
    loop {
        if let Some(done) = attempt() {
            return done;
        }
        assert!(clock::now() < end, "{what}: not within {TIMEOUT:?}");
        std::thread::park_timeout(Duration::from_millis(2));
    }
}

/// A running daemon; killed when it goes.
struct Daemon {
    child: Child,
    directory: Rc<TempDir>,
    name: String,
}

/// A request that any device serves.
fn of_host(request: DeviceRequest) -> PortRequest {
    PortRequest {
        port: PORT,
        request: Request::Device(request),
    }
}

impl Daemon {
    fn start(number: u64, more: &[&str]) -> Self {
        Self::start_in(Rc::new(tempfile::tempdir().unwrap()), number, more)
    }

    fn start_in(directory: Rc<TempDir>, number: u64, more: &[&str]) -> Self {
        let more = [&["--log-level", "error"], more].concat();
        Self::start_with(directory, number, &more, Stdio::inherit())
    }

    /// As [`Daemon::start_in`], with its standard error.
    fn start_with(directory: Rc<TempDir>, number: u64, more: &[&str], stderr: Stdio) -> Self {
        let name = format!("h{number}");
        let child = Command::new(env!("CARGO_BIN_EXE_hostd"))
            .args(["--name", &name, "--guid", &format!("{number:x}")])
            .arg("--dir")
            .arg(directory.path())
            .args(["--link", "1=udp:127.0.0.1"])
            .args(["--unpaced", "--silence-ms", "600000"])
            .args(more)
            .stdin(Stdio::null())
            .stderr(stderr)
            .spawn()
            .unwrap();
        let daemon = Self {
            child,
            directory,
            name,
        };
        // Not only connections that wait: by its first answer it has all its sockets.
        eventually("the daemon answers", || {
            let mut client = ControlClient::connect(&daemon.socket("ctl"), TIMEOUT).ok()?;
            let identify = of_host(DeviceRequest::Identify);
            client.request::<_, Reply>(&identify).ok()
        });
        daemon
    }

    fn socket(&self, kind: &str) -> PathBuf {
        self.directory.path().join(format!("{}.{kind}", self.name))
    }

    fn ask(&self, request: DeviceRequest) -> DeviceReply {
        let mut client = ControlClient::connect(&self.socket("ctl"), TIMEOUT).unwrap();
        match client.request(&of_host(request)).unwrap() {
            Reply::Device(reply) => reply,
            other => panic!("{other:?}"),
        }
    }

    fn port(&self) -> PortStatus {
        match self.ask(DeviceRequest::Ports) {
            DeviceReply::Ports(mut ports) => ports.remove(0),
            other => panic!("{other:?}"),
        }
    }

    fn wait_for_state(&self, state: u8) {
        eventually("the port's state", || {
            (self.port().state == state).then_some(())
        });
    }

    fn endpoint(&self) -> UdpEndpoint {
        let DeviceReply::Endpoints(ends) = self.ask(DeviceRequest::Endpoints) else {
            panic!("no endpoints");
        };
        let (port, end) = ends[0];
        assert_eq!(port, PORT);
        end
    }

    fn connect(&self, other: &Self) {
        let (port, peer) = (PORT, other.endpoint());
        let connect = DeviceRequest::Connect { port, peer };
        assert_eq!(self.ask(connect), DeviceReply::Done);
    }

    fn counter(&self, name: &str) -> u64 {
        let counters = self.port().counters;
        let found = counters.iter().find(|(counter, _)| counter == name);
        found.map_or(0, |&(_, count)| count)
    }

    /// Waits for the end of the process.
    fn ended(&mut self) -> ExitStatus {
        let process = Pidfd::open(self.child.id()).unwrap();
        assert!(process.wait(TIMEOUT).unwrap(), "it goes on");
        self.child.wait().unwrap()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // One that has ended already is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Two daemons on one cable, up to Init.
fn pair() -> (Daemon, Daemon) {
    pair_with(&["--log-level", "error"])
}

/// The same, the first with options of its own, and with a level of its log among them.
fn pair_with(more: &[&str]) -> (Daemon, Daemon) {
    let directory = Rc::new(tempfile::tempdir().unwrap());
    let one = Daemon::start_with(directory, 0x11, more, Stdio::inherit());
    let other = Daemon::start(0x22, &[]);
    one.connect(&other);
    other.connect(&one);
    one.wait_for_state(INIT);
    other.wait_for_state(INIT);
    (one, other)
}

fn node_info(tid: u64, path: &[PortNum]) -> Mad {
    Mad::directed_smp(Method::GET, AttributeId::NODE_INFO, 0, tid, path).unwrap()
}

#[test]
fn a_daemon_reports_its_identity_and_ends_when_asked() {
    let mut daemon = Daemon::start(0x1f, &[]);
    let identity = DeviceReply::Identity {
        name: "h31".to_owned(),
        guid: Guid(0x1f),
        pid: daemon.child.id(),
    };
    assert_eq!(daemon.ask(DeviceRequest::Identify), identity);
    assert_eq!(daemon.port().state, DOWN, "its cable leads nowhere yet");
    assert_eq!(daemon.ask(DeviceRequest::Shutdown), DeviceReply::Done);
    assert!(daemon.ended().success());
    let left: Vec<_> = std::fs::read_dir(daemon.directory.path())
        .unwrap()
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
#[expect(clippy::disallowed_types, reason = "the daemon's log")]
fn a_log_that_cannot_be_written_ends_no_daemon() {
    let full = std::fs::File::options()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let directory = Rc::new(tempfile::tempdir().unwrap());
    let more = ["--log-level", "trace"];
    let mut daemon = Daemon::start_with(directory, 0x1f, &more, full.into());
    // Something to log: a request that makes no sense.
    let stranger = BlockingConnection::connect(&daemon.socket("ctl"), TIMEOUT).unwrap();
    stranger.send(&[0xff]).unwrap();
    assert_eq!(stranger.receive().unwrap(), None);
    assert_eq!(daemon.port().state, DOWN);
    assert_eq!(daemon.ask(DeviceRequest::Shutdown), DeviceReply::Done);
    assert!(daemon.ended().success());
}

#[test]
fn idle_clients_of_the_mad_socket_keep_no_other_out() {
    netio::process::raise_open_files(1000).unwrap();
    let (one, _other) = pair();
    let connect = || BlockingConnection::connect(&one.socket("mad"), TIMEOUT).unwrap();
    let manager = connect();
    let class = MgmtClass::SUBN_ADM.0;
    send(&manager, &ToAgent::Register { class });
    let registered = manager.receive().unwrap().expect("the daemon lives");
    let registered: FromAgent = wire::control::decode(&registered).unwrap();
    assert!(matches!(registered, FromAgent::Registered { .. }));
    let crowd: Vec<_> = (0..200).map(|_| connect()).collect();
    // The second client has registered, so its connection has not been closed for the others.
    for (socket, tid) in [(&connect(), 1), (&manager, 2)] {
        ask_neighbour(socket, tid);
        assert_eq!(answer_of_neighbour(socket, tid), Guid(0x22));
    }
    drop(crowd);
}

#[test]
fn a_mad_crosses_the_cable_and_its_answer_comes_back_to_its_sender() {
    let (one, _other) = pair();
    let sockets = [0u64, 1].map(|number| {
        let socket = BlockingConnection::connect(&one.socket("mad"), TIMEOUT).unwrap();
        let tid = 0xaaaa_bbbb_0000_0000 + number;
        ask_neighbour(&socket, tid);
        (socket, tid)
    });
    for (socket, tid) in sockets {
        assert_eq!(answer_of_neighbour(&socket, tid), Guid(0x22));
    }
}

#[test]
fn messages_may_share_a_packet_and_who_sends_them_so_is_answered_so() {
    let (one, _other) = pair();
    let socket = BlockingConnection::connect(&one.socket("mad"), TIMEOUT).unwrap();
    let tids = 1..=100u64;
    let mut packet = Vec::new();
    for tid in tids.clone() {
        let own = Mad::lid_smp(Method::GET, AttributeId::NODE_INFO, 0, tid);
        let message = ToAgent::ReadOwn(Box::new(*own.as_bytes()));
        wire::control::append(&message, &mut packet).unwrap();
    }
    socket.send(&packet).unwrap();
    let (mut answered, mut packets) = (Vec::new(), 0);
    while answered.len() < 100 {
        let packet = socket.receive().unwrap().expect("the daemon lives");
        packets += 1;
        let mut rest = packet.as_slice();
        while !rest.is_empty() {
            let message;
            (message, rest) = wire::control::decode_first(rest).unwrap();
            let FromAgent::Received(answer) = message else {
                panic!("{message:?}");
            };
            answered.push(Mad::parse(&answer.mad[..]).unwrap().0.tid());
        }
    }
    answered.sort_unstable();
    assert!(answered.into_iter().eq(tids));
    assert!(packets < 100, "{packets} packets");
    // What is cut off in the middle ends the connection, as anything that is no message.
    socket.send(&packet[..packet.len() - 1]).unwrap();
    let is_closed = || matches!(socket.receive(), Ok(None) | Err(_));
    while !is_closed() {}
}

fn send(socket: &BlockingConnection, message: &ToAgent) {
    let bytes = wire::control::encode(message).unwrap();
    socket.send(&bytes).unwrap();
}

/// Asks the device at the other end of the cable for its NodeInfo.
fn ask_neighbour(socket: &BlockingConnection, tid: u64) {
    let message = ToAgent::Send(MadMessage {
        lid: Lid::PERMISSIVE,
        qpn: Qpn::constant(0),
        sl: Sl::constant(0),
        mad: Box::new(*node_info(tid, &[PORT]).as_bytes()),
        way: None,
    });
    send(socket, &message);
}

/// Its GUID.
fn answer_of_neighbour(socket: &BlockingConnection, tid: u64) -> Guid {
    let answer = socket.receive().unwrap().expect("the daemon lives");
    let FromAgent::Received(answer) = wire::control::decode(&answer).unwrap() else {
        panic!("something else than a MAD");
    };
    let (mad, _) = Mad::parse(&answer.mad[..]).unwrap();
    assert_eq!((mad.tid(), mad.method()), (tid, Method::GET_RESP));
    let info: NodeInfo = mad.smp_attribute().unwrap();
    info.node_guid
}

#[test]
fn a_daemon_that_is_terminated_tells_its_peer() {
    let (one, mut other) = pair();
    let process = Pidfd::open(other.child.id()).unwrap();
    process.signal(Signal::TERM).unwrap();
    assert!(other.ended().success());
    // Far sooner than silence would tell: that takes ten minutes here.
    one.wait_for_state(DOWN);
}

#[test]
fn a_killed_daemon_comes_back_on_another_socket_and_the_link_with_it() {
    let (one, mut other) = pair();
    other.child.kill().unwrap();
    other.ended();
    let again = Daemon::start_in(Rc::clone(&other.directory), 0x22, &[]);
    one.connect(&again);
    again.connect(&one);
    again.wait_for_state(INIT);
    one.wait_for_state(INIT);
    assert_eq!(one.counter("LinkDownedCounter"), 1);
}

#[test]
#[expect(clippy::disallowed_types, reason = "a stranger's socket")]
#[expect(clippy::disallowed_methods, reason = "the daemon's log")]
fn a_process_on_the_port_of_a_dead_peer_neither_takes_the_link_down_nor_trains_it() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("one.log");
    let told = ["--log-level", "warn", "--log", log.to_str().unwrap()];
    let (one, mut other) = pair_with(&told);
    let (at_one, at_other) = (one.endpoint().address, other.endpoint().address);
    other.child.kill().unwrap();
    other.ended();
    let squatter = std::net::UdpSocket::bind(at_other).unwrap();
    squatter.set_read_timeout(Some(TIMEOUT)).unwrap();
    let mut heard = [0; 4096];
    for round in 1..=3 {
        // A keep-alive: all that a stranger can know of what the link needs.
        let length = squatter.recv(&mut heard).unwrap();
        let (header, records) = UdpLinkHeader::parse(&heard[..length]).unwrap();
        let down = [RecordKind::LinkDown as u8, 0, 0, 0];
        let mut later = header;
        later.epoch = later.epoch.wrapping_add(1);
        for (header, records) in [(header, records), (header, &down), (later, &down)] {
            let forged = [&header.to_bytes::<{ UdpLinkHeader::LEN }>()[..], records].concat();
            squatter.send_to(&forged, at_one).unwrap();
        }
        eventually("the forged ones are counted", || {
            (one.counter("frames_dropped_wrong_secret") == 3 * round).then_some(())
        });
    }
    assert_eq!(one.port().state, INIT);
    assert_eq!(one.counter("LinkDownedCounter"), 0);
    let log = std::fs::read(&log).unwrap();
    let log = String::from_utf8_lossy(&log);
    assert!(
        log.contains("is not the peer") && log.contains("port=1"),
        "{log}"
    );

    let again = Daemon::start_in(Rc::clone(&other.directory), 0x22, &[]);
    one.connect(&again);
    again.connect(&one);
    again.wait_for_state(INIT);
    one.wait_for_state(INIT);
    assert_eq!(one.counter("LinkDownedCounter"), 1);
}

#[test]
#[expect(clippy::disallowed_types, reason = "the daemon's file is read")]
fn a_recorded_daemon_leaves_all_that_it_was_handed_and_did() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("h.rec");
    let record = ["--record", path.to_str().unwrap()];
    let mut daemon = Daemon::start(0x11, &record);
    let peer = Daemon::start(0x22, &[]);
    daemon.connect(&peer);
    peer.connect(&daemon);
    daemon.wait_for_state(INIT);
    assert_eq!(daemon.ask(DeviceRequest::Shutdown), DeviceReply::Done);
    assert!(daemon.ended().success());

    let mut reader = Reader::new(BufReader::new(std::fs::File::open(&path).unwrap())).unwrap();
    assert_eq!(reader.header().kind, Kind::Host);
    let config: HostConfig = wire::control::decode(&reader.header().config).unwrap();
    assert_eq!((config.guid, config.pid), (Guid(0x11), daemon.child.id()));
    let (mut frames, mut pulls, mut last) = (0, 0, Time::ZERO);
    while let Some(entry) = reader.next_entry::<hostd::Command>().unwrap() {
        let now = entry.now().unwrap_or(last);
        assert!(last <= now, "{entry:?}");
        last = now;
        frames += u32::from(matches!(entry, Entry::Frame { .. }));
        pulls += u32::from(matches!(entry, Entry::Pull { .. }));
    }
    assert_eq!(reader.ending(), Some(Ending::Recorded(End::Closed)));
    assert!(frames > 0 && pulls > 0, "{frames} frames, {pulls} pulls");

    let output = Command::new(env!("CARGO_BIN_EXE_hostd"))
        .args(["--name", "h", "--guid", "11", "--dir"])
        .arg(folder.path())
        .args(record)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("h.rec"), "{said}");
}

#[tokio::test]
async fn a_program_of_ibsims_client_library_connects_asks_and_is_answered() {
    let base = format!("hostd-test-{}", std::process::id());
    let _daemon = Daemon::start(0x33, &["--umad-socket", &base]);
    use_as_program(&base).await;
}

#[tokio::test]
async fn names_that_are_taken_keep_no_program_out() {
    let base = format!("hostd-squatted-{}", std::process::id());
    let _daemon = Daemon::start(0x33, &["--umad-socket", &base]);
    let taken: Vec<AbstractSocket> = (1..40)
        .filter_map(|slot| AbstractSocket::bind(&format!("{base}:out{slot}")).ok())
        .collect();
    assert_eq!(taken.len(), 39, "the daemon holds the first only");
    for _ in 0..3 {
        use_as_program(&base).await;
    }
}

/// Connects as ibsim's client library does, and asks the host for its node information.
async fn use_as_program(base: &str) {
    let id = std::process::id();
    let control = AbstractSocket::bind(&format!("{base}:ctl{id}")).unwrap();
    control.connect(&format!("{base}:ctl")).unwrap();
    let data = AbstractSocket::bind(&format!("{base}:in{id}")).unwrap();

    let connect = Connect {
        id,
        qp: 0,
        is_sm: false,
        node: Connect::node_bytes(""),
    };
    let mut request = ControlDatagram {
        client: 0,
        kind: ControlKind::CONNECT,
        len: 44,
        data: [0; 64],
    };
    connect.emit(&mut request.data);
    let mut buffer = [0; 512];
    control
        .send(&request.to_bytes::<{ ControlDatagram::LEN }>())
        .await
        .unwrap();
    let length = receive(&control, &mut buffer).await;
    let (answer, _) = ControlDatagram::parse(&buffer[..length]).unwrap();
    assert_eq!(answer.kind, ControlKind::CONNECT);
    let (connected, _) = Connect::parse(&answer.data).unwrap();
    assert_eq!(connected.node_name(), Some("h51"));
    data.connect(&format!("{base}:out{}", connected.id))
        .unwrap();

    // More than a socket's queue holds, all before the first answer is read.
    for tid in 0..40 {
        let datagram = DataDatagram {
            dlid: Lid::PERMISSIVE,
            slid: Lid::PERMISSIVE,
            dest_qp: Qpn::constant(0),
            src_qp: Qpn::constant(0),
            status: 0,
            len: 256,
            mad: node_info(tid, &[]),
        };
        data.send(&datagram.to_bytes::<{ DataDatagram::LEN }>())
            .await
            .unwrap();
    }
    for _ in 0..40 {
        let length = receive(&data, &mut buffer).await;
        assert_eq!(length, DataDatagram::LEN);
        let (answer, _) = DataDatagram::parse(&buffer[..length]).unwrap();
        assert_eq!(answer.status, 0);
        let info: NodeInfo = answer.mad.smp_attribute().unwrap();
        assert_eq!(info.node_guid, Guid(0x33));
    }
}

async fn receive(socket: &AbstractSocket, buffer: &mut [u8]) -> usize {
    let received = tokio::time::timeout(TIMEOUT, socket.receive(buffer)).await;
    received.expect("an answer").unwrap().0
}

/// What a program says to the socket of libibumad, and how its connection ends.
#[test]
fn a_program_that_stops_in_the_middle_of_a_long_user_mad_loses_its_connection_and_no_other_waits() {
    let daemon = Daemon::start(0x11, &[]);
    let socket = daemon.socket("ibumad");
    let connect = || BlockingConnection::connect(&socket, TIMEOUT).unwrap();
    let (stopped, other) = (connect(), connect());
    let send = umad::Request::Send {
        descriptor: 1,
        length: 100_000,
    };
    stopped
        .send(&wire::control::encode(&send).unwrap())
        .unwrap();
    stopped.send(&[0; 1000]).unwrap();
    let describe = wire::control::encode(&umad::Request::Describe).unwrap();
    other.send(&describe).unwrap();
    let reply = other.receive().unwrap().unwrap();
    let reply: umad::Reply = wire::control::decode(&reply).unwrap();
    assert!(matches!(reply, umad::Reply::Adapter(_)), "{reply:?}");
    assert!(matches!(stopped.receive(), Ok(None)), "it is closed");
}
