//! Draws the preview: a screen or a conversation, and an open question.

use berth_api::turn::{AgentQuestion, QuestionOptionKind};
use berth_api::{Problem, SessionState, TurnState};
use ratatui::buffer::Buffer;
use ratatui::text::{Line, Span};

use super::super::layout::DashboardLayout;
use super::super::model::DashboardModel;
use super::super::preview::{PreviewContent, PreviewScreen};
use super::super::preview_transcript::{PreviewPart, PreviewTranscript, PreviewTurn};
use super::super::row::{DashboardRow, RowStatus};
use super::wrap::{plain, wrap};
use super::{ViewStyle, details};
use crate::print;
use crate::question_replies;
use crate::session_row::directory_text;
use crate::text_width::{column_width as width_of, cut_to_columns};

/// How many lines of a long prompt are shown: the answer is more important.
const MOST_PROMPT_LINES: usize = 8;

/// Draws the title and the contents: the end of them, or the part that the user scrolled to.
pub(super) fn draw(
    model: &mut DashboardModel,
    look: ViewStyle,
    layout: &DashboardLayout,
    buffer: &mut Buffer,
) {
    let title = title(model, look, usize::from(layout.title.width));
    buffer.set_line(layout.title.x, layout.title.y, &title, layout.title.width);
    let lines = lines(model, look, usize::from(layout.preview.width));
    let height = usize::from(layout.preview.height);
    let most = lines.len().saturating_sub(height);
    let rest = resting_place(model, most, height);
    let first = rest.saturating_add_signed(model.scrolled.saturating_neg()).min(most);
    // Scrolling beyond an end must cost no extra key on the way back.
    model.scrolled = rest.cast_signed() - first.cast_signed();
    for (line, y) in lines.iter().skip(first).take(height).zip(layout.preview.top()..) {
        buffer.set_line(layout.preview.x, y, line, layout.preview.width);
    }
    if first < most && height > 0 {
        let more = format!(" {} more below ", most - first);
        let x = layout.preview.right().saturating_sub(u16::try_from(more.len()).unwrap_or(0));
        buffer.set_string(x.max(layout.preview.x), layout.preview.bottom() - 1, more, look.accent());
    }
}

/// The first line shown without scrolling: that of the end, unless a terminal's cursor is further up.
fn resting_place(model: &DashboardModel, most: usize, height: usize) -> usize {
    if model.with_details {
        return 0;
    }
    match model.preview.as_ref().map(|preview| &preview.content) {
        Some(PreviewContent::Screen(PreviewScreen { cursor_row: Some(row), .. })) => {
            most.min(row.saturating_sub(height / 2))
        }
        Some(
            PreviewContent::Screen(PreviewScreen { cursor_row: None, .. })
            | PreviewContent::Talk(_)
            | PreviewContent::Trouble(_),
        )
        | None => most,
    }
}

fn title(model: &DashboardModel, look: ViewStyle, width: usize) -> Line<'static> {
    let Some(row) = model.selected() else { return Line::default() };
    let mut about = Vec::new();
    if let Some(status) = row.status() {
        about.push(status.what.agent.clone().unwrap_or_else(|| status.what.driver.clone()));
        about.push(directory_text(status));
        if let Some(writer) = &status.writer {
            about.push(format!("attached: {}", writer.holder.place));
        }
        about.extend(status.tags.iter().map(|tag| format!("#{tag}")));
    }
    let remark = model.preview.as_ref().and_then(|preview| preview.remark.clone());
    about.extend(remark);
    let name = row.handle();
    let rest = plain(&format!(" {}", about.join(" · "))).replace('\n', " ");
    let room = width.saturating_sub(3 + width_of(&name) + 1);
    let rest = cut_to_columns(&rest, room);
    let dashes = room.saturating_sub(width_of(&rest));
    Line::from(vec![
        Span::styled("── ", look.dim()),
        Span::styled(name, look.bold()),
        Span::styled(rest, look.dim()),
        Span::styled(format!(" {}", "─".repeat(dashes)), look.dim()),
    ])
}

fn lines(model: &DashboardModel, look: ViewStyle, width: usize) -> Vec<Line<'static>> {
    let Some(row) = model.selected() else { return vec![] };
    if let RowStatus::Damaged(problem) = &row.known {
        return trouble(problem, look, width);
    }
    let content = model.preview.as_ref().map(|preview| &preview.content);
    let mut lines = match content {
        _ if model.with_details && row.status().is_some() => details::lines(model, row, look, width),
        None => vec![],
        Some(PreviewContent::Screen(screen)) => {
            screen.lines.iter().map(|line| without_colour(line, look)).collect()
        }
        Some(PreviewContent::Talk(transcript)) => talk(transcript, look, width),
        Some(PreviewContent::Trouble(problem)) => trouble(problem, look, width),
    };
    // While the user answers a question, exactly that one is shown, even if others came.
    let (asks, chosen) = match model.question().filter(|(of, ..)| **of == row.id) {
        Some((_, ask, _, chosen)) => (std::slice::from_ref(ask), chosen),
        None => (row.asks(), [].as_slice()),
    };
    for ask in asks {
        lines.extend(question(ask, chosen, look, width));
    }
    if lines.is_empty() && model.preview.is_some() {
        lines.push(Line::styled(nothing_to_see(row), look.dim()));
    }
    lines
}

fn nothing_to_see(row: &DashboardRow) -> String {
    if row.takes_turns() {
        format!("nothing was said yet: m sends {} a message", row.handle())
    } else {
        "the screen is empty".to_owned()
    }
}

fn without_colour(line: &Line<'static>, look: ViewStyle) -> Line<'static> {
    if look.colour {
        return line.clone();
    }
    let mut line = line.clone();
    for span in &mut line.spans {
        (span.style.fg, span.style.bg) = (None, None);
    }
    line
}

fn trouble(problem: &Problem, look: ViewStyle, width: usize) -> Vec<Line<'static>> {
    let mut lines: Vec<Line> =
        wrap(&problem.what, width).into_iter().map(|line| Line::styled(line, look.problem())).collect();
    if let Some(hint) = &problem.hint {
        lines.push(Line::default());
        lines.extend(wrap(hint, width).into_iter().map(Line::raw));
    }
    lines
}

fn talk(transcript: &PreviewTranscript, look: ViewStyle, width: usize) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    for turn in &transcript.turns {
        lines.extend(one_turn(turn, look, width));
    }
    // The last line is blank and would waste a row.
    lines.pop();
    lines
}

fn one_turn(turn: &PreviewTurn, look: ViewStyle, width: usize) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    let mut prompt = wrap(turn.prompt.trim_end(), width.saturating_sub(2));
    let more = prompt.len().saturating_sub(MOST_PROMPT_LINES);
    if more > 1 {
        prompt.truncate(MOST_PROMPT_LINES);
        prompt.push(format!("… {more} more lines"));
    }
    for (at, line) in prompt.into_iter().enumerate() {
        let mark = if at == 0 { "> " } else { "  " };
        lines.push(Line::from(vec![Span::styled(mark, look.accent()), Span::styled(line, look.bold())]));
    }
    for part in &turn.parts {
        match part {
            PreviewPart::Said(text) => lines.extend(wrap(text.trim_end(), width).into_iter().map(Line::raw)),
            PreviewPart::Did(what) => {
                lines.push(Line::styled(
                    format!("  · {}", cut_to_columns(what, width.saturating_sub(4))),
                    look.dim(),
                ));
            }
        }
    }
    let end = match turn.state {
        TurnState::Done | TurnState::Working | TurnState::Delivered => None,
        TurnState::Queued => Some("waits in the queue".to_owned()),
        state @ (TurnState::Failed | TurnState::Cancelled | TurnState::Interrupted | TurnState::Unknown) => {
            Some(match &turn.reason {
                Some(reason) => format!("{state}: {}", print::first_words(reason, 300)),
                None => state.to_string(),
            })
        }
    };
    if let Some(end) = end {
        let style = if turn.state == TurnState::Failed { look.problem() } else { look.dim() };
        lines.extend(wrap(&format!("[{end}]"), width).into_iter().map(|line| Line::styled(line, style)));
    }
    lines.push(Line::default());
    lines
}

/// A question in full, with the possible answers.
fn question(ask: &AgentQuestion, chosen: &[usize], look: ViewStyle, width: usize) -> Vec<Line<'static>> {
    let mut lines = vec![Line::default()];
    let asks = format!("? {}", question_replies::question_headline(ask));
    lines.push(Line::styled(cut_to_columns(&asks, width), look.needs_you()));
    for line in wrap(ask.detail.trim_end(), width.saturating_sub(4)) {
        lines.push(Line::from(vec![Span::raw("    "), Span::styled(line, look.bold())]));
    }
    for (at, option) in ask.options.iter().enumerate() {
        let kind = match option.kind {
            QuestionOptionKind::AllowOnce | QuestionOptionKind::AllowAlways => {
                look.state(&SessionState::Working)
            }
            QuestionOptionKind::RejectOnce | QuestionOptionKind::RejectAlways => look.problem(),
            QuestionOptionKind::Other => look.accent(),
        };
        let mark = match (ask.several, chosen.contains(&at)) {
            (false, _) => "",
            (true, false) => "[ ] ",
            (true, true) => "[x] ",
        };
        let name = print::first_words(&option.name, width.saturating_sub(5 + mark.len()));
        lines.push(Line::from(vec![
            Span::styled(format!("  {} ", at + 1), kind),
            Span::raw(mark),
            Span::raw(name),
        ]));
    }
    lines
}
