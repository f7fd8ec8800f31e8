//! Verbs of a fabric on several machines, from where jobs are submitted and from within the job.

use std::collections::BTreeSet;

use e2e::{Cluster, Outcome, ibemu};

use super::machine;

/// Where verbs are called.
#[derive(Clone, Copy)]
enum Place<'a> {
    /// Where jobs are submitted.
    Head,
    /// A machine of the job.
    Within(&'a str),
}

struct Caller<'a> {
    cluster: &'a Cluster,
    job: &'a str,
    place: Place<'a>,
}

impl Caller<'_> {
    fn call(&self, arguments: &[&str]) -> Outcome {
        let program = ibemu();
        let program = program.to_str().expect("UTF-8");
        let machine = match self.place {
            Place::Head => return self.cluster.ibemu(arguments),
            Place::Within(machine) => machine,
        };
        let mut line = vec!["srun", "--jobid", self.job, "--overlap", "--nodes=1"];
        line.extend(["--nodelist", machine, program]);
        line.extend(arguments);
        self.cluster.run("head", &line)
    }
}

/// Each host has its interface `ib0` in a namespace on its machine, and finds the others by name.
pub(super) fn programs_of_internet_addresses_reach_hosts_elsewhere(cluster: &Cluster) {
    let [near, far] = ["h0.0.0", "h3.1.1"];
    for version in ["-4", "-6"] {
        let ping = ["exec", near, "ping", version, "-c", "3", far];
        let ping = cluster.ibemu(&ping).success();
        assert!(ping.stdout.contains(" 3 received"), "{ping}");
    }
    let device = ["exec", far, "cat", "/sys/class/net/ib0/mtu"];
    let device = cluster.ibemu(&device).success();
    assert_eq!(device.stdout.trim(), "2044", "{device}");
    // Of the machine's own network nothing is there.
    let own = ["exec", far, "cat", "/sys/class/net/eth0/mtu"];
    assert_eq!(cluster.ibemu(&own).code, 1);
}

/// All verbs that speak to the fabric work, wherever they are called.
pub(super) fn work_everywhere(cluster: &Cluster) {
    let job = cluster.job();
    let [near, far] = ["h0.0.0", "h3.1.1"];
    let there = machine(cluster, far);
    assert_ne!(machine(cluster, near), there);
    for place in [Place::Head, Place::Within(&there)] {
        let caller = Caller {
            cluster,
            job: &job,
            place,
        };
        let status = caller.call(&["status", "--json"]).success().json();
        assert_eq!(status["links"]["active"], status["links"]["total"]);
        let ping = caller.call(&["ping", near, far]).success();
        assert!(ping.stdout.contains("5 sent, 5 answered"), "{ping}");
        let path = caller.call(&["path", near, far, "--json"]).success().json();
        assert!(path["hops"].as_array().map_or(0, Vec::len) > 2, "{path}");

        let test = ["mcast", "test", "--count", "2", "--json"];
        let report = caller.call(&test).success().json();
        assert_eq!(report["copies_received"], 2 * 16 * 16, "{report}");
        assert_eq!(report["duplicates"], 0, "{report}");

        let connect = ["qos", "connect", near, far, "--rate", "1M", "--json"];
        let id = caller.call(&connect).success().json()["id"].to_string();
        let list = caller.call(&["qos", "list", "--json"]).success().json();
        assert_eq!(list.as_array().map(Vec::len), Some(1), "{list}");
        let _ = caller.call(&["qos", "release", &id]).success();

        let shift = ["traffic", "shift-1", "--count", "20", "--json"];
        let report = caller.call(&shift).success().json();
        assert_eq!(report["flows"].as_array().map(Vec::len), Some(16));
        let perf = caller
            .call(&["perf", near, far, "--count", "100"])
            .success();
        assert!(perf.stdout.contains("whose clocks are not one"), "{perf}");

        let _ = caller.call(&["restart", "s1.0.0"]).success();
        let _ = caller.call(&["link", "down", "s1.0.0:1"]).success();
        let _ = caller.call(&["link", "up", "s1.0.0:1"]).success();
        cluster.wait_until("all links are up again", || {
            let status = caller.call(&["status", "--json"]).success().json();
            match status["links"]["active"] == status["links"]["total"] {
                true => Ok(()),
                false => Err(status["links"].to_string()),
            }
        });
        metrics_are_of_all_devices_and_processes_of_this_machine(&caller);
    }
    packets_and_events_are_seen_from_afar(cluster, far);
    the_page_is_served(cluster);
}

/// Of processes elsewhere nobody knows here what they use, and a process here may have the same number.
fn metrics_are_of_all_devices_and_processes_of_this_machine(caller: &Caller<'_>) {
    let metrics = caller.call(&["metrics"]).success();
    let names = |family: &str| -> BTreeSet<String> {
        let head = format!("{family}{{process=\"");
        let lines = metrics.stdout.lines();
        let names = lines.filter_map(|line| line.strip_prefix(&head)?.split_once('"'));
        names.map(|(name, _)| name.to_owned()).collect()
    };
    let status = caller.call(&["status", "--json"]).success().json();
    let devices = status["devices"].as_array().expect("devices").iter();
    let here: BTreeSet<String> = devices
        .filter(|device| match caller.place {
            Place::Head => false,
            Place::Within(machine) => device["machine"] == machine,
        })
        .map(|device| device["name"].as_str().expect("a name").to_owned())
        .collect();
    assert_eq!(names("ibemu_process_resident_memory_bytes"), here);
    // 36 devices, the controller and the supervisor.
    assert_eq!(names("ibemu_process_running").len(), 38, "{metrics}");
}

/// `capture` and `events`, called where jobs are submitted.
fn packets_and_events_are_seen_from_afar(cluster: &Cluster, far: &str) {
    let port = format!("{far}:1");
    let file = cluster.folder().join("packets.pcapng");
    let file = file.to_str().expect("UTF-8");
    let capture = ["capture", &port, "--rx", "--count", "3", "--write", file];
    let mut capturing = cluster.ibemu_command("head", &capture).spawn();
    let capturing = capturing.as_mut().expect("a capture");
    let events = ["events", "--json", "--kind", "process", "--count", "2"];
    let mut listening = cluster.ibemu_command("head", &events);
    let listening = listening.stdout(std::process::Stdio::piped()).spawn();
    let mut listening = listening.expect("a listener");
    // Whenever these have begun.
    cluster.wait_until("packets are captured", || {
        let _ = cluster.ibemu(&["ping", "h0.0.0", far]);
        match capturing.try_wait().expect("a process") {
            Some(status) if status.success() => Ok(()),
            Some(status) => panic!("{status}"),
            None => Err("it waits".to_owned()),
        }
    });
    let tshark = Outcome::of(std::process::Command::new("tshark").args(["-r", file])).success();
    assert_eq!(tshark.stdout.lines().count(), 3, "{tshark}");
    cluster.wait_until("events are told", || {
        let _ = cluster.ibemu(&["restart", far]).success();
        match listening.try_wait().expect("a process") {
            Some(status) if status.success() => Ok(()),
            Some(status) => panic!("{status}"),
            None => Err("it waits".to_owned()),
        }
    });
    let told = listening.wait_with_output().expect("what it says");
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    assert!(told.contains(far), "{told}");
}

/// The page, where jobs are submitted.
fn the_page_is_served(cluster: &Cluster) {
    let program = ibemu();
    let script = format!(
        "{} web --listen 127.0.0.1:8480 >/tmp/web & page=$!
        until grep -q token= /tmp/web; do sleep 0.05; done
        url=$(grep -o 'http://[^ ]*token=[^ ]*' /tmp/web | head -1)
        curl --silent --fail --cookie-jar /tmp/jar --location \"$url\" | head -c 4000
        kill $page; wait $page; rm -f /tmp/web /tmp/jar",
        program.display()
    );
    let page = cluster.run("head", &["bash", "-c", &script]);
    assert!(page.stdout.contains("<html"), "{page}");
}

/// The networks between machines lose one datagram in a thousand: links stay up, and nothing is lost of what crosses them.
pub(super) fn lost_datagrams_are_repeated(cluster: &Cluster) {
    let [near, far] = ["h0.0.0", "h3.1.1"];
    let namespace = cluster.namespace(&machine(cluster, far));
    let filter = |what: &str| {
        let inside = ["netns", "exec", &namespace, "iptables", what, "INPUT"];
        let every = [
            "-m",
            "statistic",
            "--mode",
            "nth",
            "--every",
            "1000",
            "--packet",
            "0",
        ];
        let mut command = std::process::Command::new("ip");
        command
            .args(inside)
            .args(["--in-interface", "eth0", "--protocol", "udp"]);
        let _ = Outcome::of(command.args(every).args(["--jump", "DROP"])).success();
    };
    let downed = || -> f64 {
        let metrics = cluster.ibemu(&["metrics"]).success();
        let lines = metrics.stdout.lines();
        let values = lines.filter(|line| line.contains("_port_link_downed_total{"));
        let values = values.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
        values.sum()
    };
    // Datagrams that were missed, and those with what was sent again.
    let counted = || {
        let status = cluster.ibemu(&["status", "--json"]).success().json();
        assert_eq!(status["links"]["active"], status["links"]["total"]);
        ["missing", "repeated"].map(|what| status["tunnels"][what].as_u64().unwrap_or(0))
    };
    let (downed_before, before) = (downed(), counted());
    filter("--append");
    cluster.wait_until("datagrams are lost and sent again", || {
        let perf = [
            "perf", near, far, "--count", "5000", "--window", "8", "--json",
        ];
        let report = cluster.ibemu(&perf).success().json();
        assert_eq!(report["total"]["lost"], 0, "{report}");
        match counted() {
            now if now[0] > before[0] && now[1] > before[1] => Ok(()),
            now => Err(format!("{now:?}, {before:?} before")),
        }
    });
    filter("--delete");
    assert_eq!(downed(), downed_before, "a link went down");
}
