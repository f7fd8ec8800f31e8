//! The journal of processes and cables, one JSON line an event, from which a new supervisor
//! restores the state of its predecessor. A line that was cut short, by a full disk or the end of its
//! writer, is passed over with a warning; the next one begins on a line of its own.

use std::collections::BTreeSet;
use std::io::{self, Write};

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::protocol::Target;
use crate::dir::{self, FabricDir};
use crate::process::ProcessRecord;
use crate::state::End;

/// One line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub(super) enum Entry {
    /// A supervisor has begun.
    Supervisor {
        /// The process.
        process: ProcessRecord,
    },
    /// A process was started.
    Started {
        /// Which device; none for a controller.
        node: Option<u32>,
        /// Which controller, if it is no device.
        #[serde(default)]
        controller: u32,
        /// The process.
        process: ProcessRecord,
        /// How often it had been started again by then.
        restarts: u32,
    },
    /// A process has ended.
    Ended {
        /// Which device; none for a controller.
        node: Option<u32>,
        /// Which controller, if it is no device.
        #[serde(default)]
        controller: u32,
        /// How.
        how: String,
    },
    /// A cable was pulled or plugged by request.
    Cable {
        /// One end.
        end: End,
        /// Whether it is plugged.
        plugged: bool,
    },
}

/// The state that the lines so far add up to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct History {
    /// Per process that was ever started: restarts, the last process, how it ended.
    pub processes: std::collections::BTreeMap<Target, ProcessHistory>,
    /// The last supervisor.
    pub supervisor: Option<ProcessRecord>,
    /// One end of each cable that is pulled.
    pub pulled: BTreeSet<End>,
}

/// One process so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ProcessHistory {
    /// The last process started.
    pub process: ProcessRecord,
    /// How often it was started again.
    pub restarts: u32,
    /// How a process ended last.
    pub exit: Option<String>,
    /// Whether its last entry was its start.
    pub running: bool,
}

/// The open journal.
pub(super) struct Journal {
    file: Box<dyn Write + Send>,
    /// Whether the last line may have been cut short.
    is_torn: bool,
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Journal").finish_non_exhaustive()
    }
}

impl Journal {
    /// Opens the journal of the fabric in `dir` and reads what it holds, without lines that were cut
    /// short.
    ///
    /// # Errors
    /// If it can be neither read nor written.
    pub(super) fn open(dir: &FabricDir) -> Result<(Self, History)> {
        let directory = dir.require()?;
        let text = match directory.read(dir::JOURNAL) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) if error.cause.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error.into()),
        };
        let file = directory.append(dir::JOURNAL)?;
        let mut history = History::default();
        history.read(&text);
        let journal = Self {
            file: Box::new(file),
            is_torn: !text.is_empty() && !text.ends_with('\n'),
        };
        Ok((journal, history))
    }

    /// A journal that keeps nothing.
    #[cfg(test)]
    pub(super) fn nowhere() -> Self {
        Self {
            file: Box::new(io::sink()),
            is_torn: false,
        }
    }

    /// Adds a line.
    pub(super) fn add(&mut self, entry: &Entry) {
        let fresh = if self.is_torn { "\n" } else { "" };
        let written = serde_json::to_string(entry)
            .map_err(io::Error::other)
            .and_then(|line| self.file.write_all(format!("{fresh}{line}\n").as_bytes()));
        self.is_torn = written.is_err();
        if let Err(error) = written {
            // The fabric is not affected; only a new supervisor would miss the line.
            tracing::warn!("the journal cannot be written: {error}");
        }
    }
}

/// The last process of each kind that was written down, alive or not; none without a journal in a
/// directory that is safe to use.
pub(crate) fn recorded(dir: &FabricDir) -> Vec<ProcessRecord> {
    let directory = dir.open().ok().flatten();
    let bytes = directory.and_then(|directory| directory.read(dir::JOURNAL).ok());
    journaled(&String::from_utf8_lossy(&bytes.unwrap_or_default()))
}

/// The last process of each kind that the text of a journal names; lines that are none are passed over.
#[must_use]
pub fn journaled(text: &str) -> Vec<ProcessRecord> {
    let mut history = History::default();
    history.read(text);
    let members = history.processes.values().map(|history| history.process);
    members.chain(history.supervisor).collect()
}

impl History {
    /// Applies every valid line, and warns of others.
    fn read(&mut self, text: &str) {
        let lines = (1..).zip(text.lines());
        for (number, line) in lines.filter(|(_, line)| !line.trim().is_empty()) {
            match serde_json::from_str(line) {
                Ok(entry) => self.apply(entry),
                Err(error) => {
                    tracing::warn!(
                        "line {number} of the journal is damaged and passed over: {error}"
                    );
                }
            }
        }
    }

    fn apply(&mut self, entry: Entry) {
        let target = |node: Option<u32>, controller| {
            node.map_or(Target::Controller(controller), Target::Device)
        };
        match entry {
            Entry::Supervisor { process } => self.supervisor = Some(process),
            Entry::Started {
                node,
                controller,
                process,
                restarts,
            } => {
                let target = target(node, controller);
                let exit = self
                    .processes
                    .remove(&target)
                    .and_then(|history| history.exit);
                self.processes.insert(
                    target,
                    ProcessHistory {
                        process,
                        restarts,
                        exit,
                        running: true,
                    },
                );
            }
            Entry::Ended {
                node,
                controller,
                how,
            } => {
                if let Some(history) = self.processes.get_mut(&target(node, controller)) {
                    history.exit = Some(how);
                    history.running = false;
                }
            }
            Entry::Cable { end, plugged } => {
                if plugged {
                    self.pulled.remove(&end);
                } else {
                    self.pulled.insert(end);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};

    use super::*;
    use crate::process::ProcessId;

    /// A file on a disk that is full from some moment on, and has room again.
    #[derive(Clone, Default)]
    struct Disk {
        text: std::sync::Arc<std::sync::Mutex<Vec<u8>>>,
        room: std::sync::Arc<std::sync::atomic::AtomicUsize>,
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            use std::sync::atomic::Ordering::SeqCst;
            let room = self.room.load(SeqCst).min(bytes.len());
            if room == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.room.fetch_sub(room, SeqCst);
            self.text.lock().unwrap().extend(&bytes[..room]);
            Ok(room)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_that_a_full_disk_has_cut_short_does_not_spoil_the_next() {
        use std::sync::atomic::Ordering::SeqCst;
        let cable = |port| Entry::Cable {
            end: End { node: 3, port },
            plugged: false,
        };
        let line = serde_json::to_string(&cable(1)).unwrap().len() + 1;
        for room in 0..=line {
            let disk = Disk::default();
            let mut journal = Journal {
                file: Box::new(disk.clone()),
                is_torn: false,
            };
            disk.room.store(line, SeqCst);
            journal.add(&cable(1));
            disk.room.store(room, SeqCst);
            journal.add(&cable(2));
            disk.room.store(1000, SeqCst);
            journal.add(&cable(3));
            let text = String::from_utf8(disk.text.lock().unwrap().clone()).unwrap();
            let mut history = History::default();
            history.read(&text);
            let pulled: Vec<u8> = history.pulled.iter().map(|end| end.port).collect();
            // Only what was cut short is missing; without its line end a line is whole.
            let expected: &[u8] = match room + 1 >= line {
                true => &[1, 2, 3],
                false => &[1, 3],
            };
            assert_eq!(pulled, expected, "{room} of {line} bytes: {text}");
        }
    }

    #[test]
    fn a_successor_knows_what_its_predecessor_knew() {
        let folder = tempfile::tempdir().unwrap();
        let dir = FabricDir::at(&folder.path().join("ib")).unwrap();
        fs::create_dir(dir.path()).unwrap();
        let (mut journal, history) = Journal::open(&dir).unwrap();
        assert_eq!(history, History::default());
        let process = |pid| ProcessRecord {
            id: ProcessId { pid, start: 7 },
            executable: None,
        };
        let started = |node, pid, restarts| Entry::Started {
            node,
            controller: 0,
            process: process(pid),
            restarts,
        };
        let end = End { node: 3, port: 1 };
        journal.add(&started(Some(0), 10, 0));
        journal.add(&started(None, 11, 0));
        journal.add(&Entry::Ended {
            node: Some(0),
            controller: 0,
            how: "killed".into(),
        });
        journal.add(&started(Some(0), 12, 1));
        journal.add(&Entry::Cable {
            end,
            plugged: false,
        });
        journal.add(&Entry::Supervisor {
            process: process(9),
        });
        drop(journal);
        // A supervisor was killed while it wrote.
        let mut file = OpenOptions::new().append(true).open(dir.journal()).unwrap();
        file.write_all(br#"{"event":"ended","no"#).unwrap();

        let (mut journal, history) = Journal::open(&dir).unwrap();
        let device = &history.processes[&Target::Device(0)];
        assert_eq!((device.process, device.restarts), (process(12), 1));
        assert_eq!(device.exit.as_deref(), Some("killed"));
        assert!(device.running);
        assert_eq!(
            history.processes[&Target::Controller(0)].process,
            process(11)
        );
        assert_eq!(history.pulled, [end].into());
        assert_eq!(history.supervisor, Some(process(9)));
        let recorded: Vec<u32> = recorded(&dir).iter().map(|record| record.id.pid).collect();
        assert_eq!(recorded, [12, 11, 9]);

        journal.add(&Entry::Cable { end, plugged: true });
        let (_, history) = Journal::open(&dir).unwrap();
        assert!(
            history.pulled.is_empty(),
            "the line behind the damaged one counts"
        );
    }
}
