//! Recordings of live devices replay to the same bytes; a changed byte is found and named.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use e2e::{Fabric, Outcome, Transport, ibemu_command};
use recording::{Entry, Reader, begin, write};

/// How long healing may take here, where what is recorded matters; the cases of `faults` bound it.
const RECOVERY: Duration = Duration::from_secs(30);

fn replay(files: &[PathBuf]) -> Outcome {
    let mut command = ibemu_command(&["sim", "replay"]);
    command.args(files);
    Outcome::of(&mut command)
}

/// The recordings of a folder by file name.
fn recordings(folder: &Path) -> BTreeMap<String, PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder of recordings");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths
        .map(|path| {
            let name = path.file_name().expect("a name").to_string_lossy();
            (name.into_owned(), path.clone())
        })
        .collect()
}

/// Everything that can happen to a fabric, in a few seconds.
fn eventful_life(fabric: &Fabric) {
    let perf = ["perf", "--all", "--count", "40", "--json"];
    let report = fabric.call(&perf).success().json();
    assert_eq!(report["total"]["lost"], 0, "{report:#}");
    let _ = fabric.call(&["mcast", "test", "--group", "all"]).success();
    let _ = fabric.call(&["link", "down", "s2.0.0:3"]).success();
    fabric.heals(RECOVERY, "all pairs answer without the link", |subnet| {
        subnet.degraded
    });
    let _ = fabric.call(&["link", "up", "s2.0.0:3"]).success();
    let kill = fabric.pid("s0.0.0").to_string();
    let _ = Outcome::of(std::process::Command::new("kill").args(["-9", &kill])).success();
    fabric.heals(RECOVERY, "all pairs answer without the root", |subnet| {
        subnet.switches == 19
    });
    let _ = fabric.call(&["restart", "s0.0.0"]).success();
    fabric.heals(RECOVERY, "all pairs answer with the root", |subnet| {
        !subnet.degraded
    });
}

fn every_device_replays(transport: Transport) {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().join("recordings");
    let record = ["--record", folder.to_str().expect("UTF-8")];
    let fabric = Fabric::up(transport, "fat-tree-4-3", &record);
    eventful_life(&fabric);
    fabric.assert_no_errors_logged();
    fabric.down();

    let files = recordings(&folder);
    assert_eq!(
        files.len(),
        16 + 20 + 1,
        "one a device, one of a second life"
    );
    let all: Vec<PathBuf> = files.values().cloned().collect();
    let outcome = replay(&all).success();
    let same = outcome.stdout.matches("the same to the last byte").count();
    assert_eq!(same, files.len(), "{outcome}");
    let cut = outcome.stdout.matches("was killed").count();
    assert_eq!(cut, 1, "{outcome}");
    assert!(outcome.stdout.contains("switch s2.0.0"), "{outcome}");

    a_changed_byte_is_named(&files["h0.0.0.rec"]);
    a_changed_frame_is_named(&files["s2.0.0.rec"]);
    a_recording_that_was_cut_is_the_same_as_far_as_it_goes(&files["h1.0.0.rec"]);
}

fn a_changed_byte_is_named(path: &Path) {
    let mut bytes = fs::read(path).expect("a recording");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x10;
    fs::write(path, bytes).expect("a file");
    let outcome = replay(&[path.to_owned()]);
    outcome.fails_with(2, "h0.0.0.rec: the recording is damaged: entry ");
}

/// Writes the recording anew with a bit changed in what its device sent last.
fn a_changed_frame_is_named(path: &Path) {
    let whole = fs::read(path).expect("a recording");
    let mut reader = Reader::new(&*whole).expect("a recording");
    let mut entries: Vec<Entry<'static, switchd::Command>> = Vec::new();
    while let Some(entry) = reader.next_entry().expect("an entry") {
        entries.push(entry);
    }
    let sent = |entry: &Entry<'_, _>| matches!(entry, Entry::Pull { records, .. } if *records > 0);
    let at = entries.iter().rposition(sent).expect("the switch has sent");
    let Entry::Pull { port, bytes, .. } = &mut entries[at] else {
        panic!("entry {at} is a pull");
    };
    let last = bytes.len() - 1;
    bytes.to_mut()[last] ^= 1;
    let port = *port;
    let mut changed = Vec::new();
    begin(&mut changed, reader.header()).expect("a header");
    for entry in &entries {
        write(&mut changed, entry).expect("an entry");
    }
    fs::write(path, changed).expect("a file");
    let outcome = replay(&[path.to_owned()]);
    outcome.fails_with(1, "1 of 1 devices did something else");
    for part in [
        format!("entry {} at", at + 1),
        format!("a frame for port {port}"),
        format!("byte {last} is"),
    ] {
        assert!(outcome.stdout.contains(&part), "no {part:?} in {outcome}");
    }
}

fn a_recording_that_was_cut_is_the_same_as_far_as_it_goes(path: &Path) {
    let bytes = fs::read(path).expect("a recording");
    fs::write(path, &bytes[..bytes.len() - 5]).expect("a file");
    let outcome = replay(&[path.to_owned()]).success();
    assert!(outcome.stdout.contains("ends within an entry"), "{outcome}");
}

#[test]
fn a_fabric_with_traffic_and_faults_replays_to_the_same_bytes_over_udp() {
    every_device_replays(Transport::Udp);
}

#[test]
fn a_fabric_with_traffic_and_faults_replays_to_the_same_bytes_over_veth() {
    every_device_replays(Transport::Veth);
}

#[test]
fn a_fabric_with_traffic_and_faults_replays_to_the_same_bytes_in_shared_memory() {
    every_device_replays(Transport::Shm);
}

#[test]
fn a_folder_with_something_in_it_and_a_file_that_is_no_recording_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("notes.txt");
    fs::write(&file, "nothing recorded").expect("a file");
    let fabric = Fabric::planned(Transport::Udp);
    let path = folder.path().to_str().expect("UTF-8");
    let refused = fabric.try_up("star-2", &["--record", path]);
    refused.fails_with(2, "not empty");
    fabric.assert_gone();
    replay(&[file]).fails_with(2, "this is no recording");
    replay(&[folder.path().join("absent.rec")]).fails_with(2, "absent.rec");
}
