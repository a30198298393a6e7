//! Following a session: what its keeper tells, also when it replaces its own program on the way.
//!
//! Promise: ends with the run, with the time, or with the keeper's refusal, and never spins.
//! Not here: what to make of the news (see `output`, `wait` and `log`).

use std::io;
use std::time::{Duration, Instant};

use berth_api::Problem;
use berth_api::client::Arrival;
use berth_api::message::{Answer, Notice, Request};
use berth_api::record::{Entry, Event};
use berth_core::SessionId;

use crate::ctx::Ctx;

/// The longest pause before connecting again: a keeper that drops everyone at once must not cost a core.
const MAX_PAUSE: Duration = Duration::from_millis(200);

/// What the keeper tells.
pub(crate) enum News {
    /// Something happened.
    Event { seq: u64, entry: Box<Entry> },
    /// There may be more output.
    Output,
}

/// Why following is over.
pub(crate) enum Followed {
    /// Whoever listened has heard enough.
    Enough,
    /// The run ended, or there is none.
    Ended,
    /// The time is up.
    TimedOut,
}

/// Follows the current run: events from number `from` on, and output. `hear` says whether that is
/// enough.
pub(crate) fn follow(
    ctx: &Ctx,
    id: &SessionId,
    mut from: u64,
    until: Option<Instant>,
    mut hear: impl FnMut(News) -> Result<bool, Problem>,
) -> Result<Followed, Problem> {
    let time_left = || until.map(|until| until.saturating_duration_since(Instant::now()));
    let mut pause = Duration::from_millis(1);
    while let Some(mut keeper) = ctx.keeper_of(id)? {
        // If this fails, then so does listening.
        let _ = keeper.send(Request::Watch { from });
        let mut run = 0;
        loop {
            let left = time_left();
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(Followed::TimedOut);
            }
            let _ = keeper.set_patience(left);
            let (news, over) = match keeper.next() {
                Ok(Some(Arrival::Answer(Answer::Problem { problem }))) => return Err(problem),
                Ok(Some(Arrival::Answer(Answer::Done { status }))) => {
                    run = status.epoch;
                    (News::Output, false)
                }
                Ok(Some(Arrival::Notice(Notice::Event { seq, entry }))) => {
                    from = from.max(seq + 1);
                    // The ends of earlier runs are told as well.
                    let over = matches!(entry.event, Event::RunEnded { epoch, .. } if epoch >= run);
                    (News::Event { seq, entry }, over)
                }
                Ok(Some(_)) => (News::Output, false),
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    continue;
                }
                // Gone: either it is over, or the keeper replaced itself and is back at once.
                Ok(None) | Err(_) => break,
            };
            if hear(news)? {
                return Ok(Followed::Enough);
            }
            if over {
                return Ok(Followed::Ended);
            }
        }
        std::thread::sleep(time_left().map_or(pause, |left| left.min(pause)));
        pause = (pause * 2).min(MAX_PAUSE);
    }
    Ok(Followed::Ended)
}
