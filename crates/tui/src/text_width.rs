//! The width of texts on a terminal.
//!
//! Promise: a text that is cut or padded to a width takes exactly that width, with wide characters, emoji and combining
//! characters, on terminals that join emoji and on those that do not.
//! Start with [`one_line`], then [`fit_columns`].

use unicode_width::UnicodeWidthChar;

/// Makes one line of a text from an agent or a user: without control characters, without characters that change the
/// direction of the line, and without those that join or colour emoji, because terminals disagree about their width.
pub fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            _ if c.is_whitespace() => {
                if !line.ends_with(' ') && !line.is_empty() {
                    line.push(' ');
                }
            }
            '\u{200b}'..='\u{200f}' | '\u{2060}'..='\u{2069}' | '\u{feff}' => {}
            '\u{fe00}'..='\u{fe0f}' | '\u{1f3fb}'..='\u{1f3ff}' | '\u{e0000}'..='\u{e0fff}' => {}
            _ if berth_verbs::format::is_control_character(c) => {}
            _ => line.push(c),
        }
    }
    line.truncate(line.trim_end().len());
    line
}

/// How many columns a text takes.
pub fn column_width(text: &str) -> usize {
    text.chars().map(|c| c.width().unwrap_or(0)).sum()
}

/// The beginning of a text that fits.
pub fn cut_to_columns(text: &str, most: usize) -> String {
    if column_width(text) <= most {
        return text.to_owned();
    }
    let mut room = most.saturating_sub(1);
    let mut cut = String::new();
    for c in text.chars() {
        let wide = c.width().unwrap_or(0);
        if wide > room {
            break;
        }
        room -= wide;
        cut.push(c);
    }
    cut.truncate(cut.trim_end().len());
    if most > 0 {
        cut.push('…');
    }
    cut
}

/// The end of a text that fits: the end of a path tells it from others.
pub fn cut_front_to_columns(text: &str, most: usize) -> String {
    if column_width(text) <= most {
        return text.to_owned();
    }
    let mut room = most.saturating_sub(1);
    let mut from = text.len();
    for (at, c) in text.char_indices().rev() {
        let wide = c.width().unwrap_or(0);
        if wide > room {
            break;
        }
        (room, from) = (room - wide, at);
    }
    if most > 0 { format!("…{}", &text[from..]) } else { String::new() }
}

/// The beginning of a text that fits, and spaces up to the width.
pub fn fit_columns(text: &str, columns: usize) -> String {
    let mut cell = cut_to_columns(text, columns);
    cell.extend(std::iter::repeat_n(' ', columns.saturating_sub(column_width(&cell))));
    cell
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fitted_text_takes_exactly_its_width() {
        for text in [
            "",
            "short",
            "a text that is longer than that",
            "日本語のセッション",
            "🙂🙂🙂🙂🙂🙂🙂",
            "e\u{301}e\u{301}e\u{301}",
            "x日日日日日日",
        ] {
            for columns in 0..24 {
                assert_eq!(
                    column_width(&fit_columns(&one_line(text), columns)),
                    columns,
                    "{text:?} in {columns}"
                );
                assert!(
                    column_width(&cut_front_to_columns(text, columns)) <= columns,
                    "{text:?} in {columns}"
                );
            }
        }
    }

    #[test]
    fn a_wide_character_is_shown_whole_or_not_at_all() {
        assert_eq!(
            (cut_to_columns("日本語", 5), cut_to_columns("日本語", 4), cut_to_columns("日本語", 6)),
            ("日本…".into(), "日…".into(), "日本語".into())
        );
        assert_eq!(
            (cut_front_to_columns("日本語", 5), cut_to_columns("abc", 0), cut_to_columns("abc", 1)),
            ("…本語".into(), String::new(), "…".into())
        );
    }

    #[test]
    fn one_line_removes_control_characters_and_characters_of_unclear_width() {
        assert_eq!(one_line("  a\n\tb\r\n c  "), "a b c");
        assert_eq!(one_line("a\x1b[2Jb\x07\u{9b}c\x7f"), "a[2Jbc");
        assert_eq!(one_line("👨\u{200d}👩\u{200d}👧 👍🏽 ❤\u{fe0f}"), "👨👩👧 👍 ❤");
        assert_eq!(one_line("abc\u{202e}def\u{2066}"), "abcdef");
    }
}
