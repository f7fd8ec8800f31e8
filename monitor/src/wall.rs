//! The time of day.

use std::time::{SystemTime, UNIX_EPOCH};

/// Now, milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
    let at_ms = since_1970.map_or(0, |since| since.as_millis());
    u64::try_from(at_ms).unwrap_or(u64::MAX)
}
