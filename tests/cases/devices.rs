//! Devices as they are: what a file says of a fabric is what stock programs show of the fabric that was
//! brought up from it.

use e2e::{Fabric, Transport, diags, ibnetdiscover};

/// Adapters with two ports, a router, aggregation nodes, a cable from a switch to itself, mixed speeds.
fn file() -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../topologies/files");
    format!("{folder}/quirks.ibnetdiscover")
}

/// Bits a second that arrive from one host at another.
fn throughput(fabric: &Fabric, from: &str, to: &str) -> f64 {
    let report = fabric.call(&["perf", from, to, "--seconds", "2", "--json"]);
    let report = report.success().json();
    let rate = report["total"]["bits_per_second"].as_f64();
    rate.unwrap_or_else(|| panic!("{report:#}"))
}

#[test]
fn a_file_comes_up_and_stock_programs_show_what_it_says() {
    // The subnet manager runs beside node01, and so does ibnetdiscover: its client library makes its own
    // port's GUID of the node's.
    let fabric = Fabric::up(Transport::Veth, &file(), &["--time-scale", "1000"]);
    let asked = topologies::parse(&file())
        .expect("the file is readable")
        .graph;
    for (host, port) in [("node01 mlx4_0", ""), ("node01 mlx4_0", ":2")] {
        let text = ibnetdiscover(&fabric, &format!("{host}{port}"));
        let seen = topologies::read_text(&text).expect("ibnetdiscover's text is readable");
        assert_eq!(seen.in_guid_order(), asked.in_guid_order(), "{text}");
    }
    fabric.all_pairs().expect("all ports answer all others");
    let to_second = fabric.call(&["ping", "node05 HCA-1", "node01 mlx4_0:2"]);
    assert!(to_second.success().stdout.contains("node01 mlx4_0:2"));
    let unplugged = diags(
        &fabric,
        "node02 mlx4_0",
        &["smpquery", "portinfo", "-D", "0", "1"],
    );
    assert!(
        unplugged.success().stdout.contains("Down"),
        "port 1 has no cable"
    );
    let router = fabric.device("IB router");
    assert_eq!(router["kind"], "host", "{router:#}");

    let fast = throughput(&fabric, "node03 HCA-1", "node05 HCA-1");
    let slow = throughput(&fabric, "node03 HCA-1", "node04 HCA-1");
    assert!((3.0..5.0).contains(&(fast / slow)), "4x {fast}, 1x {slow}");
    fabric.assert_no_errors_logged();
    fabric.down();
}
