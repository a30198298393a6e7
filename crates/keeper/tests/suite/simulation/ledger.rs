//! The witness: the keeper's promises, statements and actions, compared with the disk.
//!
//! Everything is compared with what a reader without bugs finds on the disk, not with what the keeper believes.
//! Start with [`PromiseChecker::check`].

use berth_api::snapshot::SessionSnapshot;
use berth_core::{Effect, Fence, Session, TurnPrompt, effects};
use berth_journal::{Committed, JournalError, Seq};
use berth_store::SessionView;
use berth_store::claim::AppendError;
use berth_store::session_view::StoredEvent;

use crate::simulation::forgetful_session::{ExpectedBatchResult, SimulatedJournaledSession};
use crate::simulation::host::SimulatedHost;
use crate::simulation::rules::JournalRules;
use crate::simulation::store::SimulatedStore;

pub(crate) struct PromiseChecker {
    store: SimulatedStore,
    /// The events that the journal returned as committed.
    committed: Vec<StoredEvent>,
    /// The events that clients received.
    heard: Vec<StoredEvent>,
    /// Batches that failed since the last success: one of them may turn up from its front.
    failed: Vec<Vec<StoredEvent>>,
    /// The state on the disk, replayed as far as it was read.
    history: SessionView,
    pub(crate) rules: JournalRules,
    /// Effects done by the keeper of now.
    done: Vec<Effect>,
    /// The effects among them that had no result.
    in_vain: Vec<Effect>,
    spawned: u64,
    granted: u64,
    /// The state on the disk, and the number of the last event in it.
    state: (Session, u64),
    /// The turn in the receipt of each prompt.
    receipts: Vec<(u64, TurnPrompt)>,
    /// Leaves out the direct look into the keeper's state, so that only its actions can give it away.
    blind: bool,
}

type PromiseCheckResult = Result<(), String>;

impl PromiseChecker {
    pub(crate) fn new(store: SimulatedStore, blind: bool) -> Self {
        Self {
            store,
            committed: Vec::new(),
            heard: Vec::new(),
            failed: Vec::new(),
            history: SessionView::default(),
            rules: JournalRules::default(),
            done: Vec::new(),
            in_vain: Vec::new(),
            spawned: 0,
            granted: 0,
            state: (Session::default(), 0),
            receipts: Vec::new(),
            blind,
        }
    }

    /// A new keeper, or a new image of one, begins with the events it read.
    pub(crate) fn opened(
        &mut self,
        events: &[Committed<StoredEvent>],
        same_process: bool,
    ) -> PromiseCheckResult {
        self.explain(events)?;
        self.committed.clear();
        self.failed.clear();
        // A new image may repeat effects, except for two kinds.
        let is_once = |effect: &Effect| matches!(effect, Effect::Spawn { .. } | Effect::Say { .. });
        self.done.retain(|effect| same_process && is_once(effect));
        self.in_vain.clear();
        self.state = (Session::default(), 0);
        self.history = SessionView::replay(events);
        self.rules = JournalRules::default();
        for event in events {
            self.commit(event.get())?;
        }
        self.heard = self.committed.clone();
        self.receipts_hold()
    }

    /// A sender hears that its prompt is this turn.
    pub(crate) fn receipt(&mut self, turn: u64, prompt: &TurnPrompt) -> PromiseCheckResult {
        self.receipts.push((turn, prompt.clone()));
        self.receipts_hold()
    }

    /// Every sender finds its turn, with its text, and the same one for the same key.
    pub(crate) fn receipts_hold(&self) -> PromiseCheckResult {
        let lost = |(turn, prompt): &&(u64, TurnPrompt)| {
            !self.rules.turns.knows(*turn, &prompt.text, prompt.key.as_deref())
        };
        match self.receipts.iter().find(lost) {
            Some(receipt) => Err(format!("accepted, and not there: {receipt:?}, {:?}", self.rules.turns)),
            None => Ok(()),
        }
    }

    /// A prompt is about to reach the agent.
    pub(crate) fn said(&self, turn: u64, text: Option<&str>) -> PromiseCheckResult {
        let accepted = self.rules.turns.says(turn);
        expect(accepted.is_some() && accepted == text, || {
            format!("turn {turn} says {text:?} to the agent, accepted was {accepted:?}")
        })
    }

    /// Notes that an effect had no result, and may be tried again.
    pub(crate) fn in_vain(&mut self, effect: &Effect) {
        self.in_vain.push(effect.clone());
    }

    /// Checks that no received or committed event is missing; new events are the front of a failed batch.
    fn explain(&self, events: &[Committed<StoredEvent>]) -> PromiseCheckResult {
        for (n, event) in events.iter().enumerate() {
            expect(event.seq() == Seq(n as u64 + 1), || {
                format!("event {} has number {}", n + 1, event.seq())
            })?;
        }
        let found: Vec<&StoredEvent> = events.iter().map(Committed::get).collect();
        for (what, promised) in [("heard", &self.heard), ("committed", &self.committed)] {
            let lost = promised.iter().enumerate().find(|(n, event)| found.get(*n) != Some(event));
            if let Some((n, event)) = lost {
                return Err(format!(
                    "event {} was {what} and is gone: {event:?}, now {:?}",
                    n + 1,
                    found.get(n)
                ));
            }
        }
        let extra = &found[self.committed.len()..];
        let fits = |batch: &Vec<StoredEvent>| batch.iter().take(extra.len()).eq(extra.iter().copied());
        expect(extra.is_empty() || self.failed.iter().any(fits), || {
            format!("{extra:?} appeared from nowhere; failed were {:?}", self.failed)
        })
    }

    /// Checks the disk after a crash, before any process opens it.
    pub(crate) fn crashed(&self) -> PromiseCheckResult {
        self.explain(&self.read(1)?)
    }

    /// The journal took a batch: whole, and as planned.
    pub(crate) fn took(
        &mut self,
        plan: &ExpectedBatchResult,
        events: &[Committed<StoredEvent>],
    ) -> PromiseCheckResult {
        let taken: Vec<_> = events.iter().map(|event| event.get().clone()).collect();
        expect(taken == plan.events, || format!("planned {:?}, committed {taken:?}", plan.events))?;
        for stored in &taken {
            self.commit(stored)?;
        }
        if !events.is_empty() {
            self.failed.clear();
            comes_back_from_paper(&plan.then)?;
        }
        Ok(())
    }

    fn commit(&mut self, stored: &StoredEvent) -> PromiseCheckResult {
        self.rules.follow(&stored.event)?;
        self.committed.push(stored.clone());
        Ok(())
    }

    /// The journal refused a batch. The disk may fail; the journal may not find damage on a disk that keeps
    /// what was synced.
    pub(crate) fn failed(&mut self, batch: Vec<StoredEvent>, error: &AppendError) -> PromiseCheckResult {
        self.failed.push(batch);
        tolerate(error)
    }

    /// Clients receive events.
    pub(crate) fn publish(&mut self, events: &[StoredEvent]) {
        self.heard.extend_from_slice(events);
    }

    /// A client hears that it may type.
    pub(crate) fn grant(&mut self, fence: u64) -> PromiseCheckResult {
        expect(fence > self.granted, || format!("fence {fence} was granted after {}", self.granted))?;
        self.granted = fence;
        Ok(())
    }

    /// Input reaches the agent.
    pub(crate) fn input(&self, fence: u64) -> PromiseCheckResult {
        let may = self.rules.live.is_some() && self.rules.writer == Some(fence);
        expect(may, || format!("input of writer {fence} reached the agent: {:?}", self.rules))
    }

    /// The keeper is about to do something to the world.
    pub(crate) fn doing(&mut self, effect: &Effect) -> PromiseCheckResult {
        let known = self.committed.len() as u64;
        let news = self.read(self.state.1 + 1)?;
        for event in news.iter().filter(|event| event.seq().0 <= known) {
            self.state.0.apply(&event.get().event);
            self.state.1 = event.seq().0;
        }
        let owed = effects(&self.state.0);
        expect(owed.contains(effect), || format!("{effect:?} is done, the disk owes {owed:?}"))?;
        // One instant may be the next one to wake at for more than one reason.
        let is_retry = self.in_vain.contains(effect);
        self.in_vain.retain(|tried| tried != effect);
        let may_come_again = is_retry || matches!(effect, Effect::WakeAt { .. });
        expect(may_come_again || !self.done.contains(effect), || format!("{effect:?} is done twice"))?;
        if let Effect::Spawn { epoch } = effect {
            expect(epoch.0 > self.spawned, || format!("run {epoch} is spawned after run {}", self.spawned))?;
            self.spawned = epoch.0;
        }
        self.done.push(effect.clone());
        Ok(())
    }

    /// At most one agent, and only processes of the run that the record calls live.
    pub(crate) fn check_host(&self, host: &SimulatedHost) -> PromiseCheckResult {
        expect(host.agents() <= 1, || format!("{} agents live", host.agents()))?;
        let strays: Vec<_> =
            host.living_epochs().into_iter().filter(|epoch| Some(epoch.0) != self.rules.live).collect();
        expect(strays.is_empty(), || format!("processes of runs {strays:?} live, {:?}", self.rules))
    }

    /// After every turn of the loop: the received events, the disk and the keeper's state agree.
    pub(crate) fn check(&mut self, mind: &SimulatedJournaledSession) -> PromiseCheckResult {
        expect(self.heard == self.committed, || {
            format!("{} events were heard, {} committed", self.heard.len(), self.committed.len())
        })?;
        let known = self.history.seq;
        // With one event of overlap: events that were read once must not change.
        for event in
            self.read(known.max(1))?.iter().take_while(|event| event.seq().0 <= self.heard.len() as u64)
        {
            let heard = &self.heard[event.seq().0 as usize - 1];
            expect(event.get() == heard, || format!("heard {heard:?}, on disk {event:?}"))?;
            if event.seq().0 > known {
                self.history.apply(event);
            }
        }
        expect(self.history.seq == self.heard.len() as u64, || {
            format!("{} events were heard, {} are on disk", self.heard.len(), self.history.seq)
        })?;
        expect(*mind.history() == self.history, || {
            format!("replay leads to {:?}, life led to {:?}", self.history, mind.history())
        })?;
        expect(self.blind || *mind.session() == self.history.session, || {
            format!("replay leads to {:?}, the keeper believes {:?}", self.history.session, mind.session())
        })?;
        let writer = mind.session().writer.as_ref().map(|writer| writer.fence.0);
        expect(self.blind || writer == self.rules.writer, || format!("writer {writer:?}, {:?}", self.rules))?;
        let may_type = |fence: &u64| mind.session().may_type(Fence(*fence)).is_ok();
        let typists: Vec<u64> = (0..=self.granted + 1).filter(may_type).collect();
        expect(typists.iter().all(|fence| Some(*fence) == self.rules.writer), || {
            format!("writers {typists:?} may type, {:?}", self.rules)
        })
    }

    /// When nothing is left to do, all required effects were performed by this keeper.
    pub(crate) fn check_done(&self) -> PromiseCheckResult {
        let owed = effects(&self.history.session);
        let missing: Vec<_> = owed.iter().filter(|effect| !self.done.contains(effect)).collect();
        expect(missing.is_empty(), || format!("{missing:?} is owed and was not done"))
    }

    fn read(&self, from: u64) -> Result<Vec<Committed<StoredEvent>>, String> {
        self.store.read(from)
    }

    /// A new witness for a store that took the place of the first one, as blind as this one.
    pub(crate) fn afresh(&self, store: SimulatedStore) -> Self {
        Self::new(store, self.blind)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.heard.is_empty() && self.committed.is_empty() && self.receipts.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.committed.len()
    }
}

/// A snapshot of the session, and the keys of its turns, are the session.
fn comes_back_from_paper(session: &Session) -> PromiseCheckResult {
    let json = serde_json::to_vec(&SessionSnapshot::from(session)).expect("plain data");
    let paper: SessionSnapshot = serde_json::from_slice(&json).map_err(|error| error.to_string())?;
    let mut back = Session::try_from(paper).map_err(|bad| bad.to_string())?;
    for key in session.turns.keys.iter() {
        back.turns.remember_key(key.hash, key.turn, key.digest);
    }
    expect(back == *session, || format!("{session:?} comes back from paper as {back:?}"))
}

/// Trouble with the disk is fine; the rest is a bug.
pub(crate) fn tolerate(error: &AppendError) -> PromiseCheckResult {
    use JournalError::{Create, List, Read, Remove, Rename, Sync, Write};
    let AppendError::Journal(error) = error else {
        return Err(format!("the store rejects the current keeper: {error}"));
    };
    match error {
        List { .. }
        | Read { .. }
        | Create { .. }
        | Write { .. }
        | Sync { .. }
        | Rename { .. }
        | Remove { .. } => Ok(()),
        other => Err(format!("the journal refuses: {other}")),
    }
}

fn expect(holds: bool, broken: impl FnOnce() -> String) -> PromiseCheckResult {
    if holds { Ok(()) } else { Err(broken()) }
}
