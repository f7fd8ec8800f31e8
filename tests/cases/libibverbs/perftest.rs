//! perftest: every operation and service, what it offers beside, and faults of the fabric meanwhile.

use e2e::{Fabric, Transport};

use super::pair;

/// The rows of the table that a program has printed: lines of numbers alone.
fn rows(printed: &str) -> Vec<Vec<f64>> {
    let row = |line: &str| -> Option<Vec<f64>> {
        let numbers = line.split_whitespace().map(|word| word.parse().ok());
        let numbers: Vec<f64> = numbers.collect::<Option<_>>()?;
        (numbers.len() > 3).then_some(numbers)
    };
    printed.lines().filter_map(row).collect()
}

#[test]
fn perftest_runs_over_a_fabric_of_three_levels() {
    for transport in TRANSPORTS {
        perftest_runs_over_three_levels(transport);
    }
}

fn perftest_runs_over_three_levels(transport: Transport) {
    let fabric = Fabric::up(transport, "fat-tree-4-3", &[]);
    let hosts = ["h0.0.0", "h3.1.1"];
    for program in [
        &["ib_send_bw", "-n", "100", "-s", "4096"][..],
        &["ib_send_bw", "-c", "UD", "-n", "100", "-s", "1024"],
        &["ib_write_bw", "-n", "100", "-s", "65536"],
        &["ib_read_bw", "-n", "100", "-s", "8192"],
        &["ib_write_lat", "-n", "100", "-s", "8"],
        &["ib_send_lat", "-n", "100", "-s", "8", "-e"],
        &["ib_atomic_bw", "-n", "100"],
    ] {
        let program = [program, &OPTIONS].concat();
        let printed = pair(&fabric, hosts, &program);
        assert_eq!(rows(&printed).len(), 1, "{program:?}: {printed}");
    }
    fabric.assert_no_errors_logged();
    fabric.down();
}

/// The processor's frequency is not looked at; acknowledgements may be late by 4.096 us * 2^20, four seconds.
const OPTIONS: [&str; 3] = ["-F", "-u", "20"];

const TRANSPORTS: [Transport; 3] = [Transport::Veth, Transport::Udp, Transport::Shm];

/// Runs programs, given as lines, between two hosts over each of some transports; each prints a row for each of so many sizes.
fn runs(transports: &[Transport], programs: &[&str], sizes: usize) {
    for &transport in transports {
        let fabric = Fabric::up(transport, "star-2", &[]);
        for program in programs {
            let words: Vec<&str> = program.split(' ').chain(OPTIONS).collect();
            let printed = pair(&fabric, ["h0", "h1"], &words);
            assert_eq!(
                rows(&printed).len(),
                sizes,
                "{program}, {transport:?}: {printed}"
            );
        }
        fabric.assert_no_errors_logged();
        fabric.down();
    }
}

#[test]
fn perftest_s_bandwidth_runs_with_every_service_and_operation() {
    runs(
        &TRANSPORTS,
        &[
            "ib_send_bw -n 50 -s 10000",
            "ib_send_bw -n 50 -s 10000 -c UC",
            "ib_send_bw -n 50 -s 2000 -c UD",
            "ib_write_bw -n 50 -s 10000 -c UC",
            "ib_send_bw -n 50 -s 1000 -e",
            "ib_send_bw -n 50 -s 1000 -r 8 -t 8",
            "ib_write_bw -n 50 -s 1000 -q 4",
            "ib_send_bw -n 50 -s 1000 -q 3 -c UD",
            "ib_write_bw -n 50 -s 5000 -b",
            "ib_send_bw -n 50 -s 5000 -b",
            "ib_read_bw -n 50 -s 5000 -b",
            "ib_read_bw -n 50 -s 100000 -o 8",
            "ib_read_bw -n 50 -s 5000 -o 1 -q 2",
            "ib_write_bw -n 50 -s 5000 -m 256",
            "ib_write_bw -n 50 -s 64 -I 64",
            "ib_atomic_bw -n 50 -A FETCH_AND_ADD",
            "ib_atomic_bw -n 50 -A CMP_AND_SWAP -q 2",
        ],
        1,
    );
}

#[test]
fn perftest_s_latency_runs_with_every_service_and_operation() {
    runs(
        &TRANSPORTS,
        &[
            "ib_send_lat -n 50 -s 64",
            "ib_send_lat -n 50 -s 64 -c UC",
            "ib_send_lat -n 50 -s 64 -c UD",
            "ib_write_lat -n 50 -s 3000",
            "ib_write_lat -n 50 -s 64 -c UC",
            "ib_read_lat -n 50 -s 3000",
            "ib_read_lat -n 50 -s 64 -e",
            "ib_atomic_lat -n 50",
        ],
        1,
    );
}

/// Sizes of `-a`: 2 bytes to 8 MiB.
const SIZES: usize = 23;

#[test]
fn perftest_runs_with_every_size_of_message() {
    runs(
        // The links' pace is most of the time that it takes.
        &[Transport::Udp],
        &[
            "ib_write_bw -a -n 5",
            "ib_send_bw -a -n 5 -e",
            "ib_read_bw -a -n 5",
            "ib_send_bw -a -n 5 -b",
            "ib_write_lat -a -n 5",
        ],
        SIZES,
    );
}

#[test]
fn perftest_s_datagrams_come_to_a_group_that_it_joins_by_the_subnet_manager() {
    let fabric = Fabric::up(Transport::Udp, "fat-tree-4-2", &[]);
    // Both ends join, each of the other's group, and answer each other through it.
    for program in [
        "ib_send_lat -c UD -g -n 50 -s 64",
        "ib_send_lat -c UD -g -n 50 -s 2000",
    ] {
        let words: Vec<&str> = program.split(' ').chain(OPTIONS).collect();
        let printed = pair(&fabric, ["h0.0", "h3.1"], &words);
        assert_eq!(rows(&printed).len(), 1, "{program}: {printed}");
        assert!(printed.contains("MGID"), "{printed}");
    }
    fabric.assert_no_errors_logged();
    fabric.down();
}
