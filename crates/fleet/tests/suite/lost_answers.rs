//! Answers that do not come back, though the request was done.

use berth_fleet::FleetEngine;
use berth_fleet::engine::{AppendAnswer, ClaimAnswer, ClaimRequest, PostAnswer, PostRequest};
use berth_fleet::{EventNumber, Term};
use berth_journal::fake_disk::SplitMix64;
use berth_test_postgres::CuttingProxy;

use crate::names::{append, seed, session, text};
use crate::postgres::{PATIENT, TestFleet, bodies, connect, is_unknown, owned_session, run};

const APPENDS: u64 = 200;

#[test]
fn l6_calls_whose_answers_are_lost_are_repeated_without_doubles() {
    run(async {
        let seed = seed();
        println!("BERTH_SEED={seed}");
        let mut random = SplitMix64::new(seed);
        let fleet = TestFleet::start(1).await;
        let proxy = CuttingProxy::start(fleet.server.socket_dir(), fleet.server.socket());
        let engine = connect("host1", &[proxy.socket_dir()], PATIENT).await.expect("an admitted host");
        let (host, id) = (engine.host(), session(1));
        owned_session(&engine, id.clone()).await;

        let (mut sent, mut lost) = (vec![text("created")], 0);
        for _ in 0..APPENDS {
            let events: Vec<String> = (0..1 + random.below(4))
                .map(|index| format!("event {}", sent.len() as u64 + index))
                .collect();
            let events: Vec<&str> = events.iter().map(String::as_str).collect();
            let request = append(host, id.clone(), 1, sent.len() as u64, &events);
            sent.extend(request.events.clone());
            let last = EventNumber(sent.len() as u64);
            if random.coin() {
                lost += 1;
                proxy.lose_next_answer();
                let answer = engine.append(request.clone()).await;
                assert!(is_unknown(&answer), "{answer:?}");
                if random.coin() {
                    let settled = engine.settle(engine.host(), id.clone()).await.expect("a barrier");
                    assert_eq!(settled.map(|session| session.last), Some(last));
                }
                let answer = engine.append(request).await.expect("an answer");
                assert_eq!(answer, AppendAnswer::AlreadyAppended { last, not_taken: Vec::new() });
            } else {
                let answer = engine.append(request).await.expect("an answer");
                assert_eq!(answer, AppendAnswer::Appended { last, not_taken: Vec::new() });
            }
        }
        println!("{APPENDS} appends, {lost} answers lost");
        assert_eq!(bodies(&engine, id.clone()).await, sent);

        let (session, expected_term) = (id.clone(), Term(1));
        let claim = ClaimRequest { host, session, expected_term, event: text("claimed"), watched: None };
        proxy.lose_next_answer();
        assert!(is_unknown(&engine.claim(claim.clone()).await));
        let last = EventNumber(sent.len() as u64 + 1);
        assert_eq!(engine.claim(claim).await.expect("an answer"), ClaimAnswer::Ours { term: Term(2), last });

        let post =
            PostRequest { host, session: id, key: text("key"), kind: text("turn"), body: text("go on") };
        proxy.lose_next_answer();
        assert!(is_unknown(&engine.post(post.clone()).await));
        assert!(matches!(engine.post(post).await, Ok(PostAnswer::PostedBefore(_))));
    });
}

#[test]
fn a_caller_that_is_dropped_does_not_cancel_its_append() {
    run(async {
        let fleet = TestFleet::start(1).await;
        let engine = fleet.host(1, PATIENT).await;
        let id = session(1);
        owned_session(&engine, id.clone()).await;
        // The lock of another transaction holds the append up, so that it is dropped in the middle.
        let blocker = std::thread::scope(|scope| {
            let server = &fleet.server;
            let held = scope.spawn(move || {
                server.query(
                    "berth",
                    "BEGIN; SELECT FROM berth.session FOR UPDATE; SELECT pg_sleep(3); COMMIT",
                );
            });
            server.wait_for("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'", "1");
            let append = append(engine.host(), id.clone(), 1, 1, &["dropped"]);
            let (report, is_waiting) = tokio::sync::oneshot::channel();
            scope.spawn(move || {
                server.wait_for("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'", "1");
                report.send(())
            });
            tokio::task::block_in_place(|| {
                let runtime = tokio::runtime::Handle::current();
                runtime.block_on(async {
                    tokio::select! {
                        _ = engine.append(append) => false,
                        seen = is_waiting => seen.is_ok(),
                    }
                })
            }) && held.join().is_ok()
        });
        assert!(blocker, "the append waited for the lock");
        let next = append(engine.host(), id, 1, 2, &["next"]);
        let answer = engine.append(next).await.expect("an answer");
        assert_eq!(answer, AppendAnswer::Appended { last: EventNumber(3), not_taken: Vec::new() });
    });
}
