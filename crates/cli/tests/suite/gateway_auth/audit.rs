//! The audit log: uses of tokens, refusals, answers and take-overs.

use std::os::unix::fs::PermissionsExt;

use berth_harness::{TestEnvironment, wait_until};
use serde_json::{Value, json};

use crate::gateway_auth::{ask, lab, serve, token};

/// The entries of this kind, the oldest first.
fn entries(lab: &TestEnvironment, event: &str) -> Vec<Value> {
    let text = lab.ok(["audit", "--json", "-n", "10000"]);
    let all = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("an object"));
    all.filter(|entry| entry["event"] == event).collect()
}

#[test]
fn the_audit_log_names_the_maker_user_and_revoker_of_a_token_and_refused_callers() {
    let lab = lab();
    let gateway = serve(&lab);
    let reads = token(&lab, "read", "reads", &[]);
    for _ in 0..200 {
        ask(&gateway, "GET", "/v1/sessions", &reads, None).ok();
    }
    ask(&gateway, "POST", "/v1/sweep", &reads, Some(&json!({}))).problem(403, "not-allowed");
    lab.ok(["token", "revoke", "reads"]);
    ask(&gateway, "GET", "/v1/sessions", &reads, None).problem(401, "not-allowed");
    wait_until("the refusal to be written", || !entries(&lab, "token-refused").is_empty());
    let made = entries(&lab, "token-made");
    assert_eq!((made.len(), &made[0]["name"], &made[0]["scope"]), (1, &json!("reads"), &json!("read")));
    assert!(made[0]["expires_at"].is_string() && made[0]["by"].is_string(), "{made:?}");
    let used = entries(&lab, "token-used");
    assert_eq!(used.len(), 1, "once for all requests from one address: {used:?}");
    assert_eq!((&used[0]["by"], &used[0]["token"]), (&json!("127.0.0.1"), &made[0]["token"]));
    let refused = entries(&lab, "request-refused");
    assert_eq!(
        (&refused[0]["by"], &refused[0]["route"]),
        (&json!("token reads at 127.0.0.1"), &json!("/v1/sweep"))
    );
    assert_eq!(entries(&lab, "token-revoked")[0]["name"], "reads");
    assert_eq!(entries(&lab, "token-refused")[0]["by"], "127.0.0.1");
    let file = lab.home().join("audit.jsonl");
    assert_eq!(std::fs::metadata(&file).expect("the log").permissions().mode() & 0o777, 0o600);
    let text = lab.ok(["audit"]);
    assert!(text.contains("made the token `reads`") && !text.contains(&reads), "{text}");
    assert_eq!(lab.ok(["audit", "-n", "1"]).lines().count(), 1);
    assert_eq!(lab.ok(["audit", "--since", "0s"]), "");
    assert!(lab.ok(["audit", "--since", "1h"]).contains("was refused"));
}

#[test]
fn a_stranger_that_tries_many_tokens_does_not_fill_the_audit_log() {
    let lab = lab();
    let gateway = serve(&lab);
    for _ in 0..300 {
        let wrong = [("Authorization", "Bearer wrong")];
        assert!(matches!(gateway.ask_tcp("GET", "/v1/sessions", &wrong, None).status, 401 | 429));
    }
    let good = token(&lab, "read", "good", &[]);
    ask(&gateway, "GET", "/v1/sessions", &good, None).ok();
    wait_until("the use to be written", || !entries(&lab, "token-used").is_empty());
    let refused = entries(&lab, "token-refused").len();
    assert!((1..=120).contains(&refused), "at most 60 in a minute: {refused}");
}

#[test]
fn the_audit_log_names_who_answered_each_question_at_the_machine_or_by_token() {
    let lab = TestEnvironment::with_agent(env!("CARGO_BIN_EXE_berth"));
    let gateway = serve(&lab);
    lab.ok(["run", "-d", "--agent", "fake", "--name", "fix"]);
    let asks = || lab.show("fix")["turns"]["asks"].as_array().is_some_and(|asks| asks.len() == 1);
    lab.ok(["send", "fix", "ask:Bash:rm -rf x"]);
    wait_until("the question", asks);
    lab.ok(["answer", "fix", "deny"]);
    lab.ok(["send", "fix", "ask:Bash:curl -H 'Authorization: Bearer tkabcdef0123456789' x"]);
    wait_until("the question", asks);
    let controls = token(&lab, "control", "controls", &[]);
    let request = &lab.show("fix")["turns"]["asks"][0]["request"];
    let allow = json!({"answer": "allow", "request": request, "epoch": 1});
    ask(&gateway, "POST", "/v1/sessions/fix/answers", &controls, Some(&allow)).ok();
    let answered = entries(&lab, "question-answered");
    assert_eq!(answered.len(), 2, "{answered:?}");
    assert!(answered.iter().all(|it| it["name"] == "fix" && it["tool"] == "Bash"), "{answered:?}");
    assert!(answered[0]["detail"].as_str().is_some_and(|it| it.contains("rm -rf x")), "{answered:?}");
    assert!(
        answered[1]["by"].as_str().is_some_and(|by| by.contains("token controls at 127.0.0.1")),
        "{answered:?}"
    );
    assert!(!answered[1].to_string().contains("tkabcdef"), "{answered:?}");
    assert_ne!(answered[0]["choice"], answered[1]["choice"]);
    let text = lab.ok(["audit"]);
    assert!(text.contains("to `fix`") && text.contains("answered"), "{text}");
}

#[test]
fn the_audit_log_names_both_clients_of_a_terminal_takeover_and_has_no_escapes() {
    let lab = lab();
    let id = lab.start_echo();
    let _first = lab.terminal(["attach", &id]);
    wait_until("the writer", || lab.show(&id)["writer"].is_object());
    lab.ok(["input", "--take", &id, "x"]);
    let taken = entries(&lab, "writer-taken");
    assert_eq!((taken.len(), &taken[0]["session"]), (1, &json!(id)), "{taken:?}");
    assert!(taken[0]["from"].as_str().is_some_and(|from| !from.is_empty()), "{taken:?}");
    // An edited file brings no escape sequence to a terminal.
    let line =
        json!({"at": "2026-01-01T00:00:00.000Z", "by": "\u{1b}[2J\u{9b}31m", "event": "token-refused"});
    let file = lab.home().join("audit.jsonl");
    let before = std::fs::read_to_string(&file).expect("the log");
    std::fs::write(&file, format!("{before}{line}\nnot JSON\n")).expect("our own file");
    for args in [&["audit"][..], &["audit", "--json"]] {
        let said = lab.berth(args);
        assert!(!said.out.contains(['\u{1b}', '\u{9b}']), "{said:?}");
        assert!(said.err.contains("1 lines of the audit log are damaged"), "{said:?}");
    }
    lab.ok(["stop", &id, "--grace", "0s"]);
}
