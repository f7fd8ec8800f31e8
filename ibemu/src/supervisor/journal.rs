//! The journal of processes and cables, one JSON line an event, from which a new supervisor
//! restores the state of its predecessor.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Write as _};

use anyhow::{Context, Result};
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
pub(super) struct Past {
    /// Per process that was ever started: restarts, the last process, how it ended.
    pub processes: std::collections::BTreeMap<Target, PastProcess>,
    /// The last supervisor.
    pub supervisor: Option<ProcessRecord>,
    /// One end of each cable that is pulled.
    pub pulled: BTreeSet<End>,
}

/// One process so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PastProcess {
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
#[derive(Debug)]
pub(super) struct Journal {
    file: File,
}

impl Journal {
    /// Opens the journal of the fabric in `dir` and reads what it holds. A last line that was cut
    /// off is left out.
    ///
    /// # Errors
    /// If it can be neither read nor written.
    pub(super) fn open(dir: &FabricDir) -> Result<(Self, Past)> {
        let directory = dir.require()?;
        let text = match directory.read(dir::JOURNAL) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) if error.cause.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error.into()),
        };
        let mut file = directory.append(dir::JOURNAL)?;
        if !text.is_empty() && !text.ends_with('\n') {
            file.write_all(b"\n")
                .with_context(|| format!("cannot write {}", dir.journal().display()))?;
        }
        let mut past = Past::default();
        past.read(&text);
        Ok((Self { file }, past))
    }

    /// Adds a line.
    pub(super) fn add(&mut self, entry: &Entry) {
        let written = serde_json::to_string(entry)
            .map_err(io::Error::other)
            .and_then(|line| self.file.write_all(format!("{line}\n").as_bytes()));
        if let Err(error) = written {
            // The fabric is not affected; only a new supervisor would miss the line.
            tracing::warn!("the journal cannot be written: {error}");
        }
    }
}

/// The last process of each kind that was written down, alive or not; none without a journal that
/// can be trusted.
pub(crate) fn recorded(dir: &FabricDir) -> Vec<ProcessRecord> {
    let directory = dir.open().ok().flatten();
    let bytes = directory.and_then(|directory| directory.read(dir::JOURNAL).ok());
    let mut past = Past::default();
    past.read(&String::from_utf8_lossy(&bytes.unwrap_or_default()));
    let members = past.processes.values().map(|past| past.process);
    members.chain(past.supervisor).collect()
}

impl Past {
    /// Applies every valid line.
    fn read(&mut self, text: &str) {
        for entry in text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
        {
            self.apply(entry);
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
                let exit = self.processes.remove(&target).and_then(|past| past.exit);
                self.processes.insert(
                    target,
                    PastProcess {
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
                if let Some(past) = self.processes.get_mut(&target(node, controller)) {
                    past.exit = Some(how);
                    past.running = false;
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

    #[test]
    fn a_successor_knows_what_its_predecessor_knew() {
        let folder = tempfile::tempdir().unwrap();
        let dir = FabricDir::at(&folder.path().join("ib")).unwrap();
        fs::create_dir(dir.path()).unwrap();
        let (mut journal, past) = Journal::open(&dir).unwrap();
        assert_eq!(past, Past::default());
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

        let (mut journal, past) = Journal::open(&dir).unwrap();
        let device = &past.processes[&Target::Device(0)];
        assert_eq!((device.process, device.restarts), (process(12), 1));
        assert_eq!(device.exit.as_deref(), Some("killed"));
        assert!(device.running);
        assert_eq!(past.processes[&Target::Controller(0)].process, process(11));
        assert_eq!(past.pulled, [end].into());
        assert_eq!(past.supervisor, Some(process(9)));
        let recorded: Vec<u32> = recorded(&dir).iter().map(|record| record.id.pid).collect();
        assert_eq!(recorded, [12, 11, 9]);

        journal.add(&Entry::Cable { end, plugged: true });
        let (_, past) = Journal::open(&dir).unwrap();
        assert!(
            past.pulled.is_empty(),
            "the line behind the damaged one counts"
        );
    }
}
