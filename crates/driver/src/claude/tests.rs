//! The driver against lines that Claude Code 2.1.325 really wrote (2.1.197 where the file is called `old`).
//!
//! `lines/` has them, recorded with the example `talk` and a model on loopback, and shortened: unused fields are left
//! out. [`play`] makes the same calls as `talk` made at the same places.
//! Promise: a file is a whole run, from the answer to `initialize` to the end of the process.
//! Start with [`play`].

mod fuzz;

use std::collections::{BTreeMap, VecDeque};

use berth_core::{FinalState, MOST_ASKS, TurnEnd};
use serde_json::{Value, json};

use super::ClaudeDriver;
use crate::common::chosen;
use crate::{AgentFailure, AgentUpdate, ContextUsage, ConversationStart, Driver, DriverOutput};

const ID: &str = "11111111-2222-4333-8444-555555555555";

macro_rules! recorded {
    ($($name:literal),*) => {
        const RECORDED: &[(&str, &str)] = &[$(($name, include_str!(concat!("lines/", $name, ".jsonl")))),*];
    };
}

recorded!(
    "absorbed",
    "api-error",
    "background",
    "cleared",
    "compacted",
    "edit",
    "follows",
    "helper",
    "interrupted",
    "interrupted-while-asking",
    "missing",
    "not-logged-in",
    "old",
    "old-interrupted",
    "permission",
    "plain",
    "question",
    "repeated",
    "withdrawn"
);

/// The actions of each run, besides prompts without consequence.
fn steps(name: &str) -> (ConversationStart, &'static [&'static str], &'static str) {
    let new = ConversationStart::New { id: Some(ID.into()) };
    let resume = ConversationStart::Resume { id: ID.into() };
    match name {
        "absorbed" | "follows" => (new, &["first", "+steered", "after"], ""),
        "withdrawn" => (new, &["first", "+steered", "!", "after"], ""),
        "interrupted" => (new, &["first", "!", "next"], ""),
        "interrupted-while-asking" => (new, &["first", "!"], ""),
        "old-interrupted" => (new, &["first", "!", "second", "next"], ""),
        "permission" | "helper" => (new, &["first", "second"], "allow"),
        "compacted" => (new, &["first", "tool", "/help", "/cost", "/compact", "last"], ""),
        "edit" => (new, &["first"], "allow-always"),
        "question" => (new, &["first"], "2"),
        "missing" | "repeated" => (resume, &["first", "second"], ""),
        "old" => (new, &["first", "second", "third", "next"], ""),
        _ => (new, &["first", "second", "third"], ""),
    }
}

fn lines(name: &str) -> Vec<&'static str> {
    let found = RECORDED.iter().find(|(recorded, _)| *recorded == name);
    found.expect("it was recorded").1.lines().collect()
}

/// A driver with its caller.
struct ClaudeReplay {
    driver: ClaudeDriver,
    steps: VecDeque<&'static str>,
    answer: &'static str,
    turn: u64,
    running: Option<u64>,
    stirred: bool,
    updates: Vec<AgentUpdate>,
    written: Vec<Value>,
}

impl ClaudeReplay {
    fn with(&mut self, call: impl FnOnce(&mut ClaudeDriver, &mut DriverOutput)) {
        let mut out = DriverOutput::default();
        call(&mut self.driver, &mut out);
        let mut updates = VecDeque::from(self.take(out));
        while let Some(update) = updates.pop_front() {
            let mut out = DriverOutput::default();
            self.follow(&update, &mut out);
            self.updates.push(update);
            updates.extend(self.take(out));
        }
    }

    fn take(&mut self, out: DriverOutput) -> Vec<AgentUpdate> {
        let lines = out.bytes.split_inclusive(|byte| *byte == b'\n');
        self.written.extend(lines.map(|line| serde_json::from_slice::<Value>(line).expect("a whole line")));
        out.updates
    }

    fn follow(&mut self, update: &AgentUpdate, out: &mut DriverOutput) {
        match update {
            AgentUpdate::Ready => {}
            AgentUpdate::Ended { turn, .. } if self.running == Some(*turn) => self.running = None,
            AgentUpdate::Said { .. } | AgentUpdate::Doing { .. } => self.stirred = true,
            AgentUpdate::Asks { ask } => {
                self.stirred = true;
                if !self.answer.is_empty() {
                    self.driver.answer(&ask.request, &chosen(self.answer), out);
                }
            }
            AgentUpdate::Conversation { .. }
            | AgentUpdate::Model { .. }
            | AgentUpdate::Context { .. }
            | AgentUpdate::Began { .. }
            | AgentUpdate::QuestionWithdrawn { .. }
            | AgentUpdate::Ended { .. }
            | AgentUpdate::Late { .. }
            | AgentUpdate::Remark { .. }
            | AgentUpdate::Broken { .. } => return,
        }
        match (self.running, self.steps.front().copied()) {
            (None, Some(text)) => {
                self.turn += 1;
                (self.running, self.stirred) = (Some(self.turn), false);
                self.driver.prompt(self.turn, text, out);
            }
            (Some(turn), Some("!")) if self.stirred => self.driver.interrupt(turn, out),
            (Some(_), Some(text)) if self.stirred && text.starts_with('+') => {
                self.turn += 1;
                self.driver.steer(self.turn, text, out);
            }
            (Some(_), _) | (None, None) => return,
        }
        self.steps.pop_front();
    }

    fn ends(&self) -> BTreeMap<u64, TurnEnd> {
        ends(&self.updates)
    }

    /// The written lines that contain this text.
    fn wrote(&self, part: &str) -> Vec<&Value> {
        self.written.iter().filter(|line| line.to_string().contains(part)).collect()
    }
}

/// The ends of turns; each turn has at most one.
fn ends(updates: &[AgentUpdate]) -> BTreeMap<u64, TurnEnd> {
    let mut ends = BTreeMap::new();
    for update in updates {
        if let AgentUpdate::Ended { turn, end } = update {
            assert_eq!(ends.insert(*turn, end.clone()), None, "turn {turn} ended twice");
        }
    }
    ends
}

fn play_lines(name: &str, lines: impl IntoIterator<Item = impl AsRef<[u8]>>) -> ClaudeReplay {
    let (begin, steps, answer) = steps(name);
    let mut play = ClaudeReplay {
        driver: ClaudeDriver::new("talk"),
        steps: steps.iter().copied().collect(),
        answer,
        turn: 0,
        running: None,
        stirred: false,
        updates: Vec::new(),
        written: Vec::new(),
    };
    play.with(|driver, out| driver.begin(&begin, "/home/someone/w", out));
    for line in lines {
        play.with(|driver, out| driver.hear(line.as_ref(), out));
    }
    play
}

fn play(name: &str) -> ClaudeReplay {
    play_lines(name, lines(name))
}

/// A driver that knows one turn only, and reads all lines from this one on.
fn recover(name: &str, turn: u64, from: usize) -> Vec<AgentUpdate> {
    let (mut driver, mut out) = (ClaudeDriver::new("talk"), DriverOutput::default());
    driver.begin(&steps(name).0, "/home/someone/w", &mut out);
    driver.prompt(turn, "…", &mut out);
    for line in &lines(name)[from..] {
        driver.hear(line.as_bytes(), &mut out);
    }
    out.updates
}

fn states(play: &ClaudeReplay) -> Vec<(u64, FinalState)> {
    play.ends().into_iter().map(|(turn, end)| (turn, end.state)).collect()
}

fn answers(play: &ClaudeReplay) -> Vec<String> {
    play.ends().into_values().map(|end| end.answer).collect()
}

fn context(used: Option<u64>, window: Option<u64>) -> AgentUpdate {
    AgentUpdate::Context { context: ContextUsage { used, window } }
}

fn contexts(updates: &[AgentUpdate]) -> Vec<ContextUsage> {
    let context = |update: &AgentUpdate| match update {
        AgentUpdate::Context { context } => Some(*context),
        _ => None,
    };
    updates.iter().filter_map(context).collect()
}

#[test]
fn each_prompt_gets_its_own_answer() {
    let play = play("plain");
    assert_eq!(answers(&play), ["ECHO: first", "ECHO: THINK second"]);
    let first = &play.ends()[&1];
    assert_eq!(
        (first.state, first.input_tokens, first.output_tokens),
        (FinalState::Done, Some(12726), Some(3))
    );
    let said: Vec<&AgentUpdate> =
        play.updates.iter().filter(|update| !matches!(update, AgentUpdate::Doing { .. })).collect();
    assert_eq!(
        said[..7],
        [
            &AgentUpdate::Ready,
            &AgentUpdate::Began { turn: 1 },
            &AgentUpdate::Conversation { id: ID.into() },
            &AgentUpdate::Model { model: "claude-opus-5-5".into() },
            &AgentUpdate::Said { text: "ECHO: first".into() },
            &context(Some(12_729), None),
            &AgentUpdate::Ended { turn: 1, end: first.clone() },
        ],
        "what came in pieces is not said again"
    );
}

#[test]
fn text_of_the_agent_by_itself_is_not_the_answer_of_a_turn() {
    for (name, asked, before) in [("background", 3, 2), ("old", 4, 3)] {
        let play = play(name);
        assert_eq!(play.ends().len(), asked, "{name}");
        assert_eq!(answers(&play).last().map(String::as_str), Some("ECHO: next"), "{name}");
        let ended = |turn| {
            play.updates
                .iter()
                .position(|update| matches!(update, AgentUpdate::Ended { turn: of, .. } if *of == turn))
        };
        let late = play
            .updates
            .iter()
            .position(|update| matches!(update, AgentUpdate::Late { turn, .. } if *turn == before));
        let began =
            play.updates.iter().position(|update| *update == AgentUpdate::Began { turn: asked as u64 });
        // The agent began by itself just before the next prompt was written.
        assert!(ended(before) < late && late < began, "{name}: {late:?} {began:?}");
        let pieces = play.updates[ended(before).unwrap()..began.unwrap()].iter();
        assert!(!pieces.clone().any(|update| matches!(update, AgentUpdate::Said { .. })), "{name}");
    }
}

#[test]
fn a_prompt_is_a_turn_of_its_own_and_added_text_is_not() {
    let play = play("absorbed");
    let priorities: Vec<&str> =
        play.wrote("\"priority\"").iter().map(|line| line["priority"].as_str().unwrap()).collect();
    assert_eq!(priorities, ["later", "next", "later"]);
}

#[test]
fn text_that_is_taken_in_has_no_end_of_its_own() {
    let play = play("absorbed");
    assert_eq!(states(&play), [(1, FinalState::Done), (3, FinalState::Done)]);
    assert_eq!(play.ends()[&1].answer, "STEERED: steered\nTOOLDONE hi");
    assert!(play.updates.contains(&AgentUpdate::Began { turn: 2 }));
}

#[test]
fn text_that_comes_too_late_to_be_taken_in_keeps_its_turn_open() {
    let play = play("follows");
    let order: Vec<u64> = play
        .updates
        .iter()
        .filter_map(|update| match update {
            AgentUpdate::Ended { turn, .. } => Some(*turn),
            _ => None,
        })
        .collect();
    assert_eq!(order, [2, 1, 3]);
    assert_eq!(answers(&play), ["tick 1 tick 2 tick 3 tick 4 ECHO: SLOW 4", "ECHO: steered", "ECHO: after"]);
}

#[test]
fn an_interrupt_names_its_turn_and_withdraws_what_was_not_begun() {
    let play = play("withdrawn");
    assert_eq!(
        states(&play),
        [(1, FinalState::Interrupted), (2, FinalState::Interrupted), (3, FinalState::Done)]
    );
    assert_eq!(play.ends()[&1].answer, "held ");
    let withdrawal = play.wrote("cancel_async_message");
    assert_eq!(withdrawal.len(), 1);
    assert_eq!(withdrawal[0]["request_id"], "withdraw-2");
    let interrupt = play.wrote("\"interrupt\"");
    assert_eq!(interrupt.len(), 1);
    assert_eq!(interrupt[0]["request_id"], "interrupt-1");
    let named = interrupt[0]["request"]["for_user_message_uuids"].as_array().unwrap();
    assert_eq!(named.len(), 2);
}

#[test]
fn an_interrupted_turn_is_reported_as_interrupted_for_any_subtype() {
    for name in ["interrupted", "interrupted-while-asking", "old-interrupted"] {
        let play = play(name);
        assert_eq!(play.ends()[&1].state, FinalState::Interrupted, "{name}");
    }
    let play = play("interrupted-while-asking");
    let withdrawn =
        play.updates.iter().filter(|update| matches!(update, AgentUpdate::QuestionWithdrawn { .. }));
    assert_eq!(withdrawn.count(), 1);
}

/// The interrupt of a prompt meets no turn: Claude Code has the prompt and has not begun it.
#[test]
fn an_interrupt_that_met_nothing_is_tried_again_when_the_turn_begins() {
    let (mut driver, mut out) = (ClaudeDriver::new("talk"), DriverOutput::default());
    let message = driver.ids.message(1);
    driver.prompt(1, "first", &mut out);
    driver.interrupt(1, &mut out);
    let mut hear = |line: Value| {
        let mut out = DriverOutput::default();
        driver.hear(line.to_string().as_bytes(), &mut out);
        String::from_utf8(out.bytes).unwrap()
    };
    let missed = json!({"type": "control_response", "response": {"subtype": "success", "request_id": "interrupt-1",
        "response": {"still_queued": [message], "turn": "idle"}}});
    let began =
        json!({"type": "system", "subtype": "init", "session_id": ID, "user_message_uuids": [message]});
    assert_eq!(hear(missed), "");
    assert!(hear(began.clone()).contains("interrupt-1-2"));
    assert_eq!(hear(began), "", "the second one is on its way");
}

#[test]
fn permissions_are_asked_in_full_and_answered_with_their_input() {
    let play = play("permission");
    let ask = play.updates.iter().find_map(|update| match update {
        AgentUpdate::Asks { ask } => Some(ask.clone()),
        _ => None,
    });
    let ask = ask.expect("it asked");
    assert_eq!((ask.tool.as_str(), ask.detail.as_str()), ("Bash", "touch x && echo hi"));
    let options: Vec<&str> = ask.options.iter().map(|option| option.id.as_str()).collect();
    assert_eq!(options, ["allow", "allow-always", "deny"]);
    assert_eq!(ask.options[1].name, "allow, and always allow Bash(touch x *)");
    let answered = play.wrote(&ask.request);
    assert_eq!(answered.len(), 1);
    let response = &answered[0]["response"]["response"];
    assert_eq!(response["behavior"], "allow");
    assert_eq!(response["updatedInput"]["command"], "touch x && echo hi");
    assert!(response.get("updatedPermissions").is_none());
    assert_eq!(play.ends()[&1].answer, "TOOLDONE hi");
}

#[test]
fn an_edit_shows_file_and_change_and_always_means_edits() {
    let play = play("edit");
    let ask = play.updates.iter().find_map(|update| match update {
        AgentUpdate::Asks { ask } => Some(ask.clone()),
        _ => None,
    });
    let ask = ask.expect("it asked");
    assert_eq!(ask.detail, "/home/someone/w/f.txt\n+one\n+two");
    let response = &play.wrote(&ask.request)[0]["response"]["response"];
    assert_eq!(response["updatedPermissions"][0]["mode"], "acceptEdits");
}

#[test]
fn several_questions_are_asked_one_after_the_other() {
    let play = play("question");
    let asked: Vec<(&str, usize)> = play
        .updates
        .iter()
        .filter_map(|update| match update {
            AgentUpdate::Asks { ask } => Some((ask.detail.lines().next().unwrap(), ask.options.len())),
            _ => None,
        })
        .collect();
    assert_eq!(asked, [("Which color?", 3), ("Which size?", 3)]);
    let given = play.wrote("\"answers\"");
    assert_eq!(given.len(), 1);
    let answers = &given[0]["response"]["response"]["updatedInput"]["answers"];
    assert_eq!(*answers, json!({"Which color?": "Blue", "Which size?": "L"}));
}

#[test]
fn a_question_of_a_helper_outlives_the_turn_that_started_it() {
    let mut driver = ClaudeDriver::new("talk");
    let mut out = DriverOutput::default();
    let lines = lines("helper");
    let asked = lines.iter().position(|line| line.contains("can_use_tool")).expect("it asked");
    for line in &lines[..=asked] {
        driver.hear(line.as_bytes(), &mut out);
    }
    let over = r#"{"type":"result","is_error":true,"terminal_reason":"aborted_streaming"}"#;
    driver.hear(over.as_bytes(), &mut out);
    assert!(!out.updates.iter().any(|update| matches!(update, AgentUpdate::QuestionWithdrawn { .. })));
    assert_eq!(driver.questions.len(), 1);
}

#[test]
fn errors_of_the_api_fail_the_turn_and_the_next_one_runs() {
    let play = play("api-error");
    assert_eq!(states(&play), [(1, FinalState::Failed), (2, FinalState::Failed), (3, FinalState::Done)]);
    let reason = |turn| play.ends()[&turn].reason.clone().unwrap();
    assert!(reason(1).starts_with("not logged in, or with a wrong key: "), "{}", reason(1));
    assert!(reason(2).starts_with("API Error: 529"), "{}", reason(2));
    assert!(!play.updates.iter().any(|update| matches!(update, AgentUpdate::Broken { .. })));
}

#[test]
fn without_a_login_the_run_is_broken() {
    let play = play("not-logged-in");
    assert_eq!(states(&play), [(1, FinalState::Failed)]);
    let said = "Not logged in · Please run /login".to_owned();
    assert_eq!(
        play.updates.last(),
        Some(&AgentUpdate::Broken { trouble: AgentFailure::NotLoggedIn { said } })
    );
}

#[test]
fn a_missing_conversation_is_reported() {
    let play = play("missing");
    assert_eq!(
        play.updates,
        [AgentUpdate::Broken { trouble: AgentFailure::NoConversation { id: ID.into() } }]
    );
}

#[test]
fn a_conversation_is_followed_when_it_changes() {
    let play = play("cleared");
    let ids: Vec<&str> = play
        .updates
        .iter()
        .filter_map(|update| match update {
            AgentUpdate::Conversation { id } => Some(id.as_str()),
            _ => None,
        })
        .collect();
    // `conversation_reset` gives the new conversation another id, which cannot be resumed.
    assert_eq!(ids, [ID, "7aae10f0-d1a2-41ac-9aba-228587499fe9"]);
    assert_eq!(states(&play), [(1, FinalState::Done), (2, FinalState::Done), (3, FinalState::Done)]);
}

#[test]
fn a_compaction_is_answered_with_compacted_and_repeats_no_earlier_answer() {
    let play = play("compacted");
    let cost = "Total cost:            $0.1537";
    let help = "/help isn't available in this environment.";
    assert_eq!(answers(&play), ["ECHO: first", "TOOLDONE hi", help, cost, "Compacted", "ECHO: last"]);
    let said: String = play
        .updates
        .iter()
        .filter_map(|update| match update {
            AgentUpdate::Said { text } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!([help, cost, "Compacted"].map(|text| said.matches(text).count()), [1, 1, 1], "{said}");
}

#[test]
fn a_message_that_is_taken_for_a_repetition_is_no_success() {
    let play = play("repeated");
    assert_eq!(states(&play), [(1, FinalState::Failed), (2, FinalState::Done)]);
    assert!(!play.updates.contains(&AgentUpdate::Began { turn: 1 }));
    assert_eq!(play.updates[..2], [AgentUpdate::Conversation { id: ID.into() }, AgentUpdate::Ready]);
}

#[test]
fn a_driver_that_knows_one_turn_only_finds_its_end_in_the_output() {
    for (name, _) in RECORDED {
        for (turn, end) in play(name).ends() {
            let first = lines(name)
                .iter()
                .position(|line| line.contains(&ClaudeDriver::new("talk").ids.message(turn)));
            // In versions that name nothing, a turn begins with the `init` before its echo.
            let first = first.filter(|_| !name.starts_with("old")).unwrap_or(0);
            for from in [0, first] {
                let updates = recover(name, turn, from);
                let found = ends(&updates);
                assert_eq!(found.get(&turn), Some(&end), "{name}, turn {turn}, from line {from}");
                assert_eq!(found.len(), 1, "{name}: nothing is said of other turns");
            }
        }
    }
}

#[test]
fn options_of_people_come_first_and_swallow_none_of_ours() {
    let driver = ClaudeDriver::new("talk");
    let line = |command: &[&str], begin: ConversationStart| {
        let command: Vec<String> = command.iter().map(|arg| (*arg).to_owned()).collect();
        driver.command_line(&command, &begin)
    };
    let new = line(&["claude", "--allowedTools", "Bash"], ConversationStart::New { id: Some(ID.into()) });
    assert_eq!(new[..4], ["claude", "--allowedTools", "Bash", "-p"]);
    assert_eq!(new[new.len() - 2..], ["--session-id", ID]);
    let resumed = line(&["claude"], ConversationStart::Resume { id: ID.into() });
    assert_eq!(resumed[resumed.len() - 2..], ["--resume", ID]);
    let forked =
        line(&["claude", "--", "x"], ConversationStart::Fork { of: ID.into(), id: Some("new".into()) });
    let last = ["--resume", ID, "--fork-session", "--session-id", "new", "--", "x"];
    assert_eq!(forked[forked.len() - 7..], last);
}

#[test]
fn sessions_of_ours_do_not_use_the_same_ids() {
    let message = |session: &str| {
        let mut out = DriverOutput::default();
        ClaudeDriver::new(session).prompt(1, "first", &mut out);
        serde_json::from_slice::<Value>(&out.bytes).unwrap()["uuid"].clone()
    };
    assert_ne!(message("one"), message("other"));
    assert_eq!(message("one"), message("one"));
}

#[test]
fn an_unknown_request_is_answered() {
    let (mut driver, mut out) = (ClaudeDriver::new("talk"), DriverOutput::default());
    let request = |id: String, request: Value| {
        json!({"type": "control_request", "request_id": id, "request": request}).to_string()
    };
    driver.hear(request("r1".into(), json!({"subtype": "unheard_of"})).as_bytes(), &mut out);
    let form = json!({"subtype": "elicitation", "mcp_server_name": "s", "message": "who?",
        "requested_schema": {"properties": {"name": {"type": "string"}}}});
    driver.hear(request("r2".into(), form).as_bytes(), &mut out);
    let written = String::from_utf8(std::mem::take(&mut out.bytes)).unwrap();
    assert!(
        written.contains(r#""subtype":"error""#) && written.contains(r#""action":"decline""#),
        "{written}"
    );
    for number in 0..=MOST_ASKS {
        let asked = json!({"subtype": "can_use_tool", "tool_name": "Bash", "input": {"command": "true"}});
        driver.hear(request(format!("ask-{number}"), asked).as_bytes(), &mut out);
    }
    assert_eq!(driver.questions.len(), MOST_ASKS);
    assert!(String::from_utf8(out.bytes).unwrap().contains(r#""behavior":"deny""#));
}

#[test]
fn garbage_is_remarked_upon_and_changes_nothing() {
    let clean = play("plain");
    let mut dirty = Vec::new();
    for line in lines("plain") {
        dirty.extend(["warning: something", line, "[]", "\"\"", "", r#"{"type":17}"#]);
    }
    let dirty = play_lines("plain", dirty);
    let remarks = |update: &&AgentUpdate| matches!(update, AgentUpdate::Remark { .. });
    assert_eq!(dirty.updates.iter().filter(remarks).count(), 21);
    let rest: Vec<&AgentUpdate> = dirty.updates.iter().filter(|update| !remarks(update)).collect();
    assert_eq!(rest, clean.updates.iter().collect::<Vec<_>>());
}

#[test]
fn the_context_is_what_the_last_request_read_and_wrote_and_falls_with_a_compaction() {
    let play = play("compacted");
    let used: Vec<_> = contexts(&play.updates).into_iter().map(|context| context.used).collect();
    // The answers to `/help` and `/cost`, which no model gave, change nothing.
    assert_eq!(used, [12_732, 12_772, 12_827, 3_186, 13_925].map(Some));
}

#[test]
fn the_context_of_a_helper_is_not_that_of_its_agent() {
    let used: Vec<_> = contexts(&play("helper").updates).into_iter().filter_map(|one| one.used).collect();
    assert!(!used.is_empty() && used.iter().all(|used| *used > 10_000), "{used:?}");
}

/// As 2.1.327 reports it. A sub-agent may use another model, with another window.
#[test]
fn the_window_is_that_of_the_model_in_use_and_forgotten_with_it() {
    let (mut driver, mut out) = (ClaudeDriver::new("talk"), DriverOutput::default());
    let mut hear = |line: Value| driver.hear(line.to_string().as_bytes(), &mut out);
    let init = |model: &str| json!({"type": "system", "subtype": "init", "session_id": ID, "model": model});
    let said = |read: u64, cached: u64, of: Option<&str>| {
        let usage = json!({"input_tokens": read, "cache_read_input_tokens": cached, "output_tokens": 5});
        json!({"type": "assistant", "parent_tool_use_id": of, "message": {"id": "m", "content": [], "usage": usage}})
    };
    let windows = json!({"small": {"contextWindow": 200_000}, "large": {"contextWindow": 1_000_000}});
    let result = json!({"type": "result", "result": "", "modelUsage": windows});
    hear(init("large"));
    hear(said(100, 1000, None));
    hear(said(7, 0, Some("toolu")));
    hear(result.clone());
    hear(result);
    hear(init("small"));
    hear(said(200, 1000, None));
    hear(json!({"type": "result", "result": "", "modelUsage": {"small": {"contextWindow": 200_000}}}));
    hear(json!({"type": "system", "subtype": "compact_boundary", "compact_metadata": {"trigger": "auto"}}));
    let told: Vec<_> =
        contexts(&out.updates).into_iter().map(|context| (context.used, context.window)).collect();
    let expected = [
        (Some(1105), None),
        (Some(1105), Some(1_000_000)),
        (Some(1205), None),
        (Some(1205), Some(200_000)),
        (None, Some(200_000)),
    ];
    assert_eq!(told, expected, "each once, and nothing where the agent does not say it");
}

#[test]
fn another_conversation_begins_without_the_context_of_the_one_before() {
    let (mut driver, mut out) = (ClaudeDriver::new("talk"), DriverOutput::default());
    let mut hear = |line: Value| driver.hear(line.to_string().as_bytes(), &mut out);
    let init = |id: &str| json!({"type": "system", "subtype": "init", "session_id": id, "model": "m"});
    let usage = json!({"input_tokens": 10, "output_tokens": 5});
    let result = json!({"type": "result", "result": "", "modelUsage": {"m": {"contextWindow": 100}}});
    hear(init(ID));
    hear(json!({"type": "assistant", "message": {"id": "m", "content": [], "usage": usage}}));
    hear(init("another"));
    hear(result);
    assert_eq!(contexts(&out.updates), [ContextUsage { used: Some(15), window: None }]);
}
