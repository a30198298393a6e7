//! `berth agents`, with small programs in the place of the agents: which are installed, which answer, which processes
//! are left afterwards, and which settings the config file may have.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use berth_harness::{CommandOutput, TestEnvironment, said};
use serde_json::{Value, json};

/// A time that is too short for a program that never answers, and for nothing else here.
const SHORT: &str = "300ms";
/// More than any answer takes.
const LONG: &str = "60s";

fn lab() -> TestEnvironment {
    let lab = TestEnvironment::new(env!("CARGO_BIN_EXE_berth"));
    std::fs::create_dir(bin(&lab)).expect("a directory for programs");
    lab
}

/// The only directory in PATH.
fn bin(lab: &TestEnvironment) -> PathBuf {
    lab.dir().join("bin")
}

/// Puts a shell script into PATH. Other programs in it are called by their whole path.
fn program(lab: &TestEnvironment, name: &str, script: &str) {
    let file = bin(lab).join(name);
    std::fs::write(&file, format!("#!/bin/sh\n{script}\n")).expect("a script");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).expect("our own file");
}

fn fifo(lab: &TestEnvironment, name: &str) -> String {
    let file = lab.dir().join(name);
    let made = Command::new("mkfifo").arg(&file).status().expect("mkfifo can be started");
    assert!(made.success());
    file.display().to_string()
}

fn berth(lab: &TestEnvironment, args: &[&str]) -> CommandOutput {
    said(lab.command(args).env("PATH", bin(lab)).output().expect("berth can be started"))
}

fn configured(lab: &TestEnvironment, text: &str) {
    std::fs::write(lab.config(), text).expect("a config file");
}

/// The rows of `agents --json`, which must succeed.
fn listed(lab: &TestEnvironment, options: &[&str]) -> Vec<Value> {
    let told = berth(lab, &[&["agents", "--json"], options].concat());
    assert_eq!((told.code, told.err.as_str()), (0, ""), "{told:?}");
    serde_json::from_str(&told.out).unwrap_or_else(|error| panic!("not JSON ({error}): {told:?}"))
}

fn row<'r>(rows: &'r [Value], name: &str) -> &'r Value {
    rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("no {name} in {rows:?}"))
}

#[test]
fn installed_agents_are_listed_with_version_and_path_and_the_others_with_how_to_install_them() {
    let lab = lab();
    program(&lab, "claude", "[ \"$*\" = --version ] && echo '2.1.325 (Claude Code)'");
    program(&lab, "codex", "echo 'WARNING: 9.9' >&2; [ \"$*\" = --version ] && echo 'codex-cli 0.166.0'");
    let rows = listed(&lab, &["--timeout", LONG]);
    let names: Vec<&str> = rows.iter().filter_map(|row| row["name"].as_str()).collect();
    assert_eq!(names, ["claude", "codex", "claude-acp", "codex-acp", "opencode", "gemini"]);
    assert_eq!(
        row(&rows, "claude"),
        &json!({
            "name": "claude",
            "about": "Claude Code",
            "driver": "claude",
            "conversation_kind": "claude",
            "installed": true,
            "version": "2.1.325",
            "trouble": null,
            "path": bin(&lab).join("claude"),
            "command": ["claude"],
            "tui": ["claude"],
            "install": "npm install -g @anthropic-ai/claude-code",
            "source": "built-in",
        })
    );
    assert_eq!(row(&rows, "codex")["version"], "0.166.0");
    assert_eq!(row(&rows, "codex")["command"], json!(["codex", "app-server"]));
    let missing = row(&rows, "claude-acp");
    assert_eq!(
        (&missing["installed"], &missing["path"], &missing["version"]),
        (&json!(false), &json!(null), &json!(null))
    );
    assert_eq!((&missing["conversation_kind"], &missing["tui"]), (&json!("claude"), &json!(null)));
    let trouble = missing["trouble"].as_str().expect("a sentence");
    assert!(
        trouble.contains("`claude-agent-acp` in PATH") && trouble.contains(&bin(&lab).display().to_string())
    );
    assert!(!lab.home().exists(), "looking made the state directory");
}

#[test]
fn the_table_has_a_line_for_each_and_one_hint() {
    let lab = lab();
    for name in ["codex", "claude-agent-acp", "codex-acp", "opencode"] {
        program(&lab, name, "echo 1.0");
    }
    let told = berth(&lab, &["agents", "--timeout", LONG]);
    assert_eq!(told.code, 0, "{told:?}");
    let lines: Vec<Vec<&str>> = told.out.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines.len(), 7, "{told:?}");
    assert_eq!(lines[0], ["NAME", "DRIVER", "VERSION", "WHERE", "STARTED", "AS"]);
    assert_eq!(lines[1], ["claude", "claude", "not", "installed", "-", "claude"]);
    let codex = bin(&lab).join("codex").display().to_string();
    assert_eq!(lines[2], ["codex", "codex", "1.0", &codex, "codex", "app-server"]);
    assert_eq!(
        told.err,
        "2 are not installed: `berth agents NAME` says how to get one, \
         as in `npm install -g @anthropic-ai/claude-code` for claude\n"
    );
    program(&lab, "claude", "echo 1.0");
    let told = berth(&lab, &["agents", "--timeout", LONG]);
    assert_eq!(told.err, "to install gemini: `npm install -g @google/gemini-cli`\n");
    program(&lab, "gemini", "echo 1.0");
    assert_eq!(berth(&lab, &["agents", "--timeout", LONG]).err, "");
}

#[test]
fn all_are_asked_at_the_same_time() {
    let lab = lab();
    let (there, back) = (fifo(&lab, "there"), fifo(&lab, "back"));
    // Each needs the other to be asked before it can answer.
    program(&lab, "claude", &format!("echo 1.1 > {there}; read -r version < {back}; echo $version"));
    program(&lab, "codex", &format!("read -r version < {there}; echo $version; echo 2.2 > {back}"));
    let rows = listed(&lab, &["--timeout", LONG]);
    assert_eq!(
        (&row(&rows, "claude")["version"], &row(&rows, "codex")["version"]),
        (&json!("2.2"), &json!("1.1"))
    );
}

#[test]
fn a_program_that_never_answers_is_ended_with_all_it_started() {
    let lab = lab();
    let script =
        "trap '' TERM HUP INT; /usr/bin/setsid /bin/sleep 1000 & (/bin/sleep 1000 &); /bin/sleep 1000";
    program(&lab, "claude", script);
    let rows = listed(&lab, &["--timeout", SHORT]);
    assert_eq!(lab.processes(), [], "something of the question is left");
    let claude = row(&rows, "claude");
    assert_eq!((&claude["installed"], &claude["version"]), (&json!(true), &json!(null)));
    assert_eq!(claude["trouble"], "`claude --version` did not answer within 300ms and was ended");
    assert_eq!(rows.len(), 6, "the others are listed all the same");

    let told = berth(&lab, &["agents", "--timeout", SHORT]);
    assert!(told.out.contains("  printed no version for --version  "), "{told:?}");
}

#[test]
fn an_answer_counts_although_something_is_left_and_that_is_ended() {
    let lab = lab();
    let up = fifo(&lab, "up");
    // The process has a session of its own and no parent, holds the pipes, and is up before the answer comes.
    let left = format!("/usr/bin/setsid /bin/sh -c 'echo up > {up}; exec /bin/sleep 1000'");
    program(&lab, "claude", &format!("({left} &); read -r up < {up}; echo 1.0"));
    let rows = listed(&lab, &["--timeout", LONG]);
    assert_eq!(lab.processes(), [], "something of the question is left");
    assert_eq!(row(&rows, "claude")["version"], "1.0");
}

#[test]
fn a_program_that_fails_is_reported_with_its_output() {
    let lab = lab();
    program(&lab, "gemini", "echo 'node 20 is too old' >&2; exit 3");
    let told = berth(&lab, &["agents", "--timeout", LONG]);
    assert_eq!(told.code, 0, "{told:?}");
    assert!(told.out.contains("  failed with --version  "), "{told:?}");
    let full = berth(&lab, &["agents", "gemini"]);
    assert!(full.out.contains("`gemini --version` failed: exit status: 3: node 20 is too old\n"), "{full:?}");
}

#[test]
fn one_agent_is_shown_in_full() {
    let lab = lab();
    program(&lab, "claude", "echo 2.1.325");
    let place = bin(&lab).join("claude").display().to_string();
    assert_eq!(
        berth(&lab, &["agents", "claude", "--timeout", LONG]).out,
        format!(
            "agent      claude\n\
             what       Claude Code\n\
             driver     claude\n\
             writes     conversations of kind claude\n\
             installed  {place}\n\
             version    2.1.325\n\
             started as claude\n\
             terminal   claude\n\
             \x20 new id   claude --session-id ID\n\
             \x20 resume   claude --resume ID\n\
             install    npm install -g @anthropic-ai/claude-code\n\
             source     built-in\n"
        )
    );
    let object = berth(&lab, &["agents", "gemini", "--json"]);
    let object: Value = serde_json::from_str(&object.out).expect("an object");
    assert_eq!((&object["name"], &object["installed"]), (&json!("gemini"), &json!(false)));
}

#[test]
fn an_agent_of_the_config_file_gets_its_variables_and_they_are_not_shown() {
    let lab = lab();
    configured(
        &lab,
        "[agents.mine]\n\
         about = \"an agent of mine\"\n\
         driver = \"acp\"\n\
         command = [\"mine\", \"--acp\"]\n\
         version = [\"-V\"]\n\
         env = { MINE_TOKEN = \"4.2-of-mine\" }\n",
    );
    program(&lab, "mine", "[ \"$*\" = -V ] && [ \"$MINE_TOKEN\" = 4.2-of-mine ] && echo mine 7.0");
    let rows = listed(&lab, &["--timeout", LONG]);
    let mine = row(&rows, "mine");
    assert_eq!(rows.last(), Some(mine));
    assert_eq!(
        (&mine["version"], &mine["source"], &mine["trouble"]),
        (&json!("7.0"), &json!("config"), &json!(null))
    );
    assert_eq!((&mine["conversation_kind"], &mine["install"]), (&json!("mine"), &json!(null)));
    let full = berth(&lab, &["agents", "mine", "--timeout", LONG]);
    assert!(full.out.contains("variables  MINE_TOKEN\n"), "{full:?}");
    assert!(full.out.contains(&format!("source     config, {}:1:9\n", lab.config().display())), "{full:?}");
    assert!(!format!("{rows:?}{full:?}").contains("of-mine"), "a value was shown");
}

#[test]
fn a_program_without_a_configured_version_command_is_not_started() {
    let lab = lab();
    configured(
        &lab,
        "[agents.mine]\ndriver = \"pty\"\ncommand = [\"mine\"]\n\n[agents.claude]\ncommand = [\"mine\", \"claude\"]\n",
    );
    let ran = lab.dir().join("ran");
    program(&lab, "mine", &format!("echo ran > {}; echo 1.0", ran.display()));
    let rows = listed(&lab, &["--timeout", LONG]);
    for name in ["mine", "claude"] {
        let row = row(&rows, name);
        assert_eq!(
            (&row["installed"], &row["version"], &row["trouble"]),
            (&json!(true), &json!(null), &json!(null))
        );
    }
    assert!(!ran.exists(), "it was started");
    assert!(berth(&lab, &["agents", "--timeout", LONG]).out.contains("  installed  "));
}

#[test]
fn a_config_file_that_is_wrong_is_refused_with_its_line_and_stops_nothing_else() {
    let lab = lab();
    let file = lab.config().display().to_string();
    for (text, what) in [
        (
            "\n[agents.mine]\ndrivr = \"acp\"\n",
            "3:1: [agents.mine] has no key `drivr`; did you mean `driver`?",
        ),
        (
            "[agents.mine]\ndriver = \"apc\"\n",
            "2:10: `driver` in [agents.mine] cannot be `apc`; did you mean `acp`?",
        ),
        ("[agents.mine]\ndriver = \"acp\"\ncommand = []\n", "3:11: `command` in [agents.mine] is empty"),
        ("# mine\n\n[agents.mine]\n", "3:9: [agents.mine] is a new agent and has no `driver`"),
        ("[agents.mine\n", "1:13: this is not valid TOML: "),
    ] {
        configured(&lab, text);
        for args in [&["agents"][..], &["agents", "claude"], &["agents", "--json"]] {
            let told = berth(&lab, args);
            assert_eq!((told.code, told.out.as_str()), (2, ""), "{told:?}");
            assert!(told.err.starts_with(&format!("error: {file}:{what}")), "{told:?}");
        }
    }
    assert_eq!(berth(&lab, &["ls"]).code, 0);
}

#[test]
fn a_config_file_that_cannot_be_read_is_not_taken_for_none() {
    let lab = lab();
    std::fs::create_dir(lab.config()).expect("a directory in its place");
    let told = berth(&lab, &["agents"]);
    assert_eq!(told.code, 1, "{told:?}");
    assert!(told.err.starts_with("error: cannot read the config file "), "{told:?}");
}

#[test]
fn the_config_file_is_found_where_people_keep_theirs() {
    let lab = lab();
    let text = "[agents.mine]\ndriver = \"pty\"\ncommand = [\"mine\"]\n";
    let home = lab.dir().join("person");
    for place in ["xdg/berth", "person/.config/berth"] {
        let dir = lab.dir().join(place);
        std::fs::create_dir_all(&dir).expect("a directory");
        std::fs::write(dir.join("config.toml"), text).expect("a config file");
    }
    for xdg in [lab.dir().join("xdg"), PathBuf::new()] {
        let mut command = lab.command(["agents", "mine", "--json"]);
        command.env_remove("BERTH_CONFIG").env("HOME", &home).env("XDG_CONFIG_HOME", xdg);
        let told = said(command.output().expect("berth can be started"));
        assert_eq!(told.code, 0, "{told:?}");
    }
    let told = berth(&lab, &["agents", "mine"]);
    assert_eq!(told.code, 3, "BERTH_CONFIG names another file, which is not there: {told:?}");
}

#[test]
fn an_unknown_agent_is_not_found() {
    let lab = lab();
    let told = berth(&lab, &["agents", "clade"]);
    assert_eq!((told.code, told.out.as_str()), (3, ""), "{told:?}");
    assert!(
        told.err.starts_with("error: no agent is called `clade`; did you mean `claude`?\nhint: "),
        "{told:?}"
    );
}
