//! The ways keepers begin and end: create, resume, heal, one command without a keeper, restart in place, leave.
//!
//! These are the steps of `SimulatedKeeper::start`, `settle_past`, `adopt` and `leave` in `src/keeper.rs`
//! and of `src/recover.rs`.

use berth_core::{Command, Event, Observation, Refusal, SafeName};
use berth_keeper::journaled_session::SessionInput;
use berth_store::claim::AppendError;

use crate::simulation::forgetful_session::SimulatedJournaledSession;
use crate::simulation::keeper::SimulatedKeeper;
use crate::simulation::ledger::tolerate;
use crate::simulation::life::SessionSimulation;
use crate::simulation::world::KeeperHalt;

impl SessionSimulation {
    /// A keeper process starts: for a new session, or for the next run of one that is there.
    pub(crate) fn begin(&mut self) -> Result<(), KeeperHalt> {
        self.keepers += 1;
        if self.exists { self.resume() } else { self.create() }
    }

    fn create(&mut self) -> Result<(), KeeperHalt> {
        self.world.before_disk();
        let mind =
            match SimulatedJournaledSession::create(&self.world.store(), self.world.limits, self.world.bug) {
                Ok(mind) => mind,
                Err(error) => {
                    self.world.after_disk()?;
                    return self.world.disk_trouble(&error);
                }
            };
        self.exists = true;
        let mut keeper = self.keeper_of(mind);
        let spec = self.world.spec();
        let create = SessionInput::Command(Command::Create { spec, name: None });
        let start = keeper.start_order(&self.world, 0);
        if keeper.take(&mut self.world, vec![create, start])?.is_none() {
            // The caller heard an error; no half-made session is left.
            return self.forget();
        }
        self.started(keeper)
    }

    fn keeper_of(&self, mind: SimulatedJournaledSession) -> SimulatedKeeper {
        SimulatedKeeper::new(mind, self.keepers, self.world.host.boot())
    }

    fn started(&mut self, keeper: SimulatedKeeper) -> Result<(), KeeperHalt> {
        let keeper = self.keeper.insert(keeper);
        // A client that starts a session whose agent takes turns may send a prompt before the agent can listen.
        let talks = self.world.takes_turns && self.world.harsh && self.world.rng.coin();
        if talks {
            let prompt = self.world.prompt();
            self.send(prompt)?;
            return self.turn();
        }
        keeper.settle(&mut self.world)
    }

    /// A session that no client heard of is removed.
    fn forget(&mut self) -> Result<(), KeeperHalt> {
        if !self.world.ledger.is_empty() {
            return Err(KeeperHalt::Broken("a session that a client heard of is removed".to_owned()));
        }
        self.world.count("half made");
        self.world.forget();
        self.paused = None;
        self.exists = false;
        Ok(())
    }

    /// Opens the journal, in a new process or in a new image of the same. `None` if the disk did not let us.
    fn open(&mut self, same_process: bool) -> Result<Option<(SimulatedJournaledSession, bool)>, KeeperHalt> {
        self.world.before_disk();
        let snapshot = self.world.snapshot.as_deref();
        match SimulatedJournaledSession::open(
            &self.world.store(),
            self.world.limits,
            self.world.bug,
            snapshot,
            same_process,
        ) {
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

    /// A keeper that stood still while another one claimed its session goes on: it writes its pending batch.
    pub(crate) fn wake_paused(&mut self) {
        let Some(mut mind) = self.paused.take() else { return };
        self.world.note(|| "a superseded keeper goes on".to_owned());
        let late = SessionInput::Note(Event::Warned { what: "too late".to_owned() });
        let batch = mind.begin(vec![late], self.world.now());
        // If it is accepted, that is for the witness to notice.
        if let Err(AppendError::StaleEpoch { .. }) = mind.finish(batch) {
            self.world.count("a superseded keeper is rejected");
        }
    }

    /// Ends the leftovers of the last run first. `None` if they do not end.
    fn settle_past(&mut self, mind: &SimulatedJournaledSession) -> Option<Vec<SessionInput>> {
        if !mind.session().is_live() {
            return Some(vec![]);
        }
        let epoch = mind.session().epoch;
        match self.world.host.end_leftovers(epoch) {
            Ok(()) => {
                // The turn's end in the agent's transcript comes before the end of its run.
                let turns = &mind.session().turns;
                let proof = turns.current.as_ref().and_then(|it| self.world.agent.proof(it.turn));
                let gone = Observation::KeeperGone { epoch };
                Some(proof.into_iter().chain([gone]).map(SessionInput::Report).collect())
            }
            Err(left) => {
                self.world.count("leftovers do not end");
                self.world.note(|| format!("not proven gone: {left:?}"));
                None
            }
        }
    }

    fn resume(&mut self) -> Result<(), KeeperHalt> {
        let Some((mind, torn)) = self.open(false)? else { return Ok(()) };
        if mind.session().spec.is_none() {
            // Its maker died before anything was recorded, so there is nothing to bring back.
            return self.forget();
        }
        let Some(mut inputs) = self.settle_past(&mind) else { return Ok(()) };
        inputs.extend(torn.then(|| SessionInput::Note(Event::Warned { what: "a torn end".to_owned() })));
        let mut keeper = self.keeper_of(mind);
        // A client that starts an archived session restores it in the same commit; a sender does not.
        if !self.world.harsh || self.world.rng.below(4) != 0 {
            inputs.push(SessionInput::Command(Command::Restore { by: self.clients[0].actor.clone() }));
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

    /// A command looks at a session whose keeper died: its run is brought to its recorded end.
    pub(crate) fn heal(&mut self) -> Result<(), KeeperHalt> {
        if self.world.ledger.rules.live.is_none() {
            return Ok(());
        }
        self.keepers += 1;
        let Some((mind, _)) = self.open(false)? else { return Ok(()) };
        let Some(inputs) = self.settle_past(&mind) else { return Ok(()) };
        self.once(mind, inputs)
    }

    /// A session without a keeper is archived, or restored: the leftovers of its last run are ended first.
    pub(crate) fn put_away_alone(&mut self) -> Result<(), KeeperHalt> {
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
        inputs.push(SessionInput::Command(command));
        self.once(mind, inputs)
    }

    /// A session without a keeper gets another name.
    pub(crate) fn rename_alone(&mut self) -> Result<(), KeeperHalt> {
        if !self.exists || self.world.ledger.is_empty() {
            return Ok(());
        }
        self.keepers += 1;
        let name = self.some_name();
        let Some((mind, _)) = self.open(false)? else { return Ok(()) };
        self.once(mind, vec![SessionInput::Command(Command::Rename { name })])
    }

    /// Takes one batch and closes the journal again.
    fn once(&mut self, mind: SimulatedJournaledSession, inputs: Vec<SessionInput>) -> Result<(), KeeperHalt> {
        let mut keeper = self.keeper_of(mind);
        if keeper.take(&mut self.world, inputs)?.is_some() {
            self.world.ledger.check(&keeper.mind)?;
            self.close(keeper)?;
        }
        Ok(())
    }

    fn close(&mut self, keeper: SimulatedKeeper) -> Result<(), KeeperHalt> {
        self.world.before_disk();
        if let Err(error) = keeper.mind.close() {
            self.world.after_disk()?;
            tolerate(&error)?;
        }
        self.world.after_disk()
    }

    /// The run is over, and so is the keeper.
    pub(crate) fn leave(&mut self) -> Result<(), KeeperHalt> {
        self.world.count("left");
        self.world.note(|| "leaves".to_owned());
        let Some(keeper) = self.keeper.take() else { return Ok(()) };
        self.world.ledger.check(&keeper.mind)?;
        self.world.ledger.check_done()?;
        self.close(keeper)
    }

    /// The keeper replaces its own program: same process, same children, an empty memory.
    pub(crate) fn restart(&mut self) -> Result<(), KeeperHalt> {
        self.world.count("restarts in place");
        self.world.note(|| "restarts in place".to_owned());
        self.keeper = None;
        // A new image that cannot read its journal ends, and its children are on their own.
        let (mind, torn) = self.open(true)?.ok_or(KeeperHalt::Killed)?;
        let mut keeper = self.keeper_of(mind);
        let mut inputs = vec![SessionInput::Note(Event::KeeperRestarted { reason: "asked for".to_owned() })];
        inputs.extend(torn.then(|| SessionInput::Note(Event::Warned { what: "a torn end".to_owned() })));
        let writer = keeper.mind.session().writer.clone();
        inputs.extend(
            writer.map(|writer| SessionInput::Command(Command::ReleaseWriter { fence: writer.fence })),
        );
        keeper.take(&mut self.world, inputs)?.ok_or(KeeperHalt::Killed)?;
        keeper.adopt_agent(&mut self.world)?;
        // A child may have ended between the images; its signal would have gone to the old one.
        keeper.on_children(&mut self.world)?;
        self.keeper = Some(keeper);
        Ok(())
    }

    pub(crate) fn some_name(&mut self) -> SafeName {
        SafeName::parse(&format!("name-{}", self.world.rng.below(5))).expect("letters, a dash and a digit")
    }
}
