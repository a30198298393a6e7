//! Coming back to a full screen.
//!
//! Promise: the clock runs from executing the client until the last line of the screen has
//! reached the terminal.
//! Start with [`measure`].

use anyhow::{Context as _, Result};

use crate::competitors::BERTH_BEFORE;
use crate::measurement::{BenchSettings, BySessionManager, against, against_before, median, ratio_cell};
use crate::report::{ReportSection, ReportTable, TargetLimit, TargetVerdict, cell};
use crate::stats::MeasuredSamples;
use crate::terminal::{BenchTerminal, SIZE};
use crate::workspace::{BenchSession, PATIENCE};

/// 10,000 lines of the fake agent's flood, 66 bytes each, and one to look for.
const SCRIPT: &str = "flood:660000 say:THE-LAST-LINE hang";

pub(crate) fn measure(bench: &BenchSettings) -> Result<ReportSection> {
    // dtach and abduco keep no screen, so there is nothing to come back to.
    let mut stage = bench.stage("e", &["berth", BERTH_BEFORE, "tmux", "screen", "shpool"])?;
    let rounds = bench.pick(60, 8);
    let warm_up = 2;
    let mut sessions = BySessionManager::<BenchSession>::new();
    stage.each(|lab, holder| {
        sessions.insert(holder.name(), lab.start(holder, SCRIPT)?.session);
        Ok(())
    });
    let mut samples = BySessionManager::<MeasuredSamples>::new();
    for round in 0..warm_up + rounds {
        stage.each(|lab, holder| {
            let session = sessions.get(holder.name()).context("no session")?;
            let mut terminal = BenchTerminal::open(&holder.attach(lab, &session.name), lab.dir())?;
            let began_at = terminal.go()?;
            let drawn_at = terminal.wait_for(b"THE-LAST-LINE", PATIENCE)?;
            if round >= warm_up {
                samples.entry(holder.name()).or_default().push_ms(drawn_at - began_at);
            }
            Ok(())
        });
    }
    stage.each(|lab, holder| lab.stop(holder, &[sessions.remove(holder.name()).context("no session")?]));
    let mut table = ReportTable::new(&["holder", "p50", "p99", "berth ÷ it"]);
    for name in stage.names() {
        let quantile = |share| cell(samples.get(name).and_then(|samples| samples.quantile(share)), " ms");
        table.row([name.to_owned(), quantile(0.5), quantile(0.99), ratio_cell(&samples, name)]);
    }
    let berth = median(&samples, "berth").map(|ms| format!("berth's median is {ms:.2} ms."));
    Ok(stage.close(ReportSection {
        title: "e. Reattach to a full screen",
        method: format!(
            "{rounds} rounds, the holders in turn, {} × {} cells, 10,000 lines behind the screen (tmux keeps 2,000 of \
             them, screen 100: their defaults). From executing the client until the screen's last line was received. \
             The client before is killed, not detached.",
            SIZE.0, SIZE.1
        ),
        table,
        verdicts: [TargetVerdict::ratio("reattach: berth ÷ tmux", TargetLimit::AtMost(0.6), against(&samples, "tmux"))]
            .into_iter()
            .chain(against_before("reattach", &samples))
            .collect(),
        notes: berth.into_iter().collect(),
        problems: Vec::new(),
    }))
}
