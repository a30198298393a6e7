//! The chat with an agent that takes turns: `berth attach` for a session without a terminal.
//!
//! Promise: the chat begins with the last turn; only Enter sends a message; leaving does not change the session. On a
//! terminal that can only print lines, each line is a message.
//! Not here: sending and following turns (see `crate::turns`).
//! Start with [`run_chat`]; `live` is the chat on an ordinary terminal.

mod input;
mod live;
mod log;
mod message_editor;
mod sender;

use std::io::BufRead;

use berth_api::turn::{NewTurn, TurnPage, TurnView};
use berth_api::{Problem, SessionStatus};
use berth_core::SessionId;
use berth_verbs::VerbContext;

use crate::turn_watch;
use crate::{print, turns};

/// Runs the chat until the user leaves. Needs a terminal.
pub fn run_chat(ctx: &VerbContext, id: &SessionId) -> Result<u8, Problem> {
    // The chat starts a keeper whenever the agent was released. It outlives keepers and their notifiers, which must not
    // become zombies.
    berth_host::signals::ignore_child_exits();
    let status = ctx.status(id)?;
    let TurnPage { turns: known, seq, .. } = turns::latest(ctx, id, &status)?;
    if is_dumb(std::env::var_os("TERM").as_deref()) {
        return talk_in_lines(ctx, id, &status, &known);
    }
    let (code, handle) = chat_on_terminal(ctx, id, &status, &known, seq)?;
    print_leave_note(&handle, code);
    Ok(code)
}

/// Runs the chat inside another screen, the dashboard: without the note on how to come back.
pub fn run_chat_quietly(ctx: &VerbContext, id: &SessionId) -> Result<u8, Problem> {
    let status = ctx.status(id)?;
    let TurnPage { turns: known, seq, .. } = turns::latest(ctx, id, &status)?;
    chat_on_terminal(ctx, id, &status, &known, seq).map(|(code, _)| code)
}

/// Runs the chat on a terminal that can move the cursor. Returns the exit code and the session's name at the end.
fn chat_on_terminal(
    ctx: &VerbContext,
    id: &SessionId,
    status: &SessionStatus,
    known: &[TurnView],
    seq: u64,
) -> Result<(u8, String), Problem> {
    let mut story = log::ChatLog::new(id.as_str(), status.handle());
    let mut editor = message_editor::MessageEditor::default();
    story.note(&greeting(status));
    story.note("[Enter sends, Alt-Enter: new line, Ctrl-C cancels, Ctrl-D leaves it running]");
    let last = known.iter().rposition(|view| view.position.is_none());
    for (at, view) in known.iter().enumerate() {
        editor.remember(&view.prompt);
        let is_last = last == Some(at);
        story.epoch = view.epoch.or(story.epoch);
        match view.position {
            Some(_) => {}
            None if is_last && view.state.is_final() => story.before(view),
            None if is_last => story.known(view.number, &view.prompt, false),
            None if view.state.is_final() => story.past(view.number),
            None => {}
        }
    }
    let mut queued: Vec<&TurnView> = known.iter().filter(|view| view.position.is_some()).collect();
    queued.sort_by_key(|view| view.position);
    for view in queued {
        story.known(view.number, &view.prompt, true);
    }
    if let Some(held) = status.turns.as_ref().and_then(|turns| turns.held.as_ref()) {
        story.note(&format!("[the queue is held: {held}]"));
    }
    Ok(live::LiveChat::new(ctx, id, story, editor, seq)?.run())
}

/// True if a terminal with this TERM can only print lines.
fn is_dumb(term: Option<&std::ffi::OsStr>) -> bool {
    term.is_none_or(|term| term.is_empty() || term == "dumb")
}

fn greeting(status: &SessionStatus) -> String {
    let agent = status.what.agent.as_deref().unwrap_or(&status.what.driver);
    format!("[{}: {agent}, {}]", status.handle(), status.state)
}

fn print_leave_note(handle: &str, code: u8) {
    // After a signal the terminal may be gone, and the note is not needed.
    if code == 0 {
        let back = crate::ui::command_to_type(&format!("attach {handle}"));
        print::note(&format!("[left {handle}; come back with `{back}`]"));
    }
}

/// Reads lines and sends each as a turn, until the input ends.
fn talk_in_lines(
    ctx: &VerbContext,
    id: &SessionId,
    status: &SessionStatus,
    known: &[TurnView],
) -> Result<u8, Problem> {
    let handle = status.handle();
    print::note(&greeting(status));
    print::note("[each line is a turn; Ctrl-D leaves the session running]");
    if let Some(last) = known.iter().rfind(|view| view.position.is_none()) {
        print::note(&format!("> {}", print::first_words(&last.prompt, 200)));
        if last.state.is_final() {
            let answer = last.answer.as_deref().unwrap_or_default();
            print::text(&format!("{}\n", answer.trim_end()))?;
        } else {
            let keeper = ctx.keeper_of(id)?;
            print_outcome(turn_watch::watch_turn(ctx, id, last.number, keeper, false));
        }
    }
    loop {
        print::prompt("> ");
        let mut line = Vec::new();
        match std::io::stdin().lock().read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
        let Ok(line) = String::from_utf8(line) else {
            print::note("that line is not UTF-8; nothing was sent");
            continue;
        };
        if line.trim().is_empty() {
            continue;
        }
        let submit = NewTurn { text: line.trim_end().to_owned(), wait: true, ..NewTurn::default() };
        match ctx.session(id).send(submit) {
            Ok((keeper, receipt)) => {
                print_outcome(turn_watch::watch_turn(ctx, id, receipt.number, keeper, false))
            }
            Err(problem) => print::problem(&problem),
        }
    }
    print::note("");
    print_leave_note(handle, 0);
    Ok(0)
}

/// Prints the problem of a turn; the chat goes on.
fn print_outcome(outcome: Result<u8, Problem>) {
    if let Err(problem) = outcome {
        print::problem(&problem);
    }
}

#[cfg(test)]
mod tests {
    use super::is_dumb;

    #[test]
    fn a_terminal_without_a_term_variable_gets_lines() {
        assert!([None, Some(""), Some("dumb")].iter().all(|term| is_dumb(term.map(AsRef::as_ref))));
        assert!(!is_dumb(Some("xterm-256color".as_ref())));
    }
}
