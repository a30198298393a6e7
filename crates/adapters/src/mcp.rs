//! Sessions as MCP tools, for other agents: an MCP server on standard input and output.
//!
//! Promise: each tool does and refuses the same as the command with its name; a refusal is a tool error that says what
//! to do next. Keepers recognize a caller from inside a session and allow only what its session was granted. A caller
//! that disconnects ends nothing. Standard output carries only the protocol.
//! Not here: answering agents' questions, stopping, deleting: an agent that may do so has the command line.
//! Start with [`serve`]; the inputs and results of the tools are in `tool_types`.

mod tool_types;
mod wait;

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use berth_api::turn::LONGEST_WAIT_MS;
use berth_api::{Problem, TurnState};
use berth_core::SessionId;
use berth_verbs::run::{RunRequest, first_turn, id_of, prepare, without_its_turn};
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

use berth_verbs::VerbContext;
use berth_verbs::listing::{self, ListExtent, SessionFilter};
use berth_verbs::turns;
use tool_types::{
    ListToolParams, ListToolResult, McpSession, McpTurn, ScreenToolResult, SendToolParams, SessionToolParams,
    StartToolParams, StartToolResult, TurnToolParams, WaitToolParams, WaitToolResult,
};

/// How many calls may be under way.
const MOST_AT_ONCE: usize = 32;
/// Threads for the calls, and for reading and writing.
const THREADS: usize = MOST_AT_ONCE + 4;
/// The longest line a client may send: a prompt has its own, lower limit, and quotes grow in JSON.
const MAX_LINE_BYTES: usize = 16 << 20;
/// How long a call waits without `timeout_ms`: clients time out themselves after a minute or more.
const USUAL_WAIT_MS: u64 = 50_000;
/// How many sessions a list has without `limit`.
const USUAL_LIST: usize = 50;
/// How long calls may still take after the client disconnected.
const LAST_PATIENCE: Duration = Duration::from_secs(35);

const INSTRUCTIONS: &str = "\
berth keeps sessions of AI agents. A session has one conversation and one queue. Each prompt that you send is a turn; the \
turns of all clients are done in order. `send` gives a turn id (like k3v9x2.4), which `wait` and `result` take. A turn \
that is `unknown` was given to the agent, and its end is unknown: check it before you repeat it. Give `key` with `send` \
and `start_session`, so that a repeated call does nothing twice. A session in state `needs-you` waits for a person's \
answer, which these tools cannot give.";

/// Finds a turn, as agents name it: the session, a dot, the number.
pub type FindTurn = Arc<dyn Fn(&VerbContext, &str) -> Result<(SessionId, u64), Problem> + Send + Sync>;

/// Serves a client on standard input and output until it closes.
pub fn serve(ctx: &VerbContext, find_turn: FindTurn) -> Result<(), Problem> {
    let failed = |what: &str, error: &dyn std::fmt::Display| Problem::refused(format!("{what}: {error}"));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(THREADS)
        .build()
        .map_err(|error| failed("cannot begin to serve", &error))?;
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let server = McpServer {
        // Registered as a client without a terminal: this server cannot answer questions, so a waiting call must not
        // suppress notifications that a person is needed.
        ctx: VerbContext {
            place: format!("{} (MCP) on {host}", berth_api::client::SCRIPT_CLIENT),
            ..ctx.clone()
        },
        find_turn,
        room: Arc::new(Semaphore::new(MOST_AT_ONCE)),
        ended: Arc::default(),
        router: McpServer::tool_router(),
    };
    let served = runtime.block_on(async {
        let (stdin, output) = rmcp::transport::stdio();
        let input = McpStdin { stdin, ended: server.ended.clone() };
        let transport =
            AsyncRwTransport::<RoleServer, _, _>::new(input, output).with_max_line_length(MAX_LINE_BYTES);
        match server.serve(transport).await {
            Ok(running) => {
                running.waiting().await.map(drop).map_err(|error| failed("serving was interrupted", &error))
            }
            // The client disconnected before its first message: there is nothing to do.
            Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => Ok(()),
            Err(error) => Err(failed("the client does not speak MCP", &error)),
        }
    });
    // Requests are accepted or refused before this process ends, but it does not wait for turns.
    runtime.shutdown_timeout(LAST_PATIENCE);
    served
}

#[derive(Clone)]
struct McpServer {
    ctx: VerbContext,
    find_turn: FindTurn,
    room: Arc<Semaphore>,
    /// True once the client closed its end.
    ended: Arc<AtomicBool>,
    router: ToolRouter<Self>,
}

/// Tells if a call has no reader any more: it was cancelled, or the client disconnected.
#[derive(Clone, Default)]
struct CallCancellation {
    call: Arc<AtomicBool>,
    client: Arc<AtomicBool>,
}

impl CallCancellation {
    fn is_set(&self) -> bool {
        self.call.load(Ordering::Acquire) || self.client.load(Ordering::Acquire)
    }
}

/// Marks a call as cancelled when it is dropped.
struct CancelOnDrop(CallCancellation);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.call.store(true, Ordering::Release);
    }
}

/// Standard input with a flag for its end: at the end the library waits for all calls, and some wait for an hour.
struct McpStdin {
    stdin: tokio::io::Stdin,
    ended: Arc<AtomicBool>,
}

impl AsyncRead for McpStdin {
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

impl McpServer {
    /// Runs blocking work on a thread, and gives its result as JSON and as text.
    async fn call<T: Serialize + tool_types::PlainTextResult + Send + 'static>(
        &self,
        work: impl FnOnce(&VerbContext, &CallCancellation) -> Result<T, Problem> + Send + 'static,
    ) -> Result<CallToolResult, ErrorData> {
        let Ok(permit) = self.room.clone().try_acquire_owned() else {
            let what = format!("{MOST_AT_ONCE} calls are under way already; nothing was done");
            return Ok(refused(&Problem::full(what).hint("wait for one of them to end")));
        };
        let gone = CallCancellation { call: Arc::default(), client: self.ended.clone() };
        let ctx = self.ctx.clone();
        let _leaving = CancelOnDrop(gone.clone());
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

/// A problem as a tool error: what happened, and what to do next.
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
impl McpServer {
    #[tool(
        description = "List the sessions that berth keeps, those that need an answer first.",
        output_schema = schema_for_output::<ListToolResult>(),
        annotations(read_only_hint = true, open_world_hint = false)
    )]
    async fn list_sessions(
        &self,
        Parameters(wanted): Parameters<ListToolParams>,
    ) -> Result<CallToolResult, ErrorData> {
        self.call(move |ctx, _| {
            listing::check_states(&wanted.states)?;
            let limit = wanted.limit.map_or(USUAL_LIST, |limit| limit as usize);
            let extent = if wanted.all { ListExtent::All } else { ListExtent::Recent };
            let filter = SessionFilter {
                extent,
                states: wanted.states,
                limit: Some(limit),
                ..SessionFilter::default()
            };
            let found = listing::collect(ctx, &filter)?;
            let more = (found.more + found.older + found.archived) as u64;
            Ok(ListToolResult { sessions: found.sessions.iter().map(McpSession::from).collect(), more })
        })
        .await
    }

    #[tool(
        description = "Show a session: its state, activity, queue and open questions.",
        output_schema = schema_for_output::<McpSession>(),
        annotations(read_only_hint = true, open_world_hint = false)
    )]
    async fn status(
        &self,
        Parameters(wanted): Parameters<SessionToolParams>,
    ) -> Result<CallToolResult, ErrorData> {
        self.call(move |ctx, _| {
            Ok(McpSession::from(&ctx.session(&ctx.home.find(&wanted.session)?).status()?))
        })
        .await
    }

    #[tool(
        description = "Start an agent (claude, codex, … see `berth agents`) in a new session, with a first turn if you give a \
                       prompt. With a key, repeating the call gives the same session again.",
        output_schema = schema_for_output::<StartToolResult>()
    )]
    async fn start_session(
        &self,
        Parameters(wanted): Parameters<StartToolParams>,
    ) -> Result<CallToolResult, ErrorData> {
        self.call(move |ctx, _| start(ctx, wanted)).await
    }

    #[tool(
        description = "Send a prompt to a session's agent. It joins the queue as a turn. With wait, the answer comes back, \
                       or, when the time is up, the turn as it is (in_progress): the turn goes on, and `wait` or \
                       `result` tell more. With a key, repeating the call sends nothing twice.",
        output_schema = schema_for_output::<McpTurn>()
    )]
    async fn send(
        &self,
        Parameters(wanted): Parameters<SendToolParams>,
    ) -> Result<CallToolResult, ErrorData> {
        self.call(move |ctx, gone| {
            let SendToolParams { session, turn } = wanted;
            let until = until(turn.timeout_ms)?;
            let id = ctx.home.find(&session)?;
            let (waits, may_be_late) = (turn.wait, turn.max_wait_ms.is_some());
            let (connection, receipt) = ctx.session(&id).send(turn)?;
            if !(waits || may_be_late && receipt.state == TurnState::Queued) {
                return Ok(McpTurn::from(&ctx.session(&id).turn(receipt.number)?));
            }
            let number = receipt.number;
            let is_enough = |news: &turns::TurnNews<'_>| gone.is_set() || (!waits && news.begins(number));
            wait::until_over(ctx, &id, number, connection, until, is_enough)
        })
        .await
    }

    #[tool(
        description = "Wait for a turn to be over, or for a session to be idle, to need an answer, or to end. After \
                       the timeout it returns the current state with `reached: false`; call it again to wait longer.",
        output_schema = schema_for_output::<WaitToolResult>(),
        // Not read-only: a wait for a turn of a lost session brings the session back and starts its agent.
        annotations(read_only_hint = false, destructive_hint = false, open_world_hint = false)
    )]
    async fn wait(
        &self,
        Parameters(wanted): Parameters<WaitToolParams>,
    ) -> Result<CallToolResult, ErrorData> {
        let find_turn = self.find_turn.clone();
        self.call(move |ctx, gone| {
            let until = until(wanted.timeout_ms)?;
            match (wanted.turn, wanted.session) {
                (Some(turn), None) => {
                    let (id, number) = find_turn(ctx, &turn)?;
                    let keeper = ctx.keeper_of(&id)?;
                    let told = wait::until_over(ctx, &id, number, keeper, until, |_| gone.is_set())?;
                    Ok(WaitToolResult {
                        reached: !told.in_progress,
                        session: session(ctx, &id)?,
                        turn: Some(told),
                    })
                }
                (None, Some(named)) => {
                    wait::until_condition(ctx, &ctx.home.find(&named)?, wanted.what, until, gone)
                }
                (Some(_), Some(_)) | (None, None) => {
                    Err(Problem::usage("one of `turn` and `session` is needed"))
                }
            }
        })
        .await
    }

    #[tool(
        description = "Show a turn: its state, and the agent's answer once it is over. Does not wait.",
        output_schema = schema_for_output::<McpTurn>(),
        annotations(read_only_hint = true, open_world_hint = false)
    )]
    async fn result(
        &self,
        Parameters(wanted): Parameters<TurnToolParams>,
    ) -> Result<CallToolResult, ErrorData> {
        let find_turn = self.find_turn.clone();
        self.call(move |ctx, _| {
            let (id, number) = find_turn(ctx, &wanted.turn)?;
            Ok(McpTurn::from(&ctx.session(&id).turn(number)?))
        })
        .await
    }

    #[tool(
        description = "Show the screen of a session that has a terminal, as text.",
        output_schema = schema_for_output::<ScreenToolResult>(),
        annotations(read_only_hint = true, open_world_hint = false)
    )]
    async fn screen(
        &self,
        Parameters(wanted): Parameters<SessionToolParams>,
    ) -> Result<CallToolResult, ErrorData> {
        self.call(move |ctx, _| {
            let id = ctx.home.find(&wanted.session)?;
            if ctx.session(&id).status()?.what.driver != "pty" {
                let what = format!("session `{}` takes turns and has no screen", wanted.session);
                return Err(Problem::refused(what).hint("`status` shows its activity, `result` its answer"));
            }
            Ok(ScreenToolResult { text: berth_verbs::screen::screen_text(ctx, &id, false)? })
        })
        .await
    }
}

#[tool_handler(router = self.router)]
impl ServerHandler for McpServer {
    fn get_info(&self) -> InitializeResult {
        InitializeResult::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("berth", env!("CARGO_PKG_VERSION")))
            .with_instructions(INSTRUCTIONS)
    }
}

fn session(ctx: &VerbContext, id: &SessionId) -> Result<McpSession, Problem> {
    Ok(McpSession::from(&ctx.session(id).status()?))
}

fn until(timeout_ms: Option<u64>) -> Result<Instant, Problem> {
    let wait_ms = timeout_ms.unwrap_or(USUAL_WAIT_MS);
    if wait_ms > LONGEST_WAIT_MS {
        let what = format!("`timeout_ms` is at most {LONGEST_WAIT_MS}, not {wait_ms}");
        return Err(Problem::usage(what).hint("call again when that time is up"));
    }
    Ok(Instant::now() + Duration::from_millis(wait_ms))
}

fn start(ctx: &VerbContext, wanted: StartToolParams) -> Result<StartToolResult, Problem> {
    let StartToolParams { agent, cwd, name, prompt, key } = wanted;
    let wanted = RunRequest {
        agent: Some(agent),
        cwd: cwd.map(Into::into),
        name,
        prompt: prompt.clone(),
        key: key.clone(),
        ..RunRequest::default()
    };
    let made = prepare(&wanted)?.start(ctx)?;
    let id = id_of(&made.status)?;
    let turn = match prompt {
        Some(text) => {
            // A repeated call gives the same turn, through the CLI, HTTP or MCP.
            let submit = first_turn(key.as_deref(), text, false);
            let (_, receipt) = ctx
                .session(&id)
                .send(submit)
                .map_err(|refused| without_its_turn(&id, made.is_repeated, refused))?;
            Some(McpTurn::from(&ctx.session(&id).turn(receipt.number)?))
        }
        None => None,
    };
    Ok(StartToolResult { session: session(ctx, &id)?, repeated: made.is_repeated, turn })
}
