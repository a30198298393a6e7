//! A stream without its colours and controls, for searching in it.

use alacritty_terminal::vte::{Parser, Perform};

use crate::{HELD_LIMIT_BYTES, StreamSplitter};

/// Turns terminal output into plain text, however the stream is split.
pub struct PlainTextFilter {
    parser: Parser,
    /// The parser loses characters that come in two pieces; this one never hands it half of one.
    splitter: StreamSplitter,
}

impl Default for PlainTextFilter {
    fn default() -> Self {
        // A sequence that never ends would grow in the parser, so it is never given one.
        Self { parser: Parser::default(), splitter: StreamSplitter::dropping(HELD_LIMIT_BYTES) }
    }
}

impl std::fmt::Debug for PlainTextFilter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Plain")
    }
}

impl PlainTextFilter {
    /// Appends the text in `bytes` to `text`: printed characters, tabs and line ends.
    pub fn feed(&mut self, bytes: &[u8], text: &mut Vec<u8>) {
        let whole = self.splitter.push(bytes);
        self.parser.advance(&mut TextCollector { text }, &whole);
    }
}

struct TextCollector<'a> {
    text: &'a mut Vec<u8>,
}

impl Perform for TextCollector<'_> {
    fn print(&mut self, c: char) {
        self.text.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
    }

    fn execute(&mut self, byte: u8) {
        if matches!(byte, b'\n' | b'\t') {
            self.text.push(byte);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_and_moves_are_gone_and_text_stays_however_it_is_split() {
        let stream = "a\x1b[1;31mréA€\x1b[0md\x1b]0;title\x07\r\n\tb\x1b[2J".as_bytes();
        for cut in 0..stream.len() {
            let (mut plain, mut text) = (PlainTextFilter::default(), Vec::new());
            plain.feed(&stream[..cut], &mut text);
            plain.feed(&stream[cut..], &mut text);
            assert_eq!(String::from_utf8_lossy(&text), "aréA€d\n\tb", "cut at {cut}");
        }
    }
}
