//! Every example of every `--help`, run as it is printed there: in a shell, in a home with the sessions it names, with
//! stand-ins for the agents and for programs that may be missing.
//!
//! An example must end with 0; [`EXPECTED`] has those that need not, and [`NOT_RUN`] those that cannot be run here,
//! each with its reason. Start with [`examples`]; the world an example works on is in `world`.

mod replays;
mod tutorial;
mod world;

use std::collections::BTreeSet;

use berth_harness::{CommandOutput, TestEnvironment, said};
use world::HelpExampleFixture;

const BERTH: &str = env!("CARGO_BIN_EXE_berth");

/// Lines that cannot be run here, by how they begin, and why.
const NOT_RUN: &[(&str, &str)] = &[
    ("berth demo", "has a test of its own, and takes its time"),
    ("source <(berth completions zsh)", "a line for zsh"),
    ("berth completions fish | source", "a line for fish"),
    ("eval (berth completions elvish | slurp)", "a line for elvish"),
    ("claude mcp add", "a line for Claude Code itself; a test with the real one does that"),
    ("berth serve", "stays until it is told to end; the tests of the gateway do that"),
    ("berth hosts add", "needs another host; the tests of hosts have one"),
    ("berth hosts rm", "needs another host; the tests of hosts have one"),
    ("berth --host", "needs another host; the tests of hosts have one"),
    ("berth adopt", "needs an agent that goes on with what another one wrote; tests of its own have some"),
    ("berth send box:", "needs another host; the tests of hosts have one"),
    ("berth attach fix --tui", "needs an agent with two interfaces; the tests with real agents have some"),
    ("berth resume old --tui", "needs an agent with two interfaces; the tests with real agents have some"),
    ("berth answer fix 1 3", "needs a question that takes several options; the tests of answers have one"),
    ("berth answer fix --text", "needs a question that takes words; the tests of answers have one"),
    ("berth ls --watch", "stays until the user types q; the tests of the list do that"),
];

/// Lines that may end otherwise, by how they begin, with which codes, and why.
const EXPECTED: &[(&str, &[i32], &str)] = &[
    ("berth run --max-memory", &[0, 1], "refused where the host cannot limit"),
    ("berth output tests --follow | grep error", &[0, 1], "the code is grep's"),
    ("berth history fix", &[0, 3], "the fake agent has no transcript to copy; the tests of turns have one"),
    ("berth restore fix --history", &[0, 3], "the same"),
    ("berth archive --tag nightly", &[0, 3], "nothing may have the tag"),
    ("berth stop --name", &[0, 3], "nothing may have such a name"),
    ("berth tag --name", &[0, 3], "nothing may have such a name"),
    ("berth link", &[0, 5], "no gateway runs here; the tests of the gateway have one"),
    ("berth stop $(berth ls --ids --tag nightly)", &[0, 2], "nothing may have the tag"),
];

/// Verbs that have a test of their own, because they take longest.
const TERMINALS: &[&str] = &["attach", "input", "screen", "output", "use", "why", "ps", "stop"];
const TURNS: &[&str] = &["send", "queue", "cancel", "answer", "turns", "turn", "result", "fork", "wait"];
const STARTS: &[&str] = &["run", "resume"];

/// One example line of a command's help.
#[derive(Clone, Debug)]
struct HelpExample {
    /// The command that the help is about, for example `helper ensure`.
    verb: String,
    line: String,
}

/// Every command in the help, by its path: groups of commands, and the commands in them.
fn verbs(lab: &TestEnvironment) -> Vec<String> {
    let first = help(lab, "");
    let listed =
        first.lines().skip_while(|line| !line.ends_with("agents:")).take_while(|line| *line != "Options:");
    let top: Vec<String> = listed.filter_map(verb_of).filter(|verb| verb != "help").collect();
    let mut all = Vec::new();
    for verb in top {
        let text = help(lab, &verb);
        let inner =
            text.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
        let inner: Vec<String> = inner.filter_map(verb_of).filter(|verb| verb != "help").collect();
        // The words that may follow a session in `queue` are explained there.
        if verb != "queue" {
            all.extend(inner.iter().map(|inner| format!("{verb} {inner}")));
        }
        all.push(verb);
    }
    all
}

fn verb_of(line: &str) -> Option<String> {
    let rest = line.strip_prefix("  ").filter(|rest| !rest.starts_with(' '))?;
    rest.split_whitespace().next().map(str::to_owned)
}

/// Output of `--help`, unwrapped; of berth itself with every verb.
fn help(lab: &TestEnvironment, verb: &str) -> String {
    let all: &[&str] = if verb.is_empty() { &["--help", "--all"] } else { &["--help"] };
    let words = verb.split_whitespace().chain(all.iter().copied());
    let told = said(lab.command(words).env("COLUMNS", "1000").output().expect("berth can be started"));
    assert_eq!(told.code, 0, "{verb}: {told:?}");
    told.out
}

fn examples(lab: &TestEnvironment) -> Vec<HelpExample> {
    let mut all = Vec::new();
    for verb in verbs(lab) {
        let text = help(lab, &verb);
        let lines = text.lines().skip_while(|line| *line != "Examples:").skip(1);
        let lines = lines.take_while(|line| !line.trim().is_empty());
        all.extend(
            lines
                .map(|line| HelpExample { verb: verb.clone(), line: without_remark(line.trim()).to_owned() }),
        );
    }
    all
}

/// A line up to the two spaces, outside of quotes, behind which the remark begins.
fn without_remark(line: &str) -> &str {
    let mut quote = None;
    for (at, c) in line.char_indices() {
        match (quote, c) {
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), c) if open == c => quote = None,
            (None, ' ') if line[at..].starts_with("  ") => return &line[..at],
            (_, _) => {}
        }
    }
    line
}

fn expected(example: &HelpExample) -> &'static [i32] {
    let known = EXPECTED.iter().find(|(begins, _, _)| example.line.starts_with(begins));
    known.map_or(&[0], |(_, codes, _)| codes)
}

/// Runs the examples, each in a home of its own, and reports all failures.
fn run_all(wanted: impl Fn(&str) -> bool) {
    let lab = TestEnvironment::new(BERTH);
    let all = examples(&lab);
    drop(lab);
    let is_run = |example: &&HelpExample| !NOT_RUN.iter().any(|(begins, _)| example.line.starts_with(begins));
    let mine: Vec<&HelpExample> = all.iter().filter(|example| wanted(&example.verb)).filter(is_run).collect();
    assert!(!mine.is_empty());
    let mut wrong = Vec::new();
    for example in mine {
        let told: CommandOutput = HelpExampleFixture::new(example).run();
        if !expected(example).contains(&told.code) {
            wrong.push(format!("{}: {}\n  {told:?}", example.verb, example.line));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_command_has_examples() {
    let lab = TestEnvironment::new(BERTH);
    let told: BTreeSet<String> = examples(&lab).into_iter().map(|example| example.verb).collect();
    let missing: Vec<String> = verbs(&lab).into_iter().filter(|verb| !told.contains(verb)).collect();
    assert!(missing.is_empty(), "no examples: {missing:?}");
    assert!(told.len() > 30, "{told:?}");
}

#[test]
fn every_listed_exception_is_an_example_of_a_help() {
    let lab = TestEnvironment::new(BERTH);
    let all = examples(&lab);
    let begins = NOT_RUN.iter().map(|(begins, _)| begins).chain(EXPECTED.iter().map(|(begins, _, _)| begins));
    for begins in begins {
        assert!(
            all.iter().any(|example| example.line.starts_with(begins)),
            "no example begins with `{begins}` any more"
        );
    }
}

#[test]
fn a_remark_is_told_from_a_command() {
    assert_eq!(without_remark("berth ls   all of them"), "berth ls");
    assert_eq!(without_remark("berth send fix 'a  b' --wait  now"), "berth send fix 'a  b' --wait");
    assert_eq!(without_remark("berth ls | jq -r '.[]'"), "berth ls | jq -r '.[]'");
}

#[test]
fn examples_of_terminals_work() {
    run_all(|verb| TERMINALS.contains(&verb));
}

#[test]
fn examples_of_turns_work() {
    run_all(|verb| TURNS.contains(&verb));
}

#[test]
fn examples_that_start_something_work() {
    run_all(|verb| STARTS.contains(&verb));
}

#[test]
fn examples_of_helpers_work() {
    run_all(|verb| verb.starts_with("helper"));
}

#[test]
fn all_other_examples_work() {
    run_all(|verb| {
        !verb.starts_with("helper") && ![TERMINALS, TURNS, STARTS].iter().any(|verbs| verbs.contains(&verb))
    });
}
