//! Draws the dashboard: the model in, cells out.
//!
//! Promise: only characters are drawn, in sixteen colours and on the terminal's own background (a session's screen
//! keeps its colours). The picture can be read on light and dark backgrounds, and without colours.
//! Not here: positions (`layout`), data (`model`).
//! Start with [`draw`].

mod details;
mod footer;
mod form;
mod list;
mod panel;
mod preview;
mod wrap;

use berth_api::SessionState;
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

use super::model::{DashboardMode, DashboardModel};
use super::row::{DashboardRow, RowState};

/// Colours on or off, and the styles made from that.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ViewStyle {
    pub(crate) colour: bool,
}

impl ViewStyle {
    fn fg(self, colour: Color) -> Style {
        if self.colour { Style::default().fg(colour) } else { Style::default() }
    }

    pub(crate) fn dim(self) -> Style {
        Style::default().add_modifier(Modifier::DIM)
    }

    pub(crate) fn bold(self) -> Style {
        Style::default().add_modifier(Modifier::BOLD)
    }

    pub(crate) fn accent(self) -> Style {
        self.fg(Color::Cyan)
    }

    pub(crate) fn problem(self) -> Style {
        self.fg(Color::Red)
    }

    pub(crate) fn needs_you(self) -> Style {
        self.fg(Color::Magenta).add_modifier(Modifier::BOLD)
    }

    /// The colour of a state; the words alone say the state too.
    pub(crate) fn state(self, state: &SessionState) -> Style {
        match state {
            SessionState::NeedsYou => self.needs_you(),
            SessionState::Running | SessionState::Working => self.fg(Color::Green),
            SessionState::Starting | SessionState::Stopping => self.fg(Color::Yellow),
            SessionState::Lost => self.problem(),
            SessionState::Idle | SessionState::Stopped => self.dim(),
            SessionState::Archived | SessionState::Other(_) => self.dim(),
        }
    }

    /// The colour of a session's state; a failed run has the colour of a problem.
    pub(crate) fn row(self, row: &DashboardRow) -> Style {
        match row.state() {
            RowState::Of(state) if !row.is_failed() => self.state(&state),
            RowState::Of(_) | RowState::Damaged | RowState::Unreachable => self.problem(),
        }
    }
}

/// Draws everything. Gives the position of the cursor, if it is shown.
pub(crate) fn draw(model: &mut DashboardModel, look: ViewStyle, buffer: &mut Buffer) -> Option<Position> {
    let area = buffer.area;
    let footer = footer::lines(model, look, area.width);
    model.footer_height = u16::try_from(footer.lines.len()).unwrap_or(1).max(1);
    let Some(layout) = model.layout() else {
        too_small(area, buffer);
        return None;
    };
    header(model, look, layout.header, buffer);
    list::draw(model, look, &layout, buffer);
    for y in layout.divider.top()..layout.divider.bottom() {
        buffer.set_string(layout.divider.x, y, "│", look.dim());
    }
    if layout.preview.height > 0 {
        preview::draw(model, look, &layout, buffer);
    }
    let over = Rect { y: 1, height: area.height - 1 - layout.footer.height, ..area };
    let mut cursor = None;
    match (&model.mode, &model.panel, &model.form) {
        (DashboardMode::Help, ..) => footer::help(look, over, buffer),
        (DashboardMode::New, _, Some(new)) => cursor = form::draw(new, look, over, buffer),
        (_, Some(open), _) => panel::draw(model, open, look, over, buffer),
        _ => {}
    }
    // The beginning is cut off, because the cursor is at the end.
    let skipped = footer.lines.len().saturating_sub(usize::from(layout.footer.height));
    for (line, y) in footer.lines.iter().skip(skipped).zip(layout.footer.top()..) {
        buffer.set_line(layout.footer.x, y, line, layout.footer.width);
    }
    cursor.or(footer.cursor.map(|(column, line)| Position {
        x: layout.footer.x + column.min(layout.footer.width.saturating_sub(1)),
        y: layout.footer.y + u16::try_from(usize::from(line).saturating_sub(skipped)).unwrap_or(0),
    }))
}

/// Blanks a part of the screen.
fn clear(area: Rect, buffer: &mut Buffer) {
    for y in area.top()..area.bottom() {
        buffer.set_string(area.x, y, " ".repeat(usize::from(area.width)), Style::reset());
    }
}

/// Draws a sentence in place of the dashboard where the area is too small.
fn too_small(area: Rect, buffer: &mut Buffer) {
    let lines = wrap::wrap("berth needs 20×6 or more", usize::from(area.width).max(1));
    for (line, y) in lines.iter().zip(area.top()..area.bottom()) {
        buffer.set_stringn(area.x, y, line, usize::from(area.width), Style::default());
    }
}

fn header(model: &DashboardModel, look: ViewStyle, area: Rect, buffer: &mut Buffer) {
    let mut spans = vec![Span::styled("berth", look.bold())];
    let mut say = |count: usize, word: &str, style: Style| {
        if count > 0 {
            let between = if spans.len() == 1 { "  " } else { " · " };
            spans.push(Span::styled(between, look.dim()));
            spans.push(Span::styled(format!("{count} {word}"), style));
        }
    };
    let are = |states: &[SessionState]| {
        model.count(|row| matches!(row.state(), RowState::Of(state) if states.contains(&state)))
    };
    let needy = model.count(DashboardRow::needs_you);
    say(needy, if needy == 1 { "needs you" } else { "need you" }, look.needs_you());
    say(model.count(|row| row.rank() == 1), "in trouble", look.problem());
    say(are(&[SessionState::Working]), "working", look.state(&SessionState::Working));
    let running = [SessionState::Running, SessionState::Starting, SessionState::Stopping];
    say(are(&running), "running", look.state(&SessionState::Running));
    say(are(&[SessionState::Idle]), "idle", look.dim());
    say(are(&[SessionState::Stopped]), "stopped", look.dim());
    if model.hidden > 0 {
        say(model.hidden, "older (.)", look.dim());
    }
    let filter = model.filter.text();
    if !filter.is_empty() && model.mode != DashboardMode::Filter {
        spans.push(Span::styled(format!("  /{}", wrap::plain(filter)), look.accent()));
    }
    buffer.set_line(area.x, area.y, &Line::from(spans), area.width);
}

#[cfg(test)]
mod tests;
