//! `berth run --replace OLD`: replaces a running session with a new one.
//!
//! Promise: a running session is ended only with consent, and only when the new one runs (and its agent is ready, if it
//! takes turns). If the new session does not start, the old one is untouched. If the old one cannot be ended, the error
//! names both, and both go on.
//! Not here: starting the new session (see `run`) and ending the old one (see `stop`).
//! Start with [`ReplacedSession::confirm`], then [`ReplacedSession::complete`].

use berth_api::{Problem, SessionStatus};
use berth_core::{CallerAction, SafeName, SessionId};
use berth_store::session_status;

use crate::cmd::stop;
use crate::ctx::CommandContext;
use crate::target_session::TargetSession;
use crate::{consent, lifecycle, print};

/// Time that the old session's processes have to end before they are killed.
const GRACE_MS: u64 = 5000;
/// Number of characters of the old session's id that are appended to its name.
const SUFFIX: usize = 4;

/// An old session, with consent to end it.
pub(crate) struct ReplacedSession {
    old: TargetSession,
    /// The name that the new session takes over; `None` if it has another name or none.
    name: Option<SafeName>,
    /// True if the old session did not run, so that no consent was asked for.
    was_over: bool,
}

impl ReplacedSession {
    /// Finds the old session, and asks for consent to end it. `name` is the name of the new session.
    pub(crate) fn confirm(
        ctx: &CommandContext,
        old: &str,
        name: Option<&SafeName>,
        said: bool,
    ) -> Result<Self, Problem> {
        let old = ctx.target(Some(old))?;
        ctx.may(CallerAction::Stop, &old.id)?;
        let status = ctx.status(&old.id)?;
        let handle = status.handle();
        let was_over = status.is_over();
        if !was_over {
            let what = format!(
                "session `{handle}`, which is {}, would be ended once the new one runs",
                status.state
            );
            consent::require_yes(&what, said)?;
        }
        let name = name.filter(|name| status.name.as_deref() == Some(name.as_str())).cloned();
        Ok(Self { old: TargetSession { handle: handle.to_owned(), ..old }, name, was_over })
    }

    /// True if the new session takes over the old one's name. The name moves when the old session is over: until then
    /// both may run, and a name belongs to one session.
    pub(crate) fn transfers_name(&self) -> bool {
        self.name.is_some()
    }

    /// Ends the old session, now that the new one runs, and moves the name.
    pub(crate) fn complete(self, ctx: &CommandContext, new: &SessionStatus) -> Result<(), Problem> {
        let TargetSession { id, handle, .. } = &self.old;
        if *id.as_str() == new.id {
            return Err(Problem::usage(format!("session `{handle}` cannot replace itself"))
                .hint("the key belongs to that session; use another key for a new one"));
        }
        let ended = if self.was_over {
            ctx.status(id)
                .and_then(|status| if status.is_over() { Ok(status) } else { Err(restarted_meanwhile()) })
        } else {
            let ended = stop::stop_together(ctx, std::slice::from_ref(id), GRACE_MS).next();
            ended.unwrap_or_else(|| ctx.status(id))
        };
        let status = ended.map_err(|problem| both_running(&problem, handle, new))?;
        let ending = print::exit_summary(&status).unwrap_or_else(|| status.state.to_string());
        print::note(&format!("{handle}: {ending}, replaced by {}", new.handle()));
        let Some(name) = &self.name else { return Ok(()) };
        let new_id = SessionId::parse(&new.id).ok_or_else(|| Problem::bug("the keeper gave no id"))?;
        transfer_name(ctx, id, &new_id, name).map_err(|problem| {
            let what = format!(
                "session {new_id} runs in the place of {id}, but is not called `{name}`: {}",
                problem.what
            );
            Problem::new(problem.code, what)
                .hint(format!("`berth rename {new_id} {name}` once that is fixed"))
        })
    }
}

/// Moves a name from the old session to the new one. The old session keeps its record, so it gets another name.
fn transfer_name(
    ctx: &CommandContext,
    old: &SessionId,
    new: &SessionId,
    name: &SafeName,
) -> Result<(), Problem> {
    // The old session may have been renamed while it was being ended.
    if session_status::history(&ctx.home, old)?.session.name.as_ref() == Some(name) {
        let stem = &name.as_str()[..name.as_str().len().min(SafeName::MAX_BYTES - SUFFIX - 1)];
        let other = format!("{stem}-{}", &old.as_str()[..SUFFIX]);
        let bad = |bad: berth_core::BadName| Problem::refused(bad.to_string());
        let other = SafeName::parse(&other).map_err(bad)?;
        lifecycle::rename(ctx, old, &other)?;
        print::note(&format!("{old} was `{name}` and is now `{other}`"));
    }
    lifecycle::rename(ctx, new, name)
}

/// The old session was started again while the new one began. There is no consent to end this run.
fn restarted_meanwhile() -> Problem {
    Problem::held("the session was over, and was started again meanwhile")
}

fn both_running(problem: &Problem, old: &str, new: &SessionStatus) -> Problem {
    let what =
        format!("session {} runs, and session `{old}` could not be ended: {}", new.handle(), problem.what);
    Problem::new(problem.code, what).hint(format!(
        "`berth stop {old}` tries again; `berth stop {}` ends the new one instead",
        new.handle()
    ))
}
