//! `berth export`: transcripts and events, and the files they go to.

use std::os::unix::fs::symlink;

use serde_json::Value;

use crate::find::{hurt, lab, said, talked, with_record};

#[test]
fn a_transcript_has_the_prompt_the_tools_and_the_answer_of_each_turn() {
    let lab = lab();
    let id = talked(&lab, "bot", &["tool:Bash:echo-<b>", "hello\n```\nfence"]);
    let text = lab.ok(["export", "bot"]);
    assert!(text.starts_with("# bot\n\n- Agent: fake: `"), "{text}");
    for part in [
        &format!("- Session: `{id}`"),
        "\n## bot.1: done\n",
        "\n> tool:Bash:echo-<b>\n",
        "<details><summary>",
        "echo-&lt;b&gt;",
        "\n## bot.2: done\n",
        "\n> hello\n> ```\n> fence\n",
        "\nECHO: hello\n```\nfence\n```",
        " tokens in, ",
    ] {
        assert!(text.contains(part), "no {part:?} in\n{text}");
    }
    assert_eq!(text.matches("<details>").count(), 1);
    assert_eq!(text.matches("</details>").count(), 1);
}

#[test]
fn a_transcript_names_the_state_of_turns_that_are_not_done() {
    let lab = lab();
    let id = lab.ok(["run", "-d", "--agent", "fake", "--name", "bot"]);
    let gate = lab.dir().join("gate");
    let prompt = format!("wait-file:{} never", gate.display());
    lab.ok(["send", &id, &prompt]);
    lab.ok(["send", &id, "it waits"]);
    berth_harness::wait_until("the turn to be given", || {
        lab.json(["turn", "bot.1", "--json"])["state"].as_str() != Some("queued")
    });
    let text = lab.ok(["export", "bot"]);
    assert!(text.contains("**Not over yet: ") && text.contains("**Not begun yet: it waits**"), "{text}");
    lab.ok(["stop", "--grace", "0s", &id]);
    let text = lab.ok(["export", "bot"]);
    assert!(text.contains("## bot.1: interrupted") && text.contains("**Interrupted: "), "{text}");
}

#[test]
fn events_are_those_of_the_log_and_turns_those_of_turns() {
    let lab = lab();
    talked(&lab, "bot", &["hello"]);
    let lines = lab.ok(["export", "bot", "--format", "jsonl"]);
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let array = lab.json(["export", "bot", "--format", "json"]);
    assert_eq!(array.as_array(), Some(&lines));
    let (events, turns): (Vec<Value>, Vec<Value>) =
        lines.into_iter().partition(|line| line.get("event").is_some());
    assert_eq!(events, lab.log("bot"));
    assert_eq!(turns.len(), 1);
    let mut shown = lab.json(["turn", "bot.1", "--json"]);
    shown["view"] = "turn".into();
    assert_eq!(turns[0], shown);
}

#[test]
fn e13_a_secret_of_a_command_line_is_not_taken_along() {
    const SECRET: &str = "hunter2-not-to-be-seen";
    let lab = lab();
    let agent = lab.agent();
    let script = format!("exec {agent} say:up");
    let env = format!("VISIBLE={SECRET}");
    lab.ok([
        "run", "-d", "--name", "quiet", "--env", &env, "--", "sh", "-c", &script, "sh", "--token", SECRET,
    ]);
    lab.berth(["wait", "quiet"]);
    for format in ["md", "json", "jsonl", "cast"] {
        let text = lab.ok(["export", "quiet", "--format", format]);
        assert!(!text.contains(SECRET), "{format}: {text}");
    }
}

#[test]
fn a_file_is_named_after_the_session_and_never_overwritten_without_force() {
    let lab = lab();
    talked(&lab, "bot", &["hello"]);
    let dir = lab.dir().join("notes");
    std::fs::create_dir(&dir).expect("a directory");
    let into = format!("{}/", dir.display());
    lab.ok(["export", "bot", "-o", &into]);
    let path = dir.join("bot.md");
    let first = std::fs::read_to_string(&path).expect("the file");
    assert!(first.contains("ECHO: hello"));
    lab.ok(["send", "--wait", "bot", "more"]);
    let refused = lab.berth(["export", "bot", "-o", &into]);
    assert_eq!((refused.code, refused.out.as_str()), (1, ""), "{refused:?}");
    assert!(refused.err.contains("exists already"), "{refused:?}");
    assert_eq!(std::fs::read_to_string(&path).expect("the file"), first, "untouched");
    lab.ok(["export", "bot", "-o", &into, "--force"]);
    assert!(std::fs::read_to_string(&path).expect("the file").contains("ECHO: more"));
    let names: Vec<_> = std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["bot.md"], "nothing else is left");
    assert_eq!(lab.berth(["export", "bot", "-o", "/nowhere/at/all.md"]).code, 1);
    lab.ok(["export", "bot", "-o", "/dev/null"]);
    // A name that leads nowhere is a name that is taken.
    let dangling = dir.join("dangling.md");
    symlink("/nowhere", &dangling).expect("a link");
    assert_eq!(lab.berth(["export", "bot", "-o", &dangling.display().to_string()]).code, 1);
}

#[test]
fn the_readable_part_of_a_damaged_session_is_written_and_the_exit_is_1() {
    let lab = lab();
    let id = talked(&lab, "hurt", &["the first words", "the second words", "the third words"]);
    lab.ok(["stop", &id]);
    berth_harness::wait_until("its keeper to leave", || lab.processes().is_empty());
    let segment = hurt(&lab, &id);
    let told = lab.berth(["export", &id]);
    assert_eq!(told.code, 1, "{told:?}");
    assert!(told.out.contains("> the first words") && told.out.contains("This is not all: "), "{told:?}");
    assert!(!told.out.contains("the third words"), "{told:?}");
    assert!(told.err.contains(&segment.display().to_string()), "{told:?}");
    let events = lab.berth(["export", &id, "--format", "json"]);
    assert_eq!(events.code, 1, "{events:?}");
    assert!(serde_json::from_str::<Value>(&events.out).is_ok_and(|events| events[0]["event"] == "created"));
    let term = said(&lab, "term", &["say:still here\\n"]);
    hurt(&lab, &term);
    let cast = lab.berth(["export", &term]);
    assert_eq!(cast.code, 1, "{cast:?}");
    assert!(cast.out.contains("still here"), "{cast:?}");
}

#[test]
fn the_ending_of_a_file_says_what_is_written_unless_the_flag_says_otherwise() {
    let lab = lab();
    said(&lab, "term", &["say:hello\\n"]);
    let write = |file: &str, more: &[&str]| {
        let path = lab.dir().join(file).display().to_string();
        let told = lab.berth([&["export", "term", "-o", &path], more].concat());
        (told.code, told.err, std::fs::read_to_string(&path).unwrap_or_default())
    };
    assert!(write("a.md", &[]).2.starts_with("# term\n"));
    assert!(write("a.JSON", &[]).2.starts_with('['));
    assert!(write("a.jsonl", &[]).2.starts_with("{\"seq\":1,"));
    assert!(write("a.cast", &[]).2.starts_with("{\"version\":2,"), "{:?}", write("b.cast", &[]));
    assert!(write("a.txt", &[]).2.contains("\"version\":2"), "an ending that says nothing");
    assert!(write("b.txt", &["--format", "md"]).2.starts_with("# term\n"));
    let (code, told, written) = write("c.md", &["--format", "cast"]);
    assert_eq!((code, written.as_str()), (2, ""), "{told}");
    assert!(told.contains("--format says cast") && told.contains("leave --format out"), "{told}");
}

#[test]
fn an_exported_file_can_be_read_by_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let lab = lab();
    talked(&lab, "bot", &["hello"]);
    let file = lab.dir().join("bot.md");
    let file = file.to_str().expect("UTF-8");
    let mode = || std::fs::metadata(file).expect("a file").permissions().mode() & 0o777;
    lab.ok(["export", "bot", "-o", file]);
    assert_eq!(mode(), 0o600);
    // A file that all users could read before gets its narrow mode when it is replaced.
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o644)).expect("our own file");
    lab.ok(["export", "bot", "-o", file, "--force"]);
    assert_eq!(mode(), 0o600);
}

#[test]
fn a_terminal_is_exported_with_the_space_that_moves_of_the_cursor_left() {
    let lab = lab();
    said(&lab, "term", &["say:fix\\e[1Cthe\\e[1Clogin\\e[2Gx\\r\\nnext\\n"]);
    let text = lab.ok(["export", "term", "--format", "md"]);
    assert!(text.contains("\n    fxx the login\n    next"), "{text}");
}

#[test]
fn an_agent_with_an_interface_of_its_own_is_exported_from_its_own_record() {
    for (agent, record) in [
        ("claude", include_str!("records/claude-2.1.325.jsonl")),
        ("codex", include_str!("records/codex-0.166.0.jsonl")),
    ] {
        let lab = lab();
        with_record(&lab, agent, record, "say:painted\\n");
        let text = lab.ok(["export", "tui", "--format", "md"]);
        assert!(text.contains("From the agent's transcript"), "{agent}: {text}");
        assert!(text.contains("\n> needle THINK TOOL echo needle-from-tool\n"), "{agent}: {text}");
        assert!(text.contains("<details>") && text.contains("TOOLDONE "), "{agent}: {text}");
        assert!(!text.contains("## Output") && !text.contains("<system-reminder>"), "{agent}: {text}");
        let shown = lab.ok(["transcript", "show", "tui"]);
        assert!(shown.contains("> needle THINK") && !shown.contains("environment_context"), "{shown}");
    }
}
