//! Hosts that want the same at once: a session, a name, a key, a conversation.

use berth_core::Epoch;
use berth_fleet::engine::{
    AppendAnswer, AppendRequest, ClaimAnswer, ClaimRequest, ConversationRef, CreateAnswer, CreateRequest,
    HostLossPolicy, PostAnswer, PostRequest, ReleaseRequest, SharedIdentity, TakenPost, WatchedHost,
    WithdrawAnswer,
};
use berth_fleet::pg::PgEngine;
use berth_fleet::{EventNumber, FleetEngine, PostNumber, Term};

use crate::names::{append, create, name, session, text};
use crate::postgres::{ALL, PATIENT, TestFleet, owned_session, run};

const CLAIM_ROUNDS: u64 = 1000;
const CREATE_ROUNDS: u64 = 100;
const POSTS: u64 = 100;

#[test]
fn l1_one_of_two_hosts_wins_a_free_session_and_terms_have_no_gap() {
    run(async {
        let fleet = TestFleet::start(2).await;
        let hosts = [fleet.host(1, PATIENT).await, fleet.host(2, PATIENT).await];
        let id = session(1);
        let free = CreateRequest { owned: false, ..create(hosts[0].host(), id.clone(), "created") };
        assert!(matches!(hosts[0].create(free).await, Ok(CreateAnswer::Created { term: Term(0), .. })));
        let mut wins = [0, 0];
        for round in 0..CLAIM_ROUNDS {
            let claim = |engine: &PgEngine| {
                let event = text(format!("claimed by {} in {round}", engine.host()));
                let (host, session, expected_term) = (engine.host(), id.clone(), Term(round));
                let (engine, watched) = (engine.clone(), None);
                async move { engine.claim(ClaimRequest { host, session, expected_term, event, watched }).await }
            };
            let (first, second) = tokio::join!(claim(&hosts[0]), claim(&hosts[1]));
            let answers = [first.expect("an answer"), second.expect("an answer")];
            let winner = match &answers {
                [ClaimAnswer::Ours { term, .. }, ClaimAnswer::Lost { .. }] if *term == Term(round + 1) => 0,
                [ClaimAnswer::Lost { .. }, ClaimAnswer::Ours { term, .. }] if *term == Term(round + 1) => 1,
                odd => panic!("round {round}: {odd:?}"),
            };
            wins[winner] += 1;
            let (host, term, after) = (hosts[winner].host(), Term(round + 1), EventNumber(2 * round + 2));
            let (session, event) = (id.clone(), text("released"));
            let released = hosts[winner].release(ReleaseRequest { host, session, term, after, event }).await;
            assert!(matches!(released, Ok(AppendAnswer::Appended { .. })), "{released:?}");
        }
        println!("{CLAIM_ROUNDS} rounds: {wins:?}");
        let events = hosts[0].events(id, EventNumber(1), ALL).await.expect("a read");
        let claims = events.iter().filter(|event| event.body.as_str().starts_with("claimed"));
        assert!(claims.map(|event| event.term.0).eq(1..=CLAIM_ROUNDS));
        assert!(events.iter().map(|event| event.number.0).eq(1..=2 * CLAIM_ROUNDS + 1));
    });
}

#[test]
fn l14_a_key_that_is_posted_100_times_waits_once_and_with_one_text() {
    run(async {
        let fleet = TestFleet::start(3).await;
        let hosts =
            [fleet.host(1, PATIENT).await, fleet.host(2, PATIENT).await, fleet.host(3, PATIENT).await];
        let id = session(1);
        owned_session(&hosts[0], id.clone()).await;
        let mut posts = hosts[0].posts();
        assert_eq!(hosts[0].inbox(hosts[0].host(), PostNumber(0), ALL).await.expect("a read"), []);
        posts.mark_unchanged();
        let post = |engine: &PgEngine, body: &str| {
            let (host, session, key, kind) = (engine.host(), id.clone(), text("key"), text("turn"));
            let (engine, body) = (engine.clone(), text(body));
            async move { engine.post(PostRequest { host, session, key, kind, body }).await.expect("an answer") }
        };
        let mut calls = tokio::task::JoinSet::new();
        (0..POSTS).for_each(|number| drop(calls.spawn(post(&hosts[number as usize % 3], "go on"))));
        let answers = calls.join_all().await;
        let first = answers.iter().filter(|answer| matches!(answer, PostAnswer::Posted(_))).count();
        assert_eq!((answers.len() as u64, first), (POSTS, 1), "{answers:?}");
        let waiting = hosts[0].inbox(hosts[0].host(), PostNumber(0), ALL).await.expect("a read");
        let [waiting] = &waiting[..] else { panic!("{waiting:?}") };
        let is_same = |answer: &PostAnswer| {
            [PostAnswer::Posted(waiting.number), PostAnswer::PostedBefore(waiting.number)].contains(answer)
        };
        assert!(answers.iter().all(is_same), "{answers:?}");
        assert_eq!(post(&hosts[1], "other").await, PostAnswer::OtherText);
        tokio::time::timeout(PATIENT, posts.changed()).await.expect("the host hears of it").expect("open");

        // The session accepts it: a later post of the key has the first receipt, and cannot be withdrawn.
        let took = vec![TakenPost { key: text("key"), accepted_by: EventNumber(2) }];
        let accept = append(hosts[0].host(), id.clone(), 1, 1, &["accepted"]);
        let accepted = hosts[0].append(AppendRequest { took, ..accept }).await.expect("an answer");
        assert_eq!(accepted, AppendAnswer::Appended { last: EventNumber(2), not_taken: Vec::new() });
        assert_eq!(post(&hosts[2], "go on").await, PostAnswer::PostedBefore(waiting.number));
        let withdrawn = hosts[2].withdraw(hosts[2].host(), id, text("key")).await;
        assert_eq!(withdrawn.expect("an answer"), WithdrawAnswer::Taken { accepted_by: EventNumber(2) });
    });
}

#[test]
fn a_partly_recorded_append_does_not_report_the_keys_of_events_that_are_still_to_come() {
    run(async {
        let fleet = TestFleet::start(1).await;
        let engine = fleet.host(1, PATIENT).await;
        let (host, id) = (engine.host(), session(1));
        owned_session(&engine, id.clone()).await;
        let (key, kind, body) = (text("key"), text("turn"), text("go on"));
        let post = PostRequest { host, session: id.clone(), key: key.clone(), kind, body };
        assert!(matches!(engine.post(post).await, Ok(PostAnswer::Posted(_))));
        // The answer to the first append is lost; the repeated one has another event, which accepts the post.
        engine.append(append(host, id.clone(), 1, 1, &["one"])).await.expect("an answer");
        let took = vec![TakenPost { key, accepted_by: EventNumber(3) }];
        let repeated = AppendRequest { took, ..append(host, id.clone(), 1, 1, &["one", "two"]) };
        let none = Vec::new();
        let expected = AppendAnswer::AlreadyAppended { last: EventNumber(2), not_taken: none.clone() };
        assert_eq!(engine.append(repeated.clone()).await.expect("an answer"), expected);
        let rest = AppendRequest { after: EventNumber(2), events: vec![text("two")], ..repeated };
        let expected = AppendAnswer::Appended { last: EventNumber(3), not_taken: none };
        assert_eq!(engine.append(rest).await.expect("an answer"), expected);
    });
}

#[test]
fn a_host_that_claims_its_own_session_still_has_the_run_that_may_be_alive() {
    run(async {
        let fleet = TestFleet::start(1).await;
        let engine = fleet.host(1, PATIENT).await;
        let (host, id, live) = (engine.host(), session(1), Some(Epoch(3)));
        let request = CreateRequest { live, ..create(host, id.clone(), "created") };
        assert!(matches!(engine.create(request).await, Ok(CreateAnswer::Created { .. })));
        let (session, expected_term, event) = (id.clone(), Term(1), text("claimed"));
        let claim = ClaimRequest { host, session, expected_term, event, watched: None };
        assert!(matches!(engine.claim(claim).await, Ok(ClaimAnswer::Ours { term: Term(2), .. })));
        assert_eq!(engine.session(id).await.expect("a read").expect("recorded").live, live);
    });
}

#[test]
fn an_append_that_meets_a_claim_is_before_it_or_fenced() {
    run(async {
        let fleet = TestFleet::start(2).await;
        let hosts = [fleet.host(1, PATIENT).await, fleet.host(2, PATIENT).await];
        let mut fenced = 0;
        for round in 0..CREATE_ROUNDS {
            let (owner, taker) = (&hosts[0], &hosts[1]);
            let id = session(round);
            let mut request = create(owner.host(), id.clone(), "created");
            request.on_host_loss = HostLossPolicy::TakeOver;
            assert!(matches!(owner.create(request).await, Ok(CreateAnswer::Created { .. })));
            let seen = taker.hosts().await.expect("a read").swap_remove(0);
            let watched =
                WatchedHost { host: seen.host, incarnation: seen.incarnation, heartbeat: seen.heartbeat };
            let claim = ClaimRequest {
                host: taker.host(),
                session: id.clone(),
                expected_term: Term(1),
                event: text("claimed"),
                watched: Some(watched),
            };
            let late = append(owner.host(), id.clone(), 1, 1, &["late"]);
            let (appended, claimed) = tokio::join!(owner.append(late), taker.claim(claim));
            let (appended, claimed) = (appended.expect("an answer"), claimed.expect("an answer"));
            let ClaimAnswer::Ours { term: Term(2), last } = claimed else { panic!("{claimed:?}") };
            let expected: &[&str] = match appended {
                AppendAnswer::Appended { last: EventNumber(2), .. } => &["created", "late", "claimed"],
                AppendAnswer::Fenced { term: Term(2), .. } => &["created", "claimed"],
                odd => panic!("round {round}: {odd:?}"),
            };
            fenced += u64::from(expected.len() == 2);
            let events = taker.events(id, EventNumber(1), ALL).await.expect("a read");
            assert!(events.iter().map(|event| event.body.as_str()).eq(expected.iter().copied()));
            assert_eq!(last, EventNumber(expected.len() as u64));
        }
        println!("{CREATE_ROUNDS} races, {fenced} appends fenced");
    });
}

#[test]
fn l16_one_session_of_two_hosts_gets_a_name_a_key_or_a_conversation() {
    run(async {
        let fleet = TestFleet::start(2).await;
        let hosts = [fleet.host(1, PATIENT).await, fleet.host(2, PATIENT).await];
        let mut wins = [0, 0];
        for round in 0..CREATE_ROUNDS {
            for same in [SharedIdentity::Name, SharedIdentity::Key, SharedIdentity::Conversation] {
                let request = |at: u64| {
                    let id = session(round * 10 + at + 2 * same as u64);
                    let mut request = create(hosts[at as usize].host(), id, &format!("created by {at}"));
                    let value = format!("same{round}");
                    match same {
                        SharedIdentity::Name => request.name = Some(name(&value)),
                        SharedIdentity::Key => request.key = Some(text(value)),
                        SharedIdentity::Conversation | SharedIdentity::Id => {
                            request.conversation =
                                Some(ConversationRef { kind: text("agent"), native_id: text(value) });
                        }
                    }
                    request
                };
                let ids = [request(0).session, request(1).session];
                let (first, second) = tokio::join!(hosts[0].create(request(0)), hosts[1].create(request(1)));
                let answers = [first.expect("an answer"), second.expect("an answer")];
                let is_won = |answer: &CreateAnswer| matches!(answer, CreateAnswer::Created { .. });
                let winner = answers.iter().position(is_won).expect("one host wins");
                wins[winner] += 1;
                let told = CreateAnswer::Exists { session: ids[winner].clone(), same };
                assert_eq!(answers[1 - winner], told, "round {round}");
                let other = hosts[0].session(ids[1 - winner].clone()).await.expect("a read");
                assert_eq!(other, None, "nothing of the other session is recorded");
                // A repeated call of the winner gives its first answer.
                let again = hosts[winner].create(request(winner as u64)).await.expect("an answer");
                assert_eq!(again, answers[winner]);
            }
        }
        println!("{} races: {wins:?}", 3 * CREATE_ROUNDS);
    });
}
