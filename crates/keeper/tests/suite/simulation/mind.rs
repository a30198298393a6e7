//! The real [`JournaledSession`] on the fake disk or in memory, or one that forgets a kind of event.
//!
//! Not here: the loop around it (see `keeper.rs`). A forgetful owner decides with its own wrong state and writes
//! what it decided through the real one, so that the journal is what such a program would leave behind.

use berth_core::{Effect, Epoch, Event, Now, Refusal, Session, decide, effects, observe};
use berth_journal::fake::FakeDisk;
use berth_journal::{Committed, Journal, Limits, Seq};
use berth_keeper::journaled_session::{Batch, Input, JournaledSession, Taken};
use berth_store::History;
use berth_store::claim::{AppendError, FileClaim};
use berth_store::history::Stored;
use berth_store::snapshot::Snapshot;

use crate::simulation::bug::Bug;
use crate::simulation::store::{Claim, SESSION, Store, id};

pub(crate) struct Mind {
    owner: JournaledSession<Claim>,
    bug: Bug,
    /// The state a forgetful owner believes in.
    believed: Session,
}

/// What a batch would come to.
pub(crate) struct Plan {
    pub(crate) answers: Vec<Result<(), Refusal>>,
    pub(crate) events: Vec<Stored>,
    pub(crate) then: Session,
}

/// A batch between its decision and its commit.
pub(crate) struct OnItsWay {
    batch: Batch<Claim>,
    /// What a forgetful owner decided.
    plan: Option<Plan>,
}

/// A mind, what it remembers, and whether its memory had a torn end.
pub(crate) type Opened = (Mind, Vec<Committed<Stored>>, bool);

impl Mind {
    pub(crate) fn create(store: &Store, limits: Limits, bug: Bug) -> Result<Self, AppendError> {
        let claim = match store {
            Store::Files(disk) => {
                let journal = Journal::create_planted(disk.clone(), SESSION, limits, bug.planted())?;
                Claim::Files(FileClaim::new(journal, Epoch(0)))
            }
            Store::Memory(store) => Claim::Memory(store.claim(&id())),
        };
        Ok(Self {
            owner: JournaledSession::new(claim, History::default()),
            bug,
            believed: Session::default(),
        })
    }

    /// Claims the session, or goes on with the claim of the image before this one.
    pub(crate) fn open(
        store: &Store,
        limits: Limits,
        bug: Bug,
        snapshot: Option<&[u8]>,
        same_process: bool,
    ) -> Result<Opened, AppendError> {
        match store {
            Store::Files(disk) => Self::open_files(disk, limits, bug, snapshot, same_process),
            Store::Memory(store) => {
                let new = (!same_process).then(|| store.claim(&id()));
                let events = store.read(&id(), 1, usize::MAX);
                let history = History::replay(&events);
                let claim = new.unwrap_or_else(|| store.inherited(&id(), history.session.epoch));
                let believed = Self::believed(bug, &events);
                Ok((
                    Self { owner: JournaledSession::new(Claim::Memory(claim), history), bug, believed },
                    events,
                    false,
                ))
            }
        }
    }

    /// The state that the events lead to, for a forgetful owner.
    fn believed(bug: Bug, events: &[Committed<Stored>]) -> Session {
        let mut believed = Session::default();
        events
            .iter()
            .filter(|event| !bug.forgets(&event.event))
            .for_each(|event| believed.apply(&event.event));
        believed
    }

    /// Opens the journal, with what an earlier keeper left beside it.
    fn open_files(
        disk: &FakeDisk,
        limits: Limits,
        bug: Bug,
        snapshot: Option<&[u8]>,
        same_process: bool,
    ) -> Result<Opened, AppendError> {
        let (journal, recovered) =
            Journal::<Stored, _>::open_planted(disk.clone(), SESSION, limits, bug.planted())?;
        let believed = Self::believed(bug, &recovered.events);
        let snapshot = snapshot.and_then(|bytes| Snapshot::decode(bytes, &id()));
        let history = snapshot.and_then(|snapshot| Self::behind(disk, bug, snapshot, &recovered.events));
        let history = history.unwrap_or_else(|| History::replay(&recovered.events));
        let claim = if same_process { FileClaim::inherited } else { FileClaim::new };
        let owner = JournaledSession::new(Claim::Files(claim(journal, history.session.epoch)), history);
        Ok((Self { owner, bug, believed }, recovered.events, recovered.torn.is_some()))
    }

    /// What a snapshot and the events behind it come to; `None` if the journal does not bear the snapshot out.
    fn behind(disk: &FakeDisk, bug: Bug, snapshot: Snapshot, all: &[Committed<Stored>]) -> Option<History> {
        let mut history = snapshot.history;
        // The turn index has the keys.
        let last = history.session.turns.last();
        let keys = History::replay(all).session.turns.keys;
        history
            .session
            .turns
            .keys
            .remember_all(keys.iter().filter(|key| key.turn as u64 <= last).copied().collect());
        let tail = match bug {
            Bug::SnapshotAhead => {
                all.iter().filter(|event| event.seq() > snapshot.checkpoint.seq).cloned().collect()
            }
            _ => berth_journal::read_after(disk, SESSION, snapshot.checkpoint).ok()??,
        };
        tail.iter().for_each(|event| drop(history.apply(event)));
        Some(history)
    }

    /// What a keeper leaves beside the journal now.
    pub(crate) fn snapshot(&self) -> Option<Vec<u8>> {
        Some(self.owner.snapshot()?.encode(&id(), None))
    }

    /// What a disk has that lost a batch and kept the snapshot behind it.
    pub(crate) fn snapshot_ahead(&self, plan: &Plan) -> Option<Vec<u8>> {
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
        if matches!(self.bug, Bug::Forgets(_)) { &self.believed } else { &self.owner.history().session }
    }

    pub(crate) fn history(&self) -> &History {
        self.owner.history()
    }

    pub(crate) fn owed(&self) -> Vec<Effect> {
        if matches!(self.bug, Bug::Forgets(_)) { effects(&self.believed) } else { self.owner.owed() }
    }

    /// What the batch comes to if the journal takes it: the rules once more, for comparison.
    pub(crate) fn plan(&self, inputs: &[Input], now: Now) -> Plan {
        let mut then = self.session().clone();
        let mut events = Vec::new();
        let mut answers = Vec::new();
        for input in inputs {
            let decided = match input.clone() {
                Input::Command(command) => decide(&then, command, now),
                Input::Report(observation) => Ok(observe(&then, &observation, now)),
                Input::Note(event) => Ok(vec![event]),
            };
            answers.push(decided.map(|decided| {
                for event in decided {
                    self.apply(&mut then, &event);
                    events.push(Stored { at_ms: now.wall_ms, event });
                }
            }));
        }
        Plan { answers, events, then }
    }

    /// Decides a batch, which is then on its way to the disk.
    pub(crate) fn begin(&mut self, inputs: Vec<Input>, now: Now) -> OnItsWay {
        if !matches!(self.bug, Bug::Forgets(_)) {
            return OnItsWay { batch: self.owner.begin(inputs, now), plan: None };
        }
        let plan = self.plan(&inputs, now);
        let notes = plan.events.iter().map(|stored| Input::Note(stored.event.clone())).collect();
        OnItsWay { batch: self.owner.begin(notes, now), plan: Some(plan) }
    }

    /// The disk has it, or not.
    pub(crate) fn finish(&mut self, on_its_way: OnItsWay) -> Result<Taken, AppendError> {
        let taken = self.owner.finish(on_its_way.batch.write())?;
        let Some(plan) = on_its_way.plan else { return Ok(taken) };
        self.believed = plan.then;
        Ok(Taken { answers: plan.answers, events: taken.events })
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
