//! The list of sessions, and the status of one session.

use berth_harness::{wait_gone, wait_until};
use serde_json::json;

use crate::gateway_sessions::{GatewayApiFixture, open, settled, text};

#[test]
fn a_change_by_the_command_line_is_in_the_next_answer() {
    let api = GatewayApiFixture::new();
    let id = api.fake(json!({"name": "fix"}));
    let known = || {
        // Twice, so that the second answer may come from the cache, once by id and once by name.
        settled(&api, &id);
        assert_eq!(api.session(&id)["id"], id);
        api.session("fix");
        (api.session(&id), api.session("fix"))
    };
    let (by_id, by_name) = known();
    assert_eq!((&by_id["state"], &by_name["state"]), (&json!("idle"), &json!("idle")));
    for round in 0..5 {
        let tag = format!("round-{round}");
        known();
        api.lab.ok(["tag", &id, &tag]);
        assert_eq!(api.session(&id)["tags"][round], tag);
        known();
        api.lab.ok(["note", &id, &tag]);
        assert_eq!(api.session("fix")["note"], tag);
    }
    known();
    api.lab.ok(["rename", &id, "other"]);
    assert_eq!(api.session(&id)["name"], "other");
    api.gateway.get("/v1/sessions/fix").problem(404, "not-found");
    assert_eq!(api.session("other")["id"], id);
    api.lab.ok(["rename", &id, "fix"]);
    known();
    api.lab.ok(["stop", &id]);
    assert_eq!(api.session(&id)["state"], "stopped");
    known();
    api.lab.ok(["archive", &id]);
    assert_eq!(api.session(&id)["state"], "archived");
    known();
    api.lab.ok(["resume", "-d", &id]);
    let running = api.session(&id);
    assert_eq!((&running["state"], &running["epoch"]), (&json!("idle"), &json!(2)));
    known();
    api.lab.ok(["stop", &id]);
    known();
    api.lab.ok(["purge", "--yes", &id]);
    api.gateway.get(&format!("/v1/sessions/{id}")).problem(404, "not-found");
}

#[test]
fn a_session_is_told_only_to_callers_that_may_see_it_and_a_revoked_token_is_refused_at_once() {
    let api = GatewayApiFixture::new();
    let id = api.fake(json!({"name": "fix"}));
    let other = api.fake(json!({}));
    let token = |name: &str, args: &[&str]| {
        let made = api.lab.ok([&["token", "new", "--name", name], args].concat());
        format!("Bearer {}", made.trim())
    };
    let all = token("all", &["--scope", "read"]);
    let this = token("this", &["--scope", "read", "--session", &id]);
    let that = token("that", &["--scope", "read", "--session", &other]);
    let wrong = all.replace("berth_", "berth_x");
    settled(&api, &id);
    type Header<'a> = (&'a str, &'a str);
    let asked: [(&str, &[Header<'_>], u16); 9] = [
        ("GET", &[], 200),
        ("HEAD", &[], 200),
        ("GET", &[("Authorization", &all)], 200),
        ("GET", &[("Authorization", &this)], 200),
        ("GET", &[("Authorization", &that)], 404),
        ("GET", &[("Authorization", &wrong)], 401),
        ("GET", &[("Authorization", &all), ("Authorization", &all)], 400),
        ("GET", &[("Origin", "http://evil.example")], 403),
        ("DELETE", &[("Authorization", &all)], 403),
    ];
    for handle in [id.as_str(), "fix"] {
        for (method, headers, status) in asked {
            let reply = api.gateway.ask(method, &format!("/v1/sessions/{handle}"), headers, None);
            assert_eq!(reply.status, status, "{method} {headers:?}: {}", reply.text());
            assert!(reply.header("x-request-id").is_some_and(|id| id.len() == 32));
        }
    }
    let ask = || api.gateway.ask("GET", &format!("/v1/sessions/{id}"), &[("Authorization", &all)], None);
    for _ in 0..2 {
        assert_eq!(ask().status, 200);
    }
    api.lab.ok(["token", "revoke", "all"]);
    ask().problem(401, "not-allowed");
}

#[test]
fn a_name_that_is_the_id_of_another_session_redirects_no_request() {
    let api = GatewayApiFixture::new();
    let id = api.fake(json!({"name": "fix"}));
    let other = api.fake(json!({"name": id}));
    api.lab.ok(["stop", &other]);
    settled(&api, &other);
    for _ in 0..3 {
        // The stopped session is cached, and its name is the id of the first; the first one changes, and is not cached.
        assert_eq!(api.session(&other)["id"], other);
        api.lab.ok(["tag", &id, "new"]);
        assert_eq!(api.session(&id)["id"], id);
        api.lab.ok(["tag", &id, "--remove", "new"]);
        assert_eq!(api.session(&id)["id"], id);
    }
}

#[test]
fn repeated_answers_equal_the_answer_of_show() {
    let api = GatewayApiFixture::new();
    let id = api.terminal(&["say:hello", "hang"]);
    api.lab.wait_output(&id, "hello");
    settled(&api, &id);
    api.session(&id);
    for _ in 0..3 {
        assert_eq!(api.session(&id), api.lab.show(&id));
    }
    let before = api.session(&id)["output_bytes"].as_u64().expect("a number");
    api.lab.ok(["input", &id, "more words"]);
    // The terminal echoes what is typed.
    wait_until("the new output to be counted", || api.session(&id)["output_bytes"].as_u64() > Some(before));
}

#[test]
fn the_time_that_a_session_has_left_counts_down_in_answers_and_in_the_list() {
    let api = GatewayApiFixture::new();
    let id = api.fake(json!({"policy": {"ttl_ms": 3_600_000, "idle_ms": 1_800_000}}));
    settled(&api, &id);
    let left = |status: &serde_json::Value| {
        let times = [&status["expires_in_ms"], &status["turns"]["releases_in_ms"]];
        times.map(|time| time.as_u64().expect("a time"))
    };
    let first = left(&api.session(&id));
    let is_later = |now: [u64; 2]| now[0] < first[0] && now[1] < first[1];
    wait_until("the answer to count down", || is_later(left(&api.session(&id))));
    wait_until("the list to count down", || is_later(left(&api.get("/v1/sessions")["sessions"][0])));
}

#[test]
fn a_session_whose_keeper_was_killed_is_lost_in_the_next_answer() {
    let api = GatewayApiFixture::new();
    let id = api.terminal(&["hang"]);
    settled(&api, &id);
    for _ in 0..2 {
        assert_eq!(api.session(&id)["state"], "running");
    }
    let agent = api.lab.process(&id, "pid");
    let keeper = api.lab.process(&id, "keeper_pid");
    berth_harness::signal(&keeper, rustix::process::Signal::KILL);
    wait_gone(&keeper);
    let lost = api.session(&id);
    assert_eq!((&lost["state"], &lost["keeper_pid"]), (&json!("lost"), &json!(null)));
    wait_gone(&agent);
    assert_eq!(api.get("/v1/sessions")["sessions"][0]["state"], "lost");
}

#[test]
fn the_list_has_sessions_that_need_you_first_and_obeys_filters() {
    let api = GatewayApiFixture::new();
    let calm = api.fake(json!({"name": "calm", "tags": ["work"]}));
    let asking = api.fake(json!({"name": "asking", "prompt": "ask:Bash:ls"}));
    wait_until("the agent to ask", || api.session(&asking)["state"] == "needs-you");
    let stopped = api.terminal(&["hang"]);
    api.post(&format!("/v1/sessions/{stopped}/stop"), json!({})).ok();
    let ids = |query: &str| -> Vec<String> {
        let list = api.get(&format!("/v1/sessions{query}"));
        list["sessions"].as_array().expect("a list").iter().map(|status| text(status, "id")).collect()
    };
    assert_eq!(ids(""), [asking.as_str(), calm.as_str(), stopped.as_str()]);
    let of_cli: Vec<String> =
        api.lab.json(["ls", "--json"]).as_array().expect("a list").iter().map(|it| text(it, "id")).collect();
    assert_eq!(ids(""), of_cli);
    assert_eq!(ids("?state=needs-you,stopped"), [asking.as_str(), stopped.as_str()]);
    assert_eq!(ids("?agent=fake&sort=name"), [asking.as_str(), calm.as_str()]);
    assert_eq!(ids("?tag=work"), [calm.as_str()]);
    assert_eq!(ids("?name=as*"), [asking.as_str()]);
    assert!(ids("?cwd=/nowhere").is_empty());
    assert_eq!(ids("?limit=1").len(), 1);
    api.post(&format!("/v1/sessions/{stopped}/archive"), json!({})).ok();
    let list = api.get("/v1/sessions");
    assert_eq!((list["sessions"].as_array().map(Vec::len), &list["archived"]), (Some(2), &json!(1)));
    assert!(list["sessions"][0]["evidence_age_ms"].is_u64(), "{list}");
    assert_eq!(ids("?archived=true"), [stopped.as_str()]);
    assert_eq!(ids("?all=true").len(), 3);
    for bad in ["?state=odd", "?cwd=relative", "?all=true&archived=true", "?odd=1", "?limit=x"] {
        api.gateway.get(&format!("/v1/sessions{bad}")).problem(400, "usage");
    }
    let description = api.get("/openapi.json");
    let parameters =
        description["paths"]["/v1/sessions"]["get"]["parameters"].as_array().expect("parameters");
    let state = parameters.iter().find(|parameter| parameter["name"] == "state").expect("a filter by state");
    assert_eq!((&state["schema"]["type"], &state["explode"]), (&json!("array"), &json!(false)), "{state}");
    let values = state["schema"]["items"]["enum"].as_array().expect("the values");
    assert!(values.contains(&json!("needs-you")) && !values.contains(&json!("odd")), "{state}");
}

#[test]
fn a_session_is_changed_as_a_whole_or_not_at_all() {
    let api = GatewayApiFixture::new();
    let id = api.fake(json!({"name": "fix"}));
    let other = api.terminal(&["hang"]);
    api.patch(&format!("/v1/sessions/{other}"), json!({"name": "taken"})).ok();
    let change = |body| api.patch("/v1/sessions/fix", body);
    let changed = change(json!({
        "add_tags": ["a", "b"], "note": "look at it", "policy": {"idle_ms": 60000, "archive_after_ms": null},
    }));
    let changed = changed.ok();
    assert_eq!((&changed["tags"], &changed["note"]), (&json!(["a", "b"]), &json!("look at it")));
    assert_eq!(changed["policy"]["idle_ms"], 60000);
    let changed = change(json!({"remove_tags": ["a"], "note": null, "policy": {"idle_ms": null}})).ok();
    assert_eq!((&changed["tags"], &changed["note"]), (&json!(["b"]), &json!(null)));
    assert_eq!(changed["policy"].get("idle_ms"), None);
    // Notification policy: set, and back to the value in the config.
    assert_eq!(change(json!({"notify": ["failed"]})).ok()["policy"]["notify"], json!(["failed"]));
    assert_eq!(change(json!({"note": "again"})).ok()["policy"]["notify"], json!(["failed"]), "it stays");
    assert_eq!(change(json!({"notify": null, "note": null})).ok()["policy"].get("notify"), None);
    assert!(change(json!({"notify": ["always"]})).problem(400, "usage").to_string().contains("always"));
    // A change with one invalid part changes nothing.
    change(json!({"add_tags": ["c"], "name": "not a name"})).problem(400, "usage");
    change(json!({"add_tags": ["no tag"], "note": "x"})).problem(400, "usage");
    change(json!({"add_tags": ["c"], "note": " "})).problem(400, "usage");
    change(json!({"add_tags": ["c"], "name": "taken"})).problem(409, "refused");
    let odd = change(json!({"colour": "red"})).problem(400, "usage");
    assert!(text(&odd, "title").contains("colour"), "{odd}");
    let after = api.session(&id);
    assert_eq!(
        (&after["tags"], &after["name"], &after["note"]),
        (&json!(["b"]), &json!("fix"), &json!(null))
    );
    // Changes work without a keeper.
    api.post(&format!("/v1/sessions/{id}/stop"), json!({})).ok();
    assert_eq!(change(json!({"name": "fixed", "note": "done"})).ok()["note"], "done");
    assert_eq!(api.lab.show("fixed")["id"], id);
}

#[test]
fn a_released_session_that_is_asked_all_the_time_is_taken_up_by_the_next_turn() {
    let api = GatewayApiFixture::new();
    let id = api.fake(json!({"policy": {"idle_ms": 50}}));
    for round in 1..=3 {
        wait_until("the agent to be released", || api.session(&id)["keeper_pid"].is_null());
        settled(&api, &id);
        assert_eq!(api.session(&id)["state"], "idle");
        let is_over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            let asking = scope.spawn(|| {
                while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    assert_eq!(api.session(&id)["id"], id);
                }
            });
            api.lab.ok(["send", &id, "--wait", "say:hello"]);
            let known = api.session(&id);
            is_over.store(true, std::sync::atomic::Ordering::Relaxed);
            asking.join().expect("every answer was one");
            assert_eq!(
                (&known["turns"]["total"], &known["epoch"]),
                (&json!(round), &json!(round + 1)),
                "{known}"
            );
        });
    }
}

/// The latest report counts, over HTTP and on the command line, and makes no event.
#[test]
fn the_context_window_is_what_the_agent_reported_last_in_its_conversation() {
    let api = GatewayApiFixture::new();
    let id = api.fake(json!({"name": "fix"}));
    let known = || {
        settled(&api, &id);
        let shown = api.lab.show(&id)["context"].clone();
        assert_eq!(api.session(&id)["context"], shown);
        (shown, api.lab.ok(["show", "fix"]))
    };
    let (context, text) = known();
    assert!(context.is_null() && !text.contains("tokens"), "it was never reported: {context} {text}");
    let events = || api.lab.show(&id)["seq"].as_u64();
    let send = |text: &str| api.lab.ok(["send", "fix", text, "--wait"]);
    let before = events();
    send("hello");
    let events_of_a_turn = events().zip(before).map(|(after, before)| after - before);
    let before = events();
    send(&format!("{}context:45210:200000 hello", "context:1:2 ".repeat(50)));
    assert_eq!(events().zip(before).map(|(after, before)| after - before), events_of_a_turn);
    let full = json!({"used_tokens": 45_210, "window_tokens": 200_000});
    let (context, text) = known();
    assert_eq!(context, full);
    assert!(text.contains("45,210 of 200,000 tokens (23 %)"), "{text}");
    // A turn that reports no context changes nothing, nor does an end.
    send("hello");
    api.lab.ok(["stop", &id]);
    assert_eq!(known().0, full);
    api.lab.ok(["resume", "-d", &id]);
    assert_eq!(known().0, full);
    // In the middle of a turn.
    let (go, wait) = api.gate("go");
    let turn = api.lab.ok(["send", "fix", &format!("context:3186:200000 {wait} compacted")]);
    wait_until("the context to fall", || api.lab.show(&id)["context"]["used_tokens"] == 3186);
    open(&go);
    api.lab.ok(["wait", turn.trim()]);
    // Zero is the report of an agent that does not know.
    send("context:0:200000");
    assert!(known().0.is_null(), "{}", known().0);
    send("context:7:200000");
    assert_eq!(known().0["used_tokens"], 7);
    send("new-id\nhello");
    assert!(known().0.is_null(), "the context of another conversation: {}", known().0);
    send("context:8:200000");
    api.lab.ok(["stop", &id]);
    api.lab.ok(["resume", "-d", "--fresh", &id]);
    assert!(known().0.is_null(), "the context of another conversation: {}", known().0);
}
