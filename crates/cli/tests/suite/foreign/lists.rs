//! `berth ls --foreign` and `berth transcript ls | show`.

use std::fs;

use crate::foreign::{ForeignFixture, id, ids};

#[test]
fn conversations_had_without_berth_are_listed_and_the_open_ones_come_first() {
    let world = ForeignFixture::new();
    world.claude(&id('a'), "mend the login page", 5);
    world.claude(&id('b'), "write a poem", 1);
    world.claude(&id('c'), "the oldest one", 90);
    let rollout = format!("sessions/2026/11/16/rollout-2026-11-16T08-00-00-{}.jsonl", id('d'));
    let rollout = world.account("codex").join(rollout);
    fs::create_dir_all(rollout.parent().expect("a directory")).expect("directories");
    let meta = r#"{"timestamp":"2026-11-16T08:00:00.000Z","type":"session_meta","payload":{"cwd":"/elsewhere","cli_version":"0.166.0"}}"#;
    fs::write(&rollout, meta).expect("a file");
    let open = world.open(&id('c'));
    let all = world.json(&["ls", "--foreign", "--json"]);
    assert_eq!(ids(&all)[0], id('c'), "{all}");
    assert_eq!(ids(&all).len(), 4, "{all}");
    assert_eq!(all[0]["held_by"][0]["pid"], open.pid());
    assert_eq!(all[0]["first_words"], "the oldest one");
    let past: Vec<&str> = ids(&all).into_iter().filter(|one| *one == id('a') || *one == id('b')).collect();
    assert_eq!(past, [id('b'), id('a')], "the last written first");
    let codex = world.json(&["ls", "--foreign", "--json", "--agent", "codex"]);
    assert_eq!((ids(&codex), &codex[0]["cwd"]), (vec![&*id('d')], &"/elsewhere".into()));
    let here = world.json(&["ls", "--foreign", "--json", "--here"]);
    assert_eq!(ids(&here).len(), 3, "{here}");
    let limited = world.berth(&["ls", "--foreign", "-n", "1"]);
    assert_eq!((limited.code, limited.out.lines().count()), (0, 3), "{limited:?}");
    assert!(limited.err.contains("2 more: `berth ls --foreign --all`"), "{limited:?}");
    assert!(limited.out.contains(&format!("pid {}", open.pid())), "{limited:?}");
}

#[test]
fn hooks_and_the_lock_of_codex_tell_which_process_has_a_conversation_open() {
    let world = ForeignFixture::new();
    world.claude(&id('a'), "told by a hook", 5);
    let rollout = format!("sessions/2026/11/16/rollout-2026-11-16T08-00-00-{}.jsonl", id('d'));
    let rollout = world.account("codex").join(rollout);
    fs::create_dir_all(rollout.parent().expect("a directory")).expect("directories");
    fs::write(&rollout, "").expect("a file");
    let lock = world.account("codex").join(format!("thread-writer-locks/{}.lock", id('d')));
    fs::create_dir_all(lock.parent().expect("a directory")).expect("directories");
    let event = serde_json::json!({"session_id": id('a'), "hook_event_name": "SessionStart", "source": "resume",
        "transcript_path": world.account("claude").join(format!("projects/-project/{}.jsonl", id('a')))});
    fs::write(world.work("project").join("event"), event.to_string()).expect("an event");
    world.ok(&["ls"]);
    let hook =
        format!("{} hook claude --home {} <event", env!("CARGO_BIN_EXE_berth"), world.lab.home().display());
    let claude = world.shell("claude", &hook);
    let codex = world.shell("codex", &format!("exec 8<>{}; flock 8", lock.display()));
    let all = world.json(&["ls", "--foreign", "--json"]);
    let held = |id: String| {
        let one = all.as_array().expect("a list").iter().find(|one| one["conversation_id"] == id.as_str());
        one.unwrap_or_else(|| panic!("{id} is not in {all}"))["held_by"][0].clone()
    };
    assert_eq!(held(id('a'))["pid"], claude.pid(), "{all}");
    assert!(held(id('a'))["evidence"].to_string().contains("hooks"), "{all}");
    assert_eq!(held(id('d'))["pid"], codex.pid(), "{all}");
    assert!(held(id('d'))["evidence"].to_string().contains("lock"), "{all}");
    drop((claude, codex));
    let all = world.json(&["ls", "--foreign", "--json"]);
    assert!(!all.to_string().contains("\"pid\""), "{all}");
}

#[test]
fn another_config_directory_is_another_account() {
    let world = ForeignFixture::new();
    world.claude(&id('a'), "mine", 1);
    let mut command = world.command(&["ls", "--foreign", "--json"]);
    let other = command.env("CLAUDE_CONFIG_DIR", world.lab.dir().join("other")).output().expect("berth");
    assert_eq!(String::from_utf8_lossy(&other.stdout).trim(), "[]");
}

#[test]
fn a_broken_transcript_is_listed_and_does_not_hide_the_others() {
    let world = ForeignFixture::new();
    world.claude(&id('a'), "whole", 1);
    let dir = world.account("claude").join("projects/-project");
    fs::write(dir.join(format!("{}.jsonl", id('b'))), "").expect("a file");
    fs::write(dir.join(format!("{}.jsonl", id('c'))), [0; 5000]).expect("a file");
    fs::write(dir.join(format!("{}.jsonl", id('d'))), vec![b'x'; 3 << 20]).expect("a file");
    fs::write(dir.join("notes.txt"), "none").expect("a file");
    let all = world.json(&["ls", "--foreign", "--json"]);
    assert_eq!(ids(&all).len(), 4, "{all}");
    let said = world.berth(&["transcript", "show", &id('c')]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.err.contains("1 lines cannot be read"), "{said:?}");
}

#[test]
fn a_conversation_can_be_read_by_its_id_and_by_its_file() {
    let world = ForeignFixture::new();
    let file = world.claude(&id('a'), "mend the login page", 5);
    let by_id = world.ok(&["transcript", "show", "aaaa"]);
    assert!(by_id.contains("> mend the login page\n"), "{by_id}");
    assert!(by_id.contains("\nthe answer to mend the login page"), "{by_id}");
    assert_eq!(world.ok(&["transcript", "show", &file.display().to_string()]), by_id);
    let json = world.json(&["transcript", "show", "aaaa", "--json"]);
    assert_eq!(json["exchanges"][0]["prompt"], "mend the login page");
    assert_eq!(json["exchanges"][0]["items"][0]["text"], "the answer to mend the login page");
    let none = world.berth(&["transcript", "show", "ffff"]);
    assert_eq!(none.code, 3, "{none:?}");
    world.ok(&["import", "aaaa", "--name", "login"]);
    let ours = world.json(&["transcript", "ls", "--json"]);
    assert_eq!(ours[0]["session"]["name"], "login", "{ours}");
    assert_eq!(world.json(&["ls", "--foreign", "--json"]), serde_json::json!([]));
}

/// The list reads only the name of each file, and the beginning and the end of those that are shown.
#[test]
fn three_thousand_conversations_are_listed_at_once() {
    let world = ForeignFixture::new();
    let one = fs::read(world.claude(&id('a'), "the first", 1)).expect("a file");
    let dir = world.account("claude").join("projects/-project");
    for number in 0..3000 {
        fs::write(dir.join(format!("{number:08}-1111-4111-8111-111111111111.jsonl")), &one).expect("a file");
    }
    let began = std::time::Instant::now();
    assert_eq!(ids(&world.json(&["ls", "--foreign", "--json"])).len(), 50);
    let short = began.elapsed();
    assert_eq!(ids(&world.json(&["ls", "--foreign", "--json", "--all"])).len(), 3001);
    assert!(short < std::time::Duration::from_secs(10), "{short:?}");
}
