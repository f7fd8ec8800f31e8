//! Hosts with several adapters and ports: each is the one that is meant.

use e2e::{Fabric, Outcome, Transport, diags};

use super::compiled;

/// A host with two adapters of two ports each, and one with two ports.
const TOPOLOGY: &str = r#"
Switch 8 "leaf"
[1] "rails mlx5_0"[1]
[2] "rails mlx5_0"[2]
[3] "rails mlx5_1"[1]
[4] "rails mlx5_1"[2]
[5] "pair HCA-1"[1]
[6] "pair HCA-1"[2]

Hca 2 "rails mlx5_0"
[1] "leaf"[1]
[2] "leaf"[2]

Hca 2 "rails mlx5_1"
[1] "leaf"[3]
[2] "leaf"[4]

Hca 2 "pair HCA-1"
[1] "leaf"[5]
[2] "leaf"[6]
"#;

/// A port as `status` reports it.
struct StatusPort {
    adapter: &'static str,
    port: u8,
    lid: String,
    guid: String,
}

fn status_ports(fabric: &Fabric, host: &str) -> Vec<StatusPort> {
    let ports = [("mlx5_0", 1), ("mlx5_0", 2), ("mlx5_1", 1), ("mlx5_1", 2)];
    let ports = ports.map(|(adapter, port)| {
        let device = match port {
            1 => fabric.device(&format!("{host} {adapter}")),
            _ => fabric.device(&format!("{host} {adapter}:{port}")),
        };
        StatusPort {
            adapter,
            port,
            lid: device["lid"].to_string(),
            guid: device["guid"].as_str().expect("a GUID").to_owned(),
        }
    });
    ports.into()
}

/// The text behind the name of a field.
fn field<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let rest = |line: &'t str| line.trim().strip_prefix(name)?.strip_prefix(':');
    let rest = text.lines().find_map(rest)?;
    Some(rest.trim_start_matches('.').trim())
}

fn every_port_is_the_one_that_is_meant(transport: Transport) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("rails.net");
    std::fs::write(&file, TOPOLOGY).expect("a file");
    let fabric = Fabric::up(transport, file.to_str().expect("UTF-8"), &[]);
    let host = "rails mlx5_0";
    let says = |call: &[&str]| diags(&fabric, host, call).success().stdout;
    assert_eq!(says(&["ibstat", "-l"]), "mlx5_0\nmlx5_1\n");
    let all = says(&["ibstat"]);
    for StatusPort {
        adapter,
        port,
        lid,
        guid,
    } in status_ports(&fabric, "rails")
    {
        let number = port.to_string();
        let of_all = all.split(&format!("CA '{adapter}'")).nth(1);
        let of_all = of_all.and_then(|text| text.split(&format!("Port {port}:")).nth(1));
        let of_all = of_all.unwrap_or_else(|| panic!("{adapter} port {port} in {all}"));
        let alone = says(&["ibstat", adapter, &number]);
        for text in [of_all, &alone] {
            assert_eq!(
                field(text, "Base lid"),
                Some(&*lid),
                "{adapter} {port}: {text}"
            );
            assert_eq!(field(text, "State"), Some("Active"), "{text}");
        }
        let by = ["-C", adapter, "-P", &number];
        let info = says(&[&["smpquery"][..], &by, &["nodeinfo", "-D", "0"]].concat());
        assert_eq!(field(&info, "LocalPort"), Some(&*number), "{info}");
        assert_eq!(field(&info, "NumPorts"), Some("2"), "{info}");
        assert_eq!(field(&info, "Guid"), Some(&*guid), "{info}");
        let info = says(&[&["smpquery"][..], &by, &["portinfo", "-D", "0", &number]].concat());
        assert_eq!(field(&info, "Lid"), Some(&*lid), "{info}");
        let counted = says(&[&["perfquery"][..], &by].concat());
        let title = format!("# Port counters: Lid {lid} port {port} ");
        assert!(counted.contains(&title), "{title} in {counted}");
        let address = says(&[&["ibaddr", "-L"][..], &by].concat());
        assert!(
            address.contains(&format!("LID start {lid} ")),
            "{lid}: {address}"
        );
        // A port that is named together with the host is the one that a program gets that names none.
        let beside = match port {
            1 => format!("rails {adapter}"),
            _ => format!("rails {adapter}:{port}"),
        };
        let address = diags(&fabric, &beside, &["ibaddr", "-L"]).success().stdout;
        assert!(
            address.contains(&format!("LID start {lid} ")),
            "{lid}: {address}"
        );
    }
    let program = compiled(folder.path(), "symbols.c");
    for (host, adapters) in [(host, "2"), ("rails mlx5_1:2", "2"), ("pair HCA-1", "1")] {
        let mut call = fabric.command(&["exec", host]);
        let outcome = Outcome::of(call.arg(&program).arg(adapters)).success();
        assert_eq!(outcome.stdout, "ok\n", "{host}");
    }
    fabric.assert_no_errors_logged();
    fabric.down();
}

#[test]
fn every_port_of_two_adapters_is_the_one_that_is_meant_over_veth() {
    every_port_is_the_one_that_is_meant(Transport::Veth);
}

#[test]
fn every_port_of_two_adapters_is_the_one_that_is_meant_over_udp() {
    every_port_is_the_one_that_is_meant(Transport::Udp);
}
