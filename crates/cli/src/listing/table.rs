//! Tables of sessions that fit the terminal.
//!
//! Promise: on a terminal no line is wider than the terminal: the least important columns go first, and nothing wraps.
//! Off a terminal the columns are always the same, and nothing is cut.
//! Start with [`draw`].

use super::row::ListingRow;
use crate::safe_text::{SafeText, TextStyle};
use crate::text_width::{column_width, cut_front_to_columns, cut_to_columns, fit_columns};

/// Between two columns.
const GAP: usize = 2;
/// The least width of the activity column; with less it is not readable.
const LEAST_DOING: usize = 8;
/// The greatest widths of these columns on a terminal.
const WIDEST_TAGS: usize = 20;
const WIDEST_DIR: usize = 40;
const WIDEST_LABEL: usize = 24;

/// The medium that the lines are drawn for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TableFormat {
    /// Width in columns; unlimited if `None`.
    pub(crate) columns: Option<usize>,
    pub(crate) colour: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum TableColumn {
    Id,
    Name,
    Session,
    State,
    Age,
    Active,
    Queued,
    Tags,
    Dir,
    Branch,
    Model,
    Doing,
}

/// The order of the columns behind the session and its id, on and off a terminal.
const REST: [TableColumn; 9] = [
    TableColumn::State,
    TableColumn::Age,
    TableColumn::Active,
    TableColumn::Queued,
    TableColumn::Tags,
    TableColumn::Dir,
    TableColumn::Branch,
    TableColumn::Model,
    TableColumn::Doing,
];

impl TableColumn {
    fn head(self) -> &'static str {
        match self {
            Self::Id => "ID",
            Self::Name => "NAME",
            Self::Session => "SESSION",
            Self::State => "STATE",
            Self::Age => "AGE",
            Self::Active => "ACTIVE",
            Self::Queued => "QUEUE",
            Self::Tags => "TAGS",
            Self::Dir => "DIRECTORY",
            Self::Branch => "BRANCH",
            Self::Model => "MODEL",
            Self::Doing => "DOING",
        }
    }

    fn cell(self, row: &ListingRow) -> String {
        match self {
            Self::Id => row.id.clone(),
            Self::Name => {
                if row.session == row.id {
                    String::new()
                } else {
                    row.session.clone()
                }
            }
            Self::Session => format!("{}{}", row.lines, row.session),
            Self::State => row.state.clone(),
            Self::Age => row.age.clone(),
            Self::Active => row.active.clone(),
            Self::Queued => row.queued.clone(),
            Self::Tags => row.tags.clone(),
            Self::Dir => row.dir.clone(),
            Self::Branch => row.branch.clone(),
            Self::Model => row.model.clone(),
            Self::Doing => row.doing.clone(),
        }
    }

    /// The width of the longest cell, within limits.
    fn natural(self, rows: &[ListingRow]) -> usize {
        let widest =
            rows.iter().map(|row| column_width(&self.cell(row))).max().unwrap_or(0).max(self.head().len());
        match self {
            Self::Tags => widest.min(WIDEST_TAGS),
            Self::Dir => widest.min(WIDEST_DIR),
            Self::Branch | Self::Model => widest.min(WIDEST_LABEL),
            Self::Id
            | Self::Name
            | Self::Session
            | Self::State
            | Self::Age
            | Self::Active
            | Self::Queued
            | Self::Doing => widest,
        }
    }

    /// True if the column says something that no other column says.
    fn is_telling(self, rows: &[ListingRow]) -> bool {
        match self {
            Self::Id => rows.iter().any(|row| row.session != row.id),
            Self::Name
            | Self::Session
            | Self::State
            | Self::Age
            | Self::Active
            | Self::Queued
            | Self::Tags
            | Self::Dir
            | Self::Branch
            | Self::Model
            | Self::Doing => rows.iter().any(|row| !self.cell(row).is_empty()),
        }
    }
}

/// The lines, with a header first; empty without sessions.
pub(crate) fn draw(rows: &[ListingRow], paper: TableFormat) -> Vec<SafeText> {
    if rows.is_empty() {
        return Vec::new();
    }
    let Some(room) = paper.columns else { return draw_whole(rows, paper.colour) };
    let mark = if rows.iter().any(|row| row.is_current) { GAP } else { 0 };
    let columns = columns(rows, room.saturating_sub(mark));
    let line = |row: Option<&ListingRow>| {
        let mut line = match row {
            _ if mark == 0 => SafeText::default(),
            Some(row) if row.is_current => SafeText::from("@ "),
            Some(_) | None => SafeText::from("  "),
        };
        for (at, (column, wide)) in columns.iter().enumerate() {
            let text = match (row, column) {
                (None, column) => column.head().to_owned(),
                // A session without a name shows its id in the first column already.
                (Some(row), TableColumn::Id) if row.session == row.id => String::new(),
                (Some(row), column) => column.cell(row),
            };
            let cell = match column {
                TableColumn::Queued => format!("{text:>wide$}"),
                TableColumn::Dir => fit_columns(&cut_front_to_columns(&text, *wide), *wide),
                _ if at + 1 == columns.len() => cut_to_columns(&text, *wide),
                TableColumn::Id
                | TableColumn::Name
                | TableColumn::Session
                | TableColumn::State
                | TableColumn::Age
                | TableColumn::Active
                | TableColumn::Tags
                | TableColumn::Branch
                | TableColumn::Model
                | TableColumn::Doing => fit_columns(&text, *wide),
            };
            line.push(" ".repeat(if at > 0 { GAP } else { 0 }));
            line.push(painted(*column, row, &cell, paper.colour));
        }
        SafeText::painted(TextStyle::Dim, line, row.is_none() && paper.colour)
    };
    std::iter::once(line(None)).chain(rows.iter().map(|row| line(Some(row)))).collect()
}

/// Draws the same columns for all sessions, for programs that cut columns and for files that are compared.
fn draw_whole(rows: &[ListingRow], colour: bool) -> Vec<SafeText> {
    let is_tree = rows.iter().any(|row| !row.lines.is_empty());
    let first =
        if is_tree { [TableColumn::Session, TableColumn::Id] } else { [TableColumn::Id, TableColumn::Name] };
    let columns: Vec<TableColumn> = first.into_iter().chain(REST).collect();
    let cell = |column: TableColumn, row: &ListingRow| match column.cell(row) {
        empty if empty.is_empty() => "-".to_owned(),
        text => text,
    };
    let widest = |column: TableColumn| {
        rows.iter().map(|row| column_width(&cell(column, row))).max().unwrap_or(0).max(column.head().len())
    };
    let widths: Vec<usize> = columns.iter().map(|column| widest(*column)).collect();
    let line = |row: Option<&ListingRow>| {
        let cells = columns.iter().zip(&widths).map(|(column, wide)| {
            let text = row.map_or_else(|| column.head().to_owned(), |row| cell(*column, row));
            let text = if *column == TableColumn::Doing { text } else { fit_columns(&text, *wide) };
            painted(*column, row, &text, colour)
        });
        SafeText::joined(cells, &" ".repeat(GAP))
    };
    std::iter::once(line(None)).chain(rows.iter().map(|row| line(Some(row)))).collect()
}

fn painted(column: TableColumn, row: Option<&ListingRow>, cell: &str, colour: bool) -> SafeText {
    match row {
        Some(row) if column == TableColumn::State => SafeText::painted(row.paint, cell, colour),
        Some(_) | None => cell.into(),
    }
}

/// The columns that fit, with the width of each.
fn columns(rows: &[ListingRow], room: usize) -> Vec<(TableColumn, usize)> {
    let state = TableColumn::State.natural(rows);
    // Names differ at their beginnings; the activity is worth as much room.
    let session = TableColumn::Session.natural(rows).min((room / 3).max(12)).min(room);
    let mut chosen = vec![(TableColumn::Session, session)];
    let mut left = room - session;
    let mut takes = |column: TableColumn, wide: usize, least_left: usize| {
        if left < GAP + wide + least_left {
            return false;
        }
        left -= GAP + wide;
        chosen.push((column, wide));
        true
    };
    if !takes(TableColumn::State, state, 0) {
        return chosen;
    }
    let doing = TableColumn::Doing.natural(rows);
    // The most important columns first, each with the room that must be left for the activity.
    let wishes = [
        (TableColumn::Active, 12),
        (TableColumn::Queued, 16),
        (TableColumn::Tags, 20),
        (TableColumn::Branch, 22),
        (TableColumn::Age, 24),
        (TableColumn::Model, 28),
        (TableColumn::Id, 30),
        (TableColumn::Dir, 36),
    ];
    for (column, least) in wishes.into_iter().filter(|(column, _)| column.is_telling(rows)) {
        takes(column, column.natural(rows), GAP + doing.min(least));
    }
    if left >= GAP + LEAST_DOING {
        chosen.push((TableColumn::Doing, left - GAP));
    }
    let order = |wanted: TableColumn| {
        [TableColumn::Session, TableColumn::Id].into_iter().chain(REST).position(|it| it == wanted)
    };
    chosen.sort_by_key(|(column, _)| order(*column));
    chosen
}

#[cfg(test)]
mod tests;
