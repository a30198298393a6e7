//! An agent that speaks ACP (version 1, over stdio) and does what its prompts tell it to.
//!
//! Promise: every request is answered, except where a flag or a step says otherwise; a turn ends only as
//! its prompt says, by a cancel, or with the process.
//! Not here: the language of prompts (`prompt`), doing it (`turn`), what is remembered (`store`).
//! Start with [`FakeAcpServer::run`].

mod prompt;
mod store;
mod turn;

use std::collections::HashMap;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;
use serde_json::{Value, json};

use crate::agent::{self, FailureContext as _, ScriptFailure, ScriptedAgent};
use crate::script;
use store::FakeTranscript;
use turn::FakeAcpTurn;

/// Codes of JSON-RPC errors.
pub(crate) mod code {
    pub(crate) const INVALID_REQUEST: i64 = -32600;
    pub(crate) const METHOD_NOT_FOUND: i64 = -32601;
    pub(crate) const INVALID_PARAMS: i64 = -32602;
    pub(crate) const INTERNAL: i64 = -32603;
    pub(crate) const AUTH_REQUIRED: i64 = -32000;
    pub(crate) const NOT_FOUND: i64 = -32002;
}

pub(crate) const HELP: &str = r"fake-agent acp: an ACP agent that is scripted by its prompts

usage: fake-agent acp [FLAG…]

  --store DIR        keep a transcript for each session there; without it nothing can be loaded
  --never-init       never answer `initialize`
  --not-logged-in    answer -32000 to every request for a session
  --refuse-load      answer -32603 to `session/load` and `session/resume`
  --no-load, --no-resume, --no-fork, --no-close, --no-steer
                     do not offer it, and do not know it
  --at-eof exit      when the input ends: exit at once, whatever is running (the default)
  --at-eof finish    finish the turn first, as Claude Code does
  --at-eof stay      live on, as others do
  --do 'STEP…'       before anything else do these steps of `fake-agent --help`

A transcript is DIR/<session id>.jsonl, one record {n, session, pid, turn, kind, prompt, answer, at} a line, each one write:
kind is begin, end (the turn was finished) or cut (it was cancelled or failed); at is in ns, monotonic. As with real agents
there is none before the first prompt, and no lock on it.

Text for a running turn (`_session/steering`, as the adapters for Claude Code and Codex have it) is said at once, as
`STEERED: <text>`.

A prompt is answered with `ECHO: <prompt>`. Words that a line begins with are steps, and what is left is echoed after them:
`wait-file:/x hello` waits for the file, then answers `ECHO: hello`. If there are only steps, only they say anything.

text     say:TEXT         a piece of the answer, to the end of the line; escapes as in `fake-agent --help`
         think:TEXT       a piece of a thought
         flood:N[K|M|G]   N bytes of answer in pieces of 16 KiB
         report[:VAR,…]   say what `report` of `fake-agent --help` writes
         context:USED:SIZE  say how many tokens of the context window are used, and how large it is
         stderr:TEXT      a line on stderr
tools    tool:NAME:DETAIL a tool call that is done at once; ends the message, so that what follows is another one
         ask:TOOL:DETAIL  ask for permission (allow-once, allow-always, reject); `Edit` asks with a diff of the file DETAIL.
                          Further asks, unask, and steps that wait, make trouble or end the process come while it is asked;
                          everything else waits for the answers, and says `TOOL: OPTION` for each
         unask            withdraw what is asked and not answered
         sh:COMMAND       run it as a tool does: in a session of its own, waited for, killed by a cancel; says what it printed,
                          and `exit N` if that is not 0
         child [ … ]      and pidfile:PATH, as in `fake-agent --help`
waiting  wait-file:PATH   until PATH exists
         sleep:MS         a while
         silent           until cancelled
         touch:PATH       create PATH
end      stop:REASON      end with this stop reason
         fail:[CODE:]TEXT answer the prompt with this error (-32603), at once
         exit:N  die:SIG  end the process
trouble  garbage[:N]      a line that is not JSON (of N bytes)
         close            close stdout and live on
         deaf             from now on do not hear `session/cancel`
         late:PATH        when this prompt is answered, wait for PATH and answer it again, with `end_turn`; then PATH.said is there
         new-id           go on with this turn in a new conversation, with a transcript of its own, and say so in a
                          session_info_update: `_meta.berth.sessionId`. On the wire the session keeps its id
";

/// The effect of the end of the input.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
enum EofAction {
    #[default]
    Exit,
    Finish,
    Stay,
}

/// Command line options of the agent.
#[derive(Debug, Default)]
struct FakeAcpOptions {
    store: Option<PathBuf>,
    never_init: bool,
    not_logged_in: bool,
    refuse_load: bool,
    no_load: bool,
    no_resume: bool,
    no_fork: bool,
    no_close: bool,
    no_steer: bool,
    at_eof: EofAction,
    first: Vec<script::ScriptStep>,
}

impl FakeAcpOptions {
    fn parse(words: &[String]) -> Result<Self, String> {
        let mut options = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(format!("`{word}` needs a value"));
            match word.as_str() {
                "--store" => options.store = Some(value()?.into()),
                "--never-init" => options.never_init = true,
                "--not-logged-in" => options.not_logged_in = true,
                "--refuse-load" => options.refuse_load = true,
                "--no-load" => options.no_load = true,
                "--no-resume" => options.no_resume = true,
                "--no-fork" => options.no_fork = true,
                "--no-close" => options.no_close = true,
                "--no-steer" => options.no_steer = true,
                "--at-eof" => {
                    options.at_eof = match value()?.as_str() {
                        "exit" => EofAction::Exit,
                        "finish" => EofAction::Finish,
                        "stay" => EofAction::Stay,
                        other => return Err(format!("`--at-eof {other}` is not exit, finish or stay")),
                    }
                }
                "--do" => {
                    let steps: Vec<String> = value()?.split_whitespace().map(str::to_owned).collect();
                    options.first = script::parse(&steps)?;
                }
                _ => return Err(format!("`{word}` is not a flag of `fake-agent acp`")),
            }
        }
        Ok(options)
    }
}

/// Speaks ACP until its input ends or a prompt ends it.
pub(crate) fn run(words: &[String]) -> Result<ExitCode, String> {
    let options = FakeAcpOptions::parse(words)?;
    match FakeAcpServer::new(options).run() {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(failure) => {
            eprintln!("fake-agent: {failure}");
            Ok(ExitCode::from(failure.code()))
        }
    }
}

/// A request was not granted.
#[derive(Debug)]
struct AcpRequestError {
    code: i64,
    message: String,
}

impl AcpRequestError {
    fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

/// A session of this process.
#[derive(Debug)]
struct FakeAcpSession {
    transcript: FakeTranscript,
}

/// The agent as its client sees it.
struct FakeAcpServer {
    options: FakeAcpOptions,
    wire: JsonLineConnection,
    /// Does the steps that both script languages have.
    agent: ScriptedAgent,
    sessions: HashMap<String, FakeAcpSession>,
    turn: Option<FakeAcpTurn>,
    deaf: bool,
    /// Starts at 0 and overlaps with the client's ids, as with real agents.
    next_request: u64,
}

impl FakeAcpServer {
    fn new(options: FakeAcpOptions) -> Self {
        Self {
            options,
            wire: JsonLineConnection::default(),
            agent: ScriptedAgent::default(),
            sessions: HashMap::new(),
            turn: None,
            deaf: false,
            next_request: 0,
        }
    }

    fn run(mut self) -> Result<(), ScriptFailure> {
        let first = std::mem::take(&mut self.options.first);
        self.agent.run(&first)?;
        while !self.wire.ended {
            self.wire.wait(None, &[])?;
            self.take_messages()?;
        }
        if self.options.at_eof == EofAction::Stay {
            loop {
                rustix::event::pause();
            }
        }
        Ok(())
    }

    /// Takes the messages that came. In a turn this is called again and again.
    fn take_messages(&mut self) -> Result<(), ScriptFailure> {
        while let Some(message) = self.wire.next() {
            let method = message.get("method").and_then(Value::as_str);
            match (method, message.get("id")) {
                (Some(method), Some(id)) => {
                    let params = message.get("params").unwrap_or(&Value::Null);
                    self.request(id, method, params)?;
                }
                (Some("session/cancel"), None) => self.cancel(&message["params"]["sessionId"]),
                (Some(_), None) => {}
                (None, Some(id)) => self.answered(id, &message),
                (None, None) => {}
            }
        }
        Ok(())
    }

    fn request(&mut self, id: &Value, method: &str, params: &Value) -> Result<(), ScriptFailure> {
        if self.options.never_init {
            return Ok(());
        }
        let result = match method {
            "initialize" => Ok(self.initialize(params)),
            "session/new" => self.new_session(),
            "session/load" if !self.options.no_load => self.load(params, true)?,
            "session/resume" if !self.options.no_resume => self.load(params, false)?,
            "session/fork" if !self.options.no_fork => self.fork(params)?,
            "session/close" if !self.options.no_close => {
                self.cancel(&params["sessionId"]);
                Ok(json!({}))
            }
            "_session/steering" if !self.options.no_steer => return self.steer(id, params),
            "session/prompt" if self.turn.is_some() => {
                Err(AcpRequestError::new(code::INVALID_REQUEST, "a prompt is running"))
            }
            "session/prompt" => return self.prompt(id, params),
            _ => Err(AcpRequestError::new(code::METHOD_NOT_FOUND, format!("Method not found: {method}"))),
        };
        self.reply(id, result)
    }

    fn reply(&mut self, id: &Value, result: Result<Value, AcpRequestError>) -> Result<(), ScriptFailure> {
        match result {
            Ok(result) => self.wire.send(&json!({"jsonrpc": "2.0", "id": id, "result": result})),
            Err(AcpRequestError { code, message }) => {
                let error = json!({"code": code, "message": message});
                self.wire.send(&json!({"jsonrpc": "2.0", "id": id, "error": error}))
            }
        }
    }

    fn initialize(&self, params: &Value) -> Value {
        let mut session = serde_json::Map::new();
        for (name, missing) in [
            ("resume", self.options.no_resume),
            ("fork", self.options.no_fork),
            ("close", self.options.no_close),
        ] {
            if !missing {
                session.insert(name.to_owned(), json!({}));
            }
        }
        let login = json!({"id": "login", "name": "Log in", "description": "run `fake-agent login`"});
        json!({
            "protocolVersion": params["protocolVersion"].as_u64().unwrap_or(1).min(1),
            "agentInfo": {"name": "fake-agent", "version": env!("CARGO_PKG_VERSION")},
            "agentCapabilities": {"loadSession": !self.options.no_load, "sessionCapabilities": session},
            "_meta": {"steering": {"supported": !self.options.no_steer}},
            "authMethods": if self.options.not_logged_in { vec![login] } else { vec![] },
        })
    }

    fn may_have_a_session(&self) -> Result<(), AcpRequestError> {
        if self.options.not_logged_in {
            return Err(AcpRequestError::new(code::AUTH_REQUIRED, "Authentication required"));
        }
        Ok(())
    }

    fn new_session(&mut self) -> Result<Value, AcpRequestError> {
        self.may_have_a_session()?;
        let id = new_id();
        let transcript = FakeTranscript::new(self.options.store.as_deref(), &id);
        self.sessions.insert(id.clone(), FakeAcpSession { transcript });
        Ok(json!({"sessionId": id}))
    }

    fn load(
        &mut self,
        params: &Value,
        replay: bool,
    ) -> Result<Result<Value, AcpRequestError>, ScriptFailure> {
        if let Err(refused) = self.may_have_a_session() {
            return Ok(Err(refused));
        }
        if self.options.refuse_load {
            return Ok(Err(AcpRequestError::new(code::INTERNAL, "loading is refused")));
        }
        let id = params["sessionId"].as_str().unwrap_or_default();
        let found = FakeTranscript::open(self.options.store.as_deref(), id).doing("read a transcript")?;
        let Some((transcript, history)) = found else {
            return Ok(Err(AcpRequestError::new(code::NOT_FOUND, format!("Resource not found: {id}"))));
        };
        if replay {
            for past in history {
                self.update(id, &chunk("user_message_chunk", &past.prompt, None))?;
                self.update(id, &chunk("agent_message_chunk", &past.answer, None))?;
            }
        }
        self.sessions.insert(id.to_owned(), FakeAcpSession { transcript });
        Ok(Ok(json!({})))
    }

    fn fork(&mut self, params: &Value) -> Result<Result<Value, AcpRequestError>, ScriptFailure> {
        if let Err(refused) = self.may_have_a_session() {
            return Ok(Err(refused));
        }
        let store = self.options.store.as_deref();
        let of = params["sessionId"].as_str().unwrap_or_default();
        let Some((transcript, _)) = FakeTranscript::open(store, of).doing("read a transcript")? else {
            return Ok(Err(AcpRequestError::new(code::NOT_FOUND, format!("Resource not found: {of}"))));
        };
        let id = new_id();
        let transcript = transcript.fork(store, &id).doing("copy a transcript")?;
        self.sessions.insert(id.clone(), FakeAcpSession { transcript });
        Ok(Ok(json!({"sessionId": id})))
    }

    fn cancel(&mut self, session: &Value) {
        if let Some(turn) = &mut self.turn
            && !self.deaf
            && session.as_str() == Some(&turn.session)
        {
            turn.cancelled = true;
        }
    }

    fn update(&mut self, session: &str, update: &impl Serialize) -> Result<(), ScriptFailure> {
        let params = SessionUpdateParams { session_id: session, update };
        self.wire.send(&OutgoingRpcMessage { jsonrpc: "2.0", method: "session/update", params })
    }
}

/// A new id: random enough, and unlike any other process's.
fn new_id() -> String {
    let mut bytes = [0_u8; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .expect("there is a random source");
    format!("fake-{:016x}", u64::from_ne_bytes(bytes))
}

#[derive(Serialize)]
struct OutgoingRpcMessage<P> {
    jsonrpc: &'static str,
    method: &'static str,
    params: P,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SessionUpdateParams<'a, U> {
    session_id: &'a str,
    update: &'a U,
}

/// A piece of a message.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct MessageChunk<'a> {
    session_update: &'static str,
    content: TextContent<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message_id: Option<&'a str>,
}

#[derive(Serialize)]
struct TextContent<'a> {
    r#type: &'static str,
    text: &'a str,
}

fn chunk<'a>(kind: &'static str, text: &'a str, message_id: Option<&'a str>) -> MessageChunk<'a> {
    MessageChunk { session_update: kind, content: TextContent { r#type: "text", text }, message_id }
}

/// Lines of JSON in and out.
#[derive(Default)]
struct JsonLineConnection {
    input: Vec<u8>,
    /// Offset of the first line that was not taken yet.
    at: usize,
    /// Offset up to which the end of that line was searched.
    searched: usize,
    output: Vec<u8>,
    /// The input has ended.
    ended: bool,
}

impl JsonLineConnection {
    /// The next message that is there. A line that is not JSON is passed over.
    fn next(&mut self) -> Option<Value> {
        loop {
            let Some(length) = self.input[self.searched..].iter().position(|byte| *byte == b'\n') else {
                self.input.drain(..self.at);
                self.at = 0;
                self.searched = self.input.len();
                return None;
            };
            let end = self.searched + length;
            let message = serde_json::from_slice(&self.input[self.at..end]);
            self.at = end + 1;
            self.searched = self.at;
            if let Ok(message) = message {
                return Some(message);
            }
        }
    }

    /// Waits until there is more input, until one of these is readable, or for so long.
    fn wait(&mut self, timeout: Option<Duration>, also: &[BorrowedFd<'_>]) -> Result<(), ScriptFailure> {
        let stdin = rustix::stdio::stdin();
        let mut waited: Vec<_> = also.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
        if !self.ended {
            waited.push(PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::IN));
        }
        let timeout = timeout.map(|time| Timespec {
            tv_sec: i64::try_from(time.as_secs()).expect("a test is shorter"),
            tv_nsec: time.subsec_nanos().into(),
        });
        match poll(&mut waited, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error).doing("wait for input"),
        }
        if !self.ended && waited.last().is_some_and(|stdin| !stdin.revents().is_empty()) {
            self.read()?;
        }
        Ok(())
    }

    fn read(&mut self) -> Result<(), ScriptFailure> {
        const READ_BYTES: usize = 64 << 10;
        let before = self.input.len();
        self.input.resize(before + READ_BYTES, 0);
        let count =
            rustix::io::retry_on_intr(|| rustix::io::read(rustix::stdio::stdin(), &mut self.input[before..]));
        self.input.truncate(before + count.unwrap_or(0));
        self.ended = count.doing("read from stdin")? == 0;
        Ok(())
    }

    fn send(&mut self, message: &impl Serialize) -> Result<(), ScriptFailure> {
        self.output.clear();
        serde_json::to_writer(&mut self.output, message).expect("a message is plain data");
        self.output.push(b'\n');
        agent::say(&self.output)
    }
}
