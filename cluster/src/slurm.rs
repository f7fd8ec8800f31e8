//! What Slurm says in the environment of a job: which machines it has, with how many processors.

use thiserror::Error;

/// The variables that are read.
pub const JOB: &str = "SLURM_JOB_ID";
/// See [`JOB`].
pub const NODES: &str = "SLURM_JOB_NUM_NODES";
/// See [`JOB`].
pub const NODE_LIST: &str = "SLURM_JOB_NODELIST";
/// See [`JOB`].
pub const CPUS: &str = "SLURM_JOB_CPUS_PER_NODE";
/// The name of the machine that a process of a job runs on.
pub const MACHINE: &str = "SLURMD_NODENAME";

/// Why a list of processors cannot be read.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{CPUS} is {0:?}: it is a list like 2(x3),4")]
pub struct CpusError(String);

/// The processors of each machine, from a text like `2(x3),4`; of 65,536 machines at most.
///
/// # Errors
/// [`CpusError`] if it is no such text.
pub fn cpus(text: &str) -> Result<Vec<u32>, CpusError> {
    const MACHINES_MAX: usize = 1 << 16;
    let wrong = || CpusError(text.chars().take(80).collect());
    let mut all = Vec::new();
    for part in text.split(',') {
        let (number, times) = match part.split_once("(x") {
            Some((number, times)) => (number, times.strip_suffix(')').ok_or_else(wrong)?),
            None => (part, "1"),
        };
        let number: u32 = number.parse().map_err(|_| wrong())?;
        let times: usize = times.parse().map_err(|_| wrong())?;
        if number == 0 || times == 0 || all.len() + times > MACHINES_MAX {
            return Err(wrong());
        }
        all.extend(std::iter::repeat_n(number, times));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors_are_read() {
        assert_eq!(cpus("2(x3),4").unwrap(), [2, 2, 2, 4]);
        assert_eq!(cpus("16").unwrap(), [16]);
        for wrong in [
            "",
            "2(x",
            "2(x3",
            "0",
            "2(x0)",
            "x",
            "1(x99999)",
            "2,,3",
            "-1",
        ] {
            cpus(wrong).unwrap_err();
        }
    }
}
