//! Turns in the simulation: what senders ask for, and what the keeper does about it.
//!
//! The same steps as the keeper's own for `Deliver`, `Say`, `Interrupt` and `NextRun`: what the disk refuses is
//! tried again later; what was said is not. Start with [`Life::ask_about_turns`].

use berth_core::{
    Command, Effect, Final, Manner, Observation, OnFailed, Policy, Prompt, Refusal, Spec, StartBy,
};
use berth_keeper::journaled_session::Input;

use crate::simulation::bug::Bug;
use crate::simulation::keeper::Keeper;
use crate::simulation::life::Life;
use crate::simulation::world::{Halt, World};

/// More steps than every turn takes that waits at the end of a life, each with a run of its own.
const STEPS_PER_TURN: u64 = 100;
const FINISH_STEP_MS: u64 = 100;

impl World {
    /// What the session is.
    pub(crate) fn spec(&mut self) -> Spec {
        let command = vec!["agent".to_owned()];
        if !self.takes_turns {
            return Spec { driver: "pty".to_owned(), command, ..Spec::default() };
        }
        let idle_ms = (self.rng.coin()).then(|| self.rng.below(4000));
        let ttl_ms = (self.rng.below(8) == 0).then(|| 5000 + self.rng.below(20_000));
        let on_unknown = if self.rng.coin() { Default::default() } else { berth_core::OnUnknown::Continue };
        let on_failed = match self.rng.below(4) {
            0 => OnFailed::Hold,
            1 => OnFailed::Continue,
            _ => OnFailed::Retry,
        };
        let policy = Policy { idle_ms, ttl_ms, on_unknown, on_failed, ..Policy::default() };
        Spec { driver: "acp".to_owned(), command, policy, ..Spec::default() }
    }

    /// Something to say, by one of many senders. Few keys, so that they come again.
    pub(crate) fn prompt(&mut self) -> Prompt {
        let rng = &mut self.rng;
        let key = (rng.below(3) == 0).then(|| format!("key {}", rng.below(6)));
        // Mostly the same text for the same key.
        let text = match &key {
            Some(key) if rng.below(6) != 0 => format!("the text of {key}"),
            Some(_) | None => format!("text {}", rng.below(1000)),
        };
        let manner = match rng.below(8) {
            0 => Manner::Steer,
            1 => Manner::Interrupt,
            _ => Manner::Queue,
        };
        let within_ms = (rng.below(6) == 0).then(|| rng.below(3000));
        let boot = self.host.boot();
        let boot_ms = self.now().boot_ms;
        let start_by = within_ms.map(|ms| StartBy { boot, boot_ms: boot_ms + ms });
        Prompt { by: Default::default(), text, key, start_by, manner, retry: None }
    }
}

impl Life {
    /// One of the senders wants something.
    pub(crate) fn ask_about_turns(&mut self) -> Result<(), Halt> {
        let by = self.clients[0].actor.clone();
        let turn = self.world.rng.below(self.world.ledger.rules.turns.count() + 2);
        // Late turns are more often spoken of.
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
    pub(crate) fn send(&mut self, prompt: Prompt) -> Result<(), Halt> {
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
    fn send_at_once(&mut self) -> Result<(), Halt> {
        let prompts: Vec<Prompt> = (0..2 + self.world.rng.below(4)).map(|_| self.world.prompt()).collect();
        let inputs = prompts.iter().cloned().map(|prompt| Input::Command(Command::Send { prompt })).collect();
        let Some(keeper) = &mut self.keeper else { return Ok(()) };
        let Some(taken) = keeper.take_batch(&mut self.world, inputs)? else { return Ok(()) };
        if self.world.bug == Bug::AnswersBeforeCommit && taken.events.is_empty() {
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

    /// A sender hears which turn its prompt is.
    fn receipt(&mut self, prompt: &Prompt) -> Result<(), Halt> {
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
                None if step % 40 == 39 => Err(Halt::PowerCut),
                None => self.begin(),
                Some(_) => self.go_on(),
            };
            self.after(result)?;
        }
        Err(format!("some turn never ends: {:?}", self.world.ledger.rules.turns))
    }

    fn go_on(&mut self) -> Result<(), Halt> {
        self.world.pass(FINISH_STEP_MS);
        let by = self.clients[0].actor.clone();
        self.order(Command::GoOn { by })?;
        self.turn()
    }

    fn count_ends(&mut self) -> Result<(), String> {
        let ends: Vec<_> = self.world.ledger.rules.turns.ends().collect();
        for end in ends {
            self.world.count(match end {
                Final::Done => "done",
                Final::Failed => "failed",
                Final::Cancelled => "cancelled",
                Final::Interrupted => "interrupted",
                Final::Unknown => "unknown",
            });
        }
        self.world.ledger.receipts_hold()
    }
}

impl Keeper {
    /// Does what is owed to turns.
    pub(crate) fn perform_for_turns(&mut self, world: &mut World, effect: &Effect) -> Result<(), Halt> {
        match effect {
            Effect::Deliver { turn } => {
                let deliver = Command::Deliver { turn: *turn, output_from: 0 };
                match self.take(world, vec![Input::Command(deliver)])? {
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
                let is_late = |by: &StartBy| by.boot != boot || by.boot_ms <= now;
                if given.and_then(|turn| turn.start_by.as_ref()).is_some_and(is_late) {
                    return Err(Halt::Broken(format!("turn {turn} is said too late")));
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

    fn next_run(&mut self, world: &mut World, effect: &Effect) -> Result<(), Halt> {
        let start = self.start_order(world, world.ledger.len() as u64);
        match self.take(world, vec![start])?.and_then(|mut answers| answers.pop()) {
            Some(Ok(())) => self.forget_the_killing(),
            Some(Err(Refusal::Expired)) => {
                world.count("expired between runs");
                self.report(world, vec![Observation::Tick])?;
            }
            Some(Err(refusal)) => {
                return Err(Halt::Broken(format!("the next run is owed and refused: {refusal:?}")));
            }
            None => self.try_again(world, effect),
        }
        Ok(())
    }

    /// What the agent said. While reports wait for the disk, nothing more is read.
    pub(crate) fn on_agent(&mut self, world: &mut World) -> Result<(), Halt> {
        if self.has_unjournalled() {
            return Ok(());
        }
        let words = world.agent.hear();
        self.report(world, words)
    }
}
