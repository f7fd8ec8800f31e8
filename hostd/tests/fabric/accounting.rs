//! Every packet of traffic is delivered, dropped with kind and reason, or still in a port.

use std::collections::BTreeMap;

use hostd::control::{FlowReport, FlowState, PerfRequest, Reply, Request};
use link::{LinkTimeouts, PortConfig};
use wire::control::{DeviceReply, DeviceRequest};
use wire::{PortNum, TrafficKind};

use crate::bed::Bed;
use crate::manage::{bring_up_star, set_port};
use crate::traffic::{finish, flow, paced, start};

const HOSTS: u8 = 4;
/// The switch is the last node.
const SWITCH: usize = HOSTS as usize;

/// Links whose buffers hold a dozen packets, so that a host that takes none blocks the switch.
fn tight() -> PortConfig {
    PortConfig {
        buffer_bytes: 4096,
        ..paced()
    }
}

/// The counters of all ports together.
fn sums(bed: &mut Bed) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for (name, count) in bed.all_ports().into_iter().flat_map(|port| port.counters) {
        *sums.entry(name).or_default() += count;
    }
    sums
}

/// How many packets of a kind were sent, delivered, dropped and wait.
fn account(sums: &BTreeMap<String, u64>, kind: TrafficKind) -> [u64; 4] {
    let at = |name: String| sums.get(&name).copied().unwrap_or(0);
    let prefix = format!("dropped.{}.", kind.name());
    let drops = sums.iter().filter(|(name, _)| name.starts_with(&prefix));
    [
        at(format!("sent.{}", kind.name())),
        at(format!("delivered.{}", kind.name())),
        drops.map(|(_, count)| count).sum(),
        at(format!("queued.{}", kind.name())),
    ]
}

/// Asserts that all packets are accounted for, and returns how many of data were dropped.
#[track_caller]
fn adds_up(bed: &mut Bed) -> u64 {
    let sums = sums(bed);
    for kind in TrafficKind::ALL {
        let [sent, delivered, dropped, queued] = account(&sums, kind);
        assert!(sent > 0, "{kind:?} is among the traffic: {sums:?}");
        assert_eq!(sent, delivered + dropped + queued, "{kind:?}: {sums:?}");
    }
    account(&sums, TrafficKind::Data)[2]
}

/// A fabric on which every host sends to every other for 20 ms.
fn under_load(config: PortConfig) -> Bed {
    let mut bed = Bed::star(HOSTS, config);
    bring_up_star(&mut bed, HOSTS);
    for (source, to) in pairs() {
        let request = PerfRequest {
            count: 0,
            duration_ms: 20,
            ..flow(to.into(), to)
        };
        start(&mut bed, source, request);
    }
    bed.run(5_000_000);
    bed
}

/// Sources by node, destinations by LID.
fn pairs() -> impl Iterator<Item = (usize, u16)> {
    (0..usize::from(HOSTS)).flat_map(|source| {
        let lids = 1..=u16::from(HOSTS);
        lids.filter(move |&lid| usize::from(lid) != source + 1)
            .map(move |lid| (source, lid))
    })
}

fn finish_all(bed: &mut Bed) -> Vec<FlowReport> {
    let all: Vec<(usize, u16)> = pairs().collect();
    let reports = all
        .into_iter()
        .map(|(source, to)| finish(bed, source, to.into()))
        .collect();
    // The last acknowledgements.
    bed.run(10_000_000);
    reports
}

/// Packets of data that no sink has received. A source that was cut off does not know.
fn missing(bed: &mut Bed, reports: &[FlowReport]) -> u64 {
    let sent: u64 = reports.iter().map(|flow| flow.sent).sum();
    let received = (0..usize::from(HOSTS)).map(|host| {
        let Reply::Sink(flows) = bed.ask(host, Request::SinkReport { skip: 0 }) else {
            panic!("no sink");
        };
        flows.iter().map(|flow| flow.received).sum::<u64>()
    });
    sent - received.sum::<u64>()
}

#[test]
fn without_a_fault_everything_sent_is_delivered() {
    let mut bed = under_load(paced());
    let reports = finish_all(&mut bed);
    assert_eq!(adds_up(&mut bed), 0);
    assert_eq!(missing(&mut bed, &reports), 0);
}

#[test]
fn what_is_acknowledged_is_not_asked_for() {
    let mut bed = Bed::star(HOSTS, paced());
    bring_up_star(&mut bed, HOSTS);
    for (source, to) in pairs() {
        let request = PerfRequest {
            window: 1,
            count: 0,
            duration_ms: 500,
            ..flow(to.into(), to)
        };
        start(&mut bed, source, request);
    }
    for report in finish_all(&mut bed) {
        assert_eq!(report.state, FlowState::Finished);
        assert!(report.delivered > 100 && report.lost == 0, "{report:?}");
        assert_eq!(report.latency.samples, report.delivered, "{report:?}");
    }
    let sums = sums(&mut bed);
    let of = |name: &str| sums.get(name).copied().unwrap_or(0);
    for kind in ["data", "acknowledgement"] {
        let (sent, delivered) = (format!("sent.{kind}"), format!("delivered.{kind}"));
        assert_eq!(of(&sent), of(&delivered), "{sums:?}");
    }
    assert_eq!([of("sent.query"), of("sent.report")], [0, 0], "{sums:?}");
}

#[test]
fn packets_in_queues_are_under_way() {
    let mut bed = under_load(tight());
    bed.stop(1);
    bed.run(10_000_000);
    let DeviceReply::Ports(ports) = bed.ask_device(SWITCH, DeviceRequest::Ports) else {
        panic!("no ports");
    };
    let count = |counters: &[(String, u64)], prefix: &str| -> u64 {
        let named = counters.iter().filter(|(name, _)| name.starts_with(prefix));
        named.map(|(_, count)| count).sum()
    };
    let waiting: u64 = ports
        .iter()
        .map(|port| count(&port.counters, "queued.data"))
        .sum();
    assert!(waiting > 50, "packets for the stopped host: {ports:?}");
    let dropped = ports.iter().map(|port| count(&port.counters, "dropped."));
    assert_eq!(dropped.sum::<u64>(), 0, "{ports:?}");
}

#[test]
fn a_cable_pulled_under_load_loses_what_its_ports_count() {
    for end in [(SWITCH, 2), (1, 1)] {
        let mut bed = under_load(paced());
        let pull = DeviceRequest::Cable {
            port: PortNum::new(end.1),
            plugged: false,
        };
        assert_eq!(bed.ask_device(end.0, pull), DeviceReply::Done);
        let reports = finish_all(&mut bed);
        let dropped = adds_up(&mut bed);
        assert!(dropped > 0, "packets were in queues: {reports:?}");
        assert_eq!(missing(&mut bed, &reports), dropped, "{reports:?}");
    }
}

#[test]
fn a_host_that_drains_slowly_loses_what_the_switch_counts() {
    // Shorter than the silence that takes a link down, and longer.
    for (stopped_ns, hoq_life) in [(100_000_000, 5), (100_000_000, 31), (3_000_000_000, 31)] {
        let mut bed = under_load(tight());
        for port in 1..=HOSTS {
            set_port(&mut bed, &[1], port, |info| info.hoq_life = hoq_life);
        }
        bed.stop(1);
        bed.run(stopped_ns);
        bed.resume(1);
        let reports = finish_all(&mut bed);
        let dropped = adds_up(&mut bed);
        assert_eq!(missing(&mut bed, &reports), dropped, "{reports:?}");
        let lossless = stopped_ns < 1_000_000_000 && hoq_life == 31;
        assert_eq!(
            dropped == 0,
            lossless,
            "{stopped_ns} {hoq_life}: {reports:?}"
        );
    }
}

#[test]
fn what_can_be_said_later_does_not_pile_up_while_a_vl_is_blocked() {
    const FLOWS: u32 = 500;
    const BLOCKED_NS: u64 = 5_000_000_000;
    let patient = PortConfig {
        timeouts: LinkTimeouts {
            silence_ns: 10 * BLOCKED_NS,
            ..LinkTimeouts::default()
        },
        ..tight()
    };
    let mut bed = Bed::star(HOSTS, patient);
    bring_up_star(&mut bed, HOSTS);
    for number in 0..FLOWS {
        let request = PerfRequest {
            window: 1,
            count: 8,
            ..flow(number, 2)
        };
        start(&mut bed, 0, request);
    }
    bed.run(1_000_000);
    bed.stop(SWITCH);
    bed.run(BLOCKED_NS);
    // Eight flows at a time ask, and are waited for for a quarter of a second at least.
    let DeviceReply::Ports(ports) = bed.ask_device(0, DeviceRequest::Ports) else {
        panic!("no ports");
    };
    let waiting = ports[0].counters.iter();
    let waiting = waiting.filter(|(name, _)| name == "queued.query");
    let waiting: u64 = waiting.map(|(_, count)| count).sum();
    let asked = 8 * BLOCKED_NS.div_ceil(250_000_000);
    assert!((1..=asked).contains(&waiting), "{ports:?}");
    bed.resume(SWITCH);
    for number in 0..FLOWS {
        let report = finish(&mut bed, 0, number);
        assert_eq!((report.delivered, report.lost), (8, 0), "{report:?}");
    }
    bed.run(10_000_000);
    assert_eq!(adds_up(&mut bed), 0);
    let sums = sums(&mut bed);
    assert!(!sums.contains_key("drop.pool-full"), "{sums:?}");
}
