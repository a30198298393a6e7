//! The keeper's loop, as in `src/keeper.rs` and `src/keeper/effects.rs`, with a world that fails and bugs on request.
//!
//! JournaledSession, rules and journal are the real ones. What is here is what the loop adds: when to report, when to act, what
//! to do again. Start with [`SimulatedKeeper::turn`].

use berth_core::{
    BootId, Command, Effect, EndingRun, Epoch, Event, Fence, Observation, PROOF_TIMEOUT, ProcessRef, Refusal,
    RunBoundary, RunOutcome, RunPhase, effects,
};
use berth_keeper::journaled_session::{CommittedBatch, SessionInput};

use crate::simulation::agent::MOST_WORDS;
use crate::simulation::bug::KeeperBug;
use crate::simulation::forgetful_session::SimulatedJournaledSession;
use crate::simulation::world::{KeeperHalt, SimulationEnvironment};

const KILL_AGAIN_MS: u64 = 20;
const RETRY_MS: u64 = 1000;
/// A snapshot is written whenever the number of the last event is a multiple of this.
const SNAPSHOT_EVENTS: u64 = 5;
/// One of each kind of report is all that may wait for the disk, and an agent's last words.
const MOST_UNJOURNALLED: usize = 7 + MOST_WORDS;

pub(crate) struct SimulatedKeeper {
    pub(crate) mind: SimulatedJournaledSession,
    /// The number of this process's life.
    pub(crate) life: u64,
    boot: BootId,
    unjournalled: Vec<Observation>,
    /// Reports that arrived, for a world that repeats itself.
    reported: Vec<Observation>,
    performed: Vec<Effect>,
    /// Effects that the disk refused, to be done when it is tried again.
    refused: Vec<Effect>,
    killed_at_ms: Option<u64>,
    retry_at_ms: Option<u64>,
    /// The run this very image spawned: it must not lose sight of how that ends.
    spawned: Option<Epoch>,
    /// A client stopped the session, and got the answer that it is stopped.
    is_stopped: bool,
    pub(crate) leaving: bool,
}

impl SimulatedKeeper {
    pub(crate) fn new(mind: SimulatedJournaledSession, life: u64, boot: BootId) -> Self {
        let (unjournalled, reported) = (Vec::new(), Vec::new());
        let (performed, refused) = (Vec::new(), Vec::new());
        let (killed_at_ms, retry_at_ms, spawned) = (None, None, None);
        Self {
            mind,
            life,
            boot,
            unjournalled,
            reported,
            performed,
            refused,
            killed_at_ms,
            retry_at_ms,
            spawned,
            is_stopped: false,
            leaving: false,
        }
    }

    /// This process, for the record.
    pub(crate) fn me(&self) -> ProcessRef {
        ProcessRef { pid: 1_000_000 + self.life as u32, start_ticks: self.life, boot: self.boot.clone() }
    }

    /// One turn of the loop: events of the kernel and the clock, then the effects that are due.
    pub(crate) fn turn(&mut self, world: &mut SimulationEnvironment) -> Result<(), KeeperHalt> {
        self.on_agent(world)?;
        if world.host.has_news(self.life) {
            self.on_children(world)?;
        }
        self.on_time(world)?;
        self.settle(world)
    }

    /// Takes a batch: decide, journal, apply, publish. `None` if the journal refused.
    pub(crate) fn take(
        &mut self,
        world: &mut SimulationEnvironment,
        inputs: Vec<SessionInput>,
    ) -> Result<Option<Vec<Result<(), Refusal>>>, KeeperHalt> {
        Ok(self.take_batch(world, inputs)?.map(|taken| taken.answers))
    }

    pub(crate) fn take_batch(
        &mut self,
        world: &mut SimulationEnvironment,
        mut inputs: Vec<SessionInput>,
    ) -> Result<Option<CommittedBatch>, KeeperHalt> {
        let now = world.now();
        let stops = inputs.iter().any(|input| matches!(input, SessionInput::Command(Command::Stop { .. })));
        let mut plan = self.mind.plan(&inputs, now);
        if let Some(retry) = world.bug.wrong_retry(&plan) {
            inputs.push(SessionInput::Note(retry));
            plan = self.mind.plan(&inputs, now);
        }
        if world.bug == KeeperBug::PublishBeforeAppend {
            world.ledger.publish(&plan.events);
        }
        if world.bug == KeeperBug::EffectBeforeCommit {
            for effect in effects(&plan.then).iter().filter(|effect| !self.performed.contains(effect)) {
                world.doing(effect)?;
            }
        }
        if !plan.events.is_empty() {
            world.note(|| format!("takes {:?}", plan.events.iter().map(|e| &e.event).collect::<Vec<_>>()));
        }
        let before = (world.disk.counts(), self.mind.history().clone());
        let on_its_way = self.mind.begin(inputs, now);
        self.attend(world)?;
        world.before_disk();
        let taken = self.mind.finish(on_its_way);
        match taken {
            Ok(taken) => {
                world.ledger.took(&plan, &taken.events)?;
                if self.mind.history().seq.is_multiple_of(SNAPSHOT_EVENTS) {
                    world.count("snapshot");
                    world.snapshot = self.mind.snapshot();
                }
                if taken.events.is_empty()
                    && (world.disk.counts(), self.mind.history()) != (before.0, &before.1)
                {
                    return Err(KeeperHalt::Broken("a batch that comes to nothing left a trace".to_owned()));
                }
                let lost = |event: &Event| matches!(event, Event::RunEnded { epoch, outcome: RunOutcome::Lost } if Some(*epoch) == self.spawned);
                if taken.events.iter().any(|event| lost(&event.event)) {
                    return Err(KeeperHalt::Broken("a keeper lost sight of its own run".to_owned()));
                }
                for event in &taken.events {
                    world.agent.bears_out(&event.event)?;
                    if matches!(&event.event, Event::TurnAccepted { prompt, .. } if prompt.retry.is_some()) {
                        world.count("retried");
                    }
                    if self.is_stopped && matches!(event.event, Event::RunStarting { .. }) {
                        return Err(KeeperHalt::Broken("a session that was stopped went on".to_owned()));
                    }
                }
                self.is_stopped |= stops;
                world.after_disk()?;
                world.may_die("between append and publish")?;
                if world.bug != KeeperBug::PublishBeforeAppend {
                    world.ledger.publish(&plan.events);
                }
                world.ledger.check_host(&world.host)?;
                world.may_die("between publish and effects")?;
                Ok(Some(taken))
            }
            Err(error) => {
                let answers = plan.answers.clone();
                world.snapshot = self.mind.snapshot_ahead(&plan).or(world.snapshot.take());
                world.ledger.failed(plan.events, &error)?;
                world.after_disk()?;
                world.disk_trouble(&error)?;
                if *self.mind.history() != before.1 {
                    return Err(KeeperHalt::Broken("a batch that failed changed the state".to_owned()));
                }
                // A keeper with this bug has answered the senders by now.
                let is_told = world.bug == KeeperBug::AnswersBeforeCommit;
                Ok(is_told.then_some(CommittedBatch { answers, events: Vec::new() }))
            }
        }
    }

    /// Events while a batch is on its way to the disk: users type, by the rights that are on disk, and any
    /// process may end.
    fn attend(&mut self, world: &mut SimulationEnvironment) -> Result<(), KeeperHalt> {
        if world.rng.below(4) == 0 {
            world.count("keys during a sync");
            let fence = Fence(world.rng.below(self.mind.session().fence.0 + 2));
            self.keys(world, fence)?;
        }
        world.may_die("while a batch is on its way")
    }

    pub(crate) fn has_unjournalled(&self) -> bool {
        !self.unjournalled.is_empty()
    }

    pub(crate) fn report(
        &mut self,
        world: &mut SimulationEnvironment,
        observations: Vec<Observation>,
    ) -> Result<(), KeeperHalt> {
        for observation in observations {
            if !self.unjournalled.contains(&observation) {
                self.unjournalled.push(observation);
            }
        }
        if self.unjournalled.len() > MOST_UNJOURNALLED {
            return Err(KeeperHalt::Broken(format!("reports pile up: {:?}", self.unjournalled)));
        }
        if self.unjournalled.is_empty() {
            return Ok(());
        }
        let inputs = self.unjournalled.iter().cloned().map(SessionInput::Report).collect();
        match self.take(world, inputs)? {
            Some(_) => self.reported.append(&mut self.unjournalled),
            None => self.retry_at_ms = Some(world.now().boot_ms + RETRY_MS),
        }
        Ok(())
    }

    /// The world repeats a report, or reports that time has passed when it has not.
    pub(crate) fn hear_again(&mut self, world: &mut SimulationEnvironment) -> Result<(), KeeperHalt> {
        let which = world.rng.below(self.reported.len() as u64 + 1) as usize;
        let again = self.reported.get(which).cloned().unwrap_or(Observation::Tick);
        self.take(world, vec![SessionInput::Report(again)]).map(drop)
    }

    /// Performs the effects that are due and not yet done, until none is left.
    pub(crate) fn settle(&mut self, world: &mut SimulationEnvironment) -> Result<(), KeeperHalt> {
        loop {
            let owed = self.mind.owed();
            self.performed.retain(|effect| owed.contains(effect));
            let due = owed.into_iter().find(|effect| !self.performed.contains(effect));
            let Some(effect) = due else { return Ok(()) };
            self.performed.push(effect.clone());
            world.may_die("before an effect")?;
            world.doing(&effect)?;
            self.perform(world, &effect)?;
        }
    }

    fn perform(&mut self, world: &mut SimulationEnvironment, effect: &Effect) -> Result<(), KeeperHalt> {
        match effect {
            Effect::Spawn { epoch } => return self.spawn(world, *epoch),
            Effect::Terminate { .. } => world.host.terminate(self.life),
            Effect::Kill { .. } => {
                world.count("kills");
                self.killed_at_ms = Some(world.now().boot_ms);
                world.host.kill(self.life);
                return self.on_children(world);
            }
            Effect::Prove { .. } => return self.on_children(world),
            Effect::WakeAt { .. } => {}
            Effect::Deliver { .. }
            | Effect::Say { .. }
            | Effect::Interrupt { .. }
            | Effect::NextRun { .. } => {
                if !world.takes_turns {
                    return Err(KeeperHalt::Broken(format!(
                        "an agent in a terminal takes no turns: {effect:?}"
                    )));
                }
                return self.perform_for_turns(world, effect);
            }
            Effect::Leave => self.leaving = true,
        }
        Ok(())
    }

    fn spawn(&mut self, world: &mut SimulationEnvironment, epoch: Epoch) -> Result<(), KeeperHalt> {
        let observation = match world.host.spawn(epoch, self.life) {
            Ok(agent) => {
                world.agent.spawned(epoch);
                Observation::Spawned { epoch, agent }
            }
            Err(reason) => Observation::SpawnFailed { epoch, reason },
        };
        self.spawned = Some(epoch);
        world.ledger.check_host(&world.host)?;
        world.may_die("between spawn and its record")?;
        self.report(world, vec![observation])
    }

    pub(crate) fn on_children(&mut self, world: &mut SimulationEnvironment) -> Result<(), KeeperHalt> {
        let (exits, no_children) = world.host.reap(self.life);
        let session = self.mind.session();
        let epoch = session.epoch;
        let agent_pid = match &session.phase {
            RunPhase::Running { agent } | RunPhase::Ending(EndingRun { agent: Some(agent), .. }) => {
                Some(agent.pid)
            }
            RunPhase::New | RunPhase::Starting | RunPhase::Ending(_) | RunPhase::Ended { .. } => {
                self.unrecorded_agent()
            }
        };
        let of_agent = exits.into_iter().filter(|(pid, _)| Some(*pid) == agent_pid);
        let mut reports = Vec::new();
        if world.host.agents() == 0 {
            // Its last words came before its end.
            reports.extend(world.agent.hear());
        }
        reports.extend(of_agent.map(|(_, exit)| Observation::Exited { epoch, exit, oom: false }));
        if no_children {
            reports.push(Observation::Empty { epoch });
            reports.push(Observation::KeeperGone { epoch });
        }
        self.report(world, reports)
    }

    fn unrecorded_agent(&self) -> Option<u32> {
        let birth = |report: &Observation| match report {
            Observation::Spawned { agent, .. } => Some(agent.pid),
            _ => None,
        };
        self.unjournalled.iter().find_map(birth)
    }

    /// The image before this one spawned the agent and may not have lived to write it down.
    pub(crate) fn adopt_agent(&mut self, world: &mut SimulationEnvironment) -> Result<(), KeeperHalt> {
        let owed = self.mind.owed().into_iter();
        let is_done = |effect: &Effect| match effect {
            Effect::Spawn { .. } => true,
            Effect::Say { .. } => world.bug != KeeperBug::SaysAgain,
            _ => false,
        };
        self.performed = owed.filter(is_done).collect();
        let session = self.mind.session();
        let is_unrecorded = matches!(
            session.phase,
            RunPhase::Starting | RunPhase::Ending(EndingRun { agent: None, exit: None, .. })
        );
        let is_unsure = !self.performed.is_empty() && session.turns.current.is_some();
        if is_unsure && world.bug != KeeperBug::SaysAgain {
            // The sending of the turn before the image was replaced is uncertain.
            world.count("unsure whether it was said");
            let (epoch, reason) = (session.epoch, "replaced while it gave the agent a turn".to_owned());
            return self.report(world, vec![Observation::Broken { epoch, reason }]);
        }
        match world.host.first_child(self.life).filter(|_| is_unrecorded) {
            Some(agent) => self.report(world, vec![Observation::Spawned { epoch: session.epoch, agent }]),
            None => Ok(()),
        }
    }

    fn on_time(&mut self, world: &mut SimulationEnvironment) -> Result<(), KeeperHalt> {
        let now = world.now().boot_ms;
        if self.retry_at_ms.is_some_and(|at| at <= now) {
            self.retry_at_ms = None;
            self.report(world, vec![])?;
            for effect in std::mem::take(&mut self.refused) {
                self.performed.retain(|performed| *performed != effect);
            }
        }
        if self.unjournalled.is_empty() && self.wakes_at_ms().is_some_and(|at| at <= now) {
            self.report(world, vec![Observation::Tick])?;
            if self.unjournalled.is_empty() && self.wakes_at_ms().is_some_and(|at| at <= now) {
                let session = self.mind.session();
                return Err(KeeperHalt::Broken(format!("woken for nothing, again and again: {session:?}")));
            }
        }
        if let Some(killed_at) = self.killed_at_ms.filter(|at| at + KILL_AGAIN_MS <= now) {
            world.host.kill(self.life);
            self.on_children(world)?;
            if killed_at + PROOF_TIMEOUT.as_millis() as u64 <= now {
                let epoch = self.mind.session().epoch;
                let left = world.host.describe(self.life);
                if !left.is_empty() && self.unjournalled.is_empty() {
                    world.count("does not end");
                    self.report(world, vec![Observation::StillThere { epoch, left }])?;
                }
            }
        }
        Ok(())
    }

    /// When time alone will change something.
    pub(crate) fn wakes_at_ms(&self) -> Option<u64> {
        let owed = self.mind.owed().into_iter().filter_map(|effect| match effect {
            Effect::WakeAt { boot_ms } => Some(boot_ms),
            _ => None,
        });
        owed.chain(self.kill_at_ms()).min()
    }

    /// The disk refused a write that an effect needs: the effect is tried again later.
    pub(crate) fn try_again(&mut self, world: &mut SimulationEnvironment, effect: &Effect) {
        world.ledger.in_vain(effect);
        self.refused.push(effect.clone());
        self.retry_at_ms.get_or_insert(world.now().boot_ms + RETRY_MS);
    }

    /// Forgets a kill, which was of the previous run.
    pub(crate) fn forget_the_killing(&mut self) {
        self.killed_at_ms = None;
    }

    fn kill_at_ms(&self) -> Option<u64> {
        match &self.mind.session().phase {
            RunPhase::Ending(ending) if !ending.killed => Some(ending.kill_at_boot_ms),
            RunPhase::New
            | RunPhase::Starting
            | RunPhase::Running { .. }
            | RunPhase::Ending(_)
            | RunPhase::Ended { .. } => None,
        }
    }

    /// The order that begins a run. A planted bug counts runs from 1 again when there was a past.
    pub(crate) fn start_order(&mut self, world: &SimulationEnvironment, output_from: u64) -> SessionInput {
        let (keeper, boundary) = (self.me(), RunBoundary::default());
        if world.bug == KeeperBug::EpochReset && self.mind.session().epoch > Epoch(0) {
            return SessionInput::Note(Event::RunStarting { epoch: Epoch(1), keeper, output_from, boundary });
        }
        let epoch = self.mind.next_epoch();
        SessionInput::Command(Command::Start { epoch, keeper, output_from, boundary })
    }
}
