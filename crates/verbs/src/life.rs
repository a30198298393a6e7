//! Changing a session that may or may not have a keeper.
//!
//! Promise: what is changed is on disk, by the keeper if there is one and else by us with its lease; somebody
//! who starts, ends or clears up the session at the same time is waited for, not raced.
//! Start with [`change`].

use std::time::{Duration, Instant};

use berth_api::message::Request;
use berth_api::{Code, Problem, Status};
use berth_core::{Command, Deed, Name, Refusal, SessionId};
use berth_keeper::{callers, recover, view};

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
        if session.is_live() && !recover::lost_its_keeper(&session) {
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
    Problem::new(Code::Held, format!("session {id} is being started or ended by somebody else"))
        .hint("try again")
}

/// Tags as a person writes them: `a` or `+a`.
pub fn tags(texts: &[String]) -> Result<Vec<Name>, Problem> {
    let tag = |text: &String| {
        Name::parse(text.strip_prefix('+').unwrap_or(text)).map_err(|bad| {
            Problem::new(Code::Usage, format!("`{text}` is no tag: {bad}"))
                .hint("a tag is written as a name is, as in `fix-login`; nothing was changed")
        })
    };
    texts.iter().map(tag).collect()
}
