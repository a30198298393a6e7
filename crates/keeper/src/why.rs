//! The evidence behind what is said of a session: lease, journal, processes, control group, output.
//!
//! Promise: looking changes nothing.
//! Start with [`why`].

use std::fs;

use berth_api::{Problem, SessionState, TurnState};
use berth_core::{Expiry, Grant, Limits, Phase, Session, SessionId, Spec, State};
use berth_host::identity::Verdict;
use berth_host::lock::Probe;
use berth_host::{clock, identity};
use berth_store::view::{self, Holding};
use berth_store::{History, Home, process};
use schemars::JsonSchema;
use serde::Serialize;

use crate::boundary;

/// Why a session is said to be in its state.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct Why {
    /// The session.
    pub id: String,
    /// What people call it.
    pub name: Option<String>,
    /// The claim.
    pub state: SessionState,
    /// The facts behind it.
    pub evidence: Vec<Fact>,
    /// What would change the claim, as a sentence.
    pub would_change: String,
}

/// A fact, where it comes from, and how old it is.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct Fact {
    /// Where it comes from.
    pub source: &'static str,
    /// It.
    pub fact: String,
    /// Its age; 0 for what was just looked at.
    pub age_ms: u64,
}

/// Collects the evidence.
pub fn why(home: &Home, id: &SessionId) -> Result<Why, Problem> {
    let files = home.session(id);
    let (history, lease) = view::history_and_lease(home, id)?;
    let session = &history.session;
    let now = clock::wall_ms();
    let mut evidence = Vec::new();

    let kept = lease.is_kept();
    let holder = files.lease_holder();
    let lease = match lease {
        Holding::Strange(stranger) => format!(
            "locked by another program, {}: there is no keeper, and none can start until that program lets go",
            stranger.describe()
        ),
        Holding::Kept if !files.has_locked_lease() => format!(
            "the lease file was removed or replaced; its keeper still holds the directory, and ends its run at the \
             next request ({holder})"
        ),
        Holding::Kept => format!("held ({holder})"),
        Holding::Cleared => format!("held, but not by its keeper: another command is clearing up ({holder})"),
        Holding::Free => "free: there is no keeper".to_owned(),
    };
    evidence.push(Fact { source: "lease", fact: lease, age_ms: 0 });

    if let Some(last) = files.read_range(history.seq, history.seq, usize::MAX)?.first() {
        let told = serde_json::to_value(last.get().entry()).unwrap_or_default();
        let kind = told.get("event").and_then(|kind| kind.as_str()).unwrap_or("?").to_owned();
        let fact = format!("last event: {kind} (number {})", history.seq);
        evidence.push(Fact { source: "journal", fact, age_ms: now.saturating_sub(last.get().at_ms) });
    }
    if let Some(agent) = session.agent() {
        let verdict = match process::identity(agent).check() {
            Verdict::Alive(_) => "is alive".to_owned(),
            Verdict::Gone => "is gone".to_owned(),
            Verdict::CannotTell(why) => format!("cannot be told: {why}"),
        };
        evidence.push(Fact {
            source: "process",
            fact: format!("agent, pid {}, {verdict}", agent.pid),
            age_ms: 0,
        });
    }
    if let Some(keeper) = session.keeper.as_ref().filter(|_| kept) {
        let stopped = identity::stat(keeper.pid).is_ok_and(|stat| stat.state == 'T');
        let note = if stopped { ", and is suspended (SIGSTOP)" } else { "" };
        let cgroup = fs::read_to_string(format!("/proc/{}/cgroup", keeper.pid)).unwrap_or_default();
        let place = cgroup.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or("?").to_owned();
        let fact = format!("keeper, pid {}, is in control group {place}{note}", keeper.pid);
        evidence.push(Fact { source: "process", fact, age_ms: 0 });
    }
    if session.epoch.0 > 0 {
        evidence.push(Fact { source: "boundary", fact: boundary_fact(session, id), age_ms: 0 });
    }
    match files.probe_run_lock() {
        Ok(Some(Probe::Held)) => {
            let fact = "held: something of the run is there".to_owned();
            evidence.push(Fact { source: "run lock", fact, age_ms: 0 });
        }
        Ok(Some(Probe::Free)) => {
            let fact = "free: nothing of the last run is left on this host".to_owned();
            evidence.push(Fact { source: "run lock", fact, age_ms: 0 });
        }
        Ok(None) | Err(_) => {}
    }
    let output = files.output();
    if let Some(written) = output.written_at_ms() {
        let end = output.end().unwrap_or(0);
        let fact = format!("{end} bytes, last written");
        evidence.push(Fact { source: "output", fact, age_ms: now.saturating_sub(written) });
    }
    if let Phase::Ending(ending) = &session.phase {
        for left in &ending.left {
            evidence.push(Fact { source: "left over", fact: left.clone(), age_ms: 0 });
        }
    }

    evidence.extend(session.spec.as_ref().map(grant_fact));
    evidence.extend(turn_facts(session, id, kept));
    evidence.extend(edge_fact(&history, kept, now));

    let state = session.state(kept);
    let would_change = what_would_change(state, id);
    Ok(Why {
        id: id.to_string(),
        name: session.name.as_ref().map(ToString::to_string),
        state: state.into(),
        evidence,
        would_change,
    })
}

/// What whoever is inside may ask of berth.
fn grant_fact(spec: &Spec) -> Fact {
    let given = match spec.grant {
        Grant::Nothing => "none: what is inside may look, start sessions, and see to those".to_owned(),
        Grant::Send => "send: what is inside may send to any session".to_owned(),
        Grant::Control => "control: what is inside may end and answer any session".to_owned(),
        Grant::Admin => "admin: what is inside may do everything".to_owned(),
    };
    let parent = spec.parent.as_ref().map(|parent| format!("; started in session {parent}"));
    Fact { source: "grant", fact: given + &parent.unwrap_or_default(), age_ms: 0 }
}

/// What is known about the turns of an agent that takes them.
fn turn_facts(session: &Session, id: &SessionId, kept: bool) -> Vec<Fact> {
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
        format!("the queue is held: {}", berth_api::turn::Hold::from(hold).describe(id.as_str()))
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
    // One of another boot begins anew with the next run.
    let of_this_boot = |expiry: &&Expiry| identity::boot().is_ok_and(|boot| expiry.boot.0 == boot);
    facts.extend(session.expiry.as_ref().filter(of_this_boot).map(|expiry| {
        format!(
            "the session's time is up in {} s (boot clock), if the host runs on",
            in_seconds(expiry.boot_ms)
        )
    }));
    facts.extend(
        session.released.clone().map(|why| {
            format!("berth ended the last run: {}", berth_api::turn::Release::from(why).describe())
        }),
    );
    facts.into_iter().map(|fact| Fact { source: "turns", fact, age_ms: 0 }).collect()
}

/// What the agent in a terminal told, or that it tells nothing.
fn edge_fact(history: &History, kept: bool, now: u64) -> Option<Fact> {
    let session = &history.session;
    let runs = kept && matches!(session.phase, Phase::Running { .. });
    if !runs || !session.has_terminal() {
        return None;
    }
    Some(match (history.told(), session.tells) {
        (Some(told), _) => Fact { source: "hooks", fact: told.how, age_ms: now.saturating_sub(told.at.0) },
        (None, true) => {
            Fact { source: "hooks", fact: "none has told anything in this run".to_owned(), age_ms: 0 }
        }
        (None, false) => {
            let fact = "none: nothing tells whether what runs in the terminal works or waits".to_owned();
            Fact { source: "hooks", fact, age_ms: 0 }
        }
    })
}

/// What holds the current or last run together, and what that is worth.
fn boundary_fact(session: &Session, id: &SessionId) -> String {
    let always = "the keeper adopts its orphans, and what it starts inherits a lock and a mark";
    let Some(path) = &session.boundary.cgroup else {
        let why = session.boundary.missing.as_deref().unwrap_or("none was made");
        return format!(
            "no control group ({why}); {always}. If the keeper is killed with -9, a process that cleared its \
             environment and closed its files may be missed; `berth doctor` says how to get one"
        );
    };
    let members =
        boundary::group_of(session, id).and_then(|group| group.map(|group| group.members()).transpose());
    let now = match members {
        Ok(Some(members)) => format!("with {} processes", members.pids.len() + members.unseen),
        Ok(None) => "which is gone: no process is in it".to_owned(),
        Err(error) => format!("which cannot be looked into: {error}"),
    };
    let limits = session.spec.as_ref().map(|spec| limit_words(&spec.limits)).unwrap_or_default();
    format!("control group {path}, {now}{limits}; {always}")
}

fn limit_words(limits: &Limits) -> String {
    let words = [
        limits.memory_bytes.map(|bytes| format!("{bytes} bytes of memory")),
        limits.processes.map(|count| format!("{count} processes and threads")),
        limits.cpu_percent.map(|percent| format!("{percent} % of a core")),
    ];
    let words: Vec<String> = words.into_iter().flatten().collect();
    if words.is_empty() { String::new() } else { format!(", limited to {}", words.join(", ")) }
}

fn what_would_change(state: State, id: &SessionId) -> String {
    match state {
        State::Starting => "it would change by the agent's process appearing, or failing to".to_owned(),
        State::Running => {
            format!("it would change by the agent's process ending, its keeper dying, or `berth stop {id}`")
        }
        State::Working | State::NeedsYou | State::Idle => {
            format!("it would change by a turn beginning or ending, or `berth stop {id}`")
        }
        State::Archived => {
            format!(
                "nothing changes it but `berth restore {id}`, or `berth resume {id}`, which starts it, too"
            )
        }
        State::Stopping => "it would change by the last process of the run ending".to_owned(),
        State::Stopped | State::Lost => {
            format!("nothing changes it but `berth resume {id}`, which starts the next run")
        }
    }
}
