//! Tags, notes and policies, with a keeper and without.

use berth_harness::TestEnvironment;
use serde_json::json;

use crate::life::{archived, lab, lab_with_agent, state, status_cache, stopped};

/// A session that runs, one that stopped, one that was archived.
fn one_of_each(lab: &TestEnvironment) -> [String; 3] {
    [lab.start(&["hang"]), stopped(lab, "stopped"), archived(lab, "archived")]
}

#[test]
fn tags_are_added_and_taken_away_whether_or_not_it_runs() {
    let lab = lab();
    for id in one_of_each(&lab) {
        let before = state(&lab, &id);
        let said = lab.berth(["tag", &id, "work", "+bug"]);
        assert_eq!(
            (said.code, said.out.as_str(), said.err.as_str()),
            (0, "", &*format!("{id}: bug, work\n"))
        );
        assert_eq!(lab.ok(["tag", &id]), "bug\nwork");
        assert_eq!(lab.json(["tag", &id, "done", "--remove", "bug,work", "--json"]), json!(["done"]));
        assert_eq!(lab.show(&id)["tags"], json!(["done"]));
        let log = lab.log(&id).len();
        lab.ok(["tag", &id, "done", "--remove", "never-there"]);
        assert_eq!(lab.log(&id).len(), log, "nothing changed, and nothing is recorded");
        assert_eq!(state(&lab, &id), before);
        if before != "running" {
            let status_cache = status_cache(&lab, &id);
            assert_eq!((&status_cache["tags"], &status_cache["state"]), (&json!(["done"]), &json!(before)));
        }
        assert!(lab.ok(["log", &id]).contains("tagged done"));
        assert!(lab.ok(["show", &id]).contains("tags       done"));
    }
}

#[test]
fn an_invalid_tag_is_refused_and_changes_nothing() {
    let lab = lab();
    let id = stopped(&lab, "s");
    lab.ok(["tag", &id, "a"]);
    for bad in ["two words", "", "ä", "a/b", "+"] {
        let said = lab.berth(["tag", &id, "good", bad]);
        assert_eq!((said.code, said.out.as_str()), (2, ""), "{bad}: {said:?}");
        assert!(said.err.contains("is not a valid tag"), "{said:?}");
    }
    let many: Vec<String> = (0..32).map(|number| format!("t{number}")).collect();
    let args: Vec<&str> = ["tag", &id].into_iter().chain(many.iter().map(String::as_str)).collect();
    let said = lab.berth(&args);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.err.contains("32 tags") && said.err.contains("--remove"), "{said:?}");
    assert_eq!(lab.ok(["tag", &id]), "a");
    assert_eq!(lab.berth(["tag", "nobody", "a"]).code, 3);
}

#[test]
fn a_note_is_written_replaced_printed_and_taken_away() {
    let lab = lab();
    for id in one_of_each(&lab) {
        assert_eq!(lab.ok(["note", &id]), "");
        lab.ok(["note", &id, "waits", "for review"]);
        assert_eq!(lab.ok(["note", &id]), "waits for review");
        lab.ok(["note", &id, "waits for\n\x1b[31mme"]);
        assert_eq!(lab.ok(["note", &id]), "waits for\n␛[31mme", "a terminal obeys no note");
        assert_eq!(lab.json(["note", &id, "--json"])["note"], "waits for\n\u{1b}[31mme");
        lab.ok(["note", &id, "--clear"]);
        assert_eq!(lab.json(["note", &id, "--json"]), json!({"id": id, "note": null}));
        assert!(lab.ok(["log", &id]).contains("noted: waits for review"));
    }
}

#[test]
fn a_note_comes_from_standard_input_and_has_a_limit() {
    use std::io::Write;
    let lab = lab();
    let id = stopped(&lab, "s");
    let pipe = |bytes: &[u8]| {
        let mut command = lab.command(["note", &id, "-"]);
        command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut child = command.stderr(std::process::Stdio::piped()).spawn().expect("berth starts");
        // A command that has read enough does not read the rest.
        let _ = child.stdin.take().expect("a pipe").write_all(bytes);
        crate::life::finish(child)
    };
    assert_eq!(pipe(b"from a pipe\n").code, 0);
    for (bad, why) in [(&[b'x'; 4097][..], "4096 bytes"), (b"\xff\xfe", "not UTF-8"), (b" \n", "empty")] {
        let said = pipe(bad);
        assert_eq!(said.code, 2, "{said:?}");
        assert!(said.err.contains(why), "{said:?}");
    }
    assert_eq!(lab.berth(["note", &id, &"x".repeat(4097)]).code, 2);
    assert_eq!(lab.ok(["note", &id]), "from a pipe");
    assert_eq!(pipe(&[b'x'; 4096]).code, 0);
}

#[test]
fn a_policy_is_changed_in_parts_whether_or_not_it_runs() {
    let lab = lab();
    for id in one_of_each(&lab) {
        assert_eq!(
            lab.ok(["policy", &id]),
            "idle           never\nttl            never\narchive-after  never\non-unknown     hold\non-failed      hold\nnotify         config"
        );
        lab.ok(["policy", &id, "--archive-after", "7d"]);
        lab.ok(["policy", &id, "--idle", "10m", "--on-unknown", "continue"]);
        let policy = json!({"idle_ms": 600_000, "archive_after_ms": 604_800_000, "on_unknown": "continue", "on_failed": "hold"});
        assert_eq!(lab.json(["policy", &id, "--idle", "10m", "--json"]), policy);
        assert_eq!(lab.show(&id)["policy"], policy);
        lab.ok(["policy", &id, "--idle", "never"]);
        assert_eq!(lab.json(["policy", &id, "--json"])["idle_ms"], serde_json::Value::Null);
        assert!(lab.ok(["log", &id]).contains("policy: idle 10m, ttl never, archive after 1w, continue"));
        assert_eq!(lab.berth(["policy", &id, "--idle", "soon"]).code, 2);
        let told_of = |words: &str| lab.json(["policy", &id, "--notify", words, "--json"]);
        assert_eq!(told_of("failed,needs-you")["notify"], json!(["needs-you", "failed"]));
        assert_eq!(told_of("none")["notify"], json!([]));
        assert_eq!(lab.json(["policy", &id, "--idle", "never", "--json"])["notify"], json!([]), "it stays");
        assert!(lab.ok(["log", &id]).contains("notify needs-you,failed"));
        assert_eq!(told_of("config").get("notify"), None);
        assert!(lab.ok(["policy", &id]).ends_with("notify         config"));
        assert_eq!(lab.berth(["policy", &id, "--notify", "sometimes"]).code, 2);
    }
}

#[test]
fn an_idle_time_given_to_a_quiet_agent_releases_it() {
    let lab = lab_with_agent();
    let id = lab.ok(["run", "-d", "--agent", "fake"]);
    assert_eq!(state(&lab, &id), "idle");
    lab.ok(["policy", &id, "--idle", "1ms"]);
    berth_harness::wait_until("its keeper to leave", || lab.show(&id)["keeper_pid"].is_null());
    assert_eq!(lab.events(&id, "run_released").len(), 1);
    lab.ok(["policy", &id, "--idle", "never"]);
    assert_eq!(lab.ok(["send", &id, "--wait", "hello"]), "ECHO: hello");
    assert!(lab.show(&id)["keeper_pid"].is_number(), "it stays");
}

#[test]
fn a_new_session_gets_its_tags_its_note_and_its_policy_with_its_first_events() {
    let lab = lab();
    let options = ["--tag", "b,a", "--tag", "+c", "--note", "look here", "--archive-after", "2w"];
    let id = lab.start_with(&options, &["hang"]);
    let shown = lab.show(&id);
    assert_eq!((&shown["tags"], &shown["note"]), (&json!(["a", "b", "c"]), &json!("look here")));
    assert_eq!(shown["policy"]["archive_after_ms"], 14 * 24 * 3_600_000);
    let kinds: Vec<_> = lab.log(&id).iter().map(|event| event["event"].clone()).take(4).collect();
    assert_eq!(kinds, ["created", "tags_changed", "note_changed", "run_starting"]);
    for bad in [vec!["--tag", "two words"], vec!["--note", &"x".repeat(4097)]] {
        let args = [&["run", "-d", "--name", "bad"], &bad[..], &["--", "true"]].concat();
        assert_eq!(lab.berth(&args).code, 2, "{bad:?}");
    }
    assert_eq!(lab.berth(["show", "bad"]).code, 3, "no half-made session");
}

#[test]
fn a_new_session_takes_its_policy_from_the_config_unless_it_is_told_otherwise() {
    let lab = lab_with_agent();
    let agents = std::fs::read_to_string(lab.config()).expect("a config file");
    let policy =
        "[policy]\nidle = \"1h\"\nttl = \"2d\"\narchive_after = \"30d\"\non_unknown = \"continue\"\n";
    std::fs::write(lab.config(), format!("{policy}{agents}")).expect("a config file");
    let (hour, day) = (3_600_000_u64, 86_400_000_u64);
    let policy_of = |args: &[&str]| lab.show(&lab.ok([&["run", "-d"], args].concat()))["policy"].clone();
    assert_eq!(
        policy_of(&["--agent", "fake"]),
        json!({"idle_ms": hour, "ttl_ms": 2 * day, "archive_after_ms": 30 * day, "on_unknown": "continue", "on_failed": "hold"})
    );
    let otherwise = ["--idle", "2h", "--ttl", "never", "--archive-after", "never", "--on-unknown", "hold"];
    assert_eq!(
        policy_of(&[&["--agent", "fake"], &otherwise[..]].concat()),
        json!({"idle_ms": 2 * hour, "on_unknown": "hold", "on_failed": "hold"})
    );
    // A command has no turns to be idle between, and ends by itself.
    let agent = lab.agent();
    assert_eq!(
        policy_of(&["--", &agent, "hang"]),
        json!({"archive_after_ms": 30 * day, "on_unknown": "hold", "on_failed": "hold"})
    );
    let mut run = lab.command(["run", "-d", "--agent", "fake"]);
    let id = berth_harness::said(run.env("BERTH_POLICY_IDLE", "never").output().expect("berth starts"));
    assert_eq!(
        lab.show(id.out.trim())["policy"]["idle_ms"],
        serde_json::Value::Null,
        "the environment counts"
    );
    std::fs::write(lab.config(), format!("[policy]\nidle = \"soon\"\n{agents}")).expect("a config file");
    let said = lab.berth(["run", "-d", "--agent", "fake"]);
    assert_eq!(said.code, 2, "{said:?}");
    assert!(said.err.contains("config.toml:2:8"), "{said:?}");
}
