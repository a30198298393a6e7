//! Commits that wait for a synchronous standby: none counts before the standby has it, and none that counted is lost.

use std::path::Path;
use std::time::Duration;

use berth_fleet::engine::{AppendAnswer, AppendRequest};
use berth_fleet::pg::PgEngine;
use berth_fleet::{EngineError, EventNumber, FleetEngine, HostId, RecordText};
use berth_test_postgres::PgServer;

use crate::names::{append, session, text};
use crate::postgres::{IMPATIENT, PATIENT, TestFleet, bodies, connect, is_unknown, owned_session, run};

/// Backends that wait for the standby.
const WAITING: &str = "FROM pg_stat_activity WHERE wait_event = 'SyncRep'";

/// An append that runs beside the test.
fn begin(engine: &PgEngine, request: AppendRequest) -> tokio::task::JoinHandle<bool> {
    let engine = engine.clone();
    tokio::spawn(async move { is_unknown(&engine.append(request).await) })
}

#[test]
fn l11_an_append_whose_wait_is_cancelled_is_never_acknowledged() {
    run(async {
        let fleet = TestFleet::start(1).await;
        let standby = fleet.synchronous_standby();
        // Settings of the role do not let it acknowledge early.
        fleet.server.query("postgres", "ALTER ROLE host1 SET synchronous_commit = off");
        // Nor do they hide the warning of a cancelled wait.
        fleet.server.query("postgres", "ALTER ROLE host1 SET client_min_messages = error");
        let (engine, hasty) = (fleet.host(1, PATIENT).await, fleet.host(1, IMPATIENT).await);
        let (host, id) = (engine.host(), session(1));
        owned_session(&engine, id.clone()).await;
        let mut sent = vec![text("created")];
        for end in ["pg_cancel_backend", "pg_terminate_backend", "time-out"] {
            standby.freeze();
            let request = append(host, id.clone(), 1, sent.len() as u64, &[end]);
            sent.push(text(end));
            let last = EventNumber(sent.len() as u64);
            if end == "time-out" {
                assert!(is_unknown(&hasty.append(request.clone()).await), "{end}");
            } else {
                let appending = begin(&engine, request.clone());
                fleet.server.wait_for(&format!("SELECT count(*) {WAITING}"), "1");
                fleet.server.query("postgres", &format!("SELECT {end}(pid) {WAITING}"));
                assert!(appending.await.expect("no panic"), "{end}");
                // The row is visible, and not replicated: neither a read nor a repeated call may count it.
                let seen = engine.session(id.clone()).await.expect("a read").expect("recorded");
                assert_eq!(seen.last, last, "{end}");
            }
            assert!(is_unknown(&hasty.append(request.clone()).await), "{end}: a repeated append");
            assert!(is_unknown(&hasty.settle(engine.host(), id.clone()).await), "{end}: a barrier");
            standby.thaw();
            if end != "time-out" {
                let settled = engine.settle(engine.host(), id.clone()).await.expect("a barrier");
                assert_eq!(settled.map(|session| session.last), Some(last), "{end}");
            }
            // After a time-out the first append may still wait: the repeated one comes behind it, a barrier need not.
            let again = engine.append(request).await.expect("an answer");
            assert_eq!(again, AppendAnswer::AlreadyAppended { last, not_taken: Vec::new() }, "{end}");
        }
        assert_eq!(bodies(&engine, id).await, sent);
    });
}

#[test]
fn l11_an_append_that_waits_in_a_fast_shutdown_is_settled_by_a_barrier() {
    run(async {
        let mut fleet = TestFleet::start(1).await;
        let standby = fleet.synchronous_standby();
        let (engine, hasty) = (fleet.host(1, PATIENT).await, fleet.host(1, IMPATIENT).await);
        let id = session(1);
        owned_session(&engine, id.clone()).await;
        standby.freeze();
        let request = append(engine.host(), id.clone(), 1, 1, &["waits"]);
        let appending = begin(&engine, request.clone());
        fleet.server.wait_for(&format!("SELECT count(*) {WAITING}"), "1");
        fleet.server.stop(true);
        assert!(appending.await.expect("no panic"));
        fleet.server.boot();
        let seen = hasty.session(id.clone()).await.expect("a read").expect("recorded");
        assert_eq!(seen.last, EventNumber(2), "visible after the restart");
        assert!(is_unknown(&hasty.settle(engine.host(), id.clone()).await), "and not replicated");
        standby.thaw();
        let settled = engine.settle(engine.host(), id.clone()).await.expect("a barrier");
        assert_eq!(settled.map(|session| session.last), Some(EventNumber(2)));
        assert!(matches!(engine.append(request).await, Ok(AppendAnswer::AlreadyAppended { .. })));
    });
}

const WRITERS: u32 = 4;
/// Appends of each writer before the primary is killed, and after it.
const APPENDS: usize = 150;

/// New clients after the fail-over, while both servers run.
const FRESH_CONNECTIONS: usize = 20;

/// Appends until `count` more events are acknowledged, with retries; returns the bodies in order.
async fn write(engine: &PgEngine, number: u32, mut sent: Vec<RecordText>, count: usize) -> Vec<RecordText> {
    for _ in 0..count {
        let body = format!("event {} of {number}", sent.len() + 1);
        let request = append(engine.host(), session(number.into()), 1, sent.len() as u64, &[&body]);
        sent.extend(request.events.clone());
        let last = EventNumber(sent.len() as u64);
        loop {
            match engine.append(request.clone()).await {
                Ok(
                    AppendAnswer::Appended { last: end, .. }
                    | AppendAnswer::AlreadyAppended { last: end, .. },
                ) => {
                    assert_eq!(end, last);
                    break;
                }
                Ok(odd) => panic!("an acknowledged event is lost: {odd:?}"),
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    }
    sent
}

#[test]
fn l9_no_acknowledged_event_is_lost_when_the_primary_is_killed_and_its_standby_promoted() {
    run(async {
        let mut fleet = TestFleet::start(WRITERS).await;
        let standby = fleet.synchronous_standby();
        let sockets: Vec<_> = [&fleet.server, &standby].map(|server| server.socket_dir().to_owned()).into();
        let sockets: Vec<&Path> = sockets.iter().map(AsRef::as_ref).collect();
        let mut writers = tokio::task::JoinSet::new();
        for number in 1..=WRITERS {
            let engine =
                connect(&format!("host{number}"), &sockets, PATIENT).await.expect("an admitted host");
            owned_session(&engine, session(number.into())).await;
            writers.spawn(async move {
                let sent = write(&engine, number, vec![text("created")], APPENDS).await;
                // These meet the fail-over in the middle.
                (number, write(&engine, number, sent, APPENDS).await, engine)
            });
        }
        let halfway = "SELECT count(*) > 300 FROM berth.event";
        while fleet.server.query("berth", halfway) != "t" {
            tokio::task::yield_now().await;
        }
        fleet.server.kill();
        standby.promote();
        let mut engines = Vec::new();
        for (number, sent, engine) in writers.join_all().await {
            assert_eq!(bodies(&engine, session(number.into())).await, sent, "host {number}");
            engines.push(engine);
        }

        // The old primary comes back with its old timeline, and would accept writes.
        fleet.server.boot_alone();
        let first = engines.iter().find(|engine| engine.host() == HostId(1)).expect("host 1");
        let mut sent = bodies(first, session(1)).await;
        for _ in 0..FRESH_CONNECTIONS {
            let fresh = connect("host1", &sockets, PATIENT).await.expect("the new primary");
            sent = write(&fresh, 1, sent, 1).await;
        }
        assert_eq!(bodies(first, session(1)).await, sent);
        let on = |server: &PgServer| {
            server.query(
                "berth",
                "SELECT count(*) FROM berth.event WHERE session = (SELECT min(id) FROM berth.session)",
            )
        };
        assert_ne!(on(&fleet.server), on(&standby), "the old primary has nothing of the new history");

        // A host that has seen the new primary prefers none to the old one.
        let hasty = connect("host1", &sockets, IMPATIENT).await.expect("the new primary");
        standby.freeze();
        let request = append(HostId(1), session(1), 1, sent.len() as u64, &["frozen"]);
        assert!(is_unknown(&hasty.append(request.clone()).await));
        let refused = hasty.append(request).await;
        assert!(
            matches!(&refused, Err(EngineError::Unreachable { cause }) if cause.contains("old timeline")),
            "{refused:?}"
        );
        println!(
            "{} events acknowledged over a fail-over",
            u32::try_from(2 * APPENDS).expect("small") * WRITERS
        );
    });
}
