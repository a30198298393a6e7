//! Memory of sessions whose agent takes turns.
//!
//! Promise: only keepers are counted, not agents; they are looked at once nothing has happened for a while.
//! Start with [`measure`].

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use crate::measurement::BenchSettings;
use crate::report::{ReportSection, ReportTable, TargetLimit, TargetVerdict, cell};
use crate::stats::{MeasuredSamples, ratio};
use crate::turns::BerthWithAcp;
use crate::workspace::BenchSession;

const KIB_PER_MIB: f64 = 1024.0;
/// A keeper is idle when nothing has happened for this long; until then it may tidy up.
const IDLE_AFTER: Duration = Duration::from_secs(3);
/// How many turns a session has had when it is called used.
const TURNS: usize = 10;
/// How many turns wait in each of many sessions.
const QUEUED: usize = 20;
/// How many sessions the first and the last are.
const ENDS: usize = 20;
/// The prompt that is sent: about a line.
const PROMPT: &str = "look at the failing test once more, and tell me what it waits for before you change it";

pub(crate) fn measure(bench: &BenchSettings) -> Result<ReportSection> {
    let mut stage = bench.stage("o", &["berth"])?;
    let count = bench.pick(200, 2 * ENDS);
    let (mut fresh, mut used) = (None, None);
    let (mut early, mut first, mut last) = (None, None, None);
    let (mut first_sends, mut last_sends) = (MeasuredSamples::default(), MeasuredSamples::default());
    stage.each(|lab, _| {
        let berth = BerthWithAcp::new(&bench.programs["berth"], lab, None)?;
        let session = lab.start(&berth, "")?.session;
        std::thread::sleep(IDLE_AFTER);
        fresh = Some(pss(std::slice::from_ref(&session))?);
        let mut client = berth.client(&session.name)?;
        for _ in 0..TURNS {
            let turn = client.send(PROMPT)?;
            client.until_done(turn)?;
        }
        drop(client);
        std::thread::sleep(IDLE_AFTER);
        used = Some(pss(std::slice::from_ref(&session))?);
        lab.stop(&berth, &[session])?;

        let mut sessions = Vec::new();
        for at in 0..count {
            let session = lab.start(&berth, "")?.session;
            let mut client = berth.client(&session.name)?;
            client.pause()?;
            for _ in 0..QUEUED {
                let began_at = Instant::now();
                client.send(PROMPT)?;
                let took = began_at.elapsed();
                if at < ENDS {
                    first_sends.push_ms(took);
                } else if at >= count - ENDS {
                    last_sends.push_ms(took);
                }
            }
            sessions.push(session);
            if sessions.len() == ENDS {
                std::thread::sleep(IDLE_AFTER);
                early = Some(pss(&sessions)?);
            }
        }
        std::thread::sleep(IDLE_AFTER);
        first = Some(pss(&sessions[..ENDS])?);
        last = Some(pss(&sessions[count - ENDS..])?);
        lab.stop(&berth, &sessions)
    });
    let mut table = ReportTable::new(&["keepers", "PSS each", "send p50", "send p99"]);
    let mut row = |name: String, memory: Option<f64>, sends: Option<&MeasuredSamples>| {
        let sends = [0.5, 0.99].map(|share| match sends {
            Some(samples) => cell(samples.quantile(share), " ms"),
            None => String::new(),
        });
        table.row([vec![name, cell(memory, " MiB")], sends.to_vec()].concat());
    };
    row("the only one, new".to_owned(), fresh, None);
    row(format!("the only one, after {TURNS} turns"), used, None);
    row(format!("{ENDS}, when there are no others"), early, Some(&first_sends));
    row(format!("the first {ENDS} of {count}"), first, None);
    row(format!("the last {ENDS} of {count}"), last, Some(&last_sends));
    Ok(stage.close(ReportSection {
        title: "o. Memory of sessions that take turns",
        method: format!(
            "PSS (smaps_rollup) of keepers with a fake agent, {IDLE_AFTER:?} after anything happened; agents are not \
             counted. {count} sessions whose queue is paused, {QUEUED} turns waiting in each; the time to send them \
             is for the sessions of that row, while they were being filled."
        ),
        table,
        verdicts: vec![
            TargetVerdict::new(format!("keeper, idle after {TURNS} turns"), TargetLimit::AtMost(4.0), " MiB", used),
            TargetVerdict::ratio(
                format!("{count} sessions with queued turns, last {ENDS} ÷ first {ENDS}"),
                TargetLimit::AtMost(1.1),
                ratio(last, first),
            ),
            TargetVerdict::ratio(
                format!("each of {count} sessions ÷ each of {ENDS}"),
                TargetLimit::AtMost(1.1),
                ratio(last, early),
            ),
        ],
        notes: Vec::new(),
        problems: Vec::new(),
    }))
}

/// The mean over the keepers of these sessions, in MiB.
fn pss(sessions: &[BenchSession]) -> Result<f64> {
    let mut total = 0.0;
    for session in sessions {
        let memory = session.holder.memory();
        total += memory.with_context(|| format!("read the memory of process {}", session.holder.0))?.pss;
    }
    Ok(total / KIB_PER_MIB / sessions.len() as f64)
}
