//! Claude Code itself, driven over stream-json against the fake model: properties that the `claude` driver relies on.
//!
//! Promise: each fact of `docs/agents.md` that berth builds on has a test here that fails when it stops being true.
//! Not here: berth. Needs `testing/agents/install`.

use std::io::Write;
use std::process::Stdio;

use berth_harness::model::{AnswerState, one_line};
use berth_harness::{JsonLineProcess, RealAgents, said, wait_child, wait_until};
use serde_json::{Value, json};

use crate::tool::{is_alive, long_tool, tool_pid};

const SESSION: &str = "5e551014-0000-4000-8000-000000000001";

/// A message's id.
fn id(number: u32) -> String {
    format!("0be47400-0000-4000-8000-{number:012x}")
}

/// Claude Code for many turns, as the driver starts it.
fn claude(agents: &RealAgents, more: &[&str]) -> JsonLineProcess {
    let mut args = vec!["-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"];
    args.extend(["--permission-prompt-tool", "stdio"]);
    args.extend(more);
    JsonLineProcess::start(&mut agents.command("claude", args))
}

fn fresh(agents: &RealAgents, more: &[&str]) -> JsonLineProcess {
    let mut all = vec!["--session-id", SESSION];
    all.extend(more);
    claude(agents, &all)
}

fn send(talk: &mut JsonLineProcess, number: u32, text: &str) {
    talk.say(&json!({"type": "user", "uuid": id(number), "message": {"role": "user", "content": text}}));
}

fn result(talk: &mut JsonLineProcess) -> Value {
    talk.wait("a result", |line| line["type"] == "result")
}

fn turn(talk: &mut JsonLineProcess, number: u32, text: &str) -> Value {
    send(talk, number, text);
    result(talk)
}

/// The final state that Claude Code reports for a message.
fn settled(talk: &mut JsonLineProcess, number: u32) -> String {
    let is_last = |state: &Value| state == "completed" || state == "cancelled";
    let line = talk
        .wait("the end of a message", |line| line["command_uuid"] == id(number) && is_last(&line["state"]));
    line["state"].as_str().unwrap_or_default().to_owned()
}

fn answers(result: &Value) -> Vec<String> {
    let list = result["user_message_uuids"].as_array().cloned().unwrap_or_default();
    list.iter().filter_map(|uuid| uuid.as_str().map(str::to_owned)).collect()
}

#[test]
fn turns_and_a_tool_make_one_line_and_each_result_names_its_prompt() {
    let agents = RealAgents::alone();
    let mut talk = fresh(&agents, &["--allowedTools", "Bash"]);
    talk.say(&json!({"type": "control_request", "request_id": "i1", "request": {"subtype": "initialize"}}));
    talk.wait("the answer to initialize", |line| {
        line["type"] == "control_response" && line["response"]["request_id"] == "i1"
    });
    for (number, prompt, answer) in [
        (1, "first", "ECHO: first"),
        (2, "TOOL echo hi there", "TOOLDONE hi there"),
        (3, "THINK third", "ECHO: THINK third"),
    ] {
        let result = turn(&mut talk, number, prompt);
        assert_eq!(result["result"], answer, "{result}");
        assert_eq!((&result["is_error"], &result["terminal_reason"]), (&json!(false), &json!("completed")));
        assert_eq!(answers(&result), [id(number)]);
        assert_eq!(result["result_index"], number - 1);
        assert_eq!(settled(&mut talk, number), "completed");
    }
    assert_eq!(talk.end().0, 0);

    let transcripts = agents.transcripts();
    assert_eq!(transcripts.len(), 1, "{transcripts:#?}");
    assert_eq!(transcripts[0].id, SESSION);
    assert_eq!(transcripts[0].no_fork(), Ok(()));
    assert_eq!(transcripts[0].prompts(), ["first", "TOOL echo hi there", "THINK third"]);
    let has_our_id = |number| transcripts[0].records.iter().any(|record| record["uuid"] == id(number));
    assert!((1..=3).all(has_our_id), "our uuids are the records' uuids");
    let model = agents.model();
    assert_eq!(model.prompts(), ["first", "TOOL echo hi there", "THINK third"]);
    assert_eq!(one_line(&model.turns()), Ok(()));
    assert!(model.turns().iter().all(|asked| asked.conversation.as_deref() == Some(SESSION)));
}

#[test]
fn a_repeated_uuid_is_not_run_again_even_after_a_resume() {
    let agents = RealAgents::alone();
    let mut talk = fresh(&agents, &[]);
    turn(&mut talk, 1, "once");
    assert_eq!(settled(&mut talk, 1), "completed");
    // In the same process it is dropped without a word, while it is worked on and afterwards.
    send(&mut talk, 1, "once");
    send(&mut talk, 2, "HOLD twice");
    agents.model().arrived("twice");
    send(&mut talk, 2, "HOLD twice");
    agents.model().release("twice");
    assert_eq!(answers(&result(&mut talk)), [id(2)]);
    assert_eq!(settled(&mut talk, 2), "completed");
    send(&mut talk, 3, "HOLD on");
    agents.model().arrived("on");
    talk.say(&json!({"type": "control_request", "request_id": "r", "request": {"subtype": "interrupt"}}));
    assert_eq!(answers(&result(&mut talk)), [id(3)]);
    assert_eq!(settled(&mut talk, 3), "cancelled");
    talk.end();

    let mut talk = claude(&agents, &["--resume", SESSION]);
    // After a resume it is called completed, also if it was interrupted.
    for (number, text) in [(1, "once"), (2, "HOLD twice"), (3, "HOLD on")] {
        send(&mut talk, number, text);
        assert_eq!(settled(&mut talk, number), "completed");
    }
    assert!(talk.heard.iter().all(|line| line["type"] != "result"), "nothing was run");
    assert_eq!(answers(&turn(&mut talk, 4, "thrice")), [id(4)]);
    assert_eq!(talk.end().0, 0);
    assert_eq!(agents.model().prompts(), ["once", "HOLD twice", "HOLD on", "thrice"]);
    assert_eq!(agents.transcripts()[0].no_fork(), Ok(()));
}

#[test]
fn a_permission_is_asked_on_stdio_and_both_answers_count() {
    let agents = RealAgents::alone();
    let mut talk = fresh(&agents, &[]);
    for (number, file, behavior) in [(1, "yes", "allow"), (2, "no", "deny")] {
        send(&mut talk, number, &format!("TOOL touch {file}; echo ran"));
        let asked = talk.wait("the question", |line| line["type"] == "control_request");
        let request = &asked["request"];
        assert_eq!(request["subtype"], "can_use_tool");
        assert_eq!(request["input"]["command"], format!("touch {file}; echo ran"));
        let answer = json!({"behavior": behavior, "updatedInput": request["input"], "message": "not today"});
        let response = json!({"subtype": "success", "request_id": asked["request_id"], "response": answer});
        talk.say(&json!({"type": "control_response", "response": response}));
        let result = result(&mut talk);
        assert_eq!(result["is_error"], false);
        let (text, denials) =
            if behavior == "allow" { ("TOOLDONE ran", 0) } else { ("TOOLDONE not today", 1) };
        assert_eq!(result["result"], text);
        assert_eq!(result["permission_denials"].as_array().map(Vec::len), Some(denials));
    }
    assert_eq!(talk.end().0, 0);
    assert!(agents.work().join("yes").exists() && !agents.work().join("no").exists());
    assert_eq!(agents.transcripts()[0].no_fork(), Ok(()));
}

#[test]
fn an_interrupt_ends_the_turn_and_the_next_message_runs() {
    let agents = RealAgents::alone();
    let mut talk = fresh(&agents, &[]);
    let interrupt = |talk: &mut JsonLineProcess, name: &str| {
        talk.say(
            &json!({"type": "control_request", "request_id": name, "request": {"subtype": "interrupt"}}),
        );
        let answer = talk.wait("the answer to interrupt", |line| {
            line["type"] == "control_response" && line["response"]["request_id"] == name
        });
        answer["response"]["response"]["still_queued"].clone()
    };
    send(&mut talk, 1, "HOLD one");
    agents.model().arrived("one");
    send(&mut talk, 2, "behind");
    talk.wait("that it is queued", |line| line["command_uuid"] == id(2) && line["state"] == "queued");
    assert_eq!(interrupt(&mut talk, "r1"), json!([id(2)]));
    let ended = result(&mut talk);
    assert_eq!((&ended["is_error"], &ended["terminal_reason"]), (&json!(true), &json!("aborted_streaming")));
    assert_eq!(answers(&ended), [id(1)]);
    assert_eq!(settled(&mut talk, 1), "cancelled");
    agents.model().wait("that it hung up", |asked| asked[0].answer == AnswerState::Cut);
    let next = result(&mut talk);
    assert_eq!((&next["result"], answers(&next)), (&json!("ECHO: behind"), vec![id(2)]));
    assert_eq!(settled(&mut talk, 2), "completed");

    // Nothing runs: no result, and nothing later is harmed.
    assert_eq!(interrupt(&mut talk, "r2"), json!([]));
    // A question that is open is taken back.
    send(&mut talk, 3, "TOOL touch never");
    let asked = talk.wait("the question", |line| line["type"] == "control_request");
    assert_eq!(interrupt(&mut talk, "r3"), json!([]));
    let taken_back =
        |line: &Value| line["type"] == "control_cancel_request" && line["request_id"] == asked["request_id"];
    assert!(talk.heard.iter().any(taken_back), "{:?}", talk.heard.last());
    assert_eq!(result(&mut talk)["terminal_reason"], "aborted_tools");
    // An answer that comes too late does not count.
    let allow = json!({"behavior": "allow", "updatedInput": asked["request"]["input"]});
    let response = json!({"subtype": "success", "request_id": asked["request_id"], "response": allow});
    talk.say(&json!({"type": "control_response", "response": response}));
    assert_eq!(turn(&mut talk, 4, "last")["result"], "ECHO: last");
    assert_eq!(talk.end().0, 0);
    assert!(!agents.work().join("never").exists());
    assert_eq!(agents.transcripts()[0].no_fork(), Ok(()));
}

#[test]
fn an_interrupt_kills_the_tool() {
    let agents = RealAgents::alone();
    let mut talk = fresh(&agents, &["--allowedTools", "Bash"]);
    send(&mut talk, 1, &long_tool(&agents));
    let tool = tool_pid(&agents);
    talk.say(&json!({"type": "control_request", "request_id": "r", "request": {"subtype": "interrupt"}}));
    assert_eq!(result(&mut talk)["terminal_reason"], "aborted_tools");
    wait_until("the tool's end", || !is_alive(tool));
    assert_eq!(turn(&mut talk, 2, "next")["result"], "ECHO: next");
    assert_eq!(talk.end().0, 0);
    assert_eq!(agents.transcripts()[0].no_fork(), Ok(()));
}

#[test]
fn messages_in_mid_turn_are_merged_into_one_or_taken_along() {
    let agents = RealAgents::alone();
    let mut talk = fresh(&agents, &["--allowedTools", "Bash"]);
    send(&mut talk, 1, "HOLD it");
    agents.model().arrived("it");
    for number in [2, 3] {
        send(&mut talk, number, &format!("queued-{number}"));
        talk.wait("that it is queued", |line| {
            line["command_uuid"] == id(number) && line["state"] == "queued"
        });
    }
    agents.model().release("it");
    assert_eq!(answers(&result(&mut talk)), [id(1)]);
    let merged = result(&mut talk);
    assert_eq!(merged["result"], "ECHO: queued-2\nqueued-3");
    assert_eq!(answers(&merged), [id(2), id(3)]);

    send(&mut talk, 4, &long_tool(&agents));
    tool_pid(&agents);
    send(&mut talk, 5, "by the way");
    talk.wait("that it is queued", |line| line["command_uuid"] == id(5) && line["state"] == "queued");
    std::fs::write(agents.work().join("pipe"), "tool says\n").expect("the tool reads");
    let taken = result(&mut talk);
    assert_eq!(taken["result"], "STEERED: by the way\nTOOLDONE tool says");
    assert_eq!(answers(&taken), [id(4), id(5)]);
    assert_eq!(talk.end().0, 0);
    assert_eq!(agents.transcripts()[0].no_fork(), Ok(()));
}

#[test]
fn an_api_error_is_an_error_whatever_its_subtype_says() {
    let agents = RealAgents::alone();
    let mut talk = fresh(&agents, &[]);
    for (number, status) in [(1, 401), (2, 529)] {
        let result = turn(&mut talk, number, &format!("ERROR {status}"));
        assert_eq!((&result["subtype"], &result["is_error"]), (&json!("success"), &json!(true)));
        assert_eq!(result["terminal_reason"], "api_error");
        assert_eq!(result["api_error_status"], status);
        assert_eq!(answers(&result), [id(number)]);
        assert_eq!(settled(&mut talk, number), "cancelled");
    }
    let before = agents.model().turns().len();
    let cut = turn(&mut talk, 3, "CUT");
    assert_eq!((&cut["is_error"], &cut["api_error"]), (&json!(true), &json!("connection_failed")));
    let tries: Vec<bool> = agents.model().turns()[before..].iter().map(|asked| asked.stream).collect();
    assert_eq!(tries, [true, false], "asked once more, without a stream");
    // The last result is what the exit code is about.
    assert_eq!(turn(&mut talk, 4, "after")["is_error"], false);
    assert_eq!(talk.end().0, 0);
    let mut talk = claude(&agents, &["--resume", SESSION]);
    turn(&mut talk, 5, "ERROR 500");
    assert_eq!(talk.end().0, 1);
}

#[test]
fn a_closed_input_lets_the_turn_finish_and_so_do_broken_pipes() {
    let agents = RealAgents::alone();
    let mut talk = fresh(&agents, &[]);
    send(&mut talk, 1, "HOLD it");
    agents.model().arrived("it");
    agents.model().release("it");
    assert_eq!(talk.end().0, 0);
    assert_eq!(agents.transcripts()[0].answers(), ["held ECHO: HOLD it"]);

    // As if the driving process had been killed: no reader, no writer, and the agent goes on.
    let args = [
        "-p",
        "--input-format",
        "stream-json",
        "--output-format",
        "stream-json",
        "--verbose",
        "--resume",
        SESSION,
    ];
    let mut command = agents.command("claude", args);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("claude");
    let mut input = child.stdin.take().expect("piped");
    let message = json!({"type": "user", "uuid": id(2), "message": {"role": "user", "content": "HOLD on"}});
    writeln!(input, "{message}").expect("it reads");
    agents.model().arrived("on");
    drop((input, child.stdout.take()));
    agents.model().release("on");
    wait_child(child);
    let transcript = &agents.transcripts()[0];
    assert_eq!(transcript.answers().last().map(String::as_str), Some("held ECHO: HOLD on"));
    assert_eq!(transcript.no_fork(), Ok(()));
}

#[test]
fn a_background_task_brings_a_result_that_answers_no_prompt() {
    let agents = RealAgents::alone();
    let mut talk = fresh(&agents, &["--allowedTools", "Bash"]);
    long_tool(&agents);
    let call = json!({"command": "cat pipe", "description": "later", "run_in_background": true});
    assert_eq!(answers(&turn(&mut talk, 1, &format!("CALL Bash {call}"))), [id(1)]);
    std::fs::write(agents.work().join("pipe"), "done\n").expect("the task reads");
    let own = result(&mut talk);
    assert_eq!(own["origin"]["kind"], "task-notification", "{own}");
    assert!(own["user_message_uuids"].is_null(), "{own}");
    assert_eq!(answers(&turn(&mut talk, 2, "next")), [id(2)]);
    assert_eq!(talk.end().0, 0);
    let transcript = &agents.transcripts()[0];
    assert_eq!(transcript.no_fork(), Ok(()));
    assert_eq!(transcript.prompts().len(), 2, "{:?}", transcript.prompts());
}

/// A turn that was killed while the model answered: its prompt is in the transcript, and no answer.
fn killed_in_an_answer(agents: &RealAgents) {
    let mut talk = fresh(agents, &[]);
    turn(&mut talk, 1, "first");
    send(&mut talk, 2, "HOLD it");
    agents.model().arrived("it");
    wait_until("the prompt in the transcript", || {
        agents.transcripts().first().is_some_and(|transcript| transcript.prompts() == ["first", "HOLD it"])
    });
    drop(talk);
    assert_eq!(agents.transcripts()[0].answers(), ["ECHO: first"]);
}

#[test]
fn a_result_is_in_the_transcript_before_anyone_hears_of_it_and_a_killed_tool_lives_on() {
    let agents = RealAgents::alone();
    let mut talk = fresh(&agents, &["--allowedTools", "Bash"]);
    turn(&mut talk, 1, "first");
    drop(talk);
    let transcript = &agents.transcripts()[0];
    assert_eq!(transcript.answers(), ["ECHO: first"], "killed at its result");

    let mut talk = claude(&agents, &["--allowedTools", "Bash", "--resume", SESSION]);
    send(&mut talk, 2, &long_tool(&agents));
    let tool = tool_pid(&agents);
    // The prompt is written about now. Its call may not be: a tool can have run without a trace in the transcript.
    wait_until("the prompt to be in the transcript", || agents.transcripts()[0].prompts().len() == 2);
    drop(talk);
    // The tool is an orphan now, and reads for ever.
    assert!(is_alive(tool), "if this fails Claude Code has become better than we know");
    std::fs::write(agents.work().join("pipe"), "go\n").expect("the tool reads");
    wait_until("the tool's end", || !is_alive(tool));
}

#[test]
fn a_killed_turn_is_called_completed_once_another_was_run() {
    let agents = RealAgents::alone();
    killed_in_an_answer(&agents);
    let mut talk = claude(&agents, &["--resume", SESSION]);
    assert_eq!(turn(&mut talk, 3, "next")["result"], "ECHO: next");
    send(&mut talk, 2, "HOLD it");
    assert_eq!(settled(&mut talk, 2), "completed");
    assert_eq!(agents.model().arrivals("it"), 1, "completed, and never answered");
    assert_eq!(talk.end().0, 0);
    let transcript = &agents.transcripts()[0];
    assert_eq!(transcript.answers(), ["ECHO: first", "No response requested.", "ECHO: next"]);
    assert_eq!(transcript.no_fork(), Ok(()));
}

#[test]
fn a_killed_turn_that_is_sent_again_first_of_all_is_run_again_and_forks() {
    let agents = RealAgents::alone();
    killed_in_an_answer(&agents);
    agents.model().release("it");
    let mut talk = claude(&agents, &["--resume", SESSION]);
    assert_eq!(turn(&mut talk, 2, "HOLD it")["result"], "held ECHO: HOLD it");
    assert_eq!(talk.end().0, 0);
    assert_eq!(agents.model().arrivals("it"), 2);
    let fault = agents.transcripts()[0].no_fork().expect_err("two answers hang off one prompt");
    assert!(fault.contains("a fork"), "{fault}");
}

#[test]
fn two_resumes_at_once_fork_the_transcript_and_the_checker_sees_it() {
    let agents = RealAgents::alone();
    let mut talk = fresh(&agents, &[]);
    turn(&mut talk, 1, "base");
    talk.end();
    let mut first = claude(&agents, &["--resume", SESSION]);
    send(&mut first, 2, "HOLD a");
    agents.model().arrived("a");
    let mut second = claude(&agents, &["--resume", SESSION]);
    assert_eq!(turn(&mut second, 3, "b")["is_error"], false);
    assert_eq!(second.end().0, 0);
    agents.model().release("a");
    assert_eq!(result(&mut first)["is_error"], false);
    assert_eq!(first.end().0, 0);
    let fault = agents.transcripts()[0].no_fork().expect_err("nothing stops Claude Code from this");
    assert!(fault.contains("a fork"), "{fault}");
}

#[test]
fn ids_that_are_taken_or_unknown_are_refused() {
    let agents = RealAgents::alone();
    let mut talk = fresh(&agents, &[]);
    turn(&mut talk, 1, "first");
    talk.end();
    let (code, complaint) = fresh(&agents, &[]).end();
    assert_eq!(code, 1);
    assert!(complaint.contains("already in use"), "{complaint}");
    let unknown = "5e551014-0000-4000-8000-00000000dead";
    let args = ["-p", "--output-format", "stream-json", "--verbose", "--resume", unknown, "hello"];
    let said = said(agents.command("claude", args).output().expect("claude"));
    assert_eq!(said.code, 1);
    assert!(said.err.contains("No conversation found"), "{said:?}");
    let result: Value = serde_json::from_str(said.out.trim()).expect("one result");
    assert_eq!((&result["is_error"], &result["subtype"]), (&json!(true), &json!("error_during_execution")));
    assert_eq!(agents.model().prompts(), ["first"]);
}
