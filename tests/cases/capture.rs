//! Captures of a port's packets: stock tshark decodes every one of them, they are as many as the port has counted, and whatever
//! becomes of a capture the fabric does not notice.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use daemon::capture::CAPTURES_MAX;
use e2e::{Fabric, OpenSm, Outcome, Transport, diags, kill, named, tshark_fields, within};
use wire::PortNum;

mod extcap;
mod verbs;

/// How long something may take on a loaded machine.
const LIMIT: Duration = Duration::from_secs(30);

/// A running `ibemu capture`.
struct Capture {
    child: Option<Child>,
    /// What it says on standard error, a line at a time.
    said: mpsc::Receiver<String>,
}

impl Capture {
    /// Starts it and waits until the device shows it packets.
    #[track_caller]
    fn start(fabric: &Fabric, arguments: &[&str], stdout: Stdio) -> Self {
        let mut command = fabric.command(&["capture"]);
        command
            .args(arguments)
            .stdout(stdout)
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("ibemu capture starts");
        let lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        let (sender, said) = mpsc::channel();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        let capture = Self {
            child: Some(child),
            said,
        };
        capture.says("capturing at");
        capture
    }

    fn pid(&self) -> i32 {
        let child = self.child.as_ref().expect("it runs");
        i32::try_from(child.id()).expect("a process id")
    }

    /// Waits until it says something with these words.
    #[track_caller]
    fn says(&self, words: &str) -> String {
        loop {
            match self.said.recv_timeout(LIMIT) {
                Ok(line) if line.contains(words) => return line,
                Ok(_) => {}
                Err(_) => panic!("it does not say {words:?}"),
            }
        }
    }

    fn signal(&self, name: &str) {
        let pid = self.pid().to_string();
        let _ = Outcome::of(Command::new("kill").args(["-s", name, &pid])).success();
    }

    /// Interrupts it: packets captured and lost.
    #[track_caller]
    fn interrupt(mut self) -> (u64, u64) {
        self.signal("INT");
        let tally = self.tally();
        self.ends(0);
        tally
    }

    /// What it says at its end: packets captured and lost.
    #[track_caller]
    fn tally(&self) -> (u64, u64) {
        let line = self.says("lost in the capture");
        let numbers = line.split_whitespace().filter_map(|word| word.parse().ok());
        let numbers: Vec<u64> = numbers.collect();
        let [captured, lost] = numbers[..] else {
            panic!("{line}");
        };
        (captured, lost)
    }

    /// Waits until it ends, and with which code.
    #[track_caller]
    fn ends(&mut self, code: i32) {
        let mut child = self.child.take().expect("it runs");
        let status = within(LIMIT, "the capture ends", || {
            let ended = child.try_wait().map_err(|error| error.to_string())?;
            ended.ok_or_else(|| "it runs".to_owned())
        });
        assert_eq!(status.code(), Some(code));
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Packets that the port of the switch has received and sent.
fn counted(fabric: &Fabric, port: u8) -> [u64; 2] {
    let ports = fabric.switch_ports("s0");
    let port = ports
        .iter()
        .find(|status| status.port == PortNum::new(port))
        .expect("the port");
    let counters = named(port);
    ["PortRcvPkts", "PortXmitPkts"].map(|name| counters[name])
}

/// How many packets of a capture tshark finds for a display filter.
#[track_caller]
fn found(capture: &Path, filter: &str) -> usize {
    tshark_fields(capture, &["-Y", filter], &["frame.number"]).len()
}

/// Asserts that tshark decodes every packet, as InfiniBand and to its end.
#[track_caller]
fn decodes_whole(capture: &Path, packets: u64) {
    let all = tshark_fields(capture, &[], &["frame.protocols"]);
    assert_eq!(u64::try_from(all.len()).expect("a count"), packets);
    let other = all.iter().find(|row| !row[0].contains("infiniband"));
    assert_eq!(other, None);
    let wrong = tshark_fields(
        capture,
        &["-Y", "_ws.malformed"],
        &["frame.number", "_ws.col.Info"],
    );
    assert_eq!(wrong, Vec::<Vec<String>>::new(), "malformed");
}

/// Captures at a port of s0 while something happens: tshark decodes every packet, and they are as many each way as the port has counted.
#[track_caller]
fn captures_what_is_counted(fabric: &Fabric, port: u8, path: &Path, during: impl FnOnce()) {
    let before = counted(fabric, port);
    let name = path.to_str().expect("UTF-8");
    let place = format!("s0:{port}");
    let capture = Capture::start(fabric, &[&place, "-w", name], Stdio::null());
    let begun = counted(fabric, port);
    during();
    let at_least = counted(fabric, port);
    let (captured, lost) = capture.interrupt();
    let at_most = counted(fabric, port);
    assert_eq!(lost, 0);
    decodes_whole(path, captured);
    for (interface, at) in [(0, 0), (1, 1)] {
        let seen = found(path, &format!("erf.flags.cap == {interface}"));
        let range = at_least[at] - begun[at]..=at_most[at] - before[at];
        assert!(
            range.contains(&u64::try_from(seen).expect("a count")),
            "interface {interface}: {seen}, {range:?}"
        );
    }
}

#[test]
fn tshark_decodes_a_sweep_a_ping_a_multicast_send_and_a_table_and_counts_as_the_port_does() {
    let fabric = Fabric::up(
        Transport::Udp,
        "star-4",
        &["--sm", "none", "--no-ip", "--verify", "none"],
    );
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("s0.pcap");
    captures_what_is_counted(&fabric, 2, &path, || {
        let sm = OpenSm::start(&fabric, "h0", &[]);
        let _ = fabric.call(&["ping", "h1", "h2", "--count", "3"]).success();
        // OpenSM answers who joins before it has written the tables.
        let group = ["mcast", "test", "--group", "all", "--count", "1", "--keep"];
        within(LIMIT, "a packet to the group comes to all", || {
            let outcome = fabric.call(&group);
            (outcome.code == 0)
                .then_some(())
                .ok_or_else(|| outcome.to_string())
        });
        let table = diags(&fabric, "h1", &["saquery", "-N"]).success();
        assert_eq!(
            table.stdout.matches("NodeRecord dump").count(),
            5,
            "{table}"
        );
        drop(sm);
    });
    for (filter, what) in [
        (
            "infiniband.lrh.vl == 15 and infiniband.mad.attributeid == 0x11",
            "NodeInfo",
        ),
        (
            "infiniband.lrh.dlid >= 0xc000 and infiniband.lrh.vl != 15",
            "multicast",
        ),
        ("infiniband.rmpp.rmpptype == 1", "data of a transfer"),
        (
            "infiniband.rmpp.rmpptype == 2",
            "acknowledgement of a transfer",
        ),
    ] {
        assert!(found(&path, filter) > 0, "no {what}: {filter}");
    }
    fabric.down();
}

#[test]
fn a_capture_takes_what_its_filter_direction_count_and_snap_length_say() {
    let fabric = Fabric::up(Transport::Udp, "star-2", &["--no-ip"]);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("h1.pcap");
    let name = path.to_str().expect("UTF-8");
    let only = [
        "h1",
        "--rx",
        "--filter",
        "vl=0,lnh=local",
        "--count",
        "3",
        "--snaplen",
        "40",
        "-w",
        name,
    ];
    let mut capture = Capture::start(&fabric, &only, Stdio::null());
    let lines = File::create(folder.path().join("lines")).expect("a file");
    let text = Capture::start(&fabric, &["s0:1", "--filter", "mad=smp"], lines.into());
    let control = folder.path().join("control.pcap");
    // The ping below accounts for ten packets of the lane, so most of these are flow control.
    let with_control = ["h1:1", "--filter", "control,vl=0", "--count", "30", "-w"];
    let with_control = [&with_control[..], &[control.to_str().expect("UTF-8")]].concat();
    let mut with_control = Capture::start(&fabric, &with_control, Stdio::null());

    // By addresses, to standard output.
    let [source, destination] = ["h0", "h1"].map(|host| fabric.device(host)["lid"].clone());
    let filter = format!("slid={source},dlid={destination},lnh=local");
    let piped = folder.path().join("piped.pcap");
    let addressed = ["s0:1", "--filter", &filter, "--count", "3", "-w", "-"];
    let out = File::create(&piped).expect("a file");
    let mut addressed = Capture::start(&fabric, &addressed, out.into());

    let _ = fabric
        .call(&["ping", "h0", "h1", "--count", "5", "--size", "290"])
        .success();
    assert_eq!(addressed.tally(), (3, 0));
    addressed.ends(0);
    decodes_whole(&piped, 3);
    let lids = ["infiniband.lrh.slid", "infiniband.lrh.dlid"];
    let expected = [&source, &destination].map(ToString::to_string).to_vec();
    assert_eq!(tshark_fields(&piped, &[], &lids), vec![expected; 3]);
    assert_eq!(capture.tally(), (3, 0), "without more packets");
    capture.ends(0);
    let shown = tshark_fields(
        &path,
        &[],
        &[
            "erf.wlen",
            "frame.cap_len",
            "infiniband.lrh.vl",
            "erf.flags.cap",
        ],
    );
    assert_eq!(
        shown,
        vec![["290", "40", "0x00", "0"].map(str::to_owned).to_vec(); 3]
    );
    assert_eq!(
        found(&path, "_ws.malformed and not frame.len > frame.cap_len"),
        0
    );

    assert_eq!(with_control.tally().0, 30);
    with_control.ends(0);
    assert!(
        found(&control, "erf.types.type == 25") > 0,
        "flow control was asked for"
    );

    let sweeps = fabric.sweeps();
    let _ = fabric.call(&["link", "down", "h1:1"]).success();
    within(LIMIT, "the controller sweeps", || {
        let now = fabric.sweeps();
        (now > sweeps).then_some(()).ok_or_else(|| now.to_string())
    });
    let (captured, _) = text.interrupt();
    let text = fs::read_to_string(folder.path().join("lines")).expect("lines");
    assert_eq!(u64::try_from(text.lines().count()).unwrap(), captured);
    assert!(text.contains("SubnGet(NodeInfo) hop"), "{text}");
    assert!(text.lines().all(|line| line.contains("VL15")), "{text}");
    fabric.down();
}

#[test]
fn a_capture_that_is_not_read_loses_packets_counts_each_and_holds_none_up() {
    let fabric = Fabric::up(Transport::Udp, "star-2", &["--no-ip", "--unpaced"]);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("h0.pcap");
    let before = counted(&fabric, 1)[0];
    let name = path.to_str().expect("UTF-8");
    let capture = Capture::start(&fabric, &["s0:1", "--rx", "-w", name], Stdio::null());
    capture.signal("STOP");
    // 16 MB are more than the device, the socket and the command keep.
    let flow = [
        "perf", "h0", "h1", "--count", "8000", "--size", "2048", "--json",
    ];
    let report = fabric.call(&flow).success().json();
    assert_eq!(report["total"]["delivered"], 8000, "{report}");
    capture.signal("CONT");
    let (captured, lost) = capture.interrupt();
    assert!(lost > 0, "{captured} captured");
    let passed = counted(&fabric, 1)[0] - before;
    assert_eq!(captured + lost, passed, "{captured} captured, {lost} lost");
    decodes_whole(&path, captured);
    fabric.down();
}

#[test]
fn a_device_that_ends_and_comes_back_is_told_and_the_capture_goes_on() {
    let fabric = Fabric::up(Transport::Udp, "star-2", &["--no-ip"]);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("s0.pcap");
    let name = path.to_str().expect("UTF-8");
    let capture = Capture::start(&fabric, &["s0:1", "-w", name], Stdio::null());
    fabric.kill("s0");
    capture.says("s0 has ended");
    let _ = fabric.call(&["restart", "s0"]);
    capture.says("s0 runs again");
    within(LIMIT, "the fabric heals", || fabric.all_pairs());
    let (captured, _) = capture.interrupt();
    assert!(captured > 0);
    decodes_whole(&path, captured);

    let mut left = Capture::start(&fabric, &["s0:1", "-w", name], Stdio::null());
    let _ = fabric.call(&["down"]).success();
    left.says("taken down");
    left.ends(1);
    fabric.assert_gone();
}

#[test]
fn captures_of_a_device_are_bounded_and_end_with_their_clients() {
    let fabric = Fabric::up(Transport::Udp, "star-2", &["--no-ip"]);
    let start = || Capture::start(&fabric, &["s0:1"], Stdio::null());
    let mut captures: Vec<Capture> = (0..CAPTURES_MAX).map(|_| start()).collect();
    fabric
        .call(&["capture", "s0:2"])
        .fails_with(1, "end one of them");
    kill(captures.pop().expect("a capture").pid());
    within(LIMIT, "its place is free", || {
        let outcome = fabric.call(&["capture", "s0:2", "--seconds", "0.01"]);
        (outcome.code == 0)
            .then_some(())
            .ok_or_else(|| outcome.to_string())
    });
    drop(captures);
    fabric.assert_no_errors_logged();
    fabric.down();
}

#[test]
fn what_cannot_be_captured_or_written_is_told_and_the_fabric_does_not_notice() {
    let fabric = Fabric::up(Transport::Udp, "star-2", &["--no-ip"]);
    for (arguments, code, words) in [
        (&["h7:1"][..], 1, "no node h7"),
        (&["s0:9"], 1, "ports 1 to 2"),
        (&["s0:0"], 1, "NODE:PORT"),
        (&["s0"], 1, "NODE:PORT"),
        (&["s0:1", "--filter", "lid=1"], 2, "no term of a filter"),
        (&["s0:1", "--filter", "vl=16"], 2, "0 to 15"),
        (
            &["s0:1", "-w", "/nonexistent/x.pcap"],
            1,
            "/nonexistent/x.pcap",
        ),
        (&["s0:1", "-w", "/"], 1, "cannot write /"),
        (
            &["s0:1", "-w", "-", "--file-size", "1k"],
            2,
            "standard output",
        ),
        (&["s0:1", "--files", "2"], 2, "--file-size"),
        (&["s0:1", "-w", "/dev/full"], 1, "No space left"),
    ] {
        fabric
            .call(&[&["capture"], arguments].concat())
            .fails_with(code, words);
    }
    let folder = tempfile::tempdir().expect("a folder");
    let pipe = folder.path().join("pipe");
    let _ = Outcome::of(Command::new("mkfifo").arg(&pipe)).success();
    let reader = Command::new("head")
        .args(["-c", "24"])
        .arg(&pipe)
        .stdout(Stdio::null())
        .spawn();
    let name = pipe.to_str().expect("UTF-8");
    let mut capture = Capture::start(&fabric, &["s0:1", "-w", name], Stdio::null());
    let _ = reader.expect("head runs").wait();
    let _ = fabric.call(&["ping", "h0", "h1"]).success();
    capture.tally();
    capture.ends(0);

    ring(&fabric, folder.path());
    fabric.assert_no_errors_logged();
    fabric.down();
}

/// A ring keeps the newest files, of which each decodes.
fn ring(fabric: &Fabric, folder: &Path) {
    let path = folder.join("ring.pcap");
    let name = path.to_str().expect("UTF-8");
    let arguments = ["s0:1", "-w", name, "--file-size", "1k", "--files", "2"];
    let capture = Capture::start(fabric, &arguments, Stdio::null());
    let _ = fabric
        .call(&["ping", "h0", "h1", "--count", "10"])
        .success();
    let (captured, lost) = capture.interrupt();
    assert!(captured >= 20 && lost == 0, "{captured}, {lost}");
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.to_string_lossy().contains("ring"))
        .collect();
    files.sort();
    let [older, newer] = &files[..] else {
        panic!("{files:?}");
    };
    assert!(
        newer.ends_with("ring_00007.pcap") || captured > 20,
        "{files:?}"
    );
    decodes_whole(older, 4);
    assert!(found(newer, "infiniband") > 0);
}
