//! InformInfo: a subscription to reports of traps (IBA 13.4.8.3).

use crate::format::{array, put, put_u16, put_u24, u16_at, u24_at};
use crate::mad::AttributeId;
use crate::sa::SaRecord;
use crate::{Format, Gid, Lid, ParseError, Qpn};

/// A subscription to reports, or its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InformInfo {
    /// Reports on this port only; zero: see the LIDs.
    pub gid: Gid,
    /// Reports on ports from this LID on; 0xffff: on all.
    pub lid_first: Lid,
    /// Reports on ports up to this LID.
    pub lid_last: Lid,
    /// Generic traps; else a vendor's.
    pub is_generic: bool,
    /// Whether reports are wanted, or no longer.
    pub subscribe: bool,
    /// Severity; 0xffff: any.
    pub notice_type: u16,
    /// Trap number (a vendor's: device id); 0xffff: any.
    pub trap_number: u16,
    /// With `subscribe` clear: the queue pair that had subscribed.
    pub qpn: Qpn,
    /// Response time of the subscriber: 4.096 us times two to this power, 5 bits (emitting drops
    /// higher ones).
    pub resp_time: u8,
    /// Node type of the producer (a vendor's: its OUI), 24 bits (emitting drops higher ones);
    /// 0xffffff: any.
    pub producer_type: u32,
}

impl InformInfo {
    /// The length in bytes, as a constant for array types.
    pub const LEN: usize = 36;
    /// Any severity, any trap, any LID.
    pub const ANY: u16 = 0xffff;
    /// Any producer.
    pub const ANY_PRODUCER: u32 = 0x00ff_ffff;
}

impl Format for InformInfo {
    const NAME: &'static str = "InformInfo";
    const LEN: usize = Self::LEN;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self {
            gid: Gid(array(raw, 0)),
            lid_first: Lid::new(u16_at(raw, 16)),
            lid_last: Lid::new(u16_at(raw, 18)),
            is_generic: raw[22] != 0,
            subscribe: raw[23] != 0,
            notice_type: u16_at(raw, 24),
            trap_number: u16_at(raw, 26),
            qpn: Qpn::truncate(u24_at(raw, 28)),
            resp_time: raw[31] & 0x1f,
            producer_type: u24_at(raw, 33),
        })
    }

    fn write(&self, raw: &mut [u8]) {
        put(raw, 0, self.gid.0);
        put_u16(raw, 16, self.lid_first.get());
        put_u16(raw, 18, self.lid_last.get());
        raw[22] = u8::from(self.is_generic);
        raw[23] = u8::from(self.subscribe);
        put_u16(raw, 24, self.notice_type);
        put_u16(raw, 26, self.trap_number);
        put_u24(raw, 28, self.qpn.get());
        raw[31] = self.resp_time & 0x1f;
        put_u24(raw, 33, self.producer_type);
    }
}

impl SaRecord for InformInfo {
    const ID: AttributeId = AttributeId::INFORM_INFO;
    const ATTRIBUTE_OFFSET: u16 = 0;
}

/// A subscription as it stands (IBA 15.2.5.12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InformInfoRecord {
    /// SubscriberGID.
    pub subscriber: Gid,
    /// Enum: which of the subscriber's subscriptions.
    pub number: u16,
    /// The subscription.
    pub info: InformInfo,
}

impl Format for InformInfoRecord {
    const NAME: &'static str = "InformInfoRecord";
    const LEN: usize = 60;

    fn read(raw: &[u8]) -> Result<Self, ParseError> {
        Ok(Self {
            subscriber: Gid(array(raw, 0)),
            number: u16_at(raw, 16),
            info: InformInfo::read(&raw[24..60])?,
        })
    }

    fn write(&self, raw: &mut [u8]) {
        put(raw, 0, self.subscriber.0);
        put_u16(raw, 16, self.number);
        self.info.write(&mut raw[24..60]);
    }
}

impl SaRecord for InformInfoRecord {
    const ID: AttributeId = AttributeId::INFORM_INFO_RECORD;
    const ATTRIBUTE_OFFSET: u16 = 8;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subscription_s_record_is_read_as_it_is_written() {
        let record = InformInfoRecord {
            subscriber: Gid([7; 16]),
            number: 0x0102,
            info: InformInfo {
                gid: Gid([1; 16]),
                lid_first: Lid::PERMISSIVE,
                lid_last: Lid::ZERO,
                is_generic: true,
                subscribe: true,
                notice_type: InformInfo::ANY,
                trap_number: 66,
                qpn: Qpn::constant(1),
                resp_time: 18,
                producer_type: InformInfo::ANY_PRODUCER,
            },
        };
        let mut raw = [0xa5; 60];
        record.emit(&mut raw);
        assert_eq!(InformInfoRecord::parse(&raw), Ok((record, &[][..])));
        assert_eq!((raw[16], raw[18], raw[24], raw[46]), (1, 0, 1, 1));
        for short in 0..raw.len() {
            assert!(InformInfoRecord::parse(&raw[..short]).is_err());
        }
    }
}
