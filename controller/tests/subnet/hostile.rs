//! Fabrics that answer nonsense.

use controller::{Sm, SmConfig};
use link::Time;
use mad::local::{FromAgent, MadMessage, ToAgent};
use proptest::prelude::*;
use wire::Mad;

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
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_fabric_that_answers_nonsense_does_no_harm(
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
    fn what_arrives_unasked_does_no_harm(
        datagrams in proptest::collection::vec(
            (proptest::collection::vec(any::<u8>(), 256), any::<u8>(), any::<u8>(), any::<u8>()),
            1..50,
        ),
    ) {
        let mut sm = Sm::new(SmConfig::default()).unwrap();
        sm.tick(Time::ZERO);
        for (bytes, class, method, attribute) in datagrams {
            let mut mad = Mad::parse(&bytes).unwrap().0;
            let header = mad.as_bytes_mut();
            header[0] = 1;
            header[1] = [1, 0x81, 3][usize::from(class % 3)];
            header[2] = 2 - class % 2;
            header[3] = [1, 2, 5, 0x12, 0x81, method][usize::from(method % 6)];
            header[16] = 0;
            header[17] = attribute % 0x40;
            let message = MadMessage {
                lid: wire::Lid::new(7),
                qpn: wire::Qpn::SMI,
                sl: wire::Sl::default(),
                mad: Box::new(*mad.as_bytes()),
            };
            sm.handle(Time(1), FromAgent::Received(message));
        }
    }
}
