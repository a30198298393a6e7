//! Keys of the dashboard and their effect on sessions.

use crate::dashboard::{agent, footer, lab, open};

#[test]
fn a_message_is_sent_once_as_it_was_written_and_its_receipt_shown() {
    let lab = lab();
    let id = agent(&lab, "docs");
    let mut terminal = open(&lab);
    terminal.wait_for("nothing was said yet");
    terminal.type_keys("mhello");
    terminal.wait_for("> hello");
    // Alt-Enter, then a paste with line ends in it: one message.
    terminal.type_keys("\x1b\r\x1b[200~x and y\rq\r\x1b[201~");
    terminal.wait_for("x and y");
    assert!(lab.json(["turns", &id, "--json"]).as_array().expect("an array").is_empty());
    terminal.type_keys("\r");
    terminal.wait_for("turn 1 of docs");
    terminal.wait_for("ECHO: hello");
    lab.ok(["wait", "docs.1", "--timeout", "60s"]);
    let turns = lab.json(["turns", &id, "--json"]);
    assert_eq!(turns.as_array().map(Vec::len), Some(1), "{turns}");
    assert_eq!(lab.json(["turn", "docs.1", "--json"])["prompt"], "hello\nx and y\nq\n");
    terminal.type_keys("qq");
    assert_eq!(terminal.wait_exit(), 0);
}

#[test]
fn a_paste_of_ten_thousand_lines_is_one_message() {
    let lab = lab();
    agent(&lab, "docs");
    let mut terminal = open(&lab);
    terminal.wait_for("nothing was said yet");
    let lines: String = (0..10_000).map(|number| format!("line {number} of many\n")).collect();
    terminal.type_keys("m");
    terminal.wait_for("send to docs");
    let pasted = format!("\x1b[200~{}\x1b[201~", lines.replace('\n', "\r"));
    for piece in pasted.as_bytes().chunks(2048) {
        terminal.type_keys(std::str::from_utf8(piece).expect("it is ASCII"));
        // As a terminal does: what is drawn is taken.
        terminal.look();
    }
    terminal.wait_for("line 9999 of many");
    terminal.type_keys("\r");
    terminal.wait_for("turn 1 of docs");
    lab.ok(["wait", "docs.1", "--timeout", "60s"]);
    let prompt = lab.json(["turn", "docs.1", "--json"])["prompt"].clone();
    assert!(prompt == lines.as_str(), "another message arrived, of {} bytes", prompt.to_string().len());
}

#[test]
fn into_a_terminal_a_line_is_typed_and_entered() {
    let lab = lab();
    let id = lab.start_with(&["--name", "shell"], &["expect", "say:got it", "hang"]);
    let mut terminal = open(&lab);
    terminal.wait_for("› running     shell");
    terminal.type_keys("mgo on");
    terminal.wait_for("type into shell");
    terminal.type_keys("\r");
    terminal.wait_for("typed into shell");
    terminal.wait_for("got it");
    lab.wait_output(&id, "got it");
}

#[test]
fn a_question_is_seen_in_full_and_gets_the_answer_that_was_pressed() {
    for (pressed, expected) in [("y", "allow-once"), ("n", "reject"), ("2", "allow-always")] {
        let lab = lab();
        agent(&lab, "asker");
        lab.ok(["send", "asker", "ask:Bash:cargo test --workspace && rm -rf target"]);
        let mut terminal = open(&lab);
        terminal.wait_for("1 needs you");
        terminal.wait_for("Allow Bash?");
        terminal.wait_for("    cargo test --workspace && rm -rf target");
        terminal.type_keys("a");
        terminal.wait_for("y allow  n deny");
        terminal.type_keys(pressed);
        terminal.wait_for("answered asker");
        lab.ok(["wait", "asker.1", "--timeout", "60s"]);
        let answer = lab.json(["turn", "asker.1", "--json"])["answer"].clone();
        assert_eq!(answer, format!("Bash: {expected}\n"));
        terminal.wait_for("idle");
    }
}

#[test]
fn stopping_wants_a_yes_and_resuming_brings_it_back() {
    let lab = lab();
    let id = lab.start_with(&["--name", "job"], &["say:ready", "hang"]);
    let mut terminal = open(&lab);
    terminal.wait_for("ready");
    terminal.type_keys("x");
    terminal.wait_for("stop job?");
    terminal.type_keys("n");
    terminal.wait_for("nothing was done");
    assert_eq!(lab.show(&id)["state"], "running");
    terminal.type_keys("xy");
    terminal.wait_for("stopped job");
    assert_eq!(lab.show(&id)["state"], "stopped");
    terminal.wait_for("› stopped     job");
    terminal.type_keys("j");
    terminal.wait_until("the keys there are now", |terminal| footer(terminal).contains("r resume"));
    terminal.type_keys("r");
    terminal.wait_for("› running     job");
    assert_eq!(lab.show(&id)["epoch"], 2);
    terminal.wait_for("ready");
    terminal.type_keys("qq");
    assert_eq!(terminal.wait_exit(), 0);
}

#[test]
fn a_session_that_is_over_is_archived_and_restored() {
    let lab = lab();
    let id = lab.start_with(&["--name", "job"], &["exit:0"]);
    let mut terminal = open(&lab);
    terminal.wait_for("› stopped     job");
    terminal.type_keys("e");
    terminal.wait_for("archived job");
    terminal.wait_for("1 older");
    assert!(!lab.show(&id)["archived_at"].is_null());
    terminal.type_keys(".");
    terminal.wait_for("› archived    job");
    terminal.type_keys("e");
    terminal.wait_for("restored job");
    terminal.wait_for("› stopped     job");
    assert!(lab.show(&id)["archived_at"].is_null());
    terminal.type_keys("qq");
    assert_eq!(terminal.wait_exit(), 0);
}

#[test]
fn a_turn_is_cancelled_after_a_yes() {
    let lab = lab();
    agent(&lab, "docs");
    lab.ok(["send", "docs", "silent"]);
    let mut terminal = open(&lab);
    // The agent says nothing of its work; the prompt it was given is known.
    terminal.wait_for("› working     docs   > silent");
    terminal.type_keys("C");
    terminal.wait_for("interrupt the turn of");
    terminal.type_keys("y");
    terminal.wait_for("[cancelled");
    assert_eq!(lab.json(["turn", "docs.1", "--json"])["state"], "cancelled");
}

#[test]
fn attaching_types_into_it_and_leaving_comes_back_to_the_dashboard() {
    let lab = lab();
    let id = lab.start_with(&["--name", "shell"], &["say:its own screen", "expect", "say:heard", "hang"]);
    let mut terminal = open(&lab);
    terminal.wait_for("› running     shell");
    terminal.wait_for("its own screen");
    terminal.type_keys("\r");
    terminal.wait_until("the terminal alone", |terminal| !terminal.text().contains("running"));
    terminal.wait_for("its own screen");
    terminal.type_keys("hello\r");
    terminal.wait_for("heard");
    assert_eq!(lab.show(&id)["clients"], 1);
    terminal.type_keys("\x1c");
    terminal.wait_for("back from shell");
    terminal.wait_for("1 running");
    terminal.wait_for("heard");
    assert_eq!(lab.show(&id)["clients"], 0);
    // Another client types there: the dashboard says so, with what the user can do about it.
    let mut rival = lab.terminal(["attach", "shell"]);
    rival.wait_for("heard");
    terminal.type_keys("j\r");
    terminal.wait_for("another client is attached");
    terminal.wait_for("1 running");
    // Escape takes the message away; together with the next key it would be another one.
    terminal.type_keys("\x1b");
    terminal.wait_until("the keys there are", |terminal| footer(terminal).contains("Enter attach"));
    terminal.raw.clear();
    terminal.type_keys("o");
    terminal.wait_for("only watching shell (80×24) · Ctrl-\\ leaves");
    terminal.type_keys("\x1c");
    terminal.wait_for("back from shell");
    terminal.type_keys("qq");
    assert_eq!(terminal.wait_exit(), 0);
    // A user who was never in the shell meanwhile finds no word there about leaving.
    assert!(!terminal.text().contains("detached from"), "{}", terminal.text());
    assert_eq!(lab.show(&id)["state"], "running");
}

#[test]
fn talking_to_an_agent_comes_back_to_the_dashboard() {
    let lab = lab();
    agent(&lab, "docs");
    let mut terminal = open(&lab);
    terminal.wait_for("1 idle");
    terminal.wait_until("the keys there are", |terminal| footer(terminal).contains("Enter talk"));
    terminal.type_keys("\r");
    terminal.wait_until("the terminal alone", |terminal| !terminal.text().contains("1 idle"));
    terminal.wait_for("docs");
    terminal.type_keys("hello\r");
    terminal.wait_for("ECHO: hello");
    lab.ok(["wait", "docs.1", "--timeout", "60s"]);
    terminal.type_keys("\x04");
    terminal.wait_for("back from docs");
    terminal.wait_for("1 idle");
    terminal.type_keys("qq");
    assert_eq!(terminal.wait_exit(), 0);
    assert!(!terminal.text().contains("[left "), "{}", terminal.text());
}

#[test]
fn the_mouse_selects_and_the_filter_finds() {
    let lab = lab();
    for name in ["alpha", "beta", "gamma"] {
        lab.start_with(&["--name", name], &["say:ready", "hang"]);
    }
    let mut terminal = open(&lab);
    terminal.wait_for("3 running");
    for row in 1..=3 {
        let names: Vec<String> = terminal.text().lines().map(str::to_owned).collect();
        let wanted = format!("› {}", &names[row].trim_start_matches(['›', ' ']));
        let wanted: String = wanted.chars().take(20).collect();
        terminal.type_keys(&format!("\x1b[<0;10;{}M\x1b[<0;10;{}m", row + 1, row + 1));
        terminal.wait_for(&wanted);
    }
    terminal.type_keys("/eta");
    terminal.wait_until("one session", |terminal| {
        let text = terminal.text();
        text.contains("› running     beta") && !text.contains("running     alpha")
    });
    terminal.type_keys("\r\x1b");
    terminal.wait_for("running     alpha");
    terminal.type_keys("q");
    assert_eq!(terminal.wait_exit(), 0);
}

#[test]
fn a_form_starts_a_session_with_its_first_turn_and_selects_it() {
    let lab = lab();
    lab.start_with(&["--name", "job"], &["say:ready", "hang"]);
    let mut terminal = open(&lab);
    terminal.wait_for("› running     job");
    terminal.type_keys("c");
    terminal.wait_for("New session");
    terminal.wait_for("Claude Code");
    terminal.type_keys("fake\t\t\thello");
    terminal.wait_for("Prompt     hello");
    terminal.type_keys("\r");
    terminal.wait_for("ECHO: hello");
    let started = lab.json(["ls", "--agent", "fake", "--json"])[0].clone();
    assert_eq!(started["turns"]["total"], 1, "{started}");
    // An agent that cannot be started is reported, and the text of the prompt is there again.
    terminal.type_keys("cnosuchagent\t\t\tagain\r");
    terminal.wait_for("is not an agent of the table");
    terminal.type_keys("c");
    terminal.wait_for("Prompt     again");
    terminal.type_keys("\x1b");
    terminal.wait_for("nothing was started");
    terminal.type_keys("qq");
    assert_eq!(terminal.wait_exit(), 0);
}

#[test]
fn a_notice_goes_away_by_itself() {
    let lab = lab();
    lab.start_with(&["--name", "job"], &["exit:0"]);
    lab.ok(["wait", "job", "--timeout", "60s"]);
    let mut terminal = open(&lab);
    terminal.wait_for("› stopped     job");
    terminal.type_keys("r");
    terminal.wait_for("resumed job");
    terminal.wait_for("› stopped     job");
    terminal.wait_until("no notice", |terminal| !terminal.text().contains("resumed job"));
    assert!(footer(&mut terminal).contains("r resume"), "{}", terminal.text());
}

#[test]
fn a_session_is_renamed_tagged_noted_and_forked() {
    let lab = lab();
    let id = agent(&lab, "docs");
    lab.ok(["send", "--wait", "docs", "hello"]);
    let mut terminal = open(&lab);
    terminal.wait_for("› idle        docs");
    terminal.type_keys("R2\r");
    terminal.wait_for("renamed docs to docs2");
    terminal.wait_for("› idle        docs2");
    terminal.type_keys("Twork\r");
    terminal.wait_for("tagged docs2: +work");
    terminal.type_keys("Nlook at it\r");
    terminal.wait_for("wrote the note of docs2");
    let shown = lab.show(&id);
    assert_eq!((&shown["name"], &shown["note"]), (&"docs2".into(), &"look at it".into()), "{shown}");
    assert_eq!(shown["tags"][0], "work", "{shown}");
    terminal.type_keys("i");
    terminal.wait_for("tags        work");
    terminal.type_keys("fcopy\r");
    terminal.wait_for("forked docs2");
    terminal.wait_for("copy");
    assert_ne!(lab.show("copy")["id"], id.as_str());
}

#[test]
fn queued_turns_are_edited_moved_and_dropped() {
    let lab = lab();
    let id = agent(&lab, "docs");
    for prompt in ["silent", "one", "two", "three"] {
        lab.ok(["send", "docs", prompt]);
    }
    let mut terminal = open(&lab);
    terminal.wait_for("+3");
    terminal.type_keys("Q");
    terminal.wait_for("› turn 2    one");
    terminal.type_keys("\r!\r");
    terminal.wait_for("› turn 2    one!");
    terminal.type_keys("J");
    terminal.wait_until("the other order", |terminal| {
        let text = terminal.text();
        text.find("turn 3").zip(text.find("› turn 2")).is_some_and(|(three, two)| three < two)
    });
    terminal.type_keys("jx");
    terminal.wait_for("take turn 4 out of the queue?");
    terminal.type_keys("y");
    terminal.wait_until("two turns", |terminal| !terminal.text().contains("turn 4    three"));
    let queue = lab.json(["queue", &id, "--json"])["queued"].clone();
    let prompts: Vec<_> = queue.as_array().into_iter().flatten().map(|turn| &turn["prompt"]).collect();
    assert_eq!(prompts, ["two", "one!"], "{queue}");
}

#[test]
fn a_no_carries_the_reason_to_the_agent() {
    let lab = lab();
    let id = agent(&lab, "asker");
    lab.ok(["send", "asker", "ask:Bash:rm -rf target"]);
    let mut terminal = open(&lab);
    terminal.wait_for("Allow Bash?");
    terminal.type_keys("a");
    terminal.wait_for("t tell it what to do instead");
    terminal.type_keys("t");
    terminal.wait_for("Enter answers asker");
    terminal.type_keys("use mktemp\r");
    terminal.wait_for("answered asker");
    lab.ok(["wait", "asker.1", "--timeout", "60s"]);
    let answered = &lab.events(&id, "answered")[0];
    assert_eq!(answered["text"], "use mktemp", "{answered}");
}
