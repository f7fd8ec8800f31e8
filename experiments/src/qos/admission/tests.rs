use super::*;
use crate::plan::Plan;

const TEXT: &str = r#"
kind = "admission"
name = "test"
title = "A test"
paper = "VLARB01"
topologies = ["mesh-2x2-1"]
routing = "updn"
retries = 100
runs = 2

[quick]
runs = 1

[[rates]]
rate = "1x"
table = "Table 2"
tries = [4, 8, 12]
established = [8, 12]

[[reference]]
rate = "1x"
topology = "mesh-2x2-1"
established = [10, 11]
"#;

fn plan() -> AdmissionPlan {
    let [whole, _] = crate::plan::parameters(TEXT);
    whole
}

fn point_with(run: u32, established: u32, first_refusal: &str) -> Point {
    Point {
        rate: LinkRate::X1,
        topology: "mesh-2x2-1".to_owned(),
        run,
        seed: 1,
        tries: 12,
        tried: established + 1,
        established,
        established_sl0: 3,
        established_sl1: 3,
        established_sl2: 2,
        established_sl3: 2,
        reserved_mean: 0.7,
        reserved_max: 0.78,
        refused_bandwidth: 5,
        refused_entries: 9,
        first_refusal: first_refusal.to_owned(),
    }
}

fn held(points: &[Point]) -> Vec<Option<bool>> {
    let verdicts = judge::judge(&plan(), points);
    verdicts.into_iter().map(|verdict| verdict.holds).collect()
}

#[test]
fn rows_ranges_and_reasons_are_judged_from_all_runs() {
    let good = [
        point_with(0, 10, "bandwidth"),
        point_with(1, 9, "bandwidth"),
    ];
    // In order: the frame, the paper's full rows (to 8), the final number, the range, the causes.
    assert_eq!(
        held(&good),
        [Some(true), Some(true), None, Some(true), Some(true)]
    );
    let bad = [point_with(0, 10, "bandwidth"), point_with(1, 7, "entries")];
    assert_eq!(
        held(&bad),
        [Some(true), Some(false), None, Some(false), Some(false)]
    );
    let Figure::Table { rows, .. } = show::table(&plan(), &plan().rates[0], &bad) else {
        panic!("a table");
    };
    assert_eq!(rows[0], ["4", "4", "4", "4"]);
    assert_eq!(rows[1], ["8", "7 to 8", "8", "8"]);
    assert_eq!(rows[2], ["12", "7 to 10", "10", "11"]);
}

#[test]
fn what_is_wrong_is_told_with_file_line_and_what_is_allowed() {
    let refused = |from: &str, to: &str| {
        assert!(TEXT.contains(from));
        let text = TEXT.replace(from, to);
        Plan::parse("test.toml", &text).unwrap_err().to_string()
    };
    assert!(refused("\"1x\"\ntable", "\"2x\"\ntable").contains("there are 1x, 4x, 12x"));
    assert_eq!(
        refused("tries = [4, 8, 12]", "tries = [4, 0]"),
        "test.toml, line 17: tries: 1 to 1000000, ascending"
    );
    assert!(refused("runs = 2", "runs = 0").contains("line 9: runs: 0 points"));
    assert!(refused("mesh-2x2-1\"]", "mesh-2x2\"]").contains("line 6: topologies"));
    assert_eq!(Plan::parse("test.toml", TEXT).unwrap().points(), [2, 1]);
}
