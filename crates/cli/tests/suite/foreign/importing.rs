//! `berth import`: conversations become sessions, each with its history and its age.

use std::fs;
use std::process::Child;

use berth_harness::{CommandOutput, said};

use crate::foreign::{ForeignFixture, id};

fn ended(child: Child) -> CommandOutput {
    said(child.wait_with_output().expect("our own child"))
}

#[test]
fn an_imported_conversation_is_a_stopped_session_that_grep_finds() {
    let world = ForeignFixture::new();
    let file = world.claude(&id('a'), "mend the login page", 72);
    let before = (
        fs::read(&file).expect("a file"),
        fs::metadata(&file).and_then(|file| file.modified()).expect("a time"),
    );
    let dry = world.berth(&["import", "--all", "--dry-run"]);
    assert!(dry.code == 0 && dry.out.starts_with("would be mend-the-login-page: claude "), "{dry:?}");
    assert!(world.sessions().is_empty());
    let done = world.json(&["import", "--all", "--json"]);
    assert_eq!((&done[0]["outcome"], &done[0]["name"]), (&"imported".into(), &"mend-the-login-page".into()));
    let show = world.json(&["show", "mend-the-login-page", "--json"]);
    assert_eq!(
        (&show["state"], &show["conversation_id"], &show["epoch"]),
        (&"stopped".into(), &id('a').into(), &0.into())
    );
    assert!(show["started_at"].is_null(), "it never ran: {show}");
    assert!(world.ok(&["show", "mend-the-login-page"]).contains("none yet"), "no run");
    let exported = world.ok(&["export", "mend-the-login-page"]);
    assert!(exported.contains("> mend the login page\n\nthe answer to mend the login page"), "{exported}");
    assert_eq!(show["cwd"], world.work("project").display().to_string());
    // As old as it is.
    let foreign = world.json(&["transcript", "ls", "--json"]);
    assert_eq!(show["created_at"], foreign[0]["began_at"]);
    assert_eq!(show["last_activity_at"], foreign[0]["last_activity_at"]);
    assert!(world.ok(&["ls", "--ids"]).is_empty(), "an old session is not in the way");
    let found = world.ok(&["grep", "answer to mend"]);
    assert!(found.starts_with("mend-the-login-page:"), "{found}");
    let again = world.berth(&["import", &id('a')]);
    assert!(again.code == 0 && again.out.starts_with("already: mend-the-login-page "), "{again:?}");
    assert_eq!(world.sessions().len(), 1);
    let after = (
        fs::read(&file).expect("a file"),
        fs::metadata(&file).and_then(|file| file.modified()).expect("a time"),
    );
    assert!(before == after, "the agent's file was touched");
    let log = world.ok(&["log", "mend-the-login-page"]);
    assert!(log.contains("imported from "), "{log}");
}

#[test]
fn an_imported_conversation_outlives_the_agents_own_file() {
    let world = ForeignFixture::new();
    let file = world.claude(&id('a'), "mend the login page", 72);
    let bytes = fs::read(&file).expect("a file");
    world.ok(&["import", &id('a'), "--name", "fix"]);
    fs::remove_file(&file).expect("the agent cleans up");
    assert_eq!(world.ok(&["restore", "fix", "--history"]), file.display().to_string());
    assert_eq!(fs::read(&file).expect("it is back"), bytes);
    // No copy is kept if the config switches copies off.
    let config = fs::read_to_string(world.lab.config()).expect("a config file");
    fs::write(world.lab.config(), config + "[history]\nkeep = \"off\"\n").expect("a config file");
    world.claude(&id('b'), "other", 72);
    world.ok(&["import", &id('b'), "--name", "other"]);
    assert_eq!(world.json(&["history", "other", "--json"])["points"], serde_json::json!([]));
}

#[test]
fn names_that_are_taken_get_a_number_and_words_that_are_none_the_directory() {
    let world = ForeignFixture::new();
    world.claude(&id('a'), "write a poem", 1);
    world.claude(&id('b'), "write a poem", 2);
    world.claude(&id('c'), "詩を書く", 3);
    world.ok(&["import", "--dir", "."]);
    let mut names: Vec<String> =
        world.ok(&["ls", "--all", "--format", "{{.name}}"]).lines().map(str::to_owned).collect();
    names.sort();
    assert_eq!(names, ["project", "write-a-poem", "write-a-poem-2"]);
}

#[test]
fn a_conversation_that_cannot_be_imported_is_reported_and_the_others_are_imported() {
    let world = ForeignFixture::new();
    world.claude(&id('a'), "whole", 1);
    world.claude(&id('b'), "open", 1);
    let open = world.open(&id('b'));
    let dir = world.account("claude").join("projects/-project");
    fs::write(dir.join(format!("{}.jsonl", id('c'))), [0; 100]).expect("a file");
    let said = world.berth(&["import", "--all"]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.err.contains("1 imported, 2 skipped"), "{said:?}");
    assert!(said.out.contains(&format!("pid {}", open.pid())), "{said:?}");
    assert_eq!(world.sessions().len(), 1);
    let named = world.berth(&["import", &id('b')]);
    assert!(named.code == 1 && named.out.contains("`berth adopt "), "{named:?}");
    let nothing = world.berth(&["import", "ffff"]);
    assert_eq!(nothing.code, 3, "{nothing:?}");
    let many = world.berth(&["import", &id('a'), &id('b'), "--name", "x"]);
    assert_eq!(many.code, 2, "{many:?}");
}

#[test]
fn imports_at_the_same_time_make_one_session_of_each() {
    let world = ForeignFixture::new();
    for digit in "abcdef".chars() {
        world.claude(&id(digit), &format!("conversation {digit}{digit}"), 1);
    }
    let children: Vec<Child> = (0..4).map(|_| world.spawn(&["import", "--all"])).collect();
    for said in children.into_iter().map(ended) {
        assert_eq!(said.code, 0, "{said:?}");
        assert!(!said.out.contains("left:"), "{said:?}");
    }
    assert_eq!(world.sessions().len(), 6);
}

#[test]
fn an_imported_conversation_whose_directory_is_gone_is_kept_and_says_so_when_resumed() {
    let world = ForeignFixture::new();
    let file = world.claude(&id('a'), "in a place that is no more", 1);
    let text = fs::read_to_string(&file).expect("a file");
    let gone = world.work("gone").display().to_string();
    fs::write(&file, text.replace(&world.work("project").display().to_string(), &gone)).expect("a file");
    world.ok(&["import", &id('a'), "--name", "old"]);
    let said = world.berth(&["resume", "old", "--detach"]);
    assert!(said.code != 0 && said.err.contains(&gone), "{said:?}");
    assert!(world.ok(&["grep", "no more"]).starts_with("old:"));
}
