//! Real agents: who writes a conversation, and what became of a turn when its agent was killed.
//!
//! The model is a few lines: it answers `fine`, or holds its answer for ever if the prompt says HOLD. Needs
//! `testing/agents/install`.

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use berth_host::identity::{Identity, Verdict};
use berth_host::tree;
use berth_keeper::writers::{Evidence, Writer, end, find, registered};
use berth_transcript::{Asked, Fate, exists, fate};
use serde_json::{Value, json};

const ID: &str = "5e551014-0000-4000-8000-00000000000a";
const PATIENCE: Duration = Duration::from_secs(60);
const GRACE: Duration = Duration::from_secs(20);

/// A private home and a model on loopback for the agents of one test. Whoever carries its mark goes with it.
struct Agents {
    home: PathBuf,
    url: String,
    /// A word for each answer that is held.
    held: Receiver<()>,
}

impl Agents {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let home = std::env::temp_dir().join(format!("berth-conversations-{}-{number}", std::process::id()));
        for part in [".claude", ".codex", "tmp", "work"] {
            fs::create_dir_all(home.join(part)).unwrap();
        }
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let config = format!(
            "model = \"m\"\nmodel_provider = \"mock\"\ncheck_for_update_on_startup = false\n\
             approval_policy = \"never\"\nsandbox_mode = \"danger-full-access\"\n\
             [analytics]\nenabled = false\n[features]\nplugins = false\napps = false\n\
             [model_providers.mock]\nname = \"mock\"\nbase_url = \"{url}/v1\"\nwire_api = \"responses\"\n\
             env_key = \"OPENAI_API_KEY\"\nrequest_max_retries = 0\nstream_max_retries = 0\n"
        );
        fs::write(home.join(".codex/config.toml"), config).unwrap();
        let (sender, held) = channel();
        // Ends with the test's process. Its connections are of agents that end before.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let sender = sender.clone();
                std::thread::spawn(move || serve(stream, &sender));
            }
        });
        Agents { home, url, held }
    }

    fn env(&self) -> impl Fn(&str) -> Option<OsString> {
        let home = self.home.clone();
        move |name| (name == "HOME").then(|| home.clone().into_os_string())
    }

    fn start(&self, program: &str, args: &[&str]) -> Agent {
        let mut command = Command::new(bin().join(program));
        command.args(args).env_clear().current_dir(self.home.join("work"));
        command.env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", bin().display()));
        command
            .env("HOME", &self.home)
            .env("TMPDIR", self.home.join("tmp"))
            .env("BERTH_TEST_HOME", &self.home);
        command.env("ANTHROPIC_BASE_URL", &self.url).env("NO_PROXY", "127.0.0.1").env("LANG", "C.UTF-8");
        for key in ["ANTHROPIC_API_KEY", "OPENAI_API_KEY"] {
            command.env(key, "test-key");
        }
        let off = ["CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "DISABLE_AUTOUPDATER", "DISABLE_TELEMETRY"];
        for name in off.into_iter().chain(["DISABLE_ERROR_REPORTING"]) {
            command.env(name, "1");
        }
        command.env("CLAUDE_CODE_MAX_RETRIES", "0");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Agent { child, output }
    }

    /// Claude Code for turns of this conversation.
    fn claude(&self, args: &[&str]) -> Agent {
        let mut all =
            vec!["-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"];
        all.extend(args);
        self.start("claude", &all)
    }

    /// Codex with a conversation that is new, and its id.
    fn codex(&self) -> (Agent, String) {
        let mut codex = self.start("codex", &["app-server"]);
        codex.say(&json!({"id": 1, "method": "initialize",
            "params": {"clientInfo": {"name": "berth", "title": "berth", "version": "0"}}}));
        codex.wait(|line| line["id"] == 1);
        codex.say(&json!({"method": "initialized"}));
        let id = codex.thread(2);
        (codex, id)
    }

    fn find(&self, kind: &str, id: &str) -> Vec<Writer> {
        find(kind, id, self.env(), |_| false).unwrap()
    }

    fn registered(&self, kind: &str, id: &str) -> Vec<Writer> {
        registered(kind, id, self.env(), |_| false).unwrap()
    }

    fn fate(&self, kind: &str, id: &str, asked: &Asked<'_>) -> Fate {
        fate(kind, id, self.env(), asked)
    }

    fn await_held(&self) {
        self.held.recv_timeout(PATIENCE).expect("the agent asks its model");
    }
}

impl Drop for Agents {
    fn drop(&mut self) {
        let mark = self.home.display().to_string();
        for left in tree::with_mark("BERTH_TEST_HOME", &mark).unwrap().processes {
            if let Verdict::Alive(pidfd) = left.check() {
                pidfd.signal(9).unwrap();
                await_end(&pidfd);
            }
        }
        let _ = fs::remove_dir_all(&self.home);
    }
}

fn await_end(pidfd: &berth_host::identity::Pidfd) {
    let mut fds = [rustix::event::PollFd::new(pidfd, rustix::event::PollFlags::IN)];
    let limit = rustix::event::Timespec { tv_sec: 30, tv_nsec: 0 };
    rustix::event::poll(&mut fds, Some(&limit)).unwrap();
}

/// Where the agents are installed.
fn bin() -> PathBuf {
    let set = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let cache = set("BERTH_AGENTS").or_else(|| {
        let cache = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")))?;
        Some(cache.join("berth-agents"))
    });
    let bin = cache.expect("a home directory").join("bin");
    assert!(bin.join("claude").exists(), "no agents in {}: run testing/agents/install", bin.display());
    bin
}

struct Agent {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
}

impl Agent {
    fn pid(&self) -> u32 {
        self.child.id()
    }

    fn say(&mut self, line: &Value) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    fn wait(&mut self, is_it: impl Fn(&Value) -> bool) -> Value {
        loop {
            let mut line = String::new();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "the agent ended");
            if let Some(line) = serde_json::from_str(&line).ok().filter(&is_it) {
                return line;
            }
        }
    }

    /// A prompt to Claude Code.
    fn prompt(&mut self, uuid: &str, text: &str) {
        self.say(&json!({"type": "user", "uuid": uuid, "message": {"role": "user", "content": text}}));
    }

    /// A new conversation of Codex.
    fn thread(&mut self, request: u32) -> String {
        self.say(&json!({"id": request, "method": "thread/start", "params": {}}));
        let answer = self.wait(|line| line["id"] == request);
        answer["result"]["thread"]["id"].as_str().expect("an id").to_owned()
    }

    /// A prompt to Codex.
    fn turn(&mut self, thread: &str, id: &str, text: &str) {
        let input = json!([{"type": "text", "text": text}]);
        self.say(&json!({"id": id, "method": "turn/start",
            "params": {"threadId": thread, "clientUserMessageId": id, "input": input}}));
        self.wait(|line| line["id"] == id);
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One request, and its answer or none.
fn serve(mut stream: TcpStream, held: &Sender<()>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let (mut first, mut length) = (String::new(), 0);
    reader.read_line(&mut first).unwrap_or_default();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or_default() == 0 || line.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    let mut body = vec![0; length];
    if !first.starts_with("POST") || reader.read_exact(&mut body).is_err() {
        let _ = stream.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        return;
    }
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let said = body
        .get("messages")
        .or(body.get("input"))
        .and_then(|list| list.as_array()?.iter().rev().find(|item| item["role"] == "user").cloned());
    if said.unwrap_or_default().to_string().contains("HOLD") {
        let _ = held.send(());
        // Until the agent goes away.
        let _ = stream.read(&mut [0]);
        return;
    }
    let events = if first.contains("/messages") {
        vec![
            json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant", "model": "m",
                "content": [], "stop_reason": null, "stop_sequence": null, "usage": {"input_tokens": 1, "output_tokens": 1}}}),
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "fine"}}),
            json!({"type": "content_block_stop", "index": 0}),
            json!({"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": null}, "usage": {"output_tokens": 1}}),
            json!({"type": "message_stop"}),
        ]
    } else {
        let item = json!({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": "fine", "annotations": []}]});
        let usage = json!({"input_tokens": 1, "output_tokens": 1, "total_tokens": 2});
        vec![
            json!({"type": "response.created", "response": {"id": "r"}}),
            json!({"type": "response.output_item.done", "output_index": 0, "item": item}),
            json!({"type": "response.completed", "response": {"id": "r", "usage": usage}}),
        ]
    };
    let mut answer =
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n".to_owned();
    for event in events {
        answer.push_str(&format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap()));
    }
    let _ = stream.write_all(answer.as_bytes());
}

#[track_caller]
fn is_unfinished(fate: &Fate) {
    assert!(matches!(fate, Fate::Unfinished { .. }), "{fate:?}");
}

fn done() -> Fate {
    Fate::Done { answer: "fine".to_owned(), cut: false }
}

/// A message's id.
fn uuid(number: u32) -> String {
    format!("0be47400-0000-4000-8000-{number:012x}")
}

#[test]
fn claude_in_a_turn_is_found_by_its_own_list_and_not_when_it_was_killed() {
    let agents = Agents::new();
    let mut claude = agents.claude(&["--session-id", ID]);
    claude.prompt(&uuid(1), "HOLD it");
    agents.await_held();
    let found = agents.registered("claude", ID);
    let [writer] = &found[..] else { panic!("{found:?}") };
    assert_eq!(writer.identity, Identity::of(claude.pid()).unwrap());
    assert_eq!(writer.cwd.as_deref(), Some(&*agents.home.join("work")));
    let file = agents.home.join(format!(".claude/sessions/{}.json", claude.pid()));
    assert_eq!(writer.evidence, Evidence::Registry { file: file.clone() });
    assert_eq!(agents.find("claude", ID).len(), 1, "one writer is one, however it is looked for");
    assert_eq!(registered("claude", ID, agents.env(), |pid| pid == claude.pid()), Ok(vec![]), "it is ours");
    // Without the list, as with older versions.
    fs::remove_file(&file).unwrap();
    let found = agents.find("claude", ID);
    assert_eq!((found.len(), &found[0].evidence), (1, &Evidence::CommandLine), "{found:?}");

    claude.kill();
    assert_eq!(agents.find("claude", ID), []);
}

#[test]
fn a_note_that_a_killed_claude_left_names_nobody() {
    let agents = Agents::new();
    let mut claude = agents.claude(&["--session-id", ID]);
    claude.prompt(&uuid(1), "HOLD it");
    agents.await_held();
    claude.kill();
    let file = agents.home.join(format!(".claude/sessions/{}.json", claude.pid()));
    assert!(file.exists(), "it had no time to take it away");
    assert_eq!(agents.find("claude", ID), []);
}

#[test]
fn a_hook_of_claude_tells_of_its_agent_and_both_are_ended() {
    let agents = Agents::new();
    let pipe = agents.home.join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    // It does not listen.
    let hook = "trap '' TERM HUP INT; echo $$ > ../pipe; while :; do sleep 0.1; done";
    let settings =
        json!({"hooks": {"UserPromptSubmit": [{"hooks": [{"type": "command", "command": hook}]}]}});
    let mut claude = agents.claude(&["--session-id", ID, "--settings", &settings.to_string()]);
    claude.prompt(&uuid(1), "HOLD it");
    let hook = fs::read_to_string(&pipe).unwrap();
    let hook = Identity::of(hook.trim().parse().unwrap()).unwrap();
    let _ = fs::remove_file(agents.home.join(format!(".claude/sessions/{}.json", claude.pid())));
    let found = agents.find("claude", ID);
    let [writer] = &found[..] else { panic!("{found:?}") };
    assert_eq!(writer.identity.pid, claude.pid());
    assert!(matches!(writer.evidence, Evidence::Child { .. }), "{:?}", writer.evidence);
    let ended = end(writer, GRACE, None).unwrap();
    assert!(!ended.killed, "it listens: {ended:?}");
    assert!(matches!(writer.identity.check(), Verdict::Gone));
    assert!(matches!(hook.check(), Verdict::Gone), "what it started is gone too");
    claude.child.wait().unwrap();
}

#[test]
fn what_claude_finished_is_known_and_what_it_did_not() {
    let agents = Agents::new();
    assert_eq!(exists("claude", ID, agents.env()), Some(false));
    let mut claude = agents.claude(&["--session-id", ID]);
    let (one, two) = (uuid(1), uuid(2));
    claude.prompt(&one, "say something");
    claude.wait(|line| line["type"] == "result");
    // At once: whoever reports an end has written it down.
    claude.kill();
    let asked = Asked { id: Some(&one), ..Asked::new("say something") };
    assert_eq!(agents.fate("claude", ID, &asked), done());
    assert_eq!(agents.fate("claude", ID, &Asked::new("say something")), done());
    assert_eq!(exists("claude", ID, agents.env()), Some(true));

    // Killed right after the prompt was given, and again in the middle of the answer.
    let mut claude = agents.claude(&["--resume", ID]);
    claude.prompt(&two, "HOLD it");
    claude.kill();
    is_unfinished(&agents.fate("claude", ID, &Asked { id: Some(&two), ..Asked::new("HOLD it") }));
    let mut claude = agents.claude(&["--resume", ID]);
    let three = uuid(3);
    claude.prompt(&three, "HOLD it again");
    agents.await_held();
    claude.kill();
    is_unfinished(&agents.fate("claude", ID, &Asked { id: Some(&three), ..Asked::new("HOLD it again") }));
    assert_eq!(agents.fate("claude", ID, &asked), done(), "what was before stays");
}

#[test]
fn codex_is_found_by_its_lock_and_ended() {
    let agents = Agents::new();
    let (mut codex, id) = agents.codex();
    let other = codex.thread(3);
    let found = agents.registered("codex", &id);
    let [writer] = &found[..] else { panic!("{found:?}") };
    assert_eq!(writer.identity.pid, codex.pid());
    assert!(matches!(writer.evidence, Evidence::Lock { .. }));
    assert_eq!(writer.others, 1, "it has another conversation");
    assert_eq!(agents.find("codex", &id).len(), 1);
    assert_eq!(agents.find("codex", &other).len(), 1);
    end(writer, GRACE, None).unwrap();
    assert_eq!(agents.find("codex", &id), []);
    codex.child.wait().unwrap();
}

#[test]
fn what_codex_finished_is_known_and_what_it_did_not() {
    let agents = Agents::new();
    let (mut codex, id) = agents.codex();
    codex.turn(&id, "turn-1", "say something");
    codex.wait(|line| line["method"] == "turn/completed");
    codex.kill();
    let asked = Asked { id: Some("turn-1"), ..Asked::new("say something") };
    assert_eq!(agents.fate("codex", &id, &asked), done());
    assert_eq!(exists("codex", &id, agents.env()), Some(true));
    assert_eq!(agents.find("codex", &id), [], "a lock ends with its holder");

    let (mut codex, id) = agents.codex();
    codex.turn(&id, "turn-1", "HOLD it");
    agents.await_held();
    codex.kill();
    is_unfinished(&agents.fate("codex", &id, &Asked { id: Some("turn-1"), ..Asked::new("HOLD it") }));
}
