use std::cell::Cell;
use std::rc::Rc;

use hostd::control::{
    AWAITED_MAX, Awaited, FLOWS_MAX, FlowReport, FlowState, FlowsProgress, Histogram, PerfRequest,
    Reply, Request, SINK_QPN, Step,
};
use link::{Pacing, PortConfig};
use rand::{RngExt as _, SeedableRng};
use rand_chacha::ChaCha8Rng;
use wire::{LinkRate, LinkSpeed, LinkWidth, Sl};

use crate::bed::{Bed, CABLE_NS, lid};
use crate::manage::{bring_up_pair, bring_up_star};

pub(crate) fn flow(number: u32, to: u16) -> PerfRequest {
    PerfRequest {
        flow: number,
        dlid: lid(to),
        qpn: SINK_QPN,
        size: 290,
        window: 64,
        rate: 0,
        sl: Sl::default(),
        count: 1000,
        duration_ms: 0,
        seed: 7,
    }
}

pub(crate) fn start(bed: &mut Bed, host: usize, request: PerfRequest) {
    assert_eq!(bed.ask(host, Request::PerfStart(request)), Reply::Done);
}

fn report(bed: &mut Bed, host: usize, flow: u32) -> FlowReport {
    match bed.ask(host, Request::PerfReport { flow }) {
        Reply::Perf(report) => *report,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn finish(bed: &mut Bed, host: usize, flow: u32) -> FlowReport {
    for _ in 0..10_000 {
        let report = report(bed, host, flow);
        if matches!(report.state, FlowState::Finished | FlowState::Abandoned) {
            return report;
        }
        bed.run(10_000_000);
    }
    panic!("flow {flow} does not end");
}

/// 1x SDR: 2 Gb/s behind the line code, packet by packet.
pub(crate) fn paced() -> PortConfig {
    PortConfig {
        rate: LinkRate {
            width: LinkWidth::X1,
            speed: LinkSpeed::Sdr,
        },
        pacing: Pacing::EXACT,
        ..PortConfig::default()
    }
}

#[test]
fn a_counted_flow_is_delivered_to_the_last_packet() {
    let mut bed = Bed::back_to_back(PortConfig::default());
    bring_up_pair(&mut bed);
    start(&mut bed, 0, flow(1, 2));
    let report = finish(&mut bed, 0, 1);
    assert_eq!((report.state, report.size), (FlowState::Finished, 290));
    assert_eq!(
        (report.offered, report.sent, report.delivered),
        (1000, 1000, 1000)
    );
    assert_eq!((report.lost, report.in_flight, report.stalls), (0, 0, 0));
    assert_eq!((report.duplicates, report.reordered), (0, 0));
    assert_eq!(report.bytes_delivered, 290_000);
    assert_eq!(report.latency.samples, 1000);
    assert_eq!(report.latency.min_ns, CABLE_NS);
    let Reply::Sink(sink) = bed.ask(1, Request::SinkReport { skip: 0 }) else {
        panic!("no sink");
    };
    assert_eq!(
        (sink[0].source, sink[0].flow, sink[0].received),
        (lid(1), 1, 1000)
    );
}

#[test]
fn a_window_of_one_packet_waits_for_each() {
    let mut bed = Bed::back_to_back(PortConfig::default());
    bring_up_pair(&mut bed);
    start(
        &mut bed,
        0,
        PerfRequest {
            window: 1,
            count: 10,
            ..flow(1, 2)
        },
    );
    let report = finish(&mut bed, 0, 1);
    assert_eq!((report.delivered, report.stalls), (10, 0));
    // Below a window of four there is no packet to count acknowledgements by: they wait a moment.
    assert!(report.elapsed_ns > 9 * 2 * CABLE_NS);
}

fn durations(bed: &mut Bed, sink: usize, source: u16, flows: (u32, u32)) -> Histogram {
    let request = Request::SinkDurations {
        sources: vec![lid(source)],
        first_flow: flows.0,
        last_flow: flows.1,
    };
    match bed.ask(sink, request) {
        Reply::Durations(durations) => *durations,
        other => panic!("{other:?}"),
    }
}

#[test]
fn flows_that_begin_later_send_nothing_before_and_last_as_long() {
    let mut bed = Bed::back_to_back(paced());
    bring_up_pair(&mut bed);
    let endless = |number, window, rate| PerfRequest {
        count: 0,
        duration_ms: 20,
        window,
        rate,
        ..flow(number, 2)
    };
    let flows = vec![endless(1, 64, 0), endless(2, 0, 100_000_000)];
    let later = Request::PerfStartAfter {
        delay_ms: 30,
        flows,
    };
    assert_eq!(bed.ask(0, later), Reply::Done);
    bed.run(29_000_000);
    for number in [1, 2] {
        let before = report(&mut bed, 0, number);
        assert_eq!((before.state, before.sent), (FlowState::Running, 0));
    }
    bed.run(11_000_000);
    for number in [1, 2] {
        assert!(report(&mut bed, 0, number).sent > 0, "flow {number}");
    }
    for number in [1, 2] {
        let after = finish(&mut bed, 0, number);
        assert_eq!((after.lost, after.state), (0, FlowState::Finished));
        // From its first packet, which the seed puts within one interval, to the last one's arrival.
        let near = 18_000_000..=22_000_000;
        assert!(near.contains(&after.elapsed_ns), "{after:?}");
    }
}

#[test]
fn latencies_of_several_flows_are_put_together_by_number_and_source() {
    let mut bed = Bed::back_to_back(paced());
    bring_up_pair(&mut bed);
    for number in [1, 2, 3] {
        let window = number * 20;
        let request = PerfRequest {
            window,
            count: 500,
            ..flow(number, 2)
        };
        start(&mut bed, 0, request);
    }
    let each: Vec<FlowReport> = (1..=3).map(|number| finish(&mut bed, 0, number)).collect();
    for (one, number) in each.iter().zip(1..) {
        let alone = durations(&mut bed, 1, 1, (number, number));
        assert_eq!(alone.summary(), one.latency);
    }
    let two = durations(&mut bed, 1, 1, (2, 3));
    let mut added = durations(&mut bed, 1, 1, (2, 2));
    added.add(&durations(&mut bed, 1, 1, (3, 3)));
    assert_eq!(two, added);
    let summary = two.summary();
    assert_eq!(summary.samples, 1000);
    assert_eq!(
        summary.max_ns,
        each[1].latency.max_ns.max(each[2].latency.max_ns)
    );
    assert!(summary.p50_ns >= each[1].latency.p50_ns.min(each[2].latency.p50_ns));
    assert!(summary.p50_ns <= each[1].latency.p50_ns.max(each[2].latency.p50_ns));
    assert_eq!(durations(&mut bed, 1, 2, (1, 3)), Histogram::default());
    assert_eq!(Histogram::default().summary().samples, 0);
}

#[test]
fn an_unlimited_flow_fills_a_paced_link() {
    let mut bed = Bed::back_to_back(paced());
    bring_up_pair(&mut bed);
    start(
        &mut bed,
        0,
        PerfRequest {
            count: 0,
            duration_ms: 10,
            ..flow(1, 2)
        },
    );
    let report = finish(&mut bed, 0, 1);
    // 2 Gb/s are 8,620 packets of 290 bytes in 10 ms; control traffic takes its share.
    assert!((8_000..=8_700).contains(&report.delivered), "{report:?}");
    assert_eq!(report.lost, 0);
}

#[test]
fn a_rate_is_held_and_what_it_asks_for_is_counted() {
    for tick_ns in [0, 1_000_000] {
        let mut bed = Bed::bursting(paced(), tick_ns);
        bring_up_pair(&mut bed);
        let rate = 200_000_000;
        let request = PerfRequest {
            window: 0,
            rate,
            count: 0,
            duration_ms: 100,
            ..flow(1, 2)
        };
        start(&mut bed, 0, request);
        let report = finish(&mut bed, 0, 1);
        let requested = rate / 10 / (290 * 8);
        assert!(report.offered.abs_diff(requested) <= 1, "{report:?}");
        assert_eq!(
            (report.sent, report.delivered),
            (report.offered, report.offered)
        );
    }
}

#[test]
fn an_offered_load_above_the_link_is_not_sent_whole() {
    let mut bed = Bed::back_to_back(paced());
    bring_up_pair(&mut bed);
    let request = PerfRequest {
        rate: 8_000_000_000,
        count: 0,
        duration_ms: 5,
        ..flow(1, 2)
    };
    start(&mut bed, 0, request);
    let report = finish(&mut bed, 0, 1);
    assert!(report.offered > 3 * report.sent, "{report:?}");
    assert_eq!(report.sent, report.delivered);
}

#[test]
fn flows_of_one_host_share_its_link() {
    let mut bed = Bed::star(3, paced());
    bring_up_star(&mut bed, 3);
    for to in [2, 3] {
        start(
            &mut bed,
            0,
            PerfRequest {
                count: 0,
                duration_ms: 10,
                ..flow(to.into(), to)
            },
        );
    }
    let reports = [2, 3].map(|flow| finish(&mut bed, 0, flow));
    let [one, other] = &reports;
    assert!(one.delivered.abs_diff(other.delivered) < 100, "{reports:?}");
    assert!(one.delivered > 4_000);
}

#[test]
fn two_senders_to_one_host_lose_nothing() {
    let mut bed = Bed::star(3, paced());
    bring_up_star(&mut bed, 3);
    for host in [0, 1] {
        start(
            &mut bed,
            host,
            PerfRequest {
                count: 3000,
                ..flow(1, 3)
            },
        );
    }
    for host in [0, 1] {
        let report = finish(&mut bed, host, 1);
        assert_eq!((report.delivered, report.lost), (3000, 0));
    }
}

#[test]
fn what_is_sent_is_delivered_or_lost_under_any_loss() {
    for seed in 0..4 {
        let mut bed = Bed::star(2, PortConfig::default());
        bring_up_star(&mut bed, 2);
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        bed.fate = Box::new(move |bytes| {
            if random.random_bool(0.05) {
                return false;
            }
            if random.random_bool(0.05) {
                let at = random.random_range(0..bytes.len());
                bytes[at] ^= 1 << random.random_range(0..8);
            }
            true
        });
        start(
            &mut bed,
            0,
            PerfRequest {
                count: 5000,
                ..flow(1, 2)
            },
        );
        let report = finish(&mut bed, 0, 1);
        assert_eq!(
            report.sent,
            report.delivered + report.lost,
            "seed {seed}: {report:?}"
        );
        assert_eq!((report.sent, report.in_flight), (5000, 0));
        assert!(
            report.lost > 0 && report.delivered > 2000,
            "seed {seed}: {report:?}"
        );
        assert_eq!((report.duplicates, report.reordered), (0, 0));
    }
}

#[test]
fn a_flow_to_an_unassigned_lid_is_given_up_with_everything_lost() {
    let mut bed = Bed::star(2, PortConfig::default());
    bring_up_star(&mut bed, 2);
    start(
        &mut bed,
        0,
        PerfRequest {
            count: 0,
            duration_ms: 100,
            ..flow(1, 30)
        },
    );
    let report = finish(&mut bed, 0, 1);
    assert_eq!((report.state, report.sent), (FlowState::Abandoned, 64));
    assert_eq!((report.delivered, report.lost), (0, 64));
    let counters = bed.all_ports().into_iter().flat_map(|port| port.counters);
    let queries = counters.filter(|(name, _)| name == "sent.query");
    let queries: u64 = queries.map(|(_, count)| count).sum();
    assert_eq!(queries, 7, "ever more seldom");
}

#[test]
fn a_counted_flow_whose_sink_is_gone_is_given_up_and_accounts_for_all_of_its_packets() {
    for (window, rate) in [(64, 0), (0, 1_000_000), (64, 1_000_000)] {
        let mut bed = Bed::star(2, paced());
        bring_up_star(&mut bed, 2);
        let request = PerfRequest {
            window,
            rate,
            count: 1_000_000,
            ..flow(1, 2)
        };
        start(&mut bed, 0, request);
        bed.until(|bed| (report(bed, 0, 1).delivered > 100).then_some(()));
        bed.stop(1);
        let stopped = bed.now;
        let report = finish(&mut bed, 0, 1);
        assert_eq!(report.state, FlowState::Abandoned);
        let seconds = bed.now.since_ns(stopped) / 1_000_000_000;
        assert!((15..=20).contains(&seconds), "{seconds} s: {report:?}");
        assert_eq!(report.offered, 1_000_000);
        assert_eq!(report.sent, report.delivered + report.lost, "{report:?}");
        assert_eq!(report.in_flight, 0);
        assert!(report.lost > 0 && report.abandoned > 0, "{report:?}");
        let due = report.offered - report.abandoned;
        assert!(due >= report.sent, "{report:?}");
        if rate == 0 {
            assert_eq!(due, report.sent, "{report:?}");
        }
    }
}

#[test]
fn a_counted_flow_outlasts_a_silence_of_eleven_seconds() {
    let mut bed = Bed::star(2, paced());
    bring_up_star(&mut bed, 2);
    start(&mut bed, 0, flow(1, 2));
    bed.until(|bed| (report(bed, 0, 1).delivered > 100).then_some(()));
    let is_lossy = Rc::new(Cell::new(true));
    let lossy = is_lossy.clone();
    // Data and replies are longer than what keeps a link up.
    bed.fate = Box::new(move |bytes| !lossy.get() || bytes.len() < 98);
    bed.run(11_000_000_000);
    assert_eq!(report(&mut bed, 0, 1).state, FlowState::Running);
    is_lossy.set(false);
    let report = finish(&mut bed, 0, 1);
    assert_eq!((report.state, report.abandoned), (FlowState::Finished, 0));
    assert_eq!((report.offered, report.sent), (1000, 1000));
    assert_eq!(report.sent, report.delivered + report.lost, "{report:?}");
}

#[test]
fn a_flow_whose_sink_was_started_anew_ends_at_once_with_the_figures_last_known() {
    let mut bed = Bed::back_to_back(PortConfig::default());
    bring_up_pair(&mut bed);
    let endless = PerfRequest {
        window: 0,
        rate: 10_000_000,
        count: 0,
        duration_ms: 300_000,
        ..flow(1, 2)
    };
    start(&mut bed, 0, endless);
    let before = bed.until(|bed| Some(report(bed, 0, 1)).filter(|report| report.delivered > 500));
    // It has forgotten what has come, as if it had been started again.
    let sources = vec![lid(1)];
    assert_eq!(bed.ask(1, Request::PerfClear { sources }), Reply::Done);
    // It counts further packets from nothing, which the source does not believe.
    bed.run(5_000_000);
    assert_eq!(bed.ask(0, Request::PerfStop { flow: 1 }), Reply::Done);
    bed.run(100_000_000);
    let after = report(&mut bed, 0, 1);
    assert_eq!(after.state, FlowState::Abandoned);
    assert!(after.delivered >= before.delivered, "{after:?}");
    assert_eq!(after.sent, after.delivered + after.lost, "{after:?}");
}

#[test]
fn a_flow_is_stopped_and_its_number_used_again() {
    let mut bed = Bed::back_to_back(paced());
    bring_up_pair(&mut bed);
    start(
        &mut bed,
        0,
        PerfRequest {
            count: 0,
            ..flow(1, 2)
        },
    );
    bed.run(1_000_000);
    let again = bed.ask(0, Request::PerfStart(flow(1, 2)));
    assert!(matches!(again, Reply::Refused(_)), "it is under way");
    assert_eq!(bed.ask(0, Request::PerfStop { flow: 1 }), Reply::Done);
    let report = finish(&mut bed, 0, 1);
    assert_eq!(report.sent, report.delivered);
    start(
        &mut bed,
        0,
        PerfRequest {
            count: 10,
            ..flow(1, 2)
        },
    );
    assert_eq!(finish(&mut bed, 0, 1).delivered, 10);
    let clear = Request::PerfClear { sources: vec![] };
    assert_eq!(bed.ask(0, clear), Reply::Done);
    assert!(matches!(
        bed.ask(0, Request::PerfReport { flow: 1 }),
        Reply::Refused(_)
    ));
}

#[test]
fn requests_that_cannot_be_met_are_refused_with_a_reason() {
    let mut bed = Bed::back_to_back(PortConfig::default());
    bring_up_pair(&mut bed);
    let good = flow(1, 2);
    let refused = [
        PerfRequest {
            size: 94,
            ..good.clone()
        },
        PerfRequest {
            size: 2083,
            ..good.clone()
        },
        PerfRequest {
            dlid: lid(1),
            ..good.clone()
        },
        PerfRequest {
            dlid: lid(0),
            ..good.clone()
        },
        PerfRequest {
            window: 0,
            ..good.clone()
        },
        PerfRequest {
            window: u32::MAX,
            ..good
        },
    ];
    for request in refused {
        let reply = bed.ask(0, Request::PerfStart(request.clone()));
        assert!(matches!(reply, Reply::Refused(_)), "{request:?}: {reply:?}");
    }
    assert!(matches!(
        bed.ask(0, Request::PerfStop { flow: 9 }),
        Reply::Refused(_)
    ));
}

#[test]
fn a_sink_forgets_the_sources_that_are_named_and_no_others() {
    let mut bed = Bed::star(3, PortConfig::default());
    bring_up_star(&mut bed, 3);
    for host in [0, 1] {
        start(&mut bed, host, flow(7, 3));
        assert_eq!(finish(&mut bed, host, 7).delivered, 1000);
    }
    let sources = vec![lid(1)];
    assert_eq!(bed.ask(2, Request::PerfClear { sources }), Reply::Done);
    let Reply::Sink(sink) = bed.ask(2, Request::SinkReport { skip: 0 }) else {
        panic!("no sink");
    };
    let known: Vec<_> = sink
        .iter()
        .map(|flow| (flow.source, flow.received))
        .collect();
    assert_eq!(known, [(lid(2), 1000)]);
}

fn progress(bed: &mut Bed, host: usize) -> FlowsProgress {
    match bed.ask(host, Request::PerfProgress) {
        Reply::PerfProgress(progress) => progress,
        other => panic!("{other:?}"),
    }
}

#[test]
fn flows_of_one_request_run_are_looked_at_and_are_stopped_together() {
    let mut bed = Bed::star(3, paced());
    bring_up_star(&mut bed, 3);
    assert_eq!(progress(&mut bed, 0), FlowsProgress::default());
    let endless = |number, to| PerfRequest {
        count: 0,
        ..flow(number, to)
    };
    let flows = vec![endless(1, 2), endless(2, 3)];
    assert_eq!(bed.ask(0, Request::PerfStartAll(flows)), Reply::Done);
    bed.run(10_000_000);
    let running = progress(&mut bed, 0);
    assert_eq!((running.flows, running.under_way), (2, 2));
    assert!(running.delivered > 0 && running.sent >= running.delivered);
    assert_eq!(bed.ask(0, Request::PerfStopAll), Reply::Done);
    let reports = [1, 2].map(|number| finish(&mut bed, 0, number));
    let ended = progress(&mut bed, 0);
    let sum = |field: fn(&FlowReport) -> u64| reports.iter().map(field).sum::<u64>();
    assert_eq!(
        ended,
        FlowsProgress {
            flows: 2,
            under_way: 0,
            waiting: 0,
            sent: sum(|flow| flow.sent),
            delivered: sum(|flow| flow.delivered),
        }
    );
    assert_eq!(ended.sent, ended.delivered);
}

#[test]
fn one_flow_that_cannot_be_started_refuses_the_request_and_too_many_are_refused_at_once() {
    let mut bed = Bed::back_to_back(PortConfig::default());
    bring_up_pair(&mut bed);
    let bad = PerfRequest {
        size: 94,
        ..flow(2, 2)
    };
    let reply = bed.ask(0, Request::PerfStartAll(vec![flow(1, 2), bad]));
    assert!(matches!(reply, Reply::Refused(_)), "{reply:?}");
    assert_eq!(progress(&mut bed, 0).flows, 1);
    let sources = vec![];
    assert_eq!(bed.ask(0, Request::PerfClear { sources }), Reply::Done);
    let many = (0..).take(FLOWS_MAX + 1).map(|number| flow(number, 2));
    let reply = bed.ask(0, Request::PerfStartAll(many.collect()));
    assert!(matches!(reply, Reply::Refused(_)), "{reply:?}");
    assert_eq!(progress(&mut bed, 0).flows, 0);
}

fn start_steps(bed: &mut Bed, host: usize, steps: Vec<Step>) {
    let request = Request::PerfStartSteps { delay_ms: 0, steps };
    assert_eq!(bed.ask(host, request), Reply::Done);
}

fn step(flow: PerfRequest, after: &[(u16, u32)]) -> Step {
    let awaited = |&(source, number): &(u16, u32)| Awaited {
        source: lid(source),
        flow: number,
        packets: flow.count,
    };
    let after = after.iter().map(awaited).collect();
    Step { flow, after }
}

#[test]
fn a_step_begins_when_what_it_waits_for_has_arrived_and_is_sent() {
    let mut bed = Bed::star(3, paced());
    bring_up_star(&mut bed, 3);
    // The second host sends on what the first one sends it, behind a flow of its own that takes longer.
    let own = PerfRequest {
        count: 2000,
        ..flow(1, 3)
    };
    let after = [(1, 7), (2, 1)].map(|(source, number)| Awaited {
        source: lid(source),
        flow: number,
        packets: if source == 2 { 2000 } else { 1000 },
    });
    let onward = Step {
        flow: flow(2, 3),
        after: after.into(),
    };
    start_steps(&mut bed, 1, vec![step(own, &[]), onward]);
    bed.run(1_000_000);
    let waiting = progress(&mut bed, 1);
    assert_eq!((waiting.under_way, waiting.waiting), (2, 1));
    assert_eq!(report(&mut bed, 1, 2).sent, 0);
    start_steps(&mut bed, 0, vec![step(flow(7, 2), &[])]);

    let received = finish(&mut bed, 0, 7);
    let own = finish(&mut bed, 1, 1);
    let onward = finish(&mut bed, 1, 2);
    assert_eq!((own.delivered, onward.delivered), (2000, 1000));
    assert!(onward.began_ns >= received.last_arrival_ns);
    assert!(onward.last_arrival_ns >= onward.began_ns + onward.elapsed_ns);
    assert_eq!(progress(&mut bed, 1).waiting, 0);

    // What has come already is not waited for.
    start_steps(&mut bed, 1, vec![step(flow(3, 3), &[(1, 7)])]);
    assert_eq!(finish(&mut bed, 1, 3).delivered, 1000);
}

#[test]
fn a_step_whose_packets_do_not_come_waits_until_it_is_stopped() {
    let mut bed = Bed::star(3, paced());
    bring_up_star(&mut bed, 3);
    start_steps(&mut bed, 1, vec![step(flow(1, 3), &[(1, 9)])]);
    bed.run(1_000_000_000);
    let waiting = progress(&mut bed, 1);
    assert_eq!(
        (waiting.under_way, waiting.waiting, waiting.sent),
        (1, 1, 0)
    );
    assert_eq!(bed.ask(1, Request::PerfStopAll), Reply::Done);
    let stopped = report(&mut bed, 1, 1);
    assert_eq!((stopped.state, stopped.sent), (FlowState::Finished, 0));
    // Its packets may come now.
    start_steps(&mut bed, 0, vec![step(flow(9, 2), &[])]);
    assert_eq!(finish(&mut bed, 0, 9).delivered, 1000);
    assert_eq!(report(&mut bed, 1, 1).sent, 0);
}

#[test]
fn steps_without_an_end_and_with_too_much_to_wait_for_are_refused() {
    let mut bed = Bed::star(3, paced());
    bring_up_star(&mut bed, 3);
    let endless = PerfRequest {
        count: 0,
        ..flow(1, 2)
    };
    let timed = PerfRequest {
        duration_ms: 5,
        ..flow(1, 2)
    };
    let many: Vec<(u16, u32)> = (0..)
        .map(|number| (2, number))
        .take(AWAITED_MAX + 1)
        .collect();
    for step in [
        step(endless, &[]),
        step(timed, &[]),
        step(flow(1, 2), &many),
    ] {
        let request = Request::PerfStartSteps {
            delay_ms: 0,
            steps: vec![step],
        };
        let reply = bed.ask(0, request);
        assert!(matches!(reply, Reply::Refused(_)), "{reply:?}");
    }
    assert_eq!(progress(&mut bed, 0), FlowsProgress::default());
}
