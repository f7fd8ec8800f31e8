//! `ibemu web`: who may ask, what is answered, and the page in a browser.

mod browser;
mod clients;
mod loops;
mod pictures;
mod requests;
mod types;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use e2e::{Fabric, Transport, ibemu_command};
use serde_json::Value;

/// How long an answer may take on a loaded machine.
const ANSWER: Duration = Duration::from_secs(60);

/// A server that runs.
pub(crate) struct Server {
    child: Child,
    url: String,
    pub(crate) address: SocketAddr,
    token: String,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    #[track_caller]
    fn json(&self) -> Value {
        assert_eq!(self.status, 200, "{self:?}");
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl Server {
    #[track_caller]
    pub(crate) fn of(fabric: &Fabric, options: &[&str]) -> Self {
        let mut command = fabric.command(&["web", "--listen", "127.0.0.1:0"]);
        command.args(options);
        Self::start(command)
    }

    /// Starts a server and reads its address from its output, behind what else that says.
    #[track_caller]
    fn start(mut command: Command) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .spawn()
            .expect("ibemu web starts");
        let stdout = child.stdout.take().expect("standard output");
        let mut lines = BufReader::new(stdout)
            .lines()
            .map(|line| line.expect("text"));
        let url = lines.find(|line| line.starts_with("http://"));
        let url = url.expect("an address");
        let rest = url.strip_prefix("http://").expect("it begins so");
        let (address, token) = rest.split_once("/?token=").expect("a token");
        Self {
            address: address.parse().expect("an address"),
            token: token.to_owned(),
            url,
            child,
        }
    }

    /// Sends a request as it is and reads the answer.
    #[track_caller]
    fn send(&self, request: &str) -> Answer {
        let mut stream = TcpStream::connect(self.address).expect("the server listens");
        stream.set_read_timeout(Some(ANSWER)).expect("a timeout");
        stream
            .write_all(request.as_bytes())
            .expect("it takes a request");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        let status = head
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok());
        Answer {
            status: status.expect("a status"),
            head: head.to_owned(),
            body: body.to_owned(),
        }
    }

    /// A request with these lines in its head, and `Host` as it should be.
    #[track_caller]
    pub(crate) fn ask(&self, method: &str, path: &str, head: &[&str], body: &str) -> Answer {
        let lines: String = head.iter().map(|line| format!("{line}\r\n")).collect();
        let (host, length) = (self.address, body.len());
        self.send(&format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\n{lines}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        ))
    }

    pub(crate) fn bearer(&self) -> String {
        format!("Authorization: Bearer {}", self.token)
    }

    /// A GET of a program that has the token.
    #[track_caller]
    fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[&self.bearer()], "")
    }

    /// A POST of a program that has the token.
    #[track_caller]
    fn post(&self, path: &str, body: &str) -> Answer {
        let json = "Content-Type: application/json";
        self.ask("POST", path, &[&self.bearer(), json], body)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A small fabric without internet addresses, so that its counters stand still.
fn quiet(topology: &str) -> Fabric {
    Fabric::up(Transport::Udp, topology, &["--no-ip"])
}

/// A command line without a fabric.
fn without_fabric(options: &[&str]) -> Command {
    let mut arguments = vec!["web", "--listen", "127.0.0.1:0"];
    arguments.extend(options);
    ibemu_command(&arguments)
}
