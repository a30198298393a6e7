//! What a status has and no journal does: the model, the branch, and what was said in an agent's own interface.
//!
//! Promise: text that a person typed into a terminal is in no event; only the beginning of the latest one is in
//! `status.json`, which the next run continues from.

use std::cell::OnceCell;
use std::path::Path;

use berth_api::Status;
use berth_core::Event;
use berth_host::dir::untrusted_kind;
use berth_journal::Committed;

use crate::history::{LastSaid, Stored};
use crate::{branch, view};

/// The longest name of a model.
const MAX_MODEL_BYTES: usize = 200;

/// Status fields that are kept in memory and in `status.json` only.
#[derive(Debug, Default)]
pub(super) struct StatusExtras {
    /// What an agent in a terminal was told and answered last, by its hooks.
    last_said: LastSaid,
    model: Option<String>,
    /// Whether the session's directory can be read without waiting for a network.
    is_local: OnceCell<bool>,
}

impl StatusExtras {
    /// What the last run left.
    pub(super) fn of(dir: &Path) -> Self {
        let Some(old) = view::read_short_cut(dir) else { return Self::default() };
        let last_said = match old.what.has_terminal() {
            true => LastSaid { prompt: old.last_prompt, answer: old.last_answer },
            false => LastSaid::default(),
        };
        Self { last_said, model: old.model, is_local: OnceCell::new() }
    }

    /// The agent's hooks report a prompt.
    pub(super) fn prompted(&mut self, text: &str) {
        self.last_said.prompted(text);
    }

    /// The agent's hooks report an answer.
    pub(super) fn answered(&mut self, text: &str) {
        self.last_said.answered(text);
    }

    /// The agent reports its model.
    pub(super) fn uses(&mut self, model: String) {
        if (1..=MAX_MODEL_BYTES).contains(&model.len()) && !model.contains(char::is_control) {
            self.model = Some(model);
        }
    }

    /// The end of a turn in a terminal is proven later than its hook reports it.
    pub(super) fn follow(&mut self, events: &[Committed<Stored>]) {
        for event in events {
            if let Event::TurnEnded { end, .. } = &event.get().event {
                self.last_said.answered(&end.answer);
            }
        }
    }

    /// Fills in what a history does not tell.
    pub(super) fn fill(&self, has_terminal: bool, status: &mut Status) {
        status.model = self.model.clone();
        let dir = Path::new(&status.what.cwd);
        let is_local = || matches!(untrusted_kind(dir), Ok(None));
        status.branch = self.is_local.get_or_init(is_local).then(|| branch::of(dir)).flatten();
        if has_terminal && self.last_said.prompt.is_some() {
            let LastSaid { prompt, answer } = self.last_said.clone();
            (status.last_prompt, status.last_answer) = (prompt, answer);
        }
    }
}
