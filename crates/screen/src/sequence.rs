//! What an escape sequence is to us: how far it reaches, and who has to see it.
//!
//! Promise: the kinds err on the side of more work. A sequence called [`Kind::Soft`] changes nothing
//! but the line the cursor is on and the colours of what comes next.
//! Not here: what a sequence does (the emulator and `scan` know).
//! Start with [`measure`].

use memchr::memchr;

use crate::splitter::{BEL, ESC, State};

pub(crate) const SO: u8 = 0x0e;
pub(crate) const SI: u8 = 0x0f;

/// Who has to see a sequence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// SGR, or erasing in the line: may wait in the pending text and may be skipped with it.
    Soft,
    /// Only the emulator.
    Quiet,
    /// The emulator and the scanner: a query, or state the emulator hides.
    Notable,
}

/// Length and kind of the sequence (or shift) that `bytes` starts with. It is there in full.
pub(crate) fn measure(bytes: &[u8]) -> (usize, Kind) {
    if bytes[0] != ESC {
        return (1, Kind::Notable);
    }
    if let Some(length) = soft(bytes) {
        return (length, Kind::Soft);
    }
    let length = State::Escape.past_sequence(&bytes[1..]).map_or(bytes.len(), |rest| rest + 1);
    let kind = if notable(&bytes[..length]) { Kind::Notable } else { Kind::Quiet };
    (length, kind)
}

/// The length of a plain `CSI … m` or `CSI … K`, with digits and separators only.
fn soft(bytes: &[u8]) -> Option<usize> {
    let parameters = bytes.strip_prefix(b"\x1b[")?;
    let end = parameters.iter().position(|byte| !matches!(byte, b'0'..=b';'))?;
    matches!(parameters[end], b'm' | b'K').then_some(end + 3)
}

fn notable(sequence: &[u8]) -> bool {
    match sequence {
        [ESC, b'[', inner @ .., last] => {
            let mixed = inner.iter().any(|&byte| byte < 0x20);
            mixed
                || match last {
                    b'h' | b'l' => !matches!(inner, b"?25" | b"?2026"),
                    b'b' | b'c' | b'g' | b'm' | b'n' | b'q' | b'r' | b't' | b'u' => true,
                    _ => false,
                }
        }
        // A colour query must be answered in turn. A string that ends without a terminator of its own
        // hides another sequence.
        [ESC, b']', inner @ ..] => {
            let body = inner.strip_suffix(b"\x1b\\").or_else(|| inner.strip_suffix(&[BEL]));
            body.is_none_or(|body| memchr(ESC, body).is_some() || memchr(b'?', body).is_some())
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::{Kind, measure};

    #[test]
    fn only_colours_and_erasing_in_the_line_are_soft() {
        assert_eq!(measure(b"\x1b[38;2;1;2;3mrest"), (13, Kind::Soft));
        assert_eq!(measure(b"\x1b[4:3mrest"), (6, Kind::Soft));
        assert_eq!(measure(b"\x1b[mrest"), (3, Kind::Soft));
        assert_eq!(measure(b"\x1b[2Krest"), (4, Kind::Soft));
        assert_eq!(measure(b"\x1b[>4;2mrest"), (7, Kind::Notable));
        assert_eq!(measure(b"\x1b[2\n1mrest"), (6, Kind::Notable));
        assert_eq!(measure(b"\x1b[12;1Hrest"), (7, Kind::Quiet));
        assert_eq!(measure(b"\x1b]0;title\x07rest"), (10, Kind::Quiet));
        assert_eq!(measure(b"\x1b]11;?\x1b\\rest"), (8, Kind::Notable));
        assert_eq!(measure(b"\x1b[?1049hrest"), (8, Kind::Notable));
        assert_eq!(measure(b"\x1bcrest"), (2, Kind::Notable));
        assert_eq!(measure(b"\x0erest"), (1, Kind::Notable));
    }
}
