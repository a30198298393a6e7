//! Which helper somebody means.
//!
//! Promise: a helper of another directory is meant only if no other could be. A session can release from
//! anywhere what it owns; but first it means the one of here, also if it has left that already.

use std::path::Path;

use berth_api::{Code, Problem, SessionState, Status};
use berth_core::{Name, Scope, SessionId};
use berth_keeper::helpers::helper_id;
use berth_store::view;

use super::described;
use crate::ctx::Ctx;

/// How many are listed when a name could mean many.
const LISTED: usize = 8;

/// The helper somebody means who is in the directory `place`.
pub fn find(ctx: &Ctx, text: &str, place: Option<&str>) -> Result<SessionId, Problem> {
    if let Some(id) = whole_id(ctx, text) {
        return Ok(id);
    }
    let all = named(ctx, text, place)?;
    match here(ctx, text, place, &all.known) {
        Some(id) => Ok(id),
        None => only_one(text, &all),
    }
}

/// The helper of that name that a session means when it leaves: the one of here that it owns or owned; else
/// the one that it owns, wherever it is; else one that it owned. In this order, because who leaves the one
/// of here twice must not lose the one of elsewhere.
pub fn find_owned(
    ctx: &Ctx,
    text: &str,
    place: Option<&str>,
    owner: &SessionId,
) -> Result<SessionId, Problem> {
    if let Some(id) = whole_id(ctx, text) {
        return Ok(id);
    }
    let all = named(ctx, text, place)?;
    let owns = |status: &Status| {
        let owners = status.helper.iter().flat_map(|helper| &helper.owners);
        owners.into_iter().any(|it| it.session == owner.as_str())
    };
    let owned = |status: &Status| {
        let id = SessionId::parse(&status.id);
        let history = id.and_then(|id| view::history(&ctx.home, &id).ok());
        history.and_then(|it| it.session.sharing).is_some_and(|sharing| sharing.was_owner(owner))
    };
    let those = |is_meant: &dyn Fn(&Status) -> bool| -> Vec<Status> {
        all.known.iter().filter(|status| is_meant(status)).cloned().collect()
    };
    let (owning, past) = (those(&owns), those(&owned));
    if let Some(id) = here(ctx, text, place, &owning).or_else(|| here(ctx, text, place, &past)) {
        return Ok(id);
    }
    match [owning, past].into_iter().find(|mine| !mine.is_empty()) {
        Some(mine) => only_one(text, &Named { known: mine, unreadable: Vec::new() }),
        // Whichever it is, the answer is that it is not theirs.
        None => here(ctx, text, place, &all.known).map_or_else(|| only_one(text, &all), Ok),
    }
}

/// All helpers of a name.
struct Named {
    known: Vec<Status>,
    /// Records that cannot be read, and so may be of that name.
    unreadable: Vec<Problem>,
}

fn named(ctx: &Ctx, text: &str, place: Option<&str>) -> Result<Named, Problem> {
    let mut all = Named { known: Vec::new(), unreadable: Vec::new() };
    for id in ids(ctx)? {
        match view::status(&ctx.home, &id) {
            Ok(status) => {
                let status = described(ctx, status);
                if status.helper.as_ref().is_some_and(|helper| helper.name == text) {
                    all.known.push(status);
                }
            }
            // Being made this very moment, or given up before anything was recorded.
            Err(problem) if problem.code == Code::NotFound => {}
            // The one of this directory is known by its id.
            Err(problem) if ids_here(ctx, text, place).contains(&id) => {
                return Err(super::reworded(problem, &id));
            }
            Err(problem) => all.unreadable.push(super::reworded(problem, &id)),
        }
    }
    Ok(all)
}

pub(crate) fn ids(ctx: &Ctx) -> Result<Vec<SessionId>, Problem> {
    ctx.home.list()
}

fn whole_id(ctx: &Ctx, text: &str) -> Option<SessionId> {
    SessionId::parse(text).filter(|id| ctx.home.session(id).exists())
}

/// What the name means here: in this directory, then in this account.
fn ids_here(ctx: &Ctx, text: &str, place: Option<&str>) -> Vec<SessionId> {
    let Ok(name) = Name::parse(text) else { return Vec::new() };
    let dir = place.map(|dir| Scope::Dir(dir.to_owned()));
    dir.into_iter()
        .chain([Scope::User])
        .filter_map(|scope| helper_id(&ctx.home, &name, &scope).ok())
        .collect()
}

/// The one of this place; of two, the one that is up.
fn here(ctx: &Ctx, text: &str, place: Option<&str>, known: &[Status]) -> Option<SessionId> {
    let of_id = |id: &SessionId| known.iter().find(|status| status.id == id.as_str());
    let ids = ids_here(ctx, text, place);
    let is_up = |id: &&SessionId| of_id(id).is_some_and(|status| status.state != SessionState::Stopped);
    let found = ids.iter().find(is_up).or_else(|| ids.iter().find(|id| of_id(id).is_some()));
    let found = found.filter(|id| ctx.home.session(id).exists()).cloned();
    // A directory that is gone has no identity any more; its helper is known by the path it had.
    let is_gone = place.is_some_and(|dir| !Path::new(dir).exists());
    let had_path = |status: &&Status| status.helper.as_ref().is_some_and(|it| it.dir.as_deref() == place);
    let of_path = || known.iter().find(had_path).and_then(|status| SessionId::parse(&status.id));
    found.or_else(|| is_gone.then(of_path).flatten())
}

fn only_one(text: &str, all: &Named) -> Result<SessionId, Problem> {
    let up: Vec<&Status> = all.known.iter().filter(|status| status.state != SessionState::Stopped).collect();
    let meant: Vec<&Status> = if up.is_empty() { all.known.iter().collect() } else { up };
    match meant.as_slice() {
        [one] => SessionId::parse(&one.id).ok_or_else(|| Problem::new(Code::Bug, "a helper without an id")),
        [] => {
            let mut problem = Problem::new(Code::NotFound, format!("there is no helper `{text}`"))
                .hint("`berth helper ls --all` lists the helpers there are");
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
            let place = |status: &&Status| {
                let dir = status.helper.as_ref().and_then(|helper| helper.dir.clone());
                format!("{} of {}", status.id, dir.unwrap_or_else(|| "the account".to_owned()))
            };
            let shown: Vec<_> = several.iter().take(LISTED).map(place).collect();
            let more = if several.len() > LISTED { ", …" } else { "" };
            let what = format!("`{text}` could mean {} helpers: {}{more}", several.len(), shown.join(", "));
            Err(Problem::new(Code::NotFound, what).hint("name one by its id"))
        }
    }
}
