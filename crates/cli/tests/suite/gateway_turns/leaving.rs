//! C5: clients that go away, proxies that cut connections, many waiting clients; and keepers that stand still.

use berth_api::KeeperConnection;
use berth_api::message::KeeperRequest;
use berth_harness::{SeededRng, signal, wait_until};
use rustix::process::Signal;
use serde_json::json;

use crate::gateway_turns::{
    at, busy, did, gate, lab, mark, open, prompts, rounds, seen, seen_states, send_keyed, start, text,
    wait_accepted, wait_idle, wait_mark,
};

/// How many sockets a process has: a keeper without clients has one, its listener.
fn sockets(pid: u32) -> usize {
    let fds = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("its files");
    let links = fds.filter_map(|fd| std::fs::read_link(fd.ok()?.path()).ok());
    links.filter(|link| link.to_string_lossy().starts_with("socket:")).count()
}

/// How many wait at once: more than a gateway has threads.
const MANY: usize = 600;

#[test]
fn c5_a_turn_goes_on_when_the_waiting_client_goes_away_and_can_be_asked_for_again() {
    let lab = lab();
    let gateway = lab.serve();
    let (go, wait) = gate(&lab, "go");
    let (begun, touch) = mark(&lab, "begun");
    let id = start(&lab, &[]);
    let body = json!({"text": format!("{touch} {wait} x"), "wait": true});
    let client = gateway.begin("POST", &at(&id, "turns"), &[("Idempotency-Key", "k")], Some(&body));
    wait_mark(&begun);
    let keeper = lab.number(&id, "keeper_pid");
    wait_until("the gateway to listen to the keeper", || sockets(keeper) > 1);
    drop(client);
    wait_until("the gateway to notice that no client waits", || sockets(keeper) <= 1);
    // A proxy that cuts the connection looks the same. Asked again, the turn is in progress, which is not an error.
    for _ in 0..3 {
        let turn = seen(&gateway, &id, 1);
        assert_eq!((&turn["in_progress"], &turn["reason"]), (&true.into(), &json!(null)), "{turn}");
        assert_eq!(gateway.get(&at(&id, "turns/1/result")).status, 202);
    }
    // A client that asks again with the key waits on; one with a short timeout gets a receipt.
    let mut short = body.clone();
    short["timeout_ms"] = 1.into();
    let receipt = send_keyed(&gateway, &id, "k", &short);
    assert_eq!(receipt.status, 202, "{}", receipt.text());
    let receipt = receipt.json();
    assert_eq!((&receipt["number"], &receipt["repeated"]), (&1.into(), &true.into()), "{receipt}");
    let again = gateway.begin("POST", &at(&id, "turns"), &[("Idempotency-Key", "k")], Some(&body));
    open(&go);
    assert_eq!(text(&again.reply().ok(), "answer"), "ECHO: x");
    let result = gateway.get(&at(&id, "turns/1/result"));
    assert_eq!((result.status, &result.json()["in_progress"]), (200, &false.into()));
    assert_eq!(did(&lab, &id).len(), 1);
}

/// The client goes at a random moment: the turn is there once, or, if the gateway did not get it, not at all.
#[test]
fn c5_a_client_that_goes_at_any_moment_leaves_one_turn_or_none() {
    let mut seed = SeededRng::announce("c5 http");
    let lab = lab();
    let gateway = lab.serve();
    let id = start(&lab, &[]);
    for round in 0..rounds(40) {
        let body = json!({"text": format!("round {round}"), "wait": true});
        let key = round.to_string();
        let client = gateway.begin("POST", &at(&id, "turns"), &[("Idempotency-Key", &key)], Some(&body));
        seed.dawdle(4_000);
        drop(client);
        let turn = send_keyed(&gateway, &id, &key, &body).ok();
        assert_eq!(text(&turn, "answer"), format!("ECHO: round {round}"));
    }
    wait_idle(&gateway, &id);
    let expected: Vec<String> = (0..rounds(40)).map(|round| format!("round {round}")).collect();
    assert_eq!(prompts(&did(&lab, &id)), expected, "each once, in order");
}

/// More clients wait than the gateway has threads and the keeper has room for; all other clients are served at once.
#[test]
fn c5_six_hundred_waiting_clients_hold_up_no_other_client_and_all_hear_the_end() {
    let lab = lab();
    let gateway = lab.serve();
    let (id, go) = busy(&lab);
    let other = start(&lab, &[]);
    let body = json!({"text": "second", "wait": true});
    let idle = json!({"for": "idle"});
    let waiting: Vec<_> = (0..MANY)
        .map(|number| match number % 2 {
            0 => gateway.begin("POST", &at(&id, "turns"), &[("Idempotency-Key", "k")], Some(&body)),
            _ => gateway.begin("POST", &at(&id, "wait"), &[], Some(&idle)),
        })
        .collect();
    wait_accepted(&gateway, &id, 2);
    // A request that had to wait for these would never be answered.
    for path in ["turns/1", "turns", "queue"] {
        gateway.get(&at(&id, path)).ok();
    }
    assert_eq!(text(&crate::gateway_turns::told(&gateway, &other, "hello"), "answer"), "ECHO: hello");
    let connections = sockets(lab.number(&id, "keeper_pid"));
    assert!(connections < 40, "the keeper has {connections} connections for {MANY} who wait");
    let tasks = std::fs::read_dir(format!("/proc/{}/task", gateway.pid())).expect("its threads").count();
    assert!(tasks < 100, "the gateway has {tasks} threads for {MANY} who wait");
    open(&go);
    for (number, client) in waiting.into_iter().enumerate() {
        let reply = client.reply();
        assert_eq!(reply.status, 200, "{number}: {}", reply.text());
        match number % 2 {
            0 => assert_eq!(text(&reply.json(), "answer"), "ECHO: second"),
            _ => assert_eq!(reply.json()["session"]["state"], "idle"),
        }
    }
    assert_eq!(did(&lab, &id).len(), 2);
    // When no client waits any more, the gateway is not connected, either.
    let pid = lab.number(&id, "keeper_pid");
    wait_until("the gateway to leave the keeper", || sockets(pid) <= 1);
}

/// Others watch the session already, as many as its keeper serves: a waiting client then polls.
#[test]
fn c5_a_waiting_client_hears_the_end_though_the_keeper_serves_as_many_clients_as_it_can() {
    let lab = lab();
    let gateway = lab.serve();
    let (id, go) = busy(&lab);
    let dir = lab.session_dir(&id);
    let mut watchers: Vec<KeeperConnection> = Vec::new();
    loop {
        let mut watcher = KeeperConnection::open(&dir, "a test".to_owned()).expect("the keeper listens");
        match watcher.ask(KeeperRequest::Watch) {
            Ok(_) => watchers.push(watcher),
            Err(full) => break assert_eq!(full.code, berth_api::ProblemCode::Full, "{full:?}"),
        }
    }
    assert!(watchers.len() >= 32, "{}", watchers.len());
    let body = json!({"text": "second", "wait": true});
    let clients: Vec<_> = (0..5)
        .map(|_| gateway.begin("POST", &at(&id, "turns"), &[("Idempotency-Key", "k")], Some(&body)))
        .collect();
    wait_accepted(&gateway, &id, 2);
    open(&go);
    for client in clients {
        assert_eq!(text(&client.reply().ok(), "answer"), "ECHO: second");
    }
}

/// A keeper that stands still is 503 for the client that sends, and no other client waits for it.
#[test]
fn c9_a_keeper_that_stands_still_is_unavailable_and_other_sessions_are_not() {
    let lab = lab();
    let gateway = lab.serve_in(&[], &[("BERTH_ACCEPT_MS", "3000")]);
    let (id, other) = (start(&lab, &[]), start(&lab, &[]));
    crate::gateway_turns::told(&gateway, &id, "first");
    let keeper = lab.process(&id, "keeper_pid");
    signal(&keeper, Signal::STOP);
    let first = gateway.get(&at(&id, "turns/1")).ok();
    assert_eq!((&first["state"], &first["keeper_silent"]), (&"done".into(), &true.into()), "{first}");
    let body = json!({"text": "while it stands still"});
    let sends: Vec<_> = (0..MANY)
        .map(|number| {
            let key = format!("k{}", number % 3);
            gateway.begin("POST", &at(&id, "turns"), &[("Idempotency-Key", &key)], Some(&body))
        })
        .collect();
    // Behind that many sends, which take three seconds each, they would not be answered in time.
    for round in 0..5 {
        crate::gateway_turns::told(&gateway, &other, &format!("round {round}"));
    }
    for client in sends {
        client.reply().problem(503, "unreachable");
    }
    signal(&keeper, Signal::CONT);
    wait_idle(&gateway, &id);
    let ran = did(&lab, &id);
    assert!(ran.len() <= 4, "three keys: {ran:?}");
    assert_eq!(seen_states(&gateway, &id).len(), ran.len());
}

/// A sender that was told 503 must not find later that its turn ran after all.
#[test]
fn turns_refused_with_503_by_a_suspended_keeper_do_not_run_when_it_goes_on() {
    let lab = lab();
    let gateway = lab.serve_in(&[], &[("BERTH_ACCEPT_MS", "1000")]);
    let id = start(&lab, &[]);
    crate::gateway_turns::told(&gateway, &id, "first");
    let keeper = lab.process(&id, "keeper_pid");
    signal(&keeper, Signal::STOP);
    let sends: Vec<_> = (0..16)
        .map(|number| {
            let (key, body) = (format!("k{number}"), json!({"text": format!("suspended {number}")}));
            (key.clone(), gateway.begin("POST", &at(&id, "turns"), &[("Idempotency-Key", &key)], Some(&body)))
        })
        .collect();
    for (key, client) in sends {
        let problem = client.reply().problem(503, "unreachable");
        assert!(text(&problem, "detail").contains(&format!("`{key}`")), "{problem}");
    }
    signal(&keeper, Signal::CONT);
    // Accepted behind everything that was sent before it.
    crate::gateway_turns::told(&gateway, &id, "last");
    let prompts: Vec<String> = did(&lab, &id).into_iter().map(|did| did.prompt).collect();
    assert_eq!(prompts, ["first", "last"]);
    assert_eq!(seen_states(&gateway, &id), ["done", "done"]);
}
