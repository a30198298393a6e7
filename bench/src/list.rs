//! Listing many sessions.
//!
//! Promise: nine of ten sessions have ended and one runs, and the list has them all.
//! Start with [`measure`].

use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::lab::{Lab, PATIENCE};
use crate::peers::Berth;
use crate::report::{Limit, Section, Table, Verdict, cell};
use crate::stage::Bench;
use crate::stats::{Samples, ratio};

pub(crate) fn measure(bench: &Bench) -> Result<Section> {
    let mut stage = bench.stage("g", &["berth"])?;
    let counts: &[usize] = bench.pick(&[10, 100, 1000], &[10, 50]);
    let rounds = bench.pick(40, 10);
    let mut samples: Vec<Samples> = Vec::new();
    let program = bench.programs.get("berth").cloned();
    stage.each(|lab, holder| {
        let berth = Berth { program: program.clone().context("berth is not installed")? };
        let (mut running, mut ended) = (Vec::new(), 0);
        for count in counts {
            while running.len() < count / 10 {
                running.push(lab.start(holder, "hang")?.session);
            }
            while ended < count - count / 10 {
                let mut command = berth.command(lab);
                let status = command.args(["run", "-d", "--", "true"]).status().context("run berth run")?;
                if !status.success() {
                    bail!("berth run -d -- true failed ({status})");
                }
                ended += 1;
            }
            settle(&berth, lab, *count, running.len())?;
            let mut times = Samples::default();
            for _ in 0..rounds {
                let began_at = Instant::now();
                berth.command(lab).args(["ls", "--all"]).status().context("run berth ls")?;
                times.push_ms(began_at.elapsed());
            }
            samples.push(times);
        }
        lab.stop(holder, &running)
    });
    let mut table = Table::new(&["sessions", "ls --all p50", "p99", "each"]);
    for (count, times) in counts.iter().zip(&samples) {
        let (p50, p99) = (times.median(), times.quantile(0.99));
        let each = p50.map(|ms| ms * 1e3 / *count as f64);
        table.row([count.to_string(), cell(p50, " ms"), cell(p99, " ms"), cell(each, " µs")]);
    }
    let median = |back: usize| samples.iter().rev().nth(back).and_then(Samples::median);
    let steps = counts.iter().rev().take(2).map(|count| *count as f64).collect::<Vec<_>>();
    let growth = ratio(median(0), median(1)).map(|times| times / (steps[0] / steps[1]));
    Ok(stage.close(Section {
        title: "g. Listing sessions",
        method: format!(
            "`berth ls --all` from spawn to exit, {rounds} times; one session in ten runs, nine have ended."
        ),
        table,
        verdicts: vec![
            Verdict::new(format!("ls of {} sessions", steps[0]), Limit::AtMost(50.0), " ms", median(0)),
            Verdict::ratio("ls, growth of time ÷ growth of list", Limit::AtMost(1.0), growth),
        ],
        notes: Vec::new(),
        problems: Vec::new(),
    }))
}

/// Waits until the list says what is true: `true` needs a moment to end.
fn settle(berth: &Berth, lab: &Lab, count: usize, running: usize) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let mut command = berth.command(lab);
        let output = command
            .args(["ls", "--all", "--json"])
            .stdout(Stdio::piped())
            .output()
            .context("run berth ls")?;
        let list: Vec<Value> =
            serde_json::from_slice(&output.stdout).context("understand berth ls --json")?;
        let listed = list.iter().filter(|session| session["state"] == "running").count();
        if (list.len(), listed) == (count, running) {
            return Ok(());
        }
        if Instant::now() > deadline {
            bail!("the list has {} sessions, {listed} running; wanted {count} and {running}", list.len());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}
