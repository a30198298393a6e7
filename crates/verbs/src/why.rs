//! The evidence behind the reported state of a session: lease, journal, processes, control group, output.
//!
//! Promise: collecting evidence changes nothing.
//! Not here: printing it (see the CLI).
//! Start with [`why`].

use std::fs;

use berth_api::{Problem, SessionState, TurnState};
use berth_core::{
    Grant, RunLimits, RunPhase, Session, SessionExpiry, SessionId, SessionSpec, SessionState as CoreState,
};
use berth_host::identity::ProcessLiveness;
use berth_host::lock::LockState;
use berth_host::{clock, identity};
use berth_procs::attribution::EvidenceFact;
use berth_procs::run_cgroups;
use berth_store::session_status::{self, LeaseHolder};
use berth_store::{SessionView, StateDir, process_ref};
use schemars::JsonSchema;
use serde::Serialize;

/// The evidence behind the reported state of a session.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct StateExplanation {
    /// The id of the session.
    pub id: String,
    /// The name of the session, if it has one.
    pub name: Option<String>,
    /// The state that is claimed.
    pub state: SessionState,
    /// The facts behind the claim.
    pub evidence: Vec<EvidenceFact>,
    /// The events that would change the claim, as a sentence.
    pub would_change: String,
}

/// Collects the evidence.
pub fn why(home: &StateDir, id: &SessionId) -> Result<StateExplanation, Problem> {
    let files = home.session(id);
    let (history, lease) = session_status::history_and_lease(home, id)?;
    let session = &history.session;
    let now = clock::wall_ms();
    let mut evidence = Vec::new();

    let kept = lease.is_kept();
    let holder = files.lease_holder();
    let lease = match lease {
        LeaseHolder::Strange(stranger) => format!(
            "locked by another program, {}: there is no keeper, and none can start until that program lets go",
            stranger.describe()
        ),
        LeaseHolder::Kept if !files.has_locked_lease() => format!(
            "the lease file was removed or replaced; its keeper still holds the directory, and ends its run at the \
             next request ({holder})"
        ),
        LeaseHolder::Kept => format!("held ({holder})"),
        LeaseHolder::Cleared => {
            format!("held, but not by its keeper: another command is clearing up ({holder})")
        }
        LeaseHolder::Free => "free: there is no keeper".to_owned(),
    };
    evidence.push(EvidenceFact { source: "lease", fact: lease, age_ms: 0 });

    if let Some(last) = files.read_range(history.seq, history.seq, usize::MAX)?.first() {
        let told = serde_json::to_value(last.get().entry()).unwrap_or_default();
        let kind = told.get("event").and_then(|kind| kind.as_str()).unwrap_or("?").to_owned();
        let fact = format!("last event: {kind} (number {})", history.seq);
        evidence.push(EvidenceFact { source: "journal", fact, age_ms: now.saturating_sub(last.get().at_ms) });
    }
    if let Some(agent) = session.agent() {
        let verdict = match process_ref::to_process_identity(agent).check() {
            ProcessLiveness::Alive(_) => "is alive".to_owned(),
            ProcessLiveness::Gone => "is gone".to_owned(),
            ProcessLiveness::CannotTell(why) => format!("unknown: {why}"),
        };
        evidence.push(EvidenceFact {
            source: "process",
            fact: format!("agent, pid {}, {verdict}", agent.pid),
            age_ms: 0,
        });
    }
    if let Some(keeper) = session.keeper.as_ref().filter(|_| kept) {
        let stopped = identity::process_stat(keeper.pid).is_ok_and(|stat| stat.state == 'T');
        let note = if stopped { ", and is suspended (SIGSTOP)" } else { "" };
        let cgroup = fs::read_to_string(format!("/proc/{}/cgroup", keeper.pid)).unwrap_or_default();
        let place = cgroup.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or("?").to_owned();
        let fact = format!("keeper, pid {}, is in control group {place}{note}", keeper.pid);
        evidence.push(EvidenceFact { source: "process", fact, age_ms: 0 });
    }
    if session.epoch.0 > 0 {
        evidence.push(EvidenceFact { source: "boundary", fact: boundary_fact(session, id), age_ms: 0 });
    }
    match files.probe_run_lock() {
        Ok(Some(LockState::Held)) => {
            let fact = "held: a process of the run is alive".to_owned();
            evidence.push(EvidenceFact { source: "run lock", fact, age_ms: 0 });
        }
        Ok(Some(LockState::Free)) => {
            let fact = "free: nothing of the last run is left on this host".to_owned();
            evidence.push(EvidenceFact { source: "run lock", fact, age_ms: 0 });
        }
        Ok(None) | Err(_) => {}
    }
    let output = files.output();
    if let Some(written) = output.written_at_ms() {
        let end = output.end().unwrap_or(0);
        let fact = format!("{end} bytes, last written");
        evidence.push(EvidenceFact { source: "output", fact, age_ms: now.saturating_sub(written) });
    }
    if let RunPhase::Ending(ending) = &session.phase {
        for left in &ending.left {
            evidence.push(EvidenceFact { source: "left over", fact: left.clone(), age_ms: 0 });
        }
    }

    evidence.extend(session.spec.as_ref().map(grant_fact));
    evidence.extend(turn_facts(session, id, kept));
    evidence.extend(edge_fact(&history, kept, now));

    let state = session.state(kept);
    let would_change = what_would_change(state, id);
    Ok(StateExplanation {
        id: id.to_string(),
        name: session.name.as_ref().map(ToString::to_string),
        state: state.into(),
        evidence,
        would_change,
    })
}

/// The rights of processes inside the session.
fn grant_fact(spec: &SessionSpec) -> EvidenceFact {
    let given = match spec.grant {
        Grant::Nothing => "none: processes inside may look, start sessions, and manage those".to_owned(),
        Grant::Send => "send: processes inside may send to any session".to_owned(),
        Grant::Control => "control: processes inside may end and answer any session".to_owned(),
        Grant::Admin => "admin: processes inside may do everything".to_owned(),
    };
    let parent = spec.parent.as_ref().map(|parent| format!("; started in session {parent}"));
    EvidenceFact { source: "grant", fact: given + &parent.unwrap_or_default(), age_ms: 0 }
}

/// The facts about the turns of an agent that takes them.
fn turn_facts(session: &Session, id: &SessionId, kept: bool) -> Vec<EvidenceFact> {
    let boot_ms = clock::boot_ms();
    let mut facts = Vec::new();
    if let Some(conversation) = &session.conversation {
        let lock = if kept { "locked by this keeper" } else { "not locked by us" };
        facts.push(format!("the agent's own id is {}, {lock}", conversation.id));
    }
    let turns = &session.turns;
    if let Some(current) = &turns.current {
        let state = turns.open(current.turn).map(|turn| TurnState::from(turn.state).to_string());
        facts.push(format!("turn {id}.{} is {}", current.turn, state.as_deref().unwrap_or("?")));
    }
    if !turns.queue.is_empty() {
        facts.push(format!("{} turns wait", turns.queue.len()));
    }
    facts.extend(turns.hold.clone().map(|hold| {
        format!("the queue is held: {}", berth_api::turn::QueueHold::from(hold).describe(id.as_str()))
    }));
    facts.extend(turns.asks.iter().map(|ask| format!("the agent asks {}: {}", ask.request, ask.tool)));
    let in_seconds = |at: u64| at.saturating_sub(boot_ms).div_ceil(1000);
    facts.extend(
        session
            .release_at_boot_ms()
            .filter(|_| kept)
            .map(|at| format!("the agent is idle and will be paused in {} s (boot clock)", in_seconds(at))),
    );
    let policy = session.spec.as_ref().map(|spec| spec.policy.clone()).unwrap_or_default();
    facts.extend(policy.idle_ms.map(|ms| format!("an idle agent is paused after {} s", ms / 1000)));
    // The clock of another boot does not count: the time begins anew with the next run.
    let of_this_boot = |expiry: &&SessionExpiry| identity::boot_id().is_ok_and(|boot| expiry.boot.0 == boot);
    facts.extend(session.expiry.as_ref().filter(of_this_boot).map(|expiry| {
        format!(
            "the session's time is up in {} s (boot clock), if the host runs on",
            in_seconds(expiry.boot_ms)
        )
    }));
    facts.extend(session.released.clone().map(|why| {
        format!("berth ended the last run: {}", berth_api::turn::ReleaseReason::from(why).describe())
    }));
    facts.into_iter().map(|fact| EvidenceFact { source: "turns", fact, age_ms: 0 }).collect()
}

/// The report of the agent in a terminal about its turn, or that it reports nothing.
fn edge_fact(history: &SessionView, kept: bool, now: u64) -> Option<EvidenceFact> {
    let session = &history.session;
    let runs = kept && matches!(session.phase, RunPhase::Running { .. });
    if !runs || !session.has_terminal() {
        return None;
    }
    Some(match (history.last_report(), session.tells) {
        (Some(told), _) => {
            EvidenceFact { source: "hooks", fact: told.how, age_ms: now.saturating_sub(told.at.0) }
        }
        (None, true) => EvidenceFact {
            source: "hooks",
            fact: "no hook has reported anything in this run".to_owned(),
            age_ms: 0,
        },
        (None, false) => {
            let fact = "none: nothing tells whether the program in the terminal works or waits".to_owned();
            EvidenceFact { source: "hooks", fact, age_ms: 0 }
        }
    })
}

/// The boundary of the current or last run, and how much it proves.
fn boundary_fact(session: &Session, id: &SessionId) -> String {
    let always = "the keeper adopts its orphans, and its processes inherit a lock and a mark";
    let Some(path) = &session.boundary.cgroup else {
        let why = session.boundary.missing.as_deref().unwrap_or("none was made");
        return format!(
            "no control group ({why}); {always}. If the keeper is killed with -9, a process that cleared its \
             environment and closed its files may be missed; `berth doctor` says how to get one"
        );
    };
    let members =
        run_cgroups::run_group(session, id).and_then(|group| group.map(|group| group.members()).transpose());
    let now = match members {
        Ok(Some(members)) => format!("with {} processes", members.pids.len() + members.unseen),
        Ok(None) => "which is gone: no process is in it".to_owned(),
        Err(error) => format!("which cannot be read: {error}"),
    };
    let limits = session.spec.as_ref().map(|spec| limit_words(&spec.limits)).unwrap_or_default();
    format!("control group {path}, {now}{limits}; {always}")
}

fn limit_words(limits: &RunLimits) -> String {
    let words = [
        limits.memory_bytes.map(|bytes| format!("{bytes} bytes of memory")),
        limits.processes.map(|count| format!("{count} processes and threads")),
        limits.cpu_percent.map(|percent| format!("{percent} % of a core")),
    ];
    let words: Vec<String> = words.into_iter().flatten().collect();
    if words.is_empty() { String::new() } else { format!(", limited to {}", words.join(", ")) }
}

fn what_would_change(state: CoreState, id: &SessionId) -> String {
    match state {
        CoreState::Starting => "changes when the agent's process starts, or fails to start".to_owned(),
        CoreState::Running => {
            format!("changes when the agent's process ends or its keeper dies, or with `berth stop {id}`")
        }
        CoreState::Working | CoreState::NeedsYou | CoreState::Idle => {
            format!("changes when a turn begins or ends, or with `berth stop {id}`")
        }
        CoreState::Archived => {
            format!(
                "changes only with `berth restore {id}`, or with `berth resume {id}`, which also starts it"
            )
        }
        CoreState::Stopping => "changes when the last process of the run ends".to_owned(),
        CoreState::Stopped | CoreState::Lost => {
            format!("changes only with `berth resume {id}`, which starts the next run")
        }
    }
}
