//! Breaks text into lines of a width.
//!
//! Promise: no line is wider than asked for, only blanks at a break are lost, and control characters are made visible.
//! Not here: the width of a text, and cutting it to one line (`crate::text_width`).
//! Start with [`wrap`].

use unicode_width::UnicodeWidthChar;

use crate::print;

/// The lines of a text. Words are kept whole where they fit.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(2);
    plain(text).split('\n').flat_map(|line| wrap_line(line.trim_end(), width)).collect()
}

/// A text as it is drawn: tabs become blanks, control characters become visible pictures.
pub(crate) fn plain(text: &str) -> String {
    print::escape_control_characters(&text.replace('\r', "")).replace('\t', "    ")
}

fn wrap_line(line: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut rest = line;
    loop {
        let mut used = 0;
        let over = rest.char_indices().find(|(_, c)| {
            used += c.width().unwrap_or(0);
            used > width
        });
        let Some((end, _)) = over else {
            lines.push(rest.to_owned());
            return lines;
        };
        // Break at the last blank that leaves text before it, else within the word.
        let blank = rest[..end].rfind(' ').filter(|at| !rest[..*at].trim().is_empty());
        let at_blank = if rest[end..].starts_with(' ') { Some(end) } else { blank };
        let cut = at_blank.unwrap_or(end);
        lines.push(rest[..cut].trim_end().to_owned());
        rest = rest[cut..].trim_start_matches(' ');
        if rest.is_empty() {
            return lines;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text_width::column_width;

    #[test]
    fn words_stay_whole_where_they_fit_and_break_where_they_do_not() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("abcdefgh ij", 3), ["abc", "def", "gh", "ij"]);
        assert_eq!(wrap("a\n\nb", 9), ["a", "", "b"]);
        assert_eq!(wrap("日本語日本", 5), ["日本", "語日", "本"]);
        assert_eq!(wrap("  indented text here", 10), ["  indented", "text here"]);
    }

    #[test]
    fn no_line_is_wider_than_asked_for_and_no_character_is_lost() {
        let text = "The 🙂 quick\tbrown 日本語 e\u{301}\u{301} x\x1b[31m very-long-word-that-does-not-fit-anywhere\r\n  z";
        let without_blanks = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
        for most in 2..60 {
            let lines = wrap(text, most);
            assert!(lines.iter().all(|line| column_width(line) <= most), "{most}: {lines:?}");
            assert_eq!(without_blanks(&lines.concat()), without_blanks(&plain(text)), "{most}");
        }
    }
}
