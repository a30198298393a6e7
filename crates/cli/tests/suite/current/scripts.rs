//! Scripts: never asked, never guessed for, and no pointer of a terminal is touched.

use std::collections::BTreeSet;
use std::process::{Child, Command, Stdio};

use berth_harness::{TestEnvironment, said, wait_until};

use crate::current::{TerminalShell, lab, records};

#[test]
fn a1_a_session_started_without_a_terminal_leaves_the_current_one_alone() {
    let lab = lab();
    let agent = lab.agent();
    let mut shell = TerminalShell::new(&lab);
    let current = shell.ok(&format!("berth run -d -- {agent} hang"));
    let pid = lab.number(&current, "pid");
    let record = std::fs::read(records(&lab).pop().expect("a record")).expect("a record");
    for line in ["</dev/null", "<&-", "< /dev/zero"] {
        let said = shell.run(&format!("berth run -d -- {agent} hang {line}"));
        assert_eq!((said.code, said.err.as_str()), (0, ""), "{line}: {said:?}");
        assert_ne!(said.out.trim(), current);
    }
    assert_eq!(lab.number(&current, "pid"), pid);
    assert_eq!(shell.current(""), current);
    assert_eq!(std::fs::read(records(&lab).pop().expect("a record")).expect("a record"), record);
    assert_eq!(lab.json(["ls", "--json"]).as_array().map(Vec::len), Some(4));
}

#[test]
fn a2_twenty_started_at_once_without_a_terminal_are_twenty_sessions_and_no_pointer() {
    let lab = lab();
    let agent = lab.agent();
    let start = || {
        let mut command = lab.command(["run", "-d", "--", &agent, "hang"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("berth starts")
    };
    let children: Vec<Child> = (0..20).map(|_| start()).collect();
    let said: Vec<_> =
        children.into_iter().map(|child| said(child.wait_with_output().expect("our own child"))).collect();
    assert!(said.iter().all(|said| said.code == 0 && said.err.is_empty()), "{said:?}");
    let ids: BTreeSet<&str> = said.iter().map(|said| said.out.trim()).collect();
    assert_eq!(ids.len(), 20);
    for id in &ids {
        assert_eq!(lab.show(id)["state"], "running");
        assert!(lab.events(id, "stop_requested").is_empty(), "no session was stopped");
    }
    assert!(!lab.home().join("terminals").exists(), "there is no pointer");
    lab.ok(["stop", "--all", "--yes", "--grace", "0s"]);
}

#[test]
fn a8_two_state_directories_at_one_terminal_never_see_each_others_pointer() {
    let (one, two) = (lab(), lab());
    let agent = one.agent();
    let mut shell = TerminalShell::new(&one);
    let other = format!("BERTH_HOME={}", two.home().display());
    let mut in_one = Vec::new();
    let mut in_two = Vec::new();
    for _ in 0..3 {
        in_one.push(shell.ok(&format!("berth run -d -- {agent} hang")));
        assert_eq!(shell.run(&format!("{other} berth use")).code, if in_two.is_empty() { 2 } else { 0 });
        in_two.push(shell.ok(&format!("{other} berth run -d -- {agent} hang")));
        assert_eq!(Some(&shell.current("")), in_one.last());
        assert_eq!(Some(&shell.current(&other)), in_two.last());
        shell.ok(&format!("{other} berth stop --yes"));
        assert_eq!(one.show(in_one.last().expect("one"))["state"], "running");
    }
    assert!(in_one.iter().all(|id| one.show(id)["state"] == "running"));
    assert!(in_two.iter().all(|id| two.show(id)["state"] == "stopped"));
    assert_eq!((records(&one).len(), records(&two).len()), (1, 1));
    // Naming the one in the other finds nothing, rather than something else.
    assert_eq!(shell.run(&format!("{other} berth use {}", in_one[0])).code, 3);
    assert_eq!(Some(&shell.current("")), in_one.last());
}

/// The commands there are, by the program's own word: `["queue", "drop"]` and so on.
fn every_command(lab: &TestEnvironment, above: &[String]) -> Vec<Vec<String>> {
    let mut args = above.to_vec();
    args.push("--help".to_owned());
    if above.is_empty() {
        args.push("--all".to_owned());
    }
    let help = lab.ok(&args);
    // Under one heading or several, and always before the options.
    let names = help
        .lines()
        .take_while(|line| *line != "Options:")
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next());
    let mut found = Vec::new();
    // Arguments are listed there in brackets.
    let is_word = |name: &&str| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
    for name in names.filter(is_word).filter(|name| *name != "help") {
        let one = [above, &[name.to_owned()]].concat();
        let below = every_command(lab, &one);
        found.push(one);
        found.extend(below);
    }
    found
}

/// Arguments that give a command something to do, where its usage line is not enough.
fn arguments(command: &[&str], agent: &str) -> Option<Vec<String>> {
    let line = match command {
        // `demo` has a test of its own; and it takes its time.
        ["demo"] => return None,
        // These talk with a client for as long as it holds their standard input open; they have tests of their own.
        ["acp" | "mcp" | "proxy"] => return None,
        ["run"] => return Some(["run", "--", agent, "exit:0"].map(str::to_owned).to_vec()),
        ["wait"] => "wait live --timeout 10ms",
        ["stop"] => "stop --all",
        ["input"] => "input live text",
        ["send"] => "send live text",
        ["answer"] => "answer live allow",
        ["rename"] => "rename live live",
        ["tag"] => "tag live a",
        ["note"] => "note live text",
        ["grep"] => "grep text",
        // `serve` runs until it is told to end; without an option about TLS it does not even begin.
        ["serve"] => "serve --listen 0.0.0.0:1",
        ["setup", "systemd"] => "setup systemd --dry-run",
        ["setup", "claude"] => "setup claude --dry-run",
        ["setup", "codex"] => "setup codex --dry-run",
        ["adopt"] => "adopt ffffffff",
        ["import"] => "import --all --dry-run",
        ["transcript", "show"] => "transcript show ffffffff",
        ["transcript", "check"] => "transcript check --all",
        ["transcript", "repair"] => "transcript repair live --to copy.jsonl",
        ["token", "new"] => "token new --scope read --name bot",
        ["token", "revoke"] => "token revoke bot",
        ["turn" | "result" | "cancel"] => return Some(vec![command[0].to_owned(), "live.1".to_owned()]),
        ["queue", "drop" | "move"] => {
            return Some(["queue", "live", command[1], "1"].map(str::to_owned).to_vec());
        }
        ["queue", "edit"] => "queue live edit 1 text",
        ["queue", verb] => return Some(["queue", "live", verb].map(str::to_owned).to_vec()),
        ["helper", "ensure"] => "helper ensure web --owner live -- sleep 1000",
        ["helper", "release"] => "helper release web --owner live",
        ["helper", "show" | "stop" | "log" | "output"] => {
            return Some(["helper", command[1], "web"].map(str::to_owned).to_vec());
        }
        _ => return Some(Vec::new()),
    };
    Some(line.split(' ').map(str::to_owned).collect())
}

#[test]
fn a5_every_command_there_is_ends_whatever_its_standard_input_is() {
    let lab = lab();
    let agent = lab.agent();
    lab.start_with(&["--name", "live"], &["hang"]);
    let commands = every_command(&lab, &[]);
    assert!(commands.len() > 30 && commands.contains(&vec!["use".to_owned()]), "{commands:?}");
    for command in &commands {
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        let Some(mut args) = arguments(&words, &agent) else { continue };
        if args.is_empty() {
            args.clone_from(command);
            let usage = lab.ok([&words[..], &["--help"]].concat());
            let usage = usage.lines().find(|line| line.starts_with("Usage: ")).unwrap_or_default().to_owned();
            if usage.contains("<S>") || usage.contains("[S]") {
                args.push("live".to_owned());
            }
        }
        for stdin in ["nothing", "closed", "silent"] {
            let code = ends(&lab, &args, stdin);
            assert!((0..70).contains(&code), "`berth {}` with {stdin} on stdin: exit {code}", args.join(" "));
        }
    }
    assert_eq!(lab.show("live")["state"], "running", "nothing was done without consent");
    assert!(records(&lab).is_empty());
}

/// The code a command ends with. Commands that wait are told to give up long before our patience ends.
fn ends(lab: &TestEnvironment, args: &[String], stdin: &str) -> i32 {
    let mut command = lab.command(args);
    if stdin == "closed" {
        let mut shell = Command::new("sh");
        shell.args(["-c", "exec \"$@\" <&-", "sh", env!("CARGO_BIN_EXE_berth")]).args(args);
        shell.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command = shell;
    }
    let is_silent = stdin == "silent";
    command.stdin(if is_silent { Stdio::piped() } else { Stdio::null() });
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("berth starts");
    // Held open until it is over.
    let held = child.stdin.take();
    let what = format!("`berth {}` to end with {stdin} on stdin", args.join(" "));
    wait_until(&what, || child.try_wait().expect("our own child").is_some());
    drop(held);
    berth_harness::wait_child(child)
}
