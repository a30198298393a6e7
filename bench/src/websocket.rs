//! A terminal in a browser: from a key to its echo, and a flood that the browser does not read.
//!
//! Promise: both clients have a session of one kind; the local client is `berth attach` in a terminal of the bench's,
//! the other one a WebSocket. The flood is timed until the program's last write has returned.
//! Start with [`measure`].

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use berth_harness::tungstenite::{Message, WebSocket};

use crate::competitors::{CurrentBerth, SessionManager};
use crate::gateway::BenchGateway;
use crate::measurement::BenchSettings;
use crate::report::{ReportSection, ReportTable, TargetLimit, TargetVerdict, cell};
use crate::stats::{MeasuredSamples, ratio};
use crate::terminal::BenchTerminal;
use crate::workspace::{BenchEnvironment, PATIENCE};

/// A new key each time; see `echo`.
const KEYS: &[u8] = b"jkxy";
/// Keys typed one after the other before the other's turn.
const BURST: usize = 20;

pub(crate) fn measure(bench: &BenchSettings) -> Result<ReportSection> {
    let mut stage = bench.stage("t", &["berth"])?;
    let keys = bench.pick(1000, 100);
    let size_mb: u64 = bench.pick(50, 10);
    let rounds = bench.pick(12, 1);
    let program = bench.programs.get("berth").cloned();
    let (mut local, mut socket) = (MeasuredSamples::default(), MeasuredSamples::default());
    let (mut alone, mut slow) = (MeasuredSamples::default(), MeasuredSamples::default());
    let mut memory = None;
    stage.each(|lab, holder| {
        let berth = CurrentBerth { program: program.clone().context("berth is not installed")? };
        let gateway = BenchGateway::start(lab, &berth)?;
        let (near, far) = (lab.start(holder, "echo")?.session, lab.start(holder, "echo")?.session);
        let mut terminal = BenchTerminal::open(&holder.attach(lab, &near.name), lab.dir())?;
        terminal.go()?;
        terminal.settle(Duration::from_millis(300), PATIENCE)?;
        let mut browser = gateway.terminal(&far.name, "writer")?;
        for turn in 0..(keys / BURST) + 2 {
            for number in 0..BURST {
                let key = KEYS[(turn * BURST + number) % KEYS.len()];
                let typed_at = Instant::now();
                terminal.type_key(key)?;
                let near_took = terminal.wait_for(&[key], PATIENCE)? - typed_at;
                let typed_at = Instant::now();
                browser.send(Message::binary(vec![key])).context("type a key")?;
                heard(&mut browser, key)?;
                let far_took = typed_at.elapsed();
                // The first of all are to get warm.
                if turn >= 2 {
                    local.push(near_took.as_secs_f64() * 1e6);
                    socket.push(far_took.as_secs_f64() * 1e6);
                }
            }
        }
        drop((terminal, browser));
        lab.stop(holder, &[near, far])?;
        for round in 0..rounds {
            // In changing order: writes that one leaves to the disk slow down the next one.
            for is_watched in [round % 2 == 0, round % 2 == 1] {
                let took = flood(lab, holder, size_mb, is_watched.then_some(&gateway))?;
                let samples = if is_watched { &mut slow } else { &mut alone };
                samples.push(size_mb as f64 / took.as_secs_f64());
            }
        }
        memory = gateway.process().memory().map(|memory| memory.pss / 1024.0);
        Ok(())
    });
    let mut table = ReportTable::new(&["what", "local", "WebSocket", "WebSocket ÷ local"]);
    for (name, share) in [("key to echo p50", 0.5), ("key to echo p99", 0.99)] {
        let (near, far) = (local.quantile(share), socket.quantile(share));
        table.row([name.to_owned(), cell(near, " µs"), cell(far, " µs"), cell(ratio(far, near), "×")]);
    }
    table.row([
        format!("{size_mb} MB of output, MB/s"),
        cell(alone.median(), " (no client)"),
        cell(slow.median(), " (reads nothing)"),
        cell(ratio(slow.median(), alone.median()), "×"),
    ]);
    Ok(stage.close(ReportSection {
        title: "t. A terminal over WebSocket",
        method: format!(
            "{keys} keys each, in turn: into `berth attach` in a terminal of the bench's, and into a WebSocket of the \
             gateway over TCP on loopback; the programs echo in raw mode. Then {size_mb} MB of text without a \
             client, and with a WebSocket that reads nothing, {rounds} times in changing order."
        ),
        table,
        verdicts: vec![
            TargetVerdict::ratio(
                "key to echo p50: WebSocket ÷ local attach",
                TargetLimit::AtMost(2.0),
                ratio(socket.median(), local.median()),
            ),
            TargetVerdict::ratio(
                "output, browser that reads nothing ÷ no client",
                TargetLimit::AtLeast(0.95),
                ratio(slow.median(), alone.median()),
            ),
        ],
        notes: vec![format!("Memory of the gateway after that: {}.", cell(memory, " MB"))],
        problems: Vec::new(),
    }))
}

/// Waits for the echo of a key.
fn heard(browser: &mut WebSocket<std::net::TcpStream>, key: u8) -> Result<()> {
    loop {
        match browser.read().context("hear the echo")? {
            Message::Binary(bytes) if bytes.contains(&key) => return Ok(()),
            Message::Close(why) => bail!("the terminal was closed: {why:?}"),
            _ => {}
        }
    }
}

/// How long the program takes to write so much.
fn flood(
    lab: &mut BenchEnvironment,
    holder: &dyn SessionManager,
    size_mb: u64,
    gateway: Option<&BenchGateway>,
) -> Result<Duration> {
    let go = lab.fresh_path();
    let script = format!("wait-file:{} flood:{size_mb}M REPORT hang", go.display());
    let session = lab.start(holder, &script)?.session;
    let browser = gateway.map(|gateway| gateway.terminal(&session.name, "observer")).transpose()?;
    let began_at = Instant::now();
    std::fs::write(&go, "").context("begin the flood")?;
    let ended_at = lab.report_of(session.agent, 2, PATIENCE * 6)?.context("the flood did not end")?;
    drop(browser);
    lab.stop(holder, &[session])?;
    Ok(ended_at - began_at)
}
