//! A sweep leaves processes and conversations that are not ours alone, and reports them once (F13, F14, G6).

use std::fs;

use crate::foreign::{ForeignFixture, id};

#[test]
fn f14_a_conversation_imported_just_now_is_kept_however_old_it_is() {
    let world = ForeignFixture::new();
    let config = fs::read_to_string(world.lab.config()).expect("a config");
    fs::write(world.lab.config(), format!("[policy]\narchive_after = \"1h\"\n\n{config}")).expect("a config");
    let file = world.claude(&id('a'), "mend the login page", 24 * 400);
    world.ok(&["import", "--all"]);
    let swept = world.json(&["sweep", "--json"]);
    assert_eq!(
        (&swept["archived"], &swept["no_process"]),
        (&serde_json::json!([]), &serde_json::json!([])),
        "{swept}"
    );
    assert_eq!(world.json(&["show", "mend-the-login-page", "--json"])["state"], "stopped");
    assert!(file.exists());
}

#[test]
fn g6_an_agent_with_no_session_is_told_of_once_and_left_alone() {
    let world = ForeignFixture::new();
    world.claude(&id('a'), "mend the login page", 1);
    let mut open = world.open(&id('a'));
    let first = world.json(&["sweep", "--json"]);
    let told = &first["foreign"][0];
    assert_eq!((&told["pid"], &told["is_new"]), (&open.pid().into(), &true.into()), "{first}");
    assert!(told["command"].as_str().is_some_and(|command| command.contains("sleep 1000")), "{told}");
    assert!(told["guess"].as_str().is_some_and(|guess| guess.starts_with("a process ")), "{told}");
    let again = world.ok(&["sweep"]);
    assert!(again.contains("1 reported before"), "{again}");
    assert!(!open.is_gone());
}
