//! After a keeper died: find what is left of its run, by evidence, and end it.
//!
//! Promise: only what is proven to be of that run is signalled: the very process we recorded, or
//! one that holds the run's lock, or one that carries the run's mark. What cannot be told is
//! named and left alone, and then the run is not called gone.

use std::path::Path;
use std::time::{Duration, Instant};

use berth_api::{Code, Connection, Problem};
use berth_core::{Command, Epoch, Event, Now, Observation, PROOF_PATIENCE, Process, Session, SessionId};
use berth_host::identity::{Identity, Pidfd, Verdict};
use berth_host::lock::LockFile;
use berth_host::{clock, tree};
use rustix::process::Signal;

use crate::foreign;
use crate::home::Home;
use crate::owner::{Input, Owner};
use crate::store::{self, Lease};
use crate::view;

/// The variable every process of a run inherits.
pub const MARK: &str = "BERTH_RUN";
/// How long a leftover may take to end before it is killed.
const LEFTOVER_GRACE: Duration = Duration::from_millis(500);
/// How long to wait for somebody else who clears up: the proof has its time, and so has the disk.
pub const HEALER_PATIENCE: Duration = PROOF_PATIENCE.saturating_mul(2);
/// Whoever looks at the run's lock has it for an instant; proving it free must outwait them.
const RUN_LOCK_PATIENCE: Duration = Duration::from_millis(200);

/// The value of [`MARK`] for a run.
pub fn mark(id: &SessionId, epoch: Epoch) -> String {
    format!("{id}:{epoch}")
}

/// The core's view of an identity.
pub fn process(identity: Identity) -> Process {
    Process { pid: identity.pid, start_ticks: identity.start_ticks, boot_id: identity.boot_id }
}

/// The host's view of a process.
pub fn identity(process: &Process) -> Identity {
    Identity { pid: process.pid, start_ticks: process.start_ticks, boot_id: process.boot_id.clone() }
}

/// Ends what is left of a run whose keeper is gone, and proves it. The lease must be held.
/// The error names what is left and why.
pub fn end_leftovers(
    dir: &Path,
    id: &SessionId,
    epoch: Epoch,
    agent: Option<&Process>,
) -> Result<(), Vec<String>> {
    let started = Instant::now();
    loop {
        let (ours, untold) = find(dir, id, epoch, agent);
        if ours.is_empty() {
            // Nobody we could find, and nobody we could not tell. The run's lock is the proof: free
            // means that no process inherited it and lives.
            return match run_lock_is_free(dir) {
                Ok(_) if !untold.is_empty() => Err(untold),
                Ok(true) => Ok(()),
                Ok(false) => Err(vec!["a process we cannot see holds the run's lock".to_owned()]),
                Err(error) => Err(vec![format!("cannot check the run's lock: {error}")]),
            };
        }
        let patient = started.elapsed() < LEFTOVER_GRACE;
        let signal = if patient { Signal::TERM } else { Signal::KILL };
        let mut refused = Vec::new();
        for (identity, pidfd) in &ours {
            if let Err(error) = pidfd.signal(signal.as_raw()) {
                refused.push(format!("pid {}: cannot be signalled: {error}", identity.pid));
            }
        }
        let limit = if patient { LEFTOVER_GRACE } else { Duration::from_millis(50) };
        wait_for_exit(ours.iter().map(|(_, pidfd)| pidfd), limit);
        if started.elapsed() > PROOF_PATIENCE {
            let still = ours.iter().filter(|(_, pidfd)| !pidfd.has_exited());
            let mut left: Vec<_> =
                still.map(|(identity, _)| format!("pid {} does not end", identity.pid)).collect();
            left.extend(refused);
            return Err(left);
        }
    }
}

/// Brings a session whose keeper died to its recorded end: what is left of the run is ended, and
/// the loss is written down. Does nothing to a session that has a keeper, or needs no healing; if
/// somebody else is healing it, that is waited for.
pub fn heal(home: &Home, id: &SessionId) -> Result<(), Problem> {
    let dir = home.session_dir(id);
    let Some(mut held) = claim_to_heal(home, &dir, id)? else { return Ok(()) };
    let session = &held.owner.history().session;
    if !session.is_live() {
        return Ok(());
    }
    // It says that the session runs, and would be believed while we hold the lease.
    held.doubt_short_cut()?;
    let epoch = session.epoch;
    end_leftovers(&dir, id, epoch, session.agent()).map_err(|left| {
        Problem::new(
            Code::Refused,
            format!("session {id} lost its keeper, and what it ran is not proven gone: {}", left.join("; ")),
        )
        .hint(format!("end what is named there; `berth why {id}` shows the evidence"))
    })?;
    held.take(Input::Report(Observation::KeeperGone { epoch }))?;
    held.release()
}

/// Whether a live run's keeper is gone: then whoever holds the lease is clearing up after it.
pub fn lost_its_keeper(session: &Session) -> bool {
    let keeper = session.keeper.as_ref().filter(|_| session.is_live());
    keeper.is_some_and(|keeper| matches!(identity(keeper).check(), Verdict::Gone))
}

/// The answer to who cannot wait any longer for somebody else to clear up.
pub fn is_being_healed(session: &str) -> Problem {
    let what = format!("session `{session}` is held: somebody else is clearing up after its keeper");
    Problem::new(Code::Held, what).hint(format!("try again; `berth why {session}` shows who it is"))
}

/// Claims a session that needs healing; `None` if it turns out to need none.
fn claim_to_heal<'a>(home: &Home, dir: &'a Path, id: &'a SessionId) -> Result<Option<Held<'a>>, Problem> {
    let until = Instant::now() + HEALER_PATIENCE;
    let mut pause = Duration::from_millis(1);
    while view::history(home, id)?.session.is_live() {
        if let Some(held) = Held::claim(dir, id)? {
            return Ok(Some(held));
        }
        // Whoever has it listens if it is a keeper, and does not while it clears up.
        if Connection::open(dir, String::new()).is_ok() {
            return Ok(None);
        }
        if Instant::now() >= until {
            return Err(is_being_healed(id.as_str()));
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(100));
    }
    Ok(None)
}

/// Does one thing to a session that has no keeper, as its keeper for that moment.
pub fn with_lease(home: &Home, id: &SessionId, command: Command) -> Result<(), Problem> {
    let dir = home.session_dir(id);
    let mut held = Held::claim(&dir, id)?.ok_or_else(|| {
        Problem::new(Code::Held, format!("session {id} is being started or ended by somebody else"))
            .hint("try again")
    })?;
    held.take(Input::Command(command))?;
    held.release()
}

/// A session in our hands, without a run.
struct Held<'a> {
    dir: &'a Path,
    id: &'a SessionId,
    owner: Owner,
    _lease: Lease,
}

impl<'a> Held<'a> {
    fn claim(dir: &'a Path, id: &'a SessionId) -> Result<Option<Self>, Problem> {
        let claimed = Lease::claim(dir)
            .map_err(|error| Problem::new(Code::Refused, format!("cannot claim session {id}: {error}")))?;
        let Some(lease) = claimed else { return Ok(None) };
        let (owner, torn) = store::open(dir, id, &lease)?;
        let session = &owner.history().session;
        if let Ok(me) = Identity::me() {
            // For people only: a disk too full for it must not keep us from clearing up.
            let _ = lease.sign(&me, session.epoch.0);
        }
        // What was never made gets no first event.
        let torn = torn.filter(|_| session.spec.is_some());
        let mut held = Self { dir, id, owner, _lease: lease };
        if let Some(what) = torn {
            // At once: nobody will find the torn end again, whatever becomes of what we came for.
            held.take(Input::Note(Event::Warned { what }))?;
        }
        Ok(Some(held))
    }

    fn doubt_short_cut(&self) -> Result<(), Problem> {
        view::doubt_short_cut(self.dir).map_err(|error| {
            Problem::new(Code::Refused, format!("cannot change session {}: {error}", self.id))
        })
    }

    fn take(&mut self, input: Input) -> Result<(), Problem> {
        self.doubt_short_cut()?;
        let now = Now { wall_ms: clock::wall_ms(), boot_ms: clock::boot_ms() };
        let taken = self
            .owner
            .take(vec![input], now)
            .map_err(|error| store::journal_problem(&error, self.id.as_str()))?;
        match taken.answers.into_iter().find_map(Result::err) {
            Some(refusal) => Err(berth_api::problem::refusal(&refusal, self.id.as_str())),
            None => Ok(()),
        }
    }

    fn release(self) -> Result<(), Problem> {
        view::write_short_cut(self.dir, &view::describe(self.dir, self.id, self.owner.history(), false));
        self.owner.close().map_err(|error| store::journal_problem(&error, self.id.as_str()))
    }
}

fn find(
    dir: &Path,
    id: &SessionId,
    epoch: Epoch,
    agent: Option<&Process>,
) -> (Vec<(Identity, Pidfd)>, Vec<String>) {
    let mut candidates: Vec<Identity> = agent.map(identity).into_iter().collect();
    let mut untold = Vec::new();
    for found in [tree::with_open_lock(&dir.join("run")), tree::with_mark(MARK, &mark(id, epoch))] {
        match found {
            Ok(found) => candidates.extend(found.processes),
            Err(error) => untold.push(format!("cannot look through /proc: {error}")),
        }
    }
    candidates.sort_by_key(|identity| identity.pid);
    candidates.dedup();
    let me = std::process::id();
    let mut ours = Vec::new();
    for candidate in candidates.into_iter().filter(|candidate| candidate.pid != me) {
        match candidate.check() {
            Verdict::Alive(pidfd) => ours.push((candidate, pidfd)),
            Verdict::Gone => {}
            Verdict::CannotTell(why) => untold.push(format!("pid {}: {why}", candidate.pid)),
        }
    }
    for at in 0..ours.len() {
        let below = held_below(&ours[at].0, &ours[at].1);
        for (identity, pidfd) in below {
            if !ours.iter().any(|(known, _)| *known == identity) {
                ours.push((identity, pidfd));
            }
        }
    }
    (ours, untold)
}

/// What is below a process of the run, and so is of the run, whatever it closed or cleared.
///
/// Listed twice with the processes held open in between: a number that changed hands meanwhile is
/// then either not in the second list or not the process we hold.
fn held_below(parent: &Identity, parent_pidfd: &Pidfd) -> Vec<(Identity, Pidfd)> {
    let list = || foreign::below(parent.pid).unwrap_or_default().ours;
    let held: Vec<_> = list()
        .into_iter()
        .filter_map(|pid| {
            let identity = Identity::of(pid).ok()?;
            match identity.check() {
                Verdict::Alive(pidfd) => Some((identity, pidfd)),
                Verdict::Gone | Verdict::CannotTell(_) => None,
            }
        })
        .collect();
    let again = list();
    if parent_pidfd.has_exited() {
        return Vec::new();
    }
    held.into_iter().filter(|(identity, _)| again.contains(&identity.pid)).collect()
}

fn run_lock_is_free(dir: &Path) -> std::io::Result<bool> {
    LockFile::open_or_create(&dir.join("run"))?.acquire(RUN_LOCK_PATIENCE)
}

fn wait_for_exit<'a>(pidfds: impl Iterator<Item = &'a Pidfd>, limit: Duration) {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let until = Instant::now() + limit;
    for pidfd in pidfds {
        let left = until.saturating_duration_since(Instant::now());
        let timeout =
            Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: i64::from(left.subsec_nanos()) };
        // An error here only means less waiting; the caller looks again.
        let _ = poll(&mut [PollFd::new(pidfd, PollFlags::IN)], Some(&timeout));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn a_look_at_the_runs_lock_does_not_make_a_dead_run_seem_alive() {
        let dir = std::env::temp_dir().join(format!("berth-run-lock-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a directory");
        assert!(run_lock_is_free(&dir).expect("a lock"));
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    berth_host::lock::probe(&dir.join("run")).expect("a lock");
                }
            });
            let free = (0..1000).filter(|_| run_lock_is_free(&dir).expect("a lock")).count();
            done.store(true, Ordering::Relaxed);
            assert_eq!(free, 1000);
        });
        std::fs::remove_dir_all(&dir).expect("our own directory");
    }
}
