//! Sessions for other agents: the tools of an MCP server on standard input and output.
//!
//! Promise: each tool does what the command of the same name does, and refuses what it refuses, as a tool error with what to
//! do next; whoever calls from inside a session is known to the keepers, and gets no more than its session was granted. A
//! caller that goes away ends nothing. Only the protocol is on standard output.
//! Not here: approving what agents ask, stopping, deleting: an agent that may do so has the command line.
//! Start with [`serve`]; what the tools give is in `told`.

mod told;
mod wait;

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use berth_api::turn::LONGEST_WAIT_MS;
use berth_api::{Code, Problem, TurnState};
use berth_core::SessionId;
use berth_verbs::run::{Wanted, first_turn, id_of, prepare, without_its_turn};
use rmcp::handler::server::tool::{ToolRouter, schema_for_output};
use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{
    CallToolResult, ContentBlock, Implementation, InitializeResult, MetaObject, ServerCapabilities,
};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt, tool, tool_handler, tool_router};
use serde::Serialize;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::Semaphore;

use crate::ctx::Ctx;
use crate::listing::{self, Extent, Filter};
use crate::turns;
use told::{
    ByTurn, List, ListSessions, Screen, SendTurn, SessionTold, SessionWanted, StartSession, Started,
    TurnTold, Wait, Waited,
};

/// How many calls may be under way.
const MOST_AT_ONCE: usize = 32;
/// Threads for them, and for reading and writing.
const THREADS: usize = MOST_AT_ONCE + 4;
/// The longest line a client may send: a prompt has its own, lower limit, and quotes grow in JSON.
const MAX_LINE_BYTES: usize = 16 << 20;
/// How long a call waits if it does not say: clients give up by themselves after a minute or more.
const USUAL_WAIT_MS: u64 = 50_000;
/// How many sessions a list has if it does not say.
const USUAL_LIST: usize = 50;
/// How long what was asked for may take once the client is gone.
const LAST_PATIENCE: Duration = Duration::from_secs(35);

const INSTRUCTIONS: &str = "\
berth keeps sessions of AI agents. A session has one conversation and one queue; what you send is a turn, done in order with \
everyone else's. `send` gives a turn id (like k3v9x2.4); `wait` and `result` take it. A turn that is `unknown` was \
given to the agent and its end is unknown: check it before you repeat it. Give `key` with `send` and `start_session` \
so that a \
repeated call does nothing twice. A session in state `needs-you` waits for a person's yes, which these tools cannot give.";

/// Serves a client on standard input and output until it closes.
pub(crate) fn serve(ctx: &Ctx) -> Result<(), Problem> {
    let failed =
        |what: &str, error: &dyn std::fmt::Display| Problem::new(Code::Refused, format!("{what}: {error}"));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(THREADS)
        .build()
        .map_err(|error| failed("cannot begin to serve", &error))?;
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let server = Server {
        // It cannot say yes to anything: whoever is told that somebody is needed must not be spared because it waits.
        ctx: ctx.at(format!("{} (MCP) on {host}", berth_api::client::NO_TERMINAL)),
        room: Arc::new(Semaphore::new(MOST_AT_ONCE)),
        ended: Arc::default(),
        router: Server::tool_router(),
    };
    let served = runtime.block_on(async {
        let (stdin, output) = rmcp::transport::stdio();
        let input = Input { stdin, ended: server.ended.clone() };
        let transport =
            AsyncRwTransport::<RoleServer, _, _>::new(input, output).with_max_line_length(MAX_LINE_BYTES);
        match server.serve(transport).await {
            Ok(running) => {
                running.waiting().await.map(drop).map_err(|error| failed("serving was interrupted", &error))
            }
            // Closed before it said a word: nothing was wanted.
            Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => Ok(()),
            Err(error) => Err(failed("the client does not speak MCP", &error)),
        }
    });
    // What was sent is accepted, or refused, before we go; nobody waits for an end.
    runtime.shutdown_timeout(LAST_PATIENCE);
    served
}

#[derive(Clone)]
struct Server {
    ctx: Ctx,
    room: Arc<Semaphore>,
    /// The client closed its end.
    ended: Arc<AtomicBool>,
    router: ToolRouter<Self>,
}

/// Says when nobody waits for a call any more: it was cancelled, or the client is gone.
#[derive(Clone, Default)]
struct Gone {
    call: Arc<AtomicBool>,
    client: Arc<AtomicBool>,
}

impl Gone {
    fn is_set(&self) -> bool {
        self.call.load(Ordering::Acquire) || self.client.load(Ordering::Acquire)
    }
}

/// Tells a call that it was cancelled.
struct Leaving(Gone);

impl Drop for Leaving {
    fn drop(&mut self) {
        self.0.call.store(true, Ordering::Release);
    }
}

/// Standard input, and a word when it ends: the library answers all calls first, and some wait for an hour.
struct Input {
    stdin: tokio::io::Stdin,
    ended: Arc<AtomicBool>,
}

impl AsyncRead for Input {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stdin).poll_read(context, buffer);
        if matches!(&read, Poll::Ready(done) if done.is_err() || buffer.filled().len() == before) {
            self.ended.store(true, Ordering::Release);
        }
        read
    }
}

impl Server {
    /// Does what takes its time, and puts into words what comes of it.
    async fn call<T: Serialize + told::Words + Send + 'static>(
        &self,
        work: impl FnOnce(&Ctx, &Gone) -> Result<T, Problem> + Send + 'static,
    ) -> Result<CallToolResult, ErrorData> {
        let Ok(permit) = self.room.clone().try_acquire_owned() else {
            let what = format!("{MOST_AT_ONCE} calls are under way already; nothing was done");
            return Ok(refused(&Problem::new(Code::Full, what).hint("wait for one of them to end")));
        };
        let gone = Gone { call: Arc::default(), client: self.ended.clone() };
        let ctx = self.ctx.clone();
        let _leaving = Leaving(gone.clone());
        let done = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            work(&ctx, &gone)
        });
        let done = done.await.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
        Ok(match done {
            Ok(told) => {
                let value = serde_json::to_value(&told)
                    .map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
                let mut result = CallToolResult::structured(value);
                result.content = vec![ContentBlock::text(told.words())];
                result
            }
            Err(problem) => refused(&problem),
        })
    }
}

/// A problem, for an agent: what happened, and what to do next.
fn refused(problem: &Problem) -> CallToolResult {
    let mut text = problem.what.clone();
    if let Some(hint) = &problem.hint {
        text.push_str(&format!("\nhint: {hint}"));
    }
    let mut meta = MetaObject::new();
    meta.insert("berth/code".to_owned(), problem.code.word().into());
    CallToolResult::error(vec![ContentBlock::text(text)]).with_meta(Some(meta))
}

#[tool_router(router = tool_router)]
impl Server {
    #[tool(
        description = "List the sessions that berth keeps, those that need an answer first.",
        output_schema = schema_for_output::<List>(),
        annotations(read_only_hint = true, open_world_hint = false)
    )]
    async fn list_sessions(
        &self,
        Parameters(wanted): Parameters<ListSessions>,
    ) -> Result<CallToolResult, ErrorData> {
        self.call(move |ctx, _| {
            listing::known(&wanted.states)?;
            let limit = wanted.limit.map_or(USUAL_LIST, |limit| limit as usize);
            let extent = if wanted.all { Extent::All } else { Extent::Recent };
            let filter = Filter { extent, states: wanted.states, limit: Some(limit), ..Filter::default() };
            let found = listing::collect(ctx, &filter)?;
            let more = (found.beyond + found.older + found.archived) as u64;
            Ok(List { sessions: found.sessions.iter().map(SessionTold::from).collect(), more })
        })
        .await
    }

    #[tool(
        description = "Show a session: its state, activity, queue and open questions.",
        output_schema = schema_for_output::<SessionTold>(),
        annotations(read_only_hint = true, open_world_hint = false)
    )]
    async fn status(
        &self,
        Parameters(wanted): Parameters<SessionWanted>,
    ) -> Result<CallToolResult, ErrorData> {
        self.call(move |ctx, _| Ok(SessionTold::from(&ctx.status(&ctx.home.find(&wanted.session)?)?))).await
    }

    #[tool(
        description = "Start an agent (claude, codex, … see `berth agents`) in a new session, with a first turn if you give a \
                       prompt. With a key, repeating the call gives the same session again.",
        output_schema = schema_for_output::<Started>()
    )]
    async fn start_session(
        &self,
        Parameters(wanted): Parameters<StartSession>,
    ) -> Result<CallToolResult, ErrorData> {
        self.call(move |ctx, _| start(ctx, wanted)).await
    }

    #[tool(
        description = "Send a prompt to a session's agent. It joins the queue as a turn. With wait, the answer comes back, \
                       or, when the time is up, the turn as it is (in_progress): it goes on, and `wait` or `result` \
                       tell more. With a key, repeating the call sends nothing twice.",
        output_schema = schema_for_output::<TurnTold>()
    )]
    async fn send(&self, Parameters(wanted): Parameters<SendTurn>) -> Result<CallToolResult, ErrorData> {
        self.call(move |ctx, gone| {
            let SendTurn { session, turn } = wanted;
            let until = until(turn.timeout_ms)?;
            let id = ctx.home.find(&session)?;
            let (waits, may_be_late) = (turn.wait, turn.max_wait_ms.is_some());
            let (connection, receipt) = turns::send(ctx, &id, turn)?;
            if !(waits || may_be_late && receipt.state == TurnState::Queued) {
                return Ok(TurnTold::from(&turns::view(ctx, &id, receipt.number)?));
            }
            let number = receipt.number;
            let is_enough = |news: &turns::News<'_>| gone.is_set() || (!waits && news.begins(number));
            wait::until_over(ctx, &id, number, connection, until, is_enough)
        })
        .await
    }

    #[tool(
        description = "Wait for a turn to be over, or for a session to be idle, to need an answer, or to end. When \
                       the time is up, what is known then comes back, with reached false; call again to wait on.",
        output_schema = schema_for_output::<Waited>(),
        // Whoever waits for a turn of a session that was lost has it brought back, and its agent started.
        annotations(read_only_hint = false, destructive_hint = false, open_world_hint = false)
    )]
    async fn wait(&self, Parameters(wanted): Parameters<Wait>) -> Result<CallToolResult, ErrorData> {
        self.call(move |ctx, gone| {
            let until = until(wanted.timeout_ms)?;
            match (wanted.turn, wanted.session) {
                (Some(turn), None) => {
                    let (id, number) = turn_named(ctx, &turn)?;
                    let keeper = ctx.keeper_of(&id)?;
                    let told = wait::until_over(ctx, &id, number, keeper, until, |_| gone.is_set())?;
                    Ok(Waited { reached: !told.in_progress, session: session(ctx, &id)?, turn: Some(told) })
                }
                (None, Some(named)) => {
                    wait::until_calm(ctx, &ctx.home.find(&named)?, wanted.what, until, gone)
                }
                (Some(_), Some(_)) | (None, None) => {
                    Err(Problem::new(Code::Usage, "one of `turn` and `session` is needed"))
                }
            }
        })
        .await
    }

    #[tool(
        description = "Show a turn: its state, and the agent's answer once it is over. Does not wait.",
        output_schema = schema_for_output::<TurnTold>(),
        annotations(read_only_hint = true, open_world_hint = false)
    )]
    async fn result(&self, Parameters(wanted): Parameters<ByTurn>) -> Result<CallToolResult, ErrorData> {
        self.call(move |ctx, _| {
            let (id, number) = turn_named(ctx, &wanted.turn)?;
            Ok(TurnTold::from(&turns::view(ctx, &id, number)?))
        })
        .await
    }

    #[tool(
        description = "Show the screen of a session that has a terminal, as text.",
        output_schema = schema_for_output::<Screen>(),
        annotations(read_only_hint = true, open_world_hint = false)
    )]
    async fn screen(
        &self,
        Parameters(wanted): Parameters<SessionWanted>,
    ) -> Result<CallToolResult, ErrorData> {
        self.call(move |ctx, _| {
            let id = ctx.home.find(&wanted.session)?;
            if ctx.status(&id)?.what.driver != "pty" {
                let what = format!("session `{}` takes turns and has no screen", wanted.session);
                return Err(Problem::new(Code::Refused, what)
                    .hint("`status` tells what it does, `result` what it said"));
            }
            Ok(Screen { text: berth_verbs::screen::text(ctx, &id, false)? })
        })
        .await
    }
}

#[tool_handler(router = self.router)]
impl ServerHandler for Server {
    fn get_info(&self) -> InitializeResult {
        InitializeResult::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("berth", env!("CARGO_PKG_VERSION")))
            .with_instructions(INSTRUCTIONS)
    }
}

fn session(ctx: &Ctx, id: &SessionId) -> Result<SessionTold, Problem> {
    Ok(SessionTold::from(&ctx.status(id)?))
}

/// A turn, as agents name it: the session, a dot, the number.
fn turn_named(ctx: &Ctx, turn: &str) -> Result<(SessionId, u64), Problem> {
    turns::find(ctx, turn, None)
}

fn until(timeout_ms: Option<u64>) -> Result<Instant, Problem> {
    let wait_ms = timeout_ms.unwrap_or(USUAL_WAIT_MS);
    if wait_ms > LONGEST_WAIT_MS {
        let what = format!("`timeout_ms` is at most {LONGEST_WAIT_MS}, not {wait_ms}");
        return Err(Problem::new(Code::Usage, what).hint("call again when that time is up"));
    }
    Ok(Instant::now() + Duration::from_millis(wait_ms))
}

fn start(ctx: &Ctx, wanted: StartSession) -> Result<Started, Problem> {
    let StartSession { agent, cwd, name, prompt, key } = wanted;
    let wanted = Wanted {
        agent: Some(agent),
        cwd: cwd.map(Into::into),
        name,
        prompt: prompt.clone(),
        key: key.clone(),
        ..Wanted::default()
    };
    let made = prepare(&wanted)?.start(ctx)?;
    let id = id_of(&made.status)?;
    let turn = match prompt {
        Some(text) => {
            // The same call, repeated, is the same turn, by whatever door.
            let submit = first_turn(key.as_deref(), text, false);
            let (_, receipt) = turns::send(ctx, &id, submit)
                .map_err(|refused| without_its_turn(&id, made.is_repeated, refused))?;
            Some(TurnTold::from(&turns::view(ctx, &id, receipt.number)?))
        }
        None => None,
    };
    Ok(Started { session: session(ctx, &id)?, repeated: made.is_repeated, turn })
}
