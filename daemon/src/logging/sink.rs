//! Where lines go: standard error or a file. A line that cannot be written is counted, and no error.

use std::io::{self, Write as _};
use std::sync::{Arc, Mutex, PoisonError};

use netio::log_file::LogFile;

/// The target of lines.
#[derive(Debug)]
pub(super) struct Sink {
    target: Target,
    /// Lines that could not be written since the last that could.
    lost: u64,
}

#[derive(Debug)]
enum Target {
    Stderr,
    File(LogFile),
    #[cfg(test)]
    Test(tests::Disk),
}

impl Sink {
    pub(super) fn stderr() -> Self {
        Self::to(Target::Stderr)
    }

    pub(super) fn file(file: LogFile) -> Self {
        Self::to(Target::File(file))
    }

    fn to(target: Target) -> Self {
        Self { target, lost: 0 }
    }

    /// A writer; its clones share the sink.
    pub(super) fn writer(self) -> Writer {
        Writer(Arc::new(Mutex::new(self)))
    }

    fn line(&mut self, line: &[u8]) {
        if self.lost > 0 {
            // The last line may have been cut off: this begins another one.
            let note = format!(
                "\n{} lines were lost: they could not be written\n",
                self.lost
            );
            if self.write(note.as_bytes()).is_ok() {
                self.lost = 0;
            }
        }
        if self.lost > 0 || self.write(line).is_err() {
            self.lost = self.lost.saturating_add(1);
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.target {
            Target::Stderr => io::stderr().lock().write_all(bytes),
            Target::File(file) => file.write_all(bytes),
            #[cfg(test)]
            Target::Test(disk) => disk.write_all(bytes),
        }
    }
}

/// Writes lines, each in one piece.
#[derive(Clone, Debug)]
pub(super) struct Writer(Arc<Mutex<Sink>>);

impl io::Write for Writer {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut sink = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sink.line(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk that has room for so many bytes.
    #[derive(Debug, Default)]
    pub(super) struct Disk {
        room: usize,
        text: String,
    }

    impl Disk {
        pub(super) fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
            let fits = bytes.len().min(self.room);
            self.text += std::str::from_utf8(&bytes[..fits]).unwrap();
            self.room -= fits;
            if fits < bytes.len() {
                return Err(io::ErrorKind::StorageFull.into());
            }
            Ok(())
        }
    }

    #[test]
    fn lines_that_a_full_disk_does_not_take_are_counted_when_there_is_room_again() {
        let mut sink = Sink::to(Target::Test(Disk {
            room: 8,
            text: String::new(),
        }));
        for line in ["one\n", "a second\n", "third\n", "4\n"] {
            sink.line(line.as_bytes());
        }
        let Target::Test(disk) = &mut sink.target else {
            unreachable!()
        };
        disk.room = 1000;
        sink.line(b"five\n");
        sink.line(b"six\n");
        let Target::Test(disk) = &sink.target else {
            unreachable!()
        };
        assert_eq!(
            disk.text,
            "one\na se\n3 lines were lost: they could not be written\nfive\nsix\n"
        );
    }
}
