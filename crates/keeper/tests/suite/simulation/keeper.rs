//! The keeper's loop, as in `src/keeper.rs` and `src/keeper/effects.rs`, with a world that fails and bugs on request.
//!
//! JournaledSession, rules and journal are the real ones. What is here is what the loop adds: when to report, when to act, what
//! to do again. Start with [`Keeper::turn`].

use berth_core::{
    Boot, Boundary, Command, Effect, Ending, Epoch, Event, Fence, Observation, Outcome, PROOF_PATIENCE,
    Phase, Process, Refusal, effects,
};
use berth_keeper::journaled_session::{Input, Taken};

use crate::simulation::agent::MOST_WORDS;
use crate::simulation::bug::Bug;
use crate::simulation::mind::Mind;
use crate::simulation::world::{Halt, World};

const KILL_AGAIN_MS: u64 = 20;
const RETRY_MS: u64 = 1000;
/// A snapshot is written whenever the number of the last event is a multiple of this.
const SNAPSHOT_EVENTS: u64 = 5;
/// One of each kind of report is all that may wait for the disk, and an agent's last words.
const MOST_UNJOURNALLED: usize = 7 + MOST_WORDS;

pub(crate) struct Keeper {
    pub(crate) mind: Mind,
    /// The number of this process's life.
    pub(crate) life: u64,
    boot: Boot,
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
    /// Somebody stopped the session, and was told that it is.
    is_stopped: bool,
    pub(crate) leaving: bool,
}

impl Keeper {
    pub(crate) fn new(mind: Mind, life: u64, boot: Boot) -> Self {
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
    pub(crate) fn me(&self) -> Process {
        Process { pid: 1_000_000 + self.life as u32, start_ticks: self.life, boot: self.boot.clone() }
    }

    /// One turn of the loop: what the kernel and the clock bring, then what is owed.
    pub(crate) fn turn(&mut self, world: &mut World) -> Result<(), Halt> {
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
        world: &mut World,
        inputs: Vec<Input>,
    ) -> Result<Option<Vec<Result<(), Refusal>>>, Halt> {
        Ok(self.take_batch(world, inputs)?.map(|taken| taken.answers))
    }

    pub(crate) fn take_batch(
        &mut self,
        world: &mut World,
        mut inputs: Vec<Input>,
    ) -> Result<Option<Taken>, Halt> {
        let now = world.now();
        let stops = inputs.iter().any(|input| matches!(input, Input::Command(Command::Stop { .. })));
        let mut plan = self.mind.plan(&inputs, now);
        if let Some(retry) = world.bug.wrong_retry(&plan) {
            inputs.push(Input::Note(retry));
            plan = self.mind.plan(&inputs, now);
        }
        if world.bug == Bug::PublishBeforeAppend {
            world.ledger.publish(&plan.events);
        }
        if world.bug == Bug::EffectBeforeCommit {
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
                    return Err(Halt::Broken("a batch that comes to nothing left a trace".to_owned()));
                }
                let lost = |event: &Event| matches!(event, Event::RunEnded { epoch, outcome: Outcome::Lost } if Some(*epoch) == self.spawned);
                if taken.events.iter().any(|event| lost(&event.event)) {
                    return Err(Halt::Broken("a keeper lost sight of its own run".to_owned()));
                }
                for event in &taken.events {
                    world.agent.bears_out(&event.event)?;
                    if matches!(&event.event, Event::TurnAccepted { prompt, .. } if prompt.retry.is_some()) {
                        world.count("retried");
                    }
                    if self.is_stopped && matches!(event.event, Event::RunStarting { .. }) {
                        return Err(Halt::Broken("a session that was stopped went on".to_owned()));
                    }
                }
                self.is_stopped |= stops;
                world.after_disk()?;
                world.may_die("between append and publish")?;
                if world.bug != Bug::PublishBeforeAppend {
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
                    return Err(Halt::Broken("a batch that failed changed the state".to_owned()));
                }
                // Such a keeper has told the senders by now.
                let is_told = world.bug == Bug::AnswersBeforeCommit;
                Ok(is_told.then_some(Taken { answers, events: Vec::new() }))
            }
        }
    }

    /// What goes on while a batch is on its way to the disk: people type, by the rights that are on disk, and anything
    /// may end.
    fn attend(&mut self, world: &mut World) -> Result<(), Halt> {
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

    pub(crate) fn report(&mut self, world: &mut World, observations: Vec<Observation>) -> Result<(), Halt> {
        for observation in observations {
            if !self.unjournalled.contains(&observation) {
                self.unjournalled.push(observation);
            }
        }
        if self.unjournalled.len() > MOST_UNJOURNALLED {
            return Err(Halt::Broken(format!("reports pile up: {:?}", self.unjournalled)));
        }
        if self.unjournalled.is_empty() {
            return Ok(());
        }
        let inputs = self.unjournalled.iter().cloned().map(Input::Report).collect();
        match self.take(world, inputs)? {
            Some(_) => self.reported.append(&mut self.unjournalled),
            None => self.retry_at_ms = Some(world.now().boot_ms + RETRY_MS),
        }
        Ok(())
    }

    /// The world says something again, or says that time has passed when it has not.
    pub(crate) fn hear_again(&mut self, world: &mut World) -> Result<(), Halt> {
        let which = world.rng.below(self.reported.len() as u64 + 1) as usize;
        let again = self.reported.get(which).cloned().unwrap_or(Observation::Tick);
        self.take(world, vec![Input::Report(again)]).map(drop)
    }

    /// Does what is owed and not yet done, until nothing is.
    pub(crate) fn settle(&mut self, world: &mut World) -> Result<(), Halt> {
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

    fn perform(&mut self, world: &mut World, effect: &Effect) -> Result<(), Halt> {
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
                    return Err(Halt::Broken(format!("an agent in a terminal takes no turns: {effect:?}")));
                }
                return self.perform_for_turns(world, effect);
            }
            Effect::Leave => self.leaving = true,
        }
        Ok(())
    }

    fn spawn(&mut self, world: &mut World, epoch: Epoch) -> Result<(), Halt> {
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

    pub(crate) fn on_children(&mut self, world: &mut World) -> Result<(), Halt> {
        let (exits, no_children) = world.host.reap(self.life);
        let session = self.mind.session();
        let epoch = session.epoch;
        let agent_pid = match &session.phase {
            Phase::Running { agent } | Phase::Ending(Ending { agent: Some(agent), .. }) => Some(agent.pid),
            Phase::New | Phase::Starting | Phase::Ending(_) | Phase::Ended { .. } => self.unrecorded_agent(),
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
    pub(crate) fn adopt_agent(&mut self, world: &mut World) -> Result<(), Halt> {
        let owed = self.mind.owed().into_iter();
        let is_done = |effect: &Effect| match effect {
            Effect::Spawn { .. } => true,
            Effect::Say { .. } => world.bug != Bug::SaysAgain,
            _ => false,
        };
        self.performed = owed.filter(is_done).collect();
        let session = self.mind.session();
        let is_unrecorded =
            matches!(session.phase, Phase::Starting | Phase::Ending(Ending { agent: None, exit: None, .. }));
        let is_unsure = !self.performed.is_empty() && session.turns.current.is_some();
        if is_unsure && world.bug != Bug::SaysAgain {
            // Whether the turn was said before the image was replaced cannot be told.
            world.count("unsure whether it was said");
            let (epoch, reason) = (session.epoch, "replaced while it gave the agent a turn".to_owned());
            return self.report(world, vec![Observation::Broken { epoch, reason }]);
        }
        match world.host.first_child(self.life).filter(|_| is_unrecorded) {
            Some(agent) => self.report(world, vec![Observation::Spawned { epoch: session.epoch, agent }]),
            None => Ok(()),
        }
    }

    fn on_time(&mut self, world: &mut World) -> Result<(), Halt> {
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
                return Err(Halt::Broken(format!("woken for nothing, again and again: {session:?}")));
            }
        }
        if let Some(killed_at) = self.killed_at_ms.filter(|at| at + KILL_AGAIN_MS <= now) {
            world.host.kill(self.life);
            self.on_children(world)?;
            if killed_at + PROOF_PATIENCE.as_millis() as u64 <= now {
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

    /// The disk refused what an effect needs: it is tried again later.
    pub(crate) fn try_again(&mut self, world: &mut World, effect: &Effect) {
        world.ledger.in_vain(effect);
        self.refused.push(effect.clone());
        self.retry_at_ms.get_or_insert(world.now().boot_ms + RETRY_MS);
    }

    /// What was killed was of the run before.
    pub(crate) fn forget_the_killing(&mut self) {
        self.killed_at_ms = None;
    }

    fn kill_at_ms(&self) -> Option<u64> {
        match &self.mind.session().phase {
            Phase::Ending(ending) if !ending.killed => Some(ending.kill_at_boot_ms),
            Phase::New | Phase::Starting | Phase::Running { .. } | Phase::Ending(_) | Phase::Ended { .. } => {
                None
            }
        }
    }

    /// The order that begins a run. A planted bug counts runs from 1 again when there was a past.
    pub(crate) fn start_order(&mut self, world: &World, output_from: u64) -> Input {
        let (keeper, boundary) = (self.me(), Boundary::default());
        if world.bug == Bug::EpochReset && self.mind.session().epoch > Epoch(0) {
            return Input::Note(Event::RunStarting { epoch: Epoch(1), keeper, output_from, boundary });
        }
        let epoch = self.mind.next_epoch();
        Input::Command(Command::Start { epoch, keeper, output_from, boundary })
    }
}
