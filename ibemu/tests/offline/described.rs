//! Descriptions of fabrics as people have them go through the verbs.

use std::path::Path;

use topologies::AsBuilt;

use crate::{as_text, failed, file, ibemu, is_golden};

/// What a run prints that succeeds, with or without warnings.
fn output_of(arguments: &[&str]) -> (String, String) {
    let output = ibemu(arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (text(output.stdout), text(output.stderr))
}

#[test]
fn a_fabric_as_built_is_routed_verified_and_compared_from_any_description() {
    for (seed, cores) in [(1, 2), (2, 0), (3, 1)] {
        let fabric = AsBuilt::new(4, 4, 3, cores, seed).graph().unwrap();
        let text = topologies::write_as_found(&fabric, seed);
        let (_folder, path) = file("found.txt", &text);
        let path = as_text(&path);
        let (routed, _) = output_of(&["route", path, "--routing", "updn", "--dump", "lft"]);
        for format in ["ibnetdiscover", "ibsim", "json"] {
            let (written, _) = output_of(&["topo", path, "--format", format]);
            let (_folder, copy) = file("written", &written);
            let copy = [
                "route",
                as_text(&copy),
                "--routing",
                "updn",
                "--dump",
                "lft",
            ];
            let (again, warnings) = output_of(&copy);
            assert_eq!(warnings, "", "{format}");
            // ibsim's text lacks nothing that tables need.
            assert!(again == routed, "{format}: {again}\nnot\n{routed}");
        }
        for format in ["dot", "mermaid", "slurm"] {
            output_of(&["topo", path, "--format", format]);
        }
        output_of(&["verify", path, "--routing", "updn"]);
        let (_, warnings) = output_of(&["compare", path, "--routing", "minhop,updn,dfsssp"]);
        let noise = text.lines().filter(|line| line.contains("ibwarn")).count();
        let told = warnings
            .lines()
            .filter(|line| line.contains("ibwarn"))
            .count();
        assert!(told == noise.min(told), "{warnings}");
        let once = warnings.lines().all(|line| line.starts_with("warning: "));
        assert!(once, "{warnings}");
    }
}

#[test]
fn warnings_name_the_file_and_the_line_and_stand_beside_the_output() {
    let text = "ibwarn: [7] timeout\nSwitch 2 \"s0\"\n[1] \"h0\"[1]\n[2] \"h1\"[1]\n\
                Ca 1 \"h0\"\n[1] \"s0\"[1]\nCa 1 \"h1\"\n[1] \"s0\"[2]\n";
    let (_folder, path) = file("found.net", text);
    let path = as_text(&path);
    let (out, warnings) = output_of(&["topo", path, "--format", "net"]);
    assert!(out.starts_with("# ibsim network\n"), "{out}");
    assert_eq!(
        warnings,
        format!(
            "warning: {path}, line 1: this is neither a node, a port of a node, nor a setting: \
             \"ibwarn: [7] timeout\"\n"
        )
    );
}

#[test]
fn a_format_can_be_forced() {
    let (_folder, path) = file("tree.txt", "SwitchName=s0 Nodes=n[1-2]\n");
    let path = as_text(&path);
    output_of(&["topo", &format!("slurm:{path}")]);
    let (code, message) = failed(&["topo", &format!("lst:{path}")]);
    assert_eq!(code, 2);
    assert!(message.contains("line 1: this is neither"), "{message}");
}

#[test]
fn what_is_binary_or_endless_is_refused_at_once() {
    let zero = "/dev/zero";
    for arguments in [
        &["topo", zero][..],
        &["verify", "star-2", "--tables", zero],
        &["verify", "star-2", "--routing", "minhop", "--mft", zero],
        &["up", "star-2", "--routing", "file", "--tables", zero],
    ] {
        let (code, message) = failed(arguments);
        assert_eq!(code, 2, "{arguments:?}: {message}");
        assert!(
            message.contains("cannot read /dev/zero: byte 1 is 0: this is binary data"),
            "{arguments:?}: {message}"
        );
    }
    assert!(Path::new(zero).exists());
}

#[test]
fn formats_written_are_the_same_for_the_same_fabric() {
    for format in ["slurm", "dot", "mermaid", "json"] {
        let (text, _) = output_of(&["topo", "clos-2-2-2-2", "--format", format]);
        is_golden(&format!("clos-2-2-2-2.{format}"), &text);
    }
}
