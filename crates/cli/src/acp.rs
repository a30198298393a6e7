//! An editor's agent that is a kept session: the agent's side of ACP, version 1, on standard input and output.
//!
//! Promise: what an editor sends goes through the session's one queue, as everyone's does; the editor may close or die at
//! any moment, and nothing ends; only the protocol is on standard output.
//! Not here: the other side of ACP, for agents that berth starts (`berth_driver::acp`).
//! Start with [`serve`]; then `open`, `watch`.

mod content;
mod open;
mod replay;
mod tools;
mod watch;
mod wire;

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
use berth_api::message::Request;
use berth_api::turn::Wish;
use berth_api::{Code, Problem, SessionState, Status};
use berth_core::SessionId;
use berth_driver::rpc::{self, Incoming};
use berth_verbs::agents::{Agent, Driver};
use berth_verbs::run::{Wanted, id_of, prepare};
use serde_json::{Value, json};

use crate::ctx::Ctx;
use crate::listing::{self, Extent, Filter, Order};
use crate::replies::QuestionId;
use open::Open;
use replay::Past;
use watch::Watch;
use wire::{Asked, Line, Wire};

/// How many sessions one editor may have open.
const MOST_OPEN: usize = 64;
/// How many sessions are on one page of a list.
const PAGE: usize = 100;
/// How long what an editor asked for may take once it is gone.
const LAST_PATIENCE: Duration = Duration::from_secs(35);
/// How often an answer is given to a keeper that does not hear it, and how long to wait in between.
const ANSWER_TRIES: usize = 5;
const ANSWER_PAUSE: Duration = Duration::from_millis(500);
/// How much of an editor's own name is shown.
const MAX_CLIENT_CHARS: usize = 40;

/// What an editor talks to.
#[derive(Debug)]
pub(crate) struct Server {
    ctx: RwLock<Ctx>,
    wire: Wire,
    /// The one session there is, if the person chose one.
    given: Option<SessionId>,
    /// The agent of new sessions.
    agent: String,
    /// By what the editor calls them.
    open: Mutex<HashMap<String, Arc<Open>>>,
    is_introduced: AtomicBool,
    /// The editor shows notices beside the conversation.
    shows_notices: AtomicBool,
    /// How much is under way that has to be finished though the editor is gone.
    under_way: Mutex<usize>,
    finished: Condvar,
}

/// Serves the editor on standard input and output until it closes.
pub(crate) fn serve(ctx: &Ctx, given: Option<SessionId>, agent: String) -> Result<(), Problem> {
    let server = Arc::new(Server {
        ctx: RwLock::new(ctx.clone()),
        wire: Wire::default(),
        given,
        agent,
        open: Mutex::default(),
        is_introduced: AtomicBool::new(false),
        shows_notices: AtomicBool::new(false),
        under_way: Mutex::new(0),
        finished: Condvar::new(),
    });
    let mut input = BufReader::new(io::stdin());
    loop {
        let line = wire::read(&mut input)
            .map_err(|error| Problem::new(Code::Refused, format!("cannot read standard input: {error}")))?;
        match line {
            Line::Whole(line) => server.hear(&line),
            Line::TooLong => {
                server.wire.refuse(
                    &Value::Null,
                    rpc::INVALID_REQUEST,
                    "the line is too long; nothing was done",
                );
            }
            Line::End => break,
        }
    }
    server.finish();
    Ok(())
}

impl Server {
    fn ctx(&self) -> Ctx {
        self.ctx.read().expect("nobody panics with it").clone()
    }

    /// Counts what has to be finished.
    fn busy(&self, more: isize) {
        let mut under_way = self.under_way.lock().expect("nobody panics with it");
        *under_way = under_way.saturating_add_signed(more);
        self.finished.notify_all();
    }

    /// The editor is gone. What it sent is accepted, or refused, before we go as well; nobody waits for an end.
    fn finish(&self) {
        let under_way = self.under_way.lock().expect("nobody panics with it");
        let _ = self.finished.wait_timeout_while(under_way, LAST_PATIENCE, |count| *count > 0);
    }

    fn hear(self: &Arc<Self>, line: &[u8]) {
        match rpc::read(line) {
            Incoming::Request { id, method, params } => self.requested(id, &method, params),
            Incoming::Notification { method, params } => self.told(&method, &params),
            Incoming::Answer { id, result } => self.answered(&id, result),
            Incoming::Garbage => {
                self.wire.refuse(&Value::Null, rpc::PARSE_ERROR, "the line is not a JSON-RPC message");
            }
            Incoming::Stray | Incoming::Nothing => {}
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

    /// Does something that takes its time, and is finished though the editor may be gone.
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
        let open = self.open.lock().expect("nobody panics with it");
        let (meant, only): (Vec<Arc<Open>>, Option<Value>) = if is_cancel {
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

    /// The editor's person decided what the agent asked, or nobody did.
    fn answered(self: &Arc<Self>, id: &str, result: Result<Value, rpc::Problem>) {
        let Some(asked) = self.wire.take_asked(id) else { return };
        let outcome = result.map_err(|problem| problem.said()).and_then(|said| {
            serde_json::from_value::<RequestPermissionResponse>(said).map_err(|odd| odd.to_string())
        });
        let option = match outcome.map(|said| said.outcome) {
            Ok(RequestPermissionOutcome::Selected(selected)) => selected.option_id.to_string(),
            // Somebody else may decide it: the question stays.
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

    /// Gives an answer to the agent. The editor cannot say it twice, so whoever does not hear it is told again.
    fn pass_on(&self, asked: &Asked, option: &str) {
        for is_last in (0..ANSWER_TRIES).map(|count| count + 1 == ANSWER_TRIES) {
            let request = Request::AnswerAsk {
                request: Some(asked.request.clone()),
                wish: Wish::option(option),
                epoch: Some(asked.epoch),
            };
            let Err(problem) = self.ctx().ask(&asked.session, request) else { return };
            match problem.code {
                Code::NotFound | Code::Refused => {
                    // Somebody else was faster, or it was withdrawn.
                    return tracing::info!(problem = problem.what, "the answer came too late");
                }
                _ if is_last => {
                    let (what, session) = (&problem.what, &asked.session);
                    let request = QuestionId::new(asked.epoch, &asked.request);
                    let command = format!("berth answer {session} {option} --request {request}");
                    let next = format!("if it is still asked, `{command}` answers");
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
        let mut ctx = self.ctx.write().expect("nobody panics with it");
        *ctx = ctx.at(format!("{client} (ACP) on {host}"));
        drop(ctx);
        let notices = &params["clientCapabilities"]["session"]["notices"];
        let shows_notices = !matches!(notices, Value::Null | Value::Bool(false));
        self.shows_notices.store(shows_notices, Ordering::Release);
        self.is_introduced.store(true, Ordering::Release);
        let session = SessionCapabilities::new()
            .list(SessionListCapabilities::new())
            .resume(SessionResumeCapabilities::new());
        // Closing is understood and not offered: who offers it has to break off what is under way, and here that goes on.
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
                takes_turns(&ctx, id)?;
                id.clone()
            }
            None => {
                let cwd = absolute(params)?;
                let agent = Some(self.agent.clone());
                let prepared = prepare(&Wanted { cwd: Some(cwd), agent, ..Wanted::default() })?;
                if !prepared.takes_turns() {
                    return Err(no_turns(&self.agent));
                }
                id_of(&prepared.start(&ctx)?.status)?
            }
        };
        let wire = id.to_string();
        // In a session that was there, turns may be under way.
        let past = Past::read(&ctx, &id)?;
        // Its answer comes first: the editor does not know the session before.
        let open = self.enter(wire.clone(), id)?;
        let servers = params["mcpServers"].as_array().map_or(0, Vec::len);
        let meta = Meta::from_iter([("berth".to_owned(), json!({"session": wire, "mcpServersPassedOn": 0}))]);
        self.wire.answer(request, &NewSessionResponse::new(wire).meta(meta));
        self.mention_servers(&open.wire, servers);
        self.watch(open, &past)
    }

    fn take_up(self: &Arc<Self>, request: &Value, params: &Value, with_past: bool) -> Result<(), Problem> {
        let ctx = self.ctx();
        let wire = text(params, "sessionId").to_owned();
        let id = ctx.home.find(&wire)?;
        if self.given.as_ref().is_some_and(|given| *given != id) {
            let what = format!("this editor was given one session, and `{wire}` is another one");
            return Err(
                Problem::new(Code::NotFound, what).hint("start `berth acp` without a session to use all")
            );
        }
        takes_turns(&ctx, &id)?;
        let past = Past::read(&ctx, &id)?;
        let open = self.enter(wire, id)?;
        if with_past {
            past.tell(self, &open.wire);
            self.wire.answer(request, &LoadSessionResponse::new());
        } else {
            self.wire.answer(request, &ResumeSessionResponse::new());
        }
        self.mention_servers(&open.wire, params["mcpServers"].as_array().map_or(0, Vec::len));
        self.watch(open, &past)
    }

    fn watch(self: &Arc<Self>, open: Arc<Open>, past: &Past) -> Result<(), Problem> {
        let watch = Watch::new(self.clone(), open, past);
        spawn("watch", move || watch.run())
    }

    /// Remembers that the editor has a session open. What it had open under this name before is closed.
    fn enter(self: &Arc<Self>, wire: String, id: SessionId) -> Result<Arc<Open>, Problem> {
        let mut all = self.open.lock().expect("nobody panics with it");
        if all.len() >= MOST_OPEN && !all.contains_key(&wire) {
            let what = format!("{MOST_OPEN} sessions are open in this editor already");
            return Err(Problem::new(Code::Full, what).hint("close some with `session/close`"));
        }
        let open = Open::new(self, wire.clone(), id)?;
        if let Some(before) = all.insert(wire, open.clone()) {
            before.close();
        }
        Ok(open)
    }

    fn opened(&self, params: &Value) -> Result<Arc<Open>, Problem> {
        let wire = text(params, "sessionId");
        let open = self.open.lock().expect("nobody panics with it").get(wire).cloned();
        open.ok_or_else(|| {
            Problem::new(Code::NotFound, format!("session `{wire}` is not open"))
                .hint("`session/load` or `session/resume` opens one that is there, `session/new` makes one")
        })
    }

    /// The editor does not look any more. The session goes on.
    fn close(&self, id: &Value, params: &Value) -> Result<(), Problem> {
        let open = self.opened(params)?;
        self.open.lock().expect("nobody panics with it").remove(&open.wire);
        open.close();
        self.wire.answer(id, &CloseSessionResponse::new());
        Ok(())
    }

    fn list(&self, id: &Value, params: &Value) -> Result<(), Problem> {
        let from = match &params["cursor"] {
            Value::Null => 0,
            Value::String(cursor) => cursor.parse().map_err(|_| {
                Problem::new(Code::Usage, format!("`{cursor}` is not a valid cursor"))
                    .hint("leave it out to begin anew")
            })?,
            _ => return Err(Problem::new(Code::Usage, "a cursor is a text")),
        };
        let cwd = params["cwd"].as_str().map(|cwd| std::fs::canonicalize(cwd).unwrap_or_else(|_| cwd.into()));
        let filter = Filter { extent: Extent::All, order: Order::Active, ..Filter::default() };
        let found = listing::collect(&self.ctx(), &filter)?.sessions.into_iter().filter(|status| {
            let is_meant = self.given.as_ref().is_none_or(|given| given.as_str() == status.id);
            let is_there = cwd.as_ref().is_none_or(|cwd| *cwd == Path::new(&status.what.cwd));
            is_meant && is_there && status.turns.is_some() && status.state != SessionState::Archived
        });
        let mut page: Vec<Status> = found.skip(from).take(PAGE + 1).collect();
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

    /// Something for the person that is no part of the conversation, where the editor can show that.
    fn remark(&self, wire: &str, what: &str) {
        if self.shows_notices.load(Ordering::Acquire) {
            self.wire.update(wire, SessionUpdate::Notice(Notice::new(NoticeSeverity::Info, what)));
        }
    }

    /// The same for what they have to know.
    fn tell(&self, wire: &str, what: &str) {
        if self.shows_notices.load(Ordering::Acquire) {
            self.wire.update(wire, SessionUpdate::Notice(Notice::new(NoticeSeverity::Warning, what)));
        } else {
            self.wire.update(wire, replay::agent(&format!("\n\n_berth: {what}_\n\n")));
        }
    }
}

/// An agent that has a terminal in place of turns is of no use to an editor.
pub(crate) fn suits(agent: &Agent) -> Result<(), Problem> {
    match agent.driver {
        Driver::Pty => Err(no_turns(&agent.name)),
        Driver::Acp | Driver::Claude | Driver::Codex => Ok(()),
    }
}

fn no_turns(agent: &str) -> Problem {
    let what = format!("agent `{agent}` has a terminal and takes no turns");
    Problem::new(Code::Usage, what).hint("name another one with --agent")
}

/// A session whose agent takes no turns is of no use to an editor.
pub(crate) fn takes_turns(ctx: &Ctx, id: &SessionId) -> Result<Status, Problem> {
    let status = ctx.status(id)?;
    if status.turns.is_none() {
        return Err(berth_api::problem::refusal(&berth_core::Refusal::NoTurns, status.handle()));
    }
    Ok(status)
}

fn info(status: &Status) -> SessionInfo {
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
        return Err(Problem::new(Code::Usage, what));
    }
    Ok(cwd)
}

fn text<'a>(params: &'a Value, field: &str) -> &'a str {
    params[field].as_str().unwrap_or_default()
}

/// A thread for something that takes its time.
fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), Problem> {
    let begun = std::thread::Builder::new().name(name.to_owned()).spawn(work);
    begun.map(drop).map_err(|error| {
        Problem::new(Code::Refused, format!("cannot start a thread: {error}"))
            .hint("the machine has too little memory left")
    })
}
