//! Memory and CPU of sessions that do nothing.
//!
//! Promise: only the holders' processes are counted, not the programs in the sessions; a server
//! shared by all sessions is divided by their number.
//! Start with [`measure`].

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::competitors::BERTH_BEFORE;
use crate::competitors::SessionManager;
use crate::measurement::{BenchSettings, BySessionManager};
use crate::process::{BenchProcess, ProcessMemory};
use crate::report::{ReportSection, ReportTable, TargetLimit, TargetVerdict, cell};
use crate::workspace::{BenchEnvironment, BenchSession, PATIENCE};

const KIB_PER_MIB: f64 = 1024.0;
/// A session is idle when nothing has happened for this long; until then a holder may tidy up.
const IDLE_AFTER: Duration = Duration::from_secs(3);

pub(crate) fn measure(bench: &BenchSettings) -> Result<ReportSection> {
    let mut stage =
        bench.stage("f", &["berth", BERTH_BEFORE, "dtach", "abduco", "tmux", "screen", "shpool"])?;
    let counts: &[usize] = bench.pick(&[1, 10, 100, 500], &[1, 10, 50]);
    let watch = bench.pick(Duration::from_secs(10), Duration::from_secs(2));
    let most = *counts.last().expect("there is a list of counts");
    let mut idle = BySessionManager::<Vec<ProcessMemory>>::new();
    let mut cpu = BySessionManager::<f64>::new();
    let mut flooded = BySessionManager::<f64>::new();
    stage.each(|lab, holder| {
        flooded.insert(holder.name(), growth_by_flood(lab, holder)?);
        let mut sessions = Vec::new();
        for count in counts {
            while sessions.len() < *count {
                sessions.push(lab.start(holder, "hang")?.session);
            }
            std::thread::sleep(IDLE_AFTER);
            idle.entry(holder.name()).or_default().push(per_session(&sessions)?);
        }
        let before = cpu_of(&sessions)?;
        std::thread::sleep(watch);
        cpu.insert(holder.name(), (cpu_of(&sessions)? - before).as_secs_f64() * 1e3);
        lab.stop(holder, &sessions)
    });

    let mut head = vec!["holder".to_owned()];
    head.extend(counts.iter().map(|count| format!("PSS at {count}")));
    head.extend([
        format!("of it anonymous at {most}"),
        format!("CPU in {watch:?}"),
        "after 50 MB".to_owned(),
    ]);
    let mut table = ReportTable::new(&head.iter().map(String::as_str).collect::<Vec<_>>());
    for name in stage.names() {
        let memory = &idle[name];
        let mut row = vec![name.to_owned()];
        row.extend(memory.iter().map(|memory| cell(Some(memory.pss / KIB_PER_MIB), " MiB")));
        row.push(cell(memory.last().map(|memory| memory.anonymous / KIB_PER_MIB), " MiB"));
        row.push(cell(cpu.get(name).copied(), " ms"));
        row.push(flooded.get(name).map_or("–".to_owned(), |kib| format!("{:+.2} MiB", kib / KIB_PER_MIB)));
        table.row(row);
    }
    let anonymous = |name: &str| idle.get(name)?.last().map(|memory| memory.anonymous);
    let against_before = anonymous("berth").zip(anonymous(BERTH_BEFORE)).map(|(now, before)| {
        TargetVerdict::ratio(
            "anonymous memory of a session: berth ÷ before",
            TargetLimit::AtMost(1.05),
            Some(now / before),
        )
    });
    let berth = idle.get("berth").map(|memory| memory.iter().map(|memory| memory.pss / KIB_PER_MIB));
    let worst = berth.clone().and_then(|sizes| sizes.reduce(f64::max));
    let growth = berth.and_then(|mut sizes| Some(sizes.next_back()? / sizes.next()?));
    let flooded = flooded.get("berth").map(|kib| kib / KIB_PER_MIB);
    let share = cpu.get("berth").map(|ms| ms / watch.as_secs_f64() / 10.0);
    Ok(stage.close(ReportSection {
        title: "f. Memory and CPU of an idle session",
        method: format!(
            "PSS (smaps_rollup) of all the holder's processes divided by the number of sessions, with 1, 10, … \
             sessions, {IDLE_AFTER:?} after the last was started; the programs in them are not counted. A server's \
             own size is in the figure for 1. CPU is the time all {most} together spent on a CPU while nothing \
             happened. After 50 MB: growth of the holder of one session, {IDLE_AFTER:?} after it took 50 MB of output."
        ),
        table,
        verdicts: [

            TargetVerdict::new("idle session, largest", TargetLimit::AtMost(1.0), " MiB", worst),
            TargetVerdict::ratio(format!("idle session, at {most} ÷ at 1"), TargetLimit::AtMost(1.1), growth),
            // Nothing that a user could notice.
            TargetVerdict::new(format!("idle CPU of {most} sessions together"), TargetLimit::AtMost(0.1), " %", share),
            TargetVerdict::new("growth by a flood of 50 MB", TargetLimit::AtMost(2.0), " MiB", flooded),
        ]
        .into_iter()
        .chain(against_before)
        .collect(),
        notes: Vec::new(),
        problems: Vec::new(),
    }))
}

/// By how many KiB the holder of one session grows when it has taken 50 MB.
fn growth_by_flood(lab: &mut BenchEnvironment, holder: &dyn SessionManager) -> Result<f64> {
    let go = lab.fresh_path();
    let session = lab.start(holder, &format!("wait-file:{} flood:50M REPORT hang", go.display()))?.session;
    std::thread::sleep(IDLE_AFTER);
    let before = per_session(std::slice::from_ref(&session))?;
    std::fs::write(&go, "").context("begin the flood")?;
    lab.report_of(session.agent, 2, PATIENCE * 6)?.context("the flood did not end")?;
    std::thread::sleep(IDLE_AFTER);
    let after = per_session(std::slice::from_ref(&session))?;
    lab.stop(holder, &[session])?;
    Ok(after.pss - before.pss)
}

fn holders(sessions: &[BenchSession]) -> BTreeSet<BenchProcess> {
    sessions.iter().map(|session| session.holder).collect()
}

fn per_session(sessions: &[BenchSession]) -> Result<ProcessMemory> {
    let mut total = ProcessMemory::default();
    for holder in holders(sessions) {
        let memory = holder.memory().with_context(|| format!("read the memory of process {}", holder.0))?;
        total.pss += memory.pss;
        total.anonymous += memory.anonymous;
    }
    let count = sessions.len() as f64;
    Ok(ProcessMemory { pss: total.pss / count, anonymous: total.anonymous / count })
}

fn cpu_of(sessions: &[BenchSession]) -> Result<Duration> {
    let spent = |holder: BenchProcess| {
        holder.cpu_fine().with_context(|| format!("read the CPU of process {}", holder.0))
    };
    holders(sessions).into_iter().map(spent).sum()
}
