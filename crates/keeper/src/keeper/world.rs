//! Effects and observations: doing what is owed, reporting what is seen.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use berth_api::SessionState;
use berth_api::client::SOCKET_NAME;
use berth_core::{Actor, Command, Effect, Ending, Observation, Origin, PROOF_PATIENCE, Phase, Process, Spec};
use berth_driver::Begin;
use berth_host::cgroup::Watch;
use berth_host::identity::{Identity, ignores_signal};
use berth_host::{clock, tree};
use berth_store::{killpoint, process};
use rustix::event::{Timespec, epoll};
use rustix::process::Signal;

use super::terminal::Until;
use super::{Keeper, SIGTERM_GRACE, libc_chld, libc_term};
use crate::carried::{self, trust};
use crate::driver::{self, Launch, pipes, pty};
use crate::owner::Input;
use crate::{foreign, recover};

/// The loop looks around at least this often while something is due.
const LONGEST_SLEEP_MS: u64 = 3600 * 1000;

/// How many of what is left are named; an event has a largest size.
const NAMED_LEFTOVERS: usize = 20;

/// How long a process that the kernel kills for its memory may take to end.
const OOM_KILL_MS: u64 = 2000;

/// What stands for a conversation that has no id when its session is made, in the command that goes on with it.
const ID_PLACE: &str = "{id}";

/// How often it is asked whether only other sessions are in the run's group.
const LOOK_FOR_OTHERS_MS: u64 = 200;

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
            Effect::Terminate { .. } => {
                self.look_for_conversation();
                if !self.say_goodbye() {
                    self.terminate_tree();
                }
            }
            Effect::Kill { .. } => {
                self.look_for_conversation();
                let now = clock::boot_ms();
                self.killed_at_ms = Some(now);
                self.kill_again_at_ms = Some(now + kill_pause_ms(0));
                self.kill_tree();
            }
            Effect::Prove { .. } => self.on_children(),
            // The loop's timeout follows from the state; see `timeout`.
            Effect::WakeAt { .. } => {}
            Effect::Deliver { turn } => self.deliver_turn(*turn),
            Effect::Say { turn } => self.say_turn(*turn),
            Effect::Interrupt { turn } => self.interrupt_turn(*turn),
            Effect::NextRun { .. } => self.next_run(),
            Effect::Leave => {
                // Before anyone hears that it is over: whoever asks then finds no keeper, rather than one
                // that no longer answers, and whoever looks finds no group.
                let _ = fs::remove_file(self.dir.join(SOCKET_NAME));
                self.contained.remove();
                self.leaving = true;
            }
        }
    }

    fn spawn(&mut self, epoch: berth_core::Epoch) {
        let mut carried = None;
        let observation = match self.start_agent(epoch, &mut carried) {
            Ok((agent, Ok(()))) => Observation::Spawned { epoch, agent },
            Ok((_, Err(error))) => {
                let _ = tree::signal_descendants(self.me.pid, |_| vec![Signal::KILL.as_raw()]);
                let reason = format!("cannot watch the agent: {error}");
                Observation::SpawnFailed { epoch, reason }
            }
            Err(reason) => Observation::SpawnFailed { epoch, reason },
        };
        killpoint::reached("spawned");
        self.report([observation].into_iter().chain(carried).collect());
    }

    /// Starts the agent, and says whether it can be heard. The error is for people.
    fn start_agent(
        &mut self,
        epoch: berth_core::Epoch,
        carried: &mut Option<Observation>,
    ) -> Result<(Process, io::Result<()>), String> {
        let spec = self.owner.history().session.spec.clone().unwrap_or_default();
        let variables = self.variables(epoch);
        let launch = |command| Launch {
            spec: &spec,
            command,
            variables: &variables,
            run_lock: self.run_lock.fd(),
            contained: &self.contained,
        };
        if spec.takes_turns() {
            let driver = driver::of(&spec.driver, &self.id)
                .ok_or_else(|| format!("this version of berth knows no driver called `{}`", spec.driver))?;
            let begin = self.begin.clone();
            let command = self.with_hooks(&spec, driver.command_line(&spec.command, &begin));
            let (pipes, agent) = pipes::start(&launch(&command))?;
            return Ok((agent, self.talk_to(driver, begin, pipes, true)));
        }
        let command = self.with_hooks(&spec, terminal_command(&spec, &self.begin));
        *carried = trust::tells(&spec, &command).then_some(Observation::HooksCarried { epoch });
        let size = self.screen.size();
        let size = berth_api::message::Size { rows: size.rows, cols: size.cols };
        let (terminal, agent) = pty::start(&launch(&command), size)?;
        Ok((agent, self.watch_terminal(terminal)))
    }

    /// A command with the hooks that its agent takes along. They are no part of the record: the next run has those
    /// of the program that starts it.
    fn with_hooks(&self, spec: &Spec, command: Vec<String>) -> Vec<String> {
        let root = self.dir.parent().and_then(Path::parent);
        root.map_or_else(|| command.clone(), |root| carried::with_hooks(root, spec, command.clone()))
    }

    pub(super) fn terminate_tree(&mut self) {
        self.terminated = true;
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
        // All at once where it can be: what forks meanwhile does not escape. What left its group, or has
        // none, is killed one by one; that costs walks over all processes of the host.
        if self.contained.kill() && !self.contained.is_empty() {
            return self.on_children();
        }
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
                let by = Actor { pid: self.me.pid, uid: None, place: "SIGTERM to the keeper".to_owned() };
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
        let Ok(mut reaped) = tree::reap() else { return };
        self.note_exits(&reaped);
        // Looked at before reaping again: what ended during the look is then among the reaped, and nothing
        // that is left can be taken for gone.
        let only_others = !reaped.no_children
            && self.is_ending()
            && self.nobody_is_in_the_group()
            && foreign::only_others_are_below(self.me.pid);
        if only_others {
            let Ok(more) = tree::reap() else { return };
            self.note_exits(&more);
            reaped.no_children = true;
        }
        let epoch = self.owner.history().session.epoch;
        let empty = Observation::Empty { epoch };
        // Who is in the run's group and not below us was moved there, and is of the run.
        if reaped.no_children && !self.contained.is_empty() {
            if !self.is_ending() {
                // Whoever saw the agent's end was replaced before it was recorded: nobody else ends them.
                self.contained.kill();
            }
            // The kernel will say when that changes. If it does not, we look again.
            self.retry_soon();
        } else if reaped.no_children && !self.exits.contains(&empty) {
            self.exits.push(empty);
            // Counts only if the agent's end was never recorded: whoever saw it was an image of this
            // program that was replaced before the journal took it.
            self.exits.push(Observation::KeeperGone { epoch });
        }
        self.report_exits();
    }

    /// Whether nobody of the run is in its group. Whether those who are there are all of other sessions is
    /// dear to look at, and asked rarely: it is so only where their keepers could not be put elsewhere.
    fn nobody_is_in_the_group(&mut self) -> bool {
        if !self.contained.is_populated() {
            return true;
        }
        let now = clock::boot_ms();
        if self.looked_for_others_at_ms.is_some_and(|at| now.saturating_sub(at) < LOOK_FOR_OTHERS_MS) {
            self.retry_soon();
            return false;
        }
        self.looked_for_others_at_ms = Some(now);
        self.contained.is_empty()
    }

    /// The kernel says that something changed in the run's group.
    pub(super) fn on_boundary(&mut self) {
        // One whose group is gone has nothing more to say, and would say it for ever.
        let (live, gone) = std::mem::take(&mut self.boundary_watches).into_iter().partition(Watch::rearm);
        self.boundary_watches = live;
        let gone: Vec<Watch> = gone;
        gone.iter().for_each(|watch| self.epoll_delete(watch));
        self.look_at_memory();
        if self.boundary_watches.iter().any(|watch| matches!(watch, Watch::Early(_))) {
            // Memory ran out, and whoever is killed for it may not be counted yet.
            self.retry_soon();
        }
        self.on_children();
    }

    /// Reports processes that the kernel killed because memory ran out.
    fn look_at_memory(&mut self) {
        let kills = self.contained.oom_kills();
        if kills > self.oom_kills {
            self.oom_kills = kills;
            self.ran_out_at_ms = Some(clock::boot_ms());
            let epoch = self.owner.history().session.epoch;
            self.report(vec![Observation::OomKilled { epoch, kills }]);
        }
    }

    /// Whether memory ran out just now, and we did not order the killing ourselves. The kernel tells how
    /// many it killed, not whom, but it does not take long over it.
    fn ran_out_just_now(&self) -> bool {
        let ordered =
            matches!(self.owner.history().session.phase, Phase::Ending(Ending { killed: true, .. }));
        let just_now = |at: u64| clock::boot_ms().saturating_sub(at) < OOM_KILL_MS;
        !ordered && self.ran_out_at_ms.is_some_and(just_now)
    }

    fn note_exits(&mut self, reaped: &tree::Reaped) {
        let session = &self.owner.history().session;
        let epoch = session.epoch;
        let agent_pid = match &session.phase {
            Phase::Running { agent } | Phase::Ending(Ending { agent: Some(agent), .. }) => Some(agent.pid),
            // Its birth may be among what the journal has not taken yet. An exit is reaped only once.
            Phase::New | Phase::Starting | Phase::Ending(_) | Phase::Ended { .. } => self.unrecorded_agent(),
        };
        let exit = reaped.exits.iter().find(|(pid, _)| Some(*pid) == agent_pid).map(|(_, exit)| *exit);
        if let Some(exit) = exit {
            self.look_at_memory();
            let oom = exit == tree::Exit::Signal(Signal::KILL.as_raw()) && self.ran_out_just_now();
            let exit = match exit {
                tree::Exit::Code(code) => berth_core::Exit::Code(code),
                tree::Exit::Signal(signal) => berth_core::Exit::Signal(signal),
            };
            self.exits.push(Observation::Exited { epoch, exit, oom });
        }
    }

    fn is_ending(&self) -> bool {
        matches!(self.owner.history().session.phase, Phase::Ending(_)) || !self.exits.is_empty()
    }

    fn unrecorded_agent(&self) -> Option<u32> {
        self.unjournalled.iter().find_map(|report| match report {
            Observation::Spawned { agent, .. } => Some(agent.pid),
            Observation::SpawnFailed { .. }
            | Observation::Exited { .. }
            | Observation::OomKilled { .. }
            | Observation::Empty { .. }
            | Observation::StillThere { .. }
            | Observation::KeeperGone { .. }
            | Observation::OwnerGone { .. }
            | Observation::Ready { .. }
            | Observation::NotReady { .. }
            | Observation::AgentReady { .. }
            | Observation::HooksCarried { .. }
            | Observation::Told { .. }
            | Observation::DraftGone
            | Observation::Conversation { .. }
            | Observation::TurnBegan { .. }
            | Observation::TurnOver { .. }
            | Observation::Asks { .. }
            | Observation::Unasked { .. }
            | Observation::Held { .. }
            | Observation::Broken { .. }
            | Observation::Tick => None,
        })
    }

    /// The image before this one did spawn the agent, and may have been replaced before the journal
    /// took that. Spawning again would make two of them.
    pub(super) fn adopt_agent(&mut self) {
        let owed = self.owner.owed().into_iter();
        // So with what it said to the agent: that is said once.
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
        self.performed = owed.filter(is_done_once).collect();
        let session = &self.owner.history().session;
        let epoch = session.epoch;
        let is_unrecorded = match &session.phase {
            Phase::Starting | Phase::Ending(Ending { agent: None, exit: None, .. }) => true,
            Phase::New | Phase::Running { .. } | Phase::Ending(_) | Phase::Ended { .. } => false,
        };
        let first = || tree::descendants(self.me.pid).ok()?.first().copied();
        if is_unrecorded && let Some(agent) = first().and_then(|pid| Identity::of(pid).ok()) {
            self.report(vec![Observation::Spawned { epoch, agent: process::process(agent) }]);
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
        self.on_complaints();
        while self.on_agent_output(Until::Empty) && over {}
        if self.unwritten.is_empty() {
            let mut exits = std::mem::take(&mut self.exits);
            // All of the run is gone, and we have heard everything: what its turn came to can be told.
            if over && let Some(fate) = self.fate_of_current(self.seen_exit(&exits)) {
                exits.insert(0, fate);
            }
            self.report(exits);
        }
    }

    fn seen_exit(&self, exits: &[Observation]) -> Option<berth_core::Exit> {
        let now = exits.iter().find_map(|observation| match observation {
            Observation::Exited { exit, .. } => Some(*exit),
            _ => None,
        });
        let seen = self.unjournalled.iter().find_map(|observation| match observation {
            Observation::Exited { exit, .. } => Some(*exit),
            _ => None,
        });
        now.or(seen).or(match &self.owner.history().session.phase {
            Phase::Ending(ending) => ending.exit,
            Phase::New | Phase::Starting | Phase::Running { .. } | Phase::Ended { .. } => None,
        })
    }

    /// What time alone brings.
    pub(super) fn on_time(&mut self) {
        let now = clock::boot_ms();
        if self.retry_at_ms.is_some_and(|at| at <= now) {
            self.retry_at_ms = None;
            self.retry_output();
            self.look_at_memory();
            self.on_children();
            self.report_again();
            self.release_absent_writer();
            self.look_again_at_owners();
            self.deliver_again();
        }
        self.on_agent_time();
        self.on_edges_time();
        self.on_signs_time();
        if [self.kill_at_ms(), self.idle_end_ms(), self.turns_due_ms()]
            .into_iter()
            .flatten()
            .min()
            .is_some_and(|at| at <= now)
        {
            self.report(vec![Observation::Tick]);
        }
        self.look_whether_ready();
        if self.kill_again_at_ms.is_some_and(|at| at <= now) {
            self.kill_tree();
            let since_ms = self.killed_at_ms.map_or(0, |killed_at| now - killed_at);
            self.kill_again_at_ms = Some(now + kill_pause_ms(since_ms));
            if since_ms >= PROOF_PATIENCE.as_millis() as u64 {
                self.report_what_is_left();
            }
        }
        if self.status_at_ms.is_some_and(|at| at <= now) {
            self.write_status();
        }
        if let Err(error) = self.output.sync_if_due(now) {
            let what = format!("some output may not survive a power cut: {error}");
            let _ = self.take(vec![Input::Note(berth_core::Event::Warned { what })]);
        }
    }

    fn report_what_is_left(&mut self) {
        let mut pids = foreign::below(self.me.pid).unwrap_or_default().ours;
        let members = self.contained.members().unwrap_or_default();
        pids.extend(foreign::split(&members.pids).unwrap_or_default().ours);
        pids.sort_unstable();
        pids.dedup();
        let describe = recover::why_it_stays;
        let more = pids.len().saturating_sub(NAMED_LEFTOVERS);
        let mut left: Vec<String> = pids.into_iter().take(NAMED_LEFTOVERS).map(describe).collect();
        left.extend((more > 0).then(|| format!("and {more} more")));
        let unseen = members.unseen;
        left.extend((unseen > 0).then(|| format!("{unseen} in a pid namespace that cannot be seen into")));
        if left.is_empty() && !self.contained.is_empty() {
            left.push("a process in its control group that cannot be listed".to_owned());
        }
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

    /// When time alone changes something about turns. Once that is reported, a full disk decides when it is
    /// tried again.
    fn turns_due_ms(&self) -> Option<u64> {
        let reported = self.unjournalled.contains(&Observation::Tick);
        let session = &self.owner.history().session;
        let due = session.turns_wake_at_boot_ms().filter(|_| !reported);
        // An agent in a terminal tells an end a moment before it has written it down, and may go on after it.
        let settled = self.desk.settled_at_ms().filter(|_| session.switch_is_due());
        settled.map_or(due, |settled| due.map(|due| due.max(settled)))
    }

    /// How long the loop may sleep; for ever when nothing is due.
    pub(super) fn timeout(&self) -> Option<Timespec> {
        let boot = clock::boot_ms();
        let sync = self.output.sync_due_ms();
        let owed = [self.retry_at_ms, self.kill_at_ms(), self.kill_again_at_ms, self.status_at_ms, sync];
        let shared = [self.idle_end_ms(), self.look_at_ms()];
        let turns = [self.turns_due_ms(), self.agent_due_ms(), self.edges_due_ms(), self.signs_due_ms()];
        let due = owed.into_iter().chain(shared).chain(turns).flatten().min()?;
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
        !status.left.is_empty() && status.state == SessionState::Stopping
    }
}

/// The command of an agent in a terminal. It goes on with the conversation that the agent had last, which may be another one
/// than the first: the first one's id is on the session's own command line.
fn terminal_command(spec: &Spec, begin: &Begin) -> Vec<String> {
    let first = match &spec.origin {
        Origin::Named(first) | Origin::Resumed(first) => Some(first),
        Origin::New | Origin::Forked(_) => None,
    };
    let (words, id, goes_on) = match begin {
        Begin::Resume { id } if !spec.again.is_empty() => (&spec.again, Some(id), true),
        Begin::Resume { id } => (&spec.command, Some(id), false),
        Begin::New { id } => (&spec.command, id.as_ref(), false),
        Begin::Fork { .. } => (&spec.command, None, false),
    };
    let Some(id) = id else { return words.clone() };
    let word = |word: &String| match first {
        Some(first) if word == first => id.clone(),
        None if goes_on => word.replace(ID_PLACE, id),
        Some(_) | None => word.clone(),
    };
    words.iter().map(word).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn a_terminals_agent_goes_on_with_the_conversation_it_had_last() {
        let spec = |origin: Origin, command: &str, again: &str| Spec {
            origin,
            command: words(command),
            again: words(again),
            ..Spec::default()
        };
        let resume = |id: &str| Begin::Resume { id: id.to_owned() };
        let new = |id: Option<&str>| Begin::New { id: id.map(str::to_owned) };
        let named = spec(
            Origin::Named("one".to_owned()),
            "claude --session-id one",
            "claude --resume one --model {id}",
        );
        let codex = spec(Origin::New, "codex", "codex resume {id}");
        let resumed = spec(Origin::Resumed("one".to_owned()), "codex resume one", "");
        let other = spec(Origin::New, "mine {id}", "");
        for (spec, begin, expected) in [
            (&named, new(Some("one")), "claude --session-id one"),
            (&named, resume("one"), "claude --resume one --model {id}"),
            (&named, resume("two"), "claude --resume two --model {id}"),
            // The first one is in use, and nothing was said in the second one.
            (&named, new(Some("two")), "claude --session-id two"),
            (&codex, new(None), "codex"),
            (&codex, resume("two"), "codex resume two"),
            (&resumed, resume("one"), "codex resume one"),
            (&resumed, resume("two"), "codex resume two"),
            (&other, resume("two"), "mine {id}"),
        ] {
            assert_eq!(terminal_command(spec, &begin).join(" "), expected, "{begin:?}");
        }
    }
}
