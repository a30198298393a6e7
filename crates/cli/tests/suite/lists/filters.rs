//! Filters of lists: sessions that match are listed, and those left out are counted.

use super::{ended, lab, names, rewrite};

#[test]
fn a_listed_session_meets_all_filters() {
    let lab = lab();
    let (one, two) = (lab.dir().join("one"), lab.dir().join("two"));
    for dir in [one.join("deep"), two.clone()] {
        std::fs::create_dir_all(dir).expect("our own directory");
    }
    let one_text = one.display().to_string();
    lab.start_with(&["--name", "top", "--cwd", &one_text], &["hang"]);
    lab.start_with(&["--name", "deep", "--cwd", &format!("{one_text}/deep")], &["hang"]);
    lab.start_with(&["--name", "else", "--cwd", &two.display().to_string()], &["hang"]);
    lab.ok(["run", "-d", "--name", "agent", "--agent", "fake"]);
    ended(&lab, "over");
    assert_eq!(names(&lab, &["--sort", "name"]), ["agent", "deep", "else", "over", "top"]);
    assert_eq!(names(&lab, &["--sort", "name", "--cwd", &one_text]), ["deep", "top"]);
    assert_eq!(names(&lab, &["--agent", "fake"]), ["agent"]);
    assert_eq!(names(&lab, &["--agent", "fake-agent", "--sort", "name"]), ["agent", "deep", "else", "top"]);
    assert_eq!(names(&lab, &["--state", "idle,stopped"]), ["agent", "over"]);
    assert_eq!(names(&lab, &["--state", "idle", "--state", "stopped", "--name", "o*"]), ["over"]);
    assert_eq!(names(&lab, &["--name", "?e*", "--cwd", &one_text, "--state", "running"]), ["deep"]);
    assert_eq!(names(&lab, &["--name", "?e*", "--cwd", &one_text, "--state", "idle"]), Vec::<String>::new());
    let here = lab.command(["ls", "--here", "--ids"]).current_dir(one.join("deep")).output().expect("berth");
    let deep = lab.show("deep")["id"].as_str().map(|id| format!("{id}\n"));
    assert_eq!(String::from_utf8(here.stdout).ok(), deep);
    // A directory that is gone still selects its sessions.
    lab.ok(["stop", "else"]);
    std::fs::remove_dir(&two).expect("our own directory");
    assert_eq!(names(&lab, &["--cwd", &two.display().to_string()]), ["else"]);
    let none = lab.berth(["ls", "--tag", "nobody-has-it"]);
    assert_eq!((none.code, none.out.as_str()), (0, ""));
    assert!(none.err.contains("berth ls --all"), "{none:?}");
}

#[test]
fn a_limit_takes_the_first_ones_and_says_how_many_there_are() {
    let lab = lab();
    for name in ["a", "b", "c"] {
        ended(&lab, name);
    }
    assert_eq!(names(&lab, &["--sort", "created", "-n", "2"]), ["c", "b"]);
    let said = lab.berth(["ls", "--limit", "2"]);
    assert_eq!((said.code, said.out.lines().count()), (0, 3), "{said:?}");
    assert_eq!(said.err, "1 more: leave --limit out\n");
}

#[test]
fn sessions_archived_or_stopped_long_ago_are_counted_and_found_when_asked_for() {
    let lab = lab();
    let (put_away, old) = (ended(&lab, "put-away"), ended(&lab, "old"));
    ended(&lab, "fresh");
    rewrite(&lab, &put_away, |status| {
        status["state"] = "archived".into();
        status["archived_at"] = "2026-01-02T03:04:05.678Z".into();
    });
    rewrite(&lab, &old, |status| status["ended_at"] = "2026-01-02T03:04:05.678Z".into());
    let said = lab.berth(["ls"]);
    assert_eq!(said.out.lines().count(), 2, "{said:?}");
    assert_eq!(
        said.err,
        "1 more stopped over a day ago: `berth ls --all`\n1 archived: `berth ls --archived`\n"
    );
    assert_eq!(names(&lab, &[]), ["fresh"]);
    assert_eq!(names(&lab, &["--archived"]), ["put-away"]);
    assert_eq!(names(&lab, &["--all", "--sort", "name"]), ["fresh", "old", "put-away"]);
    assert_eq!(names(&lab, &["--state", "archived"]), ["put-away"]);
    assert_eq!(names(&lab, &["--state", "stopped", "--sort", "name"]), ["fresh", "old"]);
    // Only sessions that would be shown otherwise are counted.
    let said = lab.berth(["ls", "--name", "o*"]);
    assert_eq!(said.err, "1 more stopped over a day ago: `berth ls --all`\n");
}

#[test]
fn tags_and_notes_are_shown_and_asked_for() {
    let lab = lab();
    let id = ended(&lab, "noted");
    ended(&lab, "plain");
    rewrite(&lab, &id, |status| {
        status["tags"] = serde_json::json!(["night", "ci"]);
        status["note"] = "look at the\n\u{1b}[31mlogs".into();
    });
    assert_eq!(names(&lab, &["--tag", "ci", "--tag", "night"]), ["noted"]);
    assert_eq!(names(&lab, &["--tag", "ci", "--tag", "day"]), Vec::<String>::new());
    let text = lab.ok(["ls", "--tag", "ci"]);
    assert!(text.contains("night,ci") && text.ends_with("look at the [31mlogs"), "{text}");
}

#[test]
fn a_state_or_a_field_that_does_not_exist_is_exit_2_with_those_that_do() {
    let lab = lab();
    let said = lab.berth(["ls", "--state", "idle,runing"]);
    assert_eq!((said.code, said.out.as_str()), (2, ""), "{said:?}");
    assert!(said.err.contains("needs-you, lost") && said.err.contains("'running'"), "{said:?}");
    let said = lab.berth(["ls", "--format", "{{.stat}}"]);
    assert_eq!((said.code, said.out.as_str()), (2, ""), "{said:?}");
    assert!(
        said.err.contains("did you mean {{.state}}?") && said.err.contains("berth show S --json"),
        "{said:?}"
    );
    for odd in [
        &["--ids", "--json"][..],
        &["--format", "{{.id}}", "--json"],
        &["--all", "--archived"],
        &["--here", "--cwd", "."],
        &["--watch", "--format", "{{.id}}"],
        &["--limit", "-1"],
        &["--limit", "0"],
        &["--sort", "size"],
    ] {
        let said = lab.berth([&["ls"], odd].concat());
        assert_eq!((said.code, said.out.as_str()), (2, ""), "{odd:?}: {said:?}");
    }
}

#[test]
fn a_format_prints_a_line_for_each_session() {
    let lab = lab();
    let id = ended(&lab, "one");
    let out = lab.ok(["ls", "--format", r"{{.id}}\t{{ .name }}\t{{.exit}}\t{{.turns.total}}|{{.command}}"]);
    assert_eq!(out, format!("{id}\tone\t0\t|[\"true\"]"));
    assert_eq!(lab.ok(["ls", "--ids"]), id);
}
