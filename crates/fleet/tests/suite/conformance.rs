//! The model and PostgreSQL give the same answers to the same calls, so that what a simulation proves is about both.

use berth_core::Epoch;
use berth_fleet::engine::{
    AppendRequest, ChangeCursor, ChangePage, ClaimRequest, ConversationRef, HeartbeatRequest, HostLossPolicy,
    ListRow, LostSession, PostRequest, ReleaseRequest, SessionIdentity, TakenPost, WatchedHost,
};
use berth_fleet::model::ModelFleet;
use berth_fleet::{
    EngineError, EventNumber, FleetEngine, HeartbeatCount, HostId, Incarnation, PostNumber, Term,
};
use berth_journal::fake_disk::SplitMix64;

use crate::names::{create, name, seed, session, text};
use crate::postgres::{ALL, PATIENT, TestFleet, run};

const HOSTS: u32 = 3;
const CALLS: u32 = 2500;

/// An answer as text. All errors are alike but a rejection.
fn told<A: std::fmt::Debug>(answer: Result<A, EngineError>) -> String {
    match answer {
        Ok(answer) => format!("{answer:?}"),
        Err(EngineError::Rejected { call, host }) => format!("rejected {call} {host}"),
        Err(error) => panic!("{error}"),
    }
}

/// Makes the next call of a generator. Equal generators make equal calls, because they get equal answers.
async fn call<E: FleetEngine>(
    engine: &E,
    own: HostId,
    random: &mut SplitMix64,
    cursor: &mut ChangeCursor,
) -> String {
    let mut small = |end: u64| random.below(end);
    let host = if small(20) == 0 { HostId(1 + small(u64::from(HOSTS)) as u32) } else { own };
    let id = session(small(4));
    let record = engine.session(id.clone()).await.expect("a read");
    let (term, last) = record.map_or((Term(0), EventNumber(0)), |record| (record.term, record.last));
    // Mostly the right numbers, sometimes others.
    let term = if small(8) == 0 { Term(small(4)) } else { term };
    let after = match small(12) {
        0 => last.plus(1),
        1..4 => EventNumber(last.0.saturating_sub(1 + small(2))),
        _ => last,
    };
    let live = (small(3) == 0).then_some(Epoch(7));
    let key = text(format!("key {}", small(12)));
    let bodies = (0..1 + small(3)).map(|_| text(format!("body {}", small(2)))).collect::<Vec<_>>();
    match small(20) {
        0..3 => {
            let mut request = create(host, id, "created");
            request.owned = small(2) == 0;
            request.name = (small(2) == 0).then(|| name(["fix", "build"][small(2) as usize]));
            request.key = (small(2) == 0).then_some(key);
            request.conversation = (small(2) == 0)
                .then(|| ConversationRef { kind: text("a"), native_id: text(format!("{}", small(3))) });
            request.on_host_loss =
                if small(2) == 0 { HostLossPolicy::Wait } else { HostLossPolicy::TakeOver };
            request.live = live;
            told(engine.create(request).await)
        }
        3..9 => {
            let accepted_by = after.plus(1);
            let took = if small(2) == 0 { vec![TakenPost { key, accepted_by }] } else { Vec::new() };
            let request = AppendRequest { host, session: id, term, after, events: bodies, live, took };
            told(engine.append(request).await)
        }
        9..12 => {
            let hosts = engine.hosts().await.expect("a read");
            let other = &hosts[small(u64::from(HOSTS)) as usize];
            let off = u64::from(small(4) == 0);
            let watched = WatchedHost {
                host: other.host,
                incarnation: Incarnation(other.incarnation.0),
                heartbeat: HeartbeatCount(other.heartbeat.0 + off),
            };
            let watched = (small(5) > 0).then_some(watched);
            let event = text(format!("claimed {}", small(2)));
            told(engine.claim(ClaimRequest { host, session: id, expected_term: term, event, watched }).await)
        }
        12 => {
            let event = text("released");
            told(engine.release(ReleaseRequest { host, session: id, term, after, event }).await)
        }
        13 => told(engine.begin_incarnation(host).await),
        14 => {
            let hosts = engine.hosts().await.expect("a read");
            let known = hosts.iter().find(|known| known.host == own).expect("an admitted host");
            let incarnation = Incarnation(known.incarnation.0.saturating_sub(small(2)));
            let request = HeartbeatRequest { host, incarnation, used_slots: small(9) as u32 };
            told(engine.heartbeat(request).await)
        }
        15 => told(
            engine
                .acknowledge_loss(host, LostSession { session: id, term: Term(term.0.saturating_sub(1)) })
                .await,
        ),
        16 => {
            let (kind, body) = (text("turn"), bodies[0].clone());
            let posted = told(engine.post(PostRequest { host, session: id, key, kind, body }).await);
            format!("{posted} {}", told(engine.inbox(host, PostNumber(small(5)), ALL).await))
        }
        17 => told(engine.withdraw(host, id, key).await),
        18 => {
            let (rank, active_at_ms) = (small(3) as u32, small(100));
            let row = ListRow { session: id, host, rank, active_at_ms, status: bodies[0].clone() };
            told(engine.publish(term, row).await)
        }
        _ => {
            let first = engine.list_page(None, 2).await.expect("a read");
            let rest = engine.list_page(first.last().map(ListRow::position), ALL).await;
            let changed = match engine.changes(cursor.clone(), 2).await.expect("a read") {
                ChangePage::Rows { rows, next, more } => {
                    *cursor = next;
                    let mut rows: Vec<String> = rows.iter().map(|row| format!("{row:?}")).collect();
                    rows.sort();
                    format!("{rows:?} {more}")
                }
                ChangePage::StartOver => "start over".to_owned(),
            };
            let identity = match small(3) {
                0 => SessionIdentity::Name(name(["fix", "build"][small(2) as usize])),
                1 => SessionIdentity::Key(key),
                _ => SessionIdentity::Conversation(ConversationRef {
                    kind: text("a"),
                    native_id: text(format!("{}", small(3))),
                }),
            };
            let found = told(engine.find(identity).await);
            let owned =
                told(engine.owned_sessions(host, (small(2) == 0).then(|| session(small(4))), 2).await);
            let barrier = told(engine.barrier(host).await);
            let events = engine.events(id, EventNumber(1), ALL).await;
            format!("{first:?} {} {changed} {} {found} {owned} {barrier}", told(rest), told(events))
        }
    }
}

#[test]
fn the_model_and_postgresql_give_equal_answers() {
    run(async {
        let seed = seed();
        println!("BERTH_SEED={seed}");
        let (fleet, model) = (TestFleet::start(HOSTS).await, ModelFleet::new(None));
        let mut hosts = Vec::new();
        for number in 1..=HOSTS {
            let modelled = model.admit(HostId(number), name(&format!("host{number}")));
            hosts.push((fleet.host(number, PATIENT).await, modelled));
        }
        let mut random = SplitMix64::new(seed);
        let (mut real_cursor, mut model_cursor) = (ChangeCursor::default(), ChangeCursor::default());
        let mut answers = std::collections::BTreeMap::<String, u32>::new();
        for at in 0..CALLS {
            let (real, modelled) = &hosts[random.below(u64::from(HOSTS)) as usize];
            let mut same = random.clone();
            let given = call(real, real.host(), &mut random, &mut real_cursor).await;
            let expected = call(modelled, real.host(), &mut same, &mut model_cursor).await;
            assert_eq!(given, expected, "call {at}, BERTH_SEED={seed}");
            *answers.entry(given.split([' ', '(']).next().unwrap_or_default().to_owned()).or_default() += 1;
        }
        println!("{answers:?}");
        for answer in [
            "Created",
            "Exists",
            "Appended",
            "AlreadyAppended",
            "Fenced",
            "Behind",
            "Diverged",
            "Ours",
            "Lost",
            "Held",
            "Counted",
            "Replaced",
            "Withdrawn",
            "Taken",
            "rejected",
        ] {
            assert!(answers.contains_key(answer), "no call was answered with {answer}: BERTH_SEED={seed}");
        }
    });
}
