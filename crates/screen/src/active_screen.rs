//! Tracker of the screen that a terminal shows (primary or alternate), from the bytes it was sent.
//!
//! Promise: for any split of the stream the answer is that of [`crate::Screen::in_alternate`], at a fraction of its
//! cost: only escape sequences are parsed.
//! Start with [`ActiveScreenTracker::feed`].

use memchr::memchr;

use crate::scan::{SequenceEffect, SequenceScanner};
use crate::screen::SEQUENCE_LIMIT_BYTES;
use crate::sequence::{SequenceKind, measure};
use crate::splitter::{ESC, StreamSplitter};

/// One of the two screens of a terminal.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ActiveScreen {
    /// The screen with a scrollback, where shells draw.
    #[default]
    Primary,
    /// The screen of full-screen applications.
    Alternate,
}

/// Tracks the active screen of a stream.
pub struct ActiveScreenTracker {
    splitter: StreamSplitter,
    scanner: SequenceScanner,
    active: ActiveScreen,
}

impl Default for ActiveScreenTracker {
    fn default() -> Self {
        let splitter = StreamSplitter::dropping(SEQUENCE_LIMIT_BYTES);
        Self { splitter, scanner: SequenceScanner::new(), active: ActiveScreen::Primary }
    }
}

impl ActiveScreenTracker {
    /// The screen that is shown after everything that was fed.
    pub fn active(&self) -> ActiveScreen {
        self.active
    }

    /// Takes the next bytes of the stream, however they are split.
    pub fn feed(&mut self, bytes: &[u8]) {
        let whole = self.splitter.push(bytes);
        let mut at = 0;
        while let Some(found) = memchr(ESC, &whole[at..]) {
            let start = at + found;
            let (length, kind) = measure(&whole[start..]);
            at = start + length;
            if kind == SequenceKind::Notable {
                for notice in self.scanner.listen(&whole[start..at]) {
                    self.active = switched(&notice).unwrap_or(self.active);
                }
            }
        }
    }
}

/// The screen that a notice switches to, if it switches.
pub(crate) fn switched(notice: &SequenceEffect) -> Option<ActiveScreen> {
    match *notice {
        SequenceEffect::Mode { number: 47 | 1047 | 1049, on: true } => Some(ActiveScreen::Alternate),
        SequenceEffect::Mode { number: 47 | 1047 | 1049, on: false } | SequenceEffect::Reset => {
            Some(ActiveScreen::Primary)
        }
        SequenceEffect::Mode { .. }
        | SequenceEffect::Region { .. }
        | SequenceEffect::ColumnMode
        | SequenceEffect::ModifyOtherKeys(_)
        | SequenceEffect::KittyPush(_)
        | SequenceEffect::KittyPop(_)
        | SequenceEffect::TitlePush
        | SequenceEffect::TitlePop
        | SequenceEffect::TabSet
        | SequenceEffect::TabClear
        | SequenceEffect::TabClearAll
        | SequenceEffect::Shift(_)
        | SequenceEffect::Query(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Screen, ScreenSize};

    #[test]
    fn the_tracked_screen_is_the_emulated_one_however_the_stream_is_split() {
        for (stream, active) in [
            (&b"text \x1b[1mbold\x1b[2J"[..], ActiveScreen::Primary),
            (b"\x1b[?1049h\x1b[?25lvim", ActiveScreen::Alternate),
            (b"\x1b[?47h", ActiveScreen::Alternate),
            (b"\x1b[?1049hvim\x1b[?25h\x1b[?1;1049l$ ", ActiveScreen::Primary),
            (b"\x1b[?1049h\x1bc", ActiveScreen::Primary),
            (b"\x1b]2;\xe2\x82\xac ?1049h\x07\x1bPtmux;[?1049h\x1b\\", ActiveScreen::Primary),
        ] {
            for cut in 0..=stream.len() {
                let (mut tracker, mut screen) =
                    (ActiveScreenTracker::default(), Screen::new(ScreenSize { rows: 5, cols: 20 }));
                for piece in [&stream[..cut], &stream[cut..]] {
                    tracker.feed(piece);
                    screen.feed(piece);
                }
                assert_eq!(tracker.active(), active, "{} cut at {cut}", stream.escape_ascii());
                assert_eq!(screen.in_alternate(), active == ActiveScreen::Alternate);
            }
        }
    }
}
