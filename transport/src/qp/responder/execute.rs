//! Executing the peer's requests (IBA 9.7.4).

use wire::{AtomicEth, NakCode, Operation, Psn, Reth};

use super::{Fault, Message, Responder};
use crate::memory::{Access, Atomic, Copier, Remote};
use crate::qp::requester::MESSAGE_MAX;
use crate::qp::saved::{Pending, Saved, SavedKind};
use crate::qp::{Context, Incoming, QueuePair};
use crate::shared::Shared;
use crate::status::{Status, WorkKind};

impl QueuePair {
    /// Executes the expected request, and expects the next one.
    pub(super) fn execute(
        &mut self,
        cx: &mut Context<'_>,
        packet: &Incoming<'_>,
    ) -> Result<(), Fault> {
        let psn = packet.headers.bth.psn;
        let numbers = self.execute_at(cx, packet, psn)?;
        self.responder.expected = psn.plus(numbers);
        Ok(())
    }

    /// Executes a request: how many numbers it takes.
    pub(super) fn execute_at(
        &mut self,
        cx: &mut Context<'_>,
        packet: &Incoming<'_>,
        psn: Psn,
    ) -> Result<u32, Fault> {
        let operation = packet.operation;
        let extended = &packet.headers.extended;
        let invalid = Fault::Refused(NakCode::InvalidRequest);
        let mtu = self.attributes.mtu();
        let len = packet.payload.len();
        let has_length = match (operation.is_start(), operation.is_end()) {
            (_, false) => len == mtu,
            (false, true) => (1..=mtu).contains(&len),
            (true, true) if operation.is_send() || operation.is_write() => len <= mtu,
            (true, true) => len == 0,
        };
        if !self.responder.is_in_sequence(operation) || !has_length {
            return Err(invalid);
        }
        if operation.is_send() {
            return self.execute_send(cx, packet).map(|()| 1);
        }
        if operation.is_write() {
            return self.execute_write(cx, packet).map(|()| 1);
        }
        match (operation, extended.reth, extended.atomic) {
            (Operation::ReadRequest, Some(reth), _) => self.execute_read(cx, psn, reth),
            (Operation::CompareSwap | Operation::FetchAdd, _, Some(atomic)) => {
                self.execute_atomic(cx, psn, operation, atomic).map(|()| 1)
            }
            _ => Err(invalid),
        }
    }

    /// Makes sure that the message has a receive request.
    fn need_receive(&mut self, cx: &mut Context<'_>) -> Result<(), Fault> {
        if self.responder.holds || self.take_receive(cx.shared) {
            return Ok(());
        }
        Err(Fault::NoReceive)
    }

    fn execute_send(&mut self, cx: &mut Context<'_>, packet: &Incoming<'_>) -> Result<(), Fault> {
        if packet.operation.is_start() {
            self.need_receive(cx)?;
            self.responder.message = Message::Send;
        }
        let len = packet.payload.len() as u64;
        let from = self.responder.received;
        let taken = &self.responder.taken;
        if from + len > taken.room {
            return Err(Fault::Local(Status::LocalLength, NakCode::InvalidRequest));
        }
        let at = usize::try_from(from).unwrap_or(usize::MAX);
        let scattered = self.scatter_send(cx, packet, at);
        scattered.map_err(|status| Fault::Local(status, NakCode::RemoteOperationalError))?;
        let invalidated = packet.headers.extended.invalidate;
        if let Some(rkey) = invalidated
            && !cx.shared.regions.invalidate(self.config.pd, rkey)
        {
            return Err(Fault::Refused(NakCode::RemoteAccessError));
        }
        self.responder.received = from + len;
        if packet.operation.is_end() {
            let total = self.responder.received;
            self.end_receive(cx, packet, WorkKind::Receive, total);
        }
        Ok(())
    }

    /// Puts a packet's part of a SEND where the receive request says, together with those around it.
    fn scatter_send(
        &mut self,
        cx: &mut Context<'_>,
        packet: &Incoming<'_>,
        at: usize,
    ) -> Result<(), Status> {
        let (mut copier, stages) = cx.copier(self.config.pd);
        let Responder { taken, behind, .. } = &mut self.responder;
        copier.permits_scatter(&taken.sges, at, packet.payload.len())?;
        let ends = packet.operation.is_end();
        behind.put(stages, at, packet.payload, ends, |at, bytes| {
            copier.scatter(&taken.sges, at, bytes)
        })
    }

    /// The receive request of the message ends well.
    fn end_receive(
        &mut self,
        cx: &mut Context<'_>,
        packet: &Incoming<'_>,
        kind: WorkKind,
        len: u64,
    ) {
        self.responder.end_message();
        self.responder.release();
        let mut completion = self.completion(self.responder.taken.wr_id, Status::Success, kind);
        completion.byte_len = u32::try_from(len).unwrap_or(u32::MAX);
        completion.immediate = packet.headers.extended.immediate;
        completion.invalidated = packet.headers.extended.invalidate;
        self.complete_receive(cx.shared, completion, packet.headers.bth.solicited);
    }

    fn execute_write(&mut self, cx: &mut Context<'_>, packet: &Incoming<'_>) -> Result<(), Fault> {
        let invalid = Fault::Refused(NakCode::InvalidRequest);
        let operation = packet.operation;
        let (remote, total, done) = match (packet.headers.extended.reth, self.responder.message) {
            (Some(reth), Message::None) => {
                let remote = self.check_remote(cx.shared, reth, Access::REMOTE_WRITE)?;
                (remote, reth.dma_len, 0)
            }
            (None, Message::Write { remote, len }) => (remote, len, self.responder.received),
            _ => return Err(invalid),
        };
        let len = packet.payload.len();
        let end = done + len as u64;
        let total_len = u64::from(total);
        if end > total_len || (operation.is_end() && end != total_len) {
            return Err(invalid);
        }
        if operation.has_immediate() {
            self.need_receive(cx)?;
        }
        if len > 0 {
            let access = Fault::Refused(NakCode::RemoteAccessError);
            let bytes = u32::try_from(len).map_err(|_| invalid)?;
            let at = remote.plus(done);
            let pd = self.config.pd;
            let (
                Copier {
                    regions, memory, ..
                },
                stages,
            ) = cx.copier(pd);
            let permitted = |at, bytes| regions.remote(pd, at, bytes, Access::REMOTE_WRITE);
            permitted(at, bytes).ok_or(access)?;
            let from = usize::try_from(done).map_err(|_| invalid)?;
            let ends = operation.is_end();
            let behind = &mut self.responder.behind;
            behind.put(stages, from, packet.payload, ends, |from, bytes| {
                let len = u32::try_from(bytes.len()).map_err(|_| invalid)?;
                let piece = permitted(remote.plus(from as u64), len).ok_or(access)?;
                let written = memory.write(piece.space, piece.address, bytes);
                written.map_err(|_| Fault::Refused(NakCode::RemoteOperationalError))
            })?;
        }
        self.responder.message = Message::Write { remote, len: total };
        self.responder.received = end;
        if operation.has_immediate() {
            self.end_receive(cx, packet, WorkKind::ReceiveWrite, total_len);
        } else if operation.is_end() {
            self.responder.end_message();
        }
        Ok(())
    }

    /// Checks the header of an RDMA operation: its right, its length, its key and bounds.
    fn check_remote(&self, shared: &Shared, reth: Reth, need: Access) -> Result<Remote, Fault> {
        if !self.attributes.access.allows(need) || u64::from(reth.dma_len) > MESSAGE_MAX {
            return Err(Fault::Refused(NakCode::InvalidRequest));
        }
        let remote = Remote {
            va: reth.va,
            rkey: reth.rkey,
        };
        // Without data the key is not looked at (IBA 9.7.4.1.4).
        if reth.dma_len > 0
            && shared
                .regions
                .remote(self.config.pd, remote, reth.dma_len, need)
                .is_none()
        {
            return Err(Fault::Refused(NakCode::RemoteAccessError));
        }
        Ok(remote)
    }

    fn execute_read(&mut self, cx: &mut Context<'_>, psn: Psn, reth: Reth) -> Result<u32, Fault> {
        let mtu = u32::try_from(self.attributes.mtu()).unwrap_or(256);
        if !self.responder.saved.has_room() {
            return Err(Fault::Refused(NakCode::InvalidRequest));
        }
        let remote = self.check_remote(cx.shared, reth, Access::REMOTE_READ)?;
        let packets = reth.dma_len.div_ceil(mtu).max(1);
        let kind = SavedKind::Read {
            remote,
            len: reth.dma_len,
        };
        self.save(psn, packets, kind);
        Ok(packets)
    }

    fn execute_atomic(
        &mut self,
        cx: &mut Context<'_>,
        psn: Psn,
        operation: Operation,
        header: AtomicEth,
    ) -> Result<(), Fault> {
        let invalid = Fault::Refused(NakCode::InvalidRequest);
        let permitted = self.attributes.access.allows(Access::REMOTE_ATOMIC);
        if !permitted || !header.va.is_multiple_of(8) || !self.responder.saved.has_room() {
            return Err(invalid);
        }
        let remote = Remote {
            va: header.va,
            rkey: header.rkey,
        };
        let regions = &cx.shared.regions;
        let piece = regions
            .remote(self.config.pd, remote, 8, Access::REMOTE_ATOMIC)
            .ok_or(Fault::Refused(NakCode::RemoteAccessError))?;
        let atomic = match operation {
            Operation::CompareSwap => Atomic::CompareSwap {
                compare: header.compare,
                swap: header.swap_or_add,
            },
            _ => Atomic::FetchAdd {
                add: header.swap_or_add,
            },
        };
        let original = cx
            .memory
            .atomic(piece.space, piece.address, atomic)
            .map_err(|_| Fault::Refused(NakCode::RemoteOperationalError))?;
        self.save(psn, 1, SavedKind::Atomic { original });
        Ok(())
    }

    fn save(&mut self, psn: Psn, packets: u32, kind: SavedKind) {
        self.responder.end_message();
        self.responder.saved.push(Saved {
            psn,
            packets,
            msn: self.responder.msn,
            kind,
            pending: Some(Pending { first: 0, next: 0 }),
            was_sent: false,
        });
    }
}
