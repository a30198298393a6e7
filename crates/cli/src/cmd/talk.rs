//! Talking to an agent that takes turns: what `berth attach` is for one without a terminal.
//!
//! Promise: what was said last is shown first; a message is sent by Enter and by nothing else; leaving leaves the
//! session as it is. A terminal that can do nothing but print lines gets lines: each one is a message then.
//! Start with [`talk`]; [`live`] is what most people see.

mod editor;
mod errands;
mod foot;
mod live;
mod story;

use std::io::BufRead;

use berth_api::turn::{NewTurn, TurnPage, TurnView};
use berth_api::{Problem, Status};
use berth_core::SessionId;

use crate::cmd::send;
use crate::ctx::Ctx;
use crate::{print, turns};

/// Talks until the person leaves. Only for a person at a terminal.
pub(crate) fn talk(ctx: &Ctx, id: &SessionId) -> Result<u8, Problem> {
    // It starts a keeper whenever the agent was released, and outlives them and their notifiers.
    berth_host::signals::let_children_go();
    let status = ctx.status(id)?;
    let TurnPage { turns: known, seq, .. } = turns::latest(ctx, id, &status)?;
    if is_dumb(std::env::var_os("TERM").as_deref()) {
        return talk_in_lines(ctx, id, &status, &known);
    }
    let (code, handle) = converse(ctx, id, &status, &known, seq)?;
    left(&handle, code);
    Ok(code)
}

/// The same for somebody who need not be told how to come back.
pub(crate) fn visit(ctx: &Ctx, id: &SessionId) -> Result<u8, Problem> {
    let status = ctx.status(id)?;
    let TurnPage { turns: known, seq, .. } = turns::latest(ctx, id, &status)?;
    converse(ctx, id, &status, &known, seq).map(|(code, _)| code)
}

/// Talks on a terminal that can do more than print lines. Also what the session is called by the end.
fn converse(
    ctx: &Ctx,
    id: &SessionId,
    status: &Status,
    known: &[TurnView],
    seq: u64,
) -> Result<(u8, String), Problem> {
    let mut story = story::Story::new(id.as_str(), status.handle());
    let mut editor = editor::Editor::default();
    story.note(&greeting(status));
    story.note("[Enter sends, Alt-Enter makes a line, Ctrl-C cancels, Ctrl-D leaves it running]");
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
    Ok(live::Live::new(ctx, id, story, editor, seq)?.run())
}

/// Whether a terminal of this kind can do nothing but print lines.
fn is_dumb(term: Option<&std::ffi::OsStr>) -> bool {
    term.is_none_or(|term| term.is_empty() || term == "dumb")
}

fn greeting(status: &Status) -> String {
    let agent = status.what.agent.as_deref().unwrap_or(&status.what.driver);
    format!("[{}: {agent}, {}]", status.handle(), status.state)
}

fn left(handle: &str, code: u8) {
    // Whoever was ended by a signal has no terminal to read this on, or a reason not to.
    if code == 0 {
        let back = crate::ui::as_typed(&format!("attach {handle}"));
        print::note(&format!("[left {handle}; come back with `{back}`]"));
    }
}

/// Reads lines and sends each as a turn, until the input ends.
fn talk_in_lines(ctx: &Ctx, id: &SessionId, status: &Status, known: &[TurnView]) -> Result<u8, Problem> {
    let handle = status.handle();
    print::note(&greeting(status));
    print::note("[a line is a turn, Ctrl-D leaves it running]");
    if let Some(last) = known.iter().rfind(|view| view.position.is_none()) {
        print::note(&format!("> {}", print::excerpt(&last.prompt, 200)));
        if last.state.is_final() {
            let answer = last.answer.as_deref().unwrap_or_default();
            print::text(&format!("{}\n", answer.trim_end()))?;
        } else {
            let keeper = ctx.keeper_of(id)?;
            told(send::watch(ctx, id, last.number, keeper, false));
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
        match turns::send(ctx, id, submit) {
            Ok((keeper, receipt)) => told(send::watch(ctx, id, receipt.number, keeper, false)),
            Err(problem) => print::problem(&problem),
        }
    }
    print::note("");
    left(handle, 0);
    Ok(0)
}

/// A turn that went wrong is no reason to leave.
fn told(outcome: Result<u8, Problem>) {
    if let Err(problem) = outcome {
        print::problem(&problem);
    }
}

#[cfg(test)]
mod tests {
    use super::is_dumb;

    #[test]
    fn a_terminal_that_says_nothing_of_itself_gets_lines() {
        assert!([None, Some(""), Some("dumb")].iter().all(|term| is_dumb(term.map(AsRef::as_ref))));
        assert!(!is_dumb(Some("xterm-256color".as_ref())));
    }
}
