//! The processes of a run: its boundary, their exits, and their end.
//!
//! Promise: an exit is reaped once and kept until it is reported; a tree that was killed is killed again until nothing of
//! it is left; a run counts as over only when the kernel shows no process of it.
//! Not here: the rules of an end (`berth_core`), the agent's last output (`effects`).

use std::io;
use std::os::fd::{AsRawFd, RawFd};

use berth_core::{Effect, EndingRun, Epoch, Observation, PROOF_TIMEOUT, RunPhase, Session, SessionSpec};
use berth_host::cgroup::CgroupWatch;
use berth_host::identity::{ProcessIdentity, ignores_signal};
use berth_host::lock::LockFile;
use berth_host::{clock, process_tree};
use berth_procs::nested_sessions;
use berth_procs::run_cgroups::RunCgroups;
use rustix::process::Signal;

use super::event_loop::{BOUNDARY, Epoll};
use super::libc_term;
use super::waiting_reports::WaitingReports;
use crate::agent_launch::AgentLaunch;
use crate::recover;

/// The number of remaining processes that are named; an event has a largest size.
const NAMED_LEFTOVERS: usize = 20;
/// The time that a process killed for its memory may take to end.
const OOM_KILL_MS: u64 = 2000;
/// The pause between two checks whether only other sessions are in the run's group.
const OTHERS_CHECK_MS: u64 = 200;

/// The pause before a killed process tree is searched again for processes it forked meanwhile. It grows with the time
/// that the tree resists.
fn kill_pause_ms(since_killed_ms: u64) -> u64 {
    if since_killed_ms < PROOF_TIMEOUT.as_millis() as u64 { 20 } else { 1000 }
}

/// The processes of the session's run.
#[derive(Debug)]
pub(super) struct RunSupervisor {
    epoll: Epoll,
    keeper_pid: u32,
    /// The lock that the whole run inherits.
    run_lock: LockFile,
    contained: RunCgroups,
    /// Descriptors that report changes in the run's group.
    boundary_watches: Vec<CgroupWatch>,
    /// Effects done for the current state.
    performed: Vec<Effect>,
    /// True once everything of the run was asked to end.
    was_terminated: bool,
    /// Exits that wait until the agent's last output is on disk.
    exits: Vec<Observation>,
    /// The time of the last check of the group for other sessions, on the boot clock.
    others_checked_at_ms: Option<u64>,
    /// The number of processes of the run known to be killed by the kernel because memory ran out.
    oom_kills: u64,
    /// The time when memory was last seen to have run out, on the boot clock.
    ran_out_at_ms: Option<u64>,
    /// The time since when killed processes are still there, on the boot clock.
    killed_at_ms: Option<u64>,
    /// The time of the next kill, on the boot clock.
    kill_again_at_ms: Option<u64>,
}

/// The result of reaping.
#[derive(Debug, Default)]
pub(super) struct ReapOutcome {
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
        contained: RunCgroups,
    ) -> io::Result<Self> {
        let mut supervisor = Self {
            epoll,
            keeper_pid,
            run_lock,
            // Processes that were killed before the keeper looked are not the cause of a later end.
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

    /// Makes this group the boundary of the next run.
    pub(super) fn begin_run(&mut self, contained: RunCgroups) -> io::Result<()> {
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
        spec: &'a SessionSpec,
        command: &'a [String],
        variables: &'a [(&'a str, String)],
    ) -> AgentLaunch<'a> {
        AgentLaunch { spec, command, variables, run_lock: self.run_lock.fd(), contained: &self.contained }
    }

    /// The lock that the whole run inherits.
    pub(super) fn lock_fd(&self) -> RawFd {
        self.run_lock.fd().as_raw_fd()
    }

    /// Removes the run's group, which is empty.
    pub(super) fn remove_boundary(&mut self) {
        self.contained.remove();
    }

    // Effects on the run.

    /// The first effect that is due and not done; it counts as done from now on.
    pub(super) fn next_effect(&mut self, owed: Vec<Effect>) -> Option<Effect> {
        self.performed.retain(|effect| owed.contains(effect));
        let due = owed.into_iter().find(|effect| !self.performed.contains(effect))?;
        self.performed.push(due.clone());
        Some(due)
    }

    pub(super) fn note_performed(&mut self, effect: Effect) {
        self.performed.push(effect);
    }

    /// Counts the one-time effects of the previous image as done: it may have spawned the agent, and been
    /// replaced before the journal took that. Spawning again would make two of them. This holds as well for
    /// messages to the agent.
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

    /// Schedules another attempt to deliver a turn.
    pub(super) fn deliver_again(&mut self) {
        self.performed.retain(|effect| !matches!(effect, Effect::Deliver { .. }));
    }

    // The end of the run.

    pub(super) fn was_terminated(&self) -> bool {
        self.was_terminated
    }

    /// Asks all processes of the run to end.
    pub(super) fn terminate(&mut self) {
        self.was_terminated = true;
        let term = libc_term();
        // An interactive shell ignores TERM, but obeys a hang-up of its terminal.
        let Ok(nested_sessions::DescendantProcesses { others, .. }) =
            nested_sessions::sort_descendants(self.keeper_pid)
        else {
            return;
        };
        let signals = |pid| {
            if others.contains(&pid) {
                return vec![];
            }
            let deaf = ignores_signal(pid, term).unwrap_or(false);
            let polite = if deaf { Signal::HUP.as_raw() } else { term };
            vec![polite, Signal::CONT.as_raw()]
        };
        let _ = process_tree::signal_descendants(self.keeper_pid, signals);
    }

    /// Kills all processes of the run, now and again until none is left.
    pub(super) fn kill(&mut self) {
        let now = clock::boot_ms();
        self.kill_from(now, now + kill_pause_ms(0));
        self.kill_now();
    }

    /// Kills the run from this moment on, if a process is left then.
    pub(super) fn kill_from(&mut self, killed_at_ms: u64, again_at_ms: u64) {
        (self.killed_at_ms, self.kill_again_at_ms) = (Some(killed_at_ms), Some(again_at_ms));
    }

    fn kill_now(&self) {
        // All at once where possible: a process that forks meanwhile does not escape. A process outside of the group
        // is killed individually; that costs walks over all processes of the host.
        if self.contained.kill() && !self.contained.is_empty() {
            return;
        }
        let Ok(nested_sessions::DescendantProcesses { others, .. }) =
            nested_sessions::sort_descendants(self.keeper_pid)
        else {
            return;
        };
        let kill = |pid| if others.contains(&pid) { vec![] } else { vec![Signal::KILL.as_raw()] };
        let _ = process_tree::signal_descendants(self.keeper_pid, kill);
    }

    /// Kills an agent that was started and cannot be watched.
    pub(super) fn kill_unwatched(&self) {
        let _ = process_tree::signal_descendants(self.keeper_pid, |_| vec![Signal::KILL.as_raw()]);
    }

    /// The time of the next kill, on the boot clock.
    pub(super) fn kill_again_at_ms(&self) -> Option<u64> {
        self.kill_again_at_ms
    }

    /// Kills again if that is due. Returns the time since the first kill, in milliseconds.
    pub(super) fn kill_again(&mut self, now: u64) -> Option<u64> {
        self.kill_again_at_ms.filter(|at| *at <= now)?;
        self.kill_now();
        let since_ms = self.killed_at_ms.map_or(0, |killed_at| now.saturating_sub(killed_at));
        self.kill_again_at_ms = Some(now + kill_pause_ms(since_ms));
        Some(since_ms)
    }

    /// The remaining processes of the run, for people.
    pub(super) fn leftovers(&self) -> Vec<String> {
        let mut pids = nested_sessions::sort_descendants(self.keeper_pid).unwrap_or_default().ours;
        let members = self.contained.members().unwrap_or_default();
        pids.extend(nested_sessions::separate_nested_sessions(&members.pids).unwrap_or_default().ours);
        pids.sort_unstable();
        pids.dedup();
        let more = pids.len().saturating_sub(NAMED_LEFTOVERS);
        let mut left: Vec<String> =
            pids.into_iter().take(NAMED_LEFTOVERS).map(recover::unkilled_reason).collect();
        left.extend((more > 0).then(|| format!("and {more} more")));
        let unseen = members.unseen;
        left.extend((unseen > 0).then(|| format!("{unseen} in a pid namespace that cannot be seen into")));
        if left.is_empty() && !self.contained.is_empty() {
            left.push("a process in its control group that cannot be listed".to_owned());
        }
        left
    }

    // Exits of processes.

    /// Collects exits and, when no child is left, the proof that the run is over.
    pub(super) fn reap(&mut self, session: &Session, waiting: &WaitingReports) -> ReapOutcome {
        let mut reaping = ReapOutcome::default();
        let Ok(mut reaped) = process_tree::reap_children() else { return reaping };
        self.note_exits(&reaped, session, waiting, &mut reaping);
        // Checked before reaping again: a process that ended during the check is then among the reaped, and a
        // remaining one cannot be taken for gone.
        let only_others = !reaped.no_children
            && self.is_ending(session)
            && self.has_empty_group(&mut reaping)
            && nested_sessions::only_others_are_below(self.keeper_pid);
        if only_others {
            let Ok(more) = process_tree::reap_children() else { return reaping };
            self.note_exits(&more, session, waiting, &mut reaping);
            reaped.no_children = true;
        }
        let epoch = session.epoch;
        let empty = Observation::Empty { epoch };
        // A process in the run's group that is not below the keeper was moved there, and is of the run.
        if reaped.no_children && !self.contained.is_empty() {
            if !self.is_ending(session) {
                // The image that saw the agent's end was replaced before the end was recorded: no other code ends them.
                self.contained.kill();
            }
            // The kernel reports when that changes. If it does not, the keeper looks again.
            reaping.is_unclear = true;
        } else if reaped.no_children && !self.exits.contains(&empty) {
            self.exits.push(empty);
            // Counts only if the agent's end was never recorded: an image of this program that was replaced before the
            // journal took it saw that end.
            self.exits.push(Observation::KeeperGone { epoch });
        }
        reaping
    }

    /// True if no process of the run is in its group. A check whether only those of other sessions are there is
    /// costly, and made rarely: it matters only where their keepers could not be put elsewhere.
    fn has_empty_group(&mut self, reaping: &mut ReapOutcome) -> bool {
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
        reaped: &process_tree::ReapResult,
        session: &Session,
        waiting: &WaitingReports,
        reaping: &mut ReapOutcome,
    ) {
        let agent_pid = match &session.phase {
            RunPhase::Running { agent } | RunPhase::Ending(EndingRun { agent: Some(agent), .. }) => {
                Some(agent.pid)
            }
            // The agent's start may be among the reports that the journal has not taken yet. An exit is
            // reaped only once.
            RunPhase::New | RunPhase::Starting | RunPhase::Ending(_) | RunPhase::Ended { .. } => {
                waiting.spawned_pid()
            }
        };
        let exit = reaped.exits.iter().find(|(pid, _)| Some(*pid) == agent_pid).map(|(_, exit)| *exit);
        if let Some(exit) = exit {
            reaping.oom = self.check_memory(session.epoch).or(reaping.oom.take());
            let oom = exit == process_tree::WaitStatus::Signal(Signal::KILL.as_raw())
                && self.ran_out_just_now(session);
            let exit = match exit {
                process_tree::WaitStatus::Code(code) => berth_core::ProcessExit::Code(code),
                process_tree::WaitStatus::Signal(signal) => berth_core::ProcessExit::Signal(signal),
            };
            self.exits.push(Observation::Exited { epoch: session.epoch, exit, oom });
        }
    }

    fn is_ending(&self, session: &Session) -> bool {
        matches!(session.phase, RunPhase::Ending(_)) || !self.exits.is_empty()
    }

    pub(super) fn has_exits(&self) -> bool {
        !self.exits.is_empty()
    }

    /// True once no process of the run is left.
    pub(super) fn is_over(&self) -> bool {
        self.exits.iter().any(|exit| matches!(exit, Observation::Empty { .. }))
    }

    pub(super) fn take_exits(&mut self) -> Vec<Observation> {
        std::mem::take(&mut self.exits)
    }

    /// The agent's process, if this keeper is not known to have started it.
    pub(super) fn first_process(&self) -> Option<ProcessIdentity> {
        let first = process_tree::descendants(self.keeper_pid).ok()?.first().copied()?;
        ProcessIdentity::of(first).ok()
    }

    // Memory of the run.

    /// Processes the kernel's reports about the run's group. True if the group has to be checked again: memory ran
    /// out, and the process killed for it may not be counted yet.
    pub(super) fn rearm_watches(&mut self) -> bool {
        // A watch whose group is gone has no news, and would be reported for ever.
        let (live, gone): (Vec<CgroupWatch>, Vec<CgroupWatch>) =
            std::mem::take(&mut self.boundary_watches).into_iter().partition(CgroupWatch::rearm);
        self.boundary_watches = live;
        gone.iter().for_each(|watch| self.epoll.remove(watch));
        self.boundary_watches.iter().any(|watch| matches!(watch, CgroupWatch::Early(_)))
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

    /// True if memory ran out just now, and the keeper did not order the killing itself. The kernel reports how many
    /// processes it killed, not which ones, but the kill follows quickly.
    fn ran_out_just_now(&self, session: &Session) -> bool {
        let ordered = matches!(session.phase, RunPhase::Ending(EndingRun { killed: true, .. }));
        let just_now = |at: u64| clock::boot_ms().saturating_sub(at) < OOM_KILL_MS;
        !ordered && self.ran_out_at_ms.is_some_and(just_now)
    }
}
