//! What is counted about sessions, helpers and their turns.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use berth_api::{SessionState, TurnState};
use berth_core::{Event, SessionId};
use berth_keeper::members::Evidence;
use berth_keeper::sweep;
use berth_store::{Home, view};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

/// The ends a turn can have, so that an end that no turn had is reported as zero.
const OUTCOMES: [TurnState; 5] =
    [TurnState::Done, TurnState::Failed, TurnState::Cancelled, TurnState::Interrupted, TurnState::Unknown];
/// From an agent that waits for its prompt to a queue over night.
const WAIT_SECONDS: [f64; 10] = [0.05, 0.25, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14400.0];
/// From a word to a day's work.
const TURN_SECONDS: [f64; 10] = [1.0, 5.0, 15.0, 30.0, 60.0, 180.0, 600.0, 1800.0, 3600.0, 14400.0];
/// How old what is known about memory may be: to find out, every process of the machine is looked at.
const MEMORY_AGE: Duration = Duration::from_secs(10);
/// How many sessions are told of by name, those with the most memory.
const MAX_NAMED: usize = 100;

/// What was found out, and how far it reaches.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    by_state: Family<State, Gauge>,
    helpers: Gauge,
    unreadable: Gauge,
    queued: Gauge,
    in_work: Gauge,
    asks: Gauge,
    accepted: Counter,
    ended: Family<Outcome, Counter>,
    wait_seconds: Option<Histogram>,
    turn_seconds: Option<Histogram>,
    memory: Gauge,
    memory_of: Family<Session, Gauge>,
    sweeps: Counter,
    left_over: Counter,
    counted: sweep::Counts,
    read: HashMap<SessionId, Read>,
    memory_at: Option<Instant>,
}

/// How far a journal is known, and its turns that are not over.
#[derive(Debug, Default)]
struct Read {
    mark: (String, u64),
    seq: u64,
    open: BTreeMap<u64, Turn>,
}

#[derive(Debug, Default)]
struct Turn {
    accepted_at_ms: u64,
    delivered_at_ms: Option<u64>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct State {
    state: String,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct Outcome {
    outcome: String,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct Session {
    session: String,
    id: String,
}

impl Sessions {
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
        registry.register("turns_in_work", "Turns that agents have", new.in_work.clone());
        registry.register("requests_waiting", "Requests of agents that wait for an answer", new.asks.clone());
        registry.register("turns_accepted", "Turns that were accepted", new.accepted.clone());
        registry.register("turns", "Turns that are over, by outcome", new.ended.clone());
        registry.register_with_unit("turn_wait", "From accepted to given to the agent", Unit::Seconds, wait);
        registry.register_with_unit(
            "turn_duration",
            "From given to the agent to its end",
            Unit::Seconds,
            turn,
        );
        registry.register_with_unit(
            "sessions_memory",
            "What all sessions have in memory, their keepers included",
            Unit::Bytes,
            new.memory.clone(),
        );
        registry.register_with_unit(
            "session_memory",
            "What a session has in memory, for those with the most",
            Unit::Bytes,
            new.memory_of.clone(),
        );
        registry.register("sweeps", "Sweeps of this state directory", new.sweeps.clone());
        registry.register("leftovers_found", "What sweeps found left over", new.left_over.clone());
        for outcome in OUTCOMES {
            drop(new.ended.get_or_create(&Outcome { outcome: outcome.to_string() }));
        }
        new
    }

    /// Looks at all of them. If they cannot be listed everything stays as it was: a journal whose place is forgotten
    /// would be counted twice.
    pub(super) fn look(&mut self, home: &Home) {
        let Ok(ids) = home.session_ids() else { return };
        // A state that no session is in is reported as zero.
        let mut states: HashMap<SessionState, i64> = SessionState::ALL.map(|state| (state, 0)).into();
        let (mut queued, mut in_work, mut asks, mut unreadable) = (0, 0, 0, 0);
        let mut alive = Vec::new();
        for id in &ids {
            let Ok(status) = view::status(home, id) else {
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
        // Of what was purged nothing more will come, and what was counted of it stays counted.
        self.read.retain(|id, _| ids.contains(id));
        for (state, count) in states {
            self.by_state.get_or_create(&State { state: state.to_string() }).set(count);
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
        // Never less: a file that is away for a moment says nothing, and what it said before is counted.
        self.counted.sweeps = self.counted.sweeps.max(counts.sweeps);
        self.counted.left_over = self.counted.left_over.max(counts.left_over);
    }

    /// Takes in what is new in a journal.
    fn read_on(&mut self, home: &Home, id: &SessionId) {
        let Ok(mark) = view::journal_mark(home, id) else { return };
        let mut known = self.read.remove(id).unwrap_or_default();
        if known.mark != mark
            && let Ok(events) = home.session(id).read(known.seq + 1)
        {
            for event in &events {
                if event.seq().0 > known.seq {
                    known.seq = event.seq().0;
                    self.take_in(&mut known, event.get().at_ms, &event.get().event);
                }
            }
            known.mark = mark;
        }
        self.read.insert(id.clone(), known);
    }

    fn take_in(&self, known: &mut Read, at_ms: u64, event: &Event) {
        match event {
            Event::TurnAccepted { turn, .. } => {
                self.accepted.inc();
                known.open.insert(*turn, Turn { accepted_at_ms: at_ms, delivered_at_ms: None });
            }
            Event::TurnDelivered { turn, .. } => {
                if let Some(open) = known.open.get_mut(turn) {
                    open.delivered_at_ms = Some(at_ms);
                    observe(self.wait_seconds.as_ref(), open.accepted_at_ms, at_ms);
                }
            }
            Event::TurnEnded { turn, end, .. } => {
                let outcome = TurnState::from(end.state).to_string();
                self.ended.get_or_create(&Outcome { outcome }).inc();
                if let Some(Turn { delivered_at_ms: Some(from), .. }) = known.open.remove(turn) {
                    observe(self.turn_seconds.as_ref(), from, at_ms);
                }
            }
            _ => {}
        }
    }

    fn look_at_memory(&mut self, alive: &[(Home, SessionId, String)]) {
        if self.memory_at.is_some_and(|at| at.elapsed() < MEMORY_AGE) {
            return;
        }
        let Ok(evidence) = Evidence::gather() else { return };
        self.memory_at = Some(Instant::now());
        let bytes = |(home, id, handle): &(Home, SessionId, String)| {
            let members = evidence.members(home, id).ok()?;
            let bytes: u64 = members.processes.iter().map(|member| member.process.rss_bytes()).sum();
            Some((bytes, Session { session: handle.clone(), id: id.to_string() }))
        };
        let mut all: Vec<(u64, Session)> = alive.iter().filter_map(bytes).collect();
        self.memory.set(all.iter().map(|(bytes, _)| bytes.cast_signed()).sum());
        all.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
        self.memory_of.clear();
        for (bytes, session) in all.into_iter().take(MAX_NAMED) {
            self.memory_of.get_or_create(&session).set(bytes.cast_signed());
        }
    }
}

fn running_helpers(home: &Home) -> Vec<(Home, SessionId, String)> {
    let shelves = home.shelves().into_iter().filter(Home::is_helpers);
    let mut running = Vec::new();
    for shelf in shelves {
        for id in shelf.session_ids().unwrap_or_default() {
            let status = view::status(&shelf, &id).ok().filter(|status| status.keeper_pid.is_some());
            running.extend(status.map(|status| (shelf.clone(), id, status.handle().to_owned())));
        }
    }
    running
}

/// The wall clock may have been set back in between.
fn observe(histogram: Option<&Histogram>, from_ms: u64, to_ms: u64) {
    if let Some(histogram) = histogram {
        histogram.observe(Duration::from_millis(to_ms.saturating_sub(from_ms)).as_secs_f64());
    }
}
