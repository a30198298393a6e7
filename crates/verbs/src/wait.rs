//! What can be waited for in a session, and whether it has come.
//!
//! Not here: the waiting itself. A terminal has a thread for it, a gateway has many who wait and one connection.
//! Start with [`is_there`]; for output, with [`Matcher`].

use berth_api::turn::split_turn_id;
use berth_api::{Code, Problem, SessionState, Status};
use berth_core::{Refusal, SessionId};
use berth_screen::Plain;
use berth_store::output::OutputFiles;
use regex::bytes::Regex;

use crate::ctx::Ctx;

/// How much of the output a pattern can look back over.
const LOOK_BACK_BYTES: usize = 1024 * 1024;
/// How much output is read at a time.
const READ_BYTES: usize = 64 * 1024;

/// A state of a session whose agent takes turns that can be waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wanted {
    /// It has nothing to do, and nothing waits.
    Idle,
    /// It needs an answer.
    NeedsYou,
}

impl Wanted {
    /// The state.
    pub fn state(self) -> SessionState {
        match self {
            Self::Idle => SessionState::Idle,
            Self::NeedsYou => SessionState::NeedsYou,
        }
    }
}

/// Whether a session is in this state.
pub fn is_there(status: &Status, wanted: Wanted) -> bool {
    let waits = status.turns.as_ref().is_some_and(|turns| !turns.queued.is_empty());
    status.state == wanted.state()
        && match wanted {
            Wanted::Idle => !waits,
            Wanted::NeedsYou => true,
        }
}

/// A session that nobody keeps does not change.
pub fn will_not_be(status: &Status, handle: &str, wanted: Wanted) -> Problem {
    let what = format!("session `{handle}` is {} and will not be {}", status.state, wanted.state());
    Problem::new(Code::Refused, what).hint(format!("`berth resume {handle}` starts it again"))
}

/// The turn that `done` means: the latest one.
pub fn latest_turn(status: &Status, handle: &str) -> Result<u64, Problem> {
    let Some(turns) = &status.turns else {
        return Err(berth_api::problem::refusal(&Refusal::NoTurns, handle));
    };
    if turns.total > 0 {
        return Ok(turns.total);
    }
    Err(Problem::new(Code::NotFound, format!("session `{handle}` has no turns"))
        .hint(format!("`berth send {handle} TEXT` sends one")))
}

/// The turn that the agent has, else the latest one.
pub fn current_or_latest_turn(status: &Status, handle: &str) -> Result<u64, Problem> {
    let current = status.turns.as_ref().and_then(|turns| split_turn_id(turns.current.as_deref()?));
    current.map_or_else(|| latest_turn(status, handle), |(_, number)| Ok(number))
}

/// A run that ended without having said it.
pub fn never_said(id: &SessionId) -> Problem {
    Problem::new(Code::Refused, format!("session {id} ended and nothing in its output matches"))
        .hint(format!("`berth output {id}` prints what it said"))
}

/// Looks for a pattern in the output of a session, as it comes.
pub struct Matcher {
    output: OutputFiles,
    offset: u64,
    regex: Regex,
    plain: Plain,
    text: Vec<u8>,
}

impl Matcher {
    /// Looks from `offset` on.
    pub fn new(ctx: &Ctx, id: &SessionId, offset: u64, regex: Regex) -> Self {
        let output = ctx.home.session(id).output();
        Self { output, offset, regex, plain: Plain::default(), text: Vec::new() }
    }

    /// Reads what is new; whether it matches, with what was before it.
    pub fn look(&mut self) -> Result<bool, Problem> {
        let mut buffer = vec![0; READ_BYTES];
        loop {
            let (count, from) = self.output.read_at(self.offset, &mut buffer).map_err(|error| {
                Problem::new(Code::Refused, format!("cannot read {}: {error}", self.output.display()))
            })?;
            if count == 0 {
                return Ok(false);
            }
            self.offset = from + count as u64;
            self.plain.feed(&buffer[..count], &mut self.text);
            if self.regex.is_match(&self.text) {
                return Ok(true);
            }
            if self.text.len() > 2 * LOOK_BACK_BYTES {
                self.text.drain(..begin_of_look_back(&self.text));
            }
        }
    }
}

/// Where to cut text that became too long: behind a line end if there is one, so that no line begins
/// where it did not.
fn begin_of_look_back(text: &[u8]) -> usize {
    let cut = text.len().saturating_sub(LOOK_BACK_BYTES);
    text[cut..].iter().position(|byte| *byte == b'\n').map_or(cut, |line_end| cut + line_end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_forgotten_ends_with_a_line() {
        let line = b"0123456789\n";
        let text = line.repeat(2 * LOOK_BACK_BYTES / line.len() + 2);
        let begin = begin_of_look_back(&text);
        assert!(text[begin..].starts_with(b"0123"));
        assert!(text.len() - begin > LOOK_BACK_BYTES - line.len());
        let one_line = vec![b'x'; 2 * LOOK_BACK_BYTES + 1];
        assert_eq!(begin_of_look_back(&one_line), LOOK_BACK_BYTES + 1, "a line without an end is cut");
    }
}
