//! `berth grep`: its matches, their places, and the bytes that are not printed.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::Value;

use crate::find::{hurt, lab, said, talked, with_record};

#[test]
fn g5_words_are_found_in_prompts_answers_tools_and_on_terminals() {
    let lab = lab();
    said(&lab, "term", &["say:plain hel\\e[1mlo\\e[0m wor\\e[31mld\\n"]);
    talked(&lab, "bot", &["say hello world to \"them\"", "tool:Bash:make-world"]);
    let found = lab.ok(["grep", "hello world"]);
    let expected = [
        "bot.1:prompt:say hello world to \"them\"",
        "bot.1:answer:ECHO: say hello world to \"them\"",
        "term:0:plain hello world",
    ];
    assert_eq!(found.lines().collect::<Vec<_>>(), expected, "newest first, once each");
    let tools = lab.ok(["grep", "make-world", "bot"]);
    assert!(tools.lines().any(|line| line.starts_with("bot.2:") && !line.contains(":prompt:")), "{tools}");
    // The prefix of a match works as the argument of the next command.
    assert!(lab.ok(["turn", "bot.1"]).contains("hello world"));
    assert!(lab.ok(["output", "term", "--from", "0"]).contains("plain hel"));
}

#[test]
fn escapes_of_json_neither_hide_nor_make_a_match() {
    let lab = lab();
    talked(&lab, "bot", &["a \"quoted\" wörd\tand C:\\new things"]);
    for pattern in ["a \"quoted\" wörd", "C:\\new"] {
        assert_eq!(lab.berth(["grep", "-F", pattern]).code, 0, "{pattern}");
    }
    for pattern in ["\\\"quoted", "\\t", "C:\\\\new", "jsonrpc", "sessionUpdate"] {
        assert_eq!(lab.berth(["grep", "-F", pattern]).code, 1, "{pattern} is not in the text");
    }
}

#[test]
fn matches_contain_no_terminal_control_bytes() {
    let lab = lab();
    said(&lab, "term", &["say:\\e]0;evil\\x07needle\\e[2J\\x9b2J\\e[31m red\\n"]);
    talked(&lab, "bot", &["sh:printf '\\033[2Jneedle\\007'"]);
    for args in [&["grep", "needle"][..], &["grep", "--json", "needle"], &["grep", "-C", "3", "needle"]] {
        let out = lab.command(args).output().expect("berth can be started");
        assert_eq!(out.status.code(), Some(0), "{args:?}");
        assert!(!out.stdout.iter().any(|byte| *byte < 0x20 && *byte != b'\n'), "{args:?}: {out:?}");
        assert!(!out.stdout.contains(&0x9b), "{args:?}: {out:?}");
    }
    assert!(lab.ok(["grep", "evil|needle", "term"]).contains("needle"));
    assert_eq!(lab.berth(["grep", "evil", "term"]).code, 1, "a title is not part of the text");
}

#[test]
fn on_a_terminal_sessions_have_headings_and_matches_have_colours() {
    let lab = lab();
    said(&lab, "term", &["say:one needle\\ntwo\\n"]);
    let mut terminal = lab.terminal(["grep", "needle"]);
    terminal.wait_for_raw(b"\x1b[1;35mterm\x1b[0m");
    terminal.wait_for_raw(b"\x1b[32m0\x1b[0m:one \x1b[1;31mneedle\x1b[0m");
    assert_eq!(terminal.wait_exit(), 0);
}

#[test]
fn flags_work_as_in_ripgrep() {
    let lab = lab();
    let lines = "say:Alpha\\nalphabet\\nbeta\\n-dash a.b\\naxb\\nlast alpha\\n";
    said(&lab, "term", &[lines]);
    said(&lab, "other", &["say:beta\\n"]);
    let texts = |args: &[&str]| -> Vec<String> {
        let out = lab.ok([&["grep"], args].concat());
        out.lines().map(|line| line.rsplit([':', '-']).next().unwrap_or_default().to_owned()).collect()
    };
    assert_eq!(texts(&["alpha", "term"]), ["alphabet", "last alpha"]);
    assert_eq!(texts(&["-i", "ALPHA", "term"]), ["Alpha", "alphabet", "last alpha"]);
    assert_eq!(texts(&["-w", "alpha", "term"]), ["last alpha"]);
    assert_eq!(texts(&["-F", "a.b", "term"]), ["dash a.b"]);
    assert_eq!(texts(&["-n", "a.b", "term"]), ["dash a.b", "axb"]);
    assert_eq!(texts(&["-m", "1", "a.b", "term"]), ["dash a.b"]);
    assert_eq!(texts(&["-e", "-dash", "-e", "axb", "term"]), ["dash a.b", "axb"]);
    assert_eq!(texts(&["-A", "1", "^beta", "term"]), ["beta", "dash a.b"]);
    assert_eq!(texts(&["-B", "1", "^beta", "term"]), ["alphabet", "beta"]);
    assert_eq!(texts(&["-C", "1", "^beta$", "term"]), ["alphabet", "beta", "dash a.b"]);
    assert_eq!(lab.ok(["grep", "-c", "a"]), "other:1\nterm:6");
    assert_eq!(lab.ok(["grep", "-l", "beta"]), "other\nterm");
    assert_eq!(lab.ok(["grep", "-l", "axb"]), "term");
    assert_eq!(lab.ok(["grep", "-c", "beta", "--state", "stopped"]), "other:1\nterm:1");
    assert_eq!(lab.berth(["grep", "beta", "--state", "running"]).code, 1);
    assert_eq!(lab.ok(["grep", "-l", "beta", "--state", "running,stopped"]), "other\nterm");
    lab.ok(["tag", "other", "nightly"]);
    assert_eq!(lab.ok(["grep", "-l", "beta", "--tag", "nightly"]), "other");
    assert_eq!(lab.ok(["grep", "-l", "beta", "--name", "t*m"]), "term");
    assert_eq!(lab.berth(["grep", "beta", "--cwd", "/proc"]).code, 1);
    let bogus = lab.berth(["grep", "beta", "--state", "bogus"]);
    assert_eq!(bogus.code, 2, "{bogus:?}");
    assert!(bogus.err.contains("needs-you"), "the states there are: {bogus:?}");
    assert_eq!(lab.berth(["grep", "beta", "--agent", "claude"]).code, 1);
    let elsewhere = lab.command(["grep", "beta", "--here"]).current_dir("/proc").output().expect("it starts");
    assert_eq!(elsewhere.status.code(), Some(1));
    assert_eq!(lab.ok(["grep", "-l", "beta", "--here"]), "other\nterm");
}

#[test]
fn one_session_is_searched_if_the_flag_names_it_and_all_if_it_is_only_current() {
    let lab = lab();
    for name in ["one", "other"] {
        said(&lab, name, &["say:needle\\n"]);
    }
    for args in [
        &["grep", "-l", "needle", "--session", "one"][..],
        &["--session", "one", "grep", "-l", "needle"],
        &["grep", "-l", "-e", "needle", "--session", "one"],
    ] {
        assert_eq!(lab.ok(args), "one", "{args:?}");
    }
    let current =
        lab.command(["grep", "-l", "needle"]).env("BERTH_SESSION", "one").output().expect("it runs");
    assert_eq!(String::from_utf8_lossy(&current.stdout), "other\none\n");
    let at =
        lab.command(["grep", "-l", "needle", "@"]).env("BERTH_SESSION", "one").output().expect("it runs");
    assert_eq!(String::from_utf8_lossy(&at.stdout), "one\n");
    let both = lab.berth(["grep", "needle", "other", "--session", "one"]);
    assert_eq!(both.code, 2, "{both:?}");
    assert!(both.err.contains("both name a session"), "{both:?}");
    assert_eq!(lab.berth(["grep", "needle", "--session", "nobody"]).code, 3);
}

#[test]
fn json_says_where_when_and_what_matches() {
    let lab = lab();
    let term = said(&lab, "term", &["say:first\\nwörd and wörd\\n"]);
    let bot = talked(&lab, "bot", &["a wörd"]);
    let out = lab.ok(["grep", "--json", "wörd"]);
    let lines: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let prompt = lines.iter().find(|line| line["part"] == "prompt").expect("the prompt");
    assert_eq!((&prompt["turn"], &prompt["name"]), (&Value::from(format!("{bot}.1")), &Value::from("bot")));
    let output = lines.iter().find(|line| line["part"] == "output").expect("the output");
    assert_eq!((&output["session"], &output["line"]), (&Value::from(term), &Value::from("wörd and wörd")));
    assert_eq!(output["offset"], 7, "behind `first` and the terminal's CR LF");
    let (line, spans) = (output["line"].as_str().unwrap(), output["matches"].as_array().unwrap());
    assert_eq!(spans.len(), 2);
    for span in spans {
        let (start, end) = (span["start"].as_u64().unwrap() as usize, span["end"].as_u64().unwrap() as usize);
        assert_eq!((&line[start..end], &span["text"]), ("wörd", &Value::from("wörd")));
    }
    for line in &lines {
        assert!(line["at"].as_str().is_some_and(|at| at.ends_with('Z')), "{line}");
    }
}

#[test]
fn a_bad_pattern_is_shown_where_it_is_bad_and_nothing_found_is_exit_1() {
    let lab = lab();
    said(&lab, "term", &["say:text\\n"]);
    let bad = lab.berth(["grep", "te(xt"]);
    assert_eq!((bad.code, bad.out.as_str()), (2, ""));
    assert!(bad.err.contains("    te(xt\n      ^\n") && bad.err.contains("unclosed group"), "{}", bad.err);
    let lines = lab.berth(["grep", "a\\nb"]);
    assert_eq!(lines.code, 2, "{lines:?}");
    let nothing = lab.berth(["grep", "nothing"]);
    assert_eq!((nothing.code, nothing.out.as_str(), nothing.err.as_str()), (1, "", ""));
    assert_eq!(lab.berth(["grep", "text", "nobody"]).code, 3);
    for together in [["-c", "-l"], ["-c", "--json"], ["-l", "--json"]] {
        assert_eq!(lab.berth(["grep", together[0], together[1], "text"]).code, 2, "{together:?}");
    }
}

#[test]
fn a_damaged_session_is_searched_as_far_as_it_can_be_read_and_said_to_be_damaged() {
    let lab = lab();
    said(&lab, "healthy", &["say:needle here\\n"]);
    let id = talked(&lab, "hurt", &["the first needle", "the second needle"]);
    lab.ok(["stop", &id]);
    berth_harness::wait_until("its keeper to leave", || lab.processes().is_empty());
    let segment = hurt(&lab, &id);
    let found = lab.berth(["grep", "needle"]);
    assert_eq!(found.code, 1, "{found:?}");
    assert!(found.out.contains("healthy:0:needle here"), "{found:?}");
    assert!(found.out.contains(":prompt:the first needle"), "{found:?}");
    assert!(found.err.contains(&segment.display().to_string()), "{found:?}");
}

#[test]
fn a_reader_that_closes_the_pipe_ends_the_search() {
    let lab = lab();
    // More than a pipe holds.
    let id = said(&lab, "much", &["say:begin\\n"]);
    let start = lab.output(&id).len();
    let path = lab.session_dir(&id).join("output").join(format!("{start:020}.out"));
    std::fs::write(path, "another line\n".repeat(20_000)).expect("an output file");
    let mut child = lab
        .command(["grep", ""])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("berth can be started");
    let mut out = BufReader::new(child.stdout.take().expect("it is piped"));
    let mut first = String::new();
    out.read_line(&mut first).expect("a line");
    assert!(first.starts_with("much:0:"), "{first}");
    drop(out);
    assert_eq!(berth_harness::wait_child(child), 141, "as any filter ends");
}

#[test]
fn a_line_of_many_megabytes_and_bytes_that_are_not_text_are_searched() {
    let lab = lab();
    let id = said(&lab, "odd", &["say:begin\\n"]);
    let output = lab.session_dir(&id).join("output");
    let start = lab.output(&id).len();
    let mut bytes = vec![b'x'; 40 << 20];
    bytes[39 << 20..][..6].copy_from_slice(b"needle");
    bytes.extend((0..=255).cycle().take(100_000));
    bytes.extend_from_slice(b"\nneedle two\n");
    std::fs::write(output.join(format!("{start:020}.out")), bytes).expect("an output file");
    let found = lab.ok(["grep", "needle"]);
    let lines: Vec<&str> = found.lines().collect();
    assert_eq!(lines.len(), 2, "{}", found.len());
    assert!(lines[0].contains("needle") && lines[0].len() < 3000);
    assert!(lines[1].ends_with(":needle two"));
}

#[test]
fn the_record_of_an_agent_with_an_interface_of_its_own_is_searched() {
    let lab = lab();
    let record = r#"{"type":"user","message":{"role":"user","content":"only in the \"record\""},"uuid":"u"}"#;
    with_record(&lab, "claude", &format!("{record}\n"), "hang");
    let found = lab.ok(["grep", "in the \"record\""]);
    assert_eq!(found, "tui:transcript@0:only in the \"record\"");
}

#[test]
fn b2_each_prompt_call_result_and_answer_is_found_once_and_no_system_prompt() {
    let prompt = "needle THINK TOOL echo needle-from-tool";
    let records = [
        (
            "claude",
            include_str!("records/claude-2.1.325.jsonl"),
            [prompt, "echo needle-from-tool", "needle-from-tool"],
        ),
        (
            "codex",
            include_str!("records/codex-0.166.0.jsonl"),
            [prompt, r#"{"cmd":"echo needle-from-tool"}"#, "needle-from-tool"],
        ),
    ];
    for (agent, record, expected) in records {
        let lab = lab();
        // The terminal shows it as well, and paints it again and again.
        with_record(&lab, agent, record, &format!("say:{prompt}\\r{prompt}\\r\\n"));
        let lines = |pattern: &str| -> Vec<String> {
            let out = lab.berth(["grep", "--json", pattern]).out;
            let line = |line: &str| serde_json::from_str::<Value>(line).expect("JSON")["line"].clone();
            out.lines().map(|one| line(one).as_str().expect("a line").to_owned()).collect()
        };
        let mut found = lines("needle");
        found.retain(|line| !line.starts_with("TOOLDONE"));
        assert_eq!(found, expected, "{agent}");
        assert!(lines("thinking about it").len() == 1, "{agent}: a thought");
        assert!(lines("^TOOLDONE").len() == 1, "{agent}: the answer");
        for own in
            ["You are Codex", "Claude Agent SDK", "Assist with authorized", "skills", "Primary working"]
        {
            assert_eq!(lines(own), [""; 0], "{agent}: {own}");
        }
    }
}
