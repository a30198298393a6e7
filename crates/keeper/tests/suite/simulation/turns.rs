//! Turns in the simulation: the requests of senders, and the keeper's reactions.
//!
//! These are the keeper's own steps for `Deliver`, `Say`, `Interrupt` and `NextRun`: a write that the disk refuses is
//! tried again later; a message to the agent is not repeated. Start with [`SessionSimulation::ask_about_turns`].

use berth_core::{
    Command, Effect, FinalState, Observation, OnFailed, Refusal, SendMode, SessionPolicy, SessionSpec,
    StartDeadline, TurnPrompt,
};
use berth_keeper::journaled_session::SessionInput;

use crate::simulation::bug::KeeperBug;
use crate::simulation::keeper::SimulatedKeeper;
use crate::simulation::life::SessionSimulation;
use crate::simulation::world::{KeeperHalt, SimulationEnvironment};

/// More steps than all turns take that wait at the end of a life, each with a run of its own.
const STEPS_PER_TURN: u64 = 100;
const FINISH_STEP_MS: u64 = 100;

impl SimulationEnvironment {
    /// The spec of the session.
    pub(crate) fn spec(&mut self) -> SessionSpec {
        let command = vec!["agent".to_owned()];
        if !self.takes_turns {
            return SessionSpec { driver: "pty".to_owned(), command, ..SessionSpec::default() };
        }
        let idle_ms = (self.rng.coin()).then(|| self.rng.below(4000));
        let ttl_ms = (self.rng.below(8) == 0).then(|| 5000 + self.rng.below(20_000));
        let on_unknown = if self.rng.coin() { Default::default() } else { berth_core::OnUnknown::Continue };
        let on_failed = match self.rng.below(4) {
            0 => OnFailed::Hold,
            1 => OnFailed::Continue,
            _ => OnFailed::Retry,
        };
        let policy = SessionPolicy { idle_ms, ttl_ms, on_unknown, on_failed, ..SessionPolicy::default() };
        SessionSpec { driver: "acp".to_owned(), command, policy, ..SessionSpec::default() }
    }

    /// A prompt by one of many senders. There are few keys, so that they repeat.
    pub(crate) fn prompt(&mut self) -> TurnPrompt {
        let rng = &mut self.rng;
        let key = (rng.below(3) == 0).then(|| format!("key {}", rng.below(6)));
        // Mostly one text for one key.
        let text = match &key {
            Some(key) if rng.below(6) != 0 => format!("the text of {key}"),
            Some(_) | None => format!("text {}", rng.below(1000)),
        };
        let manner = match rng.below(8) {
            0 => SendMode::Steer,
            1 => SendMode::Interrupt,
            _ => SendMode::Queue,
        };
        let within_ms = (rng.below(6) == 0).then(|| rng.below(3000));
        let boot = self.host.boot();
        let boot_ms = self.now().boot_ms;
        let start_by = within_ms.map(|ms| StartDeadline { boot, boot_ms: boot_ms + ms });
        TurnPrompt { by: Default::default(), text, key, start_by, manner, retry: None }
    }
}

impl SessionSimulation {
    /// One of the senders wants something.
    pub(crate) fn ask_about_turns(&mut self) -> Result<(), KeeperHalt> {
        let by = self.clients[0].actor.clone();
        let turn = self.world.rng.below(self.world.ledger.rules.turns.count() + 2);
        // Late turns are chosen more often.
        let turn = turn.max(self.world.ledger.rules.turns.count().saturating_sub(self.world.rng.below(6)));
        match self.world.rng.below(20) {
            0..9 => {
                let prompt = self.world.prompt();
                self.send(prompt)
            }
            9..12 => self.send_at_once(),
            12 | 13 => self.order(Command::Cancel { turn, by }).map(drop),
            14 => {
                let to = self.world.rng.below(3);
                self.order(Command::Move { turn, to }).map(drop)
            }
            15 => self.order(Command::Pause { by }).map(drop),
            16 => {
                let text = format!("changed to {}", self.world.rng.below(1000));
                self.order(Command::Edit { turn, text, by }).map(drop)
            }
            17..19 => self.order(Command::GoOn { by }).map(drop),
            _ => {
                // A keeper gone mad gives a turn of its own choice.
                self.order(Command::Deliver { turn, output_from: 0 }).map(drop)
            }
        }
    }

    /// Sends, and remembers the receipt.
    pub(crate) fn send(&mut self, prompt: TurnPrompt) -> Result<(), KeeperHalt> {
        match self.order(Command::Send { prompt: prompt.clone() })? {
            Some(Ok(())) => self.receipt(&prompt),
            Some(Err(refusal)) => {
                self.world.count("send refused");
                if matches!(refusal, Refusal::KeyReused { .. }) {
                    self.world.count("key reused");
                }
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Several senders in one commit, and a receipt for each.
    fn send_at_once(&mut self) -> Result<(), KeeperHalt> {
        let prompts: Vec<TurnPrompt> =
            (0..2 + self.world.rng.below(4)).map(|_| self.world.prompt()).collect();
        let inputs =
            prompts.iter().cloned().map(|prompt| SessionInput::Command(Command::Send { prompt })).collect();
        let Some(keeper) = &mut self.keeper else { return Ok(()) };
        let Some(taken) = keeper.take_batch(&mut self.world, inputs)? else { return Ok(()) };
        if self.world.bug == KeeperBug::AnswersBeforeCommit && taken.events.is_empty() {
            return prompts.iter().try_for_each(|prompt| self.receipt(prompt));
        }
        let keys: Vec<_> = prompts.iter().map(|prompt| prompt.key.clone()).collect();
        let accepted = taken.accepted(&keys, keeper.mind.session());
        for (prompt, accepted) in prompts.iter().zip(accepted) {
            if let Ok(accepted) = accepted {
                self.world.count("accepted at once");
                self.world.ledger.receipt(accepted.turn, prompt)?;
            }
        }
        Ok(())
    }

    /// Checks the turn in a sender's receipt.
    fn receipt(&mut self, prompt: &TurnPrompt) -> Result<(), KeeperHalt> {
        let Some(keeper) = &self.keeper else { return Ok(()) };
        let turns = &keeper.mind.session().turns;
        let keyed = prompt.key.as_deref().and_then(|key| turns.keyed(key));
        let turn = keyed.unwrap_or(turns.last());
        self.world.count("accepted");
        Ok(self.world.ledger.receipt(turn, prompt)?)
    }

    /// The world cooperates until every turn has its end.
    pub(crate) fn finish(&mut self) -> Result<(), String> {
        self.world.note(|| "the world cooperates".to_owned());
        self.world.be_kind();
        let most = 50 + STEPS_PER_TURN * self.world.ledger.rules.turns.open() as u64;
        for step in 0..most {
            if self.world.ledger.rules.turns.open() == 0 {
                return self.count_ends();
            }
            // A session whose time is up begins anew when the host does.
            let result = match &self.keeper {
                None if step % 40 == 39 => Err(KeeperHalt::PowerCut),
                None => self.begin(),
                Some(_) => self.go_on(),
            };
            self.after(result)?;
        }
        Err(format!("some turn never ends: {:?}", self.world.ledger.rules.turns))
    }

    fn go_on(&mut self) -> Result<(), KeeperHalt> {
        self.world.pass(FINISH_STEP_MS);
        let by = self.clients[0].actor.clone();
        self.order(Command::GoOn { by })?;
        self.turn()
    }

    fn count_ends(&mut self) -> Result<(), String> {
        let ends: Vec<_> = self.world.ledger.rules.turns.ends().collect();
        for end in ends {
            self.world.count(match end {
                FinalState::Done => "done",
                FinalState::Failed => "failed",
                FinalState::Cancelled => "cancelled",
                FinalState::Interrupted => "interrupted",
                FinalState::Unknown => "unknown",
            });
        }
        self.world.ledger.receipts_hold()
    }
}

impl SimulatedKeeper {
    /// Performs the effects on turns.
    pub(crate) fn perform_for_turns(
        &mut self,
        world: &mut SimulationEnvironment,
        effect: &Effect,
    ) -> Result<(), KeeperHalt> {
        match effect {
            Effect::Deliver { turn } => {
                let deliver = Command::Deliver { turn: *turn, output_from: 0 };
                match self.take(world, vec![SessionInput::Command(deliver)])? {
                    Some(_) => {}
                    None => self.try_again(world, effect),
                }
            }
            Effect::Say { turn } => {
                let current = self.mind.session().turns.current.as_ref();
                let into = current.map(|current| current.turn).filter(|whole| whole != turn);
                let given = self.mind.session().turns.open(*turn);
                let told = given.map(|turn| turn.prompt.to_string());
                let (boot, now) = (world.host.boot(), world.now().boot_ms);
                let is_late = |by: &StartDeadline| by.boot != boot || by.boot_ms <= now;
                if given.and_then(|turn| turn.start_by.as_ref()).is_some_and(is_late) {
                    return Err(KeeperHalt::Broken(format!("turn {turn} is said too late")));
                }
                world.count(if into.is_some() { "steered" } else { "said" });
                world.ledger.said(*turn, told.as_deref())?;
                let is_there = world.host.agents() > 0;
                world.agent.say(*turn, into, is_there)?;
            }
            Effect::Interrupt { turn } => {
                world.count("interrupted by us");
                world.agent.interrupt(*turn);
            }
            Effect::NextRun { .. } => {
                world.count("next run");
                self.next_run(world, effect)?;
            }
            Effect::Spawn { .. }
            | Effect::Terminate { .. }
            | Effect::Kill { .. }
            | Effect::Prove { .. }
            | Effect::WakeAt { .. }
            | Effect::Leave => {}
        }
        Ok(())
    }

    fn next_run(&mut self, world: &mut SimulationEnvironment, effect: &Effect) -> Result<(), KeeperHalt> {
        let start = self.start_order(world, world.ledger.len() as u64);
        match self.take(world, vec![start])?.and_then(|mut answers| answers.pop()) {
            Some(Ok(())) => self.forget_the_killing(),
            Some(Err(Refusal::Expired)) => {
                world.count("expired between runs");
                self.report(world, vec![Observation::Tick])?;
            }
            Some(Err(refusal)) => {
                return Err(KeeperHalt::Broken(format!("the next run is owed and refused: {refusal:?}")));
            }
            None => self.try_again(world, effect),
        }
        Ok(())
    }

    /// Reads the agent's reports. While reports wait for the disk, no more are read.
    pub(crate) fn on_agent(&mut self, world: &mut SimulationEnvironment) -> Result<(), KeeperHalt> {
        if self.has_unjournalled() {
            return Ok(());
        }
        let words = world.agent.hear();
        self.report(world, words)
    }
}
