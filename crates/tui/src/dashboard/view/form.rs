//! Draws the form for a new session.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use super::super::form::{FormField, NewSessionForm};
use super::footer::laid_out;
use super::wrap::plain;
use super::{ViewStyle, clear};
use crate::text_width::{cut_to_columns, fit_columns};

/// How many lines of a prompt are shown, around the cursor.
const MOST_LINES: usize = 6;
/// The widest label, with the gap to its field.
const LABEL_WIDTH: u16 = 11;

/// Draws the fields, and below them suggestions for the field with the cursor. Gives the position of the cursor.
pub(super) fn draw(
    form: &NewSessionForm,
    look: ViewStyle,
    area: Rect,
    buffer: &mut Buffer,
) -> Option<Position> {
    clear(area, buffer);
    let area = Rect { x: area.x + 1, width: area.width.saturating_sub(2), ..area };
    let room = usize::from(area.width.saturating_sub(LABEL_WIDTH + 1)).max(1);
    let mut lines = vec![Line::styled("New session", look.bold()), Line::default()];
    let mut cursor = None;
    for field in FormField::ALL {
        let is_active = form.field == field;
        let label = Span::styled(
            fit_columns(field.label(), usize::from(LABEL_WIDTH)),
            if is_active { look.accent().patch(look.bold()) } else { look.dim() },
        );
        let Some(text) = form.text(field) else {
            let style =
                if is_active { Style::default().add_modifier(Modifier::REVERSED) } else { Style::default() };
            let words = cut_to_columns(form.interface.words(), room);
            lines.push(Line::from(vec![label, Span::styled(words, style)]));
            continue;
        };
        let (mut written, (line, column)) = laid_out(text, room);
        let skipped = (line + 1).saturating_sub(MOST_LINES);
        written.drain(..skipped);
        written.truncate(MOST_LINES);
        if is_active {
            let at = |number: usize| u16::try_from(number).unwrap_or(u16::MAX);
            let (x, y) = (at(column), at(lines.len() + line - skipped));
            cursor = Some(Position { x: area.x + LABEL_WIDTH + x, y: area.y + y });
        }
        for (at, written) in written.into_iter().enumerate() {
            let label = if at == 0 { label.clone() } else { Span::raw(" ".repeat(usize::from(LABEL_WIDTH))) };
            lines.push(Line::from(vec![label, Span::raw(written)]));
        }
    }
    lines.push(Line::default());
    lines.extend(choices(form, look, usize::from(area.width)));
    for (line, y) in lines.iter().zip(area.top()..area.bottom()) {
        buffer.set_line(area.x, y, line, area.width);
    }
    cursor.filter(|cursor| area.contains(*cursor))
}

/// The purpose of a field, and its suggestions.
fn choices(form: &NewSessionForm, look: ViewStyle, width: usize) -> Vec<Line<'static>> {
    let about = match form.field {
        FormField::Agent => "An agent from the table, or a command:",
        FormField::Directory => "Where it works; sessions were here lately:",
        FormField::Interface => "The arrow keys choose: berth's chat, or the agent's own interface.",
        FormField::Prompt => "The first prompt; may be empty. Alt-Enter starts a new line.",
    };
    let mut lines = vec![Line::styled(cut_to_columns(about, width), look.dim())];
    let current = form.value(form.field);
    for one in form.suggestions() {
        let mark = if one.text == current { "› " } else { "  " };
        let text = plain(&one.text);
        let mut spans = vec![Span::styled(mark, look.accent())];
        if one.about.is_empty() {
            spans.push(Span::raw(cut_to_columns(&text, width.saturating_sub(2))));
        } else {
            spans.push(Span::raw(fit_columns(&text, 14)));
            spans
                .push(Span::styled(cut_to_columns(&plain(&one.about), width.saturating_sub(16)), look.dim()));
        }
        lines.push(Line::from(spans));
    }
    lines
}
