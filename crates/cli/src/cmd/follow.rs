//! Following a run: its events and its output, also when the keeper replaces its own program on the way.
//!
//! Promise: ends with the run, with the time, or with the keeper's refusal.
//! Not here: the subscription (see `berth_verbs::cursor`), what to make of the news (see `output`, `wait` and `log`).

use std::time::Instant;

use berth_api::Problem;
use berth_api::record::{Entry, Event};
use berth_verbs::cursor::{self, Cursor};

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

/// Follows the current run. `hear` says whether that is enough.
pub(crate) fn follow(
    mut cursor: Cursor,
    until: Option<Instant>,
    mut hear: impl FnMut(News) -> Result<bool, Problem>,
) -> Result<Followed, Problem> {
    let mut run = u64::MAX;
    while let Some(news) = cursor.next(until) {
        let (news, over) = match news {
            cursor::News::Connected(status) => {
                run = status.epoch;
                (News::Output, false)
            }
            cursor::News::Event { seq, entry } => {
                // The ends of earlier runs are told as well.
                let over = matches!(entry.event, Event::RunEnded { epoch, .. } if epoch >= run);
                (News::Event { seq, entry }, over)
            }
            cursor::News::Notice(_) => (News::Output, false),
            cursor::News::Refused(problem) | cursor::News::Trouble(problem) => return Err(problem),
            cursor::News::NoKeeper(_) | cursor::News::Purged(_) => return Ok(Followed::Ended),
            cursor::News::Answer(_) | cursor::News::Silent | cursor::News::Lost => continue,
        };
        if hear(news)? {
            return Ok(Followed::Enough);
        }
        if over {
            return Ok(Followed::Ended);
        }
    }
    Ok(Followed::TimedOut)
}
