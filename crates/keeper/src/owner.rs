//! The order of things: input, decide, journal, apply, answer, effects.
//!
//! Promise: the state changes only by what is on disk. A batch is committed with one sync, whole
//! or not at all.
//! Not here: the world. The keeper performs [`Owner::owed`] and reports back; the simulation in
//! `tests/simulation.rs` does the same with a world that fails.

use std::borrow::Cow;

use berth_core::{Command, Effect, Event, Now, Observation, Refusal, Session, decide, effects, observe};
use berth_journal::{Committed, Disk, Journal, JournalError, RealDisk};

use crate::history::{History, Stored};

/// What reaches the owner.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Input {
    /// Somebody wants something.
    Command(Command),
    /// The world reports.
    Report(Observation),
    /// A fact that needs no rule.
    Note(Event),
}

/// What came of a batch. It is on disk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Taken {
    /// One answer for each input.
    pub answers: Vec<Result<(), Refusal>>,
    /// What happened, to be published.
    pub events: Vec<Committed<Stored>>,
}

/// One session's state and its journal: whoever has this is the only one who may write.
#[derive(Debug)]
pub struct Owner<D: Disk = RealDisk> {
    history: History,
    journal: Journal<Stored, D>,
}

impl<D: Disk> Owner<D> {
    /// Begins with a journal and what was read from it.
    pub fn new(journal: Journal<Stored, D>, past: &[Committed<Stored>]) -> Self {
        Self { history: History::replay(past), journal }
    }

    /// What is known.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Takes a batch. If the journal fails, nothing of it happened as far as anyone is told; after a
    /// crash the front part of it may turn out to be on disk all the same.
    pub fn take(&mut self, inputs: Vec<Input>, now: Now) -> Result<Taken, JournalError> {
        let (batch, answers) = self.decided(inputs, now);
        let events = if batch.is_empty() { Vec::new() } else { self.journal.append(batch)? };
        for event in &events {
            self.history.apply(event);
        }
        Ok(Taken { answers, events })
    }

    /// The first no among the answers to a batch, if there is one: for a batch that makes sense as a whole
    /// or not at all. Nothing is taken.
    pub fn refusal(&self, inputs: &[Input], now: Now) -> Option<Refusal> {
        self.decided(inputs.to_vec(), now).1.into_iter().find_map(Result::err)
    }

    /// The state a batch would lead to. Nothing is taken.
    pub fn ahead(&self, inputs: &[Input], now: Now) -> Session {
        let mut session = self.history.session.clone();
        self.decided(inputs.to_vec(), now).0.iter().for_each(|stored| session.apply(&stored.event));
        session
    }

    fn decided(&self, inputs: Vec<Input>, now: Now) -> (Vec<Stored>, Vec<Result<(), Refusal>>) {
        // Later inputs of a batch are decided on the state the earlier ones lead to. That state is
        // thrown away: the one that counts follows from what the journal gives back. The last input needs
        // none, and most batches have only one.
        let mut ahead = Cow::Borrowed(&self.history.session);
        let mut batch = Vec::new();
        let mut answers = Vec::with_capacity(inputs.len());
        let last = inputs.len().saturating_sub(1);
        for (at, input) in inputs.into_iter().enumerate() {
            let decided = match input {
                Input::Command(command) => decide(&ahead, command, now),
                Input::Report(observation) => Ok(observe(&ahead, &observation, now)),
                Input::Note(event) => Ok(vec![event]),
            };
            answers.push(decided.map(|events| {
                for event in events {
                    if at < last {
                        ahead.to_mut().apply(&event);
                    }
                    batch.push(Stored { at_ms: now.wall_ms, event });
                }
            }));
        }
        (batch, answers)
    }

    /// What the world owes this state.
    pub fn owed(&self) -> Vec<Effect> {
        effects(&self.history.session)
    }

    /// Closes the journal so that later damage can be told from a torn end.
    pub fn close(self) -> Result<(), JournalError> {
        self.journal.close()
    }
}
