//! Escape sequences: their length, and the part of this crate that has to process each.
//!
//! Promise: the kinds err on the side of more work. A sequence called [`SequenceKind::Soft`] changes nothing
//! but the line the cursor is on and the colours of later text.
//! Not here: the effect of a sequence (the emulator and `scan` know).
//! Start with [`measure`].

use memchr::memchr;

use crate::splitter::{BEL, ESC, ParserState};

pub(crate) const SO: u8 = 0x0e;
pub(crate) const SI: u8 = 0x0f;

/// The readers of a sequence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SequenceKind {
    /// SGR, or erasing in the line: may wait in the pending text and may be skipped with it.
    Soft,
    /// Read by the emulator only.
    Quiet,
    /// Read by the emulator and the scanner: a query, or state the emulator hides.
    Notable,
}

/// Length and kind of the sequence (or shift) that `bytes` starts with. It is there in full.
pub(crate) fn measure(bytes: &[u8]) -> (usize, SequenceKind) {
    if bytes[0] != ESC {
        return (1, SequenceKind::Notable);
    }
    if let Some(length) = soft(bytes) {
        return (length, SequenceKind::Soft);
    }
    let length = ParserState::Escape.sequence_end(&bytes[1..]).map_or(bytes.len(), |rest| rest + 1);
    let kind = if notable(&bytes[..length]) { SequenceKind::Notable } else { SequenceKind::Quiet };
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
    use super::{SequenceKind, measure};

    #[test]
    fn only_colours_and_erasing_in_the_line_are_soft() {
        assert_eq!(measure(b"\x1b[38;2;1;2;3mrest"), (13, SequenceKind::Soft));
        assert_eq!(measure(b"\x1b[4:3mrest"), (6, SequenceKind::Soft));
        assert_eq!(measure(b"\x1b[mrest"), (3, SequenceKind::Soft));
        assert_eq!(measure(b"\x1b[2Krest"), (4, SequenceKind::Soft));
        assert_eq!(measure(b"\x1b[>4;2mrest"), (7, SequenceKind::Notable));
        assert_eq!(measure(b"\x1b[2\n1mrest"), (6, SequenceKind::Notable));
        assert_eq!(measure(b"\x1b[12;1Hrest"), (7, SequenceKind::Quiet));
        assert_eq!(measure(b"\x1b]0;title\x07rest"), (10, SequenceKind::Quiet));
        assert_eq!(measure(b"\x1b]11;?\x1b\\rest"), (8, SequenceKind::Notable));
        assert_eq!(measure(b"\x1b[?1049hrest"), (8, SequenceKind::Notable));
        assert_eq!(measure(b"\x1bcrest"), (2, SequenceKind::Notable));
        assert_eq!(measure(b"\x0erest"), (1, SequenceKind::Notable));
    }
}
