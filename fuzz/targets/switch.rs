//! A sequence of frames on the ports of a switch: no panic, and nothing stays inside for ever.
#![no_main]

use libfuzzer_sys::fuzz_target;
use link::{Device, FrameBuf, Input, PortConfig, Time};
use switchd::{Switch, SwitchConfig, Timing};
use wire::{Guid, PortNum};

const PORTS: u8 = 4;

fuzz_target!(|steps: Vec<(u8, u32, Vec<u8>)>| {
    let config = SwitchConfig {
        name: "fuzzed".into(),
        guid: Guid(1),
        ports: PORTS,
        port: PortConfig::default(),
        timing: Timing::default(),
    };
    let mut switch = Switch::new(&config).expect("a valid switch");
    let mut now = Time(1);
    for port in 1..=PORTS {
        let port = PortNum::new(port);
        switch.handle(now, Input::Carrier { port, up: true });
    }
    let mut memory = vec![0; 65_536];
    for (port, wait_us, bytes) in steps {
        now = now + u64::from(wait_us) * 1000;
        let port = PortNum::new(port % (PORTS + 2));
        switch.handle(now, Input::Frame { port, head: now, tail: now, bytes: &bytes });
        switch.handle(now, Input::Tick);
        for port in switch.ready(now).iter() {
            let mut frame = FrameBuf::new(&mut memory, 1024);
            let _ = switch.transmit(now, port, &mut frame);
        }
        while switch.poll_event().is_some() {}
    }
});
