//! Words and tables for people. Data for programs is JSON, printed with [`json`].

use std::io::{self, IsTerminal, Write};

use berth_api::{Code, Problem};
pub(crate) use berth_verbs::words::{age, ago, command_line, cut, ending, excerpt, size, span, visible};
use serde::Serialize;

/// Says what went wrong and what to do next.
pub(crate) fn problem(problem: &Problem) {
    let mut err = io::stderr().lock();
    let colour = crate::ui::colours_on(&err);
    let (error, hint, end) = if colour { ("\x1b[1;31m", "\x1b[1;36m", "\x1b[0m") } else { ("", "", "") };
    let _ = writeln!(err, "{error}error:{end} {}", problem.what);
    if let Some(advice) = problem.hint.clone().or_else(|| next_step(problem, verb().as_deref())) {
        let _ = writeln!(err, "{hint}hint:{end} {advice}");
    }
}

/// What to do next where whoever found the problem had nothing better to say.
fn next_step(problem: &Problem, verb: Option<&str>) -> Option<String> {
    match problem.code {
        Code::Usage => match verb {
            Some(verb) => Some(format!("`berth {verb} --help` says what it takes")),
            None => Some("`berth help` lists the commands".to_owned()),
        },
        Code::NotFound => Some("`berth ls --all` lists what there is".to_owned()),
        Code::Unreachable => Some("`berth why S` shows what is known".to_owned()),
        Code::Held | Code::InUse | Code::TimedOut | Code::Full => Some("try again in a moment".to_owned()),
        Code::NeedsYes => Some("say so with --yes".to_owned()),
        Code::Bug => Some(
            "this is a mistake in berth: report it, with what `berth -vv` and `berth doctor` say".to_owned(),
        ),
        // The host would not let us; a polite no says itself what can be done.
        Code::Refused if problem.what.starts_with("cannot ") => {
            Some("`berth doctor` looks at the state directory, the disk and this host".to_owned())
        }
        Code::NotAllowed => Some("somebody outside of the session can do it, or grant it".to_owned()),
        Code::Refused | Code::Unavailable => None,
    }
}

/// The command that was typed.
fn verb() -> Option<String> {
    let known = crate::help::command();
    std::env::args().skip(1).find(|word| known.find_subcommand(word).is_some())
}

/// A remark that is neither data nor an error: not for somebody who wants it quiet.
pub(crate) fn note(text: &str) {
    if crate::ui::is_quiet() {
        return;
    }
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Notes that a keeper did not answer, and that the files did in its place.
pub(crate) fn note_if_silent(keeper_silent: bool, session: &str) {
    if keeper_silent {
        note(&format!(
            "the keeper of session {session} does not answer: this is what the files tell; `berth why {session}` tells more"
        ));
    }
}

/// Prints text to standard output, and admits it when that fails.
pub(crate) fn text(text: &str) -> Result<(), Problem> {
    bytes(text.as_bytes())
}

/// Prints what an agent said. To a terminal nothing of it is a command; a file and a pipe get what was said.
pub(crate) fn said(words: &str) -> Result<(), Problem> {
    if io::stdout().is_terminal() { text(&visible(words)) } else { text(words) }
}

/// Prints bytes to standard output, and admits it when that fails.
pub(crate) fn bytes(bytes: &[u8]) -> Result<(), Problem> {
    let mut out = io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).map_err(|error| {
        if error.kind() == io::ErrorKind::BrokenPipe {
            // The reader has had enough, as in `berth log S | head`: end as any filter does.
            std::process::exit(128 + rustix::process::Signal::PIPE.as_raw());
        }
        Problem::new(Code::Refused, format!("cannot write to standard output: {error}"))
    })
}

/// Prints data for programs.
pub(crate) fn json(value: &impl Serialize) -> Result<(), Problem> {
    text(&(pretty(value)? + "\n"))
}

fn pretty(value: &impl Serialize) -> Result<String, Problem> {
    serde_json::to_string_pretty(value)
        .map_err(|error| Problem::new(Code::Bug, format!("cannot print as JSON: {error}")))
}

/// Prints an array for programs element by element, as they come: none is kept.
#[derive(Default)]
pub(crate) struct Array {
    is_begun: bool,
}

impl Array {
    /// Prints one more.
    pub(crate) fn push(&mut self, value: &impl Serialize) -> Result<(), Problem> {
        let json = pretty(value)?;
        let before = if std::mem::replace(&mut self.is_begun, true) { ",\n  " } else { "[\n  " };
        // In JSON an end of line is never part of a text.
        text(&format!("{before}{}", json.replace('\n', "\n  ")))
    }

    /// To be called when there are no more.
    pub(crate) fn end(self) -> Result<(), Problem> {
        text(if self.is_begun { "\n]\n" } else { "[]\n" })
    }
}

/// The colour of a state.
pub(crate) fn painted(state: &str, width: usize) -> String {
    let padded = format!("{state:width$}");
    if !crate::tty::wants_colour() {
        return padded;
    }
    let colour = match state {
        "running" | "working" | "ok" | "done" => "32",
        "needs-you" | "unknown" => "35",
        "starting" | "stopping" | "limited" | "queued" | "delivered" | "interrupted" => "33",
        "lost" | "missing" | "failed" => "31",
        _ => "2",
    };
    format!("\x1b[{colour}m{padded}\x1b[0m")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_advice_of_its_own_gets_the_next_step_of_its_kind() {
        let step = |code, what: &str| next_step(&Problem::new(code, what), Some("run"));
        assert_eq!(step(Code::Usage, "x").as_deref(), Some("`berth run --help` says what it takes"));
        assert!(step(Code::Refused, "cannot write /x: no space").is_some_and(|step| step.contains("doctor")));
        assert_eq!(step(Code::Refused, "cancelled; nothing was done"), None);
        for code in [
            Code::NotFound,
            Code::Held,
            Code::InUse,
            Code::Unreachable,
            Code::TimedOut,
            Code::NeedsYes,
            Code::NotAllowed,
            Code::Full,
            Code::Bug,
        ] {
            assert!(step(code, "x").is_some(), "{code:?}");
        }
    }
}
