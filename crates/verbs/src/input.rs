//! Typing: input for a session's terminal, once.

use berth_api::client::KeeperMessage;
use berth_api::message::{KeeperAnswer, KeeperRequest};
use berth_api::{Problem, SessionStatus, problem};
use berth_core::{Refusal, SessionId};

use crate::VerbContext;
use crate::context::ANSWER_PATIENCE;

/// Limit for one input, in bytes.
pub const MAX_BYTES: usize = 128 * 1024;

/// Types the text, and returns the status after that. The `handle` is the caller's own word for the session, for
/// messages.
pub fn type_into_session(
    ctx: &VerbContext,
    id: &SessionId,
    handle: &str,
    text: String,
    take: bool,
) -> Result<SessionStatus, Problem> {
    if text.len() > MAX_BYTES {
        return Err(Problem::refused(format!(
            "at most {MAX_BYTES} bytes can be typed at once; nothing was typed"
        ))
        .hint("send it in pieces, or put it in a file and name the file"));
    }
    let Some(mut keeper) = ctx.keeper_of(id)? else {
        return Err(problem::refusal(&Refusal::NotRunning, handle));
    };
    let _ = keeper.set_timeout(Some(ANSWER_PATIENCE));
    let mut heard = keeper.send(KeeperRequest::Type { text, take }).and_then(|()| keeper.next());
    loop {
        match heard {
            Ok(Some(KeeperMessage::Answer(KeeperAnswer::Problem { problem }))) => return Err(problem),
            Ok(Some(KeeperMessage::Answer(KeeperAnswer::Done { status }))) => return Ok(*status),
            Ok(Some(KeeperMessage::Answer(other))) => {
                return Err(Problem::bug(format!("the keeper sent an unexpected answer: {other:?}")));
            }
            Ok(Some(KeeperMessage::Output(_) | KeeperMessage::Screen(_) | KeeperMessage::Notice(_))) => {
                heard = keeper.next()
            }
            Ok(None) | Err(_) => return Err(unknown(handle)),
        }
    }
}

/// The error of a keeper that did not answer: not even the record tells whether the text was typed.
fn unknown(session: &str) -> Problem {
    let what =
        format!("the keeper of session `{session}` did not answer: the text may or may not have been typed");
    Problem::unreachable(what).hint(format!(
        "look with `berth screen {session}` or `berth log {session}` before typing the text again"
    ))
}
