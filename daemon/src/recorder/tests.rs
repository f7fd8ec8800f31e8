//! A recorded device behaves as one that is not, and its recording holds every call.

use std::collections::VecDeque;

use recording::{Ending, Kind, Reader};

use super::*;

/// Sends back what it gets, and tells how long it was.
#[derive(Default)]
struct Echo {
    waiting: VecDeque<Vec<u8>>,
    lengths: VecDeque<u64>,
}

impl Device for Echo {
    type Command = u8;
    type Event = u64;

    fn handle(&mut self, _now: Time, input: Input<'_, u8>) {
        if let Input::Frame { bytes, .. } = input {
            self.lengths.push_back(u64_of(bytes.len()));
            self.waiting.push_back(bytes.to_vec());
        }
    }

    fn ready(&self, _now: Time) -> PortSet {
        PortSet::EMPTY
    }

    fn transmit(&mut self, _now: Time, _port: PortNum, frame: &mut FrameBuf<'_>) -> usize {
        let Some(bytes) = self.waiting.pop_front() else {
            return 0;
        };
        match frame.push(bytes.len()) {
            Some(out) => {
                out.copy_from_slice(&bytes);
                1
            }
            None => 0,
        }
    }

    fn poll_event(&mut self) -> Option<u64> {
        self.lengths.pop_front()
    }

    fn deadline(&self) -> Option<Deadline> {
        None
    }
}

fn header() -> Header {
    Header {
        kind: Kind::Switch,
        name: "s0".to_owned(),
        config: Vec::new(),
    }
}

fn port() -> PortNum {
    PortNum::new(1)
}

fn frame<'a>(now: Time, bytes: &'a [u8]) -> Input<'a, u8> {
    Input::Frame {
        port: port(),
        head: now,
        tail: now,
        bytes,
    }
}

fn read(path: &Path) -> (Vec<Entry<'static, u8>>, Option<Ending>) {
    let mut reader = Reader::new(File::open(path).unwrap()).unwrap();
    let mut entries = Vec::new();
    while let Some(entry) = reader.next_entry().unwrap() {
        entries.push(entry);
    }
    (entries, reader.ending())
}

#[test]
fn every_call_is_in_the_file_in_its_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s0.rec");
    let recording = Recording::start(&path, &header()).unwrap();
    let (mut device, writer) = recording.of(Echo::default());
    device.handle(Time(1), Input::Command(5));
    device.handle(Time(2), frame(Time(2), &[1, 2, 3]));
    let mut memory = [0; 64];
    let mut room = FrameBuf::new(&mut memory, 9);
    assert_eq!(device.transmit(Time(3), port(), &mut room), 1);
    assert_eq!(device.poll_event(), Some(3));
    assert_eq!(device.poll_event(), None);
    drop(device);
    writer.finish();
    let (entries, ending) = read(&path);
    assert_eq!(ending, Some(Ending::Recorded(End::Closed)));
    assert_eq!(
        entries,
        [
            Entry::Command { now: 1, command: 5 },
            Entry::Frame {
                now: 2,
                port: port(),
                ago: (0, 0),
                bytes: vec![1, 2, 3].into(),
            },
            Entry::Pull {
                now: 3,
                port: port(),
                room: (64, 9),
                records: 1,
                bytes: vec![1, 2, 3].into(),
            },
            Entry::Event {
                bytes: vec![3].into(),
            },
        ]
    );
}

#[test]
fn a_file_that_is_there_is_not_written_over() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s0.rec");
    std::fs::write(&path, "kept").unwrap();
    let error = Recording::start(&path, &header()).unwrap_err().to_string();
    assert!(error.contains("s0.rec"), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), b"kept");
}

#[test]
fn a_writer_that_falls_behind_ends_the_recording_and_not_the_device() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s0.rec");
    let mut file = File::create_new(&path).unwrap();
    let mut begin = Vec::new();
    recording::begin(&mut begin, &header()).unwrap();
    file.write_all(&begin).unwrap();
    // A writer that starts when everything is over.
    let (full, to_write) = crossbeam_channel::bounded(2);
    let (give_back, empty) = crossbeam_channel::bounded(2);
    let overrun = Arc::new(AtomicBool::new(false));
    let mut device = Recorded {
        device: Echo::default(),
        reads: Vec::new(),
        buffer: Vec::new(),
        channels: Some(WriterChannels {
            path: path.clone(),
            full,
            empty,
            overrun: Arc::clone(&overrun),
        }),
    };
    let bytes = vec![7; 60_000];
    for at in 0..9 {
        device.handle(Time(at), frame(Time(at), &bytes));
        assert_eq!(device.poll_event(), Some(60_000));
        assert_eq!(device.poll_event(), None);
    }
    drop(device);
    Job {
        file,
        path: path.clone(),
        to_write,
        give_back,
        overrun,
    }
    .run();
    let (entries, ending) = read(&path);
    assert_eq!(ending, Some(Ending::Recorded(End::Overrun)));
    assert!((3..9 * 2).contains(&entries.len()), "{}", entries.len());
}

#[test]
fn a_full_disk_ends_the_recording_and_not_the_device() {
    // Whatever is written there finds no space.
    let file = File::options().write(true).open("/dev/full").unwrap();
    let (full, to_write) = crossbeam_channel::bounded(2);
    let (give_back, empty) = crossbeam_channel::bounded(2);
    let overrun = Arc::new(AtomicBool::new(false));
    let path = PathBuf::from("/dev/full");
    let mut job = Job {
        file,
        path: path.clone(),
        to_write,
        give_back,
        overrun: Arc::clone(&overrun),
    };
    let mut device = Recorded {
        device: Echo::default(),
        reads: Vec::new(),
        buffer: Vec::new(),
        channels: Some(WriterChannels {
            path,
            full,
            empty,
            overrun,
        }),
    };
    device.handle(Time(1), Input::Command(5));
    assert_eq!(device.poll_event(), None);
    let error = job.write().unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    drop(job);
    device.handle(Time(2), frame(Time(2), &[7; 9]));
    assert_eq!(device.poll_event(), Some(9));
    assert_eq!(device.poll_event(), None);
    assert!(device.channels.is_none(), "nothing more is recorded");
    assert_eq!(device.buffer.capacity(), 0);
}

#[test]
fn what_led_to_a_panic_is_in_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s0.rec");
    let recording = Recording::start(&path, &header()).unwrap();
    let (mut device, writer) = recording.of(Echo::default());
    let core = thread::spawn(move || {
        device.handle(Time(1), Input::Command(5));
        std::panic::resume_unwind(Box::new("a fault of ours"));
    });
    assert!(core.join().is_err());
    writer.finish();
    let (entries, ending) = read(&path);
    assert_eq!(entries, [Entry::Command { now: 1, command: 5 }]);
    assert_eq!(ending, Some(Ending::Unterminated), "there is no end entry");
}
