//! Runs a verb on the machine of the job where its node is.

use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::process::Command;

use anyhow::Result;

use super::job::Job;

/// The command that runs this program with `arguments` on the machine of a job where the device at that position is.
///
/// # Errors
/// If the program's own place is not known.
pub(crate) fn visit(job: &Job, device: usize, arguments: &[OsString]) -> Result<Command> {
    let mut command = Command::new("srun");
    let machine = job.machine_name(device);
    command.args(["--jobid", &job.id, "--overlap", "--nodes=1", "--ntasks=1"]);
    command.args(["--mpi=none", "--quiet", "--nodelist", machine]);
    if std::io::stdin().is_terminal() && std::io::stdout().is_terminal() {
        command.arg("--pty");
    } else {
        command.arg("--unbuffered");
    }
    command
        .arg(netio::process::own_executable()?)
        .args(arguments);
    Ok(command)
}
