use super::super::link_state::Options;
use super::super::slots::link_rate;
use super::*;
use crate::network::{Network, UpDown};

/// Output ports along shortest legal paths, one path for each pair of hosts.
fn paths(network: &Network) -> impl Fn(usize, usize) -> Vec<Endpoint> + '_ {
    let updown = UpDown::new(network).unwrap();
    let hops: Vec<_> = (0..network.switches().len())
        .map(|target| updown.hops_to(network, target))
        .collect();
    move |source, destination| {
        let target = network.hosts()[destination].switch;
        let mut ports = vec![network.hosts()[source].end];
        let (mut at, mut descending) = (network.hosts()[source].switch, false);
        while at != target {
            let left = hops[target].left(at, descending).unwrap();
            let choices: Vec<usize> = network
                .leaving(at)
                .filter(|&channel| !(descending && updown.is_up(channel)))
                .filter(|&channel| {
                    let to = network.channels()[channel].to;
                    let down = descending || !updown.is_up(channel);
                    hops[target].left(to, down) == Some(left - 1)
                })
                .collect();
            let channel = choices[(source * 7 + destination) % choices.len()];
            ports.push(network.endpoint(channel));
            descending |= !updown.is_up(channel);
            at = network.channels()[channel].to;
        }
        ports.push(network.last_endpoint(destination));
        ports
    }
}

fn run(topology: &str, options: FillOptions) -> FillReport {
    let graph = topologies::parse(topology).unwrap().graph;
    let network = Network::new(&graph);
    let mut fabric = Admission::new(&graph, Options::default(), |_| link_rate::X1).unwrap();
    fill(&mut fabric, network.hosts().len(), paths(&network), options).unwrap()
}

#[test]
fn sixteen_switches_with_64_hosts_at_1x_take_as_many_connections_as_in_table_2() {
    for topology in ["irregular-16-4-4-1", "hypercube-4-4", "mesh-4x4-4"] {
        let report = run(topology, FillOptions::default());
        assert!(
            (2250..=2700).contains(&report.total()),
            "{topology}: {report:?}"
        );
        let [least, .., most] = {
            let mut sorted = report.established;
            sorted.sort_unstable();
            sorted
        };
        assert!(most - least <= 1);
    }
}

#[test]
fn the_first_refusal_of_a_fill_is_mostly_for_want_of_an_entry() {
    let without_entries = (0..8)
        .filter(|&seed| {
            let report = run(
                "irregular-16-4-4-2",
                FillOptions {
                    seed,
                    ..FillOptions::default()
                },
            );
            matches!(
                report.first_refusal,
                Some(QosError::Refused {
                    cause: super::super::Cause::Entries { .. },
                    ..
                })
            )
        })
        .count();
    assert!(without_entries > 4, "{without_entries} of 8");
}

#[test]
fn the_seed_alone_decides() {
    let options = FillOptions {
        tries: 400,
        ..FillOptions::default()
    };
    let report = run("hypercube-3-4", options);
    assert_eq!(report.total(), 400);
    assert_eq!(report, run("hypercube-3-4", options));
    assert!(report.load_max <= 0.8 && report.load_mean > 0.0);
}
