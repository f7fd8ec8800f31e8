//! The fabric's directory and the paths of its files.
//!
//! `<runtime>/<fabric>`, mode 0700, where the runtime directory is `$IBEMU_RUNTIME_DIR`, else
//! `/run/ibemu` for root, else `$XDG_RUNTIME_DIR/ibemu`, else `/tmp/ibemu-<uid>`. Both directories
//! are checked whenever they are opened: what is in them decides which processes are ended.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use cluster::slurm;
use netio::directory::PrivateDirectory;
use netio::secret_file::read_secret;
use wire::{MKey, SaKey};

use crate::names::FabricName;

/// The state file, the supervisor's journal, the user's tables, the subnet's M_Key, its partitions and
/// the directory of the logs, by their names in the fabric's directory.
pub const STATE: &str = "fabric.json";
pub(crate) const JOURNAL: &str = "processes.jsonl";
pub(crate) const TABLES: &str = "tables.lfts";
pub(crate) const M_KEY: &str = "m_key";
pub(crate) const SA_KEY: &str = "sa_key";
/// What the keys of tunnels are made of.
pub(crate) const LINK_SECRET: &str = "link_secret";
pub(crate) const PARTITIONS: &str = "partitions.conf";
/// What controllers remember of LIDs, cables and the choice of `auto`.
pub(crate) const GUID2LID: &str = "guid2lid";
/// Roots, and hosts that do or do not make leaves, a GUID a line.
pub(crate) const ROOTS: &str = "roots";
pub(crate) const IO_GUIDS: &str = "io_guids";
pub(crate) const COMPUTE_GUIDS: &str = "compute_guids";
/// The names and addresses of the hosts, as `/etc/hosts`.
pub(crate) const HOSTS: &str = "hosts";
pub(crate) const LOGS: &str = "log";

/// How the folder of a job's fabrics in the runtime directory begins.
const JOB_PREFIX: &str = "job";

/// Whether a folder is that of a job's fabrics: no fabric's name has a dot.
fn is_of_job(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name.starts_with(JOB_PREFIX) && name.contains('.'))
}

/// The name of the user's service levels of one file.
pub(crate) fn levels_file(number: usize) -> String {
    format!("tables.{number}.sls")
}

/// The directory that holds the fabrics of this user.
#[must_use]
pub fn runtime() -> PathBuf {
    runtime_for(netio::process::effective_uid(), |name| {
        std::env::var_os(name).map(PathBuf::from)
    })
}

fn runtime_for(uid: u32, variable: impl Fn(&str) -> Option<PathBuf>) -> PathBuf {
    let absolute = |name| variable(name).filter(|path| path.is_absolute());
    if let Some(path) = absolute("IBEMU_RUNTIME_DIR") {
        return path;
    }
    if uid == 0 {
        return PathBuf::from("/run/ibemu");
    }
    match absolute("XDG_RUNTIME_DIR") {
        Some(path) => path.join("ibemu"),
        None => PathBuf::from(format!("/tmp/ibemu-{uid}")),
    }
}

/// The directory of one fabric: paths only, nothing is created or opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FabricDir {
    path: PathBuf,
    fabric: FabricName,
}

impl FabricDir {
    /// The directory of `fabric`: on a machine of a job of Slurm the one of that job, if it has such a fabric.
    #[must_use]
    pub fn of(fabric: &FabricName) -> Self {
        let of_job = || {
            let [job, machine] = [slurm::JOB, slurm::MACHINE].map(|name| std::env::var(name).ok());
            Some(Self::of_job(fabric, &job?, &machine?)).filter(Self::exists)
        };
        of_job().unwrap_or_else(|| Self {
            path: runtime().join(fabric.as_str()),
            fabric: fabric.clone(),
        })
    }

    /// The directory of a fabric that a job of Slurm has on one of its machines. The runtime directory may be one that
    /// machines share.
    #[must_use]
    pub fn of_job(fabric: &FabricName, job: &str, machine: &str) -> Self {
        let own = format!("{JOB_PREFIX}{job}.{machine}").replace('/', "-");
        Self {
            path: runtime().join(own).join(fabric.as_str()),
            fabric: fabric.clone(),
        }
    }

    /// The directory at `path`, whose last component is the fabric's name.
    ///
    /// # Errors
    /// If it is not.
    pub fn at(path: &Path) -> Result<Self> {
        let name = path.file_name().and_then(|name| name.to_str());
        let Some(Ok(fabric)) = name.map(str::parse) else {
            bail!("{} is not the directory of a fabric", path.display());
        };
        Ok(Self {
            path: path.to_owned(),
            fabric,
        })
    }

    /// Whether it is that of a fabric that a job has on one of its machines.
    #[must_use]
    pub fn is_of_job(&self) -> bool {
        self.path.parent().is_some_and(is_of_job)
    }

    /// The fabric's name.
    #[must_use]
    pub fn fabric(&self) -> &FabricName {
        &self.fabric
    }

    /// The directory itself.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The state file: what was requested and created.
    #[must_use]
    pub fn state(&self) -> PathBuf {
        self.path.join(STATE)
    }

    /// Which processes were started and how they ended, one line each.
    #[must_use]
    pub fn journal(&self) -> PathBuf {
        self.path.join(JOURNAL)
    }

    /// The control socket of a device, of the controller or of the supervisor.
    #[must_use]
    pub fn control(&self, handle: &str) -> PathBuf {
        if handle == "supervisor" {
            return self.path.join("supervisor.sock");
        }
        self.path.join(format!("{handle}.ctl"))
    }

    /// The capture socket of a device.
    #[must_use]
    pub fn captures(&self, handle: &str) -> PathBuf {
        self.path.join(format!("{handle}.tap"))
    }

    /// The MAD socket of a host.
    #[must_use]
    pub fn mad(&self, handle: &str) -> PathBuf {
        self.path.join(format!("{handle}.mad"))
    }

    /// The socket of a host that its libibumad speaks to.
    #[must_use]
    pub fn ibumad(&self, handle: &str) -> PathBuf {
        self.path.join(format!("{handle}.ibumad"))
    }

    /// The socket for programs' connections of a host.
    #[must_use]
    pub fn cm(&self, handle: &str) -> PathBuf {
        self.path.join(format!("{handle}.cm"))
    }

    /// The names and addresses of the hosts.
    #[must_use]
    pub fn hosts(&self) -> PathBuf {
        self.path.join(HOSTS)
    }

    /// The user's forwarding tables, with `--routing file`.
    #[must_use]
    pub fn tables(&self) -> PathBuf {
        self.path.join(TABLES)
    }

    /// The service levels of these tables, file `number` of those given with `--sls`.
    #[must_use]
    pub fn levels(&self, number: usize) -> PathBuf {
        self.path.join(levels_file(number))
    }

    /// The subnet's partitions, with `--partitions`.
    #[must_use]
    pub fn partitions(&self) -> PathBuf {
        self.path.join(PARTITIONS)
    }

    /// A file of GUIDs that say where the levels of the fabric are: `roots`, `io_guids`, `compute_guids`.
    pub(crate) fn level_guids(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The file of the subnet's M_Key, with `--m-key`.
    #[must_use]
    pub fn m_key_file(&self) -> PathBuf {
        self.path.join(M_KEY)
    }

    /// The subnet's M_Key; `None` if it has none.
    ///
    /// # Errors
    /// If its file cannot be used.
    pub fn m_key(&self) -> Result<Option<MKey>> {
        Self::key(&self.m_key_file())
    }

    /// The file of the SM_Key of trusted requests, with `--sa-key`.
    #[must_use]
    pub fn sa_key_file(&self) -> PathBuf {
        self.path.join(SA_KEY)
    }

    /// The SM_Key of trusted requests to subnet administration.
    ///
    /// # Errors
    /// If its file cannot be used.
    pub fn sa_key(&self) -> Result<SaKey> {
        let key = Self::key(&self.sa_key_file())?;
        Ok(key.map(SaKey::new).unwrap_or_default())
    }

    fn key(path: &Path) -> Result<Option<MKey>> {
        match read_secret(path) {
            Ok(text) => {
                let key = MKey::read(&text);
                Ok(Some(key.with_context(|| path.display().to_string())?))
            }
            Err(error) if error.cause.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The directory of the logs.
    #[must_use]
    pub fn logs(&self) -> PathBuf {
        self.path.join(LOGS)
    }

    /// The log of a device, of the controller or of the supervisor.
    #[must_use]
    pub fn log(&self, handle: &str) -> PathBuf {
        self.logs().join(format!("{handle}.log"))
    }

    /// The user whose fabric it is; the calling one if the directory is not there.
    #[must_use]
    pub fn owner(&self) -> u32 {
        fs::symlink_metadata(&self.path)
            .map_or_else(|_| netio::process::effective_uid(), |found| found.uid())
    }

    /// Whether the directory is there.
    #[must_use]
    pub fn exists(&self) -> bool {
        self.path.is_dir()
    }

    /// Creates the directory: the fabric's name is taken from here on.
    ///
    /// # Errors
    /// If the name is taken, or the directory cannot be made or is not safe to use.
    pub fn create(&self) -> Result<()> {
        let parent = self
            .path
            .parent()
            .context("a fabric directory has a parent")?;
        DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(parent)
            .with_context(|| format!("cannot create {}", parent.display()))?;
        let runtime = PrivateDirectory::open(parent)?;
        match runtime.create_below(self.fabric.as_str()) {
            Ok(()) => {}
            Err(error) if error.cause.kind() == io::ErrorKind::AlreadyExists => bail!(
                "there is a fabric {fabric} already ({path}); take it down first (ibemu down \
                 --fabric {fabric}), or choose another name with --fabric",
                fabric = self.fabric,
                path = self.path.display()
            ),
            Err(error) => return Err(error.into()),
        }
        let directory = runtime.open_below(self.fabric.as_str())?;
        Ok(directory.create_below(LOGS)?)
    }

    /// Opens the directory; `None` if it is not there.
    ///
    /// # Errors
    /// If it, or the runtime directory around it, belongs to another user or can be written to by
    /// one: nothing in it may then be used.
    pub fn open(&self) -> Result<Option<PrivateDirectory>> {
        let parent = self
            .path
            .parent()
            .context("a fabric directory has a parent")?;
        let opened = PrivateDirectory::open(parent)
            .and_then(|runtime| runtime.open_below(self.fabric.as_str()));
        match opened {
            Ok(directory) => Ok(Some(directory)),
            Err(error) if error.cause.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Opens the directory, which must be there.
    ///
    /// # Errors
    /// As [`FabricDir::open`], or if there is none.
    pub fn require(&self) -> Result<PrivateDirectory> {
        self.open()?
            .with_context(|| format!("{} does not exist", self.path.display()))
    }

    /// Opens the log of a device, of the controller or of the supervisor to be appended to.
    ///
    /// # Errors
    /// If it cannot be written, or the directory is not safe to use.
    pub fn append_log(&self, handle: &str) -> Result<File> {
        let logs = self.require()?.open_below(LOGS)?;
        Ok(logs.append(&format!("{handle}.log"))?)
    }

    /// Removes the directory with everything in it; and the runtime directory, if it is empty then.
    ///
    /// # Errors
    /// If something in it cannot be removed.
    pub fn remove(&self) -> Result<()> {
        match fs::remove_dir_all(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(error)
                    .with_context(|| format!("cannot remove {}", self.path.display()));
            }
            _ => {}
        }
        let mut parent = self.path.parent();
        // Removing fails while other fabrics exist, as intended.
        if let Some(of_job) = parent.filter(|path| is_of_job(path)) {
            let _ = fs::remove_dir(of_job);
            parent = of_job.parent();
        }
        if let Some(parent) = parent
            && std::env::var_os("IBEMU_RUNTIME_DIR").is_none()
        {
            let _ = fs::remove_dir(parent);
        }
        Ok(())
    }
}

/// The names of all fabrics of this user, in order.
///
/// # Errors
/// If the runtime directory cannot be read or is not safe to use; a missing one holds none.
pub fn fabrics() -> Result<Vec<FabricName>> {
    let runtime = runtime();
    match PrivateDirectory::open(&runtime) {
        Err(error) if error.cause.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => drop(other?),
    }
    let entries = match fs::read_dir(&runtime) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => {
            return Err(error).with_context(|| format!("cannot read {}", runtime.display()));
        }
    };
    let mut names: Vec<FabricName> = entries
        .filter_map(Result::ok)
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(variables: &'static [(&str, &str)]) -> impl Fn(&str) -> Option<PathBuf> {
        move |name| {
            variables
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, value)| PathBuf::from(value))
        }
    }

    #[test]
    fn root_and_users_have_runtime_directories_of_their_own() {
        let xdg = &[("XDG_RUNTIME_DIR", "/run/user/7")];
        assert_eq!(runtime_for(0, with(xdg)), Path::new("/run/ibemu"));
        assert_eq!(runtime_for(7, with(xdg)), Path::new("/run/user/7/ibemu"));
        assert_eq!(runtime_for(7, with(&[])), Path::new("/tmp/ibemu-7"));
        let own = &[("IBEMU_RUNTIME_DIR", "/x"), ("XDG_RUNTIME_DIR", "/y")];
        assert_eq!(runtime_for(0, with(own)), Path::new("/x"));
        let relative = &[("IBEMU_RUNTIME_DIR", "x")];
        assert_eq!(runtime_for(0, with(relative)), Path::new("/run/ibemu"));
    }

    #[test]
    fn what_another_user_put_there_is_never_used() {
        use std::os::unix::fs::{PermissionsExt, chown, symlink};
        assert_eq!(
            netio::process::effective_uid(),
            0,
            "this test gives directories to another user: run it as root (tests/run.sh does)"
        );
        let folder = tempfile::tempdir().unwrap();
        let runtime = folder.path().join("runtime");
        let dir = FabricDir::at(&runtime.join("ib")).unwrap();
        dir.create().unwrap();
        let refused = || {
            let error = format!("{:#}", crate::state::FabricState::load(&dir).unwrap_err());
            assert!(error.contains("IBEMU_RUNTIME_DIR"), "{error}");
            dir.append_log("s0").unwrap_err();
            assert_eq!(crate::supervisor::recorded(&dir), []);
            error
        };
        for path in [&runtime, dir.path()] {
            chown(path, Some(65534), None).unwrap();
            assert!(refused().contains("belongs to user 65534"));
            chown(path, Some(0), None).unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
            assert!(refused().contains("mode 0777"));
            fs::set_permissions(path, fs::Permissions::from_mode(0o700)).unwrap();
        }
        fs::write(folder.path().join("victim"), "").unwrap();
        symlink(folder.path().join("victim"), dir.log("s0")).unwrap();
        dir.append_log("s0").unwrap_err();
        dir.append_log("s1").unwrap();
    }

    #[test]
    fn a_directory_is_created_once_and_removed_with_what_is_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let dir = FabricDir::at(&folder.path().join("runtime/ib")).unwrap();
        dir.create().unwrap();
        assert_eq!(fs::metadata(dir.path()).unwrap().mode() & 0o777, 0o700);
        let again = dir.create().unwrap_err().to_string();
        assert!(again.contains("ibemu down --fabric ib"), "{again}");
        fs::write(dir.log("s0"), "x").unwrap();
        dir.remove().unwrap();
        assert!(!dir.exists());
        dir.remove().unwrap();
    }
}
