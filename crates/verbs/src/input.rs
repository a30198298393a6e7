//! Typing into a session's terminal, once.

use berth_api::client::Arrival;
use berth_api::message::{Answer, Request};
use berth_api::{Code, Problem, Status, problem};
use berth_core::{Refusal, SessionId};

use crate::Ctx;
use crate::ctx::ANSWER_PATIENCE;

/// The most that can be typed at once.
pub const MAX_BYTES: usize = 128 * 1024;

/// Types, and says what is known then. The `handle` is what whoever asks calls the session.
pub fn type_text(
    ctx: &Ctx,
    id: &SessionId,
    handle: &str,
    text: String,
    take: bool,
) -> Result<Status, Problem> {
    if text.len() > MAX_BYTES {
        return Err(Problem::new(
            Code::Refused,
            format!("at most {MAX_BYTES} bytes can be typed at once; nothing was"),
        )
        .hint("send it in pieces, or put it in a file and name the file"));
    }
    let Some(mut keeper) = ctx.keeper_of(id)? else {
        return Err(problem::refusal(&Refusal::NotRunning, handle));
    };
    let _ = keeper.set_patience(Some(ANSWER_PATIENCE));
    let mut heard = keeper.send(Request::Type { text, take }).and_then(|()| keeper.next());
    loop {
        match heard {
            Ok(Some(Arrival::Answer(Answer::Problem { problem }))) => return Err(problem),
            Ok(Some(Arrival::Answer(Answer::Done { status }))) => return Ok(*status),
            Ok(Some(Arrival::Answer(other))) => {
                return Err(Problem::new(Code::Bug, format!("the keeper gave an odd answer: {other:?}")));
            }
            Ok(Some(Arrival::Output(_) | Arrival::Screen(_) | Arrival::Notice(_))) => heard = keeper.next(),
            Ok(None) | Err(_) => return Err(unknown(handle)),
        }
    }
}

/// A keeper that was asked and did not answer: not even the record tells whether the keys went through.
fn unknown(session: &str) -> Problem {
    let what = format!("the keeper of session `{session}` did not answer: it may or may not have been typed");
    Problem::new(Code::Unreachable, what)
        .hint(format!("look with `berth screen {session}` or `berth log {session}` before typing it again"))
}
