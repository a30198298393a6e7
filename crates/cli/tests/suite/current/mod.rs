//! The current session of a terminal, consent, replacements, and scripts that have none of it.
//!
//! Real terminals with a real shell in them: a current session belongs to a shell's terminal, and two commands
//! share it only there.

mod consent;
mod flag;
mod replace;
mod resolution;
mod scripts;
mod terminals;

use std::path::PathBuf;

use berth_harness::{CommandOutput, TestEnvironment, TestTerminal};

fn lab() -> TestEnvironment {
    TestEnvironment::new(env!("CARGO_BIN_EXE_berth"))
}

/// Puts the fake agent that takes turns into the config file, with more flags.
fn agent(lab: &TestEnvironment, name: &str, flags: &[&str]) {
    let program = lab.agent();
    let command: Vec<&str> = [program.as_str(), "acp"].into_iter().chain(flags.iter().copied()).collect();
    let known = std::fs::read_to_string(lab.config()).unwrap_or_default();
    let more = format!("[agents.{name}]\ndriver = \"acp\"\ncommand = {command:?}\n");
    std::fs::write(lab.config(), known + &more).expect("a config file");
}

/// The records of current sessions.
fn records(lab: &TestEnvironment) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(lab.home().join("terminals")).into_iter().flatten();
    entries.map(|entry| entry.expect("an entry").path()).collect()
}

/// A shell at a terminal of its own.
struct TerminalShell {
    terminal: TestTerminal,
    dir: PathBuf,
    count: u32,
}

impl TerminalShell {
    fn new(lab: &TestEnvironment) -> Self {
        // Keys are not echoed, so that all text on the screen is output.
        let script = format!(
            r#"stty -echo; berth() {{ {} "$@"; }}; echo ready; while IFS= read -r line; do eval "$line"; done"#,
            env!("CARGO_BIN_EXE_berth")
        );
        let mut terminal = lab.terminal_running("/bin/sh".as_ref(), ["-c", &script]);
        terminal.wait_for("ready");
        let dir = lab.dir().join(format!("shell-{}", terminal.identity().pid));
        std::fs::create_dir(&dir).expect("a directory for what is said");
        Self { terminal, dir, count: 0 }
    }

    /// Runs a line of shell with its output in files. Standard input is the terminal.
    fn run(&mut self, line: &str) -> CommandOutput {
        let (out, err) = (self.dir.join("out"), self.dir.join("err"));
        let line = format!("{{ {line}\n}} >{} 2>{}", out.display(), err.display());
        // The loop reads a line at a time.
        let code = self.seen(&line.replace('\n', ";"));
        let read = |path| std::fs::read_to_string(path).expect("the shell wrote it");
        CommandOutput { code, out: read(out), err: read(err) }
    }

    /// Like [`Self::run`] for a line that must succeed; returns its standard output without the last line end.
    fn ok(&mut self, line: &str) -> String {
        let said = self.run(line);
        assert_eq!(said.code, 0, "{line}: {said:?}");
        said.out.trim_end_matches('\n').to_owned()
    }

    /// The id of the current session of the terminal; `before` is put in front of the command.
    fn current(&mut self, before: &str) -> String {
        let said = self.ok(&format!("{before} berth use --json"));
        let said: serde_json::Value = serde_json::from_str(&said).expect("JSON");
        said["session"].as_str().expect("a session").to_owned()
    }

    /// Runs a line of shell with everything on the terminal; its code.
    fn seen(&mut self, line: &str) -> i32 {
        let mark = self.begin(line);
        self.finish(&mark)
    }

    /// Types a line of shell, and goes on.
    fn begin(&mut self, line: &str) -> String {
        self.count += 1;
        let mark = format!("over-{}:", self.count);
        self.terminal.type_keys(&format!("{line}; echo \"{mark}$?.\"\n"));
        mark
    }

    /// Waits for the end of the line that was begun.
    fn finish(&mut self, mark: &str) -> i32 {
        let code = |text: &str| {
            let (_, rest) = text.rsplit_once(mark)?;
            rest.split_once('.')?.0.parse::<i32>().ok()
        };
        self.terminal.wait_until(mark, |terminal| code(&terminal.text()).is_some());
        code(&self.terminal.text()).expect("it was there just now")
    }
}
