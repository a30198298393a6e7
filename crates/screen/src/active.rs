//! Which of its two screens a terminal shows, told from the bytes it was sent.
//!
//! Promise: however the stream is split, the answer is the one that [`crate::Screen::in_alternate`] gives, at a
//! fraction of its cost: only escape sequences are looked at.
//! Start with [`ActiveScreenTracker::feed`].

use memchr::memchr;

use crate::scan::{Notice, Scanner};
use crate::screen::SEQUENCE_LIMIT_BYTES;
use crate::sequence::{Kind, measure};
use crate::splitter::{ESC, Splitter};

/// One of the two screens of a terminal.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ActiveScreen {
    /// The one with a scrollback, where shells draw.
    #[default]
    Primary,
    /// The one of full-screen applications.
    Alternate,
}

/// Follows a stream.
pub struct ActiveScreenTracker {
    splitter: Splitter,
    scanner: Scanner,
    active: ActiveScreen,
}

impl Default for ActiveScreenTracker {
    fn default() -> Self {
        let splitter = Splitter::dropping(SEQUENCE_LIMIT_BYTES);
        Self { splitter, scanner: Scanner::new(), active: ActiveScreen::Primary }
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
            if kind == Kind::Notable {
                for notice in self.scanner.listen(&whole[start..at]) {
                    self.active = switched(&notice).unwrap_or(self.active);
                }
            }
        }
    }
}

/// The screen that a notice switches to, if it does.
pub(crate) fn switched(notice: &Notice) -> Option<ActiveScreen> {
    match *notice {
        Notice::Mode { number: 47 | 1047 | 1049, on: true } => Some(ActiveScreen::Alternate),
        Notice::Mode { number: 47 | 1047 | 1049, on: false } | Notice::Reset => Some(ActiveScreen::Primary),
        Notice::Mode { .. }
        | Notice::Region { .. }
        | Notice::ColumnMode
        | Notice::ModifyOtherKeys(_)
        | Notice::KittyPush(_)
        | Notice::KittyPop(_)
        | Notice::TitlePush
        | Notice::TitlePop
        | Notice::TabSet
        | Notice::TabClear
        | Notice::TabClearAll
        | Notice::Shift(_)
        | Notice::Query(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Screen, Size};

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
                    (ActiveScreenTracker::default(), Screen::new(Size { rows: 5, cols: 20 }));
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
