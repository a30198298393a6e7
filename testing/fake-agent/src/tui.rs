//! A terminal interface that tells through hooks, as Claude Code does.
//!
//! Typed or pasted text goes into a box; Enter sends it. `UserPromptSubmit` is told before anything else happens, also
//! for text that is typed while something runs. Words in a prompt say how the agent answers it:
//!
//! ```text
//! (none)        answers ECHO: <the prompt>, then Stop
//! HOLD NAME     works until the file NAME is there; Escape breaks it off, which no hook tells, and puts the prompt back
//!               into the box
//! ASK COMMAND   PermissionRequest, then a dialog: `1` allows, Escape breaks off; with UNTIL NAME in it, it takes until
//!               the file NAME is there
//! NEST          starts an agent inside of it, which tells a conversation and a prompt of its own
//! MUTE          tells nothing of this prompt
//! FLOOD         paints more than two megabytes before it answers
//! REMIND        tells that it has had nothing to do for a minute: a reminder of an earlier end that comes late
//! FORGE NAME    uses a tool that tells the end of this turn by the agent's own hook, with an answer of its own, and takes
//!               until the file NAME is there
//! LATE NAME     tells the end, and writes it down when the file NAME is there
//! UNWRITTEN     tells the end, and never writes it down
//! SURPRISE      begins something of its own when this was pasted, before it is sent
//! /menu         a menu, of which Enter picks something and Escape nothing
//! /clear late   another conversation, and then a hook of the one before comes
//! /clear        another conversation      /resume ID  that one      /exit  ends
//! ```
//!
//! With `--late NAME` it tells that it is there, and reads its terminal when the file NAME is there; keys that were
//! typed until then are lost, as with Claude Code. Hooks come from `--plugin-dir DIR` or `--hook COMMAND`; `fake-agent
//! tell` is a hook that needs no berth. The agent's state is in `$CLAUDE_CONFIG_DIR/sessions/PID.json`; with `--record`
//! its conversation is in `$CLAUDE_CONFIG_DIR/projects`.
//! Start with [`run`].

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};
use serde_json::{Value, json};

/// How long it looks for a file before it reads keys again.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };
const ESCAPE: u8 = 0x1b;
/// How many lines of 64 bytes a flood has.
const FLOOD_LINES: usize = 40_000;
/// The prompt that the agent gives itself.
const OWN_PROMPT: &str = "<task-notification>";

/// A terminal interface.
struct FakeTui {
    session: String,
    hook: Option<String>,
    plugin: Option<PathBuf>,
    /// The text in the box, and whether a paste is being taken in.
    text: Vec<u8>,
    pasting: bool,
    /// Keys that were read and not looked at.
    keys: VecDeque<u8>,
    /// Prompts that were sent and wait.
    sent: VecDeque<String>,
    clears: u32,
    records: bool,
    /// The last record that was written, and how many were.
    last_record: Option<String>,
    recorded: u32,
}

/// Something that was done at the terminal.
enum TuiAction {
    Sent(String),
    Escape,
    Key(u8),
}

/// Runs the interface with these words behind `tui`.
pub(crate) fn run(words: &[String]) -> io::Result<ExitCode> {
    let value = |name: &str| {
        let at = words.iter().position(|word| word == name)?;
        words.get(at + 1).cloned()
    };
    let session =
        value("--session-id").or_else(|| value("--resume")).unwrap_or_else(|| "fake-session".to_owned());
    let mut tui = FakeTui {
        session,
        hook: value("--hook"),
        plugin: value("--plugin-dir").map(PathBuf::from),
        text: vec![],
        pasting: false,
        keys: VecDeque::new(),
        sent: VecDeque::new(),
        clears: 0,
        records: words.iter().any(|word| word == "--record"),
        last_record: None,
        recorded: 0,
    };
    let stdin = rustix::stdio::stdin();
    let mut modes = tcgetattr(stdin)?;
    modes.make_raw();
    let late = value("--late");
    if late.is_none() {
        tcsetattr(stdin, OptionalActions::Now, &modes)?;
    }
    tui.tell("SessionStart", json!({"source": "startup"}))?;
    if let Some(name) = late {
        while !Path::new(&name).exists() {
            poll(&mut [], Some(&LOOK))?;
        }
        tcsetattr(stdin, OptionalActions::Flush, &modes)?;
    }
    tui.status("idle")?;
    show("\x1b[?2004hready\r\n> ")?;
    loop {
        let text = match tui.sent.pop_front() {
            Some(text) => text,
            None => match tui.next(None)? {
                Some(TuiAction::Sent(text)) => text,
                Some(TuiAction::Escape | TuiAction::Key(_)) => continue,
                None => return Ok(ExitCode::SUCCESS),
            },
        };
        if text == "/exit" {
            tui.tell("SessionEnd", json!({"reason": "prompt_input_exit"}))?;
            return Ok(ExitCode::SUCCESS);
        }
        tui.prompt(&text)?;
        show("\r\n> ")?;
    }
}

impl FakeTui {
    fn prompt(&mut self, text: &str) -> io::Result<()> {
        if text == "/clear" || text == "/clear late" {
            self.tell("SessionEnd", json!({"reason": "clear"}))?;
            self.clears += 1;
            let next = format!("{}-{}", self.session, self.clears);
            let before = std::mem::replace(&mut self.session, next);
            self.tell("SessionStart", json!({"source": "clear"}))?;
            if text == "/clear late" {
                let about = json!({"last_assistant_message": "of before"});
                tell("Stop", &before, about, self.hook.as_deref(), self.plugin.as_deref())?;
            }
            return show("\r\ncleared");
        }
        if text == "/menu" {
            show("\r\nmenu:")?;
            return self.menu();
        }
        if let Some(id) = text.strip_prefix("/resume ") {
            self.session = id.to_owned();
            return self.tell("SessionStart", json!({"source": "resume"}));
        }
        if text.contains("MUTE") {
            return show("\r\nmute");
        }
        self.status("busy")?;
        self.record("user", json!({"role": "user", "content": text}))?;
        let word = |name: &str| text.split_once(name).map(|(_, rest)| rest.trim().to_owned());
        if text.contains("REMIND") {
            self.tell("Notification", json!({"at_ms": now_ms() + 60_000}))?;
        }
        if text.contains("FLOOD") {
            let line = format!("\r\n{}", "~".repeat(62));
            (0..FLOOD_LINES).try_for_each(|_| show(&line))?;
        }
        if let Some(name) = word("HOLD ") {
            let name = name.split_whitespace().next().unwrap_or_default().to_owned();
            show("\r\nheld")?;
            if !self.wait_for(|_| Path::new(&name).exists())? {
                show("\r\ninterrupted")?;
                // There was no answer: the prompt is in the box again.
                self.text = text.as_bytes().to_vec();
                return self.status("idle");
            }
        }
        if let Some(command) = word("ASK ") {
            let tool = json!({"tool_name": "Bash", "tool_input": {"command": command}});
            self.tell("PreToolUse", tool.clone())?;
            self.status("waiting")?;
            self.tell("PermissionRequest", tool.clone())?;
            show("\r\n1. Yes  2. No")?;
            if !self.wait_for(|key| key == Some(b'1'))? {
                show("\r\ninterrupted")?;
                return self.status("idle");
            }
            self.status("busy")?;
            // A tool that takes its time.
            if let Some((_, name)) = command.split_once("UNTIL ") {
                self.wait_for(|_| Path::new(name).exists())?;
            }
            self.tell("PostToolUse", tool)?;
        }
        if text.contains("NEST") {
            let me = std::env::current_exe()?;
            let mut nested = Command::new(me);
            nested.arg("nested").stdin(Stdio::null()).stdout(Stdio::null());
            nested.args(self.hook.iter().flat_map(|hook| ["--hook", hook]));
            nested
                .args(self.plugin.iter().flat_map(|dir| ["--plugin-dir", dir.to_str().unwrap_or_default()]));
            nested.status()?;
        }
        if let Some(name) = word("FORGE ") {
            let tool = json!([{"type": "tool_use", "id": "t", "name": "Bash", "input": {}}]);
            let message = json!({"id": "m0", "model": "m", "stop_reason": "tool_use", "content": tool});
            self.record("assistant", message)?;
            self.tell("Stop", json!({"last_assistant_message": "forged"}))?;
            show("\r\nforged")?;
            self.wait_for(|_| Path::new(&name).exists())?;
            let result = json!([{"type": "tool_result", "tool_use_id": "t", "content": ""}]);
            self.record("user", json!({"role": "user", "content": result}))?;
        }
        let answer = format!("ECHO: {text}");
        let said = json!([{"type": "text", "text": answer}]);
        let message = json!({"id": "m1", "model": "m", "stop_reason": "end_turn", "content": said});
        let late = word("LATE ");
        if late.is_none() && !text.contains("UNWRITTEN") {
            self.record("assistant", message.clone())?;
        }
        show(&format!("\r\n{}", answer.replace('\n', "\r\n")))?;
        self.tell("Stop", json!({"last_assistant_message": answer}))?;
        self.status("idle")?;
        if let Some(name) = late {
            self.wait_for(|_| Path::new(&name).exists())?;
            self.record("assistant", message)?;
        }
        Ok(())
    }

    /// Writes a record into its transcript, behind the last one.
    fn record(&mut self, kind: &str, message: Value) -> io::Result<()> {
        let dir = std::env::var_os("CLAUDE_CONFIG_DIR").filter(|_| self.records);
        let Some(projects) = dir.map(|dir| Path::new(&dir).join("projects")) else { return Ok(()) };
        let name = format!("{}.jsonl", self.session);
        std::fs::create_dir_all(projects.join("-w"))?;
        let mut places = std::fs::read_dir(&projects)?.flatten().map(|project| project.path().join(&name));
        let path = places.find(|path| path.exists()).unwrap_or_else(|| projects.join("-w").join(&name));
        self.recorded += 1;
        let uuid = format!("r{}-{}", std::process::id(), self.recorded);
        let parent = self.last_record.replace(uuid.clone());
        let record = json!({"type": kind, "uuid": uuid, "parentUuid": parent, "message": message});
        let mut file = std::fs::File::options().append(true).create(true).open(path)?;
        file.write_all(format!("{record}\n").as_bytes())
    }

    /// Shows which keys it gets until there is an Enter or a lone Escape, and never pasted text.
    fn menu(&mut self) -> io::Result<()> {
        loop {
            let mut keys = [0; 4096];
            let count = io::stdin().read(&mut keys)?;
            match &keys[..count] {
                [] | [ESCAPE] => return show("\r\nclosed"),
                keys if keys.ends_with(b"\r") => return show("\r\npicked"),
                keys => show(&format!(" {}", keys.len()))?,
            }
        }
    }

    /// Goes on reading keys until this is so. `false`: it was broken off.
    fn wait_for(&mut self, mut is_so: impl FnMut(Option<u8>) -> bool) -> io::Result<bool> {
        loop {
            match self.next(Some(LOOK))? {
                Some(TuiAction::Escape) => return Ok(false),
                Some(TuiAction::Sent(text)) => self.sent.push_back(text),
                Some(TuiAction::Key(key)) if is_so(Some(key)) => return Ok(true),
                Some(TuiAction::Key(_)) => {}
                None if is_so(None) => return Ok(true),
                None => {}
            }
        }
    }

    /// The next action at the terminal. `None`: nothing within this time, or the input ended.
    fn next(&mut self, within: Option<Timespec>) -> io::Result<Option<TuiAction>> {
        loop {
            while let Some(key) = self.keys.pop_front() {
                let rest: Vec<u8> = self.keys.iter().copied().take(5).collect();
                match key {
                    ESCAPE if rest.starts_with(b"[200~") => {
                        self.keys.drain(..5);
                        self.pasting = true;
                    }
                    ESCAPE if rest.starts_with(b"[201~") => {
                        self.keys.drain(..5);
                        self.pasting = false;
                        if String::from_utf8_lossy(&self.text).contains("SURPRISE") {
                            self.tell("UserPromptSubmit", json!({"prompt": OWN_PROMPT}))?;
                            self.status("busy")?;
                        }
                    }
                    ESCAPE => return Ok(Some(TuiAction::Escape)),
                    b'\r' if !self.pasting => {
                        let text = String::from_utf8_lossy(&std::mem::take(&mut self.text)).trim().to_owned();
                        if text.is_empty() {
                            continue;
                        }
                        // Told when the prompt is sent, even while a turn runs.
                        if !text.starts_with('/') && !text.contains("MUTE") {
                            let about = json!({"prompt": text});
                            let (hook, plugin) = (self.hook.as_deref(), self.plugin.as_deref());
                            if tell("UserPromptSubmit", &self.session, about, hook, plugin)? {
                                // As Claude Code does: it stays in the box.
                                show(&format!("\r\nheld up\r\n> {text}"))?;
                                self.text = text.into_bytes();
                                continue;
                            }
                        }
                        return Ok(Some(TuiAction::Sent(text)));
                    }
                    0x7f => drop(self.text.pop()),
                    0x03 | 0x15 => self.text.clear(),
                    key => {
                        self.text.push(key);
                        let shown = if key == b'\n' { b"\r\n".to_vec() } else { vec![key] };
                        io::stdout().write_all(&shown)?;
                        io::stdout().flush()?;
                        if within.is_some() && !self.pasting {
                            return Ok(Some(TuiAction::Key(key)));
                        }
                    }
                }
            }
            let stdin = rustix::stdio::stdin();
            let ready = poll(&mut [PollFd::new(&stdin, PollFlags::IN)], within.as_ref())?;
            if ready == 0 {
                return Ok(None);
            }
            let mut keys = [0; 4096];
            let count = io::stdin().read(&mut keys)?;
            if count == 0 {
                return Ok(None);
            }
            self.keys.extend(&keys[..count]);
        }
    }

    fn tell(&self, event: &str, about: Value) -> io::Result<()> {
        tell(event, &self.session, about, self.hook.as_deref(), self.plugin.as_deref()).map(drop)
    }

    /// Writes the agent's entry in its own list of sessions.
    fn status(&self, status: &str) -> io::Result<()> {
        let Some(dir) = std::env::var_os("CLAUDE_CONFIG_DIR").map(PathBuf::from) else { return Ok(()) };
        let dir = dir.join("sessions");
        std::fs::create_dir_all(&dir)?;
        let pid = std::process::id();
        let stat = std::fs::read_to_string("/proc/self/stat")?;
        let start =
            stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(19)).unwrap_or_default();
        let entry = json!({
            "pid": pid, "sessionId": self.session, "procStart": start, "status": status, "statusUpdatedAt": now_ms(),
        });
        let temporary = dir.join(format!(".{pid}"));
        std::fs::write(&temporary, entry.to_string())?;
        std::fs::rename(temporary, dir.join(format!("{pid}.json")))
    }
}

/// An agent that another one started: it tells of itself, and ends.
pub(crate) fn nested(words: &[String]) -> io::Result<ExitCode> {
    let value = |name: &str| words.iter().position(|word| word == name).and_then(|at| words.get(at + 1));
    let (hook, plugin) = (value("--hook").map(String::as_str), value("--plugin-dir").map(Path::new));
    tell("SessionStart", "nested", json!({"source": "startup"}), hook, plugin)?;
    tell("UserPromptSubmit", "nested", json!({"prompt": "of the nested one"}), hook, plugin)?;
    tell("Stop", "nested", json!({"last_assistant_message": "nested is done"}), hook, plugin)?;
    Ok(ExitCode::SUCCESS)
}

/// Calls the hooks for an event and waits for them, as agents do. Returns whether one of them forbids it.
fn tell(
    event: &str,
    session: &str,
    about: Value,
    hook: Option<&str>,
    plugin: Option<&Path>,
) -> io::Result<bool> {
    let mut said = json!({
        "session_id": session, "transcript_path": "/nowhere", "cwd": std::env::current_dir()?, "hook_event_name": event,
    });
    if let (Some(said), Value::Object(about)) = (said.as_object_mut(), about) {
        said.extend(about);
    }
    let carried = plugin.and_then(|dir| std::fs::read(dir.join("hooks/hooks.json")).ok());
    let carried: Value = carried.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
    let carried = carried["hooks"][event][0]["hooks"][0]["command"].as_str().map(str::to_owned);
    let mut blocks = false;
    for command in carried.into_iter().chain(hook.map(str::to_owned)) {
        let mut shell = Command::new("sh");
        shell.args(["-c", &command]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut shell = shell.spawn()?;
        if let Some(mut stdin) = shell.stdin.take() {
            let _ = stdin.write_all(said.to_string().as_bytes());
        }
        let heard: Value = serde_json::from_slice(&shell.wait_with_output()?.stdout).unwrap_or_default();
        blocks |= heard["decision"] == "block";
    }
    Ok(blocks)
}

/// A hook that needs no berth: tells the session's keeper the event on standard input.
pub(crate) fn hook() -> io::Result<ExitCode> {
    let mut said = Vec::new();
    io::stdin().read_to_end(&mut said)?;
    let event: Value = serde_json::from_slice(&said).map_err(io::Error::other)?;
    let text = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
    let told = match text("hook_event_name").as_str() {
        "SessionStart" => json!({"told": "started", "how": text("source")}),
        "UserPromptSubmit" => json!({"told": "prompt", "text": text("prompt")}),
        "PreToolUse" | "PostToolUse" => json!({"told": "tool", "name": text("tool_name")}),
        "PermissionRequest" => {
            let command = event["tool_input"]["command"].as_str().unwrap_or_default();
            json!({"told": "needs_you", "what": format!("{}: {command}", text("tool_name"))})
        }
        "Stop" => json!({"told": "stopped", "answer": text("last_assistant_message")}),
        "Notification" => json!({"told": "interrupted"}),
        _ => json!({"told": "ended", "why": text("reason")}),
    };
    let variable = |name: &str| std::env::var(name).map_err(io::Error::other);
    let sock =
        Path::new(&variable("BERTH_HOME")?).join("sessions").join(variable("BERTH_SESSION")?).join("sock");
    let at_ms = event["at_ms"].as_u64().unwrap_or_else(now_ms);
    let report =
        json!({"kind": "claude", "conversation_id": text("session_id"), "at_ms": at_ms, "told": told});
    let call =
        json!({"protocol": 1, "place": "a hook", "request": {"ask": "hook", "report": report}}).to_string();
    let mut keeper = UnixStream::connect(sock)?;
    keeper.set_read_timeout(Some(Duration::from_secs(10)))?;
    let length = u32::try_from(call.len() + 1).map_err(io::Error::other)?;
    keeper.write_all(&[&length.to_le_bytes()[..], b"c", call.as_bytes()].concat())?;
    let _ = keeper.read(&mut [0; 64])?;
    Ok(ExitCode::SUCCESS)
}

fn show(text: &str) -> io::Result<()> {
    io::stdout().write_all(text.as_bytes())?;
    io::stdout().flush()
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
