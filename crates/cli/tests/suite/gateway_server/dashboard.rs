//! docs/grafana/berth.json: a real Prometheus reads the gateway and evaluates every query of it.

use std::collections::BTreeSet;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};

use berth_harness::{HttpResponse, ProcessKillGuard, exchange, request, retry};
use serde_json::Value;

use crate::gateway_server::lab;
use crate::gateway_server::metrics::agent;

const DASHBOARD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/grafana/berth.json");

/// Prometheus, until this is dropped.
struct PrometheusServer {
    /// Killed with the test.
    _child: ProcessKillGuard,
    address: String,
}

impl PrometheusServer {
    fn start(dir: &Path, target: &str) -> Self {
        let config = dir.join("prometheus.yml");
        let text = format!(
            "global: {{scrape_interval: 200ms}}\nscrape_configs:\n- job_name: berth\n  static_configs: [{{targets: ['{target}']}}]\n"
        );
        std::fs::write(&config, text).expect("a file");
        let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = free.local_addr().expect("an address").to_string();
        drop(free);
        let mut command = Command::new("prometheus");
        command.arg(format!("--config.file={}", config.display()));
        command.arg(format!("--storage.tsdb.path={}", dir.join("tsdb").display()));
        command.arg(format!("--web.listen-address={address}")).arg("--log.level=error");
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().expect("prometheus is installed: testing/tools/install");
        Self { _child: ProcessKillGuard::new(child), address }
    }

    fn get(&self, path: &str) -> Option<HttpResponse> {
        let stream = TcpStream::connect(&self.address).ok()?;
        Some(exchange(stream, &request("GET", path, &[], None)))
    }

    /// Waits until a query has a result; returns it.
    fn query(&self, query: &str) -> Value {
        let coded: String = query.bytes().map(|byte| format!("%{byte:02x}")).collect();
        retry(&format!("something to come of {query}"), || {
            let path = format!("/api/v1/query?query={coded}");
            let reply = self.get(&path).filter(|reply| reply.status != 503)?;
            assert_eq!(reply.status, 200, "{query}: {}", reply.text());
            let result = reply.ok()["data"]["result"].clone();
            result.as_array().is_some_and(|result| !result.is_empty()).then_some(result)
        })
    }
}

/// Every query of the dashboard, as Grafana would send it.
fn queries() -> Vec<String> {
    let dashboard: Value =
        serde_json::from_slice(&std::fs::read(DASHBOARD).expect("the dashboard")).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels").clone();
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().expect("targets").clone());
    let filled = |target: Value| {
        let query = target["expr"].as_str().expect("a query").to_owned();
        let query = query.replace("$job", ".*").replace("$__rate_interval", "1m").replace("$__range", "1m");
        assert!(!query.contains('$'), "{query}");
        query
    };
    targets.map(filled).collect()
}

#[test]
fn every_query_of_the_dashboard_gives_something() {
    let lab = lab();
    agent(&lab);
    let gateway = lab.serve_with(&["--listen", "127.0.0.1:0", "--open-metrics"]);
    lab.ok(["send", "fake", "--wait", "one"]);
    gateway.get("/v1/sessions/fake").ok();
    let prometheus = PrometheusServer::start(lab.dir(), gateway.address.as_deref().expect("an address"));
    let up = prometheus.query("berth_build_info");
    assert_eq!(up[0]["metric"]["job"], "berth");
    let queries = queries();
    assert!(queries.len() >= 20, "{}", queries.len());
    for query in &queries {
        prometheus.query(query);
    }
    // A turn that ends while the dashboard is open reaches it.
    let done =
        || prometheus.query("berth_turns_total{outcome=\"done\"}")[0]["value"][1].as_str().map(str::to_owned);
    assert_eq!(done().as_deref(), Some("1"));
    lab.ok(["send", "fake", "--wait", "two"]);
    berth_harness::wait_until("the second turn", || done().as_deref() == Some("2"));
    // The dashboard shows every number there is: a number that is never shown is one too many.
    let text = gateway.get("/metrics").text();
    let known: BTreeSet<&str> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    let unused: Vec<_> =
        known.iter().filter(|name| !queries.iter().any(|query| query.contains(**name))).collect();
    assert_eq!(unused, [&"berth_build_info", &"berth_turns_accepted"], "not on the dashboard");
}

#[test]
fn the_metrics_of_the_gateway_pass_the_check_of_promtool() {
    let lab = lab();
    agent(&lab);
    let gateway = lab.serve();
    let mut command = Command::new("promtool");
    let mut check = command
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool is installed: testing/tools/install");
    let text = gateway.get("/metrics").text();
    // promtool reads the older format, in which the name of a counter is written out and there are no units.
    let plain: Vec<String> = text
        .lines()
        .filter(|line| !line.starts_with("# UNIT") && *line != "# EOF")
        .map(|line| {
            let is_counter =
                text.contains(&format!("# TYPE {} counter", line.split(' ').nth(2).unwrap_or_default()));
            match line.split_once(' ').filter(|_| line.starts_with('#') && is_counter) {
                Some(_) => {
                    let mut words: Vec<&str> = line.splitn(4, ' ').collect();
                    let name = format!("{}_total", words[2]);
                    words[2] = &name;
                    words.join(" ")
                }
                None => line.to_owned(),
            }
        })
        .collect();
    std::io::Write::write_all(&mut check.stdin.take().expect("piped"), (plain.join("\n") + "\n").as_bytes())
        .expect("it listens");
    let said = check.wait_with_output().expect("it ends");
    assert!(said.status.success(), "{}\n{text}", String::from_utf8_lossy(&said.stderr));
}
