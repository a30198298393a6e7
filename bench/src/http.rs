//! What the gateway takes for the question that is asked most: what is known about a session.
//!
//! Promise: the bare handler is axum, too, on as many threads, and gives the same bytes from memory; both are asked by
//! the same client, in turn, in the same run.
//! Start with [`measure`].

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};

use crate::gateway::Gateway;
use crate::peers::{self, Berth};
use crate::report::{Limit, Section, Table, Verdict, cell};
use crate::stage::Bench;
use crate::stats::{Samples, ratio};

/// The hidden verb of the bench that serves a file from memory.
pub(crate) const VERB: &str = "bare-server";
/// Connections of the client, all kept open.
const CONNECTIONS: &str = "-c32";

/// What one client measured of one server.
#[derive(Default)]
struct Asked {
    per_second: Samples,
    /// Microseconds.
    p50: Samples,
    p99: Samples,
}

pub(crate) fn measure(bench: &Bench) -> Result<Section> {
    let mut stage = bench.stage("r", &["berth"])?;
    let rounds = bench.pick(5, 1);
    let seconds = bench.pick(8, 2);
    let wrk = peers::find("wrk");
    let program = bench.programs.get("berth").cloned();
    let (mut gateway_asked, mut bare_asked) = (Asked::default(), Asked::default());
    let mut memory = None;
    stage.each(|lab, holder| {
        let wrk = wrk.as_ref().context("wrk is not installed")?;
        let berth = Berth { program: program.clone().context("berth is not installed")? };
        let session = lab.start(holder, "hang")?.session;
        let gateway = Gateway::start(lab, &berth)?;
        let path = format!("/v1/sessions/{}", session.name);
        let body = lab.dir().join("body");
        std::fs::write(&body, gateway.get(&path)?).context("write a body")?;
        let mut bare = Command::new(std::env::current_exe()?);
        let mut bare =
            bare.arg(VERB).arg(&body).stdout(Stdio::piped()).spawn().context("start a bare server")?;
        let mut address = String::new();
        BufReader::new(bare.stdout.take().context("piped")?).read_line(&mut address).context("hear of it")?;
        let done = (|| {
            for _ in 0..rounds {
                let ask = |url: &str, asked: &mut Asked| -> Result<()> {
                    let mut command = Command::new(wrk);
                    command.args(["-t1", CONNECTIONS, &format!("-d{seconds}s"), "--latency", "-H"]);
                    command.arg(format!("Authorization: Bearer {}", gateway.token)).arg(url);
                    let said = command.output().context("run wrk")?;
                    count(&String::from_utf8_lossy(&said.stdout), asked)
                };
                ask(&gateway.url(&path), &mut gateway_asked)?;
                ask(&format!("http://{}{path}", address.trim()), &mut bare_asked)?;
            }
            Ok(())
        })();
        memory = gateway.process().memory().map(|memory| memory.pss / 1024.0);
        let _ = bare.kill();
        let _ = bare.wait();
        drop(gateway);
        lab.stop(holder, &[session])?;
        done
    });
    let mut table = Table::new(&["server", "requests/s", "p50", "p99", "bare ÷ it"]);
    let (best, bare) = (gateway_asked.per_second.median(), bare_asked.per_second.median());
    for (name, asked) in [("berth serve", &gateway_asked), ("a bare axum handler", &bare_asked)] {
        table.row([
            name.to_owned(),
            cell(asked.per_second.median(), ""),
            cell(asked.p50.median(), " µs"),
            cell(asked.p99.median(), " µs"),
            cell(ratio(bare, asked.per_second.median()), "×"),
        ]);
    }
    Ok(stage.close(Section {
        title: "r. Asking the gateway",
        method: format!(
            "`GET /v1/sessions/ID` of a session that runs, with a token, over TCP on loopback: wrk with 32 connections \
             and one thread for {seconds} s, {rounds} times, in turn with an axum handler that gives the same bytes \
             from memory. Server and client share the processors."
        ),
        table,
        verdicts: vec![
            Verdict::new("requests per second", Limit::AtLeast(20_000.0), "", best),
            Verdict::ratio("bare handler's requests ÷ ours", Limit::AtMost(2.0), ratio(bare, best)),
        ],
        notes: vec![format!("Memory of the gateway after that: {}.", cell(memory, " MB"))],
        problems: Vec::new(),
    }))
}

/// Reads what wrk says.
fn count(said: &str, asked: &mut Asked) -> Result<()> {
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

/// Serves the bytes of a file for ever, whatever is asked.
pub(crate) fn serve(file: &std::path::Path) -> Result<()> {
    use axum::http::header::CONTENT_TYPE;
    let body = axum::body::Bytes::from(std::fs::read(file).context("read a body")?);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("a runtime")?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.context("listen")?;
        println!("{}", listener.local_addr().context("an address")?);
        let give = move || {
            let body = body.clone();
            async move { ([(CONTENT_TYPE, "application/json")], body) }
        };
        let router = axum::Router::new().route("/v1/sessions/{id}", axum::routing::get(give));
        axum::serve(listener, router).await.context("serve")
    })
}
