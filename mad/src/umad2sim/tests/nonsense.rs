//! Arbitrary datagrams: every request of a living program comes back in the end.

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Step {
    Control(u32, u32, Vec<u8>),
    Data(u16, u8, u8, Vec<u8>),
    Agent(u16, u8, u8, Vec<u8>),
    Gone(u16),
    Tick(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let bytes = |len: usize| prop::collection::vec(any::<u8>(), len);
    prop_oneof![
        (0u32..12, 0u32..4, bytes(64))
            .prop_map(|(kind, slot, data)| { Step::Control(kind, slot, data) }),
        (0u16..4, 0u8..4, any::<u8>(), bytes(288))
            .prop_map(|(slot, class, method, bytes)| Step::Data(slot, class, method, bytes)),
        (0u16..4, 0u8..4, any::<u8>(), bytes(256))
            .prop_map(|(slot, class, method, bytes)| Step::Agent(slot, class, method, bytes)),
        (0u16..4).prop_map(Step::Gone),
        (0u64..1_000 * MS).prop_map(Step::Tick),
    ]
}

proptest! {
    #[test]
    fn every_request_of_a_living_program_comes_back(
        steps in prop::collection::vec(step(), 1..100),
    ) {
        let mut server = server(4);
        let mut now = Time(0);
        for step in steps {
            match step {
                Step::Control(kind, slot, data) => {
                    let mut request = control(ControlKind(kind), 0, &data);
                    request[4..8].copy_from_slice(&slot.to_le_bytes());
                    server.handle_control(now, "ctl", &request);
                }
                Step::Data(slot, class, method, mut bytes) => {
                    bytes[32..36].copy_from_slice(&[1, class, 1, method]);
                    server.handle_data(now, slot, &bytes);
                }
                Step::Agent(slot, class, method, mut bytes) => {
                    bytes[..4].copy_from_slice(&[1, class, 1, method]);
                    let mad = Mad::from_bytes(bytes.try_into().unwrap());
                    server.handle_agent(now, slot, unsolicited(mad));
                }
                Step::Gone(slot) => server.program_gone(now, slot),
                Step::Tick(ns) => now = now + ns,
            }
            server.tick(now);
            outputs(&mut server);
        }
        while let Some(at) = server.deadline() {
            server.tick(at);
        }
        prop_assert!(server.in_flight.is_empty() && server.waiting.is_empty());
    }
}
