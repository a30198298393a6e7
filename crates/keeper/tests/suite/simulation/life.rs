//! A session's life: keepers come and go, clients send requests, and things go wrong.
//!
//! A life is a few rounds. In each, everything goes wrong for a while; then the faults stop, a client asks for the
//! end, and it must come. Start with [`live`].

use std::collections::BTreeMap;
use std::time::Duration;

use berth_core::{Actor, Command, Fence};

use crate::simulation::bug::KeeperBug;
use crate::simulation::forgetful_session::SimulatedJournaledSession;
use crate::simulation::keeper::SimulatedKeeper;
use crate::simulation::world::{KeeperHalt, SimulationEnvironment};

const HARSH_STEPS: u64 = 60;
/// With [`CALM_STEP_MS`] more than all timeouts together: three seconds of grace, two for the leftovers of the agent,
/// and a while to kill processes that fork.
const CALM_STEPS: u64 = 80;
const CALM_STEP_MS: u64 = 200;

/// The error of a life, and its last steps.
pub(crate) struct SimulationFailure {
    pub(crate) broken: String,
    pub(crate) trace: String,
}

/// The back end of a life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SimulatedBackend {
    /// On a disk that fails, with a lock that keeps a second keeper away.
    InFiles,
    /// In memory, where a keeper that stands still is superseded by the next one.
    InMemory,
}

/// The number of times that each thing happened.
pub(crate) type OccurrenceCounts = BTreeMap<&'static str, u64>;

/// Lives one life, of an agent in a terminal or of one that takes turns. `blind` makes the witness judge by deeds alone.
pub(crate) fn live(
    seed: u64,
    takes_turns: bool,
    kept: SimulatedBackend,
    bug: KeeperBug,
    blind: bool,
) -> Result<OccurrenceCounts, SimulationFailure> {
    let mut life = SessionSimulation::new(seed, takes_turns, kept, bug, blind);
    match life.rounds() {
        Ok(()) => Ok(life.world.counts),
        Err(broken) => Err(SimulationFailure { broken, trace: life.world.trace() }),
    }
}

pub(crate) struct SessionSimulation {
    pub(crate) world: SimulationEnvironment,
    pub(crate) keeper: Option<SimulatedKeeper>,
    /// A keeper that stands still, and that every other process takes for dead.
    pub(crate) paused: Option<SimulatedJournaledSession>,
    /// How many keepers there have been.
    pub(crate) keepers: u64,
    /// True if there is a directory to open.
    pub(crate) exists: bool,
    pub(crate) clients: Vec<SimulatedClient>,
}

pub(crate) struct SimulatedClient {
    pub(crate) actor: Actor,
    /// The fence it believes to have.
    pub(crate) fence: Fence,
}

impl SessionSimulation {
    fn new(seed: u64, takes_turns: bool, kept: SimulatedBackend, bug: KeeperBug, blind: bool) -> Self {
        let client = |pid| SimulatedClient {
            actor: Actor { pid, uid: Some(0), place: format!("pts/{pid}") },
            fence: Fence(0),
        };
        let clients = (1..4).map(client).collect();
        let world = SimulationEnvironment::new(seed, takes_turns, kept, bug, blind);
        Self { world, keeper: None, paused: None, keepers: 0, exists: false, clients }
    }

    fn rounds(&mut self) -> Result<(), String> {
        // A long journal makes every look at it slow, so few lives are long.
        let rounds = if self.world.rng.below(30) == 0 { 6 } else { 2 };
        for _ in 0..rounds {
            for _ in 0..HARSH_STEPS {
                self.step()?;
            }
            self.calm()?;
        }
        if self.world.takes_turns {
            self.finish()?;
            self.calm()?;
        }
        Ok(())
    }

    /// Something happens, the keeper takes its turn, everything is checked.
    fn step(&mut self) -> Result<(), String> {
        let ms = match self.world.rng.below(8) {
            0 => self.world.rng.below(3000),
            1 => self.until_deadline(),
            _ => self.world.rng.below(40),
        };
        self.world.pass(ms);
        if self.world.bad_luck(12) {
            self.world.change_disk();
        }
        let result = self.happen();
        self.after(result)
    }

    fn happen(&mut self) -> Result<(), KeeperHalt> {
        if self.keeper.is_none() {
            return match self.world.rng.below(9) {
                0 => self.rename_alone(),
                1 => self.heal(),
                2 => self.put_away_alone(),
                _ => self.begin(),
            };
        }
        if self.paused.is_some() && self.world.rng.below(8) == 0 {
            self.wake_paused();
        }
        match self.world.rng.below(60) {
            0 if self.world.harsh => return Err(KeeperHalt::Killed),
            1 if self.world.harsh => return Err(KeeperHalt::PowerCut),
            2 => self.restart()?,
            3..34 => self.ask()?,
            34 | 35 => self.hear_again()?,
            _ => {}
        }
        self.turn()
    }

    fn hear_again(&mut self) -> Result<(), KeeperHalt> {
        match &mut self.keeper {
            Some(keeper) => keeper.hear_again(&mut self.world),
            None => Ok(()),
        }
    }

    pub(crate) fn turn(&mut self) -> Result<(), KeeperHalt> {
        let Some(keeper) = &mut self.keeper else { return Ok(()) };
        keeper.turn(&mut self.world)?;
        if keeper.leaving {
            self.leave()?;
        }
        Ok(())
    }

    /// Checks that the promises hold, after a step with any result.
    pub(crate) fn after(&mut self, result: Result<(), KeeperHalt>) -> Result<(), String> {
        match result {
            Ok(()) => {}
            Err(KeeperHalt::Broken(broken)) => return Err(broken),
            Err(KeeperHalt::Killed) => {
                self.world.count("killed");
                self.world.note(|| "the keeper is killed, or stands still".to_owned());
                if self.world.memory.is_some()
                    && let Some(keeper) = self.keeper.take()
                {
                    self.paused = Some(keeper.mind).filter(SimulatedJournaledSession::has_claim);
                }
                self.drop_keeper();
                self.world.disk.heal();
                self.world.ledger.crashed()?;
            }
            Err(KeeperHalt::PowerCut) => {
                self.world.count("power cut");
                self.world.note(|| "the power goes".to_owned());
                self.paused = None;
                self.drop_keeper();
                self.world.disk.crash();
                self.world.host.power_cut();
                self.world.ledger.crashed()?;
            }
        }
        if let Some(keeper) = &self.keeper {
            self.world.ledger.check(&keeper.mind)?;
            self.world.ledger.check_done()?;
        }
        self.world.ledger.check_host(&self.world.host)
    }

    fn drop_keeper(&mut self) {
        self.keeper = None;
        self.world.host.keeper_died(self.keepers);
    }

    /// The faults stop. A client asks for the end, and it comes.
    fn calm(&mut self) -> Result<(), String> {
        self.world.note(|| "the faults stop".to_owned());
        self.world.be_kind();
        self.world.host.pass(0);
        if self.keeper.is_none() {
            let result = self.begin();
            self.after(result)?;
        }
        let grace = Duration::from_millis(self.world.rng.below(3000));
        let by = self.clients[0].actor.clone();
        let result = self.order(Command::Stop { by, grace }).and_then(|_| self.turn());
        self.after(result)?;
        for _ in 0..CALM_STEPS {
            if self.keeper.is_none() {
                break;
            }
            self.world.pass(CALM_STEP_MS);
            let result = self.turn();
            self.after(result)?;
        }
        if let Some(keeper) = &self.keeper {
            return Err(format!("the run does not end: {:?}", keeper.mind.session()));
        }
        let left = self.world.host.living_epochs();
        if self.world.ledger.rules.live.is_some() || !left.is_empty() {
            return Err(format!("left behind: {left:?}, {:?}", self.world.ledger.rules));
        }
        (self.world.harsh, self.world.host.harsh, self.world.agent.harsh) = (true, true, true);
        Ok(())
    }

    fn until_deadline(&self) -> u64 {
        let deadline = self.keeper.as_ref().and_then(SimulatedKeeper::wakes_at_ms);
        deadline.map_or(0, |at| at.saturating_sub(self.world.now().boot_ms).min(10_000))
    }
}
