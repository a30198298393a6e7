//! Questions of an agent, answered over HTTP; B15: answers and orders that come too late.

use berth_harness::{GatewayProcess, HttpResponse, SeededRng, TestEnvironment, wait_until};
use serde_json::{Value, json};

use crate::gateway_turns::{at, did, lab, rounds, seen, start, text};

/// Waits until it asks this many things; their names.
fn asks(gateway: &GatewayProcess, id: &str, count: usize) -> Vec<String> {
    let asked = || gateway.get(&format!("/v1/sessions/{id}")).ok()["turns"]["asks"].as_array().cloned();
    wait_until("it to ask", || asked().unwrap_or_default().len() == count);
    asked().unwrap_or_default().iter().map(|ask| text(ask, "request")).collect()
}

fn answer(gateway: &GatewayProcess, id: &str, body: &Value) -> HttpResponse {
    gateway.post(&at(id, "answers"), body)
}

fn answered(lab: &TestEnvironment, id: &str) -> usize {
    lab.events(id, "answered").len()
}

#[test]
fn an_agent_that_asks_gets_the_answer_that_was_posted() {
    let lab = lab();
    let gateway = lab.serve();
    let id = start(&lab, &["--name", "s"]);
    for (body, expected) in [
        (json!({"answer": "allow"}), "allow-once"),
        (json!({"answer": "deny"}), "reject"),
        (json!({"answer": "option", "option": "allow-always"}), "allow-always"),
        (json!({"answer": "option", "options": ["allow-once"]}), "allow-once"),
    ] {
        let prompt = json!({"text": "ask:Bash:rm -rf x", "wait": true});
        let waiting = gateway.begin("POST", &at("s", "turns"), &[], Some(&prompt));
        let needs = gateway.post(&at("s", "wait"), &json!({"for": "needs-you"})).ok();
        assert_eq!(text(&needs["session"]["turns"]["asks"][0], "detail"), "rm -rf x", "in full");
        for odd in [
            json!({"answer": "option", "option": "perhaps"}),
            json!({"answer": "option"}),
            json!({"answer": "allow", "option": "reject"}),
            json!({"answer": "maybe"}),
            json!({"answer": "option", "options": []}),
            json!({"answer": "option", "option": "reject", "options": ["reject"]}),
            json!({"answer": "text"}),
            json!({"answer": "deny", "options": ["reject"]}),
            json!({}),
            json!({"answer": "allow", "more": 1}),
            // Without the name of the question, or without its run.
            json!({"answer": "allow"}),
            json!({"answer": "allow", "epoch": 1}),
            json!({"answer": "allow", "request": asks(&gateway, "s", 1)[0]}),
        ] {
            answer(&gateway, "s", &odd).problem(400, "usage");
        }
        answer(&gateway, "s", &json!({"answer": "allow", "request": "no-such", "epoch": 1}))
            .problem(404, "not-found");
        let mut named = body.clone();
        named["epoch"] = 1.into();
        named["request"] = asks(&gateway, "s", 1)[0].clone().into();
        let status = answer(&gateway, "s", &named).ok();
        assert_eq!(status["turns"]["asks"], json!([]), "{status}");
        assert_eq!(text(&waiting.reply().ok(), "answer"), format!("Bash: {expected}\n"));
        // The question is no longer open, and a late click for it does not answer the next one.
        answer(&gateway, "s", &named).problem(409, "refused");
    }
    assert_eq!(answered(&lab, &id), 4);
}

#[test]
fn a_posted_reason_reaches_the_agent_and_a_text_only_what_takes_one() {
    let lab = lab();
    let gateway = lab.serve();
    let id = start(&lab, &["--name", "s"]);
    let prompt = json!({"text": "ask:Bash:rm -rf x", "wait": true});
    let waiting = gateway.begin("POST", &at("s", "turns"), &[], Some(&prompt));
    let request = &asks(&gateway, "s", 1)[0];
    let post = |mut body: Value| {
        body["request"] = request.as_str().into();
        body["epoch"] = 1.into();
        answer(&gateway, "s", &body)
    };
    for odd in [
        json!({"answer": "text", "text": "neither"}),
        json!({"answer": "allow", "text": "but why"}),
        json!({"answer": "option", "option": "allow-once", "text": "but why"}),
        json!({"answer": "option", "options": ["allow-once", "allow-always"]}),
        json!({"answer": "deny", "text": " "}),
    ] {
        post(odd).problem(400, "usage");
    }
    post(json!({"answer": "deny", "text": "use mktemp"})).ok();
    let said = text(&waiting.reply().ok(), "answer");
    assert!(said.contains("STEERED: use mktemp") && said.contains("Bash: reject"), "{said}");
    let late = post(json!({"answer": "allow"})).problem(409, "refused");
    assert!(late.to_string().contains("reject: use mktemp"), "{late}");
    assert_eq!(lab.events(&id, "answered")[0]["text"], "use mktemp");
}

/// Two tabs answer at once: exactly one counts, and the other hears whose answer it was.
#[test]
fn of_two_tabs_that_answer_at_once_exactly_one_counts() {
    let mut seed = SeededRng::announce("answers http");
    let lab = lab();
    let gateway = lab.serve();
    let id = start(&lab, &[]);
    for round in 1..=rounds(25) {
        gateway.post(&at(&id, "turns"), &json!({"text": "ask:Bash:x"})).ok();
        let request = &asks(&gateway, &id, 1)[0];
        let post = |answer: &str| {
            let body = json!({"answer": answer, "request": request, "epoch": 1});
            gateway.begin("POST", &at(&id, "answers"), &[], Some(&body))
        };
        let allow = post("allow");
        seed.dawdle(2_000);
        let deny = post("deny");
        let (allow, deny) = (allow.reply(), deny.reply());
        let (won, lost) = if allow.status == 200 { ("allow-once", deny) } else { ("reject", allow) };
        let problem = lost.problem(409, "refused");
        assert!(text(&problem, "title").contains(won), "round {round}: it says what: {problem}");
        let done = gateway.post(&at(&id, "wait"), &json!({"for": "done"})).ok();
        assert_eq!(text(&done["turn"], "answer"), format!("Bash: {won}\n"), "round {round}");
        assert_eq!(answered(&lab, &id) as u64, round, "one answer each");
    }
}

/// B15: an answer of a tab that slept through the end of a run does not reach the question of the next one, though
/// the agent calls it the same; nor do orders for a turn that is over.
#[test]
fn b15_answers_and_orders_for_an_earlier_run_have_no_effect_on_the_next() {
    let lab = lab();
    let gateway = lab.serve();
    let id = start(&lab, &[]);
    let ask = || gateway.post(&at(&id, "turns"), &json!({"text": "ask:Bash:x"})).ok();
    ask();
    let old = asks(&gateway, &id, 1)[0].clone();
    assert_eq!(lab.number(&id, "epoch"), 1);
    lab.ok(["stop", "--grace", "0s", &id]);
    answer(&gateway, &id, &json!({"answer": "allow", "request": old, "epoch": 1})).problem(404, "not-found");
    ask();
    let new = asks(&gateway, &id, 1)[0].clone();
    assert_eq!(lab.number(&id, "epoch"), 2);
    assert_eq!(old, new, "the agent numbers its questions anew: that is the trap");
    let stale = answer(&gateway, &id, &json!({"answer": "allow", "request": old, "epoch": 1}));
    let problem = stale.problem(409, "refused");
    assert!(text(&problem, "title").contains("run 1"), "{problem}");
    assert_eq!(asks(&gateway, &id, 1), std::slice::from_ref(&new), "it still asks");
    for (method, path, body) in [
        ("POST", "turns/1/cancel", json!({})),
        ("DELETE", "queue/1", json!({})),
        ("PATCH", "queue/1", json!({"text": "again"})),
        ("PATCH", "queue/1", json!({"position": 0})),
    ] {
        gateway.ask(method, &at(&id, path), &[], Some(&body)).problem(409, "refused");
    }
    assert_eq!((answered(&lab, &id), text(&seen(&gateway, &id, 2), "state")), (0, "working".into()));
    answer(&gateway, &id, &json!({"answer": "deny", "request": new, "epoch": 2})).ok();
    let done = gateway.post(&at(&id, "wait"), &json!({"for": "done"})).ok();
    assert_eq!(text(&done["turn"], "answer"), "Bash: reject\n");
    assert_eq!((answered(&lab, &id), did(&lab, &id).len()), (1, 2));
}
