//! Webhooks that are slow, fail, or lead elsewhere.

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use berth_harness::{CommandOutput, TestEnvironment, said, wait_until};

use crate::notify::server::{WebhookReply, WebhookServer};
use crate::notify::{SECRET, lab_telling, lab_with, log, notifiers, settled, told};

/// Sends a test to the webhook, with short pauses between tries.
fn test(lab: &TestEnvironment) -> CommandOutput {
    let mut test = lab.command(["notify", "test", "--json"]);
    said(test.env("BERTH_TEST_WEBHOOK_PAUSE_MS", "10").output().expect("berth starts"))
}

/// Sends one notification to a server with these replies. Returns outcome, number of tries, reason, and requests.
fn outcome(replies: &[WebhookReply]) -> (String, u64, String, Vec<crate::notify::server::WebhookRequest>) {
    let server = WebhookServer::new(replies);
    let lab = lab_telling(&server);
    let said = test(&lab);
    let told: serde_json::Value = serde_json::from_str(&said.out).unwrap_or_else(|_| panic!("{said:?}"));
    let text = |field: &str| told[0][field].as_str().expect("a text").to_owned();
    assert_eq!(said.code, i32::from(text("outcome") == "failed"), "{said:?}");
    (text("outcome"), told[0]["tries"].as_u64().expect("a number"), text("detail"), server.heard())
}

/// Checks a signature as docs/notifications.md says, with a program that has nothing of ours.
const CHECK: &str = r#"
import base64, hashlib, hmac, sys
secret, id, timestamp, signature = sys.argv[1:]
body = sys.stdin.buffer.read()
key = base64.b64decode(secret.removeprefix("whsec_"))
digest = hmac.new(key, f"{id}.{timestamp}.".encode() + body, hashlib.sha256).digest()
expected = "v1," + base64.b64encode(digest).decode()
sys.exit(0 if any(hmac.compare_digest(expected, one) for one in signature.split()) else 1)
"#;

#[test]
fn a_webhook_is_signed_in_a_way_that_others_can_check() {
    let (lab, server) = told();
    lab.start_with(&["--name", "s"], &["exit:0"]);
    let heard = server.wait(1).remove(0);
    assert_eq!((heard.method.as_str(), heard.path.as_str()), ("POST", "/hook"));
    assert_eq!(heard.header("content-type"), "application/json");
    assert!(heard.header("user-agent").starts_with("berth/"));
    let id = lab.show("s")["id"].as_str().expect("an id").to_owned();
    let event = heard.json()["data"]["event"].clone();
    assert_eq!(heard.header("webhook-id"), format!("msg_{id}_{event}"));
    // Without Python what the reference libraries compute is checked by a test of the signature itself.
    if Command::new("python3").arg("--version").output().is_err() {
        return;
    }
    let check = |body: &str| {
        let names = ["webhook-id", "webhook-timestamp", "webhook-signature"].map(|name| heard.header(name));
        let mut python = Command::new("python3");
        python.args(["-c", CHECK, SECRET]).args(names).stdin(Stdio::piped());
        let mut python = python.spawn().expect("python3 starts");
        python.stdin.take().expect("a pipe").write_all(body.as_bytes()).expect("it reads");
        python.wait().expect("our own child").success()
    };
    assert!(check(&heard.body));
    assert!(!check(&heard.body.replace("finished", "failed")), "a changed body is noticed");
}

#[test]
fn a_webhook_in_trouble_is_tried_again_with_the_same_id() {
    let replies = [
        WebhookReply::Status(500),
        WebhookReply::Close,
        WebhookReply::Status(503),
        WebhookReply::Status(204),
    ];
    let (outcome, tries, detail, heard) = outcome(&replies);
    assert_eq!((outcome.as_str(), tries, detail.as_str()), ("sent", 4, "204"));
    assert_eq!(heard.len(), 4);
    assert!(heard.iter().all(|one| one.header("webhook-id") == heard[0].header("webhook-id")));
    assert!(heard.iter().all(|one| one.body == heard[0].body));
}

#[test]
fn a_webhook_that_stays_in_trouble_is_given_up() {
    let (outcome, tries, detail, heard) = outcome(&[WebhookReply::Status(500)]);
    assert_eq!((outcome.as_str(), tries, heard.len()), ("failed", 5, 5));
    assert!(detail.contains("500"), "{detail}");
}

#[test]
fn a_webhook_that_refuses_is_not_asked_again() {
    for status in [400, 401, 404, 410] {
        let (outcome, tries, detail, heard) =
            outcome(&[WebhookReply::Status(status), WebhookReply::Status(200)]);
        assert_eq!((outcome.as_str(), tries, heard.len()), ("failed", 1, 1));
        assert!(detail.contains(&status.to_string()), "{detail}");
    }
}

#[test]
fn a_webhook_that_asks_for_a_pause_gets_it() {
    let later = WebhookReply::With(429, "retry-after", "1".to_owned());
    let (outcome, tries, _, heard) = outcome(&[later, WebhookReply::Status(200)]);
    assert_eq!((outcome.as_str(), tries), ("sent", 2));
    let pause = heard[1].at - heard[0].at;
    assert!(pause >= Duration::from_secs(1), "{pause:?}");
}

#[test]
fn a_webhook_that_asks_for_more_time_than_there_is_is_given_up_at_once() {
    let later = WebhookReply::With(503, "retry-after", "86400".to_owned());
    let (outcome, tries, detail, _) = outcome(&[later]);
    assert_eq!((outcome.as_str(), tries), ("failed", 1));
    assert!(detail.contains("86400 s"), "{detail}");
}

#[test]
fn a_webhook_that_asks_for_more_time_than_can_be_counted_is_given_up_at_once() {
    let later = WebhookReply::With(429, "retry-after", u64::MAX.to_string());
    let (outcome, tries, detail, _) = outcome(&[later]);
    assert_eq!((outcome.as_str(), tries), ("failed", 1));
    assert!(detail.contains("asks for a pause"), "{detail}");
}

#[test]
fn a_message_that_ntfy_or_telegram_may_have_taken_is_not_sent_again() {
    let formats = ["format = \"ntfy\"\n", "format = \"telegram\"\nchat = \"7\"\nsecret = \"1:x\"\n"];
    for (format, reply) in formats.into_iter().flat_map(|it| {
        [WebhookReply::Close, WebhookReply::Hang, WebhookReply::Status(504)].map(|reply| (it, reply))
    }) {
        let server = WebhookServer::new(&[reply.clone(), WebhookReply::Status(200)]);
        let hook =
            format!("[notify.webhook]\nurl = {:?}\ntimeout = \"300ms\"\n{format}", server.url("/topic"));
        let said = test(&lab_with(&hook));
        assert_eq!((said.code, server.heard().len()), (1, 1), "{format} {reply:?}: {said:?}");
        assert!(said.out.contains("cannot tell whether it was taken"), "{said:?}");
    }
}

#[test]
fn a_message_that_ntfy_or_telegram_did_not_take_is_sent_again() {
    for format in ["format = \"ntfy\"\n", "format = \"telegram\"\nchat = \"7\"\nsecret = \"1:x\"\n"] {
        let server = WebhookServer::new(&[
            WebhookReply::Status(429),
            WebhookReply::Status(503),
            WebhookReply::Status(200),
        ]);
        let hook = |url: String| format!("[notify.webhook]\nurl = {url:?}\n{format}");
        let said = test(&lab_with(&hook(server.url("/topic"))));
        assert_eq!((said.code, server.heard().len()), (0, 3), "{format}: {said:?}");
        // Nothing listens at this port.
        let said = test(&lab_with(&hook("http://127.0.0.1:1/topic".to_owned())));
        assert!(said.out.contains("gave up: the connection was refused"), "{said:?}");
        assert!(said.out.contains("\"tries\": 5") || said.out.contains("\"tries\":5"), "{said:?}");
    }
}

#[test]
fn a_redirect_is_not_followed() {
    let target = WebhookServer::new(&[WebhookReply::Status(200)]);
    for status in [301, 302, 307, 308] {
        let (outcome, tries, detail, _) =
            outcome(&[WebhookReply::With(status, "location", target.url("/elsewhere"))]);
        assert_eq!((outcome.as_str(), tries), ("failed", 1), "{status}");
        assert!(detail.contains("redirects are not followed"), "{detail}");
    }
    assert!(target.heard().is_empty());
}

#[test]
fn a_body_that_never_ends_is_not_waited_for() {
    let (outcome, tries, _, _) = outcome(&[WebhookReply::SlowBody(200)]);
    assert_eq!((outcome.as_str(), tries), ("sent", 1));
}

#[test]
fn a_webhook_that_hangs_has_its_time_and_one_beside_it_does_not_wait() {
    let hanging = WebhookServer::new(&[WebhookReply::Hang]);
    let good = WebhookServer::new(&[WebhookReply::Status(200)]);
    let hook = |name: &str, server: &WebhookServer, more: &str| {
        format!("[notify.webhooks.{name}]\nurl = {:?}\n{more}", server.url("/"))
    };
    let lab = lab_with(&(hook("bad", &hanging, "timeout = \"2s\"\ntries = 2\n") + &hook("good", &good, "")));
    lab.start_with(&["--name", "s"], &["exit:0"]);
    good.wait(1);
    assert!(!notifiers(&lab).is_empty(), "the other one still waits");
    settled(&lab);
    assert_eq!(hanging.heard().len(), 2);
    let log = log(&lab);
    let of = |name: &str| log.iter().find(|line| line["channel"] == name).expect("a line").clone();
    assert_eq!(of("webhook.good")["outcome"], "sent");
    assert_eq!((&of("webhook.bad")["outcome"], &of("webhook.bad")["tries"]), (&"failed".into(), &2.into()));
    assert!(of("webhook.bad")["detail"].as_str().is_some_and(|why| why.contains("in time")));
}

#[test]
fn neither_the_secret_nor_the_address_is_written_anywhere() {
    let address = "http://127.0.0.1:1/hook/SECRETPATH?key=SECRETKEY";
    let lab = lab_with(&format!(
        "[notify.webhook]\nurl = {address:?}\nsecret = {SECRET:?}\ntries = 1\n\
         [notify.webhooks.bot]\nformat = \"telegram\"\nurl = \"http://127.0.0.1:1\"\nchat = \"7\"\n\
         secret = \"123:SECRETTOKEN\"\ntries = 1\n"
    ));
    let said = test(&lab);
    assert_eq!(said.code, 1, "{said:?}");
    lab.start_with(&["--name", "s"], &["exit:0"]);
    wait_until("both to be tried", || log(&lab).len() >= 4);
    settled(&lab);
    let shown = lab.berth(["notify", "log"]);
    let home = lab.home();
    let found = Command::new("grep").args(["-rlE", "SECRET|C2FVsBQIhrsc"]).arg(&home).output().expect("grep");
    assert_eq!(String::from_utf8_lossy(&found.stdout), "");
    for text in [said.out, said.err, shown.out, shown.err] {
        assert!(!text.contains("SECRET") && !text.contains("C2FVsBQIhrsc"), "{text}");
    }
}
