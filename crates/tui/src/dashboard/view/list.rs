//! Draws the list of sessions, or a text if there are none.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::super::layout::DashboardLayout;
use super::super::model::DashboardModel;
use super::super::row::DashboardRow;
use super::ViewStyle;
use super::wrap::plain;
use crate::print;
use crate::text_width::{column_width as width_of, cut_to_columns, fit_columns};

/// The widest state.
const STATE_WIDTH: usize = 11;
/// The narrowest and widest column of names.
const NAME_WIDTHS: (usize, usize) = (6, 24);
/// A longer queue is shown as this number and a plus.
const MOST_QUEUED: usize = 99;

/// Draws the rows that are in view.
pub(super) fn draw(model: &DashboardModel, look: ViewStyle, layout: &DashboardLayout, buffer: &mut Buffer) {
    let area = layout.list;
    if area.height == 0 {
        return;
    }
    if model.rows().len() == 0 {
        return nothing(model, look, area, buffer);
    }
    let width = usize::from(area.width);
    let longest = model.rows().map(|row| width_of(&row.handle())).max().unwrap_or(0);
    // Names take a third of the width at most.
    let name_width = longest.clamp(NAME_WIDTHS.0, NAME_WIDTHS.1).min((width / 3).max(NAME_WIDTHS.0));
    let place = model.place();
    let rows = model.rows().enumerate().skip(model.top).take(layout.rows());
    for ((at, row), y) in rows.zip((area.top()..).step_by(usize::from(layout.row_height))) {
        let selected = place == Some(at);
        let lines = if layout.row_height == 1 {
            vec![wide(model, row, look, selected, width, name_width)]
        } else {
            tall(model, row, look, selected, width)
        };
        for (line, y) in lines.iter().zip(y..area.bottom()) {
            buffer.set_line(area.x, y, line, area.width);
        }
    }
    more(model, look, layout, buffer);
}

/// How many sessions are above and below those in view.
fn more(model: &DashboardModel, look: ViewStyle, layout: &DashboardLayout, buffer: &mut Buffer) {
    if layout.more.height == 0 {
        return;
    }
    let below = model.rows().len().saturating_sub(model.top + layout.rows());
    let words: Vec<String> = [("↑", model.top), ("↓", below)]
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .map(|(arrow, count)| format!("{arrow} {count} more"))
        .collect();
    let line = Line::styled(format!("  {}", words.join("  ")), look.accent());
    buffer.set_line(layout.more.x, layout.more.y, &line, layout.more.width);
}

/// A row on one line.
fn wide(
    model: &DashboardModel,
    row: &DashboardRow,
    look: ViewStyle,
    selected: bool,
    width: usize,
    name_width: usize,
) -> Line<'static> {
    let age = fill_left(&age(model, row), 4);
    let queue = fill_left(&queue(row), 3);
    let memory = fill_left(&memory(row), 5);
    // Marker, state, name, activity, queue, memory, age. A narrow list keeps the most important ones.
    let fixed = 2 + STATE_WIDTH + 1 + name_width + 1;
    let right = 1 + queue.len() + 1 + memory.len() + 1 + age.len();
    let room = width.saturating_sub(fixed + right);
    let activity_style = if row.needs_you() { look.needs_you() } else { look.dim() };
    let mut spans = vec![
        mark(look, selected),
        Span::styled(fit_columns(&row.state().to_string(), STATE_WIDTH + 1), look.row(row)),
        Span::styled(fit_columns(&row.handle(), name_width + 1), name_style(look, selected)),
        Span::styled(fit_columns(&row.activity(), room), activity_style),
    ];
    spans.push(Span::styled(format!(" {queue} "), look.accent()));
    spans.push(Span::styled(format!("{memory} {age}"), look.dim()));
    Line::from(spans)
}

/// A row on two lines, for a phone.
fn tall(
    model: &DashboardModel,
    row: &DashboardRow,
    look: ViewStyle,
    selected: bool,
    width: usize,
) -> Vec<Line<'static>> {
    let state_width = width_of(&row.state().to_string()).max("needs-you".len()) + 1;
    let left = width.saturating_sub(2 + state_width);
    let name_needs = width_of(&row.handle()).min(NAME_WIDTHS.0);
    let mut right = String::new();
    // The name has the first claim on the room, then the age, then the others.
    for fact in [age(model, row), queue(row), memory(row)].iter().filter(|fact| !fact.is_empty()) {
        if name_needs + 1 + width_of(fact) + width_of(&right) <= left {
            right = format!(" {fact}{right}");
        }
    }
    let room = left.saturating_sub(width_of(&right));
    let first = Line::from(vec![
        mark(look, selected),
        Span::styled(fit_columns(&row.state().to_string(), state_width), look.row(row)),
        Span::styled(fit_columns(&row.handle(), room), name_style(look, selected)),
        Span::styled(right, look.dim()),
    ]);
    let style = if row.needs_you() { look.needs_you() } else { look.dim() };
    let second = Line::from(vec![
        Span::raw("  "),
        Span::styled(cut_to_columns(&row.activity(), width.saturating_sub(2)), style),
    ]);
    vec![first, second]
}

fn mark(look: ViewStyle, selected: bool) -> Span<'static> {
    if selected { Span::styled("› ", look.accent().patch(look.bold())) } else { Span::raw("  ") }
}

fn name_style(look: ViewStyle, selected: bool) -> Style {
    if selected { look.bold() } else { Style::default() }
}

/// Time since the last activity.
fn age(model: &DashboardModel, row: &DashboardRow) -> String {
    match row.last_activity_at() {
        0 => String::new(),
        at => {
            let ms = model.now_ms().saturating_sub(at);
            if ms < 1000 { "now".to_owned() } else { print::describe_age(ms) }
        }
    }
}

fn queue(row: &DashboardRow) -> String {
    match row.queued() {
        0 => String::new(),
        count if count > MOST_QUEUED => format!("+{MOST_QUEUED}"),
        count => format!("+{count}"),
    }
}

/// Memory of a session, short enough for a column: 180M, 1.2G.
fn memory(row: &DashboardRow) -> String {
    let Some(bytes) = row.memory_bytes else { return String::new() };
    let mib = bytes.div_ceil(1 << 20);
    if mib < 1000 { format!("{mib}M") } else { format!("{}.{}G", mib / 1024, mib % 1024 * 10 / 1024) }
}

fn fill_left(text: &str, width: usize) -> String {
    let text = cut_to_columns(text, width);
    let missing = width.saturating_sub(width_of(&text));
    format!("{}{text}", " ".repeat(missing))
}

/// The text in place of an empty list.
fn nothing(model: &DashboardModel, look: ViewStyle, area: Rect, buffer: &mut Buffer) {
    let mut lines: Vec<Line<'static>> = Vec::new();
    if !model.is_loaded {
        lines.push(Line::styled("looking …", look.dim()));
    } else if !model.filter.text().trim().is_empty() {
        let what = format!("nothing matches `{}`", plain(model.filter.text()));
        lines.push(Line::raw(what));
        lines.push(Line::styled("Esc shows everything again", look.dim()));
    } else if !model.is_empty() {
        lines.push(Line::raw("nothing runs, and nothing stopped in the last day"));
        lines.push(Line::styled(". shows what is older", look.dim()));
    } else {
        lines.push(Line::styled("No sessions yet. Start one:", look.bold()));
        lines.push(Line::raw(""));
        for (command, what) in [
            ("berth run -- claude", "its own interface"),
            ("berth run --agent claude", "an agent that takes turns"),
            ("berth demo", "see what berth does"),
        ] {
            let mut spans = vec![Span::styled(format!("  {}", fit_columns(command, 26)), look.accent())];
            if area.width >= 60 {
                spans.push(Span::styled(what, look.dim()));
            }
            lines.push(Line::from(spans));
        }
        lines.push(Line::raw(""));
        lines.push(Line::styled("It appears here by itself.", look.dim()));
    }
    for (line, y) in lines.iter().zip(area.top() + 1..area.bottom()) {
        buffer.set_line(area.x + 2, y, line, area.width.saturating_sub(2));
    }
}
