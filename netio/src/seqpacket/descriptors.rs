//! Messages with descriptors (`SCM_RIGHTS`).

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use socket2::Socket;

use super::MESSAGE_BYTES_MAX;

/// Descriptors that one message carries at most.
pub const DESCRIPTORS_MAX: usize = 4;

/// A message and the descriptors that came with it.
pub type WithDescriptors = (Vec<u8>, Vec<OwnedFd>);

pub(super) fn send(
    socket: &Socket,
    message: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    if descriptors.len() > DESCRIPTORS_MAX {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    sendmsg(
        socket,
        &[IoSlice::new(message)],
        &mut control,
        SendFlags::NOSIGNAL,
    )?;
    Ok(())
}

/// Receives one message and its descriptors, which are closed on exec. Those beyond [`DESCRIPTORS_MAX`] are
/// closed by the system.
pub(super) fn receive(socket: &Socket) -> io::Result<Option<WithDescriptors>> {
    let length = socket.recv_with_flags(&mut [], libc::MSG_PEEK | libc::MSG_TRUNC)?;
    if length == 0 {
        return Ok(None);
    }
    if length > MESSAGE_BYTES_MAX {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("a message of {length} bytes, above the limit of {MESSAGE_BYTES_MAX}"),
        ));
    }
    let mut message = vec![0; length];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(
        socket,
        &mut [IoSliceMut::new(&mut message)],
        &mut control,
        RecvFlags::CMSG_CLOEXEC,
    )?;
    let mut descriptors = Vec::new();
    for ancillary in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = ancillary {
            descriptors.extend(rights);
        }
    }
    if received.flags.contains(ReturnFlags::CTRUNC) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("a message with more than {DESCRIPTORS_MAX} descriptors"),
        ));
    }
    Ok(Some((message, descriptors)))
}
