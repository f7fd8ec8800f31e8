//! Any 256 bytes as an SMP.

use proptest::prelude::*;
use wire::Lid;
use wire::mad::Mad;

use super::fake::{Bench, Fake, port};
use crate::agent::{Arrival, handle_smp};
use crate::smi::Origin;

/// Mostly an attribute and a method that mean something.
fn smp() -> impl Strategy<Value = Mad> {
    let class = prop_oneof![Just(0x01u8), Just(0x81), any::<u8>()];
    let method = prop_oneof![Just(1u8), Just(2), Just(7), Just(0x81), any::<u8>()];
    let modifier = prop_oneof![(0u8..3, 0u8..22, 0u8..22), any::<(u8, u8, u8)>()];
    let bytes = prop::collection::vec(any::<u8>(), 256);
    (class, method, 0x10u8..0x22, modifier, 0u8..3, bytes).prop_map(
        |(class, method, attribute, (a, b, c), hops, mut bytes)| {
            bytes[..4].copy_from_slice(&[1, class, 1, method]);
            bytes[6..8].fill(hops);
            bytes[16..24].copy_from_slice(&[0, attribute, 0, 0, 0, a, b, c]);
            bytes[32..36].fill(0xff);
            Mad::from_bytes(bytes.try_into().unwrap())
        },
    )
}

proptest! {
    #[test]
    fn no_smp_harms_an_agent(
        smps in prop::collection::vec((smp(), any::<u16>(), any::<bool>()), 1..50),
        switch in any::<bool>(),
    ) {
        let node = if switch { Fake::switch() } else { Fake::adapter() };
        let mut bench = Bench::new(node);
        for (mut mad, lid, directed) in smps {
            let dlid = if directed { Lid::PERMISSIVE } else { Lid::new(lid) };
            let arrival = Arrival { origin: Origin::Port(port(1)), slid: Lid::new(lid), dlid };
            let Bench { sma, node, now, .. } = &mut bench;
            handle_smp(*now, sma, node, &mut mad, arrival, lid % 2 == 0);
            *now = *now + 1_000_000_000;
            while sma.poll_trap(*now).is_some() {}
        }
        let settings = bench.sma.settings(port(1));
        prop_assert!(settings.lid <= Lid::UNICAST_LAST && settings.operational_vls <= 8);
    }
}
