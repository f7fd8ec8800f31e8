//! Checkpoints: the finished points of an interrupted run; and how files are written.

use std::fs;
use std::hash::{BuildHasher, DefaultHasher, Hasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::ExperimentError;
use sim::split_mix;

/// A folder of finished points.
#[derive(Debug)]
pub(super) struct Checkpoints {
    folder: PathBuf,
}

impl Checkpoints {
    /// Those below `out` of a plan with that name and fingerprint, made by this build of the program:
    /// another one may come to other results.
    pub(super) fn new(out: &Path, name: &str, fingerprint: &str) -> Result<Self, ExperimentError> {
        let mark = fingerprint
            .bytes()
            .fold(build(), |mark, byte| split_mix(mark, u64::from(byte)));
        let folder = out.join(format!(".{name}-{mark:016x}"));
        fs::create_dir_all(&folder).map_err(|source| unwritable(&folder, source))?;
        Ok(Self { folder })
    }

    fn path(&self, at: usize) -> PathBuf {
        self.folder.join(format!("{at}.json"))
    }

    /// A finished point, if it is there and whole.
    pub(super) fn load<P: DeserializeOwned>(&self, at: usize) -> Option<P> {
        serde_json::from_slice(&fs::read(self.path(at)).ok()?).ok()
    }

    /// Writes a finished point.
    pub(super) fn store<P: Serialize>(&self, at: usize, point: &P) -> Result<(), ExperimentError> {
        let path = self.path(at);
        let text = serde_json::to_vec(point)
            .map_err(|error| unwritable(&path, io::Error::other(error)))?;
        write_whole(&path, &text)
    }

    /// The results are written: checkpoints are no longer needed.
    pub(super) fn discard(&self) -> Result<(), ExperimentError> {
        fs::remove_dir_all(&self.folder).map_err(|source| unwritable(&self.folder, source))
    }
}

/// A number of this build of the program: a hash of its file, or of the version if it cannot be read.
fn build() -> u64 {
    static BUILD: OnceLock<u64> = OnceLock::new();
    *BUILD.get_or_init(|| {
        let mut hasher = DefaultHasher::new();
        match std::env::current_exe().and_then(fs::read) {
            Ok(program) => hasher.write(&program),
            Err(_) => hasher.write(env!("CARGO_PKG_VERSION").as_bytes()),
        }
        hasher.finish()
    })
}

/// Writes a file so that it is there wholly or not at all.
pub(super) fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), ExperimentError> {
    // Another process, perhaps on another machine, may write the same file at the same time.
    static OWN: OnceLock<u64> = OnceLock::new();
    let own = OWN.get_or_init(|| RandomState::new().hash_one(std::process::id()));
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(format!(".{own:016x}.part"));
    let temporary = PathBuf::from(temporary);
    let written = fs::write(&temporary, bytes).and_then(|()| fs::rename(&temporary, path));
    written.map_err(|source| {
        // A part of a checkpoint cannot be read back.
        let _ = fs::remove_file(&temporary);
        unwritable(path, source)
    })
}

pub(super) fn unwritable(path: &Path, source: io::Error) -> ExperimentError {
    ExperimentError::Unwritable {
        path: path.to_owned(),
        source,
    }
}
