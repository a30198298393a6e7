//! A host: clocks that jump, and processes that misbehave.
//!
//! Agents exit when they like, fork children that ignore SIGTERM, fork while they are being killed, and sometimes
//! hang in the kernel where no signal reaches them. A power cut ends all of them and starts the boot clock again.

use berth_core::{BootId, ClockReading, Epoch, ProcessExit, ProcessRef};
use berth_journal::fake_disk::SplitMix64;

/// The largest number of processes of a run, so that a run under fire comes to an end.
const MOST_PROCESSES: usize = 6;

pub(crate) struct SimulatedHost {
    rng: SplitMix64,
    boot: u64,
    boot_ms: u64,
    wall_ms: u64,
    processes: Vec<SimulatedProcess>,
    /// True if processes may hang in the kernel.
    pub(crate) harsh: bool,
}

/// A process that exists, or whose parent has not reaped it yet.
struct SimulatedProcess {
    process: ProcessRef,
    epoch: Epoch,
    is_agent: bool,
    /// The keeper that will be told of its end, by number of its life.
    keeper: Option<u64>,
    is_deaf: bool,
    is_stuck: bool,
    ends: Option<(u64, ProcessExit)>,
    ended: Option<ProcessExit>,
}

impl SimulatedHost {
    pub(crate) fn new(seed: u64) -> Self {
        let (boot_ms, wall_ms) = (1000, 1_700_000_000_000);
        Self { rng: SplitMix64::new(seed), boot: 1, boot_ms, wall_ms, processes: Vec::new(), harsh: true }
    }

    pub(crate) fn now(&self) -> ClockReading {
        ClockReading { wall_ms: self.wall_ms, boot_ms: self.boot_ms }
    }

    /// The id of this boot.
    pub(crate) fn boot(&self) -> BootId {
        BootId(format!("boot {}", self.boot))
    }

    /// True if an agent exists and does something.
    pub(crate) fn agent_is_awake(&self) -> bool {
        self.living().any(|one| one.is_agent && !one.is_stuck)
    }

    /// Time passes, and processes live.
    pub(crate) fn pass(&mut self, ms: u64) {
        self.boot_ms += ms;
        self.wall_ms += ms;
        // A user sets the clock. Nothing may depend on it.
        if self.rng.below(50) == 0 {
            self.wall_ms = 1_700_000_000_000 + self.rng.below(1_000_000_000);
        }
        for at in 0..self.processes.len() {
            self.live(at);
        }
        self.bury();
    }

    fn live(&mut self, at: usize) {
        let Self { rng, boot_ms, harsh, .. } = self;
        let one = &mut self.processes[at];
        if one.ended.is_some() {
            return;
        }
        if one.is_stuck {
            one.is_stuck = *harsh && rng.below(12) != 0;
        } else {
            one.is_stuck = *harsh && rng.below(80) == 0;
        }
        if one.is_stuck {
            return;
        }
        if one.ends.is_none() && rng.below(40) == 0 {
            let exit =
                if rng.coin() { ProcessExit::Code(rng.below(3) as i32) } else { ProcessExit::Signal(11) };
            one.ends = Some((*boot_ms, exit));
        }
        one.ended = one.ends.filter(|(when, _)| when <= boot_ms).map(|(_, exit)| exit);
        if one.ended.is_none() && rng.below(15) == 0 {
            self.fork(at);
        }
    }

    fn fork(&mut self, at: usize) {
        let (epoch, keeper) = (self.processes[at].epoch, self.processes[at].keeper);
        if self.living().count() < MOST_PROCESSES {
            self.add(epoch, keeper, false);
        }
    }

    fn add(&mut self, epoch: Epoch, keeper: Option<u64>, is_agent: bool) -> ProcessRef {
        // Numbers are soon used again.
        let pid = loop {
            let pid = 100 + self.rng.below(20) as u32;
            if self.processes.iter().all(|one| one.process.pid != pid) {
                break pid;
            }
        };
        let process = ProcessRef { pid, start_ticks: self.boot_ms / 10, boot: self.boot() };
        let is_deaf = self.rng.below(3) == 0;
        let (is_stuck, ends, ended) = (false, None, None);
        let living = SimulatedProcess {
            process: process.clone(),
            epoch,
            is_agent,
            keeper,
            is_deaf,
            is_stuck,
            ends,
            ended,
        };
        self.processes.push(living);
        process
    }

    /// Starts an agent.
    pub(crate) fn spawn(&mut self, epoch: Epoch, keeper: u64) -> Result<ProcessRef, String> {
        if self.rng.below(12) == 0 {
            return Err("no such program".to_owned());
        }
        let process = self.add(epoch, Some(keeper), true);
        if self.rng.below(6) == 0 {
            // Many a command is over at once.
            let soon = self.boot_ms + self.rng.below(10);
            self.processes.last_mut().expect("just added").ends = Some((soon, ProcessExit::Code(0)));
        }
        Ok(process)
    }

    /// Asks every process below a keeper to end.
    pub(crate) fn terminate(&mut self, keeper: u64) {
        self.ask_to_end(|one| one.keeper == Some(keeper));
    }

    fn ask_to_end(&mut self, whom: impl Fn(&SimulatedProcess) -> bool) {
        for one in self.processes.iter_mut().filter(|one| whom(one) && !one.is_deaf && one.ends.is_none()) {
            let exit = if self.rng.coin() { ProcessExit::Signal(15) } else { ProcessExit::Code(0) };
            one.ends = Some((self.boot_ms + self.rng.below(1500), exit));
        }
    }

    /// Kills every process below a keeper that can be. One may fork in the very moment.
    pub(crate) fn kill(&mut self, keeper: u64) {
        let parent = self.processes.iter().position(|one| one.keeper == Some(keeper) && one.ended.is_none());
        self.kill_those(|one| one.keeper == Some(keeper));
        if let Some(at) = parent.filter(|_| self.rng.below(6) == 0) {
            self.fork(at);
        }
    }

    fn kill_those(&mut self, whom: impl Fn(&SimulatedProcess) -> bool) {
        for one in self.processes.iter_mut().filter(|one| whom(one) && one.ended.is_none()) {
            one.ends = Some((0, ProcessExit::Signal(9)));
            if !one.is_stuck {
                one.ended = Some(ProcessExit::Signal(9));
            }
        }
    }

    /// The first living child of a keeper.
    pub(crate) fn first_child(&self, keeper: u64) -> Option<ProcessRef> {
        self.living().find(|one| one.keeper == Some(keeper)).map(|one| one.process.clone())
    }

    /// True if a keeper has a SIGCHLD waiting.
    pub(crate) fn has_news(&self, keeper: u64) -> bool {
        self.processes.iter().any(|one| one.keeper == Some(keeper) && one.ended.is_some())
    }

    /// The exits that a keeper reaps, and true if it has no children left.
    pub(crate) fn reap(&mut self, keeper: u64) -> (Vec<(u32, ProcessExit)>, bool) {
        let mut exits = Vec::new();
        self.processes.retain(|one| match one.ended {
            Some(exit) if one.keeper == Some(keeper) => {
                exits.push((one.process.pid, exit));
                false
            }
            Some(_) | None => true,
        });
        (exits, self.processes.iter().all(|one| one.keeper != Some(keeper)))
    }

    /// A keeper died; init adopts its children and reports their ends to no process.
    pub(crate) fn keeper_died(&mut self, keeper: u64) {
        for one in self.processes.iter_mut().filter(|one| one.keeper == Some(keeper)) {
            one.keeper = None;
        }
        self.bury();
    }

    fn bury(&mut self) {
        self.processes.retain(|one| one.ended.is_none() || one.keeper.is_some());
    }

    /// Ends what is left of a run whose keeper is gone, as `recover::end_leftovers` does.
    pub(crate) fn end_leftovers(&mut self, epoch: Epoch) -> Result<(), Vec<String>> {
        if self.living().next().is_some() {
            self.ask_to_end(|one| one.epoch == epoch);
            self.pass(500);
            self.kill_those(|one| one.epoch == epoch);
            self.pass(if self.processes.is_empty() { 0 } else { 5000 });
            self.kill_those(|one| one.epoch == epoch);
            self.bury();
        }
        let left: Vec<_> = self.living().map(|one| format!("pid {} does not end", one.process.pid)).collect();
        if left.is_empty() { Ok(()) } else { Err(left) }
    }

    /// The power goes and comes back.
    pub(crate) fn power_cut(&mut self) {
        self.processes.clear();
        self.boot += 1;
        self.boot_ms = self.rng.below(3000);
    }

    fn living(&self) -> impl Iterator<Item = &SimulatedProcess> {
        self.processes.iter().filter(|one| one.ended.is_none())
    }

    /// The runs that have living processes; one entry for each.
    pub(crate) fn living_epochs(&self) -> Vec<Epoch> {
        self.living().map(|one| one.epoch).collect()
    }

    /// How many agents live.
    pub(crate) fn agents(&self) -> usize {
        self.living().filter(|one| one.is_agent).count()
    }

    /// The processes that do not end, as a keeper would describe them.
    pub(crate) fn describe(&self, keeper: u64) -> Vec<String> {
        let below = self.living().filter(|one| one.keeper == Some(keeper));
        below.map(|one| format!("pid {} does not end", one.process.pid)).collect()
    }
}
