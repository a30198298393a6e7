//! Consent: a yes to what nobody named.
//!
//! Promise: only a person at a terminal is asked (standard input and standard error are both one), only a
//! typed yes is a yes, and whoever cannot be asked is told how to say it beforehand. The end of the input is
//! no answer.
//! Not here: what needs a yes. A named target is one already: `berth stop S` never comes here.
//! Start with [`ask`].

use std::io::BufRead;

use berth_api::{Code, Problem};

use crate::{print, tty};

/// The longest answer that is read.
const MAX_ANSWER_BYTES: u64 = 1024;

/// Gets a yes, or says why there is none. `what` is a sentence that says all that would happen, as in
/// "3 sessions would be stopped: a, b, c"; `said` is what --yes says.
pub(crate) fn ask(what: &str, said: bool) -> Result<(), Problem> {
    if said {
        return Ok(());
    }
    if !tty::can_ask() {
        return Err(Problem::new(
            Code::NeedsYes,
            format!("{what}; without a terminal berth cannot ask, and nothing was done"),
        )
        .hint("say so with --yes"));
    }
    match answer_to(&format!("{what}\nGo on? [y/N] ")) {
        None => Err(Problem::new(Code::NeedsYes, "no answer; nothing was done").hint("say so with --yes")),
        Some(answer) if is_yes(&answer) => Ok(()),
        Some(_) => Err(cancelled()),
    }
}

/// Gets a yes to a question. Only for callers that know of a terminal.
pub(crate) fn confirm(question: &str) -> Result<(), Problem> {
    match answer_to(&format!("{question} [y/N] ")) {
        Some(answer) if is_yes(&answer) => Ok(()),
        Some(_) | None => Err(cancelled()),
    }
}

/// Lets a person choose: the line they typed, which is not empty. Only for callers that know of a terminal.
pub(crate) fn choose(question: &str) -> Result<String, Problem> {
    let answer = answer_to(question).unwrap_or_default();
    // As with a yes: a line that was not finished is not an answer.
    let line = answer.strip_suffix(b"\n").unwrap_or_default().trim_ascii();
    if line.is_empty() { Err(cancelled()) } else { Ok(String::from_utf8_lossy(line).into_owned()) }
}

fn cancelled() -> Problem {
    Problem::new(Code::Refused, "cancelled; nothing was done")
}

/// What is typed at a prompt; `None` at the end of the input.
fn answer_to(question: &str) -> Option<Vec<u8>> {
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

/// A line that was not finished is no answer either: its writer may have been about to write more.
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
