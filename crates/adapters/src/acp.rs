//! The ACP agent that an editor starts: a kept session behind the agent's side of ACP, version
//! 1, on standard input and output.
//!
//! Promise: prompts of the editor go through the session's one queue, like those of every client. The editor may close
//! or die at any moment, and no turn ends because of it. Standard output carries only the protocol.
//! Not here: the client's side of ACP, for agents that berth starts (`berth_driver::acp`).
//! Start with [`serve`]; then `editor_session` and `editor_feed`.

mod content;
mod editor_connection;
mod editor_feed;
mod editor_session;
mod replay;
mod tool_calls;

use std::collections::HashMap;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, RwLock};
use std::time::Duration;

use agent_client_protocol_schema::ProtocolVersion;
use agent_client_protocol_schema::v1::{
    AGENT_METHOD_NAMES, AgentCapabilities, CloseSessionResponse, Implementation, InitializeResponse,
    ListSessionsResponse, LoadSessionResponse, Meta, NewSessionResponse, Notice, NoticeSeverity,
    PROTOCOL_LEVEL_METHOD_NAMES, PromptCapabilities, RequestPermissionOutcome, RequestPermissionResponse,
    ResumeSessionResponse, SessionCapabilities, SessionInfo, SessionListCapabilities,
    SessionResumeCapabilities, SessionUpdate,
};
use berth_api::message::KeeperRequest;
use berth_api::turn::QuestionReply;
use berth_api::{Problem, ProblemCode, SessionState, SessionStatus};
use berth_config::agents::{AgentDefinition, DriverKind};
use berth_core::SessionId;
use berth_driver::rpc::{self, RpcMessage};
use berth_verbs::run::{RunRequest, id_of, prepare};
use serde_json::{Value, json};

use berth_verbs::VerbContext;
use berth_verbs::answer::QuestionId;
use berth_verbs::listing::{self, ListExtent, ListOrder, SessionFilter};
use editor_connection::{EditorConnection, EditorLine, PendingPermission};
use editor_feed::EditorFeed;
use editor_session::EditorSession;
use replay::SessionReplay;

/// How many sessions one editor may have open.
const MOST_OPEN: usize = 64;
/// How many sessions are on one page of a list.
const PAGE: usize = 100;
/// How long requests of the editor may still take after it disconnected.
const LAST_PATIENCE: Duration = Duration::from_secs(35);
/// How often an answer is sent to a keeper that cannot be reached, and the pause between two tries.
const ANSWER_TRIES: usize = 5;
const ANSWER_PAUSE: Duration = Duration::from_millis(500);
/// How much of the editor's own name is shown.
const MAX_CLIENT_CHARS: usize = 40;

/// The state of one connection to an editor.
#[derive(Debug)]
pub struct AcpServer {
    ctx: RwLock<VerbContext>,
    wire: EditorConnection,
    /// The only session that the editor may use, if the user named one.
    given: Option<SessionId>,
    /// The agent of new sessions.
    agent: String,
    /// The open sessions, by the id that the editor uses for each.
    open: Mutex<HashMap<String, Arc<EditorSession>>>,
    is_introduced: AtomicBool,
    /// True if the editor can show notices beside the conversation.
    shows_notices: AtomicBool,
    /// Number of requests that must finish even if the editor disconnects.
    under_way: Mutex<usize>,
    finished: Condvar,
}

/// Serves the editor on standard input and output until it closes.
pub fn serve(ctx: &VerbContext, given: Option<SessionId>, agent: String) -> Result<(), Problem> {
    let server = Arc::new(AcpServer::new(ctx.clone(), given, agent));
    let mut input = BufReader::new(io::stdin());
    loop {
        let line = editor_connection::read(&mut input)
            .map_err(|error| Problem::refused(format!("cannot read standard input: {error}")))?;
        match line {
            EditorLine::Whole(line) => server.hear(&line),
            EditorLine::TooLong => {
                server.wire.refuse(
                    &Value::Null,
                    rpc::INVALID_REQUEST,
                    "the line is too long; nothing was done",
                );
            }
            EditorLine::End => break,
        }
    }
    server.finish();
    Ok(())
}

impl AcpServer {
    fn new(ctx: VerbContext, given: Option<SessionId>, agent: String) -> Self {
        Self {
            ctx: RwLock::new(ctx),
            wire: EditorConnection::default(),
            given,
            agent,
            open: Mutex::default(),
            is_introduced: AtomicBool::new(false),
            shows_notices: AtomicBool::new(false),
            under_way: Mutex::new(0),
            finished: Condvar::new(),
        }
    }

    fn ctx(&self) -> VerbContext {
        self.ctx.read().expect("no thread panics while holding this lock").clone()
    }

    /// Changes the count of requests that must finish.
    fn busy(&self, more: isize) {
        let mut under_way = self.under_way.lock().expect("no thread panics while holding this lock");
        *under_way = under_way.saturating_add_signed(more);
        self.finished.notify_all();
    }

    /// Called when the editor has disconnected: waits until its requests are accepted or
    /// refused, not until their turns end.
    fn finish(&self) {
        let under_way = self.under_way.lock().expect("no thread panics while holding this lock");
        let _ = self.finished.wait_timeout_while(under_way, LAST_PATIENCE, |count| *count > 0);
    }

    fn hear(self: &Arc<Self>, line: &[u8]) {
        match rpc::read_rpc(line) {
            RpcMessage::Request { id, method, params } => self.requested(id, &method, params),
            RpcMessage::Notification { method, params } => self.told(&method, &params),
            RpcMessage::Answer { id, result } => self.answered(&id, result),
            RpcMessage::Garbage => {
                self.wire.refuse(&Value::Null, rpc::PARSE_ERROR, "the line is not a JSON-RPC message");
            }
            RpcMessage::Stray | RpcMessage::Nothing => {}
        }
    }

    fn requested(self: &Arc<Self>, id: Value, method: &str, params: Value) {
        let names = AGENT_METHOD_NAMES;
        let is_introduced = self.is_introduced.load(Ordering::Acquire);
        if method == names.initialize {
            return self.introduce(&id, &params);
        }
        if !is_introduced {
            return self.wire.refuse(&id, rpc::INVALID_REQUEST, "`initialize` comes first");
        }
        let done = if method == names.session_new {
            self.apart(id.clone(), move |server, id| server.new_session(id, &params))
        } else if method == names.session_load {
            self.apart(id.clone(), move |server, id| server.take_up(id, &params, true))
        } else if method == names.session_resume {
            self.apart(id.clone(), move |server, id| server.take_up(id, &params, false))
        } else if method == names.session_list {
            self.apart(id.clone(), move |server, id| server.list(id, &params))
        } else if method == names.session_prompt {
            self.opened(&params).and_then(|open| open.prompt(self, &id, content::text(&params["prompt"])?))
        } else if method == names.session_close {
            self.close(&id, &params)
        } else {
            let what = format!("berth does not offer `{method}`");
            return self.wire.refuse(&id, rpc::METHOD_NOT_FOUND, &what);
        };
        if let Err(problem) = done {
            self.wire.problem(&id, &problem, None);
        }
    }

    /// Runs a slow request on its own thread, and to its end even if the editor disconnects.
    fn apart(
        self: &Arc<Self>,
        id: Value,
        work: impl FnOnce(&Arc<Self>, &Value) -> Result<(), Problem> + Send + 'static,
    ) -> Result<(), Problem> {
        self.busy(1);
        let server = self.clone();
        let begun = spawn("request", move || {
            if let Err(problem) = work(&server, &id) {
                server.wire.problem(&id, &problem, None);
            }
            server.busy(-1);
        });
        begun.inspect_err(|_| self.busy(-1))
    }

    fn told(self: &Arc<Self>, method: &str, params: &Value) {
        let is_cancel = method == AGENT_METHOD_NAMES.session_cancel;
        if !is_cancel && method != PROTOCOL_LEVEL_METHOD_NAMES.cancel_request {
            return;
        }
        let open = self.open.lock().expect("no thread panics while holding this lock");
        let (meant, only): (Vec<Arc<EditorSession>>, Option<Value>) = if is_cancel {
            (open.get(text(params, "sessionId")).cloned().into_iter().collect(), None)
        } else {
            (open.values().cloned().collect(), Some(params["requestId"].clone()))
        };
        drop(open);
        let server = self.clone();
        self.busy(1);
        let begun = spawn("cancel", move || {
            meant.iter().for_each(|open| open.cancel(&server, only.as_ref()));
            server.busy(-1);
        });
        if begun.is_err() {
            self.busy(-1);
        }
    }

    /// Handles the editor's response to a permission request: a choice of its user, or no choice.
    fn answered(self: &Arc<Self>, id: &str, result: Result<Value, rpc::RpcError>) {
        let Some(asked) = self.wire.take_asked(id) else { return };
        let outcome = result.map_err(|problem| problem.said()).and_then(|said| {
            serde_json::from_value::<RequestPermissionResponse>(said).map_err(|odd| odd.to_string())
        });
        let option = match outcome.map(|said| said.outcome) {
            Ok(RequestPermissionOutcome::Selected(selected)) => selected.option_id.to_string(),
            // Another client may answer: the question stays open.
            Ok(_) => return tracing::info!(asked.request, "the editor did not decide"),
            Err(said) => return tracing::info!(asked.request, said, "the editor cannot decide"),
        };
        let server = self.clone();
        self.busy(1);
        let begun = spawn("answer", move || {
            server.pass_on(&asked, &option);
            server.busy(-1);
        });
        if begun.is_err() {
            self.busy(-1);
        }
    }

    /// Passes an answer on to the agent. The editor cannot repeat it, so an unreachable keeper is tried several times.
    fn pass_on(&self, asked: &PendingPermission, option: &str) {
        for is_last in (0..ANSWER_TRIES).map(|count| count + 1 == ANSWER_TRIES) {
            let request = KeeperRequest::AnswerAsk {
                request: Some(asked.request.clone()),
                reply: QuestionReply::option(option),
                epoch: Some(asked.epoch),
            };
            let Err(problem) = self.ctx().ask(&asked.session, request) else { return };
            match problem.code {
                ProblemCode::NotFound | ProblemCode::Refused => {
                    // Another client answered first, or the agent withdrew the question.
                    return tracing::info!(problem = problem.what, "the answer came too late");
                }
                _ if is_last => {
                    let (what, session) = (&problem.what, &asked.session);
                    let request = QuestionId::new(asked.epoch, &asked.request);
                    let command = format!("berth answer {session} {option} --request {request}");
                    let next = format!("if the question is still open, answer it with `{command}`");
                    return self.tell(&asked.wire, &format!("your answer did not arrive: {what}; {next}"));
                }
                _ => std::thread::sleep(ANSWER_PAUSE),
            }
        }
    }

    fn introduce(&self, id: &Value, params: &Value) {
        let info = &params["clientInfo"];
        let client =
            [text(info, "title"), text(info, "name"), "an editor"].into_iter().find(|it| !it.is_empty());
        let client: String =
            client.unwrap_or_default().chars().filter(|c| !c.is_control()).take(MAX_CLIENT_CHARS).collect();
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let mut ctx = self.ctx.write().expect("no thread panics while holding this lock");
        ctx.place = format!("{client} (ACP) on {host}");
        drop(ctx);
        let notices = &params["clientCapabilities"]["session"]["notices"];
        let shows_notices = !matches!(notices, Value::Null | Value::Bool(false));
        self.shows_notices.store(shows_notices, Ordering::Release);
        self.is_introduced.store(true, Ordering::Release);
        let session = SessionCapabilities::new()
            .list(SessionListCapabilities::new())
            .resume(SessionResumeCapabilities::new());
        // `session/close` is handled but not advertised: an agent that advertises it must break off the work under way,
        // and here that work goes on.
        let able = AgentCapabilities::new()
            .load_session(true)
            .prompt_capabilities(PromptCapabilities::new().embedded_context(true))
            .session_capabilities(session);
        let answer = InitializeResponse::new(ProtocolVersion::V1)
            .agent_capabilities(able)
            .agent_info(Implementation::new("berth", env!("CARGO_PKG_VERSION")));
        self.wire.answer(id, &answer);
    }

    fn new_session(self: &Arc<Self>, request: &Value, params: &Value) -> Result<(), Problem> {
        let ctx = self.ctx();
        let id = match &self.given {
            Some(id) => {
                check_takes_turns(&ctx, id)?;
                id.clone()
            }
            None => {
                let cwd = absolute(params)?;
                let agent = Some(self.agent.clone());
                let prepared = prepare(&RunRequest { cwd: Some(cwd), agent, ..RunRequest::default() })?;
                if !prepared.takes_turns() {
                    return Err(no_turns(&self.agent));
                }
                id_of(&prepared.start(&ctx)?.status)?
            }
        };
        let wire = id.to_string();
        // In an existing session, turns may be under way.
        let past = SessionReplay::read(&ctx, &id)?;
        let open = self.enter(wire.clone(), id)?;
        let feed = self.feed(&open, &past)?;
        // The answer to `session/new` is sent before any update: the editor does not know the session earlier.
        let servers = params["mcpServers"].as_array().map_or(0, Vec::len);
        let meta = Meta::from_iter([("berth".to_owned(), json!({"session": wire, "mcpServersPassedOn": 0}))]);
        self.wire.answer(request, &NewSessionResponse::new(wire).meta(meta));
        self.mention_servers(&open.wire, servers);
        spawn("watch", move || feed.run())
    }

    fn take_up(self: &Arc<Self>, request: &Value, params: &Value, with_past: bool) -> Result<(), Problem> {
        let ctx = self.ctx();
        let wire = text(params, "sessionId").to_owned();
        let id = ctx.home.find(&wire)?;
        if self.given.as_ref().is_some_and(|given| *given != id) {
            let what = format!("this editor was given one session, and `{wire}` is not that session");
            return Err(
                Problem::not_found(what).hint("start `berth acp` without a session to use all sessions")
            );
        }
        check_takes_turns(&ctx, &id)?;
        let past = SessionReplay::read(&ctx, &id)?;
        let open = self.enter(wire, id)?;
        let feed = self.feed(&open, &past)?;
        if with_past {
            past.tell(self, &open.wire).inspect_err(|_| self.leave(&open))?;
            self.wire.answer(request, &LoadSessionResponse::new());
        } else {
            self.wire.answer(request, &ResumeSessionResponse::new());
        }
        self.mention_servers(&open.wire, params["mcpServers"].as_array().map_or(0, Vec::len));
        spawn("watch", move || feed.run())
    }

    fn feed(
        self: &Arc<Self>,
        open: &Arc<EditorSession>,
        past: &SessionReplay,
    ) -> Result<EditorFeed, Problem> {
        EditorFeed::new(self.clone(), open.clone(), past).inspect_err(|_| self.leave(open))
    }

    /// Remembers that the editor has a session open. A session that was open under this id is closed first.
    fn enter(self: &Arc<Self>, wire: String, id: SessionId) -> Result<Arc<EditorSession>, Problem> {
        let mut all = self.open.lock().expect("no thread panics while holding this lock");
        if all.len() >= MOST_OPEN && !all.contains_key(&wire) {
            let what = format!("{MOST_OPEN} sessions are open in this editor already");
            return Err(Problem::full(what).hint("close some with `session/close`"));
        }
        let open = EditorSession::new(self, wire.clone(), id)?;
        if let Some(before) = all.insert(wire, open.clone()) {
            before.close();
        }
        Ok(open)
    }

    fn opened(&self, params: &Value) -> Result<Arc<EditorSession>, Problem> {
        let wire = text(params, "sessionId");
        let open = self.open.lock().expect("no thread panics while holding this lock").get(wire).cloned();
        open.ok_or_else(|| {
            Problem::not_found(format!("session `{wire}` is not open"))
                .hint("`session/load` or `session/resume` opens an existing session, `session/new` a new one")
        })
    }

    /// The editor stops watching. The session goes on.
    fn close(&self, id: &Value, params: &Value) -> Result<(), Problem> {
        let open = self.opened(params)?;
        self.leave(&open);
        self.wire.answer(id, &CloseSessionResponse::new());
        Ok(())
    }

    /// Closes a session. Another one that the editor has opened under the same id meanwhile stays open.
    fn leave(&self, open: &Arc<EditorSession>) {
        let mut all = self.open.lock().expect("no thread panics while holding this lock");
        if all.get(&open.wire).is_some_and(|known| Arc::ptr_eq(known, open)) {
            all.remove(&open.wire);
        }
        drop(all);
        open.close();
    }

    fn list(&self, id: &Value, params: &Value) -> Result<(), Problem> {
        let from = match &params["cursor"] {
            Value::Null => 0,
            Value::String(cursor) => cursor.parse().map_err(|_| {
                Problem::usage(format!("`{cursor}` is not a valid cursor"))
                    .hint("leave it out to start from the first page")
            })?,
            _ => return Err(Problem::usage("`cursor` is not a string")),
        };
        let cwd = params["cwd"].as_str().map(|cwd| std::fs::canonicalize(cwd).unwrap_or_else(|_| cwd.into()));
        let filter =
            SessionFilter { extent: ListExtent::All, order: ListOrder::Active, ..SessionFilter::default() };
        let found = listing::collect(&self.ctx(), &filter)?.sessions.into_iter().filter(|status| {
            let is_meant = self.given.as_ref().is_none_or(|given| given.as_str() == status.id);
            let is_there = cwd.as_ref().is_none_or(|cwd| *cwd == Path::new(&status.what.cwd));
            is_meant && is_there && status.turns.is_some() && status.state != SessionState::Archived
        });
        let mut page: Vec<SessionStatus> = found.skip(from).take(PAGE + 1).collect();
        let next = (page.len() > PAGE).then(|| (from + PAGE).to_string());
        page.truncate(PAGE);
        let answer = ListSessionsResponse::new(page.iter().map(info).collect()).next_cursor(next);
        self.wire.answer(id, &answer);
        Ok(())
    }

    fn mention_servers(&self, wire: &str, servers: usize) {
        if servers > 0 {
            tracing::warn!(servers, "MCP servers of the editor are not passed on to the agent");
            self.remark(
                wire,
                &format!("{servers} MCP servers of the editor are not passed on: the agent has its own"),
            );
        }
    }

    /// Tells the user something that is not part of the conversation, if the editor can show notices.
    fn remark(&self, wire: &str, what: &str) {
        if self.shows_notices.load(Ordering::Acquire) {
            self.wire.update(wire, SessionUpdate::Notice(Notice::new(NoticeSeverity::Info, what)));
        }
    }

    /// Tells the user something important: as a notice, or in the conversation if the editor shows no notices.
    fn tell(&self, wire: &str, what: &str) {
        if self.shows_notices.load(Ordering::Acquire) {
            self.wire.update(wire, SessionUpdate::Notice(Notice::new(NoticeSeverity::Warning, what)));
        } else {
            self.wire.update(wire, replay::agent(&format!("\n\n_berth: {what}_\n\n")));
        }
    }
}

/// Refuses an agent that has a terminal and takes no turns: an editor cannot use it.
pub fn check_usable_by_editor(agent: &AgentDefinition) -> Result<(), Problem> {
    match agent.driver {
        DriverKind::Pty => Err(no_turns(&agent.name)),
        DriverKind::Acp | DriverKind::Claude | DriverKind::Codex => Ok(()),
    }
}

fn no_turns(agent: &str) -> Problem {
    let what = format!("agent `{agent}` has a terminal and takes no turns");
    Problem::usage(what).hint("name another one with --agent")
}

/// Refuses a session whose agent takes no turns: an editor cannot use it.
pub fn check_takes_turns(ctx: &VerbContext, id: &SessionId) -> Result<SessionStatus, Problem> {
    let status = ctx.session(id).status()?;
    if status.turns.is_none() {
        return Err(berth_api::problem::refusal(&berth_core::Refusal::NoTurns, status.handle()));
    }
    Ok(status)
}

fn info(status: &SessionStatus) -> SessionInfo {
    let prompt = status.turns.as_ref().and_then(|turns| turns.prompt.clone());
    let meta = json!({"state": status.state, "agent": status.what.agent, "name": status.name});
    SessionInfo::new(status.id.clone(), status.what.cwd.clone())
        .title(status.name.clone().or(prompt))
        .updated_at(status.last_activity_at.to_string())
        .meta(Meta::from_iter([("berth".to_owned(), meta)]))
}

fn absolute(params: &Value) -> Result<PathBuf, Problem> {
    let cwd = PathBuf::from(text(params, "cwd"));
    if !cwd.is_absolute() {
        let what = format!("`cwd` is not an absolute path: {}", cwd.display());
        return Err(Problem::usage(what));
    }
    Ok(cwd)
}

fn text<'a>(params: &'a Value, field: &str) -> &'a str {
    params[field].as_str().unwrap_or_default()
}

/// Starts a thread for slow work.
fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), Problem> {
    let begun = std::thread::Builder::new().name(name.to_owned()).spawn(work);
    begun.map(drop).map_err(|error| {
        Problem::refused(format!("cannot start a thread: {error}"))
            .hint("the machine has too little memory left")
    })
}

#[cfg(test)]
mod tests {
    use berth_api::AccessScope;
    use berth_store::StateDir;
    use berth_test_dir::TestDir;

    use super::*;

    #[test]
    fn a_session_that_was_opened_again_stays_open_when_the_first_opening_fails() {
        let dir = TestDir::new();
        let ctx = VerbContext {
            home: StateDir::open(dir.to_path_buf()).expect("a state directory"),
            place: "a test".to_owned(),
            size: None,
            parent: None,
            also: vec![],
            unseen: None,
            scope: AccessScope::Admin,
        };
        let server = Arc::new(AcpServer::new(ctx, None, "fake".to_owned()));
        let id = SessionId::parse("0123456789ab").expect("an id");
        let enter = || server.enter("s".to_owned(), id.clone()).expect("room");
        let (first, second) = (enter(), enter());
        let opened = || server.opened(&json!({"sessionId": "s"})).ok();
        server.leave(&first);
        assert!(opened().is_some_and(|open| Arc::ptr_eq(&open, &second)));
        server.leave(&second);
        assert!(opened().is_none());
    }
}
