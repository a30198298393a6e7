//! `berth helper show`: prints the details of a helper and its last output.

use berth_api::{Problem, SessionState, SessionStatus};
use berth_core::SessionId;
use berth_screen::PlainTextFilter;
use berth_store::output::OutputFiles;

use super::{describe_helper, find, reword_for_helper};
use crate::args::HelperShowArgs;
use crate::ctx::CommandContext;
use crate::print;
use crate::safe_text::SafeText;

/// Size of the output's end that is read for the last lines, and the number of lines shown.
const LAST_BYTES: u64 = 16 * 1024;
const LAST_LINES: usize = 10;

pub(crate) fn run(helpers: &CommandContext, args: &HelperShowArgs) -> Result<u8, Problem> {
    let id = find(helpers, &args.name)?;
    let (status, trouble) = helpers.known(&id).map_err(|problem| reword_for_helper(problem, &id))?;
    let status = describe_helper(helpers, status);
    if args.json {
        print::json(&status)?;
    } else {
        print::text(&lines(helpers, &status))?;
    }
    let Some(problem) = trouble else { return Ok(0) };
    print::problem(&reword_for_helper(problem.clone(), &id));
    Ok(problem.code.exit_code())
}

fn lines(helpers: &CommandContext, status: &SessionStatus) -> SafeText {
    let helper = status.helper.clone().unwrap_or_default();
    let mut rows = vec![("helper", helper.name.clone()), ("id", status.id.clone())];
    rows.push(("scope", helper.dir.clone().map_or(helper.scope.clone(), |dir| format!("dir {dir}"))));
    rows.push(("state", status.state.to_string()));
    rows.extend(print::exit_summary(status).map(|ending| ("ended", ending)));
    if status.state == SessionState::Running {
        let ready = if helper.ready { "yes" } else { "not yet" };
        rows.push(("ready", ready.to_owned()));
    }
    rows.extend(helper.ready_when.clone().map(|when| ("ready when", when)));
    rows.extend(helper.address.clone().map(|address| ("address", address)));
    for owner in &helper.owners {
        let name = owner.name.as_ref().map(|name| format!("{name} ")).unwrap_or_default();
        let keep = if owner.keep { ", also between its turns" } else { "" };
        rows.push(("owner", format!("{name}{}, since {}{keep}", owner.session, owner.since)));
    }
    if helper.owners.is_empty() {
        rows.push(("owners", super::ls::owners(status, &helper)));
    }
    rows.push(("idle", format!("{} after its last owner", print::describe_age(helper.idle_ms))));
    rows.push(("command", print::command_line(&status.what.command, 500)));
    rows.push(("directory", status.what.cwd.clone()));
    rows.push(("run", status.epoch.to_string()));
    rows.extend(status.pid.map(|pid| ("process", format!("pid {pid}"))));
    rows.extend(status.keeper_pid.map(|pid| ("keeper", format!("pid {pid}"))));
    rows.extend(status.started_at.map(|at| ("started", format!("{at} ({} ago)", print::age_since(at)))));
    rows.push(("output", format!("{} bytes", status.output_bytes)));
    let files = SessionId::parse(&status.id).map(|id| helpers.home.session(&id));
    rows.extend(files.iter().map(|files| ("record", files.display().to_string())));
    rows.extend(status.left.iter().map(|left| ("left over", left.clone())));
    let mut text = print::key_value_lines(rows, (&status.state).into());
    for line in files.iter().flat_map(|files| last_lines(&files.output(), status.output_from)) {
        text.push(format!("  | {line}\n"));
    }
    text
}

/// The last lines of the output of the current or last run.
fn last_lines(output: &OutputFiles, from: u64) -> Vec<String> {
    let bytes = output.tail(from, LAST_BYTES).unwrap_or_default();
    let mut text = Vec::new();
    PlainTextFilter::default().feed(&bytes, &mut text);
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(LAST_LINES)..].iter().map(|line| (*line).to_owned()).collect()
}
