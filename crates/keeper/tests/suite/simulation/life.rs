//! A session's life: keepers come and go, clients ask for things, and things go wrong.
//!
//! A life is a few rounds. In each, everything goes wrong for a while; then the faults stop, somebody asks for the
//! end, and it must come. Start with [`live`].

use std::collections::BTreeMap;
use std::time::Duration;

use berth_core::{Actor, Command, Fence};

use crate::simulation::bug::Bug;
use crate::simulation::keeper::Keeper;
use crate::simulation::mind::Mind;
use crate::simulation::world::{Halt, World};

const HARSH_STEPS: u64 = 60;
/// With [`CALM_STEP_MS`] more than every patience there is: three seconds of grace, two for what the agent left
/// behind, and a while to kill those who fork.
const CALM_STEPS: u64 = 80;
const CALM_STEP_MS: u64 = 200;

/// What went wrong, and the last steps before.
pub(crate) struct Failure {
    pub(crate) broken: String,
    pub(crate) trace: String,
}

/// The back end of a life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kept {
    /// On a disk that fails, with a lock that keeps a second keeper away.
    InFiles,
    /// In memory, where a keeper that stands still is superseded by the next one.
    InMemory,
}

/// How often what happened.
pub(crate) type Counts = BTreeMap<&'static str, u64>;

/// Lives one life, of an agent in a terminal or of one that takes turns. `blind` makes the witness judge by deeds alone.
pub(crate) fn live(
    seed: u64,
    takes_turns: bool,
    kept: Kept,
    bug: Bug,
    blind: bool,
) -> Result<Counts, Failure> {
    let mut life = Life::new(seed, takes_turns, kept, bug, blind);
    match life.rounds() {
        Ok(()) => Ok(life.world.counts),
        Err(broken) => Err(Failure { broken, trace: life.world.trace() }),
    }
}

pub(crate) struct Life {
    pub(crate) world: World,
    pub(crate) keeper: Option<Keeper>,
    /// A keeper that stands still, and that everybody takes for dead.
    pub(crate) paused: Option<Mind>,
    /// How many keepers there have been.
    pub(crate) keepers: u64,
    /// Whether there is a directory to open.
    pub(crate) exists: bool,
    pub(crate) clients: Vec<Client>,
}

pub(crate) struct Client {
    pub(crate) actor: Actor,
    /// The right it believes to have.
    pub(crate) fence: Fence,
}

impl Life {
    fn new(seed: u64, takes_turns: bool, kept: Kept, bug: Bug, blind: bool) -> Self {
        let client =
            |pid| Client { actor: Actor { pid, uid: Some(0), place: format!("pts/{pid}") }, fence: Fence(0) };
        let clients = (1..4).map(client).collect();
        let world = World::new(seed, takes_turns, kept, bug, blind);
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

    fn happen(&mut self) -> Result<(), Halt> {
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
            0 if self.world.harsh => return Err(Halt::Killed),
            1 if self.world.harsh => return Err(Halt::PowerCut),
            2 => self.restart()?,
            3..34 => self.ask()?,
            34 | 35 => self.hear_again()?,
            _ => {}
        }
        self.turn()
    }

    fn hear_again(&mut self) -> Result<(), Halt> {
        match &mut self.keeper {
            Some(keeper) => keeper.hear_again(&mut self.world),
            None => Ok(()),
        }
    }

    pub(crate) fn turn(&mut self) -> Result<(), Halt> {
        let Some(keeper) = &mut self.keeper else { return Ok(()) };
        keeper.turn(&mut self.world)?;
        if keeper.leaving {
            self.leave()?;
        }
        Ok(())
    }

    /// Whatever became of a step, the promises hold.
    pub(crate) fn after(&mut self, result: Result<(), Halt>) -> Result<(), String> {
        match result {
            Ok(()) => {}
            Err(Halt::Broken(broken)) => return Err(broken),
            Err(Halt::Killed) => {
                self.world.count("killed");
                self.world.note(|| "the keeper is killed, or stands still".to_owned());
                if self.world.memory.is_some()
                    && let Some(keeper) = self.keeper.take()
                {
                    self.paused = Some(keeper.mind).filter(Mind::has_claim);
                }
                self.drop_keeper();
                self.world.disk.heal();
                self.world.ledger.crashed()?;
            }
            Err(Halt::PowerCut) => {
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

    /// The faults stop. Somebody asks for the end, and it comes.
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
        let deadline = self.keeper.as_ref().and_then(Keeper::wakes_at_ms);
        deadline.map_or(0, |at| at.saturating_sub(self.world.now().boot_ms).min(10_000))
    }
}
