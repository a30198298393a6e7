//! Answers to questions that a session's agent asks.
//!
//! Promise: of several clients that answer one question, exactly one succeeds; the others get an error. It names the
//! client that answered, and the answer, if that is among the session's last few hundred events.

use berth_api::message::{KeeperAnswer, KeeperRequest};
use berth_api::record::Event;
use berth_api::turn::QuestionReply;
use berth_api::{Problem, ProblemCode, SessionStatus};
use berth_core::{Refusal, SessionId};
use berth_store::session_status;

use crate::context::VerbContext;
use crate::turns;

/// The id of a question, as people type and read it: `RUN:REQUEST`. Agents number their questions anew in each run, so
/// a request alone may name another question by the time its answer arrives.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QuestionId {
    /// The epoch of the run. Required for an answer that approves something.
    pub epoch: Option<u64>,
    /// The agent's own id of the question.
    pub request: String,
}

impl QuestionId {
    /// The id of a question of this run, if the run is known.
    pub fn new(epoch: impl Into<Option<u64>>, request: &str) -> Self {
        Self { epoch: epoch.into(), request: request.to_owned() }
    }
}

impl std::str::FromStr for QuestionId {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts = text.split_once(':').and_then(|(epoch, request)| Some((epoch.parse().ok()?, request)));
        Ok(match parts {
            Some((epoch, request)) => Self::new(Some(epoch), request),
            None => Self::new(None, text),
        })
    }
}

impl std::fmt::Display for QuestionId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.epoch {
            Some(epoch) => write!(f, "{epoch}:{}", self.request),
            None => f.write_str(&self.request),
        }
    }
}

/// Number of pages of events that are searched for an answer: a client that answers second does so soon after the first.
const LOOK_BACK_PAGES: usize = 8;

/// Answers a question of the agent. Without `request` the session must have exactly one open question. With an `epoch`
/// only a question of that run is answered: each run numbers its questions anew, and an old answer must not reach a new
/// question. `handle` is the caller's own word for the session, for messages.
pub fn answer(
    ctx: &VerbContext,
    id: &SessionId,
    handle: &str,
    request: Option<String>,
    reply: QuestionReply,
    epoch: Option<u64>,
) -> Result<SessionStatus, Problem> {
    let asked = KeeperRequest::AnswerAsk { request: request.clone(), reply, epoch };
    let refused = match ctx.ask(id, asked) {
        Ok(Some(KeeperAnswer::Done { status })) => return Ok(*status),
        Ok(Some(other)) => return Err(turns::unexpected_answer(&other)),
        Ok(None) => {
            let refusal = Refusal::NoSuchRequest { request: request.clone() };
            berth_api::problem::refusal(&refusal, handle)
        }
        Err(problem) => problem,
    };
    match request.filter(|_| refused.code == ProblemCode::NotFound) {
        Some(request) => Err(answered(ctx, id, &request, epoch).unwrap_or(refused)),
        None => Err(refused),
    }
}

/// The error if another client answered first, through berth or at the agent's own terminal.
fn answered(ctx: &VerbContext, id: &SessionId, request: &str, epoch: Option<u64>) -> Option<Problem> {
    let past = session_status::history(&ctx.home, id).ok()?;
    let session = ctx.home.session(id);
    // Only a terminal takes answers that berth does not see. For other drivers the agent withdrew the question.
    let has_terminal = ctx.known(id).is_ok_and(|known| known.0.what.has_terminal());
    let current = past.session.epoch.0;
    // An answer in another run belongs to another question, even if both have this id.
    let wanted = epoch.unwrap_or(current);
    let (mut is_in_run, mut found) = (wanted == current, None);
    'search: for page in session.pages_back(past.seq).take(LOOK_BACK_PAGES) {
        for event in page.ok()?.iter().rev() {
            match event.get().entry().event {
                // The events before it are of the run before. The start of that one may be further back.
                Event::RunStarting { epoch, .. } if epoch > wanted => {
                    (is_in_run, found) = (epoch == wanted.saturating_add(1), None);
                }
                Event::RunStarting { epoch, .. } => {
                    is_in_run = epoch == wanted;
                    break 'search;
                }
                Event::Answered { request: known, reply, by } if found.is_none() && known == request => {
                    found = Some(format!("was answered already, by {}: {reply}", by.place));
                }
                Event::QuestionWithdrawn { request: known }
                    if found.is_none() && known == request && has_terminal =>
                {
                    found = Some("was answered at its terminal, or is not asked any more".to_owned());
                }
                _ => {}
            }
        }
        if is_in_run && found.is_some() {
            break;
        }
    }
    found.filter(|_| is_in_run).map(|what| {
        Problem::refused(format!("`{request}` {what}")).hint("nothing was changed by this answer")
    })
}
