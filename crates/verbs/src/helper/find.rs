//! Finding a helper by name or id.
//!
//! Promise: a name means a helper of another directory only if no other helper has the name. A session can release its
//! helpers from any directory; but the name means the helper of the current directory first, even if the session has
//! left that one already.

use std::path::Path;

use berth_api::{Problem, ProblemCode, SessionState, SessionStatus};
use berth_core::{HelperScope, SafeName, SessionId};
use berth_keeper::helpers::helper_id;
use berth_store::session_status;

use super::describe_helper;
use crate::context::VerbContext;

/// Limit for the helpers that an ambiguous name lists.
const LISTED: usize = 8;

/// Finds the helper of this name or id for a caller in the directory `place`.
pub fn find(ctx: &VerbContext, text: &str, place: Option<&str>) -> Result<SessionId, Problem> {
    if let Some(id) = whole_id(ctx, text) {
        return Ok(id);
    }
    let all = named(ctx, text, place)?;
    match here(ctx, text, place, &all.known) {
        Some(id) => Ok(id),
        None => only_one(text, &all),
    }
}

/// Finds the helper of that name that a session leaves: the helper of this directory that the session owns or owned;
/// else the one that it owns, in any directory; else one that it owned. In this order, because a session that leaves
/// the helper of this directory twice must not lose one of another directory.
pub fn find_owned(
    ctx: &VerbContext,
    text: &str,
    place: Option<&str>,
    owner: &SessionId,
) -> Result<SessionId, Problem> {
    if let Some(id) = whole_id(ctx, text) {
        return Ok(id);
    }
    let all = named(ctx, text, place)?;
    let owns = |status: &SessionStatus| {
        let owners = status.helper.iter().flat_map(|helper| &helper.owners);
        owners.into_iter().any(|it| it.session == owner.as_str())
    };
    let owned = |status: &SessionStatus| {
        let id = SessionId::parse(&status.id);
        let history = id.and_then(|id| session_status::history(&ctx.home, &id).ok());
        history.and_then(|it| it.session.sharing).is_some_and(|sharing| sharing.was_owner(owner))
    };
    let those = |is_meant: &dyn Fn(&SessionStatus) -> bool| -> Vec<SessionStatus> {
        all.known.iter().filter(|status| is_meant(status)).cloned().collect()
    };
    let (owning, past) = (those(&owns), those(&owned));
    if let Some(id) = here(ctx, text, place, &owning).or_else(|| here(ctx, text, place, &past)) {
        return Ok(id);
    }
    match [owning, past].into_iter().find(|mine| !mine.is_empty()) {
        Some(mine) => only_one(text, &HelperMatches { known: mine, unreadable: Vec::new() }),
        // For any of them the answer is that the session does not own it.
        None => here(ctx, text, place, &all.known).map_or_else(|| only_one(text, &all), Ok),
    }
}

/// All helpers of one name.
struct HelperMatches {
    known: Vec<SessionStatus>,
    /// Errors of records that cannot be read, and so may have that name.
    unreadable: Vec<Problem>,
}

fn named(ctx: &VerbContext, text: &str, place: Option<&str>) -> Result<HelperMatches, Problem> {
    let mut all = HelperMatches { known: Vec::new(), unreadable: Vec::new() };
    for id in ids(ctx)? {
        match session_status::status(&ctx.home, &id) {
            Ok(status) => {
                let status = describe_helper(ctx, status);
                if status.helper.as_ref().is_some_and(|helper| helper.name == text) {
                    all.known.push(status);
                }
            }
            // A helper that is just being created, or that was given up before its first event.
            Err(problem) if problem.code == ProblemCode::NotFound => {}
            // The helper of this directory is known by its id.
            Err(problem) if ids_here(ctx, text, place).contains(&id) => {
                return Err(super::reword_for_helper(problem, &id));
            }
            Err(problem) => all.unreadable.push(super::reword_for_helper(problem, &id)),
        }
    }
    Ok(all)
}

pub(crate) fn ids(ctx: &VerbContext) -> Result<Vec<SessionId>, Problem> {
    ctx.home.list()
}

fn whole_id(ctx: &VerbContext, text: &str) -> Option<SessionId> {
    SessionId::parse(text).filter(|id| ctx.home.session(id).exists())
}

/// Ids of the name: in this directory, then in this account.
fn ids_here(ctx: &VerbContext, text: &str, place: Option<&str>) -> Vec<SessionId> {
    let Ok(name) = SafeName::parse(text) else { return Vec::new() };
    let dir = place.map(|dir| HelperScope::Dir(dir.to_owned()));
    dir.into_iter()
        .chain([HelperScope::User])
        .filter_map(|scope| helper_id(&ctx.home, &name, &scope).ok())
        .collect()
}

/// The helper of this place; of two, the running one.
fn here(ctx: &VerbContext, text: &str, place: Option<&str>, known: &[SessionStatus]) -> Option<SessionId> {
    let of_id = |id: &SessionId| known.iter().find(|status| status.id == id.as_str());
    let ids = ids_here(ctx, text, place);
    let is_up = |id: &&SessionId| of_id(id).is_some_and(|status| status.state != SessionState::Stopped);
    let found = ids.iter().find(is_up).or_else(|| ids.iter().find(|id| of_id(id).is_some()));
    let found = found.filter(|id| ctx.home.session(id).exists()).cloned();
    // A directory that was deleted has no identity any more; its helper is known by the path.
    let is_gone = place.is_some_and(|dir| !Path::new(dir).exists());
    let had_path =
        |status: &&SessionStatus| status.helper.as_ref().is_some_and(|it| it.dir.as_deref() == place);
    let of_path = || known.iter().find(had_path).and_then(|status| SessionId::parse(&status.id));
    found.or_else(|| is_gone.then(of_path).flatten())
}

fn only_one(text: &str, all: &HelperMatches) -> Result<SessionId, Problem> {
    let up: Vec<&SessionStatus> =
        all.known.iter().filter(|status| status.state != SessionState::Stopped).collect();
    let meant: Vec<&SessionStatus> = if up.is_empty() { all.known.iter().collect() } else { up };
    match meant.as_slice() {
        [one] => SessionId::parse(&one.id).ok_or_else(|| Problem::bug("a helper without an id")),
        [] => {
            let mut problem = Problem::not_found(format!("there is no helper `{text}`"))
                .hint("`berth helper ls --all` lists all helpers");
            if let Some(unreadable) = all.unreadable.first() {
                problem.what.push_str(&format!(
                    "; {} cannot be read and may be it: {}",
                    all.unreadable.len(),
                    unreadable.what
                ));
            }
            Err(problem)
        }
        several => {
            let place = |status: &&SessionStatus| {
                let dir = status.helper.as_ref().and_then(|helper| helper.dir.clone());
                format!("{} of {}", status.id, dir.unwrap_or_else(|| "the account".to_owned()))
            };
            let shown: Vec<_> = several.iter().take(LISTED).map(place).collect();
            let more = if several.len() > LISTED { ", …" } else { "" };
            let what = format!("`{text}` could mean {} helpers: {}{more}", several.len(), shown.join(", "));
            Err(Problem::not_found(what).hint("name one of them by its id"))
        }
    }
}
