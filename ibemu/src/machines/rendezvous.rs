//! How the processes of a job find the supervisor: its address and the job's secret, by PMI-2 to the agents and by the
//! job step's standard output to the machine that `up` was called on.
//!
//! Both ways are read by whoever can read Slurm's own traffic, so the secret goes in a credential of MUNGE where that
//! is: it is encrypted by the cluster's key, and only this user can open it, once on each machine. MUNGE is asked by
//! its commands.

use std::io::Write as _;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _, UdpSocket};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, anyhow, bail, ensure};
use cluster::pmi::Client;
use cluster::session::Secret;

/// The key of the supervisor's place.
const KEY: &str = "ibemu-supervisor";
/// What is said of MUNGE's commands that were killed, as all processes of a job step are when one of them has failed.
pub(super) const KILLED_MEANWHILE: &str = "was killed before it had answered";
/// What stands in front of a place on standard output.
const MARK: &str = "ibemu-supervisor ";

/// Where the supervisor is, and what proves that one belongs to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Its address.
    pub address: SocketAddr,
    /// The job's secret.
    pub secret: Secret,
    /// Whether agents show credentials of MUNGE.
    pub has_munge: bool,
}

impl Place {
    fn write(&self) -> Result<String> {
        let hex = self.secret.to_hex();
        let (kind, secret) = match self.has_munge {
            true => ("munge", munge(&hex)?),
            false => ("plain", hex),
        };
        Ok(format!("{} {kind} {secret}", self.address))
    }

    fn read(text: &str) -> Result<Self> {
        let mut words = text.split(' ');
        let mut word = || words.next().unwrap_or_default();
        let (address, kind, secret) = (word(), word(), word());
        let hex = match kind {
            "munge" => unmunge(secret)?,
            "plain" => secret.to_owned(),
            _ => bail!("the place of the supervisor is none"),
        };
        Ok(Self {
            address: address
                .parse()
                .context("the place of the supervisor has no address")?,
            secret: Secret::from_hex(&hex).context("the place of the supervisor has no secret")?,
            has_munge: kind == "munge",
        })
    }

    /// The line for standard output.
    pub(super) fn line(&self) -> Result<String> {
        Ok(format!("{MARK}{}", self.write()?))
    }

    /// The place in a line of the job step's output; `None` for another line.
    pub(super) fn of_line(line: &str) -> Option<Result<Self>> {
        line.strip_prefix(MARK).map(|text| Self::read(text.trim()))
    }
}

/// A process of the job step.
pub(super) struct Step {
    client: Client<std::os::unix::net::UnixStream>,
}

impl Step {
    /// Joins the others, by what Slurm has put into the environment.
    pub(super) fn join() -> Result<Self> {
        let variable = |name: &str| std::env::var(name).ok();
        let descriptor = variable("PMI_FD").and_then(|text| text.parse().ok());
        let descriptor = descriptor.context(
            "Slurm gives this process no PMI-2 (srun --mpi=pmi2; srun --mpi=list says what it has): is its plugin installed?",
        )?;
        let stream =
            netio::process::inherited_stream(descriptor).context("PMI_FD names no socket")?;
        let rank = variable("PMI_RANK").and_then(|text| text.parse().ok());
        let job = variable("PMI_JOBID").unwrap_or_default();
        let client = Client::init(stream, &job, rank.context("PMI_RANK is missing")?)?;
        Ok(Self { client })
    }

    pub(super) fn rank(&self) -> usize {
        wire::convert::usize_of(self.client.rank())
    }

    pub(super) fn size(&self) -> usize {
        wire::convert::usize_of(self.client.size())
    }

    /// Tells the others the supervisor's place.
    pub(super) fn tell(mut self, place: &Place) -> Result<()> {
        self.client.put(KEY, &place.write()?)?;
        self.client.fence()?;
        Ok(self.client.finalize()?)
    }

    /// Learns the supervisor's place.
    pub(super) fn learn(mut self) -> Result<Place> {
        self.client.fence()?;
        let place = self.client.get(KEY)?;
        self.client.finalize()?;
        Place::read(&place)
    }
}

/// This machine's address for others: from which it would send to the first of `others` that resolves.
pub(super) fn own_address<'a>(others: impl Iterator<Item = &'a str>) -> Result<IpAddr> {
    let mut last = None;
    for name in others {
        match address_towards(name) {
            Ok(address) if !address.is_loopback() && !address.is_unspecified() => {
                return Ok(address);
            }
            Ok(address) => last = Some(format!("{name} is reached from {address}")),
            Err(error) => last = Some(format!("{name}: {error}")),
        }
    }
    bail!(
        "this machine has no address at which the others could reach it ({}); do their names resolve?",
        last.unwrap_or_else(|| "there are no others".to_owned())
    )
}

fn address_towards(name: &str) -> std::io::Result<IpAddr> {
    let mut found = (name, 9).to_socket_addrs()?;
    let other = found.next().ok_or(std::io::ErrorKind::NotFound)?;
    let any: IpAddr = match other {
        SocketAddr::V4(_) => [0u8; 4].into(),
        SocketAddr::V6(_) => [0u8; 16].into(),
    };
    let socket = UdpSocket::bind((any, 0))?;
    // Nothing is sent: it only asks for the route.
    socket.connect(other)?;
    Ok(socket.local_addr()?.ip())
}

/// What is said of a machine that cannot reach the supervisor's.
pub(super) fn unreachable(
    who: &str,
    leader: &str,
    address: SocketAddr,
    why: &anyhow::Error,
) -> anyhow::Error {
    anyhow!(
        "{who} cannot reach {leader} at {address} (TCP): are ports filtered between them? ({why:#})"
    )
}

/// Whether MUNGE's commands are there and its daemon answers.
pub(super) fn has_munge() -> bool {
    munge("ibemu").is_ok()
}

/// A credential of MUNGE with this text, for this user alone.
pub(super) fn munge(text: &str) -> Result<String> {
    let uid = netio::process::effective_uid().to_string();
    let restrict = format!("--restrict-uid={uid}");
    let credential = ask("munge", &["--string", text, &restrict], "")?;
    Ok(credential.trim().to_owned())
}

/// The text of a credential of this user.
pub(super) fn unmunge(credential: &str) -> Result<String> {
    let decoded = ask("unmunge", &[], credential)?;
    let (metadata, text) = decoded
        .split_once("\n\n")
        .context("unmunge says what is no credential")?;
    let uid = metadata.lines().find_map(|line| {
        let (_, value) = line.split_once("UID:")?;
        let (_, number) = value.rsplit_once('(')?;
        number.trim_end().strip_suffix(')')?.parse::<u32>().ok()
    });
    let own = netio::process::effective_uid();
    ensure!(
        uid == Some(own),
        "a credential of MUNGE is of another user than {own}"
    );
    Ok(text.trim_end_matches('\n').to_owned())
}

fn ask(program: &str, arguments: &[&str], input: &str) -> Result<String> {
    let failed =
        || format!("cannot ask {program}: MUNGE has to be on all machines of a job, or on none");
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(failed)?;
    if let Some(mut stdin) = child.stdin.take() {
        // What ends without reading says why below.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().with_context(failed)?;
    if output.status.signal().is_some() {
        bail!("{program} {KILLED_MEANWHILE}");
    }
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        bail!("{program} refuses: {}", words.trim());
    }
    String::from_utf8(output.stdout).with_context(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_reads_back_from_its_line_and_other_lines_are_none() {
        let place = Place {
            address: "10.0.0.1:77".parse().unwrap(),
            secret: Secret::new([7; 32]),
            has_munge: false,
        };
        let line = place.line().unwrap();
        assert_eq!(Place::of_line(&line).unwrap().unwrap(), place);
        assert!(Place::of_line("hello").is_none());
        for wrong in [
            "",
            "10.0.0.1:7 plain 00",
            "x plain 00",
            "10.0.0.1:7 other 00",
        ] {
            assert!(Place::of_line(&format!("{MARK}{wrong}")).unwrap().is_err());
        }
    }
}
