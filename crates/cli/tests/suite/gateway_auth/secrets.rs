//! Secrets on command lines: for callers below `control` they are masked in every answer and stream.

use crate::gateway_auth::{ask, bearer, lab, serve, token};

const SECRET: &str = "hunter2-not-to-be-seen";

#[test]
fn a_command_line_is_masked_below_control_and_complete_from_control_on() {
    let lab = lab();
    lab.add_agent("secretive", &["--api-key", SECRET]);
    let gateway = serve(&lab);
    let script = format!("exec {} hang", lab.agent());
    let id = lab.ok(["run", "-d", "--name", "s", "--", "sh", "-c", &script, "sh", "--token", SECRET]);
    let pages = ["/v1/sessions", "/v1/sessions/s", "/v1/sessions/s/events", "/v1/agents"];
    let streams = [("/v1/events", "hello"), ("/v1/sessions/s/events", "event")];
    for scope in ["read", "send", "control"] {
        let secret = token(&lab, scope, scope, &[]);
        let mut answers = Vec::new();
        for page in pages {
            // Twice: the second answer may come from a cache.
            for _ in 0..2 {
                let reply = ask(&gateway, "GET", page, &secret, None);
                assert_eq!(reply.status, 200, "{page}: {reply:?}");
                answers.push((page, reply.text()));
            }
        }
        for (path, word) in streams {
            let mut events = gateway.events(path, &[("Authorization", &bearer(&secret))]);
            let event = events.wait_for("the command line", |event| {
                event.event == word && event.data.contains("\"command\":[")
            });
            answers.push((path, event.data));
        }
        for (path, text) in answers {
            assert!(text.contains("\"command\":["), "{scope} {path}: {text}");
            assert_eq!(text.contains(SECRET), scope == "control", "{scope} {path}: {text}");
            assert_eq!(text.contains("***"), scope != "control", "{scope} {path}: {text}");
        }
    }
    let one = token(&lab, "read", "one", &["--session", "s"]);
    let reply = ask(&gateway, "GET", "/v1/sessions/s", &one, None);
    assert!(reply.status == 200 && !reply.text().contains(SECRET), "{reply:?}");
    lab.ok(["stop", id.trim(), "--grace", "0s"]);
}
