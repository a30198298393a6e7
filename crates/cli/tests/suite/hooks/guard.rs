//! The guard: two agents that have one conversation open.

use berth_api::KeeperConnection;
use berth_api::message::KeeperRequest;
use berth_harness::{TestEnvironment, wait_until};
use serde_json::json;

use crate::hooks::manual_agent::{HandOpenedAgent, ID, command, records};

fn lab() -> TestEnvironment {
    TestEnvironment::new(env!("CARGO_BIN_EXE_berth"))
}

#[test]
fn the_second_writer_is_told_which_process_writes_and_how_to_go_on_before_its_first_prompt() {
    let lab = lab();
    let mut first = HandOpenedAgent::open(&lab);
    first.start("startup").is_quiet();
    let mut second = HandOpenedAgent::open(&lab);
    // In an interface the user sees it as soon as the agent is open.
    let told = second.start("resume").warning();
    let reason = second.prompt().reason();
    for text in [&told, &reason] {
        assert!(text.contains(&format!("claude, pid {}, since ", first.pid())), "{text}");
        assert!(text.contains(", in /w"), "{text}");
        assert!(text.contains(&format!("berth adopt {ID} --take")), "{text}");
        assert!(text.contains(&format!("claude --resume {ID} --fork-session")), "{text}");
    }
    assert!(reason.contains("the prompt was not sent"), "{reason}");
    // The first writer is not held up.
    first.prompt().is_quiet();
    let of_second = records(&lab).into_iter().find(|record| record["pid"] == second.pid()).unwrap();
    assert_eq!((of_second.get("wrote_boot_ms"), of_second["doing"]["state"].as_str()), (None, Some("idle")));
}

#[test]
fn a_second_writer_goes_on_when_the_first_is_gone_and_nothing_was_said_meanwhile() {
    let lab = lab();
    let mut first = HandOpenedAgent::open(&lab);
    first.prompt().is_quiet();
    first.event(ID, "Stop", json!({})).is_quiet();
    let mut second = HandOpenedAgent::open(&lab);
    second.start("resume");
    second.prompt().reason();
    // Killed without a word: its record still says that it has the conversation open.
    first.kill();
    second.prompt().is_quiet();
}

#[test]
fn a_second_writer_has_to_read_again_the_answer_that_the_first_was_at_when_it_opened() {
    type Leave = fn(HandOpenedAgent);
    let answers: Leave = |mut first| {
        first.event(ID, "Stop", json!({})).is_quiet();
        first.event(ID, "SessionEnd", json!({"reason": "prompt_input_exit"})).is_quiet();
    };
    let breaks_off: Leave = |mut first| {
        first.event(ID, "SessionEnd", json!({"reason": "other"})).is_quiet();
    };
    let clears: Leave = |mut first| {
        first.event(ID, "Stop", json!({})).is_quiet();
        first.event(ID, "SessionEnd", json!({"reason": "clear"})).is_quiet();
        first.event("new", "SessionStart", json!({"source": "clear"})).is_quiet();
        first.event("new", "UserPromptSubmit", json!({"prompt": "x"})).is_quiet();
    };
    for leaves in [answers, breaks_off, clears, HandOpenedAgent::kill] {
        let lab = lab();
        let mut first = HandOpenedAgent::open(&lab);
        first.prompt().is_quiet();
        let mut second = HandOpenedAgent::open(&lab);
        second.start("resume").warning();
        leaves(first);
        let reason = second.prompt().reason();
        assert!(reason.contains("another program wrote this conversation"), "{reason}");
        second.start("resume").is_quiet();
        second.prompt().is_quiet();
    }
}

#[test]
fn a_second_writer_has_to_read_the_messages_of_the_first_one_first() {
    let lab = lab();
    let mut first = HandOpenedAgent::open(&lab);
    first.start("startup").is_quiet();
    let mut second = HandOpenedAgent::open(&lab);
    second.start("resume");
    first.prompt().is_quiet();
    first.event(ID, "SessionEnd", json!({"reason": "prompt_input_exit"})).is_quiet();
    drop(first);
    // This process would attach its next turn to one that is no longer the last.
    let reason = second.prompt().reason();
    assert!(reason.contains("another program wrote this conversation"), "{reason}");
    assert!(reason.contains(&format!("/resume {ID}")), "{reason}");
    second.start("resume").is_quiet();
    second.prompt().is_quiet();
}

#[test]
fn g8_a_conversation_that_was_left_with_clear_is_free() {
    let lab = lab();
    let mut first = HandOpenedAgent::open(&lab);
    first.start("startup").is_quiet();
    let mut second = HandOpenedAgent::open(&lab);
    second.prompt().reason();
    first.event(ID, "SessionEnd", json!({"reason": "clear"})).is_quiet();
    first.event("new", "SessionStart", json!({"source": "clear"})).is_quiet();
    second.prompt().is_quiet();
    // The first agent comes back to the conversation.
    assert!(first.start("resume").warning().contains(&format!("pid {}", second.pid())));
    first.prompt().reason();
}

#[test]
fn b6_the_guard_does_not_block_the_process_that_holds_the_conversation() {
    let lab = lab();
    let mut hand = HandOpenedAgent::open(&lab);
    for how in ["startup", "resume", "compact", "resume", "clear", "startup"] {
        hand.start(how).is_quiet();
        hand.prompt().is_quiet();
        hand.event(ID, "Stop", json!({})).is_quiet();
    }
    // The conversation is closed, and opened again at once by another process.
    hand.event(ID, "SessionEnd", json!({"reason": "other"})).is_quiet();
    let mut next = HandOpenedAgent::open(&lab);
    next.start("resume").is_quiet();
    next.prompt().is_quiet();
}

#[test]
fn of_two_at_the_same_instant_exactly_one_goes_on() {
    let lab = lab();
    for round in 0..12 {
        let id = format!("race-{round}");
        let event =
            json!({"session_id": id, "hook_event_name": "UserPromptSubmit", "prompt": "x"}).to_string();
        let mut hands =
            [HandOpenedAgent::open(&lab), HandOpenedAgent::open(&lab), HandOpenedAgent::open(&lab)];
        let files: Vec<_> = hands.iter_mut().map(|hand| hand.send(event.as_bytes())).collect();
        let said: Vec<_> = hands.iter_mut().zip(files).map(|(hand, file)| hand.heard(&file)).collect();
        let quiet = said.iter().filter(|said| said.out.is_empty()).count();
        assert_eq!(quiet, 1, "{said:?}");
        said.iter().filter(|said| !said.out.is_empty()).for_each(|said| drop(said.reason()));
    }
}

#[test]
fn i4_hooks_that_are_installed_twice_make_one_record_and_hold_up_no_prompt() {
    let lab = lab();
    let both = format!("tee e | sh -c \"{0}\"; exec sh -c \"{0}\" < e", command(&lab));
    let mut first = HandOpenedAgent::open_with(&lab, &both, &[]);
    first.start("startup").is_quiet();
    first.prompt().is_quiet();
    assert_eq!(records(&lab).len(), 1);
}

#[test]
fn the_guard_warns_or_keeps_quiet_where_it_is_told_to() {
    let lab = lab();
    let mut first = HandOpenedAgent::open(&lab);
    first.start("startup").is_quiet();
    let with = |mode: &str| HandOpenedAgent::open_with(&lab, &command(&lab), &[("BERTH_GUARD", mode)]);
    with("off").prompt().is_quiet();
    let warned = with("warn").prompt().warning();
    assert!(warned.contains(&format!("pid {}", first.pid())), "{warned}");
    with("nonsense").prompt().reason();
    std::fs::write(lab.config(), "[hooks]\nguard = \"warn\"\n").unwrap();
    HandOpenedAgent::open(&lab).prompt().warning();
    with("block").prompt().reason();
    // A config that cannot be read is no reason to complain in the middle of the user's work.
    std::fs::write(lab.config(), "[hooks]\nguard = 7\n").unwrap();
    HandOpenedAgent::open(&lab).prompt().reason();
}

/// Starts a session `s` with an agent in a terminal, whose hooks are this command if any; its conversation.
fn session(lab: &TestEnvironment, hook: Option<&str>) -> String {
    let mut tui = vec![lab.agent(), "tui".to_owned()];
    tui.extend(hook.into_iter().flat_map(|hook| ["--hook".to_owned(), hook.to_owned()]));
    let config = format!(
        "[agents.fake]\ndriver = \"claude\"\nconversation_kind = \"claude\"\ncommand = [\"false\"]\ntui = {tui:?}\n\
         begin_tui = [\"--session-id\", \"{{id}}\"]\nresume_tui = [\"--resume\", \"{{id}}\"]\n"
    );
    std::fs::write(lab.config(), config).unwrap();
    let files = lab.dir().join("files-of-the-agent");
    std::fs::create_dir_all(&files).unwrap();
    let mut run = lab.command(["run", "--detach", "--agent", "fake", "--tui", "--name", "s"]);
    run.env("CLAUDE_CONFIG_DIR", files).env("BERTH_HOOKS", "off").env_remove("BERTH_GUARD");
    assert!(run.current_dir(lab.dir()).status().unwrap().success());
    lab.wait_output("s", "ready");
    lab.show("s")["conversation_id"].as_str().expect("a conversation").to_owned()
}

#[test]
fn a_session_whose_agent_tells_nothing_has_its_conversation_by_its_lock() {
    let lab = lab();
    let id = session(&lab, None);
    assert_eq!(records(&lab).len(), 0, "a hook told of it");
    let mut second = HandOpenedAgent::open(&lab);
    let prompt = json!({"prompt": "go on"});
    let reason = second.event(&id, "UserPromptSubmit", prompt.clone()).reason();
    assert!(reason.contains("berth session `s` writes this conversation already"), "{reason}");
    assert!(reason.contains("berth attach s") && reason.contains("berth stop s"), "{reason}");
    lab.ok(["stop", "s"]);
    // Its keeper leaves a moment after its run.
    wait_until("it is free", || second.event(&id, "UserPromptSubmit", prompt.clone()).out.is_empty());
}

#[test]
fn i3_a_keeper_that_is_replaced_while_its_session_runs_has_the_same_writer_conversation_and_holder() {
    let lab = lab();
    let id = session(&lab, Some(&command(&lab)));
    wait_until("its record", || !records(&lab).is_empty());
    let mut window = lab.terminal(["attach", "s"]);
    let writer = || lab.show("s")["writer"]["pid"].as_u64();
    wait_until("a writer", || writer() == Some(window.identity().pid.into()));
    let known = || {
        let status = lab.show("s");
        (status["conversation_id"].clone(), status["pid"].clone(), records(&lab))
    };
    let before = known();
    let dir = lab.session_dir(lab.show("s")["id"].as_str().unwrap());
    let mut keeper = KeeperConnection::open(&dir, "a test".into()).expect("a keeper");
    keeper.ask(KeeperRequest::Restart).expect("it does");
    wait_until("another image", || !lab.events("s", "keeper_restarted").is_empty());
    assert_eq!(known(), before);
    wait_until("the same writer", || writer() == Some(window.identity().pid.into()));
    // The session's right to the conversation was not given up, not for a moment, and its agent's hooks still reach it.
    let mut second = HandOpenedAgent::open(&lab);
    let reason = second.event(&id, "UserPromptSubmit", json!({"prompt": "go on"})).reason();
    assert!(reason.contains("berth session `s` writes this conversation already"), "{reason}");
    // An attached client may have typed something, for all that the new keeper knows.
    lab.ok(["send", "s", "hello"]);
    lab.ok(["queue", "s", "resume"]);
    wait_until("its end", || lab.json(["turn", "s.1", "--json"])["state"] == "done");
    window.close();
    window.wait_exit();
}

#[test]
fn a_turn_that_the_guard_held_up_has_failed_and_says_why() {
    let lab = lab();
    let id = session(&lab, Some(&command(&lab)));
    // An agent that ignores the guard writes this conversation.
    let mut other = HandOpenedAgent::open_with(&lab, &command(&lab), &[("BERTH_GUARD", "off")]);
    other.event(&id, "UserPromptSubmit", json!({"prompt": "go on"})).is_quiet();
    lab.ok(["send", "s", "hello"]);
    lab.ok(["send", "s", "behind it"]);
    let turn = || lab.json(["turn", "s.1", "--json"]);
    wait_until("its end", || {
        !["queued", "delivered", "working"].contains(&turn()["state"].as_str().unwrap())
    });
    // The next turn would be held up as well.
    wait_until("a hold", || lab.show("s")["state"] == "needs-you");
    let held = lab.show("s")["turns"]["held"].to_string();
    assert!(
        held.contains("another program wrote this conversation") && held.contains("still in its input box"),
        "{held}"
    );
    assert_eq!(lab.json(["turn", "s.2", "--json"])["state"], "queued");
    let turn = turn();
    assert_eq!(turn["state"], "failed", "{turn}");
    let why = turn.to_string();
    assert!(why.contains("another program wrote this conversation"), "{why}");
}

/// Has the agent's own list say that a process has this conversation open.
fn list(lab: &TestEnvironment, hand: &HandOpenedAgent, id: &str) {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", hand.pid())).unwrap();
    let start = stat.rsplit(") ").next().unwrap().split(' ').nth(19).unwrap().to_owned();
    let list = lab.dir().join("claude-config/sessions");
    std::fs::create_dir_all(&list).unwrap();
    let entry = json!({"pid": hand.pid(), "sessionId": id, "procStart": start});
    std::fs::write(list.join(format!("{}.json", hand.pid())), entry.to_string()).unwrap();
}

#[test]
fn the_writer_that_came_later_is_not_first_because_its_process_is_older() {
    let lab = lab();
    let (silent, mut telling) = (HandOpenedAgent::open(&lab), HandOpenedAgent::open(&lab));
    telling.event("another", "SessionStart", json!({"source": "startup"})).is_quiet();
    let mut first = HandOpenedAgent::open(&lab);
    first.start("startup").is_quiet();
    // Both go on to this conversation: no hook ever tells of the first, and a hook of the second does in a moment.
    list(&lab, &silent, ID);
    list(&lab, &telling, ID);
    first.prompt().is_quiet();
    assert!(telling.start("resume").warning().contains(&format!("pid {}", first.pid())));
    first.prompt().is_quiet();
}

#[test]
fn a_writer_without_hooks_is_seen_by_the_agents_own_list() {
    let lab = lab();
    let old = HandOpenedAgent::open(&lab);
    list(&lab, &old, ID);
    let mut second = HandOpenedAgent::open(&lab);
    let reason = second.prompt().reason();
    assert!(reason.contains(&format!("pid {}", old.pid())), "{reason}");
    old.kill();
    second.prompt().is_quiet();
}
