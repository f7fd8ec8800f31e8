//! What a fabric can leave on a machine, and the assertion that it left nothing. Other fabrics and
//! other programs come and go meanwhile: what is theirs is none of its traces.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The machine as it was before a fabric came up.
#[derive(Debug)]
pub struct Traces {
    fabric: String,
    interfaces: BTreeSet<String>,
}

impl Traces {
    /// Looks at the machine.
    #[must_use]
    pub fn of(fabric: &str) -> Self {
        Self {
            fabric: fabric.into(),
            interfaces: interfaces(),
        }
    }

    /// Where root's fabric directories are, unless `IBEMU_RUNTIME_DIR` says otherwise.
    #[must_use]
    pub fn dir_of(fabric: &str) -> PathBuf {
        std::env::var_os("IBEMU_RUNTIME_DIR")
            .map_or_else(|| PathBuf::from("/run/ibemu"), PathBuf::from)
            .join(fabric)
    }

    /// Asserts that the fabric left no namespace, interface, process or file.
    ///
    /// # Panics
    /// If it did.
    #[track_caller]
    pub fn assert_nothing_left(&self) {
        let prefix = format!("{}.", self.fabric);
        let namespaces: Vec<String> = names_in(Path::new("/run/netns"))
            .into_iter()
            .filter(|name| name.starts_with(&prefix))
            .collect();
        assert!(namespaces.is_empty(), "namespaces left: {namespaces:?}");

        let now = interfaces();
        let new = now.difference(&self.interfaces);
        let new: Vec<&String> = new.filter(|name| is_end_of_cable(name)).collect();
        assert!(new.is_empty(), "interfaces left: {new:?}");

        let processes = processes_of(&self.fabric);
        assert!(processes.is_empty(), "processes left: {processes:?}");

        let dir = Self::dir_of(&self.fabric);
        assert!(
            !dir.exists(),
            "{} is left: {:?}",
            dir.display(),
            names_in(&dir)
        );
    }
}

fn names_in(folder: &Path) -> Vec<String> {
    fs::read_dir(folder)
        .map(|entries| {
            entries
                .filter_map(Result::ok)
                .map(|entry| entry.file_name().to_string_lossy().into_owned())
                .collect()
        })
        .unwrap_or_default()
}

fn interfaces() -> BTreeSet<String> {
    names_in(Path::new("/sys/class/net")).into_iter().collect()
}

/// Whether a fabric gives interfaces such a name: `p3`, `a1p3`.
fn is_end_of_cable(name: &str) -> bool {
    let is_number =
        |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let (adapter, port) = name.split_once('p').unwrap_or_default();
    is_number(port) && (adapter.is_empty() || adapter.strip_prefix('a').is_some_and(is_number))
}

/// Command lines of live processes that name the fabric or its directory.
fn processes_of(fabric: &str) -> Vec<String> {
    let dir = Traces::dir_of(fabric);
    let dir = dir.to_string_lossy();
    let own = std::process::id().to_string();
    names_in(Path::new("/proc"))
        .into_iter()
        .filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()) && *name != own)
        .filter_map(|pid| {
            let bytes = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
            let arguments: Vec<String> = bytes
                .split(|&byte| byte == 0)
                .map(|argument| String::from_utf8_lossy(argument).into_owned())
                .collect();
            let ours = arguments
                .iter()
                .any(|argument| argument == fabric || *argument == dir);
            ours.then(|| format!("{pid}: {}", arguments.join(" ")))
        })
        .collect()
}

/// Whether a command of this name can be run.
pub(crate) fn installed(program: &str) -> bool {
    Command::new("sh")
        .args(["-c", &format!("command -v {program}")])
        .output()
        .is_ok_and(|output| output.status.success())
}

#[cfg(test)]
mod tests {
    use super::is_end_of_cable;

    #[test]
    fn interfaces_that_no_fabric_makes_are_no_traces() {
        for name in ["p1", "p36", "a1p2"] {
            assert!(is_end_of_cable(name), "{name}");
        }
        for name in ["lo", "eth0", "veth1a2b", "p", "p1x", "1p2", "ap1", "wlp3"] {
            assert!(!is_end_of_cable(name), "{name}");
        }
    }
}
