//! Recordings are read as they were written; truncation and damage are detected.

use std::borrow::Cow;

use link::{Input, Time};
use proptest::prelude::*;
use wire::PortNum;

use super::*;

fn header() -> Header {
    Header {
        kind: Kind::Host,
        name: "h0".to_owned(),
        config: vec![1, 2, 3],
    }
}

fn entries() -> Vec<Entry<'static, u16>> {
    let port = PortNum::new(3);
    vec![
        Entry::Carrier {
            now: 5,
            port,
            up: true,
        },
        Entry::Frame {
            now: 1 << 40,
            port,
            ago: (9, 2),
            bytes: Cow::Owned(vec![0xa5; 700]),
        },
        Entry::Tick { now: (1 << 40) + 1 },
        Entry::Command {
            now: (1 << 40) + 1,
            command: 500,
        },
        Entry::Pull {
            now: (1 << 40) + 2,
            port,
            room: (65_000, 65_535),
            records: 2,
            bytes: Cow::Owned(vec![1, 2, 3]),
        },
        Entry::Event {
            bytes: Cow::Owned(vec![9]),
        },
    ]
}

fn recording(end: Option<End>) -> Vec<u8> {
    let mut bytes = Vec::new();
    begin(&mut bytes, &header()).unwrap();
    for entry in &entries() {
        write(&mut bytes, entry).unwrap();
    }
    if let Some(end) = end {
        write::<u16>(&mut bytes, &Entry::End(end)).unwrap();
    }
    bytes
}

fn read(bytes: &[u8]) -> Result<(Vec<Entry<'static, u16>>, Ending), ReadError> {
    let mut reader = Reader::new(bytes)?;
    let mut all = Vec::new();
    while let Some(entry) = reader.next_entry()? {
        all.push(entry);
    }
    Ok((all, reader.ending().unwrap()))
}

#[test]
fn what_was_written_is_read_again() {
    let bytes = recording(Some(End::Closed));
    assert_eq!(*Reader::new(&*bytes).unwrap().header(), header());
    let (all, ending) = read(&bytes).unwrap();
    assert_eq!((all, ending), (entries(), Ending::Recorded(End::Closed)));
}

#[test]
fn an_entry_borrows_an_input_and_owns_what_is_read_of_it() {
    let input: Input<'_, u16> = Input::Frame {
        port: PortNum::new(1),
        head: Time(90),
        tail: Time(95),
        bytes: &[7; 30],
    };
    let mut bytes = Vec::new();
    begin(&mut bytes, &header()).unwrap();
    write(&mut bytes, &Entry::of_input(Time(100), &input)).unwrap();
    let expected = Entry::Frame {
        now: 100,
        port: PortNum::new(1),
        ago: (10, 5),
        bytes: Cow::Owned(vec![7; 30]),
    };
    assert_eq!(read(&bytes).unwrap().0, [expected]);
}

#[test]
fn a_recording_that_was_cut_anywhere_is_read_up_to_its_last_whole_entry() {
    let whole = recording(None);
    let starts: Vec<usize> = (0..=entries().len())
        .map(|count| {
            let mut bytes = Vec::new();
            begin(&mut bytes, &header()).unwrap();
            for entry in &entries()[..count] {
                write(&mut bytes, entry).unwrap();
            }
            bytes.len()
        })
        .collect();
    for len in 0..whole.len() {
        let Some(count) = starts.iter().rposition(|&start| start <= len) else {
            let error = read(&whole[..len]).unwrap_err();
            let expected = matches!(error, ReadError::NotARecording | ReadError::NoHeader);
            assert!(expected, "{len}: {error}");
            continue;
        };
        let ending = match starts[count] == len {
            true => Ending::Unterminated,
            false => Ending::Truncated,
        };
        let expected = (entries()[..count].to_vec(), ending);
        assert_eq!(read(&whole[..len]).unwrap(), expected, "{len} bytes");
    }
}

#[test]
fn a_changed_byte_anywhere_is_found() {
    let whole = recording(Some(End::Overrun));
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x40;
        let error = read(&bytes).unwrap_err();
        let expected = match at {
            0..8 => matches!(error, ReadError::NotARecording),
            8..12 => matches!(error, ReadError::Version { .. }),
            _ => matches!(error, ReadError::Damaged { .. }),
        };
        assert!(expected, "byte {at}: {error}");
    }
}

#[test]
fn damage_is_named_by_entry_and_place() {
    let mut bytes = recording(None);
    let mut first = Vec::new();
    begin(&mut first, &header()).unwrap();
    let start = first.len();
    bytes[start + 13] ^= 1;
    assert_eq!(
        read(&bytes).unwrap_err().to_string(),
        format!("the recording is damaged: entry 1, at byte {start}: its bytes were changed")
    );
}

#[test]
fn nothing_may_follow_the_end() {
    let mut bytes = recording(Some(End::Closed));
    bytes.push(0);
    let error = read(&bytes).unwrap_err().to_string();
    assert!(error.contains("entry 7"), "{error}");
}

proptest! {
    #[test]
    fn no_bytes_make_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = read(&bytes);
        let mut after = recording(None);
        after.extend(&bytes);
        let _ = read(&after);
    }
}
