//! `berth sweep`: records compared with reality, and what is proven ours cleared up.

use berth_api::Problem;
use berth_keeper::copies::Tidied;
use berth_keeper::sweep::{self, Cleared, Depth, Done, Order, Report, Stranger};
use berth_verbs::history;

use crate::args::Sweep;
use crate::ctx::Ctx;
use crate::print;
use crate::progress::Progress;

pub(crate) fn run(ctx: &Ctx, args: &Sweep) -> Result<u8, Problem> {
    let order = Order { dry_run: args.dry_run, depth: Depth::Whole, is_heard: true };
    let (mut shown, mut before) = (None, 0);
    let mut report = sweep::sweep(&ctx.home, order, |so_far| {
        let shown = shown.get_or_insert_with(|| Progress::of("clearing up", so_far.of as u64));
        shown.add(so_far.done.saturating_sub(before) as u64);
        before = so_far.done;
    });
    drop(shown);
    history::tidy(&ctx.home, &mut report);
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

/// Sweeps along with another command, if that is due. Who reads a terminal is told once of a process that
/// nobody has a record of.
pub(crate) fn now_and_then(ctx: &Ctx) {
    let is_heard = print::is_error_terminal();
    let Some(mut report) = sweep::sweep_now_and_then(&ctx.home, is_heard) else { return };
    history::tidy(&ctx.home, &mut report);
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
        print::note(&format!("{}; `berth why --pid {}` tells more", stranger_line(stranger), stranger.pid));
    }
}

fn text(report: &Report) -> String {
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
        let again = (!known.is_empty()).then(|| format!("{} told of before", known.len()));
        let lines = new.into_iter().map(foreign_line).chain(again);
        section(&mut text, "agents not ours", lines);
    }
    section(&mut text, "damaged, kept", report.damaged.iter().cloned());
    if report.unreadable > 0 {
        text.push_str(&format!(
            "{:19} {} processes, of other users or the system\n",
            "not looked into", report.unreadable
        ));
    }
    if let Some(history) = report.history.as_ref().filter(|history| **history != Tidied::default()) {
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

fn history_line(history: &Tidied) -> String {
    let mut line = format!("{} kept", print::size(history.bytes));
    if history.freed > 0 {
        line.push_str(&format!(", {} given back", print::size(history.freed)));
    }
    match history.dropped.len() {
        0 => {}
        1 => line.push_str(", the oldest copy gone"),
        more => line.push_str(&format!(", the {more} oldest copies gone")),
    }
    if history.full {
        line.push_str("; more than the limit, and nowhere else: nothing more is copied");
    }
    line
}

fn cleared_line(cleared: &Cleared) -> String {
    let done = match &cleared.done {
        Done::Cleared if cleared.processes.is_empty() => "cleared up".to_owned(),
        Done::Cleared => "ended".to_owned(),
        Done::Would if cleared.processes.is_empty() => "would be cleared up".to_owned(),
        Done::Would => "would be ended".to_owned(),
        Done::Kept => "kept".to_owned(),
        Done::Failed(why) => format!("NOT cleared up: {why}"),
    };
    let processes = if cleared.processes.is_empty() {
        String::new()
    } else {
        format!(": {}", cleared.processes.join(", "))
    };
    format!("{}{processes}; {done}", cleared.what)
}

fn archived_line(archived: &Cleared) -> String {
    let done = match &archived.done {
        Done::Cleared => "archived".to_owned(),
        Done::Would => "would be archived".to_owned(),
        Done::Kept => "kept".to_owned(),
        Done::Failed(why) => format!("NOT archived: {why}"),
    };
    format!("{}; {done}", archived.what)
}

fn foreign_line(agent: &Stranger) -> String {
    let command = print::cut(&agent.command, 60);
    let uid = agent.uid.map(|uid| format!(", uid {uid}")).unwrap_or_default();
    let age = print::age(agent.age_ms);
    format!("pid {} ({command}, {age} old{uid}) is of {}: {}", agent.pid, agent.guess, agent.why)
}

fn stranger_line(stranger: &Stranger) -> String {
    let command = print::cut(&stranger.command, 60);
    let uid = stranger.uid.map(|uid| format!(", uid {uid}")).unwrap_or_default();
    format!(
        "pid {} ({command}, {} old{uid}) belongs to {}, and is left alone: {}",
        stranger.pid,
        print::age(stranger.age_ms),
        stranger.guess,
        stranger.why
    )
}
