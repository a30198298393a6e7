//! The processes of a run: what holds them together, their exits, and their end.
//!
//! Promise: an exit is reaped once and kept until it is reported; a tree that was killed is killed again until nothing of
//! it is left; a run counts as over only when the kernel shows no process of it.
//! Not here: the rules of an end (`berth_core`), the agent's last words (`effects`).

use std::io;
use std::os::fd::{AsRawFd, RawFd};

use berth_core::{Effect, Ending, Epoch, Observation, PROOF_PATIENCE, Phase, Session, Spec};
use berth_host::cgroup::Watch;
use berth_host::identity::{Identity, ignores_signal};
use berth_host::lock::LockFile;
use berth_host::{clock, tree};
use rustix::process::Signal;

use super::event_loop::{BOUNDARY, Epoll};
use super::libc_term;
use super::waiting_reports::WaitingReports;
use crate::boundary::Contained;
use crate::driver::Launch;
use crate::{foreign, recover};

/// How many of the processes that are left are named; an event has a largest size.
const NAMED_LEFTOVERS: usize = 20;
/// How long a process that the kernel kills for its memory may take to end.
const OOM_KILL_MS: u64 = 2000;
/// How often the keeper checks whether only other sessions are in the run's group.
const OTHERS_CHECK_MS: u64 = 200;

/// How soon a tree that was killed is looked at again for what it forked meanwhile. What has
/// resisted for long is looked at rarely.
fn kill_pause_ms(since_killed_ms: u64) -> u64 {
    if since_killed_ms < PROOF_PATIENCE.as_millis() as u64 { 20 } else { 1000 }
}

/// The processes of the session's run.
#[derive(Debug)]
pub(super) struct RunSupervisor {
    epoll: Epoll,
    keeper_pid: u32,
    /// Inherited by the whole run.
    run_lock: LockFile,
    contained: Contained,
    /// Descriptors that tell of changes in the run's group.
    boundary_watches: Vec<Watch>,
    /// Effects done for the current state.
    performed: Vec<Effect>,
    /// True once everything of the run was asked to end.
    was_terminated: bool,
    /// Exits that wait for the agent's last words to be on disk.
    exits: Vec<Observation>,
    /// When the group was last checked for other sessions, on the boot clock.
    others_checked_at_ms: Option<u64>,
    /// How many processes of the run the kernel was seen to have killed because memory ran out.
    oom_kills: u64,
    /// When memory was last seen to have run out, on the boot clock.
    ran_out_at_ms: Option<u64>,
    /// Since when killed processes are still there, on the boot clock.
    killed_at_ms: Option<u64>,
    /// When to kill them again, on the boot clock.
    kill_again_at_ms: Option<u64>,
}

/// What came of reaping.
#[derive(Debug, Default)]
pub(super) struct Reaping {
    /// The kernel killed processes because memory ran out.
    pub(super) oom: Option<Observation>,
    /// True if the keeper has to look again in a moment.
    pub(super) is_unclear: bool,
}

impl RunSupervisor {
    pub(super) fn new(
        epoll: Epoll,
        keeper_pid: u32,
        run_lock: LockFile,
        contained: Contained,
    ) -> io::Result<Self> {
        let mut supervisor = Self {
            epoll,
            keeper_pid,
            run_lock,
            // Processes that were killed before the keeper looked are not the cause of what ends later.
            oom_kills: contained.oom_kills(),
            contained,
            boundary_watches: Vec::new(),
            performed: Vec::new(),
            was_terminated: false,
            exits: Vec::new(),
            others_checked_at_ms: None,
            ran_out_at_ms: None,
            killed_at_ms: None,
            kill_again_at_ms: None,
        };
        supervisor.watch_boundary()?;
        Ok(supervisor)
    }

    fn watch_boundary(&mut self) -> io::Result<()> {
        self.boundary_watches = self.contained.watches();
        self.boundary_watches.iter().try_for_each(|watch| self.epoll.add(watch, BOUNDARY, watch.interest()))
    }

    /// Holds the next run together with this group.
    pub(super) fn begin_run(&mut self, contained: Contained) -> io::Result<()> {
        for watch in std::mem::take(&mut self.boundary_watches) {
            self.epoll.remove(&watch);
        }
        self.oom_kills = contained.oom_kills();
        self.contained = contained;
        (self.ran_out_at_ms, self.killed_at_ms, self.kill_again_at_ms) = (None, None, None);
        self.was_terminated = false;
        self.watch_boundary()
    }

    /// Starts an agent with this command in the run's group.
    pub(super) fn launch<'a>(
        &'a self,
        spec: &'a Spec,
        command: &'a [String],
        variables: &'a [(&'a str, String)],
    ) -> Launch<'a> {
        Launch { spec, command, variables, run_lock: self.run_lock.fd(), contained: &self.contained }
    }

    /// The lock that the whole run inherits.
    pub(super) fn lock_fd(&self) -> RawFd {
        self.run_lock.fd().as_raw_fd()
    }

    /// Removes the run's group, which is empty.
    pub(super) fn remove_boundary(&mut self) {
        self.contained.remove();
    }

    // Effects.

    /// The first effect that is owed and not done, which counts as done from now on.
    pub(super) fn next_effect(&mut self, owed: Vec<Effect>) -> Option<Effect> {
        self.performed.retain(|effect| owed.contains(effect));
        let due = owed.into_iter().find(|effect| !self.performed.contains(effect))?;
        self.performed.push(due.clone());
        Some(due)
    }

    pub(super) fn note_performed(&mut self, effect: Effect) {
        self.performed.push(effect);
    }

    /// Counts as done what the image before this one did once: it may have spawned the agent, and been replaced before
    /// the journal took that. Spawning again would make two of them. The same holds for what it said to the agent.
    pub(super) fn adopt_effects(&mut self, owed: Vec<Effect>) {
        let is_done_once = |effect: &Effect| match effect {
            Effect::Spawn { .. } | Effect::Say { .. } | Effect::Interrupt { .. } => true,
            Effect::Terminate { .. }
            | Effect::Kill { .. }
            | Effect::Prove { .. }
            | Effect::WakeAt { .. }
            | Effect::Deliver { .. }
            | Effect::NextRun { .. }
            | Effect::Leave => false,
        };
        self.performed = owed.into_iter().filter(is_done_once).collect();
    }

    /// Has a turn that could not be delivered tried again.
    pub(super) fn deliver_again(&mut self) {
        self.performed.retain(|effect| !matches!(effect, Effect::Deliver { .. }));
    }

    // Ending.

    pub(super) fn was_terminated(&self) -> bool {
        self.was_terminated
    }

    /// Asks all processes of the run to end.
    pub(super) fn terminate(&mut self) {
        self.was_terminated = true;
        let term = libc_term();
        // An interactive shell ignores TERM; what it obeys is its terminal hanging up.
        let Ok(foreign::Below { others, .. }) = foreign::below(self.keeper_pid) else { return };
        let signals = |pid| {
            if others.contains(&pid) {
                return vec![];
            }
            let deaf = ignores_signal(pid, term).unwrap_or(false);
            let polite = if deaf { Signal::HUP.as_raw() } else { term };
            vec![polite, Signal::CONT.as_raw()]
        };
        let _ = tree::signal_descendants(self.keeper_pid, signals);
    }

    /// Kills all processes of the run, now and again until nothing is left.
    pub(super) fn kill(&mut self) {
        let now = clock::boot_ms();
        self.kill_from(now, now + kill_pause_ms(0));
        self.kill_now();
    }

    /// Has the run killed from this moment on, if something is left then.
    pub(super) fn kill_from(&mut self, killed_at_ms: u64, again_at_ms: u64) {
        (self.killed_at_ms, self.kill_again_at_ms) = (Some(killed_at_ms), Some(again_at_ms));
    }

    fn kill_now(&self) {
        // All at once where it can be: what forks meanwhile does not escape. What left its group, or has
        // none, is killed one by one; that costs walks over all processes of the host.
        if self.contained.kill() && !self.contained.is_empty() {
            return;
        }
        let Ok(foreign::Below { others, .. }) = foreign::below(self.keeper_pid) else { return };
        let kill = |pid| if others.contains(&pid) { vec![] } else { vec![Signal::KILL.as_raw()] };
        let _ = tree::signal_descendants(self.keeper_pid, kill);
    }

    /// Kills an agent that was started and cannot be watched.
    pub(super) fn kill_unwatched(&self) {
        let _ = tree::signal_descendants(self.keeper_pid, |_| vec![Signal::KILL.as_raw()]);
    }

    /// When to kill again, on the boot clock.
    pub(super) fn kill_again_at_ms(&self) -> Option<u64> {
        self.kill_again_at_ms
    }

    /// Kills again if that is due. Returns since when, in milliseconds.
    pub(super) fn kill_again(&mut self, now: u64) -> Option<u64> {
        self.kill_again_at_ms.filter(|at| *at <= now)?;
        self.kill_now();
        let since_ms = self.killed_at_ms.map_or(0, |killed_at| now.saturating_sub(killed_at));
        self.kill_again_at_ms = Some(now + kill_pause_ms(since_ms));
        Some(since_ms)
    }

    /// The processes of the run that are left, for people.
    pub(super) fn leftovers(&self) -> Vec<String> {
        let mut pids = foreign::below(self.keeper_pid).unwrap_or_default().ours;
        let members = self.contained.members().unwrap_or_default();
        pids.extend(foreign::split(&members.pids).unwrap_or_default().ours);
        pids.sort_unstable();
        pids.dedup();
        let more = pids.len().saturating_sub(NAMED_LEFTOVERS);
        let mut left: Vec<String> =
            pids.into_iter().take(NAMED_LEFTOVERS).map(recover::why_it_stays).collect();
        left.extend((more > 0).then(|| format!("and {more} more")));
        let unseen = members.unseen;
        left.extend((unseen > 0).then(|| format!("{unseen} in a pid namespace that cannot be seen into")));
        if left.is_empty() && !self.contained.is_empty() {
            left.push("a process in its control group that cannot be listed".to_owned());
        }
        left
    }

    // Exits.

    /// Collects exits and, when no child is left, the proof that the run is over.
    pub(super) fn reap(&mut self, session: &Session, waiting: &WaitingReports) -> Reaping {
        let mut reaping = Reaping::default();
        let Ok(mut reaped) = tree::reap() else { return reaping };
        self.note_exits(&reaped, session, waiting, &mut reaping);
        // Looked at before reaping again: what ended during the look is then among the reaped, and nothing
        // that is left can be taken for gone.
        let only_others = !reaped.no_children
            && self.is_ending(session)
            && self.has_empty_group(&mut reaping)
            && foreign::only_others_are_below(self.keeper_pid);
        if only_others {
            let Ok(more) = tree::reap() else { return reaping };
            self.note_exits(&more, session, waiting, &mut reaping);
            reaped.no_children = true;
        }
        let epoch = session.epoch;
        let empty = Observation::Empty { epoch };
        // A process in the run's group that is not below the keeper was moved there, and is of the run.
        if reaped.no_children && !self.contained.is_empty() {
            if !self.is_ending(session) {
                // The image that saw the agent's end was replaced before it was recorded: nothing else ends them.
                self.contained.kill();
            }
            // The kernel will say when that changes. If it does not, the keeper looks again.
            reaping.is_unclear = true;
        } else if reaped.no_children && !self.exits.contains(&empty) {
            self.exits.push(empty);
            // Counts only if the agent's end was never recorded: an image of this program that was replaced before the
            // journal took it saw that end.
            self.exits.push(Observation::KeeperGone { epoch });
        }
        reaping
    }

    /// True if no process of the run is in its group. Whether only those of other sessions are there is costly to find
    /// out, and asked rarely: it is so only where their keepers could not be put elsewhere.
    fn has_empty_group(&mut self, reaping: &mut Reaping) -> bool {
        if !self.contained.is_populated() {
            return true;
        }
        let now = clock::boot_ms();
        if self.others_checked_at_ms.is_some_and(|at| now.saturating_sub(at) < OTHERS_CHECK_MS) {
            reaping.is_unclear = true;
            return false;
        }
        self.others_checked_at_ms = Some(now);
        self.contained.is_empty()
    }

    fn note_exits(
        &mut self,
        reaped: &tree::Reaped,
        session: &Session,
        waiting: &WaitingReports,
        reaping: &mut Reaping,
    ) {
        let agent_pid = match &session.phase {
            Phase::Running { agent } | Phase::Ending(Ending { agent: Some(agent), .. }) => Some(agent.pid),
            // Its start may be among what the journal has not taken yet. An exit is reaped only once.
            Phase::New | Phase::Starting | Phase::Ending(_) | Phase::Ended { .. } => waiting.spawned_pid(),
        };
        let exit = reaped.exits.iter().find(|(pid, _)| Some(*pid) == agent_pid).map(|(_, exit)| *exit);
        if let Some(exit) = exit {
            reaping.oom = self.check_memory(session.epoch).or(reaping.oom.take());
            let oom = exit == tree::Exit::Signal(Signal::KILL.as_raw()) && self.ran_out_just_now(session);
            let exit = match exit {
                tree::Exit::Code(code) => berth_core::Exit::Code(code),
                tree::Exit::Signal(signal) => berth_core::Exit::Signal(signal),
            };
            self.exits.push(Observation::Exited { epoch: session.epoch, exit, oom });
        }
    }

    fn is_ending(&self, session: &Session) -> bool {
        matches!(session.phase, Phase::Ending(_)) || !self.exits.is_empty()
    }

    pub(super) fn has_exits(&self) -> bool {
        !self.exits.is_empty()
    }

    /// True once nothing of the run is left.
    pub(super) fn is_over(&self) -> bool {
        self.exits.iter().any(|exit| matches!(exit, Observation::Empty { .. }))
    }

    pub(super) fn take_exits(&mut self) -> Vec<Observation> {
        std::mem::take(&mut self.exits)
    }

    /// The agent's process, if this keeper is not known to have started it.
    pub(super) fn first_process(&self) -> Option<Identity> {
        let first = tree::descendants(self.keeper_pid).ok()?.first().copied()?;
        Identity::of(first).ok()
    }

    // Memory.

    /// Takes what the kernel says of the run's group. True if the group has to be looked at again: memory ran out, and the
    /// process that is killed for it may not be counted yet.
    pub(super) fn rearm_watches(&mut self) -> bool {
        // A watch whose group is gone has nothing more to say, and would say it for ever.
        let (live, gone): (Vec<Watch>, Vec<Watch>) =
            std::mem::take(&mut self.boundary_watches).into_iter().partition(Watch::rearm);
        self.boundary_watches = live;
        gone.iter().for_each(|watch| self.epoll.remove(watch));
        self.boundary_watches.iter().any(|watch| matches!(watch, Watch::Early(_)))
    }

    /// Processes that the kernel killed because memory ran out, if there are more of them.
    pub(super) fn check_memory(&mut self, epoch: Epoch) -> Option<Observation> {
        let kills = self.contained.oom_kills();
        if kills <= self.oom_kills {
            return None;
        }
        self.oom_kills = kills;
        self.ran_out_at_ms = Some(clock::boot_ms());
        Some(Observation::OomKilled { epoch, kills })
    }

    /// True if memory ran out just now, and the keeper did not order the killing itself. The kernel tells how many
    /// processes it killed, not which, but it does not take long over it.
    fn ran_out_just_now(&self, session: &Session) -> bool {
        let ordered = matches!(session.phase, Phase::Ending(Ending { killed: true, .. }));
        let just_now = |at: u64| clock::boot_ms().saturating_sub(at) < OOM_KILL_MS;
        !ordered && self.ran_out_at_ms.is_some_and(just_now)
    }
}
