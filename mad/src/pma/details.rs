//! PortRcvErrorDetails and PortXmitDiscardDetails: drops by reason, as far as these attributes tell
//! them apart. What a `Set` writes is kept as a difference, as for the other counters.

use core::ops::RangeInclusive;

use link::{DropReason, Drops};
use wire::convert::saturate;
use wire::mad::{AttributeId, Mad, MadStatus};
use wire::pma::{PortRcvErrorDetails, PortXmitDiscardDetails};
use wire::{Format, PortNum};

use super::selected;

/// The reasons behind each counter of PortRcvErrorDetails, in its order.
const RECEIVED: [&[DropReason]; 6] = [
    &[DropReason::BadVcrc, DropReason::BadIcrc],
    &[
        DropReason::BadLength,
        DropReason::BadVersion,
        DropReason::TooLong,
        DropReason::BadVl,
        DropReason::BadDlid,
        DropReason::BadManagement,
    ],
    &[DropReason::BufferOverrun],
    &[DropReason::NoRoute],
    &[DropReason::SlToVl],
    &[DropReason::LoopBack],
];

/// The same of PortXmitDiscardDetails.
const SENT: [&[DropReason]; 4] = [
    &[DropReason::OutputInactive, DropReason::LinkDown],
    &[DropReason::NeighborMtu],
    &[DropReason::Lifetime],
    &[DropReason::HeadOfQueue],
];

/// By port and counter, what is subtracted when it is read.
#[derive(Debug)]
pub(super) struct Baselines {
    received: Vec<[u64; RECEIVED.len()]>,
    sent: Vec<[u64; SENT.len()]>,
}

impl Baselines {
    pub(super) fn new(ports: u8) -> Self {
        let count = usize::from(ports) + 1;
        Self {
            received: vec![[0; RECEIVED.len()]; count],
            sent: vec![[0; SENT.len()]; count],
        }
    }

    /// Answers one of the two attributes, for `ports`.
    pub(super) fn handle<'c>(
        &mut self,
        mad: &mut Mad,
        set: bool,
        ports: RangeInclusive<u8>,
        drops: impl Fn(PortNum) -> &'c Drops,
    ) -> MadStatus {
        match mad.attr_id() {
            AttributeId::PORT_RCV_ERROR_DETAILS => {
                let with_values =
                    |asked: PortRcvErrorDetails, values: [u16; 6]| PortRcvErrorDetails {
                        local_physical_errors: values[0],
                        malformed_packet_errors: values[1],
                        buffer_overrun_errors: values[2],
                        dlid_mapping_errors: values[3],
                        vl_mapping_errors: values[4],
                        looping_errors: values[5],
                        ..asked
                    };
                let query = |asked: &PortRcvErrorDetails| Query {
                    port: asked.port_select,
                    select: set.then_some(asked.counter_select),
                    values: [
                        asked.local_physical_errors,
                        asked.malformed_packet_errors,
                        asked.buffer_overrun_errors,
                        asked.dlid_mapping_errors,
                        asked.vl_mapping_errors,
                        asked.looping_errors,
                    ],
                };
                answer(
                    mad,
                    (&RECEIVED, &mut self.received),
                    ports,
                    drops,
                    query,
                    with_values,
                )
            }
            _ => {
                let with_values =
                    |asked: PortXmitDiscardDetails, values: [u16; 4]| PortXmitDiscardDetails {
                        inactive_discards: values[0],
                        neighbor_mtu_discards: values[1],
                        sw_lifetime_limit_discards: values[2],
                        sw_hoq_lifetime_limit_discards: values[3],
                        ..asked
                    };
                let query = |asked: &PortXmitDiscardDetails| Query {
                    port: asked.port_select,
                    select: set.then_some(asked.counter_select),
                    values: [
                        asked.inactive_discards,
                        asked.neighbor_mtu_discards,
                        asked.sw_lifetime_limit_discards,
                        asked.sw_hoq_lifetime_limit_discards,
                    ],
                };
                answer(
                    mad,
                    (&SENT, &mut self.sent),
                    ports,
                    drops,
                    query,
                    with_values,
                )
            }
        }
    }
}

/// The request's selection and values.
struct Query<const N: usize> {
    port: PortNum,
    /// The counters to be set; `None` for a Get.
    select: Option<u16>,
    values: [u16; N],
}

/// Answers one attribute of `N` counters.
fn answer<'c, A: Format + Copy, const N: usize>(
    mad: &mut Mad,
    (reasons, baselines): (&[&[DropReason]; N], &mut [[u64; N]]),
    ports: RangeInclusive<u8>,
    drops: impl Fn(PortNum) -> &'c Drops,
    query: impl Fn(&A) -> Query<N>,
    with_values: impl Fn(A, [u16; N]) -> A,
) -> MadStatus {
    let Ok(attribute) = mad.pma_attribute::<A>() else {
        return MadStatus::BAD_FIELD;
    };
    let asked = query(&attribute);
    let Some(ports) = selected(asked.port, ports) else {
        return MadStatus::BAD_FIELD;
    };
    let mut sums = [0u64; N];
    for port in ports {
        let drops = drops(PortNum::new(port));
        let base = &mut baselines[usize::from(port)];
        for (number, reasons) in reasons.iter().enumerate() {
            let now: u64 = reasons.iter().map(|&reason| drops[reason]).sum();
            if asked.select.is_some_and(|select| select >> number & 1 != 0) {
                base[number] = now.wrapping_sub(asked.values[number].into());
            }
            sums[number] = sums[number].saturating_add(now.wrapping_sub(base[number]));
        }
    }
    mad.set_pma_attribute(&with_values(attribute, sums.map(saturate::<u16>)));
    MadStatus::OK
}
