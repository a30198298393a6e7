//! An agent that takes turns: the prompts it got, its work on them, and its reports about that.
//!
//! The agent is slow, forgets to report that it began, finishes, fails, does not break off when asked to, reports
//! late about turns that are over, and dies with its process (`host.rs`). Its transcript survives all of that and
//! records what really happened: promises about turns are held against it. Start with [`SimulatedAgent::live`].

use std::collections::{BTreeMap, VecDeque};

use berth_core::{AgentCapabilities, Epoch, Event, FinalState, Observation, TurnEnd, TurnFailure};
use berth_journal::fake_disk::SplitMix64;

/// The largest number of its reports that wait to be read.
pub(crate) const MOST_WORDS: usize = 8;

pub(crate) struct SimulatedAgent {
    rng: SplitMix64,
    /// The fate of every turn it got, by the turn's number.
    transcript: BTreeMap<u64, SimulatedTurnFate>,
    /// Every turn that was ever on its way to the agent.
    said: Vec<u64>,
    run: Option<SimulatedRun>,
    /// True if the agent misbehaves.
    pub(crate) harsh: bool,
}

/// The true fate of a turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum SimulatedTurnFate {
    Begun,
    Done,
    Failed,
    /// The model refused it for its usage limit.
    Rejected,
    BrokenOff,
    /// Text for a turn that was over.
    TooLate,
}

/// One life of the agent.
struct SimulatedRun {
    epoch: Epoch,
    is_ready: bool,
    steers: bool,
    /// True if the agent ignores requests to break off.
    is_deaf: bool,
    is_interrupted: bool,
    /// Its current work: a turn, and text that was added to it.
    has: Vec<u64>,
    /// The turns that it reported as received.
    announced: Vec<u64>,
    words: VecDeque<Observation>,
}

impl SimulatedAgent {
    pub(crate) fn new(seed: u64) -> Self {
        let (transcript, said) = (BTreeMap::new(), Vec::new());
        Self { rng: SplitMix64::new(seed), transcript, said, run: None, harsh: true }
    }

    /// A process of the agent begins, with no memory.
    pub(crate) fn spawned(&mut self, epoch: Epoch) {
        let (steers, is_deaf) = (self.rng.coin(), self.rng.below(4) == 0);
        let (has, announced, words) = (Vec::new(), Vec::new(), VecDeque::new());
        let (is_ready, is_interrupted) = (false, false);
        self.run =
            Some(SimulatedRun { epoch, is_ready, steers, is_deaf, is_interrupted, has, announced, words });
    }

    /// The process does something, if it can.
    pub(crate) fn live(&mut self) {
        let Self { rng, transcript, harsh, .. } = self;
        let Some(run) = self.run.as_mut().filter(|run| run.words.len() < MOST_WORDS - 2) else { return };
        if !run.is_ready {
            if *harsh && rng.below(30) == 0 {
                let (epoch, reason) = (run.epoch, "not logged in".to_owned());
                run.words.push_back(Observation::Broken { epoch, reason });
            } else if rng.below(3) == 0 {
                run.is_ready = true;
                let able = AgentCapabilities { steer: run.steers, resume: true };
                run.words.push_back(Observation::AgentReady { epoch: run.epoch, able });
            }
            return;
        }
        let news = run.has.iter().copied().find(|turn| !run.announced.contains(turn));
        if let Some(turn) = news.filter(|_| rng.below(3) != 0) {
            run.announced.push(turn);
            run.words.push_back(Observation::TurnBegan { turn });
        } else if !run.has.is_empty() && run.is_interrupted && !run.is_deaf && rng.coin() {
            run.finish(transcript, SimulatedTurnFate::BrokenOff);
        } else if !run.has.is_empty() && rng.below(4) == 0 {
            let fate = match rng.below(10) {
                0 => SimulatedTurnFate::Failed,
                1 => SimulatedTurnFate::Rejected,
                _ => SimulatedTurnFate::Done,
            };
            run.finish(transcript, fate);
        }
        if *harsh && rng.below(40) == 0 {
            let which = rng.below(transcript.len() as u64 + 1) as usize;
            if let Some(turn) = transcript.keys().nth(which).filter(|turn| !run.has.contains(turn)) {
                run.words.push_back(over(*turn, SimulatedTurnFate::Failed, "once more"));
            }
        }
    }

    /// Sends the agent a prompt, or text for its current turn. `is_there`: its process still exists.
    pub(crate) fn say(&mut self, turn: u64, into: Option<u64>, is_there: bool) -> Result<(), String> {
        if self.said.contains(&turn) {
            return Err(format!("turn {turn} was said to the agent twice"));
        }
        self.said.push(turn);
        let Some(run) = self.run.as_mut().filter(|_| is_there) else { return Ok(()) };
        if !run.is_ready {
            return Err(format!("turn {turn} was said to an agent that takes none"));
        }
        match into {
            None if !run.has.is_empty() => {
                return Err(format!("turn {turn} was said while the agent had {:?}", run.has));
            }
            Some(whole) if run.has.first() != Some(&whole) => {
                self.transcript.insert(turn, SimulatedTurnFate::TooLate);
                run.words.push_back(over(turn, SimulatedTurnFate::TooLate, "there is no such turn"));
                return Ok(());
            }
            None => run.is_interrupted = false,
            Some(_) => {}
        }
        self.transcript.insert(turn, SimulatedTurnFate::Begun);
        run.has.push(turn);
        Ok(())
    }

    pub(crate) fn interrupt(&mut self, turn: u64) {
        if let Some(run) = self.run.as_mut().filter(|run| run.has.first() == Some(&turn)) {
            run.is_interrupted = true;
        }
    }

    /// Takes all its reports that were not read yet.
    pub(crate) fn hear(&mut self) -> Vec<Observation> {
        self.run.iter_mut().flat_map(|run| run.words.drain(..)).collect()
    }

    /// The evidence about a turn in its transcript once its process is gone, if it can be read.
    pub(crate) fn proof(&mut self, turn: u64) -> Option<Observation> {
        if self.rng.below(3) == 0 {
            return None;
        }
        let (state, failure) = match self.transcript.get(&turn) {
            Some(SimulatedTurnFate::Done) => (FinalState::Done, TurnFailure::Other),
            Some(SimulatedTurnFate::Failed) => (FinalState::Failed, TurnFailure::Other),
            Some(SimulatedTurnFate::Rejected) => (FinalState::Failed, TurnFailure::Limit),
            Some(SimulatedTurnFate::Begun | SimulatedTurnFate::BrokenOff | SimulatedTurnFate::TooLate)
            | None => (FinalState::Interrupted, TurnFailure::Other),
        };
        let end = TurnEnd { failure, ..TurnEnd::without_answer(state, "found in the transcript") };
        Some(Observation::TurnOver { turn, end })
    }

    /// Checks that the transcript confirms a claim about a turn.
    pub(crate) fn bears_out(&self, event: &Event) -> Result<(), String> {
        let Event::TurnEnded { turn, end, .. } = event else { return Ok(()) };
        let fate = self.transcript.get(turn).copied();
        let holds = match end.state {
            FinalState::Done => fate == Some(SimulatedTurnFate::Done),
            FinalState::Failed => matches!(
                fate,
                Some(SimulatedTurnFate::Failed | SimulatedTurnFate::Rejected | SimulatedTurnFate::TooLate)
            ),
            FinalState::Interrupted => fate != Some(SimulatedTurnFate::Done),
            FinalState::Cancelled | FinalState::Unknown => true,
        };
        if holds { Ok(()) } else { Err(format!("{event:?}, and the agent says {fate:?}")) }
    }
}

impl SimulatedRun {
    fn finish(&mut self, transcript: &mut BTreeMap<u64, SimulatedTurnFate>, fate: SimulatedTurnFate) {
        let whole = self.has[0];
        for turn in self.has.drain(..) {
            transcript.insert(turn, fate);
        }
        self.is_interrupted = false;
        self.words.push_back(over(whole, fate, "so it says"));
    }
}

fn over(turn: u64, fate: SimulatedTurnFate, reason: &str) -> Observation {
    let (state, failure) = match fate {
        SimulatedTurnFate::Done => (FinalState::Done, TurnFailure::Other),
        SimulatedTurnFate::Rejected => (FinalState::Failed, TurnFailure::Limit),
        SimulatedTurnFate::Begun
        | SimulatedTurnFate::Failed
        | SimulatedTurnFate::BrokenOff
        | SimulatedTurnFate::TooLate => (FinalState::Failed, TurnFailure::Other),
    };
    Observation::TurnOver { turn, end: TurnEnd { failure, ..TurnEnd::without_answer(state, reason) } }
}
