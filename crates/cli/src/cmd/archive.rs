//! `berth archive`: sessions put away.

use std::time::Duration;

use berth_api::{Code, Problem, Status};
use berth_core::{Deed, SessionId};
use berth_keeper::{recover, view};

use crate::args::Archive;
use crate::cmd::stop;
use crate::ctx::{Ctx, is_unrecorded_loss};
use crate::meant::Meant;
use crate::{consent, life, print};

/// How many sessions a question names.
const NAMED: usize = 10;

pub(crate) fn run(ctx: &Ctx, args: &Archive) -> Result<u8, Problem> {
    let archived = match args.older_than {
        Some(rest) => older_than(ctx, rest, args.yes)?,
        None => named(ctx, args)?,
    };
    let mut worst = 0;
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

fn named(ctx: &Ctx, args: &Archive) -> Result<Vec<Result<Status, Problem>>, Problem> {
    let meant = ctx.targets(&args.sessions)?;
    if let Some(Meant { handle, .. }) = meant.iter().find(|meant| meant.is_implied()) {
        let ended = if args.stop { "stopped and " } else { "" };
        consent::ask(&format!("session `{handle}`, the current one, would be {ended}archived"), args.yes)?;
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
    let now = berth_host::clock::wall_ms();
    let ids = ctx.home.session_ids().map_err(|error| {
        Problem::new(Code::Refused, format!("cannot list {}: {error}", ctx.home.sessions_dir().display()))
    })?;
    let at_rest =
        |status: &Status| is_at_rest(status) && now.saturating_sub(status.last_activity_at.0) >= rest_ms;
    let known = ids.iter().filter_map(|id| Some((id, view::status(&ctx.home, id).ok().filter(at_rest)?)));
    let meant: Vec<(&SessionId, Status)> = known.collect();
    if meant.is_empty() {
        print::note("no session has been at rest for so long; nothing was done");
        return Ok(vec![]);
    }
    let handles: Vec<&str> = meant.iter().map(|(_, status)| status.handle()).collect();
    consent::ask(&format!("{} would be archived: {}", sessions(handles.len()), listed(&handles)), yes)?;
    let archive = |id: &SessionId| {
        ctx.may(Deed::Archive, id)?;
        // Looked at again with the lease: somebody may have used it since.
        let archived = recover::archive_at_rest(&ctx.home, id, rest_ms, ctx.me())?;
        Ok(archived.then_some(view::status(&ctx.home, id)?))
    };
    Ok(meant.iter().filter_map(|(id, _)| archive(id).transpose()).collect())
}

/// Whether nothing of a session runs, that is recorded, and it is not put away.
pub(crate) fn is_at_rest(status: &Status) -> bool {
    let is_released = status.state == "idle" && status.keeper_pid.is_none();
    (is_released || matches!(status.state.as_str(), "stopped" | "lost")) && !is_unrecorded_loss(status)
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
