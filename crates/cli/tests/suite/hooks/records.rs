//! The records that hooks write, and the things a hook must never do.

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use berth_harness::{TestEnvironment, signal, wait_until};
use berth_host::lock::LockFile;
use rustix::process::Signal;
use serde_json::json;

use crate::hooks::manual_agent::{HandOpenedAgent, ID, command, records, set_mode};

/// How long an agent waits for a hook of ours.
const AGENTS_PATIENCE: Duration = Duration::from_secs(10);

fn lab() -> TestEnvironment {
    TestEnvironment::new(env!("CARGO_BIN_EXE_berth"))
}

#[test]
fn g8_the_record_follows_a_process_from_one_conversation_to_the_next() {
    let lab = lab();
    let mut hand = HandOpenedAgent::open(&lab);
    hand.start("startup").is_quiet();
    let record = |lab: &TestEnvironment| records(lab).remove(0);
    let first = record(&lab);
    assert_eq!(
        (first["conversation_id"].as_str(), first["pid"].as_u64()),
        (Some(ID), Some(hand.pid().into()))
    );
    assert_eq!((first["doing"]["state"].as_str(), first["cwd"].as_str()), (Some("idle"), Some("/w")));
    hand.prompt().is_quiet();
    assert_eq!(record(&lab)["doing"]["state"], "working");
    let asks = json!({"tool_name": "Bash", "tool_input": {"command": "make it so"}});
    hand.event(ID, "PermissionRequest", asks).is_quiet();
    let needs = record(&lab)["doing"].clone();
    assert_eq!(
        (needs["state"].as_str(), needs["what"].as_str()),
        (Some("needs_you"), Some("Bash: make it so"))
    );
    hand.event(ID, "Stop", json!({"last_assistant_message": "done"})).is_quiet();
    assert_eq!(record(&lab)["doing"]["state"], "idle");
    hand.event(ID, "SessionEnd", json!({"reason": "clear"})).is_quiet();
    assert_eq!(record(&lab)["ended"], "clear");
    hand.event("other", "SessionStart", json!({"source": "clear"})).is_quiet();
    assert_eq!((record(&lab)["conversation_id"].as_str(), record(&lab).get("ended")), (Some("other"), None));
    // The start of this conversation was missed.
    hand.event("third", "UserPromptSubmit", json!({"prompt": "go on"})).is_quiet();
    assert_eq!(record(&lab)["conversation_id"], "third");
    assert_eq!(records(&lab).len(), 1);
}

#[test]
fn g8_an_agent_that_an_agent_starts_has_a_record_of_its_own() {
    let lab = lab();
    let mut outer = HandOpenedAgent::open(&lab);
    outer.start("startup").is_quiet();
    // The inner agent is a tool of the outer one: it has the outer one's pid in its environment.
    let outer_pid = outer.pid().to_string();
    let event = lab.dir().join("inner");
    let inner = json!({"session_id": "inner", "hook_event_name": "SessionStart", "source": "startup"});
    std::fs::write(&event, inner.to_string()).unwrap();
    let nested = format!(
        "'{}' -c 'export CLAUDE_PID=$$; sh -c \"$INNER\" < {}; :'",
        lab.dir().join("claude").display(),
        event.display()
    );
    let mut middle =
        HandOpenedAgent::open_with(&lab, &nested, &[("INNER", &command(&lab)), ("CLAUDE_PID", &outer_pid)]);
    middle.hook(b"").is_quiet();
    let found = records(&lab);
    let of = |id: &str| found.iter().find(|record| record["conversation_id"] == id).expect("a record");
    assert_eq!(of(ID)["pid"].as_u64(), Some(outer.pid().into()));
    assert_ne!(of("inner")["pid"], of(ID)["pid"]);
    assert_ne!(of("inner")["pid"].as_u64(), Some(middle.pid().into()));
}

#[test]
fn g8_a_pid_that_is_not_an_ancestor_of_the_hook_is_ignored() {
    let lab = lab();
    let mut hand = HandOpenedAgent::open_with(&lab, &format!("export CLAUDE_PID=1; {}", command(&lab)), &[]);
    hand.start("startup").is_quiet();
    assert_eq!(records(&lab)[0]["pid"].as_u64(), Some(hand.pid().into()));
}

#[test]
fn g8_a_hook_whose_agent_is_gone_writes_no_record_and_its_other_ancestors_are_left_alone() {
    let lab = lab();
    for agent in ["claude", "codex"] {
        // The hook's parent may be the process that adopts orphans, or a terminal in which a user types the command.
        let hook = command(&lab).replace("hook claude", &format!("hook {agent}"));
        let hook = format!("unset CLAUDE_PID; {hook}");
        let mut innocent = HandOpenedAgent::open_as(&lab, "multiplexer", &hook, &[]);
        innocent.start("startup").is_quiet();
        innocent.prompt().is_quiet();
        innocent.event(ID, "Stop", json!({})).is_quiet();
        assert_eq!(records(&lab).len(), 0, "{agent}: {:?}", records(&lab));
        let mut real = HandOpenedAgent::open_as(&lab, agent, &hook, &[]);
        real.prompt().is_quiet();
        assert_eq!(records(&lab)[0]["pid"].as_u64(), Some(real.pid().into()), "{agent}");
        real.event(ID, "SessionEnd", json!({"reason": "other"})).is_quiet();
        std::fs::remove_dir_all(lab.home().join("holders")).unwrap();
    }
}

#[test]
fn i4_a_hook_that_panics_is_quiet_and_one_that_is_killed_blocks_no_prompt() {
    let lab = lab();
    let broken = |deed: &str| HandOpenedAgent::open_with(&lab, &command(&lab), &[("BERTH_KILLPOINT", deed)]);
    broken("panic:hook").prompt().is_quiet();
    let killed = broken("hook").prompt();
    // Agents take exit code 2 for a refusal by the hook, and every other code for a failure of the hook itself.
    assert_eq!((killed.code, killed.out.as_str()), (128 + 9, ""), "{killed:?}");
    // Neither is in the way of the next agent.
    HandOpenedAgent::open(&lab).prompt().is_quiet();
}

#[test]
fn i4_a_lock_that_is_held_and_an_event_that_never_ends_hold_up_no_hook() {
    let lab = lab();
    let mut hand = HandOpenedAgent::open(&lab);
    hand.start("startup").is_quiet();
    let lock = LockFile::open_or_create(&lab.home().join("holders/lock")).unwrap();
    assert!(lock.try_exclusive().unwrap());
    let begun = Instant::now();
    hand.prompt().is_quiet();
    assert!(begun.elapsed() < AGENTS_PATIENCE, "{:?}", begun.elapsed());
    assert_eq!(records(&lab)[0]["doing"]["state"], "idle", "it was written without the lock");
    drop(lock);
    let begun = Instant::now();
    let mut hook = Command::new(env!("CARGO_BIN_EXE_berth"));
    hook.args(["hook", "claude", "--home"]).arg(lab.home());
    hook.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut hook = hook.spawn().unwrap();
    // The event begins, and never ends.
    let mut input = hook.stdin.take().unwrap();
    input.write_all(b"{\"session_id\":\"x\",").unwrap();
    let ended = hook.wait_with_output().unwrap();
    drop(input);
    assert_eq!((ended.status.code(), ended.stdout.len(), ended.stderr.len()), (Some(0), 0, 0));
    assert!(begun.elapsed() < AGENTS_PATIENCE, "{:?}", begun.elapsed());
}

#[test]
fn i4_a_keeper_that_is_stuck_holds_up_nothing() {
    let lab = lab();
    let event = json!({"session_id": ID, "hook_event_name": "UserPromptSubmit", "prompt": "go on"});
    std::fs::write(lab.dir().join("event"), event.to_string()).unwrap();
    let hook = command(&lab);
    let hook = hook.strip_prefix("exec ").unwrap();
    let script =
        format!("until [ -e go ]; do sleep 0.02; done; {hook} <event >said 2>&1; echo $? >code; read x");
    let mut run = lab.command(["run", "--detach", "--name", "s", "--", "sh", "-c", &script]);
    assert!(run.current_dir(lab.dir()).status().unwrap().success());
    let keeper = lab.process("s", "keeper_pid");
    signal(&keeper, Signal::STOP);
    let begun = Instant::now();
    std::fs::write(lab.dir().join("go"), "").unwrap();
    let code = || std::fs::read_to_string(lab.dir().join("code")).unwrap_or_default();
    wait_until("the hook's end", || code().ends_with('\n'));
    let took = begun.elapsed();
    signal(&keeper, Signal::CONT);
    assert_eq!((code().as_str(), std::fs::read(lab.dir().join("said")).unwrap().len()), ("0\n", 0));
    assert!(took < AGENTS_PATIENCE, "{took:?}");
    assert_eq!(records(&lab).len(), 1);
}

#[test]
fn i4_hooks_accept_any_input_and_print_nothing() {
    let lab = lab();
    let mut hand = HandOpenedAgent::open(&lab);
    let long = format!("{{\"session_id\":\"{}\",\"hook_event_name\":\"Stop\"}}", "x".repeat(1000));
    let huge = [b"{\"session_id\":\"".as_slice(), &vec![b'x'; 17 << 20], b"\"}"].concat();
    let odd: [&[u8]; 9] = [
        b"",
        b"\0\xff\xfe",
        b"{",
        b"[]",
        b"{\"session_id\":7}",
        b"{\"session_id\":\"\",\"hook_event_name\":\"Stop\"}",
        b"{\"session_id\":\"a\",\"hook_event_name\":\"TomorrowsEvent\"}",
        long.as_bytes(),
        &huge,
    ];
    for event in odd {
        hand.hook(event).is_quiet();
    }
    assert_eq!(records(&lab).len(), 0);
    let nowhere = format!("exec '{}' hook claude --home /no/such/directory", env!("CARGO_BIN_EXE_berth"));
    HandOpenedAgent::open_with(&lab, &nowhere, &[]).prompt().is_quiet();
    // Options of a later version, and a berth that is gone.
    HandOpenedAgent::open_with(&lab, &format!("{} --tomorrow x", command(&lab)), &[]).prompt().is_quiet();
    assert_eq!(records(&lab).len(), 1);
}

#[test]
fn i4_a_state_directory_that_cannot_be_used_holds_up_nothing() {
    let lab = lab();
    let mut hand = HandOpenedAgent::open(&lab);
    set_mode(&lab.home(), 0o755);
    hand.prompt().is_quiet();
    assert!(!lab.home().join("holders").exists(), "a record was written where every command reads it");
    set_mode(&lab.home(), 0o700);
    std::fs::write(lab.home().join("holders"), "not a directory").unwrap();
    hand.prompt().is_quiet();
}

#[test]
fn i4_records_that_are_damaged_are_passed_over_kept_and_reported() {
    let lab = lab();
    let mut hand = HandOpenedAgent::open(&lab);
    hand.start("startup").is_quiet();
    let bad = lab.home().join("holders/claude.7.7.json");
    std::fs::write(&bad, "{\"kind\":").unwrap();
    hand.prompt().is_quiet();
    assert!(bad.exists());
    let doctor = lab.berth(["doctor"]);
    assert!(doctor.out.contains("claude.7.7.json"), "{doctor:?}");
}

#[test]
fn d14_hooks_use_the_same_records_whatever_their_own_variables_say() {
    let lab = lab();
    let link = lab.dir().join("linked");
    std::os::unix::fs::symlink(std::path::Path::new(env!("CARGO_BIN_EXE_berth")).parent().unwrap(), &link)
        .unwrap();
    let through = command(&lab).replace(
        &std::path::Path::new(env!("CARGO_BIN_EXE_berth")).parent().unwrap().display().to_string(),
        &link.display().to_string(),
    );
    assert!(through.contains("linked/berth"));
    let elsewhere = lab.dir().join("elsewhere").display().to_string();
    let env: Vec<(&str, &str)> = ["HOME", "TMPDIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR"]
        .map(|name| (name, elsewhere.as_str()))
        .to_vec();
    let mut odd = HandOpenedAgent::open_with(&lab, &through, &env);
    odd.start("startup").is_quiet();
    assert_eq!(records(&lab).len(), 1);
    assert!(!std::path::Path::new(&elsewhere).exists());
    let reason = HandOpenedAgent::open(&lab).prompt().reason();
    assert!(reason.contains(&format!("pid {}", odd.pid())), "{reason}");
}

#[test]
fn e13_nothing_that_was_said_and_no_secret_is_on_disk() {
    let lab = lab();
    let mut hand = HandOpenedAgent::open(&lab);
    let secret = "sk-ant-REDACT0123456789abcdef";
    hand.event(ID, "UserPromptSubmit", json!({"prompt": format!("the key is {secret}")})).is_quiet();
    let asks = json!({"tool_name": "Bash", "tool_input": {"command": format!("curl --token {secret} x")}});
    hand.event(ID, "PermissionRequest", asks).is_quiet();
    hand.event(ID, "Stop", json!({"last_assistant_message": secret})).is_quiet();
    let mut places = vec![lab.home()];
    let mut looked_at = 0;
    while let Some(place) = places.pop() {
        for entry in std::fs::read_dir(place).unwrap().flatten() {
            if entry.path().is_dir() {
                places.push(entry.path());
            } else {
                let text = std::fs::read(entry.path()).unwrap();
                assert!(!String::from_utf8_lossy(&text).contains(secret), "{:?}", entry.path());
                looked_at += 1;
            }
        }
    }
    assert!(looked_at > 0);
}
