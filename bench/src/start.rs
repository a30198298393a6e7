//! Start until the command runs.
//!
//! Promise: the clock runs from just before the start command is spawned until the agent's
//! first act has reached us. Ending the session again is not part of it.
//! Start with [`measure`].

use anyhow::Result;

use crate::competitors::BERTH_BEFORE;
use crate::measurement::{BenchSettings, BySessionManager, against, against_before, median, ratio_cell};
use crate::report::{ReportSection, ReportTable, TargetLimit, TargetVerdict, cell};
use crate::stats::MeasuredSamples;

pub(crate) fn measure(bench: &BenchSettings) -> Result<ReportSection> {
    let mut stage = bench
        .stage("a", &["berth", BERTH_BEFORE, "tmux", "tmux, cold", "dtach", "abduco", "shpool", "screen"])?;
    let rounds = bench.pick(200, 15);
    let warm_up = 3;
    let mut running = BySessionManager::<MeasuredSamples>::new();
    let mut returned = BySessionManager::<MeasuredSamples>::new();
    for round in 0..warm_up + rounds {
        stage.each(|lab, holder| {
            let started = lab.start(holder, "hang")?;
            lab.stop(holder, &[started.session])?;
            if round >= warm_up {
                running.entry(holder.name()).or_default().push_ms(started.running_after);
                returned.entry(holder.name()).or_default().push_ms(started.returned_after);
            }
            Ok(())
        });
    }
    let mut table = ReportTable::new(&["holder", "runs p50", "runs p99", "returned p50", "berth ÷ it"]);
    for name in stage.names() {
        table.row([
            name.to_owned(),
            cell(median(&running, name), " ms"),
            cell(running.get(name).and_then(|samples| samples.quantile(0.99)), " ms"),
            cell(median(&returned, name), " ms"),
            ratio_cell(&running, name),
        ]);
    }
    Ok(stage.close(ReportSection {
        title: "a. Start until the command runs",
        method: format!(
            "{rounds} rounds, the holders in turn. From spawning the start command until the first write of the \
             started program arrived (runs), and until the start command had returned too (returned). tmux and \
             shpool have a server running; cold tmux has to start it."
        ),
        table,
        verdicts: [
            TargetVerdict::ratio("start: berth ÷ tmux", TargetLimit::AtMost(0.6), against(&running, "tmux")),
            TargetVerdict::ratio("start: berth ÷ dtach", TargetLimit::AtMost(1.3), against(&running, "dtach")),
        ]
        .into_iter()
        .chain(against_before("start", &running))
        .collect(),
        notes: Vec::new(),
        problems: Vec::new(),
    }))
}
