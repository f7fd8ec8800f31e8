//! Metrics, judged by Debian's Prometheus: what promtool says of the text, and what is told of a live fabric to queries.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use e2e::{Fabric, Outcome, Transport, named, within};
use serde_json::Value;

use super::web::Server;

/// How long a state may take to come about.
const LIMIT: Duration = Duration::from_secs(40);

/// A program of Debian's package prometheus, which `tests/run.sh` has unpacked.
fn prometheus_program(name: &str) -> PathBuf {
    let folder = "/usr/local/lib/ibemu-tests/prometheus/usr/bin";
    let program = PathBuf::from(folder).join(name);
    assert!(
        program.exists(),
        "{} is not there: tests/run.sh",
        program.display()
    );
    program
}

/// The token of the page in a file, as a service would keep it.
fn token_file() -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    write!(file, "0123456789abcdefABCDEF").expect("it is written");
    file
}

/// A Prometheus that scrapes one address.
struct Prometheus {
    process: Child,
    address: SocketAddr,
    _folder: tempfile::TempDir,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Prometheus {
    fn scrape(target: SocketAddr, token_file: &Path) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let config = format!(
            "global: {{scrape_interval: 1s, scrape_timeout: 1s}}\n\
             scrape_configs: [{{job_name: ibemu, static_configs: [{{targets: ['{target}']}}], \
             authorization: {{credentials_file: '{}'}}}}]\n",
            token_file.display()
        );
        let file = folder.path().join("prometheus.yml");
        std::fs::write(&file, config).expect("a file");
        // The port is free again when it is asked for: nobody else takes ports of this range one after the other.
        let free = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = free.local_addr().expect("an address");
        drop(free);
        let process = Command::new(prometheus_program("prometheus"))
            .arg(format!("--config.file={}", file.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                folder.path().join("data").display()
            ))
            .arg(format!("--web.listen-address={address}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("Prometheus starts");
        Self {
            process,
            address,
            _folder: folder,
        }
    }

    fn get(&self, path: &str, query: Option<&str>) -> Result<Value, String> {
        let mut curl = Command::new("curl");
        curl.args(["-sS", "--get", "--max-time", "10"]);
        if let Some(query) = query {
            curl.arg("--data-urlencode").arg(format!("query={query}"));
        }
        curl.arg(format!("http://{}/api/v1/{path}", self.address));
        let outcome = Outcome::of(&mut curl);
        let answer: Value =
            serde_json::from_str(&outcome.stdout).map_err(|_| outcome.to_string())?;
        match answer["status"] == "success" {
            true => Ok(answer["data"].clone()),
            false => Err(answer.to_string()),
        }
    }

    /// Waits for a scrape that has begun after now; when the last one was made.
    fn next_scrape(&self) -> String {
        let last = || {
            let targets = self.get("targets", None)?;
            let target = &targets["activeTargets"][0];
            match target["health"] == "up" {
                true => Ok(target["lastScrape"].to_string()),
                false => Err(target.to_string()),
            }
        };
        let mut before: Option<String> = None;
        let mut seen = 0;
        within(LIMIT, "a scrape", || {
            let now = last()?;
            // The second new one has begun after this was called.
            if before.as_ref() != Some(&now) {
                seen += 1;
                before = Some(now.clone());
            }
            match seen > 2 {
                true => Ok(now),
                false => Err(format!("{seen} scrapes")),
            }
        })
    }

    fn value(&self, query: &str) -> f64 {
        let data = self.get("query", Some(query)).expect("an answer");
        let text = data["result"][0]["value"][1].as_str();
        let value = text.and_then(|text| text.parse().ok());
        value.unwrap_or_else(|| panic!("{query}: {data}"))
    }
}

#[track_caller]
fn promtool_accepts(text: &str) {
    let mut promtool = Command::new(prometheus_program("promtool"))
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool starts");
    let mut input = promtool.stdin.take().expect("its input");
    input.write_all(text.as_bytes()).expect("it reads");
    drop(input);
    let output = promtool.wait_with_output().expect("it ends");
    let outcome = Outcome::told("promtool check metrics".to_owned(), &output);
    assert_eq!(
        (outcome.code, outcome.stderr.as_str()),
        (0, ""),
        "{outcome}"
    );
}

/// The queries of the dashboard that stands among the documents.
fn dashboard() -> Vec<String> {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../docs/grafana-dashboard.json"
    );
    let text = std::fs::read_to_string(path).expect("the dashboard");
    let dashboard: Value = serde_json::from_str(&text).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let targets = panels
        .iter()
        .flat_map(|panel| panel["targets"].as_array().expect("targets"));
    let queries = targets.map(|target| target["expr"].as_str().expect("a query"));
    queries
        .map(|query| query.replace("$__rate_interval", "30s"))
        .collect()
}

#[test]
fn prometheus_takes_what_a_fabric_counts_and_answers_what_perf_has_sent() {
    let fabric = Fabric::up(Transport::Udp, "fat-tree-4-3", &["--no-ip"]);
    let status = fabric.status();
    let devices = status["devices"].as_array().expect("devices");
    let hosts = devices.iter().filter(|device| device["kind"] == "host");
    let hosts: Vec<&str> = hosts.filter_map(|host| host["name"].as_str()).collect();
    let token = token_file();
    let path = token.path().to_str().expect("a path");
    let server = Server::of(&fabric, &["--token-file", path]);
    // Lanes are told by the devices in turn.
    let whole = within(LIMIT, "all is known", || {
        let metrics = server.ask(
            "GET",
            "/metrics",
            &[&server.bearer(), "Accept: text/plain"],
            "",
        );
        let lanes = metrics
            .body
            .lines()
            .filter(|line| line.starts_with("ibemu_lane_credit_bytes{"));
        let told: BTreeSet<&str> = lanes.filter_map(|line| line.split('"').nth(1)).collect();
        match told.len() {
            36 => Ok(metrics),
            told => Err(format!("{told} devices; {}", metrics.head)),
        }
    });
    promtool_accepts(&whole.body);
    promtool_accepts(&fabric.call(&["metrics", "--text"]).success().stdout);

    let prometheus = Prometheus::scrape(server.address, token.path());
    let _ = prometheus.next_scrape();
    let (source, sink) = (hosts[3], hosts[14]);
    let guid = fabric.device(source)["guid"].clone();
    let of = format!("{{guid={guid},port=\"1\"}}");
    let sent = format!("infiniband_hca_port_transmit_data_bytes_total{of}");
    let before = prometheus.value(&sent);
    let perf = fabric.call(&[
        "perf", source, sink, "--count", "5000", "--size", "1026", "--json",
    ]);
    let _ = perf.success();
    // What the port counts of a packet is from LRH to ICRC: without the two bytes of the VCRC.
    let bytes = 5000.0 * 1024.0;
    let own = || named(&fabric.host_ports(source)[0])["PortXmitData"] * 4;
    assert!(wire::convert::real(own()) >= before + bytes);
    let after = within(LIMIT, "the bytes are scraped", || {
        let _ = prometheus.next_scrape();
        let after = prometheus.value(&sent);
        match after - before >= bytes {
            true => Ok(after),
            false => Err(format!("{before} to {after}")),
        }
    });
    let counted = wire::convert::real(own());
    assert!(
        after <= counted,
        "{after} of {counted}: no more than the port has sent"
    );
    // Answers to the sampler's own datagrams are the rest.
    assert!(after - before < 1.1 * bytes, "{before} to {after}");

    for query in dashboard() {
        let data = prometheus.get("query", Some(&query)).expect("an answer");
        let result = data["result"].as_array().expect("a result");
        assert!(!result.is_empty(), "{query}: no data");
    }

    // Counters of a host that was restarted begin anew; the sums do not.
    let _ = fabric.call(&["restart", source]).success();
    within(LIMIT, "the restart is seen", || {
        let resets = prometheus.value(&format!("ibemu_port_resets_total{of}"));
        let _ = prometheus.next_scrape();
        match resets > 0.0 {
            true => Ok(()),
            false => Err("no reset".to_owned()),
        }
    });
    assert!(prometheus.value(&format!("resets({sent}[5m])")) == 0.0);
    assert!(prometheus.value(&sent) >= after);
    drop(server);
    fabric.down();
}
