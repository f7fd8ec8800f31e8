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
    let read = |file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}"));
    Usage {
        cpu_s: cpu_s(&read("stat").unwrap_or_default()),
        resident_bytes: resident_bytes(&read("status").unwrap_or_default()),
    }
}

/// proc_pid_stat(5): behind the name, which may hold anything, fields from the third on.
fn cpu_s(stat: &str) -> f64 {
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let mut times = fields.split_whitespace().skip(14 - 3);
    let mut next = || times.next()?.parse::<u64>().ok();
    let user = next().unwrap_or(0);
    let system = next().unwrap_or(0);
    real(user.saturating_add(system)) / TICKS_PER_S
}

/// proc_pid_status(5): `VmRSS:` and a number of KiB.
fn resident_bytes(status: &str) -> u64 {
    let value = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = value.and_then(|value| value.split_whitespace().next()?.parse::<u64>().ok());
    number.unwrap_or(0).saturating_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_counted_from_behind_the_name() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 0 0 0 0 0 250 50 0 0 20 0 1 0 5 1000 12 0";
        assert!((cpu_s(stat) - 3.0).abs() < 1e-9);
        let status = "Name:\tVmRSS\nVmRSS:\t    48 kB\n";
        assert_eq!(resident_bytes(status), 48 * 1024);
        assert_eq!((cpu_s("") == 0.0, resident_bytes("")), (true, 0));
    }

    #[test]
    fn a_process_has_used_something_and_one_that_is_not_nothing() {
        assert!(usage_of(std::process::id()).resident_bytes > 0);
        assert_eq!(usage_of(u32::MAX), Usage::default());
    }
}
