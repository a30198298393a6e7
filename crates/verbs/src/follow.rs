//! Follows a run: its events and its output, also while the keeper replaces its own program.
//!
//! Promise: following ends with the run, with the timeout, or with the keeper's refusal.
//! Not here: the subscription (see `berth_verbs::session_cursor`), the reaction to news (see `output`, `wait` and `log`).
//! Start with [`follow`].

use std::time::Instant;

use berth_api::Problem;
use berth_api::record::{Event, EventEntry};

use crate::session_cursor::{self, SessionCursor};

/// News from the keeper.
pub enum RunUpdate {
    /// A new entry of the journal.
    Event {
        /// The number of the event.
        seq: u64,
        /// The event.
        entry: Box<EventEntry>,
    },
    /// There may be new output.
    Output,
}

/// The reason why following ended.
pub enum FollowEnd {
    /// The callback returned true.
    Enough,
    /// The run ended, or no run was there.
    Ended,
    /// The timeout was reached.
    TimedOut,
}

/// Follows the current run. Ends early when `hear` returns true.
pub fn follow(
    mut cursor: SessionCursor,
    until: Option<Instant>,
    mut hear: impl FnMut(RunUpdate) -> Result<bool, Problem>,
) -> Result<FollowEnd, Problem> {
    let mut run = u64::MAX;
    while let Some(news) = cursor.next(until) {
        let (news, over) = match news {
            session_cursor::CursorNews::Connected(status) => {
                run = status.epoch;
                (RunUpdate::Output, false)
            }
            session_cursor::CursorNews::Event { seq, entry } => {
                // The keeper replays the ends of earlier runs as well.
                let over = matches!(entry.event, Event::RunEnded { epoch, .. } if epoch >= run);
                (RunUpdate::Event { seq, entry }, over)
            }
            session_cursor::CursorNews::Notice(_) => (RunUpdate::Output, false),
            session_cursor::CursorNews::Refused(problem) | session_cursor::CursorNews::Trouble(problem) => {
                return Err(problem);
            }
            session_cursor::CursorNews::NoKeeper(_) | session_cursor::CursorNews::Purged(_) => {
                return Ok(FollowEnd::Ended);
            }
            session_cursor::CursorNews::Answer(_)
            | session_cursor::CursorNews::Silent
            | session_cursor::CursorNews::Lost => continue,
        };
        if hear(news)? {
            return Ok(FollowEnd::Enough);
        }
        if over {
            return Ok(FollowEnd::Ended);
        }
    }
    Ok(FollowEnd::TimedOut)
}
