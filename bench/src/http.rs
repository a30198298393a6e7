//! The gateway under its most frequent request: the status of a session.
//!
//! Start with [`measure`].

use std::process::Command;

use anyhow::{Context as _, Result};

use crate::competitors::{self, CurrentBerth};
use crate::gateway::BenchGateway;
use crate::measurement::BenchSettings;
use crate::report::{ReportSection, ReportTable, TargetLimit, TargetVerdict, cell};
use crate::stats::MeasuredSamples;

/// Connections of the client, all kept open.
const CONNECTIONS: &str = "-c32";

/// Measurements of the client.
#[derive(Default)]
struct HttpLoadResult {
    per_second: MeasuredSamples,
    /// Latency in microseconds.
    p50: MeasuredSamples,
    p99: MeasuredSamples,
}

pub(crate) fn measure(bench: &BenchSettings) -> Result<ReportSection> {
    let mut stage = bench.stage("r", &["berth"])?;
    let rounds = bench.pick(5, 1);
    let seconds = bench.pick(8, 2);
    let wrk = competitors::find("wrk");
    let program = bench.programs.get("berth").cloned();
    let mut asked = HttpLoadResult::default();
    let mut memory = None;
    stage.each(|lab, holder| {
        let wrk = wrk.as_ref().context("wrk is not installed")?;
        let berth = CurrentBerth { program: program.clone().context("berth is not installed")? };
        let session = lab.start(holder, "hang")?.session;
        let gateway = BenchGateway::start(lab, &berth)?;
        let path = format!("/v1/sessions/{}", session.name);
        let done = (|| {
            for _ in 0..rounds {
                let mut command = Command::new(wrk);
                command.args(["-t1", CONNECTIONS, &format!("-d{seconds}s"), "--latency", "-H"]);
                command.arg(format!("Authorization: Bearer {}", gateway.token)).arg(gateway.url(&path));
                let said = command.output().context("run wrk")?;
                count(&String::from_utf8_lossy(&said.stdout), &mut asked)?;
            }
            Ok(())
        })();
        memory = gateway.process().memory().map(|memory| memory.pss / 1024.0);
        drop(gateway);
        lab.stop(holder, &[session])?;
        done
    });
    let mut table = ReportTable::new(&["server", "requests/s", "p50", "p99"]);
    let per_second = asked.per_second.median();
    table.row([
        "berth serve".to_owned(),
        cell(per_second, ""),
        cell(asked.p50.median(), " µs"),
        cell(asked.p99.median(), " µs"),
    ]);
    Ok(stage.close(ReportSection {
        title: "r. Asking the gateway",
        method: format!(
            "`GET /v1/sessions/ID` of a session that runs, with a token, over TCP on loopback: wrk with 32 connections \
             and one thread for {seconds} s, {rounds} times. Server and client share the processors."
        ),
        table,
        verdicts: vec![TargetVerdict::new("requests per second", TargetLimit::AtLeast(20_000.0), "", per_second)],
        notes: vec![format!("Memory of the gateway after that: {}.", cell(memory, " MB"))],
        problems: Vec::new(),
    }))
}

/// Reads what wrk says.
fn count(said: &str, asked: &mut HttpLoadResult) -> Result<()> {
    let after = |label: &str| -> Option<&str> {
        said.lines().find_map(|line| line.trim().strip_prefix(label)).map(str::trim)
    };
    let per_second = after("Requests/sec:").and_then(|value| value.parse().ok());
    asked.per_second.push(per_second.with_context(|| format!("wrk said: {said}"))?);
    for (label, samples) in [("50%", &mut asked.p50), ("99%", &mut asked.p99)] {
        if let Some(us) = after(label).and_then(microseconds) {
            samples.push(us);
        }
    }
    if let Some(bad) = after("Non-2xx or 3xx responses:") {
        anyhow::bail!("{bad} answers were no success");
    }
    Ok(())
}

fn microseconds(text: &str) -> Option<f64> {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let number: f64 = text.strip_suffix(unit)?.parse().ok()?;
    match unit {
        "us" => Some(number),
        "ms" => Some(number * 1e3),
        "s" => Some(number * 1e6),
        _ => None,
    }
}
