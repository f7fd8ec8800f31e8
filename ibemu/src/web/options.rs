//! `ibemu web`: its options.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::Args;

use crate::usage::UsageError;

/// Where the page is served without `--listen`.
const LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8480);

/// `ibemu web`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
The page's address is printed with a token, which the browser keeps as a cookie. Programs send it as `Authorization: Bearer TOKEN`. \
An interrupt (SIGINT, SIGTERM) ends the server; the fabric stays up.")]
pub struct Web {
    /// Where to listen: address and port, port 0 for any that is free
    #[arg(long, value_name = "ADDRESS:PORT", default_value_t = LISTEN)]
    pub listen: SocketAddr,
    /// Listen where other machines reach it, too. The token is sent unencrypted: put a tunnel (ssh -L) before the
    /// page rather than this
    #[arg(long)]
    pub allow_remote: bool,
    /// Let the page pull and plug cables, restart devices, and start and stop traffic [default: it shows only]
    #[arg(long, conflicts_with = "replay")]
    pub control: bool,
    /// The token: a file with 16 to 128 letters and digits that no other user can read [default: drawn anew]
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Write what is sampled to a new file, for --replay
    #[arg(long, value_name = "FILE", conflicts_with = "replay")]
    pub record: Option<PathBuf>,
    /// Show what was written by --record, without a fabric
    #[arg(long, value_name = "FILE")]
    pub replay: Option<PathBuf>,
}

impl Default for Web {
    fn default() -> Self {
        Self {
            listen: LISTEN,
            allow_remote: false,
            control: false,
            token_file: None,
            record: None,
            replay: None,
        }
    }
}

impl Web {
    /// Checks that no other machine reaches the address, unless that was asked for.
    ///
    /// # Errors
    /// [`UsageError`] if one does.
    pub(super) fn check(&self) -> Result<(), UsageError> {
        let listen = self.listen;
        if listen.ip().is_loopback() || self.allow_remote {
            return Ok(());
        }
        Err(UsageError(format!(
            "{listen}: other machines reach this address, and the token would cross the network unencrypted; listen on \
             127.0.0.1 and tunnel to it (ssh -L), or let ibemu web listen there with --allow-remote"
        )))
    }
}
