//! Bytes of a terminal to keys.
//!
//! Promise: however the bytes are split, the keys are the same; what is pasted is one key, whatever is in it; what
//! no key sends does nothing.
//! Not here: what a key does (see `editor`).
//! Start with [`Keys::push`].

use berth_core::MAX_PROMPT_BYTES;

const PASTE_ENDS: &[u8] = b"\x1b[201~";
/// A sequence longer than this is none of a key.
const MAX_SEQUENCE_BYTES: usize = 64;

/// What a person pressed, or pasted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Key {
    Char(char),
    Paste(String),
    Enter,
    NewLine,
    Backspace,
    Delete,
    Left,
    Right,
    Up,
    Down,
    WordLeft,
    WordRight,
    Home,
    End,
    CutBefore,
    CutAfter,
    CutWord,
    Redraw,
    /// Ctrl-C.
    Interrupt,
    /// Ctrl-D.
    EndOfInput,
    /// Ctrl-\.
    Leave,
    /// Ctrl-Z.
    Suspend,
}

/// Takes bytes as they come.
#[derive(Debug, Default)]
pub(super) struct Keys {
    /// The beginning of a sequence or of a character.
    held: Vec<u8>,
    /// What was pasted so far.
    pasted: Option<Vec<u8>>,
}

/// What the next bytes are.
enum Next {
    Key(usize, Key),
    Nothing(usize),
    PasteBegins(usize),
    NotYet,
}

impl Keys {
    /// The keys these bytes complete.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Vec<Key> {
        self.held.extend_from_slice(bytes);
        let mut keys = Vec::new();
        let mut at = 0;
        while at < self.held.len() {
            if self.pasted.is_some() {
                match self.paste(at) {
                    Some((end, key)) => {
                        at = end;
                        keys.push(key);
                        continue;
                    }
                    None => return keys,
                }
            }
            match next(&self.held[at..]) {
                Next::Key(length, key) => {
                    keys.push(key);
                    at += length;
                }
                Next::Nothing(length) => at += length,
                Next::PasteBegins(length) => {
                    at += length;
                    self.pasted = Some(Vec::new());
                }
                Next::NotYet => break,
            }
        }
        self.held.drain(..at);
        keys
    }

    /// Whether a sequence has begun that may never be completed: somebody pressed Escape.
    pub(super) fn is_waiting(&self) -> bool {
        !self.held.is_empty() && self.pasted.is_none()
    }

    /// Nothing followed.
    pub(super) fn give_up(&mut self) {
        if self.is_waiting() {
            self.held.clear();
        }
    }

    /// Takes what is pasted, from `at` on. If that ends the paste: where, and what it was. Otherwise everything
    /// is taken but what may be the beginning of its end.
    fn paste(&mut self, at: usize) -> Option<(usize, Key)> {
        let rest = &self.held[at..];
        let end = rest.windows(PASTE_ENDS.len()).position(|window| window == PASTE_ENDS);
        let sure = rest.len().saturating_sub(PASTE_ENDS.len() - 1);
        let taken = &rest[..end.unwrap_or(sure)];
        let pasted = self.pasted.get_or_insert_default();
        // What is too long is refused when it is sent; one byte more than allowed is enough for that.
        let room = (MAX_PROMPT_BYTES + 1).saturating_sub(pasted.len());
        pasted.extend_from_slice(&taken[..taken.len().min(room)]);
        match end {
            Some(end) => {
                let bytes = self.pasted.take().unwrap_or_default();
                // Terminals send the key Enter for the end of a pasted line.
                let text = String::from_utf8_lossy(&bytes).replace("\r\n", "\n").replace('\r', "\n");
                Some((at + end + PASTE_ENDS.len(), Key::Paste(text)))
            }
            None => {
                self.held.drain(..at + sure);
                None
            }
        }
    }
}

fn next(bytes: &[u8]) -> Next {
    let plain = |key| Next::Key(1, key);
    match bytes[0] {
        0x1b => escape(bytes),
        b'\r' => plain(Key::Enter),
        b'\n' => plain(Key::NewLine),
        0x7f | 0x08 => plain(Key::Backspace),
        0x01 => plain(Key::Home),
        0x02 => plain(Key::Left),
        0x03 => plain(Key::Interrupt),
        0x04 => plain(Key::EndOfInput),
        0x05 => plain(Key::End),
        0x06 => plain(Key::Right),
        0x0b => plain(Key::CutAfter),
        0x0c => plain(Key::Redraw),
        0x0e => plain(Key::Down),
        0x10 => plain(Key::Up),
        0x15 => plain(Key::CutBefore),
        0x17 => plain(Key::CutWord),
        0x1a => plain(Key::Suspend),
        0x1c => plain(Key::Leave),
        0x00..0x20 => Next::Nothing(1),
        byte @ 0x20..0x7f => plain(Key::Char(char::from(byte))),
        0x80.. => character(bytes),
    }
}

fn character(bytes: &[u8]) -> Next {
    let length = match bytes[0] {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => return Next::Key(1, Key::Char(char::REPLACEMENT_CHARACTER)),
    };
    match str::from_utf8(&bytes[..length.min(bytes.len())]) {
        // C1 controls are no characters.
        Ok(text) => match text.chars().next() {
            Some(c) if !c.is_control() => Next::Key(length, Key::Char(c)),
            Some(_) | None => Next::Nothing(length),
        },
        Err(error) if error.error_len().is_none() => Next::NotYet,
        Err(error) => Next::Key(error.error_len().unwrap_or(1), Key::Char(char::REPLACEMENT_CHARACTER)),
    }
}

fn escape(bytes: &[u8]) -> Next {
    let alt = |key| Next::Key(2, key);
    match bytes.get(1) {
        None => Next::NotYet,
        Some(b'[') => csi(bytes),
        Some(b'O') => match bytes.get(2) {
            None => Next::NotYet,
            Some(b'M') => Next::Key(3, Key::Enter),
            Some(last) => arrow(*last, false).map_or(Next::Nothing(3), |key| Next::Key(3, key)),
        },
        Some(b'\r' | b'\n') => alt(Key::NewLine),
        Some(0x7f | 0x08) => alt(Key::CutWord),
        Some(b'b') => alt(Key::WordLeft),
        Some(b'f') => alt(Key::WordRight),
        // The answer of a terminal to a question that somebody before us asked.
        Some(b'P' | b']' | b'_' | b'^' | b'X') => string(bytes),
        Some(0x1b) => Next::Nothing(1),
        Some(0x80..) => match character(&bytes[1..]) {
            Next::Key(length, _) | Next::Nothing(length) | Next::PasteBegins(length) => {
                Next::Nothing(1 + length)
            }
            Next::NotYet => Next::NotYet,
        },
        Some(_) => Next::Nothing(2),
    }
}

fn string(bytes: &[u8]) -> Next {
    let end = bytes.iter().enumerate().skip(2).find(|(_, byte)| matches!(byte, 0x07 | 0x1b));
    match end {
        Some((at, 0x07)) => Next::Nothing(at + 1),
        Some((at, _)) if at + 1 == bytes.len() => Next::NotYet,
        Some((at, _)) => Next::Nothing(at + 2),
        None if bytes.len() > MAX_SEQUENCE_BYTES => Next::Nothing(bytes.len()),
        None => Next::NotYet,
    }
}

fn csi(bytes: &[u8]) -> Next {
    // The function keys of the Linux console.
    if bytes.get(2) == Some(&b'[') {
        return if bytes.len() < 4 { Next::NotYet } else { Next::Nothing(4) };
    }
    let Some(end) = bytes.iter().skip(2).position(|byte| !(0x20..0x40).contains(byte)).map(|end| end + 2)
    else {
        return if bytes.len() > MAX_SEQUENCE_BYTES { Next::Nothing(bytes.len()) } else { Next::NotYet };
    };
    let last = bytes[end];
    if !(0x40..0x7f).contains(&last) {
        // Broken off by something else.
        return Next::Nothing(end);
    }
    let length = end + 1;
    let text = String::from_utf8_lossy(&bytes[2..end]);
    let mut numbers =
        text.split(';').map(|part| part.split(':').next().unwrap_or("").parse().unwrap_or(0_u32));
    let (first, second, third) =
        (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let key = match (last, first) {
        (b'~', 200) => return Next::PasteBegins(length),
        (b'~', 1 | 7) => Some(Key::Home),
        (b'~', 4 | 8) => Some(Key::End),
        (b'~', 3) => Some(Key::Delete),
        (b'~', 27) => modified(third, second),
        (b'u', code) => modified(code, second),
        (last, _) => arrow(last, second > 1),
    };
    key.map_or(Next::Nothing(length), |key| Next::Key(length, key))
}

fn arrow(last: u8, by_words: bool) -> Option<Key> {
    Some(match last {
        b'A' => Key::Up,
        b'B' => Key::Down,
        b'C' if by_words => Key::WordRight,
        b'D' if by_words => Key::WordLeft,
        b'C' => Key::Right,
        b'D' => Key::Left,
        b'H' => Key::Home,
        b'F' => Key::End,
        _ => return None,
    })
}

/// Keys as terminals send them that tell what was held down with them.
fn modified(code: u32, held: u32) -> Option<Key> {
    const CONTROL: u32 = 5;
    Some(match (code, held) {
        (13, 0 | 1) => Key::Enter,
        (13, _) => Key::NewLine,
        (127, _) => Key::Backspace,
        (92, CONTROL) => Key::Leave,
        (99, CONTROL) => Key::Interrupt,
        (100, CONTROL) => Key::EndOfInput,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_the_same_however_their_bytes_are_split() {
        let typed = "aé漢\x1b[A\x1bOB\x1b[1;5C\x1b[3~\x1b[200~one\r\ntwo\rthree \x1b[A\x03\x1b[201~\x1b\r\r\x03\x1b[92;5u\x1b[27;2;13~";
        let expected = [
            Key::Char('a'),
            Key::Char('é'),
            Key::Char('漢'),
            Key::Up,
            Key::Down,
            Key::WordRight,
            Key::Delete,
            Key::Paste("one\ntwo\nthree \x1b[A\x03".to_owned()),
            Key::NewLine,
            Key::Enter,
            Key::Interrupt,
            Key::Leave,
            Key::NewLine,
        ];
        let bytes = typed.as_bytes();
        for cut in 0..=bytes.len() {
            let mut keys = Keys::default();
            let mut all = keys.push(&bytes[..cut]);
            all.extend(keys.push(&bytes[cut..]));
            assert_eq!(all, expected, "cut at {cut}");
        }
        let mut keys = Keys::default();
        let one_by_one: Vec<Key> = bytes.iter().flat_map(|byte| keys.push(&[*byte])).collect();
        assert_eq!(one_by_one, expected);
    }

    #[test]
    fn an_escape_that_nothing_follows_is_forgotten_and_a_paste_is_not() {
        let mut keys = Keys::default();
        assert_eq!(keys.push(b"\x1b"), []);
        assert!(keys.is_waiting());
        keys.give_up();
        assert_eq!(keys.push(b"b"), [Key::Char('b')]);
        keys.push(b"\x1b[200~half\x1b[20");
        assert!(!keys.is_waiting());
        keys.give_up();
        assert_eq!(keys.push(b"1~"), [Key::Paste("half".to_owned())]);
    }

    #[test]
    fn what_no_key_sends_does_nothing() {
        let mut keys = Keys::default();
        for odd in [
            "\x1b[?1;2c",
            "\x1b]11;rgb:0/0/0\x07",
            "\x1bP>|x\x1b\\",
            "\x1b[[A",
            "\x1b[15~",
            "\x1bx",
            "\x1b[I",
        ] {
            assert_eq!(keys.push(odd.as_bytes()), [], "{odd:?}");
            assert_eq!(keys.push(b"k"), [Key::Char('k')], "after {odd:?}");
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_one_odd_character() {
        let odd = Key::Char(char::REPLACEMENT_CHARACTER);
        assert_eq!(Keys::default().push(b"\xffa"), [odd.clone(), Key::Char('a')]);
        assert_eq!(Keys::default().push(b"\xe2\x28a"), [odd, Key::Char('('), Key::Char('a')]);
    }

    #[test]
    fn a_paste_without_end_stays_bounded() {
        let mut keys = Keys::default();
        keys.push(b"\x1b[200~");
        for _ in 0..(2 * MAX_PROMPT_BYTES / 65536) {
            keys.push(&[b'x'; 65536]);
        }
        let Some(Key::Paste(text)) = keys.push(PASTE_ENDS).pop() else { panic!("no paste") };
        assert_eq!(text.len(), MAX_PROMPT_BYTES + 1);
    }
}
