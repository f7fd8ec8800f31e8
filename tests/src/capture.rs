//! Packets of a recorded host, as a capture that stock analysers read.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use recording::{Entry, Reader};
use wire::erf::ErfWriter;
use wire::record::Records;
use wire::{DataPacket, UdPacket};

use crate::Outcome;

/// Writes the datagrams that a recorded host was given and has sent to a capture, as far as they are wanted.
///
/// # Panics
/// If there is no recording of a host, or no capture can be written.
#[track_caller]
pub fn capture(recording: &Path, to: &Path, wanted: impl Fn(&UdPacket<'_>) -> bool) {
    let bytes = fs::read(recording).expect("a recording");
    let mut reader = Reader::new(&*bytes).expect("a recording");
    let mut capture = ErfWriter::new(File::create(to).expect("a file")).expect("a capture");
    while let Some(entry) = reader.next_entry::<hostd::Command>().expect("an entry") {
        let (Entry::Frame { now, bytes, .. } | Entry::Pull { now, bytes, .. }) = entry else {
            continue;
        };
        for record in Records::new(&bytes).flatten() {
            let packet = DataPacket::parse(record.bytes).ok();
            let is_wanted = packet.is_some_and(|packet| {
                UdPacket::parse(&packet).is_ok_and(|datagram| wanted(&datagram))
            });
            if is_wanted {
                let written = capture.write(now, record.kind, record.bytes);
                written.expect("the capture takes it");
            }
        }
    }
    drop(capture.into_inner().expect("a capture"));
}

/// What stock tshark shows of fields of each packet of a capture.
///
/// # Panics
/// If it fails.
#[track_caller]
#[must_use]
pub fn tshark_fields(capture: &Path, options: &[&str], fields: &[&str]) -> Vec<Vec<String>> {
    let mut tshark = Command::new("tshark");
    tshark.arg("-r").arg(capture).args(options);
    tshark.args(["-T", "fields"]);
    for field in fields {
        tshark.args(["-e", field]);
    }
    let outcome = Outcome::of(&mut tshark).success();
    let words = |line: &str| line.split('\t').map(str::to_owned).collect();
    outcome.stdout.lines().map(words).collect()
}
