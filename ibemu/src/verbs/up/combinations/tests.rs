use clap::Parser;

use super::*;
use crate::cli::{Cli, Verb};

fn refused(arguments: &[&str]) -> Option<String> {
    let line = ["ibemu", "up"].iter().chain(arguments);
    let cli = Cli::try_parse_from(line).unwrap();
    let Verb::Up(options) = cli.verb else {
        panic!("not up");
    };
    let graph = topologies::parse(&options.topology).unwrap().graph;
    let error = check(&graph, &options, None).err()?;
    assert!(
        error.downcast_ref::<UsageError>().is_some(),
        "{arguments:?}: no usage error: {error:#}"
    );
    Some(error.to_string())
}

#[track_caller]
fn is_refused(arguments: &[&str], words: &[&str]) {
    let Some(problem) = refused(arguments) else {
        panic!("{arguments:?} is not refused");
    };
    for word in words {
        assert!(problem.contains(word), "no {word:?} in {problem:?}");
    }
}

#[test]
fn what_goes_together_is_not_refused() {
    for arguments in [
        &["star-2"][..],
        &["ring-5-1", "--verify", "none"],
        &["fat-tree-4-3", "--multicast", "cyclic", "--lmc", "2"],
        &["clos-4-4-4", "--routing", "clos", "--windows", "200"],
        &["fat-tree-4-2", "--qos", "vlarb01", "--vls", "2"],
        &["ring-5-1", "--routing", "dfsssp", "--vls", "2"],
        &["torus-5x5-1", "--routing", "dor", "--vls", "2"],
        &["star-2", "--sm", "none", "--verify", "none"],
        &["irregular-8-2-4-7", "--routing", "path-selection"],
    ] {
        assert_eq!(refused(arguments), None, "{arguments:?}");
    }
}

#[test]
fn promised_bandwidth_needs_vls_that_no_engine_takes() {
    is_refused(
        &["star-2", "--qos", "vlarb01", "--vls", "1"],
        &["--qos vlarb01", "--vls is 1"],
    );
    is_refused(
        &["torus-5x5-1", "--routing", "dor", "--qos", "vlarb01"],
        &["--routing dor", "--qos vlarb01", "auto"],
    );
}

#[test]
fn windows_need_the_clos_engine() {
    for routing in ["auto", "updn"] {
        is_refused(
            &["clos-4-4-4", "--windows", "60", "--routing", routing],
            &["--windows", "--routing clos"],
        );
    }
}

#[test]
fn a_scheme_of_multicast_needs_its_topology() {
    is_refused(
        &["ring-5-1", "--multicast", "cyclic"],
        &["--multicast cyclic", "--multicast spanning-tree"],
    );
}

#[test]
fn engines_that_do_not_apply_say_what_they_need() {
    is_refused(
        &["ring-5-1", "--routing", "mlid"],
        &["--routing mlid", "updn"],
    );
    is_refused(
        &["ring-5-1", "--routing", "clos"],
        &["--routing clos", "two stages", "updn"],
    );
    is_refused(
        &["torus-5x5-1", "--routing", "dfsssp", "--vls", "1"],
        &["have 1", "--vls"],
    );
    // Three data VLs are two: SL-to-VL tables know 1, 2, 4, 8 and 15.
    is_refused(
        &["torus-5x5x5-1", "--routing", "dfsssp", "--vls", "3"],
        &["have 2", "--vls"],
    );
}

#[test]
fn an_lmc_that_the_engine_or_the_lids_do_not_allow_is_refused() {
    is_refused(
        &["fat-tree-4-2", "--routing", "mlid", "--lmc", "3"],
        &["LMC 3", "0 to 1", "--lmc"],
    );
    is_refused(
        &["fat-tree-32-3", "--routing", "updn", "--lmc", "3"],
        &["LMC 3", "49151", "--lmc"],
    );
    is_refused(
        &["clos-4-4-4", "--routing", "clos", "--lmc", "1"],
        &["LMC 1", "--lmc"],
    );
    for engine in ["path-selection", "renaming", "fully-explicit"] {
        is_refused(
            &["star-2", "--routing", engine, "--lmc", "1"],
            &["--lmc", engine],
        );
    }
}

#[test]
fn a_topology_in_parts_is_refused_unless_no_manager_is_to_find_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("parts.net");
    let text = "Switch 4 \"s0\"\n[1] \"h0\"[1]\n[2] \"h1\"[1]\n\nSwitch 4 \"s1\"\n[1] \"h2\"[1]\n\n\
                Hca 1 \"h0\"\n[1] \"s0\"[1]\n\nHca 1 \"h1\"\n[1] \"s0\"[2]\n\nHca 1 \"h2\"\n[1] \"s1\"[1]\n";
    std::fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap();
    is_refused(&[path], &["not connected", "s1", "h2", "2 of 5", "h0"]);
    assert_eq!(refused(&[path, "--sm", "none"]), None);
}

#[test]
fn options_of_the_controller_are_refused_without_it() {
    for (option, value) in [
        ("--sm-node", "h0"),
        ("--routing", "updn"),
        ("--lmc", "1"),
        ("--qos", "vlarb01"),
        ("--windows", "60"),
        ("--multicast", "cyclic"),
        ("--verify", "all"),
    ] {
        is_refused(
            &["star-2", "--sm", "none", option, value],
            &[option, "--sm none"],
        );
    }
}

#[test]
fn nothing_passes_through_an_adapter_and_an_idle_one_does_no_harm() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rails.net");
    let path = path.to_str().unwrap();
    let rails = |switch_a: &str, switch_b: &str| {
        format!(
            "Hca 2 \"idle\"\nHca 2 \"h1\"\n[1] \"a\"[1]\n[2] \"b\"[1]\nHca 2 \"h2\"\n[1] \"a\"[2]\n[2] \"b\"[2]\n\
             Switch 4 \"a\"\n[1] \"h1\"[1]\n[2] \"h2\"[1]\n{switch_a}Switch 4 \"b\"\n[1] \"h1\"[2]\n[2] \"h2\"[2]\n{switch_b}"
        )
    };
    std::fs::write(path, rails("", "")).unwrap();
    is_refused(&[path], &["not connected", "from h1 to 1 of 5 nodes (b)"]);
    std::fs::write(path, rails("[3] \"b\"[3]\n", "[3] \"a\"[3]\n")).unwrap();
    assert_eq!(refused(&[path]), None);
}
