//! Keys, pastes and the mouse: what each does in each mode.

use berth_api::message::Take;
use berth_api::turn::{AskKind, Wish};
use berth_api::{Code, Problem};
use berth_verbs::foreign;

use super::super::form::{self, Step};
use super::super::layout::{Layout, Pane};
use super::super::panel::HostEntry;
use super::{
    Action, Effect, Field, Mode, Model, NO_LONGER_ASKED, NewSession, Panel, PanelKind, QueueChange, Row,
    Writing,
};
use crate::composer::{Composer, TooLong};
use crate::keys::{Input, Key};
use crate::replies::{self, OwnWords};

/// How far one notch of the wheel goes.
const WHEEL_LINES: usize = 3;

impl Model {
    /// What a person did.
    pub(crate) fn input(&mut self, input: Input) -> Vec<Effect> {
        // An Escape at a message is for the message.
        let dismissed = self.message.take().is_some() && self.mode == Mode::Browse;
        if dismissed && input == Input::Key(Key::Esc) {
            return vec![];
        }
        self.is_used = true;
        let before = self.selected.clone();
        let mut effects = match input {
            Input::Key(key) => self.key(key),
            Input::Paste { text, cut } => self.paste(&text, cut),
            Input::Click { column, row } => self.click(column, row),
            Input::Wheel { column, row, up } => self.wheel(column, row, up),
        };
        self.settle();
        if self.selected != before {
            self.new_selection();
            effects.push(Effect::Look(self.selected.clone()));
        }
        effects
    }

    fn key(&mut self, key: Key) -> Vec<Effect> {
        match key {
            Key::Ctrl('z') => return vec![Effect::Suspend],
            Key::Ctrl('l') => return vec![Effect::Redraw],
            _ => {}
        }
        match &mut self.mode {
            Mode::Browse => self.browse(key),
            Mode::Filter => self.type_filter(key),
            Mode::Write { .. } => self.write_key(key),
            Mode::New => self.form_key(key),
            Mode::Panel => self.panel_key(key),
            Mode::Answer { .. } => self.answer(key),
            Mode::Confirm { .. } => self.confirm(key),
            Mode::Help => {
                self.leave_mode();
                vec![]
            }
        }
    }

    fn browse(&mut self, key: Key) -> Vec<Effect> {
        let page = self.layout().map_or(1, |layout| usize::from(layout.preview.height)).max(2) - 1;
        match key {
            Key::Char('q') | Key::Ctrl('c') => return vec![Effect::Quit],
            Key::Esc => return self.step_back(),
            Key::Up | Key::Char('k') => self.step(-1),
            Key::Down | Key::Char('j') => self.step(1),
            Key::Home | Key::Char('g') => self.go_to(0),
            Key::End | Key::Char('G') => self.go_to(usize::MAX),
            Key::PageUp | Key::Ctrl('u') => self.scroll(page, true),
            Key::PageDown | Key::Ctrl('d') => self.scroll(page, false),
            Key::Tab => {
                self.pane = match self.pane {
                    Pane::List => Pane::Preview,
                    Pane::Preview => Pane::List,
                };
            }
            Key::Char('n') => self.go_to_next_that_needs_you(),
            Key::Char('/') => {
                self.mode = Mode::Filter;
                // What a filter leaves is seen there.
                self.pane = Pane::List;
            }
            Key::Char('.') => {
                self.with_old = !self.with_old;
                self.arrange();
            }
            Key::Char('?') => self.mode = Mode::Help,
            Key::Enter if Layout::is_narrow(self.area.width) && self.pane == Pane::List => {
                self.pane = Pane::Preview;
            }
            Key::Enter => return self.attach(false),
            Key::Char('o') => return self.attach(true),
            Key::Char('c') => return self.begin_session(),
            Key::Char('m') => self.begin_message(),
            Key::Char('a' | '1'..='9') => self.begin_answer(),
            Key::Char('i') => self.with_details = !self.with_details,
            Key::Char('x') => self.ask_to_stop(),
            Key::Char('C') => self.ask_to_cancel(),
            Key::Char('r') => return self.resume(),
            Key::Char('I') => return self.switch_interface(),
            Key::Char('e') => return self.put_away_or_back(),
            Key::Char('R') => self.begin_writing(|row| {
                let name = row.status()?.name.clone().unwrap_or_default();
                Some((Writing::Name { of: row.id.clone() }, name))
            }),
            Key::Char('f') => {
                self.begin_writing(|row| Some((Writing::Copy { of: row.id.clone() }, String::new())))
            }
            Key::Char('N') => self.begin_writing(|row| {
                let note = row.status()?.note.clone().unwrap_or_default();
                Some((Writing::Note { of: row.id.clone() }, note))
            }),
            Key::Char('T') => self.begin_writing(|row| {
                let before = row.status()?.tags.clone();
                let text = before.join(" ");
                Some((Writing::Tags { of: row.id.clone(), before }, text))
            }),
            Key::Char('Q') => return self.open_queue(),
            Key::Char('O') => return self.open(PanelKind::Conversations),
            Key::Char('H') => return self.open(PanelKind::Hosts),
            Key::Backspace
            | Key::Delete
            | Key::Left
            | Key::Right
            | Key::WordLeft
            | Key::WordRight
            | Key::BackTab
            | Key::NewLine
            | Key::Alt(_)
            | Key::Ctrl(_)
            | Key::Char(_) => {}
        }
        vec![]
    }

    /// Escape leads out of whatever one is in, one step at a time.
    fn step_back(&mut self) -> Vec<Effect> {
        if Layout::is_narrow(self.area.width) && self.pane == Pane::Preview {
            self.pane = Pane::List;
        } else if !self.filter.text().is_empty() {
            self.filter = Composer::default();
            self.arrange();
        } else {
            return vec![Effect::Quit];
        }
        vec![]
    }

    /// The drawing keeps it within what there is.
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

    fn attach(&mut self, observe: bool) -> Vec<Effect> {
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
        vec![Effect::Attach { id: row.id.clone(), observe }]
    }

    /// Says why something cannot be done to the selected session.
    fn refuse(&mut self, what: &str, hint: &str) -> Vec<Effect> {
        self.trouble(Problem::new(Code::Refused, what).hint(hint));
        self.message_about = self.selected().map(|row| (row.id.clone(), row.state()));
        vec![]
    }

    /// Opens the form for a new session, with what was written in it before.
    fn begin_session(&mut self) -> Vec<Effect> {
        self.mode = Mode::New;
        if self.form.is_none() {
            let mut rows: Vec<&Row> = self.all.values().filter(|row| row.status().is_some()).collect();
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
            self.form = Some(NewSession::new(agent, self.cwd.clone(), dirs));
        }
        vec![Effect::ListAgents]
    }

    fn form_key(&mut self, key: Key) -> Vec<Effect> {
        let Some(form) = &mut self.form else {
            self.leave_mode();
            return vec![];
        };
        if matches!(key, Key::Esc | Key::Ctrl('c')) {
            self.leave_mode();
            self.note("nothing was started; c goes on with it");
            return vec![];
        }
        match form.key(key) {
            Ok(Step::Stay) => vec![],
            Err(TooLong) => self.too_long(),
            Ok(Step::Start) => {
                let of = |field| form.value(field).trim().to_owned();
                let action = Action::Start {
                    agent: of(Field::Agent),
                    dir: of(Field::Directory),
                    interface: form.interface,
                    prompt: form.value(Field::Prompt),
                };
                self.leave_mode();
                self.starting = Some(action.words(""));
                self.act(action)
            }
        }
    }

    /// Begins to write something about the selected session.
    fn begin_writing(&mut self, what: impl FnOnce(&Row) -> Option<(Writing, String)>) {
        let Some(row) = self.selected() else { return };
        match what(row) {
            Some((what, text)) => self.mode = Mode::Write { what, text: Composer::with(text) },
            None => {
                self.refuse("a damaged session cannot be changed", "docs/recovery.md says what can be done");
            }
        }
    }

    fn open_queue(&mut self) -> Vec<Effect> {
        let Some(row) = self.selected() else { return vec![] };
        if !row.can_be_sent_to() {
            let what = format!("{} takes no turns and has no queue", row.handle());
            return self.refuse(&what, "m types into a terminal");
        }
        let of = row.id.clone();
        self.open(PanelKind::Queue { of })
    }

    /// Opens a list in place of the sessions.
    fn open(&mut self, kind: PanelKind) -> Vec<Effect> {
        self.panel = Some(Panel::new(kind.clone()));
        self.mode = Mode::Panel;
        vec![Effect::List(kind)]
    }

    fn panel_key(&mut self, key: Key) -> Vec<Effect> {
        let Some(panel) = &mut self.panel else {
            self.leave_mode();
            return vec![];
        };
        match key {
            Key::Esc | Key::Ctrl('c') | Key::Char('q') => {
                self.panel = None;
                self.mode = Mode::Browse;
            }
            Key::Up | Key::Char('k') => panel.step(-1),
            Key::Down | Key::Char('j') => panel.step(1),
            Key::PageUp => panel.step(-10),
            Key::PageDown => panel.step(10),
            Key::Home | Key::Char('g') => panel.step(isize::MIN),
            Key::End | Key::Char('G') => panel.step(isize::MAX),
            Key::Char('?') => self.mode = Mode::Help,
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

    fn queue_key(&mut self, key: Key, id: berth_core::SessionId) -> Vec<Effect> {
        let Some(panel) = &self.panel else { return vec![] };
        if key == Key::Char('p') {
            let change = if panel.held().is_some() { QueueChange::GoOn } else { QueueChange::Pause };
            return self.act(Action::Queue { id, change });
        }
        let Some(turn) = panel.turn().map(|turn| turn.number) else { return vec![] };
        let at = u64::try_from(panel.at).unwrap_or(u64::MAX);
        let last = u64::try_from(panel.len()).unwrap_or(u64::MAX).saturating_sub(1);
        match key {
            Key::Enter => {
                let text = panel.turn().map(|turn| turn.prompt.clone()).unwrap_or_default();
                let what = Writing::Turn { of: id, number: turn };
                self.mode = Mode::Write { what, text: Composer::with(text) };
                vec![]
            }
            Key::Char('x') => {
                let question = format!("take turn {turn} out of the queue?");
                let action = Action::Queue { id, change: QueueChange::Drop { turn } };
                self.mode = Mode::Confirm { question, action };
                vec![]
            }
            Key::Char('K') if at > 0 => {
                self.act(Action::Queue { id, change: QueueChange::Move { turn, to: at - 1 } })
            }
            Key::Char('J') if at < last => {
                self.act(Action::Queue { id, change: QueueChange::Move { turn, to: at + 1 } })
            }
            _ => vec![],
        }
    }

    fn conversations_key(&mut self, key: Key) -> Vec<Effect> {
        let chosen = self.panel.as_ref().and_then(Panel::conversation).filter(|_| key == Key::Enter);
        let Some(conversation) = chosen.cloned() else { return vec![] };
        let (question, take) = if conversation.held_by.is_empty() {
            ("go on with this conversation in a session here?".to_owned(), Take::Nobody)
        } else {
            let pids = conversation.held_by.iter().map(|holder| holder.pid).collect();
            let who = foreign::who(&conversation.held_by);
            (format!("{who} has it open: end that and go on here?"), Take::Only(pids))
        };
        let action = Action::Adopt { conversation: Box::new(conversation), take };
        self.mode = Mode::Confirm { question, action };
        vec![]
    }

    fn hosts_key(&mut self, key: Key) -> Vec<Effect> {
        if key == Key::Char('r') {
            return self.open(PanelKind::Hosts);
        }
        match self.panel.as_ref().and_then(Panel::host_entry).filter(|_| key == Key::Enter) {
            Some(HostEntry::Session { host, status }) => {
                vec![Effect::AttachThere { host: host.clone(), session: status.id.clone() }]
            }
            Some(HostEntry::Host { .. }) | None => vec![],
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
            self.mode = Mode::Write { what: Writing::Message { to }, text };
        }
    }

    fn begin_answer(&mut self) {
        let Some(row) = self.selected() else { return };
        match row.asks().first().cloned() {
            Some(ask) => {
                self.mode = Mode::Answer {
                    of: row.id.clone(),
                    ask,
                    epoch: row.epoch(),
                    reading: None,
                    chosen: vec![],
                };
                // The question is at the end.
                self.scrolled = 0;
                self.with_details = false;
                if Layout::is_narrow(self.area.width) {
                    self.pane = Pane::Preview;
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
            self.mode = Mode::Confirm { question, action: Action::Stop { id: row.id.clone() } };
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
                let action = Action::Cancel { id: row.id.clone(), turn: turn.to_owned() };
                self.mode = Mode::Confirm { question, action };
            }
            None => {
                let note = format!("{} has no turn to interrupt", row.handle());
                self.note(note);
            }
        }
    }

    fn resume(&mut self) -> Vec<Effect> {
        let Some(row) = self.selected() else { return vec![] };
        if row.is_live() {
            let note = format!("{} is running already", row.handle());
            self.note(note);
            return vec![];
        }
        let id = row.id.clone();
        self.act(Action::Resume { id })
    }

    /// Goes on with the agent's other interface, at the end of the turn that runs.
    fn switch_interface(&mut self) -> Vec<Effect> {
        let Some(row) = self.selected() else { return vec![] };
        match row.status().and_then(|status| status.other_interfaces.first().copied()) {
            Some(to) => {
                let id = row.id.clone();
                self.act(Action::Switch { id, to })
            }
            None => {
                let note = format!("{} has no other interface", row.handle());
                self.note(note);
                vec![]
            }
        }
    }

    fn put_away_or_back(&mut self) -> Vec<Effect> {
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
        self.act(if is_archived { Action::Restore { id } } else { Action::Archive { id } })
    }

    fn type_filter(&mut self, key: Key) -> Vec<Effect> {
        match key {
            Key::Enter | Key::Down | Key::Up | Key::Tab => self.mode = Mode::Browse,
            Key::Esc | Key::Ctrl('c') => {
                self.filter = Composer::default();
                self.mode = Mode::Browse;
            }
            key => {
                // A filter is short; one that is not finds nothing.
                let _ = self.filter.edit(key);
            }
        }
        let before = self.selected.clone();
        self.arrange();
        if self.selected != before {
            // What was selected does not match: the best that does is on top.
            self.go_to(0);
        }
        vec![]
    }

    fn write_key(&mut self, key: Key) -> Vec<Effect> {
        let Mode::Write { what, text } = &mut self.mode else { return vec![] };
        match key {
            Key::Esc | Key::Ctrl('c') => {
                let is_message = matches!(what, Writing::Message { .. });
                self.leave_mode();
                if is_message && self.draft.is_some() {
                    self.note("not sent; m goes on with it");
                }
                vec![]
            }
            Key::Enter => {
                let (what, text) = (what.clone(), text.text().to_owned());
                self.mode = self.resting_mode();
                self.written(what, text)
            }
            Key::NewLine if what.has_lines() => self.write("\n"),
            key => match text.edit(key) {
                Ok(()) => vec![],
                Err(TooLong) => self.too_long(),
            },
        }
    }

    /// Has done what was written.
    fn written(&mut self, what: Writing, text: String) -> Vec<Effect> {
        let trimmed = text.trim().to_owned();
        let is_empty = trimmed.is_empty();
        if let Writing::Reply { of, ask, epoch, .. } = &what
            && !is_empty
            && !self.is_asked(of, &ask.request, *epoch)
        {
            self.draft = Some((of.clone(), text));
            self.note(format!("{NO_LONGER_ASKED}; m goes on with what you wrote"));
            return vec![];
        }
        self.act(match what {
            Writing::Message { .. } | Writing::Name { .. } | Writing::Turn { .. } | Writing::Reply { .. }
                if is_empty =>
            {
                return vec![];
            }
            Writing::Reply { of: id, ask, epoch, words, chosen } => {
                let wish = words.wish(&ask, &chosen, trimmed);
                Action::Answer { id, request: ask.request, wish, epoch }
            }
            Writing::Message { to: id } if self.all.get(&id).is_some_and(Row::can_be_sent_to) => {
                Action::Send { id, text }
            }
            Writing::Message { to: id } => Action::Type { id, text },
            Writing::Name { of: id } => Action::Rename { id, name: trimmed },
            Writing::Copy { of: id } => Action::Fork { id, name: Some(trimmed).filter(|_| !is_empty) },
            Writing::Note { of: id } => Action::Note { id, note: Some(trimmed).filter(|_| !is_empty) },
            Writing::Tags { of: id, before } => {
                let words = || text.split([' ', ',']).map(|tag| tag.trim_start_matches('#'));
                let wanted: Vec<String> = words().filter(|tag| !tag.is_empty()).map(str::to_owned).collect();
                let add: Vec<String> = wanted.iter().filter(|tag| !before.contains(tag)).cloned().collect();
                let remove: Vec<String> = before.into_iter().filter(|tag| !wanted.contains(tag)).collect();
                if add.is_empty() && remove.is_empty() {
                    return vec![];
                }
                Action::Tag { id, add, remove }
            }
            Writing::Turn { of: id, number: turn } => {
                Action::Queue { id, change: QueueChange::Edit { turn, text } }
            }
        })
    }

    /// Puts text into what is being written.
    fn write(&mut self, more: &str) -> Vec<Effect> {
        let Mode::Write { what, text } = &mut self.mode else { return vec![] };
        let more = if what.has_lines() { more } else { more.lines().next().unwrap_or_default() };
        match text.insert(more) {
            Ok(()) => vec![],
            Err(TooLong) => self.too_long(),
        }
    }

    fn too_long(&mut self) -> Vec<Effect> {
        let limit = berth_core::MAX_PROMPT_BYTES;
        let what = format!("a message has at most {limit} bytes; this was not added");
        self.trouble(
            Problem::new(Code::Refused, what).hint("put it into a file and name that in the message"),
        );
        vec![]
    }

    fn answer(&mut self, key: Key) -> Vec<Effect> {
        let now = self.uptime;
        let Mode::Answer { of, ask, epoch, reading, chosen } = &mut self.mode else { return vec![] };
        let is_read = reading.as_mut().is_some_and(|reading| reading.press(now));
        let has = |kinds: [AskKind; 2]| ask.options.iter().any(|option| kinds.contains(&option.kind));
        let wish = match key {
            Key::Char('y') if has([AskKind::AllowOnce, AskKind::AllowAlways]) => Wish::Allow,
            Key::Char('n') if has([AskKind::RejectOnce, AskKind::RejectAlways]) => Wish::DENY,
            Key::Char(digit @ '1'..='9') => {
                let at = digit as usize - '1' as usize;
                let Some(option) = ask.options.get(at) else { return vec![] };
                if ask.several {
                    if is_read {
                        replies::toggle(chosen, at);
                    }
                    return vec![];
                }
                Wish::option(option.id.as_str())
            }
            Key::Enter if ask.several => match replies::options(ask, chosen) {
                Some(wish) => wish,
                None => return vec![],
            },
            Key::Char('t') => {
                if let Some(words) = OwnWords::of(ask).filter(|_| is_read) {
                    let (of, ask) = (of.clone(), Box::new(ask.clone()));
                    let what = Writing::Reply { of, ask, epoch: *epoch, words, chosen: chosen.clone() };
                    self.mode = Mode::Write { what, text: Composer::default() };
                }
                return vec![];
            }
            Key::Esc | Key::Ctrl('c') | Key::Char('q') => {
                self.mode = Mode::Browse;
                return vec![];
            }
            Key::PageUp | Key::Up => {
                self.scroll(WHEEL_LINES, true);
                return vec![];
            }
            Key::PageDown | Key::Down => {
                self.scroll(WHEEL_LINES, false);
                return vec![];
            }
            _ => return vec![],
        };
        // A key before the end of the reading time was meant for something else.
        if !is_read {
            return vec![];
        }
        let request = ask.request.clone();
        let action = Action::Answer { id: of.clone(), request, wish, epoch: *epoch };
        self.mode = Mode::Browse;
        self.act(action)
    }

    fn confirm(&mut self, key: Key) -> Vec<Effect> {
        let Mode::Confirm { action, .. } = std::mem::take(&mut self.mode) else { return vec![] };
        self.mode = self.resting_mode();
        if key == Key::Char('y') {
            if matches!(action, Action::Adopt { .. }) {
                self.panel = None;
                self.mode = Mode::Browse;
            }
            return self.act(action);
        }
        self.note("nothing was done");
        vec![]
    }

    fn paste(&mut self, text: &str, cut: bool) -> Vec<Effect> {
        match &mut self.mode {
            Mode::Write { .. } | Mode::New if cut => self.too_long(),
            Mode::Write { .. } => self.write(text),
            Mode::New => match self.form.as_mut().map(|form| form.write(text)) {
                Some(Err(TooLong)) => self.too_long(),
                Some(Ok(())) | None => vec![],
            },
            Mode::Filter => {
                let _ = self.filter.insert(text.lines().next().unwrap_or_default());
                self.arrange();
                vec![]
            }
            // Pasted text is never a key.
            Mode::Browse | Mode::Panel | Mode::Answer { .. } | Mode::Confirm { .. } | Mode::Help => {
                self.note("m begins a message; then paste");
                vec![]
            }
        }
    }

    fn click(&mut self, column: u16, row: u16) -> Vec<Effect> {
        let Some(layout) = self.layout() else { return vec![] };
        let at = ratatui::layout::Position { x: column, y: row };
        if self.mode == Mode::Browse && layout.list.contains(at) {
            let line = usize::from((row - layout.list.y) / layout.row_height);
            let place = self.top + line;
            if place < self.shown.len() {
                self.go_to(place);
            }
        }
        vec![]
    }

    fn wheel(&mut self, column: u16, row: u16, up: bool) -> Vec<Effect> {
        let Some(layout) = self.layout() else { return vec![] };
        let at = ratatui::layout::Position { x: column, y: row };
        if layout.list.contains(at) {
            if self.mode == Mode::Browse {
                self.step(if up { -1 } else { 1 });
            }
        } else {
            self.scroll(WHEEL_LINES, up);
        }
        vec![]
    }
}
