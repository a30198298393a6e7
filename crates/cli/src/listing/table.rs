//! Lines about sessions that fit.
//!
//! Promise: on a terminal no line is wider than it is; what matters least goes first, and nothing ever wraps.
//! Anywhere else the columns are always the same and nothing is cut.
//! Start with [`draw`].

use super::row::Row;
use crate::visible::{Paint, Visible};
use crate::width::{cut, cut_front, fitted, width};

/// Between two columns.
const GAP: usize = 2;
/// Fewer columns say nothing about what a session does.
const LEAST_DOING: usize = 8;
/// The widest these may be on a terminal.
const WIDEST_TAGS: usize = 20;
const WIDEST_DIR: usize = 40;
const WIDEST_LABEL: usize = 24;

/// What the lines are for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Paper {
    /// How wide it is; without an end if `None`.
    pub(crate) columns: Option<usize>,
    pub(crate) colour: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Column {
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

/// The order of what comes behind the session and its id, on a terminal and off it.
const REST: [Column; 9] = [
    Column::State,
    Column::Age,
    Column::Active,
    Column::Queued,
    Column::Tags,
    Column::Dir,
    Column::Branch,
    Column::Model,
    Column::Doing,
];

impl Column {
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

    fn cell(self, row: &Row) -> String {
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

    /// As wide as what is in it, but not too wide.
    fn natural(self, rows: &[Row]) -> usize {
        let widest = rows.iter().map(|row| width(&self.cell(row))).max().unwrap_or(0).max(self.head().len());
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

    /// Whether it tells anything that is not in another one.
    fn is_telling(self, rows: &[Row]) -> bool {
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

/// The lines, a head first. None if there is nothing to say.
pub(crate) fn draw(rows: &[Row], paper: Paper) -> Vec<Visible> {
    if rows.is_empty() {
        return Vec::new();
    }
    let Some(room) = paper.columns else { return draw_whole(rows, paper.colour) };
    let mark = if rows.iter().any(|row| row.is_current) { GAP } else { 0 };
    let columns = columns(rows, room.saturating_sub(mark));
    let line = |row: Option<&Row>| {
        let mut line = match row {
            _ if mark == 0 => Visible::default(),
            Some(row) if row.is_current => Visible::from("@ "),
            Some(_) | None => Visible::from("  "),
        };
        for (at, (column, wide)) in columns.iter().enumerate() {
            let text = match (row, column) {
                (None, column) => column.head().to_owned(),
                // Who has no name is called by the id already.
                (Some(row), Column::Id) if row.session == row.id => String::new(),
                (Some(row), column) => column.cell(row),
            };
            let cell = match column {
                Column::Queued => format!("{text:>wide$}"),
                Column::Dir => fitted(&cut_front(&text, *wide), *wide),
                _ if at + 1 == columns.len() => cut(&text, *wide),
                Column::Id
                | Column::Name
                | Column::Session
                | Column::State
                | Column::Age
                | Column::Active
                | Column::Tags
                | Column::Branch
                | Column::Model
                | Column::Doing => fitted(&text, *wide),
            };
            line.push(" ".repeat(if at > 0 { GAP } else { 0 }));
            line.push(painted(*column, row, &cell, paper.colour));
        }
        Visible::painted(Paint::Dim, line, row.is_none() && paper.colour)
    };
    std::iter::once(line(None)).chain(rows.iter().map(|row| line(Some(row)))).collect()
}

/// Always the same columns, whatever is in them, for programs that cut and for files that are compared.
fn draw_whole(rows: &[Row], colour: bool) -> Vec<Visible> {
    let is_tree = rows.iter().any(|row| !row.lines.is_empty());
    let first = if is_tree { [Column::Session, Column::Id] } else { [Column::Id, Column::Name] };
    let columns: Vec<Column> = first.into_iter().chain(REST).collect();
    let cell = |column: Column, row: &Row| match column.cell(row) {
        empty if empty.is_empty() => "-".to_owned(),
        text => text,
    };
    let widest = |column: Column| {
        rows.iter().map(|row| width(&cell(column, row))).max().unwrap_or(0).max(column.head().len())
    };
    let widths: Vec<usize> = columns.iter().map(|column| widest(*column)).collect();
    let line = |row: Option<&Row>| {
        let cells = columns.iter().zip(&widths).map(|(column, wide)| {
            let text = row.map_or_else(|| column.head().to_owned(), |row| cell(*column, row));
            let text = if *column == Column::Doing { text } else { fitted(&text, *wide) };
            painted(*column, row, &text, colour)
        });
        Visible::joined(cells, &" ".repeat(GAP))
    };
    std::iter::once(line(None)).chain(rows.iter().map(|row| line(Some(row)))).collect()
}

fn painted(column: Column, row: Option<&Row>, cell: &str, colour: bool) -> Visible {
    match row {
        Some(row) if column == Column::State => Visible::painted(row.paint, cell, colour),
        Some(_) | None => cell.into(),
    }
}

/// Which columns there is room for, and how wide each may be.
fn columns(rows: &[Row], room: usize) -> Vec<(Column, usize)> {
    let state = Column::State.natural(rows);
    // Names are told apart by their beginnings; what a session does is worth as much room.
    let session = Column::Session.natural(rows).min((room / 3).max(12)).min(room);
    let mut chosen = vec![(Column::Session, session)];
    let mut left = room - session;
    let mut takes = |column: Column, wide: usize, least_left: usize| {
        if left < GAP + wide + least_left {
            return false;
        }
        left -= GAP + wide;
        chosen.push((column, wide));
        true
    };
    if !takes(Column::State, state, 0) {
        return chosen;
    }
    let doing = Column::Doing.natural(rows);
    // What matters most first, with the room that must be left for what a session does.
    let wishes = [
        (Column::Active, 12),
        (Column::Queued, 16),
        (Column::Tags, 20),
        (Column::Branch, 22),
        (Column::Age, 24),
        (Column::Model, 28),
        (Column::Id, 30),
        (Column::Dir, 36),
    ];
    for (column, least) in wishes.into_iter().filter(|(column, _)| column.is_telling(rows)) {
        takes(column, column.natural(rows), GAP + doing.min(least));
    }
    if left >= GAP + LEAST_DOING {
        chosen.push((Column::Doing, left - GAP));
    }
    let order =
        |wanted: Column| [Column::Session, Column::Id].into_iter().chain(REST).position(|it| it == wanted);
    chosen.sort_by_key(|(column, _)| order(*column));
    chosen
}

#[cfg(test)]
mod tests;
