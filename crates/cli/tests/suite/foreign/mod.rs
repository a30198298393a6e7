//! Conversations had without berth, from the outside: files as Claude Code and Codex write them, in directories of a
//! test's own, and processes that have them open.
//!
//! With the real agents: `tests/real/agents/foreign.rs`. Start with [`ForeignFixture`].

mod adopting;
mod api;
mod importing;
mod lists;
mod sweeping;
mod transcripts;

use std::fs;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use berth_harness::{CommandOutput, ProcessKillGuard, TestEnvironment, said};
use berth_host::identity::ProcessIdentity;
use serde_json::{Value, json};

/// A state directory, and an account of agents beside it.
struct ForeignFixture {
    lab: TestEnvironment,
}

impl ForeignFixture {
    fn new() -> Self {
        let lab = TestEnvironment::new(env!("CARGO_BIN_EXE_berth"));
        let world = Self { lab };
        for dir in [world.account("claude"), world.account("codex"), world.work("project")] {
            fs::create_dir_all(dir).expect("a directory");
        }
        // The interface of an agent that stays until it is ended.
        let agent = world.lab.agent();
        let config = format!("[agents.claude]\ntui = [{agent:?}]\nresume_tui = [\"say:{{id}}\", \"echo\"]\n");
        fs::write(world.lab.config(), config).expect("a config");
        world
    }

    /// Where an agent keeps everything.
    fn account(&self, kind: &str) -> PathBuf {
        self.lab.dir().join(format!("account-{kind}"))
    }

    fn work(&self, name: &str) -> PathBuf {
        fs::canonicalize(self.lab.dir()).expect("the lab").join(name)
    }

    /// Where this account's agents look.
    fn env(&self) -> Vec<(&'static str, PathBuf)> {
        vec![
            ("HOME", self.lab.dir().to_owned()),
            ("CLAUDE_CONFIG_DIR", self.account("claude")),
            ("CODEX_HOME", self.account("codex")),
        ]
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.lab.command(args);
        command.envs(self.env()).current_dir(self.work("project"));
        command
    }

    fn berth(&self, args: &[&str]) -> CommandOutput {
        said(self.command(args).output().expect("berth can be started"))
    }

    fn ok(&self, args: &[&str]) -> String {
        let said = self.berth(args);
        assert_eq!(said.code, 0, "{args:?}: {said:?}");
        said.out.trim_end_matches('\n').to_owned()
    }

    fn json(&self, args: &[&str]) -> Value {
        let out = self.ok(args);
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("not JSON ({error}): {out}"))
    }

    fn spawn(&self, args: &[&str]) -> Child {
        let mut command = self.command(args);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("berth can be started")
    }

    /// A conversation of Claude Code, as old as this says; its file.
    fn claude(&self, id: &str, words: &str, hours_ago: u64) -> PathBuf {
        let at = |minutes: u64| {
            let now = jiff::Timestamp::now() - std::time::Duration::from_secs(hours_ago * 3600);
            format!("{:.3}", now + std::time::Duration::from_secs(minutes * 60))
        };
        let common =
            json!({"cwd": self.work("project"), "sessionId": id, "version": "2.1.325", "gitBranch": "main"});
        let record = |more: Value| {
            let mut all = common.clone();
            let all = all.as_object_mut().expect("an object");
            all.extend(more.as_object().expect("an object").clone());
            serde_json::to_string(all).expect("plain data")
        };
        let answer = json!([{"type": "text", "text": format!("the answer to {words}")}]);
        let lines = [
            record(json!({"type": "user", "uuid": "u1", "parentUuid": null, "timestamp": at(0),
                "message": {"role": "user", "content": words}})),
            record(json!({"type": "assistant", "uuid": "a1", "parentUuid": "u1", "timestamp": at(1),
                "message": {"role": "assistant", "model": "m", "content": answer}})),
        ];
        let dir = self.account("claude").join("projects/-project");
        fs::create_dir_all(&dir).expect("a directory");
        let file = dir.join(format!("{id}.jsonl"));
        fs::write(&file, lines.join("\n") + "\n").expect("a file");
        let modified = std::time::SystemTime::now() - std::time::Duration::from_secs(hours_ago * 3600);
        fs::File::options()
            .append(true)
            .open(&file)
            .and_then(|file| file.set_modified(modified))
            .expect("a time");
        file
    }

    /// A process that Claude Code's own list says has a conversation open. It ends when it is asked to.
    fn open(&self, id: &str) -> ConversationProcess {
        let child = Command::new("sleep").arg("1000").spawn().expect("sleep can be started");
        let identity = ProcessIdentity::of(child.id()).expect("it runs");
        let dir = self.account("claude").join("sessions");
        fs::create_dir_all(&dir).expect("a directory");
        let entry =
            json!({"pid": identity.pid, "sessionId": id, "procStart": identity.start_ticks.to_string()});
        fs::write(dir.join(format!("{}.json", identity.pid)), entry.to_string()).expect("an entry");
        ConversationProcess { child: ProcessKillGuard::new(child), identity }
    }

    /// A process under an agent's name that did this, and stays until it is ended.
    fn shell(&self, name: &str, script: &str) -> ConversationProcess {
        let program = self.lab.dir().join(name);
        let _ = std::os::unix::fs::symlink("/bin/sh", &program);
        let mut command = Command::new(&program);
        let script = format!("export CLAUDE_PID=$$; {script}; echo ready; read end");
        command.args(["-c", &script]).envs(self.env()).current_dir(self.work("project"));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a shell");
        let mut ready = [0; 6];
        child.stdout.as_mut().expect("a pipe").read_exact(&mut ready).expect("its word");
        let identity = ProcessIdentity::of(child.id()).expect("it runs");
        ConversationProcess { child: ProcessKillGuard::new(child), identity }
    }

    fn sessions(&self) -> Vec<String> {
        self.ok(&["ls", "--all", "--ids"]).lines().map(str::to_owned).collect()
    }
}

/// A process that has a conversation open.
struct ConversationProcess {
    child: ProcessKillGuard,
    identity: ProcessIdentity,
}

impl ConversationProcess {
    fn pid(&self) -> u32 {
        self.identity.pid
    }

    /// True if the process ended; collects it then.
    fn is_gone(&mut self) -> bool {
        self.child.try_wait().expect("our own child").is_some()
    }
}

/// An id that is made of one digit.
fn id(digit: char) -> String {
    "11111111-1111-4111-8111-111111111111".replace('1', &digit.to_string())
}

fn ids(list: &Value) -> Vec<&str> {
    let all = list.as_array().unwrap_or_else(|| panic!("no array: {list}"));
    all.iter().map(|one| one["conversation_id"].as_str().expect("an id")).collect()
}
