//! An agent that takes turns: what it was told, what it did with that, and what it says about it.
//!
//! It is slow, forgets to say that it began, finishes, fails, does not break off when asked to, speaks late of
//! what is over, and dies with the process it is (`host.rs`). Its transcript survives all of that and says what
//! really happened: promises about turns are held against it. Start with [`Agent::live`].

use std::collections::{BTreeMap, VecDeque};

use berth_core::{Able, Epoch, Event, Failure, Final, Observation, TurnEnd};
use berth_journal::fake::Rng;

/// How much it says at most before somebody listens.
pub(crate) const MOST_WORDS: usize = 8;

pub(crate) struct Agent {
    rng: Rng,
    /// What became of every turn it was told, in the order it was told them.
    transcript: BTreeMap<u64, Fate>,
    /// Every turn that was ever on its way to it.
    said: Vec<u64>,
    run: Option<Run>,
    /// Whether it misbehaves.
    pub(crate) harsh: bool,
}

/// What really became of a turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    Begun,
    Done,
    Failed,
    /// The model refused it for its usage limit.
    Rejected,
    BrokenOff,
    /// Text for a turn that was over.
    TooLate,
}

/// One life of it.
struct Run {
    epoch: Epoch,
    is_ready: bool,
    steers: bool,
    /// Whether it hears that it should break off.
    is_deaf: bool,
    is_interrupted: bool,
    /// What it works on: a turn, and text that came to it.
    has: Vec<u64>,
    /// Which of them it said that it has.
    announced: Vec<u64>,
    words: VecDeque<Observation>,
}

impl Agent {
    pub(crate) fn new(seed: u64) -> Self {
        let (transcript, said) = (BTreeMap::new(), Vec::new());
        Self { rng: Rng::new(seed), transcript, said, run: None, harsh: true }
    }

    /// A process of it begins, with nothing in mind.
    pub(crate) fn spawned(&mut self, epoch: Epoch) {
        let (steers, is_deaf) = (self.rng.coin(), self.rng.below(4) == 0);
        let (has, announced, words) = (Vec::new(), Vec::new(), VecDeque::new());
        let (is_ready, is_interrupted) = (false, false);
        self.run = Some(Run { epoch, is_ready, steers, is_deaf, is_interrupted, has, announced, words });
    }

    /// Its process does something, if it can.
    pub(crate) fn live(&mut self) {
        let Self { rng, transcript, harsh, .. } = self;
        let Some(run) = self.run.as_mut().filter(|run| run.words.len() < MOST_WORDS - 2) else { return };
        if !run.is_ready {
            if *harsh && rng.below(30) == 0 {
                let (epoch, reason) = (run.epoch, "not logged in".to_owned());
                run.words.push_back(Observation::Broken { epoch, reason });
            } else if rng.below(3) == 0 {
                run.is_ready = true;
                let able = Able { steer: run.steers, resume: true };
                run.words.push_back(Observation::AgentReady { epoch: run.epoch, able });
            }
            return;
        }
        let news = run.has.iter().copied().find(|turn| !run.announced.contains(turn));
        if let Some(turn) = news.filter(|_| rng.below(3) != 0) {
            run.announced.push(turn);
            run.words.push_back(Observation::TurnBegan { turn });
        } else if !run.has.is_empty() && run.is_interrupted && !run.is_deaf && rng.coin() {
            run.finish(transcript, Fate::BrokenOff);
        } else if !run.has.is_empty() && rng.below(4) == 0 {
            let fate = match rng.below(10) {
                0 => Fate::Failed,
                1 => Fate::Rejected,
                _ => Fate::Done,
            };
            run.finish(transcript, fate);
        }
        if *harsh && rng.below(40) == 0 {
            let which = rng.below(transcript.len() as u64 + 1) as usize;
            if let Some(turn) = transcript.keys().nth(which).filter(|turn| !run.has.contains(turn)) {
                run.words.push_back(over(*turn, Fate::Failed, "once more"));
            }
        }
    }

    /// A prompt, or text for the turn it works on, is sent to it. `is_there`: whether its process still is.
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
                self.transcript.insert(turn, Fate::TooLate);
                run.words.push_back(over(turn, Fate::TooLate, "there is no such turn"));
                return Ok(());
            }
            None => run.is_interrupted = false,
            Some(_) => {}
        }
        self.transcript.insert(turn, Fate::Begun);
        run.has.push(turn);
        Ok(())
    }

    pub(crate) fn interrupt(&mut self, turn: u64) {
        if let Some(run) = self.run.as_mut().filter(|run| run.has.first() == Some(&turn)) {
            run.is_interrupted = true;
        }
    }

    /// Everything it said and nobody heard yet.
    pub(crate) fn hear(&mut self) -> Vec<Observation> {
        self.run.iter_mut().flat_map(|run| run.words.drain(..)).collect()
    }

    /// What its transcript proves of a turn once its process is gone, if it can be read.
    pub(crate) fn proof(&mut self, turn: u64) -> Option<Observation> {
        if self.rng.below(3) == 0 {
            return None;
        }
        let (state, failure) = match self.transcript.get(&turn) {
            Some(Fate::Done) => (Final::Done, Failure::Other),
            Some(Fate::Failed) => (Final::Failed, Failure::Other),
            Some(Fate::Rejected) => (Final::Failed, Failure::Limit),
            Some(Fate::Begun | Fate::BrokenOff | Fate::TooLate) | None => {
                (Final::Interrupted, Failure::Other)
            }
        };
        let end = TurnEnd { failure, ..TurnEnd::without_answer(state, "found in the transcript") };
        Some(Observation::TurnOver { turn, end })
    }

    /// Nothing is claimed of a turn that the transcript does not bear out.
    pub(crate) fn bears_out(&self, event: &Event) -> Result<(), String> {
        let Event::TurnEnded { turn, end, .. } = event else { return Ok(()) };
        let fate = self.transcript.get(turn).copied();
        let holds = match end.state {
            Final::Done => fate == Some(Fate::Done),
            Final::Failed => matches!(fate, Some(Fate::Failed | Fate::Rejected | Fate::TooLate)),
            Final::Interrupted => fate != Some(Fate::Done),
            Final::Cancelled | Final::Unknown => true,
        };
        if holds { Ok(()) } else { Err(format!("{event:?}, and the agent says {fate:?}")) }
    }
}

impl Run {
    fn finish(&mut self, transcript: &mut BTreeMap<u64, Fate>, fate: Fate) {
        let whole = self.has[0];
        for turn in self.has.drain(..) {
            transcript.insert(turn, fate);
        }
        self.is_interrupted = false;
        self.words.push_back(over(whole, fate, "so it says"));
    }
}

fn over(turn: u64, fate: Fate, reason: &str) -> Observation {
    let (state, failure) = match fate {
        Fate::Done => (Final::Done, Failure::Other),
        Fate::Rejected => (Final::Failed, Failure::Limit),
        Fate::Begun | Fate::Failed | Fate::BrokenOff | Fate::TooLate => (Final::Failed, Failure::Other),
    };
    Observation::TurnOver { turn, end: TurnEnd { failure, ..TurnEnd::without_answer(state, reason) } }
}
