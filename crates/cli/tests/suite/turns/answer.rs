//! Questions of an agent, and the answers it gets.

use berth_harness::{TestEnvironment, wait_until};

use crate::turns::{did, finish, lab, spawn, start, states, text, turn};

/// Waits until it asks this many things; their names.
fn asks(lab: &TestEnvironment, id: &str, count: usize) -> Vec<String> {
    let asked = || lab.show(id)["turns"]["asks"].as_array().cloned().unwrap_or_default();
    wait_until("it to ask", || asked().len() == count);
    asked().iter().map(|ask| text(ask, "request")).collect()
}

#[test]
fn an_agent_that_asks_gets_the_answer_that_was_given() {
    let lab = lab();
    let id = start(&lab, &["--name", "s"]);
    for (option, expected) in [
        ("allow", "allow-once"),
        ("yes", "allow-once"),
        ("deny", "reject"),
        ("no", "reject"),
        ("allow-always", "allow-always"),
    ] {
        let waiting = spawn(&lab, ["send", "--wait", "s", "ask:Bash:rm -rf x"]);
        asks(&lab, &id, 1);
        assert_eq!(lab.berth(["wait", "s", "--for", "needs-you", "--timeout", "60s"]).code, 0);
        let shown = lab.show("s");
        assert_eq!(shown["state"], "needs-you");
        assert_eq!(text(&shown["turns"]["asks"][0], "detail"), "rm -rf x", "in full");
        let odd = lab.berth(["answer", "s", "perhaps"]);
        assert_eq!(odd.code, 2, "{odd:?}");
        assert!(odd.err.contains("allow-once") && odd.err.contains("reject"), "it lists them: {odd:?}");
        let none = lab.berth(["answer", "s"]);
        assert_eq!(none.code, 2, "{none:?}");
        assert!(none.err.contains("Bash: rm -rf x") && none.err.contains("allow-once"), "{none:?}");
        lab.ok(["answer", "s", option, "--yes"]);
        let said = finish(waiting);
        assert_eq!((said.code, said.out), (0, format!("Bash: {expected}\n")), "{}", said.err);
        assert!(said.err.contains("needs you") && said.err.contains("rm -rf x"), "{}", said.err);
        // The question is no longer open.
        assert_eq!(lab.berth(["answer", "s", "allow"]).code, 3);
    }
    assert_eq!(lab.events(&id, "answered").len(), 5);
}

#[test]
fn of_two_questions_each_gets_its_own_answer() {
    let lab = lab();
    let id = start(&lab, &["--name", "s"]);
    lab.ok(["send", "s", "ask:Bash:one\nask:Edit:two.txt"]);
    let requests = asks(&lab, &id, 2);
    let which = lab.berth(["answer", "s", "allow"]);
    assert_eq!(which.code, 2, "{which:?}");
    assert!(requests.iter().all(|request| which.err.contains(request)), "it lists them: {which:?}");
    assert_eq!(lab.berth(["answer", "s", "allow", "--request", "1:no-such"]).code, 3);
    lab.ok(["answer", "s", "deny", "--request", &requests[1]]);
    // The question that is left is the only one there is.
    let again = lab.berth(["answer", "s", "allow", "--request", &format!("1:{}", requests[1])]);
    assert_eq!(again.code, 1, "{again:?}");
    assert!(again.err.contains("answered already") && again.err.contains("reject"), "{again:?}");
    lab.ok(["answer", "s", "allow", "--yes"]);
    lab.ok(["wait", "s.1", "--timeout", "60s"]);
    assert_eq!(text(&turn(&lab, &id, 1), "answer"), "Bash: allow-once\nEdit: reject\n");
}

#[test]
fn a_question_that_was_withdrawn_or_whose_turn_is_over_cannot_be_answered() {
    let lab = lab();
    let id = start(&lab, &["--name", "s"]);
    let (go, wait) = crate::turns::gate(&lab, "go");
    let (begun, touch) = crate::turns::mark(&lab, "begun");
    lab.ok(["send", "s", &format!("ask:Bash:one\n{wait} unask {touch} {wait}2 after")]);
    let first = asks(&lab, &id, 1);
    crate::turns::open(&go);
    asks(&lab, &id, 0);
    crate::turns::wait_mark(&begun);
    for args in
        [&["answer", "s", "allow"][..], &["answer", "s", "allow", "--request", &format!("1:{}", first[0])]]
    {
        let gone = lab.berth(args);
        assert_eq!(gone.code, 3, "{gone:?}");
    }
    crate::turns::open(&lab.dir().join("go2"));
    lab.ok(["wait", "s.1", "--timeout", "60s"]);
    assert_eq!(states(&lab, "s"), ["done"]);
    // Cancelled while it asks: the question goes with its turn.
    lab.ok(["send", "s", "ask:Bash:two"]);
    asks(&lab, &id, 1);
    lab.ok(["cancel", "s.2"]);
    asks(&lab, &id, 0);
    assert_eq!(lab.berth(["answer", "s", "allow"]).code, 3);
    // A question is gone when its run is.
    lab.ok(["send", "s", "ask:Bash:three"]);
    asks(&lab, &id, 1);
    lab.kill_keeper(&id);
    assert_eq!(lab.berth(["answer", "s", "allow"]).code, 3);
    assert_eq!(states(&lab, "s")[..2], ["done", "cancelled"]);
    assert_eq!(did(&lab, &id).len(), 3);
}

/// Two clients answer at once: one answer counts.
#[test]
fn of_two_concurrent_answers_one_counts() {
    let lab = lab();
    let id = start(&lab, &["--name", "s"]);
    for round in 1..=8_u64 {
        lab.ok(["send", "s", "ask:Bash:x"]);
        let requests = asks(&lab, &id, 1);
        let answers = ["allow", "deny"]
            .map(|option| spawn(&lab, ["answer", "s", option, "--request", &format!("1:{}", requests[0])]));
        let [allowed, denied] = answers.map(finish);
        let mut codes = [allowed.code, denied.code];
        codes.sort_unstable();
        assert_eq!(codes, [0, 1], "{allowed:?} {denied:?}");
        lab.ok(["wait", &format!("s.{round}"), "--timeout", "60s"]);
        let expected = if allowed.code == 0 { "Bash: allow-once\n" } else { "Bash: reject\n" };
        assert_eq!(text(&turn(&lab, &id, round), "answer"), expected);
    }
}

#[test]
fn a_refusal_with_a_reason_reaches_the_agent_and_the_record_names_its_author() {
    let lab = lab();
    let id = start(&lab, &["--name", "s"]);
    let waiting = spawn(&lab, ["send", "--wait", "s", "ask:Bash:rm -rf x"]);
    let request = asks(&lab, &id, 1).remove(0);
    assert_eq!(lab.show("s")["turns"]["asks"][0]["takes_reason"], true);
    for odd in [
        &["answer", "s", "allow", "but why"][..],
        &["answer", "s", "deny", ""],
        &["answer", "s", "deny", "two", "words"],
        &["answer", "s", "--text", "my own words"],
        &["answer", "s", "allow-once", "--text", "but why"],
    ] {
        let odd = lab.berth(odd);
        assert_eq!(odd.code, 2, "{odd:?}");
    }
    lab.ok(["answer", "s", "deny", "use mktemp instead"]);
    let said = finish(waiting);
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(said.out.contains("STEERED: use mktemp instead"), "the agent has the reason: {said:?}");
    assert!(said.out.contains("Bash: reject"), "{said:?}");
    let answered = &lab.events(&id, "answered")[0];
    assert_eq!(answered["chosen"][0]["id"], "reject", "{answered}");
    assert_eq!(answered["text"], "use mktemp instead", "{answered}");
    let log = lab.ok(["log", "s"]);
    assert!(log.contains(&format!("answered {request}: reject: use mktemp instead")), "{log}");
    let given = &turn(&lab, &id, 1)["answers"][0];
    assert_eq!((&given["tool"], &given["detail"]), (&"Bash".into(), &"rm -rf x".into()), "{given}");
    assert_eq!(given["text"], "use mktemp instead", "{given}");
    let exported = lab.ok(["export", "s", "--format", "md"]);
    assert!(exported.contains("answered Bash (rm -rf x): reject: use mktemp instead"), "{exported}");
    let again = lab.berth(["answer", "s", "allow", "--request", &format!("1:{request}")]);
    assert_eq!(again.code, 1, "{again:?}");
    assert!(again.err.contains("reject: use mktemp instead"), "the second hears why, too: {again:?}");
}

#[test]
fn a_reason_for_an_agent_that_cannot_take_one_is_refused_by_name_and_answers_nothing() {
    let lab = lab();
    lab.add_agent("plain", &["--no-steer"]);
    let id = lab.ok(["run", "-d", "--agent", "plain", "--name", "s", "--prompt", "ask:Bash:rm -rf x"]);
    asks(&lab, &id, 1);
    let refused = lab.berth(["answer", "s", "deny", "use mktemp instead"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(
        refused.err.contains("cannot take a reason") && refused.err.contains("berth send"),
        "{refused:?}"
    );
    assert_eq!(lab.events(&id, "answered").len(), 0);
    lab.ok(["answer", "s", "deny"]);
    lab.ok(["wait", "s.1", "--timeout", "60s"]);
}

#[test]
fn off_a_terminal_an_approval_names_its_question_and_run_and_is_never_given_to_another() {
    let lab = lab();
    let id = start(&lab, &["--name", "s"]);
    lab.ok(["send", "s", "ask:Bash:one"]);
    let request = asks(&lab, &id, 1).remove(0);
    let question = format!("1:{request}");
    assert!(lab.ok(["show", "s"]).contains(&format!("Bash ({question}): one")));
    let command = format!("berth answer s allow --request {question}");
    for args in [&["answer", "s", "allow"][..], &["answer", "s", "allow", "--request", &request]] {
        let unread = lab.berth(args);
        assert_eq!(unread.code, 2, "{unread:?}");
        assert!(unread.err.contains(&command), "the hint is the whole command: {unread:?}");
    }
    assert_eq!(lab.berth(["answer", "s", "allow-always"]).code, 2);
    assert_eq!(lab.events(&id, "answered").len(), 0);
    lab.ok(["answer", "s", "allow", "--request", &question]);
    lab.ok(["wait", "s.1", "--timeout", "60s"]);
    // The next run counts its questions from the start.
    lab.ok(["stop", "s"]);
    lab.ok(["resume", "s", "-d"]);
    lab.ok(["send", "s", "ask:Bash:two"]);
    assert_eq!(asks(&lab, &id, 1), [request]);
    let stale = lab.berth(["answer", "s", "allow", "--request", &question]);
    assert_ne!(stale.code, 0, "{stale:?}");
    assert_eq!(lab.events(&id, "answered").len(), 1, "a question of run 1 is not one of run 2");
    lab.ok(["answer", "s", "allow", "--yes"]);
    lab.ok(["wait", "s.2", "--timeout", "60s"]);
}

#[test]
fn with_the_option_session_all_words_are_the_answer_and_none_shows_the_question() {
    let lab = lab();
    let id = start(&lab, &["--name", "s"]);
    lab.ok(["send", "s", "ask:Bash:one"]);
    asks(&lab, &id, 1);
    let shown = lab.berth(["--session", "s", "answer"]);
    assert_eq!(shown.code, 2, "{shown:?}");
    assert!(shown.err.contains("asks (1:") && shown.err.contains("Bash: one"), "{shown:?}");
    let words = lab.berth(["--session", "s", "answer", "--text", "hi", "--yes"]);
    assert_eq!(words.code, 2, "{words:?}");
    assert!(words.err.contains("takes one of its options"), "the keeper has read it: {words:?}");
    lab.ok(["--session", "s", "answer", "deny"]);
    lab.ok(["wait", "s.1", "--timeout", "60s"]);
}

#[test]
fn at_a_terminal_an_approval_shows_its_question_and_needs_a_yes() {
    let lab = lab();
    let id = start(&lab, &["--name", "s"]);
    lab.ok(["send", "s", "ask:Bash:rm -rf x"]);
    asks(&lab, &id, 1);
    for (key, code, answered) in [("\r", 1, 0), ("y\r", 0, 1)] {
        let berth = env!("CARGO_BIN_EXE_berth");
        let mut terminal = lab.terminal_running(berth.as_ref(), ["answer", "s", "allow"]);
        terminal.wait_for("Allow Bash: rm -rf x? [y/N]");
        terminal.type_keys(key);
        assert_eq!(terminal.wait_exit(), code, "{key:?}");
        assert_eq!(lab.events(&id, "answered").len(), answered, "{key:?}");
    }
    lab.ok(["wait", "s.1", "--timeout", "60s"]);
}
