//! `berth archive`: sessions put away.

use std::time::Duration;

use berth_api::{Problem, SessionState, Status};
use berth_core::SessionId;
use berth_store::view;

use crate::args::Archive;
use crate::cmd::stop;
use crate::ctx::Ctx;
use crate::listing::Extent;
use crate::meant::{How, Meant};
use crate::{consent, life, print};

/// How many sessions a question names.
const NAMED: usize = 10;

pub(crate) fn run(ctx: &Ctx, args: &Archive) -> Result<u8, Problem> {
    let mut worst = 0;
    let archived = match args.older_than {
        Some(rest) => older_than(ctx, rest, args.yes)?,
        None => named(ctx, args, &mut worst)?,
    };
    let mut done = Vec::new();
    for archived in archived {
        match archived {
            Ok(status) => {
                if !args.json {
                    print::note(&format!("{} is archived", status.handle()));
                }
                done.push(status);
            }
            Err(problem) => {
                print::problem(&problem);
                worst = worst.max(problem.code.exit_code());
            }
        }
    }
    if args.json {
        print::json(&done)?;
    }
    Ok(worst)
}

fn named(ctx: &Ctx, args: &Archive, worst: &mut u8) -> Result<Vec<Result<Status, Problem>>, Problem> {
    let mut meant = ctx.chosen(&args.sessions, &args.which, Extent::All, worst)?;
    meant.retain(|meant| {
        let is_away =
            || view::status(&ctx.home, &meant.id).is_ok_and(|status| status.state == SessionState::Archived);
        meant.how != How::Matched || !is_away()
    });
    let ended = if args.stop { "stopped and " } else { "" };
    if let [Meant { handle, how: How::Env | How::Terminal, .. }] = meant.as_slice() {
        consent::ask(&format!("session `{handle}`, the current one, would be {ended}archived"), args.yes)?;
    } else if meant.iter().any(Meant::is_implied) {
        let handles: Vec<&str> = meant.iter().map(|meant| meant.handle.as_str()).collect();
        let what = format!("{} would be {ended}archived: {}", sessions(handles.len()), listed(&handles));
        consent::ask(&what, args.yes)?;
    } else if meant.is_empty() {
        print::note("everything that matches is archived already; nothing was done");
    }
    let ids: Vec<SessionId> = meant.into_iter().map(|meant| meant.id).collect();
    if !args.stop {
        return Ok(ids.iter().map(|id| life::archive(ctx, id)).collect());
    }
    let grace_ms = u64::try_from(args.grace.as_millis()).unwrap_or(u64::MAX);
    let stopped = stop::stop_together(ctx, &ids, grace_ms);
    Ok(stopped.zip(&ids).map(|(stopped, id)| stopped.and_then(|_| life::archive(ctx, id))).collect())
}

/// Everything that nothing happened in for so long, if somebody says yes.
fn older_than(ctx: &Ctx, rest: Duration, yes: bool) -> Result<Vec<Result<Status, Problem>>, Problem> {
    let rest_ms = u64::try_from(rest.as_millis()).unwrap_or(u64::MAX);
    let meant = life::at_rest_for(ctx, rest_ms)?;
    if meant.is_empty() {
        print::note("no session has been at rest for so long; nothing was done");
        return Ok(vec![]);
    }
    let handles: Vec<&str> = meant.iter().map(|(_, status)| status.handle()).collect();
    consent::ask(&format!("{} would be archived: {}", sessions(handles.len()), listed(&handles)), yes)?;
    Ok(meant.iter().filter_map(|(id, _)| life::archive_at_rest(ctx, id, rest_ms).transpose()).collect())
}

/// So many sessions, in words.
pub(crate) fn sessions(count: usize) -> String {
    if count == 1 { "1 session".to_owned() } else { format!("{count} sessions") }
}

/// The first of many, in words.
pub(crate) fn listed(handles: &[&str]) -> String {
    let more = handles.len().saturating_sub(NAMED);
    let named = handles.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
    if more == 0 { named } else { format!("{named} and {more} more") }
}
