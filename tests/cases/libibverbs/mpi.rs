//! MPI: a program of 16 ranks, one a host, by Open MPI and by MPICH, whose messages are UCX's.

use std::path::{Path, PathBuf};
use std::process::Command;

use e2e::{Fabric, Outcome, Transport};
use tempfile::TempDir;

/// All ranks exchange blocks, and look whether each has come from the right one.
const PROGRAM: &str = r#"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#define N 3000
int main(int argc, char **argv) {
    int rank, size, wrong = 0, all = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int *out = malloc(sizeof(int) * N * size), *in = malloc(sizeof(int) * N * size);
    for (int round = 0; round < 3; round++) {
        for (int to = 0; to < size; to++)
            for (int i = 0; i < N; i++)
                out[to * N + i] = (rank * 1000 + to) * N + i + round;
        MPI_Alltoall(out, N, MPI_INT, in, N, MPI_INT, MPI_COMM_WORLD);
        for (int from = 0; from < size; from++)
            for (int i = 0; i < N; i++)
                wrong += in[from * N + i] != (from * 1000 + rank) * N + i + round;
    }
    MPI_Reduce(&wrong, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    printf("rank %d of %d beside %s: %d wrong\n", rank, size, getenv("IBEMU_NODE"), wrong);
    if (rank == 0)
        printf("wrong in all: %d\n", all);
    MPI_Finalize();
    return all != 0;
}
"#;

/// Compiles the program with the compiler of an MPI.
pub(crate) fn compiled(compiler: &str, folder: &Path) -> PathBuf {
    let source = folder.join("alltoall.c");
    std::fs::write(&source, PROGRAM).expect("it can be written");
    let program = folder.join("alltoall");
    let mut command = Command::new(compiler);
    command.arg(&source).arg("-o").arg(&program);
    let _ = Outcome::of(&mut command).success();
    program
}

/// What launchers call in the place of ssh.
pub(crate) fn remote_shell() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../netns-scripts/rsh.sh")
}

/// The names of all hosts of a fabric.
fn all_hosts(fabric: &Fabric) -> Vec<String> {
    let status = fabric.status();
    let devices = status["devices"].as_array().expect("a list");
    let hosts = devices.iter().filter(|device| device["kind"] == "host");
    let names = hosts.filter_map(|host| host["name"].as_str());
    names.map(str::to_owned).collect()
}

/// Runs the program beside hosts by its launcher, and looks whether every rank got what it was sent.
pub(crate) fn exchanges(fabric: &Fabric, launcher: &mut Command, hosts: &[impl AsRef<str>]) {
    let command = launcher
        // The launcher hands its own on, in the place of the one that finds libibverbs.
        .env_remove("LD_LIBRARY_PATH")
        .env("IBEMU", e2e::ibemu())
        .env("IBEMU_FABRIC", fabric.name());
    let told = Outcome::of(command).success();
    assert!(told.stdout.contains("wrong in all: 0"), "{told}");
    for name in hosts {
        let beside = format!("beside {}: 0 wrong", name.as_ref());
        assert!(told.stdout.contains(&beside), "{beside}: {told}");
    }
}

/// How late answers may be: 16 ranks poll, and 36 devices forward, on few processors.
const PATIENCE: [(&str, &str); 2] = [
    ("UCX_RC_VERBS_TIMEOUT", "20s"),
    ("UCX_UD_VERBS_TIMEOUT", "600s"),
];

/// Devices are not to be taken for dead that wait for their turn.
const UP: [&str; 2] = ["--silence-ms", "20000"];

/// Open MPI's launcher for a rank beside each of some hosts, whose messages are those of UCX's connections.
fn open_mpi(hosts: &[impl AsRef<str>]) -> Command {
    let names: Vec<&str> = hosts.iter().map(AsRef::as_ref).collect();
    let mut command = Command::new("mpirun.openmpi");
    command
        .args(["--allow-run-as-root", "--mca", "plm_rsh_agent"])
        .arg(remote_shell())
        .args(["--mca", "orte_keep_fqdn_hostnames", "1"])
        .args(["--mca", "plm_rsh_no_tree_spawn", "1"])
        .args(["--mca", "oob_tcp_if_include", "lo"])
        .args(["--mca", "mpi_yield_when_idle", "1"])
        .args(["--mca", "pml", "ucx", "--mca", "btl", "self"])
        .args(["-x", "UCX_TLS=rc_v,self"])
        .args(["-x", "UCX_NET_DEVICES=ibemu0:1"])
        .args(
            PATIENCE
                .iter()
                .flat_map(|(name, value)| ["-x".to_owned(), format!("{name}={value}")]),
        )
        .args(["--host", &names.join(",")]);
    command
}

#[test]
fn open_mpi_exchanges_between_all_ranks_over_connections_of_ucx() {
    let folder = TempDir::new().expect("a folder");
    let program = compiled("mpicc.openmpi", folder.path());
    let fabric = Fabric::up(Transport::Udp, "fat-tree-4-3", &UP);
    let hosts = all_hosts(&fabric);
    assert_eq!(hosts.len(), 16);
    let mut command = open_mpi(&hosts);
    command.arg(&program);
    exchanges(&fabric, &mut command, &hosts);
    fabric.assert_no_errors_logged();
    fabric.down();
}

#[test]
fn netpipe_measures_two_ranks_and_finds_every_length_of_message_whole() {
    let folder = TempDir::new().expect("a folder");
    let fabric = Fabric::up(Transport::Shm, "star-2", &UP);
    for (check, says) in [(None, " Mbps in "), (Some("-i"), "Integrity check passed")] {
        let mut command = open_mpi(&["h0", "h1"]);
        command
            // Both eager messages and those whose receiver reads them.
            .args(["NPopenmpi", "-u", "70000", "-n", "3", "-o"])
            .arg(folder.path().join("netpipe"))
            .args(check)
            .env_remove("LD_LIBRARY_PATH")
            .env("IBEMU", e2e::ibemu())
            .env("IBEMU_FABRIC", fabric.name());
        let told = Outcome::of(&mut command).success().to_string();
        let rows = told.lines().filter(|line| line.contains(" times -->"));
        let wrong: Vec<&str> = rows.clone().filter(|row| !row.contains(says)).collect();
        assert!(wrong.is_empty() && rows.count() > 20, "{wrong:?}: {told}");
    }
    fabric.assert_no_errors_logged();
    fabric.down();
}

#[test]
fn mpich_exchanges_between_all_ranks_over_datagrams_of_ucx() {
    let folder = TempDir::new().expect("a folder");
    let program = compiled("mpicc.mpich", folder.path());
    let fabric = Fabric::up(Transport::Udp, "fat-tree-4-3", &UP);
    let hosts = all_hosts(&fabric);
    assert_eq!(hosts.len(), 16);
    let mut command = Command::new("mpiexec.hydra");
    command
        .args(["-launcher", "ssh", "-launcher-exec"])
        .arg(remote_shell())
        .args(["-iface", "lo"])
        .args(["-genv", "UCX_TLS", "ud_v,self"])
        .args(["-genv", "UCX_NET_DEVICES", "ibemu0:1"])
        .args(
            PATIENCE
                .iter()
                .flat_map(|&(name, value)| ["-genv", name, value]),
        )
        .args(["-hosts", &hosts.join(",")])
        .arg(&program);
    exchanges(&fabric, &mut command, &hosts);
    fabric.assert_no_errors_logged();
    fabric.down();
}
