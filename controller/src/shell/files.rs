//! The files that outlive a controller and are shared by all controllers of a fabric: the master
//! writes them, the next master reads them.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use controller::Remembered;
use netio::directory::PrivateDirectory;

/// Where they are.
#[derive(Debug)]
pub(super) struct Files {
    guid2lid: PathBuf,
    connections: PathBuf,
    groups: PathBuf,
    aliases: PathBuf,
}

impl Files {
    /// The files of the fabric in that directory.
    pub(super) fn in_directory(directory: &Path) -> Self {
        Self {
            guid2lid: directory.join("guid2lid"),
            connections: directory.join("connections"),
            groups: directory.join("groups"),
            aliases: directory.join("aliases"),
        }
    }

    /// What they hold.
    ///
    /// # Errors
    /// If one is there but cannot be read.
    pub(super) fn read(&self) -> Result<Remembered> {
        Ok(Remembered {
            guid2lid: read_if_there(&self.guid2lid)?,
            connections: read_if_there(&self.connections)?,
            groups: read_if_there(&self.groups)?,
            aliases: read_if_there(&self.aliases)?,
        })
    }

    pub(super) fn save_guid2lid(&self, text: &str) {
        save(&self.guid2lid, text);
    }

    pub(super) fn save_connections(&self, text: &str) {
        save(&self.connections, text);
    }

    pub(super) fn save_groups(&self, text: &str) {
        save(&self.groups, text);
    }

    pub(super) fn save_aliases(&self, text: &str) {
        save(&self.aliases, text);
    }
}

/// The text of a file; `None` if it is not there.
pub(super) fn read_if_there(path: &Path) -> Result<Option<String>> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

fn save(path: &Path, text: &str) {
    if let Err(error) = replace(path, text) {
        tracing::error!("{error:#}");
    }
}

/// Replaces a file atomically: readers see the old text or the new one.
fn replace(path: &Path, text: &str) -> Result<()> {
    let (Some(directory), Some(name)) = (path.parent(), path.file_name().and_then(OsStr::to_str))
    else {
        bail!("{} is no path of a file", path.display());
    };
    Ok(PrivateDirectory::open(directory)?.replace(name, text.as_bytes())?)
}
