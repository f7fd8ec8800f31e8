//! Namespaces and cables as the kernel holds them. Needs root.

use std::path::Path;
use std::process::Command;

use clap::Parser;
use ibemu::cli::{Cli, Verb};
use ibemu::dir::FabricDir;
use ibemu::net::{self, CableEnd, Net};
use ibemu::process::ProcessRecord;
use ibemu::state::FabricState;
use ibemu::{setup, teardown};

/// A planned fabric of its own name in a directory of its own.
struct Bed {
    folder: tempfile::TempDir,
    dir: FabricDir,
    state: FabricState,
}

impl Bed {
    fn new(name: &str, topology: &str) -> Self {
        assert_eq!(
            netio::process::effective_uid(),
            0,
            "this test makes network namespaces: run it as root (tests/run.sh does)"
        );
        let fabric = format!("{name}-{}", std::process::id());
        let folder = tempfile::tempdir().expect("the test bed can be made");
        let dir = FabricDir::at(&folder.path().join(&fabric)).expect("the test bed can be made");
        let line = ["ibemu", "up", topology, "--fabric", &fabric];
        let Verb::Up(options) = Cli::try_parse_from(line)
            .expect("the test bed can be made")
            .verb
        else {
            panic!("not up");
        };
        let topology = topologies::parse(topology).expect("the test bed can be made");
        let own = ProcessRecord::own().expect("the test bed can be made");
        let state = FabricState::plan(dir.fabric(), &topology.graph, topology.name, &options, own)
            .expect("the test bed can be made");
        Self { folder, dir, state }
    }

    async fn create(&self) {
        setup::check_prerequisites().expect("the test bed can be made");
        setup::check_names(&self.state).expect("the test bed can be made");
        self.dir.create().expect("the test bed can be made");
        self.state
            .save(&self.dir)
            .expect("the test bed can be made");
        setup::create(&self.state, |_, _| {})
            .await
            .expect("the test bed can be made");
    }

    /// `ip` inside the namespace at `node`.
    fn ip(&self, node: usize, arguments: &[&str]) -> String {
        ip(&[&["-n", &self.state.namespaces[node]], arguments].concat())
    }

    fn namespaces(&self) -> Vec<String> {
        let prefix = self.state.fabric.namespace("");
        let all = ip(&["netns", "list"]);
        let names = all
            .lines()
            .filter_map(|line| line.split_whitespace().next());
        names
            .filter(|name| name.starts_with(&prefix))
            .map(str::to_owned)
            .collect()
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        for name in &self.state.namespaces {
            let _ = netio::namespace::Namespace::delete(name);
        }
    }
}

fn ip(arguments: &[&str]) -> String {
    let output = Command::new("ip")
        .args(arguments)
        .output()
        .expect("the test bed can be made");
    assert!(output.status.success(), "ip {arguments:?}: {output:?}");
    String::from_utf8(output.stdout).expect("the test bed can be made")
}

#[tokio::test]
async fn every_cable_joins_two_namespaces_labelled_up_and_without_ipv6() {
    let bed = Bed::new("cables", "star-2");
    bed.create().await;
    assert_eq!(bed.namespaces().len(), 3, "ip netns list shows them");
    for (node, ports) in bed.state.cable_counts().into_iter().enumerate() {
        for port in 1..=ports {
            let link = bed.ip(node, &["-d", "link", "show", "dev", &format!("p{port}")]);
            let label = format!("alias {}", bed.state.fabric.label());
            for part in [",UP,LOWER_UP>", "mtu 65535", "veth", &label] {
                assert!(link.contains(part), "no {part:?} in {link}");
            }
        }
        let addresses = bed.ip(node, &["-6", "address"]);
        assert!(
            !addresses.contains(" p1"),
            "no link-local address: {addresses}"
        );
        assert!(
            bed.ip(node, &["link", "show", "dev", "lo"])
                .contains("LOOPBACK,UP")
        );
    }
    let removed = teardown::down(&bed.dir).await.unwrap().unwrap();
    assert_eq!(removed.namespaces, 3);
    assert!(bed.namespaces().is_empty());
    assert!(!bed.dir.exists());
    assert_eq!(
        teardown::down(&bed.dir).await.unwrap(),
        None,
        "there is none any more"
    );
}

#[tokio::test]
async fn half_a_fabric_is_removed_and_a_strangers_namespace_stays() {
    let bed = Bed::new("half", "star-3");
    bed.dir.create().unwrap();
    bed.state.save(&bed.dir).unwrap();
    let label = bed.state.fabric.label();
    let _one = Net::create(&bed.state.namespaces[1], &label).await.unwrap();
    let stranger = bed.state.fabric.namespace("stranger");
    ip(&["netns", "add", &stranger]);
    let removed = teardown::down(&bed.dir).await.unwrap().unwrap();
    let left = bed.namespaces();
    ip(&["netns", "delete", &stranger]);
    assert_eq!(removed.namespaces, 1);
    assert_eq!(left, [stranger]);
    assert!(!bed.dir.exists());
}

#[tokio::test]
async fn a_fabric_whose_state_is_lost_is_found_by_its_labels() {
    let bed = Bed::new("lost", "star-2");
    bed.create().await;
    let stranger = bed.state.fabric.namespace("stranger");
    ip(&["netns", "add", &stranger]);
    std::fs::remove_dir_all(bed.dir.path()).unwrap();
    let removed = teardown::down(&bed.dir).await.unwrap().unwrap();
    let left = bed.namespaces();
    ip(&["netns", "delete", &stranger]);
    assert_eq!(removed.namespaces, 3);
    assert_eq!(left, [stranger]);
}

#[tokio::test]
async fn a_name_in_use_is_told_before_anything_is_created() {
    let bed = Bed::new("taken", "star-2");
    let taken = &bed.state.namespaces[2];
    ip(&["netns", "add", taken]);
    let refused = setup::check_names(&bed.state).unwrap_err().to_string();
    assert!(
        refused.contains(taken) && refused.contains("--fabric"),
        "{refused}"
    );
    assert!(!bed.folder.path().join(bed.state.fabric.as_str()).exists());
}

#[tokio::test]
async fn a_cable_is_pulled_plugged_and_made_anew_after_it_was_deleted() {
    let bed = Bed::new("pulled", "star-2");
    bed.create().await;
    let [a, b] = bed.state.links[0];
    let nets = [a, b].map(|end| Net::open(&bed.state.namespaces[end.node]).unwrap());
    let end = |side: usize| CableEnd {
        net: &nets[side],
        interface: bed.state.interface([a, b][side]),
    };
    let interface = bed.state.interface(a);
    let shown = || bed.ip(a.node, &["link", "show", "dev", &interface]);
    assert!(net::set_cable_end(&end(0), false).await.unwrap());
    assert!(shown().contains("state DOWN"), "{}", shown());
    assert!(net::set_cable_end(&end(0), true).await.unwrap());
    assert!(shown().contains("LOWER_UP"), "{}", shown());
    bed.ip(a.node, &["link", "delete", &interface]);
    assert!(!net::set_cable_end(&end(0), true).await.unwrap());
    assert!(
        !net::set_cable_end(&end(1), true).await.unwrap(),
        "its peer has gone with it"
    );
    net::create_cable(&end(0), &end(1), &bed.state.fabric.label())
        .await
        .unwrap();
    assert!(shown().contains("LOWER_UP"), "{}", shown());
    teardown::down(&bed.dir).await.unwrap();
    assert!(
        !Path::new("/run/netns")
            .join(&bed.state.namespaces[0])
            .exists()
    );
}

#[tokio::test]
async fn programs_inside_a_namespace_end_with_the_fabric() {
    let bed = Bed::new("guest", "star-2");
    bed.create().await;
    let mut guest = Command::new("ip")
        .args(["netns", "exec", &bed.state.namespaces[0], "sleep", "1000"])
        .spawn()
        .unwrap();
    // `ip netns exec` becomes the program once it is inside.
    let inside = |pid: u32| {
        let own = std::fs::read_link("/proc/self/ns/net").unwrap();
        std::fs::read_link(format!("/proc/{pid}/ns/net")).is_ok_and(|net| net != own)
    };
    while !inside(guest.id()) {
        tokio::task::yield_now().await;
    }
    let removed = teardown::down(&bed.dir).await.unwrap().unwrap();
    assert_eq!(removed.guests, 1);
    assert!(!guest.wait().unwrap().success());
}
