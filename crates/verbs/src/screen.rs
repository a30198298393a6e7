//! Screen of a session, also after its end.

use berth_api::message::{KeeperAnswer, KeeperRequest};
use berth_api::{Problem, SessionState};
use berth_core::SessionId;
use berth_screen::{Screen, ScreenSize};
use berth_store::session_status;

use crate::VerbContext;
use crate::context::ReadAnswer;

/// Limit for the output that is replayed to restore the screen of a run whose keeper died.
const REPLAY_BYTES: u64 = 4 * 1024 * 1024;

/// The screen as text, with colours or without.
pub fn screen_text(ctx: &VerbContext, id: &SessionId, ansi: bool) -> Result<String, Problem> {
    match ctx.read(id, KeeperRequest::Screen { ansi })? {
        ReadAnswer::Keeper(KeeperAnswer::Screen { text, .. }) => Ok(text),
        ReadAnswer::Keeper(other) => {
            Err(Problem::bug(format!("the keeper sent an unexpected answer: {other:?}")))
        }
        ReadAnswer::NoKeeper | ReadAnswer::Silent => {
            let mut screen = remembered_screen(ctx, id)?;
            Ok(if ansi { screen.ansi() } else { screen.text() })
        }
    }
}

/// The screen at the end of the last run; after a crash it is restored from the output.
pub fn remembered_screen(ctx: &VerbContext, id: &SessionId) -> Result<Screen, Problem> {
    let session = ctx.home.session(id);
    let status = session_status::status(&ctx.home, id)?;
    let bytes = match session.read_screen() {
        // An archived session was stopped before, or lost: then the saved screen is of an earlier run.
        Ok(bytes)
            if matches!(status.state, SessionState::Stopped | SessionState::Archived)
                && status.exit.is_some() =>
        {
            bytes
        }
        Ok(_) | Err(_) => session
            .output()
            .tail(status.output_from, REPLAY_BYTES)
            .map_err(|error| Problem::refused(format!("cannot read the output of session {id}: {error}")))?,
    };
    let size = match (status.rows, status.cols) {
        (0, _) | (_, 0) => ScreenSize { rows: 24, cols: 80 },
        (rows, cols) => ScreenSize { rows, cols },
    };
    let mut screen = Screen::new(size.clamped());
    screen.feed(&bytes);
    Ok(screen)
}
