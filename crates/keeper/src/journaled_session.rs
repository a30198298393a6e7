//! The order of things: input, decide, journal, apply, answer, effects.
//!
//! Promise: the state changes only by what is on disk. A batch is committed with one sync, whole
//! or not at all.
//! Not here: the world. The keeper performs [`JournaledSession::owed`] and reports back; the simulation in
//! `tests/suite/simulation/` does the same with a world that fails.

use std::borrow::Cow;

use berth_api::Problem;
use berth_api::turn::TurnView;
use berth_core::{
    Command, Effect, Epoch, Event, Now, Observation, Refusal, Session, decide, effects, observe,
};
use berth_journal::{Checkpoint, Committed};
use berth_store::claim::{AppendError, AppendPoint, FileClaim, SessionClaim};
use berth_store::derived::Derived;
use berth_store::history::{History, Stored};
use berth_store::past::Page;
use berth_store::snapshot::Snapshot;
use berth_store::store::{Lease, OpenJournal};
use berth_store::turn_index::Link;

/// One input of a batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Input {
    /// A client or the keeper orders something.
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

/// The turn that a prompt became.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AcceptedTurn {
    /// Its number.
    pub turn: u64,
    /// True if its key was used before: then it is the turn that was accepted with the key.
    pub repeated: bool,
}

impl Taken {
    /// What came of a batch of `Send`, one for each: these are the keys of the prompts, and this is the state that
    /// the batch led to.
    pub fn accepted(&self, keys: &[Option<String>], session: &Session) -> Vec<Result<AcceptedTurn, Refusal>> {
        let turns = self.events.iter().filter_map(|event| match event.get().event {
            Event::TurnAccepted { turn, .. } => Some(turn),
            _ => None,
        });
        let mut turns = turns.peekable();
        let each = self.answers.iter().zip(keys).map(|(answer, key)| {
            answer.clone()?;
            let known = key.as_deref().and_then(|key| session.turns.keyed(key));
            // A repeated prompt has no event: the next one is of another turn.
            let new = turns.next_if(|turn| known.is_none_or(|known| known == *turn));
            let turn = new.or(known).expect("an accepted turn is new, or its key is known");
            Ok(AcceptedTurn { turn, repeated: new.is_none() })
        });
        each.collect()
    }
}

/// A batch that is decided and not on disk. It holds the claim, so that there is one at a time, and its
/// answers, so that they are not given before [`JournaledSession::finish`] has them.
#[derive(Debug)]
pub struct Batch<C: SessionClaim = FileClaim> {
    claim: C,
    /// What it was decided on.
    at: AppendPoint,
    events: Vec<Stored>,
    answers: Vec<Result<(), Refusal>>,
}

/// A batch that the journal took or refused.
#[derive(Debug)]
pub struct Written<C: SessionClaim = FileClaim> {
    claim: C,
    result: Result<Vec<Committed<Stored>>, AppendError>,
    answers: Vec<Result<(), Refusal>>,
}

impl<C: SessionClaim> Batch<C> {
    /// True if there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Writes and syncs, in whatever thread.
    pub fn write(mut self) -> Written<C> {
        let result = self.claim.append(self.at, self.events);
        Written { claim: self.claim, result, answers: self.answers }
    }
}

/// One session's state and the claim on it: only the process that has both may write.
#[derive(Debug)]
pub struct JournaledSession<C: SessionClaim = FileClaim> {
    history: History,
    /// `None` while a batch is on its way to the disk.
    claim: Option<C>,
    /// What is kept beside the journal, if anything is.
    derived: Option<Derived>,
}

impl JournaledSession {
    /// Begins a new session (see [`Lease::create_journal`]).
    pub fn create(lease: &Lease) -> Result<Self, Problem> {
        lease.create_journal().map(Self::of)
    }

    /// Goes on with a session (see [`Lease::open_journal`]). Says what was found torn, if anything.
    pub fn open(lease: &Lease) -> Result<(Self, Option<String>), Problem> {
        lease.open_journal().map(|(journal, torn)| (Self::of(journal), torn))
    }

    /// Goes on with a session whose run goes on (see [`Lease::open_journal_patiently`]).
    pub(crate) fn open_patiently(lease: &Lease) -> Result<(Self, Option<String>), Problem> {
        lease.open_journal_patiently().map(|(journal, torn)| (Self::of(journal), torn))
    }

    fn of(OpenJournal { claim, history, derived }: OpenJournal) -> Self {
        Self { history, claim: Some(claim), derived: Some(derived) }
    }
}

impl<C: SessionClaim> JournaledSession<C> {
    /// Begins with a claim on a session and what its journal tells.
    pub fn new(claim: C, history: History) -> Self {
        Self { history, claim: Some(claim), derived: None }
    }

    /// What is known.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Takes a batch. If the journal fails, nothing of it happened as far as anyone is told; after a
    /// crash the front part of it may turn out to be on disk all the same.
    pub fn take(&mut self, inputs: Vec<Input>, now: Now) -> Result<Taken, AppendError> {
        let batch = self.begin(inputs, now);
        self.finish(batch.write())
    }

    /// Decides a batch on the state as it is. Nothing has happened yet. The one before must be finished.
    pub fn begin(&mut self, inputs: Vec<Input>, now: Now) -> Batch<C> {
        let (events, answers) = self.decided(inputs, now);
        let claim = self.claim.take().expect("the batch before is finished");
        // The events were decided on what was applied, whatever the claim knows of.
        let at = AppendPoint { end: self.history.seq, ..claim.point() };
        Batch { claim, at, events, answers }
    }

    /// Applies what the journal took.
    pub fn finish(&mut self, written: Written<C>) -> Result<Taken, AppendError> {
        let Written { claim, result, answers } = written;
        self.claim = Some(claim);
        let events = result?;
        let (from, had_turns) = (self.history.seq + 1, self.history.session.turns.last() > 0);
        let links: Vec<Link> = events.iter().flat_map(|event| self.history.apply(event)).collect();
        if let Some(derived) = &mut self.derived {
            derived.follow(from, &links, had_turns);
        }
        Ok(Taken { answers, events })
    }

    /// At most `limit` turns from the turn `from` on, and no more once their texts have `most_bytes`.
    pub(crate) fn turns(
        &mut self,
        from: u64,
        limit: u64,
        most_bytes: usize,
    ) -> Result<Vec<TurnView>, Problem> {
        let page = Page { from, limit, most_bytes };
        self.derived.as_mut().map_or(Ok(vec![]), |derived| derived.turns(page, &self.history))
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

    /// What the next batch is decided on; `None` while a batch is on its way.
    pub fn point(&self) -> Option<AppendPoint> {
        self.claim.as_ref().map(C::point)
    }

    /// The epoch of the claim, for the order that begins the next run. A claim that a run was begun under is renewed.
    pub fn next_epoch(&mut self) -> Epoch {
        let (claim, last) =
            (self.claim.as_mut().expect("the batch before is finished"), self.history.session.epoch);
        let current = claim.point().epoch;
        if current > last { current } else { claim.renew(last) }
    }

    /// What the world owes this state.
    pub fn owed(&self) -> Vec<Effect> {
        effects(&self.history.session)
    }

    /// Writes a snapshot if the last one is old. Nothing waits for it.
    pub(crate) fn write_snapshot(&mut self) {
        let checkpoint = self.checkpoint();
        if let Some(derived) = &mut self.derived {
            derived.write_snapshot(checkpoint, &self.history, false);
        }
    }

    /// The last event on disk; `None` before the first, and while a batch is on its way.
    fn checkpoint(&self) -> Option<Checkpoint> {
        self.claim.as_ref()?.checkpoint()
    }

    /// What is known, and the last event that it follows from; `None` before the first event.
    pub fn snapshot(&self) -> Option<Snapshot> {
        Some(Snapshot::new(self.checkpoint()?, &self.history, None))
    }

    /// Keeps nothing beside the journal any more: the directory belongs to another keeper.
    pub(crate) fn derive_no_more(&mut self) {
        self.derived = None;
    }

    /// Closes the journal so that later damage can be told from a torn end.
    pub fn close(mut self) -> Result<(), AppendError> {
        let checkpoint = self.checkpoint();
        if let Some(derived) = &mut self.derived {
            derived.write_snapshot(checkpoint, &self.history, true);
        }
        self.claim.map_or(Ok(()), C::close)
    }
}
