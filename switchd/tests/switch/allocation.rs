//! Steady state allocates nothing per packet.

use link::{Device, FrameBuf, Input, PortConfig, Time};

use switchd::{Switch, SwitchConfig, Timing};
use wire::Guid;

use crate::bed::{Bed, Plan, datagram, port, record};

#[test]
fn forwarding_allocates_nothing_once_buffers_have_grown() {
    let plan = Plan::default();
    let port_config = PortConfig {
        buffer_bytes: 64 * 1024,
        ..plan.port
    };
    let roomy = Plan {
        port: port_config,
        ..plan
    };
    let mut bed = Bed::star(roomy, 3);
    bed.set_group(&[1], 0xc005, &[1, 2, 3]);
    let unicast = record(&datagram(1, 2, 0, 0, 290, 1));
    let multicast = record(&datagram(1, 0xc005, 0, 0, 290, 1));
    let frame = [unicast.as_slice(), &multicast, &unicast].concat();
    let mut memory = vec![0; 60_000];
    let mut now = bed.now;
    let mut forward = |bed: &mut Bed| {
        now = Time(now.0 + 1);
        let switch = &mut bed.switches[0];
        let input = Input::Frame {
            port: port(1),
            head: now,
            tail: now,
            bytes: &frame,
        };
        switch.handle(now, input);
        let mut records = 0;
        for number in switch.ready(now).iter() {
            let mut out = FrameBuf::new(&mut memory, 1000);
            records += switch.transmit(now, number, &mut out);
        }
        records
    };
    for _ in 0..20 {
        forward(&mut bed);
    }
    let info = allocation_counter::measure(|| {
        for _ in 0..20 {
            assert!(forward(&mut bed) >= 4);
        }
    });
    assert_eq!(info.count_total, 0);
}

#[test]
fn an_idle_switch_of_16_ports_stays_within_its_memory() {
    let config = SwitchConfig {
        name: "s0".to_owned(),
        guid: Guid(1),
        ports: 16,
        port: PortConfig::default(),
        hardware: link::Hardware::default(),
        timing: Timing::default(),
    };
    let mut kept = None;
    let info = allocation_counter::measure(|| kept = Some(Switch::new(&config)));
    assert!(kept.is_some_and(|switch| switch.is_ok()));
    assert!(info.bytes_max < 1 << 20, "{} bytes", info.bytes_max);
}
