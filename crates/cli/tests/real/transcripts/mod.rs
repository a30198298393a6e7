//! Transcripts that the real agents wrote and a test broke: found, mended, and taken up again by the agents themselves.
//!
//! Promise: the tests judge by the messages that the model is given after the copy was resumed. The original is
//! compared byte for byte.
//! Not here: findings in made transcripts (the tests of `berth-transcript`).
//! Start with [`RealTranscriptFixture`].

use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use berth_harness::{ParsedTranscript, RealAgentFixture, TranscriptAgent, said};
use serde_json::Value;

const ID: &str = "0f0e0d0c-1111-4222-8333-444455556666";

/// Real agents, and commands for the transcripts they write.
struct RealTranscriptFixture {
    base: RealAgentFixture,
}

impl Deref for RealTranscriptFixture {
    type Target = RealAgentFixture;

    fn deref(&self) -> &RealAgentFixture {
        &self.base
    }
}

impl RealTranscriptFixture {
    fn new() -> Self {
        let base = RealAgentFixture::new(env!("CARGO_BIN_EXE_berth"));
        base.agents.set_codex_policy("never", "danger-full-access");
        Self { base }
    }

    /// The findings in a file, which is not clean.
    fn broken(&self, path: &Path) -> Vec<String> {
        let told = self.berth(&["transcript", "check", "--json", path.to_str().expect("UTF-8")]);
        assert_eq!(told.code, 12, "{told:?}");
        let report: Value = serde_json::from_str(&told.out).expect("JSON");
        let findings = report[0]["findings"].as_array().expect("findings");
        findings.iter().map(|one| one["what"].as_str().expect("a word").to_owned()).collect()
    }

    /// A copy with an id of its own beside the original, which stays as it was. The id, and where it is.
    fn mended(&self, path: &Path, more: &[&str]) -> (String, PathBuf) {
        let before = (fs::read(path).expect("the original"), modified(path));
        let dir = path.parent().expect("a directory").to_str().expect("UTF-8");
        let mut args =
            vec!["transcript", "repair", path.to_str().expect("UTF-8"), "--new-id", "--json", "--to", dir];
        args.extend(more);
        let told = self.berth(&args);
        assert_eq!(told.code, 0, "{told:?}");
        assert!(
            before == (fs::read(path).expect("the original"), modified(path)),
            "the original was changed"
        );
        let made: Value = serde_json::from_str(&told.out).expect("JSON");
        let copy = PathBuf::from(made["copy"].as_str().expect("a path"));
        let checked = self.berth(&["transcript", "check", copy.to_str().expect("UTF-8")]);
        assert_eq!(checked.code, 0, "{checked:?}");
        (made["conversation_id"].as_str().expect("an id").to_owned(), copy)
    }

    fn claude(&self, args: &[&str], prompt: &str) -> Command {
        let all = [&["-p", "--allowedTools", "Bash"], args, &["--", prompt]].concat();
        let mut command = self.agents.command("claude", all);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn codex(&self, args: &[&str], prompt: &str) {
        let all = [&["exec"], args, &["--json", "--skip-git-repo-check", prompt]].concat();
        let told = said(self.agents.command("codex", all).output().expect("codex can be started"));
        assert_eq!(told.code, 0, "{told:?}");
    }

    /// The messages of user and agent, as the model was given them last.
    fn told_model(&self) -> Vec<String> {
        let turns = self.agents.model().turns();
        turns.last().expect("asked").texts.iter().map(|text| text.text.clone()).collect()
    }
}

fn modified(path: &Path) -> std::time::SystemTime {
    fs::metadata(path).and_then(|file| file.modified()).expect("a time")
}

#[track_caller]
fn runs(mut command: Command) -> String {
    let told = said(command.output().expect("it can be started"));
    assert_eq!(told.code, 0, "{told:?}");
    told.out
}

/// One conversation of Claude Code's: where it is.
fn one(world: &RealTranscriptFixture) -> PathBuf {
    let mut all = world.agents.claude_transcripts();
    assert_eq!(all.len(), 1);
    all.remove(0).path
}

/// Cuts a file before the line that has this.
fn cut_before(path: &Path, what: &str) {
    let text = fs::read_to_string(path).expect("a transcript");
    let at = text.rfind(what).unwrap_or_else(|| panic!("no {what}"));
    let start = text[..at].rfind('\n').map_or(0, |at| at + 1);
    fs::write(path, &text[..start]).expect("a transcript");
}

fn append(path: &Path, bytes: &[u8]) {
    let before = fs::read(path).expect("a transcript");
    fs::write(path, [&before[..], bytes].concat()).expect("a transcript");
}

/// The fork of AGENTS.md: a second resume while the first one still works.
fn forked(world: &RealTranscriptFixture) -> PathBuf {
    runs(world.claude(&["--session-id", ID], "base words"));
    let first = world.claude(&["--resume", ID], "HOLD first").spawn().expect("claude can be started");
    world.agents.model().arrived("first");
    runs(world.claude(&["--resume", ID], "second words"));
    world.agents.model().release("first");
    let first = said(first.wait_with_output().expect("our own child"));
    assert_eq!(first.code, 0, "{first:?}");
    one(world)
}

#[test]
fn both_turns_of_a_forked_conversation_are_there_after_a_resume_of_the_copy() {
    let world = RealTranscriptFixture::new();
    let path = forked(&world);
    assert_eq!(world.broken(&path), ["fork"]);
    // Without a repair one of the two branches is gone: the repair brings it back.
    let (id, copy) = world.mended(&path, &[]);
    assert_eq!(ParsedTranscript::read(TranscriptAgent::Claude, &copy).no_fork(), Ok(()));
    runs(world.claude(&["--resume", &id], "and now"));
    let said = world.told_model();
    let expected = [
        "base words",
        "ECHO: base words",
        "HOLD first",
        "held ECHO: HOLD first",
        "second words",
        "ECHO: second words",
        "and now",
    ];
    assert_eq!(said, expected);
    assert_eq!(ParsedTranscript::read(TranscriptAgent::Claude, &copy).no_fork(), Ok(()));
}

#[test]
fn a_branch_that_was_not_chosen_is_a_conversation_of_its_own() {
    let world = RealTranscriptFixture::new();
    let path = forked(&world);
    let dir = path.parent().expect("a directory").to_str().expect("UTF-8");
    let args =
        ["transcript", "repair", path.to_str().expect("UTF-8"), "--new-id", "--keep", "newest", "--beside"];
    let told = world.berth(&[&args[..], &["--json", "--to", dir]].concat());
    assert_eq!(told.code, 0, "{told:?}");
    let made: Value = serde_json::from_str(&told.out).expect("JSON");
    runs(world.claude(&["--resume", made["conversation_id"].as_str().expect("an id")], "chosen"));
    assert_eq!(
        world.told_model(),
        ["base words", "ECHO: base words", "HOLD first", "held ECHO: HOLD first", "chosen"]
    );
    let other = PathBuf::from(made["beside"][0].as_str().expect("a path"));
    let other = other.file_stem().and_then(|stem| stem.to_str()).expect("an id");
    runs(world.claude(&["--resume", other], "the other"));
    let said = world.told_model();
    assert_eq!(said[said.len() - 3..], ["second words", "ECHO: second words", "the other"]);
}

#[test]
fn a_branch_that_was_chosen_is_gone_on_with_also_if_something_else_was_written_last() {
    let world = RealTranscriptFixture::new();
    let path = forked(&world);
    // A note that hangs on the first prompt, behind everything: an agent would begin there.
    let text = fs::read_to_string(&path).expect("a transcript");
    let records = || text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let first = records().find(|record| record["type"] == "user").expect("a prompt");
    let mut note = records().find(|record| record["type"] == "attachment").expect("a note");
    note["parentUuid"] = first["uuid"].clone();
    note["uuid"] = "0f0e0d0c-9999-4222-8333-444455556666".into();
    append(&path, format!("{note}\n").as_bytes());
    let (id, _) = world.mended(&path, &["--keep", "newest"]);
    runs(world.claude(&["--resume", &id], "chosen"));
    assert_eq!(
        world.told_model(),
        ["base words", "ECHO: base words", "HOLD first", "held ECHO: HOLD first", "chosen"]
    );
}

#[test]
fn a_torn_end_and_records_that_ran_together_are_mended() {
    let world = RealTranscriptFixture::new();
    runs(world.claude(&["--session-id", ID], "first words"));
    runs(world.claude(&["--resume", ID], "second words"));
    let path = one(&world);
    // Two records on one line: the agent would lose both.
    let text = fs::read_to_string(&path).expect("a transcript");
    let at = text.rfind("\"type\":\"assistant\"").expect("an answer");
    let start = text[..at].rfind('\n').expect("a line");
    fs::write(&path, [&text[..start], &text[start + 1..]].concat()).expect("a transcript");
    append(&path, b"{\"parentUuid\":\"torn\",\"type\":\"assis");
    assert_eq!(world.broken(&path), ["fused-records", "torn-line"]);
    let (id, copy) = world.mended(&path, &[]);
    let mut rest = copy.into_os_string();
    rest.push(".rest");
    assert_eq!(
        fs::read(rest).expect("the part that was set aside"),
        b"{\"parentUuid\":\"torn\",\"type\":\"assis\n"
    );
    runs(world.claude(&["--resume", &id], "third words"));
    let expected = ["first words", "ECHO: first words", "second words", "ECHO: second words", "third words"];
    assert_eq!(world.told_model(), expected);
}

#[test]
fn a_call_without_a_result_is_mended_as_the_agent_would() {
    let world = RealTranscriptFixture::new();
    runs(world.claude(&["--session-id", ID], "TOOL echo hi"));
    let path = one(&world);
    cut_before(&path, "\"tool_result\"");
    assert_eq!(world.broken(&path), ["call-without-result"]);
    let (id, _) = world.mended(&path, &[]);
    runs(world.claude(&["--resume", &id], "what happened?"));
    let turns = world.agents.model().turns();
    let last = turns.last().expect("asked");
    assert_eq!(last.calls.len(), 1);
    assert_eq!(last.results.len(), 1, "{:?}", last.results);
    assert!(last.results[0].text.starts_with("[Tool call interrupted"), "{:?}", last.results);
    assert_eq!(last.prompt(), "what happened?");
}

#[test]
fn a_rollout_that_is_torn_and_has_an_open_call_is_mended() {
    let world = RealTranscriptFixture::new();
    world.codex(&[], "first words");
    let path = world.agents.codex_transcripts().remove(0).path;
    let thread = world.agents.codex_transcripts().remove(0).id;
    world.codex(&["resume", &thread], "TOOL echo hi");
    cut_before(&path, "function_call_output");
    append(&path, b"{\"timestamp\":\"2026-11-16T18:00:00.000Z\",\"type\":\"resp");
    assert_eq!(world.broken(&path), ["call-without-result", "torn-line"]);
    let (id, _) = world.mended(&path, &[]);
    world.codex(&["resume", &id], "what happened?");
    let turns = world.agents.model().turns();
    let last = turns.last().expect("asked");
    assert_eq!((last.calls.len(), last.results.len()), (1, 1), "{last:?}");
    assert!(last.results[0].text.contains("aborted"), "{:?}", last.results);
    let said = last.user_texts();
    assert_eq!(said[said.len() - 3..], ["first words", "TOOL echo hi", "what happened?"]);
}

#[test]
fn b2_a_search_of_real_records_finds_each_thing_once() {
    let world = RealTranscriptFixture::new();
    runs(world.claude(&["--session-id", ID], "needle TOOL echo needle-tool"));
    world.codex(&[], "needle TOOL echo needle-tool");
    let imported = world.berth(&["import", "--all"]);
    assert_eq!(imported.code, 0, "{imported:?}");
    // The prompt, the call, its result and the answer.
    let counts = world.berth(&["grep", "-c", "needle"]);
    let counts: Vec<&str> = counts.out.lines().filter_map(|line| line.rsplit(':').next()).collect();
    assert_eq!(counts, ["4", "4"], "{}", world.berth(&["grep", "needle"]).out);
    for own in ["You are Codex", "Claude Agent SDK", "<environment_context>", "Primary working directory"] {
        let found = world.berth(&["grep", "-F", own]);
        assert_eq!((found.code, found.out.as_str()), (1, ""), "{own}");
    }
}
