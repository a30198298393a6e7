//! What is on a session's screen, also when it is over.

use berth_api::message::{Answer, Request};
use berth_api::{Code, Problem, SessionState};
use berth_core::SessionId;
use berth_screen::{Screen, Size};
use berth_store::view;

use crate::Ctx;
use crate::ctx::ReadAnswer;

/// How much output is replayed to find the screen of a run whose keeper died.
const REPLAY_BYTES: u64 = 4 * 1024 * 1024;

/// The screen as text, with colours or without.
pub fn text(ctx: &Ctx, id: &SessionId, ansi: bool) -> Result<String, Problem> {
    match ctx.read(id, Request::Screen { ansi })? {
        ReadAnswer::Keeper(Answer::Screen { text, .. }) => Ok(text),
        ReadAnswer::Keeper(other) => {
            Err(Problem::new(Code::Bug, format!("the keeper gave an odd answer: {other:?}")))
        }
        ReadAnswer::NoKeeper | ReadAnswer::Silent => {
            let mut screen = remembered(ctx, id)?;
            Ok(if ansi { screen.ansi() } else { screen.text() })
        }
    }
}

/// The screen as the last run left it; after a crash, as its output tells.
pub fn remembered(ctx: &Ctx, id: &SessionId) -> Result<Screen, Problem> {
    let session = ctx.home.session(id);
    let status = view::status(&ctx.home, id)?;
    let bytes = match session.read_screen() {
        // One that was put away was stopped before, or lost: then what it left is of an earlier run.
        Ok(bytes)
            if matches!(status.state, SessionState::Stopped | SessionState::Archived)
                && status.exit.is_some() =>
        {
            bytes
        }
        Ok(_) | Err(_) => session.output().tail(status.output_from, REPLAY_BYTES).map_err(|error| {
            Problem::new(Code::Refused, format!("cannot read the output of session {id}: {error}"))
        })?,
    };
    let size = match (status.rows, status.cols) {
        (0, _) | (_, 0) => Size { rows: 24, cols: 80 },
        (rows, cols) => Size { rows, cols },
    };
    let mut screen = Screen::new(size.clamped());
    screen.feed(&bytes);
    Ok(screen)
}
