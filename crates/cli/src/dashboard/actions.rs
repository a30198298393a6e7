//! Doing what a person asked for, away from the drawing thread.
//!
//! Promise: each is the same as the command of the same name, with the same refusals and hints.
//! Start with [`start`].

use std::sync::Arc;

use berth_api::message::{Request, Submit, Take};
use berth_api::turn::split_turn_id;
use berth_api::{Code, Problem};
use berth_core::{Command, Refusal, SessionId};
use berth_verbs::{answer, input, resume};

use super::model::{Action, Done};
use super::source::{Mailbox, spawn};
use crate::cmd::stop;
use crate::ctx::Ctx;
use crate::{life, print, turns};

/// How long a run is given to end by itself: what `berth stop` gives.
const GRACE_MS: u64 = 5000;

/// Begins something; how it came out is left in the mailbox under these words.
pub(crate) fn start(ctx: &Arc<Ctx>, mailbox: &Arc<Mailbox>, what: String, handle: String, action: Action) {
    let (there, label) = (Arc::clone(mailbox), what.clone());
    let ctx = Arc::clone(ctx);
    let work = move || {
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(&ctx, &handle, &action)));
        let outcome = done.unwrap_or_else(|_| {
            Err(Problem::new(Code::Bug, format!("{label} failed"))
                .hint("`berth why` shows the session as it is"))
        });
        there.put(|inbox| inbox.done.push(Done { what: label, outcome }));
    };
    if let Err(problem) = spawn("action", mailbox, work) {
        mailbox.put(|inbox| inbox.done.push(Done { what, outcome: Err(problem) }));
    }
}

fn run(ctx: &Ctx, handle: &str, action: &Action) -> Result<String, Problem> {
    match action {
        Action::Send { id, text } => send(ctx, id, handle, text),
        Action::Type { id, text } => type_text(ctx, id, handle, text),
        Action::Answer { id, request, wish, epoch } => {
            answer::answer(ctx, id, handle, Some(request.clone()), wish.clone(), Some(*epoch))?;
            Ok(format!("answered {handle}"))
        }
        Action::Stop { id } => {
            let ids = [id.clone()];
            let ended = stop::stop_together(ctx, &ids, GRACE_MS).next();
            let status = ended.unwrap_or_else(|| Err(Problem::new(Code::Bug, "nothing was stopped")))?;
            Ok(format!("{handle}: {}", print::ending(&status).unwrap_or(status.state)))
        }
        Action::Cancel { id, turn } => {
            let number = split_turn_id(turn).map(|(_, number)| number);
            let number = number.ok_or_else(|| Problem::new(Code::Bug, format!("`{turn}` is no turn")))?;
            let command = Command::Cancel { turn: number, by: ctx.me() };
            turns::change(ctx, id, Request::Cancel { turn: number }, command)?;
            Ok(format!("{handle} was told to break off turn {number}"))
        }
        Action::Resume { id } => {
            let (_, status) = resume::begin(ctx, id, handle, false, Take::Nobody)?;
            Ok(format!("{handle} is {}", status.state))
        }
        Action::Archive { id } => {
            life::archive(ctx, id)?;
            Ok(format!("{handle} is archived; . shows it, and A brings it back"))
        }
        Action::Restore { id } => {
            life::restore(ctx, id)?;
            Ok(format!("{handle} is back"))
        }
    }
}

fn send(ctx: &Ctx, id: &SessionId, handle: &str, text: &str) -> Result<String, Problem> {
    let (_, receipt) = turns::send(ctx, id, Submit { text: text.to_owned(), ..Submit::default() })?;
    let turn = receipt.number;
    Ok(match (receipt.held, receipt.position) {
        (Some(held), _) => format!("turn {turn} of {handle} is accepted, and waits: {held}"),
        (None, Some(0)) => format!("turn {turn} of {handle} is accepted: it is next"),
        (None, Some(before)) => format!("turn {turn} of {handle} is accepted: {before} before it"),
        (None, None) => format!("turn {turn} of {handle} is {}", receipt.state),
    })
}

/// Types a line into a terminal and presses Enter. A line end in it is an Enter too, as on a keyboard.
fn type_text(ctx: &Ctx, id: &SessionId, handle: &str, text: &str) -> Result<String, Problem> {
    let text = text.replace('\n', "\r") + "\r";
    if text.len() > input::MAX_BYTES {
        let what = format!("at most {} bytes can be typed at once; nothing was", input::MAX_BYTES);
        return Err(Problem::new(Code::Refused, what).hint("put it in a file and name the file"));
    }
    match ctx.ask(id, Request::Type { text, take: false })? {
        Some(_) => Ok(format!("typed into {handle}")),
        None => Err(berth_api::problem::refusal(&Refusal::NotRunning, handle)),
    }
}
