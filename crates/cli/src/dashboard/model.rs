//! What the dashboard knows and what keys do to it. No terminal, no clock, no session is touched here.
//!
//! Promise: the selection stays with its session when the order changes. What a person confirms, answers or
//! sends goes to the session they saw when they began, also if it moved or another question came meanwhile.
//! Not here: drawing (`view`), where knowledge comes from (`source`), doing what is asked (`actions`).
//! Start with [`Model::input`].

mod input;

use std::collections::BTreeMap;
use std::time::Duration;

use berth_api::turn::{Ask, Wish};
use berth_api::{Code, Problem};
use berth_core::SessionId;
use ratatui::layout::Rect;

use super::composer::Composer;
use super::layout::{Layout, Pane};
use super::preview::Preview;
use super::row::{Known, Row};
use crate::reading::ReadingTime;

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
    /// Whether what is old is shown too.
    pub(crate) with_old: bool,
    /// How many there are that are old and not shown.
    pub(crate) hidden: usize,
    pub(crate) pane: Pane,
    pub(crate) message: Option<Message>,
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
    /// A message to a session.
    Compose {
        to: SessionId,
        text: Composer,
    },
    /// An answer to exactly this question.
    Answer {
        of: SessionId,
        ask: Ask,
        /// Of this run: agents number their questions anew in each.
        epoch: u64,
        /// When the question takes an answer; `None` until it is drawn.
        reading: Option<ReadingTime>,
    },
    /// A yes to exactly this.
    Confirm {
        question: String,
        action: Action,
    },
    Help,
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
    Do(Action),
    /// Show another session, or the same one in another life.
    Look(Option<SessionId>),
    Bell,
}

/// Something to be done to a session, away from the drawing thread.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Action {
    Send { id: SessionId, text: String },
    Type { id: SessionId, text: String },
    Answer { id: SessionId, request: String, wish: Wish, epoch: u64 },
    Stop { id: SessionId },
    Cancel { id: SessionId, turn: String },
    Resume { id: SessionId },
    Archive { id: SessionId },
    Restore { id: SessionId },
}

/// A word to the person, until the next key.
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
    pub(crate) outcome: Result<String, Problem>,
}

impl Model {
    pub(crate) fn new(area: Rect, now_ms: u64) -> Self {
        Self { area, now_ms, footer_height: 1, ..Self::default() }
    }

    /// The time for everything that has an age.
    pub(crate) fn set_now(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
    }

    /// Sets the time that reading times are measured with.
    pub(crate) fn set_uptime(&mut self, uptime: Duration) {
        self.uptime = uptime;
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
        Layout::of(self.area, self.pane, self.footer_height, self.shown.len())
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
                    let newly = row.needs_you() && !before.is_some_and(Row::needs_you);
                    if newly && self.is_loaded && self.selected.as_ref() != Some(&id) {
                        effects.push(Effect::Bell);
                    }
                    self.take(row);
                }
            }
        }
        effects.dedup();
        self.arrange();
        self.drop_answer_to_nothing();
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

    pub(crate) fn done(&mut self, done: Done) {
        if let Some(at) = self.busy.iter().position(|busy| *busy == done.what) {
            self.busy.remove(at);
        }
        self.message = Some(match done.outcome {
            Ok(note) => Message::Note(note),
            Err(problem) => Message::Problem(problem),
        });
    }

    /// Something of the dashboard itself does not work.
    pub(crate) fn trouble(&mut self, problem: Problem) {
        self.message = Some(Message::Problem(problem));
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
        let is_target = match &self.mode {
            Mode::Browse | Mode::Filter | Mode::Help => false,
            Mode::Compose { to, .. } => to == id,
            Mode::Answer { of, .. } => of == id,
            Mode::Confirm { action, .. } => action.id() == id,
        };
        if is_target {
            self.leave_mode();
        }
        if is_target || self.selected.as_ref() == Some(id) {
            self.message = Some(Message::Note(format!("{} is gone", row.handle())));
        }
    }

    /// A question that was answered elsewhere, or withdrawn, needs no answer any more.
    fn drop_answer_to_nothing(&mut self) {
        let Mode::Answer { of, ask, epoch, .. } = &self.mode else { return };
        let still = self.all.get(of).is_some_and(|row| {
            row.epoch() == *epoch && row.asks().iter().any(|it| it.request == ask.request)
        });
        if !still {
            self.message = Some(Message::Note("the question is no longer asked".to_owned()));
            self.mode = Mode::Browse;
        }
    }

    /// What decides whether the preview has to begin anew.
    fn life_of_selected(&self) -> Option<(SessionId, u64, Option<u32>, bool)> {
        let row = self.selected()?;
        let life = |status: &berth_api::Status| (status.epoch, status.keeper_pid, status.turns.is_some());
        let (epoch, keeper, turns) = row.status().map(life).unwrap_or_default();
        Some((row.id.clone(), epoch, keeper, turns))
    }

    /// Puts the list in order: who needs you first; within that, who came there last.
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

    /// Back to browsing; a message that was begun is kept.
    fn leave_mode(&mut self) {
        if let Mode::Compose { to, text } = std::mem::take(&mut self.mode) {
            self.draft = Some((to, text.text().to_owned())).filter(|(_, text)| !text.is_empty());
        }
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
    pub(crate) fn id(&self) -> &SessionId {
        match self {
            Self::Send { id, .. }
            | Self::Type { id, .. }
            | Self::Answer { id, .. }
            | Self::Stop { id }
            | Self::Cancel { id, .. }
            | Self::Resume { id }
            | Self::Archive { id }
            | Self::Restore { id } => id,
        }
    }

    /// What is being done, in words.
    pub(crate) fn words(&self, handle: &str) -> String {
        match self {
            Self::Send { .. } => format!("sending to {handle}"),
            Self::Type { .. } => format!("typing into {handle}"),
            Self::Answer { .. } => format!("answering {handle}"),
            Self::Stop { .. } => format!("stopping {handle}"),
            Self::Cancel { .. } => format!("cancelling the turn of {handle}"),
            Self::Resume { .. } => format!("resuming {handle}"),
            Self::Archive { .. } => format!("archiving {handle}"),
            Self::Restore { .. } => format!("restoring {handle}"),
        }
    }
}

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
        self.busy.push(action.words(&self.handle_of(action.id())));
        vec![Effect::Do(action)]
    }
}

#[cfg(test)]
pub(crate) mod tests;
