//! Parses the bytes of a terminal into keys, pastes and mouse events: for the chat and for the dashboard.
//!
//! Promise: the keys do not depend on how the bytes are split: an arrow key never becomes an Escape. A paste is one
//! input, however long; bytes over the limit are dropped, and `cut` says so. Unknown sequences do nothing.
//! Not here: the meaning of a key (see `composer` and `dashboard::model`), time (the caller decides when to give up).
//! Start with [`KeyParser::push`].

use berth_core::MAX_PROMPT_BYTES;

/// An input of the user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum InputEvent {
    Key(KeyPress),
    /// Pasted text; `cut` is true if it was longer than a turn can be and was shortened.
    Paste {
        text: String,
        cut: bool,
    },
    /// A press of the first mouse button; column and row count from zero.
    Click {
        column: u16,
        row: u16,
    },
    /// One notch of the mouse wheel.
    Wheel {
        column: u16,
        row: u16,
        up: bool,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum KeyPress {
    Char(char),
    /// A letter with Ctrl, in lower case.
    Ctrl(char),
    /// A character with Alt.
    Alt(char),
    Enter,
    /// Enter with Alt, Shift or Ctrl, or Ctrl-J.
    NewLine,
    Esc,
    Tab,
    /// Shift and Tab.
    BackTab,
    Backspace,
    Delete,
    Up,
    Down,
    Left,
    Right,
    /// Left with Ctrl, Alt or Shift, or Alt-B.
    WordLeft,
    /// Right with Ctrl, Alt or Shift, or Alt-F.
    WordRight,
    Home,
    End,
    PageUp,
    PageDown,
}

impl KeyPress {
    /// Alt and Backspace.
    pub(crate) const ALT_BACKSPACE: Self = Self::Alt('\u{7f}');
}

const ESC: u8 = 0x1b;
const PASTE_BEGINS: &[u8] = b"\x1b[200~";
const PASTE_ENDS: &[u8] = b"\x1b[201~";
/// A longer sequence is not that of a key.
const MAX_SEQUENCE_BYTES: usize = 64;

/// The parser, with the bytes that are not complete yet.
#[derive(Default, Debug)]
pub(crate) struct KeyParser {
    /// The beginning of a sequence or of a character.
    bytes: Vec<u8>,
    paste: Option<PasteBuffer>,
}

#[derive(Default, Debug)]
struct PasteBuffer {
    bytes: Vec<u8>,
    cut: bool,
}

/// The meaning of the next bytes.
enum ParsedInput {
    /// This input, from so many bytes; `None` for bytes without a meaning.
    Means(usize, Option<InputEvent>),
    /// A paste begins behind so many bytes.
    PasteBegins(usize),
    /// The sequence is not complete yet.
    Unfinished,
}

impl ParsedInput {
    fn key(length: usize, key: KeyPress) -> Self {
        Self::Means(length, Some(InputEvent::Key(key)))
    }

    fn nothing(length: usize) -> Self {
        Self::Means(length, None)
    }
}

impl KeyParser {
    /// Takes bytes, and gives the inputs that are complete.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Vec<InputEvent> {
        self.bytes.extend_from_slice(bytes);
        self.take(false)
    }

    /// True if bytes of an incomplete sequence are held: then call [`KeyParser::give_up`] after a moment.
    pub(crate) fn waits(&self) -> bool {
        !self.bytes.is_empty() && self.paste.is_none()
    }

    /// Call when no more bytes came: takes the held bytes as they are.
    pub(crate) fn give_up(&mut self) -> Vec<InputEvent> {
        self.take(true)
    }

    fn take(&mut self, is_all: bool) -> Vec<InputEvent> {
        let mut done = Vec::new();
        let mut at = 0;
        loop {
            if self.paste.is_some() {
                self.bytes.drain(..std::mem::take(&mut at));
                match self.paste_on() {
                    Some(input) => done.push(input),
                    None => return done,
                }
            }
            let rest = &self.bytes[at..];
            if rest.is_empty() {
                break;
            }
            match next(rest) {
                ParsedInput::Means(length, input) => {
                    at += length;
                    done.extend(input);
                }
                ParsedInput::PasteBegins(length) => {
                    at += length;
                    self.paste = Some(PasteBuffer::default());
                }
                ParsedInput::Unfinished if is_all || rest.len() > MAX_SEQUENCE_BYTES => {
                    if rest == [ESC] {
                        done.push(InputEvent::Key(KeyPress::Esc));
                    }
                    // Half a sequence whose rest never came has no meaning.
                    at = self.bytes.len();
                }
                ParsedInput::Unfinished => break,
            }
        }
        self.bytes.drain(..at);
        done
    }

    /// Collects a paste; gives it once its end has come.
    fn paste_on(&mut self) -> Option<InputEvent> {
        let paste = self.paste.as_mut()?;
        let end = self.bytes.windows(PASTE_ENDS.len()).position(|window| window == PASTE_ENDS);
        // The end marker may be cut in two.
        let until = end.unwrap_or(self.bytes.len().saturating_sub(PASTE_ENDS.len() - 1));
        // A text that is too long is refused when it is sent; to detect that, one byte over the limit is enough.
        let room = (MAX_PROMPT_BYTES + 1).saturating_sub(paste.bytes.len());
        paste.cut |= until > room;
        paste.bytes.extend_from_slice(&self.bytes[..until.min(room)]);
        self.bytes.drain(..end.map_or(until, |end| end + PASTE_ENDS.len()));
        end?;
        let PasteBuffer { bytes, cut } = self.paste.take()?;
        // Terminals send the key Enter for the end of a pasted line.
        let text = String::from_utf8_lossy(&bytes).replace("\r\n", "\n").replace('\r', "\n");
        Some(InputEvent::Paste { text, cut })
    }
}

fn next(bytes: &[u8]) -> ParsedInput {
    match bytes[0] {
        ESC => escape(bytes),
        b'\r' => ParsedInput::key(1, KeyPress::Enter),
        b'\n' => ParsedInput::key(1, KeyPress::NewLine),
        b'\t' => ParsedInput::key(1, KeyPress::Tab),
        0x7f | 0x08 => ParsedInput::key(1, KeyPress::Backspace),
        control @ 1..=26 => ParsedInput::key(1, KeyPress::Ctrl(char::from(control + b'a' - 1))),
        0x1c => ParsedInput::key(1, KeyPress::Ctrl('\\')),
        0..0x20 => ParsedInput::nothing(1),
        0x20.. => match character(bytes) {
            LeadingCharacter::Whole(length, c) => ParsedInput::key(length, KeyPress::Char(c)),
            LeadingCharacter::Control(length) => ParsedInput::nothing(length),
            LeadingCharacter::Unfinished => ParsedInput::Unfinished,
        },
    }
}

/// The first character of some bytes.
enum LeadingCharacter {
    /// The character and its length in bytes. Invalid UTF-8 becomes one replacement character.
    Whole(usize, char),
    /// A control character of so many bytes.
    Control(usize),
    Unfinished,
}

fn character(bytes: &[u8]) -> LeadingCharacter {
    let some = &bytes[..bytes.len().min(4)];
    let text = match str::from_utf8(some) {
        Ok(text) => text,
        Err(error) if error.valid_up_to() > 0 => {
            str::from_utf8(&some[..error.valid_up_to()]).unwrap_or_default()
        }
        Err(error) => {
            let odd = |length| LeadingCharacter::Whole(length, char::REPLACEMENT_CHARACTER);
            return error.error_len().map_or(LeadingCharacter::Unfinished, odd);
        }
    };
    match text.chars().next() {
        Some(c) if c.is_control() => LeadingCharacter::Control(c.len_utf8()),
        Some(c) => LeadingCharacter::Whole(c.len_utf8(), c),
        None => LeadingCharacter::Unfinished,
    }
}

fn escape(bytes: &[u8]) -> ParsedInput {
    match bytes.get(1) {
        None => ParsedInput::Unfinished,
        Some(b'[') => sequence(bytes),
        Some(b'O') => match bytes.get(2) {
            None => ParsedInput::Unfinished,
            Some(b'M') => ParsedInput::key(3, KeyPress::Enter),
            Some(last) => ParsedInput::Means(3, letter(*last, false).map(InputEvent::Key)),
        },
        // Two Escapes in a row: the first one was a key.
        Some(&ESC) => ParsedInput::key(1, KeyPress::Esc),
        Some(b'\r' | b'\n') => ParsedInput::key(2, KeyPress::NewLine),
        Some(0x7f | 0x08) => ParsedInput::key(2, KeyPress::ALT_BACKSPACE),
        Some(b'b') => ParsedInput::key(2, KeyPress::WordLeft),
        Some(b'f') => ParsedInput::key(2, KeyPress::WordRight),
        // A late answer of the terminal to a query of another program.
        Some(b'P' | b']' | b'_' | b'^' | b'X') => string(bytes),
        Some(_) => match character(&bytes[1..]) {
            LeadingCharacter::Whole(length, c) => ParsedInput::key(1 + length, KeyPress::Alt(c)),
            LeadingCharacter::Control(length) => ParsedInput::nothing(1 + length),
            LeadingCharacter::Unfinished => ParsedInput::Unfinished,
        },
    }
}

/// Sequences of `ESC` and a letter that end with a bell or `ESC \\`.
fn string(bytes: &[u8]) -> ParsedInput {
    match bytes.iter().enumerate().skip(2).find(|(_, byte)| matches!(**byte, 0x07 | ESC)) {
        Some((at, 0x07)) => ParsedInput::nothing(at + 1),
        Some((at, _)) if at + 1 == bytes.len() => ParsedInput::Unfinished,
        Some((at, _)) => ParsedInput::nothing(at + 2),
        None => ParsedInput::Unfinished,
    }
}

/// Sequences that begin with `ESC [`.
fn sequence(bytes: &[u8]) -> ParsedInput {
    // The function keys of the Linux console.
    if bytes.get(2) == Some(&b'[') {
        return if bytes.len() < 4 { ParsedInput::Unfinished } else { ParsedInput::nothing(4) };
    }
    let Some(end) = bytes.iter().skip(2).position(|byte| !(0x20..0x40).contains(byte)).map(|end| end + 2)
    else {
        return ParsedInput::Unfinished;
    };
    let last = bytes[end];
    if !(0x40..0x7f).contains(&last) {
        // Another sequence began before the end of this one.
        return ParsedInput::nothing(end);
    }
    if &bytes[..=end] == PASTE_BEGINS {
        return ParsedInput::PasteBegins(end + 1);
    }
    let body = str::from_utf8(&bytes[2..end]).unwrap_or_default();
    let meaning = match (body.strip_prefix('<'), last) {
        (Some(mouse), b'M' | b'm') => clicked(mouse, last == b'M'),
        _ => named(body, last).map(InputEvent::Key),
    };
    ParsedInput::Means(end + 1, meaning)
}

fn named(body: &str, last: u8) -> Option<KeyPress> {
    let mut numbers =
        body.split(';').map(|part| part.split(':').next().unwrap_or_default().parse::<u32>().unwrap_or(1));
    let [first, second, third] = [(); 3].map(|()| numbers.next().unwrap_or(1));
    match (last, first) {
        (b'~', 1 | 7) => Some(KeyPress::Home),
        (b'~', 3) => Some(KeyPress::Delete),
        (b'~', 4 | 8) => Some(KeyPress::End),
        (b'~', 5) => Some(KeyPress::PageUp),
        (b'~', 6) => Some(KeyPress::PageDown),
        (b'~', 27) => with_modifiers(third, second),
        (b'~', _) => None,
        (b'u', code) => with_modifiers(code, second),
        (last, _) => letter(last, second > 1),
    }
}

/// A key of a terminal that reports the modifiers.
fn with_modifiers(code: u32, held: u32) -> Option<KeyPress> {
    const ALT: u32 = 1 + 2;
    const CONTROL: u32 = 1 + 4;
    match (code, held) {
        (13, 1) => Some(KeyPress::Enter),
        (13, _) => Some(KeyPress::NewLine),
        (27, _) => Some(KeyPress::Esc),
        (127, ALT) => Some(KeyPress::ALT_BACKSPACE),
        (127, _) => Some(KeyPress::Backspace),
        (code, CONTROL) => char::from_u32(code).filter(|c| !c.is_control()).map(KeyPress::Ctrl),
        (code, ALT) => char::from_u32(code).filter(|c| !c.is_control()).map(KeyPress::Alt),
        _ => None,
    }
}

fn letter(last: u8, with_modifiers: bool) -> Option<KeyPress> {
    match last {
        b'A' => Some(KeyPress::Up),
        b'B' => Some(KeyPress::Down),
        b'C' if with_modifiers => Some(KeyPress::WordRight),
        b'D' if with_modifiers => Some(KeyPress::WordLeft),
        b'C' => Some(KeyPress::Right),
        b'D' => Some(KeyPress::Left),
        b'H' => Some(KeyPress::Home),
        b'F' => Some(KeyPress::End),
        b'Z' => Some(KeyPress::BackTab),
        _ => None,
    }
}

/// A mouse report in the SGR encoding: button, column, row.
fn clicked(body: &str, pressed: bool) -> Option<InputEvent> {
    let mut numbers = body.split(';').map(|number| number.parse::<u16>().ok());
    let (button, column, row) = (numbers.next()??, numbers.next()??, numbers.next()??);
    let (column, row) = (column.checked_sub(1)?, row.checked_sub(1)?);
    match button {
        0 if pressed => Some(InputEvent::Click { column, row }),
        64 => Some(InputEvent::Wheel { column, row, up: true }),
        65 => Some(InputEvent::Wheel { column, row, up: false }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(bytes: &[u8]) -> Vec<InputEvent> {
        let mut keys = KeyParser::default();
        let mut all = keys.push(bytes);
        all.extend(keys.give_up());
        all
    }

    #[test]
    fn keys_are_told_apart() {
        let one = |bytes: &str| match keys(bytes.as_bytes()).as_slice() {
            [InputEvent::Key(key)] => *key,
            other => panic!("{bytes:?} means {other:?}"),
        };
        assert_eq!(one("j"), KeyPress::Char('j'));
        assert_eq!(one("é"), KeyPress::Char('é'));
        assert_eq!(one("\u{1f642}"), KeyPress::Char('\u{1f642}'));
        assert_eq!(one("\x03"), KeyPress::Ctrl('c'));
        assert_eq!(one("\r"), KeyPress::Enter);
        assert_eq!(one("\x1b\r"), KeyPress::NewLine);
        assert_eq!(one("\x1b[13;3u"), KeyPress::NewLine);
        assert_eq!(one("\x1b"), KeyPress::Esc);
        assert_eq!(one("\x1b[A"), KeyPress::Up);
        assert_eq!(one("\x1bOB"), KeyPress::Down);
        assert_eq!(one("\x1b[6~"), KeyPress::PageDown);
        assert_eq!(one("\x1b[1;5H"), KeyPress::Home);
        assert_eq!(one("\x7f"), KeyPress::Backspace);
        assert_eq!(one("\x1b[Z"), KeyPress::BackTab);
        assert_eq!(one("\n"), KeyPress::NewLine);
        assert_eq!(one("\x1b[27;2;13~"), KeyPress::NewLine);
        assert_eq!(one("\x1b[1;5C"), KeyPress::WordRight);
        assert_eq!(one("\x1bb"), KeyPress::WordLeft);
        assert_eq!(one("\x1b\x7f"), KeyPress::ALT_BACKSPACE);
        assert_eq!(one("\x1c"), KeyPress::Ctrl('\\'));
        assert_eq!(one("\x1b[92;5u"), KeyPress::Ctrl('\\'));
        assert_eq!(one("\x1b[99;5u"), KeyPress::Ctrl('c'));
        assert_eq!(one("\x1bOM"), KeyPress::Enter);
        assert_eq!(one("\u{9b}x"), KeyPress::Char('x'), "a control character is not typed");
    }

    #[test]
    fn a_key_that_comes_byte_by_byte_is_still_one_key() {
        for whole in [
            "\x1b[1;5D",
            "\x1b]11;rgb:0/0/0\x07k",
            "\x1bP>|x\x1b\\k",
            "\x1b[[Ak",
            "\x1b[15~k",
            "\x1b[Ik",
            "\x1b[A",
            "\x1b[5~",
            "é",
            "\u{1f642}",
            "\x1b[<0;3;4M",
            "\x1bOA",
        ] {
            let mut split = KeyParser::default();
            let pieces: Vec<InputEvent> =
                whole.as_bytes().iter().flat_map(|byte| split.push(std::slice::from_ref(byte))).collect();
            assert_eq!(pieces, keys(whole.as_bytes()), "{whole:?}");
            assert!(!split.waits());
        }
    }

    #[test]
    fn an_escape_alone_waits_for_what_may_follow() {
        let mut keys = KeyParser::default();
        assert_eq!(keys.push(b"\x1b"), []);
        assert!(keys.waits());
        assert_eq!(keys.give_up(), [InputEvent::Key(KeyPress::Esc)]);
        assert!(!keys.waits());
    }

    #[test]
    fn a_paste_is_one_input_wherever_it_is_cut_and_its_line_ends_are_not_keys() {
        let bytes = b"a\x1b[200~one\r\ntwo\rthree \x1b[31m\x1b[201~b";
        for cut in 0..bytes.len() {
            let mut keys = KeyParser::default();
            let mut all = keys.push(&bytes[..cut]);
            all.extend(keys.push(&bytes[cut..]));
            let text = "one\ntwo\nthree \x1b[31m".to_owned();
            let expected = [
                InputEvent::Key(KeyPress::Char('a')),
                InputEvent::Paste { text, cut: false },
                InputEvent::Key(KeyPress::Char('b')),
            ];
            assert_eq!(all, expected, "cut at {cut}");
        }
    }

    #[test]
    fn a_paste_over_the_limit_is_cut_and_says_so_and_memory_stays_bounded() {
        let mut keys = KeyParser::default();
        keys.push(PASTE_BEGINS);
        for _ in 0..40 {
            assert_eq!(keys.push(&[b'x'; 65536]), []);
            assert!(keys.bytes.len() < 65536 + 10);
        }
        match keys.push(PASTE_ENDS).as_slice() {
            [InputEvent::Paste { text, cut: true }] => assert_eq!(text.len(), MAX_PROMPT_BYTES + 1),
            other => panic!("{} things", other.len()),
        }
    }

    #[test]
    fn answers_of_a_terminal_and_unknown_sequences_type_nothing() {
        for odd in ["\x1b[?1;2c", "\x1b]11;rgb:0/0/0\x07", "\x1bP>|x\x1b\\", "\x1b[[A", "\x1b[15~", "\x1b[I"]
        {
            let typed = format!("{odd}k");
            assert_eq!(keys(typed.as_bytes()), [InputEvent::Key(KeyPress::Char('k'))], "{odd:?}");
        }
    }

    #[test]
    fn invalid_utf8_becomes_one_replacement_character() {
        let typed = |c| InputEvent::Key(KeyPress::Char(c));
        let odd = typed(char::REPLACEMENT_CHARACTER);
        assert_eq!(keys(b"\xffa"), [odd.clone(), typed('a')]);
        assert_eq!(keys(b"\xe2\x28a"), [odd, typed('('), typed('a')]);
    }

    #[test]
    fn mouse_events_are_parsed_and_unknown_ones_are_ignored() {
        assert_eq!(keys(b"\x1b[<0;3;4M"), [InputEvent::Click { column: 2, row: 3 }]);
        assert_eq!(keys(b"\x1b[<0;3;4m"), []);
        assert_eq!(keys(b"\x1b[<65;1;1M"), [InputEvent::Wheel { column: 0, row: 0, up: false }]);
        for odd in [&b"\x1b[<0;0;0M"[..], b"\x1b[<;1M", b"\x1b[99;99;99~", b"\x1b[?1;2c", b"\0\x1d"] {
            assert_eq!(keys(odd), [], "{odd:?}");
        }
    }
}
