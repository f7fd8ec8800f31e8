//! What tells one build of ibemu from another: processes of different builds do not understand each other.

use std::io::Read as _;

use anyhow::{Context, Result};

/// The version of the package, and the first digits of the sum of the program's bytes.
///
/// # Errors
/// If the program cannot be read.
pub(super) fn own() -> Result<String> {
    let path = netio::process::own_executable()?;
    let read = || format!("cannot read {}", path.display());
    let mut file = std::fs::File::open(&path).with_context(read)?;
    let mut sum = cluster::session::Sum::default();
    let mut buffer = vec![0; 1 << 18];
    loop {
        let count = file.read(&mut buffer).with_context(read)?;
        if count == 0 {
            break;
        }
        sum.add(&buffer[..count]);
    }
    let digits = sum.finish();
    Ok(format!("{} ({})", env!("CARGO_PKG_VERSION"), &digits[..12]))
}
