//! The task that calls a server when its deadline has come.

use std::time::Duration;

use link::Time;
use netio::clock;
use tokio::sync::Notify;

/// Calls `tick` at each moment that `deadline` names, for ever. `changed` is notified when that may be another
/// moment than before.
pub(super) async fn run(
    changed: &Notify,
    deadline: impl Fn() -> Option<Time>,
    tick: impl Fn(Time),
) {
    loop {
        let wait = deadline().map(|at| Duration::from_nanos(at.since_ns(clock::now())));
        tokio::select! {
            () = changed.notified() => {}
            () = tokio::time::sleep(wait.unwrap_or_default()), if wait.is_some() => {
                tick(clock::now());
            }
        }
    }
}
