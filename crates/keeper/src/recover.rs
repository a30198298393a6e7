//! After a keeper died: find what is left of its run, by evidence, and end it.
//!
//! Promise: only what is proven to be of that run is signalled: the very process we recorded, one in
//! the run's control group, one that holds the run's lock, or one that carries the run's mark. What cannot be told is
//! named and left alone, and then the run is not called gone.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use berth_api::{Code, Problem};
use berth_core::{
    Actor, Command, Epoch, Event, Now, Observation, PROOF_PATIENCE, Process, Session, SessionId,
};
use berth_host::identity::wait_for_exit;
use berth_host::identity::{Identity, Pidfd, Verdict, stat};
use berth_host::process::census;
use berth_host::socket::QUEUE_PATIENCE;
use berth_host::{clock, tree};
use berth_store::SessionFiles;
use berth_store::history::History;
use berth_store::home::Home;
use berth_store::process::{elsewhere, identity};
use berth_store::store::{self, Lease};
use berth_store::{conversations, killpoint};
use rustix::process::Signal;

use crate::boundary::Contained;
use crate::journaled_session::{Input, JournaledSession};
use crate::notify::{self, Known, Teller, Told};
use crate::{foreign, turn};

/// The variable every process of a run inherits.
pub const MARK: &str = "BERTH_RUN";
/// How long a leftover may take to end before it is killed.
const LEFTOVER_GRACE: Duration = Duration::from_millis(500);
/// How long whoever ended a run may take to let go of its session: to tell everybody, and for the last copy.
pub const GOODBYE_PATIENCE: Duration = Duration::from_secs(5);
/// How long to wait for somebody else who clears up: the proof has its time, and so has the disk.
pub const HEALER_PATIENCE: Duration = PROOF_PATIENCE.saturating_mul(2);
/// Whoever looks at the run's lock has it for an instant; proving it free must outwait them.
const RUN_LOCK_PATIENCE: Duration = Duration::from_millis(200);

/// The value of [`MARK`] for a run.
pub fn mark(id: &SessionId, epoch: Epoch) -> String {
    format!("{id}:{epoch}")
}

/// Ends what is left of a run whose keeper is gone, as [`Lease::open_journal`] proved. The lease must be held. Says what was
/// ended; the error names what is left and why.
pub fn end_leftovers(files: &SessionFiles, session: &Session) -> Result<Vec<String>, Vec<String>> {
    // The locks are free, and yet this may be a copy, or a disk that was moved while the other host runs on.
    if let Some(why) = elsewhere(session) {
        return Err(vec![why]);
    }
    // Nothing survives a reboot, and a number from before it means another process now.
    let ended = if is_of_another_boot(session) { vec![] } else { end_by_evidence(files, session)? };
    // Nobody we could find, and nobody we could not tell. The run's lock is the proof: free means that
    // no process inherited it and lives.
    match run_lock_is_free(files) {
        Ok(true) => Ok(ended),
        Ok(false) => Err(vec!["a process we cannot see holds the run's lock".to_owned()]),
        Err(error) => Err(vec![format!("cannot check the run's lock: {error}")]),
    }
}

fn end_by_evidence(files: &SessionFiles, session: &Session) -> Result<Vec<String>, Vec<String>> {
    let contained = Contained::of(session, files.id())
        .map_err(|error| vec![format!("cannot look into the run's control group: {error}")])?;
    if let Some(other) = contained.used_elsewhere(files) {
        return Err(vec![format!("its control group belongs to {}: is this a copy of it?", other.display())]);
    }
    end(&contained, || find(files, session, &contained))
}

/// Ends the processes in the group of a run that is over, and removes the group. Returns the processes that it ended.
pub(crate) fn end_group(path: &Path, name: &str, files: &SessionFiles) -> Result<Vec<String>, Vec<String>> {
    let trouble = |error: std::io::Error| vec![format!("cannot look into it: {error}")];
    let contained = Contained::known(path, name).map_err(trouble)?;
    if let Some(other) = contained.used_elsewhere(files) {
        return Err(vec![format!("it belongs to {}: is this a copy of it?", other.display())]);
    }
    // A directory that was replaced by an older copy knows nothing of the run that its keeper is in.
    match files.keeper_started_here() {
        Ok(None) => {}
        Ok(Some((pid, _))) => return Err(vec![format!("the session has a keeper, pid {pid}")]),
        Err(error) => return Err(trouble(error)),
    }
    if contained.has_unseen() {
        return Err(vec!["a process is in it that cannot be seen from here".to_owned()]);
    }
    end(&contained, || {
        let mut found = Found::default();
        match members_of(&contained) {
            Ok(members) => found.add(members),
            Err(error) => found.untold.extend(trouble(error)),
        }
        found
    })
}

/// Who is found of a run.
#[derive(Default)]
struct Found {
    ours: Vec<(Identity, Pidfd)>,
    /// What could not be told, and why.
    untold: Vec<String>,
}

impl Found {
    fn add(&mut self, candidates: Vec<Identity>) {
        for candidate in candidates {
            match candidate.check() {
                Verdict::Alive(pidfd) => self.ours.push((candidate, pidfd)),
                Verdict::Gone => {}
                Verdict::CannotTell(why) => self.untold.push(format!("pid {}: {why}", candidate.pid)),
            }
        }
    }
}

/// Asks whoever is found to end, then kills them, until nobody is found and nobody is in the group.
fn end(contained: &Contained, mut find: impl FnMut() -> Found) -> Result<Vec<String>, Vec<String>> {
    // Looking for them may take long on a busy host, and is not part of the time they are given.
    let mut asked_at: Option<Instant> = None;
    let mut killed_at: Option<Instant> = None;
    let mut ended = Vec::new();
    let mut ours: Vec<(Identity, Pidfd)> = Vec::new();
    loop {
        let Found { ours: found, untold } = find();
        // What was proven ours once stays so until it ends, also if what proved it is gone by now.
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
            let name = stat(identity.pid).map(|stat| stat.comm).unwrap_or_default();
            let told = format!("pid {} ({name})", identity.pid);
            if !ended.contains(&told) {
                ended.push(told);
            }
            // One that may not be signalled is still there in the end, and told with the reason.
            let _ = pidfd.signal(signal.as_raw());
        }
        if ours.is_empty() {
            // Somebody is in the group whom we cannot see; only the kernel can end them.
            std::thread::sleep(Duration::from_millis(10));
        }
        let limit = if patient { LEFTOVER_GRACE } else { Duration::from_millis(50) };
        wait_for_exit(ours.iter().map(|(_, pidfd)| pidfd), limit);
        let since_killed = killed_at.map_or(Duration::ZERO, |at| at.elapsed());
        if since_killed > PROOF_PATIENCE {
            let still = ours.iter().filter(|(_, pidfd)| !pidfd.has_exited());
            let mut left: Vec<_> = still.map(|(identity, _)| why_it_stays(identity.pid)).collect();
            if left.is_empty() && !contained.is_empty() {
                left.push("a process that we cannot see is in the run's control group".to_owned());
            }
            left.extend(untold);
            if left.is_empty() && since_killed < 2 * PROOF_PATIENCE {
                // They did end. Whether that was all is for the next look to say.
                continue;
            }
            if left.is_empty() {
                left.push("it starts processes faster than they can be found".to_owned());
            }
            return Err(left);
        }
    }
}

/// Brings a session whose keeper died to its recorded end: what is left of the run is ended, and
/// the loss is written down. Does nothing to a session that has a keeper, or needs no healing; if
/// somebody else is healing it, that is waited for. Says what was ended.
pub fn heal(home: &Home, id: &SessionId) -> Result<Vec<String>, Problem> {
    let files = home.session(id);
    let Some(mut held) = claim_to_heal(&files)? else { return Ok(vec![]) };
    let session = &held.owner.history().session;
    if !session.is_live() {
        return Ok(vec![]);
    }
    tracing::info!(session = %id, "its keeper died: bringing its last run to an end");
    // It says that the session runs, and would be believed while we hold the lease.
    held.doubt_short_cut()?;
    let ended = end_leftovers(&files, session).map_err(|left| {
        Problem::new(
            Code::Refused,
            format!("session {id} lost its keeper, and what it ran is not proven gone: {}", left.join("; ")),
        )
        .hint(format!("end what is named there; `berth why {id}` shows the evidence"))
    })?;
    let reports = gone(held.owner.history(), &files);
    held.take(reports)?;
    held.release()?;
    Ok(ended)
}

/// Clears up after the session that wrote a conversation last, if its keeper died: what it ran may still write, and a
/// session that wants the conversation would be refused because of it.
pub fn heal_last_writer(home: &Home, kind: &str, id: &str) {
    if let Some(last) = conversations::last_writer(home, kind, id) {
        // If that does not succeed, the claim is refused with who it is.
        let _ = heal(home, &last);
    }
}

/// What is to be recorded of a run whose keeper died, once nothing of it is left: how its turn came out, as
/// far as that can be told, and the loss.
pub(crate) fn gone(history: &History, files: &SessionFiles) -> Vec<Input> {
    let session = &history.session;
    let current = session.turns.current.as_ref().map(|current| current.turn);
    let over = current.zip(turn::of_lost_run(history, files));
    let over = over.map(|(turn, end)| Observation::TurnOver { turn, end });
    let gone = Observation::KeeperGone { epoch: session.epoch };
    over.into_iter().chain([gone]).map(Input::Report).collect()
}

/// The answer to who cannot wait any longer for somebody else to clear up.
pub fn is_being_healed(session: &str) -> Problem {
    let what = format!("session `{session}` is held: another command is clearing up after its keeper");
    Problem::new(Code::Held, what).hint(format!("try again; `berth why {session}` shows who it is"))
}

/// Claims a session that needs healing; `None` if it turns out to need none.
fn claim_to_heal(files: &SessionFiles) -> Result<Option<Held<'_>>, Problem> {
    let id = files.id();
    let until = Instant::now() + HEALER_PATIENCE;
    let mut pause = Duration::from_millis(1);
    while files.past()?.history.session.is_live() {
        if let Some(held) = Held::claim(files)? {
            return Ok(Some(held));
        }
        // Whoever has it listens if it is a keeper, and does not while it clears up.
        if files.connect(String::new(), QUEUE_PATIENCE).is_ok() {
            return Ok(None);
        }
        files.refuse_stranger(id.as_str())?;
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
    let files = home.session(id);
    let Some(mut held) = Held::claim(&files)? else {
        files.refuse_stranger(id.as_str())?;
        let what = format!("session {id} is being started or ended by another command");
        return Err(Problem::new(Code::Held, what).hint("try again"));
    };
    held.take(vec![Input::Command(command)])?;
    held.release()
}

/// Puts a session away that nothing happened in for so long. Says whether it did: if something happened
/// meanwhile, or somebody has it, that is not so. The run must be recorded as over.
pub fn archive_at_rest(home: &Home, id: &SessionId, rest_ms: u64, by: Actor) -> Result<bool, Problem> {
    let files = home.session(id);
    let Some(mut held) = Held::claim(&files)? else { return Ok(false) };
    let status = files.describe(held.owner.history(), false);
    let is_at_rest = !held.owner.history().session.is_live()
        && clock::wall_ms().saturating_sub(status.last_activity_at.0) >= rest_ms;
    if is_at_rest {
        held.take(vec![Input::Command(Command::Archive { by })])?;
        held.release()?;
    }
    Ok(is_at_rest)
}

/// A session in our hands, without a run.
struct Held<'a> {
    files: &'a SessionFiles,
    owner: JournaledSession,
    /// What happened that people may want to know.
    told: Vec<Told>,
    lease: Lease,
}

impl<'a> Held<'a> {
    fn claim(files: &'a SessionFiles) -> Result<Option<Self>, Problem> {
        let id = files.id();
        let claimed = files.claim().map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => store::no_session(id),
            _ => Problem::new(Code::Refused, format!("cannot claim session {id}: {error}")),
        })?;
        let Some(lease) = claimed else { return Ok(None) };
        let (owner, torn) = JournaledSession::open(&lease)?;
        let session = &owner.history().session;
        if let Ok(me) = Identity::me() {
            // For people only: a disk too full for it must not keep us from clearing up.
            let _ = lease.sign(&me, session.epoch.0);
        }
        // What was never made gets no first event.
        let torn = torn.filter(|_| session.spec.is_some());
        let mut held = Self { files, owner, told: vec![], lease };
        if let Some(what) = torn {
            // At once: nobody will find the torn end again, whatever becomes of what we came for.
            held.take(vec![Input::Note(Event::Warned { what })])?;
        }
        Ok(Some(held))
    }

    fn doubt_short_cut(&self) -> Result<(), Problem> {
        self.files.doubt_short_cut().map_err(|error| {
            Problem::new(Code::Refused, format!("cannot change session {}: {error}", self.files.id()))
        })
    }

    fn take(&mut self, inputs: Vec<Input>) -> Result<(), Problem> {
        let now = Now { wall_ms: clock::wall_ms(), boot_ms: clock::boot_ms() };
        if let Some(refusal) = self.owner.refusal(&inputs, now) {
            // Nothing changes, and the short cut keeps its word.
            return Err(berth_api::problem::refusal(&refusal, &self.handle()));
        }
        self.lease.confirm()?;
        self.doubt_short_cut()?;
        let taken = self
            .owner
            .take(inputs, now)
            .map_err(|error| store::journal_problem(&error, self.files.id().as_str()))?;
        self.told.extend(notify::worth_telling(&self.owner.history().session, &taken.events));
        match taken.answers.into_iter().find_map(Result::err) {
            Some(refusal) => Err(berth_api::problem::refusal(&refusal, &self.handle())),
            None => Ok(()),
        }
    }

    /// How people address it: the name, else the id.
    fn handle(&self) -> String {
        let name = self.owner.history().session.name.as_ref();
        name.map_or_else(|| self.files.id().to_string(), ToString::to_string)
    }

    fn release(self) -> Result<(), Problem> {
        let status = self.files.describe(self.owner.history(), false);
        let closed = self.owner.close();
        // After the seal: one of a session that can go on is believed only while its journal is as it says.
        self.files.write_short_cut(&status);
        killpoint::reached("healed");
        notify::tell(self.files, &self.told, Teller::Command, &mut Known::default());
        closed.map_err(|error| store::journal_problem(&error, self.files.id().as_str()))
    }
}

fn is_of_another_boot(session: &Session) -> bool {
    let of_another = |keeper: &Process| identity(keeper).is_of_another_boot().unwrap_or(false);
    session.keeper.as_ref().is_some_and(of_another)
}

/// Why a process that was killed is still there, for people.
pub(crate) fn why_it_stays(pid: u32) -> String {
    let stat = match stat(pid) {
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

fn find(files: &SessionFiles, session: &Session, contained: &Contained) -> Found {
    let mut found = Found::default();
    let mut candidates: Vec<Identity> = session.agent().map(identity).into_iter().collect();
    match members_of(contained) {
        Ok(members) => candidates.extend(members),
        Err(error) => found.untold.push(format!("cannot look into the run's control group: {error}")),
    }
    let mark = mark(files.id(), session.epoch);
    for carriers in [files.run_lock_carriers(), tree::with_mark(MARK, &mark)] {
        match carriers {
            Ok(carriers) => candidates.extend(carriers.processes),
            Err(error) => found.untold.push(format!("cannot look through /proc: {error}")),
        }
    }
    candidates.sort_by_key(|identity| identity.pid);
    candidates.dedup();
    candidates.retain(|candidate| candidate.pid != std::process::id());
    // A copy of this session has the same marks and group names, and its processes have their own keeper.
    candidates.retain(|candidate| foreign::kept_elsewhere(candidate.pid, files).is_none());
    found.add(candidates);
    let below = held_below(&found.ours);
    found.ours.extend(below);
    found
}

/// Who is in the run's group. Listed twice with their identities read in between: a number that changed
/// hands meanwhile is then not in the second list, or is in it by right.
fn members_of(contained: &Contained) -> std::io::Result<Vec<Identity>> {
    let list =
        || contained.members().and_then(|members| foreign::split(&members.pids)).map(|split| split.ours);
    let members: Vec<Identity> = list()?.into_iter().filter_map(|pid| Identity::of(pid).ok()).collect();
    let again = list()?;
    Ok(members.into_iter().filter(|identity| again.contains(&identity.pid)).collect())
}

/// What is below processes of the run, and so is of the run, whatever it closed or cleared.
///
/// Listed twice with the processes held open in between: a number that changed hands meanwhile is
/// then either not in the second list or not the process we hold.
pub(crate) fn held_below(parents: &[(Identity, Pidfd)]) -> Vec<(Identity, Pidfd)> {
    let list = || -> BTreeSet<u32> {
        let all = census().unwrap_or_default();
        let alive = parents.iter().filter(|(_, pidfd)| !pidfd.has_exited());
        alive.flat_map(|(parent, _)| foreign::below_in(&all, parent.pid).ours).collect()
    };
    let known: BTreeSet<u32> = parents.iter().map(|(parent, _)| parent.pid).collect();
    let held = list().into_iter().filter(|pid| !known.contains(pid)).filter_map(|pid| {
        let identity = Identity::of(pid).ok()?;
        match identity.check() {
            Verdict::Alive(pidfd) => Some((identity, pidfd)),
            Verdict::Gone | Verdict::CannotTell(_) => None,
        }
    });
    let held: Vec<(Identity, Pidfd)> = held.collect();
    let again = if held.is_empty() { BTreeSet::new() } else { list() };
    held.into_iter().filter(|(identity, _)| again.contains(&identity.pid)).collect()
}

fn run_lock_is_free(files: &SessionFiles) -> std::io::Result<bool> {
    files.run_lock()?.acquire(RUN_LOCK_PATIENCE)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn a_look_at_the_runs_lock_does_not_make_a_dead_run_seem_alive() {
        let dir = std::env::temp_dir().join(format!("berth-run-lock-{}", std::process::id()));
        let home = Home::open(dir.clone()).expect("a state directory");
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
        std::fs::remove_dir_all(&dir).expect("our own directory");
    }
}
