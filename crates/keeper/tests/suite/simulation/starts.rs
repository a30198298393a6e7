//! How keepers begin and end: create, resume, heal, one thing done without a keeper, restart in place, leave.
//!
//! The same steps as `Keeper::start`, `settle_past`, `adopt` and `leave` in `src/keeper.rs` and as `src/recover.rs`.

use berth_core::{Command, Event, Name, Observation, Refusal};
use berth_keeper::journaled_session::Input;
use berth_store::claim::AppendError;

use crate::simulation::keeper::Keeper;
use crate::simulation::ledger::tolerate;
use crate::simulation::life::Life;
use crate::simulation::mind::Mind;
use crate::simulation::world::Halt;

impl Life {
    /// A keeper process starts: for a new session, or for the next run of one that is there.
    pub(crate) fn begin(&mut self) -> Result<(), Halt> {
        self.keepers += 1;
        if self.exists { self.resume() } else { self.create() }
    }

    fn create(&mut self) -> Result<(), Halt> {
        self.world.before_disk();
        let mind = match Mind::create(&self.world.store(), self.world.limits, self.world.bug) {
            Ok(mind) => mind,
            Err(error) => {
                self.world.after_disk()?;
                return self.world.disk_trouble(&error);
            }
        };
        self.exists = true;
        let mut keeper = self.keeper_of(mind);
        let spec = self.world.spec();
        let create = Input::Command(Command::Create { spec, name: None });
        let start = keeper.start_order(&self.world, 0);
        if keeper.take(&mut self.world, vec![create, start])?.is_none() {
            // The caller heard an error; no half-made session is left.
            return self.forget();
        }
        self.started(keeper)
    }

    fn keeper_of(&self, mind: Mind) -> Keeper {
        Keeper::new(mind, self.keepers, self.world.host.boot())
    }

    fn started(&mut self, keeper: Keeper) -> Result<(), Halt> {
        let keeper = self.keeper.insert(keeper);
        // Whoever starts a session whose agent takes turns may have something to say, before it can listen.
        let talks = self.world.takes_turns && self.world.harsh && self.world.rng.coin();
        if talks {
            let prompt = self.world.prompt();
            self.send(prompt)?;
            return self.turn();
        }
        keeper.settle(&mut self.world)
    }

    /// A session that nobody heard of is removed.
    fn forget(&mut self) -> Result<(), Halt> {
        if !self.world.ledger.is_empty() {
            return Err(Halt::Broken("a session that somebody heard of is removed".to_owned()));
        }
        self.world.count("half made");
        self.world.forget();
        self.paused = None;
        self.exists = false;
        Ok(())
    }

    /// Opens the journal, in a new process or in a new image of the same. `None` if the disk did not let us.
    fn open(&mut self, same_process: bool) -> Result<Option<(Mind, bool)>, Halt> {
        self.world.before_disk();
        let snapshot = self.world.snapshot.as_deref();
        match Mind::open(&self.world.store(), self.world.limits, self.world.bug, snapshot, same_process) {
            Ok((mind, events, torn)) => {
                self.world.ledger.opened(&events, same_process)?;
                self.world.note(|| format!("opens, torn: {torn}, {:?}", mind.session().phase));
                self.world.after_disk()?;
                if torn {
                    self.world.count("torn");
                }
                if !same_process && self.world.rng.coin() {
                    self.wake_paused();
                }
                Ok(Some((mind, torn)))
            }
            Err(error) => {
                self.world.after_disk()?;
                self.world.disk_trouble(&error)?;
                Ok(None)
            }
        }
    }

    /// A keeper that stood still while another one claimed its session goes on: it writes what it has to say.
    pub(crate) fn wake_paused(&mut self) {
        let Some(mut mind) = self.paused.take() else { return };
        self.world.note(|| "a superseded keeper goes on".to_owned());
        let late = Input::Note(Event::Warned { what: "too late".to_owned() });
        let batch = mind.begin(vec![late], self.world.now());
        // If it is accepted, that is for the witness to notice.
        if let Err(AppendError::StaleEpoch { .. }) = mind.finish(batch) {
            self.world.count("a superseded keeper is rejected");
        }
    }

    /// What the last run left behind is ended first. `None` if it does not end.
    fn settle_past(&mut self, mind: &Mind) -> Option<Vec<Input>> {
        if !mind.session().is_live() {
            return Some(vec![]);
        }
        let epoch = mind.session().epoch;
        match self.world.host.end_leftovers(epoch) {
            Ok(()) => {
                // What the agent's own record tells of its turn comes before the end of its run.
                let turns = &mind.session().turns;
                let proof = turns.current.as_ref().and_then(|it| self.world.agent.proof(it.turn));
                let gone = Observation::KeeperGone { epoch };
                Some(proof.into_iter().chain([gone]).map(Input::Report).collect())
            }
            Err(left) => {
                self.world.count("leftovers do not end");
                self.world.note(|| format!("not proven gone: {left:?}"));
                None
            }
        }
    }

    fn resume(&mut self) -> Result<(), Halt> {
        let Some((mind, torn)) = self.open(false)? else { return Ok(()) };
        if mind.session().spec.is_none() {
            // Its maker died before anything was recorded, so there is nothing to bring back.
            return self.forget();
        }
        let Some(mut inputs) = self.settle_past(&mind) else { return Ok(()) };
        inputs.extend(torn.then(|| Input::Note(Event::Warned { what: "a torn end".to_owned() })));
        let mut keeper = self.keeper_of(mind);
        // Whoever starts what was put away brings it back in the same commit; a sender does not.
        if !self.world.harsh || self.world.rng.below(4) != 0 {
            inputs.push(Input::Command(Command::Restore { by: self.clients[0].actor.clone() }));
        }
        inputs.push(keeper.start_order(&self.world, self.world.ledger.len() as u64));
        match keeper.take(&mut self.world, inputs)? {
            Some(answers) if answers.iter().all(Result::is_ok) => self.started(keeper),
            Some(answers) if answers.contains(&Err(Refusal::Archived)) => {
                self.world.count("put away, and not started");
                Ok(())
            }
            // A process that cannot begin ends, and the next one tries again.
            Some(_) | None => Ok(()),
        }
    }

    /// Somebody looks at a session whose keeper died: its run is brought to its recorded end.
    pub(crate) fn heal(&mut self) -> Result<(), Halt> {
        if self.world.ledger.rules.live.is_none() {
            return Ok(());
        }
        self.keepers += 1;
        let Some((mind, _)) = self.open(false)? else { return Ok(()) };
        let Some(inputs) = self.settle_past(&mind) else { return Ok(()) };
        self.once(mind, inputs)
    }

    /// A session without a keeper is put away, or brought back: what its last run left is ended first.
    pub(crate) fn put_away_alone(&mut self) -> Result<(), Halt> {
        if !self.exists || self.world.ledger.is_empty() {
            return Ok(());
        }
        self.keepers += 1;
        let by = self.clients[1].actor.clone();
        let command =
            if self.world.rng.below(3) == 0 { Command::Restore { by } } else { Command::Archive { by } };
        let Some((mind, _)) = self.open(false)? else { return Ok(()) };
        let Some(mut inputs) = self.settle_past(&mind) else { return Ok(()) };
        self.world.count("put away or brought back");
        inputs.push(Input::Command(command));
        self.once(mind, inputs)
    }

    /// A session without a keeper gets another name.
    pub(crate) fn rename_alone(&mut self) -> Result<(), Halt> {
        if !self.exists || self.world.ledger.is_empty() {
            return Ok(());
        }
        self.keepers += 1;
        let name = self.some_name();
        let Some((mind, _)) = self.open(false)? else { return Ok(()) };
        self.once(mind, vec![Input::Command(Command::Rename { name })])
    }

    /// Takes one batch and closes the journal again.
    fn once(&mut self, mind: Mind, inputs: Vec<Input>) -> Result<(), Halt> {
        let mut keeper = self.keeper_of(mind);
        if keeper.take(&mut self.world, inputs)?.is_some() {
            self.world.ledger.check(&keeper.mind)?;
            self.close(keeper)?;
        }
        Ok(())
    }

    fn close(&mut self, keeper: Keeper) -> Result<(), Halt> {
        self.world.before_disk();
        if let Err(error) = keeper.mind.close() {
            self.world.after_disk()?;
            tolerate(&error)?;
        }
        self.world.after_disk()
    }

    /// The run is over, and so is the keeper.
    pub(crate) fn leave(&mut self) -> Result<(), Halt> {
        self.world.count("left");
        self.world.note(|| "leaves".to_owned());
        let Some(keeper) = self.keeper.take() else { return Ok(()) };
        self.world.ledger.check(&keeper.mind)?;
        self.world.ledger.check_done()?;
        self.close(keeper)
    }

    /// The keeper replaces its own program: same process, same children, an empty memory.
    pub(crate) fn restart(&mut self) -> Result<(), Halt> {
        self.world.count("restarts in place");
        self.world.note(|| "restarts in place".to_owned());
        self.keeper = None;
        // A new image that cannot read its journal ends, and its children are on their own.
        let (mind, torn) = self.open(true)?.ok_or(Halt::Killed)?;
        let mut keeper = self.keeper_of(mind);
        let mut inputs = vec![Input::Note(Event::KeeperRestarted { reason: "asked for".to_owned() })];
        inputs.extend(torn.then(|| Input::Note(Event::Warned { what: "a torn end".to_owned() })));
        let writer = keeper.mind.session().writer.clone();
        inputs.extend(writer.map(|writer| Input::Command(Command::ReleaseWriter { fence: writer.fence })));
        keeper.take(&mut self.world, inputs)?.ok_or(Halt::Killed)?;
        keeper.adopt_agent(&mut self.world)?;
        // A child may have ended between the images; its signal would have gone to the old one.
        keeper.on_children(&mut self.world)?;
        self.keeper = Some(keeper);
        Ok(())
    }

    pub(crate) fn some_name(&mut self) -> Name {
        Name::parse(&format!("name-{}", self.world.rng.below(5))).expect("letters, a dash and a digit")
    }
}
