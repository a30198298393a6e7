//! The conversation of a user with an agent that takes turns, shortened for a preview.
//!
//! Promise: memory is bounded by [`MAX_TURNS`] and [`MAX_BYTES`] for any journal: the oldest parts go first. Events of
//! the journal and of the keeper go through the same code.
//! Not here: drawing (see `view`), the source of events (see `source`).
//! Start with [`PreviewTranscript::event`].

use std::collections::VecDeque;

use berth_api::TurnState;
use berth_api::record::Event;
use berth_api::turn::FinalState;

/// How many turns are kept.
pub(crate) const MAX_TURNS: usize = 40;
/// How much of one prompt or answer is kept: its end.
const MAX_TEXT_BYTES: usize = 32 * 1024;
/// How much text is kept in total.
pub(crate) const MAX_BYTES: usize = 256 * 1024;
/// How many pieces of one turn are kept.
const MAX_PARTS: usize = 200;

/// The last turns of a session.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct PreviewTranscript {
    pub(crate) turns: VecDeque<PreviewTurn>,
}

/// A turn of the conversation.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct PreviewTurn {
    pub(crate) number: u64,
    pub(crate) prompt: String,
    pub(crate) state: TurnState,
    pub(crate) parts: VecDeque<PreviewPart>,
    /// The reason of its end, unless it is simply done.
    pub(crate) reason: Option<String>,
}

/// A text or an action of the agent.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum PreviewPart {
    Said(String),
    Did(String),
}

impl PreviewTranscript {
    /// Applies an event.
    pub(crate) fn event(&mut self, event: &Event) {
        match event {
            Event::TurnAccepted { turn, prompt } => self.turns.push_back(PreviewTurn {
                number: *turn,
                prompt: last_of(&prompt.text),
                state: TurnState::Queued,
                ..PreviewTurn::default()
            }),
            Event::TurnEdited { turn, text, .. } => {
                if let Some(turn) = self.turn(*turn) {
                    turn.prompt = last_of(text);
                }
            }
            Event::TurnDelivered { turn, .. } => self.set_state(*turn, TurnState::Delivered),
            Event::TurnBegan { turn } => self.set_state(*turn, TurnState::Working),
            Event::TurnEnded { turn, end, .. } => {
                self.set_state(*turn, end.state.into());
                if let Some(turn) = self.turn(*turn) {
                    turn.reason = end.reason.clone().filter(|_| end.state != FinalState::Done);
                    let was_heard = turn.parts.iter().any(|part| matches!(part, PreviewPart::Said(_)));
                    if !was_heard && !end.answer.is_empty() {
                        turn.parts.push_back(PreviewPart::Said(last_of(&end.answer)));
                    }
                }
            }
            _ => {}
        }
        self.trim();
    }

    /// Adds a piece of the agent's answer.
    pub(crate) fn said(&mut self, turn: u64, text: &str) {
        let Some(turn) = self.turn(turn) else { return };
        match turn.parts.back_mut() {
            Some(PreviewPart::Said(before)) => {
                before.push_str(text);
                if before.len() > 2 * MAX_TEXT_BYTES {
                    *before = last_of(before);
                }
            }
            Some(PreviewPart::Did(_)) | None => turn.parts.push_back(PreviewPart::Said(last_of(text))),
        }
        self.trim();
    }

    /// Adds an action of the agent, such as a tool call. Thinking and writing are shown elsewhere.
    pub(crate) fn doing(&mut self, turn: u64, what: &str, detail: &str) {
        if matches!(what, "thinking" | "writing" | "") {
            return;
        }
        let Some(turn) = self.turn(turn) else { return };
        let text = if detail.is_empty() { what.to_owned() } else { format!("{what}: {detail}") };
        let text = crate::print::first_words(&text, 400);
        // Some agents first report the tool's name alone, and then its input.
        let is_named =
            |last: &PreviewPart| matches!(last, PreviewPart::Did(said) if *said == text || said == what);
        if turn.parts.back().is_some_and(is_named) {
            turn.parts.pop_back();
        }
        turn.parts.push_back(PreviewPart::Did(text));
        self.trim();
    }

    /// Drops the heard parts of a turn: the keeper will repeat them from the beginning.
    pub(crate) fn hear_again(&mut self, turn: u64) {
        if let Some(turn) = self.turn(turn) {
            turn.parts.clear();
        }
    }

    /// Number of the turn that the agent has.
    pub(crate) fn current(&self) -> Option<u64> {
        let has = |turn: &&PreviewTurn| matches!(turn.state, TurnState::Delivered | TurnState::Working);
        self.turns.iter().find(has).map(|turn| turn.number)
    }

    fn turn(&mut self, number: u64) -> Option<&mut PreviewTurn> {
        self.turns.iter_mut().rfind(|turn| turn.number == number)
    }

    fn set_state(&mut self, number: u64, state: TurnState) {
        if let Some(turn) = self.turn(number) {
            turn.state = state;
        }
    }

    fn trim(&mut self) {
        for turn in &mut self.turns {
            while turn.parts.len() > MAX_PARTS {
                turn.parts.pop_front();
            }
        }
        while self.turns.len() > MAX_TURNS || (self.turns.len() > 1 && self.bytes() > MAX_BYTES) {
            self.turns.pop_front();
        }
    }

    fn bytes(&self) -> usize {
        self.turns.iter().map(PreviewTurn::bytes).sum()
    }
}

impl PreviewTurn {
    fn bytes(&self) -> usize {
        let part = |part: &PreviewPart| match part {
            PreviewPart::Said(text) | PreviewPart::Did(text) => text.len(),
        };
        self.prompt.len() + self.parts.iter().map(part).sum::<usize>()
    }
}

/// The end of a text, as much as is kept.
fn last_of(text: &str) -> String {
    if text.len() <= MAX_TEXT_BYTES {
        return text.to_owned();
    }
    let from = (text.len() - MAX_TEXT_BYTES..).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    format!("…{}", &text[from..])
}

#[cfg(test)]
pub(crate) mod tests {
    use berth_api::turn::{TurnEnd, TurnPrompt};

    use super::*;

    pub(crate) fn accepted(turn: u64, text: &str) -> Event {
        Event::TurnAccepted { turn, prompt: TurnPrompt { text: text.to_owned(), ..TurnPrompt::default() } }
    }

    pub(crate) fn ended(turn: u64, answer: &str) -> Event {
        let end = TurnEnd { state: FinalState::Done, answer: answer.to_owned(), ..TurnEnd::default() };
        Event::TurnEnded { turn, end, at_boot_ms: 0 }
    }

    #[test]
    fn an_answer_is_shown_once_whether_it_was_heard_live_or_not() {
        let mut heard = PreviewTranscript::default();
        heard.event(&accepted(1, "why?"));
        heard.event(&Event::TurnBegan { turn: 1 });
        assert_eq!(heard.current(), Some(1));
        heard.said(1, "be");
        heard.doing(1, "thinking", "");
        heard.said(1, "cause");
        // The name, the whole call, and its repetition make one line.
        heard.doing(1, "Bash", "");
        heard.doing(1, "Bash", "cargo test");
        heard.doing(1, "Bash", "cargo test");
        heard.event(&ended(1, "because"));
        let parts: Vec<PreviewPart> = heard.turns[0].parts.iter().cloned().collect();
        assert_eq!(parts, [PreviewPart::Said("because".into()), PreviewPart::Did("Bash: cargo test".into())]);
        assert_eq!((heard.current(), heard.turns[0].state), (None, TurnState::Done));

        let mut read = PreviewTranscript::default();
        read.event(&accepted(1, "why?"));
        read.event(&ended(1, "because"));
        assert_eq!(read.turns[0].parts, [PreviewPart::Said("because".into())]);
    }

    #[test]
    fn memory_is_bounded_for_any_text() {
        let mut transcript = PreviewTranscript::default();
        for turn in 1..60 {
            transcript.event(&accepted(turn, &"é".repeat(40_000)));
            for _ in 0..300 {
                transcript.said(turn, &"x".repeat(1000));
            }
            for number in 0..300 {
                transcript.doing(turn, "Bash", &number.to_string());
            }
        }
        assert!(transcript.turns.len() <= MAX_TURNS);
        assert!(transcript.bytes() <= MAX_BYTES, "{}", transcript.bytes());
        assert_eq!(transcript.turns.back().map(|turn| turn.number), Some(59));
    }
}
