//! An agent that somebody opened by hand: a process called `claude` that calls its hooks when it is told to.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use berth_harness::Lab;
use serde_json::{Value, json};

/// The conversation most tests are about.
pub(crate) const ID: &str = "11111111-2222-4333-8444-555555555555";

/// Runs each hook as Claude Code does: by a shell, with the event on its standard input.
const SCRIPT: &str = r#"export CLAUDE_PID=$$
while read -r event; do
  sh -c "$HOOK" < "$event" > "$event.out" 2> "$event.err"
  echo $?
done"#;

/// What a hook said.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Said {
    /// It said nothing, and all is well.
    #[track_caller]
    pub(crate) fn is_quiet(&self) {
        assert_eq!((self.code, self.out.as_str(), self.err.as_str()), (0, "", ""));
    }

    /// Why the prompt does not go out.
    #[track_caller]
    pub(crate) fn reason(&self) -> String {
        let said = self.json();
        assert_eq!((self.code, &said["decision"]), (0, &Value::from("block")), "{self:?}");
        said["reason"].as_str().expect("a reason").to_owned()
    }

    /// What the person is told while it goes on.
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

pub(crate) struct Hand {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    dir: PathBuf,
    count: u32,
    config: PathBuf,
}

impl Hand {
    pub(crate) fn open(lab: &Lab) -> Self {
        Self::open_with(lab, &command(lab), &[])
    }

    /// One whose hooks are this command, with these variables.
    pub(crate) fn open_with(lab: &Lab, hook: &str, env: &[(&str, &str)]) -> Self {
        Self::open_as(lab, "claude", hook, env)
    }

    /// The same with another name.
    pub(crate) fn open_as(lab: &Lab, name: &str, hook: &str, env: &[(&str, &str)]) -> Self {
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
    pub(crate) fn event(&mut self, id: &str, name: &str, more: Value) -> Said {
        let mut event = json!({
            "session_id": id,
            "transcript_path": self.config.join("projects/-w").join(format!("{id}.jsonl")),
            "cwd": "/w",
            "hook_event_name": name,
        });
        event.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
        self.hook(event.to_string().as_bytes())
    }

    pub(crate) fn start(&mut self, how: &str) -> Said {
        self.event(ID, "SessionStart", json!({"source": how}))
    }

    pub(crate) fn prompt(&mut self) -> Said {
        self.event(ID, "UserPromptSubmit", json!({"prompt": "go on"}))
    }

    /// Calls the hook with anything.
    pub(crate) fn hook(&mut self, event: &[u8]) -> Said {
        let file = self.send(event);
        self.heard(&file)
    }

    /// The same without waiting for its end.
    pub(crate) fn send(&mut self, event: &[u8]) -> PathBuf {
        self.count += 1;
        let file = self.dir.join(self.count.to_string());
        std::fs::write(&file, event).unwrap();
        writeln!(self.stdin.as_mut().expect("it is open"), "{}", file.display()).unwrap();
        file
    }

    pub(crate) fn heard(&mut self, file: &Path) -> Said {
        let mut code = String::new();
        self.stdout.read_line(&mut code).unwrap();
        let read = |end: &str| {
            std::fs::read_to_string(file.with_extension(end))
                .expect("what the hook said")
                .trim_end()
                .to_owned()
        };
        Said { code: code.trim().parse().expect("an exit code"), out: read("out"), err: read("err") }
    }

    /// It is gone, without a word.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Hand {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.child.wait();
    }
}

/// What a hook is, as it is installed.
pub(crate) fn command(lab: &Lab) -> String {
    let berth = env!("CARGO_BIN_EXE_berth");
    format!(
        "exec '{berth}' hook claude --home '{}' --config '{}'",
        lab.home().display(),
        lab.config().display()
    )
}

/// The records there are.
pub(crate) fn records(lab: &Lab) -> Vec<Value> {
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
