//! The real [`JournaledSession`] on the fake disk or in memory, or one that forgets a kind of event.
//!
//! Not here: the loop around it (see `keeper.rs`). A forgetful owner decides with its own wrong state and writes
//! its decisions through the real one, so that the journal is what such a program would leave behind.

use berth_core::{ClockReading, Effect, Epoch, Event, Refusal, Session, decide, effects, observe};
use berth_journal::fake_disk::FakeDisk;
use berth_journal::{Committed, Journal, JournalLimits, Seq};
use berth_keeper::journaled_session::{CommittedBatch, DecidedBatch, JournaledSession, SessionInput};
use berth_store::SessionView;
use berth_store::claim::{AppendError, FileClaim};
use berth_store::session_view::StoredEvent;
use berth_store::snapshot::Snapshot;

use crate::simulation::bug::KeeperBug;
use crate::simulation::store::{SESSION, SimulatedClaim, SimulatedStore, id};

pub(crate) struct SimulatedJournaledSession {
    owner: JournaledSession<SimulatedClaim>,
    bug: KeeperBug,
    /// The state a forgetful owner believes in.
    believed: Session,
}

/// The expected result of a batch.
pub(crate) struct ExpectedBatchResult {
    pub(crate) answers: Vec<Result<(), Refusal>>,
    pub(crate) events: Vec<StoredEvent>,
    pub(crate) then: Session,
}

/// A batch between its decision and its commit.
pub(crate) struct UncommittedBatch {
    batch: DecidedBatch<SimulatedClaim>,
    /// The decision of a forgetful owner.
    plan: Option<ExpectedBatchResult>,
}

/// A mind, its events, and true if its journal had a torn end.
pub(crate) type OpenedJournaledSession = (SimulatedJournaledSession, Vec<Committed<StoredEvent>>, bool);

impl SimulatedJournaledSession {
    pub(crate) fn create(
        store: &SimulatedStore,
        limits: JournalLimits,
        bug: KeeperBug,
    ) -> Result<Self, AppendError> {
        let claim = match store {
            SimulatedStore::Files(disk) => {
                let journal = Journal::create_planted(disk.clone(), SESSION, limits, bug.planted())?;
                SimulatedClaim::Files(FileClaim::new(journal, Epoch(0)))
            }
            SimulatedStore::Memory(store) => SimulatedClaim::Memory(store.claim(&id())),
        };
        Ok(Self {
            owner: JournaledSession::new(claim, SessionView::default()),
            bug,
            believed: Session::default(),
        })
    }

    /// Claims the session, or goes on with the claim of the image before this one.
    pub(crate) fn open(
        store: &SimulatedStore,
        limits: JournalLimits,
        bug: KeeperBug,
        snapshot: Option<&[u8]>,
        same_process: bool,
    ) -> Result<OpenedJournaledSession, AppendError> {
        match store {
            SimulatedStore::Files(disk) => Self::open_files(disk, limits, bug, snapshot, same_process),
            SimulatedStore::Memory(store) => {
                let new = (!same_process).then(|| store.claim(&id()));
                let events = store.read(&id(), 1, usize::MAX);
                let history = SessionView::replay(&events);
                let claim = new.unwrap_or_else(|| store.inherited(&id(), history.session.epoch));
                let believed = Self::believed(bug, &events);
                Ok((
                    Self {
                        owner: JournaledSession::new(SimulatedClaim::Memory(claim), history),
                        bug,
                        believed,
                    },
                    events,
                    false,
                ))
            }
        }
    }

    /// The state that the events lead to, for a forgetful owner.
    fn believed(bug: KeeperBug, events: &[Committed<StoredEvent>]) -> Session {
        let mut believed = Session::default();
        events
            .iter()
            .filter(|event| !bug.forgets(&event.event))
            .for_each(|event| believed.apply(&event.event));
        believed
    }

    /// Opens the journal, with the snapshot that an earlier keeper left beside it.
    fn open_files(
        disk: &FakeDisk,
        limits: JournalLimits,
        bug: KeeperBug,
        snapshot: Option<&[u8]>,
        same_process: bool,
    ) -> Result<OpenedJournaledSession, AppendError> {
        let (journal, recovered) =
            Journal::<StoredEvent, _>::open_planted(disk.clone(), SESSION, limits, bug.planted())?;
        let believed = Self::believed(bug, &recovered.events);
        let snapshot = snapshot.and_then(|bytes| Snapshot::decode(bytes, &id()));
        let history = snapshot.and_then(|snapshot| Self::behind(disk, bug, snapshot, &recovered.events));
        let history = history.unwrap_or_else(|| SessionView::replay(&recovered.events));
        let claim = if same_process { FileClaim::inherited } else { FileClaim::new };
        let owner =
            JournaledSession::new(SimulatedClaim::Files(claim(journal, history.session.epoch)), history);
        Ok((Self { owner, bug, believed }, recovered.events, recovered.torn.is_some()))
    }

    /// The state from a snapshot and the events behind it; `None` if the journal does not match the snapshot.
    fn behind(
        disk: &FakeDisk,
        bug: KeeperBug,
        snapshot: Snapshot,
        all: &[Committed<StoredEvent>],
    ) -> Option<SessionView> {
        let mut history = snapshot.history;
        // The turn index has the keys.
        let last = history.session.turns.last();
        let keys = SessionView::replay(all).session.turns.keys;
        history
            .session
            .turns
            .keys
            .remember_all(keys.iter().filter(|key| key.turn as u64 <= last).copied().collect());
        let tail = match bug {
            KeeperBug::SnapshotAhead => {
                all.iter().filter(|event| event.seq() > snapshot.checkpoint.seq).cloned().collect()
            }
            _ => berth_journal::read_journal_after(disk, SESSION, snapshot.checkpoint).ok()??,
        };
        tail.iter().for_each(|event| drop(history.apply(event)));
        Some(history)
    }

    /// The snapshot that a keeper leaves beside the journal now.
    pub(crate) fn snapshot(&self) -> Option<Vec<u8>> {
        Some(self.owner.snapshot()?.encode(&id(), None))
    }

    /// The snapshot on a disk that lost a batch and kept the snapshot behind it.
    pub(crate) fn snapshot_ahead(&self, plan: &ExpectedBatchResult) -> Option<Vec<u8>> {
        let mut snapshot = self.owner.snapshot()?;
        for stored in &plan.events {
            snapshot.history.session.apply(&stored.event);
        }
        snapshot.history.seq += plan.events.len() as u64;
        snapshot.checkpoint.seq = Seq(snapshot.history.seq);
        Some(snapshot.encode(&id(), None))
    }

    /// The state the loop acts on.
    pub(crate) fn session(&self) -> &Session {
        if matches!(self.bug, KeeperBug::Forgets(_)) { &self.believed } else { &self.owner.history().session }
    }

    pub(crate) fn history(&self) -> &SessionView {
        self.owner.history()
    }

    pub(crate) fn owed(&self) -> Vec<Effect> {
        if matches!(self.bug, KeeperBug::Forgets(_)) { effects(&self.believed) } else { self.owner.owed() }
    }

    /// The result of the batch if the journal takes it: the rules once more, for comparison.
    pub(crate) fn plan(&self, inputs: &[SessionInput], now: ClockReading) -> ExpectedBatchResult {
        let mut then = self.session().clone();
        let mut events = Vec::new();
        let mut answers = Vec::new();
        for input in inputs {
            let decided = match input.clone() {
                SessionInput::Command(command) => decide(&then, command, now),
                SessionInput::Report(observation) => Ok(observe(&then, &observation, now)),
                SessionInput::Note(event) => Ok(vec![event]),
            };
            answers.push(decided.map(|decided| {
                for event in decided {
                    self.apply(&mut then, &event);
                    events.push(StoredEvent { at_ms: now.wall_ms, event });
                }
            }));
        }
        ExpectedBatchResult { answers, events, then }
    }

    /// Decides a batch, which is then on its way to the disk.
    pub(crate) fn begin(&mut self, inputs: Vec<SessionInput>, now: ClockReading) -> UncommittedBatch {
        if !matches!(self.bug, KeeperBug::Forgets(_)) {
            return UncommittedBatch { batch: self.owner.begin(inputs, now), plan: None };
        }
        let plan = self.plan(&inputs, now);
        let notes = plan.events.iter().map(|stored| SessionInput::Note(stored.event.clone())).collect();
        UncommittedBatch { batch: self.owner.begin(notes, now), plan: Some(plan) }
    }

    /// The disk has it, or not.
    pub(crate) fn finish(&mut self, on_its_way: UncommittedBatch) -> Result<CommittedBatch, AppendError> {
        let taken = self.owner.finish(on_its_way.batch.write())?;
        let Some(plan) = on_its_way.plan else { return Ok(taken) };
        self.believed = plan.then;
        Ok(CommittedBatch { answers: plan.answers, events: taken.events })
    }

    /// True if no batch of it is on its way: one that dies takes its claim along.
    pub(crate) fn has_claim(&self) -> bool {
        self.owner.point().is_some()
    }

    /// The epoch that the next run will have.
    pub(crate) fn next_epoch(&mut self) -> Epoch {
        self.owner.next_epoch()
    }

    pub(crate) fn close(self) -> Result<(), AppendError> {
        self.owner.close()
    }

    fn apply(&self, session: &mut Session, event: &Event) {
        if !self.bug.forgets(event) {
            session.apply(event);
        }
    }
}
