//! QR codes in a terminal: two modules in each character cell, as half blocks.
//!
//! Start with [`QrCode::of`].

use berth_verbs::gateway_urls;

use crate::safe_text::{SafeText, TextStyle};
use crate::tty;

/// Light modules around the code, which a camera needs to find it.
const BORDER: usize = 2;

/// A QR code.
#[derive(Debug)]
pub(crate) struct QrCode {
    /// Rows of modules with the border; true is dark.
    rows: Vec<Vec<bool>>,
}

impl QrCode {
    /// The code of a text, unless the text is too long for one.
    pub(crate) fn of(text: &str) -> Option<Self> {
        let code = gateway_urls::qr_code(text)?;
        let width = code.len() + 2 * BORDER;
        let light = vec![vec![false; width]; BORDER];
        let padded = code.iter().map(|row| {
            let modules = row.chars().map(|module| module == '#');
            let border = || std::iter::repeat_n(false, BORDER);
            border().chain(modules).chain(border()).collect()
        });
        Some(Self { rows: light.iter().cloned().chain(padded).chain(light.iter().cloned()).collect() })
    }

    /// True if standard output is a terminal with room for the code, and other devices can reach the address.
    pub(crate) fn is_of_use(&self, url: &str) -> bool {
        let fits = |size: berth_api::message::WindowSize| {
            usize::from(size.cols) >= self.rows.len() && usize::from(size.rows) > self.rows.len().div_ceil(2)
        };
        crate::print::is_terminal()
            && !gateway_urls::is_loopback(url)
            && tty::terminal_size().is_some_and(fits)
    }

    /// Lines of half blocks. With colours they are black on white; without, light modules have the colour of the text,
    /// which is light in most terminals.
    pub(crate) fn lines(&self, is_coloured: bool) -> Vec<SafeText> {
        let drawn = |dark: bool| dark == is_coloured;
        let cell = |(upper, lower): (&bool, &bool)| match (drawn(*upper), drawn(*lower)) {
            (true, true) => '█',
            (true, false) => '▀',
            (false, true) => '▄',
            (false, false) => ' ',
        };
        let light = vec![false; self.rows.len()];
        let pairs = self.rows.chunks(2).map(|pair| match pair {
            [upper, lower] => (upper, lower),
            [upper] | [upper, ..] => (upper, &light),
            [] => (&light, &light),
        });
        let lines = pairs.map(|(upper, lower)| upper.iter().zip(lower).map(cell).collect::<String>());
        lines.map(|line| SafeText::painted(TextStyle::QrCode, line, is_coloured)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The modules that lines of half blocks show, without the border.
    fn modules(lines: &[SafeText], drawn: char) -> Vec<String> {
        let other = if drawn == '#' { '.' } else { '#' };
        let rows = lines.iter().flat_map(|line| {
            let row = |blocks: [char; 2]| -> String {
                let cells = line.as_str().chars().filter(|c| "█▀▄ ".contains(*c));
                cells.map(|cell| if blocks.contains(&cell) { drawn } else { other }).collect()
            };
            [row(['█', '▀']), row(['█', '▄'])]
        });
        let rows: Vec<String> = rows.collect();
        let inner = |row: &String| row.chars().skip(BORDER).take(row.chars().count() - 2 * BORDER).collect();
        let count = rows.first().map_or(0, |row| row.chars().count()) - 2 * BORDER;
        rows.iter().skip(BORDER).take(count).map(inner).collect()
    }

    #[test]
    fn half_blocks_show_the_modules_of_the_code_with_and_without_colours() {
        let url = "https://berth.example.com/login?link=abc";
        let expected = gateway_urls::qr_code(url).expect("a code");
        let code = QrCode::of(url).expect("a code");
        assert_eq!(modules(&code.lines(true), '#'), expected);
        assert_eq!(modules(&code.lines(false), '.'), expected);
        // The border is light: blocks without colours, and spaces with them.
        assert!(code.lines(false).first().expect("a line").as_str().chars().all(|c| c == '█'));
    }

    #[test]
    fn a_text_that_is_too_long_has_no_code() {
        assert!(QrCode::of(&"x".repeat(4000)).is_none());
    }
}
