//! Scanner for sequences that the emulator does not report: state it hides, and queries it leaves open.
//!
//! Promise: a sequence has the same meaning here as in the emulator, because the same parser reads both.
//! Not here: keeping the state (see `hidden_state`), answering (see `answers`).
//! Start with [`SequenceScanner::listen`].

use alacritty_terminal::vte::{Params, Parser, Perform};

use crate::sequence::{SI, SO};

/// Size limit of a device control string. Requests are a few bytes; pictures are not needed.
const REQUEST_LIMIT_BYTES: usize = 256;

/// Meaning of a sequence.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum SequenceEffect {
    /// Full reset, `ESC c`.
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
    Query(TerminalQuery),
}

/// A query that the emulator does not answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum TerminalQuery {
    /// Name and version of the terminal (XTVERSION).
    Version,
    /// Unit id of the terminal (DA3).
    UnitId,
    /// Extended cursor position (DECXCPR).
    CursorPosition,
    /// Colour scheme: dark or light.
    ColourScheme,
    ModifyOtherKeys,
    /// Terminfo capabilities (XTGETTCAP), with the hexadecimal names requested.
    Capability(Vec<u8>),
    /// Setting (DECRQSS), with the final characters of the sequence requested.
    Setting(Vec<u8>),
}

/// Parses whole sequences.
pub(crate) struct SequenceScanner {
    parser: Parser,
    heard: EffectCollector,
}

impl SequenceScanner {
    pub(crate) fn new() -> Self {
        SequenceScanner {
            parser: Parser::new(),
            heard: EffectCollector { notices: Vec::new(), request: None },
        }
    }

    /// The notices of this sequence. It must start and end in ground state.
    pub(crate) fn listen(&mut self, sequence: &[u8]) -> Vec<SequenceEffect> {
        self.parser.advance(&mut self.heard, sequence);
        std::mem::take(&mut self.heard.notices)
    }
}

struct EffectCollector {
    notices: Vec<SequenceEffect>,
    /// The device control string being read, if it is a request we answer.
    request: Option<DcsRequest>,
}

enum DcsRequest {
    Capability(Vec<u8>),
    Setting(Vec<u8>),
}

impl EffectCollector {
    fn modes(&mut self, params: &Params, on: bool) {
        for param in params {
            match param[0] {
                3 => self.notices.push(SequenceEffect::ColumnMode),
                number => self.notices.push(SequenceEffect::Mode { number, on }),
            }
        }
    }
}

impl Perform for EffectCollector {
    fn execute(&mut self, byte: u8) {
        match byte {
            SO => self.notices.push(SequenceEffect::Shift(true)),
            SI => self.notices.push(SequenceEffect::Shift(false)),
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
            ('r', []) => {
                SequenceEffect::Region { top: first.max(1), bottom: (second != 0).then_some(second) }
            }
            ('h', [b'?']) => return self.modes(params, true),
            ('l', [b'?']) => return self.modes(params, false),
            ('m', [b'>']) if first == 4 && second <= 2 => SequenceEffect::ModifyOtherKeys(second as u8),
            ('m', [b'?']) if first == 4 => SequenceEffect::Query(TerminalQuery::ModifyOtherKeys),
            ('u', [b'>']) => SequenceEffect::KittyPush(first as u8 & KITTY_FLAGS),
            ('u', [b'<']) => SequenceEffect::KittyPop(first.max(1)),
            ('t', []) if first == 22 => SequenceEffect::TitlePush,
            ('t', []) if first == 23 => SequenceEffect::TitlePop,
            ('g', []) if first == 0 => SequenceEffect::TabClear,
            ('g', []) if first == 3 => SequenceEffect::TabClearAll,
            ('q', [b'>']) if first == 0 => SequenceEffect::Query(TerminalQuery::Version),
            ('c', [b'=']) if first == 0 => SequenceEffect::Query(TerminalQuery::UnitId),
            ('n', [b'?']) if first == 6 => SequenceEffect::Query(TerminalQuery::CursorPosition),
            ('n', [b'?']) if first == 996 => SequenceEffect::Query(TerminalQuery::ColourScheme),
            _ => return,
        };
        self.notices.push(notice);
    }

    fn esc_dispatch(&mut self, intermediates: &[u8], _ignore: bool, byte: u8) {
        match (byte, intermediates) {
            (b'c', []) => self.notices.push(SequenceEffect::Reset),
            (b'H', []) => self.notices.push(SequenceEffect::TabSet),
            _ => {}
        }
    }

    fn hook(&mut self, _params: &Params, intermediates: &[u8], ignore: bool, action: char) {
        self.request = match (action, intermediates) {
            ('q', [b'+']) if !ignore => Some(DcsRequest::Capability(Vec::new())),
            ('q', [b'$']) if !ignore => Some(DcsRequest::Setting(Vec::new())),
            _ => None,
        };
    }

    fn put(&mut self, byte: u8) {
        if let Some(DcsRequest::Capability(body) | DcsRequest::Setting(body)) = &mut self.request
            && body.len() < REQUEST_LIMIT_BYTES
        {
            body.push(byte);
        }
    }

    fn unhook(&mut self) {
        match self.request.take() {
            Some(DcsRequest::Capability(names)) => {
                self.notices.push(SequenceEffect::Query(TerminalQuery::Capability(names)));
            }
            Some(DcsRequest::Setting(name)) => {
                self.notices.push(SequenceEffect::Query(TerminalQuery::Setting(name)))
            }
            None => {}
        }
    }
}

/// The bits of the kitty keyboard protocol the emulator knows; it cuts off the others.
const KITTY_FLAGS: u8 = 0b1_1111;

#[cfg(test)]
mod tests {
    use super::{SequenceEffect, SequenceScanner, TerminalQuery};

    #[test]
    fn a_request_says_what_it_asks_for() {
        let mut scanner = SequenceScanner::new();
        assert_eq!(scanner.listen(b"\x1b[>0q"), [SequenceEffect::Query(TerminalQuery::Version)]);
        assert_eq!(
            scanner.listen(b"\x1bP$qm\x1b\\"),
            [SequenceEffect::Query(TerminalQuery::Setting(b"m".to_vec()))]
        );
        assert_eq!(
            scanner.listen(b"\x1bP+q544e\x1b\\"),
            [SequenceEffect::Query(TerminalQuery::Capability(b"544e".to_vec()))]
        );
        assert_eq!(scanner.listen(b"\x1bP1;2|picture\x1b\\"), []);
    }

    #[test]
    fn hidden_state_is_found_inside_longer_sequences() {
        let mut scanner = SequenceScanner::new();
        assert_eq!(
            scanner.listen(b"\x1b[?25;3;1016h"),
            [
                SequenceEffect::Mode { number: 25, on: true },
                SequenceEffect::ColumnMode,
                SequenceEffect::Mode { number: 1016, on: true }
            ]
        );
        let shifted = [SequenceEffect::Shift(true), SequenceEffect::Region { top: 2, bottom: Some(5) }];
        assert_eq!(scanner.listen(b"\x1b[2\x0e;5r"), shifted);
    }
}
