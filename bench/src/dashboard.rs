//! The dashboard with many sessions: how soon it is there, and how much CPU it uses while nothing happens.
//!
//! Promise: the first picture counts when the last session of the list is known: the head of the picture says how many
//! run. Idle is idle: all sessions wait, no key is typed, and only the dashboard's own threads are counted.
//! Start with [`measure`].

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use crate::competitors::CurrentBerth;
use crate::measurement::BenchSettings;
use crate::report::{ReportSection, ReportTable, TargetLimit, TargetVerdict, cell};
use crate::stats::MeasuredSamples;
use crate::terminal::BenchTerminal;
use crate::workspace::PATIENCE;

/// Text in the head of the picture when all sessions are known.
const AT_WORK: &str = " at work";

pub(crate) fn measure(bench: &BenchSettings) -> Result<ReportSection> {
    let mut stage = bench.stage("p", &["berth"])?;
    let count: usize = bench.pick(100, 10);
    let rounds = bench.pick(20, 5);
    let idle_for = Duration::from_secs(bench.pick(60, 10));
    let (mut anything, mut everything) = (MeasuredSamples::default(), MeasuredSamples::default());
    let (mut idle, mut memory) = (None, None);
    let program = bench.programs.get("berth").cloned();
    stage.each(|lab, holder| {
        let berth = CurrentBerth { program: program.clone().context("berth is not installed")? };
        let mut running = Vec::new();
        while running.len() < count {
            running.push(lab.start(holder, "hang")?.session);
        }
        let all = format!("{count}{AT_WORK}");
        for _ in 0..rounds {
            let mut terminal = BenchTerminal::open(&berth.command(lab), lab.dir())?;
            let began_at = terminal.go()?;
            anything.push_ms(terminal.wait_for(b"\x1b[?1049h", PATIENCE)? - began_at);
            everything.push_ms(terminal.wait_for(all.as_bytes(), PATIENCE)? - began_at);
        }
        let mut terminal = BenchTerminal::open(&berth.command(lab), lab.dir())?;
        terminal.go()?;
        terminal.wait_for(all.as_bytes(), PATIENCE)?;
        // The first refresh and ages in seconds are over by then.
        terminal.settle(Duration::from_secs(bench.pick(30, 3)), Duration::from_secs(bench.pick(90, 5)))?;
        let cpu = || terminal.client().cpu_fine().context("the dashboard ended");
        let (before, began_at) = (cpu()?, Instant::now());
        let mut screen = terminal.screen()?;
        let deadline = began_at + idle_for;
        let mut buffer = [0; 16 << 10];
        // The bench has to read the picture.
        while crate::terminal::readable(&screen, deadline)? {
            std::io::Read::read(&mut screen, &mut buffer)
                .context("read from a terminal whose client ended")?;
        }
        idle = Some((cpu()? - before).as_secs_f64() / began_at.elapsed().as_secs_f64() * 100.0);
        memory = terminal.client().memory().map(|memory| memory.pss / 1024.0);
        drop(terminal);
        lab.stop(holder, &running)
    });
    let mut table =
        ReportTable::new(&["sessions", "terminal taken p50", "all shown p50", "p99", "idle", "memory"]);
    table.row([
        count.to_string(),
        cell(anything.median(), " ms"),
        cell(everything.median(), " ms"),
        cell(everything.quantile(0.99), " ms"),
        cell(idle, " %"),
        cell(memory, " MB"),
    ]);
    Ok(stage.close(ReportSection {
        title: "p. Dashboard",
        method: format!(
            "`berth` alone on a terminal of 120×40, {rounds} times, from its start to the picture that counts all \
             {count} sessions; then the processor time of the dashboard over {} s in which nothing happens.",
            idle_for.as_secs()
        ),
        table,
        verdicts: vec![
            TargetVerdict::new(
                format!("first picture with {count} sessions"),
                TargetLimit::AtMost(100.0),
                " ms",
                everything.median(),
            ),
            TargetVerdict::new(format!("idle with {count} sessions"), TargetLimit::AtMost(1.0), " %", idle),
        ],
        notes: Vec::new(),
        problems: Vec::new(),
    }))
}
