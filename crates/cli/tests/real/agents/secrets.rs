//! Keys in the environment: they reach the agent and its commands, and are in nothing that berth keeps or shows.

use std::path::Path;

use berth_harness::said;

use crate::agents::{AgentKindFixture, RealAgentKind, for_kinds};

/// A text that occurs nowhere by chance.
const SECRET: &str = "sk-ant-very-secret-0123456789abcdef";

for_kinds!(a_key_reaches_the_agent_and_nothing_else: Claude, Codex, ClaudeAcp);

fn a_key_reaches_the_agent_and_nothing_else(kind: RealAgentKind) {
    let world = AgentKindFixture::new(kind);
    let with_key = |args: &[&str]| {
        let mut command = world.command(args);
        command.env("ANTHROPIC_API_KEY", SECRET).env("OPENAI_API_KEY", SECRET);
        let said = said(command.output().expect("berth can be started"));
        assert_eq!(said.code, 0, "{said:?}");
        said.out
    };
    let id = with_key(&["run", "-d", "--agent", kind.name(), "--env", &format!("MY_TOKEN={SECRET}")]);
    let id = id.trim();
    // The size of the secret shows that it is there, and shows no more.
    let tool = "TOOL printf %s \"$MY_TOKEN$ANTHROPIC_API_KEY\" | wc -c";
    let answer = with_key(&["send", id, "--wait", "--", tool]);
    // Codex keeps its commands from seeing keys, and has no answer without its own.
    if kind.is_claude() {
        assert_eq!(answer.trim(), format!("TOOLDONE {}", 2 * SECRET.len()));
    }
    for args in [
        &["show", id, "--json"][..],
        &["why", id],
        &["ps", id],
        &["log", id, "--json"],
        &["turns", id],
        &["output", id],
    ] {
        let said = with_key(args);
        assert!(!said.contains(SECRET), "{args:?} shows it");
    }
    let mut files = 0;
    look(&world.lab.home(), &mut files);
    assert!(files > 3, "there is something to look at");
    for process in world.lab.processes() {
        let line = std::fs::read(format!("/proc/{}/cmdline", process.pid)).unwrap_or_default();
        assert!(!String::from_utf8_lossy(&line).contains(SECRET), "it is on a command line");
    }
}

/// Looks for the secret in every file below a directory.
fn look(dir: &Path, files: &mut usize) {
    for entry in std::fs::read_dir(dir).expect("our own directory").flatten() {
        let (path, kind) = (entry.path(), entry.file_type().expect("a kind"));
        if kind.is_dir() {
            look(&path, files);
        } else if kind.is_file() {
            let bytes = std::fs::read(&path).expect("our own file");
            let found = bytes.windows(SECRET.len()).any(|window| window == SECRET.as_bytes());
            assert!(!found, "it is in {}", path.display());
            *files += 1;
        }
    }
}
