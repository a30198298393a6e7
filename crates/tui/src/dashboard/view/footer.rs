//! The lines at the bottom: available keys, a question, the text being written, an error.

use berth_api::turn::QuestionOptionKind;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::super::layout::{ActivePane, DashboardLayout};
use super::super::model::{DashboardMode, DashboardModel, DraftTarget, StatusLineMessage};
use super::super::panel::PanelKind;
use super::wrap::{plain, wrap};
use super::{ViewStyle, clear};
use crate::composer::Composer;
use crate::question_replies::FreeTextKind;
use crate::safe_text::SafeText;
use crate::text_width::{column_width as width_of, cut_to_columns, fit_columns};

/// The most lines that are shown of a text being written.
const MOST_LINES: usize = 6;

/// The footer, and the cursor in it.
pub(super) struct FooterLines {
    pub(super) lines: Vec<Line<'static>>,
    /// Column and line.
    pub(super) cursor: Option<(u16, u16)>,
}

pub(super) fn lines(model: &DashboardModel, look: ViewStyle, width: u16) -> FooterLines {
    let cols = usize::from(width).max(1);
    let mut footer = FooterLines { lines: Vec::new(), cursor: None };
    if let Some(message) = &model.message {
        footer.lines.extend(message_lines(message, look, cols));
    }
    match &model.mode {
        DashboardMode::Filter => write(&mut footer, "/", &model.filter, look, cols),
        DashboardMode::Write { what, text } => {
            footer.lines.push(Line::styled(cut_to_columns(&writing(model, what), cols), look.dim()));
            write(&mut footer, "> ", text, look, cols);
        }
        DashboardMode::New => {
            let keys = [("Tab", "next"), ("↑↓", "choose"), ("Enter", "next, then start"), ("Esc", "back")];
            footer.lines.push(key_line(&keys.map(|(key, what)| (key, what.to_owned())), look, cols));
        }
        DashboardMode::Panel if footer.lines.is_empty() => footer.lines.push(panel_keys(model, look, cols)),
        DashboardMode::Panel => {}
        DashboardMode::Confirm { question, .. } => {
            let mut spans = vec![Span::styled(plain(question), look.bold())];
            spans.extend([Span::raw("  "), Span::styled("y", look.accent()), Span::raw(" yes  ")]);
            spans.extend([Span::styled("n", look.accent()), Span::raw(" no")]);
            footer.lines.push(Line::from(spans));
        }
        DashboardMode::Answer { .. } if !model.takes_answer() => {
            let keys = [("Esc", "later".to_owned())];
            let mut line = Line::styled("read the question first  ", look.dim());
            line.spans.extend(key_line(&keys, look, cols.saturating_sub(line.width())).spans);
            footer.lines.push(line);
        }
        DashboardMode::Answer { ask, .. } => {
            let mut keys = Vec::new();
            let has = |kinds: [QuestionOptionKind; 2]| {
                ask.options.iter().any(|option| kinds.contains(&option.kind))
            };
            if has([QuestionOptionKind::AllowOnce, QuestionOptionKind::AllowAlways]) {
                keys.push(("y", "allow".to_owned()));
            }
            if has([QuestionOptionKind::RejectOnce, QuestionOptionKind::RejectAlways]) {
                keys.push(("n", "deny".to_owned()));
            }
            let numbers = ask.options.len().min(9);
            let numbers = if numbers > 1 { format!("1-{numbers}") } else { "1".to_owned() };
            if !ask.options.is_empty() {
                let what = if ask.several { "choose" } else { "the answer of that number" };
                keys.push((&numbers, what.to_owned()));
            }
            if ask.several {
                keys.push(("Enter", "answer".to_owned()));
            }
            if let Some(words) = FreeTextKind::of(ask) {
                keys.push(("t", words.label().to_owned()));
            }
            keys.push(("Esc", "later".to_owned()));
            footer.lines.push(key_line(&keys, look, cols));
        }
        DashboardMode::Help => footer.lines.push(Line::styled("any key closes this", look.dim())),
        DashboardMode::Browse if footer.lines.is_empty() => footer.lines.push(browse(model, look, cols)),
        DashboardMode::Browse => {}
    }
    footer
}

/// The purpose of the text being written, and the keys that send it.
fn writing(model: &DashboardModel, what: &DraftTarget) -> String {
    let handle = model.handle_of(what.id());
    match what {
        DraftTarget::Message { to } => {
            let is_terminal = model.row(to).is_some_and(|row| !row.can_be_sent_to());
            let verb = if is_terminal { "type into" } else { "send to" };
            format!("{verb} {handle}  Enter sends · Alt-Enter new line · Esc puts it aside")
        }
        DraftTarget::Name { .. } => format!("rename {handle}  Enter renames · Esc leaves it"),
        DraftTarget::Copy { .. } => {
            format!("fork {handle}: name of the copy, or nothing  Enter forks · Esc leaves it")
        }
        DraftTarget::Note { .. } => {
            format!("note of {handle}  Enter keeps it, an empty one removes it · Esc leaves it")
        }
        DraftTarget::Tags { .. } => {
            format!("tags of {handle}, with spaces between  Enter keeps them · Esc leaves them")
        }
        DraftTarget::Reply { words, .. } => {
            format!("{}  Enter answers {handle} · Esc leaves it", words.label())
        }
        DraftTarget::Turn { number, .. } => {
            format!("turn {number} of {handle}  Enter keeps it · Alt-Enter new line · Esc leaves it")
        }
    }
}

/// The keys of the list that is open.
fn panel_keys(model: &DashboardModel, look: ViewStyle, cols: usize) -> Line<'static> {
    if !model.busy.is_empty() {
        return busy(model, look, cols);
    }
    let Some(panel) = &model.panel else { return Line::default() };
    let is_empty = panel.len() == 0;
    let mut keys: Vec<(&str, &str)> = Vec::new();
    match &panel.kind {
        PanelKind::Queue { .. } => {
            if !is_empty {
                keys.extend([("Enter", "edit"), ("x", "drop"), ("K J", "move")]);
            }
            keys.push(("p", if panel.held().is_some() { "resume the queue" } else { "pause the queue" }));
        }
        PanelKind::Conversations if is_empty => {}
        PanelKind::Conversations => keys.push(("Enter", "go on here")),
        PanelKind::Hosts => {
            if !is_empty {
                keys.push(("Enter", "attach"));
            }
            keys.push(("r", "look again"));
        }
    }
    keys.extend([("Esc", "back"), ("?", "help")]);
    let keys: Vec<(&str, String)> = keys.into_iter().map(|(key, what)| (key, what.to_owned())).collect();
    key_line(&keys, look, cols)
}

/// The actions under way.
fn busy(model: &DashboardModel, look: ViewStyle, cols: usize) -> Line<'static> {
    Line::styled(cut_to_columns(&format!("{} …", model.busy.join(", ")), cols), look.accent())
}

/// The keys that do something to the selected session now.
fn browse(model: &DashboardModel, look: ViewStyle, cols: usize) -> Line<'static> {
    if !model.busy.is_empty() {
        return busy(model, look, cols);
    }
    let is_narrow = DashboardLayout::is_narrow(model.area.width);
    let mut keys: Vec<(&str, String)> = Vec::new();
    let mut way_out = vec![("q", "quit".to_owned()), ("?", "help".to_owned())];
    if is_narrow && model.pane == ActivePane::Preview {
        // In the preview, `Esc` leads to the list and does not quit.
        keys.push(("Esc", "list".into()));
        way_out.remove(0);
    }
    if let Some(row) = model.selected().filter(|row| row.status().is_some()) {
        if !row.asks().is_empty() {
            keys.push(("a", "answer".into()));
        }
        if is_narrow && model.pane == ActivePane::List {
            keys.push(("Enter", "look".into()));
        } else if row.is_live() || row.takes_turns() {
            keys.push(("Enter", if row.takes_turns() { "talk" } else { "attach" }.into()));
        }
        if row.can_be_sent_to() || row.is_live() {
            keys.push(("m", if row.can_be_sent_to() { "message" } else { "type" }.into()));
        }
        if row.current_turn().is_some() {
            keys.push(("C", "interrupt".into()));
        }
        if row.queued() > 0 {
            keys.push(("Q", "queue".into()));
        }
        if row.is_live() {
            keys.push(("x", "stop".into()));
        } else if row.is_archived() {
            keys.push(("e", "restore".into()));
        } else {
            keys.push(("r", "resume".into()));
            keys.push(("e", "archive".into()));
        }
    }
    keys.push(("c", "new".into()));
    keys.push(("/", "filter".into()));
    // Where not all keys fit, those that quit and that open the help are kept.
    while keys.iter().chain(&way_out).map(takes).sum::<usize>() > cols + 2 && !keys.is_empty() {
        keys.pop();
    }
    keys.extend(way_out);
    key_line(&keys, look, cols)
}

/// Cells that a key and its label take, with the gap to the next key.
fn takes((key, what): &(&str, String)) -> usize {
    width_of(key) + 1 + width_of(what) + 2
}

/// Keys and their labels, as many as fit.
fn key_line(keys: &[(&str, String)], look: ViewStyle, cols: usize) -> Line<'static> {
    let mut spans = Vec::new();
    let mut used = 0;
    for both in keys {
        let (key, what) = both;
        used += takes(both);
        if used > cols + 2 {
            break;
        }
        spans.push(Span::styled((*key).to_owned(), look.accent()));
        spans.push(Span::raw(format!(" {what}  ")));
    }
    Line::from(spans)
}

fn message_lines(message: &StatusLineMessage, look: ViewStyle, cols: usize) -> Vec<Line<'static>> {
    match message {
        StatusLineMessage::Note(text) => {
            wrap(text, cols).into_iter().take(3).map(|line| Line::styled(line, look.accent())).collect()
        }
        StatusLineMessage::Problem(problem) => {
            let what = wrap(&problem.what, cols).into_iter().take(4);
            let mut lines: Vec<Line> = what.map(|line| Line::styled(line, look.problem())).collect();
            if let Some(hint) = &problem.hint {
                lines.extend(wrap(hint, cols).into_iter().take(3).map(Line::raw));
            }
            lines
        }
    }
}

/// Draws the text being written, around the cursor.
fn write(footer: &mut FooterLines, mark: &str, text: &Composer, look: ViewStyle, cols: usize) {
    let room = cols.saturating_sub(width_of(mark) + 1).max(1);
    let (mut lines, (line, column)) = laid_out(text, room);
    let skipped = (line + 1).saturating_sub(MOST_LINES);
    lines.drain(..skipped);
    lines.truncate(MOST_LINES);
    let first = footer.lines.len();
    for (at, text) in lines.into_iter().enumerate() {
        let mark = if at == 0 { mark.to_owned() } else { " ".repeat(width_of(mark)) };
        footer
            .lines
            .push(Line::from(vec![Span::styled(mark, look.accent()), Span::styled(text, Style::default())]));
    }
    let at = |number: usize| u16::try_from(number).unwrap_or(u16::MAX);
    footer.cursor = Some((at(width_of(mark) + column), at(first + line - skipped)));
}

/// The lines of the text being written, and line and column of the cursor.
pub(super) fn laid_out(text: &Composer, room: usize) -> (Vec<String>, (usize, usize)) {
    let (rows, cursor) = text.rows((&SafeText::default(), 0), room);
    (rows.into_iter().map(|row| row.text.as_str().to_owned()).collect(), cursor)
}

/// A key in the help, with a shorter text for a narrow screen.
struct KeyHelp {
    key: &'static str,
    what: &'static str,
    short_key: &'static str,
    short: &'static str,
}

const fn help_of(
    key: &'static str,
    what: &'static str,
    short_key: &'static str,
    short: &'static str,
) -> KeyHelp {
    KeyHelp { key, what, short_key, short }
}

const HELP: &[KeyHelp] = &[
    help_of("↑ ↓  j k  g G", "choose a session", "↑ ↓ g G", "choose a session"),
    help_of("n", "the next one that needs you", "n", "the next that needs you"),
    help_of("Enter", "attach, or talk; leaving comes back here", "Enter", "look; then attach or talk"),
    help_of("Tab", "more room for preview, or for list", "Tab", "list or preview"),
    help_of("c", "start a session", "c", "start a session"),
    help_of("m", "write a message; or type into a terminal", "m", "write a message"),
    help_of("a  1 … 9", "answer what it asks", "a 1…9", "answer what it asks"),
    help_of("C", "interrupt its turn", "C", "interrupt its turn"),
    help_of("Q", "its queue: edit, drop, move, pause", "Q", "its queue"),
    help_of("i", "details", "i", "details"),
    help_of("o  I", "watch without typing; its other interface", "o  I", "watch; other interface"),
    help_of("x  r  e", "stop, resume, archive or restore it", "x r e", "stop, resume, archive"),
    help_of("R  f  N  T", "rename, fork, note, tags", "R f N T", "rename, fork, note, tags"),
    help_of("O  H", "other conversations; other hosts", "O  H", "other conversations; hosts"),
    help_of("/", "filter by name, agent, dir, state, tag", "/", "filter"),
    help_of(".", "show what is older, or archived", ".", "show older and archived too"),
    help_of("PgUp PgDn, wheel", "scroll the preview", "PgUp/Dn", "scroll the preview"),
    help_of("q  Esc  Ctrl-C", "leave; sessions go on; Ctrl-Z suspends", "q  Esc", "leave; sessions go on"),
];

/// Draws the help: all keys and their effects.
pub(super) fn help(look: ViewStyle, area: Rect, buffer: &mut Buffer) {
    clear(area, buffer);
    let is_narrow = DashboardLayout::is_narrow(area.width);
    let key_width = if is_narrow { 8 } else { 18 };
    let room = usize::from(area.width).saturating_sub(key_width + 1);
    let lines = HELP.iter().flat_map(|help| {
        let (key, what) = if is_narrow { (help.short_key, help.short) } else { (help.key, help.what) };
        wrap(what, room).into_iter().enumerate().map(move |(at, what)| {
            let key = if at == 0 { key } else { "" };
            Line::from(vec![Span::styled(fit_columns(key, key_width), look.accent()), Span::raw(what)])
        })
    });
    for (line, y) in lines.zip(area.top()..area.bottom()) {
        buffer.set_line(area.x + 1, y, &line, area.width.saturating_sub(1));
    }
}
