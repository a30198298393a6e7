//! Answering what a session's agent asks.
//!
//! Promise: of all who answer one question one does; the others hear who it was, and what.

use berth_api::message::{Answer, Request};
use berth_api::record::Event;
use berth_api::turn::Wish;
use berth_api::{Code, Problem, Status};
use berth_core::{Refusal, SessionId};
use berth_store::view;

use crate::ctx::Ctx;
use crate::turns;

/// Answers a question, the only one if none is named. With an `epoch` only a question of that run: agents number
/// their questions anew in each, and an old answer must not reach a new question. `handle` is how whoever answers
/// calls the session.
pub fn answer(
    ctx: &Ctx,
    id: &SessionId,
    handle: &str,
    request: Option<String>,
    wish: Wish,
    epoch: Option<u64>,
) -> Result<Status, Problem> {
    let asked = Request::AnswerAsk { request: request.clone(), wish, epoch };
    let refused = match ctx.ask(id, asked) {
        Ok(Some(Answer::Done { status })) => return Ok(*status),
        Ok(Some(other)) => return Err(turns::odd(&other)),
        Ok(None) => {
            let refusal = Refusal::NoSuchRequest { request: request.clone() };
            berth_api::problem::refusal(&refusal, handle)
        }
        Err(problem) => problem,
    };
    match request.filter(|_| refused.code == Code::NotFound) {
        Some(request) => Err(answered(ctx, id, &request, epoch).unwrap_or(refused)),
        None => Err(refused),
    }
}

/// Another client answered before, through berth or at the agent's own terminal.
fn answered(ctx: &Ctx, id: &SessionId, request: &str, epoch: Option<u64>) -> Option<Problem> {
    let past = view::history(&ctx.home, id).ok()?;
    let is_of_this_run = epoch.is_none_or(|epoch| epoch == past.session.epoch.0);
    let from = if is_of_this_run { past.run_seq.max(1) } else { 1 };
    let events = ctx.home.session(id).read(from).ok()?;
    // Only a terminal takes answers that berth does not see. Elsewhere the agent withdrew the question.
    let has_terminal = ctx.known(id).is_ok_and(|known| known.0.what.has_terminal());
    let (mut run, mut found) = (0, None);
    for event in &events {
        match event.get().entry().event {
            Event::RunStarting { epoch, .. } => run = epoch,
            Event::Answered { request: known, reply, by } if known == request => {
                found = Some((run, format!("was answered already, by {}: {reply}", by.place)));
            }
            Event::Unasked { request: known } if known == request && has_terminal => {
                found = Some((run, "was answered at its terminal, or is not asked any more".to_owned()));
            }
            _ => {}
        }
    }
    let (of, what) = found?;
    // What was answered in another run was another question, though it was called the same.
    (of == epoch.unwrap_or(run)).then(|| {
        Problem::new(Code::Refused, format!("`{request}` {what}")).hint("nothing was changed by this answer")
    })
}
