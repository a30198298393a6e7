//! Consent: a confirmation for targets that the user did not name.
//!
//! Promise: berth asks only a user at a terminal (standard input and standard error are both one), and only a typed yes
//! is a yes. A caller that cannot be asked is told how to confirm beforehand. The end of the input is not an answer.
//! Not here: which operations need a confirmation. Naming a target is a confirmation: `berth stop S` never comes here.
//! Start with [`require_yes`].

use std::io::BufRead;

use berth_api::Problem;

use crate::{print, tty};

/// The longest answer that is read.
const MAX_ANSWER_BYTES: u64 = 1024;

/// Asks for a yes, or refuses with the reason. `what` is a sentence about all that would happen, as in "3 sessions
/// would be stopped: a, b, c"; `said` is true if --yes was given.
pub(crate) fn require_yes(what: &str, said: bool) -> Result<(), Problem> {
    if said {
        return Ok(());
    }
    if !tty::can_ask() {
        return Err(Problem::needs_yes(format!(
            "{what}; without a terminal berth cannot ask, and nothing was done"
        ))
        .hint("confirm with --yes"));
    }
    match read_answer(&format!("{what}\nGo on? [y/N] ")) {
        None => Err(Problem::needs_yes("no answer; nothing was done").hint("confirm with --yes")),
        Some(answer) if is_yes(&answer) => Ok(()),
        Some(_) => Err(cancelled()),
    }
}

/// Asks a yes-or-no question. Call only if there is a terminal.
pub(crate) fn confirm(question: &str) -> Result<(), Problem> {
    match read_answer(&format!("{question} [y/N] ")) {
        Some(answer) if is_yes(&answer) => Ok(()),
        Some(_) | None => Err(cancelled()),
    }
}

/// Asks the user to choose, and gives the line that they typed, which is not empty. Call only if there is a terminal.
pub(crate) fn choose(question: &str) -> Result<String, Problem> {
    let answer = read_answer(question).unwrap_or_default();
    // As with a yes, an unfinished line is not an answer.
    let line = answer.strip_suffix(b"\n").unwrap_or_default().trim_ascii();
    if line.is_empty() { Err(cancelled()) } else { Ok(String::from_utf8_lossy(line).into_owned()) }
}

fn cancelled() -> Problem {
    Problem::refused("cancelled; nothing was done")
}

/// The line that is typed at a prompt; `None` at the end of the input.
fn read_answer(question: &str) -> Option<Vec<u8>> {
    print::prompt(question);
    let mut answer = Vec::new();
    let read = std::io::Read::take(std::io::stdin().lock(), MAX_ANSWER_BYTES).read_until(b'\n', &mut answer);
    match read {
        Ok(0) | Err(_) => {
            print::prompt("\n");
            None
        }
        Ok(_) => Some(answer),
    }
}

/// An unfinished line is not an answer either: the user may have been about to write more.
fn is_yes(answer: &[u8]) -> bool {
    let Some(line) = answer.strip_suffix(b"\n") else { return false };
    matches!(line.trim_ascii().to_ascii_lowercase().as_slice(), b"y" | b"yes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_finished_line_that_says_yes_is_a_yes() {
        for yes in ["y\n", "Y\n", "yes\n", " YES \r\n"] {
            assert!(is_yes(yes.as_bytes()), "{yes:?} was not taken for a yes");
        }
        for no in ["", "\n", "y", "yes", "n\n", "no\n", "yep\n", "y y\n", "\0y\n"] {
            assert!(!is_yes(no.as_bytes()), "{no:?} was taken for a yes");
        }
    }
}
