//! What the kernel says a process has used.

use wire::convert::real;

/// Ticks of proc_pid_stat(5) a second: what the kernel tells programs is in hundredths, whatever its own timer does.
const TICKS_PER_S: f64 = 100.0;

/// What a process uses.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// CPU time in user and kernel mode, seconds.
    pub cpu_s: f64,
    /// Resident memory, bytes.
    pub resident_bytes: u64,
}

/// What the process with this id uses, from `/proc`; zeros if there is none.
#[must_use]
pub fn usage_of(pid: u32) -> Usage {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    of_stat(&stat.unwrap_or_default(), netio::process::page_bytes())
}

/// proc_pid_stat(5): behind the name, which may hold anything, fields from the third on. One file has both, where
/// thousands of processes are looked at.
fn of_stat(stat: &str, page_bytes: u64) -> Usage {
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let field = |number: usize| -> u64 {
        let text = fields.get(number - 3);
        text.and_then(|text| text.parse().ok()).unwrap_or(0)
    };
    Usage {
        cpu_s: real(field(14).saturating_add(field(15))) / TICKS_PER_S,
        resident_bytes: field(24).saturating_mul(page_bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_counted_from_behind_the_name() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 0 0 0 0 0 250 50 0 0 20 0 1 0 5 1000 12 0";
        let usage = of_stat(stat, 4096);
        assert!((usage.cpu_s - 3.0).abs() < 1e-9);
        assert_eq!(usage.resident_bytes, 12 * 4096);
        assert_eq!(of_stat("", 4096), Usage::default());
    }

    #[test]
    fn a_process_has_used_something_and_one_that_is_not_nothing() {
        assert!(usage_of(std::process::id()).resident_bytes > 0);
        assert_eq!(usage_of(u32::MAX), Usage::default());
    }
}
