//! Changing a session that may or may not have a keeper.
//!
//! Promise: what is changed is on disk, by the keeper if there is one and else by us with its lease; somebody
//! who starts, ends or clears up the session at the same time is waited for, not raced.
//! Start with [`change`].

use std::time::{Duration, Instant};

use berth_api::life::PolicyChange;
use berth_api::message::Request;
use berth_api::{Code, Problem, Status};
use berth_core::{Command, Deed, MAX_NOTE_BYTES, Name, Refusal, SessionId};
use berth_keeper::{callers, recover};
use berth_store::names::Naming;
use berth_store::{process, view};

use crate::ctx::Ctx;

/// How long to wait for whoever else has a session for a moment: a keeper that leaves, somebody who tags it.
const PATIENCE: Duration = Duration::from_secs(10);

/// Whether a change was made without a keeper.
enum Alone {
    Done,
    /// There is a keeper, and a run.
    Runs,
}

/// Does one thing to a session: through its keeper, or as its keeper for that moment.
pub fn change(ctx: &Ctx, id: &SessionId, request: Request, command: Command) -> Result<(), Problem> {
    ctx.may(callers::deed_of(&request), id)?;
    let until = Instant::now() + PATIENCE;
    loop {
        if ctx.ask(id, request.clone())?.is_some() {
            return Ok(());
        }
        match alone(ctx, id, &command)? {
            Alone::Done => return Ok(()),
            // Somebody started it meanwhile: there is somebody to ask now.
            Alone::Runs if Instant::now() < until => {}
            Alone::Runs => return Err(busy(id)),
        }
    }
}

/// Puts a session away once nothing of it runs. One that runs is refused.
pub fn archive(ctx: &Ctx, id: &SessionId) -> Result<Status, Problem> {
    ctx.may(Deed::Archive, id)?;
    match alone(ctx, id, &Command::Archive { by: ctx.me() })? {
        Alone::Done => view::status(&ctx.home, id),
        Alone::Runs => {
            let name = view::history(&ctx.home, id)?.session.name;
            let handle = name.map_or_else(|| id.to_string(), |name| name.to_string());
            Err(berth_api::problem::refusal(&Refusal::StillRunning, &handle))
        }
    }
}

/// What nothing happened in for so long.
pub fn at_rest_for(ctx: &Ctx, rest_ms: u64) -> Result<Vec<(SessionId, Status)>, Problem> {
    let now = berth_host::clock::wall_ms();
    let ids = crate::listing::ids(ctx)?;
    let at_rest =
        |status: &Status| status.is_at_rest() && now.saturating_sub(status.last_activity_at.0) >= rest_ms;
    let known =
        ids.into_iter().filter_map(|id| view::status(&ctx.home, &id).ok().filter(at_rest).map(|it| (id, it)));
    Ok(known.collect())
}

/// Puts a session away that is still at rest for so long; nothing if somebody used it since it was looked at.
pub fn archive_at_rest(ctx: &Ctx, id: &SessionId, rest_ms: u64) -> Result<Option<Status>, Problem> {
    ctx.may(Deed::Archive, id)?;
    // Looked at again with the lease.
    let archived = recover::archive_at_rest(&ctx.home, id, rest_ms, ctx.me())?;
    Ok(archived.then_some(view::status(&ctx.home, id)?))
}

/// Brings a session back, once nothing is left of its last run. One that runs is back already.
pub fn restore(ctx: &Ctx, id: &SessionId) -> Result<Status, Problem> {
    ctx.may(Deed::Archive, id)?;
    match alone(ctx, id, &Command::Restore { by: ctx.me() })? {
        Alone::Done | Alone::Runs => view::status(&ctx.home, id),
    }
}

fn alone(ctx: &Ctx, id: &SessionId, command: &Command) -> Result<Alone, Problem> {
    let until = Instant::now() + PATIENCE;
    let mut pause = Duration::from_millis(1);
    loop {
        recover::heal(&ctx.home, id)?;
        let held = match recover::with_lease(&ctx.home, id, command.clone()) {
            Ok(()) => return Ok(Alone::Done),
            Err(problem) if problem.code == Code::Held => problem,
            Err(problem) => return Err(problem),
        };
        let session = view::history(&ctx.home, id)?.session;
        if session.is_live() && !process::lost_its_keeper(&session) {
            return Ok(Alone::Runs);
        }
        if Instant::now() >= until {
            return Err(held);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}

fn busy(id: &SessionId) -> Problem {
    Problem::new(Code::Held, format!("session {id} is being started or ended by another command"))
        .hint("try again")
}

/// Tags as a person writes them: `a` or `+a`.
pub fn tags(texts: &[String]) -> Result<Vec<Name>, Problem> {
    let tag = |text: &String| {
        Name::parse(text.strip_prefix('+').unwrap_or(text)).map_err(|bad| {
            Problem::new(Code::Usage, format!("`{text}` is not a valid tag: {bad}"))
                .hint("a tag is written as a name is, as in `fix-login`; nothing was changed")
        })
    };
    texts.iter().map(tag).collect()
}

/// What is to be different about a session.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Edit {
    /// Its new name.
    pub name: Option<String>,
    /// Tags it gets.
    pub add_tags: Vec<String>,
    /// Tags it loses.
    pub remove_tags: Vec<String>,
    /// What is written about it; nothing inside takes away what there is.
    pub note: Option<Option<String>>,
    /// When it ends and is archived by itself.
    pub policy: PolicyChange,
}

/// Changes a session. What cannot be is refused before anything is changed.
pub fn edit(ctx: &Ctx, id: &SessionId, edit: Edit) -> Result<Status, Problem> {
    let name = edit.name.as_deref().map(Name::parse).transpose();
    let name = name.map_err(|bad| Problem::new(Code::Usage, bad.to_string()))?;
    let (add, remove) = (tags(&edit.add_tags)?, tags(&edit.remove_tags)?);
    if let Some(Some(note)) = &edit.note {
        check_note(note)?;
    }
    // The one that somebody else may be in the way of comes first.
    if let Some(name) = &name {
        rename(ctx, id, name)?;
    }
    if !add.is_empty() || !remove.is_empty() {
        let words = |tags: &[Name]| tags.iter().map(ToString::to_string).collect();
        let request = Request::Tag { add: words(&add), remove: words(&remove) };
        change(ctx, id, request, Command::Tag { add, remove })?;
    }
    if let Some(note) = edit.note {
        change(ctx, id, Request::Note { note: note.clone() }, Command::Note { note })?;
    }
    if edit.policy != PolicyChange::default() {
        let command = Command::SetPolicy { change: edit.policy.clone().into() };
        change(ctx, id, Request::SetPolicy { change: edit.policy }, command)?;
    }
    Ok(ctx.known(id)?.0)
}

/// Refuses what is no note.
fn check_note(text: &str) -> Result<(), Problem> {
    if text.len() > MAX_NOTE_BYTES {
        let refusal = Refusal::NoteTooLong { bytes: text.len(), limit: MAX_NOTE_BYTES };
        return Err(berth_api::problem::refusal(&refusal, ""));
    }
    if text.trim().is_empty() {
        return Err(Problem::new(Code::Usage, "the note is empty; nothing was changed")
            .hint("`null` in the place of a text takes the note away"));
    }
    Ok(())
}

/// Gives a session this name, if no other has it.
pub fn rename(ctx: &Ctx, id: &SessionId, name: &Name) -> Result<(), Problem> {
    ctx.may(Deed::Rename, id)?;
    let old = view::history(&ctx.home, id)?.session.name;
    // Held until the session itself says its new name.
    let (_, claim) = ctx.home.claim_name(&Naming::Chosen(name.clone()), id)?;
    if let Err(problem) = ask_to_rename(ctx, id, name) {
        // A keeper that did not answer may have the new name all the same, and then needs its pointer.
        if problem.code != Code::Unreachable {
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

fn ask_to_rename(ctx: &Ctx, id: &SessionId, name: &Name) -> Result<(), Problem> {
    if ctx.ask(id, Request::Rename { name: name.to_string() })?.is_some() {
        return Ok(());
    }
    // Nobody keeps it: for this one event we do.
    recover::heal(&ctx.home, id)?;
    recover::with_lease(&ctx.home, id, Command::Rename { name: name.clone() })
}
