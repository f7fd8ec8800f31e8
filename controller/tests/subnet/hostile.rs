//! Malformed and unsolicited MADs.

use controller::{Sm, SmConfig};
use link::Time;
use mad::local::{FromAgent, MadMessage, ToAgent};
use proptest::prelude::*;
use wire::{Mad, Method, MgmtClass};

/// How many answers of one kind a fabric knows.
const KINDS: usize = 12;

/// An answer to `request` whose attribute is `data`, in one of several ways.
fn answer(request: &MadMessage, data: &[u8], way: u8) -> MadMessage {
    let mut bytes = *request.mad;
    bytes[3] |= 0x80;
    bytes[64..128].copy_from_slice(&data[..64]);
    match way % 8 {
        // A plausible NodeInfo goes further than a random one.
        0..=3 if bytes[17] == 0x11 => {
            bytes[64 + 2] = 1 + way % 2;
            bytes[64 + 3] = 1 + data[3] % 8;
            bytes[64 + 36] = data[36] % 8;
            // Few GUIDs, so that devices are met again.
            bytes[64 + 12..64 + 27].fill(0);
        }
        // PortInfo with a state, and codes that have a meaning.
        0..=3 if bytes[17] == 0x15 => {
            bytes[64 + 32] = 0x12 + way % 3;
            bytes[64 + 33] = 0x52;
            bytes[64 + 36] = 0x40;
            bytes[64 + 37] = 0x10;
            bytes[64 + 41] = 0x04;
            bytes[64 + 43] = 0x10;
        }
        4 => bytes[4] |= 0x1c,
        5 => bytes[17] = data[0] % 0x20,
        6 => bytes[3] = data[1],
        _ => {}
    }
    MadMessage {
        lid: request.lid,
        qpn: request.qpn,
        sl: request.sl,
        mad: Box::new(bytes),
        way: None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn malformed_answers_cause_no_panic_and_bounded_warnings(
        data in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 64), KINDS),
        ways in proptest::collection::vec(any::<u8>(), 64),
        skips in proptest::collection::vec(0usize..KINDS, 16),
    ) {
        let mut sm = Sm::new(SmConfig::default()).unwrap();
        let mut now = Time::ZERO;
        sm.tick(now);
        let mut turn = 0;
        for _ in 0..2_000 {
            let Some(message) = sm.poll_transmit() else {
                now = sm.deadline().map_or(now, |deadline| deadline.at.max(now)) + 1;
                sm.tick(now);
                continue;
            };
            let ToAgent::Send(request) = message else { continue };
            turn += 1;
            let kind = (turn + skips[turn % skips.len()]) % KINDS;
            let way = ways[turn % ways.len()];
            if way % 16 != 15 {
                now = now + 1_000;
                sm.handle(now, FromAgent::Received(answer(&request, &data[kind], way)));
            }
            while sm.poll_event().is_some() {}
        }
        prop_assert!(sm.status(now).warnings.len() <= 32);
    }

    #[test]
    fn an_unsolicited_mad_gets_at_most_one_answer_and_changes_nothing(
        datagrams in proptest::collection::vec(
            (proptest::collection::vec(any::<u8>(), 256), any::<u8>(), any::<u8>(), any::<u8>()),
            1..50,
        ),
    ) {
        let mut sm = Sm::new(SmConfig::default()).unwrap();
        sm.tick(Time::ZERO);
        while sm.poll_transmit().is_some() {}
        let before = sm.status(Time(1));
        for (bytes, class, method, attribute) in datagrams {
            let mad = unsolicited(&bytes, class, method, attribute);
            sm.handle(Time(1), FromAgent::Received(MadMessage {
                lid: REQUESTER,
                qpn: wire::Qpn::SMI,
                sl: wire::Sl::default(),
                mad: Box::new(*mad.as_bytes()), way: None }));
            let sent: Vec<ToAgent> = std::iter::from_fn(|| sm.poll_transmit()).collect();
            let mut answers = 0;
            for message in sent {
                let ToAgent::Send(message) = message else {
                    panic!("{message:?}");
                };
                prop_assert_eq!(message.lid, REQUESTER);
                let answer = Mad::from_bytes(*message.mad);
                if answer.method() == Method::REPORT {
                    // A report to a subscriber.
                    prop_assert_eq!(mad.method(), Method::TRAP);
                    continue;
                }
                answers += 1;
                prop_assert_eq!((answer.class(), answer.tid()), (mad.class(), mad.tid()));
                prop_assert!(
                    answer.method().is_response() || answer.method() == Method::TRAP_REPRESS
                );
            }
            prop_assert!(answers <= 1);
            if mad.method().is_response() {
                prop_assert_eq!(answers, 0, "an answer without a request is dropped");
            } else if mad.class() == MgmtClass::SUBN_ADM && !mad::rmpp::is_control(&mad) {
                // What has no header that can be read is answered by that.
                let key = mad.sa_header().map_or(0, |header| header.sm_key);
                let wanted = i32::from(matches!(key, 0 | 1));
                prop_assert_eq!(answers, wanted, "a request to SA is answered, but for a wrong key");
            }
        }
        // No device, no plan, no phase follows from it; only warnings of traps, and requests are counted.
        let after = sm.status(Time(1));
        prop_assert!(after.warnings.len() <= controller::control::LIST_MAX);
        prop_assert!(after.sa_requests >= before.sa_requests);
        let (warnings, sa_requests) = (before.warnings.clone(), before.sa_requests);
        prop_assert_eq!(controller::control::Status { warnings, sa_requests, ..after }, before);
    }
}

/// LID of the host that sends unsolicited MADs.
const REQUESTER: wire::Lid = wire::Lid::new(7);

/// A MAD to the manager with a plausible header and random contents.
fn unsolicited(bytes: &[u8], class: u8, method: u8, attribute: u8) -> Mad {
    let mut mad = Mad::parse(bytes).expect("a MAD of 256 bytes").0;
    let header = mad.as_bytes_mut();
    header[0] = 1;
    header[1] = [1, 0x81, 3][usize::from(class % 3)];
    header[2] = 2 - class % 2;
    header[3] = [1, 2, 5, 0x12, 0x81, method][usize::from(method % 6)];
    header[16] = 0;
    header[17] = attribute % 0x40;
    if class % 3 == 2 {
        // The SM_Key of subnet administration: none, the right one, or another one.
        header[36..43].fill(0);
        header[43] = attribute >> 6;
    }
    mad
}
