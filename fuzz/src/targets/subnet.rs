//! A whole fabric in virtual time: a subnet manager, a switch, three hosts, one of which is hostile
//! and whose cable changes what passes.

use std::sync::{Arc, Mutex, PoisonError};

use controller::control::Phase;
use controller::{Protection, SmConfig};
use hostd::control::{PingRequest, Reply, Request};
use link::Time;
use mad::local::{MadMessage, ToAgent};
use sim::{Interposer, Passage, Twin, TwinConfig};
use topologies::{Endpoint, parse};
use wire::{Delimiter, Lid, MKey, Mad, PortNum, Qpn, Sl, UdPacket};

use super::mads::{self, M_KEY, fields_of, requests};
use super::packets::seal;
use crate::Parts;
use crate::fields::Fields;

/// The hosts: the manager runs beside the first one, the second one is hostile.
const HOSTS: [&str; 3] = ["h0", "h1", "h2"];
/// How long the subnet may take to come up, or to be as it was, nanoseconds.
const UP_WITHIN_NS: u64 = 60_000_000_000;
const SECOND_NS: u64 = 1_000_000_000;

/// What is to happen to the next packets of VL15 on the hostile host's cable: bytes of the MAD and
/// what they are changed by.
type Changes = Arc<Mutex<Vec<Vec<(usize, u8)>>>>;

/// The hostile host's cable.
#[derive(Debug)]
struct Cable {
    end: Endpoint,
    peer: Endpoint,
    changes: Changes,
}

impl Interposer for Cable {
    fn pass(&mut self, _: Time, from: Endpoint, frame: &mut [u8]) -> Passage {
        const MAD_AT: usize = Delimiter::LEN + 28;
        let is_vl15 = frame
            .get(Delimiter::LEN)
            .is_some_and(|byte| byte >> 4 == 15);
        if from != self.end && from != self.peer || !is_vl15 || frame.len() < MAD_AT + Mad::LEN {
            return Passage::Once;
        }
        let mut changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        if changes.is_empty() {
            return Passage::Once;
        }
        for (at, change) in changes.remove(0) {
            frame[MAD_AT + at] ^= change;
        }
        // What goes into the fabric is no request: an answer carries the M_Key, which a cable could
        // make a request of its own of.
        if from == self.end && frame[MAD_AT + 3] & 0x80 == 0 {
            return Passage::Never;
        }
        let mut packet = frame[Delimiter::LEN..].to_vec();
        if seal(&mut packet) && packet.len() == frame.len() - Delimiter::LEN {
            frame[Delimiter::LEN..].copy_from_slice(&packet);
        }
        Passage::Once
    }
}

/// The fabric.
struct Bench {
    twin: Twin,
    hostile: Endpoint,
    changes: Changes,
}

impl Bench {
    fn up() -> Self {
        let graph = parse("star-3").expect("a topology").graph;
        let hostile = Endpoint {
            node: graph.find(HOSTS[1]).expect("a host"),
            port: PortNum::new(1),
        };
        let protection = Protection {
            m_key: MKey::new(M_KEY).expect("a key"),
            protect_bits: 2,
            lease_period_s: 0,
        };
        let config = TwinConfig {
            manager: SmConfig {
                protection: Some(protection),
                qos: controller::QosChoice::Vlarb01,
                ..SmConfig::default()
            },
            ..TwinConfig::default()
        };
        let mut twin = Twin::new(&graph, &config).expect("a fabric");
        let changes = Changes::default();
        twin.interpose(Box::new(Cable {
            end: hostile,
            peer: graph.peer(hostile).expect("a cable"),
            changes: Arc::clone(&changes),
        }));
        twin.run_until_up(UP_WITHIN_NS)
            .expect("a subnet that comes up");
        Self {
            twin,
            hostile,
            changes,
        }
    }

    fn send(&mut self, message: ToAgent) {
        self.twin.send_to_agent(HOSTS[1], message).expect("a host");
    }

    fn step(&mut self, part: &[u8]) {
        let mut fields = Fields::of(part);
        match fields.byte() % 8 {
            0 | 1 => {
                let lid = Lid::new(fields.byte().into());
                let mad = mads::mad(&mut fields);
                let management = mad.class().is_subnet_management();
                self.send(ToAgent::Send(MadMessage {
                    lid,
                    qpn: if management { Qpn::SMI } else { Qpn::GSI },
                    sl: Sl::default(),
                    mad: Box::new(*mad.as_bytes()),
                    way: None,
                }));
            }
            2 => {
                let lids = [
                    Lid::PERMISSIVE,
                    Lid::new(1),
                    Lid::new(2),
                    Lid::new(3),
                    Lid::new(4),
                ];
                let (slid, dlid) = (fields.one_of(&lids), fields.one_of(&lids));
                let mad = mads::mad(&mut fields);
                let packet = UdPacket::smp(slid, dlid, &mad);
                let mut bytes = vec![0; packet.len()];
                packet.emit(&mut bytes).expect("an SMP");
                self.twin.inject(self.hostile, &bytes);
            }
            3 => {
                let pairs = fields.rest().chunks_exact(2).take(8);
                let change = pairs.map(|pair| (usize::from(pair[0]), pair[1])).collect();
                self.changes
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(change);
            }
            4 => match fields.byte() % 4 {
                0 => self.twin.unplug(self.hostile),
                1 => self.twin.plug(self.hostile),
                2 => self.twin.crash(self.hostile.node),
                _ => self.twin.restart(self.hostile.node),
            },
            5 => match fields.byte() % 4 {
                0 => self.send(ToAgent::SetIsSm(true)),
                1 => self.send(ToAgent::Register { class: 0x81 }),
                2 => self.twin.crash_manager(0),
                _ => self.twin.restart_manager(0).expect("what it has persisted"),
            },
            _ => {}
        }
        self.twin.run_for(fields.nanoseconds().min(SECOND_NS));
    }

    /// Sends pings between the two hosts that are not hostile; how many came back.
    fn ping(&mut self) -> u32 {
        let Ok(Reply::Identity(identity)) = self.ask(HOSTS[2], Request::Identity) else {
            return 0;
        };
        let ping = Request::Ping(PingRequest {
            targets: vec![identity.lid],
            count: 3,
            interval_us: 1,
            size: 98,
            sl: Sl::default(),
            pkey: 0,
            timeout_ms: 10,
        });
        match self.ask(HOSTS[0], ping) {
            Ok(Reply::Ping(results)) => results[0].received,
            _ => 0,
        }
    }

    fn ask(&mut self, host: &str, request: Request) -> Result<Reply, sim::TwinError> {
        let token = self.twin.request(host, request)?;
        self.twin.reply(token, SECOND_NS)
    }
}

/// Each part is a step of the hostile host or its cable. When they cease, the subnet is up, the other
/// hosts reach each other, and nothing is left in any device.
///
/// # Panics
/// If that is not so, or a checker of the simulator has found a violation.
pub(crate) fn subnet(bytes: &[u8]) {
    let mut bench = Bench::up();
    for part in Parts::of(bytes) {
        bench.step(part);
    }
    bench
        .changes
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clear();
    bench.send(ToAgent::SetIsSm(false));
    let twin = &mut bench.twin;
    twin.unplug(bench.hostile);
    if twin.status().phase == Phase::default() {
        twin.restart_manager(0).expect("what it has persisted");
    }
    let end = twin.now() + UP_WITHIN_NS;
    let mut received = 0;
    while received < 3 && bench.twin.now() < end {
        bench.twin.run_for(SECOND_NS);
        if bench.twin.status().phase == Phase::Up {
            received = bench.ping();
        }
    }
    assert_eq!(received, 3, "{:?}", bench.twin.status());
    bench.twin.run_for(2 * SECOND_NS);
    assert!(
        bench.twin.violations().is_empty(),
        "{:?}",
        bench.twin.violations()
    );
    assert_eq!(bench.twin.quiescence_violations(), Vec::<String>::new());
}

/// Steps of every kind.
pub(crate) fn subnet_inputs() -> Vec<Vec<u8>> {
    let mut inputs = Vec::new();
    let all = requests();
    for chunk in all.chunks(4) {
        let said = chunk
            .iter()
            .map(|mad| [&[0, 2][..], &fields_of(mad)].concat());
        inputs.push(Parts::join(said));
        let put = chunk
            .iter()
            .filter(|mad| mad.class().is_subnet_management());
        let put = put.map(|mad| [&[2, 0, 0][..], &fields_of(mad)].concat());
        inputs.push(Parts::join(put));
    }
    let steps: [&[u8]; 10] = [
        &[4, 0, 100],
        &[4, 1, 100],
        &[3, 65, 1, 66, 2],
        &[3, 3, 0x80],
        &[5, 0, 110],
        &[5, 1, 110],
        &[4, 2, 100],
        &[4, 3, 110],
        &[5, 2, 100],
        &[5, 3, 110],
    ];
    inputs.push(Parts::join(steps));
    inputs.push(Parts::join(&steps[..4]));
    inputs.push(Parts::join(&steps[4..]));
    inputs
}
