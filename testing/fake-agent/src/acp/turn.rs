//! Playing the steps of a prompt, while listening to the client.
//!
//! Promise: during every step, a cancel is heard (unless the script says to be deaf), and so is the end of the input.
//! Not here: understanding the prompt (see `prompt`).
//! Start with [`FakeAcpServer::prompt`].

use std::io::Read as _;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use serde_json::{Value, json};

use super::prompt::{self, PromptStep};
use super::store::{FakeRecordKind, FakeTranscript};
use super::{AcpRequestError, EofAction, FakeAcpServer, FakeAcpSession, chunk, code, new_id};
use crate::agent::{self, FailureContext as _, ScriptFailure};
use crate::sys;

/// How long a late answer waits for its file.
const LATEST: Duration = Duration::from_secs(60);
/// How often `wait-file` looks.
const FILE_POLL: Duration = Duration::from_millis(2);
/// The size of the pieces of a flood.
const PIECE_BYTES: usize = 16 << 10;
/// The most output of a command that is told.
const MAX_PRINTED_BYTES: u64 = 64 << 10;

/// The turn that is running.
#[derive(Default)]
pub(super) struct FakeAcpTurn {
    /// The session of the turn, as the client calls it.
    pub(super) session: String,
    /// True if the client wants the turn to be cancelled.
    pub(super) cancelled: bool,
    prompt: String,
    /// The text that was said so far.
    answer: String,
    /// Number of the message of the turn that is being said: a tool ends one.
    message: u64,
    /// Number of the next tool call.
    next_call: u64,
    asked: Vec<OpenPermissionRequest>,
    stop: Option<String>,
    /// The file to wait for before the prompt is answered a second time, as a success.
    late: Option<PathBuf>,
}

/// A permission that was asked for.
struct OpenPermissionRequest {
    request: u64,
    tool: String,
    outcome: Option<String>,
}

/// Why a turn does not go on.
enum FakeTurnStopReason {
    Cancelled,
    Failed(AcpRequestError),
    InputEnded,
    Broken(ScriptFailure),
}

impl From<ScriptFailure> for FakeTurnStopReason {
    fn from(failure: ScriptFailure) -> Self {
        Self::Broken(failure)
    }
}

impl FakeAcpServer {
    /// One turn, from its prompt to its answer.
    pub(super) fn prompt(&mut self, id: &Value, params: &Value) -> Result<(), ScriptFailure> {
        let session = params["sessionId"].as_str().unwrap_or_default().to_owned();
        if !self.sessions.contains_key(&session) {
            let refused = AcpRequestError::new(code::NOT_FOUND, format!("Resource not found: {session}"));
            return self.reply(id, Err(refused));
        }
        let text = text_of(&params["prompt"]);
        let script = match prompt::parse(&text) {
            Ok(script) => script,
            Err(problem) => return self.reply(id, Err(AcpRequestError::new(code::INVALID_PARAMS, problem))),
        };
        self.transcript(&session).begin(&text).doing("write the transcript")?;
        self.turn = Some(FakeAcpTurn { session: session.clone(), prompt: text, ..FakeAcpTurn::default() });
        let over = script
            .steps
            .iter()
            .try_for_each(|step| self.step(step))
            .and_then(|()| self.wait_for_answers())
            .and_then(|()| match &script.echo {
                Some(text) => self.say(&format!("ECHO: {text}")),
                None => Ok(()),
            });
        let turn = self.turn.take().expect("it was running until now");
        let (kind, result) = match over {
            Ok(()) => (FakeRecordKind::End, Ok(turn.stop.as_deref().unwrap_or("end_turn"))),
            Err(FakeTurnStopReason::Cancelled) => (FakeRecordKind::Cut, Ok("cancelled")),
            Err(FakeTurnStopReason::Failed(refused)) => (FakeRecordKind::Cut, Err(refused)),
            Err(FakeTurnStopReason::InputEnded) => return Ok(()),
            Err(FakeTurnStopReason::Broken(failure)) => return Err(failure),
        };
        self.transcript(&session).over(kind, &turn.prompt, &turn.answer).doing("write the transcript")?;
        let (input, output) = (turn.prompt.len(), turn.answer.len());
        let usage = json!({"inputTokens": input, "outputTokens": output, "totalTokens": input + output});
        self.reply(id, result.map(|stop| json!({"stopReason": stop, "usage": usage})))?;
        match turn.late {
            Some(path) => self.succeed_late(id, &path),
            None => Ok(()),
        }
    }

    /// Answers a prompt that was answered already, with success, once the file is there; then `PATH.said` is.
    fn succeed_late(&mut self, id: &Value, path: &Path) -> Result<(), ScriptFailure> {
        let until = Instant::now() + LATEST;
        while !path.exists() && Instant::now() < until {
            std::thread::sleep(FILE_POLL);
        }
        self.reply(id, Ok(json!({"stopReason": "end_turn"})))?;
        agent::appending(&path.with_extension("said")).map(drop)
    }

    /// Text for the turn that is running.
    pub(super) fn steer(&mut self, id: &Value, params: &Value) -> Result<(), ScriptFailure> {
        let is_running =
            self.turn.as_ref().is_some_and(|turn| params["sessionId"].as_str() == Some(&turn.session));
        if !is_running {
            return self.reply(id, Ok(json!({"outcome": "promptRequired", "reason": "noRunningTurn"})));
        }
        self.reply(id, Ok(json!({"outcome": "injected"})))?;
        match self.say(&format!("STEERED: {}\n", text_of(&params["prompt"]))) {
            Err(FakeTurnStopReason::Broken(failure)) => Err(failure),
            Err(
                FakeTurnStopReason::Cancelled
                | FakeTurnStopReason::Failed(_)
                | FakeTurnStopReason::InputEnded,
            )
            | Ok(()) => Ok(()),
        }
    }

    fn transcript(&mut self, session: &str) -> &mut FakeTranscript {
        let FakeAcpSession { transcript } = self.sessions.get_mut(session).expect("a turn is of a session");
        transcript
    }

    fn turn(&mut self) -> &mut FakeAcpTurn {
        self.turn.as_mut().expect("steps are done in a turn")
    }

    fn step(&mut self, step: &PromptStep) -> Result<(), FakeTurnStopReason> {
        if step.waits_for_answers() {
            self.wait_for_answers()?;
        }
        match step {
            PromptStep::Say(text) => self.say(text)?,
            PromptStep::Think(text) => self.send_update(&chunk("agent_thought_chunk", text, None))?,
            PromptStep::Flood { bytes } => self.flood(*bytes)?,
            PromptStep::Report { variables } => self.say(&agent::report(variables)?.to_string())?,
            PromptStep::Context { used, size } => {
                self.send_update(&json!({"sessionUpdate": "usage_update", "used": used, "size": size}))?;
            }
            PromptStep::Stderr(text) => eprintln!("{text}"),
            PromptStep::Tool { name, detail } => {
                let call = self.tool_call(name, detail, "in_progress")?;
                self.tool_done(&call, "completed", detail)?;
            }
            PromptStep::Ask { tool, detail } => self.ask(tool, detail)?,
            PromptStep::Unask => self.unask()?,
            PromptStep::Sh(command) => self.sh(command)?,
            PromptStep::Script(steps) => self.agent.run(steps)?,
            PromptStep::Touch(path) => drop(agent::appending(path)?),
            PromptStep::WaitFile(path) => self.attend(Some(FILE_POLL), |_| path.exists())?,
            PromptStep::Sleep { ms } => {
                let end = Instant::now() + Duration::from_millis(*ms);
                self.attend(Some(FILE_POLL), |_| Instant::now() >= end)?;
            }
            PromptStep::Garbage { bytes: 0 } => agent::say(b"this is { not JSON\n")?,
            PromptStep::Garbage { bytes } => agent::say(&[&vec![b'x'; *bytes][..], b"\n"].concat())?,
            PromptStep::Close => agent::close_output()?,
            PromptStep::Silent => self.attend(None, |_| false)?,
            PromptStep::Deaf => self.deaf = true,
            PromptStep::Late(path) => self.turn().late = Some(path.clone()),
            PromptStep::NewId => self.new_conversation()?,
            PromptStep::Stop(reason) => self.turn().stop = Some(reason.clone()),
            PromptStep::Fail { code, message } => {
                return Err(FakeTurnStopReason::Failed(AcpRequestError::new(*code, message.clone())));
            }
            PromptStep::Exit(code) => std::process::exit((*code).into()),
            PromptStep::Die(signal) => Err(sys::die(*signal)).doing("die")?,
        }
        Ok(())
    }

    /// Listens to the client until `so` holds, looking again after every message and every `poll`.
    fn attend(
        &mut self,
        poll: Option<Duration>,
        so: impl FnMut(&Self) -> bool,
    ) -> Result<(), FakeTurnStopReason> {
        self.attend_with(poll, &[], so)
    }

    fn attend_with(
        &mut self,
        poll: Option<Duration>,
        also: &[BorrowedFd<'_>],
        mut so: impl FnMut(&Self) -> bool,
    ) -> Result<(), FakeTurnStopReason> {
        loop {
            self.take_messages()?;
            if self.turn().cancelled {
                return Err(FakeTurnStopReason::Cancelled);
            }
            if self.wire.ended && self.options.at_eof == EofAction::Exit {
                return Err(FakeTurnStopReason::InputEnded);
            }
            if so(self) {
                return Ok(());
            }
            self.wire.wait(poll, also)?;
        }
    }

    fn send_update(&mut self, update: &impl serde::Serialize) -> Result<(), FakeTurnStopReason> {
        let session = std::mem::take(&mut self.turn().session);
        let sent = self.update(&session, update);
        self.turn().session = session;
        Ok(sent?)
    }

    fn say(&mut self, text: &str) -> Result<(), FakeTurnStopReason> {
        let turn = self.turn();
        turn.answer.push_str(text);
        let message = format!("message-{}", turn.message);
        self.send_update(&chunk("agent_message_chunk", text, Some(&message)))
    }

    fn flood(&mut self, bytes: u64) -> Result<(), FakeTurnStopReason> {
        let line = "the quick brown fox jumps over the lazy dog and naps\n";
        let piece = line.repeat(PIECE_BYTES.div_ceil(line.len()));
        let mut left = bytes;
        while left > 0 {
            let count = PIECE_BYTES.min(usize::try_from(left).unwrap_or(usize::MAX));
            let message = format!("message-{}", self.turn().message);
            self.send_update(&chunk("agent_message_chunk", &piece[..count], Some(&message)))?;
            left -= count as u64;
        }
        Ok(())
    }

    /// Tells of a tool call, and what it is called.
    fn tool_call(&mut self, name: &str, detail: &str, status: &str) -> Result<String, FakeTurnStopReason> {
        let turn = self.turn();
        turn.message += 1;
        turn.next_call += 1;
        let id = format!("call-{}", turn.next_call);
        let mut call = tool_fields(name, detail);
        call["sessionUpdate"] = "tool_call".into();
        call["toolCallId"] = id.as_str().into();
        call["status"] = status.into();
        self.send_update(&call)?;
        Ok(id)
    }

    fn tool_done(&mut self, call: &str, status: &str, output: &str) -> Result<(), FakeTurnStopReason> {
        self.send_update(&json!({
            "sessionUpdate": "tool_call_update",
            "toolCallId": call,
            "status": status,
            "content": [{"type": "content", "content": {"type": "text", "text": output}}],
        }))
    }

    fn ask(&mut self, tool: &str, detail: &str) -> Result<(), FakeTurnStopReason> {
        let call = self.tool_call(tool, detail, "pending")?;
        let request = self.next_request;
        self.next_request += 1;
        let mut tool_call = tool_fields(tool, detail);
        tool_call["toolCallId"] = call.into();
        let session = self.turn().session.clone();
        self.turn().asked.push(OpenPermissionRequest { request, tool: tool.to_owned(), outcome: None });
        Ok(self.wire.send(&json!({
            "jsonrpc": "2.0",
            "id": request,
            "method": "session/request_permission",
            "params": {
                "sessionId": session,
                "toolCall": tool_call,
                "options": [
                    {"optionId": "allow-once", "name": "Allow", "kind": "allow_once"},
                    {"optionId": "allow-always", "name": "Always allow", "kind": "allow_always"},
                    {"optionId": "reject", "name": "Reject", "kind": "reject_once"},
                ],
            },
        }))?)
    }

    /// The client answered one of our requests. An answer to no open request is passed over.
    pub(super) fn answered(&mut self, id: &Value, message: &Value) {
        let Some(turn) = &mut self.turn else { return };
        let Some(asked) = turn.asked.iter_mut().find(|asked| id.as_u64() == Some(asked.request)) else {
            return;
        };
        let outcome = &message["result"]["outcome"];
        asked.outcome = Some(match (&message["error"]["code"], outcome["optionId"].as_str()) {
            (Value::Number(code), _) => format!("error {code}"),
            (_, Some(option)) => option.to_owned(),
            (_, None) => outcome["outcome"].as_str().unwrap_or("nonsense").to_owned(),
        });
    }

    fn wait_for_answers(&mut self) -> Result<(), FakeTurnStopReason> {
        let open = |server: &Self| {
            server.turn.as_ref().is_some_and(|turn| turn.asked.iter().any(|asked| asked.outcome.is_none()))
        };
        self.attend(None, |server| !open(server))?;
        for asked in std::mem::take(&mut self.turn().asked) {
            self.say(&format!("{}: {}\n", asked.tool, asked.outcome.unwrap_or_default()))?;
        }
        Ok(())
    }

    fn unask(&mut self) -> Result<(), FakeTurnStopReason> {
        // An answer that was sent by now counts.
        self.wire.wait(Some(Duration::ZERO), &[])?;
        self.take_messages()?;
        let asked = std::mem::take(&mut self.turn().asked);
        for asked in asked {
            if asked.outcome.is_some() {
                self.turn().asked.push(asked);
                continue;
            }
            let params = json!({"requestId": asked.request});
            self.wire.send(&json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": params}))?;
        }
        Ok(())
    }

    /// Runs a command as a tool does.
    fn sh(&mut self, text: &str) -> Result<(), FakeTurnStopReason> {
        let call = self.tool_call("Bash", text, "in_progress")?;
        let mut command = Command::new("/bin/sh");
        command.args(["-c", text]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        sys::leads_a_session(&mut command);
        let mut child = command.spawn().doing("run a command")?;
        let pid = Pid::from_child(&child);
        let ended = pidfd_open(pid, PidfdFlags::empty()).doing("watch a command")?;
        let mut printed = child.stdout.take().expect("it is piped");
        let mut text = Vec::new();
        // The output of the command is read as it comes, so that a full pipe does not hold the command up; a process it
        // left behind may hold the pipe open for ever.
        let mut open = true;
        let over = loop {
            let status = child.try_wait().doing("wait for a command")?;
            if let Some(status) = status {
                break Ok(status);
            }
            let both = [ended.as_fd(), printed.as_fd()];
            let mut looked = false;
            let waited = self.attend_with(None, if open { &both } else { &both[..1] }, |_| {
                std::mem::replace(&mut looked, true)
            });
            if let Err(over) = waited {
                break Err(over);
            }
            open = open && drain(&mut printed, &mut text).doing("read what a command prints")?;
        };
        let status = match over {
            Ok(status) => status,
            Err(over) => {
                if matches!(over, FakeTurnStopReason::Cancelled) {
                    let _ = kill_process_group(pid, Signal::KILL);
                    let _ = child.wait();
                    self.tool_done(&call, "failed", "cancelled")?;
                }
                return Err(over);
            }
        };
        drain(&mut printed, &mut text).doing("read what a command prints")?;
        let text = String::from_utf8_lossy(&text).into_owned();
        self.tool_done(&call, if status.success() { "completed" } else { "failed" }, &text)?;
        if !text.is_empty() {
            self.say(&text)?;
        }
        match status.code() {
            Some(0) => Ok(()),
            Some(code) => self.say(&format!("exit {code}")),
            None => self.say(&format!("{status}")),
        }
    }

    fn new_conversation(&mut self) -> Result<(), FakeTurnStopReason> {
        let id = new_id();
        let store = self.options.store.clone();
        let FakeAcpTurn { session, prompt, answer, .. } = self.turn();
        let (session, prompt, answer) = (session.clone(), prompt.clone(), answer.clone());
        let transcript = self.transcript(&session);
        transcript.over(FakeRecordKind::Cut, &prompt, &answer).doing("write the transcript")?;
        *transcript = FakeTranscript::new(store.as_deref(), &id);
        transcript.begin(&prompt).doing("write the transcript")?;
        self.send_update(
            &json!({"sessionUpdate": "session_info_update", "_meta": {"berth": {"sessionId": id}}}),
        )
    }
}

/// Reads the output that is there without waiting for more; returns whether there may be more later.
fn drain(from: &mut std::process::ChildStdout, into: &mut Vec<u8>) -> std::io::Result<bool> {
    rustix::io::ioctl_fionbio(&*from, true)?;
    let mut buffer = [0; 4096];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(false),
            Ok(count) => {
                if (into.len() as u64) < MAX_PRINTED_BYTES {
                    into.extend_from_slice(&buffer[..count]);
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Ok(true),
            Err(error) => return Err(error),
        }
    }
}

fn tool_fields(name: &str, detail: &str) -> Value {
    match name {
        "Edit" => json!({
            "title": format!("Edit {detail}"),
            "name": name,
            "kind": "edit",
            "locations": [{"path": detail}],
            "content": [{"type": "diff", "path": detail, "oldText": "old line\n", "newText": "new line\n"}],
            "rawInput": {"file_path": detail},
        }),
        _ => json!({
            "title": detail,
            "name": name,
            "kind": if name == "Bash" { "execute" } else { "other" },
            "rawInput": {"command": detail},
        }),
    }
}

fn text_of(blocks: &Value) -> String {
    let texts = blocks.as_array().into_iter().flatten().filter_map(|block| block["text"].as_str());
    texts.collect::<Vec<_>>().join("\n")
}
