//! `berth sweep`: compares records with reality, and cleans up processes and files that are proven to be berth's.
//!
//! Not here: the sweep itself (see `berth_verbs::sweep`).

use berth_api::Problem;
use berth_conversations::transcript_copies::CopyCleanup;
use berth_verbs::history;
use berth_verbs::sweep::{
    self, ForeignProcess, SweepDepth, SweepFinding, SweepOptions, SweepOutcome, SweepReport,
};

use crate::args::SweepArgs;
use crate::ctx::CommandContext;
use crate::print;
use crate::progress::ProgressLine;

pub(crate) fn run(ctx: &CommandContext, args: &SweepArgs) -> Result<u8, Problem> {
    let order = SweepOptions { dry_run: args.dry_run, depth: SweepDepth::Whole, is_heard: true };
    let (mut shown, mut before) = (None, 0);
    let mut report = sweep::sweep(&ctx.home, order, |so_far| {
        let shown = shown.get_or_insert_with(|| ProgressLine::of("clearing up", so_far.of as u64));
        shown.add(so_far.done.saturating_sub(before) as u64);
        before = so_far.done;
    });
    drop(shown);
    history::tidy_history(&ctx.home, &mut report);
    if args.json {
        print::json(&report)?;
    } else {
        print::text(&text(&report))?;
    }
    match report.trouble() {
        Some(problem) => {
            print::problem(&problem);
            Ok(problem.code.exit_code())
        }
        None => Ok(0),
    }
}

/// Sweeps along with another command, if a sweep is due. On a terminal, notes report the result; a process without a
/// record is reported once.
pub(crate) fn now_and_then(ctx: &CommandContext) {
    let is_heard = print::is_error_terminal();
    let Some(mut report) = sweep::sweep_now_and_then(&ctx.home, is_heard) else { return };
    history::tidy_history(&ctx.home, &mut report);
    if !is_heard {
        return;
    }
    for cleared in &report.left_over {
        print::note(&cleared_line(cleared));
    }
    for archived in &report.archived {
        print::note(&archived_line(archived));
    }
    for stranger in report.no_record.iter().chain(&report.cannot_tell).filter(|stranger| stranger.is_new) {
        print::note(&format!("{}; `berth why --pid {}` explains it", stranger_line(stranger), stranger.pid));
    }
}

fn text(report: &SweepReport) -> String {
    let processes: usize = report.alive.iter().map(|alive| alive.processes).sum();
    let mut text =
        format!("{:19} {} running, {processes} processes in all\n", "ours and alive", report.alive.len());
    section(&mut text, "ours and left over", report.left_over.iter().map(cleared_line));
    section(&mut text, "no process", report.no_process.iter().map(cleared_line));
    if !report.archived.is_empty() {
        section(&mut text, "archived", report.archived.iter().map(archived_line));
    }
    section(&mut text, "no record", report.no_record.iter().map(stranger_line));
    section(&mut text, "cannot tell", report.cannot_tell.iter().map(stranger_line));
    if !report.foreign.is_empty() {
        let (new, known): (Vec<_>, Vec<_>) = report.foreign.iter().partition(|agent| agent.is_new);
        let again = (!known.is_empty()).then(|| format!("{} reported before", known.len()));
        let lines = new.into_iter().map(foreign_line).chain(again);
        section(&mut text, "agents not ours", lines);
    }
    section(&mut text, "damaged, kept", report.damaged.iter().cloned());
    if report.unreadable > 0 {
        text.push_str(&format!(
            "{:19} {} processes, of other users or the system\n",
            "not examined", report.unreadable
        ));
    }
    if let Some(history) = report.history.as_ref().filter(|history| **history != CopyCleanup::default()) {
        section(&mut text, "history", std::iter::once(history_line(history)));
    }
    text
}

fn section(text: &mut String, title: &str, lines: impl Iterator<Item = String>) {
    let mut lines = lines.peekable();
    if lines.peek().is_none() {
        text.push_str(&format!("{title:19} none\n"));
    }
    for (at, line) in lines.enumerate() {
        text.push_str(&format!("{:19} {line}\n", if at == 0 { title } else { "" }));
    }
}

fn history_line(history: &CopyCleanup) -> String {
    let mut line = format!("{} kept", print::describe_size(history.bytes));
    if history.freed > 0 {
        line.push_str(&format!(", {} freed", print::describe_size(history.freed)));
    }
    match history.dropped.len() {
        0 => {}
        1 => line.push_str(", the oldest copy removed"),
        more => line.push_str(&format!(", the {more} oldest copies removed")),
    }
    if history.full {
        line.push_str("; over the limit, and the only copies left: no more copies are made");
    }
    line
}

fn cleared_line(cleared: &SweepFinding) -> String {
    let done = match &cleared.done {
        SweepOutcome::Cleared if cleared.processes.is_empty() => "cleared up".to_owned(),
        SweepOutcome::Cleared => "ended".to_owned(),
        SweepOutcome::Would if cleared.processes.is_empty() => "would be cleared up".to_owned(),
        SweepOutcome::Would => "would be ended".to_owned(),
        SweepOutcome::Kept => "kept".to_owned(),
        SweepOutcome::Failed(why) => format!("NOT cleared up: {why}"),
    };
    let processes = if cleared.processes.is_empty() {
        String::new()
    } else {
        format!(": {}", cleared.processes.join(", "))
    };
    format!("{}{processes}; {done}", cleared.what)
}

fn archived_line(archived: &SweepFinding) -> String {
    let done = match &archived.done {
        SweepOutcome::Cleared => "archived".to_owned(),
        SweepOutcome::Would => "would be archived".to_owned(),
        SweepOutcome::Kept => "kept".to_owned(),
        SweepOutcome::Failed(why) => format!("NOT archived: {why}"),
    };
    format!("{}; {done}", archived.what)
}

fn foreign_line(agent: &ForeignProcess) -> String {
    let command = print::truncate(&agent.command, 60);
    let uid = agent.uid.map(|uid| format!(", uid {uid}")).unwrap_or_default();
    let age = print::describe_age(agent.age_ms);
    format!("pid {} ({command}, {age} old{uid}) belongs to {}: {}", agent.pid, agent.guess, agent.why)
}

fn stranger_line(stranger: &ForeignProcess) -> String {
    let command = print::truncate(&stranger.command, 60);
    let uid = stranger.uid.map(|uid| format!(", uid {uid}")).unwrap_or_default();
    format!(
        "pid {} ({command}, {} old{uid}) belongs to {}, and is left alone: {}",
        stranger.pid,
        print::describe_age(stranger.age_ms),
        stranger.guess,
        stranger.why
    )
}
