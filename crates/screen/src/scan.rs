//! Hears what the emulator does not tell: state it hides, and queries it leaves open.
//!
//! Promise: a sequence is understood here exactly as the emulator understands it, because the same
//! parser reads both.
//! Not here: keeping the state (see `hidden`), answering (see `answers`).
//! Start with [`Scanner::listen`].

use alacritty_terminal::vte::{Params, Parser, Perform};

use crate::sequence::{SI, SO};

/// How much of a device control string is kept. Requests are a few bytes; pictures are not for us.
const REQUEST_LIMIT_BYTES: usize = 256;

/// Something a sequence said.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Notice {
    /// `ESC c`.
    Reset,
    /// DECSTBM, as given: one-based, the bottom may be left out.
    Region {
        top: u16,
        bottom: Option<u16>,
    },
    /// DECCOLM, which also frees the scroll region.
    ColumnMode,
    /// A private mode the emulator ignores.
    Mode {
        number: u16,
        on: bool,
    },
    /// XTMODKEYS for "other" keys.
    ModifyOtherKeys(u8),
    KittyPush(u8),
    KittyPop(u16),
    TitlePush,
    TitlePop,
    TabSet,
    TabClear,
    TabClearAll,
    /// SO (true) or SI.
    Shift(bool),
    Query(Query),
}

/// A question the emulator does not answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Query {
    /// XTVERSION.
    Version,
    /// DA3.
    UnitId,
    /// DECXCPR.
    CursorPosition,
    /// Dark or light?
    ColourScheme,
    ModifyOtherKeys,
    /// XTGETTCAP, with the hexadecimal names asked for.
    Capability(Vec<u8>),
    /// DECRQSS, with the final characters of the sequence asked for.
    Setting(Vec<u8>),
}

/// Reads whole sequences.
pub(crate) struct Scanner {
    parser: Parser,
    heard: Heard,
}

impl Scanner {
    pub(crate) fn new() -> Self {
        Scanner { parser: Parser::new(), heard: Heard { notices: Vec::new(), request: None } }
    }

    /// What this sequence says. It must start and end in ground state.
    pub(crate) fn listen(&mut self, sequence: &[u8]) -> Vec<Notice> {
        self.parser.advance(&mut self.heard, sequence);
        std::mem::take(&mut self.heard.notices)
    }
}

struct Heard {
    notices: Vec<Notice>,
    /// The device control string being read, if it is one of ours.
    request: Option<Request>,
}

enum Request {
    Capability(Vec<u8>),
    Setting(Vec<u8>),
}

impl Heard {
    fn modes(&mut self, params: &Params, on: bool) {
        for param in params {
            match param[0] {
                3 => self.notices.push(Notice::ColumnMode),
                number => self.notices.push(Notice::Mode { number, on }),
            }
        }
    }
}

impl Perform for Heard {
    fn execute(&mut self, byte: u8) {
        match byte {
            SO => self.notices.push(Notice::Shift(true)),
            SI => self.notices.push(Notice::Shift(false)),
            _ => {}
        }
    }

    fn csi_dispatch(&mut self, params: &Params, intermediates: &[u8], ignore: bool, action: char) {
        if ignore {
            return;
        }
        let mut given = params.iter().map(|param| param[0]);
        let first = given.next().unwrap_or(0);
        let second = given.next().unwrap_or(0);
        let notice = match (action, intermediates) {
            ('r', []) => Notice::Region { top: first.max(1), bottom: (second != 0).then_some(second) },
            ('h', [b'?']) => return self.modes(params, true),
            ('l', [b'?']) => return self.modes(params, false),
            ('m', [b'>']) if first == 4 && second <= 2 => Notice::ModifyOtherKeys(second as u8),
            ('m', [b'?']) if first == 4 => Notice::Query(Query::ModifyOtherKeys),
            ('u', [b'>']) => Notice::KittyPush(first as u8 & KITTY_FLAGS),
            ('u', [b'<']) => Notice::KittyPop(first.max(1)),
            ('t', []) if first == 22 => Notice::TitlePush,
            ('t', []) if first == 23 => Notice::TitlePop,
            ('g', []) if first == 0 => Notice::TabClear,
            ('g', []) if first == 3 => Notice::TabClearAll,
            ('q', [b'>']) if first == 0 => Notice::Query(Query::Version),
            ('c', [b'=']) if first == 0 => Notice::Query(Query::UnitId),
            ('n', [b'?']) if first == 6 => Notice::Query(Query::CursorPosition),
            ('n', [b'?']) if first == 996 => Notice::Query(Query::ColourScheme),
            _ => return,
        };
        self.notices.push(notice);
    }

    fn esc_dispatch(&mut self, intermediates: &[u8], _ignore: bool, byte: u8) {
        match (byte, intermediates) {
            (b'c', []) => self.notices.push(Notice::Reset),
            (b'H', []) => self.notices.push(Notice::TabSet),
            _ => {}
        }
    }

    fn hook(&mut self, _params: &Params, intermediates: &[u8], ignore: bool, action: char) {
        self.request = match (action, intermediates) {
            ('q', [b'+']) if !ignore => Some(Request::Capability(Vec::new())),
            ('q', [b'$']) if !ignore => Some(Request::Setting(Vec::new())),
            _ => None,
        };
    }

    fn put(&mut self, byte: u8) {
        if let Some(Request::Capability(body) | Request::Setting(body)) = &mut self.request
            && body.len() < REQUEST_LIMIT_BYTES
        {
            body.push(byte);
        }
    }

    fn unhook(&mut self) {
        match self.request.take() {
            Some(Request::Capability(names)) => {
                self.notices.push(Notice::Query(Query::Capability(names)));
            }
            Some(Request::Setting(name)) => self.notices.push(Notice::Query(Query::Setting(name))),
            None => {}
        }
    }
}

/// The bits of the kitty keyboard protocol the emulator knows; it cuts off the others.
const KITTY_FLAGS: u8 = 0b1_1111;

#[cfg(test)]
mod tests {
    use super::{Notice, Query, Scanner};

    #[test]
    fn a_request_says_what_it_asks_for() {
        let mut scanner = Scanner::new();
        assert_eq!(scanner.listen(b"\x1b[>0q"), [Notice::Query(Query::Version)]);
        assert_eq!(scanner.listen(b"\x1bP$qm\x1b\\"), [Notice::Query(Query::Setting(b"m".to_vec()))]);
        assert_eq!(
            scanner.listen(b"\x1bP+q544e\x1b\\"),
            [Notice::Query(Query::Capability(b"544e".to_vec()))]
        );
        assert_eq!(scanner.listen(b"\x1bP1;2|picture\x1b\\"), []);
    }

    #[test]
    fn hidden_state_is_heard_inside_longer_sequences_too() {
        let mut scanner = Scanner::new();
        assert_eq!(
            scanner.listen(b"\x1b[?25;3;1016h"),
            [
                Notice::Mode { number: 25, on: true },
                Notice::ColumnMode,
                Notice::Mode { number: 1016, on: true }
            ]
        );
        let shifted = [Notice::Shift(true), Notice::Region { top: 2, bottom: Some(5) }];
        assert_eq!(scanner.listen(b"\x1b[2\x0e;5r"), shifted);
    }
}
