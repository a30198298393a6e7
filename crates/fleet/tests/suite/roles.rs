//! Login roles: each speaks for its own host, and reaches nothing but the functions for hosts.

use berth_fleet::engine::{
    ClaimAnswer, ClaimRequest, HeartbeatRequest, ListRow, LostSession, PostRequest, ReleaseRequest,
};
use berth_fleet::pg::PgEngine;
use berth_fleet::{EngineError, EventNumber, FleetEngine, HostId, Incarnation, PostNumber, Term};

use crate::names::{append, create, name, session, text};
use crate::postgres::{ALL, PATIENT, TestFleet, bodies, owned_session, run};

#[test]
fn l23_a_role_that_speaks_for_another_host_is_rejected_and_in_the_audit_log() {
    run(async {
        let fleet = TestFleet::start(2).await;
        let [owner, thief] = [fleet.host(1, PATIENT).await, fleet.host(2, PATIENT).await];
        let (id, victim) = (session(1), owner.host());
        let incarnation = owned_session(&owner, id.clone()).await;
        let before = owner.session(id.clone()).await.expect("a read");

        let event = text("stolen");
        let claim = ClaimRequest {
            host: victim,
            session: id.clone(),
            expected_term: Term(1),
            event: event.clone(),
            watched: None,
        };
        let release = ReleaseRequest {
            host: victim,
            session: id.clone(),
            term: Term(1),
            after: EventNumber(1),
            event: event.clone(),
        };
        let post = PostRequest {
            host: victim,
            session: id.clone(),
            key: event.clone(),
            kind: event.clone(),
            body: event.clone(),
        };
        let row =
            ListRow { session: id.clone(), host: victim, rank: 0, active_at_ms: 0, status: event.clone() };
        let beat = HeartbeatRequest { host: victim, incarnation, used_slots: 0 };
        let lost = LostSession { session: id.clone(), term: Term(1) };
        let rejected = [
            ("create", is_rejected(thief.create(create(victim, session(2), "stolen")).await)),
            ("append", is_rejected(thief.append(append(victim, id.clone(), 1, 1, &["stolen"])).await)),
            ("claim", is_rejected(thief.claim(claim).await)),
            ("release", is_rejected(thief.release(release).await)),
            ("begin_incarnation", is_rejected(thief.begin_incarnation(victim).await)),
            ("heartbeat", is_rejected(thief.heartbeat(beat).await)),
            ("barrier", is_rejected(thief.barrier(victim).await)),
            ("acknowledge_loss", is_rejected(thief.acknowledge_loss(victim, lost).await)),
            ("post", is_rejected(thief.post(post).await)),
            ("withdraw", is_rejected(thief.withdraw(victim, id.clone(), event).await)),
            ("publish", is_rejected(thief.publish(Term(1), row).await)),
            ("inbox", is_rejected(thief.inbox(victim, PostNumber(0), ALL).await)),
        ];
        for (call, is_rejected) in rejected {
            assert!(is_rejected, "{call}");
        }
        let audit = fleet
            .server
            .query("berth", "SELECT role || ' ' || host || ' ' || what FROM berth.audit ORDER BY n");
        let expected: Vec<String> =
            rejected.iter().map(|(call, _)| format!("host2 {victim} rejected: {call}")).collect();
        assert_eq!(audit.lines().collect::<Vec<_>>(), expected);
        assert_eq!(owner.session(id.clone()).await.expect("a read"), before);
        assert_eq!(bodies(&owner, id).await, [text("created")]);
    });
}

fn is_rejected<A>(answer: Result<A, EngineError>) -> bool {
    matches!(answer, Err(EngineError::Rejected { host: HostId(1), .. }))
}

#[test]
fn a_role_of_a_host_has_no_right_on_tables_and_helpers() {
    run(async {
        let fleet = TestFleet::start(2).await;
        for sql in [
            "SELECT * FROM berth.event",
            "DELETE FROM berth.audit",
            "UPDATE berth.session SET host = 1",
            "SELECT berth.admit_host('mine', 'host1')",
            "SELECT berth.grant_hosts()",
            "SELECT berth.remove_host('host1')",
            "SELECT berth.commit_loudly()",
            "SELECT berth.admits(1, NULL, 'x')",
            "SELECT berth.wait_for_standby(1)",
            "CREATE TABLE berth.mine ()",
        ] {
            let refused = fleet.server.try_query("berth", &format!("SET ROLE host1; {sql}"));
            assert!(
                refused.as_ref().is_err_and(|message| message.contains("permission denied")),
                "{sql}: {refused:?}"
            );
        }
        let pinned = "SELECT count(*) FROM pg_proc WHERE pronamespace = 'berth'::regnamespace AND prosecdef
            AND NOT coalesce('search_path=pg_catalog, berth, pg_temp' = ANY (proconfig), false)";
        assert_eq!(fleet.server.query("berth", pinned), "0", "functions without a pinned search_path");

        fleet.server.query("postgres", "CREATE ROLE stranger LOGIN");
        let refused = PgEngine::connect(fleet.url("stranger"), PATIENT).await.err();
        assert!(matches!(refused, Some(EngineError::NoFleet { .. })), "{refused:?}");
        let former = fleet.host(1, PATIENT).await;
        owned_session(&former, session(1)).await;
        assert_eq!(bodies(&former, session(1)).await.len(), 1);
        let admin = fleet.admin().await;
        assert!(admin.remove_host(&name("host1")).await.expect("the owner may"));
        assert!(!admin.remove_host(&name("host1")).await.expect("the owner may"), "it left before");
        // Its session can be claimed without evidence about its heartbeat.
        let heir = fleet.host(2, PATIENT).await;
        let claim = ClaimRequest {
            host: heir.host(),
            session: session(1),
            expected_term: Term(1),
            event: text("claimed"),
            watched: None,
        };
        assert!(matches!(heir.claim(claim).await, Ok(ClaimAnswer::Ours { term: Term(2), .. })));
        // Not on a connection from before, and not with a right that another grant left behind.
        assert!(former.events(session(1), EventNumber(1), ALL).await.is_err());
        fleet.server.query("berth", "GRANT USAGE ON SCHEMA berth TO host1");
        fleet.server.query("berth", "GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA berth TO host1");
        assert_eq!(former.events(session(1), EventNumber(1), ALL).await.expect("a read"), []);
        assert_eq!(former.hosts().await.expect("a read"), []);
        let refused = PgEngine::connect(fleet.url("host1"), PATIENT).await.err();
        assert!(matches!(refused, Some(EngineError::NoFleet { .. })), "{refused:?}");
    });
}

#[test]
fn an_older_incarnation_of_a_host_is_told_that_it_is_replaced() {
    run(async {
        use berth_fleet::engine::HeartbeatAnswer;
        let fleet = TestFleet::start(1).await;
        let engine = fleet.host(1, PATIENT).await;
        let host = engine.host();
        let older = engine.begin_incarnation(host).await.expect("its own host");
        let newer = engine.begin_incarnation(host).await.expect("its own host");
        assert_eq!((older, newer), (Incarnation(1), Incarnation(2)));
        let beat = |incarnation| engine.heartbeat(HeartbeatRequest { host, incarnation, used_slots: 0 });
        assert_eq!(beat(older).await.expect("an answer"), HeartbeatAnswer::Replaced);
        assert!(matches!(beat(newer).await, Ok(HeartbeatAnswer::Counted { .. })));
    });
}
