//! Changes of a session with or without a keeper.
//!
//! Promise: the change is on disk when this returns, written by the keeper if there is one, and else by us with its
//! lease; a process that starts, ends or clears up the session at the same time is waited for, not raced.
//! Start with [`change`].

use std::time::{Duration, Instant};

use berth_api::message::KeeperRequest;
use berth_api::policy_change::PolicyChange;
use berth_api::{Problem, ProblemCode, SessionStatus};
use berth_core::{CallerAction, Command, MAX_NOTE_BYTES, Refusal, SafeName, SessionId};
use berth_keeper::recover;
use berth_procs::callers;
use berth_store::names::RequestedName;
use berth_store::{process_ref, session_status};

use crate::context::VerbContext;

/// Time to wait for another process that has the lease for a moment: a keeper that leaves, or a command that changes a
/// tag.
const PATIENCE: Duration = Duration::from_secs(10);

/// Result of a change without a keeper.
enum OfflineChange {
    Done,
    /// The session has a keeper and a run.
    Runs,
}

/// Applies one change to a session: through its keeper, else with its lease.
pub fn change(
    ctx: &VerbContext,
    id: &SessionId,
    request: KeeperRequest,
    command: Command,
) -> Result<(), Problem> {
    ctx.may(callers::action_of_request(&request), id)?;
    let until = Instant::now() + PATIENCE;
    loop {
        if ctx.ask(id, request.clone())?.is_some() {
            return Ok(());
        }
        match change_offline(ctx, id, &command)? {
            OfflineChange::Done => return Ok(()),
            // Another client started the session meanwhile: now its keeper can be asked.
            OfflineChange::Runs if Instant::now() < until => {}
            OfflineChange::Runs => return Err(busy_problem(id)),
        }
    }
}

/// Archives a session. A running session is refused.
pub fn archive(ctx: &VerbContext, id: &SessionId) -> Result<SessionStatus, Problem> {
    ctx.may(CallerAction::Archive, id)?;
    match change_offline(ctx, id, &Command::Archive { by: ctx.me() })? {
        OfflineChange::Done => session_status::status(&ctx.home, id),
        OfflineChange::Runs => {
            let name = session_status::history(&ctx.home, id)?.session.name;
            let handle = name.map_or_else(|| id.to_string(), |name| name.to_string());
            Err(berth_api::problem::refusal(&Refusal::StillRunning, &handle))
        }
    }
}

/// Sessions that were at rest for this long.
pub fn at_rest_for(ctx: &VerbContext, rest_ms: u64) -> Result<Vec<(SessionId, SessionStatus)>, Problem> {
    let now = berth_host::clock::wall_ms();
    let ids = crate::listing::ids(ctx)?;
    let at_rest = |status: &SessionStatus| {
        status.is_at_rest() && now.saturating_sub(status.last_activity_at.0) >= rest_ms
    };
    let known = ids
        .into_iter()
        .filter_map(|id| session_status::status(&ctx.home, &id).ok().filter(at_rest).map(|it| (id, it)));
    Ok(known.collect())
}

/// Archives a session that is still at rest for this long; `None` if it was used since the list was made.
pub fn archive_at_rest(
    ctx: &VerbContext,
    id: &SessionId,
    rest_ms: u64,
) -> Result<Option<SessionStatus>, Problem> {
    ctx.may(CallerAction::Archive, id)?;
    // The session is checked again under the lease.
    let archived = recover::archive_at_rest(&ctx.home, id, rest_ms, ctx.me())?;
    Ok(archived.then_some(session_status::status(&ctx.home, id)?))
}

/// Brings a session back from the archive, once nothing is left of its last run. A running session is not archived.
pub fn restore(ctx: &VerbContext, id: &SessionId) -> Result<SessionStatus, Problem> {
    ctx.may(CallerAction::Archive, id)?;
    match change_offline(ctx, id, &Command::Restore { by: ctx.me() })? {
        OfflineChange::Done | OfflineChange::Runs => session_status::status(&ctx.home, id),
    }
}

fn change_offline(ctx: &VerbContext, id: &SessionId, command: &Command) -> Result<OfflineChange, Problem> {
    let until = Instant::now() + PATIENCE;
    let mut pause = Duration::from_millis(1);
    loop {
        recover::recover_session(&ctx.home, id)?;
        let held = match recover::with_lease(&ctx.home, id, command.clone()) {
            Ok(()) => return Ok(OfflineChange::Done),
            Err(problem) if problem.code == ProblemCode::Held => problem,
            Err(problem) => return Err(problem),
        };
        let session = session_status::history(&ctx.home, id)?.session;
        if session.is_live() && !process_ref::lost_its_keeper(&session) {
            return Ok(OfflineChange::Runs);
        }
        if Instant::now() >= until {
            return Err(held);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}

fn busy_problem(id: &SessionId) -> Problem {
    Problem::held(format!("session {id} is being started or ended by another command")).hint("try again")
}

/// Parses tags as a user writes them: `a` or `+a`.
pub fn tags(texts: &[String]) -> Result<Vec<SafeName>, Problem> {
    let tag = |text: &String| {
        SafeName::parse(text.strip_prefix('+').unwrap_or(text)).map_err(|bad| {
            Problem::usage(format!("`{text}` is not a valid tag: {bad}"))
                .hint("a tag follows the rules of a name, as in `fix-login`; nothing was changed")
        })
    };
    texts.iter().map(tag).collect()
}

/// Changes of a session's labels and policy.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct SessionEdit {
    /// New name.
    pub name: Option<String>,
    /// Tags to add.
    pub add_tags: Vec<String>,
    /// Tags to remove.
    pub remove_tags: Vec<String>,
    /// New note; `Some(None)` removes the note.
    pub note: Option<Option<String>>,
    /// Changes of the policy.
    pub policy: PolicyChange,
}

/// Applies an edit. Invalid changes are refused before anything is changed.
pub fn edit(ctx: &VerbContext, id: &SessionId, edit: SessionEdit) -> Result<SessionStatus, Problem> {
    let name = edit.name.as_deref().map(SafeName::parse).transpose();
    let name = name.map_err(|bad| Problem::usage(bad.to_string()))?;
    let (add, remove) = (tags(&edit.add_tags)?, tags(&edit.remove_tags)?);
    if let Some(Some(note)) = &edit.note {
        check_note(note)?;
    }
    // The name is claimed first, because another session may have it.
    if let Some(name) = &name {
        rename(ctx, id, name)?;
    }
    if !add.is_empty() || !remove.is_empty() {
        let words = |tags: &[SafeName]| tags.iter().map(ToString::to_string).collect();
        let request = KeeperRequest::Tag { add: words(&add), remove: words(&remove) };
        change(ctx, id, request, Command::Tag { add, remove })?;
    }
    if let Some(note) = edit.note {
        change(ctx, id, KeeperRequest::Note { note: note.clone() }, Command::Note { note })?;
    }
    if edit.policy != PolicyChange::default() {
        let command = Command::SetPolicy { change: edit.policy.clone().into() };
        change(ctx, id, KeeperRequest::SetPolicy { change: edit.policy }, command)?;
    }
    Ok(ctx.known(id)?.0)
}

/// Refuses a text that is not a valid note.
fn check_note(text: &str) -> Result<(), Problem> {
    if text.len() > MAX_NOTE_BYTES {
        let refusal = Refusal::NoteTooLong { bytes: text.len(), limit: MAX_NOTE_BYTES };
        return Err(berth_api::problem::refusal(&refusal, ""));
    }
    if text.trim().is_empty() {
        return Err(Problem::usage("the note is empty; nothing was changed")
            .hint("to remove the note, send `null` instead of a text"));
    }
    Ok(())
}

/// Renames a session, if no other session has the name.
pub fn rename(ctx: &VerbContext, id: &SessionId, name: &SafeName) -> Result<(), Problem> {
    ctx.may(CallerAction::Rename, id)?;
    let old = session_status::history(&ctx.home, id)?.session.name;
    // Held until the session's record has its new name.
    let (_, claim) = ctx.home.claim_name(&RequestedName::Chosen(name.clone()), id)?;
    if let Err(problem) = ask_to_rename(ctx, id, name) {
        // A keeper that did not answer may have recorded the new name, which then needs its pointer.
        if problem.code != ProblemCode::Unreachable {
            claim.give_up();
        }
        return Err(problem);
    }
    // Before the old name is dropped: two renames of one session may each want the other's name.
    drop(claim);
    if let Some(old) = old.filter(|old| old != name) {
        ctx.home.drop_name(&old, id);
    }
    Ok(())
}

fn ask_to_rename(ctx: &VerbContext, id: &SessionId, name: &SafeName) -> Result<(), Problem> {
    if ctx.ask(id, KeeperRequest::Rename { name: name.to_string() })?.is_some() {
        return Ok(());
    }
    // The session has no keeper: this process records the event with the lease.
    recover::recover_session(&ctx.home, id)?;
    recover::with_lease(&ctx.home, id, Command::Rename { name: name.clone() })
}
