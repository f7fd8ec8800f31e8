//! Unreliable datagrams (IBA 9.8.3, 10.2.5, 11.4.2).

use wire::packet::VCRC_LEN;
use wire::{Deth, Format as _, Grh, IbaPacket, Lrh, Operation};

use super::{Context, Incoming, QueuePair};
use crate::completion::DatagramInfo;
use crate::shared::PacketDrop;
use crate::status::{Status, WorkKind};
use crate::work::SendOperation;

/// The bit of a request's key that has the sender's own key sent instead.
const OWN_QKEY: u32 = 1 << 31;

impl QueuePair {
    /// Writes the next datagram.
    pub(crate) fn transmit_datagram(
        &mut self,
        cx: &mut Context<'_>,
        out: &mut [u8],
    ) -> Option<usize> {
        if !self.requester_has_output(cx.now) {
            return None;
        }
        let work = self.requester.queue.get(0)?;
        let len = work.len as usize;
        let mtu = usize::from(cx.shared.port.mtu.bytes());
        let destination = work.destination?;
        let Some(handle) = cx.shared.handle(destination.handle) else {
            return self.fail_datagram(cx, Status::LocalOperation);
        };
        if len > mtu {
            return self.fail_datagram(cx, Status::LocalLength);
        }
        let path = handle.path;
        let (operation, immediate) = match work.operation {
            SendOperation::Send {
                immediate: Some(data),
            } => (Operation::SendOnlyImm, Some(data)),
            _ => (Operation::SendOnly, None),
        };
        let mut headers = self.headers(cx.shared, &path, operation, self.requester.next());
        headers.bth.dest_qp = destination.qpn;
        headers.bth.solicited = work.solicited;
        headers.extended.immediate = immediate;
        headers.extended.deth = Some(Deth {
            qkey: match destination.qkey & OWN_QKEY {
                0 => destination.qkey,
                _ => self.attributes.qkey,
            },
            src_qp: self.qpn,
        });
        let written = headers.emit_with(len, out, |raw| work.gather(&mut self.copier(cx), 0, raw));
        match written {
            Ok(Ok(len)) => {
                self.requester.datagram_sent();
                self.complete_head(cx, Status::Success);
                Some(len)
            }
            Ok(Err(status)) => self.fail_datagram(cx, status),
            Err(_) => self.fail_datagram(cx, Status::LocalOperation),
        }
    }

    fn fail_datagram(&mut self, cx: &mut Context<'_>, status: Status) -> Option<usize> {
        self.fail_head(cx, status);
        None
    }

    /// Handles a datagram, to this queue pair or to a group that it is attached to.
    pub(crate) fn receive_datagram(
        &mut self,
        cx: &mut Context<'_>,
        packet: &Incoming<'_>,
    ) -> Result<(), PacketDrop> {
        let headers = &packet.headers;
        let Some(deth) = headers.extended.deth else {
            return Err(PacketDrop::Service);
        };
        if deth.qkey != self.attributes.qkey {
            return Err(PacketDrop::QKey);
        }
        if !self.responder.has_taken() && !self.take_receive(cx.shared) {
            return Err(PacketDrop::NoReceive);
        }
        let len = Grh::LEN + packet.payload.len();
        let taken = &self.responder.taken;
        // The request stays for the next datagram.
        if len as u64 > taken.room {
            return Err(PacketDrop::Refused);
        }
        let mut copier = self.copier(cx);
        let scattered = match grh_of(headers, packet.payload.len()) {
            Some(grh) => copier.scatter(&taken.sges, 0, &grh),
            None => Ok(()),
        };
        let scattered =
            scattered.and_then(|()| copier.scatter(&taken.sges, Grh::LEN, packet.payload));
        if let Err(status) = scattered {
            self.fail_receive(cx.shared, status);
            self.fail(cx.shared);
            return Err(PacketDrop::Refused);
        }
        self.responder.release();
        let wr_id = self.responder.taken.wr_id;
        let mut completion = self.completion(wr_id, Status::Success, WorkKind::Receive);
        completion.byte_len = u32::try_from(len).unwrap_or(u32::MAX);
        completion.immediate = headers.extended.immediate;
        completion.datagram = Some(DatagramInfo {
            src_qp: deth.src_qp,
            slid: headers.slid,
            sl: headers.sl,
            dlid_path_bits: cx.shared.path_bits(headers.dlid).unwrap_or_default(),
            has_grh: headers.global.is_some(),
            pkey_index: self.attributes.pkey_index,
        });
        self.complete_receive(cx.shared, completion, headers.bth.solicited);
        Ok(())
    }
}

/// The global route header as it was in the packet.
fn grh_of(headers: &IbaPacket, payload_len: usize) -> Option<[u8; Grh::LEN]> {
    let global = headers.global?;
    let behind = headers.len(payload_len) - Lrh::LEN - Grh::LEN - VCRC_LEN;
    let grh = Grh {
        tclass: global.tclass,
        flow_label: global.flow_label,
        pay_len: u16::try_from(behind).unwrap_or(u16::MAX),
        next_header: Grh::NEXT_HEADER,
        hop_limit: global.hop_limit,
        sgid: global.sgid,
        dgid: global.dgid,
    };
    Some(grh.to_bytes())
}
