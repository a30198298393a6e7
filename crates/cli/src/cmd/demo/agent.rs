//! The agent of the demo: a script that takes turns and speaks the Agent Client Protocol on its standard streams.
//!
//! The agent has eight tests to fix, one after the other, and records each fix in a file: so it can be killed in the
//! middle of a turn and go on in the next run, as real agents do.
//! Promise: the agent writes only that file, and ends when its input ends.
//! Start with [`run`].

use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use berth_api::Problem;
use serde_json::{Value, json};

use crate::print;

/// Number of tests to fix.
pub(super) const TESTS: usize = 8;
/// Time for each fix.
const EACH: Duration = Duration::from_millis(500);
/// Id of the only conversation.
const CONVERSATION: &str = "demo-conversation";
/// The JSON-RPC code for an unknown method.
const METHOD_NOT_FOUND: i64 = -32601;

/// Number of fixed tests, by the agent's notes in `dir`.
pub(super) fn fixed(dir: &Path) -> usize {
    std::fs::read_to_string(notes(dir)).map_or(0, |notes| notes.lines().count())
}

fn notes(dir: &Path) -> PathBuf {
    dir.join("agent-notes.txt")
}

/// Takes turns until the input ends.
pub(super) fn run(dir: &Path) -> Result<u8, Problem> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            let Ok(message) = serde_json::from_str::<Value>(&line) else { continue };
            if sender.send(message).is_err() {
                break;
            }
        }
    });
    let mut agent = DemoAgent { dir: dir.to_owned(), input: receiver };
    while let Ok(message) = agent.input.recv() {
        agent
            .hear(&message)
            .map_err(|error| Problem::refused(format!("the demo's agent cannot write: {error}")))?;
    }
    Ok(0)
}

struct DemoAgent {
    dir: PathBuf,
    input: Receiver<Value>,
}

impl DemoAgent {
    fn hear(&mut self, message: &Value) -> std::io::Result<()> {
        let id = &message["id"];
        let answer = match message["method"].as_str() {
            Some("initialize") => json!({"protocolVersion": 1, "agentCapabilities": {"loadSession": true}}),
            Some("session/new") => json!({"sessionId": CONVERSATION}),
            Some("session/load") => json!({}),
            Some("session/prompt") => {
                let reason = self.turn()?;
                json!({"stopReason": reason})
            }
            Some(_) if !id.is_null() => {
                let error = json!({"code": METHOD_NOT_FOUND, "message": "the demo's agent does not know this method"});
                return say(&json!({"jsonrpc": "2.0", "id": id, "error": error}));
            }
            Some(_) | None => return Ok(()),
        };
        say(&json!({"jsonrpc": "2.0", "id": id, "result": answer}))
    }

    /// Fixes the remaining tests. Returns the stop reason of the protocol.
    fn turn(&mut self) -> std::io::Result<&'static str> {
        let before = fixed(&self.dir);
        let begin = match before {
            0 => format!("There are {TESTS} tests to fix.\n"),
            TESTS => "Every test is fixed already.\n".to_owned(),
            _ => format!("My notes say that {before} of {TESTS} are fixed. Going on.\n"),
        };
        update(&json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": begin}}))?;
        for number in before + 1..=TESTS {
            let call = format!("edit-{number}");
            let title = format!("Edit test_{number}.rs");
            update(
                &json!({"sessionUpdate": "tool_call", "toolCallId": call, "title": title, "kind": "edit"}),
            )?;
            match self.input.recv_timeout(EACH) {
                Ok(message) if message["method"] == "session/cancel" => return Ok("cancelled"),
                Err(RecvTimeoutError::Disconnected) => return Ok("cancelled"),
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
            }
            let mut notes = std::fs::File::options().create(true).append(true).open(notes(&self.dir))?;
            writeln!(notes, "fixed test {number}")?;
            let done =
                json!({"sessionUpdate": "tool_call_update", "toolCallId": call, "status": "completed"});
            update(&done)?;
        }
        let end = format!("Tests {} to {TESTS} are fixed now.", (before + 1).min(TESTS));
        update(&json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": end}}))?;
        Ok("end_turn")
    }
}

fn update(update: &Value) -> std::io::Result<()> {
    let params = json!({"sessionId": CONVERSATION, "update": update});
    say(&json!({"jsonrpc": "2.0", "method": "session/update", "params": params}))
}

fn say(message: &Value) -> std::io::Result<()> {
    print::message(format!("{message}\n").as_bytes())
}
