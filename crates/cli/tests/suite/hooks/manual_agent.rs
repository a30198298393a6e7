//! An agent that a user opened by hand: a process called `claude` that calls its hooks when it is told to.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use berth_harness::TestEnvironment;
use serde_json::{Value, json};

/// The conversation most tests are about.
pub(crate) const ID: &str = "11111111-2222-4333-8444-555555555555";

/// Runs each hook as Claude Code does: by a shell, with the event on its standard input.
const SCRIPT: &str = r#"export CLAUDE_PID=$$
while read -r event; do
  sh -c "$HOOK" < "$event" > "$event.out" 2> "$event.err"
  echo $?
done"#;

/// The answer of a hook.
#[derive(Debug)]
pub(crate) struct HookOutput {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl HookOutput {
    /// Asserts that the hook printed nothing and succeeded.
    #[track_caller]
    pub(crate) fn is_quiet(&self) {
        assert_eq!((self.code, self.out.as_str(), self.err.as_str()), (0, "", ""));
    }

    /// The reason why the prompt is held back.
    #[track_caller]
    pub(crate) fn reason(&self) -> String {
        let said = self.json();
        assert_eq!((self.code, &said["decision"]), (0, &Value::from("block")), "{self:?}");
        said["reason"].as_str().expect("a reason").to_owned()
    }

    /// The warning that the user sees while the agent goes on.
    #[track_caller]
    pub(crate) fn warning(&self) -> String {
        let said = self.json();
        assert_eq!((self.code, said.get("decision")), (0, None), "{self:?}");
        said["systemMessage"].as_str().expect("a message").to_owned()
    }

    #[track_caller]
    fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

pub(crate) struct HandOpenedAgent {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    dir: PathBuf,
    count: u32,
    config: PathBuf,
}

impl HandOpenedAgent {
    pub(crate) fn open(lab: &TestEnvironment) -> Self {
        Self::open_with(lab, &command(lab), &[])
    }

    /// Opens an agent whose hooks are this command, with these variables.
    pub(crate) fn open_with(lab: &TestEnvironment, hook: &str, env: &[(&str, &str)]) -> Self {
        Self::open_as(lab, "claude", hook, env)
    }

    /// Like [`Self::open_with`], under another program name.
    pub(crate) fn open_as(lab: &TestEnvironment, name: &str, hook: &str, env: &[(&str, &str)]) -> Self {
        std::fs::create_dir_all(lab.home()).unwrap();
        set_mode(&lab.home(), 0o700);
        let program = lab.dir().join(name);
        let _ = std::os::unix::fs::symlink("/bin/sh", &program);
        let mut command = Command::new(&program);
        command.args(["-c", SCRIPT]).env("HOOK", hook).current_dir(lab.dir());
        let config = lab.dir().join("claude-config");
        command.env("CLAUDE_CONFIG_DIR", &config);
        command.env_remove("BERTH_GUARD").env_remove("BERTH_HOME").env_remove("BERTH_SESSION");
        command.envs(env.iter().copied());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a shell");
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let dir = lab.dir().join(format!("hand-{}", child.id()));
        std::fs::create_dir_all(&dir).unwrap();
        Self { child, stdin, stdout, dir, count: 0, config }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// An event of a conversation, as Claude Code writes it.
    pub(crate) fn event(&mut self, id: &str, name: &str, more: Value) -> HookOutput {
        let mut event = json!({
            "session_id": id,
            "transcript_path": self.config.join("projects/-w").join(format!("{id}.jsonl")),
            "cwd": "/w",
            "hook_event_name": name,
        });
        event.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
        self.hook(event.to_string().as_bytes())
    }

    pub(crate) fn start(&mut self, how: &str) -> HookOutput {
        self.event(ID, "SessionStart", json!({"source": how}))
    }

    pub(crate) fn prompt(&mut self) -> HookOutput {
        self.event(ID, "UserPromptSubmit", json!({"prompt": "go on"}))
    }

    /// Calls the hook with any bytes.
    pub(crate) fn hook(&mut self, event: &[u8]) -> HookOutput {
        let file = self.send(event);
        self.heard(&file)
    }

    /// Sends an event without waiting for the end of its hook.
    pub(crate) fn send(&mut self, event: &[u8]) -> PathBuf {
        self.count += 1;
        let file = self.dir.join(self.count.to_string());
        std::fs::write(&file, event).unwrap();
        writeln!(self.stdin.as_mut().expect("it is open"), "{}", file.display()).unwrap();
        file
    }

    pub(crate) fn heard(&mut self, file: &Path) -> HookOutput {
        let mut code = String::new();
        self.stdout.read_line(&mut code).unwrap();
        let read = |end: &str| {
            std::fs::read_to_string(file.with_extension(end))
                .expect("the output of the hook")
                .trim_end()
                .to_owned()
        };
        HookOutput { code: code.trim().parse().expect("an exit code"), out: read("out"), err: read("err") }
    }

    /// Kills the agent, without a word from its hooks.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for HandOpenedAgent {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.child.wait();
    }
}

/// The hook command, as it is installed.
pub(crate) fn command(lab: &TestEnvironment) -> String {
    let berth = env!("CARGO_BIN_EXE_berth");
    format!(
        "exec '{berth}' hook claude --home '{}' --config '{}'",
        lab.home().display(),
        lab.config().display()
    )
}

/// The records there are.
pub(crate) fn records(lab: &TestEnvironment) -> Vec<Value> {
    let dir = lab.home().join("holders");
    let mut found: Vec<Value> = std::fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|end| end == "json"))
        .map(|path| serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap())
        .collect();
    found.sort_by_key(|record| record["pid"].as_u64());
    found
}

pub(crate) fn set_mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}
