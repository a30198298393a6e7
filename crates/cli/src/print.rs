//! Standard output and standard error.
//!
//! Promise: people and programs get [`Visible`] text: a terminal shows text of agents and other hosts and does not obey
//! it. Clippy refuses any other way to the two streams (`clippy.toml`).
//! Not here: what draws on a whole terminal (see `tty::output`), and escaping itself (see `visible`).
//! Start with [`text`] (data), [`note`] (remarks), [`problem`] (errors) and [`json`] (data for programs). [`raw`] is for
//! bytes that are raw by design.

#![expect(clippy::disallowed_methods, reason = "this module owns standard output and standard error")]

use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, PoisonError};

use berth_api::{Code, Problem};
use berth_core::SessionId;
pub(crate) use berth_verbs::words::{age, ago, command_line, cut, ending, excerpt, size, span, visible};
use serde::Serialize;

use crate::visible::{Paint, ToVisible, Visible};

/// Sessions that were named on the command line: the id, and the name that was typed.
static TYPED: Mutex<Vec<(SessionId, String)>> = Mutex::new(Vec::new());

/// Remembers how a session was named: remarks and errors call it the same.
pub(crate) fn call_as_typed(id: &SessionId, typed: &str) {
    if typed != id.as_str() {
        TYPED.lock().unwrap_or_else(PoisonError::into_inner).push((id.clone(), typed.to_owned()));
    }
}

/// A remark or an error with the names that were typed in the place of ids.
fn as_typed(text: &str) -> String {
    let typed = TYPED.lock().unwrap_or_else(PoisonError::into_inner);
    typed.iter().fold(text.to_owned(), |text, (id, typed)| with_name(&text, id.as_str(), typed))
}

/// A text with a name in the place of an id. Paths keep the id: it is the name of a directory.
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

/// Whether standard output is a terminal.
pub(crate) fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Whether standard error is a terminal.
pub(crate) fn is_error_terminal() -> bool {
    io::stderr().is_terminal()
}

/// Standard error for log lines (`-v`, `BERTH_LOG`). The formatter of the log escapes control characters in values.
pub(crate) fn log() -> io::Stderr {
    io::stderr()
}

/// Says what went wrong and what to do next.
pub(crate) fn problem(problem: &Problem) {
    let is_coloured = crate::ui::colours_on(is_error_terminal());
    let mut text =
        Visible::painted(Paint::BoldRed, "error:", is_coloured) + format!(" {}\n", as_typed(&problem.what));
    if let Some(advice) = problem.hint.clone().or_else(|| next_step(problem, verb().as_deref())) {
        text = text
            + Visible::painted(Paint::BoldCyan, "hint:", is_coloured)
            + format!(" {}\n", as_typed(&advice));
    }
    prompt(&text);
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
        Code::NotAllowed => Some("a person outside of the session can do it, or grant it".to_owned()),
        Code::Refused | Code::Unavailable => None,
    }
}

/// The command that was typed.
fn verb() -> Option<String> {
    let known = crate::help::command();
    std::env::args().skip(1).find(|word| known.find_subcommand(word).is_some())
}

/// A remark that is neither data nor an error: not for somebody who wants it quiet.
pub(crate) fn note(text: &(impl ToVisible + ?Sized)) {
    if !crate::ui::is_quiet() {
        prompt(&(text.to_visible().into_owned().mapped(as_typed) + "\n"));
    }
}

/// Prints text to standard error without adding a line break: a question, or a line that is overwritten later.
pub(crate) fn prompt(text: &(impl ToVisible + ?Sized)) {
    let mut err = io::stderr().lock();
    let _ = err.write_all(text.to_visible().as_str().as_bytes()).and_then(|()| err.flush());
}

/// Overwrites the last line of standard error, which must be a terminal.
pub(crate) fn over_line(text: &(impl ToVisible + ?Sized)) {
    let mut err = io::stderr().lock();
    let _ = write!(err, "\r\x1b[K{}", text.to_visible().as_str()).and_then(|()| err.flush());
}

/// Notes that a keeper did not answer and that the output comes from the files.
pub(crate) fn note_if_silent(keeper_silent: bool, session: &str) {
    if keeper_silent {
        note(&format!(
            "the keeper of session {session} does not answer: this is what the files tell; `berth why {session}` tells more"
        ));
    }
}

/// Prints text to standard output, and admits it when that fails.
pub(crate) fn text(text: &(impl ToVisible + ?Sized)) -> Result<(), Problem> {
    raw(text.to_visible().as_str().as_bytes())
}

/// Prints bytes that are raw by design to standard output, and fails if they cannot be written: the output of a program on
/// a terminal (`output`, `run`, `screen --ansi`), an exported file (`export`), a script, a message of a protocol.
pub(crate) fn raw(bytes: &[u8]) -> Result<(), Problem> {
    written(bytes, String::new)
}

/// Prints the result of a command that cannot be read again later, such as a token. If printing fails, `unheard` revokes
/// the result or says what exists, and the error ends with its sentence.
pub(crate) fn made(
    text: &(impl ToVisible + ?Sized),
    unheard: impl FnOnce() -> String,
) -> Result<(), Problem> {
    written(text.to_visible().as_str().as_bytes(), unheard)
}

fn written(bytes: &[u8], unheard: impl FnOnce() -> String) -> Result<(), Problem> {
    message(bytes).map_err(|error| {
        let rest = unheard();
        if error.kind() == io::ErrorKind::BrokenPipe {
            // The reader has had enough, as in `berth log S | head`: end as any filter does.
            std::process::exit(128 + rustix::process::Signal::PIPE.as_raw());
        }
        let rest = if rest.is_empty() { rest } else { format!("; {rest}") };
        Problem::new(Code::Refused, format!("cannot write to standard output: {error}{rest}"))
    })
}

/// Writes a message of a protocol to standard output. A reader that has left is an error and does not end the process.
pub(crate) fn message(bytes: &[u8]) -> io::Result<()> {
    if berth_host::stdio::is_stdout_unwritable() && !bytes.is_empty() {
        return Err(rustix::io::Errno::BADF.into());
    }
    let mut out = io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush())
}

/// Prints data for programs.
pub(crate) fn json(value: &impl Serialize) -> Result<(), Problem> {
    text(&(Visible::json(value)? + "\n"))
}

/// Prints data for programs on a line of its own.
pub(crate) fn json_line(value: &impl Serialize) -> Result<(), Problem> {
    text(&Visible::json_line(value)?)
}

/// Prints an array for programs element by element, as they come: none is kept.
#[derive(Default)]
pub(crate) struct Array {
    is_begun: bool,
}

impl Array {
    /// Prints one more.
    pub(crate) fn push(&mut self, value: &impl Serialize) -> Result<(), Problem> {
        let json = Visible::json(value)?;
        let before = if std::mem::replace(&mut self.is_begun, true) { ",\n  " } else { "[\n  " };
        // In JSON an end of line is never part of a text.
        text(&(Visible::from(before) + json.indented("  ")))
    }

    /// To be called when there are no more.
    pub(crate) fn end(self) -> Result<(), Problem> {
        text(if self.is_begun { "\n]\n" } else { "[]\n" })
    }
}

/// A word in its colour, filled up to a width.
pub(crate) fn painted(paint: Paint, word: impl std::fmt::Display, width: usize) -> Visible {
    Visible::painted(paint, format!("{word:width$}"), crate::tty::wants_colour())
}

/// Lines of a label and a value; the state has its colour. A value of several lines is indented, so that none of its
/// lines looks like a label.
pub(crate) fn labelled(rows: impl IntoIterator<Item = (&'static str, String)>, state: Paint) -> Visible {
    let line = |(label, value): (&'static str, String)| {
        let value = if label == "state" { painted(state, value, 0) } else { value.into() };
        Visible::from(format!("{label:10} ")) + value.indented(&" ".repeat(11)) + "\n"
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
