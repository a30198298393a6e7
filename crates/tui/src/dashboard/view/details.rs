//! Draws the details of the selected session, in place of its preview.

use ratatui::text::{Line, Span};

use super::super::model::DashboardModel;
use super::super::row::DashboardRow;
use super::ViewStyle;
use super::wrap::wrap;
use crate::print;
use crate::session_row::{age_text, directory_text};
use crate::text_width::{fit_columns, one_line};

/// The widest label, with the gap to its value.
const LABEL_WIDTH: usize = 12;

/// At least one line for each known fact.
pub(super) fn lines(
    model: &DashboardModel,
    row: &DashboardRow,
    look: ViewStyle,
    width: usize,
) -> Vec<Line<'static>> {
    let Some(status) = row.status() else { return vec![] };
    let now = model.now_ms();
    let since = |at| format!("{} ago", age_text(at, now));
    let some = |text: &Option<String>| text.clone().unwrap_or_default();
    let turns = status.turns.as_ref();
    let typing = status.writer.as_ref().map(|writer| format!(", attached: {}", writer.holder.place));
    let facts = [
        ("state", format!("{} · {}", row.state(), row.activity())),
        ("directory", directory_text(status)),
        ("branch", some(&status.branch)),
        ("agent", some(&status.what.agent)),
        ("model", some(&status.model)),
        ("context", status.context.map(|context| context.to_string()).unwrap_or_default()),
        ("prompt", some(&status.last_prompt)),
        ("answer", some(&status.last_answer)),
        (
            "queue",
            turns
                .map(|turns| format!("{} wait", turns.queued.len()))
                .filter(|_| row.queued() > 0)
                .unwrap_or_default(),
        ),
        ("held", turns.and_then(|turns| turns.held.clone()).unwrap_or_default()),
        ("tags", status.tags.join(" ")),
        ("note", some(&status.note)),
        ("ended", print::exit_summary(status).unwrap_or_default()),
        ("made", format!("{}, run {}", since(status.created_at), status.epoch)),
        ("last active", since(status.last_activity_at)),
        ("attached", format!("{}{}", status.clients, typing.unwrap_or_default())),
        ("command", print::command_line(&status.what.command, 300)),
        ("id", status.id.clone()),
    ];
    let room = width.saturating_sub(LABEL_WIDTH).max(1);
    let fact = |(label, text): (&'static str, String)| {
        let text = if text.is_empty() { vec![] } else { wrap(&one_line(&text), room) };
        text.into_iter().enumerate().map(move |(at, text)| {
            let label = if at == 0 { label } else { "" };
            Line::from(vec![Span::styled(fit_columns(label, LABEL_WIDTH), look.dim()), Span::raw(text)])
        })
    };
    facts.into_iter().flat_map(fact).collect()
}
