//! Ending many sessions at once.
//!
//! Promise: each holder ends the same programs with the commands its users type, all spawned at once; the time is until
//! the commands have returned and the last of the programs is gone.
//! Start with [`measure`].

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::competitors::{BERTH_BEFORE, SessionManager};
use crate::measurement::{BenchSettings, BySessionManager, against, median, ratio_cell};
use crate::report::{ReportSection, ReportTable, TargetLimit, TargetVerdict, cell};
use crate::stats::MeasuredSamples;
use crate::workspace::{self, BenchEnvironment, BenchSession, PATIENCE};

pub(crate) fn measure(bench: &BenchSettings) -> Result<ReportSection> {
    let mut stage = bench.stage("w", &["berth", BERTH_BEFORE, "tmux"])?;
    let (rounds, count) = bench.pick((7, 200), (2, 50));
    let mut gone = BySessionManager::<MeasuredSamples>::new();
    for _ in 0..rounds {
        stage.each(|lab, holder| {
            let took = end_all(lab, holder, count)?;
            gone.entry(holder.name()).or_default().push_ms(took);
            Ok(())
        });
    }
    let mut table = ReportTable::new(&["holder", "all gone p50", "slowest round", "berth ÷ it"]);
    for name in stage.names() {
        table.row([
            name.to_owned(),
            cell(median(&gone, name), " ms"),
            cell(gone.get(name).and_then(|samples| samples.quantile(1.0)), " ms"),
            ratio_cell(&gone, name),
        ]);
    }
    Ok(stage.close(ReportSection {
        title: "w. Ending many sessions",
        method: format!(
            "{count} sessions of a program that waits, ended with `berth stop --all --yes`, or with {count} commands \
             `tmux kill-session` spawned at once; {rounds} rounds, the holders in turn. Until the commands have \
             returned and the last program is gone."
        ),
        table,
        verdicts: vec![TargetVerdict::ratio(
            format!("stop --all of {count} ÷ tmux kill-session of {count}"),
            TargetLimit::AtMost(1.0),
            against(&gone, "tmux"),
        )],
        notes: Vec::new(),
        problems: Vec::new(),
    }))
}

fn end_all(lab: &mut BenchEnvironment, holder: &dyn SessionManager, count: usize) -> Result<Duration> {
    let mut launches = Vec::new();
    for _ in 0..count {
        launches.push(lab.launch(holder, "hang")?);
    }
    let mut agents = Vec::new();
    while agents.len() < count {
        let report = lab.report(Instant::now() + PATIENCE)?;
        agents.push(report.with_context(|| format!("only {} of {count} began", agents.len()))?);
    }
    let mut sessions: Vec<BenchSession> = Vec::new();
    for (launch, report) in launches.into_iter().zip(agents) {
        // The assignment of agents to sessions does not matter: all end.
        let name = lab.finish(holder, launch)?;
        sessions.push(lab.session(name, report)?);
    }
    let began_at = Instant::now();
    let mut ending = Vec::new();
    for mut command in holder.end_all(lab, &sessions) {
        ending.push(command.spawn().with_context(|| format!("end sessions of {}", holder.name()))?);
    }
    for mut command in ending {
        let status = command.wait().with_context(|| format!("end sessions of {}", holder.name()))?;
        if !status.success() {
            bail!("{} could not end its sessions ({status})", holder.name());
        }
    }
    let until = Instant::now() + PATIENCE;
    while sessions.iter().any(|session| session.agent.is_alive()) {
        if Instant::now() > until {
            bail!("not all sessions of {} ended", holder.name());
        }
        std::thread::sleep(Duration::from_micros(500));
    }
    let took = began_at.elapsed();
    // Keepers say goodbye after their sessions are over; the next holder is not to pay for that.
    lab.stop(holder, &sessions)?;
    workspace::reap();
    Ok(took)
}
