//! Standard output and standard error.
//!
//! Promise: people and programs get [`SafeText`] text: a terminal shows text of agents and other hosts and does not obey
//! it. Clippy refuses any other way to the two streams (`clippy.toml`).
//! Not here: what draws on a whole terminal (see `tty::terminal_output`), and escaping itself (see `safe_text`).
//! Start with [`text`] (data), [`note`] (remarks), [`problem`] (errors) and [`json`] (data for programs). [`raw`] is for
//! bytes that are raw by design.

#![expect(clippy::disallowed_methods, reason = "this module owns standard output and standard error")]

use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, OnceLock, PoisonError};

use berth_api::{Problem, ProblemCode};
use berth_core::SessionId;
pub use berth_host::stdio::write_stdout as message;
pub use berth_verbs::format::{
    age_since, command_line, describe_age, describe_size, escape_control_characters, exact_duration,
    exit_summary, first_words, truncate,
};
use serde::Serialize;

use crate::safe_text::{SafeText, TextStyle, ToSafeText};

/// Sessions that were named on the command line: the id, and the name that was typed.
static TYPED: Mutex<Vec<(SessionId, String)>> = Mutex::new(Vec::new());

/// Finds the command that was typed.
static TYPED_VERB: OnceLock<fn() -> Option<String>> = OnceLock::new();

/// Takes the way to find the command that was typed: advice names it.
pub fn set_typed_verb(find: fn() -> Option<String>) {
    let _ = TYPED_VERB.set(find);
}

/// Remembers how a session was named, so that remarks and errors use that name.
pub fn name_session_as_typed(id: &SessionId, typed: &str) {
    if typed != id.as_str() {
        TYPED.lock().unwrap_or_else(PoisonError::into_inner).push((id.clone(), typed.to_owned()));
    }
}

/// A remark or an error with the typed names in place of ids.
fn as_typed(text: &str) -> String {
    let typed = TYPED.lock().unwrap_or_else(PoisonError::into_inner);
    typed.iter().fold(text.to_owned(), |text, (id, typed)| with_name(&text, id.as_str(), typed))
}

/// A text with a name in place of an id. Paths keep the id: it is the name of a directory.
fn with_name(text: &str, id: &str, name: &str) -> String {
    let mut changed = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(id) {
        let (before, found) = rest.split_at(at);
        let (found, after) = found.split_at(id.len());
        let is_in_path = before.ends_with('/') || after.starts_with('/');
        changed.push_str(before);
        changed.push_str(if is_in_path { found } else { name });
        rest = after;
    }
    changed + rest
}

/// True if standard output is a terminal.
pub fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// True if standard error is a terminal.
pub fn is_error_terminal() -> bool {
    io::stderr().is_terminal()
}

/// Standard error for log lines (`-v`, `BERTH_LOG`). The formatter of the log escapes control characters in values.
pub fn log() -> io::Stderr {
    io::stderr()
}

/// Prints an error, with what to do next.
pub fn problem(problem: &Problem) {
    let is_coloured = crate::ui::uses_colours(is_error_terminal());
    let mut text = SafeText::painted(TextStyle::BoldRed, "error:", is_coloured)
        + format!(" {}\n", as_typed(&problem.what));
    if let Some(advice) = problem
        .hint
        .clone()
        .or_else(|| next_step(problem, TYPED_VERB.get().and_then(|find| find()).as_deref()))
    {
        text = text
            + SafeText::painted(TextStyle::BoldCyan, "hint:", is_coloured)
            + format!(" {}\n", as_typed(&advice));
    }
    prompt(&text);
}

/// The default hint for a problem that has none of its own.
fn next_step(problem: &Problem, verb: Option<&str>) -> Option<String> {
    match problem.code {
        ProblemCode::Usage => match verb {
            Some(verb) => Some(format!("`berth {verb} --help` lists its arguments")),
            None => Some("`berth help` lists the commands".to_owned()),
        },
        ProblemCode::NotFound => Some("`berth ls --all` lists all sessions".to_owned()),
        ProblemCode::Unreachable => Some("`berth why S` shows the evidence for the state".to_owned()),
        ProblemCode::Held | ProblemCode::InUse | ProblemCode::TimedOut | ProblemCode::Full => {
            Some("try again in a moment".to_owned())
        }
        ProblemCode::NeedsYes => Some("confirm with --yes".to_owned()),
        ProblemCode::Bug => Some(
            "this is a bug in berth: report it, with the output of `berth -vv` and `berth doctor`".to_owned(),
        ),
        // The host did not let us. A refusal by berth carries its own hint.
        ProblemCode::Refused if problem.what.starts_with("cannot ") => {
            Some("`berth doctor` checks the state directory, the disk and this host".to_owned())
        }
        ProblemCode::NotAllowed => Some("a person outside of the session can do it, or grant it".to_owned()),
        ProblemCode::Refused | ProblemCode::Unavailable => None,
    }
}

/// Prints a remark that is neither data nor an error, unless the user asked for quiet.
pub fn note(text: &(impl ToSafeText + ?Sized)) {
    if !crate::ui::is_quiet() {
        prompt(&(text.to_visible().into_owned().mapped(as_typed) + "\n"));
    }
}

/// Prints text to standard error without adding a line break: a question, or a line that is overwritten later.
pub fn prompt(text: &(impl ToSafeText + ?Sized)) {
    let mut err = io::stderr().lock();
    let _ = err.write_all(text.to_visible().as_str().as_bytes()).and_then(|()| err.flush());
}

/// Overwrites the last line of standard error, which must be a terminal.
pub fn overwrite_line(text: &(impl ToSafeText + ?Sized)) {
    let mut err = io::stderr().lock();
    let _ = write!(err, "\r\x1b[K{}", text.to_visible().as_str()).and_then(|()| err.flush());
}

/// Notes that a keeper did not answer and that the output comes from the files.
pub fn note_if_unresponsive(keeper_silent: bool, session: &str) {
    if keeper_silent {
        note(&format!(
            "the keeper of session {session} does not answer: this is read from its files; `berth why {session}` shows more"
        ));
    }
}

/// Prints text to standard output, and reports a failure to do so.
pub fn text(text: &(impl ToSafeText + ?Sized)) -> Result<(), Problem> {
    raw(text.to_visible().as_str().as_bytes())
}

/// Prints bytes that are raw by design to standard output, and fails if they cannot be written: the output of a program on
/// a terminal (`output`, `run`, `screen --ansi`), an exported file (`export`), a script, a message of a protocol.
pub fn raw(bytes: &[u8]) -> Result<(), Problem> {
    written(bytes, String::new)
}

/// Prints the result of a command that cannot be read again later, such as a token. If printing fails, `unheard` revokes
/// the result or says what exists, and the error ends with its sentence.
pub fn one_time_result(
    text: &(impl ToSafeText + ?Sized),
    unheard: impl FnOnce() -> String,
) -> Result<(), Problem> {
    written(text.to_visible().as_str().as_bytes(), unheard)
}

fn written(bytes: &[u8], unheard: impl FnOnce() -> String) -> Result<(), Problem> {
    message(bytes).map_err(|error| {
        let rest = unheard();
        if error.kind() == io::ErrorKind::BrokenPipe {
            // The reader has closed the pipe, as in `berth log S | head`: end as any filter does.
            std::process::exit(128 + rustix::process::Signal::PIPE.as_raw());
        }
        let rest = if rest.is_empty() { rest } else { format!("; {rest}") };
        Problem::refused(format!("cannot write to standard output: {error}{rest}"))
    })
}

/// Prints data for programs.
pub fn json(value: &impl Serialize) -> Result<(), Problem> {
    text(&(SafeText::json(value)? + "\n"))
}

/// Prints data for programs on a line of its own.
pub fn json_line(value: &impl Serialize) -> Result<(), Problem> {
    text(&SafeText::json_line(value)?)
}

/// Prints a JSON array element by element, as they come: none is kept in memory.
#[derive(Default)]
pub struct JsonArrayPrinter {
    is_begun: bool,
}

impl JsonArrayPrinter {
    /// Prints one more element.
    pub fn push(&mut self, value: &impl Serialize) -> Result<(), Problem> {
        let json = SafeText::json(value)?;
        let before = if std::mem::replace(&mut self.is_begun, true) { ",\n  " } else { "[\n  " };
        // JSON escapes line breaks in texts, so each line break here is layout.
        text(&(SafeText::from(before) + json.indented("  ")))
    }

    /// Ends the array.
    pub fn end(self) -> Result<(), Problem> {
        text(if self.is_begun { "\n]\n" } else { "[]\n" })
    }
}

/// A word in its colour, filled up to a width.
pub fn painted(paint: TextStyle, word: impl std::fmt::Display, width: usize) -> SafeText {
    SafeText::painted(paint, format!("{word:width$}"), crate::tty::wants_colour())
}

/// Lines of a label and a value; the state has its colour. A value of several lines is indented, so that none of its
/// lines looks like a label.
pub fn key_value_lines(rows: impl IntoIterator<Item = (&'static str, String)>, state: TextStyle) -> SafeText {
    let line = |(label, value): (&'static str, String)| {
        let value = if label == "state" { painted(state, value, 0) } else { value.into() };
        SafeText::from(format!("{label:10} ")) + value.indented(&" ".repeat(11)) + "\n"
    };
    rows.into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_takes_the_place_of_an_id_and_paths_keep_the_id() {
        let text = "session abc: /s/abc/journal is damaged; see abc.1";
        assert_eq!(with_name(text, "abc", "fix"), "session fix: /s/abc/journal is damaged; see fix.1");
    }

    #[test]
    fn a_problem_without_a_hint_gets_the_default_hint_of_its_code() {
        let step = |code, what: &str| next_step(&Problem::new(code, what), Some("run"));
        assert_eq!(step(ProblemCode::Usage, "x").as_deref(), Some("`berth run --help` lists its arguments"));
        assert!(
            step(ProblemCode::Refused, "cannot write /x: no space")
                .is_some_and(|step| step.contains("doctor"))
        );
        assert_eq!(step(ProblemCode::Refused, "cancelled; nothing was done"), None);
        for code in [
            ProblemCode::NotFound,
            ProblemCode::Held,
            ProblemCode::InUse,
            ProblemCode::Unreachable,
            ProblemCode::TimedOut,
            ProblemCode::NeedsYes,
            ProblemCode::NotAllowed,
            ProblemCode::Full,
            ProblemCode::Bug,
        ] {
            assert!(step(code, "x").is_some(), "{code:?}");
        }
    }
}
