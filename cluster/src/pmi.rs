//! PMI-2, by which the processes of a job step find each other: its text protocol on the descriptor that the
//! environment names (`PMI_FD`), as Slurm's plugin `pmi2` speaks it.
//!
//! A line without a length opens the connection. From then on each message is six characters with its length in
//! decimal, then `key=value;` pairs of which the first is the command; a semicolon in a value is doubled.
//!
//! ```text
//! cmd=init pmi_version=2 pmi_subversion=0\n
//!                                              cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0\n
//!     57cmd=fullinit;pmijobid=12.0;pmirank=1;threaded=FALSE;
//!                                              58    cmd=fullinit-response;rc=0;rank=1;size=3;...
//! ```
//!
//! Only what a rendez-vous takes is here: init, put, fence, get, finalize.
//! P. Balaji et al., PMI: A Scalable Parallel Process-Management Interface for Extreme-Scale Systems, EuroMPI 2010.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};

use thiserror::Error;

/// The longest message, bytes: the length has six digits, and nothing here needs more than this.
pub const MESSAGE_BYTES_MAX: usize = 64 * 1024;
/// The longest value of a key, bytes (`PMI2_MAX_VALLEN`).
pub const VALUE_BYTES_MAX: usize = 1023;
/// The longest first line, bytes.
const LINE_BYTES_MAX: usize = 1024;
/// Characters of a length.
const LENGTH_BYTES: usize = 6;

/// Why the job's processes cannot find each other.
#[derive(Debug, Error)]
pub enum PmiError {
    /// The connection to the job step's daemon fails.
    #[error("the connection to Slurm's PMI-2 failed: {0}")]
    Io(#[from] io::Error),
    /// A message is no message of PMI-2.
    #[error("Slurm's PMI-2 says what is no message: {0}")]
    Malformed(&'static str),
    /// A request was refused.
    #[error("Slurm's PMI-2 refuses {command}: {reason}")]
    Refused {
        /// Of what.
        command: &'static str,
        /// Its words, or its code.
        reason: String,
    },
    /// A value is too long, or holds what a message cannot.
    #[error("a value of PMI-2 has 1 to {VALUE_BYTES_MAX} printable characters")]
    Value,
}

/// A message: its command and what comes with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// The command.
    pub command: String,
    /// Keys and values.
    pub pairs: BTreeMap<String, String>,
}

impl Message {
    /// A message of these pairs.
    #[must_use]
    pub fn new(command: &str, pairs: &[(&str, &str)]) -> Self {
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        Self {
            command: command.to_owned(),
            pairs: pairs.iter().map(owned).collect(),
        }
    }

    /// Its text, without the length in front.
    #[must_use]
    pub fn text(&self) -> String {
        let escaped = |text: &str| text.replace(';', ";;");
        let mut text = format!("cmd={};", escaped(&self.command));
        for (key, value) in &self.pairs {
            text.push_str(&format!("{key}={};", escaped(value)));
        }
        text
    }

    /// Reads a text that follows a length.
    ///
    /// # Errors
    /// [`PmiError::Malformed`] for a text that is none.
    pub fn parse(text: &[u8]) -> Result<Self, PmiError> {
        let text = std::str::from_utf8(text).map_err(|_| PmiError::Malformed("it is no text"))?;
        let mut message = Self::default();
        let mut rest = text;
        while !rest.is_empty() {
            let (key, behind) = rest
                .split_once('=')
                .ok_or(PmiError::Malformed("a pair has no '='"))?;
            if key.is_empty() || key.contains(';') {
                return Err(PmiError::Malformed("a pair has no key"));
            }
            let (value, behind) = value(behind)?;
            match key {
                "cmd" if message.command.is_empty() => message.command = value,
                key => {
                    message.pairs.insert(key.to_owned(), value);
                }
            }
            rest = behind;
        }
        match message.command.is_empty() {
            true => Err(PmiError::Malformed("it has no command")),
            false => Ok(message),
        }
    }
}

/// The value at the beginning of a text, and what follows its semicolon.
fn value(text: &str) -> Result<(String, &str), PmiError> {
    let mut value = String::new();
    let mut rest = text;
    loop {
        let (part, behind) = rest
            .split_once(';')
            .ok_or(PmiError::Malformed("a value does not end"))?;
        value.push_str(part);
        match behind.strip_prefix(';') {
            Some(behind) => {
                value.push(';');
                rest = behind;
            }
            None => return Ok((value, behind)),
        }
    }
}

/// A process of a job step.
#[derive(Debug)]
pub struct Client<S> {
    stream: S,
    job: String,
    rank: u32,
    size: u32,
}

impl<S: Read + Write> Client<S> {
    /// Begins: `job` and `rank` are what the environment says (`PMI_JOBID`, `PMI_RANK`).
    ///
    /// # Errors
    /// See [`PmiError`].
    pub fn init(mut stream: S, job: &str, rank: u32) -> Result<Self, PmiError> {
        stream.write_all(b"cmd=init pmi_version=2 pmi_subversion=0\n")?;
        let answer = read_line(&mut stream)?;
        let has = |pair: &str| answer.split_ascii_whitespace().any(|word| word == pair);
        if !has("cmd=response_to_init") {
            return Err(PmiError::Malformed("it does not answer init"));
        }
        if !has("rc=0") || !has("pmi_version=2") {
            let command = "init";
            let reason = answer.trim().to_owned();
            return Err(PmiError::Refused { command, reason });
        }
        let mut client = Self {
            stream,
            job: job.to_owned(),
            rank,
            size: 0,
        };
        let rank = rank.to_string();
        let pairs = [("pmijobid", job), ("pmirank", &rank), ("threaded", "FALSE")];
        let answer = client.ask("fullinit", &pairs)?;
        let number = |key: &str| answer.pairs.get(key)?.parse::<u32>().ok();
        client.rank =
            number("rank").ok_or(PmiError::Malformed("fullinit was answered without a rank"))?;
        client.size =
            number("size").ok_or(PmiError::Malformed("fullinit was answered without a size"))?;
        Ok(client)
    }

    /// This process's number, from 0.
    #[must_use]
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// How many processes there are.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Puts a value, which others have from the next [`Self::fence`] on.
    ///
    /// # Errors
    /// See [`PmiError`].
    pub fn put(&mut self, key: &str, value: &str) -> Result<(), PmiError> {
        let is_fit = |c: char| !c.is_control();
        if value.is_empty() || value.len() > VALUE_BYTES_MAX || !value.chars().all(is_fit) {
            return Err(PmiError::Value);
        }
        self.ask("kvs-put", &[("key", key), ("value", value)])?;
        Ok(())
    }

    /// Waits until all processes are here.
    ///
    /// # Errors
    /// See [`PmiError`].
    pub fn fence(&mut self) -> Result<(), PmiError> {
        self.ask("kvs-fence", &[])?;
        Ok(())
    }

    /// A value that another process has put.
    ///
    /// # Errors
    /// See [`PmiError`].
    pub fn get(&mut self, key: &str) -> Result<String, PmiError> {
        let job = self.job.clone();
        let pairs = [("jobid", job.as_str()), ("srcid", "-1"), ("key", key)];
        let mut answer = self.ask("kvs-get", &pairs)?;
        let is_found = answer
            .pairs
            .get("found")
            .is_none_or(|found| found == "TRUE");
        let value = answer.pairs.remove("value").filter(|_| is_found);
        value.ok_or_else(|| PmiError::Refused {
            command: "kvs-get",
            reason: format!("no process has put {key}"),
        })
    }

    /// Says that this process needs no more of the others.
    ///
    /// # Errors
    /// See [`PmiError`].
    pub fn finalize(mut self) -> Result<(), PmiError> {
        self.ask("finalize", &[])?;
        Ok(())
    }

    fn ask(&mut self, command: &'static str, pairs: &[(&str, &str)]) -> Result<Message, PmiError> {
        let text = Message::new(command, pairs).text();
        if text.len() > MESSAGE_BYTES_MAX {
            return Err(PmiError::Value);
        }
        let width = LENGTH_BYTES;
        self.stream
            .write_all(format!("{:>width$}{text}", text.len()).as_bytes())?;
        let answer = read_message(&mut self.stream)?;
        if answer.command != format!("{command}-response") {
            return Err(PmiError::Malformed("it answers something else"));
        }
        match answer.pairs.get("rc").map(String::as_str) {
            Some("0") => Ok(answer),
            code => {
                let words = answer.pairs.get("errmsg").map(String::as_str);
                let reason = words.or(code).unwrap_or("no reason").to_owned();
                Err(PmiError::Refused { command, reason })
            }
        }
    }
}

/// Reads one message with its length.
///
/// # Errors
/// [`PmiError::Malformed`] for what is none, [`PmiError::Io`] if the stream fails.
pub fn read_message(stream: &mut impl Read) -> Result<Message, PmiError> {
    let mut length = [0; LENGTH_BYTES];
    stream.read_exact(&mut length)?;
    let length = std::str::from_utf8(&length)
        .ok()
        .and_then(|text| text.trim_matches([' ', '\0']).parse::<usize>().ok())
        .filter(|&length| length <= MESSAGE_BYTES_MAX)
        .ok_or(PmiError::Malformed("its length is none"))?;
    let mut text = vec![0; length];
    stream.read_exact(&mut text)?;
    Message::parse(&text)
}

fn read_line(stream: &mut impl Read) -> Result<String, PmiError> {
    let mut line = Vec::new();
    let mut byte = [0];
    loop {
        stream.read_exact(&mut byte)?;
        if byte == *b"\n" {
            break;
        }
        if line.len() == LINE_BYTES_MAX {
            return Err(PmiError::Malformed("its first line does not end"));
        }
        line.push(byte[0]);
    }
    String::from_utf8(line).map_err(|_| PmiError::Malformed("its first line is no text"))
}

#[cfg(test)]
mod tests;
