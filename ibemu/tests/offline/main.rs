//! The offline verbs as a user runs them: what they print, byte for byte, and how they end.
//!
//! A golden file holds standard output. `GOLDEN=write` in the environment writes the files instead
//! of comparing.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

mod described;
mod help;
mod lids;
mod manual;
mod order;
mod place;
mod refusals;
mod route;
mod streams;
mod verdicts;
mod virtual_traffic;
mod window;

/// Runs the command without any fabric near.
fn ibemu(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ibemu"))
        .args(arguments)
        .output()
        .unwrap()
}

/// What a successful run prints.
fn printed(arguments: &[&str]) -> String {
    let output = ibemu(arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    assert!(output.stderr.is_empty(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The JSON that a successful run prints.
fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&printed(arguments)).unwrap()
}

/// Exit code and message of a run that fails.
fn failed(arguments: &[&str]) -> (i32, String) {
    let output = ibemu(arguments);
    let message = String::from_utf8(output.stderr).unwrap();
    (output.status.code().unwrap(), message)
}

fn is_golden(name: &str, found: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/offline/golden")
        .join(name);
    if std::env::var_os("GOLDEN").is_some_and(|value| value == "write") {
        std::fs::write(&path, found).unwrap();
    }
    let wanted = std::fs::read_to_string(&path).unwrap();
    assert!(found == wanted, "{name} is different:\n{found}");
}

/// A file in a folder of its own.
fn file(name: &str, text: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    (folder, path)
}

fn as_text(path: &Path) -> &str {
    path.to_str().unwrap()
}
