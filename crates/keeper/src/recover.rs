//! Recovery after a keeper died: finds the remaining processes of its run, by evidence, and ends them.
//!
//! Promise: only what is proven to be of that run is signalled: the very process we recorded, one in
//! the run's control group, one that holds the run's lock, or one that carries the run's mark. A process that cannot
//! be attributed is named and left alone, and then the run is not called gone.
//! Not here: what the journal records of it (see `berth_core`). Start with [`recover_session`].

use std::path::Path;
use std::time::{Duration, Instant};

use berth_api::Problem;
use berth_core::{
    Actor, ClockReading, Command, Event, Observation, PROOF_TIMEOUT, ProcessRef, Session, SessionId,
};
use berth_host::identity::wait_for_exit;
use berth_host::identity::{Pidfd, ProcessIdentity, ProcessLiveness, process_stat};
use berth_host::socket::CONNECT_TIMEOUT;
use berth_host::{clock, process_tree};
use berth_procs::attribution::{MARK, environment_mark};
use berth_procs::nested_sessions;
use berth_procs::run_cgroups::RunCgroups;
use berth_procs::session_processes::descendants_of_run;
use berth_store::SessionFiles;
use berth_store::notifications::NotableEvent;
use berth_store::process_ref::{other_host_of_run, to_process_identity};
use berth_store::session_view::SessionView;
use berth_store::state_dir::StateDir;
use berth_store::store::{self, Lease};
use berth_store::{conversation_locks, killpoint};
use rustix::process::Signal;

use crate::journaled_session::{JournaledSession, SessionInput};
use crate::notify::{self, NotifierParent, NotifyConfigCache};
use crate::turn_outcome;

/// The time that a remaining process may take to end before it is killed.
const LEFTOVER_GRACE: Duration = Duration::from_millis(500);
/// The time that a keeper may take to release its session after its run has ended: to notify clients, and for
/// the last copy.
pub const GOODBYE_PATIENCE: Duration = Duration::from_secs(5);
/// The time to wait for another process that recovers the session: the proof takes its time, and so does the disk.
pub const HEALER_PATIENCE: Duration = PROOF_TIMEOUT.saturating_mul(2);
/// A process that probes the run's lock holds it for an instant; the proof that it is free must outwait that.
const RUN_LOCK_PATIENCE: Duration = Duration::from_millis(200);

/// Ends the remaining processes of a run whose keeper is gone, as [`Lease::open_journal`] proved. The lease must be
/// held. Returns the processes that were ended; the error names those that are left and why.
pub fn end_leftovers(files: &SessionFiles, session: &Session) -> Result<Vec<String>, Vec<String>> {
    // The locks are free, but this may be a copy, or a disk that was moved while the other host runs on.
    if let Some(why) = other_host_of_run(session) {
        return Err(vec![why]);
    }
    // No process survives a reboot, and a pid from before it means another process now.
    let ended = if is_of_another_boot(session) { vec![] } else { end_by_evidence(files, session)? };
    // No process was found, and none was left undecided. The run's lock is the final proof: free means that no living
    // process has inherited it.
    match run_lock_is_free(files) {
        Ok(true) => Ok(ended),
        Ok(false) => Err(vec!["a process we cannot see holds the run's lock".to_owned()]),
        Err(error) => Err(vec![format!("cannot check the run's lock: {error}")]),
    }
}

fn end_by_evidence(files: &SessionFiles, session: &Session) -> Result<Vec<String>, Vec<String>> {
    let contained = RunCgroups::of(session, files.id())
        .map_err(|error| vec![format!("cannot look into the run's control group: {error}")])?;
    if let Some(other) = contained.used_elsewhere(files) {
        return Err(vec![format!("its control group belongs to {}: is this a copy of it?", other.display())]);
    }
    end(&contained, || find(files, session, &contained))
}

/// Ends the processes in the group of a run that is over, and removes the group. Returns the processes that it ended.
pub fn end_group(path: &Path, name: &str, files: &SessionFiles) -> Result<Vec<String>, Vec<String>> {
    let trouble = |error: std::io::Error| vec![format!("cannot look into it: {error}")];
    let contained = RunCgroups::known(path, name).map_err(trouble)?;
    if let Some(other) = contained.used_elsewhere(files) {
        return Err(vec![format!("it belongs to {}: is this a copy of it?", other.display())]);
    }
    // A directory that was replaced by an older copy does not record the run that its keeper is in.
    match files.keeper_started_here() {
        Ok(None) => {}
        Ok(Some((pid, _))) => return Err(vec![format!("the session has a keeper, pid {pid}")]),
        Err(error) => return Err(trouble(error)),
    }
    if contained.has_unseen() {
        return Err(vec!["a process is in it that cannot be seen from here".to_owned()]);
    }
    end(&contained, || {
        let mut found = LeftoverProcesses::default();
        match members_of(&contained) {
            Ok(members) => found.add(members),
            Err(error) => found.untold.extend(trouble(error)),
        }
        found
    })
}

/// The processes found of a run.
#[derive(Default)]
struct LeftoverProcesses {
    ours: Vec<(ProcessIdentity, Pidfd)>,
    /// Processes that could not be attributed, and why.
    untold: Vec<String>,
}

impl LeftoverProcesses {
    fn add(&mut self, candidates: Vec<ProcessIdentity>) {
        for candidate in candidates {
            match candidate.check() {
                ProcessLiveness::Alive(pidfd) => self.ours.push((candidate, pidfd)),
                ProcessLiveness::Gone => {}
                ProcessLiveness::CannotTell(why) => self.untold.push(format!("pid {}: {why}", candidate.pid)),
            }
        }
    }
}

/// Sends SIGTERM to the found processes, then SIGKILL, until none is found and the group is empty.
fn end(
    contained: &RunCgroups,
    mut find: impl FnMut() -> LeftoverProcesses,
) -> Result<Vec<String>, Vec<String>> {
    // The search may take long on a busy host, and does not count as part of their grace period.
    let mut asked_at: Option<Instant> = None;
    let mut killed_at: Option<Instant> = None;
    let mut ended = Vec::new();
    let mut ours: Vec<(ProcessIdentity, Pidfd)> = Vec::new();
    loop {
        let LeftoverProcesses { ours: found, untold } = find();
        // A process that was proven ours stays so until it ends, even if the proof is gone by now.
        ours.retain(|(_, pidfd)| !pidfd.has_exited());
        for one in found {
            if !ours.iter().any(|(known, _)| *known == one.0) {
                ours.push(one);
            }
        }
        if ours.is_empty() && contained.is_empty() {
            return if untold.is_empty() { Ok(ended) } else { Err(untold) };
        }
        let patient = asked_at.get_or_insert_with(Instant::now).elapsed() < LEFTOVER_GRACE;
        if !patient {
            killed_at.get_or_insert_with(Instant::now);
            contained.kill();
        }
        let signal = if patient { Signal::TERM } else { Signal::KILL };
        for (identity, pidfd) in &ours {
            let name = process_stat(identity.pid).map(|stat| stat.comm).unwrap_or_default();
            let told = format!("pid {} ({name})", identity.pid);
            if !ended.contains(&told) {
                ended.push(told);
            }
            // A process that may not be signalled is still there in the end, and is reported with the reason.
            let _ = pidfd.signal(signal.as_raw());
        }
        if ours.is_empty() {
            // An unseen process is in the group; only the kernel can end it.
            std::thread::sleep(Duration::from_millis(10));
        }
        let limit = if patient { LEFTOVER_GRACE } else { Duration::from_millis(50) };
        wait_for_exit(ours.iter().map(|(_, pidfd)| pidfd), limit);
        let since_killed = killed_at.map_or(Duration::ZERO, |at| at.elapsed());
        if since_killed > PROOF_TIMEOUT {
            let still = ours.iter().filter(|(_, pidfd)| !pidfd.has_exited());
            let mut left: Vec<_> = still.map(|(identity, _)| unkilled_reason(identity.pid)).collect();
            if left.is_empty() && !contained.is_empty() {
                left.push("a process that we cannot see is in the run's control group".to_owned());
            }
            left.extend(untold);
            if left.is_empty() && since_killed < 2 * PROOF_TIMEOUT {
                // They did end. The next search tells if those were all.
                continue;
            }
            if left.is_empty() {
                left.push("it starts processes faster than they can be found".to_owned());
            }
            return Err(left);
        }
    }
}

/// Brings a session whose keeper died to its recorded end: remaining processes of the run are ended, and the loss is
/// written down. Does nothing to a session that has a keeper, or needs no recovery; if another process is recovering
/// it, this waits. Returns the processes that were ended.
pub fn recover_session(home: &StateDir, id: &SessionId) -> Result<Vec<String>, Problem> {
    let files = home.session(id);
    let Some(mut held) = claim_to_heal(&files)? else { return Ok(vec![]) };
    let session = &held.owner.history().session;
    if !session.is_live() {
        return Ok(vec![]);
    }
    tracing::info!(session = %id, "its keeper died: bringing its last run to an end");
    // The cached status says that the session runs, and would be believed while we hold the lease.
    held.invalidate_status_cache()?;
    let ended = end_leftovers(&files, session).map_err(|left| {
        Problem::refused(format!(
            "session {id} lost its keeper, and processes of its run are not proven gone: {}",
            left.join("; ")
        ))
        .hint(format!("end the named processes; `berth why {id}` shows the evidence"))
    })?;
    let reports = lost_run_inputs(held.owner.history(), &files);
    held.take(reports)?;
    held.release()?;
    Ok(ended)
}

/// Recovers the session that wrote a conversation last, if its keeper died: its processes may still write, and a
/// session that wants the conversation would be refused because of it.
pub fn recover_last_writer(home: &StateDir, kind: &str, id: &str) {
    if let Some(last) = conversation_locks::last_writer(home, kind, id) {
        // If this fails, claiming the conversation is refused with the name of the holder.
        let _ = recover_session(home, &last);
    }
}

/// The events to record of a run whose keeper died, once no process of it is left: the outcome of its turn, as far as
/// it is known, and the loss.
pub(crate) fn lost_run_inputs(history: &SessionView, files: &SessionFiles) -> Vec<SessionInput> {
    let session = &history.session;
    let current = session.turns.current.as_ref().map(|current| current.turn);
    let over = current.zip(turn_outcome::lost_run_turn_end(history, files));
    let over = over.map(|(turn, end)| Observation::TurnOver { turn, end });
    let gone = Observation::KeeperGone { epoch: session.epoch };
    over.into_iter().chain([gone]).map(SessionInput::Report).collect()
}

/// The error for a caller that cannot wait any longer for another process to recover the session.
pub fn being_recovered_problem(session: &str) -> Problem {
    let what = format!("session `{session}` is held: another command is clearing up after its keeper");
    Problem::held(what).hint(format!("try again; `berth why {session}` shows which one"))
}

/// Claims a session that needs recovery; `None` if it turns out to need none.
fn claim_to_heal(files: &SessionFiles) -> Result<Option<ClaimedSession<'_>>, Problem> {
    let id = files.id();
    let until = Instant::now() + HEALER_PATIENCE;
    let mut pause = Duration::from_millis(1);
    while files.past()?.history.session.is_live() {
        if let Some(held) = ClaimedSession::claim(files)? {
            return Ok(Some(held));
        }
        // A keeper that holds the lease listens; a process that recovers the session does not.
        if files.connect(String::new(), CONNECT_TIMEOUT).is_ok() {
            return Ok(None);
        }
        files.refuse_stranger(id.as_str())?;
        if Instant::now() >= until {
            return Err(being_recovered_problem(id.as_str()));
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(100));
    }
    Ok(None)
}

/// Carries out one command on a session that has no keeper, as its keeper for that moment.
pub fn with_lease(home: &StateDir, id: &SessionId, command: Command) -> Result<(), Problem> {
    let files = home.session(id);
    let Some(mut held) = ClaimedSession::claim(&files)? else {
        files.refuse_stranger(id.as_str())?;
        let what = format!("session {id} is being started or ended by another command");
        return Err(Problem::held(what).hint("try again"));
    };
    held.take(vec![SessionInput::Command(command)])?;
    held.release()
}

/// Archives a session in which nothing happened for `rest_ms`. Returns false if something happened meanwhile, or
/// another process holds the session. The run must be recorded as over.
pub fn archive_at_rest(home: &StateDir, id: &SessionId, rest_ms: u64, by: Actor) -> Result<bool, Problem> {
    let files = home.session(id);
    let Some(mut held) = ClaimedSession::claim(&files)? else { return Ok(false) };
    let status = files.describe(held.owner.history(), false);
    let is_at_rest = !held.owner.history().session.is_live()
        && clock::wall_ms().saturating_sub(status.last_activity_at.0) >= rest_ms;
    if is_at_rest {
        held.take(vec![SessionInput::Command(Command::Archive { by })])?;
        held.release()?;
    }
    Ok(is_at_rest)
}

/// A claimed session without a run.
struct ClaimedSession<'a> {
    files: &'a SessionFiles,
    owner: JournaledSession,
    /// Events that people may want to be notified of.
    told: Vec<NotableEvent>,
    lease: Lease,
}

impl<'a> ClaimedSession<'a> {
    fn claim(files: &'a SessionFiles) -> Result<Option<Self>, Problem> {
        let id = files.id();
        let claimed = files.claim().map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => store::no_session(id),
            _ => Problem::refused(format!("cannot claim session {id}: {error}")),
        })?;
        let Some(lease) = claimed else { return Ok(None) };
        let (owner, torn) = JournaledSession::open(&lease)?;
        let session = &owner.history().session;
        if let Ok(me) = ProcessIdentity::me() {
            // The signature is for display only: a full disk must not prevent recovery.
            let _ = lease.sign(&me, session.epoch.0);
        }
        // A session that was never made gets no first event.
        let torn = torn.filter(|_| session.spec.is_some());
        let mut held = Self { files, owner, told: vec![], lease };
        if let Some(what) = torn {
            // Recorded at once: no later process will find the torn end again, even if the rest fails.
            held.take(vec![SessionInput::Note(Event::Warned { what })])?;
        }
        Ok(Some(held))
    }

    fn invalidate_status_cache(&self) -> Result<(), Problem> {
        self.files
            .invalidate_status_cache()
            .map_err(|error| Problem::refused(format!("cannot change session {}: {error}", self.files.id())))
    }

    fn take(&mut self, inputs: Vec<SessionInput>) -> Result<(), Problem> {
        let now = ClockReading { wall_ms: clock::wall_ms(), boot_ms: clock::boot_ms() };
        if let Some(refusal) = self.owner.refusal(&inputs, now) {
            // Nothing changes, so the cached status stays valid.
            return Err(berth_api::problem::refusal(&refusal, &self.handle()));
        }
        self.lease.confirm()?;
        self.invalidate_status_cache()?;
        let taken = self
            .owner
            .take(inputs, now)
            .map_err(|error| store::journal_problem(&error, self.files.id().as_str()))?;
        self.told.extend(notify::select_notable(&self.owner.history().session, &taken.events));
        match taken.answers.into_iter().find_map(Result::err) {
            Some(refusal) => Err(berth_api::problem::refusal(&refusal, &self.handle())),
            None => Ok(()),
        }
    }

    /// The name of the session in messages: its name, else its id.
    fn handle(&self) -> String {
        let name = self.owner.history().session.name.as_ref();
        name.map_or_else(|| self.files.id().to_string(), ToString::to_string)
    }

    fn release(self) -> Result<(), Problem> {
        let status = self.files.describe(self.owner.history(), false);
        let closed = self.owner.close();
        // After the seal: the status of a session that can go on is believed only while its journal matches it.
        self.files.write_status_cache(&status);
        killpoint::reached("healed");
        notify::notify_of_events(
            self.files,
            &self.told,
            NotifierParent::Command,
            &mut NotifyConfigCache::default(),
        );
        closed.map_err(|error| store::journal_problem(&error, self.files.id().as_str()))
    }
}

fn is_of_another_boot(session: &Session) -> bool {
    let of_another = |keeper: &ProcessRef| to_process_identity(keeper).is_of_another_boot().unwrap_or(false);
    session.keeper.as_ref().is_some_and(of_another)
}

/// The reason why a killed process is still there, for people.
pub(crate) fn unkilled_reason(pid: u32) -> String {
    let stat = match process_stat(pid) {
        Ok(stat) => stat,
        Err(error) => return format!("pid {pid}: {error}"),
    };
    let refused = Pidfd::open(pid).and_then(|pidfd| pidfd.signal(0)).err();
    let why = match refused {
        Some(error) => format!("cannot be signalled: {error}"),
        None if stat.state == 'D' => "waits for a device and cannot be interrupted".to_owned(),
        None => "does not end when killed".to_owned(),
    };
    format!("pid {pid} ({}) {why}", stat.comm)
}

fn find(files: &SessionFiles, session: &Session, contained: &RunCgroups) -> LeftoverProcesses {
    let mut found = LeftoverProcesses::default();
    let mut candidates: Vec<ProcessIdentity> = session.agent().map(to_process_identity).into_iter().collect();
    match members_of(contained) {
        Ok(members) => candidates.extend(members),
        Err(error) => found.untold.push(format!("cannot look into the run's control group: {error}")),
    }
    let mark = environment_mark(files.id(), session.epoch);
    for carriers in [files.run_lock_carriers(), process_tree::processes_with_variable(MARK, &mark)] {
        match carriers {
            Ok(carriers) => candidates.extend(carriers.processes),
            Err(error) => found.untold.push(format!("cannot look through /proc: {error}")),
        }
    }
    candidates.sort_by_key(|identity| identity.pid);
    candidates.dedup();
    candidates.retain(|candidate| candidate.pid != std::process::id());
    // A copy of this session has equal marks and group names, and its processes have their own keeper.
    candidates.retain(|candidate| nested_sessions::kept_elsewhere(candidate.pid, files).is_none());
    found.add(candidates);
    let below = descendants_of_run(&found.ours);
    found.ours.extend(below);
    found
}

/// The processes in the run's group. Listed twice with their identities read in between: a reused pid is then not in
/// the second list, or is in it rightly.
fn members_of(contained: &RunCgroups) -> std::io::Result<Vec<ProcessIdentity>> {
    let list = || {
        contained
            .members()
            .and_then(|members| nested_sessions::separate_nested_sessions(&members.pids))
            .map(|split| split.ours)
    };
    let members: Vec<ProcessIdentity> =
        list()?.into_iter().filter_map(|pid| ProcessIdentity::of(pid).ok()).collect();
    let again = list()?;
    Ok(members.into_iter().filter(|identity| again.contains(&identity.pid)).collect())
}

fn run_lock_is_free(files: &SessionFiles) -> std::io::Result<bool> {
    files.run_lock()?.acquire(RUN_LOCK_PATIENCE)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use berth_test_dir::TestDir;

    use super::*;

    #[test]
    fn a_look_at_the_runs_lock_does_not_make_a_dead_run_seem_alive() {
        let dir = TestDir::new();
        let home = StateDir::open(dir.to_path_buf()).expect("a state directory");
        let files = home.session(&home.mint().expect("a session"));
        assert!(run_lock_is_free(&files).expect("a lock"));
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    files.probe_run_lock().expect("a lock");
                }
            });
            let free = (0..1000).filter(|_| run_lock_is_free(&files).expect("a lock")).count();
            done.store(true, Ordering::Relaxed);
            assert_eq!(free, 1000);
        });
    }
}
