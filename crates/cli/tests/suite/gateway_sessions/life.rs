//! Stopping, resuming, forking, archiving, restoring, deleting.

use berth_harness::{HttpResponse, wait_gone, wait_until};
use serde_json::{Value, json};

use crate::gateway_sessions::{GatewayApiFixture, at_once, open, text};

fn do_to(api: &GatewayApiFixture, id: &str, verb: &str, body: Value) -> HttpResponse {
    api.post(&format!("/v1/sessions/{id}/{verb}"), body)
}

fn delete(api: &GatewayApiFixture, id: &str, query: &str) -> HttpResponse {
    api.gateway.ask("DELETE", &format!("/v1/sessions/{id}{query}"), &[], None)
}

#[test]
fn a_session_goes_through_its_whole_life_over_http() {
    let api = GatewayApiFixture::new();
    let id = api.fake(json!({"name": "fix", "prompt": "say:first"}));
    api.wait_idle(&id);
    let agent = api.lab.process(&id, "pid");
    do_to(&api, &id, "archive", json!({})).problem(409, "held");
    let stopped = do_to(&api, &id, "stop", json!({"grace_ms": 2000})).ok();
    assert_eq!(stopped["state"], "stopped");
    wait_gone(&agent);
    assert_eq!(do_to(&api, &id, "stop", json!({})).ok()["state"], "stopped", "twice is once");
    assert_eq!(do_to(&api, &id, "resume", json!({})).ok()["epoch"], 2);
    do_to(&api, &id, "resume", json!({})).problem(409, "held");
    let copy = do_to(&api, &id, "fork", json!({"name": "copy"}));
    assert_eq!(copy.status, 201);
    assert_ne!(copy.ok()["conversation_id"], api.session(&id)["conversation_id"]);
    assert_eq!(do_to(&api, &id, "archive", json!({"stop": true})).ok()["state"], "archived");
    assert_eq!(do_to(&api, &id, "restore", json!({})).ok()["state"], "stopped");
    do_to(&api, &id, "stop", json!({"grace_ms": -1})).problem(400, "usage");
    do_to(&api, &id, "archive", json!({"grace_ms": 1})).problem(400, "usage");
    do_to(&api, &id, "restore", json!({"odd": 1})).problem(400, "usage");
    // Deleting for good needs a yes.
    let needs = delete(&api, "fix", "").problem(428, "needs-yes");
    assert!(text(&needs, "detail").contains(&id), "{needs}");
    delete(&api, "fix", "?confirm=fix").problem(428, "needs-yes");
    delete(&api, "copy", &format!("?confirm={id}")).problem(428, "needs-yes");
    let gone = delete(&api, "fix", &format!("?confirm={id}")).ok();
    assert_eq!((&gone["id"], &gone["purged"], &gone["name"]), (&json!(id), &json!(true), &json!("fix")));
    assert!(!api.lab.session_dir(&id).exists());
    delete(&api, "fix", &format!("?confirm={id}")).problem(404, "not-found");
}

#[test]
fn b8_two_restores_and_resumes_at_the_same_moment_give_one_agent_process() {
    let api = GatewayApiFixture::new();
    for round in 0..5 {
        let id = api.fake(json!({"prompt": "say:hello"}));
        api.wait_idle(&id);
        do_to(&api, &id, "archive", json!({"stop": true})).ok();
        let restore = || do_to(&api, &id, "restore", json!({}));
        let resume = || do_to(&api, &id, "resume", json!({}));
        let replies = match round % 2 {
            0 => at_once(vec![
                Box::new(restore) as Box<dyn FnOnce() -> HttpResponse + Send>,
                Box::new(restore),
            ]),
            _ => at_once(vec![
                Box::new(restore) as Box<dyn FnOnce() -> HttpResponse + Send>,
                Box::new(resume),
                Box::new(resume),
            ]),
        };
        // Later clients are told that the session runs, or that another client is resuming it.
        assert!(replies.iter().any(|reply| reply.status == 200), "{replies:?}");
        assert!(replies.iter().all(|reply| matches!(reply.status, 200 | 409)), "{replies:?}");
        if round % 2 == 0 {
            assert!(replies.iter().all(|reply| reply.status == 200), "{replies:?}");
            do_to(&api, &id, "resume", json!({})).ok();
        }
        let known = api.session(&id);
        assert_eq!((&known["epoch"], &known["archived_at"]), (&json!(2), &json!(null)), "{known}");
        assert_eq!(api.lab.events(&id, "run_started").len(), 2);
        let processes = api.get(&format!("/v1/sessions/{id}/processes"));
        let agents = processes["processes"].as_array().expect("a list").iter();
        assert_eq!(agents.filter(|row| row["role"] == "agent").count(), 1, "{processes}");
        do_to(&api, &id, "stop", json!({})).ok();
    }
}

#[test]
fn c7_archive_and_delete_while_a_turn_runs_are_refused_and_stop_ends_it_and_the_transcript_stays() {
    let api = GatewayApiFixture::new();
    let (gate, wait) = api.gate("gate");
    let id = api.fake(json!({"prompt": format!("{wait} say:done")}));
    wait_until("the turn to run", || api.session(&id)["state"] == "working");
    let transcripts = || -> Vec<_> {
        let files = std::fs::read_dir(api.lab.dir().join("store")).expect("the agent's own store");
        files.map(|file| file.expect("a file").path()).collect()
    };
    wait_until("the agent to write its transcript", || !transcripts().is_empty());
    let before = transcripts();
    do_to(&api, &id, "archive", json!({})).problem(409, "held");
    delete(&api, &id, &format!("?confirm={id}")).problem(409, "held");
    assert_eq!(api.session(&id)["state"], "working");
    open(&gate);
    api.wait_idle(&id);
    assert_eq!(api.lab.json(["turn", &format!("{id}.1"), "--json"])["answer"], "done");
    // Stopped in the middle of a turn, and deleted: the agent's own files stay.
    let (_never, wait) = api.gate("never");
    api.lab.ok(["send", &id, &wait]);
    wait_until("the turn to run", || api.session(&id)["state"] == "working");
    do_to(&api, &id, "stop", json!({"grace_ms": 0})).ok();
    let turn = api.lab.json(["turn", &format!("{id}.2"), "--json"]);
    assert!(matches!(turn["state"].as_str(), Some("interrupted" | "unknown")), "{turn}");
    delete(&api, &id, &format!("?confirm={id}")).ok();
    assert_eq!(transcripts(), before);
}

#[test]
fn c14_a_conversation_that_is_not_there_is_a_typed_error_and_no_success() {
    let api = GatewayApiFixture::new();
    let body =
        json!({"agent": "fake", "cwd": api.lab.dir(), "resume": "no-such-conversation", "name": "gone"});
    let refused = api.post("/v1/sessions", body);
    let problem = refused.problem(409, "refused");
    assert!(
        problem["title"].as_str().is_some_and(|title| title.contains("no-such-conversation")),
        "{problem}"
    );
    // A session that lost its transcript is refused until a client asks for a fresh start, and that is visible.
    let id = api.fake(json!({"prompt": "say:hello"}));
    api.wait_idle(&id);
    let native = text(&api.session(&id), "conversation_id");
    do_to(&api, &id, "stop", json!({})).ok();
    for file in std::fs::read_dir(api.lab.dir().join("store")).expect("the agent's own store") {
        std::fs::remove_file(file.expect("a file").path()).expect("our own file");
    }
    do_to(&api, &id, "resume", json!({})).problem(409, "refused");
    let fresh = do_to(&api, &id, "resume", json!({"fresh": true})).ok();
    assert_ne!(text(&fresh, "conversation_id"), native, "a new conversation, and the dead id is not kept");
    assert_eq!(text(&api.session(&id), "conversation_id"), text(&fresh, "conversation_id"));
}
