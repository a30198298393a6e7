//! What the dashboard knows and what keys do to it. No terminal, no clock, no session is touched here.
//!
//! Promise: the selection stays with its session when the order changes. What a person confirms, answers or
//! sends goes to the session they saw when they began, also if it moved or another question came meanwhile.
//! Not here: drawing (`view`), where knowledge comes from (`source`), doing what is asked (`actions`).
//! Start with [`Model::input`].

mod input;

use std::collections::BTreeMap;
use std::time::Duration;

use berth_api::message::Take;
use berth_api::turn::{Ask, Wish};
use berth_api::{Code, Problem};
use berth_core::SessionId;
use berth_verbs::foreign::Conversation;
use berth_verbs::hosts::Host;
use ratatui::layout::Rect;

use super::form::{Field, Interface, NewSession, Suggestion};
use super::layout::{Layout, Pane};
use super::panel::{Entries, Panel, PanelKind};
use super::preview::Preview;
use super::row::{Known, Row, RowState};
use crate::composer::Composer;
use crate::reading::ReadingTime;
use crate::replies::OwnWords;

/// A row moves up among its equals only if it was active this much later: rows do not jump with every byte.
const SETTLED_MS: u64 = 60_000;

/// Everything that is shown.
#[derive(Debug, Default)]
pub(crate) struct Model {
    all: BTreeMap<SessionId, Row>,
    /// What the list shows, in order.
    shown: Vec<SessionId>,
    selected: Option<SessionId>,
    pub(crate) mode: Mode,
    pub(crate) filter: Composer,
    /// A message that was begun and put aside.
    draft: Option<(SessionId, String)>,
    /// The form for a new session; kept until one was started with it.
    pub(crate) form: Option<NewSession>,
    /// What is being started with the form: as in `busy`.
    starting: Option<String>,
    /// The list that is open in place of the sessions.
    pub(crate) panel: Option<Panel>,
    /// Where the dashboard was started.
    cwd: String,
    /// A session that was made here, to be selected once it is found.
    awaited: Option<SessionId>,
    /// Whether the preview shows what is known about the session, in place of what it shows or says.
    pub(crate) with_details: bool,
    /// Whether what is old is shown too.
    pub(crate) with_old: bool,
    /// How many there are that are old and not shown.
    pub(crate) hidden: usize,
    pub(crate) pane: Pane,
    pub(crate) message: Option<Message>,
    /// When the message came.
    message_at: Duration,
    /// The session that a problem is about, and the state that it was in.
    message_about: Option<(SessionId, RowState)>,
    pub(crate) preview: Option<Preview>,
    /// How many lines the preview is scrolled up from where it rests: its end, or where the cursor is.
    pub(crate) scrolled: isize,
    /// The first session in view.
    pub(crate) top: usize,
    /// Whether everything was looked at once.
    pub(crate) is_loaded: bool,
    /// Whether a person has done anything yet.
    is_used: bool,
    /// What is being done: words for each.
    pub(crate) busy: Vec<String>,
    pub(crate) area: Rect,
    /// How many lines the footer takes, as the view last found.
    pub(crate) footer_height: u16,
    now_ms: u64,
    /// The time since the dashboard began, on a clock that never jumps.
    uptime: Duration,
}

/// What the keys are for.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) enum Mode {
    #[default]
    Browse,
    Filter,
    /// Text for a session.
    Write {
        what: Writing,
        text: Composer,
    },
    /// The form for a new session.
    New,
    /// The list that is open in place of the sessions.
    Panel,
    /// An answer to exactly this question.
    Answer {
        of: SessionId,
        ask: Ask,
        /// Of this run: agents number their questions anew in each.
        epoch: u64,
        /// When the question takes an answer; `None` until it is drawn.
        reading: Option<ReadingTime>,
        /// The options that were chosen so far, by their places, of a question that takes several.
        chosen: Vec<usize>,
    },
    /// A yes to exactly this.
    Confirm {
        question: String,
        action: Action,
    },
    Help,
}

/// What is being written.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Writing {
    /// A message to a session.
    Message { to: SessionId },
    /// Another name.
    Name { of: SessionId },
    /// The name of a copy; none is fine.
    Copy { of: SessionId },
    /// A note; an empty one takes it away.
    Note { of: SessionId },
    /// All tags.
    Tags { of: SessionId, before: Vec<String> },
    /// The text of a turn that waits.
    Turn { of: SessionId, number: u64 },
    /// An answer to exactly this question in own words, beside the options that were chosen.
    Reply { of: SessionId, ask: Box<Ask>, epoch: u64, words: OwnWords, chosen: Vec<usize> },
}

impl Writing {
    pub(crate) fn id(&self) -> &SessionId {
        match self {
            Self::Message { to: id }
            | Self::Name { of: id }
            | Self::Copy { of: id }
            | Self::Note { of: id }
            | Self::Tags { of: id, .. }
            | Self::Turn { of: id, .. }
            | Self::Reply { of: id, .. } => id,
        }
    }

    /// Whether it may have several lines.
    fn has_lines(&self) -> bool {
        matches!(self, Self::Message { .. } | Self::Turn { .. } | Self::Reply { .. })
    }
}

/// What the world has to do.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Effect {
    Quit,
    /// Stop as Ctrl-Z does.
    Suspend,
    /// Paint everything anew.
    Redraw,
    Attach {
        id: SessionId,
        observe: bool,
    },
    /// Attach to a session of another host.
    AttachThere {
        host: Host,
        session: String,
    },
    Do(Action),
    /// Find out what a list has.
    List(PanelKind),
    /// Find out which agents there are.
    ListAgents,
    /// Show another session, or the same one in another life.
    Look(Option<SessionId>),
    Bell,
}

/// Something to be done, away from the drawing thread.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Action {
    Start { agent: String, dir: String, interface: Interface, prompt: String },
    Adopt { conversation: Box<Conversation>, take: Take },
    Send { id: SessionId, text: String },
    Type { id: SessionId, text: String },
    Answer { id: SessionId, request: String, wish: Wish, epoch: u64 },
    Stop { id: SessionId },
    Cancel { id: SessionId, turn: String },
    Resume { id: SessionId },
    Switch { id: SessionId, to: berth_api::record::Interface },
    Archive { id: SessionId },
    Restore { id: SessionId },
    Rename { id: SessionId, name: String },
    Fork { id: SessionId, name: Option<String> },
    Note { id: SessionId, note: Option<String> },
    Tag { id: SessionId, add: Vec<String>, remove: Vec<String> },
    Queue { id: SessionId, change: QueueChange },
}

/// A change of what waits in a session.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum QueueChange {
    Edit {
        turn: u64,
        text: String,
    },
    Drop {
        turn: u64,
    },
    /// So many before it.
    Move {
        turn: u64,
        to: u64,
    },
    Pause,
    GoOn,
}

/// A word to the person, until the next key. A note vanishes by itself.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Message {
    Note(String),
    Problem(Problem),
}

/// What was found out about a session.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Found {
    Known(Box<Known>),
    Gone,
}

/// How something that was done came out.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Done {
    /// As it is in [`Model::busy`].
    pub(crate) what: String,
    pub(crate) outcome: Result<Outcome, Problem>,
}

/// What came of something that was done.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Outcome {
    /// What was done, in words that stay true.
    pub(crate) note: String,
    /// A session that was made.
    pub(crate) made: Option<SessionId>,
}

impl From<String> for Outcome {
    fn from(note: String) -> Self {
        Self { note, made: None }
    }
}

/// What was looked for, and found.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Listed {
    Panel(PanelKind, Result<Entries, Problem>),
    Agents(Result<Vec<Suggestion>, Problem>),
}

/// How long a note is shown.
pub(crate) const NOTE_TIME: Duration = Duration::from_secs(8);

impl Model {
    pub(crate) fn new(area: Rect, now_ms: u64) -> Self {
        Self { area, now_ms, footer_height: 1, ..Self::default() }
    }

    /// Sets the directory that new sessions are started in unless another one is chosen.
    pub(crate) fn set_cwd(&mut self, cwd: String) {
        self.cwd = cwd;
    }

    /// The time for everything that has an age.
    pub(crate) fn set_now(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
    }

    /// Sets the time that reading times are measured with. A note that was shown for long enough vanishes.
    pub(crate) fn set_uptime(&mut self, uptime: Duration) {
        self.uptime = uptime;
        if self.note_left().is_some_and(|left| left.is_zero()) {
            self.message = None;
        }
    }

    /// How long the note on the screen is still shown.
    pub(crate) fn note_left(&self) -> Option<Duration> {
        let until = self.message_at + NOTE_TIME;
        matches!(self.message, Some(Message::Note(_))).then(|| until.saturating_sub(self.uptime))
    }

    /// Called after this state was drawn: the reading time of its question begins.
    pub(crate) fn drawn(&mut self) {
        let now = self.uptime;
        if let Mode::Answer { reading: reading @ None, .. } = &mut self.mode {
            *reading = Some(ReadingTime::begin(now));
        }
    }

    /// How long the question on the screen still takes no answer.
    pub(crate) fn reading_left(&self) -> Option<Duration> {
        match &self.mode {
            Mode::Answer { reading: Some(reading), .. } => reading.left(self.uptime),
            _ => None,
        }
    }

    /// Whether a key answers the question on the screen.
    pub(crate) fn takes_answer(&self) -> bool {
        matches!(&self.mode, Mode::Answer { reading: Some(reading), .. } if reading.is_over(self.uptime))
    }

    pub(crate) fn now_ms(&self) -> u64 {
        self.now_ms
    }

    pub(crate) fn selected(&self) -> Option<&Row> {
        self.all.get(self.selected.as_ref()?)
    }

    /// A session, also one that is not in the list.
    pub(crate) fn row(&self, id: &SessionId) -> Option<&Row> {
        self.all.get(id)
    }

    /// What people call a session.
    pub(crate) fn handle_of(&self, id: &SessionId) -> String {
        self.all.get(id).map_or_else(|| id.to_string(), Row::handle)
    }

    /// What people call the session that something is done to.
    pub(crate) fn handle_of_target(&self, action: &Action) -> String {
        action.id().map(|id| self.handle_of(id)).unwrap_or_default()
    }

    /// The rows of the list, in order.
    pub(crate) fn rows(&self) -> impl ExactSizeIterator<Item = &Row> {
        self.shown.iter().map(|id| &self.all[id])
    }

    /// Where the selected one is in the list.
    pub(crate) fn place(&self) -> Option<usize> {
        let selected = self.selected.as_ref()?;
        self.shown.iter().position(|id| id == selected)
    }

    /// How many sessions are in each state that is worth a word.
    pub(crate) fn count(&self, is: impl Fn(&Row) -> bool) -> usize {
        self.all.values().filter(|row| is(row)).count()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The sessions that are in view, for what is measured only there.
    pub(crate) fn in_view(&self) -> Vec<SessionId> {
        let rows = self.layout().map_or(0, |layout| layout.rows());
        let listed = self.shown.iter().skip(self.top).take(rows);
        let mut ids: Vec<SessionId> = listed.chain(&self.selected).cloned().collect();
        ids.dedup();
        ids
    }

    pub(crate) fn layout(&self) -> Option<Layout> {
        // A question is read in full before it is answered.
        let pane = if self.question().is_some() { Pane::Preview } else { self.pane };
        Layout::of(self.area, pane, self.footer_height, self.shown.len())
    }

    /// The terminal has another size.
    pub(crate) fn resize(&mut self, area: Rect) {
        self.area = area;
        self.settle();
    }

    /// Takes in what was found out about sessions.
    pub(crate) fn found(&mut self, found: impl IntoIterator<Item = (SessionId, Found)>) -> Vec<Effect> {
        let looked_at = self.life_of_selected();
        let mut effects = Vec::new();
        for (id, found) in found {
            match found {
                Found::Gone => self.forget(&id),
                Found::Known(known) => {
                    let row = Row::new(id.clone(), *known);
                    let before = self.all.get(&id);
                    // Where nothing waits, no turn can have been edited.
                    let queue_changes =
                        before.is_none_or(|it| it.queued() + row.queued() > 0 || it.held() != row.held());
                    let newly = row.needs_you() && !before.is_some_and(Row::needs_you);
                    if newly && self.is_loaded && self.selected.as_ref() != Some(&id) {
                        effects.push(Effect::Bell);
                    }
                    self.take(row);
                    if let Some(panel) = &mut self.panel
                        && panel.kind == (PanelKind::Queue { of: id })
                        && queue_changes
                        && panel.look_again()
                    {
                        effects.push(Effect::List(panel.kind.clone()));
                    }
                }
            }
        }
        effects.dedup();
        self.arrange();
        self.select_awaited();
        self.drop_answer_to_nothing();
        self.drop_stale_problem();
        if self.life_of_selected() != looked_at {
            effects.push(Effect::Look(self.selected.clone()));
        }
        effects
    }

    /// Everything there is was looked at once.
    pub(crate) fn loaded(&mut self) {
        self.is_loaded = true;
    }

    /// Takes in what was measured: memory, the last sign of life, whether the keeper is suspended.
    pub(crate) fn measured(&mut self, id: &SessionId, pulse: &Pulse) {
        let Some(row) = self.all.get_mut(id) else { return };
        if let Known::Status(status) = &mut row.known {
            status.last_activity_at.0 = status.last_activity_at.0.max(pulse.last_activity_at);
        }
        row.memory_bytes = pulse.memory_bytes.or(row.memory_bytes);
        if row.suspended != pulse.suspended {
            row.suspended = pulse.suspended;
            self.arrange();
        }
    }

    pub(crate) fn previewed(&mut self, preview: Preview) {
        if self.selected.as_ref() == Some(&preview.id) {
            self.preview = Some(preview);
        }
    }

    /// Takes in how something came out.
    pub(crate) fn done(&mut self, done: Done) -> Vec<Effect> {
        let looked_at = self.life_of_selected();
        if let Some(at) = self.busy.iter().position(|busy| *busy == done.what) {
            self.busy.remove(at);
        }
        let was_form = self.starting.take_if(|starting| *starting == done.what).is_some();
        match done.outcome {
            Ok(outcome) => {
                if was_form && self.mode != Mode::New {
                    self.form = None;
                }
                if outcome.made.is_some() {
                    self.awaited = outcome.made;
                    self.select_awaited();
                }
                self.note(outcome.note);
            }
            Err(problem) => self.trouble(problem),
        }
        let is_other = self.life_of_selected() != looked_at;
        is_other.then(|| Effect::Look(self.selected.clone())).into_iter().collect()
    }

    /// Takes in what was looked for.
    pub(crate) fn listed(&mut self, listed: Listed) -> Vec<Effect> {
        match listed {
            Listed::Panel(kind, entries) => {
                if let Some(panel) = self.panel.as_mut().filter(|panel| panel.kind == kind)
                    && panel.set(entries)
                {
                    return vec![Effect::List(kind)];
                }
            }
            Listed::Agents(Ok(agents)) => {
                if let Some(form) = &mut self.form {
                    form.set_agents(agents);
                }
            }
            Listed::Agents(Err(problem)) => self.trouble(problem),
        }
        vec![]
    }

    /// Says something that vanishes by itself.
    pub(crate) fn note(&mut self, note: impl Into<String>) {
        self.message = Some(Message::Note(note.into()));
        (self.message_at, self.message_about) = (self.uptime, None);
    }

    /// Says what does not work, until the next key.
    pub(crate) fn trouble(&mut self, problem: Problem) {
        self.message = Some(Message::Problem(problem));
        self.message_about = None;
    }

    /// A problem with a session is none any more when its state has changed.
    fn drop_stale_problem(&mut self) {
        let Some((id, state)) = &self.message_about else { return };
        if self.all.get(id).map(Row::state).as_ref() != Some(state) {
            (self.message, self.message_about) = (None, None);
        }
    }

    /// Selects a session that was made here, once it is in the list.
    fn select_awaited(&mut self) {
        if self.awaited.as_ref().is_some_and(|id| self.shown.contains(id)) {
            self.selected = self.awaited.take();
            self.new_selection();
            self.settle();
        }
    }

    fn take(&mut self, mut row: Row) {
        if let Some(before) = self.all.get(&row.id) {
            row.suspended = before.suspended && row.is_live();
            row.memory_bytes = before.memory_bytes.filter(|_| row.is_live());
            let is_settled = row.placed_at < before.placed_at.saturating_add(SETTLED_MS);
            if row.rank() == before.rank() && is_settled {
                row.placed_at = before.placed_at;
            }
        }
        self.all.insert(row.id.clone(), row);
    }

    fn forget(&mut self, id: &SessionId) {
        let Some(row) = self.all.remove(id) else { return };
        if matches!(&self.panel, Some(Panel { kind: PanelKind::Queue { of }, .. }) if of == id) {
            self.panel = None;
        }
        let is_target = match &self.mode {
            Mode::Browse | Mode::Filter | Mode::Help | Mode::New => false,
            Mode::Panel => self.panel.is_none(),
            Mode::Write { what, .. } => what.id() == id,
            Mode::Answer { of, .. } => of == id,
            Mode::Confirm { action, .. } => action.id() == Some(id),
        };
        if is_target {
            self.leave_mode();
        }
        if is_target || self.selected.as_ref() == Some(id) {
            self.note(format!("{} is gone", row.handle()));
        }
    }

    /// The question that is being answered, and whose it is.
    pub(crate) fn question(&self) -> Option<(&SessionId, &Ask, u64, &[usize])> {
        match &self.mode {
            Mode::Answer { of, ask, epoch, chosen, .. } => Some((of, ask, *epoch, chosen)),
            Mode::Write { what: Writing::Reply { of, ask, epoch, chosen, .. }, .. } => {
                Some((of, ask, *epoch, chosen))
            }
            _ => None,
        }
    }

    /// A question that was answered elsewhere, or withdrawn, needs no answer any more. A reply that is being written
    /// stays open: the next letters must not become commands.
    fn drop_answer_to_nothing(&mut self) {
        let Some((of, ask, epoch, _)) = self.question() else { return };
        if self.is_asked(of, &ask.request, epoch) {
            return;
        }
        self.note(NO_LONGER_ASKED);
        if matches!(self.mode, Mode::Answer { .. }) {
            self.mode = Mode::Browse;
        }
    }

    /// Whether a session waits for the answer to this question of this run.
    fn is_asked(&self, of: &SessionId, request: &str, epoch: u64) -> bool {
        let row = self.all.get(of).filter(|row| row.epoch() == epoch);
        row.is_some_and(|row| row.asks().iter().any(|it| it.request == request))
    }

    /// What decides whether the preview has to begin anew.
    fn life_of_selected(&self) -> Option<(SessionId, u64, Option<u32>, bool)> {
        let row = self.selected()?;
        let life = |status: &berth_api::Status| (status.epoch, status.keeper_pid, status.turns.is_some());
        let (epoch, keeper, turns) = row.status().map(life).unwrap_or_default();
        Some((row.id.clone(), epoch, keeper, turns))
    }

    /// Puts the list in order: who needs you first; within that, the last active first.
    fn arrange(&mut self) {
        let place = self.place().unwrap_or(0);
        let filter = self.filter.text().to_owned();
        let mut hidden = 0;
        let mut shown: Vec<&Row> = Vec::with_capacity(self.all.len());
        for row in self.all.values() {
            // Who looks for something looks everywhere.
            let is_hidden = !self.with_old && filter.trim().is_empty() && row.is_old(self.now_ms);
            hidden += usize::from(is_hidden);
            if !is_hidden && row.matches(&filter) {
                shown.push(row);
            }
        }
        shown.sort_by_key(|row| (row.rank(), std::cmp::Reverse(row.placed_at), &row.id));
        self.shown = shown.into_iter().map(|row| row.id.clone()).collect();
        self.hidden = hidden;
        if !self.is_loaded && !self.is_used && self.selected.as_ref() != self.shown.first() {
            // They come in parts, in any order: nobody chose the one that was first for a moment.
            self.selected = self.shown.first().cloned();
            self.new_selection();
        }
        if self.place().is_none() {
            // The neighbour takes its place, in the list: where only a preview is shown, another session would
            // be on the screen all at once.
            self.pane = Pane::List;
            self.selected = self.shown.get(place.min(self.shown.len().saturating_sub(1))).cloned();
            self.new_selection();
        }
        self.settle();
    }

    fn new_selection(&mut self) {
        self.preview = None;
        self.scrolled = 0;
    }

    /// Keeps the selected one in view.
    fn settle(&mut self) {
        // A list that is not shown is found again where it was.
        let Some(layout) = self.layout().filter(|layout| layout.list.height > 0) else { return };
        let rows = layout.rows();
        let place = self.place().unwrap_or(0);
        self.top = self.top.min(place).min(self.shown.len().saturating_sub(rows));
        self.top = self.top.max((place + 1).saturating_sub(rows));
    }

    /// Back to the list that is open, or to the sessions; a message that was begun is kept.
    fn leave_mode(&mut self) {
        if let Mode::Write { what: Writing::Message { to }, text } = std::mem::take(&mut self.mode) {
            self.draft = Some((to, text.text().to_owned())).filter(|(_, text)| !text.is_empty());
        }
        self.mode = self.resting_mode();
    }

    /// What the keys are for when nothing else is under way.
    fn resting_mode(&self) -> Mode {
        if self.panel.is_some() { Mode::Panel } else { Mode::Browse }
    }
}

/// What is measured of a session now and then.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Pulse {
    pub(crate) memory_bytes: Option<u64>,
    pub(crate) last_activity_at: u64,
    pub(crate) suspended: bool,
}

impl Action {
    /// The session that something is done to, if it is there already.
    pub(crate) fn id(&self) -> Option<&SessionId> {
        match self {
            Self::Start { .. } | Self::Adopt { .. } => None,
            Self::Send { id, .. }
            | Self::Type { id, .. }
            | Self::Answer { id, .. }
            | Self::Stop { id }
            | Self::Cancel { id, .. }
            | Self::Resume { id }
            | Self::Switch { id, .. }
            | Self::Archive { id }
            | Self::Restore { id }
            | Self::Rename { id, .. }
            | Self::Fork { id, .. }
            | Self::Note { id, .. }
            | Self::Tag { id, .. }
            | Self::Queue { id, .. } => Some(id),
        }
    }

    /// What is being done, in words.
    pub(crate) fn words(&self, handle: &str) -> String {
        match self {
            Self::Start { agent, .. } => format!("starting {agent}"),
            Self::Adopt { .. } => "going on with the conversation".to_owned(),
            Self::Send { .. } => format!("sending to {handle}"),
            Self::Type { .. } => format!("typing into {handle}"),
            Self::Answer { .. } => format!("answering {handle}"),
            Self::Stop { .. } => format!("stopping {handle}"),
            Self::Cancel { .. } => format!("interrupting {handle}"),
            Self::Resume { .. } => format!("resuming {handle}"),
            Self::Switch { to, .. } => format!("switching {handle} to its {}", to.word()),
            Self::Archive { .. } => format!("archiving {handle}"),
            Self::Restore { .. } => format!("restoring {handle}"),
            Self::Rename { .. } => format!("renaming {handle}"),
            Self::Fork { .. } => format!("forking {handle}"),
            Self::Note { .. } => format!("writing the note of {handle}"),
            Self::Tag { .. } => format!("tagging {handle}"),
            Self::Queue { .. } => format!("changing the queue of {handle}"),
        }
    }
}

/// The note about a question that was answered elsewhere, or withdrawn.
const NO_LONGER_ASKED: &str = "the question is no longer asked";
/// How many things may be under way at once.
const MOST_BUSY: usize = 16;

impl Model {
    /// Has something done, unless too much is being done already.
    fn act(&mut self, action: Action) -> Vec<Effect> {
        if self.busy.len() >= MOST_BUSY {
            let what = format!("{MOST_BUSY} things are under way already; nothing was done");
            self.trouble(Problem::new(Code::Refused, what).hint("wait until one of them is over"));
            return vec![];
        }
        self.busy.push(action.words(&self.handle_of_target(&action)));
        vec![Effect::Do(action)]
    }
}

#[cfg(test)]
pub(crate) mod tests;
