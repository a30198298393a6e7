//! Ending a writer that is not ours, because somebody said so.
//!
//! Promise: when [`end`] returns, the writer is proven gone, and so is what it started and what carries its
//! conversation's id; or the error names who stays. Whoever asked, keepers, and what is below keepers, are not
//! touched, nor is who has no agent's name and is a writer by a hook's word alone. A signal goes only through a
//! descriptor of the verified process.
//! Not here: asking (a person has said so before).

use std::time::Duration;

use berth_driver::AgentTraits;
use berth_host::identity::wait_for_exit;
use berth_host::identity::{self, Identity, Pidfd, Verdict};
use berth_host::tree;
use berth_store::keepers;
use berth_store::stranger::command_of;
use rustix::process::Signal;

use super::{Evidence, Writer, signs};
use crate::{foreign, recover};

/// How long what was killed may take to be gone.
const KILL_PATIENCE: Duration = Duration::from_secs(5);
/// How long what a writer left behind may take to end by itself.
const CHILD_GRACE: Duration = Duration::from_millis(500);
/// How often we look again for what it left behind.
const ROUNDS: usize = 3;
/// How far up the tree a writer is looked for.
const MOST_ANCESTORS: usize = 1000;

/// How it went.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Ended {
    /// It was asked to, did not within the grace, and was killed.
    pub killed: bool,
    /// How many processes it had started had to be ended after it.
    pub children: usize,
}

/// Ends a writer: asks it to, waits for as long as `grace`, kills it, and sees that nothing of it is left that
/// could write. `asked_by` is the process that wants this: what runs inside the writer cannot end it. Blocks for
/// as long as that takes.
pub fn end(writer: &Writer, grace: Duration, asked_by: Option<u32>) -> Result<Ended, String> {
    let spared = spared(asked_by);
    if spared.contains(&writer.identity.pid) {
        return Err(format!("this runs inside {}: it would end itself", writer.line()));
    }
    let mut ended = Ended::default();
    let mut children = Vec::new();
    match writer.identity.check() {
        Verdict::Gone => {}
        Verdict::CannotTell(why) => return Err(format!("cannot end {}: {why}", writer.line())),
        // A record may be of an older version, which believed every caller of a hook.
        Verdict::Alive(_) if matches!(writer.evidence, Evidence::Hook { .. }) && !is_agent(writer) => {
            let (who, kind) = (name(writer.identity.pid), &writer.kind);
            return Err(format!("{who} is not {kind} by its name, and only a hook says so: end it yourself"));
        }
        Verdict::Alive(pidfd) => {
            let agent = [(writer.identity.clone(), pidfd)];
            let below = || -> Vec<u32> {
                recover::held_below(&agent).into_iter().map(|(identity, _)| identity.pid).collect()
            };
            hold(&mut children, writer, &below(), &spared)?;
            let [(_, pidfd)] = &agent;
            ask(pidfd).map_err(|error| format!("cannot end {}: {error}", writer.line()))?;
            wait_for_exit([pidfd].into_iter(), grace);
            if !pidfd.has_exited() {
                ended.killed = true;
                // What it started meanwhile is only known to be its own as long as it lives.
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
        // Errors show below: whoever could not be signalled stays.
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
        Err(format!("pid {} is gone, and what it started stays: {}", writer.identity.pid, stay.join("; ")))
    }
}

/// Whether it is an agent by its name.
fn is_agent(writer: &Writer) -> bool {
    identity::stat(writer.identity.pid).is_ok_and(|stat| signs::is_agent(&writer.kind, &stat))
}

/// Asks it to end. One that is stopped could not hear it.
pub(super) fn ask(pidfd: &Pidfd) -> std::io::Result<()> {
    pidfd.signal(Signal::TERM.as_raw())?;
    pidfd.signal(Signal::CONT.as_raw())
}

pub(super) fn kill(pidfd: &Pidfd) -> std::io::Result<()> {
    pidfd.signal(Signal::KILL.as_raw())
}

/// Us, whoever asked, and all above: no writer that we may end is among them.
pub(super) fn spared(asked_by: Option<u32>) -> Vec<u32> {
    [Some(std::process::id()), asked_by].into_iter().flatten().flat_map(line_of).collect()
}

/// A process and all above it, without the first.
pub(super) fn line_of(mut pid: u32) -> Vec<u32> {
    let mut line = vec![];
    while pid > 1 && line.len() < MOST_ANCESTORS && !line.contains(&pid) {
        line.push(pid);
        pid = identity::stat(pid).map_or(0, |stat| stat.ppid);
    }
    line
}

/// Adds the processes that carry the conversation's id and are the writer's: below it in the tree, or with its pid
/// in their environment.
fn hold(
    children: &mut Vec<(Identity, Pidfd)>,
    writer: &Writer,
    below: &[u32],
    spared: &[u32],
) -> Result<(), String> {
    let Some(marks) = AgentTraits::of(&writer.kind).child_marks else { return Ok(()) };
    let found = tree::with_mark(marks.conversation, &writer.conversation_id)
        .map_err(|error| format!("cannot look for what {} started: {error}", writer.line()))?;
    for child in found.processes {
        let is_known = children.iter().any(|(known, _)| *known == child);
        let is_older = child.start_ticks < writer.identity.start_ticks;
        if is_known || is_older || child == writer.identity || spared.contains(&child.pid) {
            continue;
        }
        let says_so = |mark: &str| {
            let agent = tree::variables(child.pid, [mark]).ok().and_then(|[pid]| pid?.parse().ok());
            agent == Some(writer.identity.pid)
        };
        let is_its = below.contains(&child.pid) || marks.agent_pid.is_some_and(says_so);
        if is_its
            && !is_kept(child.pid)
            && let Verdict::Alive(pidfd) = child.check()
        {
            children.push((child, pidfd));
        }
    }
    Ok(())
}

/// Whether it is a keeper, or below one: those have sessions of their own, wherever they were started.
pub(super) fn is_kept(pid: u32) -> bool {
    keepers::kept_by(pid).is_some()
        || identity::stat(pid).is_ok_and(|stat| foreign::keeper_above(&stat).is_some())
}

fn name(pid: u32) -> String {
    let command = identity::stat(pid).map(|stat| command_of(&stat)).unwrap_or_default();
    format!("pid {pid} ({command})")
}
