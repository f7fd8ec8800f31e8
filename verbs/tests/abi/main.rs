//! The library beside that of the distribution: names with versions, functions that need no device, programs.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The folder that programs find the library in: beside this test's own.
fn folder() -> PathBuf {
    let executable = std::env::current_exe().expect("this test is a file");
    let profile = executable.ancestors().nth(2).expect("the profile's folder");
    profile.join("libibverbs")
}

fn ours() -> PathBuf {
    folder().join("libibverbs.so.1")
}

/// The distribution's library.
fn theirs() -> PathBuf {
    let name = format!(
        "/usr/lib/{}-linux-gnu/libibverbs.so.1",
        std::env::consts::ARCH
    );
    let places = [
        name.as_str(),
        "/usr/lib64/libibverbs.so.1",
        "/usr/lib/libibverbs.so.1",
    ];
    let found = places.iter().map(PathBuf::from).find(|path| path.exists());
    found.expect("the distribution's libibverbs: install libibverbs-dev")
}

fn success(output: &Output) -> String {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn run(command: &mut Command) -> Output {
    let output = command.output();
    output.unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

/// The symbols with versions that a library defines: `name@version`.
fn symbols(library: &Path) -> BTreeSet<String> {
    let mut nm = Command::new("nm");
    nm.args(["-D", "--defined-only", "--with-symbol-versions"])
        .arg(library);
    let listed = success(&run(&mut nm));
    let names = listed
        .lines()
        .filter_map(|line| line.split(' ').next_back());
    let versioned = names.filter(|name| name.contains('@'));
    versioned.map(|name| name.replace("@@", "@")).collect()
}

#[test]
fn every_symbol_of_the_distributions_library_is_there_in_its_version() {
    let ours = symbols(&ours());
    let theirs = symbols(&theirs());
    let current: BTreeSet<&str> = theirs
        .iter()
        .filter_map(|symbol| symbol.strip_suffix("@IBVERBS_1.1"))
        .collect();
    // Functions of 2005 whose structures have changed since, beside today's of the same names.
    let is_old = |symbol: &&String| {
        let name = symbol.strip_suffix("@IBVERBS_1.0");
        name.is_some_and(|name| current.contains(name))
    };
    let wanted = theirs.iter().filter(|symbol| !is_old(symbol));
    let missing: Vec<_> = wanted.filter(|symbol| !ours.contains(*symbol)).collect();
    assert_eq!(missing, Vec::<&String>::new());
    assert!(theirs.len() > 150, "{}", theirs.len());
    let with_rust = ours.iter().filter(|symbol| !symbol.contains("@IBVERBS_"));
    assert_eq!(with_rust.count(), 0, "{ours:?}");
}

#[test]
fn names_of_newer_releases_and_of_all_private_versions_are_there() {
    let ours = symbols(&ours());
    for symbol in [
        "ibv_reg_mr_ex@IBVERBS_1.15",
        "ibv_query_port_speed@IBVERBS_1.16",
        "ibv_alloc_buf@IBVERBS_1.17",
        "ibv_create_comp_cntr@IBVERBS_1.18",
    ] {
        assert!(ours.contains(symbol), "{symbol}");
    }
    for version in [34, 57, 59, 64, 65] {
        for name in [
            &format!("verbs_register_driver_{version}"),
            "ibv_query_gid_type",
            "ibv_cmd_create_qp_ex2",
        ] {
            let symbol = format!("{name}@IBVERBS_PRIVATE_{version}");
            assert!(ours.contains(&symbol), "{symbol}");
        }
    }
}

/// Compiles a program against the distribution's headers and library.
fn compiled(folder: &Path, source: &str) -> PathBuf {
    let program = folder.join(source.trim_end_matches(".c"));
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/abi")
        .join(source);
    let mut compiler = Command::new("cc");
    compiler
        .args(["-Wall", "-o"])
        .args([&program, &source])
        .arg("-libverbs");
    let _ = success(&run(&mut compiler));
    program
}

#[test]
fn functions_without_a_device_give_what_those_of_the_distributions_library_give() {
    let temporary = tempfile::tempdir().expect("a temporary folder");
    let program = compiled(temporary.path(), "pure.c");
    let theirs = success(&run(&mut Command::new(&program)));
    let mut beside_ours = Command::new(&program);
    let ours = success(&run(beside_ours.env("LD_LIBRARY_PATH", folder())));
    let pairs = theirs.lines().zip(ours.lines());
    let differing: Vec<_> = pairs.filter(|(theirs, ours)| theirs != ours).collect();
    assert_eq!(differing, [], "(theirs, ours)");
    assert_eq!(theirs.lines().count(), ours.lines().count());
}

#[test]
fn programs_without_a_host_find_no_device() {
    for (program, told) in [
        ("ibv_devices", ""),
        ("ibv_devinfo", "No IB devices found"),
        ("ibv_rc_pingpong", "No IB devices found"),
        ("ib_send_bw", "Did not detect devices"),
    ] {
        let mut command = Command::new(program);
        let output = run(command
            .env("LD_LIBRARY_PATH", folder())
            .env_remove("IBEMU_ADAPTERS"));
        let stderr = String::from_utf8_lossy(&output.stderr);
        let stdout = String::from_utf8_lossy(&output.stdout);
        assert!(
            stderr.contains(told) || stdout.contains(told),
            "{program}: {stdout}{stderr}"
        );
        assert!(!stderr.contains("version"), "{program}: {stderr}");
    }
}
