//! Fates of turns in transcripts that real agents wrote: Claude Code 2.1.325 and Codex 0.166.0, against a model server
//! whose answers are `ECHO: <prompt>`. Shortened to the relevant records and their neighbours.

use berth_transcript::{GivenPrompt, TurnFate};

use crate::common::{done, fate_in, real, word};

fn claude(name: &str, text: &str) -> TurnFate {
    fate_in("claude", &real("claude", name), &GivenPrompt::new(text))
}

fn codex(name: &str, text: &str) -> TurnFate {
    fate_in("codex", &real("codex", name), &GivenPrompt::new(text))
}

#[track_caller]
fn is(fate: &TurnFate, variant: &str, why: &str) {
    let (is, said) = word(fate);
    assert!(is == variant && said.contains(why), "expected {variant} ({why}), got {fate:?}");
}

/// The lines of a transcript, and the index of the first one that contains this text.
fn line_with<'a>(whole: &'a [u8], what: &str) -> (Vec<&'a [u8]>, usize) {
    let lines: Vec<&[u8]> = whole.split_inclusive(|byte| *byte == b'\n').collect();
    let has = |line: &&[u8]| String::from_utf8_lossy(line).contains(what);
    let first = lines.iter().position(has).expect("the line is there");
    (lines, first)
}

#[test]
fn claude_finished_each_of_these_turns() {
    for number in ["first", "second", "third"] {
        let answer = done(&format!("ECHO: {number} words"));
        assert_eq!(claude("finished", &format!("{number} words")), answer);
    }
    assert_eq!(claude("tool", "THINK TOOL echo hi"), done("TOOLDONE hi"));
    assert_eq!(claude("blocks", "block words"), done("ECHO: block words"));
    assert_eq!(claude("odd-words", "a\r\nb\tc"), done("ECHO: a\r\nb\tc"));
    assert_eq!(claude("resumed-after-kill", "after the kill"), done("ECHO: after the kill"));
    assert_eq!(claude("compacted", "first"), done("ECHO: first"));
    assert_eq!(claude("compacted", "after compact"), done("ECHO: after compact"));
    assert_eq!(claude("api-error", "and on"), done("ECHO: and on"));
}

#[test]
fn claude_was_killed_before_the_end_of_these() {
    is(&claude("killed-in-text", "HOLD a1"), "unfinished", "no answer");
    let in_tool = "TOOL while true; do sleep 0.2; done";
    is(&claude("killed-in-tool", in_tool), "unfinished", "tool call without a result");
    // A resume makes up a result for the tool and an answer. Neither is one.
    is(&claude("resumed-after-kill", in_tool), "unfinished", "");
    let in_tool = "TOOL while true; do sleep 0.1; done";
    is(&claude("terminated-in-tool", in_tool), "unfinished", "tool call");
}

#[test]
fn claude_was_interrupted_in_these() {
    is(&claude("interrupted-in-text", "HOLD a2"), "unfinished", "interrupted");
    is(&claude("interrupted-in-tool", "TOOL while true; do sleep 0.1; done"), "unfinished", "interrupted");
}

#[test]
fn claude_could_not_ask_the_model_in_these() {
    is(&claude("api-error", "ERROR 529"), "rejected", "API Error: 529");
    is(&claude("connection-cut", "CUT"), "rejected", "API Error: Connection dropped");
}

#[test]
fn a_background_task_that_comes_back_later_is_another_turn() {
    let prompt = r#"CALL Bash {"command":"sleep 1; echo bg","run_in_background":true,"description":"x"}"#;
    let TurnFate::Done { answer, .. } = claude("background", prompt) else { panic!("not done") };
    assert!(answer.starts_with("TOOLDONE Command running in background"), "{answer}");
    // Even if the agent is killed in the middle of that.
    let whole = real("claude", "background");
    let (lines, notified) = line_with(&whole, r#""origin":{"kind":"task-notification""#);
    let until = lines[..=notified].concat();
    assert_eq!(word(&fate_in("claude", &until, &GivenPrompt::new(prompt))).0, "done");
}

#[test]
fn a_sub_agent_answers_to_its_agent_and_not_to_us() {
    let prompt = r#"CALL Agent {"description":"x","prompt":"inner words","subagent_type":"general-purpose"}"#;
    let TurnFate::Done { answer, .. } = claude("sub-agent", prompt) else { panic!("not done") };
    assert!(answer.starts_with("TOOLDONE Async agent launched"), "{answer}");
    is(&claude("sub-agent", "inner words"), "unfinished", "does not have the prompt");
}

#[test]
fn words_that_were_taken_into_a_running_turn_share_its_end() {
    assert_eq!(claude("steered", "steered text"), done("TOOLDONE hi"));
    let by_id =
        GivenPrompt { id: Some("b7964b17-cadc-4ffd-8a49-2e9db11d60fc"), ..GivenPrompt::new("steered text") };
    assert_eq!(fate_in("claude", &real("claude", "steered"), &by_id), done("TOOLDONE hi"));
    assert_eq!(codex("steered", "HOLD b4"), done("ECHO: steered text"));
    assert_eq!(codex("steered", "steered text"), done("ECHO: steered text"));
}

#[test]
fn words_that_waited_and_were_merged_share_one_answer() {
    let answer = done("ECHO: queued-1\nqueued-2");
    assert_eq!(claude("merged", "queued-1"), answer);
    assert_eq!(claude("merged", "queued-2"), answer);
    let second =
        GivenPrompt { id: Some("4551a643-a97c-4cb3-9d78-865438b0df9d"), ..GivenPrompt::new("queued-2") };
    assert_eq!(fate_in("claude", &real("claude", "merged"), &second), answer);
    is(&claude("merged", "queued"), "unfinished", "does not have the prompt");
}

#[test]
fn a_hook_that_makes_the_agent_go_on_takes_the_end_away() {
    let whole = real("claude", "hook");
    let TurnFate::Done { answer, .. } = claude("hook", "stop hook words") else { panic!("not done") };
    assert!(answer.starts_with("ECHO: Stop hook feedback:"), "{answer}");
    let asked = GivenPrompt::new("stop hook words");
    let (lines, said) = line_with(&whole, "Stop hook feedback:");
    assert_eq!(fate_in("claude", &lines[..said].concat(), &asked), done("ECHO: stop hook words"));
    is(&fate_in("claude", &lines[..=said].concat(), &asked), "unfinished", "a hook");
}

#[test]
fn two_writers_of_one_transcript_are_told_apart() {
    // B resumed while A was answering, and was done first; both have their own answer.
    assert_eq!(claude("two-writers", "B words"), done("ECHO: B words"));
    let TurnFate::Done { answer, .. } = claude("two-writers", "A words\nSLOW 60") else { panic!("not done") };
    assert!(answer.starts_with("tick 1 tick 2"), "{answer}");
}

#[test]
fn commands_to_the_agent_itself_are_known_by_their_id() {
    let mine =
        GivenPrompt { id: Some("370a3414-29ac-4798-b14d-9c7f36cd9472"), ..GivenPrompt::new("/mine hello") };
    assert_eq!(fate_in("claude", &real("claude", "commands"), &mine), done("ECHO: Say hello"));
    is(&claude("commands", "/mine hello"), "cannot tell", "command to the agent itself");
    assert_eq!(claude("commands", "/help"), done("/help isn't available in this environment."));
    let compact =
        GivenPrompt { id: Some("3b3a9653-7f99-4d20-a420-a72874c3d6a5"), ..GivenPrompt::new("/compact") };
    assert_eq!(fate_in("claude", &real("claude", "compacted"), &compact), done("Compacted "));
    is(&claude("cleared", "/clear"), "cannot tell", "command to the agent itself");
}

#[test]
fn codex_finished_each_of_these_turns() {
    for number in ["first", "second", "third"] {
        let answer = done(&format!("ECHO: {number} words"));
        assert_eq!(codex("finished", &format!("{number} words")), answer);
    }
    assert_eq!(codex("tool", "THINK TOOL echo hi"), done("TOOLDONE hi"));
    assert_eq!(codex("exec", "exec words"), done("ECHO: exec words"));
    assert_eq!(codex("resumed-after-kill", "after the kill"), done("ECHO: after the kill"));
    assert_eq!(codex("api-error", "and on"), done("ECHO: and on"));
    for (words, answer) in
        [("  lead and trail \n", "lead and trail"), ("a\r\nb\tc", "a\r\nb\tc"), ("/help", "/help")]
    {
        assert_eq!(codex("odd-words", words), done(&format!("ECHO: {answer}")));
    }
}

#[test]
fn codex_did_not_come_to_the_end_of_these() {
    for (name, prompt) in [
        ("killed-in-text", "HOLD b1"),
        ("killed-in-tool", "TOOL while true; do sleep 0.2; done"),
        ("resumed-after-kill", "TOOL while true; do sleep 0.2; done"),
        ("exec-terminated", "HOLD b5"),
    ] {
        is(&codex(name, prompt), "unfinished", "no end of the turn");
    }
    is(&codex("interrupted", "HOLD b2"), "unfinished", "aborted: interrupted");
    is(&codex("input-closed", "HOLD b3"), "unfinished", "aborted: interrupted");
}

#[test]
fn codex_could_not_ask_the_model_in_these() {
    is(&codex("api-error", "ERROR 401"), "rejected", "401 Unauthorized");
    is(&codex("connection-cut", "CUT"), "rejected", "stream disconnected");
}

#[test]
fn a_prompt_that_is_not_in_the_transcript_was_not_finished() {
    for (kind, name) in [("claude", "finished"), ("codex", "finished")] {
        let asked = GivenPrompt::new("fourth words");
        is(&fate_in(kind, &real(kind, name), &asked), "unfinished", "does not have the prompt");
    }
}

#[test]
fn the_id_of_a_prompt_outdoes_its_words() {
    for (kind, id) in [("claude", "76c7ec83-216b-4ea7-b694-1d6f391e0be2"), ("codex", "turn-2")] {
        let bytes = real(kind, "finished");
        let ours = GivenPrompt { id: Some(id), ..GivenPrompt::new("second words") };
        assert_eq!(fate_in(kind, &bytes, &ours), done("ECHO: second words"));
        // Equal words again, from another writer.
        let text = String::from_utf8(bytes.clone()).unwrap();
        let again = text.replace(id, "another").replace("second words", "third words");
        let third = GivenPrompt { id: Some(id), ..GivenPrompt::new("third words") };
        is(&fate_in(kind, again.as_bytes(), &third), "cannot tell", "under another id");
        // Equal words later, from another writer: those are not ours.
        let later = text.replace("\"third words\"", "\"second words\"");
        assert_eq!(
            fate_in(kind, later.as_bytes(), &GivenPrompt::new("second words")),
            done("ECHO: third words")
        );
        assert_eq!(fate_in(kind, later.as_bytes(), &ours), done("ECHO: second words"));
        // Our id, and other words: it was given by another session.
        let other = GivenPrompt { id: Some(id), ..GivenPrompt::new("other words") };
        is(&fate_in(kind, &bytes, &other), "unfinished", "does not have the prompt");
    }
}

#[test]
fn the_same_words_from_before_are_not_taken_for_the_prompt() {
    for kind in ["claude", "codex"] {
        let bytes = real(kind, "finished");
        // The files were written on 2026-11-16 before 09:10.
        let later = Some(1_794_819_455_614 + 3_600_000);
        let words = GivenPrompt { given_at_ms: later, ..GivenPrompt::new("third words") };
        is(&fate_in(kind, &bytes, &words), "cannot tell", "from before the prompt was sent");
        let with_id = GivenPrompt { id: Some("ours"), ..words };
        is(&fate_in(kind, &bytes, &with_id), "unfinished", "does not have the prompt");
        let then = GivenPrompt { given_at_ms: Some(1_794_819_000_000), ..GivenPrompt::new("third words") };
        assert_eq!(fate_in(kind, &bytes, &then), done("ECHO: third words"));
    }
}

#[test]
fn after_a_power_cut_only_an_end_that_is_there_counts() {
    for (kind, prompt) in [("claude", "HOLD a1"), ("codex", "HOLD b1")] {
        let lost = GivenPrompt { same_boot: false, ..GivenPrompt::new(prompt) };
        is(&fate_in(kind, &real(kind, "killed-in-text"), &lost), "cannot tell", "with the machine");
        let missing = GivenPrompt { same_boot: false, ..GivenPrompt::new("fourth words") };
        is(&fate_in(kind, &real(kind, "finished"), &missing), "cannot tell", "with the machine");
        let there = GivenPrompt { same_boot: false, ..GivenPrompt::new("third words") };
        assert_eq!(fate_in(kind, &real(kind, "finished"), &there), done("ECHO: third words"));
    }
    let interrupted = GivenPrompt { same_boot: false, ..GivenPrompt::new("HOLD a2") };
    is(&fate_in("claude", &real("claude", "interrupted-in-text"), &interrupted), "unfinished", "interrupted");
}

#[test]
fn an_answer_that_ended_early_may_have_gone_on() {
    let text = String::from_utf8(real("claude", "finished")).unwrap();
    let with =
        |reason: &str| text.replace("\"stop_reason\":\"end_turn\"", &format!("\"stop_reason\":{reason}"));
    let fate = |reason: &str| fate_in("claude", with(reason).as_bytes(), &GivenPrompt::new("third words"));
    assert_eq!(fate("\"end_turn\""), done("ECHO: third words"));
    assert_eq!(fate("\"stop_sequence\""), done("ECHO: third words"));
    is(&fate("\"max_tokens\""), "cannot tell", "max_tokens");
    is(&fate("\"pause_turn\""), "cannot tell", "pause_turn");
    is(&fate("\"something new\""), "cannot tell", "something new");
    is(&fate("null"), "cannot tell", "no end");
    is(&fate("\"refusal\""), "failed", "refused to answer: ECHO: third words");
}

/// More of a transcript than is read for one turn.
fn padding() -> Vec<u8> {
    let record = format!("{{\"type\":\"mode\",\"text\":\"{}\"}}\n", "x".repeat(1 << 20));
    record.repeat(70).into_bytes()
}

#[test]
fn a_turn_at_the_end_of_a_large_transcript_is_found_and_one_far_before_it_cannot_be_told() {
    let prompt = "first words";
    for kind in ["claude", "codex"] {
        let turn = real(kind, "finished");
        let at_the_end = [padding(), turn.clone()].concat();
        assert_eq!(
            fate_in(kind, &at_the_end, &GivenPrompt::new(prompt)),
            done("ECHO: first words"),
            "{kind}"
        );
        let far_before = [turn, padding()].concat();
        is(&fate_in(kind, &far_before, &GivenPrompt::new(prompt)), "cannot tell", "64 MiB");
    }
}

#[test]
fn a_transcript_that_was_made_huge_cannot_be_told() {
    let home = crate::common::TranscriptTestHome::new();
    let path = home.write("claude", &real("claude", "finished"));
    std::fs::File::options().write(true).open(path).unwrap().set_len(20 << 30).unwrap();
    is(&home.fate("claude", &GivenPrompt::new("first words")), "cannot tell", "");
}
