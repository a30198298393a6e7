//! No command passes terminal escapes of an agent or of another host on to a terminal.
//!
//! A hostile agent and a hostile host put control characters wherever they can: answers, questions, errors, notes,
//! directories, transcripts, versions, lists of sessions. Every verb of berth runs on what they left, and neither of its
//! streams may contain ESC, C1, or any other control character but line breaks and tabs. [`COMMANDS`] names every verb:
//! a new verb fails the test until it is added there.

mod world;

use std::collections::BTreeSet;

use berth_harness::CommandOutput;
use world::{HostileTextFixture, MARK};

/// The kind of text that a command writes to standard output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum PrintedTextKind {
    /// Text, with nothing hostile that has to be in it.
    Text,
    /// Text that quotes hostile text.
    Quotes,
    /// Bytes that are raw by design; only standard error is text.
    Raw,
}
use PrintedTextKind::{Quotes, Raw, Text};

/// Commands by the names of their manual pages. `turns` takes turns and has asked a question, `term` is a program on a
/// terminal, `gone` has ended. In the order in which they are run: the last ones end and delete.
const COMMANDS: &[(&str, PrintedTextKind, &[&str])] = &[
    ("", Quotes, &[]),
    ("", Quotes, &["no-such-ODD"]),
    ("run", Quotes, &["run", "--agent", "broken", "--", "hello"]),
    ("run", Quotes, &["run", "-d", "--agent", "broken"]),
    ("run", Quotes, &["run", "-d", "--", "/no/such/ODD"]),
    ("run", Text, &["run", "-d", "--key", "kept", "--cwd", "CWD", "--", "true"]),
    ("resume", Quotes, &["resume", "-d", "broken"]),
    ("resume", Text, &["resume", "-d", "turns"]),
    ("ls", Quotes, &["ls"]),
    ("ls", Quotes, &["ls", "--tree"]),
    ("ls", Quotes, &["ls", "--format", "{{.id}} {{.cwd}} {{.note}}"]),
    ("ls", Quotes, &["ls", "--hosts"]),
    ("ls", Quotes, &["ls", "--foreign"]),
    ("show", Quotes, &["show", "turns"]),
    ("show", Quotes, &["show", "broken"]),
    ("show", Quotes, &["show", "ODD"]),
    ("why", Quotes, &["why", "turns"]),
    ("why", Text, &["why", "broken"]),
    ("why", Text, &["why", "--pid", "PID"]),
    ("ps", Quotes, &["ps"]),
    ("ps", Text, &["ps", "--port", "1"]),
    ("attach", Quotes, &["attach", "ODD"]),
    ("attach", Text, &["attach", "turns"]),
    ("input", Text, &["input", "term", "ODD"]),
    ("screen", Text, &["screen", "term"]),
    ("output", Raw, &["output", "term"]),
    ("output", Text, &["output", "ODD"]),
    ("log", Quotes, &["log", "turns"]),
    ("log", Quotes, &["log", "broken"]),
    ("grep", Quotes, &["grep", "GOTCHA"]),
    ("export", Quotes, &["export", "turns"]),
    ("export", Quotes, &["export", "turns", "--format", "json"]),
    ("export", Quotes, &["export", "turns", "--format", "jsonl"]),
    ("export", Quotes, &["export", "term", "--format", "cast"]),
    ("export", Quotes, &["export", "term", "--format", "md"]),
    ("export", Quotes, &["export", "turns", "-o", "CWD/export.md"]),
    ("wait", Text, &["wait", "turns", "--timeout", "1ms"]),
    ("wait", Text, &["wait", "broken", "--for", "done"]),
    ("wait", Quotes, &["wait", "turns.1", "--json"]),
    ("send", Quotes, &["send", "talks", "--wait", "say:ODD"]),
    ("send", Quotes, &["send", "talks", "--wait", "stderr:ODD\nfail:ODD"]),
    ("send", Quotes, &["send", "talks", "--wait", "tool:ODD:ODD\nsay:ODD"]),
    ("send", Text, &["send", "turns", "later: ODD"]),
    ("turns", Quotes, &["turns", "turns"]),
    ("turn", Quotes, &["turn", "turns.1"]),
    ("turn", Quotes, &["turn", "turns.2"]),
    ("turn", Quotes, &["turn", "turns.1", "--json", "--items"]),
    ("result", Quotes, &["result", "turns.1"]),
    ("result", Quotes, &["result", "turns.2"]),
    ("queue", Quotes, &["queue", "turns"]),
    ("queue-edit", Text, &["queue", "edit", "turns.4", "ODD"]),
    ("queue-edit", Text, &["queue", "edit", "ODD", "x"]),
    ("queue-move", Text, &["queue", "move", "turns.5"]),
    ("queue-drop", Text, &["queue", "drop", "turns.4"]),
    ("queue-pause", Text, &["queue", "pause", "--session", "turns"]),
    ("queue-resume", Text, &["queue", "resume", "--session", "turns"]),
    ("answer", Quotes, &["answer", "turns"]),
    ("answer", Text, &["answer", "turns", "ODD"]),
    ("cancel", Text, &["cancel", "turns.5"]),
    ("fork", Text, &["fork", "talks"]),
    ("adopt", Quotes, &["adopt", "ODD"]),
    ("import", Quotes, &["import", "--all"]),
    ("rename", Text, &["rename", "gone", "ODD"]),
    ("tag", Quotes, &["tag", "gone", "ODD"]),
    ("tag", Text, &["tag", "turns"]),
    ("note", Quotes, &["note", "turns"]),
    ("policy", Text, &["policy", "turns"]),
    ("history", Text, &["history", "turns"]),
    ("restore", Quotes, &["restore", "ODD"]),
    ("use", Text, &["use", "turns"]),
    ("notify", Text, &["notify"]),
    ("notify-test", Text, &["notify", "test", "turns"]),
    ("notify-log", Text, &["notify", "log"]),
    ("helper", Text, &["helper"]),
    ("helper-ensure", Text, &["helper", "ensure", "ODD", "--owner", "turns", "--", "true"]),
    ("helper-ls", Quotes, &["helper", "ls"]),
    ("helper-show", Quotes, &["helper", "show", "odd"]),
    ("helper-log", Quotes, &["helper", "log", "odd"]),
    ("helper-output", Raw, &["helper", "output", "odd"]),
    ("helper-release", Quotes, &["helper", "release", "ODD", "--owner", "turns"]),
    ("helper-stop", Text, &["helper", "stop", "odd"]),
    ("agents", Text, &["agents"]),
    ("agents", Quotes, &["agents", "broken"]),
    ("config", Quotes, &["config"]),
    ("doctor", Text, &["doctor"]),
    ("hosts", Quotes, &["hosts"]),
    ("hosts-ls", Quotes, &["hosts", "ls"]),
    ("hosts-add", Quotes, &["hosts", "add", "more", "--replace"]),
    ("hosts-add", Quotes, &["hosts", "add", "away", "--name", "nobody"]),
    ("hosts-add", Quotes, &["hosts", "add", "ODD"]),
    ("hosts-rm", Quotes, &["hosts", "rm", "ODD"]),
    ("transcript", Text, &["transcript"]),
    ("transcript-ls", Quotes, &["transcript", "ls"]),
    ("transcript-show", Quotes, &["transcript", "show", "TRANSCRIPT"]),
    ("transcript-check", Quotes, &["transcript", "check", "TRANSCRIPT"]),
    ("transcript-tree", Quotes, &["transcript", "tree", "TRANSCRIPT"]),
    ("transcript-repair", Quotes, &["transcript", "repair", "TRANSCRIPT", "--to", "CWD/copy.jsonl"]),
    ("audit", Text, &["audit"]),
    ("token", Text, &["token"]),
    ("token-new", Text, &["token", "new", "--scope", "read", "--name", "ODD"]),
    ("token-ls", Text, &["token", "ls"]),
    ("token-revoke", Quotes, &["token", "revoke", "ODD"]),
    ("link", Text, &["link"]),
    ("serve", Quotes, &["serve", "--listen", "127.0.0.1:0", "--tls-cert", "/ODD", "--tls-key", "/ODD"]),
    ("sweep", Text, &["sweep"]),
    ("setup", Text, &["setup"]),
    ("setup-claude", Text, &["setup", "claude", "--dry-run"]),
    ("setup-codex", Text, &["setup", "codex", "--dry-run"]),
    ("setup-systemd", Text, &["setup", "systemd", "--dry-run"]),
    ("completions", Raw, &["completions", "bash"]),
    ("man", Quotes, &["man", "ODD"]),
    ("openapi", Text, &["openapi"]),
    ("demo", Text, &["demo"]),
    ("acp", Raw, &["acp"]),
    ("mcp", Raw, &["mcp"]),
    ("help", Text, &["help", "--all"]),
    ("proxy", Raw, &["proxy"]),
    ("stop", Text, &["stop", "turns"]),
    ("stop", Quotes, &["stop", "ODD"]),
    ("archive", Text, &["archive", "gone"]),
    ("purge", Text, &["purge", "--dry-run", "gone"]),
    ("purge", Quotes, &["purge", "--yes", "ODD"]),
    ("purge", Text, &["purge", "--yes", "gone"]),
];

/// The control characters of a stream, if it has any that a terminal would obey.
fn obeyed(stream: &[u8]) -> Option<String> {
    let text = match std::str::from_utf8(stream) {
        Ok(text) => text,
        Err(odd) => return Some(format!("bytes that are not UTF-8 at {}", odd.valid_up_to())),
    };
    let is_odd = |c: char| {
        (c.is_control() && !matches!(c, '\n' | '\t'))
            || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let found: BTreeSet<char> = text.chars().filter(|c| is_odd(*c)).collect();
    (!found.is_empty()).then(|| format!("{found:?}"))
}

/// Runs a command and checks its output; adds violations to `wrong`.
fn check(world: &HostileTextFixture, args: &[&str], prints: PrintedTextKind, wrong: &mut Vec<String>) {
    let output = world.command(args).output().expect("berth can be started");
    let streams = [("standard output", &output.stdout), ("standard error", &output.stderr)];
    for (name, stream) in streams {
        if (prints != Raw || name == "standard error")
            && let Some(odd) = obeyed(stream)
        {
            wrong.push(format!("{args:?}: {odd} on {name}: {:?}", String::from_utf8_lossy(stream)));
        }
    }
    let CommandOutput { code, out, err } = berth_harness::said(output);
    if prints == Quotes && !out.contains(MARK) && !err.contains(MARK) {
        wrong.push(format!("{args:?} (exit {code}) does not quote what is hostile:\n{out}\n{err}"));
    }
    if args.contains(&"--json") && code == 0 && out.trim_start().starts_with(['{', '[']) {
        let mut values = serde_json::Deserializer::from_str(&out).into_iter::<serde_json::Value>();
        if let Some(error) = values.find_map(Result::err) {
            wrong.push(format!("{args:?}: {error} in {out}"));
        }
    }
}

#[test]
fn no_verb_passes_on_terminal_escapes_of_a_hostile_agent_or_host() {
    let world = HostileTextFixture::new();
    let pages = world.manual_pages();
    let listed: BTreeSet<String> = COMMANDS.iter().map(|(page, ..)| (*page).to_owned()).collect();
    let there: BTreeSet<String> = pages.keys().cloned().collect();
    assert_eq!(listed, there, "COMMANDS lists every verb");

    let mut wrong = Vec::new();
    for (page, prints, args) in COMMANDS {
        let args: Vec<String> = args.iter().map(|word| world.filled(word)).collect();
        let mut words: Vec<&str> = args.iter().map(String::as_str).collect();
        check(&world, &words, *prints, &mut wrong);
        // The command on a host that answers everything with escape sequences.
        let is_raw_there = matches!(
            *page,
            "run" | "resume" | "adopt" | "attach" | "output" | "export" | "man" | "completions"
        );
        let there = if *prints == Raw || is_raw_there { Raw } else { Text };
        check(&world, &[&["--host", "box"], words.as_slice()].concat(), there, &mut wrong);
        if pages[*page].contains("\\-\\-json") && !words.contains(&"--") && !words.contains(&"--json") {
            words.push("--json");
            let prints = if *prints == Raw { Raw } else { Text };
            check(&world, &words, prints, &mut wrong);
        }
    }
    assert!(wrong.is_empty(), "{} faults:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn text_from_another_host_is_shown_without_its_escapes() {
    let world = HostileTextFixture::new();
    let mut wrong = Vec::new();
    for args in [
        &["--host", "box", "ls"][..],
        &["--host", "box", "send", "turns", "text", "--wait"],
        &["show", "box:turns", "--json"],
        &["--host", "away", "ls"],
        &["--host", "away", "run", "--", "true"],
        &["show", "far:x"],
    ] {
        check(&world, args, Quotes, &mut wrong);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn shell_completions_have_no_escapes() {
    let world = HostileTextFixture::new();
    let mut wrong = Vec::new();
    for shell in ["bash", "zsh", "fish"] {
        let mut command = world.command(&["--", "berth", "show", ""]);
        command.env("BERTH_COMPLETE", shell).env("_CLAP_COMPLETE_INDEX", "2");
        let output = command.output().expect("berth can be started");
        assert!(String::from_utf8_lossy(&output.stdout).contains("turns"), "{shell}: {output:?}");
        // clap writes this separator between candidates.
        let stream: Vec<u8> = output.stdout.into_iter().filter(|byte| *byte != 0x0b).collect();
        wrong.extend(obeyed(&stream).map(|odd| format!("{shell}: {odd}")));
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn a_terminal_shows_the_escapes_of_an_agent_and_does_not_obey_them() {
    let world = HostileTextFixture::new();
    for args in [
        &["attach", "turns"][..],
        &["ls", "--watch"],
        &[],
        &["result", "turns.1"],
        &["--host", "box", "result", "turns.1"],
        &["--host", "box", "ls"],
        &["show", "box:turns"],
    ] {
        let mut terminal = world.terminal(args);
        terminal.wait_for(MARK);
        terminal.look();
        let raw = String::from_utf8_lossy(&terminal.raw).into_owned();
        for odd in ["\x1b]0;", "\u{9b}", "\u{9d}", "\u{202e}", "\u{7f}", "\x07"] {
            assert!(!raw.contains(odd), "{args:?} wrote {odd:?}: {raw:?}");
        }
        terminal.close();
        terminal.wait_exit();
    }
}
