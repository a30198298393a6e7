//! `berth notify test` and `berth notify log`, the config file, and the findings of `berth doctor`.

use std::fs;

use crate::notify::server::{WebhookReply, WebhookServer};
use crate::notify::{lab_telling, lab_with, webhook};

#[test]
fn the_test_command_reports_each_channel_and_fails_if_one_failed() {
    let good = WebhookServer::new(&[WebhookReply::Status(200)]);
    let bad = WebhookServer::new(&[WebhookReply::Status(404)]);
    let more = format!("[notify.webhooks.other]\nurl = {:?}\n", bad.url("/"));
    let lab = lab_with(&(webhook(&good) + &more));
    let said = lab.berth(["notify", "test"]);
    assert_eq!(said.code, 1, "{said:?}");
    let lines: Vec<&str> = said.out.lines().collect();
    assert!(lines[0].starts_with("webhook        sent     200"), "{said:?}");
    assert!(lines[1].starts_with("webhook.other  failed   the service answered 404"), "{said:?}");
    let said = lab.berth(["notify", "test", "--channel", "webhook"]);
    assert_eq!(said.code, 0, "{said:?}");
    assert_eq!((good.heard().len(), bad.heard().len()), (2, 1));
    assert_eq!(good.heard()[0].json()["type"], "test");
    let odd = lab.berth(["notify", "test", "--channel", "webhok"]);
    assert_eq!(odd.code, 3, "{odd:?}");
    assert!(odd.err.contains("did you mean `webhook`?") && odd.err.contains("hint:"), "{odd:?}");
    let log = lab.json(["notify", "log", "--json"]);
    assert_eq!(log.as_array().map(Vec::len), Some(3), "{log}");
    assert_eq!(lab.ok(["notify", "log", "--last", "1"]).lines().count(), 1);
}

#[test]
fn a_test_about_a_session_has_its_name_and_directory() {
    let server = WebhookServer::new(&[WebhookReply::Status(200)]);
    let lab = lab_telling(&server);
    lab.start_with(&["--name", "s", "--notify", "none"], &["exit:0"]);
    lab.ok(["notify", "test", "s"]);
    let told = server.heard()[0].json();
    assert_eq!((&told["data"]["name"], &told["data"]["cwd"]), (&"s".into(), &lab.show("s")["cwd"]));
    assert_eq!(lab.berth(["notify", "test", "nobody"]).code, 3);
}

#[test]
fn without_a_channel_the_test_command_says_how_to_set_one_up() {
    let lab = lab_with("");
    let said = lab.berth(["notify", "test"]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.err.contains("[notify]") && said.err.contains("config.toml"), "{said:?}");
    assert_eq!(lab.ok(["notify", "log"]), "");
    assert_eq!(lab.json(["notify", "log", "--json"]), serde_json::json!([]));
}

#[test]
fn an_invalid_setting_is_refused_with_its_place_and_without_the_secret() {
    for (notify, expected) in [
        ("[notify]\nbell = true\n", "bell"),
        ("[notify]\non = [\"needs_you\"]\n", "needs-you"),
        ("[notify]\nterminal = \"yes please\"\n", "terminal"),
        ("[notify]\nterminal_style = \"loud\"\n", "osc9"),
        ("[notify]\ncommand = [\"\"]\n", "command"),
        ("[notify]\ncommand_timeout = \"soon\"\n", "command_timeout"),
        ("[notify.webhooks.x]\nformat = \"json\"\n", "url"),
        ("[notify.webhook]\nurl = \"ftp://SECRET\"\n", "https://"),
        ("[notify.webhook]\nurl = \"https://x\"\nsecret = \"file:SECRET\"\n", "begin with `/`"),
        ("[notify.webhook]\nurl = \"https://x\"\nsecret = \"env:\"\n", "variable"),
        ("[notify.webhook]\nformat = \"telegram\"\nsecret = \"SECRET\"\n", "chat"),
        ("[notify.webhook]\nurl = \"https://x\"\nchat = \"1\"\n", "chat"),
        ("[notify.webhook]\nurl = \"https://x\"\ntries = 0\n", "tries"),
        ("[notify.webhooks.x]\nurl = \"https://x\"\ntimeout = 5\n", "timeout"),
    ] {
        let lab = lab_with(notify);
        let said = lab.berth(["notify", "test"]);
        assert_eq!(said.code, 2, "{notify}: {said:?}");
        assert!(said.err.contains("config.toml:") && said.err.contains(expected), "{notify}: {said:?}");
        assert!(!said.err.contains("SECRET"), "{said:?}");
    }
}

#[test]
fn a_config_file_that_was_broken_meanwhile_is_a_failure_in_the_log_and_doctor_says_so() {
    let server = WebhookServer::new(&[WebhookReply::Status(200)]);
    let lab = lab_telling(&server);
    crate::notify::start(&lab, &["--name", "s"]);
    let known = fs::read_to_string(lab.config()).expect("a config file");
    fs::write(lab.config(), format!("{known}\nnonsense = 7\n")).expect("a config file");
    crate::notify::send(&lab, "s", "say:done");
    crate::notify::settled(&lab);
    fs::write(lab.config(), known).expect("a config file");
    let log = crate::notify::log(&lab);
    assert_eq!((log.len(), &log[0]["outcome"]), (1, &"failed".into()), "{log:?}");
    assert!(log[0]["detail"].as_str().is_some_and(|why| why.contains("nonsense")), "{log:?}");
    let said = lab.berth(["doctor"]);
    assert!(said.out.contains("berth notify log"), "{said:?}");
    // Once it works again there is nothing to say.
    lab.ok(["notify", "test"]);
    let said = lab.berth(["doctor"]);
    assert!(!said.out.contains("berth notify log"), "{said:?}");
}
