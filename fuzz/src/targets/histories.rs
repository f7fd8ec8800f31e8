//! Histories of rates and states, which a page opens.

use monitor::{HISTORY_BYTES_MAX, History, Recorder, Snapshot};

/// Magic and version.
const HEAD_LEN: usize = 12;
/// Bytes of a message for people at most.
const MESSAGE_BYTES_MAX: usize = 300;

/// The bytes as a file, and as the tag and payload of a chunk with a sound check sum.
///
/// # Panics
/// If a history is not the same after it was written and read again, or a refusal does not say why.
pub(crate) fn history(bytes: &[u8]) {
    check(bytes);
    check(&chunk(bytes));
}

fn check(bytes: &[u8]) {
    match History::read(bytes) {
        Ok(history) => {
            assert!(history.bytes() <= HISTORY_BYTES_MAX);
            let mut again = Vec::new();
            history.write(&mut again).expect("memory takes it");
            let read = History::read(&again).expect("what was written");
            assert!(read.frames().eq(history.frames()));
        }
        Err(error) => {
            let told = error.to_string();
            assert!(!told.is_empty() && told.len() < MESSAGE_BYTES_MAX, "{told}");
        }
    }
}

/// What a file begins with.
fn head() -> Vec<u8> {
    let recorder = Recorder::new(Vec::new(), u64::MAX).expect("memory takes it");
    recorder.finish().expect("memory takes it")
}

/// A file of one chunk: its tag and its payload.
fn chunk(bytes: &[u8]) -> Vec<u8> {
    let mut file = head();
    if let Some((tag, payload)) = bytes.split_first() {
        let length = u32::try_from(payload.len()).expect("inputs are short");
        file.push(*tag);
        file.extend(length.to_le_bytes());
        file.extend(crc32fast::hash(bytes).to_le_bytes());
        file.extend(payload);
    }
    file
}

/// A whole file, and what is in its chunks.
pub(crate) fn histories() -> Vec<Vec<u8>> {
    let snapshot = Snapshot {
        at_ms: 1000,
        ..Snapshot::default()
    };
    let mut recorder = Recorder::new(Vec::new(), u64::MAX).expect("memory takes it");
    recorder.add(&snapshot).expect("memory takes it");
    let file = recorder.finish().expect("memory takes it");
    let fabric = [
        &[1][..],
        &1000u64.to_le_bytes(),
        br#"{"generation":1,"nodes":[],"ports":[]}"#,
    ];
    let mut frame = [
        &[2][..],
        &2000u64.to_le_bytes(),
        &2u32.to_le_bytes(),
        &[4, 1],
    ]
    .concat();
    frame.extend(1u32.to_le_bytes());
    frame.extend([1.5f32; 6].iter().flat_map(|rate| rate.to_le_bytes()));
    vec![
        file[..HEAD_LEN].to_vec(),
        file.clone(),
        fabric.concat(),
        frame,
    ]
}
