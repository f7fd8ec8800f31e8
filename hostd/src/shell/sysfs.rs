//! The adapter's files as a driver has them: written into a folder of the host's, which `ibemu exec` shows its
//! commands below `/sys/class`.

#![expect(clippy::disallowed_methods, reason = "a shell writes files")]

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use hostd::IpPort;
use mad::umad::Adapter;

/// How often the files are written anew.
pub(super) const REFRESH: Duration = Duration::from_millis(500);
/// The folder of the class.
const CLASS: &str = "infiniband";
/// The longest name of an adapter.
const NAME_BYTES_MAX: usize = 64;

/// The contents written last, by name of an adapter and path. New files cost far more than looking here: each
/// `ibemu exec` would write all of them, and each half second.
#[derive(Debug, Default)]
pub(super) struct Written(BTreeMap<String, BTreeMap<String, String>>);

/// Names of adapters of which contents are known at most.
const NAMES_MAX: usize = 16;

/// The files of a port's interface, from which programs learn its name; none without one.
pub(super) fn of_interface(ip: &IpPort) -> Vec<(String, String)> {
    let Some(name) = &ip.interface else {
        return Vec::new();
    };
    let place = ip.port.get().saturating_sub(1);
    let file = |file: &str, text: String| (format!("device/net/{name}/{file}"), text);
    vec![
        file("dev_id", format!("{place:#x}\n")),
        file("dev_port", format!("{place}\n")),
    ]
}

/// Writes the files of an adapter, and those of its interfaces, that differ from those `written`. A reader sees a file as it was or as it is.
pub(super) fn write(
    folder: &Path,
    name: &str,
    (adapter, interfaces): (&Adapter, &[(String, String)]),
    written: &mut Written,
) -> io::Result<()> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(plain) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // Beside the folder that readers see.
    let next = folder.with_extension("next");
    let folder = folder.join(CLASS).join(name);
    let refreshed_ms = u64::try_from(REFRESH.as_millis()).unwrap_or(u64::MAX);
    let known = written.0.contains_key(name);
    if !known && written.0.len() >= NAMES_MAX || known && !folder.is_dir() {
        // They are forgotten, and written anew: nobody sees other contents by that.
        written.0.clear();
    }
    let written = written.0.entry(name.to_owned()).or_default();
    let files = adapter.files(refreshed_ms).into_iter();
    for (path, text) in files.chain(interfaces.iter().cloned()) {
        if written.get(&path) == Some(&text) {
            continue;
        }
        let file = folder.join(&path);
        let parent = file.parent().ok_or(io::ErrorKind::InvalidInput)?;
        fs::create_dir_all(parent)?;
        fs::write(&next, &text)?;
        fs::rename(&next, &file)?;
        written.insert(path, text);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use hostd::addresses::HostNumber;
    use wire::PortNum;

    use super::*;

    #[test]
    fn what_differs_is_written_and_bad_names_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let mut written = Written::default();
        let mut adapter = Adapter::default();
        let root = &folder.path().join("h0.sysfs");
        let net = of_interface(&IpPort {
            port: PortNum::new(2),
            number: HostNumber::new(1).unwrap(),
            interface: Some("ib1".to_owned()),
        });
        write(root, "ibemu0", (&adapter, &net), &mut written).unwrap();
        let description = root.join("infiniband/ibemu0/node_desc");
        assert_eq!(fs::read_to_string(&description).unwrap(), "\n");
        let device = root.join("infiniband/ibemu0/device/net/ib1");
        assert_eq!(fs::read_to_string(device.join("dev_id")).unwrap(), "0x1\n");
        assert_eq!(fs::read_to_string(device.join("dev_port")).unwrap(), "1\n");
        fs::write(&description, "of another program").unwrap();
        write(root, "ibemu0", (&adapter, &net), &mut written).unwrap();
        assert_eq!(
            fs::read_to_string(&description).unwrap(),
            "of another program"
        );
        adapter.description = "h0".to_owned();
        write(root, "ibemu0", (&adapter, &net), &mut written).unwrap();
        assert_eq!(fs::read_to_string(&description).unwrap(), "h0\n");
        let shown = fs::read_dir(root.join(CLASS)).unwrap().count();
        assert_eq!(shown, 1, "nothing but the adapter is seen");
        // One whose folder is gone is written anew, and many names take no more memory than some.
        fs::remove_dir_all(root.join(CLASS)).unwrap();
        write(root, "ibemu0", (&adapter, &net), &mut written).unwrap();
        assert_eq!(fs::read_to_string(&description).unwrap(), "h0\n");
        for number in 0..100 {
            let name = format!("n{number}");
            write(root, &name, (&adapter, &net), &mut written).unwrap();
            assert!(root.join(CLASS).join(name).join("node_desc").exists());
            assert!(written.0.len() <= NAMES_MAX);
        }
        for name in ["", "..", "a/b", &"x".repeat(65)] {
            assert!(
                write(root, name, (&adapter, &net), &mut written).is_err(),
                "{name}"
            );
        }
    }
}
