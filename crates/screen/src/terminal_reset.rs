//! Bytes that a client prints when it detaches.
//!
//! Promise: afterwards the user's terminal is usable, whatever the application set, and neither the screen nor the
//! scrollback was cleared.
//! Not here: putting the line discipline back (the client does), a new line for the prompt.

use crate::ActiveScreen;

/// Brings a terminal back to what a shell expects, without clearing anything.
///
/// The cursor stays where it is, or returns to where it was before the alternate screen. `?1049l` is sent only if
/// that is shown: on the primary screen some terminals (tmux among them) take it as an order to move the cursor to
/// where it was when an application last entered the alternate screen, and the shell would write over the text there.
pub fn reset_terminal(active: ActiveScreen) -> Vec<u8> {
    let back: &[u8] = match active {
        ActiveScreen::Primary => b"",
        ActiveScreen::Alternate => b"\x1b[?1049l\x1b[<99u\x1b[=0;1u",
    };
    [BEFORE, back, AFTER].concat()
}

/// Resets for the screen that is shown.
const BEFORE: &[u8] = concat!(
    "\x1b\\",      // End half a sequence, if the stream broke off.
    "\x1b[?2026l", // Show the rest of a synchronized update.
    "\x1b[<99u",   // Drop the keyboard modes of this screen: each has its own,
    "\x1b[=0;1u",  // also those set without stacking.
    "\x1b7",       // The next two move the cursor home: remember where it was.
    "\x1b[?6l",    // Origin mode off.
    "\x1b[r",      // Scroll the whole screen.
    "\x1b8",       // Back. Some terminals do this again on ?1049l.
)
.as_bytes();

/// Resets for both screens.
const AFTER: &[u8] = concat!(
    "\x1b[>4;0m",                                       // modifyOtherKeys off.
    "\x1b[?9;1000;1001;1002;1003;1005;1006;1015;1016l", // No mouse reports,
    "\x1b[?1004l",                                      // no focus reports,
    "\x1b[?2027;2031;2048l", // no grapheme widths, no colour scheme or size reports.
    "\x1b[?5l",              // Not inverted.
    "\x1b[?2004l",           // Bracketed paste off: the shell turns it on itself.
    "\x1b[!p",               // Soft reset, where known: it ends an origin mode that ESC 8 brought back.
    "\x1b[?1l",              // Normal cursor keys
    "\x1b>",                 // and keypad.
    "\x1b[4l",               // Insert mode off,
    "\x1b[20l",              // new line mode off,
    "\x1b[?7h",              // wrapping on.
    "\x1b(B\x1b)B\x1b*B\x1b+B\x0f", // ASCII in all character sets, and the first one selected.
    "\x1b]8;;\x1b\\",        // End a link.
    "\x1b[0m",               // No colours.
    "\x1b[?12l",             // The user's own cursor,
    "\x1b[0 q",
    "\x1b[?25h", // visible.
)
.as_bytes();

#[cfg(test)]
mod tests {
    use super::reset_terminal;
    use crate::{ActiveScreen, Screen, ScreenSize};

    const SIZE: ScreenSize = ScreenSize { rows: 5, cols: 20 };

    #[test]
    fn leaving_undoes_what_a_full_screen_application_set() {
        let mut shell = Screen::new(SIZE);
        // Entering the alternate screen saves the cursor, and nothing takes that back.
        shell.feed(b"one\r\n$ berth attach\r\n\x1b7");
        let mut used = Screen::new(SIZE);
        used.feed(b"one\r\n$ berth attach\r\n");
        used.feed(b"\x1b[?1049h\x1b[>1u\x1b[>5u\x1b[=3;2u\x1b[>4;2m\x1b[?1000;1003;1006;1016h\x1b[?1004h\x1b[?2004h");
        used.feed(b"\x1b[2;4r\x1b[?6h\x1b[?1h\x1b=\x1b[4h\x1b[?7l\x1b(0\x1b)0\x0e\x1b[?25l\x1b[5 q");
        used.feed(b"\x1b]8;;http://example.com\x1b\\\x1b[1;31;44mfull screen\x1b[?2026h half \x1b[3");
        used.feed(&reset_terminal(ActiveScreen::Alternate));
        assert_eq!(used.restore(), shell.restore());
    }

    #[test]
    fn leaving_an_application_on_the_primary_screen_keeps_what_is_shown_and_the_cursor() {
        let mut screen = Screen::new(SIZE);
        screen.feed(b"a\r\nb\r\nc\x1b[2;4r\x1b[3;2H\x1b[31m\x1b[>1u\x1b[?2004h");
        screen.feed(&reset_terminal(ActiveScreen::Primary));
        assert_eq!(screen.text(), "a\nb\nc");
        assert_eq!(screen.cursor(), (2, 1));
    }

    #[test]
    fn leaving_the_primary_screen_does_not_ask_for_the_one_before_the_alternate() {
        let bytes = reset_terminal(ActiveScreen::Primary);
        assert!(!bytes.windows(4).any(|window| window == b"1049"), "{}", bytes.escape_ascii());
    }
}
