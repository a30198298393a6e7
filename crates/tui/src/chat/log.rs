//! The text of the chat: events of the session as lines that stay, and the current activity.
//!
//! Promise: each turn's prompt, answer and end are shown once and in order, for turns of any client, after any number
//! of reconnects, and also if the keeper replays events of turns that were shown at the beginning. Control sequences in
//! the text of others are made visible, so that the terminal does not obey them.
//! Not here: painting (see `live`).
//! Start with [`ChatLog::hear`].

use std::collections::BTreeSet;
use std::time::Instant;

use berth_api::TurnState;
use berth_api::record::Event;
use berth_api::turn::{AgentQuestion, FinalState, ReleaseReason, TurnEnd, TurnView, turn_id};

use crate::print;
use crate::safe_text::{SafeText, TextStyle};
use crate::turn_watch::unprinted_rest;

/// Number of lines above which only the first lines of a prompt are shown.
const PROMPT_LINES: usize = 12;
/// Length at which an unfinished line is printed, in bytes.
const MAX_LINE_BYTES: usize = 64 * 1024;
/// Limit of the answer text that is kept for comparison with the final answer, in bytes.
const MAX_SAID_BYTES: usize = 8 * 1024 * 1024;

/// The turn that the agent works on.
#[derive(Debug)]
pub(super) struct ChatTurn {
    pub(super) turn: u64,
    pub(super) since: Instant,
    /// The agent's activity, in a few words.
    pub(super) doing: String,
    pub(super) tokens: Option<u64>,
    /// True if a client asked to cancel the turn.
    pub(super) is_cancelled: bool,
    said: String,
    /// True if the answer is longer than the kept text.
    too_much: bool,
    /// True after a new subscription to the turn: the keeper then replays the answer so far.
    again: bool,
}

/// The state of the session as the chat knows it, and the text that is still to be printed.
#[derive(Debug, Default)]
pub(super) struct ChatLog {
    session: String,
    handle: String,
    /// Whole lines that are to be printed and stay.
    told: SafeText,
    /// The line of the answer that is not complete yet.
    pub(super) line: String,
    pub(super) current: Option<ChatTurn>,
    /// Queued turns with their prompts, the next one first.
    pub(super) queued: Vec<(u64, String)>,
    /// Open questions of the agent, the oldest first.
    pub(super) asks: Vec<AgentQuestion>,
    /// The run of the questions; `None` until an event names it. Agents number their questions anew in each run.
    pub(super) epoch: Option<u64>,
    /// Turns that were over when the chat began.
    over: BTreeSet<u64>,
    /// The turn that the agent worked on when the chat began.
    begun: Option<u64>,
    /// The turn to subscribe to, until the subscription is made.
    follow: Option<u64>,
}

impl ChatLog {
    pub(super) fn new(session: &str, handle: &str) -> Self {
        Self { session: session.to_owned(), handle: handle.to_owned(), ..Self::default() }
    }

    pub(super) fn handle(&self) -> &str {
        &self.handle
    }

    /// Takes the lines that were added since the last call.
    pub(super) fn take_printable(&mut self) -> SafeText {
        std::mem::take(&mut self.told)
    }

    /// Takes the turn to subscribe to.
    pub(super) fn take_follow(&mut self) -> Option<u64> {
        self.follow.take()
    }

    /// Prepares for a new connection, which needs a new subscription to the current turn.
    pub(super) fn connected(&mut self) {
        if let Some(current) = &mut self.current {
            current.again = !current.said.is_empty();
            self.follow = Some(current.turn);
        }
    }

    /// Adds a remark of berth.
    pub(super) fn note(&mut self, text: &str) {
        self.end_line();
        for line in text.lines() {
            self.told.push(SafeText::painted(TextStyle::Dim, line, true) + "\n");
        }
    }

    /// Adds a turn that the agent works on already, or a queued one.
    pub(super) fn known(&mut self, turn: u64, prompt: &str, is_waiting: bool) {
        if is_waiting {
            self.queued.push((turn, prompt.to_owned()));
        } else {
            self.begun = Some(turn);
            self.begin(turn, prompt);
        }
    }

    /// Marks a turn as over before the chat began. It is not shown.
    pub(super) fn past(&mut self, turn: u64) {
        self.over.insert(turn);
    }

    /// Shows a turn that was over before the chat began.
    pub(super) fn before(&mut self, view: &TurnView) {
        self.past(view.number);
        self.prompt(&view.prompt);
        self.say(view.answer.as_deref().unwrap_or_default());
        self.end_line();
        if view.state != TurnState::Done {
            self.end_unfinished(view.number, view.state, view.reason.as_deref());
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
            Event::QuestionAsked { ask } => self.ask(ask),
            Event::Answered { request, reply, by } => {
                let is_ours = by.pid == std::process::id();
                let whose = if is_ours { String::new() } else { format!(" by {}", by.place) };
                self.unask(request, &format!("[answered{whose}: {reply}]"));
            }
            Event::QuestionWithdrawn { request } => self.unask(request, "[the agent no longer asks]"),
            Event::QueueHeld { hold } => {
                self.note(&format!("[the queue is held: {}]", hold.describe(&self.handle)))
            }
            Event::QueueResumed { .. } => self.note("[the queue goes on]"),
            Event::StopRequested { by, .. } => self.note(&format!("[stopped by {}]", by.place)),
            Event::RunReleased { why: ReleaseReason::Idle, .. } => {
                self.note("[paused to save memory; the next message wakes it]");
            }
            Event::RunReleased { why, .. } => self.note(&format!("[{}]", why.describe())),
            Event::RunEnded { .. } => self.asks.clear(),
            Event::Renamed { name } => self.handle.clone_from(name),
            Event::Warned { what } => self.note(&format!("[{what}]")),
            _ => {}
        }
    }

    /// Adds a piece of the answer.
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
        let detail = print::first_words(detail, 200);
        let what = print::first_words(what, 60);
        current.doing = if detail.is_empty() { what } else { format!("{what}: {detail}") };
    }

    fn begin(&mut self, turn: u64, prompt: &str) {
        self.prompt(prompt);
        self.follow = Some(turn);
        self.current = Some(ChatTurn {
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
            let mark =
                if at == 0 { SafeText::painted(TextStyle::Bold, ">", true) } else { SafeText::from(" ") };
            self.told.push(mark + " " + line + "\n");
        }
        if count > shown {
            let more = format!("  [{} more lines]", count - shown);
            self.told.push(SafeText::painted(TextStyle::Dim, more, true) + "\n");
        }
    }

    fn end(&mut self, turn: u64, end: &TurnEnd) {
        self.forget(turn);
        if let Some(current) = self.current.take_if(|current| current.turn == turn) {
            if !current.too_much {
                let (gap, rest) = unprinted_rest(&current.said, &end.answer, end.cut);
                let rest = format!("{gap}{rest}");
                self.say(&rest);
            }
            self.end_line();
        } else if self.current.is_none() && !end.answer.is_empty() {
            // The turn began and ended while the chat had no connection.
            self.say(&end.answer);
            self.end_line();
        }
        if end.cut {
            self.note(&format!(
                "[only the beginning of the answer is kept; `berth output {}` has all of it]",
                self.session
            ));
        }
        if end.state != FinalState::Done {
            self.end_unfinished(turn, end.state.into(), end.reason.as_deref());
        }
    }

    fn end_unfinished(&mut self, turn: u64, state: TurnState, why: Option<&str>) {
        let why = why.map(|why| format!(": {why}")).unwrap_or_default();
        self.note(&format!("[turn {} {state}{why}]", turn_id(&self.handle, turn)));
    }

    fn ask(&mut self, ask: &AgentQuestion) {
        if self.asks.iter().any(|known| known.request == ask.request) {
            return;
        }
        self.end_line();
        let asks = format!("? {}", crate::question_replies::question_headline(ask));
        self.told.push(SafeText::painted(TextStyle::Bold, asks, true) + "\n");
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
        self.line.push_str(&print::escape_control_characters(text));
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
    use berth_api::turn::{ChosenReply, QuestionOption, TurnPrompt};

    use super::*;

    fn accepted(turn: u64, text: &str) -> Event {
        Event::TurnAccepted { turn, prompt: TurnPrompt { text: text.to_owned(), ..TurnPrompt::default() } }
    }

    fn delivered(turn: u64) -> Event {
        Event::TurnDelivered { turn, epoch: 1, output_from: 0 }
    }

    fn ended(turn: u64, answer: &str) -> Event {
        let end = TurnEnd { state: FinalState::Done, answer: answer.to_owned(), ..TurnEnd::default() };
        Event::TurnEnded { turn, end, at_boot_ms: 0 }
    }

    fn plain(text: &SafeText) -> String {
        ["\x1b[1m", "\x1b[2m", "\x1b[0m"]
            .iter()
            .fold(text.as_str().to_owned(), |text, style| text.replace(style, ""))
    }

    #[test]
    fn turns_are_shown_one_after_the_other_and_queued_turns_are_known() {
        let mut story = ChatLog::new("id", "s");
        story.hear(&accepted(1, "one"));
        story.hear(&delivered(1));
        assert_eq!(story.take_follow(), Some(1));
        story.hear(&accepted(2, "two"));
        story.hear(&accepted(3, "three"));
        assert_eq!(story.queued.len(), 2);
        story.said(1, "first li");
        story.said(1, "ne\nsec");
        assert_eq!(
            (plain(&story.take_printable()).as_str(), story.line.as_str()),
            ("> one\nfirst line\n", "sec")
        );
        story.hear(&ended(1, "first line\nsecond"));
        story.hear(&Event::QueueMoved { turn: 3, to: 0 });
        assert_eq!(story.queued[0].0, 3);
        story.hear(&delivered(3));
        assert_eq!(plain(&story.take_printable()), "second\n> three\n");
    }

    #[test]
    fn text_is_not_shown_again_on_a_new_connection() {
        let mut story = ChatLog::new("id", "s");
        story.known(1, "p", false);
        story.said(1, "half ");
        story.connected();
        assert_eq!(story.take_follow(), Some(1));
        story.said(1, "half of it");
        story.said(1, " and more");
        story.hear(&ended(1, "half of it and more"));
        assert_eq!(plain(&story.take_printable()), "> p\nhalf of it and more\n");
    }

    #[test]
    fn events_about_turns_that_were_shown_at_the_beginning_show_nothing_twice() {
        let mut story = ChatLog::new("id", "s");
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
        assert_eq!(plain(&story.take_printable()), "> two\nsecond\n> three\nthird\n> four\n");
    }

    #[test]
    fn a_turn_shown_at_the_beginning_goes_on_after_the_end_of_one_that_had_not_begun_then() {
        let mut story = ChatLog::new("id", "s");
        story.known(6, "six", false);
        story.known(5, "five", true);
        for event in [delivered(5), ended(5, "fifth"), delivered(6)] {
            story.hear(&event);
        }
        assert_eq!(story.current.as_ref().map(|current| current.turn), Some(6));
        assert_eq!(plain(&story.take_printable()), "> six\n> five\nfifth\n");
    }

    #[test]
    fn a_question_is_shown_in_full_once_and_is_gone_when_another_client_answers() {
        let mut story = ChatLog::new("id", "s");
        story.known(1, "p", false);
        let detail = format!("rm -rf {}\n\x1b]0;x\x07", "y".repeat(500));
        let ask = AgentQuestion {
            request: "r".to_owned(),
            tool: "Bash".to_owned(),
            detail,
            ..AgentQuestion::default()
        };
        for _ in 0..2 {
            story.hear(&Event::QuestionAsked { ask: ask.clone() });
        }
        let told = plain(&story.take_printable());
        assert_eq!(told.matches(&"y".repeat(500)).count(), 1, "{told}");
        assert!(!told.contains('\x1b'), "{told:?}");
        let by = Actor { pid: 1, place: "pts/9".to_owned(), ..Actor::default() };
        let option = QuestionOption { id: "reject".to_owned(), ..QuestionOption::default() };
        let reply = ChosenReply { chosen: vec![option], text: Some("use mktemp".to_owned()) };
        let answered = Event::Answered { request: "r".to_owned(), reply, by };
        story.hear(&answered);
        assert!(story.asks.is_empty());
        assert_eq!(plain(&story.take_printable()), "[answered by pts/9: reject: use mktemp]\n");
    }

    #[test]
    fn a_long_prompt_is_cut_and_a_line_without_end_is_shown_in_parts() {
        let mut story = ChatLog::new("id", "s");
        story.known(1, &"x\n".repeat(10_000), false);
        assert_eq!(plain(&story.take_printable()), "> x\n  x\n  x\n  [9997 more lines]\n");
        story.said(1, &"y".repeat(MAX_LINE_BYTES + 1));
        assert_eq!((story.line.len(), story.take_printable().as_str().len()), (0, MAX_LINE_BYTES + 2));
    }
}
