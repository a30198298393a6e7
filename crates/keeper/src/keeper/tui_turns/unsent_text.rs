//! Text that a user typed into a terminal and did not send, judged by the keys alone.
//!
//! Promise: text that was typed and neither sent nor removed is noticed; a key that types nothing (an arrow, the
//! mouse, a terminal's own answer) is not taken for text. If keys are ambiguous, text counts as waiting.
//! Not here: the agent's reaction. A line that was recalled with an arrow key is not noticed; then the agent's
//! hook names a prompt that is not the turn's, and the turn is `unknown`.
//! Start with [`UnsentText::feed`].

const ESCAPE: u8 = 0x1b;
const DELETE: u8 = 0x7f;
const BACKSPACE: u8 = 0x08;
const CONTROL_C: u8 = 0x03;
const TAB: u8 = b'\t';
const LINE_FEED: u8 = b'\n';
const RETURN: u8 = b'\r';
/// The largest counted number of letters: a user who typed more does not remove them one by one.
const MOST_LETTERS: u32 = 1 << 20;
/// The longest parameters of a sequence that are parsed.
const MAX_PARAMETERS: usize = 16;
/// The longest string that a terminal answers with; a longer one is text.
const MAX_ANSWER: usize = 4096;

/// The text that may be waiting in the terminal.
#[derive(Debug, Default)]
pub(super) struct UnsentText {
    /// The number of letters that may be waiting.
    letters: u32,
    /// The number of sent messages that the agent has not reported.
    sent: u32,
    at: KeySequenceState,
    /// The length so far of the string that a terminal answers with.
    answered: usize,
    /// True if the last letter was a backslash: agents take the Enter behind it for a new line.
    escaped: bool,
    /// True inside of a paste: nothing in it is a key.
    pasting: bool,
    /// True if a sequence was a key that makes the agent break off.
    broke_off: bool,
    parameters: Vec<u8>,
}

/// The position in a sequence of keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum KeySequenceState {
    #[default]
    Text,
    /// Behind an escape character.
    Escape,
    /// In a control sequence.
    Control,
    /// Behind `ESC O`.
    Single,
    /// In a string that a terminal answers with.
    Answer,
    /// Behind an escape character in there.
    AnswerEscape,
}

impl UnsentText {
    /// True if text may be waiting in the terminal.
    pub(super) fn waits(&self) -> bool {
        self.letters > 0
    }

    /// A user says that no text waits.
    pub(super) fn forget(&mut self) {
        (self.letters, self.sent) = (0, 0);
        self.escaped = false;
    }

    /// The agent has taken the sent text. Text that was typed behind it is still there; if no key was seen to send
    /// it, an unknown key sent it, with everything.
    pub(super) fn taken(&mut self) {
        match self.sent.checked_sub(1) {
            Some(left) => self.sent = left,
            None => self.forget(),
        }
    }

    /// Notes that the keys typed before are not known.
    pub(super) fn mark_unknown(&mut self) {
        self.letters = MOST_LETTERS;
    }

    /// Processes keys. True if an Escape was pressed, which makes the agent break off.
    pub(super) fn feed(&mut self, keys: &[u8]) -> bool {
        let mut broke_off = false;
        self.broke_off = false;
        for (at, key) in keys.iter().enumerate() {
            // A lone escape character is the key; a terminal writes its sequences in one piece.
            broke_off |=
                *key == ESCAPE && self.at == KeySequenceState::Text && at + 1 == keys.len() && !self.pasting;
            broke_off |= *key == CONTROL_C && self.at == KeySequenceState::Text && !self.pasting;
            self.at = self.step(*key);
        }
        if broke_off && self.at == KeySequenceState::Escape {
            self.at = KeySequenceState::Text;
        }
        // A terminal writes its answers in one piece. Two bytes alone are a key with Alt.
        if self.at == KeySequenceState::Answer && self.answered == 0 && keys.len() == 2 {
            self.at = KeySequenceState::Text;
        }
        broke_off || self.broke_off
    }

    fn step(&mut self, key: u8) -> KeySequenceState {
        match (self.at, key) {
            (KeySequenceState::Text, ESCAPE) => KeySequenceState::Escape,
            (KeySequenceState::Text, _) => {
                self.letter(key);
                KeySequenceState::Text
            }
            (KeySequenceState::Escape, b'[') => {
                self.parameters.clear();
                KeySequenceState::Control
            }
            (KeySequenceState::Escape, b'O') => KeySequenceState::Single,
            (KeySequenceState::Escape, b']' | b'P' | b'_' | b'^' | b'X') => {
                self.answered = 0;
                KeySequenceState::Answer
            }
            (KeySequenceState::Escape, ESCAPE) => KeySequenceState::Escape,
            (KeySequenceState::Escape, RETURN | LINE_FEED) => {
                // With Alt: a new line in the unsent text.
                self.more();
                KeySequenceState::Text
            }
            // With Alt: moves the cursor, or removes words. The number of letters is then unknown.
            (KeySequenceState::Escape, _) => KeySequenceState::Text,
            (KeySequenceState::Control, 0x40..=0x7e) => {
                self.sequence(key);
                KeySequenceState::Text
            }
            (KeySequenceState::Control, _) => {
                if self.parameters.len() < MAX_PARAMETERS {
                    self.parameters.push(key);
                }
                KeySequenceState::Control
            }
            (KeySequenceState::Single, _) => KeySequenceState::Text,
            (KeySequenceState::Answer, ESCAPE) => KeySequenceState::AnswerEscape,
            (KeySequenceState::Answer, 0x07) => KeySequenceState::Text,
            (KeySequenceState::Answer, key) if key == RETURN || self.answered >= MAX_ANSWER => {
                // The string was not an answer, and the text typed meanwhile is not known.
                self.mark_unknown();
                KeySequenceState::Text
            }
            (KeySequenceState::Answer, _) => {
                self.answered += 1;
                KeySequenceState::Answer
            }
            (KeySequenceState::AnswerEscape, b'\\') => KeySequenceState::Text,
            (KeySequenceState::AnswerEscape, _) => KeySequenceState::Answer,
        }
    }

    fn letter(&mut self, key: u8) {
        let escaped = std::mem::take(&mut self.escaped);
        match key {
            // Inside of a paste these are text.
            RETURN | LINE_FEED | TAB if self.pasting => self.more(),
            RETURN if escaped => self.more(),
            RETURN => self.send(),
            LINE_FEED | TAB => self.more(),
            CONTROL_C => self.letters = 0,
            DELETE | BACKSPACE => self.letters = self.letters.saturating_sub(1),
            b'\\' => {
                self.escaped = true;
                self.more();
            }
            // The later bytes of a letter are not letters of their own.
            0x80..=0xbf => {}
            0x20..=0xff => self.more(),
            0x00..=0x1f => {}
        }
    }

    fn sequence(&mut self, last: u8) {
        match (self.parameters.as_slice(), last) {
            (b"200", b'~') => self.pasting = true,
            (b"201", b'~') => self.pasting = false,
            // The newer ways of reporting keys.
            (parameters, b'u') => {
                let mut fields = parameters.split(|byte| *byte == b';');
                let (key, held) = (fields.next().unwrap_or_default(), fields.next().unwrap_or_default());
                // A key that is released does not count.
                if !held.ends_with(b":3") {
                    self.reported(first_number(key), first_number(held));
                }
            }
            (parameters, b'~') if parameters.starts_with(b"27;") => {
                let mut fields = parameters.split(|byte| *byte == b';').skip(1);
                let (held, key) = (fields.next().unwrap_or_default(), fields.next().unwrap_or_default());
                self.reported(first_number(key), first_number(held));
            }
            _ => {}
        }
    }

    /// Processes a key by its number; `held` is the modifiers, plus one.
    fn reported(&mut self, key: Option<u32>, held: Option<u32>) {
        const CONTROL: u32 = 4;
        const NO_LETTERS_FROM: u32 = 57344;
        let held = held.unwrap_or(1).saturating_sub(1);
        // Caps lock and num lock do not count.
        let held = held & 0x3f;
        match key {
            Some(13) if held == 0 => self.send(),
            Some(13) => self.more(),
            Some(27) => self.broke_off |= held == 0,
            Some(99) if held == CONTROL => {
                self.letters = 0;
                self.broke_off = true;
            }
            Some(8 | 127) => self.letters = self.letters.saturating_sub(1),
            Some(0x20..NO_LETTERS_FROM) if held & CONTROL == 0 => self.more(),
            Some(_) | None => {}
        }
    }

    fn send(&mut self) {
        if std::mem::take(&mut self.letters) > 0 {
            self.sent = self.sent.saturating_add(1);
        }
    }

    fn more(&mut self) {
        self.letters = (self.letters + 1).min(MOST_LETTERS);
    }
}

fn first_number(parameters: &[u8]) -> Option<u32> {
    let digits = parameters.split(|byte| !byte.is_ascii_digit()).next()?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(keys: &[&str]) -> bool {
        let mut unsent = UnsentText::default();
        for keys in keys {
            unsent.feed(keys.as_bytes());
        }
        unsent.waits()
    }

    #[test]
    fn typed_text_waits_until_it_is_sent_or_removed() {
        assert!(after(&["h", "i"]));
        assert!(!after(&["hi\r"]));
        assert!(!after(&["hi", "\x03"]));
        assert!(!after(&["hi", "\x7f", "\x7f"]));
        assert!(after(&["hi", "\x7f"]));
        assert!(after(&["hi\r", "more"]));
        // One letter of two bytes, and one key that takes it back.
        assert!(!after(&["é", "\x7f"]));
    }

    #[test]
    fn text_typed_behind_sent_text_still_waits_when_the_agent_has_taken_that() {
        let mut unsent = UnsentText::default();
        unsent.feed(b"one\rtwo\rdraft");
        unsent.taken();
        assert!(unsent.waits());
        unsent.taken();
        assert!(unsent.waits());
        // The agent took one more: that was sent by an unknown key.
        unsent.taken();
        assert!(!unsent.waits());
        unsent.feed(b"\r\rsecond draft");
        unsent.taken();
        assert!(!unsent.waits(), "an Enter in an empty box sends nothing");
    }

    #[test]
    fn a_key_with_alt_does_not_hide_text_typed_after_it() {
        for key in ["\x1bP", "\x1bX", "\x1b]", "\x1b_", "\x1b^"] {
            assert!(after(&[key, "hi"]), "{key:?}");
            assert!(!after(&[key, "hi\r"]), "{key:?}");
        }
        assert!(after(&["\x1bPhi\r"]), "no answer has an Enter in it");
        assert!(after(&["\x1bP", "a"]) && !after(&["\x1b]11;rgb:", "ffff\x07"]));
        assert!(after(&[&format!("\x1b]{}", "x".repeat(MAX_ANSWER + 1))]));
    }

    #[test]
    fn a_new_line_in_unsent_text_does_not_send_it() {
        assert!(after(&["hi\\\r"]));
        assert!(after(&["hi", "\x1b\r"]));
        assert!(after(&["hi\n"]));
        assert!(after(&["\x1b[200~one\rtwo\x1b[201~"]));
        assert!(!after(&["\x1b[200~one\rtwo\x1b[201~", "\r"]));
    }

    #[test]
    fn keys_that_type_nothing_are_not_taken_for_text() {
        for keys in
            ["\x1b[A", "\x1b[1;5C", "\x1bOB", "\x1b[I", "\x1b[O", "\x1b[<0;10;20M", "\x1b[?62;4c", "\x01"]
        {
            assert!(!after(&[keys]), "{keys:?}");
        }
        assert!(!after(&["\x1b]11;rgb:ffff/ffff/ffff\x1b\\"]));
        assert!(!after(&["\x1b]11;rgb:ffff/ffff/ffff\x07"]));
        assert!(!after(&["\x1bP>|term\x1b\\"]));
        // In two pieces.
        assert!(!after(&["\x1b[", "A"]));
        assert!(after(&["\x1b[97u"]));
        assert!(!after(&["\x1b[97u", "\x1b[13u"]));
    }

    #[test]
    fn an_escape_is_one_only_alone() {
        let mut unsent = UnsentText::default();
        assert!(unsent.feed(b"\x1b"));
        assert!(!unsent.feed(b"x") && unsent.waits());
        assert!(!unsent.feed(b"\x1b[A"));
        assert!(unsent.feed(b"\x03"));
    }

    #[test]
    fn keys_in_the_newer_encodings_are_recognised() {
        for keys in ["\x1b[27u", "\x1b[27;1u", "\x1b[27;1:1u", "\x1b[99;5u", "\x1b[27;5;99~", "\x1b[27;129u"]
        {
            assert!(UnsentText::default().feed(keys.as_bytes()), "{keys:?}");
        }
        for keys in ["\x1b[27;1:3u", "\x1b[99;5:3u", "\x1b[99u", "\x1b[97;5u", "\x1b[57399u", "\x1b[15~"] {
            assert!(!UnsentText::default().feed(keys.as_bytes()), "{keys:?}");
        }
        assert!(!after(&["hi", "\x1b[99;5u"]));
        assert!(!after(&["\x1b[97u", "\x1b[127u"]));
        assert!(!after(&["\x1b[97;5u", "\x1b[27u", "\x1b[57358u", "\x1b[97;1:3u"]));
        assert!(after(&["hi", "\x1b[13;2u"]));
        assert!(after(&["\x1b[27;2;65~"]));
    }

    #[test]
    fn after_a_doubt_only_a_send_or_a_persons_word_helps() {
        let mut unsent = UnsentText::default();
        unsent.mark_unknown();
        unsent.feed(b"\x7f\x7f\x7f");
        assert!(unsent.waits());
        unsent.feed(b"\r");
        assert!(!unsent.waits());
    }
}
