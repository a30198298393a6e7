//! What a person does, out of the bytes a terminal sends.
//!
//! Promise: a key that arrives in two pieces, as over a slow connection, is one key: an arrow never
//! becomes an Escape. A paste is one thing, however long; what is over the limit is dropped and said.
//! Unknown sequences are nothing.
//! Not here: what keys mean (see `model`), time (the caller says when enough of it has passed).
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
    AltEnter,
    Enter,
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
    Home,
    End,
    PageUp,
    PageDown,
}

const ESC: u8 = 0x1b;
const PASTE_BEGINS: &[u8] = b"\x1b[200~";
const PASTE_ENDS: &[u8] = b"\x1b[201~";
/// A sequence that is longer is none that we know.
const MAX_SEQUENCE_BYTES: usize = 64;

/// Bytes in, what they mean out.
#[derive(Default, Debug)]
pub(crate) struct Keys {
    bytes: Vec<u8>,
    paste: Option<Paste>,
}

#[derive(Default, Debug)]
struct Paste {
    bytes: Vec<u8>,
    cut: bool,
}

/// What the front of the buffer is.
enum Front {
    /// So many bytes mean this.
    Means(usize, Option<Input>),
    /// A paste begins behind so many bytes.
    PasteBegins(usize),
    /// Not all of it has come.
    Unfinished,
}

impl Keys {
    /// Takes bytes in and gives out what is whole.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Vec<Input> {
        self.bytes.extend_from_slice(bytes);
        self.take(false)
    }

    /// Whether something is there that is not whole: then [`Keys::give_up`] wants to be called in a moment.
    pub(crate) fn waits(&self) -> bool {
        !self.bytes.is_empty() && self.paste.is_none()
    }

    /// Nothing more came: what is there is meant as it is.
    pub(crate) fn give_up(&mut self) -> Vec<Input> {
        self.take(true)
    }

    fn take(&mut self, is_all: bool) -> Vec<Input> {
        let mut done = Vec::new();
        loop {
            if self.paste.is_some() {
                match self.paste_on() {
                    Some(input) => done.push(input),
                    None => return done,
                }
            }
            if self.bytes.is_empty() {
                return done;
            }
            match front(&self.bytes) {
                Front::Means(length, input) => {
                    self.bytes.drain(..length);
                    done.extend(input);
                }
                Front::PasteBegins(length) => {
                    self.bytes.drain(..length);
                    self.paste = Some(Paste::default());
                }
                Front::Unfinished if is_all || self.bytes.len() > MAX_SEQUENCE_BYTES => {
                    let first = self.bytes[0];
                    if first == ESC && self.bytes.len() == 1 {
                        done.push(Input::Key(Key::Esc));
                    }
                    // Half a sequence of which the rest never came is nothing.
                    self.bytes.clear();
                }
                Front::Unfinished => return done,
            }
        }
    }

    /// Collects what is pasted; the whole of it once its end has come.
    fn paste_on(&mut self) -> Option<Input> {
        let paste = self.paste.as_mut()?;
        let end = self.bytes.windows(PASTE_ENDS.len()).position(|window| window == PASTE_ENDS);
        // The end may be cut in two.
        let until = end.unwrap_or(self.bytes.len().saturating_sub(PASTE_ENDS.len() - 1));
        let room = (MAX_PROMPT_BYTES + 1).saturating_sub(paste.bytes.len());
        paste.cut |= until > room;
        paste.bytes.extend_from_slice(&self.bytes[..until.min(room)]);
        self.bytes.drain(..end.map_or(until, |end| end + PASTE_ENDS.len()));
        end?;
        let Paste { bytes, cut } = self.paste.take()?;
        let text = String::from_utf8_lossy(&bytes).replace("\r\n", "\n").replace('\r', "\n");
        Some(Input::Paste { text, cut })
    }
}

fn front(bytes: &[u8]) -> Front {
    let key = |length: usize, key: Key| Front::Means(length, Some(Input::Key(key)));
    match bytes {
        [ESC] => Front::Unfinished,
        [ESC, b'[', ..] => sequence(bytes),
        [ESC, b'O'] => Front::Unfinished,
        [ESC, b'O', last, ..] => Front::Means(3, letter(*last).map(Input::Key)),
        // Two in a row: the first one was the key.
        [ESC, ESC, ..] => key(1, Key::Esc),
        [ESC, b'\r' | b'\n', ..] => key(2, Key::AltEnter),
        [ESC, rest @ ..] => match character(rest) {
            Ok((length, c)) => key(1 + length, Key::Alt(c)),
            Err(true) => Front::Unfinished,
            Err(false) => Front::Means(2, None),
        },
        [b'\r', ..] => key(1, Key::Enter),
        [b'\t', ..] => key(1, Key::Tab),
        [0x7f | 0x08, ..] => key(1, Key::Backspace),
        [0, ..] => Front::Means(1, None),
        [control @ 1..=26, ..] => key(1, Key::Ctrl(char::from(control + b'a' - 1))),
        [0..=0x1f, ..] => Front::Means(1, None),
        _ => match character(bytes) {
            Ok((length, c)) => key(length, Key::Char(c)),
            Err(true) => Front::Unfinished,
            Err(false) => Front::Means(1, None),
        },
    }
}

/// The first character and its length; `Err(true)` if the rest of it is missing.
fn character(bytes: &[u8]) -> Result<(usize, char), bool> {
    let some = &bytes[..bytes.len().min(4)];
    let valid = match std::str::from_utf8(some) {
        Ok(text) => text,
        Err(error) if error.valid_up_to() > 0 => {
            std::str::from_utf8(&some[..error.valid_up_to()]).unwrap_or_default()
        }
        Err(error) => return Err(error.error_len().is_none()),
    };
    valid.chars().next().map(|c| (c.len_utf8(), c)).ok_or(true)
}

/// What begins with `ESC [`.
fn sequence(bytes: &[u8]) -> Front {
    let Some(end) = bytes[2..].iter().position(|byte| (0x40..=0x7e).contains(byte)).map(|at| at + 2) else {
        return Front::Unfinished;
    };
    let whole = &bytes[..=end];
    if whole == PASTE_BEGINS {
        return Front::PasteBegins(whole.len());
    }
    let body = std::str::from_utf8(&whole[2..end]).unwrap_or_default();
    let meaning = match (body.strip_prefix('<'), whole[end]) {
        (Some(mouse), last @ (b'M' | b'm')) => clicked(mouse, last == b'M'),
        (_, last) => named(body, last).map(Input::Key),
    };
    Front::Means(whole.len(), meaning)
}

fn named(body: &str, last: u8) -> Option<Key> {
    let mut numbers = body.split(';').map(|number| number.parse::<u32>().unwrap_or(1));
    let (first, modifiers) = (numbers.next().unwrap_or(1), numbers.next().unwrap_or(1).saturating_sub(1));
    match last {
        b'~' => match first {
            1 | 7 => Some(Key::Home),
            3 => Some(Key::Delete),
            4 | 8 => Some(Key::End),
            5 => Some(Key::PageUp),
            6 => Some(Key::PageDown),
            _ => None,
        },
        b'u' => match (first, modifiers & 2 != 0) {
            (13, true) => Some(Key::AltEnter),
            (13, false) => Some(Key::Enter),
            (27, _) => Some(Key::Esc),
            _ => None,
        },
        letter_byte => letter(letter_byte),
    }
}

fn letter(last: u8) -> Option<Key> {
    match last {
        b'A' => Some(Key::Up),
        b'B' => Some(Key::Down),
        b'C' => Some(Key::Right),
        b'D' => Some(Key::Left),
        b'H' => Some(Key::Home),
        b'F' => Some(Key::End),
        b'Z' => Some(Key::BackTab),
        b'M' => Some(Key::Enter),
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
        assert_eq!(one("\x1b\r"), Key::AltEnter);
        assert_eq!(one("\x1b[13;3u"), Key::AltEnter);
        assert_eq!(one("\x1b"), Key::Esc);
        assert_eq!(one("\x1b[A"), Key::Up);
        assert_eq!(one("\x1bOB"), Key::Down);
        assert_eq!(one("\x1b[6~"), Key::PageDown);
        assert_eq!(one("\x1b[1;5H"), Key::Home);
        assert_eq!(one("\x7f"), Key::Backspace);
        assert_eq!(one("\x1b[Z"), Key::BackTab);
    }

    #[test]
    fn a_key_that_comes_byte_by_byte_is_still_one_key() {
        for whole in ["\x1b[A", "\x1b[5~", "é", "\u{1f642}", "\x1b[<0;3;4M", "\x1bOA"] {
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
    fn the_mouse_is_understood_and_what_is_unknown_is_nothing() {
        assert_eq!(keys(b"\x1b[<0;3;4M"), [Input::Click { column: 2, row: 3 }]);
        assert_eq!(keys(b"\x1b[<0;3;4m"), []);
        assert_eq!(keys(b"\x1b[<65;1;1M"), [Input::Wheel { column: 0, row: 0, up: false }]);
        for odd in [&b"\x1b[<0;0;0M"[..], b"\x1b[<;1M", b"\x1b[99;99;99~", b"\x1b[?1;2c", b"\xff", b"\0\x1c"]
        {
            assert_eq!(keys(odd), [], "{odd:?}");
        }
    }
}
