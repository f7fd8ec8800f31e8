//! P_Key, path bits and GRH of a program's MADs: what it asks for is on the link, and what is on the link it is told.

use std::fs;
use std::path::Path;

use e2e::{Fabric, Outcome, Transport};

use super::compiled;

/// What tshark is asked of each packet.
const FIELDS: [&str; 9] = [
    "infiniband.lrh.slid",
    "infiniband.lrh.dlid",
    "infiniband.bth.p_key",
    "infiniband.grh.tclass",
    "infiniband.grh.flowlabel",
    "infiniband.grh.hoplmt",
    "infiniband.grh.sgid",
    "infiniband.grh.dgid",
    "infiniband.mad.method",
];

/// What a program printed, in words.
fn run(fabric: &Fabric, host: &str, program: &Path, arguments: &[&str]) -> Vec<String> {
    let mut call = fabric.command(&["exec", host]);
    let outcome = Outcome::of(call.arg(program).args(arguments)).success();
    let words = outcome.stdout.split_whitespace();
    words.map(str::to_owned).collect()
}

/// The datagrams with a GRH that a recorded host was given and has sent, as tshark shows them.
fn decoded(recording: &Path, folder: &Path) -> Vec<Vec<String>> {
    let path = folder.join("packets.pcap");
    e2e::capture(recording, &path, |datagram| datagram.global.is_some());
    e2e::tshark_fields(&path, &[], &FIELDS)
}

#[test]
fn key_path_and_grh_of_a_mad_are_the_programs_and_its_answer_comes_by_the_same_way() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let program = compiled(folder.path(), "ways.c");
    let partitions = folder.path().join("partitions.conf");
    fs::write(&partitions, "Red = 0x5 : ALL = full ;\n").expect("a file");
    let records = folder.path().join("records");
    let path = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    let (partitions, recorded) = (path(&partitions), path(&records));
    let options = [
        "--lmc",
        "1",
        "--partitions",
        &partitions,
        "--record",
        &recorded,
    ];
    let fabric = Fabric::up(Transport::Udp, "star-3", &options);
    let [here, there] = ["h1", "h2"].map(|host| run(&fabric, host, &program, &["own"]));
    let (lid, gid) = (there[0].as_str(), there[1].as_str());
    let number = |text: &str| text.parse::<u16>().expect("a LID");
    let other_lid = (number(lid) + 1).to_string();
    for (lid, bits, key, gid) in [
        (lid, "0", "0x8005", "-"),
        (lid, "1", "0x8005", "-"),
        (&other_lid, "1", "0x8005", gid),
    ] {
        let asked = run(&fabric, "h1", &program, &["ask", lid, bits, key, gid]);
        assert_eq!(
            asked,
            ["answered"],
            "LID {lid}, path bits {bits}, P_Key {key}, GID {gid}"
        );
    }
    assert_eq!(run(&fabric, "h1", &program, &["refused"]), ["refused"]);
    fabric.assert_no_errors_logged();
    fabric.down();

    let from = (number(&here[0]) + 1).to_string();
    let [key, class, label] = [0x8005, 0x5a, 0x0001_2345].map(|number: u32| number.to_string());
    let row = |[slid, dlid, hops, sgid, dgid, method]: [&str; 6]| {
        [slid, dlid, &key, &class, &label, hops, sgid, dgid, method].map(str::to_owned)
    };
    let expected = [
        row([&from, &other_lid, "7", &here[1], gid, "0x01"]),
        row([&other_lid, &from, "255", gid, &here[1], "0x81"]),
    ];
    assert_eq!(decoded(&records.join("h2.rec"), folder.path()), expected);
}
