//! `berth archive`: hides sessions from the list.

use std::time::Duration;

use berth_api::{Problem, SessionState, SessionStatus};
use berth_core::SessionId;
use berth_store::session_status;

use crate::args::ArchiveArgs;
use crate::cmd::stop;
use crate::ctx::CommandContext;
use crate::listing::ListExtent;
use crate::target_session::{TargetSession, TargetSource};
use crate::{consent, lifecycle, print};

/// Limit of sessions that a question names.
const NAMED: usize = 10;

pub(crate) fn run(ctx: &CommandContext, args: &ArchiveArgs) -> Result<u8, Problem> {
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

fn named(
    ctx: &CommandContext,
    args: &ArchiveArgs,
    worst: &mut u8,
) -> Result<Vec<Result<SessionStatus, Problem>>, Problem> {
    let mut meant = ctx.chosen(&args.sessions, &args.which, ListExtent::All, worst)?;
    meant.retain(|meant| {
        let is_away = || {
            session_status::status(&ctx.home, &meant.id)
                .is_ok_and(|status| status.state == SessionState::Archived)
        };
        meant.how != TargetSource::Matched || !is_away()
    });
    let ended = if args.stop { "stopped and " } else { "" };
    if let [TargetSession { handle, how: TargetSource::Env | TargetSource::Terminal, .. }] = meant.as_slice()
    {
        consent::require_yes(
            &format!("session `{handle}`, the current one, would be {ended}archived"),
            args.yes,
        )?;
    } else if meant.iter().any(TargetSession::is_implied) {
        let handles: Vec<&str> = meant.iter().map(|meant| meant.handle.as_str()).collect();
        let what = format!("{} would be {ended}archived: {}", sessions(handles.len()), listed(&handles));
        consent::require_yes(&what, args.yes)?;
    } else if meant.is_empty() {
        print::note("all matching sessions are archived already; nothing was done");
    }
    let ids: Vec<SessionId> = meant.into_iter().map(|meant| meant.id).collect();
    if !args.stop {
        return Ok(ids.iter().map(|id| lifecycle::archive(ctx, id)).collect());
    }
    let grace_ms = u64::try_from(args.grace.as_millis()).unwrap_or(u64::MAX);
    let stopped = stop::stop_together(ctx, &ids, grace_ms);
    Ok(stopped.zip(&ids).map(|(stopped, id)| stopped.and_then(|_| lifecycle::archive(ctx, id))).collect())
}

/// Archives all sessions without activity for this time, after consent.
fn older_than(
    ctx: &CommandContext,
    rest: Duration,
    yes: bool,
) -> Result<Vec<Result<SessionStatus, Problem>>, Problem> {
    let rest_ms = u64::try_from(rest.as_millis()).unwrap_or(u64::MAX);
    let meant = lifecycle::at_rest_for(ctx, rest_ms)?;
    if meant.is_empty() {
        print::note("no session has been at rest for that time; nothing was done");
        return Ok(vec![]);
    }
    let handles: Vec<&str> = meant.iter().map(|(_, status)| status.handle()).collect();
    consent::require_yes(
        &format!("{} would be archived: {}", sessions(handles.len()), listed(&handles)),
        yes,
    )?;
    Ok(meant.iter().filter_map(|(id, _)| lifecycle::archive_at_rest(ctx, id, rest_ms).transpose()).collect())
}

/// A number of sessions in words, as in `2 sessions`.
pub(crate) fn sessions(count: usize) -> String {
    if count == 1 { "1 session".to_owned() } else { format!("{count} sessions") }
}

/// The first of these names, and the number of the others.
pub(crate) fn listed(handles: &[&str]) -> String {
    let more = handles.len().saturating_sub(NAMED);
    let named = handles.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
    if more == 0 { named } else { format!("{named} and {more} more") }
}
