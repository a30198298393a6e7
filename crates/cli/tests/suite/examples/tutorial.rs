//! The tutorial: every command in the `console` blocks of docs/tutorial.md, typed into one shell at a terminal.
//!
//! Promise: each command prints what the page shows below it, apart from ids, times, sizes and process numbers.
//! Not here: the `sh` blocks (`./test` builds berth), and the words of a model: Claude Code is a stand-in that records a
//! conversation as Claude Code does and repeats its prompt, and [`SAYS`] has the page's answers.
//! Start with [`every_command_of_the_tutorial_prints_what_the_tutorial_says`].

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::Instant;

use berth_harness::{PATIENCE, TestEnvironment, TestTerminal};
use regex::Regex;

use crate::examples::BERTH;
use crate::examples::world::program;

const PAGE: &str = include_str!("../../../../../docs/tutorial.md");
/// The home and the state directory of the page.
const HOME: &str = "/home/ada";
const STATE: &str = "/home/ada/.local/state/berth";
/// Ports of the page; the test uses free ones.
const PORTS: [&str; 2] = ["7070", "8123"];
/// The shell's prompt: the exit code of the last command.
const PROMPT: &str = "@@$?@@";
/// Wide enough for every line.
const COLUMNS: u16 = 200;

/// A prompt of the page, the prompt that the stand-in gets, and the page's answer to it.
const SAYS: [(&str, &str, &str); 4] = [
    ("reply with one word: ready", "reply with one word: ready", "ready"),
    ("reply with one word: back", "reply with one word: back", "back"),
    ("reply with one word: done", "reply with one word: done", "done"),
    // Works until a file is there that is never made.
    ("count slowly from 1 to 500", "HOLD never count slowly from 1 to 500", ""),
];

/// Commands that take over the terminal, and what is on it before `Ctrl-\` is pressed.
const INTERACTIVE: [(&str, &str); 2] = [("berth attach clock", "tick"), ("berth run --name fix", "ready")];

/// Commands that only look: repeated until their output is that of the page.
const LOOKS: [&str; 4] = ["berth ls", "berth turns", "berth log", "berth helper ls"];

/// A command of the page, and the output below it.
#[derive(Clone, PartialEq, Eq, Debug)]
struct TutorialCommand {
    command: String,
    output: Vec<String>,
}

/// The steps in the `console` blocks of a page.
fn steps(page: &str) -> Vec<TutorialCommand> {
    let mut steps: Vec<TutorialCommand> = Vec::new();
    let mut is_console = false;
    for line in page.lines() {
        if let Some(kind) = line.strip_prefix("```") {
            is_console = kind == "console";
        } else if let Some(command) = line.strip_prefix("$ ").filter(|_| is_console) {
            steps.push(TutorialCommand { command: command.to_owned(), output: Vec::new() });
        } else if is_console {
            let step = steps.last_mut().expect("a console block begins with a command");
            step.output.push(line.to_owned());
        }
    }
    steps
}

/// A line without the parts that differ from run to run.
fn masked(line: &str) -> String {
    let masks = [
        (r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME"),
        (r"berthlink_\w+", "LINK"),
        (r"\b[0-9a-z]{12}\b", "ID"),
        (r"\bpid \d+", "pid N"),
        (r"\(pts/\d+ on \S+ \(claimed\)\)", "(a terminal)"),
        (r"\b\d+(\.\d+)? [KM]?i?B\b", "SIZE"),
        (r"\b(now|\d+(ms|s|m))\b", "AGE"),
        (r"\s+", " "),
    ];
    let mut line = line.to_owned();
    for (pattern, mask) in masks {
        line = Regex::new(pattern).expect("a good pattern").replace_all(&line, mask).into_owned();
    }
    line.trim().to_owned()
}

/// A reader who types the page's commands.
struct TutorialReader {
    lab: TestEnvironment,
    shell: TestTerminal,
    /// The ports of the page, and those that are used.
    ports: Vec<(&'static str, String)>,
    gateway: Option<TestTerminal>,
}

impl TutorialReader {
    fn new() -> Self {
        let lab = TestEnvironment::new(BERTH);
        let (bin, agent) = (lab.dir().join("bin"), lab.agent());
        for dir in [&bin, &lab.dir().join("ada"), &lab.dir().join("claude")] {
            fs::create_dir_all(dir).expect("a directory");
        }
        std::os::unix::fs::symlink(BERTH, bin.join("berth")).expect("a link");
        program(&bin.join("claude"), &format!("exec {agent} tui --record \"$@\""));
        program(&bin.join("python3"), &format!("exec {agent} listen-tcp:$3 hang"));
        let shell = lab.terminal_running_of_size(
            Path::new("/bin/bash"),
            ["--norc", "--noprofile", "--noediting", "-i"],
            50,
            COLUMNS,
        );
        let ports = PORTS.map(|port| {
            let free = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
            (port, free.expect("a free port").port().to_string())
        });
        let mut reader = Self { lab, shell, ports: ports.into(), gateway: None };
        let surroundings =
            format!("{}; stty -echo; unset HISTFILE; PS1='{PROMPT}'; cd", reader.surroundings());
        reader.typed(&surroundings, None);
        reader
    }

    /// The variables of the page's reader, for a shell.
    fn surroundings(&self) -> String {
        let dir = self.lab.dir().display();
        format!(
            "export HOME={dir}/ada PATH={dir}/bin:/usr/local/bin:/usr/bin:/bin CLAUDE_CONFIG_DIR={dir}/claude NO_COLOR=1; \
             unset XDG_CONFIG_HOME XDG_STATE_HOME"
        )
    }

    /// Types a line and reads until the next prompt; what it printed, and its exit code.
    fn typed(&mut self, line: &str, leaves_at: Option<&str>) -> (Vec<String>, i32) {
        let from = self.shell.raw.len();
        let since = |shell: &TestTerminal| String::from_utf8_lossy(&shell.raw[from..]).into_owned();
        self.shell.type_keys(&format!("{line}\n"));
        if let Some(needle) = leaves_at {
            self.shell.wait_until(needle, |shell| since(shell).contains(needle));
            self.shell.type_keys("\x1c");
        }
        let end = Regex::new(r"@@(\d+)@@$").expect("a good pattern");
        self.shell.wait_until(line, |shell| end.is_match(&since(shell)));
        let text = since(&self.shell);
        let code = end.captures(&text).and_then(|found| found[1].parse().ok()).expect("an exit code");
        (self.lines(&end.replace(&text, "")), code)
    }

    /// Text that a terminal was sent, as lines in the words of the page.
    fn lines(&self, sent: &str) -> Vec<String> {
        // A line that was painted anew counts as it was painted last.
        let painted = Regex::new(r"(?m)^.*(\r|\x1b\[K)([^\r\n])").expect("a good pattern");
        let controls =
            Regex::new(r"\x1b(\[[0-?]*[ -/]*[@-~]|[\]P][^\x07\x1b]*(\x07|\x1b\\)|[ -/]*[0-~])|[\r\x0e\x0f]")
                .expect("a good pattern");
        let text = sent.replace("\r\n", "\n");
        let text = painted.replace_all(&text, "$2");
        let mut text = controls.replace_all(&text, "").into_owned();
        for (asked, told, answer) in SAYS {
            text = text.replace(&format!("ECHO: {told}"), answer).replace(told, asked);
        }
        for (port, used) in &self.ports {
            text = text
                .replace(&format!(":{used}"), &format!(":{port}"))
                .replace(&format!(" {used}"), &format!(" {port}"));
        }
        let home: PathBuf = self.lab.dir().join("ada");
        text = text.replace(&home.display().to_string(), HOME);
        text = text.replace(&self.lab.home().display().to_string(), STATE);
        text.lines().map(str::to_owned).collect()
    }

    /// The page's command as it is typed here.
    fn command(&self, step: &TutorialCommand) -> String {
        let mut command = step.command.clone();
        for (asked, told, _) in SAYS {
            command = command.replace(asked, told);
        }
        for (port, used) in &self.ports {
            command = command.replace(port, used);
        }
        command
    }

    /// Does a step; returns the difference to the page as an error.
    fn follow(&mut self, step: &TutorialCommand) -> Result<(), String> {
        let command = self.command(step);
        if command.starts_with("berth serve") {
            return self.serve(step, &command);
        }
        let begins = |begin: &&str| step.command.starts_with(*begin);
        let leaves_at = INTERACTIVE.iter().find(|(begin, _)| begins(begin)).map(|(_, needle)| *needle);
        let is_look = LOOKS.iter().any(begins);
        let until = Instant::now() + PATIENCE;
        loop {
            let (output, code) = self.typed(&command, leaves_at);
            let judged = judge(step, &output, leaves_at.is_some());
            let judged = judged.and(if code == 0 {
                Ok(())
            } else {
                Err(format!("it ended with {code}: {output:#?}"))
            });
            if judged.is_ok() || !is_look || Instant::now() > until {
                return judged;
            }
        }
    }

    /// Starts the gateway in a second terminal.
    fn serve(&mut self, step: &TutorialCommand, command: &str) -> Result<(), String> {
        let script = format!("{}; exec {command}", self.surroundings());
        let mut gateway =
            self.lab.terminal_running_of_size(Path::new("/bin/bash"), ["-c", &script], 50, COLUMNS);
        gateway.wait_until("all addresses", |gateway| {
            String::from_utf8_lossy(&gateway.raw).matches('\n').count() >= step.output.len()
        });
        let output = self.lines(&String::from_utf8_lossy(&gateway.raw));
        self.gateway = Some(gateway);
        judge(step, &output, false)
    }
}

/// Compares the output of a step with the page. Of a command that had the terminal for itself, only the
/// last output is compared.
fn judge(step: &TutorialCommand, output: &[String], had_the_terminal: bool) -> Result<(), String> {
    let mask = |lines: &[String]| -> Vec<String> {
        lines.iter().map(|line| masked(line)).filter(|line| !line.is_empty()).collect()
    };
    let (expected, printed) = (mask(&step.output), mask(output));
    let from = if had_the_terminal { printed.len().saturating_sub(expected.len()) } else { 0 };
    if printed[from..] == expected[..] {
        return Ok(());
    }
    Err(format!("the page says {expected:#?}\nit printed {printed:#?}"))
}

#[test]
fn every_command_of_the_tutorial_prints_what_the_tutorial_says() {
    let steps = steps(PAGE);
    assert!(steps.len() > 25, "the page has lost its commands: {steps:?}");
    let mut reader = TutorialReader::new();
    for step in &steps {
        if let Err(wrong) = reader.follow(step) {
            panic!("docs/tutorial.md: $ {}\n{wrong}", step.command);
        }
    }
    let mut gateway = reader.gateway.take().expect("the page starts the gateway");
    gateway.type_keys("\x03");
    assert_eq!(gateway.wait_exit(), 0, "Ctrl-C ends the gateway: {}", gateway.text());
    reader.shell.type_keys("exit\n");
    assert_eq!(reader.shell.wait_exit(), 0);
}

#[test]
fn a_page_is_read_as_commands_with_their_output() {
    let page = "text\n```sh\n$ not this\n```\n```console\n$ one\na\n\nb\n$ two\n```\n$ nor this\n";
    let step = |command: &str, output: &[&str]| TutorialCommand {
        command: command.to_owned(),
        output: output.iter().map(|line| (*line).to_owned()).collect(),
    };
    assert_eq!(steps(page), [step("one", &["a", "", "b"]), step("two", &[])]);
}

#[test]
fn masks_hide_the_differences_between_runs_and_nothing_else() {
    assert_eq!(masked("fix   t5k9sx22q0ne  lost  20s  now"), masked("fix jvkc28bwq2ry lost 134ms 1s"));
    assert_ne!(masked("fix   t5k9sx22q0ne  lost"), masked("fix   t5k9sx22q0ne  stopped"));
    assert_eq!(masked("2026-11-18T20:20:21.130Z kept by pid 30357"), "TIME kept by pid N");
}
