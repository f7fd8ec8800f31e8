//! The library as programs of C see it, beside a host that is a model.

mod model;
mod socket;

use std::path::{Path, PathBuf};
use std::process::Command;

fn success(command: &mut Command) -> String {
    let output = command.output().expect("a program that can be started");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{:?}: {stderr}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The folder that programs find the library in: beside this test's own.
fn library() -> PathBuf {
    let executable = std::env::current_exe().expect("this test is a file");
    let profile = executable.ancestors().nth(2).expect("the profile's folder");
    profile.join("libibverbs")
}

/// A model of a host in a folder, and the environment of a program beside it.
fn beside(folder: &Path, program: impl AsRef<std::ffi::OsStr>) -> Command {
    let _listener = socket::listen_at(&folder.join("host.verbs"));
    let mut command = Command::new(program);
    let adapters = format!("model0={}", folder.join("host.ibumad").display());
    command
        .env("LD_LIBRARY_PATH", library())
        .env("IBEMU_ADAPTERS", adapters)
        .env_remove("IBEMU_PORT");
    command
}

#[test]
fn a_program_relies_on_queues_events_threads_and_forks() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let program = folder.path().join("program");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/host/program.c");
    let mut compiler = Command::new("cc");
    compiler
        .args(["-Wall", "-pthread", "-o"])
        .args([&program, &source])
        .arg("-libverbs");
    let _ = success(&mut compiler);
    assert_eq!(success(&mut beside(folder.path(), program)), "ok\n");
}

#[test]
fn stock_programs_show_the_device() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut devinfo = beside(folder.path(), "ibv_devinfo");
    let told = success(devinfo.arg("-v"));
    for line in [
        "hca_id:\tmodel0",
        "\ttransport:\t\t\tInfiniBand (0)",
        "\tnode_guid:\t\t\t0002:c903:0000:0001",
        "\tsys_image_guid:\t\t\t0002:c903:0000:0003",
        "\tatomic_cap:\t\t\tATOMIC_HCA (1)",
        "\t\t\tstate:\t\t\tPORT_ACTIVE (4)",
        "\t\t\tactive_mtu:\t\t2048 (4)",
        "\t\t\tlink_layer:\t\tInfiniBand",
        "\t\t\tGID[  0]:\t\t0101:0101:0101:0101:0101:0101:0101:0101",
    ] {
        assert!(told.lines().any(|told| told == line), "{line:?} in {told}");
    }
}
