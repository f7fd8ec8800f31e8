//! The connection to the end node's MAD socket.

use std::io;
use std::path::Path;

use daemon::control::ControlError;
use mad::local::{FromAgent, ToAgent};
use netio::seqpacket::Connection;
use wire::PortNum;

/// From so many messages received in one go on no further packet is taken, so that time and control get their turn.
const RECEIVE_MAX: usize = 64;
/// From so many bytes on a packet takes no more messages.
const PACKET_BYTES: usize = 32 * 1024;

/// A connection. Messages that are there at the same time go in one packet, and the end node sends in the same way: a system call
/// and a wake-up for many.
#[derive(Debug)]
pub(super) struct Agent {
    connection: Connection,
    /// The packet that waits for room on it; empty if none does.
    packet: Vec<u8>,
}

impl Agent {
    /// Connects to the socket at `path`, as a client of `port` of the end node.
    pub(super) async fn connect(path: &Path, port: PortNum) -> Result<Self, ControlError> {
        Ok(Self {
            connection: Connection::connect(path).await?,
            packet: wire::control::encode(&ToAgent::Attach { port })?,
        })
    }

    /// Sends what `next` yields until there is no more, or no more room.
    pub(super) fn send(
        &mut self,
        mut next: impl FnMut() -> Option<ToAgent>,
    ) -> Result<(), ControlError> {
        loop {
            while self.packet.len() < PACKET_BYTES
                && let Some(message) = next()
            {
                wire::control::append(&message, &mut self.packet)?;
            }
            if self.packet.is_empty() {
                return Ok(());
            }
            match self.connection.try_send(&self.packet) {
                Ok(()) => self.packet.clear(),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Waits until there is something to do: the waiting packet has gone, or one has come. Hands
    /// all messages that have come to `each`, up to a bound.
    pub(super) async fn exchange(
        &mut self,
        mut each: impl FnMut(FromAgent),
    ) -> Result<(), ControlError> {
        let first = tokio::select! {
            sent = self.connection.send(&self.packet), if !self.packet.is_empty() => {
                sent?;
                self.packet.clear();
                return Ok(());
            }
            first = self.connection.receive() => first?,
        };
        let mut received = unpack(first, &mut each)?;
        while received < RECEIVE_MAX {
            match self.connection.try_receive() {
                Ok(packet) => received += unpack(packet, &mut each)?,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// Hands the messages of a packet to `each`; how many there are.
fn unpack(
    packet: Option<Vec<u8>>,
    each: &mut impl FnMut(FromAgent),
) -> Result<usize, ControlError> {
    let packet = packet.ok_or(ControlError::Closed)?;
    let mut rest = packet.as_slice();
    let mut count = 0;
    while !rest.is_empty() {
        let message;
        (message, rest) = wire::control::decode_first(rest)?;
        each(message);
        count += 1;
    }
    Ok(count)
}
