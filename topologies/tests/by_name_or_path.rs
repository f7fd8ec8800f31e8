//! What `topologies::parse` makes of names and of paths.
#![allow(clippy::unwrap_used, reason = "a test")]

use topologies::{TopologyError, parse, read_text, write_ibnetdiscover, write_net};

fn file(name: &str) -> String {
    format!("{}/files/{name}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn a_name_gives_its_graph_and_normal_form() {
    let topology = parse("clos-2-2-2-1").unwrap();
    assert_eq!(topology.name, "clos-2-2-2");
    assert_eq!(topology.graph.len(), 8);
    assert_eq!(topology, parse("clos-2-2-2").unwrap());
}

#[test]
fn the_sample_fabrics_are_what_the_generators_and_writers_give() {
    for name in ["fat-tree-4-3", "irregular-8-2-3-1"] {
        let topology = parse(name).unwrap();
        let net = parse(&file(&format!("{name}.net"))).unwrap();
        let discovered = parse(&file(&format!("{name}.ibnetdiscover"))).unwrap();
        assert_eq!(net.graph, topology.graph);
        assert_eq!(discovered.graph, topology.graph);
        for (path, written) in [
            (net.name, write_net(&topology.graph)),
            (discovered.name, write_ibnetdiscover(&topology.graph)),
        ] {
            assert_eq!(std::fs::read_to_string(&path).unwrap(), written, "{path}");
        }
    }
}

#[test]
fn a_sample_of_a_cluster_with_two_port_adapters_reads() {
    let graph = parse(&file("two-rails.net")).unwrap().graph;
    let host = graph.find("node1").unwrap();
    assert_eq!(graph.cables(host).count(), 2);
    assert_eq!(read_text(&write_net(&graph)).unwrap(), graph);
}

#[test]
fn a_path_that_leads_nowhere_is_an_unreadable_file_and_a_word_an_unknown_name() {
    assert!(matches!(
        parse("./no-such-file.net"),
        Err(TopologyError::Unreadable { .. })
    ));
    assert!(matches!(
        parse("butterfly-4-4"),
        Err(TopologyError::Unknown { .. })
    ));
    assert!(matches!(
        parse("fat-tree-5-3"),
        Err(TopologyError::Impossible { .. })
    ));
}

#[test]
fn a_broken_file_is_refused_with_path_and_line() {
    let mut broken = tempfile::NamedTempFile::with_suffix(".net").unwrap();
    std::io::Write::write_all(&mut broken, b"Switch 2 \"s0\"\n[1]\t\"h0\"[1]\n").unwrap();
    let path = broken.path().to_str().unwrap();
    assert_eq!(
        parse(path).unwrap_err().to_string(),
        format!("{path}:2: dangling link: port 1 of \"s0\" leads to \"h0\", which is not defined")
    );
}

#[test]
fn files_may_include_others_beside_them_and_errors_name_the_file_and_line_there() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let refused = |path: &str| parse(path).unwrap_err().to_string();

    let host = write("parts/host.net", "# a host\nHca 1 \"h\"\n[1] \"s\"[1]\n");
    let switch = write(
        "switch.net",
        "include \"parts/host.net\"\nwhat is this\nSwitch 2 \"s\"\n[1] \"h\"[1]\n",
    );
    let read = parse(&switch).unwrap();
    assert_eq!(read.graph.len(), 2);
    let warnings: Vec<String> = read.warnings.iter().map(ToString::to_string).collect();
    assert!(
        warnings[0].starts_with("line 2: this is neither"),
        "{warnings:?}"
    );

    write(
        "parts/host.net",
        "Hca 1 \"h\"\nwhat?\n[1] \"s\"[1]\n[2] \"s\"[2]\n",
    );
    let warnings = parse(&switch).unwrap().warnings;
    let first = warnings.iter().next().unwrap().to_string();
    assert!(first.starts_with(&format!("{host}, line 2: ")), "{first}");

    write("parts/host.net", "Hca 1 \"h\"\n[1] \"x\"[1]\n");
    assert!(refused(&switch).starts_with(&format!("{host}:2: dangling link")));

    let missing = write("missing.net", "\ninclude \"nowhere.net\"\n");
    let wanted = format!("{missing}:2: include \"nowhere.net\": there is no such file");
    assert_eq!(refused(&missing), wanted);
    write("zero.net", "a\0b");
    let binary = write("binary.net", "include \"zero.net\"\n");
    assert!(refused(&binary).contains("byte 2 is 0"));
    let endless = write("endless.net", &"include \"endless.net\"\n".repeat(9));
    let said = refused(&endless);
    assert!(said.contains("does one include itself?"), "{said}");
    write("empty.net", "");
    let many = write("many.net", &"include \"empty.net\"\n".repeat(1001));
    assert!(refused(&many).starts_with(&format!("{many}:1000: include: files within files")));
}
