//! What was said between a person and an agent that takes turns, as far as a preview shows it.
//!
//! Promise: memory is bounded by [`MAX_TURNS`] and [`MAX_BYTES`], whatever the journal holds: what is oldest
//! goes first. Events may come from the journal or from the keeper; it is the same code.
//! Not here: drawing (see `view`), where events come from (see `source`).
//! Start with [`Transcript::event`].

use std::collections::VecDeque;

use berth_api::TurnState;
use berth_api::record::Event;
use berth_api::turn::Final;

/// How many turns are kept.
pub(crate) const MAX_TURNS: usize = 40;
/// How much text is kept of one prompt or answer: the end of it.
const MAX_TEXT_BYTES: usize = 32 * 1024;
/// How much text is kept in all.
pub(crate) const MAX_BYTES: usize = 256 * 1024;
/// How many pieces of one turn are kept.
const MAX_PARTS: usize = 200;

/// The last turns of a session.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Transcript {
    pub(crate) turns: VecDeque<Turn>,
}

/// One turn.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Turn {
    pub(crate) number: u64,
    pub(crate) prompt: String,
    pub(crate) state: TurnState,
    pub(crate) parts: VecDeque<Part>,
    /// Why it ended as it did, if there is something to say about it.
    pub(crate) reason: Option<String>,
}

/// Something the agent said or did.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Part {
    Said(String),
    Did(String),
}

impl Transcript {
    /// Takes in what happened.
    pub(crate) fn event(&mut self, event: &Event) {
        match event {
            Event::TurnAccepted { turn, prompt } => self.turns.push_back(Turn {
                number: *turn,
                prompt: last_of(&prompt.text),
                state: TurnState::Queued,
                ..Turn::default()
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
                    turn.reason = end.reason.clone().filter(|_| end.state != Final::Done);
                    let was_heard = turn.parts.iter().any(|part| matches!(part, Part::Said(_)));
                    if !was_heard && !end.answer.is_empty() {
                        turn.parts.push_back(Part::Said(last_of(&end.answer)));
                    }
                }
            }
            _ => {}
        }
        self.trim();
    }

    /// Another piece of the answer.
    pub(crate) fn said(&mut self, turn: u64, text: &str) {
        let Some(turn) = self.turn(turn) else { return };
        match turn.parts.back_mut() {
            Some(Part::Said(before)) => {
                before.push_str(text);
                if before.len() > 2 * MAX_TEXT_BYTES {
                    *before = last_of(before);
                }
            }
            Some(Part::Did(_)) | None => turn.parts.push_back(Part::Said(last_of(text))),
        }
        self.trim();
    }

    /// What the agent does. That it thinks or writes is shown elsewhere.
    pub(crate) fn doing(&mut self, turn: u64, what: &str, detail: &str) {
        if matches!(what, "thinking" | "writing" | "") {
            return;
        }
        let Some(turn) = self.turn(turn) else { return };
        let text = if detail.is_empty() { what.to_owned() } else { format!("{what}: {detail}") };
        let text = crate::print::excerpt(&text, 400);
        // Some agents name the tool first, and say in a second breath what it is to do.
        let is_named = |last: &Part| matches!(last, Part::Did(said) if *said == text || said == what);
        if turn.parts.back().is_some_and(is_named) {
            turn.parts.pop_back();
        }
        turn.parts.push_back(Part::Did(text));
        self.trim();
    }

    /// Forgets what was heard of a turn: it will be told again from the beginning.
    pub(crate) fn hear_again(&mut self, turn: u64) {
        if let Some(turn) = self.turn(turn) {
            turn.parts.clear();
        }
    }

    /// The turn the agent has.
    pub(crate) fn current(&self) -> Option<u64> {
        let has = |turn: &&Turn| matches!(turn.state, TurnState::Delivered | TurnState::Working);
        self.turns.iter().find(has).map(|turn| turn.number)
    }

    fn turn(&mut self, number: u64) -> Option<&mut Turn> {
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
        self.turns.iter().map(Turn::bytes).sum()
    }
}

impl Turn {
    fn bytes(&self) -> usize {
        let part = |part: &Part| match part {
            Part::Said(text) | Part::Did(text) => text.len(),
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
    use berth_api::turn::{Prompt, TurnEnd};

    use super::*;

    pub(crate) fn accepted(turn: u64, text: &str) -> Event {
        Event::TurnAccepted { turn, prompt: Prompt { text: text.to_owned(), ..Prompt::default() } }
    }

    pub(crate) fn ended(turn: u64, answer: &str) -> Event {
        let end = TurnEnd { state: Final::Done, answer: answer.to_owned(), ..TurnEnd::default() };
        Event::TurnEnded { turn, end, at_boot_ms: 0 }
    }

    #[test]
    fn an_answer_that_was_heard_is_not_told_twice_and_one_that_was_not_is() {
        let mut heard = Transcript::default();
        heard.event(&accepted(1, "why?"));
        heard.event(&Event::TurnBegan { turn: 1 });
        assert_eq!(heard.current(), Some(1));
        heard.said(1, "be");
        heard.doing(1, "thinking", "");
        heard.said(1, "cause");
        // Named, told in full, and told again: one line.
        heard.doing(1, "Bash", "");
        heard.doing(1, "Bash", "cargo test");
        heard.doing(1, "Bash", "cargo test");
        heard.event(&ended(1, "because"));
        let parts: Vec<Part> = heard.turns[0].parts.iter().cloned().collect();
        assert_eq!(parts, [Part::Said("because".into()), Part::Did("Bash: cargo test".into())]);
        assert_eq!((heard.current(), heard.turns[0].state), (None, TurnState::Done));

        let mut read = Transcript::default();
        read.event(&accepted(1, "why?"));
        read.event(&ended(1, "because"));
        assert_eq!(read.turns[0].parts, [Part::Said("because".into())]);
    }

    #[test]
    fn memory_is_bounded_whatever_is_said() {
        let mut transcript = Transcript::default();
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
