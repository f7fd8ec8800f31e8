//! Output to a pipe without a reader, or to a full disk.

use std::fs::File;
use std::process::{Command, Stdio};

/// The writing end of a pipe without a reader.
fn closed() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

/// What always says that the disk is full.
fn full() -> Stdio {
    File::options()
        .write(true)
        .open("/dev/full")
        .unwrap()
        .into()
}

/// The exit code of a run with these streams.
fn code(arguments: &[&str], stdout: Stdio, stderr: Stdio) -> Option<i32> {
    Command::new(env!("CARGO_BIN_EXE_ibemu"))
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(stdout)
        .stderr(stderr)
        .status()
        .unwrap()
        .code()
}

const TOPO: [&str; 2] = ["topo", "fat-tree-8-3"];
const ROUTE: [&str; 4] = ["route", "fat-tree-4-2", "--dump", "lft"];
const WRONG: [&str; 2] = ["topo", "no-such-thing"];

#[test]
fn a_pipe_without_a_reader_is_no_failure() {
    for arguments in [&TOPO[..], &ROUTE, &["--help"], &["sim", "list"]] {
        assert_eq!(
            code(arguments, closed(), closed()),
            Some(0),
            "{arguments:?}"
        );
    }
    for arguments in [&WRONG[..], &["no-such-verb"]] {
        assert_eq!(
            code(arguments, closed(), closed()),
            Some(2),
            "{arguments:?}"
        );
    }
}

#[test]
fn a_full_disk_is_a_failure_that_is_named() {
    for arguments in [&TOPO[..], &ROUTE] {
        let output = Command::new(env!("CARGO_BIN_EXE_ibemu"))
            .args(arguments)
            .stdout(full())
            .output()
            .unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{message}");
        assert!(message.contains("No space left on device"), "{message}");
        assert_eq!(code(arguments, full(), full()), Some(1));
    }
}
