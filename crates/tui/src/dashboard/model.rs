//! The state of the dashboard, and the effects of keys on it. No I/O and no clock here.
//!
//! Promise: the selection stays with its session when the order changes. A confirmation, answer or message goes to the
//! session that the user saw when they began, even if it moved or another question came meanwhile.
//! Not here: drawing (`view`), data sources (`source`), carrying out actions (`actions`).
//! Start with [`DashboardModel::input`].

mod input;

use std::collections::BTreeMap;
use std::time::Duration;

use berth_api::Problem;
use berth_api::message::WriterTakeover;
use berth_api::turn::{AgentQuestion, QuestionReply};
use berth_core::SessionId;
use berth_verbs::foreign::AgentConversation;
use berth_verbs::hosts::RemoteHost;
use ratatui::layout::Rect;

use super::form::{FormField, FormSuggestion, InterfaceChoice, NewSessionForm};
use super::layout::{ActivePane, DashboardLayout};
use super::panel::{PanelEntries, PanelKind, SidePanel};
use super::preview::SessionPreview;
use super::row::{DashboardRow, RowState, RowStatus};
use crate::composer::Composer;
use crate::question_replies::FreeTextKind;
use crate::reading_time::ReadingTime;

/// A row moves up among equal ones only if its activity is this much later, so rows do not jump with every byte.
const SETTLED_MS: u64 = 60_000;

/// The state behind everything on the screen.
#[derive(Debug, Default)]
pub(crate) struct DashboardModel {
    all: BTreeMap<SessionId, DashboardRow>,
    /// Ids of the listed sessions, in order.
    shown: Vec<SessionId>,
    selected: Option<SessionId>,
    pub(crate) mode: DashboardMode,
    pub(crate) filter: Composer,
    /// A message that was begun and put aside, and its session.
    draft: Option<(SessionId, String)>,
    /// The form for a new session; kept until a session was started with it.
    pub(crate) form: Option<NewSessionForm>,
    /// The entry in `busy` for the session that the form is starting.
    starting: Option<String>,
    /// The list that is open in place of the sessions.
    pub(crate) panel: Option<SidePanel>,
    /// The directory that the dashboard was started in.
    cwd: String,
    /// A session that was made here, to be selected once it is in the list.
    awaited: Option<SessionId>,
    /// True if the details of the session are shown in place of its preview.
    pub(crate) with_details: bool,
    /// True if old sessions are listed too.
    pub(crate) with_old: bool,
    /// Number of old sessions that are not listed.
    pub(crate) hidden: usize,
    pub(crate) pane: ActivePane,
    pub(crate) message: Option<StatusLineMessage>,
    /// Uptime at which the message came.
    message_at: Duration,
    /// The session that a problem is about, and the state that it was in.
    message_about: Option<(SessionId, RowState)>,
    pub(crate) preview: Option<SessionPreview>,
    /// How many lines the preview is scrolled up from its resting place: its end, or the line of the cursor.
    pub(crate) scrolled: isize,
    /// Index of the first session in view.
    pub(crate) top: usize,
    /// True once every session was read.
    pub(crate) is_loaded: bool,
    /// True once the user has pressed a key.
    is_used: bool,
    /// Labels of the actions under way.
    pub(crate) busy: Vec<String>,
    pub(crate) area: Rect,
    /// Height of the footer in lines, as last drawn.
    pub(crate) footer_height: u16,
    now_ms: u64,
    /// Time since the dashboard began, on a monotonic clock.
    uptime: Duration,
}

/// The meaning of keys at the moment.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) enum DashboardMode {
    #[default]
    Browse,
    Filter,
    /// Writing a text for a session.
    Write {
        what: DraftTarget,
        text: Composer,
    },
    /// Filling the form for a new session.
    New,
    /// Choosing in the list that is open in place of the sessions.
    Panel,
    /// Answering exactly this question.
    Answer {
        of: SessionId,
        ask: AgentQuestion,
        /// The epoch of the run that asks: agents number their questions anew in each run.
        epoch: u64,
        /// When the question accepts an answer; `None` until it is drawn.
        reading: Option<ReadingTime>,
        /// The options chosen so far, by their positions, if the question takes several.
        chosen: Vec<usize>,
    },
    /// Confirming exactly this action.
    Confirm {
        question: String,
        action: DashboardAction,
    },
    Help,
}

/// The purpose of the text that is being written.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum DraftTarget {
    /// A message to a session.
    Message { to: SessionId },
    /// A new name for a session.
    Name { of: SessionId },
    /// The name of a fork; may be empty.
    Copy { of: SessionId },
    /// A note; an empty one removes the note.
    Note { of: SessionId },
    /// All tags of a session.
    Tags { of: SessionId, before: Vec<String> },
    /// The text of a waiting turn.
    Turn { of: SessionId, number: u64 },
    /// An answer in own words to exactly this question, beside the chosen options.
    Reply { of: SessionId, ask: Box<AgentQuestion>, epoch: u64, words: FreeTextKind, chosen: Vec<usize> },
}

impl DraftTarget {
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

    /// True if the text may have several lines.
    fn has_lines(&self) -> bool {
        matches!(self, Self::Message { .. } | Self::Turn { .. } | Self::Reply { .. })
    }
}

/// An effect that the caller of the model must carry out.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum DashboardEffect {
    Quit,
    /// Suspend the dashboard, as Ctrl-Z does.
    Suspend,
    /// Paint the whole screen again.
    Redraw,
    Attach {
        id: SessionId,
        observe: bool,
    },
    /// Attach to a session of another host.
    AttachThere {
        host: RemoteHost,
        session: String,
    },
    Do(DashboardAction),
    /// Read the entries of a list.
    List(PanelKind),
    /// Read the table of agents.
    ListAgents,
    /// Preview another session, or another run of the selected one.
    Look(Option<SessionId>),
    Bell,
}

/// An action on a session, carried out beside the drawing thread.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum DashboardAction {
    Start { agent: String, dir: String, interface: InterfaceChoice, prompt: String },
    Adopt { conversation: Box<AgentConversation>, take: WriterTakeover },
    Send { id: SessionId, text: String },
    Type { id: SessionId, text: String },
    Answer { id: SessionId, request: String, reply: QuestionReply, epoch: u64 },
    Stop { id: SessionId },
    Cancel { id: SessionId, turn: String },
    Resume { id: SessionId },
    Switch { id: SessionId, to: berth_api::record::AgentInterface },
    Archive { id: SessionId },
    Restore { id: SessionId },
    Rename { id: SessionId, name: String },
    Fork { id: SessionId, name: Option<String> },
    Note { id: SessionId, note: Option<String> },
    Tag { id: SessionId, add: Vec<String>, remove: Vec<String> },
    Queue { id: SessionId, change: QueueAction },
}

/// A change of a session's queue.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum QueueAction {
    Edit {
        turn: u64,
        text: String,
    },
    Drop {
        turn: u64,
    },
    /// Moves a turn so that `to` turns come before it.
    Move {
        turn: u64,
        to: u64,
    },
    Pause,
    GoOn,
}

/// A message for the user, shown until the next key. A note vanishes by itself.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum StatusLineMessage {
    Note(String),
    Problem(Problem),
}

/// A change of what is known about a session.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum SessionLookup {
    Known(Box<RowStatus>),
    Gone,
}

/// The end of an action.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct FinishedAction {
    /// The label of the action in [`DashboardModel::busy`].
    pub(crate) what: String,
    pub(crate) outcome: Result<ActionOutcome, Problem>,
}

/// The result of an action.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct ActionOutcome {
    /// The finished action, in the past tense.
    pub(crate) note: String,
    /// The session that was made, if any.
    pub(crate) made: Option<SessionId>,
}

impl From<String> for ActionOutcome {
    fn from(note: String) -> Self {
        Self { note, made: None }
    }
}

/// Entries that were read for a list.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum LoadedList {
    Panel(PanelKind, Result<PanelEntries, Problem>),
    Agents(Result<Vec<FormSuggestion>, Problem>),
}

/// How long a note is shown.
pub(crate) const NOTE_TIME: Duration = Duration::from_secs(8);

impl DashboardModel {
    pub(crate) fn new(area: Rect, now_ms: u64) -> Self {
        Self { area, now_ms, footer_height: 1, ..Self::default() }
    }

    /// Sets the default directory of new sessions.
    pub(crate) fn set_cwd(&mut self, cwd: String) {
        self.cwd = cwd;
    }

    /// Sets the wall-clock time, for ages.
    pub(crate) fn set_now(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
    }

    /// Sets the uptime, for reading times. A note that was shown for long enough vanishes.
    pub(crate) fn set_uptime(&mut self, uptime: Duration) {
        self.uptime = uptime;
        if self.note_left().is_some_and(|left| left.is_zero()) {
            self.message = None;
        }
    }

    /// How long the present note is still shown.
    pub(crate) fn note_left(&self) -> Option<Duration> {
        let until = self.message_at + NOTE_TIME;
        matches!(self.message, Some(StatusLineMessage::Note(_))).then(|| until.saturating_sub(self.uptime))
    }

    /// Call after this state was drawn: the reading time of its question begins.
    pub(crate) fn drawn(&mut self) {
        let now = self.uptime;
        if let DashboardMode::Answer { reading: reading @ None, .. } = &mut self.mode {
            *reading = Some(ReadingTime::begin(now));
        }
    }

    /// How long the question on the screen still accepts no answer.
    pub(crate) fn reading_left(&self) -> Option<Duration> {
        match &self.mode {
            DashboardMode::Answer { reading: Some(reading), .. } => reading.left(self.uptime),
            _ => None,
        }
    }

    /// True if a key now answers the question on the screen.
    pub(crate) fn takes_answer(&self) -> bool {
        matches!(&self.mode, DashboardMode::Answer { reading: Some(reading), .. } if reading.is_over(self.uptime))
    }

    pub(crate) fn now_ms(&self) -> u64 {
        self.now_ms
    }

    pub(crate) fn selected(&self) -> Option<&DashboardRow> {
        self.all.get(self.selected.as_ref()?)
    }

    /// The row of a session, even if it is not in the list.
    pub(crate) fn row(&self, id: &SessionId) -> Option<&DashboardRow> {
        self.all.get(id)
    }

    /// The name of a session for people.
    pub(crate) fn handle_of(&self, id: &SessionId) -> String {
        self.all.get(id).map_or_else(|| id.to_string(), DashboardRow::handle)
    }

    /// The name of an action's target, for people.
    pub(crate) fn handle_of_target(&self, action: &DashboardAction) -> String {
        action.id().map(|id| self.handle_of(id)).unwrap_or_default()
    }

    /// The rows of the list, in order.
    pub(crate) fn rows(&self) -> impl ExactSizeIterator<Item = &DashboardRow> {
        self.shown.iter().map(|id| &self.all[id])
    }

    /// Position of the selected session in the list.
    pub(crate) fn place(&self) -> Option<usize> {
        let selected = self.selected.as_ref()?;
        self.shown.iter().position(|id| id == selected)
    }

    /// Number of sessions for which `is` is true.
    pub(crate) fn count(&self, is: impl Fn(&DashboardRow) -> bool) -> usize {
        self.all.values().filter(|row| is(row)).count()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The sessions in view, which are the only ones measured.
    pub(crate) fn in_view(&self) -> Vec<SessionId> {
        let rows = self.layout().map_or(0, |layout| layout.rows());
        let listed = self.shown.iter().skip(self.top).take(rows);
        let mut ids: Vec<SessionId> = listed.chain(&self.selected).cloned().collect();
        ids.dedup();
        ids
    }

    pub(crate) fn layout(&self) -> Option<DashboardLayout> {
        // A question must be read in full before it is answered.
        let pane = if self.question().is_some() { ActivePane::Preview } else { self.pane };
        DashboardLayout::of(self.area, pane, self.footer_height, self.shown.len())
    }

    /// Call when the terminal was resized.
    pub(crate) fn resize(&mut self, area: Rect) {
        self.area = area;
        self.settle();
    }

    /// Applies changes of what is known about sessions.
    pub(crate) fn found(
        &mut self,
        found: impl IntoIterator<Item = (SessionId, SessionLookup)>,
    ) -> Vec<DashboardEffect> {
        let looked_at = self.preview_key();
        let mut effects = Vec::new();
        for (id, found) in found {
            match found {
                SessionLookup::Gone => self.forget(&id),
                SessionLookup::Known(known) => {
                    let row = DashboardRow::new(id.clone(), *known);
                    let before = self.all.get(&id);
                    // An empty queue has no turn that can have been edited.
                    let queue_changes =
                        before.is_none_or(|it| it.queued() + row.queued() > 0 || it.held() != row.held());
                    let newly = row.needs_you() && !before.is_some_and(DashboardRow::needs_you);
                    if newly && self.is_loaded && self.selected.as_ref() != Some(&id) {
                        effects.push(DashboardEffect::Bell);
                    }
                    self.take(row);
                    if let Some(panel) = &mut self.panel
                        && panel.kind == (PanelKind::Queue { of: id })
                        && queue_changes
                        && panel.mark_outdated()
                    {
                        effects.push(DashboardEffect::List(panel.kind.clone()));
                    }
                }
            }
        }
        effects.dedup();
        self.sort();
        self.select_awaited();
        self.drop_stale_answer();
        self.drop_stale_problem();
        if self.preview_key() != looked_at {
            effects.push(DashboardEffect::Look(self.selected.clone()));
        }
        effects
    }

    /// Call when every session was read once.
    pub(crate) fn loaded(&mut self) {
        self.is_loaded = true;
    }

    /// Applies a measurement: memory, the last output, a suspended keeper.
    pub(crate) fn measured(&mut self, id: &SessionId, pulse: &SessionMeasurement) {
        let Some(row) = self.all.get_mut(id) else { return };
        if let RowStatus::Status(status) = &mut row.known {
            status.last_activity_at.0 = status.last_activity_at.0.max(pulse.last_activity_at);
        }
        row.memory_bytes = pulse.memory_bytes.or(row.memory_bytes);
        if row.suspended != pulse.suspended {
            row.suspended = pulse.suspended;
            self.sort();
        }
    }

    pub(crate) fn previewed(&mut self, preview: SessionPreview) {
        if self.selected.as_ref() == Some(&preview.id) {
            self.preview = Some(preview);
        }
    }

    /// Applies the end of an action.
    pub(crate) fn done(&mut self, done: FinishedAction) -> Vec<DashboardEffect> {
        let looked_at = self.preview_key();
        if let Some(at) = self.busy.iter().position(|busy| *busy == done.what) {
            self.busy.remove(at);
        }
        let was_form = self.starting.take_if(|starting| *starting == done.what).is_some();
        match done.outcome {
            Ok(outcome) => {
                if was_form && self.mode != DashboardMode::New {
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
        let is_other = self.preview_key() != looked_at;
        is_other.then(|| DashboardEffect::Look(self.selected.clone())).into_iter().collect()
    }

    /// Applies the entries that were read for a list.
    pub(crate) fn listed(&mut self, listed: LoadedList) -> Vec<DashboardEffect> {
        match listed {
            LoadedList::Panel(kind, entries) => {
                if let Some(panel) = self.panel.as_mut().filter(|panel| panel.kind == kind)
                    && panel.set(entries)
                {
                    return vec![DashboardEffect::List(kind)];
                }
            }
            LoadedList::Agents(Ok(agents)) => {
                if let Some(form) = &mut self.form {
                    form.set_agents(agents);
                }
            }
            LoadedList::Agents(Err(problem)) => self.trouble(problem),
        }
        vec![]
    }

    /// Shows a note that vanishes by itself.
    pub(crate) fn note(&mut self, note: impl Into<String>) {
        self.message = Some(StatusLineMessage::Note(note.into()));
        (self.message_at, self.message_about) = (self.uptime, None);
    }

    /// Shows a problem until the next key.
    pub(crate) fn trouble(&mut self, problem: Problem) {
        self.message = Some(StatusLineMessage::Problem(problem));
        self.message_about = None;
    }

    /// Drops a problem about a session whose state has changed since.
    fn drop_stale_problem(&mut self) {
        let Some((id, state)) = &self.message_about else { return };
        if self.all.get(id).map(DashboardRow::state).as_ref() != Some(state) {
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

    fn take(&mut self, mut row: DashboardRow) {
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
        if matches!(&self.panel, Some(SidePanel { kind: PanelKind::Queue { of }, .. }) if of == id) {
            self.panel = None;
        }
        let is_target = match &self.mode {
            DashboardMode::Browse | DashboardMode::Filter | DashboardMode::Help | DashboardMode::New => false,
            DashboardMode::Panel => self.panel.is_none(),
            DashboardMode::Write { what, .. } => what.id() == id,
            DashboardMode::Answer { of, .. } => of == id,
            DashboardMode::Confirm { action, .. } => action.id() == Some(id),
        };
        if is_target {
            self.leave_mode();
        }
        if is_target || self.selected.as_ref() == Some(id) {
            self.note(format!("{} is gone", row.handle()));
        }
    }

    /// The question that is being answered, with its session, epoch and chosen options.
    pub(crate) fn question(&self) -> Option<(&SessionId, &AgentQuestion, u64, &[usize])> {
        match &self.mode {
            DashboardMode::Answer { of, ask, epoch, chosen, .. } => Some((of, ask, *epoch, chosen)),
            DashboardMode::Write { what: DraftTarget::Reply { of, ask, epoch, chosen, .. }, .. } => {
                Some((of, ask, *epoch, chosen))
            }
            _ => None,
        }
    }

    /// Closes a question that was answered elsewhere or withdrawn. A reply that is being written stays open: the next
    /// letters must not become commands.
    fn drop_stale_answer(&mut self) {
        let Some((of, ask, epoch, _)) = self.question() else { return };
        if self.is_asked(of, &ask.request, epoch) {
            return;
        }
        self.note(NO_LONGER_ASKED);
        if matches!(self.mode, DashboardMode::Answer { .. }) {
            self.mode = DashboardMode::Browse;
        }
    }

    /// True if the session waits for the answer to this question of this run.
    fn is_asked(&self, of: &SessionId, request: &str, epoch: u64) -> bool {
        let row = self.all.get(of).filter(|row| row.epoch() == epoch);
        row.is_some_and(|row| row.asks().iter().any(|it| it.request == request))
    }

    /// The preview begins anew when this value changes.
    fn preview_key(&self) -> Option<(SessionId, u64, Option<u32>, bool)> {
        let row = self.selected()?;
        let life =
            |status: &berth_api::SessionStatus| (status.epoch, status.keeper_pid, status.turns.is_some());
        let (epoch, keeper, turns) = row.status().map(life).unwrap_or_default();
        Some((row.id.clone(), epoch, keeper, turns))
    }

    /// Sorts the list: sessions that need you first, then by last activity.
    fn sort(&mut self) {
        let place = self.place().unwrap_or(0);
        let filter = self.filter.text().to_owned();
        let mut hidden = 0;
        let mut shown: Vec<&DashboardRow> = Vec::with_capacity(self.all.len());
        for row in self.all.values() {
            // A filter searches old sessions too.
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
            // Sessions are found in parts and in any order, so the first one for a moment was not chosen by the user.
            self.selected = self.shown.first().cloned();
            self.new_selection();
        }
        if self.place().is_none() {
            // The next session takes its place, in the list: where only a preview is shown, another session would
            // suddenly be on the screen.
            self.pane = ActivePane::List;
            self.selected = self.shown.get(place.min(self.shown.len().saturating_sub(1))).cloned();
            self.new_selection();
        }
        self.settle();
    }

    fn new_selection(&mut self) {
        self.preview = None;
        self.scrolled = 0;
    }

    /// Scrolls the list so that the selected session is in view.
    fn settle(&mut self) {
        // A hidden list keeps its position.
        let Some(layout) = self.layout().filter(|layout| layout.list.height > 0) else { return };
        let rows = layout.rows();
        let place = self.place().unwrap_or(0);
        self.top = self.top.min(place).min(self.shown.len().saturating_sub(rows));
        self.top = self.top.max((place + 1).saturating_sub(rows));
    }

    /// Returns to the open list, or to the sessions; keeps a message that was begun.
    fn leave_mode(&mut self) {
        if let DashboardMode::Write { what: DraftTarget::Message { to }, text } =
            std::mem::take(&mut self.mode)
        {
            self.draft = Some((to, text.text().to_owned())).filter(|(_, text)| !text.is_empty());
        }
        self.mode = self.default_mode();
    }

    /// The mode when the user is in no dialogue.
    fn default_mode(&self) -> DashboardMode {
        if self.panel.is_some() { DashboardMode::Panel } else { DashboardMode::Browse }
    }
}

/// Regular measurements of a session in view.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct SessionMeasurement {
    pub(crate) memory_bytes: Option<u64>,
    pub(crate) last_activity_at: u64,
    pub(crate) suspended: bool,
}

impl DashboardAction {
    /// The target of the action, unless it makes a session.
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

    /// The label of the action while it is under way.
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
/// How many actions may be under way at once.
const MOST_BUSY: usize = 16;

impl DashboardModel {
    /// Starts an action, unless too many are under way.
    fn act(&mut self, action: DashboardAction) -> Vec<DashboardEffect> {
        if self.busy.len() >= MOST_BUSY {
            let what = format!("{MOST_BUSY} actions are under way already; nothing was done");
            self.trouble(Problem::refused(what).hint("wait until one of them is over"));
            return vec![];
        }
        self.busy.push(action.words(&self.handle_of_target(&action)));
        vec![DashboardEffect::Do(action)]
    }
}

#[cfg(test)]
pub(crate) mod tests;
