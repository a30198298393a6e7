//! Requests of clients, valid and not.

use std::time::Duration;

use berth_core::{
    Actor, Command, Fence, PolicyChange, Refusal, RunBoundary, RunPhase, SessionSpec, TimeoutChange,
};
use berth_keeper::journaled_session::SessionInput;

use crate::simulation::keeper::SimulatedKeeper;
use crate::simulation::life::SessionSimulation;
use crate::simulation::world::{KeeperHalt, SimulationEnvironment};

impl SessionSimulation {
    /// One of the clients wants something.
    pub(crate) fn ask(&mut self) -> Result<(), KeeperHalt> {
        if self.world.takes_turns && self.world.rng.below(5) != 0 {
            return self.ask_about_turns();
        }
        let which = self.world.rng.below(self.clients.len() as u64) as usize;
        let by = self.clients[which].actor.clone();
        let force = self.world.rng.below(3) == 0;
        // The client's own fence, which may be old, or made up.
        let fence = match self.world.rng.below(5) {
            0 => Fence(self.world.rng.below(self.clients[which].fence.0 + 3)),
            _ => self.clients[which].fence,
        };
        match self.world.rng.below(17) {
            0..3 => self.take_writer(which, force),
            3 => self.order(Command::ReleaseWriter { fence }).map(drop),
            4..8 => self.with_keeper(|keeper, world| keeper.keys(world, fence)),
            8 | 9 => self.with_keeper(|keeper, world| keeper.type_text(world, by, force)),
            10 => self.type_once(Command::Type { by, fence, bytes: 3 }, fence),
            11 => {
                let name = self.some_name();
                self.order(Command::Rename { name }).map(drop)
            }
            16 => self.sort(),
            12 => self.ask_the_impossible(),
            13 => self.ask_at_once(which),
            _ => {
                let grace = self.grace();
                self.order(Command::Stop { by, grace }).map(drop)
            }
        }
    }

    /// Gives the keeper an order. `None` if there is no keeper or its journal refused.
    pub(crate) fn order(&mut self, command: Command) -> Result<Option<Result<(), Refusal>>, KeeperHalt> {
        let Some(keeper) = &mut self.keeper else { return Ok(None) };
        let answers = keeper.take(&mut self.world, vec![SessionInput::Command(command)])?;
        Ok(answers.and_then(|mut answers| answers.pop()))
    }

    fn with_keeper(
        &mut self,
        act: impl FnOnce(&mut SimulatedKeeper, &mut SimulationEnvironment) -> Result<(), KeeperHalt>,
    ) -> Result<(), KeeperHalt> {
        match &mut self.keeper {
            Some(keeper) => act(keeper, &mut self.world),
            None => Ok(()),
        }
    }

    fn take_writer(&mut self, which: usize, force: bool) -> Result<(), KeeperHalt> {
        let who = self.clients[which].actor.clone();
        match self.order(Command::TakeWriter { who, force })? {
            Some(Ok(())) => self.granted(which),
            Some(Err(_)) => {
                self.world.count("writer refused");
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn granted(&mut self, which: usize) -> Result<(), KeeperHalt> {
        let Some(keeper) = &self.keeper else { return Ok(()) };
        let fence = keeper.mind.session().fence;
        self.world.count("writer granted");
        self.world.ledger.grant(fence.0)?;
        self.clients[which].fence = fence;
        Ok(())
    }

    fn type_once(&mut self, command: Command, fence: Fence) -> Result<(), KeeperHalt> {
        if let Some(Ok(())) = self.order(command)? {
            self.world.ledger.input(fence.0)?;
        }
        Ok(())
    }

    /// Orders that a session with a keeper must refuse.
    fn ask_the_impossible(&mut self) -> Result<(), KeeperHalt> {
        let create = Command::Create { spec: SessionSpec::default(), name: None };
        if let Some(Ok(())) = self.order(create)? {
            return Err(KeeperHalt::Broken("a session was created twice".to_owned()));
        }
        let archive = Command::Archive { by: self.clients[0].actor.clone() };
        if self.world.ledger.rules.live.is_some()
            && let Some(Ok(())) = self.order(archive)?
        {
            return Err(KeeperHalt::Broken("what runs was put away".to_owned()));
        }
        let Some(keeper) = &self.keeper else { return Ok(()) };
        let epoch = keeper.mind.session().epoch.next();
        let start =
            Command::Start { epoch, keeper: keeper.me(), output_from: 0, boundary: RunBoundary::default() };
        if self.world.ledger.rules.live.is_some()
            && let Some(Ok(())) = self.order(start)?
        {
            return Err(KeeperHalt::Broken("a second run was started".to_owned()));
        }
        Ok(())
    }

    /// Tags, notes, and other times to end at.
    fn sort(&mut self) -> Result<(), KeeperHalt> {
        let command = match self.world.rng.below(3) {
            0 => Command::Tag { add: vec![self.some_name()], remove: vec![self.some_name()] },
            1 => Command::Note { note: self.world.rng.coin().then(|| "a note".to_owned()) },
            _ => {
                let ms = self.world.rng.below(5000);
                let idle = [TimeoutChange::Same, TimeoutChange::Never, TimeoutChange::After(ms)]
                    [self.world.rng.below(3) as usize];
                let ttl = [TimeoutChange::Same, TimeoutChange::Never, TimeoutChange::After(20_000)]
                    [self.world.rng.below(3) as usize];
                let change = PolicyChange { idle, ttl, ..PolicyChange::default() };
                Command::SetPolicy { change }
            }
        };
        self.order(command).map(drop)
    }

    /// Several things in one commit.
    fn ask_at_once(&mut self, which: usize) -> Result<(), KeeperHalt> {
        let by = self.clients[which].actor.clone();
        let (name, grace) = (self.some_name(), self.grace());
        let mut inputs = vec![
            SessionInput::Command(Command::Rename { name }),
            SessionInput::Command(Command::TakeWriter { who: by.clone(), force: true }),
        ];
        if self.world.rng.below(3) == 0 {
            inputs.push(SessionInput::Command(Command::Stop { by, grace }));
        }
        let Some(keeper) = &mut self.keeper else { return Ok(()) };
        match keeper.take(&mut self.world, inputs)? {
            Some(answers) if answers[1].is_ok() => self.granted(which),
            Some(_) | None => Ok(()),
        }
    }

    fn grace(&mut self) -> Duration {
        Duration::from_millis(self.world.rng.below(3) * self.world.rng.below(1500))
    }
}

impl SimulatedKeeper {
    /// Keys of an attached person: checked, not journalled.
    pub(crate) fn keys(&mut self, world: &mut SimulationEnvironment, fence: Fence) -> Result<(), KeeperHalt> {
        if self.mind.session().may_type(fence).is_ok() {
            world.count("input");
            world.ledger.input(fence.0)?;
        } else {
            world.count("input refused");
        }
        Ok(())
    }

    /// Types once: takes the right, uses it, gives it back, in one commit.
    pub(crate) fn type_text(
        &mut self,
        world: &mut SimulationEnvironment,
        by: Actor,
        force: bool,
    ) -> Result<(), KeeperHalt> {
        if self.mind.session().phase == RunPhase::Starting {
            // Refused before another client loses its right to type: the agent is not known to be there.
            return Ok(());
        }
        let fence = self.mind.session().fence.next();
        let before = self.mind.history().seq;
        let inputs = vec![
            SessionInput::Command(Command::TakeWriter { who: by.clone(), force }),
            SessionInput::Command(Command::Type { by, fence, bytes: 5 }),
            SessionInput::Command(Command::ReleaseWriter { fence }),
        ];
        let Some(answers) = self.take(world, inputs)? else { return Ok(()) };
        if answers.iter().all(Result::is_ok) {
            return Ok(world.ledger.grant(fence.0)?);
        }
        if self.mind.history().seq != before {
            return Err(KeeperHalt::Broken("typing was refused and left a trace".to_owned()));
        }
        Ok(())
    }
}
