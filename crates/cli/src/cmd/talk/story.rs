//! What happens in the session, as a person reads it: text that stays, and what is going on now.
//!
//! Promise: each turn's prompt, answer and end are told once and in order, whoever sent it and however often the
//! connection broke on the way, also if events about turns that were shown at the beginning follow; whatever a terminal would obey in somebody else's text is made visible.
//! Not here: painting (see `live`).
//! Start with [`Story::hear`].

use std::collections::BTreeSet;
use std::time::Instant;

use berth_api::TurnState;
use berth_api::record::Event;
use berth_api::turn::{Ask, Final, Release, TurnEnd, TurnView, turn_id};

use crate::cmd::send::rest_of;
use crate::print;
use crate::visible::{Paint, Visible};

/// A prompt of more lines than this is told by its first ones.
const PROMPT_LINES: usize = 12;
/// A line that has become this long is told although it goes on.
const MAX_LINE_BYTES: usize = 64 * 1024;
/// How much of an answer is kept to compare with the one that is told in the end.
const MAX_SAID_BYTES: usize = 8 * 1024 * 1024;

/// The turn the agent has.
#[derive(Debug)]
pub(super) struct Current {
    pub(super) turn: u64,
    pub(super) since: Instant,
    /// What the agent does, in a few words.
    pub(super) doing: String,
    pub(super) tokens: Option<u64>,
    /// Somebody wants it broken off.
    pub(super) is_cancelled: bool,
    said: String,
    /// More was said than is kept.
    too_much: bool,
    /// We asked to be told of it once more, and will hear again what was said so far.
    again: bool,
}

/// What is known, and what is to be printed of it.
#[derive(Debug, Default)]
pub(super) struct Story {
    session: String,
    handle: String,
    /// What is to be printed and stays: whole lines.
    told: Visible,
    /// The line that is not whole yet.
    pub(super) line: String,
    pub(super) current: Option<Current>,
    /// The turns that wait, the next one first.
    pub(super) queued: Vec<(u64, String)>,
    /// Questions of the agent.
    pub(super) asks: Vec<Ask>,
    /// In which run, if that was heard: agents number their questions anew in each.
    pub(super) epoch: Option<u64>,
    /// Turns that were over when the talk began.
    over: BTreeSet<u64>,
    /// The turn that the agent had when the talk began.
    begun: Option<u64>,
    /// The turn to be followed from now on.
    follow: Option<u64>,
}

impl Story {
    pub(super) fn new(session: &str, handle: &str) -> Self {
        Self { session: session.to_owned(), handle: handle.to_owned(), ..Self::default() }
    }

    pub(super) fn handle(&self) -> &str {
        &self.handle
    }

    /// What stays, since the last time.
    pub(super) fn take_told(&mut self) -> Visible {
        std::mem::take(&mut self.told)
    }

    /// The turn whose follower we should become, once.
    pub(super) fn take_follow(&mut self) -> Option<u64> {
        self.follow.take()
    }

    /// There is a new connection: what the agent says is told there only if we ask.
    pub(super) fn connected(&mut self) {
        if let Some(current) = &mut self.current {
            current.again = !current.said.is_empty();
            self.follow = Some(current.turn);
        }
    }

    /// A remark of ours.
    pub(super) fn note(&mut self, text: &str) {
        self.end_line();
        for line in text.lines() {
            self.told.push(Visible::painted(Paint::Dim, line, true) + "\n");
        }
    }

    /// A turn the agent has already, or one that waits.
    pub(super) fn known(&mut self, turn: u64, prompt: &str, is_waiting: bool) {
        if is_waiting {
            self.queued.push((turn, prompt.to_owned()));
        } else {
            self.begun = Some(turn);
            self.begin(turn, prompt);
        }
    }

    /// A turn that was over before we came, and is not told.
    pub(super) fn past(&mut self, turn: u64) {
        self.over.insert(turn);
    }

    /// A turn that was over before we came.
    pub(super) fn before(&mut self, view: &TurnView) {
        self.past(view.number);
        self.prompt(&view.prompt);
        self.say(view.answer.as_deref().unwrap_or_default());
        self.end_line();
        if view.state != TurnState::Done {
            self.not_done(view.number, view.state, view.reason.as_deref());
        }
    }

    pub(super) fn hear(&mut self, event: &Event) {
        match event {
            // A page of turns may be ahead of the events that follow it.
            Event::TurnAccepted { turn, .. }
            | Event::TurnDelivered { turn, .. }
            | Event::TurnEnded { turn, .. }
                if self.over.contains(turn) => {}
            Event::TurnAccepted { turn, .. } if self.begun == Some(*turn) => {}
            Event::TurnAccepted { turn, prompt } => {
                self.forget(*turn);
                self.queued.push((*turn, prompt.text.clone()));
            }
            Event::RunStarting { epoch, .. } => self.epoch = Some(*epoch),
            Event::TurnDelivered { turn, epoch, .. } => {
                self.epoch = Some(*epoch);
                let prompt = self.forget(*turn).unwrap_or_default();
                if self.current.as_ref().is_none_or(|current| current.turn != *turn) {
                    self.begin(*turn, &prompt);
                }
            }
            Event::CancelRequested { turn, .. } => {
                if let Some(current) = self.current.as_mut().filter(|current| current.turn == *turn) {
                    current.is_cancelled = true;
                }
            }
            Event::TurnEnded { turn, end, .. } => self.end(*turn, end),
            Event::QueueMoved { turn, to } => {
                if let Some(text) = self.forget(*turn) {
                    let to = usize::try_from(*to).unwrap_or(usize::MAX).min(self.queued.len());
                    self.queued.insert(to, (*turn, text));
                }
            }
            Event::TurnEdited { turn, text, .. } => {
                if let Some((_, waiting)) = self.queued.iter_mut().find(|(queued, _)| queued == turn) {
                    waiting.clone_from(text);
                }
            }
            Event::Asked { ask } => self.ask(ask),
            Event::Answered { request, reply, by } => {
                let is_ours = by.pid == std::process::id();
                let whose = if is_ours { String::new() } else { format!(" by {}", by.place) };
                self.unask(request, &format!("[answered{whose}: {reply}]"));
            }
            Event::Unasked { request } => self.unask(request, "[the agent no longer asks]"),
            Event::QueueHeld { hold } => {
                self.note(&format!("[the queue is held: {}]", hold.describe(&self.handle)))
            }
            Event::QueueResumed { .. } => self.note("[the queue goes on]"),
            Event::StopRequested { by, .. } => self.note(&format!("[stopped by {}]", by.place)),
            Event::Released { why: Release::Idle, .. } => {
                self.note("[paused to save memory; the next message wakes it]");
            }
            Event::Released { why, .. } => self.note(&format!("[{}]", why.describe())),
            Event::RunEnded { .. } => self.asks.clear(),
            Event::Renamed { name } => self.handle.clone_from(name),
            Event::Warned { what } => self.note(&format!("[{what}]")),
            _ => {}
        }
    }

    /// A piece of the answer.
    pub(super) fn said(&mut self, turn: u64, text: &str) {
        let Some(current) = self.current.as_mut().filter(|current| current.turn == turn) else { return };
        let mut text = text;
        if std::mem::take(&mut current.again) {
            text = text.strip_prefix(current.said.as_str()).unwrap_or(text);
        }
        current.too_much |= current.said.len() + text.len() > MAX_SAID_BYTES;
        if !current.too_much {
            current.said.push_str(text);
        }
        self.say(text);
    }

    pub(super) fn doing(&mut self, turn: u64, what: &str, detail: &str, tokens: Option<u64>) {
        let Some(current) = self.current.as_mut().filter(|current| current.turn == turn) else { return };
        current.tokens = tokens.or(current.tokens);
        let detail = print::excerpt(detail, 200);
        let what = print::excerpt(what, 60);
        current.doing = if detail.is_empty() { what } else { format!("{what}: {detail}") };
    }

    fn begin(&mut self, turn: u64, prompt: &str) {
        self.prompt(prompt);
        self.follow = Some(turn);
        self.current = Some(Current {
            turn,
            since: Instant::now(),
            doing: "waiting".to_owned(),
            tokens: None,
            is_cancelled: false,
            said: String::new(),
            too_much: false,
            again: false,
        });
    }

    fn prompt(&mut self, text: &str) {
        self.end_line();
        let text = text.trim_end();
        let count = text.lines().count();
        let shown = if count > PROMPT_LINES { 3 } else { count };
        for (at, line) in text.lines().take(shown).enumerate() {
            let mark = if at == 0 { Visible::painted(Paint::Bold, ">", true) } else { Visible::from(" ") };
            self.told.push(mark + " " + line + "\n");
        }
        if count > shown {
            let more = format!("  [{} more lines]", count - shown);
            self.told.push(Visible::painted(Paint::Dim, more, true) + "\n");
        }
    }

    fn end(&mut self, turn: u64, end: &TurnEnd) {
        self.forget(turn);
        if let Some(current) = self.current.take_if(|current| current.turn == turn) {
            if !current.too_much {
                let (gap, rest) = rest_of(&current.said, &end.answer, end.cut);
                let rest = format!("{gap}{rest}");
                self.say(&rest);
            }
            self.end_line();
        } else if self.current.is_none() && !end.answer.is_empty() {
            // It began and ended while nobody told us.
            self.say(&end.answer);
            self.end_line();
        }
        if end.cut {
            self.note(&format!(
                "[only its beginning is kept; `berth output {}` has all of it]",
                self.session
            ));
        }
        if end.state != Final::Done {
            self.not_done(turn, end.state.into(), end.reason.as_deref());
        }
    }

    fn not_done(&mut self, turn: u64, state: TurnState, why: Option<&str>) {
        let why = why.map(|why| format!(": {why}")).unwrap_or_default();
        self.note(&format!("[turn {} {state}{why}]", turn_id(&self.handle, turn)));
    }

    fn ask(&mut self, ask: &Ask) {
        if self.asks.iter().any(|known| known.request == ask.request) {
            return;
        }
        self.end_line();
        let asks = format!("? {}", crate::replies::headline(ask));
        self.told.push(Visible::painted(Paint::Bold, asks, true) + "\n");
        for line in ask.detail.lines() {
            self.told.push(format!("    {line}\n"));
        }
        self.asks.push(ask.clone());
    }

    fn unask(&mut self, request: &str, note: &str) {
        let Some(at) = self.asks.iter().position(|ask| ask.request == request) else { return };
        self.asks.remove(at);
        self.note(note);
    }

    fn forget(&mut self, turn: u64) -> Option<String> {
        let at = self.queued.iter().position(|(queued, _)| *queued == turn)?;
        Some(self.queued.remove(at).1)
    }

    fn say(&mut self, text: &str) {
        self.line.push_str(&print::visible(text));
        if let Some(end) = self.line.rfind('\n') {
            self.told.push(self.line.drain(..=end).collect::<String>());
        }
        if self.line.len() > MAX_LINE_BYTES {
            self.end_line();
        }
    }

    fn end_line(&mut self) {
        if !self.line.is_empty() {
            self.told.push(&self.line);
            self.told.push("\n");
            self.line.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use berth_api::record::Actor;
    use berth_api::turn::{AskOption, Prompt, Reply};

    use super::*;

    fn accepted(turn: u64, text: &str) -> Event {
        Event::TurnAccepted { turn, prompt: Prompt { text: text.to_owned(), ..Prompt::default() } }
    }

    fn delivered(turn: u64) -> Event {
        Event::TurnDelivered { turn, epoch: 1, output_from: 0 }
    }

    fn ended(turn: u64, answer: &str) -> Event {
        let end = TurnEnd { state: Final::Done, answer: answer.to_owned(), ..TurnEnd::default() };
        Event::TurnEnded { turn, end, at_boot_ms: 0 }
    }

    fn plain(text: &Visible) -> String {
        ["\x1b[1m", "\x1b[2m", "\x1b[0m"]
            .iter()
            .fold(text.as_str().to_owned(), |text, style| text.replace(style, ""))
    }

    #[test]
    fn turns_are_told_one_after_the_other_and_what_waits_is_known() {
        let mut story = Story::new("id", "s");
        story.hear(&accepted(1, "one"));
        story.hear(&delivered(1));
        assert_eq!(story.take_follow(), Some(1));
        story.hear(&accepted(2, "two"));
        story.hear(&accepted(3, "three"));
        assert_eq!(story.queued.len(), 2);
        story.said(1, "first li");
        story.said(1, "ne\nsec");
        assert_eq!((plain(&story.take_told()).as_str(), story.line.as_str()), ("> one\nfirst line\n", "sec"));
        story.hear(&ended(1, "first line\nsecond"));
        story.hear(&Event::QueueMoved { turn: 3, to: 0 });
        assert_eq!(story.queued[0].0, 3);
        story.hear(&delivered(3));
        assert_eq!(plain(&story.take_told()), "second\n> three\n");
    }

    #[test]
    fn what_was_said_is_not_told_again_on_a_new_connection() {
        let mut story = Story::new("id", "s");
        story.known(1, "p", false);
        story.said(1, "half ");
        story.connected();
        assert_eq!(story.take_follow(), Some(1));
        story.said(1, "half of it");
        story.said(1, " and more");
        story.hear(&ended(1, "half of it and more"));
        assert_eq!(plain(&story.take_told()), "> p\nhalf of it and more\n");
    }

    #[test]
    fn events_about_turns_that_were_shown_at_the_beginning_tell_nothing_twice() {
        let mut story = Story::new("id", "s");
        let view = TurnView {
            number: 2,
            prompt: "two".to_owned(),
            answer: Some("second".to_owned()),
            state: TurnState::Done,
            ..TurnView::default()
        };
        story.past(1);
        story.before(&view);
        story.known(3, "three", false);
        story.known(4, "four", true);
        story.said(3, "thi");
        for event in [ended(1, "first"), accepted(2, "two"), accepted(3, "three"), accepted(4, "four")] {
            story.hear(&event);
        }
        for event in [delivered(2), ended(2, "second"), delivered(3)] {
            story.hear(&event);
        }
        assert_eq!(story.queued, [(4, "four".to_owned())]);
        assert_eq!(story.current.as_ref().map(|current| current.turn), Some(3));
        story.hear(&ended(3, "third"));
        story.hear(&delivered(4));
        assert_eq!(plain(&story.take_told()), "> two\nsecond\n> three\nthird\n> four\n");
    }

    #[test]
    fn a_turn_shown_at_the_beginning_goes_on_after_the_end_of_one_that_had_not_begun_then() {
        let mut story = Story::new("id", "s");
        story.known(6, "six", false);
        story.known(5, "five", true);
        for event in [delivered(5), ended(5, "fifth"), delivered(6)] {
            story.hear(&event);
        }
        assert_eq!(story.current.as_ref().map(|current| current.turn), Some(6));
        assert_eq!(plain(&story.take_told()), "> six\n> five\nfifth\n");
    }

    #[test]
    fn a_question_is_told_in_full_once_and_is_gone_when_somebody_answers() {
        let mut story = Story::new("id", "s");
        story.known(1, "p", false);
        let detail = format!("rm -rf {}\n\x1b]0;x\x07", "y".repeat(500));
        let ask = Ask { request: "r".to_owned(), tool: "Bash".to_owned(), detail, ..Ask::default() };
        for _ in 0..2 {
            story.hear(&Event::Asked { ask: ask.clone() });
        }
        let told = plain(&story.take_told());
        assert_eq!(told.matches(&"y".repeat(500)).count(), 1, "{told}");
        assert!(!told.contains('\x1b'), "{told:?}");
        let by = Actor { pid: 1, place: "pts/9".to_owned(), ..Actor::default() };
        let option = AskOption { id: "reject".to_owned(), ..AskOption::default() };
        let reply = Reply { chosen: vec![option], text: Some("use mktemp".to_owned()) };
        let answered = Event::Answered { request: "r".to_owned(), reply, by };
        story.hear(&answered);
        assert!(story.asks.is_empty());
        assert_eq!(plain(&story.take_told()), "[answered by pts/9: reject: use mktemp]\n");
    }

    #[test]
    fn a_long_prompt_is_told_by_its_beginning_and_a_line_without_end_in_parts() {
        let mut story = Story::new("id", "s");
        story.known(1, &"x\n".repeat(10_000), false);
        assert_eq!(plain(&story.take_told()), "> x\n  x\n  x\n  [9997 more lines]\n");
        story.said(1, &"y".repeat(MAX_LINE_BYTES + 1));
        assert_eq!((story.line.len(), story.take_told().as_str().len()), (0, MAX_LINE_BYTES + 2));
    }
}
