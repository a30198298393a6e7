//! The order of one session's work: input, decide, journal, apply, answer, effects.
//!
//! Promise: the state changes only by what is on disk. A batch is committed with one sync, whole
//! or not at all.
//! Not here: effects on the world. The keeper performs [`JournaledSession::owed`] and reports back; the simulation in
//! `tests/suite/simulation/` does the same with a world that fails.
//! Start with [`JournaledSession::take`].

use std::borrow::Cow;
use std::time::{Duration, Instant};

use berth_api::Problem;
use berth_api::turn::TurnView;
use berth_core::{
    ClockReading, Command, Effect, Epoch, Event, Observation, Refusal, Session, decide, effects, observe,
};
use berth_journal::{Checkpoint, Committed};
use berth_store::claim::{AppendError, AppendPoint, FileClaim, SessionClaim};
use berth_store::derived_files::DerivedFiles;
use berth_store::session_view::{SessionView, StoredEvent};
use berth_store::snapshot::Snapshot;
use berth_store::store::{Lease, OpenJournal};
use berth_store::stored_session::TurnPageRequest;
use berth_store::turn_index::TurnLink;

/// One input of a batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SessionInput {
    /// An order of a client or of the keeper.
    Command(Command),
    /// A report about the world.
    Report(Observation),
    /// A fact that needs no decision.
    Note(Event),
}

/// The result of a batch. It is on disk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CommittedBatch {
    /// One answer for each input.
    pub answers: Vec<Result<(), Refusal>>,
    /// The events of the batch, to be published.
    pub events: Vec<Committed<StoredEvent>>,
}

/// The turn that a prompt became.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AcceptedTurn {
    /// The number of the turn in its session.
    pub turn: u64,
    /// True if its key was used before: then it is the turn that was accepted with the key.
    pub repeated: bool,
}

impl CommittedBatch {
    /// The results of a batch of `Send`, one for each: `keys` are the keys of the prompts, and `session` is the state
    /// that the batch led to.
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
pub struct DecidedBatch<C: SessionClaim = FileClaim> {
    claim: C,
    /// The position in the journal that the batch was decided on.
    at: AppendPoint,
    events: Vec<StoredEvent>,
    answers: Vec<Result<(), Refusal>>,
}

/// A batch that the journal took or refused.
#[derive(Debug)]
pub struct WrittenBatch<C: SessionClaim = FileClaim> {
    claim: C,
    result: Result<Vec<Committed<StoredEvent>>, AppendError>,
    answers: Vec<Result<(), Refusal>>,
    took: Duration,
}

impl<C: SessionClaim> WrittenBatch<C> {
    /// How long the journal took.
    pub(crate) fn took(&self) -> Duration {
        self.took
    }
}

impl<C: SessionClaim> DecidedBatch<C> {
    /// True if there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Writes and syncs; may run in any thread.
    pub fn write(mut self) -> WrittenBatch<C> {
        let began_at = Instant::now();
        let result = self.claim.append(self.at, self.events);
        WrittenBatch { claim: self.claim, result, answers: self.answers, took: began_at.elapsed() }
    }
}

/// One session's state and the claim on it: only the process that has both may write.
#[derive(Debug)]
pub struct JournaledSession<C: SessionClaim = FileClaim> {
    history: SessionView,
    /// `None` while a batch is on its way to the disk.
    claim: Option<C>,
    /// The derived files beside the journal, if the session has any.
    derived: Option<DerivedFiles>,
}

impl JournaledSession {
    /// Begins the journal of a new session, which a keeper is about to hold (see [`Lease::create_journal`]).
    pub fn create(lease: &Lease) -> Result<Self, Problem> {
        lease.create_journal().map(Self::of)
    }

    /// Goes on with a session (see [`Lease::open_journal`]). Returns a description of a torn end that was cut
    /// off, if any.
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
    pub fn new(claim: C, history: SessionView) -> Self {
        Self { history, claim: Some(claim), derived: None }
    }

    /// The state that follows from the journal.
    pub fn history(&self) -> &SessionView {
        &self.history
    }

    /// Takes a batch. If the journal fails, callers must treat the batch as not taken; after a crash the front part
    /// of it may turn out to be on disk all the same.
    pub fn take(
        &mut self,
        inputs: Vec<SessionInput>,
        now: ClockReading,
    ) -> Result<CommittedBatch, AppendError> {
        let batch = self.begin(inputs, now);
        self.finish(batch.write())
    }

    /// Decides a batch on the current state. Nothing has happened yet. The previous batch must be finished.
    pub fn begin(&mut self, inputs: Vec<SessionInput>, now: ClockReading) -> DecidedBatch<C> {
        let (events, answers) = self.decided(inputs, now);
        let claim = self.claim.take().expect("the batch before is finished");
        // The events were decided on the applied state, even if the claim knows later events.
        let at = AppendPoint { end: self.history.seq, ..claim.point() };
        DecidedBatch { claim, at, events, answers }
    }

    /// Applies the events that the journal took.
    pub fn finish(&mut self, written: WrittenBatch<C>) -> Result<CommittedBatch, AppendError> {
        let WrittenBatch { claim, result, answers, .. } = written;
        self.claim = Some(claim);
        let events = result?;
        let (from, had_turns) = (self.history.seq + 1, self.history.session.turns.last() > 0);
        let links: Vec<TurnLink> = events.iter().flat_map(|event| self.history.apply(event)).collect();
        if let Some(derived) = &mut self.derived {
            derived.follow(from, &links, had_turns);
        }
        Ok(CommittedBatch { answers, events })
    }

    /// At most `limit` turns from the turn `from` on, and no more once their texts have `most_bytes`.
    pub(crate) fn turns(
        &mut self,
        from: u64,
        limit: u64,
        most_bytes: usize,
    ) -> Result<Vec<TurnView>, Problem> {
        let page = TurnPageRequest { from, limit, most_bytes };
        self.derived.as_mut().map_or(Ok(vec![]), |derived| derived.turns(page, &self.history))
    }

    /// The first refusal among the answers to a batch, if there is one: for a batch that is accepted as a whole or
    /// not at all. Nothing is taken.
    pub fn refusal(&self, inputs: &[SessionInput], now: ClockReading) -> Option<Refusal> {
        self.decided(inputs.to_vec(), now).1.into_iter().find_map(Result::err)
    }

    /// The state that a batch would lead to. Nothing is taken.
    pub fn state_after(&self, inputs: &[SessionInput], now: ClockReading) -> Session {
        let mut session = self.history.session.clone();
        self.decided(inputs.to_vec(), now).0.iter().for_each(|stored| session.apply(&stored.event));
        session
    }

    fn decided(
        &self,
        inputs: Vec<SessionInput>,
        now: ClockReading,
    ) -> (Vec<StoredEvent>, Vec<Result<(), Refusal>>) {
        // Later inputs of a batch are decided on the state the earlier ones lead to. That state is
        // thrown away: the one that counts follows from what the journal gives back. The last input needs
        // none, and most batches have only one.
        let mut ahead = Cow::Borrowed(&self.history.session);
        let mut batch = Vec::new();
        let mut answers = Vec::with_capacity(inputs.len());
        let last = inputs.len().saturating_sub(1);
        for (at, input) in inputs.into_iter().enumerate() {
            let decided = match input {
                SessionInput::Command(command) => decide(&ahead, command, now),
                SessionInput::Report(observation) => Ok(observe(&ahead, &observation, now)),
                SessionInput::Note(event) => Ok(vec![event]),
            };
            answers.push(decided.map(|events| {
                for event in events {
                    if at < last {
                        ahead.to_mut().apply(&event);
                    }
                    batch.push(StoredEvent { at_ms: now.wall_ms, event });
                }
            }));
        }
        (batch, answers)
    }

    /// The position that the next batch is decided on; `None` while a batch is on its way.
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

    /// The effects that this state requires.
    pub fn owed(&self) -> Vec<Effect> {
        effects(&self.history.session)
    }

    /// Writes a snapshot if the last one is old. No caller depends on it.
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

    /// State of the kept session for a snapshot, with the last event it follows from; `None` before the first event.
    pub fn snapshot(&self) -> Option<Snapshot> {
        Some(Snapshot::new(self.checkpoint()?, &self.history, None))
    }

    /// Stops writing derived files: the directory belongs to another keeper.
    pub(crate) fn stop_derived_files(&mut self) {
        self.derived = None;
    }

    /// Closes the journal with a seal, so that later damage can be told from a torn end.
    pub fn close(mut self) -> Result<(), AppendError> {
        let checkpoint = self.checkpoint();
        if let Some(derived) = &mut self.derived {
            derived.write_snapshot(checkpoint, &self.history, true);
        }
        self.claim.map_or(Ok(()), C::close)
    }
}
