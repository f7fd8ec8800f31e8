use crate::load::LoadPlan;
use crate::plan::{self, Plan};

const TEXT: &str = r#"
name = "test"
title = "A test"
paper = "MLID04"
topologies = ["fat-tree-4-2"]
schemes = ["slid", "mlid"]
vls = [1, 2]
packet_bytes = 32
loads = [0.02, 0.04]
warmup_ns = 1000
measure_ns = 2000

[[traffic]]
pattern = "uniform"

[[traffic]]
pattern = "centric"
percent = 10
"#;

fn refused(from: &str, to: &str) -> String {
    assert!(TEXT.contains(from));
    let text = TEXT.replace(from, to);
    Plan::parse("test.toml", &text).unwrap_err().to_string()
}

#[test]
fn a_plan_says_how_many_points_it_has() {
    assert_eq!(Plan::parse("test.toml", TEXT).unwrap().points(), [16, 16]);
}

#[test]
fn what_is_wrong_is_told_with_file_and_line() {
    let unknown = refused("packet_bytes = 32", "packet_bytes = 32\nspeed = 9");
    assert!(unknown.starts_with("test.toml: "), "{unknown}");
    assert!(
        unknown.contains("line 9") && unknown.contains("speed"),
        "{unknown}"
    );
    assert_eq!(
        refused("loads = [0.02, 0.04]", "loads = []"),
        "test.toml, line 9: loads: the list is empty: at least one"
    );
    assert!(refused("[0.02, 0.04]", "[0.04, 0.02]").contains("ascending"));
    assert!(refused("[0.02, 0.04]", "[-1.0]").contains("above 0"));
    assert!(refused("vls = [1, 2]", "vls = [3]").contains("1, 2, 4, 8 or 15"));
    let unknown = refused("\"slid\", ", "\"sldi\", ");
    assert!(
        unknown.contains("line 6")
            && unknown.contains("no routing engine is called \"sldi\"; there are auto, mlid"),
        "{unknown}"
    );
    assert!(refused("fat-tree-4-2", "fat-tre-4-2").contains("line 5"));
    assert!(refused("measure_ns = 2000", "measure_ns = 0").contains("1 to 1000000000"));
    assert!(refused("percent = 10", "percent = 10\nof = 3").contains("of"));
}

#[test]
fn bounds_of_statements_are_not_negative_and_not_the_wrong_way_round() {
    let band = |min: &str, max: &str| {
        let band = "\n[[band]]\nscheme = \"mlid\"\nvls = 1\ntraffic = \"uniform\"\n";
        let text = format!("{TEXT}{band}min = {min}\nmax = {max}\n");
        Plan::parse("test.toml", &text).map_err(|error| error.to_string())
    };
    assert!(band("0.0", "1.0").is_ok());
    let refused = |min, max| band(min, max).unwrap_err();
    assert_eq!(
        refused("-0.1", "1.0"),
        "test.toml, line 24: min: -0.1: 0 or more"
    );
    assert_eq!(
        refused("0.2", "0.1"),
        "test.toml, line 24: min: 0.2 is above max, 0.1"
    );
    assert!(refused("nan", "1.0").contains("line 24: min: nan"));
    assert!(refused("0.0", "inf").contains("line 25: max: inf"));
}

#[test]
fn faults_are_part_of_a_plan_and_name_what_is_in_all_its_fabrics() {
    let fault = "\n[[fault]]\nat_ns = 500\nwhat = \"link-down\"\nnode = \"s0.0\"\nport = 1\n";
    let text = format!("{TEXT}{fault}");
    let [plan, _] = plan::parameters::<LoadPlan, _>(&text);
    assert_eq!(plan.faults(7).faults.len(), 1);
    assert_eq!(plan.faults(7).seed, 7);
    let nowhere = text.replace("s0.0", "s7");
    let error = Plan::parse("test.toml", &nowhere).unwrap_err().to_string();
    assert!(error.contains("line 20: fault: fat-tree-4-2"), "{error}");
    let never = text.replace("link-down", "lightning");
    assert!(Plan::parse("test.toml", &never).is_err());
}
