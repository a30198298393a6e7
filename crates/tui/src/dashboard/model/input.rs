//! Effects of keys, pastes and the mouse in each mode.

use berth_api::Problem;
use berth_api::message::WriterTakeover;
use berth_api::turn::{QuestionOptionKind, QuestionReply};
use berth_verbs::foreign;

use super::super::form::{self, FormStep};
use super::super::layout::{ActivePane, DashboardLayout};
use super::super::panel::HostPanelEntry;
use super::{
    DashboardAction, DashboardEffect, DashboardMode, DashboardModel, DashboardRow, DraftTarget, FormField,
    NO_LONGER_ASKED, NewSessionForm, PanelKind, QueueAction, SidePanel,
};
use crate::composer::{Composer, TextTooLong};
use crate::keys::{InputEvent, KeyPress};
use crate::question_replies::{self, FreeTextKind};

/// How many lines one notch of the wheel scrolls.
const WHEEL_LINES: usize = 3;

impl DashboardModel {
    /// Applies an input of the user.
    pub(crate) fn input(&mut self, input: InputEvent) -> Vec<DashboardEffect> {
        // An Escape while a message is shown only dismisses the message.
        let dismissed = self.message.take().is_some() && self.mode == DashboardMode::Browse;
        if dismissed && input == InputEvent::Key(KeyPress::Esc) {
            return vec![];
        }
        self.is_used = true;
        let before = self.selected.clone();
        let mut effects = match input {
            InputEvent::Key(key) => self.key(key),
            InputEvent::Paste { text, cut } => self.paste(&text, cut),
            InputEvent::Click { column, row } => self.click(column, row),
            InputEvent::Wheel { column, row, up } => self.wheel(column, row, up),
        };
        self.settle();
        if self.selected != before {
            self.new_selection();
            effects.push(DashboardEffect::Look(self.selected.clone()));
        }
        effects
    }

    fn key(&mut self, key: KeyPress) -> Vec<DashboardEffect> {
        match key {
            KeyPress::Ctrl('z') => return vec![DashboardEffect::Suspend],
            KeyPress::Ctrl('l') => return vec![DashboardEffect::Redraw],
            _ => {}
        }
        match &mut self.mode {
            DashboardMode::Browse => self.browse(key),
            DashboardMode::Filter => self.type_filter(key),
            DashboardMode::Write { .. } => self.write_key(key),
            DashboardMode::New => self.form_key(key),
            DashboardMode::Panel => self.panel_key(key),
            DashboardMode::Answer { .. } => self.answer(key),
            DashboardMode::Confirm { .. } => self.confirm(key),
            DashboardMode::Help => {
                self.leave_mode();
                vec![]
            }
        }
    }

    fn browse(&mut self, key: KeyPress) -> Vec<DashboardEffect> {
        let page = self.layout().map_or(1, |layout| usize::from(layout.preview.height)).max(2) - 1;
        match key {
            KeyPress::Char('q') | KeyPress::Ctrl('c') => return vec![DashboardEffect::Quit],
            KeyPress::Esc => return self.step_back(),
            KeyPress::Up | KeyPress::Char('k') => self.step(-1),
            KeyPress::Down | KeyPress::Char('j') => self.step(1),
            KeyPress::Home | KeyPress::Char('g') => self.go_to(0),
            KeyPress::End | KeyPress::Char('G') => self.go_to(usize::MAX),
            KeyPress::PageUp | KeyPress::Ctrl('u') => self.scroll(page, true),
            KeyPress::PageDown | KeyPress::Ctrl('d') => self.scroll(page, false),
            KeyPress::Tab => {
                self.pane = match self.pane {
                    ActivePane::List => ActivePane::Preview,
                    ActivePane::Preview => ActivePane::List,
                };
            }
            KeyPress::Char('n') => self.go_to_next_that_needs_you(),
            KeyPress::Char('/') => {
                self.mode = DashboardMode::Filter;
                // The matches of a filter are shown in the list.
                self.pane = ActivePane::List;
            }
            KeyPress::Char('.') => {
                self.with_old = !self.with_old;
                self.sort();
            }
            KeyPress::Char('?') => self.mode = DashboardMode::Help,
            KeyPress::Enter
                if DashboardLayout::is_narrow(self.area.width) && self.pane == ActivePane::List =>
            {
                self.pane = ActivePane::Preview;
            }
            KeyPress::Enter => return self.attach(false),
            KeyPress::Char('o') => return self.attach(true),
            KeyPress::Char('c') => return self.begin_session(),
            KeyPress::Char('m') => self.begin_message(),
            KeyPress::Char('a' | '1'..='9') => self.begin_answer(),
            KeyPress::Char('i') => self.with_details = !self.with_details,
            KeyPress::Char('x') => self.ask_to_stop(),
            KeyPress::Char('C') => self.ask_to_cancel(),
            KeyPress::Char('r') => return self.resume(),
            KeyPress::Char('I') => return self.switch_interface(),
            KeyPress::Char('e') => return self.put_away_or_back(),
            KeyPress::Char('R') => self.begin_writing(|row| {
                let name = row.status()?.name.clone().unwrap_or_default();
                Some((DraftTarget::Name { of: row.id.clone() }, name))
            }),
            KeyPress::Char('f') => {
                self.begin_writing(|row| Some((DraftTarget::Copy { of: row.id.clone() }, String::new())))
            }
            KeyPress::Char('N') => self.begin_writing(|row| {
                let note = row.status()?.note.clone().unwrap_or_default();
                Some((DraftTarget::Note { of: row.id.clone() }, note))
            }),
            KeyPress::Char('T') => self.begin_writing(|row| {
                let before = row.status()?.tags.clone();
                let text = before.join(" ");
                Some((DraftTarget::Tags { of: row.id.clone(), before }, text))
            }),
            KeyPress::Char('Q') => return self.open_queue(),
            KeyPress::Char('O') => return self.open(PanelKind::Conversations),
            KeyPress::Char('H') => return self.open(PanelKind::Hosts),
            KeyPress::Backspace
            | KeyPress::Delete
            | KeyPress::Left
            | KeyPress::Right
            | KeyPress::WordLeft
            | KeyPress::WordRight
            | KeyPress::BackTab
            | KeyPress::NewLine
            | KeyPress::Alt(_)
            | KeyPress::Ctrl(_)
            | KeyPress::Char(_) => {}
        }
        vec![]
    }

    /// Escape leaves the present mode, one step at a time.
    fn step_back(&mut self) -> Vec<DashboardEffect> {
        if DashboardLayout::is_narrow(self.area.width) && self.pane == ActivePane::Preview {
            self.pane = ActivePane::List;
        } else if !self.filter.text().is_empty() {
            self.filter = Composer::default();
            self.sort();
        } else {
            return vec![DashboardEffect::Quit];
        }
        vec![]
    }

    /// Scrolls without a limit; drawing limits it to the text.
    fn scroll(&mut self, lines: usize, up: bool) {
        self.scrolled = match up {
            true => self.scrolled.saturating_add_unsigned(lines),
            false => self.scrolled.saturating_sub_unsigned(lines),
        };
    }

    fn step(&mut self, by: isize) {
        let place = self.place().unwrap_or(0);
        self.go_to(place.saturating_add_signed(by));
    }

    fn go_to(&mut self, place: usize) {
        if let Some(id) = self.shown.get(place.min(self.shown.len().saturating_sub(1))) {
            self.selected = Some(id.clone());
        }
    }

    fn go_to_next_that_needs_you(&mut self) {
        let place = self.place().map_or(0, |place| place + 1);
        let needy: Vec<usize> =
            self.rows().enumerate().filter(|(_, row)| row.needs_you()).map(|(at, _)| at).collect();
        match needy.iter().find(|at| **at >= place).or(needy.first()) {
            Some(at) => self.go_to(*at),
            None => self.note("no session needs you"),
        }
    }

    fn attach(&mut self, observe: bool) -> Vec<DashboardEffect> {
        let Some(row) = self.selected() else { return vec![] };
        if row.status().is_none() {
            return self
                .refuse("a damaged session cannot be attached to", "docs/recovery.md says what can be done");
        }
        if !row.is_live() && !row.takes_turns() {
            return self.refuse(&format!("{} is not running", row.handle()), "r starts it again");
        }
        if observe && row.takes_turns() {
            return self.refuse(
                "an agent that takes turns has no terminal to watch",
                "its preview is all there is to see",
            );
        }
        vec![DashboardEffect::Attach { id: row.id.clone(), observe }]
    }

    /// Shows why an action is not possible for the selected session.
    fn refuse(&mut self, what: &str, hint: &str) -> Vec<DashboardEffect> {
        self.trouble(Problem::refused(what).hint(hint));
        self.message_about = self.selected().map(|row| (row.id.clone(), row.state()));
        vec![]
    }

    /// Opens the form for a new session, with its earlier contents.
    fn begin_session(&mut self) -> Vec<DashboardEffect> {
        self.mode = DashboardMode::New;
        if self.form.is_none() {
            let mut rows: Vec<&DashboardRow> =
                self.all.values().filter(|row| row.status().is_some()).collect();
            rows.sort_by_key(|row| std::cmp::Reverse(row.last_activity_at()));
            let agents = rows.iter().filter_map(|row| row.status()?.what.agent.clone());
            let agent = agents.into_iter().next().unwrap_or_default();
            let selected = self.selected().into_iter();
            let mut dirs: Vec<String> = Vec::new();
            for row in selected.chain(rows) {
                let dir = row.status().map(|status| status.what.cwd.clone()).unwrap_or_default();
                if !dir.is_empty() && dir != self.cwd && !dirs.contains(&dir) {
                    dirs.push(dir);
                }
            }
            dirs.insert(0, self.cwd.clone());
            dirs.truncate(form::MOST_SUGGESTIONS);
            self.form = Some(NewSessionForm::new(agent, self.cwd.clone(), dirs));
        }
        vec![DashboardEffect::ListAgents]
    }

    fn form_key(&mut self, key: KeyPress) -> Vec<DashboardEffect> {
        let Some(form) = &mut self.form else {
            self.leave_mode();
            return vec![];
        };
        if matches!(key, KeyPress::Esc | KeyPress::Ctrl('c')) {
            self.leave_mode();
            self.note("nothing was started; press c to return to the form");
            return vec![];
        }
        match form.key(key) {
            Ok(FormStep::Stay) => vec![],
            Err(TextTooLong) => self.too_long(),
            Ok(FormStep::Start) => {
                let of = |field| form.value(field).trim().to_owned();
                let action = DashboardAction::Start {
                    agent: of(FormField::Agent),
                    dir: of(FormField::Directory),
                    interface: form.interface,
                    prompt: form.value(FormField::Prompt),
                };
                self.leave_mode();
                self.starting = Some(action.words(""));
                self.act(action)
            }
        }
    }

    /// Begins a text about the selected session.
    fn begin_writing(&mut self, what: impl FnOnce(&DashboardRow) -> Option<(DraftTarget, String)>) {
        let Some(row) = self.selected() else { return };
        match what(row) {
            Some((what, text)) => self.mode = DashboardMode::Write { what, text: Composer::with(text) },
            None => {
                self.refuse("a damaged session cannot be changed", "docs/recovery.md says what can be done");
            }
        }
    }

    fn open_queue(&mut self) -> Vec<DashboardEffect> {
        let Some(row) = self.selected() else { return vec![] };
        if !row.can_be_sent_to() {
            let what = format!("{} takes no turns and has no queue", row.handle());
            return self.refuse(&what, "m types into a terminal");
        }
        let of = row.id.clone();
        self.open(PanelKind::Queue { of })
    }

    /// Opens a list in place of the sessions.
    fn open(&mut self, kind: PanelKind) -> Vec<DashboardEffect> {
        self.panel = Some(SidePanel::new(kind.clone()));
        self.mode = DashboardMode::Panel;
        vec![DashboardEffect::List(kind)]
    }

    fn panel_key(&mut self, key: KeyPress) -> Vec<DashboardEffect> {
        let Some(panel) = &mut self.panel else {
            self.leave_mode();
            return vec![];
        };
        match key {
            KeyPress::Esc | KeyPress::Ctrl('c') | KeyPress::Char('q') => {
                self.panel = None;
                self.mode = DashboardMode::Browse;
            }
            KeyPress::Up | KeyPress::Char('k') => panel.step(-1),
            KeyPress::Down | KeyPress::Char('j') => panel.step(1),
            KeyPress::PageUp => panel.step(-10),
            KeyPress::PageDown => panel.step(10),
            KeyPress::Home | KeyPress::Char('g') => panel.step(isize::MIN),
            KeyPress::End | KeyPress::Char('G') => panel.step(isize::MAX),
            KeyPress::Char('?') => self.mode = DashboardMode::Help,
            key => {
                return match panel.kind.clone() {
                    PanelKind::Queue { of } => self.queue_key(key, of),
                    PanelKind::Conversations => self.conversations_key(key),
                    PanelKind::Hosts => self.hosts_key(key),
                };
            }
        }
        vec![]
    }

    fn queue_key(&mut self, key: KeyPress, id: berth_core::SessionId) -> Vec<DashboardEffect> {
        let Some(panel) = &self.panel else { return vec![] };
        if key == KeyPress::Char('p') {
            let change = if panel.held().is_some() { QueueAction::GoOn } else { QueueAction::Pause };
            return self.act(DashboardAction::Queue { id, change });
        }
        let Some(turn) = panel.turn().map(|turn| turn.number) else { return vec![] };
        let at = u64::try_from(panel.at).unwrap_or(u64::MAX);
        let last = u64::try_from(panel.len()).unwrap_or(u64::MAX).saturating_sub(1);
        match key {
            KeyPress::Enter => {
                let text = panel.turn().map(|turn| turn.prompt.clone()).unwrap_or_default();
                let what = DraftTarget::Turn { of: id, number: turn };
                self.mode = DashboardMode::Write { what, text: Composer::with(text) };
                vec![]
            }
            KeyPress::Char('x') => {
                let question = format!("take turn {turn} out of the queue?");
                let action = DashboardAction::Queue { id, change: QueueAction::Drop { turn } };
                self.mode = DashboardMode::Confirm { question, action };
                vec![]
            }
            KeyPress::Char('K') if at > 0 => {
                self.act(DashboardAction::Queue { id, change: QueueAction::Move { turn, to: at - 1 } })
            }
            KeyPress::Char('J') if at < last => {
                self.act(DashboardAction::Queue { id, change: QueueAction::Move { turn, to: at + 1 } })
            }
            _ => vec![],
        }
    }

    fn conversations_key(&mut self, key: KeyPress) -> Vec<DashboardEffect> {
        let chosen = self.panel.as_ref().and_then(SidePanel::conversation).filter(|_| key == KeyPress::Enter);
        let Some(conversation) = chosen.cloned() else { return vec![] };
        let (question, take) = if conversation.held_by.is_empty() {
            ("go on with this conversation in a session here?".to_owned(), WriterTakeover::None)
        } else {
            let pids = conversation.held_by.iter().map(|holder| holder.pid).collect();
            let who = foreign::describe_holder(&conversation.held_by);
            (format!("{who} has it open: end that and go on here?"), WriterTakeover::Only(pids))
        };
        let action = DashboardAction::Adopt { conversation: Box::new(conversation), take };
        self.mode = DashboardMode::Confirm { question, action };
        vec![]
    }

    fn hosts_key(&mut self, key: KeyPress) -> Vec<DashboardEffect> {
        if key == KeyPress::Char('r') {
            return self.open(PanelKind::Hosts);
        }
        match self.panel.as_ref().and_then(SidePanel::host_entry).filter(|_| key == KeyPress::Enter) {
            Some(HostPanelEntry::Session { host, status }) => {
                vec![DashboardEffect::AttachThere { host: host.clone(), session: status.id.clone() }]
            }
            Some(HostPanelEntry::Host { .. }) | None => vec![],
        }
    }

    fn begin_message(&mut self) {
        let Some(row) = self.selected() else { return };
        if row.status().is_none() {
            self.refuse("a damaged session takes no message", "docs/recovery.md says what can be done");
        } else if !row.can_be_sent_to() && !row.is_live() {
            self.refuse(&format!("{} is not running", row.handle()), "r starts it again");
        } else {
            let to = row.id.clone();
            let draft = self.draft.take().filter(|(of, _)| *of == to).map(|(_, text)| text);
            let text = Composer::with(draft.unwrap_or_default());
            self.mode = DashboardMode::Write { what: DraftTarget::Message { to }, text };
        }
    }

    fn begin_answer(&mut self) {
        let Some(row) = self.selected() else { return };
        match row.asks().first().cloned() {
            Some(ask) => {
                self.mode = DashboardMode::Answer {
                    of: row.id.clone(),
                    ask,
                    epoch: row.epoch(),
                    reading: None,
                    chosen: vec![],
                };
                // The question is at the end of the preview.
                self.scrolled = 0;
                self.with_details = false;
                if DashboardLayout::is_narrow(self.area.width) {
                    self.pane = ActivePane::Preview;
                }
            }
            None => {
                let note = format!("{} asks nothing", row.handle());
                self.note(note);
            }
        }
    }

    fn ask_to_stop(&mut self) {
        let Some(row) = self.selected() else { return };
        if row.is_live() {
            let question = format!("stop {}?", row.handle());
            self.mode =
                DashboardMode::Confirm { question, action: DashboardAction::Stop { id: row.id.clone() } };
        } else {
            let note = format!("{} is not running", row.handle());
            self.note(note);
        }
    }

    fn ask_to_cancel(&mut self) {
        let Some(row) = self.selected() else { return };
        match row.current_turn() {
            Some(turn) => {
                let question = format!("interrupt the turn of {}?", row.handle());
                let action = DashboardAction::Cancel { id: row.id.clone(), turn: turn.to_owned() };
                self.mode = DashboardMode::Confirm { question, action };
            }
            None => {
                let note = format!("{} has no turn to interrupt", row.handle());
                self.note(note);
            }
        }
    }

    fn resume(&mut self) -> Vec<DashboardEffect> {
        let Some(row) = self.selected() else { return vec![] };
        if row.is_live() {
            let note = format!("{} is running already", row.handle());
            self.note(note);
            return vec![];
        }
        let id = row.id.clone();
        self.act(DashboardAction::Resume { id })
    }

    /// Switches to the agent's other interface, at the end of the running turn.
    fn switch_interface(&mut self) -> Vec<DashboardEffect> {
        let Some(row) = self.selected() else { return vec![] };
        match row.status().and_then(|status| status.other_interfaces.first().copied()) {
            Some(to) => {
                let id = row.id.clone();
                self.act(DashboardAction::Switch { id, to })
            }
            None => {
                let note = format!("{} has no other interface", row.handle());
                self.note(note);
                vec![]
            }
        }
    }

    fn put_away_or_back(&mut self) -> Vec<DashboardEffect> {
        let Some(row) = self.selected() else { return vec![] };
        let id = row.id.clone();
        if row.status().is_none() {
            return self
                .refuse("a damaged session cannot be archived", "docs/recovery.md says what can be done");
        }
        if row.is_live() {
            return self.refuse(&format!("{} is running", row.handle()), "x stops it; then archive it");
        }
        let is_archived = row.is_archived();
        self.act(if is_archived { DashboardAction::Restore { id } } else { DashboardAction::Archive { id } })
    }

    fn type_filter(&mut self, key: KeyPress) -> Vec<DashboardEffect> {
        match key {
            KeyPress::Enter | KeyPress::Down | KeyPress::Up | KeyPress::Tab => {
                self.mode = DashboardMode::Browse
            }
            KeyPress::Esc | KeyPress::Ctrl('c') => {
                self.filter = Composer::default();
                self.mode = DashboardMode::Browse;
            }
            key => {
                // A filter is short. A text that is too long for it would find nothing.
                let _ = self.filter.edit(key);
            }
        }
        let before = self.selected.clone();
        self.sort();
        if self.selected != before {
            // The selected session does not match any more: select the best match, which is on top.
            self.go_to(0);
        }
        vec![]
    }

    fn write_key(&mut self, key: KeyPress) -> Vec<DashboardEffect> {
        let DashboardMode::Write { what, text } = &mut self.mode else { return vec![] };
        match key {
            KeyPress::Esc | KeyPress::Ctrl('c') => {
                let is_message = matches!(what, DraftTarget::Message { .. });
                self.leave_mode();
                if is_message && self.draft.is_some() {
                    self.note("not sent; press m to edit it");
                }
                vec![]
            }
            KeyPress::Enter => {
                let (what, text) = (what.clone(), text.text().to_owned());
                self.mode = self.default_mode();
                self.written(what, text)
            }
            KeyPress::NewLine if what.has_lines() => self.write("\n"),
            key => match text.edit(key) {
                Ok(()) => vec![],
                Err(TextTooLong) => self.too_long(),
            },
        }
    }

    /// Carries out what the finished text is for.
    fn written(&mut self, what: DraftTarget, text: String) -> Vec<DashboardEffect> {
        let trimmed = text.trim().to_owned();
        let is_empty = trimmed.is_empty();
        if let DraftTarget::Reply { of, ask, epoch, .. } = &what
            && !is_empty
            && !self.is_asked(of, &ask.request, *epoch)
        {
            self.draft = Some((of.clone(), text));
            self.note(format!("{NO_LONGER_ASKED}; press m to edit your text"));
            return vec![];
        }
        self.act(match what {
            DraftTarget::Message { .. }
            | DraftTarget::Name { .. }
            | DraftTarget::Turn { .. }
            | DraftTarget::Reply { .. }
                if is_empty =>
            {
                return vec![];
            }
            DraftTarget::Reply { of: id, ask, epoch, words, chosen } => {
                let reply = words.reply(&ask, &chosen, trimmed);
                DashboardAction::Answer { id, request: ask.request, reply, epoch }
            }
            DraftTarget::Message { to: id }
                if self.all.get(&id).is_some_and(DashboardRow::can_be_sent_to) =>
            {
                DashboardAction::Send { id, text }
            }
            DraftTarget::Message { to: id } => DashboardAction::Type { id, text },
            DraftTarget::Name { of: id } => DashboardAction::Rename { id, name: trimmed },
            DraftTarget::Copy { of: id } => {
                DashboardAction::Fork { id, name: Some(trimmed).filter(|_| !is_empty) }
            }
            DraftTarget::Note { of: id } => {
                DashboardAction::Note { id, note: Some(trimmed).filter(|_| !is_empty) }
            }
            DraftTarget::Tags { of: id, before } => {
                let words = || text.split([' ', ',']).map(|tag| tag.trim_start_matches('#'));
                let wanted: Vec<String> = words().filter(|tag| !tag.is_empty()).map(str::to_owned).collect();
                let add: Vec<String> = wanted.iter().filter(|tag| !before.contains(tag)).cloned().collect();
                let remove: Vec<String> = before.into_iter().filter(|tag| !wanted.contains(tag)).collect();
                if add.is_empty() && remove.is_empty() {
                    return vec![];
                }
                DashboardAction::Tag { id, add, remove }
            }
            DraftTarget::Turn { of: id, number: turn } => {
                DashboardAction::Queue { id, change: QueueAction::Edit { turn, text } }
            }
        })
    }

    /// Inserts text into what is being written.
    fn write(&mut self, more: &str) -> Vec<DashboardEffect> {
        let DashboardMode::Write { what, text } = &mut self.mode else { return vec![] };
        let more = if what.has_lines() { more } else { more.lines().next().unwrap_or_default() };
        match text.insert(more) {
            Ok(()) => vec![],
            Err(TextTooLong) => self.too_long(),
        }
    }

    fn too_long(&mut self) -> Vec<DashboardEffect> {
        let limit = berth_core::MAX_PROMPT_BYTES;
        let what = format!("a message has at most {limit} bytes; this was not added");
        self.trouble(Problem::refused(what).hint("put it into a file and name that in the message"));
        vec![]
    }

    fn answer(&mut self, key: KeyPress) -> Vec<DashboardEffect> {
        let now = self.uptime;
        let DashboardMode::Answer { of, ask, epoch, reading, chosen } = &mut self.mode else { return vec![] };
        let is_read = reading.as_mut().is_some_and(|reading| reading.press(now));
        let has =
            |kinds: [QuestionOptionKind; 2]| ask.options.iter().any(|option| kinds.contains(&option.kind));
        let reply = match key {
            KeyPress::Char('y') if has([QuestionOptionKind::AllowOnce, QuestionOptionKind::AllowAlways]) => {
                QuestionReply::Allow
            }
            KeyPress::Char('n')
                if has([QuestionOptionKind::RejectOnce, QuestionOptionKind::RejectAlways]) =>
            {
                QuestionReply::DENY
            }
            KeyPress::Char(digit @ '1'..='9') => {
                let at = digit as usize - '1' as usize;
                let Some(option) = ask.options.get(at) else { return vec![] };
                if ask.several {
                    if is_read {
                        question_replies::toggle_option(chosen, at);
                    }
                    return vec![];
                }
                QuestionReply::option(option.id.as_str())
            }
            KeyPress::Enter if ask.several => match question_replies::reply_with_options(ask, chosen) {
                Some(reply) => reply,
                None => return vec![],
            },
            KeyPress::Char('t') => {
                if let Some(words) = FreeTextKind::of(ask).filter(|_| is_read) {
                    let (of, ask) = (of.clone(), Box::new(ask.clone()));
                    let what = DraftTarget::Reply { of, ask, epoch: *epoch, words, chosen: chosen.clone() };
                    self.mode = DashboardMode::Write { what, text: Composer::default() };
                }
                return vec![];
            }
            KeyPress::Esc | KeyPress::Ctrl('c') | KeyPress::Char('q') => {
                self.mode = DashboardMode::Browse;
                return vec![];
            }
            KeyPress::PageUp | KeyPress::Up => {
                self.scroll(WHEEL_LINES, true);
                return vec![];
            }
            KeyPress::PageDown | KeyPress::Down => {
                self.scroll(WHEEL_LINES, false);
                return vec![];
            }
            _ => return vec![],
        };
        // A key before the end of the reading time was meant for another purpose.
        if !is_read {
            return vec![];
        }
        let request = ask.request.clone();
        let action = DashboardAction::Answer { id: of.clone(), request, reply, epoch: *epoch };
        self.mode = DashboardMode::Browse;
        self.act(action)
    }

    fn confirm(&mut self, key: KeyPress) -> Vec<DashboardEffect> {
        let DashboardMode::Confirm { action, .. } = std::mem::take(&mut self.mode) else { return vec![] };
        self.mode = self.default_mode();
        if key == KeyPress::Char('y') {
            if matches!(action, DashboardAction::Adopt { .. }) {
                self.panel = None;
                self.mode = DashboardMode::Browse;
            }
            return self.act(action);
        }
        self.note("nothing was done");
        vec![]
    }

    fn paste(&mut self, text: &str, cut: bool) -> Vec<DashboardEffect> {
        match &mut self.mode {
            DashboardMode::Write { .. } | DashboardMode::New if cut => self.too_long(),
            DashboardMode::Write { .. } => self.write(text),
            DashboardMode::New => match self.form.as_mut().map(|form| form.write(text)) {
                Some(Err(TextTooLong)) => self.too_long(),
                Some(Ok(())) | None => vec![],
            },
            DashboardMode::Filter => {
                let _ = self.filter.insert(text.lines().next().unwrap_or_default());
                self.sort();
                vec![]
            }
            // Pasted text is never taken for keys.
            DashboardMode::Browse
            | DashboardMode::Panel
            | DashboardMode::Answer { .. }
            | DashboardMode::Confirm { .. }
            | DashboardMode::Help => {
                self.note("m begins a message; then paste");
                vec![]
            }
        }
    }

    fn click(&mut self, column: u16, row: u16) -> Vec<DashboardEffect> {
        let Some(layout) = self.layout() else { return vec![] };
        let at = ratatui::layout::Position { x: column, y: row };
        if self.mode == DashboardMode::Browse && layout.list.contains(at) {
            let line = usize::from((row - layout.list.y) / layout.row_height);
            let place = self.top + line;
            if place < self.shown.len() {
                self.go_to(place);
            }
        }
        vec![]
    }

    fn wheel(&mut self, column: u16, row: u16, up: bool) -> Vec<DashboardEffect> {
        let Some(layout) = self.layout() else { return vec![] };
        let at = ratatui::layout::Position { x: column, y: row };
        if layout.list.contains(at) {
            if self.mode == DashboardMode::Browse {
                self.step(if up { -1 } else { 1 });
            }
        } else {
            self.scroll(WHEEL_LINES, up);
        }
        vec![]
    }
}
