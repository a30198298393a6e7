//! Metrics about sessions, helpers and their turns.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use berth_api::{SessionState, TurnState};
use berth_core::{Event, SessionId};
use berth_procs::session_processes::ProcessSnapshot;
use berth_store::{StateDir, session_status};
use berth_verbs::sweep;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

/// Outcomes of turns: one that no turn had is reported as zero.
const OUTCOMES: [TurnState; 5] =
    [TurnState::Done, TurnState::Failed, TurnState::Cancelled, TurnState::Interrupted, TurnState::Unknown];
/// Buckets from an agent that waits for its prompt to a queue overnight.
const WAIT_SECONDS: [f64; 10] = [0.05, 0.25, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14400.0];
/// Buckets from a one-word answer to a day's work.
const TURN_SECONDS: [f64; 10] = [1.0, 5.0, 15.0, 30.0, 60.0, 180.0, 600.0, 1800.0, 3600.0, 14400.0];
/// Size of the events that are read at once, in bytes.
const PAGE_BYTES: usize = 1 << 20;
/// How long the memory figures are cached: to find them, every process of the machine is read.
const MEMORY_AGE: Duration = Duration::from_secs(10);
/// Number of sessions with a metric of their own: those that use the most memory.
const MAX_NAMED: usize = 100;

/// Metrics about sessions, and how far each journal was read.
#[derive(Debug, Default)]
pub(crate) struct SessionMetrics {
    by_state: Family<StateLabels, Gauge>,
    helpers: Gauge,
    unreadable: Gauge,
    queued: Gauge,
    in_work: Gauge,
    asks: Gauge,
    accepted: Counter,
    ended: Family<OutcomeLabels, Counter>,
    wait_seconds: Option<Histogram>,
    turn_seconds: Option<Histogram>,
    memory: Gauge,
    memory_of: Family<SessionLabels, Gauge>,
    sweeps: Counter,
    left_over: Counter,
    counted: sweep::SweepCounts,
    read: HashMap<SessionId, JournalProgress>,
    memory_at: Option<Instant>,
}

/// How far a journal was read, and its turns that are not over.
#[derive(Debug, Default)]
struct JournalProgress {
    mark: (String, u64),
    seq: u64,
    open: BTreeMap<u64, TurnTimes>,
}

#[derive(Debug, Default)]
struct TurnTimes {
    accepted_at_ms: u64,
    delivered_at_ms: Option<u64>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct StateLabels {
    state: String,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct OutcomeLabels {
    outcome: String,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct SessionLabels {
    session: String,
    id: String,
}

impl SessionMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let wait = Histogram::new(WAIT_SECONDS);
        let turn = Histogram::new(TURN_SECONDS);
        let new =
            Self { wait_seconds: Some(wait.clone()), turn_seconds: Some(turn.clone()), ..Self::default() };
        registry.register("sessions", "Sessions by state", new.by_state.clone());
        registry.register("helpers", "Helpers that run", new.helpers.clone());
        registry.register(
            "sessions_unreadable",
            "Sessions whose record cannot be read",
            new.unreadable.clone(),
        );
        registry.register("turns_queued", "Turns that wait", new.queued.clone());
        registry.register("turns_in_work", "Turns that agents work on", new.in_work.clone());
        registry.register("requests_waiting", "Requests of agents that wait for an answer", new.asks.clone());
        registry.register("turns_accepted", "Turns that were accepted", new.accepted.clone());
        registry.register("turns", "Turns that are over, by outcome", new.ended.clone());
        registry.register_with_unit(
            "turn_wait",
            "Time from accepting a turn to handing it to the agent",
            Unit::Seconds,
            wait,
        );
        registry.register_with_unit(
            "turn_duration",
            "Time from handing a turn to the agent to its end",
            Unit::Seconds,
            turn,
        );
        registry.register_with_unit(
            "sessions_memory",
            "Memory of all sessions, their keepers included",
            Unit::Bytes,
            new.memory.clone(),
        );
        registry.register_with_unit(
            "session_memory",
            "Memory of a session, for those that use the most",
            Unit::Bytes,
            new.memory_of.clone(),
        );
        registry.register("sweeps", "Sweeps of this state directory", new.sweeps.clone());
        registry.register("leftovers_found", "Leftovers that sweeps found", new.left_over.clone());
        for outcome in OUTCOMES {
            drop(new.ended.get_or_create(&OutcomeLabels { outcome: outcome.to_string() }));
        }
        new
    }

    /// Reads all sessions. If they cannot be listed, nothing changes: a journal whose position is forgotten would be
    /// counted twice.
    pub(super) fn update(&mut self, home: &StateDir) {
        let Ok(ids) = home.session_ids() else { return };
        // A state without sessions is reported as zero.
        let mut states: HashMap<SessionState, i64> = SessionState::ALL.map(|state| (state, 0)).into();
        let (mut queued, mut in_work, mut asks, mut unreadable) = (0, 0, 0, 0);
        let mut alive = Vec::new();
        for id in &ids {
            let Ok(status) = session_status::status(home, id) else {
                unreadable += 1;
                continue;
            };
            *states.entry(status.state.clone()).or_default() += 1;
            if let Some(turns) = &status.turns {
                queued += turns.queued.len() as i64;
                in_work += i64::from(turns.current.is_some());
                asks += turns.asks.len() as i64;
            }
            if status.keeper_pid.is_some() {
                alive.push((home.clone(), id.clone(), status.handle().to_owned()));
            }
            self.read_on(home, id);
        }
        // A purged session has no new events; its earlier ones stay counted.
        self.read.retain(|id, _| ids.contains(id));
        for (state, count) in states {
            self.by_state.get_or_create(&StateLabels { state: state.to_string() }).set(count);
        }
        self.queued.set(queued);
        self.in_work.set(in_work);
        self.asks.set(asks);
        self.unreadable.set(unreadable);
        let helpers = running_helpers(home);
        self.helpers.set(helpers.len() as i64);
        alive.extend(helpers);
        self.look_at_memory(&alive);
        let counts = sweep::counts(home);
        self.sweeps.inc_by(counts.sweeps.saturating_sub(self.counted.sweeps));
        self.left_over.inc_by(counts.left_over.saturating_sub(self.counted.left_over));
        // Counters never decrease: a file that is missing for a moment was counted before.
        self.counted.sweeps = self.counted.sweeps.max(counts.sweeps);
        self.counted.left_over = self.counted.left_over.max(counts.left_over);
    }

    /// Counts the new events of a journal.
    fn read_on(&mut self, home: &StateDir, id: &SessionId) {
        let Ok(mark) = session_status::journal_mark(home, id) else { return };
        let mut known = self.read.remove(id).unwrap_or_default();
        if known.mark != mark {
            let mut is_read = true;
            for page in home.session(id).pages(known.seq + 1, PAGE_BYTES) {
                let Ok(events) = page else {
                    is_read = false;
                    break;
                };
                for event in events {
                    known.seq = event.seq().0;
                    self.take_in(&mut known, event.get().at_ms, &event.get().event);
                }
            }
            if is_read {
                known.mark = mark;
            }
        }
        self.read.insert(id.clone(), known);
    }

    fn take_in(&self, known: &mut JournalProgress, at_ms: u64, event: &Event) {
        match event {
            Event::TurnAccepted { turn, .. } => {
                self.accepted.inc();
                known.open.insert(*turn, TurnTimes { accepted_at_ms: at_ms, delivered_at_ms: None });
            }
            Event::TurnDelivered { turn, .. } => {
                if let Some(open) = known.open.get_mut(turn) {
                    open.delivered_at_ms = Some(at_ms);
                    observe(self.wait_seconds.as_ref(), open.accepted_at_ms, at_ms);
                }
            }
            Event::TurnEnded { turn, end, .. } => {
                let outcome = TurnState::from(end.state).to_string();
                self.ended.get_or_create(&OutcomeLabels { outcome }).inc();
                if let Some(TurnTimes { delivered_at_ms: Some(from), .. }) = known.open.remove(turn) {
                    observe(self.turn_seconds.as_ref(), from, at_ms);
                }
            }
            _ => {}
        }
    }

    fn look_at_memory(&mut self, alive: &[(StateDir, SessionId, String)]) {
        if self.memory_at.is_some_and(|at| at.elapsed() < MEMORY_AGE) {
            return;
        }
        let Ok(evidence) = ProcessSnapshot::gather() else { return };
        self.memory_at = Some(Instant::now());
        let bytes = |(home, id, handle): &(StateDir, SessionId, String)| {
            let members = evidence.members(home, id).ok()?;
            let bytes: u64 = members.processes.iter().map(|member| member.process.rss_bytes()).sum();
            Some((bytes, SessionLabels { session: handle.clone(), id: id.to_string() }))
        };
        let mut all: Vec<(u64, SessionLabels)> = alive.iter().filter_map(bytes).collect();
        self.memory.set(all.iter().map(|(bytes, _)| bytes.cast_signed()).sum());
        all.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
        self.memory_of.clear();
        for (bytes, session) in all.into_iter().take(MAX_NAMED) {
            self.memory_of.get_or_create(&session).set(bytes.cast_signed());
        }
    }
}

fn running_helpers(home: &StateDir) -> Vec<(StateDir, SessionId, String)> {
    let dirs = home.folders().into_iter().filter(StateDir::is_helpers);
    let mut running = Vec::new();
    for dir in dirs {
        for id in dir.session_ids().unwrap_or_default() {
            let status = session_status::status(&dir, &id).ok().filter(|status| status.keeper_pid.is_some());
            running.extend(status.map(|status| (dir.clone(), id, status.handle().to_owned())));
        }
    }
    running
}

/// Observes a time. The wall clock may have been set back in between.
fn observe(histogram: Option<&Histogram>, from_ms: u64, to_ms: u64) {
    if let Some(histogram) = histogram {
        histogram.observe(Duration::from_millis(to_ms.saturating_sub(from_ms)).as_secs_f64());
    }
}
