//! Work as another user, for tests.

use std::thread;

/// A user that owns nothing.
pub(crate) const OTHER_USER: u32 = 65534;

/// Runs `work` on a thread of its own whose user is [`OTHER_USER`]; the other threads keep theirs.
///
/// # Panics
/// Unless the process is root's.
pub(crate) fn as_other_user<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let as_other = || {
        // The system call and not libc's function, which would change all threads.
        // SAFETY: the call takes three numbers.
        let outcome =
            unsafe { libc::syscall(libc::SYS_setresuid, OTHER_USER, OTHER_USER, OTHER_USER) };
        assert_eq!(
            outcome, 0,
            "this test acts as another user: run it as root (tests/run.sh does)"
        );
        work()
    };
    thread::scope(|scope| scope.spawn(as_other).join().unwrap())
}
