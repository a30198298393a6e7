//! A turn on its way into a terminal: pasted in one piece, sent with one Enter when the terminal has taken it in.
//!
//! Promise: a turn is typed once, never into anything but the input box, and no key of a user comes in between; a
//! turn that is not confirmed in time is `unknown`.
//! Not here: the report that confirms it (`hook_reports`), text that a user typed there (`unsent_text`).
//! Start with [`TuiTurns::typable`], then [`TuiTurns::paste`].

use std::time::Duration;

use berth_core::{FinalState, Observation, QueueHold, Session, TurnEnd, TurnProgress};
use berth_host::clock;
use berth_store::killpoint;

use super::{ENTER, SETTLED_MS, TELL_PATIENCE, TuiTurns, works};
use crate::keeper::agent_terminal::AgentTerminal;

/// The time that the terminal may go on painting before Enter is pressed all the same.
const PAINTING_MS: u64 = 3000;
/// The time that a terminal may take to show any part of a paste.
const ECHO_PATIENCE: Duration = Duration::from_secs(10);
/// The time that an agent may take to confirm the typed turn.
const CONFIRM_PATIENCE: Duration = Duration::from_secs(30);
/// The time that an agent may take to report a prompt that a user sent, before a turn is typed behind it.
const JUST_SENT_MS: u64 = 2000;
/// The time that the next turn waits after an end: a hook of the user may make the agent go on.
const ENDED_MS: u64 = 500;
/// The number of characters of a prompt that are searched for on the screen.
const ECHO_CHARS: usize = 16;
/// The text that agents show in place of a long paste.
const FOLDED: &str = "[Pasted ";
/// The sequences that begin and end a paste.
const PASTE_BEGINS: &[u8] = b"\x1b[200~";
const PASTE_ENDS: &[u8] = b"\x1b[201~";

/// The answer to "can a turn be typed into the terminal?".
#[derive(Debug)]
pub(in crate::keeper) enum TypingDecision {
    /// The turn can be typed now.
    Now,
    /// Not yet: the terminal is not ready for it.
    Later,
    /// Not without a user's confirmation.
    Held(QueueHold),
}

/// A turn on its way into the terminal.
#[derive(Debug)]
pub(super) struct TurnPaste {
    pub(super) turn: u64,
    pub(super) stage: PasteStage,
    /// The rows on the screen before the paste.
    pub(super) before: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PasteStage {
    /// Pasted into the terminal since this time, on the boot clock.
    Pasted { since_ms: u64 },
    /// Sent; the agent has to confirm it until this time, on the boot clock.
    Sent { until_ms: u64 },
}

impl TuiTurns {
    /// Checks if a turn can be typed now.
    pub(in crate::keeper) fn typable(
        &mut self,
        session: &Session,
        terminal: &mut AgentTerminal,
    ) -> TypingDecision {
        if !session.has_terminal() {
            return TypingDecision::Now;
        }
        if self.unsent.waits() {
            return TypingDecision::Held(QueueHold::Draft);
        }
        let now = clock::boot_ms();
        // The agent is about to report that prompt.
        let just_sent = self.sent_at_ms.is_some_and(|at| now < at + JUST_SENT_MS);
        let just_ended = self.ended_at_ms.is_some_and(|at| now < at + ENDED_MS);
        let just_sent = just_sent || just_ended;
        // An agent reports its start before its terminal is ready.
        let waited = now - *self.due_since_ms.get_or_insert(now);
        let takes_paste = terminal.takes_paste();
        if takes_paste && !just_sent && (self.shown_at_ms + SETTLED_MS <= now || waited >= PAINTING_MS) {
            self.due_since_ms = None;
            return TypingDecision::Now;
        }
        if takes_paste || waited < TELL_PATIENCE.as_millis() as u64 {
            return TypingDecision::Later;
        }
        self.due_since_ms = None;
        let reason = "its terminal takes no text at the moment".to_owned();
        TypingDecision::Held(QueueHold::AgentFailed { reason })
    }

    /// Pastes a turn's prompt. Enter follows when the terminal has taken it in.
    pub(in crate::keeper) fn paste(
        &mut self,
        turn: u64,
        text: &str,
        session: &Session,
        terminal: &mut AgentTerminal,
    ) {
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        let before = rows(&terminal.text());
        // A prompt that was broken off before is not looked for any more.
        self.put_back = None;
        self.mark_record(session);
        let keys = [PASTE_BEGINS, text.trim_end().as_bytes(), PASTE_ENDS].concat();
        self.paste =
            Some(TurnPaste { turn, stage: PasteStage::Pasted { since_ms: clock::boot_ms() }, before });
        terminal.queue_keys(&keys);
        killpoint::reached("said");
    }

    /// Types the keys that came while a turn was typed.
    pub(super) fn let_keys_follow(&mut self, terminal: &mut AgentTerminal) {
        let keys = std::mem::take(&mut self.behind);
        if !keys.is_empty() {
            terminal.queue_keys(&keys);
        }
    }

    /// Sends a turn that the terminal has taken in, and gives up on one that it has not, or that was not confirmed.
    pub(in crate::keeper) fn on_paste_time(
        &mut self,
        now: u64,
        session: &Session,
        terminal: &mut AgentTerminal,
    ) -> Option<Observation> {
        let TurnPaste { turn, stage, .. } = self.paste.as_ref()?;
        let (turn, stage) = (*turn, *stage);
        let given = session.turns.open(turn).map(|turn| turn.state);
        // The agent may have begun another activity after the paste, and ask a question in a moment.
        let is_busy = session.asks_on_screen() || works(session);
        if given != Some(TurnProgress::Delivered) {
            self.paste = None;
            self.let_keys_follow(terminal);
            return None;
        }
        match stage {
            PasteStage::Pasted { since_ms } => {
                let echoed =
                    !terminal.has_waiting_keys() && self.shown_at_ms >= since_ms && self.shown_at_ms > 0;
                let settled = self.shown_at_ms + SETTLED_MS <= now || since_ms + PAINTING_MS <= now;
                // A menu or a dialog that has taken the place of the box never gets an Enter.
                if echoed && settled && !is_busy && self.shows_paste(session, terminal) {
                    terminal.queue_keys(ENTER);
                    let until_ms = now + confirm_patience_ms();
                    self.paste =
                        Some(TurnPaste { turn, stage: PasteStage::Sent { until_ms }, before: vec![] });
                    killpoint::reached("entered");
                    self.let_keys_follow(terminal);
                    None
                } else if since_ms + echo_patience_ms() <= now {
                    let reason = match is_busy {
                        true => {
                            "the agent began something else, so the prompt was not sent; its text may be in the input box"
                        }
                        false => {
                            "the text of the prompt did not appear in the terminal, so it was not sent; some of it may be there"
                        }
                    };
                    Some(self.give_paste_up(turn, reason.to_owned(), terminal))
                } else {
                    None
                }
            }
            PasteStage::Sent { until_ms } if until_ms <= now => {
                let reason = format!(
                    "the prompt was typed into the terminal, and the agent did not confirm it within {} s",
                    CONFIRM_PATIENCE.as_secs()
                );
                Some(self.give_paste_up(turn, reason, terminal))
            }
            PasteStage::Sent { .. } => None,
        }
    }

    /// Gives up on a turn whose outcome is unknown. It is not typed again.
    fn give_paste_up(&mut self, turn: u64, reason: String, terminal: &mut AgentTerminal) -> Observation {
        self.paste = None;
        self.unsent.mark_unknown();
        self.let_keys_follow(terminal);
        let end = TurnEnd::without_answer(FinalState::Unknown, reason);
        Observation::TurnOver { turn, end }
    }

    /// True if the prompt that was pasted came onto the screen.
    fn shows_paste(&self, session: &Session, terminal: &mut AgentTerminal) -> bool {
        let now = rows(&terminal.text());
        let Some(TurnPaste { turn, before, .. }) = &self.paste else { return false };
        let turn = session.turns.open(*turn);
        turn.is_some_and(|turn| has_come(before, &now, &turn.prompt))
    }
}

/// The rows of a screen that are not blank.
fn rows(screen: &str) -> Vec<String> {
    screen.lines().map(str::trim_end).filter(|row| !row.is_empty()).map(str::to_owned).collect()
}

/// True if a prompt appeared on the screen since `before`. Rows that were there already do not count, even in another
/// place: the words of an earlier prompt stand further up.
fn has_come(before: &[String], now: &[String], prompt: &str) -> bool {
    let (gone, new) = changed(before, now);
    let is_more = |count: fn(&[&str], &str) -> usize| count(&new, prompt) > count(&gone, prompt);
    is_more(showings) || is_more(alone)
}

/// The rows that are gone from a screen, and the new ones. Rows that scrolled out at the top are neither.
fn changed<'a>(before: &'a [String], now: &'a [String]) -> (Vec<&'a str>, Vec<&'a str>) {
    // The most rows that can have stayed, from each row on.
    let mut most = vec![vec![0_usize; now.len() + 1]; before.len() + 1];
    for (i, old) in before.iter().enumerate().rev() {
        for (j, row) in now.iter().enumerate().rev() {
            most[i][j] = if old == row { most[i + 1][j + 1] + 1 } else { most[i + 1][j].max(most[i][j + 1]) };
        }
    }
    let (mut gone, mut new) = (Vec::new(), Vec::new());
    let (mut i, mut j, mut has_stayed) = (0, 0, most[0][0] == 0);
    while i < before.len() || j < now.len() {
        if i < before.len() && j < now.len() && before[i] == now[j] {
            (i, j, has_stayed) = (i + 1, j + 1, true);
        } else if i < before.len() && (j == now.len() || most[i + 1][j] >= most[i][j + 1]) {
            gone.extend(has_stayed.then_some(before[i].as_str()));
            i += 1;
        } else {
            new.push(now[j].as_str());
            j += 1;
        }
    }
    (gone, new)
}

/// The number of times that some rows show the beginning of a prompt, or the placeholder for a long paste. Only
/// letters count: blanks and frames are the terminal's own.
fn showings(rows: &[&str], prompt: &str) -> usize {
    let begins: String = essence(prompt, prompt).chars().take(ECHO_CHARS).collect();
    let flat: String = rows.iter().map(|row| essence(row, prompt)).collect();
    let shown = if begins.is_empty() { 0 } else { flat.matches(&begins).count() };
    shown + rows.iter().map(|row| row.matches(FOLDED).count()).sum::<usize>()
}

/// The number of rows that have the prompt in them and nothing else. A prompt of a letter or two is in other
/// words as well.
fn alone(rows: &[&str], prompt: &str) -> usize {
    let wanted = essence(prompt, prompt);
    rows.iter().filter(|row| !wanted.is_empty() && essence(row, prompt) == wanted).count()
}

/// The compared part of a text: letters, or all characters if the prompt has no letters.
fn essence(text: &str, prompt: &str) -> String {
    let has_letters = prompt.contains(char::is_alphanumeric);
    let counts = |letter: &char| if has_letters { letter.is_alphanumeric() } else { !letter.is_whitespace() };
    text.chars().filter(counts).collect()
}

pub(super) fn echo_patience_ms() -> u64 {
    killpoint::patience("BERTH_ECHO_MS", ECHO_PATIENCE).as_millis() as u64
}

pub(super) fn confirm_patience_ms() -> u64 {
    killpoint::patience("BERTH_CONFIRM_MS", CONFIRM_PATIENCE).as_millis() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn came(before: &str, now: &str, prompt: &str) -> bool {
        has_come(&rows(before), &rows(now), prompt)
    }

    #[test]
    fn a_prompt_is_found_on_a_screen_in_any_layout_of_the_terminal() {
        assert!(came("> ", "> fix the parser in lexer.rs", "fix the\tparser in lexer.rs"));
        assert!(came("| > |", "| > fix the |\n|   parser  |", "fix the parser"));
        assert!(came("> ", "> [Pasted text #1 +40 lines]", "fix\n"));
        assert!(came("> ", "> ???", "???"));
        assert!(!came("> ", "Resume a conversation\n  yesterday", "fix the parser"));
        assert!(!came("", "anything", "\u{301}"));
        // A hint goes when something is typed, and has the same letters.
        assert!(came("> \n? for shortcuts", "> s", "s"));
    }

    #[test]
    fn text_that_was_on_the_screen_before_is_not_the_pasted_prompt() {
        assert!(came("> go\nECHO: go\n> ", "> go\nECHO: go\n> go", "go"));
        let old = "> Please review file a.rs\nNo problems.\n[Pasted text #1]";
        let menu = |at: &str| format!("{old}\nSelect model\n{at}\nEsc to leave");
        assert!(!came(&menu("1. one"), &menu("2. two"), "Please review file b.rs"));
        assert!(!came(&menu("1. one"), &menu("2. two"), "one\ntwo\nthree"));
        assert!(!came("Allow?\n> 1. Yes\n  2. No", "Allow?\n  1. Yes\n> 2. No", "Yes"));
    }

    #[test]
    fn the_same_prompt_once_more_is_found_although_the_first_one_made_room_for_it() {
        let before = "> Please review\n  every file\nNo problems.\n----\n> \n----\nhint";
        let after = "No problems.\n----\n> Please review\n  every file\n----\nhint";
        assert!(came(before, after, "Please review every file"));
    }
}
