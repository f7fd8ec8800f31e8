//! The text of partitions, as OpenSM's documentation gives it.

use controller::{Ipoib, Member, Membership, Partition, Partitions};
use proptest::prelude::*;
use wire::Guid;

fn read(text: &str) -> Vec<Partition> {
    Partitions::read(text).expect(text).all().to_vec()
}

fn one(text: &str) -> Partition {
    let all = read(text);
    assert!(all.len() <= 2, "{all:?}");
    all.into_iter().next().expect("a partition")
}

fn refused(text: &str) -> (usize, String) {
    let error = Partitions::read(text).expect_err(text);
    (error.line, error.problem)
}

const FULL: Membership = Membership::Full;
const LIMITED: Membership = Membership::Limited;

fn port(guid: u64) -> Member {
    Member::Port(Guid(guid))
}

#[test]
fn the_examples_of_opensm_mean_what_its_documentation_says() {
    let text = "\
Default=0x7fff : ALL, SELF=full ;
Default=0x7fff : ALL, ALL_SWITCHES=full, SELF=full ;

NewPartition , ipoib : 0x123456=full, 0x3456789034=limi, 0x2134af2306 ;

YetAnotherOne = 0x300 : SELF=full ;
YetAnotherOne = 0x300 : ALL=limited ;

ShareIO = 0x80 , defmember=full : 0x123451, 0x123452; # 0x123453, 0x123454 will be limited
ShareIO = 0x80 : 0x123453, 0x123454, 0x123455=full; # 0x123456, 0x123457 will be limited
ShareIO = 0x80 : defmember=limited : 0x123456, 0x123457, 0x123458=full;
ShareIO = 0x80 , defmember=full : 0x123459, 0x12345a;
ShareIO = 0x80 , defmember=full : 0x12345b, 0x12345c=limited, 0x12345d;
";
    let all = read(text);
    let by_number: Vec<(u16, &str)> = all.iter().map(|one| (one.number, &*one.name)).collect();
    assert_eq!(
        by_number,
        [
            (0x80, "ShareIO"),
            (0x300, "YetAnotherOne"),
            (0x7ffe, "NewPartition"),
            (0x7fff, "Default"),
        ]
    );
    let share: Vec<_> = (0x12_3451..=0x12_345d)
        .map(|guid| {
            let is_limited = matches!(guid & 0xf, 3 | 4 | 6 | 7 | 0xc);
            (port(guid), if is_limited { LIMITED } else { FULL })
        })
        .collect();
    assert_eq!(all[0].members, share);
    assert_eq!(
        all[1].members,
        [(Member::Own, FULL), (Member::All, LIMITED)]
    );
    assert_eq!(
        all[2].members,
        [
            (port(0x12_3456), FULL),
            (port(0x34_5678_9034), LIMITED),
            (port(0x21_34af_2306), LIMITED),
        ]
    );
    assert_eq!(all[2].ipoib, Some(Ipoib::default()));
    assert_eq!(all[3].members.len(), 5);
    assert_eq!(all[3].ipoib, None);
}

#[test]
fn without_a_rule_the_default_partition_has_limited_members_and_the_manager() {
    let default = one("");
    assert_eq!(default.number, 0x7fff);
    let members = [(Member::All, LIMITED), (Member::Own, FULL)];
    assert_eq!(default.members, members);
    assert_eq!(read("A=5:ALL;")[1].members, members);
}

#[test]
fn flags_keys_and_lines_are_read_as_they_may_be_written() {
    let partition =
        one("Fast = 0x8005,ipoib,rate=7,mtu=5,sl=3,scope=5,indx0\n :\n ALL_CAS=both,\n 77 ;");
    assert_eq!((partition.number, &*partition.name), (5, "Fast"));
    let ipoib = Ipoib {
        rate: 7,
        mtu: 5,
        sl: 3,
        scope: 5,
    };
    assert_eq!(partition.ipoib, Some(ipoib));
    let members = [
        (Member::ChannelAdapters, Membership::Both),
        (port(77), LIMITED),
    ];
    assert_eq!(partition.members, members);
    assert_eq!(one("=10:;").members, []);
    assert_eq!(one("=10,mtu=5:;").ipoib, None, "only ipoib makes a group");
    assert_eq!(one("=10:ALL,;").members, [(Member::All, LIMITED)]);
    assert_eq!(
        one("Default=0x7fff,ipoib:ALL=full;").ipoib,
        Some(Ipoib::default())
    );
}

#[test]
fn what_is_wrong_is_told_with_its_line() {
    for (text, line, words) in [
        ("A=0x8000:ALL;", 1, "15 bits"),
        ("\nA=70000:ALL;", 2, "P_Key"),
        ("A=:ALL;", 1, "no value"),
        ("A=5,fast:ALL;", 1, "ipoib, rate="),
        ("A=5,mtu=9:ALL;", 1, "from 1 to 5"),
        ("A=5,mtu:ALL;", 1, "no value"),
        ("A=5,ipoib=1:ALL;", 1, "no value"),
        ("A=5,:ALL;", 1, "flag is missing"),
        ("A=5\nALL;", 2, "':'"),
        ("A=5:\nALL=most;", 2, "full, limited or both"),
        ("A=5:h1;", 1, "port GUID"),
        ("A=5:0xgg;", 1, "port GUID"),
        ("A=5:0;", 1, "port GUID"),
        ("A=5:ALL SELF;", 1, "','"),
        ("A=5:,ALL;", 1, "port is missing"),
        ("A=5:ALL", 1, "';'"),
        ("A=5:ALL,", 1, "';'"),
        ("# fine\nA=5:ALL; B", 2, "':'"),
        ("A=5:defmember=full ALL;", 1, "':'"),
    ] {
        let (at, problem) = refused(text);
        assert_eq!(at, line, "{text}: {problem}");
        assert!(problem.contains(words), "{text}: {problem}");
    }
}

proptest! {
    #[test]
    fn no_text_harms_the_reader(text in "[A-Za-z0-9x=,:;# \n]{0,200}") {
        if let Ok(partitions) = Partitions::read(&text) {
            let numbers: Vec<u16> = partitions.all().iter().map(|one| one.number).collect();
            prop_assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
            prop_assert_eq!(numbers.last(), Some(&0x7fff));
            prop_assert!(numbers[0] > 0);
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(text in ".{0,100}") {
        let _ = Partitions::read(&text);
    }

    #[test]
    fn what_is_written_by_the_rules_is_read_with_its_members(
        written in prop::collection::btree_map(1u16..0x7fff, prop::collection::vec((1u64.., 0..3usize), 0..9), 0..9)
    ) {
        let names = ["full", "limited", "both"];
        let meanings = [Membership::Full, Membership::Limited, Membership::Both];
        let mut text = String::new();
        for (number, members) in &written {
            let members: Vec<String> = members
                .iter()
                .map(|(guid, how)| format!("{guid:#x}={}", names[*how]))
                .collect();
            text += &format!("P{number} = {number:#x} : {} ;\n", members.join(",\n  "));
        }
        let all = read(&text);
        prop_assert_eq!(all.len(), written.len() + 1);
        for (partition, (number, members)) in all.iter().zip(&written) {
            prop_assert_eq!(partition.number, *number);
            let expected: Vec<_> = members.iter().map(|&(guid, how)| (port(guid), meanings[how])).collect();
            prop_assert_eq!(&partition.members, &expected);
        }
    }
}
