use crate::plan::Plan;

const TEXT: &str = r#"
kind = "qos"
name = "test"
title = "A test"
paper = "VLARB01"
topologies = ["mesh-2x2-1"]
routing = "updn"
packet_bytes = [256, 4096]
layouts = ["contiguous", "interleaved"]
tries = [4, 8]
retries = 100
warmup_packets = 10
measure_packets = 100
runs = 3
shows = ["delays"]
established = [4, 8]

[quick]
runs = 1
"#;

fn refused(from: &str, to: &str) -> String {
    assert!(TEXT.contains(from));
    let text = TEXT.replace(from, to);
    Plan::parse("test.toml", &text).unwrap_err().to_string()
}

#[test]
fn a_plan_says_how_many_points_it_has() {
    assert_eq!(Plan::parse("test.toml", TEXT).unwrap().points(), [24, 8]);
}

#[test]
fn what_is_wrong_is_told_with_file_line_and_what_is_allowed() {
    let unknown = refused("runs = 3", "runs = 3\nspeed = 9");
    assert!(
        unknown.contains("line 15") && unknown.contains("speed"),
        "{unknown}"
    );
    assert_eq!(
        refused("tries = [4, 8]", "tries = []"),
        "test.toml, line 10: tries: the list is empty: at least one"
    );
    assert_eq!(
        refused("tries = [4, 8]", "tries = [8, 4]"),
        "test.toml, line 10: tries: 1 to 1000000, ascending"
    );
    assert!(refused("retries = 100", "retries = 0").contains("line 11: retries: 1 to"));
    assert!(refused("[256, 4096]", "[250]").contains("32 to 4128"));
    assert!(refused("\"interleaved\"", "\"mixed\"").contains("there are contiguous, interleaved"));
    assert!(
        refused("\"delays\"", "\"delay\"").contains("there are throughput, utilisation, delays")
    );
    assert!(refused("mesh-2x2-1", "mesh-1x1-1").contains("line 6: topologies"));
    assert!(refused("\"updn\"", "\"upd\"").contains("there are auto, mlid"));
    assert!(refused("[4, 8]\nretries", "[4, 2000000]\nretries").contains("tries"));
    assert!(refused("established = [4, 8]", "established = [8, 4]").contains("the least first"));
    assert!(refused("measure_packets = 100", "measure_packets = 0").contains("1 to 10000000"));
    let deep = refused("runs = 3", "runs = 3\nbuffer_packets = 9999");
    assert!(deep.contains("9999 packets"), "{deep}");
    assert!(refused("runs = 3", "runs = 0").contains("0 points"));
}
