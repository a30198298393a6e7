//! Effects and observations: doing what is owed, reporting what is seen.

use std::os::fd::AsFd;

use berth_core::{Actor, Command, Effect, Ending, Observation, PROOF_PATIENCE, Phase};
use berth_host::identity::{Identity, ignores_signal, stat};
use berth_host::{clock, tree};
use rustix::event::{Timespec, epoll};
use rustix::process::Signal;

use super::terminal::Until;
use super::{Keeper, SIGTERM_GRACE, libc_chld, libc_term};
use crate::driver::pty;
use crate::foreign;
use crate::killpoint;
use crate::owner::Input;
use crate::recover;

/// The loop looks around at least this often while something is due.
const LONGEST_SLEEP_MS: u64 = 3600 * 1000;

/// How many of what is left are named; an event has a largest size.
const NAMED_LEFTOVERS: usize = 20;

/// How soon a tree that was killed is looked at again for what it forked meanwhile. What has
/// resisted for long is looked at rarely.
fn kill_pause_ms(since_killed_ms: u64) -> u64 {
    if since_killed_ms < PROOF_PATIENCE.as_millis() as u64 { 20 } else { 1000 }
}

impl Keeper {
    /// Does what is owed and not yet done, until nothing is.
    pub(super) fn settle(&mut self) {
        loop {
            let owed = self.owner.owed();
            self.performed.retain(|effect| owed.contains(effect));
            // One at a time: what it brings about may leave the others unowed.
            let due = owed.into_iter().find(|effect| !self.performed.contains(effect));
            let Some(effect) = due else { return };
            self.performed.push(effect.clone());
            self.perform(&effect);
        }
    }

    fn perform(&mut self, effect: &Effect) {
        match effect {
            Effect::Spawn { epoch } => self.spawn(*epoch),
            Effect::Terminate { .. } => self.terminate_tree(),
            Effect::Kill { .. } => {
                let now = clock::boot_ms();
                self.killed_at_ms = Some(now);
                self.kill_again_at_ms = Some(now + kill_pause_ms(0));
                self.kill_tree();
            }
            Effect::Prove { .. } => self.on_children(),
            // The loop's timeout follows from the state; see `timeout`.
            Effect::WakeAt { .. } => {}
            Effect::Leave => self.leaving = true,
        }
    }

    fn spawn(&mut self, epoch: berth_core::Epoch) {
        let spec = self.owner.history().session.spec.clone().unwrap_or_default();
        let variables =
            [("BERTH_SESSION", self.id.to_string()), (recover::MARK, recover::mark(&self.id, epoch))];
        let size = self.screen.size();
        let size = berth_api::message::Size { rows: size.rows, cols: size.cols };
        let observation = match pty::start(&spec, &variables, size, self.run_lock.fd()) {
            Ok((terminal, agent)) => match self.watch_terminal(terminal) {
                Ok(()) => Observation::Spawned { epoch, agent },
                Err(error) => {
                    let _ = tree::signal_descendants(self.me.pid, |_| vec![Signal::KILL.as_raw()]);
                    let reason = format!("cannot watch the agent's terminal: {error}");
                    Observation::SpawnFailed { epoch, reason }
                }
            },
            Err(reason) => Observation::SpawnFailed { epoch, reason },
        };
        killpoint::reached("spawned");
        self.report(vec![observation]);
    }

    fn terminate_tree(&mut self) {
        let term = libc_term();
        // An interactive shell ignores TERM; what it obeys is its terminal hanging up.
        let Ok(foreign::Below { others, .. }) = foreign::below(self.me.pid) else { return };
        let signals = |pid| {
            if others.contains(&pid) {
                return vec![];
            }
            let deaf = ignores_signal(pid, term).unwrap_or(false);
            let polite = if deaf { Signal::HUP.as_raw() } else { term };
            vec![polite, Signal::CONT.as_raw()]
        };
        let _ = tree::signal_descendants(self.me.pid, signals);
    }

    fn kill_tree(&mut self) {
        let Ok(foreign::Below { others, .. }) = foreign::below(self.me.pid) else { return };
        let kill = |pid| if others.contains(&pid) { vec![] } else { vec![Signal::KILL.as_raw()] };
        let _ = tree::signal_descendants(self.me.pid, kill);
        self.on_children();
    }

    pub(super) fn on_signals(&mut self) {
        while let Ok(Some(signal)) = self.signals.read() {
            if signal == libc_chld() {
                self.on_children();
            } else {
                let by = Actor { pid: self.me.pid, uid: 0, place: "SIGTERM to the keeper".to_owned() };
                let stop = Command::Stop { by, grace: SIGTERM_GRACE };
                if self.take(vec![Input::Command(stop)]).is_err() {
                    // The host goes down and the disk is full: the order counts, the record cannot.
                    self.terminate_tree();
                }
            }
        }
    }

    /// Collects exits and, when no child is left, the proof that the run is over.
    pub(super) fn on_children(&mut self) {
        // Looked at before reaping: what ended during the look is then among the reaped, and nothing
        // that is left can be taken for gone.
        let only_others = self.is_ending() && foreign::only_others_are_below(self.me.pid);
        let Ok(reaped) = tree::reap() else { return };
        let session = &self.owner.history().session;
        let epoch = session.epoch;
        let agent_pid = match &session.phase {
            Phase::Running { agent } | Phase::Ending(Ending { agent: Some(agent), .. }) => Some(agent.pid),
            // Its birth may be among what the journal has not taken yet. An exit is reaped only once.
            Phase::New | Phase::Starting | Phase::Ending(_) | Phase::Ended { .. } => self.unrecorded_agent(),
        };
        for (pid, exit) in reaped.exits {
            if Some(pid) == agent_pid {
                let exit = match exit {
                    tree::Exit::Code(code) => berth_core::Exit::Code(code),
                    tree::Exit::Signal(signal) => berth_core::Exit::Signal(signal),
                };
                self.exits.push(Observation::Exited { epoch, exit });
            }
        }
        let empty = Observation::Empty { epoch };
        if (reaped.no_children || only_others) && !self.exits.contains(&empty) {
            self.exits.push(empty);
            // Counts only if the agent's end was never recorded: whoever saw it was an image of this
            // program that was replaced before the journal took it.
            self.exits.push(Observation::KeeperGone { epoch });
        }
        self.report_exits();
    }

    fn is_ending(&self) -> bool {
        matches!(self.owner.history().session.phase, Phase::Ending(_)) || !self.exits.is_empty()
    }

    fn unrecorded_agent(&self) -> Option<u32> {
        self.unjournalled.iter().find_map(|report| match report {
            Observation::Spawned { agent, .. } => Some(agent.pid),
            Observation::SpawnFailed { .. }
            | Observation::Exited { .. }
            | Observation::Empty { .. }
            | Observation::StillThere { .. }
            | Observation::KeeperGone { .. }
            | Observation::Tick => None,
        })
    }

    /// The image before this one did spawn the agent, and may have been replaced before the journal
    /// took that. Spawning again would make two of them.
    pub(super) fn adopt_agent(&mut self) {
        let owed = self.owner.owed().into_iter();
        self.performed = owed.filter(|effect| matches!(effect, Effect::Spawn { .. })).collect();
        let session = &self.owner.history().session;
        let epoch = session.epoch;
        let is_unrecorded = match &session.phase {
            Phase::Starting | Phase::Ending(Ending { agent: None, exit: None, .. }) => true,
            Phase::New | Phase::Running { .. } | Phase::Ending(_) | Phase::Ended { .. } => false,
        };
        let first = || tree::descendants(self.me.pid).ok()?.first().copied();
        if is_unrecorded && let Some(agent) = first().and_then(|pid| Identity::of(pid).ok()) {
            self.report(vec![Observation::Spawned { epoch, agent: recover::process(agent) }]);
        }
    }

    /// Reports exits once everything the agent said before is in the output files.
    fn report_exits(&mut self) {
        if self.exits.is_empty() {
            return;
        }
        // What is still in the terminal came before the exit. A tree that goes on talking does not
        // hold the report up: one buffer is enough for a dead agent's last words.
        let over = self.exits.iter().any(|exit| matches!(exit, Observation::Empty { .. }));
        while self.read_terminal(Until::Empty) && over {}
        if self.unwritten.is_empty() {
            let exits = std::mem::take(&mut self.exits);
            self.report(exits);
        }
    }

    /// What time alone brings.
    pub(super) fn on_time(&mut self) {
        let now = clock::boot_ms();
        if self.retry_at_ms.is_some_and(|at| at <= now) {
            self.retry_at_ms = None;
            self.retry_output();
            self.report_exits();
            self.report(vec![]);
            self.release_absent_writer();
        }
        if self.kill_at_ms().is_some_and(|at| at <= now) {
            self.report(vec![Observation::Tick]);
        }
        if self.kill_again_at_ms.is_some_and(|at| at <= now) {
            self.kill_tree();
            let since_ms = self.killed_at_ms.map_or(0, |killed_at| now - killed_at);
            self.kill_again_at_ms = Some(now + kill_pause_ms(since_ms));
            if since_ms >= PROOF_PATIENCE.as_millis() as u64 {
                self.report_what_is_left();
            }
        }
        if let Err(error) = self.output.sync_if_due(now) {
            let what = format!("some output may not survive a power cut: {error}");
            let _ = self.take(vec![Input::Note(berth_core::Event::Warned { what })]);
        }
    }

    fn report_what_is_left(&mut self) {
        // No word about its state: that changes by the moment, and every new text is a new event.
        let describe = |pid| match stat(pid) {
            Ok(stat) => format!("pid {pid} ({}) does not end when killed", stat.comm),
            Err(error) => format!("pid {pid}: {error}"),
        };
        let pids = foreign::below(self.me.pid).unwrap_or_default().ours;
        let more = pids.len().saturating_sub(NAMED_LEFTOVERS);
        let mut left: Vec<String> = pids.into_iter().take(NAMED_LEFTOVERS).map(describe).collect();
        left.extend((more > 0).then(|| format!("and {more} more")));
        if !self.unwritten.is_empty() {
            left.push("the last of its output waits for room on the disk".to_owned());
        }
        if !left.is_empty() && self.unjournalled.is_empty() {
            let epoch = self.owner.history().session.epoch;
            self.report(vec![Observation::StillThere { epoch, left }]);
        }
    }

    /// When patience ends. Once that is reported, a full disk decides when it is tried again.
    fn kill_at_ms(&self) -> Option<u64> {
        match &self.owner.history().session.phase {
            Phase::Ending(ending) if !ending.killed && !self.unjournalled.contains(&Observation::Tick) => {
                Some(ending.kill_at_boot_ms)
            }
            Phase::New | Phase::Starting | Phase::Running { .. } | Phase::Ending(_) | Phase::Ended { .. } => {
                None
            }
        }
    }

    /// How long the loop may sleep; for ever when nothing is due.
    pub(super) fn timeout(&self) -> Option<Timespec> {
        let boot = clock::boot_ms();
        let sync = self.output.sync_due_ms();
        let due =
            [self.retry_at_ms, self.kill_at_ms(), self.kill_again_at_ms, sync].into_iter().flatten().min()?;
        // Some kernels count a sleep in 31 bits of milliseconds.
        let left = due.saturating_sub(boot).min(LONGEST_SLEEP_MS);
        Some(Timespec {
            tv_sec: (left / 1000).cast_signed(),
            tv_nsec: ((left % 1000) * 1_000_000).cast_signed(),
        })
    }

    /// Everyone who asked for the end hears how it came out.
    pub(super) fn answer_those_who_await_the_end(&mut self) {
        let status = self.status();
        let waiting: Vec<u64> =
            self.clients.iter().filter(|(_, client)| client.awaits_end).map(|(key, _)| *key).collect();
        for key in waiting {
            if let Some(client) = self.clients.get_mut(&key) {
                client.awaits_end = false;
            }
            self.answer_end(key, &status);
        }
    }

    pub(super) fn epoll_delete(&self, fd: impl AsFd) {
        let _ = epoll::delete(&self.epoll, fd);
    }

    /// Whether a run ended in a way nobody would call an end.
    pub(super) fn is_unproven(status: &berth_api::Status) -> bool {
        !status.left.is_empty() && status.state == "stopping"
    }
}
