//! `ibemu sim traffic`: traffic in virtual time.

use serde_json::Value;

use crate::{as_text, failed, file, json, printed};

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value}"))
}

/// What `sim traffic` reports.
fn report(arguments: &[&str]) -> Value {
    let all = [&["sim", "traffic"], arguments, &["--json"]].concat();
    let report = json(&all);
    for (kind, sums) in report["packets"]["kinds"].as_object().unwrap() {
        assert_eq!(sums["sent"], sums["delivered"], "{kind}: {report:#}");
        assert_eq!(sums["unaccounted"], 0, "{kind}: {report:#}");
    }
    report
}

#[test]
fn a_lone_packet_takes_the_time_of_its_bytes_and_cables() {
    // 290 bytes at 4x QDR, 32 Gbit/s of data, 100 times slower: 7,250 ns; and two cables. Switches cut through.
    // So few that none meets an acknowledgement of those that go the other way.
    let slow = ["star-2", "shift-1", "--count", "100", "--rate", "1M"];
    for (more, expected) in [
        (&[][..], 7_250 + 2 * 1_000),
        (&["--flight", "50"], 7_250 + 2 * 50),
        (&["--time-scale", "10", "--flight", "10"], 725 + 2 * 10),
        (&["--width", "1x"], 4 * 7_250 + 2 * 1_000),
    ] {
        let report = report(&[&slow[..], more].concat());
        let latency = &report["total"]["latency"];
        assert_eq!(latency["samples"], 200);
        for key in ["min_ns", "mean_ns", "max_ns"] {
            assert_eq!(number(&latency[key]), expected, "{more:?} {key}");
        }
    }
}

#[test]
fn flows_that_meet_share_the_link() {
    let (_folder, plan) = file(
        "meet.toml",
        "warmup = 0.01\n[[flows]]\nfrom = ['h0', 'h1', 'h2']\nto = ['h3']\nseconds = 0.2\n",
    );
    let report = report(&["star-4", as_text(&plan)]);
    let total = &report["total"];
    // 4x QDR, 100 times slower: 320 Mbit/s. Acknowledgements go the other way. Of the 200 ms, and the 5.6 ms until
    // full windows have drained, the first 5.6 are for what the warm-up has left.
    let rate = number(&total["bits_per_second"]);
    assert!((311_000_000..=320_000_000).contains(&rate), "{rate}");
    assert!(total["fairness"].as_f64().unwrap() > 0.999, "{total:#}");
    assert_eq!(total["flows"], 3, "warm-ups are not reported");
    // Windows of 256 packets of 7.25 us from each of three hosts wait at one port; less than a fifth is elsewhere.
    let median = number(&total["latency"]["p50_ns"]);
    let all = 3 * 256 * 7_250;
    assert!((all * 4 / 5..=all).contains(&median), "{median}");
}

#[test]
fn the_same_command_prints_the_same() {
    let arguments = [
        "sim",
        "traffic",
        "fat-tree-4-2",
        "permutation",
        "--seconds",
        "0.02",
        "--rate",
        "200M",
        "--json",
    ];
    let first = printed(&arguments);
    assert_eq!(first, printed(&arguments));
    let other = printed(&[&arguments[..], &["--seed", "2"]].concat());
    assert_ne!(first, other);
}

#[test]
fn service_levels_are_those_of_the_engine() {
    // Without them, a ring of closed loops would lock up.
    let report = report(&[
        "ring-6-2",
        "uniform",
        "--routing",
        "dfsssp",
        "--seconds",
        "0.05",
    ]);
    assert_eq!(report["total"]["lost"], 0);
    assert!(number(&report["total"]["delivered"]) > 10_000, "{report:#}");
}

#[test]
fn what_cannot_be_sent_is_refused() {
    for (arguments, code, wrong) in [
        (
            &["star-2", "uniforn"][..],
            2,
            "there is no pattern \"uniforn\"",
        ),
        (&["star-0", "uniform"], 2, "star-0"),
        (
            &["star-2", "uniform", "--routing", "file"],
            2,
            "file needs tables",
        ),
        (
            &["ring-5-1", "uniform", "--routing", "mlid"],
            2,
            "--routing auto or updn works on any fabric",
        ),
        (
            &["star-2", "uniform", "--hosts", "x*"],
            1,
            "no host that can be reached is like \"x*\"",
        ),
        (
            &["star-2", "uniform", "--time-scale", "0"],
            2,
            "--time-scale",
        ),
        (
            &["star-2", "uniform", "--buffer", "1k"],
            2,
            "holds no packet of the MTU",
        ),
        (
            &["star-2", "shift-1", "--dlid-offset", "3"],
            1,
            "--dlid-offset 3",
        ),
    ] {
        let (found, message) = failed(&[&["sim", "traffic"], arguments].concat());
        assert_eq!(found, code, "{arguments:?}: {message}");
        assert!(message.contains(wrong), "{arguments:?}: {message}");
    }
}
