//! Ending a foreign writer, at the request of a user.
//!
//! Promise: when [`end_foreign_writer`] returns, the writer is proven gone, and so are the processes it started and those that carry
//! its conversation's id; or the error names the processes that stay. The caller, keepers, and processes below
//! keepers are not touched. Neither is a writer that only a hook names and that does not have an agent's name. A
//! signal goes only through a descriptor of the verified process.
//! Not here: asking for consent (the caller has it). Start with [`end_foreign_writer`].

use std::time::Duration;

use berth_driver::AgentTraits;
use berth_host::identity::wait_for_exit;
use berth_host::identity::{self, Pidfd, ProcessIdentity, ProcessLiveness};
use berth_host::process_tree;
use berth_procs::nested_sessions;
use berth_procs::session_processes::descendants_of_run;
use berth_store::foreign_lease_holder::command_of_process;
use berth_store::keepers;
use rustix::process::Signal;

use super::{ForeignWriter, WriterEvidence, writer_evidence};

/// The time that a killed process may take to be gone.
const KILL_PATIENCE: Duration = Duration::from_secs(5);
/// The time that children of a writer may take to end by themselves.
const CHILD_GRACE: Duration = Duration::from_millis(500);
/// The number of searches for processes that the writer left behind.
const ROUNDS: usize = 3;
/// The number of generations up the tree in which a writer is looked for.
const MOST_ANCESTORS: usize = 1000;

/// The result of ending a writer.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EndedWriter {
    /// True if the writer did not end within the grace period after SIGTERM, and was killed.
    pub killed: bool,
    /// The number of its child processes that had to be ended after it.
    pub children: usize,
}

/// Ends a writer: sends SIGTERM, waits for at most `grace`, kills it, and checks that no process is left of it that
/// could write. `asked_by` is the process that asked for this: a process inside the writer cannot end it. Blocks
/// until all that is done.
pub fn end_foreign_writer(
    writer: &ForeignWriter,
    grace: Duration,
    asked_by: Option<u32>,
) -> Result<EndedWriter, String> {
    let spared = protected_pids(asked_by);
    if spared.contains(&writer.identity.pid) {
        return Err(format!("this command runs inside {} and would end itself", writer.line()));
    }
    let mut ended = EndedWriter::default();
    let mut children = Vec::new();
    match writer.identity.check() {
        ProcessLiveness::Gone => {}
        ProcessLiveness::CannotTell(why) => return Err(format!("cannot end {}: {why}", writer.line())),
        // A record may be of an older version, which believed every caller of a hook.
        ProcessLiveness::Alive(_)
            if matches!(writer.evidence, WriterEvidence::Hook { .. }) && !is_agent(writer) =>
        {
            let (who, kind) = (name(writer.identity.pid), &writer.kind);
            return Err(format!(
                "{who} is not {kind} by its name, and only a hook names it as a writer: end it yourself"
            ));
        }
        ProcessLiveness::Alive(pidfd) => {
            let agent = [(writer.identity.clone(), pidfd)];
            let below = || -> Vec<u32> {
                descendants_of_run(&agent).into_iter().map(|(identity, _)| identity.pid).collect()
            };
            hold(&mut children, writer, &below(), &spared)?;
            let [(_, pidfd)] = &agent;
            ask(pidfd).map_err(|error| format!("cannot end {}: {error}", writer.line()))?;
            wait_for_exit([pidfd].into_iter(), grace);
            if !pidfd.has_exited() {
                ended.killed = true;
                // Processes that it started meanwhile can be attributed to it only as long as it lives.
                hold(&mut children, writer, &below(), &spared)?;
                kill(pidfd).map_err(|error| format!("cannot kill {}: {error}", writer.line()))?;
            }
            wait_for_exit([pidfd].into_iter(), KILL_PATIENCE);
            if !pidfd.has_exited() {
                return Err(format!("{} was killed, and is still there", writer.line()));
            }
        }
    }
    for _ in 0..ROUNDS {
        hold(&mut children, writer, &[], &spared)?;
        children.retain(|(_, pidfd)| !pidfd.has_exited());
        if children.is_empty() {
            return Ok(ended);
        }
        ended.children += children.len();
        // Errors show below: a process that could not be signalled stays.
        children.iter().for_each(|(_, pidfd)| drop(ask(pidfd)));
        wait_for_exit(children.iter().map(|(_, pidfd)| pidfd), CHILD_GRACE);
        children.iter().for_each(|(_, pidfd)| drop(kill(pidfd)));
        wait_for_exit(children.iter().map(|(_, pidfd)| pidfd), KILL_PATIENCE);
    }
    hold(&mut children, writer, &[], &spared)?;
    children.retain(|(_, pidfd)| !pidfd.has_exited());
    let stay: Vec<String> = children.iter().map(|(identity, _)| name(identity.pid)).collect();
    if stay.is_empty() {
        Ok(ended)
    } else {
        Err(format!(
            "pid {} is gone, and processes that it started stay: {}",
            writer.identity.pid,
            stay.join("; ")
        ))
    }
}

/// True if it is an agent by its name.
fn is_agent(writer: &ForeignWriter) -> bool {
    identity::process_stat(writer.identity.pid)
        .is_ok_and(|stat| writer_evidence::is_agent(&writer.kind, &stat))
}

/// Sends SIGTERM, and SIGCONT since a stopped process could not react.
pub(super) fn ask(pidfd: &Pidfd) -> std::io::Result<()> {
    pidfd.signal(Signal::TERM.as_raw())?;
    pidfd.signal(Signal::CONT.as_raw())
}

pub(super) fn kill(pidfd: &Pidfd) -> std::io::Result<()> {
    pidfd.signal(Signal::KILL.as_raw())
}

/// This process, the caller, and all processes above them: no writer that we may end is among them.
pub(super) fn protected_pids(asked_by: Option<u32>) -> Vec<u32> {
    [Some(std::process::id()), asked_by].into_iter().flatten().flat_map(line_of).collect()
}

/// A process and its ancestors, without the first process of the host.
pub(super) fn line_of(mut pid: u32) -> Vec<u32> {
    let mut line = vec![];
    while pid > 1 && line.len() < MOST_ANCESTORS && !line.contains(&pid) {
        line.push(pid);
        pid = identity::process_stat(pid).map_or(0, |stat| stat.ppid);
    }
    line
}

/// Adds the processes that carry the conversation's id and are the writer's: below it in the tree, or with its pid
/// in their environment.
fn hold(
    children: &mut Vec<(ProcessIdentity, Pidfd)>,
    writer: &ForeignWriter,
    below: &[u32],
    spared: &[u32],
) -> Result<(), String> {
    let Some(marks) = AgentTraits::of(&writer.kind).child_marks else { return Ok(()) };
    let found = process_tree::processes_with_variable(marks.conversation, &writer.conversation_id)
        .map_err(|error| format!("cannot look for the processes that {} started: {error}", writer.line()))?;
    for child in found.processes {
        let is_known = children.iter().any(|(known, _)| *known == child);
        let is_older = child.start_ticks < writer.identity.start_ticks;
        if is_known || is_older || child == writer.identity || spared.contains(&child.pid) {
            continue;
        }
        let says_so = |mark: &str| {
            let agent =
                process_tree::process_variables(child.pid, [mark]).ok().and_then(|[pid]| pid?.parse().ok());
            agent == Some(writer.identity.pid)
        };
        let is_its = below.contains(&child.pid) || marks.agent_pid.is_some_and(says_so);
        if is_its
            && !is_kept(child.pid)
            && let ProcessLiveness::Alive(pidfd) = child.check()
        {
            children.push((child, pidfd));
        }
    }
    Ok(())
}

/// True if it is a keeper, or below one: those have sessions of their own, independent of where they were started.
pub(super) fn is_kept(pid: u32) -> bool {
    keepers::session_of_keeper(pid).is_some()
        || identity::process_stat(pid).is_ok_and(|stat| nested_sessions::keeper_above(&stat).is_some())
}

fn name(pid: u32) -> String {
    let command = identity::process_stat(pid).map(|stat| command_of_process(&stat)).unwrap_or_default();
    format!("pid {pid} ({command})")
}
