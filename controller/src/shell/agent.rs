//! The connection to the end node's MAD socket.

use std::io;
use std::path::Path;

use daemon::control::ControlError;
use mad::local::{FromAgent, ToAgent};
use netio::seqpacket::Connection;
use wire::PortNum;

/// Messages received in one go at most, so that time and control get their turn.
const RECEIVE_MAX: usize = 64;

/// A connection, and the message that waits for room on it.
#[derive(Debug)]
pub(super) struct Agent {
    connection: Connection,
    waiting: Option<Vec<u8>>,
}

impl Agent {
    /// Connects to the socket at `path`, as a client of `port` of the end node.
    pub(super) async fn connect(path: &Path, port: PortNum) -> Result<Self, ControlError> {
        Ok(Self {
            connection: Connection::connect(path).await?,
            waiting: Some(wire::control::encode(&ToAgent::Attach { port })?),
        })
    }

    /// Sends what `next` yields until there is no more, or no more room.
    pub(super) fn send(
        &mut self,
        mut next: impl FnMut() -> Option<ToAgent>,
    ) -> Result<(), ControlError> {
        loop {
            let message = match self.waiting.take() {
                Some(message) => message,
                None => match next() {
                    Some(message) => wire::control::encode(&message)?,
                    None => return Ok(()),
                },
            };
            match self.connection.try_send(&message) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.waiting = Some(message);
                    return Ok(());
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Waits until there is something to do: the waiting message has gone, or one has come. Hands
    /// all that have come to `each`, up to a bound.
    pub(super) async fn exchange(
        &mut self,
        mut each: impl FnMut(FromAgent),
    ) -> Result<(), ControlError> {
        let waiting = self.waiting.as_deref();
        let first = tokio::select! {
            sent = self.connection.send(waiting.unwrap_or_default()), if waiting.is_some() => {
                sent?;
                self.waiting = None;
                return Ok(());
            }
            first = self.connection.receive() => first?,
        };
        each(decode(first)?);
        for _ in 1..RECEIVE_MAX {
            match self.connection.try_receive() {
                Ok(message) => each(decode(message)?),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

fn decode(message: Option<Vec<u8>>) -> Result<FromAgent, ControlError> {
    Ok(wire::control::decode(
        &message.ok_or(ControlError::Closed)?,
    )?)
}
