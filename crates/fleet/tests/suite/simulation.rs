//! Hosts that replicate journals, claim sessions and lose answers, against the engine in memory.
//!
//! Each run draws its steps from a seed. After each run the record must have every acknowledged event, numbers without
//! a gap or a double, terms without a gap, and one host for each term. Each planted bug must break a run.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use berth_core::SessionId;
use berth_fleet::engine::{
    AppendAnswer, AppendRequest, ClaimAnswer, ClaimRequest, CreateAnswer, HeartbeatAnswer, HeartbeatRequest,
    PostAnswer, PostRequest, RecordedEvent, ReleaseRequest, TakenPost, WatchedHost, WithdrawAnswer,
};
use berth_fleet::model::{CallFault, ModelEngine, ModelFleet, PlantedBug};
use berth_fleet::{EngineError, EventNumber, FleetEngine, HostId, Incarnation, PostNumber, RecordText, Term};
use berth_journal::fake_disk::SplitMix64;

use crate::names::{create, name, seed, session, text};

const HOSTS: u32 = 3;
const SESSIONS: u64 = 3;
const STEPS: u64 = 1500;
const RUNS: u64 = 200;
/// Runs in which a planted bug must show at least once.
const RUNS_WITH_A_BUG: u64 = 400;
const ALL: u32 = u32::MAX;

/// The answer of a modelled call, which never waits.
fn answer<A>(call: impl Future<Output = A>) -> A {
    match pin!(call).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => unreachable!("the model answers at once"),
    }
}

/// A local event that waits to be replicated, or was.
#[derive(Clone)]
struct LocalEvent {
    body: RecordText,
    takes: Option<RecordText>,
}

/// The journal of a session on the host that owns it.
struct LocalJournal {
    term: Term,
    events: Vec<LocalEvent>,
    replicated: usize,
    /// The last append had no answer.
    is_unsettled: bool,
}

struct SimulatedHost {
    id: HostId,
    engine: ModelEngine,
    incarnation: Incarnation,
    journals: BTreeMap<SessionId, LocalJournal>,
    claims: BTreeMap<SessionId, ClaimRequest>,
}

/// Answers that hosts received: none of them may turn out to be untrue.
#[derive(Default)]
struct Acknowledged {
    events: BTreeMap<(SessionId, u64), RecordText>,
    terms: BTreeMap<(SessionId, Term), HostId>,
    posts: BTreeSet<(SessionId, RecordText)>,
    withdrawn: BTreeSet<(SessionId, RecordText)>,
}

struct Simulation {
    random: SplitMix64,
    fleet: ModelFleet,
    hosts: Vec<SimulatedHost>,
    told: Acknowledged,
    made: u64,
    violation: Option<String>,
}

impl Simulation {
    fn new(seed: u64, bug: Option<PlantedBug>) -> Self {
        let fleet = ModelFleet::new(bug);
        let host = |number: u32| {
            let id = HostId(number);
            let engine = fleet.admit(id, name(&format!("host{number}")));
            let incarnation = answer(engine.begin_incarnation(id)).expect("no fault is planned");
            SimulatedHost { id, engine, incarnation, journals: BTreeMap::new(), claims: BTreeMap::new() }
        };
        let hosts: Vec<SimulatedHost> = (1..=HOSTS).map(host).collect();
        let mut simulation = Self {
            random: SplitMix64::new(seed),
            fleet,
            hosts,
            told: Acknowledged::default(),
            made: 0,
            violation: None,
        };
        for number in 0..SESSIONS {
            let id = session(number);
            let mut request = create(HostId(1), id.clone(), &format!("created {number}"));
            request.owned = false;
            let created = answer(simulation.hosts[0].engine.create(request.clone()));
            assert!(matches!(created, Ok(CreateAnswer::Created { .. })), "{created:?}");
            simulation.told.events.insert((id, 1), request.events[0].clone());
        }
        simulation.fleet.catch_up_replica();
        simulation
    }

    fn wrong(&mut self, what: String) {
        self.violation.get_or_insert(what);
    }

    /// A body that no other event has.
    fn new_body(&mut self, kind: &str, host: HostId) -> RecordText {
        self.made += 1;
        text(format!("{kind} {} by host {host}", self.made))
    }

    fn run(&mut self) {
        for _ in 0..STEPS {
            self.step();
            if self.violation.is_some() {
                return;
            }
        }
        self.fleet.set_standby_away(false);
        self.check();
    }

    fn step(&mut self) {
        if self.random.below(5) == 0 {
            let faults =
                [CallFault::RequestLost, CallFault::Late, CallFault::AnswerLost, CallFault::WaitCancelled];
            let fault = faults[self.random.below(4) as usize];
            self.fleet.plan_fault(fault);
        }
        let host = self.random.below(u64::from(HOSTS)) as usize;
        let id = session(self.random.below(SESSIONS));
        match self.random.below(40) {
            0..10 => self.write_locally(host, &id),
            10..22 => self.replicate(host, &id),
            22..24 => self.claim(host, &id),
            24..26 => self.release(host, &id),
            26..28 => self.beat(host),
            28..30 => self.post(host, &id),
            30 => self.withdraw(host, &id),
            31..33 => self.accept_posts(host),
            33 => self.restart(host),
            34 => self.fleet.catch_up_replica(),
            35 => self.fleet.set_standby_away(self.random.below(4) == 0),
            36 => {
                self.fleet.fail_over();
                self.check();
            }
            37 => self.fleet.restart_primary(),
            _ => drop(self.fleet.deliver_late_call()),
        }
    }

    fn write_locally(&mut self, host: usize, id: &SessionId) {
        let body = self.new_body("event", self.hosts[host].id);
        if let Some(journal) = self.hosts[host].journals.get_mut(id) {
            journal.events.push(LocalEvent { body, takes: None });
        }
    }

    /// Sends the next local events, after settling the outcome of the last call or by repeating it.
    fn replicate(&mut self, at: usize, id: &SessionId) {
        let (settles, count) = (self.random.coin(), 1 + self.random.below(3) as usize);
        let host = &mut self.hosts[at];
        let Some(journal) = host.journals.get_mut(id) else { return };
        if journal.is_unsettled && settles {
            return self.settle(at, id);
        }
        let after = journal.replicated;
        let events: Vec<LocalEvent> = journal.events.iter().skip(after).take(count).cloned().collect();
        if events.is_empty() {
            return;
        }
        let took = events.iter().enumerate().filter_map(|(index, event)| {
            let accepted_by = EventNumber(after as u64).plus(index + 1);
            event.takes.clone().map(|key| TakenPost { key, accepted_by })
        });
        let request = AppendRequest {
            host: host.id,
            session: id.clone(),
            term: journal.term,
            after: EventNumber(after as u64),
            took: took.collect(),
            events: events.into_iter().map(|event| event.body).collect(),
            live: None,
        };
        match answer(host.engine.append(request)) {
            Ok(AppendAnswer::Appended { last, .. } | AppendAnswer::AlreadyAppended { last, .. }) => {
                self.acknowledge(at, id, last);
            }
            Ok(AppendAnswer::Behind { last }) => journal.replicated = last.0 as usize,
            Ok(AppendAnswer::Fenced { .. }) => drop(host.journals.remove(id)),
            Ok(odd @ (AppendAnswer::Diverged { .. } | AppendAnswer::NoSession)) => {
                let what = format!("host {}: {odd:?}", host.id);
                self.wrong(what);
            }
            Err(_) => journal.is_unsettled = true,
        }
    }

    /// Remembers that everything up to `last` was acknowledged to this host.
    fn acknowledge(&mut self, at: usize, id: &SessionId, last: EventNumber) {
        let Some(journal) = self.hosts[at].journals.get_mut(id) else { return };
        let count = last.0 as usize;
        if count > journal.events.len() {
            return self.wrong(format!("the record has {count} events of this host, and it wrote fewer"));
        }
        journal.replicated = count;
        journal.is_unsettled = false;
        for (index, event) in journal.events.iter().take(count).enumerate() {
            self.told.events.insert((id.clone(), index as u64 + 1), event.body.clone());
        }
    }

    fn settle(&mut self, at: usize, id: &SessionId) {
        let host = &mut self.hosts[at];
        let Ok(seen) = answer(host.engine.settle(host.id, id.clone())) else { return };
        let journal = host.journals.get(id).expect("only own sessions are settled");
        match seen {
            Some(seen) if seen.host == Some(host.id) && seen.term == journal.term => {
                self.acknowledge(at, id, seen.last);
            }
            Some(_) => drop(host.journals.remove(id)),
            None => self.wrong("a session is gone".to_owned()),
        }
    }

    /// Claims a session, with the evidence of one look at its owner's heartbeat, or repeats a claim without an answer.
    fn claim(&mut self, at: usize, id: &SessionId) {
        let event = self.new_body("claimed", self.hosts[at].id);
        let host = &mut self.hosts[at];
        let known = answer(host.engine.session(id.clone())).expect("reads have no faults");
        let known = known.expect("every session is recorded");
        let hosts = answer(host.engine.hosts()).expect("reads have no faults");
        let owner = hosts.into_iter().find(|other| Some(other.host) == known.host);
        let watched = owner.map(|owner| WatchedHost {
            host: owner.host,
            incarnation: owner.incarnation,
            heartbeat: owner.heartbeat,
        });
        let (expected_term, session) = (known.term, id.clone());
        let new = ClaimRequest { host: host.id, session, expected_term, event, watched };
        let request = host.claims.remove(id).unwrap_or(new);
        match answer(host.engine.claim(request.clone())) {
            Ok(ClaimAnswer::Ours { term, last }) => self.begin(at, id, term, last),
            Ok(ClaimAnswer::Lost { .. } | ClaimAnswer::Held { .. }) => {}
            Ok(ClaimAnswer::NoSession) => self.wrong("a session is gone".to_owned()),
            Err(_) => drop(host.claims.insert(id.clone(), request)),
        }
    }

    /// Begins a local journal with all events of the record.
    fn begin(&mut self, at: usize, id: &SessionId, term: Term, last: EventNumber) {
        let host = self.hosts[at].id;
        let owner = *self.told.terms.entry((id.clone(), term)).or_insert(host);
        if owner != host {
            return self.wrong(format!("term {term} of hosts {owner} and {host}"));
        }
        let events =
            answer(self.hosts[at].engine.events(id.clone(), EventNumber(1), ALL)).expect("no faults");
        if (events.len() as u64) < last.0 {
            return self.wrong(format!(
                "the claim got number {}, and {} events are read",
                last.0,
                events.len()
            ));
        }
        let events: Vec<LocalEvent> =
            events.into_iter().map(|event| LocalEvent { body: event.body, takes: None }).collect();
        let journal = LocalJournal { term, replicated: 0, events, is_unsettled: false };
        self.hosts[at].journals.insert(id.clone(), journal);
        self.acknowledge(at, id, last);
    }

    /// Gives a session back of which everything is replicated.
    fn release(&mut self, at: usize, id: &SessionId) {
        let event = self.new_body("released", self.hosts[at].id);
        let host = &mut self.hosts[at];
        let Some(journal) = host.journals.get_mut(id) else { return };
        if journal.is_unsettled || journal.replicated < journal.events.len() {
            return;
        }
        let after = EventNumber(journal.replicated as u64);
        let (session, term) = (id.clone(), journal.term);
        let request = ReleaseRequest { host: host.id, session, term, after, event };
        journal.events.push(LocalEvent { body: request.event.clone(), takes: None });
        match answer(host.engine.release(request)) {
            Ok(AppendAnswer::Appended { last, .. }) => {
                self.acknowledge(at, id, last);
                self.hosts[at].journals.remove(id);
            }
            Ok(AppendAnswer::Behind { last }) => {
                journal.events.pop();
                journal.replicated = last.0 as usize;
            }
            Ok(AppendAnswer::Fenced { .. }) => drop(host.journals.remove(id)),
            // A host that cannot tell if it still owns a session settles that first.
            Err(_) => journal.is_unsettled = true,
            Ok(odd) => self.wrong(format!("a first release: {odd:?}")),
        }
    }

    fn beat(&mut self, at: usize) {
        let host = &mut self.hosts[at];
        let beat = HeartbeatRequest { host: host.id, incarnation: host.incarnation, used_slots: 0 };
        let Ok(HeartbeatAnswer::Counted { lost, .. }) = answer(host.engine.heartbeat(beat)) else { return };
        for loss in lost {
            if host.journals.get(&loss.session).is_some_and(|journal| journal.term == loss.term) {
                host.journals.remove(&loss.session);
            }
            let _repeated_later = answer(host.engine.acknowledge_loss(host.id, loss));
        }
    }

    fn post(&mut self, at: usize, id: &SessionId) {
        let host = &self.hosts[at];
        let key = text(format!("key {}", self.random.below(30)));
        let body = text(format!("prompt of {}", key.as_str()));
        let (session, kind) = (id.clone(), text("turn"));
        let request = PostRequest { host: host.id, session, key: key.clone(), kind, body };
        match answer(host.engine.post(request)) {
            Ok(PostAnswer::Posted(_) | PostAnswer::PostedBefore(_)) => {
                self.told.posts.insert((id.clone(), key));
            }
            Ok(odd) => self.wrong(format!("a post: {odd:?}")),
            Err(_) => {}
        }
    }

    fn withdraw(&mut self, at: usize, id: &SessionId) {
        let host = &self.hosts[at];
        let key = text(format!("key {}", self.random.below(30)));
        let answer = answer(host.engine.withdraw(host.id, id.clone(), key.clone()));
        if answer.is_ok_and(|answer| answer == WithdrawAnswer::Withdrawn) {
            self.told.withdrawn.insert((id.clone(), key));
        }
    }

    /// Accepts waiting posts as turns, in the local journals first.
    fn accept_posts(&mut self, at: usize) {
        let host = &self.hosts[at];
        let waiting = answer(host.engine.inbox(host.id, PostNumber(0), ALL)).expect("reads have no faults");
        for post in waiting.into_iter().take(2) {
            let body = self.new_body(&format!("accepted <{}>", post.key.as_str()), self.hosts[at].id);
            if let Some(journal) = self.hosts[at].journals.get_mut(&post.session) {
                let is_known = journal.events.iter().any(|event| event.takes.as_ref() == Some(&post.key));
                if !is_known {
                    journal.events.push(LocalEvent { body, takes: Some(post.key) });
                }
            }
        }
    }

    /// A node that is killed and started again has its journals and nothing else.
    fn restart(&mut self, at: usize) {
        let host = &mut self.hosts[at];
        host.claims.clear();
        host.journals.values_mut().for_each(|journal| journal.is_unsettled = true);
        if let Ok(incarnation) = answer(host.engine.begin_incarnation(host.id)) {
            host.incarnation = incarnation;
        }
    }

    fn check(&mut self) {
        for number in 0..SESSIONS {
            self.fleet.catch_up_replica();
            let id = session(number);
            let events =
                answer(self.hosts[0].engine.events(id.clone(), EventNumber(1), ALL)).expect("no faults");
            let record =
                answer(self.hosts[0].engine.session(id.clone())).expect("no faults").expect("recorded");
            if record.last.0 != events.len() as u64 {
                self.wrong(format!("the record ends at {} and has {} events", record.last.0, events.len()));
            }
            if let Some(what) = flaw(&events, record.term) {
                self.wrong(what);
            }
            let lost = self.told.events.iter().find(|((session, number), body)| {
                let there = events.get(*number as usize - 1);
                *session == id && there.is_none_or(|there| there.body != **body)
            });
            if let Some(((_, number), body)) = lost {
                let what = format!("acknowledged event {number} is lost: {}", body.as_str());
                self.wrong(what);
            }
            self.check_posts(&id, &events);
        }
    }

    /// Acknowledged posts wait, are withdrawn, or were accepted by exactly the event that the record names.
    fn check_posts(&mut self, id: &SessionId, events: &[RecordedEvent]) {
        for (session, key) in self.told.posts.clone() {
            if session != *id {
                continue;
            }
            let state = answer(self.hosts[0].engine.withdraw(HostId(1), id.clone(), key.clone()));
            match state {
                Ok(WithdrawAnswer::Taken { accepted_by }) => {
                    let marker = format!("accepted <{}>", key.as_str());
                    let event = events.get(accepted_by.0 as usize - 1);
                    if !event.is_some_and(|event| event.body.as_str().starts_with(&marker)) {
                        self.wrong(format!("{key:?} is taken by {event:?}"));
                    }
                    if self.told.withdrawn.contains(&(session, key.clone())) {
                        self.wrong(format!("{key:?} was withdrawn and is taken"));
                    }
                }
                Ok(WithdrawAnswer::Withdrawn) => drop(self.told.withdrawn.insert((session, key))),
                Ok(odd @ (WithdrawAnswer::NoPost | WithdrawAnswer::Refused)) => {
                    self.wrong(format!("acknowledged post {key:?}: {odd:?}"));
                }
                Err(EngineError::OutcomeUnknown { .. }) => {}
                Err(error) => self.wrong(error.to_string()),
            }
        }
    }
}

/// A gap or a double in numbers or terms, or a term with events of two hosts.
fn flaw(events: &[RecordedEvent], term: Term) -> Option<String> {
    let mut bodies = BTreeSet::new();
    let mut writers = BTreeMap::new();
    let (mut last, mut at) = (0, Term(0));
    for event in events {
        let body = event.body.as_str();
        if event.number.0 != last + 1 {
            return Some(format!("number {} follows {last}", event.number.0));
        }
        if !bodies.insert(body) {
            return Some(format!("twice: {body}"));
        }
        if event.term != at && (event.term != at.next() || !body.starts_with("claimed")) {
            return Some(format!("term {} follows {at} with {body}", event.term));
        }
        let writer = body.rsplit(' ').next().unwrap_or_default();
        let first = *writers.entry(event.term).or_insert(writer);
        if event.term != Term(0) && first != writer {
            return Some(format!("term {} has events of hosts {first} and {writer}", event.term));
        }
        (last, at) = (event.number.0, event.term);
    }
    (at != term).then(|| format!("the session has term {term}, its last event {at}"))
}

fn finished(seed: u64, bug: Option<PlantedBug>) -> Simulation {
    let mut simulation = Simulation::new(seed, bug);
    simulation.run();
    simulation
}

#[test]
fn acknowledged_events_survive_and_each_term_has_one_writer() {
    let first = seed();
    let runs = if std::env::var_os("BERTH_SEED").is_some() { 1 } else { RUNS };
    println!("BERTH_SEED={first} repeats the first of {runs} runs");
    let (mut events, mut terms, mut posts) = (0, 0, 0);
    for seed in first..first + runs {
        let run = finished(seed, None);
        assert_eq!(run.violation, None, "BERTH_SEED={seed}");
        events += run.told.events.len();
        terms += run.told.terms.len();
        posts += run.told.posts.len();
    }
    println!("{runs} runs: {events} events, {terms} claims and {posts} posts acknowledged");
    assert!(events as u64 > 20 * runs && terms as u64 > 3 * runs && posts as u64 > 3 * runs, "too quiet");
}

#[test]
fn each_planted_bug_is_caught() {
    let first = seed();
    for bug in [
        PlantedBug::LookingFence,
        PlantedBug::SettleByRead,
        PlantedBug::AckOnWarning,
        PlantedBug::DecideOnReplica,
        PlantedBug::NoIdempotence,
    ] {
        let mut seeds = first..first + RUNS_WITH_A_BUG;
        let caught = seeds.find_map(|seed| finished(seed, Some(bug)).violation.map(|what| (seed, what)));
        let (seed, what) =
            caught.unwrap_or_else(|| panic!("{bug:?} is not caught from BERTH_SEED={first} on"));
        println!("{bug:?}: BERTH_SEED={seed}, run {}: {what}", seed - first + 1);
    }
}
