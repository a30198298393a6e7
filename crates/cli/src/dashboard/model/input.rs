//! Keys, pastes and the mouse: what each does in each mode.

use berth_api::turn::{AskKind, Wish};
use berth_api::{Code, Problem};

use super::super::composer::{Composer, TooLong};
use super::super::keys::{Input, Key};
use super::super::layout::{Layout, Pane};
use super::{Action, Effect, Message, Mode, Model};

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
            Mode::Compose { .. } => self.compose(key),
            Mode::Answer { .. } => self.answer(key),
            Mode::Confirm { .. } => self.confirm(key),
            Mode::Help => {
                self.mode = Mode::Browse;
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
            Key::Char('s') => self.begin_message(),
            Key::Char('a') => self.begin_answer(),
            Key::Char('x') => self.ask_to_stop(),
            Key::Char('c') => self.ask_to_cancel(),
            Key::Char('r') => return self.resume(),
            Key::Char('A') => return self.put_away_or_back(),
            _ => {}
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
            None => self.message = Some(Message::Note("nobody needs you".to_owned())),
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

    fn refuse(&mut self, what: &str, hint: &str) -> Vec<Effect> {
        self.trouble(Problem::new(Code::Refused, what).hint(hint));
        vec![]
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
            self.mode = Mode::Compose { to, text: Composer::with(draft.unwrap_or_default()) };
        }
    }

    fn begin_answer(&mut self) {
        let Some(row) = self.selected() else { return };
        match row.asks().first().cloned() {
            Some(ask) => {
                self.mode = Mode::Answer { of: row.id.clone(), ask, epoch: row.epoch(), reading: None };
                // The question is at the end.
                self.scrolled = 0;
                self.pane = Pane::Preview;
            }
            None => self.message = Some(Message::Note(format!("{} asks nothing", row.handle()))),
        }
    }

    fn ask_to_stop(&mut self) {
        let Some(row) = self.selected() else { return };
        if row.is_live() {
            let question = format!("stop {}?", row.handle());
            self.mode = Mode::Confirm { question, action: Action::Stop { id: row.id.clone() } };
        } else {
            self.message = Some(Message::Note(format!("{} is not running", row.handle())));
        }
    }

    fn ask_to_cancel(&mut self) {
        let Some(row) = self.selected() else { return };
        match row.current_turn() {
            Some(turn) => {
                let question = format!("have {} break off its turn?", row.handle());
                let action = Action::Cancel { id: row.id.clone(), turn: turn.to_owned() };
                self.mode = Mode::Confirm { question, action };
            }
            None => self.message = Some(Message::Note(format!("{} has no turn to cancel", row.handle()))),
        }
    }

    fn resume(&mut self) -> Vec<Effect> {
        let Some(row) = self.selected() else { return vec![] };
        if row.is_live() {
            let note = format!("{} is running already", row.handle());
            self.message = Some(Message::Note(note));
            return vec![];
        }
        let id = row.id.clone();
        self.act(Action::Resume { id })
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
                let _ = edit(&mut self.filter, key);
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

    fn compose(&mut self, key: Key) -> Vec<Effect> {
        let Mode::Compose { to, text } = &mut self.mode else { return vec![] };
        match key {
            Key::Esc | Key::Ctrl('c') => {
                self.leave_mode();
                if self.draft.is_some() {
                    self.message = Some(Message::Note("not sent; s goes on with it".to_owned()));
                }
                vec![]
            }
            Key::Enter => {
                let (id, text) = (to.clone(), text.text().to_owned());
                self.mode = Mode::Browse;
                if text.trim().is_empty() {
                    return vec![];
                }
                let is_sent = self.all.get(&id).is_some_and(super::Row::can_be_sent_to);
                self.act(if is_sent { Action::Send { id, text } } else { Action::Type { id, text } })
            }
            Key::AltEnter | Key::Ctrl('j') => self.write("\n"),
            key => match edit(text, key) {
                Ok(()) => vec![],
                Err(TooLong) => self.too_long(),
            },
        }
    }

    /// Puts text into the message that is being written.
    fn write(&mut self, more: &str) -> Vec<Effect> {
        let Mode::Compose { text, .. } = &mut self.mode else { return vec![] };
        match text.insert(more) {
            Ok(()) => vec![],
            Err(TooLong) => self.too_long(),
        }
    }

    fn too_long(&mut self) -> Vec<Effect> {
        let limit = berth_core::MAX_PROMPT_BYTES;
        let what = format!("a message has at most {limit} bytes; this was not added");
        self.refuse(&what, "put it into a file and name that in the message")
    }

    fn answer(&mut self, key: Key) -> Vec<Effect> {
        let now = self.uptime;
        let Mode::Answer { of, ask, epoch, reading } = &mut self.mode else { return vec![] };
        let is_read = reading.as_mut().is_some_and(|reading| reading.press(now));
        let has = |kinds: [AskKind; 2]| ask.options.iter().any(|option| kinds.contains(&option.kind));
        let wish = match key {
            Key::Char('y') if has([AskKind::AllowOnce, AskKind::AllowAlways]) => Wish::Allow,
            Key::Char('n') if has([AskKind::RejectOnce, AskKind::RejectAlways]) => Wish::DENY,
            Key::Char(digit @ '1'..='9') => {
                let at = digit as usize - '1' as usize;
                let Some(option) = ask.options.get(at) else { return vec![] };
                Wish::option(option.id.as_str())
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
        if key == Key::Char('y') {
            return self.act(action);
        }
        self.message = Some(Message::Note("nothing was done".to_owned()));
        vec![]
    }

    fn paste(&mut self, text: &str, cut: bool) -> Vec<Effect> {
        match &mut self.mode {
            Mode::Compose { .. } if cut => self.too_long(),
            Mode::Compose { .. } => self.write(text),
            Mode::Filter => {
                let _ = self.filter.insert(text.lines().next().unwrap_or_default());
                self.arrange();
                vec![]
            }
            // Pasted text is never a key.
            Mode::Browse | Mode::Answer { .. } | Mode::Confirm { .. } | Mode::Help => {
                self.message = Some(Message::Note("s begins a message; then paste".to_owned()));
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

/// What keys do to a line that is being written.
fn edit(line: &mut Composer, key: Key) -> Result<(), TooLong> {
    match key {
        Key::Char(c) => return line.insert(c.encode_utf8(&mut [0; 4])),
        Key::Backspace => line.backspace(),
        Key::Delete | Key::Ctrl('d') => line.delete(),
        Key::Left | Key::Ctrl('b') => line.left(),
        Key::Right | Key::Ctrl('f') => line.right(),
        Key::Home | Key::Ctrl('a') => line.home(),
        Key::End | Key::Ctrl('e') => line.end(),
        Key::Ctrl('w') => line.drop_word(),
        Key::Ctrl('u') => line.drop_line(),
        Key::Ctrl(_)
        | Key::Alt(_)
        | Key::AltEnter
        | Key::Enter
        | Key::Esc
        | Key::Tab
        | Key::Up
        | Key::Down
        | Key::PageUp
        | Key::PageDown => {}
    }
    Ok(())
}
