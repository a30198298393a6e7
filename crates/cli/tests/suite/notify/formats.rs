//! Formats of notification services, as the services document them.

use crate::notify::server::{WebhookReply, WebhookServer};
use crate::notify::{lab_with, start};

#[test]
fn ntfy_gets_its_documented_format() {
    let server = WebhookServer::new(&[WebhookReply::Status(200)]);
    let token = "tk_AgQdq7mVBoFD37zQVN29RhuMzNIz2";
    let lab = lab_with(&format!(
        "[notify.webhooks.phone]\nformat = \"ntfy\"\nurl = {:?}\nsecret = \"env:NTFY_TOKEN\"\n",
        server.url("/my-topic")
    ));
    let mut run = lab.command(["run", "-d", "--agent", "fake", "--name", "s"]);
    assert!(run.env("NTFY_TOKEN", token).output().expect("berth starts").status.success());
    lab.ok(["send", "s", "ask:Bash:echo grüße"]);
    let heard = server.wait(1).remove(0);
    // https://docs.ntfy.sh/publish/#publish-as-json
    assert_eq!((heard.method.as_str(), heard.path.as_str()), ("POST", "/"));
    assert_eq!(heard.header("authorization"), format!("Bearer {token}"));
    let body = heard.json();
    assert_eq!(body["topic"], "my-topic");
    assert_eq!(body["title"], "s needs you");
    let message = body["message"].as_str().expect("a text");
    assert!(message.starts_with("Bash: echo grüße\n"), "{message}");
    assert!(message.ends_with("berth answer s allow --request 1:0"), "{message}");
    assert!(body["priority"].as_u64().is_some_and(|priority| (1..=5).contains(&priority)), "{body}");
    assert!(
        body["tags"].as_array().is_some_and(|tags| tags.iter().all(serde_json::Value::is_string)),
        "{body}"
    );
}

#[test]
fn telegram_gets_its_documented_format() {
    let server = WebhookServer::new(&[WebhookReply::Status(200)]);
    let token = "123456:ABC-DEF1234ghIkl-zyx57W2v1u123ew11";
    let lab = lab_with("");
    let file = lab.dir().join("token");
    std::fs::write(&file, format!("{token}\n")).expect("a file");
    let known = std::fs::read_to_string(lab.config()).expect("a config file");
    let hook = format!(
        "[notify.webhook]\nformat = \"telegram\"\nurl = {:?}\nchat = \"-1001\"\nsecret = \"file:{}\"\n",
        server.url(""),
        file.display()
    );
    std::fs::write(lab.config(), known + &hook).expect("a config file");
    start(&lab, &["--name", "s"]);
    lab.ok(["send", "s", "say:it_works"]);
    let heard = server.wait(1).remove(0);
    // https://core.telegram.org/bots/api#sendmessage
    assert_eq!((heard.method.as_str(), heard.path.clone()), ("POST", format!("/bot{token}/sendMessage")));
    assert_eq!(heard.header("content-type"), "application/json");
    let body = heard.json();
    assert_eq!(body["chat_id"], "-1001");
    let text = body["text"].as_str().expect("a text");
    assert!(text.starts_with("s finished\nit_works"), "{text}");
    assert!(text.chars().count() <= 4096);
    assert_eq!(body.get("parse_mode"), None, "nothing in it is markup");
}
