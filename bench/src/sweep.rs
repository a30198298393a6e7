//! A sweep over many sessions, beside a plain walk of /proc.
//!
//! Promise: both are measured in turn with the same processes there.
//! Start with [`measure`].

use std::io::Read as _;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::competitors::CurrentBerth;
use crate::measurement::BenchSettings;
use crate::report::{ReportSection, ReportTable, TargetLimit, TargetVerdict, cell};
use crate::stats::{MeasuredSamples, ratio};

/// Processes in each session.
const EACH: usize = 5;

pub(crate) fn measure(bench: &BenchSettings) -> Result<ReportSection> {
    let mut stage = bench.stage("j", &["berth"])?;
    let count = bench.pick(1000, 20);
    let rounds = bench.pick(15, 3);
    let (mut sweeps, mut walks, mut processes) = (MeasuredSamples::default(), MeasuredSamples::default(), 0);
    stage.each(|lab, holder| {
        let berth = CurrentBerth { program: bench.programs["berth"].clone() };
        let mut running = Vec::new();
        for _ in 0..count {
            let script = format!("loop:{} [ child [ hang ] ] hang", EACH - 1);
            running.push(lab.start(holder, &script)?.session);
        }
        for _ in 0..rounds {
            let began_at = Instant::now();
            let output =
                berth.command(lab).args(["sweep", "--json"]).stdout(std::process::Stdio::piped()).output();
            sweeps.push_ms(began_at.elapsed());
            let output = output.context("run berth sweep")?;
            let found: Value =
                serde_json::from_slice(&output.stdout).context("understand berth sweep --json")?;
            let alive = found["alive"].as_array().map_or(0, Vec::len);
            if alive != count || !output.status.success() {
                bail!("sweep found {alive} of {count} sessions alive ({})", output.status);
            }
            let began_at = Instant::now();
            processes = walk()?;
            walks.push_ms(began_at.elapsed());
        }
        lab.stop(holder, &running)
    });
    let mut table = ReportTable::new(&["what", "p50", "p99"]);
    table.row(["berth sweep".to_owned(), cell(sweeps.median(), " ms"), cell(sweeps.quantile(0.99), " ms")]);
    table.row(["plain walk".to_owned(), cell(walks.median(), " ms"), cell(walks.quantile(0.99), " ms")]);
    let times = ratio(sweeps.median(), walks.median());
    Ok(stage.close(ReportSection {
        title: "j. Sweeping",
        method: format!(
            "{count} sessions of {EACH} processes and a keeper each; {processes} processes on the machine. `berth \
             sweep --json` from spawn to exit, beside one walk of /proc that opens and reads the `stat` of every \
             process, {rounds} times in turn."
        ),
        table,
        verdicts: vec![TargetVerdict::ratio("sweep ÷ plain walk of /proc", TargetLimit::AtMost(1.5), times)],
        notes: Vec::new(),
        problems: Vec::new(),
    }))
}

/// Reads the `stat` of every process; how many there are.
fn walk() -> Result<usize> {
    let mut text = Vec::new();
    let mut count = 0;
    for entry in std::fs::read_dir("/proc").context("list /proc")?.flatten() {
        let name = entry.file_name();
        if name.to_str().is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
            && let Ok(mut file) = std::fs::File::open(entry.path().join("stat"))
        {
            text.clear();
            count += usize::from(file.read_to_end(&mut text).is_ok());
        }
    }
    Ok(count)
}
