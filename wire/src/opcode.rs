//! What a packet is in its transport service (IBA 9.2.1, table 38).

use core::fmt;

use crate::iba::Extension;

/// Three bits of service, five of operation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Opcode(pub u8);

/// A transport service of queue pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Service {
    /// Reliable connection.
    Rc = 0,
    /// Unreliable connection.
    Uc = 1,
    /// Unreliable datagram.
    Ud = 3,
}

/// An operation. The discriminant is the low five bits of the opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Operation {
    /// The first packet of several of a SEND.
    SendFirst = 0x00,
    /// A packet of a SEND between the first and the last.
    SendMiddle = 0x01,
    /// The last packet of a SEND.
    SendLast = 0x02,
    /// The last packet of a SEND, with immediate data.
    SendLastImm = 0x03,
    /// The only packet of a SEND.
    SendOnly = 0x04,
    /// The only packet of a SEND, with immediate data.
    SendOnlyImm = 0x05,
    /// The first packet of several of an RDMA WRITE.
    WriteFirst = 0x06,
    /// A packet of an RDMA WRITE between the first and the last.
    WriteMiddle = 0x07,
    /// The last packet of an RDMA WRITE.
    WriteLast = 0x08,
    /// The last packet of an RDMA WRITE, with immediate data.
    WriteLastImm = 0x09,
    /// The only packet of an RDMA WRITE.
    WriteOnly = 0x0a,
    /// The only packet of an RDMA WRITE, with immediate data.
    WriteOnlyImm = 0x0b,
    /// An RDMA READ request.
    ReadRequest = 0x0c,
    /// The first packet of several that answer an RDMA READ.
    ReadResponseFirst = 0x0d,
    /// A packet of an answer between the first and the last.
    ReadResponseMiddle = 0x0e,
    /// The last packet of an answer.
    ReadResponseLast = 0x0f,
    /// The only packet of an answer.
    ReadResponseOnly = 0x10,
    /// Acknowledge, or negative acknowledge.
    Acknowledge = 0x11,
    /// The answer to an atomic operation.
    AtomicAcknowledge = 0x12,
    /// Compare and swap.
    CompareSwap = 0x13,
    /// Fetch and add.
    FetchAdd = 0x14,
    /// The last packet of a SEND that invalidates a remote key.
    SendLastInvalidate = 0x16,
    /// The only packet of a SEND that invalidates a remote key.
    SendOnlyInvalidate = 0x17,
}

impl Operation {
    /// All operations.
    pub const ALL: [Self; 23] = [
        Self::SendFirst,
        Self::SendMiddle,
        Self::SendLast,
        Self::SendLastImm,
        Self::SendOnly,
        Self::SendOnlyImm,
        Self::WriteFirst,
        Self::WriteMiddle,
        Self::WriteLast,
        Self::WriteLastImm,
        Self::WriteOnly,
        Self::WriteOnlyImm,
        Self::ReadRequest,
        Self::ReadResponseFirst,
        Self::ReadResponseMiddle,
        Self::ReadResponseLast,
        Self::ReadResponseOnly,
        Self::Acknowledge,
        Self::AtomicAcknowledge,
        Self::CompareSwap,
        Self::FetchAdd,
        Self::SendLastInvalidate,
        Self::SendOnlyInvalidate,
    ];

    /// The operation with these low five bits; `None` if they are reserved.
    #[inline]
    #[must_use]
    pub fn from_bits(bits: u8) -> Option<Self> {
        // The list has a gap at 0x15.
        let index = match bits & 0x1f {
            0x15 => return None,
            low @ 0..=0x14 => low,
            high => high - 1,
        };
        Self::ALL.get(usize::from(index)).copied()
    }

    /// Whether a requester sends it; else a responder.
    #[must_use]
    pub const fn is_request(self) -> bool {
        !matches!(
            self,
            Self::ReadResponseFirst
                | Self::ReadResponseMiddle
                | Self::ReadResponseLast
                | Self::ReadResponseOnly
                | Self::Acknowledge
                | Self::AtomicAcknowledge
        )
    }

    /// Whether it starts a message.
    #[must_use]
    pub const fn is_start(self) -> bool {
        !matches!(
            self,
            Self::SendMiddle
                | Self::SendLast
                | Self::SendLastImm
                | Self::SendLastInvalidate
                | Self::WriteMiddle
                | Self::WriteLast
                | Self::WriteLastImm
                | Self::ReadResponseMiddle
                | Self::ReadResponseLast
        )
    }

    /// Whether it ends a message.
    #[must_use]
    pub const fn is_end(self) -> bool {
        !matches!(
            self,
            Self::SendFirst
                | Self::SendMiddle
                | Self::WriteFirst
                | Self::WriteMiddle
                | Self::ReadResponseFirst
                | Self::ReadResponseMiddle
        )
    }

    /// Whether it is a part of a SEND.
    #[must_use]
    pub const fn is_send(self) -> bool {
        matches!(
            self,
            Self::SendFirst
                | Self::SendMiddle
                | Self::SendLast
                | Self::SendLastImm
                | Self::SendOnly
                | Self::SendOnlyImm
                | Self::SendLastInvalidate
                | Self::SendOnlyInvalidate
        )
    }

    /// Whether it is a part of an RDMA WRITE.
    #[must_use]
    pub const fn is_write(self) -> bool {
        matches!(
            self,
            Self::WriteFirst
                | Self::WriteMiddle
                | Self::WriteLast
                | Self::WriteLastImm
                | Self::WriteOnly
                | Self::WriteOnlyImm
        )
    }

    /// Whether it carries immediate data.
    #[must_use]
    pub const fn has_immediate(self) -> bool {
        matches!(
            self,
            Self::SendLastImm | Self::SendOnlyImm | Self::WriteLastImm | Self::WriteOnlyImm
        )
    }

    const fn exists_in(self, service: Service) -> bool {
        match service {
            Service::Rc => true,
            Service::Uc => (self as u8) <= Self::WriteOnlyImm as u8,
            Service::Ud => matches!(self, Self::SendOnly | Self::SendOnlyImm),
        }
    }
}

impl Opcode {
    /// Reliable connection: Acknowledge.
    pub const RC_ACKNOWLEDGE: Self = Self(0x11);
    /// Unreliable datagram: SEND Only.
    pub const UD_SEND_ONLY: Self = Self(0x64);
    /// Unreliable datagram: SEND Only with Immediate.
    pub const UD_SEND_ONLY_IMM: Self = Self(0x65);

    /// The opcode of an operation in a service, whether that has it or not.
    #[must_use]
    pub const fn new(service: Service, operation: Operation) -> Self {
        Self(((service as u8) << 5) | operation as u8)
    }

    /// Service and operation; `None` if the service does not have the operation, or is reliable datagram,
    /// extended reliable connection or a manufacturer's.
    #[inline]
    #[must_use]
    pub fn parts(self) -> Option<(Service, Operation)> {
        let service = match self.0 >> 5 {
            0 => Service::Rc,
            1 => Service::Uc,
            3 => Service::Ud,
            _ => return None,
        };
        let operation = Operation::from_bits(self.0)?;
        operation.exists_in(service).then_some((service, operation))
    }

    /// The extended headers of such a packet, in their order; `None` where [`Self::parts`] is.
    #[inline]
    #[must_use]
    pub fn extensions(self) -> Option<&'static [Extension]> {
        use Extension as E;
        use Operation as O;
        let (service, operation) = self.parts()?;
        Some(match (service, operation) {
            (Service::Ud, O::SendOnlyImm) => &[E::Deth, E::Immediate],
            (Service::Ud, _) => &[E::Deth],
            (_, O::SendFirst | O::SendMiddle | O::SendLast | O::SendOnly) => &[],
            (_, O::SendLastImm | O::SendOnlyImm | O::WriteLastImm) => &[E::Immediate],
            (_, O::WriteMiddle | O::WriteLast | O::ReadResponseMiddle) => &[],
            (_, O::WriteFirst | O::WriteOnly | O::ReadRequest) => &[E::Reth],
            (_, O::WriteOnlyImm) => &[E::Reth, E::Immediate],
            (_, O::ReadResponseFirst | O::ReadResponseLast | O::ReadResponseOnly) => &[E::Aeth],
            (_, O::Acknowledge) => &[E::Aeth],
            (_, O::AtomicAcknowledge) => &[E::Aeth, E::AtomicAck],
            (_, O::CompareSwap | O::FetchAdd) => &[E::Atomic],
            (_, O::SendLastInvalidate | O::SendOnlyInvalidate) => &[E::Invalidate],
        })
    }
}

impl fmt::Debug for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Opcode({:#04x})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_an_opcode_of_the_table_or_none() {
        let known: Vec<u8> = (0..=u8::MAX)
            .filter(|&bits| Opcode(bits).parts().is_some())
            .collect();
        let expected = (0x00..=0x14)
            .chain(0x16..=0x17)
            .chain(0x20..=0x2b)
            .chain(0x64..=0x65);
        assert_eq!(known, expected.collect::<Vec<u8>>());
        for bits in known {
            let (service, operation) = Opcode(bits).parts().unwrap();
            assert_eq!(Opcode::new(service, operation), Opcode(bits));
        }
    }

    #[test]
    fn a_message_starts_and_ends_once() {
        use Operation as O;
        let inner: Vec<O> = O::ALL
            .into_iter()
            .filter(|operation| !operation.is_start() && !operation.is_end())
            .collect();
        assert_eq!(
            inner,
            [O::SendMiddle, O::WriteMiddle, O::ReadResponseMiddle]
        );
        let whole = O::ALL
            .into_iter()
            .filter(|operation| operation.is_start() && operation.is_end());
        assert_eq!(whole.count(), 11);
    }
}
