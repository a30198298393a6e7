//! The world of the simulated keeper: a host, a disk, a witness, and bad luck.

use std::collections::{BTreeMap, VecDeque};

use berth_core::{ClockReading, Effect};
use berth_journal::fake_disk::{FakeDisk, SplitMix64};
use berth_journal::{JournalDisk, JournalLimits};
use berth_store::claim::{AppendError, MemoryStore};

use crate::simulation::agent::SimulatedAgent;
use crate::simulation::bug::KeeperBug;
use crate::simulation::host::SimulatedHost;
use crate::simulation::ledger::{PromiseChecker, tolerate};
use crate::simulation::life::SimulatedBackend;
use crate::simulation::store::SimulatedStore;

/// The number of past steps that a failure shows.
const TRACE_LINES: usize = 40;

pub(crate) struct SimulationEnvironment {
    pub(crate) rng: SplitMix64,
    pub(crate) host: SimulatedHost,
    pub(crate) disk: FakeDisk,
    /// The session is kept here instead of on the disk, in a life that has it.
    pub(crate) memory: Option<MemoryStore>,
    /// The snapshot that the keepers left beside the journal.
    pub(crate) snapshot: Option<Vec<u8>>,
    pub(crate) limits: JournalLimits,
    pub(crate) ledger: PromiseChecker,
    pub(crate) agent: SimulatedAgent,
    /// True if the agent takes turns, false if it has a terminal.
    pub(crate) takes_turns: bool,
    pub(crate) bug: KeeperBug,
    /// True if things go wrong.
    pub(crate) harsh: bool,
    pub(crate) counts: BTreeMap<&'static str, u64>,
    trace: VecDeque<String>,
}

/// The reason why a keeper stops.
#[derive(Debug)]
pub(crate) enum KeeperHalt {
    /// The keeper died. Files keep the written bytes, processes live on.
    Killed,
    /// The host lost its power.
    PowerCut,
    /// A promise was broken.
    Broken(String),
}

impl From<String> for KeeperHalt {
    fn from(broken: String) -> Self {
        Self::Broken(broken)
    }
}

impl SimulationEnvironment {
    pub(crate) fn new(
        seed: u64,
        takes_turns: bool,
        kept: SimulatedBackend,
        bug: KeeperBug,
        blind: bool,
    ) -> Self {
        let mut rng = SplitMix64::new(seed);
        let host = SimulatedHost::new(rng.draw());
        let disk = FakeDisk::new(rng.draw());
        // Small segments, so that many of them come and go; one of four has only one.
        let segment_bytes = if rng.below(4) == 0 { 1 << 20 } else { 1 + rng.below(3000) };
        let limits = JournalLimits { segment_bytes, ..JournalLimits::default() };
        let memory = matches!(kept, SimulatedBackend::InMemory).then(|| memory(bug));
        let ledger = PromiseChecker::new(store(&disk, memory.as_ref()), blind);
        let (counts, trace) = (BTreeMap::new(), VecDeque::new());
        let agent = SimulatedAgent::new(!seed);
        Self {
            rng,
            host,
            disk,
            memory,
            snapshot: None,
            limits,
            ledger,
            agent,
            takes_turns,
            bug,
            harsh: true,
            counts,
            trace,
        }
    }

    /// The back end of the session.
    pub(crate) fn store(&self) -> SimulatedStore {
        store(&self.disk, self.memory.as_ref())
    }

    /// A session that no client heard of is gone.
    pub(crate) fn forget(&mut self) {
        self.disk = FakeDisk::new(self.rng.draw());
        self.memory = self.memory.take().map(|_| memory(self.bug));
        self.snapshot = None;
        self.ledger = self.ledger.afresh(self.store());
    }

    /// Time passes: processes live, and the agent works.
    pub(crate) fn pass(&mut self, ms: u64) {
        self.host.pass(ms);
        if self.takes_turns && self.host.agent_is_awake() {
            self.agent.live();
        }
    }

    /// Nothing goes wrong any more.
    pub(crate) fn be_kind(&mut self) {
        (self.harsh, self.host.harsh, self.agent.harsh) = (false, false, false);
        self.disk.heal();
    }

    pub(crate) fn now(&self) -> ClockReading {
        self.host.now()
    }

    pub(crate) fn note(&mut self, what: impl FnOnce() -> String) {
        if self.trace.len() == TRACE_LINES {
            self.trace.pop_front();
        }
        self.trace.push_back(format!("{:>7} ms  #{:<3} {}", self.now().boot_ms, self.ledger.len(), what()));
    }

    pub(crate) fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    pub(crate) fn trace(&self) -> String {
        self.trace.iter().map(|line| format!("  {line}\n")).collect()
    }

    /// True with a chance of one in so many, while things go wrong.
    pub(crate) fn bad_luck(&mut self, one_in: u64) -> bool {
        self.rng.below(one_in) == 0 && self.harsh
    }

    /// A place where the keeper may die.
    pub(crate) fn may_die(&mut self, place: &'static str) -> Result<(), KeeperHalt> {
        if !self.bad_luck(150) {
            return Ok(());
        }
        self.note(|| format!("dies: {place}"));
        self.count(place);
        Err(self.halt())
    }

    /// The disk is about to be used: it may stop anywhere in between.
    pub(crate) fn before_disk(&mut self) {
        if self.bad_luck(40) {
            let calls = self.rng.below(14);
            self.disk.cut_power_after(calls);
        }
    }

    /// The disk was used. If it stopped, so did the keeper, at that very call.
    pub(crate) fn after_disk(&mut self) -> Result<(), KeeperHalt> {
        if self.disk.list().is_ok() {
            return Ok(());
        }
        self.note(|| "dies: at a call to the disk".to_owned());
        self.count("dies at a call to the disk");
        Err(self.halt())
    }

    fn halt(&mut self) -> KeeperHalt {
        if self.rng.coin() { KeeperHalt::Killed } else { KeeperHalt::PowerCut }
    }

    /// The disk said no.
    pub(crate) fn disk_trouble(&mut self, error: &AppendError) -> Result<(), KeeperHalt> {
        self.note(|| format!("the disk fails: {error}"));
        self.count("the disk fails");
        Ok(tolerate(error)?)
    }

    /// Something is wrong with the disk from now on, or no longer.
    pub(crate) fn change_disk(&mut self) {
        let rng = &mut self.rng;
        match rng.below(8) {
            0 => self.disk.fail_sync(1 + rng.below(6)),
            1 => self.disk.fail_syncs(rng.below(400)),
            2 => self.disk.leave_free(rng.below(1500) as usize),
            3 => self.disk.cut_power_after(1 + rng.below(20)),
            _ => self.disk.heal(),
        }
    }

    /// An effect is about to be done.
    pub(crate) fn doing(&mut self, effect: &Effect) -> Result<(), KeeperHalt> {
        self.note(|| format!("does {effect:?}"));
        Ok(self.ledger.doing(effect)?)
    }
}

fn memory(bug: KeeperBug) -> MemoryStore {
    if bug == KeeperBug::OldEpochAccepted {
        MemoryStore::accepting_old_epochs()
    } else {
        MemoryStore::default()
    }
}

fn store(disk: &FakeDisk, memory: Option<&MemoryStore>) -> SimulatedStore {
    memory
        .map_or_else(|| SimulatedStore::Files(disk.clone()), |memory| SimulatedStore::Memory(memory.clone()))
}
