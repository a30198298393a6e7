//! Conditions that a client can wait for in a session.
//!
//! Not here: the waiting itself. A terminal has a thread for it, a gateway has many waiting clients and one connection.
//! Start with [`is_reached`]; for output, with [`OutputMatcher`].

use berth_api::turn::split_turn_id;
use berth_api::{Problem, ProblemCode, SessionState, SessionStatus};
use berth_core::{Refusal, SessionId};
use berth_screen::PlainTextFilter;
use berth_store::output::OutputFiles;
use regex::bytes::Regex;

use crate::context::VerbContext;

/// Limit for the output that a pattern can match across.
const LOOK_BACK_BYTES: usize = 1024 * 1024;
/// Limit for one read of the output.
const READ_BYTES: usize = 64 * 1024;

/// State that a client can wait for, of a session whose agent takes turns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AwaitedState {
    /// The agent is idle, and no turn waits.
    Idle,
    /// The agent needs an answer.
    NeedsYou,
}

impl AwaitedState {
    /// The session state for this condition.
    pub fn state(self) -> SessionState {
        match self {
            Self::Idle => SessionState::Idle,
            Self::NeedsYou => SessionState::NeedsYou,
        }
    }
}

/// True if a session is in this state.
pub fn is_reached(status: &SessionStatus, wanted: AwaitedState) -> bool {
    let waits = status.turns.as_ref().is_some_and(|turns| !turns.queued.is_empty());
    status.state == wanted.state()
        && match wanted {
            AwaitedState::Idle => !waits,
            AwaitedState::NeedsYou => true,
        }
}

/// The error for a session without a keeper: its state does not change.
pub fn not_running_problem(status: &SessionStatus, handle: &str, wanted: AwaitedState) -> Problem {
    let what = format!("session `{handle}` is {}, so it cannot become {}", status.state, wanted.state());
    Problem::refused(what).hint(format!("`berth resume {handle}` starts it again"))
}

/// The turn that the condition `done` means: the latest one.
pub fn latest_turn(status: &SessionStatus, handle: &str) -> Result<u64, Problem> {
    let Some(turns) = &status.turns else {
        return Err(berth_api::problem::refusal(&Refusal::NoTurns, handle));
    };
    if turns.total > 0 {
        return Ok(turns.total);
    }
    Err(Problem::not_found(format!("session `{handle}` has no turns"))
        .hint(format!("`berth send {handle} TEXT` sends one")))
}

/// The running turn, else the latest one.
pub fn current_or_latest_turn(status: &SessionStatus, handle: &str) -> Result<u64, Problem> {
    let current = status.turns.as_ref().and_then(|turns| split_turn_id(turns.current.as_deref()?));
    current.map_or_else(|| latest_turn(status, handle), |(_, number)| Ok(number))
}

/// The error for a run that ended without a match.
pub fn output_missing_problem(id: &SessionId) -> Problem {
    Problem::refused(format!("session {id} ended and printed no match"))
        .hint(format!("`berth output {id}` prints its output"))
}

/// Searches the output of a session for a pattern, as it comes.
pub struct OutputMatcher {
    output: OutputFiles,
    offset: u64,
    regex: Regex,
    plain: PlainTextFilter,
    text: Vec<u8>,
}

impl OutputMatcher {
    /// Searches from `offset` on.
    pub fn new(ctx: &VerbContext, id: &SessionId, offset: u64, regex: Regex) -> Self {
        let output = ctx.home.session(id).output();
        Self { output, offset, regex, plain: PlainTextFilter::default(), text: Vec::new() }
    }

    /// Reads new output; true if it matches, together with the kept output before it.
    pub fn read_and_match(&mut self) -> Result<bool, Problem> {
        let mut buffer = vec![0; READ_BYTES];
        loop {
            let (count, from) = self.output.read_at(self.offset, &mut buffer).map_err(|error| {
                Problem::refused(format!("cannot read {}: {error}", self.output.display()))
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

/// The place to cut text that became too long: after a line end if there is one, so that a match for the beginning of a
/// line stays true.
fn begin_of_look_back(text: &[u8]) -> usize {
    let cut = text.len().saturating_sub(LOOK_BACK_BYTES);
    text[cut..].iter().position(|byte| *byte == b'\n').map_or(cut, |line_end| cut + line_end + 1)
}

/// The exit code of a command that passes a run's exit code through.
pub fn exit_code(status: &SessionStatus) -> Result<u8, Problem> {
    match status.exit {
        Some(code) => Ok(u8::try_from(code).unwrap_or(ProblemCode::Refused.exit_code())),
        None => {
            let why = status.failure.clone().unwrap_or_else(|| format!("it is {}", status.state));
            Err(Problem::refused(format!("the run of session `{}` has no exit code: {why}", status.handle()))
                .hint(format!(
                    "`berth log {0}` shows its events, `berth resume {0}` starts it again",
                    status.handle()
                )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dropped_part_ends_with_a_line() {
        let line = b"0123456789\n";
        let text = line.repeat(2 * LOOK_BACK_BYTES / line.len() + 2);
        let begin = begin_of_look_back(&text);
        assert!(text[begin..].starts_with(b"0123"));
        assert!(text.len() - begin > LOOK_BACK_BYTES - line.len());
        let one_line = vec![b'x'; 2 * LOOK_BACK_BYTES + 1];
        assert_eq!(begin_of_look_back(&one_line), LOOK_BACK_BYTES + 1, "a line without an end is cut");
    }
}
