//! Files with a secret of the user's, such as a key: no other user may read them.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use crate::NetError;
use crate::process::effective_uid;

/// The most that such a file may hold, bytes.
const BYTES_MAX: u64 = 65_536;
/// Permission of group and others to do anything.
const OTHERS: u32 = 0o077;

/// The text of the file at `path`, which belongs to this process's user or to root and which no
/// other user can read or write.
///
/// # Errors
/// `PermissionDenied` if it belongs to another user or another user may use it; `InvalidData` if it
/// is no UTF-8, no regular file, or longer than 64 kB; else what the file system says.
pub fn read_secret(path: &Path) -> Result<String, NetError> {
    let failed = |cause| NetError::new(format!("read {}", path.display()), cause).with_remedy("");
    let file = File::open(path).map_err(failed)?;
    let status = file.metadata().map_err(failed)?;
    let denied = |why| failed(io::Error::new(io::ErrorKind::PermissionDenied, why));
    let damaged = |why: &str| failed(io::Error::new(io::ErrorKind::InvalidData, why));
    if !status.is_file() {
        return Err(damaged("it is no regular file"));
    }
    if status.uid() != effective_uid() && status.uid() != 0 {
        let (owner, own) = (status.uid(), effective_uid());
        let why = format!("it belongs to user {owner}, not to user {own}");
        return Err(denied(why).with_remedy("a secret is its user's own: copy it"));
    }
    if status.mode() & OTHERS != 0 {
        let mode = status.mode() & 0o7777;
        let why = format!("it holds a secret, and other users may use it (mode {mode:04o})");
        return Err(denied(why).with_remedy("take the permissions of others away: chmod 600"));
    }
    let mut bytes = Vec::new();
    let mut limited = file.take(BYTES_MAX + 1);
    limited.read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(damaged("it is longer than 65536 bytes"));
    }
    String::from_utf8(bytes).map_err(|_| damaged("it is no UTF-8 text"))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, chown};

    use super::*;

    #[test]
    fn a_secret_that_another_user_may_read_or_owns_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        fs::write(&path, "0x1\n").unwrap();
        for (mode, accepted) in [(0o600, true), (0o400, true), (0o640, false), (0o604, false)] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let read = read_secret(&path);
            assert_eq!(read.is_ok(), accepted, "{mode:o}");
            if let Err(error) = read {
                let text = error.to_string();
                assert!(text.contains("chmod 600") && text.contains("key"), "{text}");
            }
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(read_secret(&path).unwrap(), "0x1\n");
        assert_eq!(
            effective_uid(),
            0,
            "this test gives a file to another user: run it as root (tests/run.sh does)"
        );
        chown(&path, Some(65534), None).unwrap();
        assert!(
            read_secret(&path)
                .unwrap_err()
                .to_string()
                .contains("user 65534")
        );
    }

    #[test]
    fn what_is_no_short_text_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        for content in [vec![0xff; 4], vec![b'#'; 65_537]] {
            fs::write(&path, content).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            let error = read_secret(&path).unwrap_err();
            assert_eq!(error.cause.kind(), io::ErrorKind::InvalidData);
        }
        read_secret(folder.path()).unwrap_err();
        read_secret(&folder.path().join("none")).unwrap_err();
    }
}
