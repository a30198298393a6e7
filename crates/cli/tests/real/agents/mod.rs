//! berth with the real agents: Claude Code, Codex and their ACP adapters, as they are installed,
//! against the fake model.
//!
//! Promise: everything goes through the binary, as a user or a script would do it (only `interface` also asks a keeper
//! for the screen it has); transcripts of the agents are read by the harness, which shares no code with berth; nothing
//! of the user's is used and nothing is left.
//! Not here: the agents without berth (`testing/fake-model/tests/real/`).
//! Start with [`AgentKindFixture`], then `turns`.
//!
//! `BERTH_SEED=N` repeats a race, `BERTH_ROUNDS=N` races that often.

mod crashes;
mod first_sends;
mod foreign;
mod history;
mod idle;
mod interface;
mod nested;
mod resumes;
mod secrets;
mod turns;

use std::ops::Deref;
use std::path::PathBuf;
use std::process::Command;

use berth_harness::{CommandOutput, ParsedTranscript, RealAgentFixture, ended, wait_until};
use berth_host::identity::ProcessIdentity;
use serde_json::Value;

/// An agent, as `--agent` names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum RealAgentKind {
    Claude,
    Codex,
    ClaudeAcp,
    CodexAcp,
}

impl RealAgentKind {
    fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::ClaudeAcp => "claude-acp",
            Self::CodexAcp => "codex-acp",
        }
    }

    /// True if Claude Code writes the conversation; else Codex does.
    fn is_claude(self) -> bool {
        match self {
            Self::Claude | Self::ClaudeAcp => true,
            Self::Codex | Self::CodexAcp => false,
        }
    }
}

/// A test for each kind, or for each of some, in a module that is called after the rule.
macro_rules! for_kinds {
    ($rule:ident: $($kind:ident),+) => {
        mod $rule {
            $(#[test]
            #[expect(non_snake_case, reason = "called as the kind is")]
            fn $kind() {
                super::$rule(crate::agents::RealAgentKind::$kind);
            })+
        }
    };
    ($rule:ident) => {
        crate::agents::for_kinds!($rule: Claude, Codex, ClaudeAcp, CodexAcp);
    };
}
pub(crate) use for_kinds;

/// The actions that an agent may take without asking.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum CommandTrust {
    /// Run commands without asking.
    Commands,
    /// Nothing: each command is asked for.
    Nothing,
}

/// Real agents, and the kind a test is about.
struct AgentKindFixture {
    base: RealAgentFixture,
    kind: RealAgentKind,
}

impl Deref for AgentKindFixture {
    type Target = RealAgentFixture;

    fn deref(&self) -> &RealAgentFixture {
        &self.base
    }
}

impl AgentKindFixture {
    /// A world whose agents may run commands.
    fn new(kind: RealAgentKind) -> Self {
        Self::with(kind, CommandTrust::Commands)
    }

    fn with(kind: RealAgentKind, trust: CommandTrust) -> Self {
        let base = RealAgentFixture::new(env!("CARGO_BIN_EXE_berth"));
        match trust {
            CommandTrust::Commands => {
                base.agents.allow_claude(&["Bash"]);
                base.agents.set_codex_policy("never", "danger-full-access");
            }
            CommandTrust::Nothing => {
                base.agents.allow_claude(&[]);
                base.agents.set_codex_policy("on-request", "read-only");
            }
        }
        Self { base, kind }
    }

    /// A new session with this world's agent; its id.
    fn run(&self, options: &[&str]) -> String {
        self.ok(&[&["run", "-d", "--agent", self.kind.name()], options].concat())
    }

    /// Sends and waits; the exit code and the turn.
    fn send(&self, session: &str, text: &str) -> (i32, Value) {
        let said = self.berth(&["send", session, "--wait", "--json", "--", text]);
        let turn = serde_json::from_str(&said.out)
            .unwrap_or_else(|error| panic!("{text}: not a turn ({error}): {said:?}"));
        (said.code, turn)
    }

    /// Sends a prompt that is answered with an echo.
    fn echoed(&self, session: &str, text: &str) {
        let (code, turn) = self.send(session, text);
        assert_eq!(
            (code, &turn["state"], &turn["answer"]),
            (0, &"done".into(), &format!("ECHO: {text}").into()),
            "{turn}"
        );
    }

    /// Sends and does not wait; the turn's id.
    fn begin(&self, session: &str, text: &str) -> String {
        self.ok(&["send", session, "--", text])
    }

    fn turn(&self, turn: &str) -> Value {
        self.json(&["turn", turn, "--json"])
    }

    /// Waits for a turn's end; its exit code.
    fn wait(&self, turn: &str) -> i32 {
        self.berth(&["wait", turn, "--timeout", "60s"]).code
    }

    fn show(&self, session: &str) -> Value {
        self.json(&["show", session, "--json"])
    }

    /// Waits until the agent of a session with `--idle` was released, and the session is only a record.
    fn released(&self, session: &str) {
        // An agent that takes its time to leave is ended, and has that code.
        let waited = self.berth(&["wait", session, "--for", "exit", "--timeout", "60s"]);
        assert!(matches!(waited.code, 0 | 143), "{waited:?}");
        wait_until("the keeper to leave", || self.show(session)["keeper_pid"].is_null());
        assert_eq!(self.show(session)["state"], "idle");
    }

    /// The states of all turns, in order.
    fn states(&self, session: &str) -> Vec<String> {
        let turns = self.json(&["turns", session, "--json"]);
        let all = turns.as_array().unwrap_or_else(|| panic!("no array: {turns}"));
        all.iter().map(|turn| turn["state"].as_str().unwrap_or_default().to_owned()).collect()
    }

    fn prompts(&self) -> Vec<String> {
        self.agents.model().prompts()
    }

    fn transcripts(&self) -> Vec<ParsedTranscript> {
        if self.kind.is_claude() { self.agents.claude_transcripts() } else { self.agents.codex_transcripts() }
    }

    /// The one transcript there is: it is this session's, and one line.
    fn one_transcript(&self, session: &str) -> ParsedTranscript {
        let mut all = self.transcripts();
        assert_eq!(all.len(), 1, "{:?}", all.iter().map(|one| &one.path).collect::<Vec<_>>());
        let one = all.remove(0);
        assert_eq!(self.show(session)["conversation_id"], one.id.as_str());
        one.no_fork().unwrap_or_else(|fault| panic!("{fault}"));
        one
    }

    /// A command that writes down its process and does not end by itself.
    fn endless(&self) -> EndlessTool {
        let (script, pids) = (self.agents.work().join("endless"), self.agents.work().join("pids"));
        let text = format!(
            "echo $$ $(readlink /proc/self/ns/pid) >>'{}'\nwhile :; do read -r x <>'{}'; done\n",
            pids.display(),
            self.fifo()
        );
        std::fs::write(&script, text).expect("a script");
        EndlessTool { command: format!("sh {}", script.display()), pids }
    }

    /// A named pipe without a writer.
    fn fifo(&self) -> String {
        let fifo = self.agents.work().join("fifo");
        let made = Command::new("mkfifo").arg(&fifo).status().expect("mkfifo can be started");
        assert!(made.success());
        fifo.display().to_string()
    }
}

/// A tool that runs until it is ended.
struct EndlessTool {
    command: String,
    pids: PathBuf,
}

impl EndlessTool {
    /// Waits until it runs for the `count`th time; returns its process. `None` in a sandbox, where
    /// that cannot be known.
    fn process(&self, count: usize) -> Option<ProcessIdentity> {
        let read = || std::fs::read_to_string(&self.pids).unwrap_or_default();
        wait_until("the tool to run", || read().lines().count() >= count && read().ends_with('\n'));
        let read = read();
        let (pid, space) = read.lines().nth(count - 1).and_then(|line| line.split_once(' ')).expect("a pid");
        let ours = std::fs::read_link("/proc/self/ns/pid").expect("our own");
        let pid = pid.parse().expect("a pid");
        let identity = || {
            ProcessIdentity::of(pid).unwrap_or_else(|error| panic!("the tool {pid} is not there: {error}"))
        };
        (ours.as_os_str() == space).then(identity)
    }
}

/// The turn that `--wait --json` printed.
fn turn_of(said: &CommandOutput) -> Value {
    serde_json::from_str(&said.out).unwrap_or_else(|error| panic!("not a turn ({error}): {said:?}"))
}
