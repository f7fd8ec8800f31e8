//! Errors of the operating system: the operation, its object, the cause, and the remedy.

use std::io;

use thiserror::Error;

/// A failed request to the operating system.
#[derive(Debug, Error)]
#[error("cannot {what}: {cause}{}{remedy}", if remedy.is_empty() { "" } else { "; " })]
pub struct NetError {
    /// What was tried and where: "open a packet socket on p1".
    pub what: String,
    /// The reason, most often the system's. It is part of the message and therefore no `source`.
    pub cause: io::Error,
    /// What to do about it; may be empty.
    pub remedy: &'static str,
}

impl NetError {
    /// An error with the remedy that fits its kind.
    #[must_use]
    pub fn new(what: impl Into<String>, cause: io::Error) -> Self {
        let remedy = match cause.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => {
                "run as root, or use --transport udp, which needs no privileges"
            }
            Some(libc::EMFILE | libc::ENFILE) => {
                "raise the limit of open files (ulimit -n, fs.file-max)"
            }
            Some(libc::ENOMEM | libc::ENOBUFS) => "free memory, or start a smaller fabric",
            Some(libc::EADDRINUSE) => "another process uses this name; end it, or choose another",
            _ => "",
        };
        Self {
            what: what.into(),
            cause,
            remedy,
        }
    }

    /// An error of the request itself: `why` is the cause.
    #[must_use]
    pub fn refused(what: impl Into<String>, why: &str) -> Self {
        Self::new(what, io::Error::new(io::ErrorKind::InvalidInput, why))
    }

    /// The same error with a remedy of the caller's.
    #[must_use]
    pub fn with_remedy(mut self, remedy: &'static str) -> Self {
        self.remedy = remedy;
        self
    }
}

/// Turns the result of a system call into `Ok(value)` or the thread's `errno`.
pub(crate) fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// [`check`] for calls that return a length.
pub(crate) fn check_len(result: libc::ssize_t) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}
