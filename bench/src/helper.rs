//! Helpers: the time to ask for one that runs, and the memory of one.
//!
//! Start with [`measure`].

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::competitors::CurrentBerth;
use crate::measurement::BenchSettings;
use crate::process::BenchProcess;
use crate::report::{ReportSection, ReportTable, TargetLimit, TargetVerdict, cell};
use crate::stats::{MeasuredSamples, ratio};

const KIB_PER_MIB: f64 = 1024.0;
/// A keeper is idle when nothing has happened for this long; until then it may tidy up.
const IDLE_AFTER: Duration = Duration::from_secs(3);

pub(crate) fn measure(bench: &BenchSettings) -> Result<ReportSection> {
    let mut stage = bench.stage("k", &["berth"])?;
    let rounds = bench.pick(300, 10);
    let (mut ensures, mut trues) = (MeasuredSamples::default(), MeasuredSamples::default());
    let (mut session_pss, mut helper_pss) = (None, None);
    stage.each(|lab, holder| {
        let berth = CurrentBerth { program: bench.programs["berth"].clone() };
        let owner = lab.start(holder, "hang")?.session;
        let agent = lab.agent("hang");
        let ensure = || {
            let mut command = berth.command(lab);
            command
                .args(["helper", "ensure", "shared", "--scope", "user", "--owner", &owner.name, "--"])
                .args(&agent);
            command
        };
        if !ensure().status().context("run berth helper ensure")?.success() {
            bail!("the helper could not be started");
        }
        for _ in 0..rounds {
            let began_at = Instant::now();
            let status = ensure().status().context("run berth helper ensure")?;
            ensures.push_ms(began_at.elapsed());
            if !status.success() {
                bail!("the helper could not be joined ({status})");
            }
            let began_at = Instant::now();
            lab.command("true".as_ref()).status().context("run true")?;
            trues.push_ms(began_at.elapsed());
        }
        let mut show = berth.command(lab);
        let output =
            show.args(["helper", "show", "shared", "--json"]).stdout(std::process::Stdio::piped()).output();
        let shown: Value = serde_json::from_slice(&output.context("run berth helper show")?.stdout)
            .context("understand berth helper show --json")?;
        let keeper = shown["keeper_pid"].as_i64().and_then(|pid| pid.try_into().ok()).map(BenchProcess);
        std::thread::sleep(IDLE_AFTER);
        session_pss = owner.holder.memory().map(|memory| memory.pss / KIB_PER_MIB);
        helper_pss = keeper.and_then(BenchProcess::memory).map(|memory| memory.pss / KIB_PER_MIB);
        lab.stop(holder, &[owner])
    });
    let mut table = ReportTable::new(&["what", "p50", "p99"]);
    let row = |name: &str, times: &MeasuredSamples| {
        [name.to_owned(), cell(times.median(), " ms"), cell(times.quantile(0.99), " ms")]
    };
    table.row(row("helper ensure, running", &ensures));
    table.row(row("true, started the same way", &trues));
    table.row(["keeper of a session, idle".to_owned(), cell(session_pss, " MiB"), String::new()]);
    table.row(["keeper of a helper, idle".to_owned(), cell(helper_pss, " MiB"), String::new()]);
    Ok(stage.close(ReportSection {
        title: "k. Helpers",
        method: format!(
            "`berth helper ensure` by an owner of a helper that runs, from spawn to exit, {rounds} times, in turn with \
             `true`. Memory is PSS, {IDLE_AFTER:?} after the last request."
        ),
        table,
        verdicts: vec![
            TargetVerdict::new("helper ensure, running", TargetLimit::AtMost(5.0), " ms", ensures.median()),
            TargetVerdict::ratio("keeper: helper ÷ session, PSS", TargetLimit::AtMost(1.1), ratio(helper_pss, session_pss)),
        ],
        notes: Vec::new(),
        problems: Vec::new(),
    }))
}
