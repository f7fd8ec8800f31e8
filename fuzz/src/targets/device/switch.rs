//! A switch between four cables.

use link::{Device as _, Input, Port};
use switchd::control::Request;
use switchd::{Command, Switch, SwitchConfig, Timing};
use wire::attr::{
    LinearForwardingTable, MulticastForwardingTable, PKeyTable, PortInfo, SlToVlTable, SwitchInfo,
    VlArbTable,
};
use wire::control::{DeviceRequest, decode, encode};
use wire::{Guid, Lid, PortNum};

use super::{Bench, Core, LIDS, OWN, port_config};
use crate::Parts;
use crate::fields::Fields;
use crate::targets::steps;

/// Ports with a cable; the switch has one more.
const PORTS: u8 = 4;

impl Core for Switch {
    fn port(&self, number: PortNum) -> Option<&Port> {
        Self::port(self, number)
    }

    fn inside(&self) -> usize {
        self.packets_inside()
    }
}

pub(crate) fn config() -> SwitchConfig {
    SwitchConfig {
        name: "fuzzed".into(),
        guid: Guid(1),
        ports: PORTS + 1,
        port: port_config(),
        hardware: link::Hardware::default(),
        timing: Timing::default(),
    }
}

/// The settings that only a request with the M_Key may change.
#[derive(Debug, PartialEq)]
struct Settings {
    info: Option<SwitchInfo>,
    routes: Option<LinearForwardingTable>,
    groups: Option<MulticastForwardingTable>,
    ports: Vec<Option<PortInfo>>,
    keys: Option<PKeyTable>,
    levels: Option<SlToVlTable>,
    arbitration: Option<VlArbTable>,
}

impl Bench<Switch> {
    /// A switch as a subnet manager leaves it: LIDs 1 to 3 behind ports 1 to 3, a group, the M_Key.
    fn configured() -> Self {
        let switch = Switch::new(&config()).expect("a sound configuration");
        let mut bench = Self::new(switch, PORTS);
        let first = PortNum::new(1);
        let mut routes = LinearForwardingTable([PortNum::NONE; 64]);
        routes.0[usize::from(OWN.get())] = PortNum::MANAGEMENT;
        for (lid, port) in LIDS[1..4].iter().zip(1..) {
            routes.0[usize::from(lid.get())] = PortNum::new(port);
        }
        bench.set(first, 0, &routes);
        let mut groups = MulticastForwardingTable([0; 32]);
        groups.0[..2].copy_from_slice(&[0b1110, 0b11_0110]);
        bench.set(first, MulticastForwardingTable::modifier(0, 0), &groups);
        let mut info: SwitchInfo = bench.get(first, 0).expect("its SwitchInfo");
        info.linear_fdb_top = 63;
        info.port_state_change = false;
        bench.set(first, 0, &info);
        bench.activate(first, PortNum::MANAGEMENT, OWN);
        for number in bench.numbers() {
            bench.activate(first, number, Lid::ZERO);
        }
        bench
    }

    fn settings(&mut self) -> Settings {
        let first = PortNum::new(1);
        let second = PortNum::new(2);
        let input_output = SlToVlTable::switch_modifier(first, second);
        let ports = (0..=PORTS).map(|port| {
            let info: PortInfo = self.get(first, port.into())?;
            // What the manager sets; states and counters change by themselves.
            Some(PortInfo {
                m_key: info.m_key,
                m_key_protect_bits: info.m_key_protect_bits,
                m_key_lease_period: info.m_key_lease_period,
                lid: info.lid,
                lmc: info.lmc,
                master_sm_lid: info.master_sm_lid,
                hoq_life: info.hoq_life,
                vl_high_limit: info.vl_high_limit,
                ..PortInfo::default()
            })
        });
        let ports = ports.collect();
        Settings {
            info: self.get(first, 0).map(|info| SwitchInfo {
                port_state_change: false,
                ..info
            }),
            routes: self.get(first, 0),
            groups: self.get(first, MulticastForwardingTable::modifier(0, 0)),
            ports,
            keys: self.get(first, 0),
            levels: self.get(first, input_output),
            arbitration: self.get(first, VlArbTable::modifier(0, first)),
        }
    }

    fn command(&mut self, fields: &Fields<'_>) {
        let Ok(command) = decode::<Command>(fields.rest()) else {
            return;
        };
        self.device.handle(self.now, Input::Command(command));
        self.exchange();
    }
}

/// Each part is a step: a frame, a record, a packet with right check sums, a management datagram, a
/// datagram, time, a cable, a command.
///
/// # Panics
/// If a record is not counted, something that only the M_Key may change has changed, or something
/// stays inside.
pub(crate) fn switch(bytes: &[u8]) {
    let mut bench = Bench::configured();
    let before = bench.settings();
    assert!(before.routes.is_some(), "the switch answers");
    for part in Parts::of(bytes) {
        let mut fields = Fields::of(part);
        let what = fields.byte() % 9;
        let port = PortNum::new(1 + fields.byte() % (PORTS + 2));
        if !bench.step(what, port, &mut fields) {
            bench.command(&fields);
        }
        while bench.device.poll_event().is_some() {}
    }
    // The first port's cable is put in again, whatever commands have said, and all is asked anew.
    let plug = DeviceRequest::Cable {
        port: PortNum::new(1),
        plugged: true,
    };
    let request = Request::Device(plug);
    let command = Command { token: 0, request };
    bench.carrier(PortNum::new(1), false);
    bench.pass(2_000_000_000);
    bench.device.handle(bench.now, Input::Command(command));
    bench.carrier(PortNum::new(1), true);
    bench.bring_up();
    assert_eq!(
        bench.settings(),
        before,
        "requests without the M_Key change nothing"
    );
    bench.empty();
}

/// Steps of every kind, alone and one after the other.
pub(crate) fn switch_inputs() -> Vec<Vec<u8>> {
    let requests = [
        Request::Device(DeviceRequest::Identify),
        Request::Device(DeviceRequest::Ports),
        Request::Device(DeviceRequest::Cable {
            port: PortNum::new(2),
            plugged: false,
        }),
        Request::Device(DeviceRequest::Shutdown),
    ];
    let commands = requests.into_iter().map(|request| {
        let command = Command { token: 7, request };
        encode(&command).expect("a short message")
    });
    steps::inputs(8, commands.collect())
}
