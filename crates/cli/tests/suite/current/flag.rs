//! `--session`, for every command that has it: found in the program's own help, so that none is forgotten.

use berth_harness::{CommandOutput, TestEnvironment, said, wait_until};

use crate::current::{agent, lab};

/// These refuse all but a user at a terminal, or the name as an argument.
const NEED_MORE: [&str; 3] = ["attach", "use", "purge"];

/// The verbs whose help has --session.
fn verbs(lab: &TestEnvironment) -> Vec<String> {
    let help = lab.ok(["help", "--all"]);
    let listed = help.lines().skip_while(|line| !line.ends_with(':')).take_while(|line| *line != "Options:");
    let verb = |line: &str| {
        let rest = line.strip_prefix("  ").filter(|rest| !rest.starts_with(' '))?;
        rest.split_whitespace().next().map(str::to_owned)
    };
    let all = listed.filter_map(verb).filter(|verb| verb != "help");
    let verbs: Vec<String> = all.filter(|verb| lab.ok([verb, "--help"]).contains("--session <S>")).collect();
    assert!(verbs.len() > 20, "{verbs:?}");
    verbs
}

/// Arguments that a verb needs after `--session S`, taken from its usage line, and options that keep it from waiting.
fn words(lab: &TestEnvironment, verb: &str) -> Vec<String> {
    let help = lab.ok([verb, "--help"]);
    let usage = help.lines().find(|line| line.starts_with("Usage: ")).expect("a usage");
    // A pattern may also be given with -e, and is needed all the same.
    let is_needed = |word: &&str| (word.starts_with('<') && !word.starts_with("<S")) || *word == "[PATTERN]";
    let needed = usage.split_whitespace().filter(is_needed);
    let filled = needed.map(|word| match word.trim_matches(['<', '>', '[', ']', '.']) {
        "T" => "1",
        "OPTION" => "allow",
        "PATTERN" => "said-by",
        "TEXT" | "NAME" => "word",
        other => panic!("{verb} needs {other}: {usage}"),
    });
    let brief: &[&str] = match verb {
        "wait" => &["--timeout", "10ms"],
        "resume" | "stop" => &["-q"],
        _ => &[],
    };
    filled.chain(brief.iter().copied()).map(str::to_owned).collect()
}

/// Runs every verb with --session about one of two sessions, while BERTH_SESSION names the other one.
fn walk(lab: &TestEnvironment, named: &str, bystander: &str) {
    let touched = |id: &str| lab.ok(["log", id, "--json"]);
    let before = touched(bystander);
    for verb in verbs(lab) {
        let mut command = lab.command([&verb, "--session", named]);
        command.args(words(lab, &verb)).env("BERTH_SESSION", bystander);
        if verb == "resume" {
            command.arg("--detach");
        }
        let told: CommandOutput = said(command.output().expect("berth can be started"));
        for word in [bystander, "bystander"] {
            assert!(!told.out.contains(word) && !told.err.contains(word), "{verb}: {told:?}");
        }
        assert_eq!(touched(bystander), before, "{verb} did something to another session: {told:?}");
        // An invalid command line would show nothing.
        assert!(told.code != 2 || NEED_MORE.contains(&verb.as_str()), "{verb}: {told:?}");
        assert!(told.code == 0 || !told.err.is_empty(), "{verb}: a refusal without a word: {told:?}");
    }
}

#[test]
fn a_session_that_the_flag_names_is_the_one_that_every_command_is_about_or_it_refuses() {
    let lab = lab();
    let start = |name: &str| {
        let id = lab.start_with(&["--name", name], &[&format!("say:said-by-{name}\\n"), "hang"]);
        lab.wait_output(&id, "said-by");
        id
    };
    let (named, bystander) = (start("named"), start("bystander"));
    walk(&lab, &named, &bystander);
}

#[test]
fn the_session_flag_names_the_session_for_agents_that_take_turns() {
    let lab = lab();
    let store = lab.dir().display().to_string();
    agent(&lab, "fake", &["--store", &store]);
    let start = |name: &str| {
        let id = lab.ok(["run", "-d", "--agent", "fake", "--name", name]);
        lab.ok(["send", &id, "--wait", &format!("said-by-{name}")]);
        wait_until("it to rest", || lab.show(&id)["state"] == "idle");
        id
    };
    let (named, bystander) = (start("named"), start("bystander"));
    walk(&lab, &named, &bystander);
}
