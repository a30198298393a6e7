//! Text in terminal cells: what belongs together, how wide it is, and where a line is broken.
//!
//! Promise: no row is wider than asked for, even if a single character would be.
//! Start with [`wrap`].

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::print;
use crate::safe_text::{SafeText, TextStyle};

/// A row on the screen.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct CellRow {
    /// The text to print, styles included.
    pub(crate) text: SafeText,
    /// Width in cells.
    pub(crate) width: usize,
}

impl CellRow {
    /// Adds a text that takes `width` cells.
    pub(crate) fn push(&mut self, text: impl Into<SafeText>, width: usize) {
        self.text.push(text);
        self.width += width;
    }

    /// The row, dim.
    pub(crate) fn dim(self) -> Self {
        Self { text: SafeText::painted(TextStyle::Dim, self.text, true), ..self }
    }
}

/// True if a character belongs to the one before it: marks, joined emoji, flags. A control character never does, or a
/// line break behind a joiner would get into a row.
pub(crate) fn joins(before: &str, c: char) -> bool {
    let is_letter_of_a_flag = |c: char| matches!(c, '\u{1f1e6}'..='\u{1f1ff}');
    if c.is_control() {
        return false;
    }
    let Some(last) = before.chars().next_back().filter(|last| !last.is_control()) else { return false };
    UnicodeWidthChar::width(c) == Some(0)
        || last == '\u{200d}'
        || matches!(c, '\u{1f3fb}'..='\u{1f3ff}')
        || (is_letter_of_a_flag(c) && is_letter_of_a_flag(last) && before.chars().count() == 1)
}

/// The parts of a text that belong together.
pub(crate) fn clusters(text: &str) -> Vec<&str> {
    let mut found: Vec<&str> = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let cluster = first_cluster(rest);
        found.push(cluster);
        rest = &rest[cluster.len()..];
    }
    found
}

/// The first of the [`clusters`] of a text, empty if the text is. Reads no further than to its end.
pub(crate) fn first_cluster(text: &str) -> &str {
    let mut ends = text.char_indices().skip(1).filter(|(at, c)| !joins(&text[..*at], *c));
    &text[..ends.next().map_or(text.len(), |(at, _)| at)]
}

/// Width of a cluster in cells.
pub(crate) fn width(cluster: &str) -> usize {
    cluster.width().min(2)
}

/// A cluster as it fits into `columns` columns: one that can never fit becomes a mark of one column.
pub(crate) fn fitting(cluster: &str, columns: usize) -> (&str, usize) {
    match width(cluster) {
        wide if wide > columns => ("?", 1),
        wide => (cluster, wide),
    }
}

/// Breaks one line (without line breaks) into rows of at most `columns` cells. There is always one.
pub(crate) fn wrap(line: &str, columns: usize) -> Vec<CellRow> {
    let columns = columns.max(1);
    let mut rows = vec![CellRow::default()];
    // Escaped before the width is measured.
    for cluster in clusters(&print::escape_control_characters(line)) {
        let (shown, wide) = match cluster {
            "\t" => ("    ", 4.min(columns)),
            other => fitting(other, columns),
        };
        let shown = if cluster == "\t" { &shown[..wide] } else { shown };
        if rows.last().is_none_or(|row| row.width + wide > columns) {
            rows.push(CellRow::default());
        }
        if let Some(row) = rows.last_mut() {
            row.push(shown, wide);
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn width_of(text: &str) -> usize {
        clusters(text).into_iter().map(width).sum()
    }

    #[test]
    fn joined_characters_stay_together() {
        let family = "👩\u{200d}👧";
        assert_eq!(
            clusters(&format!("ae\u{301}漢{family}👍🏽🇩🇪🇫x")),
            ["a", "e\u{301}", "漢", family, "👍🏽", "🇩🇪", "🇫", "x"]
        );
        assert_eq!(width_of("ae\u{301}漢👍🏽"), 6);
        assert_eq!(
            (first_cluster("e\u{301}x"), first_cluster("x"), first_cluster("")),
            ("e\u{301}", "x", "")
        );
    }

    #[test]
    fn a_control_character_behind_a_joiner_is_a_cluster_of_its_own() {
        assert_eq!(clusters("a\u{200d}\nb\u{200d}\tc"), ["a\u{200d}", "\n", "b\u{200d}", "\t", "c"]);
    }

    #[test]
    fn no_row_is_wider_than_asked_for() {
        for columns in 1..12 {
            for text in ["", "plain words", "漢字漢字漢字", "a\tb\t", "e\u{301}👍🏽x"] {
                let rows = wrap(text, columns);
                assert!(!rows.is_empty());
                for row in &rows {
                    assert!(row.width <= columns, "{text:?} in {columns}: {rows:?}");
                    assert_eq!(row.width, width_of(row.text.as_str()), "{text:?} in {columns}: {rows:?}");
                }
            }
        }
        assert_eq!(wrap("漢字", 3).iter().map(|row| row.text.as_str()).collect::<Vec<_>>(), ["漢", "字"]);
    }
}
