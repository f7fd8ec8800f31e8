//! The daemon as a process: its sockets, its link to another one, and how it leaves.
#![expect(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use hostd::control::{Reply, Request};
use link::control::{DeviceReply, DeviceRequest, PortStatus};
use mad::local::{FromAgent, MadMessage, ToAgent};
use netio::clock;
use netio::control::ControlClient;
use netio::datagram::AbstractSocket;
use netio::process::Pidfd;
use netio::seqpacket::BlockingConnection;
use wire::attr::NodeInfo;
use wire::mad::{AttributeId, Mad, Method};
use wire::umad2sim::{Connect, ControlDatagram, ControlKind, DataDatagram};
use wire::{Format, Guid, Lid, PortNum, Qpn, Sl};

const PATIENCE: Duration = Duration::from_secs(20);
const PORT: PortNum = PortNum::truncate(1);
const INIT: u8 = 2;
const DOWN: u8 = 1;

/// Tries until it works, for as long as a loaded machine may need.
fn eventually<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let end = clock::now() + u64::try_from(PATIENCE.as_nanos()).unwrap();
    loop {
        if let Some(done) = attempt() {
            return done;
        }
        assert!(clock::now() < end, "{what}: not within {PATIENCE:?}");
        std::thread::park_timeout(Duration::from_millis(2));
    }
}

/// A running daemon; killed when it goes.
struct Daemon {
    child: Child,
    directory: PathBuf,
    name: String,
}

impl Daemon {
    fn start(test: &str, number: u64, more: &[&str]) -> Self {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
        std::fs::create_dir_all(&directory).unwrap();
        let name = format!("h{number}");
        let child = Command::new(env!("CARGO_BIN_EXE_hostd"))
            .args(["--name", &name, "--guid", &format!("{number:x}")])
            .arg("--dir")
            .arg(&directory)
            .args(["--link", "1=udp:127.0.0.1", "--log-level", "error"])
            .args(["--unpaced", "--silence-ms", "600000"])
            .args(more)
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let daemon = Self {
            child,
            directory,
            name,
        };
        eventually("the daemon answers", || {
            ControlClient::connect(&daemon.socket("ctl"), PATIENCE).ok()
        });
        daemon
    }

    fn socket(&self, kind: &str) -> PathBuf {
        self.directory.join(format!("{}.{kind}", self.name))
    }

    fn ask(&self, request: DeviceRequest) -> DeviceReply {
        let mut client = ControlClient::connect(&self.socket("ctl"), PATIENCE).unwrap();
        match client.request(&Request::Device(request)).unwrap() {
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

    fn connect(&self, other: &Self) {
        let DeviceReply::Endpoints(ends) = other.ask(DeviceRequest::Endpoints) else {
            panic!("no endpoints");
        };
        let (port, peer) = ends[0];
        assert_eq!(port, PORT);
        let connect = DeviceRequest::Connect { port, peer };
        assert_eq!(self.ask(connect), DeviceReply::Done);
    }

    /// Waits for the end of the process.
    fn ended(&mut self) -> ExitStatus {
        let process = Pidfd::open(self.child.id()).unwrap();
        assert!(process.wait(PATIENCE).unwrap(), "it goes on");
        self.child.wait().unwrap()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // One that has ended already is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Two daemons on one cable, up to Init.
fn pair(test: &str) -> (Daemon, Daemon) {
    let one = Daemon::start(&format!("{test}-1"), 0x11, &[]);
    let other = Daemon::start(&format!("{test}-2"), 0x22, &[]);
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
fn a_daemon_says_who_it_is_and_leaves_when_asked() {
    let mut daemon = Daemon::start("identify", 0x1f, &[]);
    let identity = DeviceReply::Identity {
        name: "h31".to_owned(),
        guid: Guid(0x1f),
        pid: daemon.child.id(),
    };
    assert_eq!(daemon.ask(DeviceRequest::Identify), identity);
    assert_eq!(daemon.port().state, DOWN, "its cable leads nowhere yet");
    assert_eq!(daemon.ask(DeviceRequest::Shutdown), DeviceReply::Done);
    assert!(daemon.ended().success());
    let left: Vec<_> = std::fs::read_dir(&daemon.directory).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_mad_crosses_the_cable_and_its_answer_comes_back_to_its_sender() {
    let (one, _other) = pair("mad");
    let sockets = [0u64, 1].map(|tid| {
        let socket = BlockingConnection::connect(&one.socket("mad"), PATIENCE).unwrap();
        let mad = node_info(0xaaaa_bbbb_0000_0000 + tid, &[PORT]);
        let message = ToAgent::Send(MadMessage {
            lid: Lid::PERMISSIVE,
            qpn: Qpn::truncate(0),
            sl: Sl::truncate(0),
            mad: Box::new(*mad.as_bytes()),
        });
        socket
            .send(&wire::control::encode(&message).unwrap())
            .unwrap();
        (socket, tid)
    });
    for (socket, tid) in sockets {
        let answer = socket.receive().unwrap().expect("the daemon lives");
        let FromAgent::Received(answer) = wire::control::decode(&answer).unwrap() else {
            panic!("something else than a MAD");
        };
        let (mad, _) = Mad::parse(&answer.mad[..]).unwrap();
        assert_eq!(mad.tid(), 0xaaaa_bbbb_0000_0000 + tid);
        assert_eq!(mad.method(), Method::GET_RESP);
        let info: NodeInfo = mad.smp_attribute().unwrap();
        assert_eq!(info.node_guid, Guid(0x22));
    }
}

#[test]
fn a_daemon_that_is_terminated_tells_its_peer() {
    let (one, mut other) = pair("leave");
    let process = Pidfd::open(other.child.id()).unwrap();
    process.signal(15).unwrap();
    assert!(other.ended().success());
    // Far sooner than silence would tell: that takes ten minutes here.
    one.wait_for_state(DOWN);
}

#[test]
fn a_killed_daemon_comes_back_on_another_socket_and_the_link_with_it() {
    let (one, mut other) = pair("again");
    other.child.kill().unwrap();
    other.ended();
    let again = Daemon::start("again-2", 0x22, &[]);
    one.connect(&again);
    again.connect(&one);
    again.wait_for_state(INIT);
    one.wait_for_state(INIT);
    let downed = |(name, count): &(String, u64)| name == "LinkDownedCounter" && *count == 1;
    let counters = one.port().counters;
    assert!(counters.iter().any(downed), "{counters:?}");
}

#[tokio::test]
async fn a_program_of_ibsims_client_library_connects_asks_and_is_answered() {
    let base = format!("hostd-test-{}", std::process::id());
    let _daemon = Daemon::start("umad", 0x33, &["--umad-socket", &base]);
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
            dest_qp: Qpn::truncate(0),
            src_qp: Qpn::truncate(0),
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
    let received = tokio::time::timeout(PATIENCE, socket.receive(buffer)).await;
    received.expect("an answer").unwrap().0
}
