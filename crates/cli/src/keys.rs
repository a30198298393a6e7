//! Bytes of a terminal to keys, pastes and the mouse: for the chat and for the dashboard.
//!
//! Promise: however the bytes are split, the keys are the same: an arrow never becomes an Escape. A paste is one thing,
//! however long; what is over the limit is dropped, and `cut` says so. What no key sends does nothing.
//! Not here: what a key does (see `editor` and `dashboard::model`), time (the caller says when enough of it has passed).
//! Start with [`Keys::push`].

use berth_core::MAX_PROMPT_BYTES;

/// Something a person did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Input {
    Key(Key),
    /// Text that was pasted; `cut` if it was more than can be sent.
    Paste {
        text: String,
        cut: bool,
    },
    /// A press of the first button, from zero.
    Click {
        column: u16,
        row: u16,
    },
    /// One notch of the wheel.
    Wheel {
        column: u16,
        row: u16,
        up: bool,
    },
}

/// A key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Key {
    Char(char),
    /// With Ctrl, in lower case.
    Ctrl(char),
    /// With Alt.
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

impl Key {
    /// Alt and Backspace.
    pub(crate) const ALT_BACKSPACE: Self = Self::Alt('\u{7f}');
}

const ESC: u8 = 0x1b;
const PASTE_BEGINS: &[u8] = b"\x1b[200~";
const PASTE_ENDS: &[u8] = b"\x1b[201~";
/// A sequence that is longer is not one of a key.
const MAX_SEQUENCE_BYTES: usize = 64;

/// Takes bytes as they come.
#[derive(Default, Debug)]
pub(crate) struct Keys {
    /// The beginning of a sequence or of a character.
    bytes: Vec<u8>,
    paste: Option<Paste>,
}

#[derive(Default, Debug)]
struct Paste {
    bytes: Vec<u8>,
    cut: bool,
}

/// What the next bytes are.
enum Next {
    /// So many bytes mean this.
    Means(usize, Option<Input>),
    /// A paste begins behind so many bytes.
    PasteBegins(usize),
    /// Not all of it has come.
    Unfinished,
}

impl Next {
    fn key(length: usize, key: Key) -> Self {
        Self::Means(length, Some(Input::Key(key)))
    }

    fn nothing(length: usize) -> Self {
        Self::Means(length, None)
    }
}

impl Keys {
    /// Takes bytes in and gives out what is whole.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Vec<Input> {
        self.bytes.extend_from_slice(bytes);
        self.take(false)
    }

    /// Whether something is there that is not whole: then [`Keys::give_up`] is to be called in a moment.
    pub(crate) fn waits(&self) -> bool {
        !self.bytes.is_empty() && self.paste.is_none()
    }

    /// Nothing more came: what is there is meant as it is.
    pub(crate) fn give_up(&mut self) -> Vec<Input> {
        self.take(true)
    }

    fn take(&mut self, is_all: bool) -> Vec<Input> {
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
                Next::Means(length, input) => {
                    at += length;
                    done.extend(input);
                }
                Next::PasteBegins(length) => {
                    at += length;
                    self.paste = Some(Paste::default());
                }
                Next::Unfinished if is_all || rest.len() > MAX_SEQUENCE_BYTES => {
                    if rest == [ESC] {
                        done.push(Input::Key(Key::Esc));
                    }
                    // Half a sequence of which the rest never came is nothing.
                    at = self.bytes.len();
                }
                Next::Unfinished => break,
            }
        }
        self.bytes.drain(..at);
        done
    }

    /// Collects what is pasted; the whole of it once its end has come.
    fn paste_on(&mut self) -> Option<Input> {
        let paste = self.paste.as_mut()?;
        let end = self.bytes.windows(PASTE_ENDS.len()).position(|window| window == PASTE_ENDS);
        // The end may be cut in two.
        let until = end.unwrap_or(self.bytes.len().saturating_sub(PASTE_ENDS.len() - 1));
        // What is too long is refused when it is sent; one byte more than allowed is enough for that.
        let room = (MAX_PROMPT_BYTES + 1).saturating_sub(paste.bytes.len());
        paste.cut |= until > room;
        paste.bytes.extend_from_slice(&self.bytes[..until.min(room)]);
        self.bytes.drain(..end.map_or(until, |end| end + PASTE_ENDS.len()));
        end?;
        let Paste { bytes, cut } = self.paste.take()?;
        // Terminals send the key Enter for the end of a pasted line.
        let text = String::from_utf8_lossy(&bytes).replace("\r\n", "\n").replace('\r', "\n");
        Some(Input::Paste { text, cut })
    }
}

fn next(bytes: &[u8]) -> Next {
    match bytes[0] {
        ESC => escape(bytes),
        b'\r' => Next::key(1, Key::Enter),
        b'\n' => Next::key(1, Key::NewLine),
        b'\t' => Next::key(1, Key::Tab),
        0x7f | 0x08 => Next::key(1, Key::Backspace),
        control @ 1..=26 => Next::key(1, Key::Ctrl(char::from(control + b'a' - 1))),
        0x1c => Next::key(1, Key::Ctrl('\\')),
        0..0x20 => Next::nothing(1),
        0x20.. => match character(bytes) {
            Character::Whole(length, c) => Next::key(length, Key::Char(c)),
            Character::Control(length) => Next::nothing(length),
            Character::Unfinished => Next::Unfinished,
        },
    }
}

/// The first character of some bytes.
enum Character {
    /// It, and how many bytes it has. What is not text is one odd character.
    Whole(usize, char),
    /// A control character of so many bytes.
    Control(usize),
    Unfinished,
}

fn character(bytes: &[u8]) -> Character {
    let some = &bytes[..bytes.len().min(4)];
    let text = match str::from_utf8(some) {
        Ok(text) => text,
        Err(error) if error.valid_up_to() > 0 => {
            str::from_utf8(&some[..error.valid_up_to()]).unwrap_or_default()
        }
        Err(error) => {
            let odd = |length| Character::Whole(length, char::REPLACEMENT_CHARACTER);
            return error.error_len().map_or(Character::Unfinished, odd);
        }
    };
    match text.chars().next() {
        Some(c) if c.is_control() => Character::Control(c.len_utf8()),
        Some(c) => Character::Whole(c.len_utf8(), c),
        None => Character::Unfinished,
    }
}

fn escape(bytes: &[u8]) -> Next {
    match bytes.get(1) {
        None => Next::Unfinished,
        Some(b'[') => sequence(bytes),
        Some(b'O') => match bytes.get(2) {
            None => Next::Unfinished,
            Some(b'M') => Next::key(3, Key::Enter),
            Some(last) => Next::Means(3, letter(*last, false).map(Input::Key)),
        },
        // Two in a row: the first one was the key.
        Some(&ESC) => Next::key(1, Key::Esc),
        Some(b'\r' | b'\n') => Next::key(2, Key::NewLine),
        Some(0x7f | 0x08) => Next::key(2, Key::ALT_BACKSPACE),
        Some(b'b') => Next::key(2, Key::WordLeft),
        Some(b'f') => Next::key(2, Key::WordRight),
        // The answer of a terminal to a question that another program asked before.
        Some(b'P' | b']' | b'_' | b'^' | b'X') => string(bytes),
        Some(_) => match character(&bytes[1..]) {
            Character::Whole(length, c) => Next::key(1 + length, Key::Alt(c)),
            Character::Control(length) => Next::nothing(1 + length),
            Character::Unfinished => Next::Unfinished,
        },
    }
}

/// What begins with `ESC` and a letter, and ends with a bell or `ESC \\`.
fn string(bytes: &[u8]) -> Next {
    match bytes.iter().enumerate().skip(2).find(|(_, byte)| matches!(**byte, 0x07 | ESC)) {
        Some((at, 0x07)) => Next::nothing(at + 1),
        Some((at, _)) if at + 1 == bytes.len() => Next::Unfinished,
        Some((at, _)) => Next::nothing(at + 2),
        None => Next::Unfinished,
    }
}

/// What begins with `ESC [`.
fn sequence(bytes: &[u8]) -> Next {
    // The function keys of the Linux console.
    if bytes.get(2) == Some(&b'[') {
        return if bytes.len() < 4 { Next::Unfinished } else { Next::nothing(4) };
    }
    let Some(end) = bytes.iter().skip(2).position(|byte| !(0x20..0x40).contains(byte)).map(|end| end + 2)
    else {
        return Next::Unfinished;
    };
    let last = bytes[end];
    if !(0x40..0x7f).contains(&last) {
        // Another sequence began before the end of this one.
        return Next::nothing(end);
    }
    if &bytes[..=end] == PASTE_BEGINS {
        return Next::PasteBegins(end + 1);
    }
    let body = str::from_utf8(&bytes[2..end]).unwrap_or_default();
    let meaning = match (body.strip_prefix('<'), last) {
        (Some(mouse), b'M' | b'm') => clicked(mouse, last == b'M'),
        _ => named(body, last).map(Input::Key),
    };
    Next::Means(end + 1, meaning)
}

fn named(body: &str, last: u8) -> Option<Key> {
    let mut numbers =
        body.split(';').map(|part| part.split(':').next().unwrap_or_default().parse::<u32>().unwrap_or(1));
    let [first, second, third] = [(); 3].map(|()| numbers.next().unwrap_or(1));
    match (last, first) {
        (b'~', 1 | 7) => Some(Key::Home),
        (b'~', 3) => Some(Key::Delete),
        (b'~', 4 | 8) => Some(Key::End),
        (b'~', 5) => Some(Key::PageUp),
        (b'~', 6) => Some(Key::PageDown),
        (b'~', 27) => with_modifiers(third, second),
        (b'~', _) => None,
        (b'u', code) => with_modifiers(code, second),
        (last, _) => letter(last, second > 1),
    }
}

/// A key as terminals send it that tell what was held down with it.
fn with_modifiers(code: u32, held: u32) -> Option<Key> {
    const ALT: u32 = 1 + 2;
    const CONTROL: u32 = 1 + 4;
    match (code, held) {
        (13, 1) => Some(Key::Enter),
        (13, _) => Some(Key::NewLine),
        (27, _) => Some(Key::Esc),
        (127, ALT) => Some(Key::ALT_BACKSPACE),
        (127, _) => Some(Key::Backspace),
        (code, CONTROL) => char::from_u32(code).filter(|c| !c.is_control()).map(Key::Ctrl),
        (code, ALT) => char::from_u32(code).filter(|c| !c.is_control()).map(Key::Alt),
        _ => None,
    }
}

fn letter(last: u8, with_modifiers: bool) -> Option<Key> {
    match last {
        b'A' => Some(Key::Up),
        b'B' => Some(Key::Down),
        b'C' if with_modifiers => Some(Key::WordRight),
        b'D' if with_modifiers => Some(Key::WordLeft),
        b'C' => Some(Key::Right),
        b'D' => Some(Key::Left),
        b'H' => Some(Key::Home),
        b'F' => Some(Key::End),
        b'Z' => Some(Key::BackTab),
        _ => None,
    }
}

/// A mouse report in the SGR encoding: button, column, row.
fn clicked(body: &str, pressed: bool) -> Option<Input> {
    let mut numbers = body.split(';').map(|number| number.parse::<u16>().ok());
    let (button, column, row) = (numbers.next()??, numbers.next()??, numbers.next()??);
    let (column, row) = (column.checked_sub(1)?, row.checked_sub(1)?);
    match button {
        0 if pressed => Some(Input::Click { column, row }),
        64 => Some(Input::Wheel { column, row, up: true }),
        65 => Some(Input::Wheel { column, row, up: false }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(bytes: &[u8]) -> Vec<Input> {
        let mut keys = Keys::default();
        let mut all = keys.push(bytes);
        all.extend(keys.give_up());
        all
    }

    #[test]
    fn keys_are_told_apart() {
        let one = |bytes: &str| match keys(bytes.as_bytes()).as_slice() {
            [Input::Key(key)] => *key,
            other => panic!("{bytes:?} means {other:?}"),
        };
        assert_eq!(one("j"), Key::Char('j'));
        assert_eq!(one("é"), Key::Char('é'));
        assert_eq!(one("\u{1f642}"), Key::Char('\u{1f642}'));
        assert_eq!(one("\x03"), Key::Ctrl('c'));
        assert_eq!(one("\r"), Key::Enter);
        assert_eq!(one("\x1b\r"), Key::NewLine);
        assert_eq!(one("\x1b[13;3u"), Key::NewLine);
        assert_eq!(one("\x1b"), Key::Esc);
        assert_eq!(one("\x1b[A"), Key::Up);
        assert_eq!(one("\x1bOB"), Key::Down);
        assert_eq!(one("\x1b[6~"), Key::PageDown);
        assert_eq!(one("\x1b[1;5H"), Key::Home);
        assert_eq!(one("\x7f"), Key::Backspace);
        assert_eq!(one("\x1b[Z"), Key::BackTab);
        assert_eq!(one("\n"), Key::NewLine);
        assert_eq!(one("\x1b[27;2;13~"), Key::NewLine);
        assert_eq!(one("\x1b[1;5C"), Key::WordRight);
        assert_eq!(one("\x1bb"), Key::WordLeft);
        assert_eq!(one("\x1b\x7f"), Key::ALT_BACKSPACE);
        assert_eq!(one("\x1c"), Key::Ctrl('\\'));
        assert_eq!(one("\x1b[92;5u"), Key::Ctrl('\\'));
        assert_eq!(one("\x1b[99;5u"), Key::Ctrl('c'));
        assert_eq!(one("\x1bOM"), Key::Enter);
        assert_eq!(one("\u{9b}x"), Key::Char('x'), "a control character is not typed");
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
            let mut split = Keys::default();
            let pieces: Vec<Input> =
                whole.as_bytes().iter().flat_map(|byte| split.push(std::slice::from_ref(byte))).collect();
            assert_eq!(pieces, keys(whole.as_bytes()), "{whole:?}");
            assert!(!split.waits());
        }
    }

    #[test]
    fn an_escape_alone_waits_for_what_may_follow() {
        let mut keys = Keys::default();
        assert_eq!(keys.push(b"\x1b"), []);
        assert!(keys.waits());
        assert_eq!(keys.give_up(), [Input::Key(Key::Esc)]);
        assert!(!keys.waits());
    }

    #[test]
    fn a_paste_is_one_thing_wherever_it_is_cut_and_its_line_ends_are_no_keys() {
        let bytes = b"a\x1b[200~one\r\ntwo\rthree \x1b[31m\x1b[201~b";
        for cut in 0..bytes.len() {
            let mut keys = Keys::default();
            let mut all = keys.push(&bytes[..cut]);
            all.extend(keys.push(&bytes[cut..]));
            let text = "one\ntwo\nthree \x1b[31m".to_owned();
            let expected =
                [Input::Key(Key::Char('a')), Input::Paste { text, cut: false }, Input::Key(Key::Char('b'))];
            assert_eq!(all, expected, "cut at {cut}");
        }
    }

    #[test]
    fn a_paste_over_the_limit_is_cut_and_says_so_and_memory_stays_bounded() {
        let mut keys = Keys::default();
        keys.push(PASTE_BEGINS);
        for _ in 0..40 {
            assert_eq!(keys.push(&[b'x'; 65536]), []);
            assert!(keys.bytes.len() < 65536 + 10);
        }
        match keys.push(PASTE_ENDS).as_slice() {
            [Input::Paste { text, cut: true }] => assert_eq!(text.len(), MAX_PROMPT_BYTES + 1),
            other => panic!("{} things", other.len()),
        }
    }

    #[test]
    fn what_a_terminal_answers_and_unknown_sequences_are_not_typed() {
        for odd in ["\x1b[?1;2c", "\x1b]11;rgb:0/0/0\x07", "\x1bP>|x\x1b\\", "\x1b[[A", "\x1b[15~", "\x1b[I"]
        {
            let typed = format!("{odd}k");
            assert_eq!(keys(typed.as_bytes()), [Input::Key(Key::Char('k'))], "{odd:?}");
        }
    }

    #[test]
    fn bytes_that_are_not_text_are_one_odd_character() {
        let typed = |c| Input::Key(Key::Char(c));
        let odd = typed(char::REPLACEMENT_CHARACTER);
        assert_eq!(keys(b"\xffa"), [odd.clone(), typed('a')]);
        assert_eq!(keys(b"\xe2\x28a"), [odd, typed('('), typed('a')]);
    }

    #[test]
    fn the_mouse_is_understood_and_what_is_unknown_is_nothing() {
        assert_eq!(keys(b"\x1b[<0;3;4M"), [Input::Click { column: 2, row: 3 }]);
        assert_eq!(keys(b"\x1b[<0;3;4m"), []);
        assert_eq!(keys(b"\x1b[<65;1;1M"), [Input::Wheel { column: 0, row: 0, up: false }]);
        for odd in [&b"\x1b[<0;0;0M"[..], b"\x1b[<;1M", b"\x1b[99;99;99~", b"\x1b[?1;2c", b"\0\x1d"] {
            assert_eq!(keys(odd), [], "{odd:?}");
        }
    }
}
