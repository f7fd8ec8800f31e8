//! A switch and a host are recorded by hand and replayed: to the same, and with something changed.

use link::PortConfig;
use recording::{End, begin, write};
use wire::control::encode;
use wire::{Guid, PortNum};

use super::*;

/// A recorder of calls, and the device that they go to.
struct Tape<D> {
    device: D,
    bytes: Vec<u8>,
}

impl<D: Device<Command: Encode, Event: Encode>> Tape<D> {
    fn new(device: D, kind: Kind, config: &impl Encode) -> Self {
        let header = Header {
            kind,
            name: "taped".to_owned(),
            config: encode(config).unwrap(),
        };
        let mut bytes = Vec::new();
        begin(&mut bytes, &header).unwrap();
        Self { device, bytes }
    }

    /// Hands an input in and takes all that the device gives; the frames.
    fn feed(&mut self, now: Time, input: Input<'_, D::Command>) -> Vec<(PortNum, Vec<u8>)> {
        write(&mut self.bytes, &Entry::of_input(now, &input)).unwrap();
        self.device.handle(now, input);
        let mut frames = Vec::new();
        for port in self.device.ready(now).iter() {
            let mut memory = [0; 9000];
            let mut frame = FrameBuf::new(&mut memory, 100);
            let records = self.device.transmit(now, port, &mut frame);
            let entry: Entry<'_, ()> = Entry::Pull {
                now: now.0,
                port,
                room: (9000, 100),
                records: u64::try_from(records).unwrap(),
                bytes: frame.as_bytes().into(),
            };
            write(&mut self.bytes, &entry).unwrap();
            frames.push((port, frame.as_bytes().to_vec()));
        }
        while let Some(event) = self.device.poll_event() {
            let bytes = encode(&event).unwrap().into();
            let entry: Entry<'_, ()> = Entry::Event { bytes };
            write(&mut self.bytes, &entry).unwrap();
        }
        frames
    }

    fn end(&mut self) {
        let end: Entry<'_, ()> = Entry::End(End::Closed);
        write(&mut self.bytes, &end).unwrap();
    }
}

const PORT: PortNum = PortNum::new(1);

/// A host and a switch that train the link between them, and are asked for their ports.
fn conversation() -> (Tape<Switch>, Tape<Host>) {
    let switch = SwitchConfig {
        name: "s0".to_owned(),
        guid: Guid(1),
        ports: 2,
        port: PortConfig::default(),
        hardware: link::Hardware::default(),
        timing: switchd::Timing::default(),
    };
    let host = HostConfig {
        name: "h0".to_owned(),
        guid: Guid(2),
        pid: 9,
        ports: 1,
        hardware: link::Hardware::default(),
        port: PortConfig::default(),
        ip: Vec::new(),
        traffic_tick_ns: 1000,
    };
    let mut switch = Tape::new(Switch::new(&switch).unwrap(), Kind::Switch, &switch);
    let mut host = Tape::new(Host::new(host.clone()).unwrap(), Kind::Host, &host);
    let mut to_host = switch.feed(Time(1), plugged());
    let mut to_switch = host.feed(Time(1), plugged());
    for at in (10..100).map(Time) {
        let answers: Vec<_> = to_host
            .iter()
            .flat_map(|(_, bytes)| host.feed(at, frame_of(at, bytes)))
            .collect();
        to_host = to_switch
            .iter()
            .flat_map(|(_, bytes)| switch.feed(at, frame_of(at, bytes)))
            .collect();
        to_switch = answers;
    }
    let request = switchd::control::Request::Device(wire::control::DeviceRequest::Ports);
    switch.feed(
        Time(200),
        Input::Command(switchd::Command { token: 1, request }),
    );
    let request = hostd::control::Request::Device(wire::control::DeviceRequest::Ports);
    host.feed(
        Time(200),
        Input::Command(hostd::Command::Control {
            token: 1,
            port: PortNum::new(1),
            request,
        }),
    );
    switch.feed(Time(u64::from(u32::MAX)), Input::Tick);
    (switch, host)
}

fn plugged<C>() -> Input<'static, C> {
    Input::Carrier {
        port: PORT,
        up: true,
    }
}

fn frame_of<C>(now: Time, bytes: &[u8]) -> Input<'_, C> {
    Input::Frame {
        port: PORT,
        head: now - 3,
        tail: now,
        bytes,
    }
}

#[test]
fn the_same_core_does_the_same_again() {
    let (mut switch, mut host) = conversation();
    switch.end();
    for (bytes, ending) in [
        (&switch.bytes, Ending::Recorded(End::Closed)),
        (&host.bytes, Ending::Unterminated),
    ] {
        let replayed = replay(&**bytes).unwrap();
        assert_eq!(replayed.divergence, None);
        assert_eq!(replayed.ending, Some(ending));
        assert!(replayed.inputs > 2 && replayed.pulls > 2 && replayed.events > 0);
    }
    host.end();
    let replayed = replay(&*host.bytes).unwrap();
    assert_eq!(replayed.header.name, "taped");
    assert_eq!(replayed.elapsed_ns, 199);
}

#[test]
fn a_frame_that_differs_is_named_with_its_port_and_the_input_before() {
    let (mut switch, _) = conversation();
    let before = replay(&*switch.bytes).unwrap().entries;
    let entries: [Entry<'_, ()>; 2] = [
        Entry::Tick { now: 1 << 40 },
        Entry::Pull {
            now: 1 << 40,
            port: PortNum::new(2),
            room: (100, 1),
            records: 1,
            bytes: vec![1, 2, 3].into(),
        },
    ];
    for entry in &entries {
        write(&mut switch.bytes, entry).unwrap();
    }
    let replayed = replay(&*switch.bytes).unwrap();
    let divergence = replayed.divergence.unwrap();
    assert_eq!(replayed.ending, None, "the replay stops at a divergence");
    assert_eq!(
        divergence.to_string(),
        format!(
            "entry {} at 1099.511627776s, after input {} (a tick): a frame for port 2: expected \
             3 bytes in 1 records, got 0 bytes in 0; the first 0 bytes agree",
            before + 2,
            before + 1
        )
    );
}

#[test]
fn an_event_that_differs_is_shown_both_ways() {
    let (_, mut host) = conversation();
    let event = hostd::Event::PortState(link::PortState::Active);
    let bytes = encode(&event).unwrap().into();
    let entry: Entry<'_, ()> = Entry::Event { bytes };
    write(&mut host.bytes, &entry).unwrap();
    let divergence = replay(&*host.bytes).unwrap().divergence.unwrap();
    let text = divergence.to_string();
    let expected = ["expected PortState(Active), got none", "command Control"];
    assert!(expected.iter().all(|part| text.contains(part)), "{text}");
}

#[test]
fn an_impossible_configuration_and_a_frame_larger_than_any_daemons_are_refused() {
    let config = SwitchConfig {
        name: "s0".to_owned(),
        guid: Guid(1),
        ports: 2,
        port: PortConfig::default(),
        hardware: link::Hardware::default(),
        timing: switchd::Timing::default(),
    };
    let switch = || Switch::new(&config).unwrap();
    let portless = SwitchConfig {
        ports: 0,
        ..config.clone()
    };
    let tape = Tape::new(switch(), Kind::Switch, &portless);
    let error = replay(&*tape.bytes).unwrap_err().to_string();
    assert!(
        error.contains("switch taped") && error.contains("0 ports"),
        "{error}"
    );

    let mut tape = Tape::new(switch(), Kind::Switch, &config);
    let entry: Entry<'_, ()> = Entry::Pull {
        now: 1,
        port: PORT,
        room: (u64::MAX, 1),
        records: 0,
        bytes: Vec::new().into(),
    };
    write(&mut tape.bytes, &entry).unwrap();
    let error = replay(&*tape.bytes).unwrap_err().to_string();
    assert!(error.starts_with("entry 1: a frame with room"), "{error}");
}

#[test]
fn a_recording_that_was_cut_anywhere_never_panics() {
    let (switch, _) = conversation();
    for len in 0..switch.bytes.len() {
        if let Ok(replayed) = replay(&switch.bytes[..len]) {
            assert_eq!(replayed.divergence, None, "{len} bytes");
        }
    }
}
