//! Many starts at once.
//!
//! Promise: a session counts as lost when its command never ran, even if the start command reported success.
//! Start with [`measure`].

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::competitors::{BERTH_BEFORE, BERTH_NAMED, SessionManager};
use crate::measurement::{BenchSettings, BySessionManager, against, median, ratio_cell};
use crate::report::{ReportSection, ReportTable, TargetLimit, TargetVerdict, cell};
use crate::stats::{MeasuredSamples, ratio};
use crate::workspace::{BenchEnvironment, BenchSession, PATIENCE};

pub(crate) fn measure(bench: &BenchSettings) -> Result<ReportSection> {
    let mut stage = bench
        .stage("b", &["berth", BERTH_NAMED, BERTH_BEFORE, "tmux", "dtach", "abduco", "screen", "shpool"])?;
    let (rounds, at_once) = bench.pick((7, 200), (2, 50));
    let mut all_ran = BySessionManager::<MeasuredSamples>::new();
    let mut lost = BySessionManager::<usize>::new();
    for round in 0..rounds {
        stage.each(|lab, holder| {
            // shpool takes a minute and loses sessions every time; once is enough to know.
            if holder.name() == "shpool" && round > 0 {
                return Ok(());
            }
            let (took, missing) = start_at_once(lab, holder, at_once)?;
            all_ran.entry(holder.name()).or_default().push_ms(took);
            *lost.entry(holder.name()).or_default() += missing;
            Ok(())
        });
    }
    let mut table = ReportTable::new(&["holder", "all running p50", "slowest round", "lost", "berth ÷ it"]);
    for name in stage.names() {
        let rounds = all_ran.get(name).map_or(0, MeasuredSamples::len);
        table.row([
            name.to_owned(),
            cell(median(&all_ran, name), " ms"),
            cell(all_ran.get(name).and_then(|samples| samples.quantile(1.0)), " ms"),
            format!("{} of {}", lost.get(name).unwrap_or(&0), rounds * at_once),
            ratio_cell(&all_ran, name),
        ]);
    }
    let lost = lost.get("berth").map(|lost| *lost as f64);
    Ok(stage.close(ReportSection {
        title: "b. Starts in parallel",
        method: format!(
            "{at_once} start commands spawned at once, {rounds} rounds (shpool: one), the holders in turn. From the \
             first spawn until the last of the started programs ran. Lost: the program did not run within \
             {PATIENCE:?} of the one before."
        ),
        table,
        verdicts: vec![
            TargetVerdict::ratio(format!("{at_once} at once: berth ÷ tmux"), TargetLimit::AtMost(0.5), against(&all_ran, "tmux")),
            TargetVerdict::ratio(
                format!("{at_once} starts at once with names ÷ without"),
                TargetLimit::AtMost(1.1),
                ratio(median(&all_ran, BERTH_NAMED), median(&all_ran, "berth")),
            ),
            TargetVerdict::new(format!("{at_once} at once: lost"), TargetLimit::AtMost(0.0), "", lost),
        ],
        notes: Vec::new(),
        problems: Vec::new(),
    }))
}

/// Starts all sessions at once. Returns the time until all ran that ever did, and how many never did.
fn start_at_once(
    lab: &mut BenchEnvironment,
    holder: &dyn SessionManager,
    count: usize,
) -> Result<(Duration, usize)> {
    let mut launches = Vec::new();
    for _ in 0..count {
        launches.push(lab.launch(holder, "hang")?);
    }
    let began_at = launches[0].began_at;
    let mut reports = Vec::new();
    while reports.len() < count {
        let Some(report) = lab.report(Instant::now() + PATIENCE)? else { break };
        reports.push(report);
    }
    let took = reports.last().map_or(PATIENCE, |report| report.at - began_at);
    for launch in launches {
        // A start that failed counts as lost.
        let _ = lab.finish(holder, launch);
    }
    // Ending the sessions does not need to know which name belongs to which agent.
    let sessions: Result<Vec<BenchSession>> =
        reports.iter().map(|report| lab.session(String::new(), *report)).collect();
    let sessions = sessions?;
    lab.stop(holder, &sessions)?;
    Ok((took, count - reports.len()))
}
