//! The binaries under test, which are those of the sources: older ones are refused.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::time::SystemTime;

/// What a fabric runs.
const BINARIES: [&str; 4] = ["ibemu", "switchd", "hostd", "controller"];

static IBEMU: LazyLock<Result<PathBuf, String>> = LazyLock::new(|| {
    let ibemu = place()?;
    for name in BINARIES {
        check(&ibemu.with_file_name(name))?;
    }
    Ok(ibemu)
});

/// The `ibemu` binary: `$IBEMU`, else the one of this test's own profile, else the release build of
/// this test's own target directory.
///
/// # Panics
/// If it, or a daemon beside it, was not built, or was built from older sources.
#[must_use]
pub fn ibemu() -> PathBuf {
    match &*IBEMU {
        Ok(path) => path.clone(),
        Err(why) => panic!("{why}"),
    }
}

/// A call of `ibemu`.
#[must_use]
pub fn ibemu_command<S: AsRef<std::ffi::OsStr>>(arguments: &[S]) -> Command {
    let mut command = Command::new(ibemu());
    command.args(arguments);
    command
}

fn place() -> Result<PathBuf, String> {
    if let Some(path) = env::var_os("IBEMU") {
        return Ok(path.into());
    }
    let exe = env::current_exe().map_err(|error| format!("this test's own path: {error}"))?;
    // target/<profile>/deps/<test>
    let profile = exe.ancestors().nth(2).ok_or("this test has no profile")?;
    let own = profile.join("ibemu");
    if own.exists() {
        return Ok(own);
    }
    let release = profile.with_file_name("release").join("ibemu");
    if release.exists() {
        return Ok(release);
    }
    Err(format!(
        "{} is missing: run `cargo build --workspace --bins`, or set IBEMU",
        own.display()
    ))
}

/// Refuses a binary that is missing, or older than a source that it was built from. That is how
/// cargo decides whether to build anew, so that what cargo has just built, or found to be fresh,
/// always passes.
fn check(binary: &Path) -> Result<(), String> {
    let built = modified(binary).ok_or_else(|| format!("{} is missing", binary.display()))?;
    for source in sources(binary)? {
        // What is gone was renamed or removed after the build.
        if modified(&source).is_none_or(|changed| changed > built) {
            return Err(format!(
                "{} is older than {}: build the binaries anew (`cargo build --workspace --bins`, \
                 with --release for those of the release profile), or set IBEMU to others",
                binary.display(),
                source.display()
            ));
        }
    }
    Ok(())
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).ok()?.modified().ok()
}

/// The files of this repository that the binary was built from: as cargo notes them beside what it was
/// asked for by name, else the sources of the binary's crate and of those that it depends on.
fn sources(binary: &Path) -> Result<Vec<PathBuf>, String> {
    if let Ok(note) = fs::read_to_string(binary.with_extension("d")) {
        return Ok(noted(&note));
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .ok_or("no workspace")?;
    let name = binary.file_name().and_then(|name| name.to_str());
    let mut sources = Vec::new();
    for krate in crates(root, name.ok_or("a binary without a name")?)? {
        collect(&root.join(krate).join("src"), &mut sources)?;
    }
    Ok(sources)
}

/// The crate `name` of the workspace at `root`, and those of the workspace that it is built from. Crates
/// are named as their folders are.
fn crates(root: &Path, name: &str) -> Result<BTreeSet<String>, String> {
    let mut found = BTreeSet::new();
    let mut unread = vec![name.to_owned()];
    while let Some(krate) = unread.pop() {
        let path = root.join(&krate).join("Cargo.toml");
        let cannot = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let text = fs::read_to_string(&path).map_err(|error| cannot(&error))?;
        let manifest: toml::Table = text.parse().map_err(|error| cannot(&error))?;
        let dependencies = ["dependencies", "build-dependencies"]
            .iter()
            .filter_map(|section| manifest.get(*section)?.as_table())
            .flat_map(toml::Table::keys)
            .filter(|name| root.join(name).join("Cargo.toml").is_file());
        unread.extend(dependencies.filter(|name| !found.contains(*name)).cloned());
        found.insert(krate);
    }
    Ok(found)
}

/// The paths behind the colon of a file of dependencies: separated by spaces; those within paths
/// are escaped.
fn noted(note: &str) -> Vec<PathBuf> {
    let (_, paths) = note.split_once(": ").unwrap_or_default();
    let paths = paths.trim_end().replace("\\ ", "\0");
    paths
        .split(' ')
        .filter(|path| !path.is_empty())
        .map(|path| path.replace('\0', " ").into())
        .collect()
}

fn folder(path: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(entries
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .collect())
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) -> Result<(), String> {
    for path in folder(path)? {
        if path.is_dir() {
            collect(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::time::Duration;

    use super::*;

    /// A folder with a source and a binary that is built from it, as old as told.
    fn built(source_s: u64, binary_s: u64) -> (tempfile::TempDir, PathBuf, PathBuf) {
        let folder = tempfile::tempdir().expect("a folder");
        let source = folder.path().join("a source.rs");
        let binary = folder.path().join("ibemu");
        for (path, seconds) in [(&source, source_s), (&binary, binary_s)] {
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
            let file = File::create(path).expect("a file");
            file.set_modified(time).expect("a time");
        }
        let escaped = source.to_str().expect("UTF-8").replace(' ', "\\ ");
        let note = format!("{}: {escaped}\n", binary.display());
        fs::write(binary.with_extension("d"), note).expect("a note");
        (folder, source, binary)
    }

    #[test]
    fn a_binary_of_the_sources_is_taken() {
        for (source_s, binary_s) in [(1000, 1000), (1000, 2000)] {
            let (_folder, _, binary) = built(source_s, binary_s);
            assert_eq!(check(&binary), Ok(()));
        }
    }

    #[test]
    fn a_binary_older_than_a_source_is_refused_with_what_to_do() {
        let (_folder, source, binary) = built(2000, 1000);
        let why = check(&binary).expect_err("older");
        assert!(why.contains(source.to_str().expect("UTF-8")), "{why}");
        assert!(why.contains("cargo build --workspace --bins"), "{why}");
    }

    #[test]
    fn a_binary_whose_source_is_gone_or_that_is_missing_is_refused() {
        let (_folder, source, binary) = built(1000, 2000);
        fs::remove_file(&source).expect("removed");
        assert!(check(&binary).is_err());
        let (_folder, _, binary) = built(1000, 2000);
        fs::remove_file(&binary).expect("removed");
        assert!(check(&binary).is_err_and(|why| why.contains("missing")));
    }

    #[test]
    fn without_cargos_note_a_binary_is_compared_with_the_sources_that_it_is_built_from() {
        let (_folder, _, binary) = built(1000, 1000);
        fs::remove_file(binary.with_extension("d")).expect("removed");
        let why = check(&binary).expect_err("nothing here is from 1970");
        assert!(why.contains("/src/"), "{why}");
        let now = File::options().write(true).open(&binary).expect("a file");
        now.set_modified(SystemTime::now()).expect("a time");
        assert_eq!(check(&binary), Ok(()));
    }

    #[test]
    fn a_daemon_is_built_from_its_cores_and_not_from_the_command() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"))
            .parent()
            .expect("a root");
        let crates = crates(root, "switchd").expect("manifests");
        for krate in ["switchd", "wire", "link", "netio", "daemon"] {
            assert!(crates.contains(krate), "{krate} is not in {crates:?}");
        }
        for krate in ["ibemu", "controller", "e2e"] {
            assert!(!crates.contains(krate), "{krate} is in {crates:?}");
        }
    }
}
