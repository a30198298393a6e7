//! Draws a list in place of the sessions: a queue, conversations from outside, other hosts.

use berth_api::SessionState;
use berth_api::turn::TurnView;
use berth_verbs::foreign::{self, AgentConversation};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::super::model::DashboardModel;
use super::super::panel::{HostPanelEntry, PanelEntries, PanelKind, SidePanel};
use super::wrap::wrap;
use super::{ViewStyle, clear};
use crate::print;
use crate::session_row as row;
use crate::text_width::{cut_to_columns, fit_columns, one_line};

/// The narrowest and widest column of names.
const NAME_WIDTH: usize = 20;

/// Draws the list over everything between the first and the last lines.
pub(super) fn draw(
    model: &DashboardModel,
    panel: &SidePanel,
    look: ViewStyle,
    area: Rect,
    buffer: &mut Buffer,
) {
    clear(area, buffer);
    let width = usize::from(area.width);
    let head = Line::styled(cut_to_columns(&title(model, panel), width), look.bold());
    buffer.set_line(area.x, area.y, &head, area.width);
    let body = Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area };
    let lines = match &panel.entries {
        None => vec![Line::styled("  looking …", look.dim())],
        Some(Err(problem)) => {
            let hint = problem.hint.iter().flat_map(|hint| wrap(hint, width)).map(Line::raw);
            let what = wrap(&problem.what, width).into_iter();
            what.map(|line| Line::styled(line, look.problem())).chain(hint).collect()
        }
        Some(Ok(entries)) => {
            let lines = entry_lines(model, entries, panel.at, look, width);
            // The selected entry stays in view.
            let height = usize::from(body.height);
            let first = (panel.at + 1).saturating_sub(height.saturating_sub(1).max(1));
            lines.into_iter().skip(first).collect()
        }
    };
    for (line, y) in lines.iter().zip(body.top()..body.bottom()) {
        buffer.set_line(body.x, y, line, body.width);
    }
}

fn title(model: &DashboardModel, panel: &SidePanel) -> String {
    match &panel.kind {
        PanelKind::Queue { of } => {
            let held = panel.held().map(|held| format!(" · held: {}", one_line(held))).unwrap_or_default();
            format!("Queue of {}{held}", model.handle_of(of))
        }
        PanelKind::Conversations => "Other conversations".to_owned(),
        PanelKind::Hosts => "Other hosts".to_owned(),
    }
}

fn entry_lines(
    model: &DashboardModel,
    entries: &PanelEntries,
    at: usize,
    look: ViewStyle,
    width: usize,
) -> Vec<Line<'static>> {
    let nothing = |what: &str| vec![Line::styled(format!("  {what}"), look.dim())];
    let marked = |number: usize, spans: Vec<Span<'static>>| {
        let mark = if number == at { "› " } else { "  " };
        let mark = Span::styled(mark, look.accent().patch(look.bold()));
        Line::from(std::iter::once(mark).chain(spans).collect::<Vec<_>>())
    };
    let room = width.saturating_sub(2);
    match entries {
        PanelEntries::Queue { turns, .. } if turns.is_empty() => nothing("nothing waits"),
        PanelEntries::Queue { turns, .. } => {
            turns.iter().enumerate().map(|(at, one)| marked(at, turn(one, look, room))).collect()
        }
        PanelEntries::Conversations { all, .. } if all.is_empty() => {
            nothing("no conversations outside berth")
        }
        PanelEntries::Conversations { all, more } => {
            let mut lines: Vec<Line<'static>> = all
                .iter()
                .enumerate()
                .map(|(at, one)| marked(at, conversation(model, one, look, room)))
                .collect();
            if *more > 0 {
                lines.extend(nothing(&format!("{more} more: `berth ls --foreign` lists them")));
            }
            lines
        }
        PanelEntries::Hosts(all) if all.is_empty() => {
            nothing("no hosts yet: `berth hosts add user@box` adds one")
        }
        PanelEntries::Hosts(all) => {
            all.iter().enumerate().map(|(at, one)| marked(at, host(one, look, room))).collect()
        }
    }
}

fn turn(turn: &TurnView, look: ViewStyle, room: usize) -> Vec<Span<'static>> {
    let number = fit_columns(&format!("turn {}", turn.number), 10);
    let prompt = print::first_words(&turn.prompt, room.saturating_sub(10));
    vec![Span::styled(number, look.dim()), Span::raw(prompt)]
}

fn conversation(
    model: &DashboardModel,
    one: &AgentConversation,
    look: ViewStyle,
    room: usize,
) -> Vec<Span<'static>> {
    let age = row::age_text(one.last_activity_at, model.now_ms());
    let about = one.title.as_deref().or(one.first_words.as_deref()).unwrap_or("nothing was said yet");
    let dir = one.cwd.as_ref().map(|dir| row::short_home(&dir.to_string_lossy())).unwrap_or_default();
    let branch = one.branch.as_ref().map(|branch| format!(" ({branch})")).unwrap_or_default();
    let open = if one.held_by.is_empty() {
        String::new()
    } else {
        format!("open: {} · ", foreign::describe_holder(&one.held_by))
    };
    let rest = one_line(&format!("{about} · {dir}{branch}"));
    let left = room.saturating_sub(8 + 5);
    let open = cut_to_columns(&one_line(&open), left);
    let rest = cut_to_columns(&rest, left.saturating_sub(crate::text_width::column_width(&open)));
    vec![
        Span::styled(fit_columns(&one_line(&one.agent), 8), look.dim()),
        Span::styled(fit_columns(&age, 5), look.dim()),
        Span::styled(open, look.state(&SessionState::Working)),
        Span::raw(rest),
    ]
}

fn host(entry: &HostPanelEntry, look: ViewStyle, room: usize) -> Vec<Span<'static>> {
    match entry {
        HostPanelEntry::Host { host, about, is_away } => {
            let style = if *is_away { look.problem() } else { look.dim() };
            let name = fit_columns(&one_line(&host.name), NAME_WIDTH);
            let about = if about.is_empty() { host.target.clone() } else { about.clone() };
            vec![
                Span::styled(name, look.bold()),
                Span::styled(cut_to_columns(&one_line(&about), room.saturating_sub(NAME_WIDTH)), style),
            ]
        }
        HostPanelEntry::Session { status, .. } => {
            let state = one_line(&status.state.to_string());
            let name = fit_columns(&one_line(status.handle()), NAME_WIDTH);
            let doing = cut_to_columns(&row::activity_text(status), room.saturating_sub(2 + 12 + NAME_WIDTH));
            vec![
                Span::styled(format!("  {}", fit_columns(&state, 12)), look.state(&status.state)),
                Span::raw(name),
                Span::styled(doing, look.dim()),
            ]
        }
    }
}
