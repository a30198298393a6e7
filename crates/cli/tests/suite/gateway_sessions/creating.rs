//! Making sessions.

use berth_harness::wait_until;
use serde_json::{Value, json};

use crate::gateway_sessions::{GatewayApiFixture, at_once, text};

#[test]
fn two_posts_with_one_key_at_the_same_moment_make_one_session_and_one_turn() {
    let api = GatewayApiFixture::new();
    for round in 0..5 {
        let key = format!("key {round}");
        let body = json!({"agent": "fake", "cwd": api.lab.dir(), "prompt": "say:once"});
        let post = || {
            let headers = [("Idempotency-Key", key.as_str())];
            api.gateway.ask("POST", "/v1/sessions", &headers, Some(&body))
        };
        let replies = at_once(vec![Box::new(post), Box::new(post), Box::new(post)]);
        let mut statuses: Vec<u16> = replies.iter().map(|reply| reply.status).collect();
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 200, 201], "{replies:?}");
        let made: Vec<Value> = replies.iter().map(|reply| reply.ok()).collect();
        let id = text(&made[0]["session"], "id");
        for reply in &made {
            assert_eq!(
                (&reply["session"]["id"], &reply["turn"]["number"]),
                (&json!(id), &json!(1)),
                "{reply}"
            );
        }
        assert_eq!(made.iter().filter(|reply| reply["repeated"] == true).count(), 2);
        api.wait_idle(&id);
        assert_eq!(api.lab.events(&id, "turn_accepted").len(), 1);
    }
    assert_eq!(api.get("/v1/sessions")["sessions"].as_array().map(Vec::len), Some(5));
    // The key is used again for another request.
    let other = json!({"command": ["sleep", "1"], "cwd": api.lab.dir(), "key": "key 0"});
    api.post("/v1/sessions", other).problem(409, "refused");
    // The key is used again for another first turn: the refusal names the session it was for.
    let other = json!({"agent": "fake", "cwd": api.lab.dir(), "prompt": "say:twice", "key": "key 2"});
    let same = json!({"agent": "fake", "cwd": api.lab.dir(), "key": "key 2"});
    let meant = text(&api.post("/v1/sessions", same).ok()["session"], "id");
    let refused = api.post("/v1/sessions", other);
    refused.problem(409, "refused");
    assert!(refused.text().contains(&meant) && refused.text().contains("first turn"), "{}", refused.text());
    // On the command line the key means the same session.
    let said = api
        .lab
        .command(["run", "-d", "--agent", "fake", "--key", "key 1"])
        .current_dir(api.lab.dir())
        .output();
    let id = String::from_utf8(said.expect("berth can be started").stdout).expect("text");
    let again = json!({"agent": "fake", "cwd": api.lab.dir(), "key": "key 1"});
    assert_eq!(api.post("/v1/sessions", again).ok()["session"]["id"], id.trim());
}

#[test]
fn a_created_session_has_all_requested_settings_and_stores_no_secret() {
    let api = GatewayApiFixture::new();
    let made = api.post(
        "/v1/sessions",
        json!({
            "agent": "fake", "name": "fix", "cwd": api.lab.dir(), "tags": ["a"], "note": "why",
            "env": {"PLAIN": "seen", "API_TOKEN": "sk-very-secret-value-1234567890"},
            "policy": {"idle_ms": null, "ttl_ms": 3_600_000}, "limits": {"processes": 500},
            "notify": ["needs-you"], "prompt": "report:PLAIN,API_TOKEN",
        }),
    );
    assert_eq!(made.status, 201, "{}", made.text());
    let made = made.ok();
    let (session, turn) = (&made["session"], &made["turn"]);
    assert_eq!(
        (&session["name"], &session["tags"], &session["note"]),
        (&json!("fix"), &json!(["a"]), &json!("why"))
    );
    assert_eq!(
        (&session["policy"]["ttl_ms"], &session["limits"]["processes"]),
        (&json!(3_600_000), &json!(500))
    );
    assert_eq!((&session["env_names"], &made["left_out"]), (&json!(["PLAIN"]), &json!(["API_TOKEN"])));
    assert_eq!((&turn["number"], &made["repeated"]), (&json!(1), &json!(false)));
    api.wait_idle("fix");
    let answer = api.lab.ok(["turn", "fix.1"]);
    assert!(answer.contains("sk-very-secret-value"), "the agent has it: {answer}");
    // Output of the agent itself is left out.
    let dir = api.lab.session_dir(&text(session, "id"));
    let status = std::fs::read_to_string(dir.join("status.json")).expect("a status cache");
    assert!(!status.contains("sk-very-secret"), "{status}");
    let created = &api.lab.events("fix", "created")[0];
    assert!(!created.to_string().contains("sk-very-secret"), "{created}");
}

#[test]
fn a_request_that_cannot_be_run_is_refused_by_name_and_leaves_nothing() {
    let api = GatewayApiFixture::new();
    let post = |body: Value| api.post("/v1/sessions", body);
    let file = api.lab.dir().join("file");
    std::fs::write(&file, "").expect("a file");
    for (body, status, code, says) in [
        (json!({}), 400, "usage", "no agent and no command is given"),
        (json!({"command": []}), 400, "usage", "no agent and no command is given"),
        (json!({"agent": "nobody"}), 404, "not-found", "nobody"),
        (json!({"command": ["true"], "cwd": "relative"}), 400, "usage", "relative"),
        (json!({"command": ["true"], "cwd": "/not/there"}), 409, "refused", "/not/there"),
        (json!({"command": ["true"], "cwd": file}), 409, "refused", "not a directory"),
        (json!({"command": ["no-such-program-anywhere"]}), 409, "refused", "no-such-program-anywhere"),
        (json!({"command": ["true"], "env": {"A=B": "x"}}), 400, "usage", "A=B"),
        (json!({"command": ["true"], "env": {"": "x"}}), 400, "usage", "not a valid name of a variable"),
        (json!({"command": ["true"], "env": {"BERTH_HOME": "x"}}), 400, "usage", "BERTH_HOME"),
        (json!({"command": ["true"], "env": {"A": "x\u{0}y"}}), 400, "usage", "zero byte"),
        (json!({"command": ["true\u{0}"]}), 400, "usage", "zero byte"),
        (json!({"command": ["true"], "env": {"A": 1}}), 400, "usage", "env.A"),
        (json!({"command": ["true"], "name": "a/b"}), 400, "usage", "/"),
        (json!({"command": ["true"], "tags": ["no tag"]}), 400, "usage", "no tag"),
        (json!({"command": ["true"], "limits": {"memory_bytes": 0}}), 400, "usage", "memory_bytes"),
        (json!({"command": ["true"], "limits": {"odd": 1}}), 400, "usage", "odd"),
        (json!({"command": ["true"], "policy": {"idle_ms": "x"}}), 400, "usage", "policy.idle_ms"),
        (json!({"command": ["true"], "notify": ["odd"]}), 400, "usage", "odd"),
        (json!({"command": ["true"], "prompt": "hello"}), 400, "usage", "prompt"),
        (json!({"agent": "fake", "prompt": " "}), 400, "usage", ""),
        (json!({"command": ["true"], "colour": "red"}), 400, "usage", "colour"),
        (json!({"command": ["true"], "key": "x".repeat(100)}), 400, "usage", "a key has"),
        (json!([1, 2]), 400, "usage", ""),
    ] {
        let reply = post(body.clone());
        assert_eq!(reply.status, status, "{body}: {}", reply.text());
        let problem = reply.problem(status, code);
        assert!(text(&problem, "title").contains(says), "{body}: {problem}");
    }
    let both = [("Idempotency-Key", "one")];
    let body = json!({"command": ["true"], "key": "other"});
    api.gateway.ask("POST", "/v1/sessions", &both, Some(&body)).problem(400, "usage");
    let left = api.lab.json(["ls", "--all", "--json"]);
    let left: Vec<_> = left.as_array().expect("a list").iter().filter(|it| it["failure"].is_null()).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_gateway_waits_for_the_keepers_it_started() {
    let api = GatewayApiFixture::new();
    for _ in 0..3 {
        let id = api.terminal(&["hang"]);
        api.post(&format!("/v1/sessions/{id}/stop"), json!({})).ok();
    }
    let children = format!("/proc/{0}/task/{0}/children", api.gateway.pid());
    let all = || -> Vec<String> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", api.gateway.pid())).expect("it runs");
        let lists = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("children")).ok());
        lists.flat_map(|list| list.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).collect()
    };
    assert!(std::path::Path::new(&children).exists(), "this kernel tells the children of a process");
    wait_until("no zombie to be left", || all().is_empty());
}

#[test]
fn text_that_an_agent_would_take_for_an_option_is_not_a_conversation_id() {
    let api = GatewayApiFixture::new();
    let odd = ["--settings={\"hooks\":{}}", "-r", "", "a b", "a\nb", "a/../b", "a=b"];
    for (agent, resume) in ["claude", "fake"].iter().flat_map(|agent| odd.map(|resume| (agent, resume))) {
        let told = api.post("/v1/sessions", json!({"agent": agent, "cwd": api.lab.dir(), "resume": resume}));
        let told = told.problem(400, "usage");
        assert!(text(&told, "title").contains("id of a conversation"), "{told}");
    }
    assert_eq!(api.get("/v1/sessions")["sessions"].as_array().map(Vec::len), Some(0));
}
