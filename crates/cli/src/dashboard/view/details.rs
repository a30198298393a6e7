//! What is known about the selected session, in place of what it shows or says.

use ratatui::text::{Line, Span};

use super::super::model::Model;
use super::super::row::Row;
use super::Look;
use super::wrap::wrap;
use crate::listing::row::{ago, dir_of};
use crate::print;
use crate::width::{fitted, one_line};

/// The widest label, with what is between it and the rest.
const LABEL_WIDTH: usize = 12;

/// A line or more for each thing that is known.
pub(super) fn lines(model: &Model, row: &Row, look: Look, width: usize) -> Vec<Line<'static>> {
    let Some(status) = row.status() else { return vec![] };
    let now = model.now_ms();
    let since = |at| format!("{} ago", ago(at, now));
    let some = |text: &Option<String>| text.clone().unwrap_or_default();
    let turns = status.turns.as_ref();
    let typing = status.writer.as_ref().map(|writer| format!(", attached: {}", writer.holder.place));
    let facts = [
        ("state", format!("{} · {}", row.state(), row.activity())),
        ("directory", dir_of(status)),
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
        ("ended", print::ending(status).unwrap_or_default()),
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
            Line::from(vec![Span::styled(fitted(label, LABEL_WIDTH), look.dim()), Span::raw(text)])
        })
    };
    facts.into_iter().flat_map(fact).collect()
}
