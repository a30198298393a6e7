//! `berth acp`, as an editor uses it: JSON lines on its standard input and output.
//!
//! Promise: everything goes over the wire; other berth commands show the effect.
//! Start with [`AcpEditor`].

mod asks;
mod retry;
mod sessions;
mod turns;

use std::path::{Path, PathBuf};

use berth_harness::{RpcClient, TestEnvironment};
use serde_json::{Value, json};

/// A lab with the agent `fake`, which takes turns and does what its prompts say.
fn lab() -> TestEnvironment {
    TestEnvironment::with_agent(env!("CARGO_BIN_EXE_berth"))
}

/// An editor with `berth acp` as its agent.
struct AcpEditor {
    rpc: RpcClient,
}

impl AcpEditor {
    /// Starts it, and introduces itself.
    fn start(lab: &TestEnvironment, args: &[&str]) -> Self {
        let mut editor = Self::silent(lab, args);
        let capabilities = json!({"fs": {"readTextFile": true, "writeTextFile": true}});
        let info = json!({"name": "zed", "title": "Zed", "version": "1"});
        let params = json!({"protocolVersion": 1, "clientCapabilities": capabilities, "clientInfo": info});
        let said = editor.ok("initialize", params);
        assert_eq!(said["protocolVersion"], 1, "{said}");
        editor
    }

    /// Starts it, and says nothing.
    fn silent(lab: &TestEnvironment, args: &[&str]) -> Self {
        let args = [&["acp", "--agent", "fake"], args].concat();
        Self { rpc: RpcClient::start(&mut lab.command(args)) }
    }

    fn ok(&mut self, method: &str, params: Value) -> Value {
        let id = self.rpc.ask(method, params);
        let said = self.rpc.answer(id);
        assert!(said["error"].is_null(), "{method}: {said}");
        said["result"].clone()
    }

    fn refused(&mut self, method: &str, params: Value) -> Value {
        let id = self.rpc.ask(method, params);
        let said = self.rpc.answer(id);
        assert!(said["result"].is_null() && said["error"].is_object(), "{method}: {said}");
        said["error"].clone()
    }

    /// A new session in this directory.
    fn new_session(&mut self, cwd: &Path) -> String {
        let said = self.ok("session/new", json!({"cwd": cwd, "mcpServers": []}));
        said["sessionId"].as_str().unwrap_or_else(|| panic!("no session: {said}")).to_owned()
    }

    fn load(&mut self, session: &str) -> Value {
        self.ok("session/load", json!({"sessionId": session, "cwd": "/", "mcpServers": []}))
    }

    /// Sends a prompt and does not wait.
    fn prompt(&mut self, session: &str, text: &str) -> u64 {
        self.rpc
            .ask("session/prompt", json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]}))
    }

    /// Waits until the agent says something with this in it.
    fn hears(&mut self, kind: &str, text: &str) -> Value {
        let is_it = |said: &Value| {
            let update = &said["params"]["update"];
            update["sessionUpdate"] == kind && update.to_string().contains(text)
        };
        match self.rpc.talk.heard.iter().find(|said| is_it(said)) {
            Some(said) => said.clone(),
            None => self.rpc.talk.wait(text, is_it),
        }
    }

    /// All that was told so far, as `kind: text` or `kind: title`.
    fn told(&self) -> Vec<String> {
        let updates = self
            .rpc
            .talk
            .heard
            .iter()
            .map(|said| &said["params"]["update"])
            .filter(|update| !update.is_null());
        let line = |update: &Value| {
            let text = [&update["content"]["text"], &update["title"], &update["status"]];
            let text = text.iter().find_map(|text| text.as_str()).unwrap_or_default().to_owned();
            format!("{}: {text}", update["sessionUpdate"].as_str().unwrap_or_default())
        };
        updates.map(line).collect()
    }

    /// The text the agent said, in one piece.
    fn said(&self) -> String {
        let pieces = self.told();
        pieces.iter().filter_map(|line| line.strip_prefix("agent_message_chunk: ")).collect()
    }
}

/// A file that a prompt waits for: `wait-file:` in the prompt, and [`open`] to let it go on.
fn gate(lab: &TestEnvironment, name: &str) -> (PathBuf, String) {
    let path = lab.dir().join(name);
    let step = format!("wait-file:{}", path.display());
    (path, step)
}

fn open(path: &Path) {
    std::fs::write(path, "").expect("a file");
}
