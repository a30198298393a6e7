//! `berth run --replace OLD`: a new session in the place of one that runs.
//!
//! Promise: nothing is done without a yes. The old session is ended only when the new one runs, and an agent
//! that takes turns is ready; if the new one does not start, the old one was never touched. If the old one
//! cannot be ended both are named, and both go on.
//! Not here: starting the new one (see `run`) and ending the old one (see `stop`).
//! Start with [`Replaced::agreed`], then [`Replaced::by`].

use berth_api::{Code, Problem, Status};
use berth_core::{Deed, Name, SessionId};
use berth_store::view;

use crate::cmd::stop;
use crate::ctx::Ctx;
use crate::meant::Meant;
use crate::{consent, life, print};

/// How long the old session's processes may take before they are killed.
const GRACE_MS: u64 = 5000;
/// How many letters of its id an old session is called by, behind the name it had.
const SUFFIX: usize = 4;

/// A session whose end was agreed to.
pub(crate) struct Replaced {
    old: Meant,
    /// The name that the new one takes over.
    name: Option<Name>,
    /// Nothing of it ran, so nobody was asked for a yes.
    was_over: bool,
}

impl Replaced {
    /// Looks the old session up and gets a yes to ending it. `name` is what the new one is to be called.
    pub(crate) fn agreed(ctx: &Ctx, old: &str, name: Option<&Name>, said: bool) -> Result<Self, Problem> {
        let old = ctx.target(Some(old))?;
        ctx.may(Deed::Stop, &old.id)?;
        let status = ctx.status(&old.id)?;
        let handle = status.handle();
        let was_over = status.is_over();
        if !was_over {
            let what = format!(
                "session `{handle}`, which is {}, would be ended once the new one runs",
                status.state
            );
            consent::ask(&what, said)?;
        }
        let name = name.filter(|name| status.name.as_deref() == Some(name.as_str())).cloned();
        Ok(Self { old: Meant { handle: handle.to_owned(), ..old }, name, was_over })
    }

    /// Whether the new session takes over the old one's name. It gets it when the old one is over: until then
    /// both may run, and a name means one.
    pub(crate) fn hands_on_its_name(&self) -> bool {
        self.name.is_some()
    }

    /// Ends the old session in favour of one that runs.
    pub(crate) fn by(self, ctx: &Ctx, new: &Status) -> Result<(), Problem> {
        let Meant { id, handle, .. } = &self.old;
        if *id.as_str() == new.id {
            return Err(Problem::new(Code::Usage, format!("session `{handle}` cannot replace itself"))
                .hint("the key means that very session; use another key for a new one"));
        }
        let ended = if self.was_over {
            ctx.status(id).and_then(|status| if status.is_over() { Ok(status) } else { Err(came_back()) })
        } else {
            let ended = stop::stop_together(ctx, std::slice::from_ref(id), GRACE_MS).next();
            ended.unwrap_or_else(|| ctx.status(id))
        };
        let status = ended.map_err(|problem| both_go_on(&problem, handle, new))?;
        let ending = print::ending(&status).unwrap_or_else(|| status.state.to_string());
        print::note(&format!("{handle}: {ending}, replaced by {}", new.handle()));
        let Some(name) = &self.name else { return Ok(()) };
        let new_id =
            SessionId::parse(&new.id).ok_or_else(|| Problem::new(Code::Bug, "the keeper gave no id"))?;
        hand_on(ctx, id, &new_id, name).map_err(|problem| {
            let what = format!(
                "session {new_id} runs in the place of {id}, but is not called `{name}`: {}",
                problem.what
            );
            Problem::new(problem.code, what)
                .hint(format!("`berth rename {new_id} {name}` once that is fixed"))
        })
    }
}

/// Gives the old session's name to the new one. The old one keeps its record, so it needs another.
fn hand_on(ctx: &Ctx, old: &SessionId, new: &SessionId, name: &Name) -> Result<(), Problem> {
    // It may have been renamed while it was being ended.
    if view::history(&ctx.home, old)?.session.name.as_ref() == Some(name) {
        let stem = &name.as_str()[..name.as_str().len().min(Name::MAX_BYTES - SUFFIX - 1)];
        let other = format!("{stem}-{}", &old.as_str()[..SUFFIX]);
        let bad = |bad: berth_core::BadName| Problem::new(Code::Refused, bad.to_string());
        let other = Name::parse(&other).map_err(bad)?;
        life::rename(ctx, old, &other)?;
        print::note(&format!("{old} was `{name}` and is now `{other}`"));
    }
    life::rename(ctx, new, name)
}

/// Somebody started the old session while the new one began, and nobody said yes to ending what runs now.
fn came_back() -> Problem {
    Problem::new(Code::Held, "it was over, and was started again meanwhile")
}

fn both_go_on(problem: &Problem, old: &str, new: &Status) -> Problem {
    let what =
        format!("session {} runs, and session `{old}` could not be ended: {}", new.handle(), problem.what);
    Problem::new(problem.code, what).hint(format!(
        "`berth stop {old}` tries again; `berth stop {}` ends the new one instead",
        new.handle()
    ))
}
