//! The world an example finds: the sessions it names in the state it is about, and programs that stand in.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use berth_harness::{CommandOutput, TestEnvironment, said, wait_until};

use crate::examples::{BERTH, HelpExample};

/// A transcript of Claude Code's with nothing wrong in it.
const TALK: &str = concat!(
    r#"{"parentUuid":null,"type":"user","message":{"role":"user","content":"hello"},"uuid":"bad3320e-53b7-4a33-b620-df7de5754b14","timestamp":"2026-11-16T09:07:33.257Z","sessionId":"b78f8738-98d5-4dcf-a09b-dfd7810f05ea"}"#,
    "\n"
);

/// More than any example takes.
const PATIENCE: &str = "60";

/// The kind of session that `fix` is, which most examples are about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum FixSessionState {
    /// A terminal in which a program waits for input.
    Terminal,
    /// An agent that has nothing to do, and three turns behind it.
    Idle,
    /// An agent that has something to do, with turns that wait.
    Busy,
    /// An agent that asks something.
    Asking,
    /// A session that was stopped.
    Stopped,
    /// A session that was stopped and archived.
    Archived,
}

impl FixSessionState {
    fn of(example: &HelpExample) -> Self {
        let is_ending = example.line.contains("--stop");
        match example.verb.split(' ').next().unwrap_or_default() {
            "attach" | "input" | "screen" | "output" | "use" | "why" | "ps" | "stop" | "helper" => {
                Self::Terminal
            }
            "queue" | "cancel" => Self::Busy,
            "answer" => Self::Asking,
            "archive" if !is_ending => Self::Stopped,
            "purge" => Self::Stopped,
            "restore" => Self::Archived,
            _ => Self::Idle,
        }
    }
}

pub(crate) struct HelpExampleFixture<'e> {
    lab: TestEnvironment,
    example: &'e HelpExample,
    line: String,
}

impl<'e> HelpExampleFixture<'e> {
    /// Makes the world that the example is about.
    pub(crate) fn new(example: &'e HelpExample) -> Self {
        let lab = TestEnvironment::new(BERTH);
        let mut world = Self { lab, example, line: example.line.clone() };
        world.programs();
        world.config();
        // Another process may listen on the well-known port.
        let port = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
        let port = port.expect("a free port").port().to_string();
        world.line = world.line.replace("3000", &port);
        fs::write(world.here().join("port"), &port).expect("a file");
        world.sessions();
        world
    }

    /// Runs the line as a user would who types it.
    pub(crate) fn run(&self) -> CommandOutput {
        match (self.example.verb.as_str(), self.line.as_str()) {
            ("attach", line) if line.contains("ctrl-b") => self.at_a_terminal(line, Some(("ready", "\x02"))),
            ("attach", line) => self.at_a_terminal(line, Some(("ready", "\x1c"))),
            ("use", line) if line.starts_with("berth use fix") => self.at_a_terminal(line, None),
            ("use", line) => self.at_a_terminal(&format!("berth use fix && {line}"), None),
            ("run", line) if line.contains("--replace") => self.at_a_terminal(line, Some(("[y/N]", "y\r"))),
            ("purge", line) if !line.contains("--yes") && !line.contains("--dry-run") => {
                self.at_a_terminal(line, Some(("[y/N]", "y\r")))
            }
            // The current session, which the line does not name.
            ("stop", "berth stop") => {
                self.at_a_terminal("berth use fix && berth stop", Some(("[y/N]", "y\r")))
            }
            (_, line) => said(self.shell(line).output().expect("bash can be started")),
        }
    }

    /// Runs the line at a terminal, and types the answer `(question, keys)` when the question appears.
    fn at_a_terminal(&self, line: &str, answer: Option<(&str, &str)>) -> CommandOutput {
        let script = format!("cd {}; export PATH={}; {line}", self.here().display(), self.path());
        let mut terminal = self.lab.terminal_running(Path::new("/bin/bash"), ["-c", &script]);
        if let Some((question, keys)) = answer {
            terminal.wait_for(question);
            terminal.type_keys(keys);
        }
        let code = terminal.wait_exit();
        CommandOutput { code, out: terminal.text(), err: String::new() }
    }

    /// A shell in this world, with a limit.
    fn shell(&self, line: &str) -> Command {
        let blank = self.lab.command(["--version"]);
        let mut command = Command::new("timeout");
        command.args(["-s", "KILL", PATIENCE, "bash", "-c", line]).current_dir(self.here());
        for (name, value) in blank.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let home = self.lab.dir().join("person");
        command
            .env("HOME", &home)
            .env("PATH", self.path())
            .env("JOB", "42")
            .stdin(std::process::Stdio::null());
        command.env_remove("XDG_CONFIG_HOME").env_remove("XDG_STATE_HOME");
        command.env_remove("CLAUDE_CONFIG_DIR").env_remove("CODEX_HOME");
        if self.example.verb.starts_with("helper") {
            command.env("BERTH_SESSION", "fix");
        }
        if self.example.verb.starts_with("notify") {
            // The stand-in for notify-send does not look at this address.
            command.env("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nowhere");
        }
        command
    }

    fn here(&self) -> PathBuf {
        self.lab.dir().join("here")
    }

    fn path(&self) -> String {
        format!("{}:/usr/local/bin:/usr/bin:/bin", self.lab.dir().join("bin").display())
    }

    fn programs(&self) {
        let bin = self.lab.dir().join("bin");
        for dir in [&bin, &self.here(), &self.lab.dir().join("person"), &self.lab.dir().join("store")] {
            fs::create_dir_all(dir).expect("a directory");
        }
        std::os::unix::fs::symlink(BERTH, bin.join("berth")).expect("a link");
        let agent = self.lab.agent();
        let listens = format!("exec {agent} listen-tcp:$(cat {}/port) hang", self.here().display());
        for (name, script) in [
            ("claude", "echo at your service"),
            ("codex", "echo at your service"),
            ("cargo", "echo 'test result: ok'"),
            ("npm", listens.as_str()),
            ("man", "cat > /dev/null"),
            ("less", "cat"),
            ("systemctl", "exit 0"),
            ("asciinema", "exit 0"),
            ("notify-send", "exit 0"),
        ] {
            program(&bin.join(name), script);
        }
        if Command::new("jq").arg("--version").output().is_err() {
            program(&bin.join("jq"), "cat");
        }
        program(&self.here().join("job.sh"), "echo done");
        self.conversation();
        program(&self.here().join("broker"), &format!("exec {agent} listen-unix:broker.sock hang"));
        program(&self.here().join("browser"), &format!("exec {agent} 'say:listening on 1\\n' hang"));
        fs::create_dir(self.here().join("notes")).expect("a directory");
        fs::write(self.here().join("talk.jsonl"), TALK).expect("a transcript");
        if self.line.starts_with("git ") {
            self.prepared(
                "git init -q . && echo old > file && git add file && \
                 git -c user.name=me -c user.email=me@localhost commit -qm 'mend the login' && echo new > file",
            );
        }
    }

    /// A conversation that was had without berth.
    fn conversation(&self) {
        let dir = self.lab.dir().join("person/.claude/projects/-here");
        fs::create_dir_all(&dir).expect("a directory");
        let here = self.here().display().to_string();
        let record = format!(
            r#"{{"parentUuid":null,"isSidechain":false,"sessionId":"1b4e28ba-2fa1-4d3b-a3f5-ef19b5a7633b","type":"user","uuid":"53709c38-0000-4000-8000-000000000001","cwd":"{here}","version":"2.1.325","timestamp":"2026-11-16T08:00:00.000Z","message":{{"role":"user","content":"mend the login"}}}}"#
        );
        let file = dir.join("1b4e28ba-2fa1-4d3b-a3f5-ef19b5a7633b.jsonl");
        fs::write(file, record + "\n").expect("a file");
    }

    /// The agents that are named are the fake one, and speak as it does.
    fn config(&self) {
        let (agent, store) = (self.lab.agent(), self.lab.dir().join("store"));
        let entry = |name: &str| {
            format!(
                "[agents.{name}]\ndriver = \"acp\"\ncommand = [{agent:?}, \"acp\", \"--store\", {store:?}]\n\
                 conversation_kind = \"fake\"\ntui = [\"{name}\"]\nresume_tui = []\nbegin_tui = []\n"
            )
        };
        let mut text = entry("claude") + &entry("codex");
        if self.example.verb.starts_with("notify") {
            text += &format!("[notify]\ndesktop = true\n[notify.webhook]\nurl = \"{}\"\n", hears());
        }
        fs::write(self.lab.config(), text).expect("a config file");
    }

    /// Makes the sessions that the line names, unless it makes them itself.
    fn sessions(&mut self) {
        if self.example.verb == "run" {
            if self.line.contains("--replace") {
                self.fix(FixSessionState::Terminal);
            }
            return;
        }
        let line = self.line.clone();
        let names = |name: &str| {
            let is_end = |c: Option<char>| c.is_none_or(|c| !c.is_ascii_alphanumeric() && !"-_/".contains(c));
            line.match_indices(name).any(|(at, _)| {
                is_end(line[..at].chars().next_back()) && is_end(line[at + name.len()..].chars().next())
            })
        };
        let agent = self.lab.agent();
        if names("tests") {
            let run =
                ["run", "-q", "--name", "tests", "--", &agent, "say:no error\\ntest result: ok\\n", "exit:0"];
            self.lab.ok(run);
        }
        if names("old") || self.line.contains("--last") {
            // The session fails once, so that there is something left to do.
            let mark = self.lab.dir().join("again").display().to_string();
            let script = format!("test -e '{mark}' || {{ touch '{mark}'; exit 1; }}");
            let failed = self.lab.berth(["run", "-q", "--name", "old", "--", "sh", "-c", &script]);
            assert_eq!(failed.code, 1, "{failed:?}");
        }
        if names("other") {
            self.lab.ok(["run", "-d", "--name", "other", "--", &agent, "hang"]);
        }
        if names("review") {
            self.lab.ok(["run", "-d", "--agent", "claude", "--name", "review"]);
        }
        if self.line.contains("token revoke") {
            self.prepared("berth token new --scope read --name grafana");
        }
        let is_of_helpers = self.example.verb.starts_with("helper");
        if names("fix")
            || names("fix.1")
            || names("fix.3")
            || is_of_helpers
            || matches!(self.example.verb.as_str(), "use" | "stop" | "grep")
        {
            self.fix(FixSessionState::of(self.example));
        }
        if is_of_helpers
            && self.example.verb != "helper ensure"
            && names("web")
            && !self.line.contains("ensure")
        {
            self.prepared("berth helper ensure web --owner fix -- $AGENT hang");
        }
        if self.line.contains("--port") {
            self.prepared(
                "berth run -d -- npm run dev && until berth ps --port $(cat port) >/dev/null; do :; done",
            );
        }
        if self.line.contains("4711") {
            self.fix(FixSessionState::Terminal);
            self.line = self.line.replace("4711", &self.lab.number("fix", "pid").to_string());
        }
        // A session that never ends by itself would be followed for ever.
        if self.line.contains("--follow") {
            self.prepared("berth helper stop -q web || true; berth stop -q fix || true");
        }
    }

    fn fix(&mut self, fix: FixSessionState) {
        let agent = self.lab.agent();
        if fix == FixSessionState::Terminal {
            self.lab.ok(["run", "-d", "--name", "fix", "--", &agent, "say:ready\\n", "echo"]);
            self.lab.wait_output("fix", "ready");
            return;
        }
        self.lab.ok(["run", "-d", "--agent", "claude", "--name", "fix"]);
        match fix {
            FixSessionState::Terminal => unreachable!("has no turns"),
            FixSessionState::Idle | FixSessionState::Stopped | FixSessionState::Archived => {
                for prompt in ["todo: connection refused", "panicked at a timeout", "what is in $HOME?"] {
                    self.lab.ok(["send", "-q", "fix", "--wait", prompt]);
                }
            }
            FixSessionState::Busy => {
                let gate = format!("wait-file:{}", self.lab.dir().join("gate").display());
                for _ in 1..=7 {
                    self.lab.ok(["send", "-q", "fix", &gate]);
                }
            }
            FixSessionState::Asking => {
                self.lab.ok(["send", "-q", "fix", "ask:Bash:rm -rf target"]);
                self.lab.ok(["wait", "fix", "--for", "needs-you", "--timeout", "60s"]);
                let asked = self.lab.show("fix")["turns"]["asks"][0]["request"].clone();
                self.line = self.line.replace("toolu_01", asked.as_str().expect("the name of a question"));
            }
        }
        if matches!(fix, FixSessionState::Stopped | FixSessionState::Archived) {
            self.lab.ok(["stop", "-q", "fix"]);
            wait_until("its keeper to leave", || self.lab.show("fix")["keeper_pid"].is_null());
        }
        if fix == FixSessionState::Archived {
            self.lab.ok(["archive", "-q", "fix"]);
        }
    }

    fn prepared(&self, line: &str) {
        let told =
            said(self.shell(line).env("AGENT", self.lab.agent()).output().expect("bash can be started"));
        assert_eq!(told.code, 0, "{line}: {told:?}");
    }
}

/// The address of a server that takes every request that is posted to it.
fn hears() -> String {
    let socket = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = socket.local_addr().expect("our own socket");
    std::thread::spawn(move || {
        for caller in socket.incoming().flatten() {
            let mut lines = BufReader::new(&caller).lines().map_while(Result::ok);
            if lines.any(|line| line.is_empty()) {
                let _ = (&caller).write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
            }
        }
    });
    format!("http://{address}/")
}

pub(crate) fn program(file: &Path, script: &str) {
    fs::write(file, format!("#!/bin/sh\n{script}\n")).expect("a script");
    fs::set_permissions(file, fs::Permissions::from_mode(0o755)).expect("our own file");
}
