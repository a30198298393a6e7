//! Terminal of a session over a WebSocket: attached as the one writer, or as an observer.
//!
//! Promise: the keeper decides which client may type. Every key carries the fence that the writer got with its right,
//! so a right that was taken away types nothing. A slow reader delays no other client: the keeper has a bounded queue
//! for each connection, and when that is full it sends a fresh screen, whole sequences only. Closing the socket
//! detaches and changes nothing else.
//! Not here: screens and queues (see the keeper, `client_table`).
//! Start with [`TerminalConnection::run`].

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade};
use axum::extract::{FromRequestParts, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use berth_api::client::KeeperMessage;
use berth_api::message::{AttachMode, KeeperAnswer, KeeperNotice, KeeperRequest, WindowSize};
use berth_api::{AccessScope, Problem, ProblemCode, problem};
use berth_core::Refusal;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use crate::app_state::{AppState, run_blocking};
use crate::caller::RequestedSession;
use crate::http::extractors::QueryParams;
use crate::http_problem::{HttpProblem, ProblemBody};
use crate::live::keeper_client::{self, KeeperReader, KeeperWriter};
use crate::live::terminal_limits::TerminalPermit;
use crate::routes::Route;

/// Sub-protocol of the WebSocket.
pub(crate) const PROTOCOL: &str = "berth.terminal.v1";
/// Size limit of a message of the browser. The page splits longer pastes.
const MAX_MESSAGE_BYTES: usize = 128 * 1024;
/// Interval between pings.
const PING_EVERY: Duration = Duration::from_secs(20);
/// Number of unanswered pings in a row after which the browser counts as gone.
const MAX_UNANSWERED: usize = 3;
/// Timeout for the keeper to accept a client.
const PATIENCE: Duration = Duration::from_secs(10);
/// Number of messages that are queued for a browser that reads nothing.
const MAX_REMARKS: usize = 16;
/// Close code: a message was too large.
const TOO_LARGE: u16 = 1009;
/// Close code: the session's run has ended, or the client left.
const NORMAL: u16 = 1000;
/// Close code: the gateway shuts down; the run goes on.
const GOING_AWAY: u16 = 1001;
/// Base of the close codes for problems; the HTTP status of the problem is added.
const PROBLEM: u16 = 4000;

/// Number of the next terminal, by which users tell terminals of one client apart.
static TERMINALS: AtomicUsize = AtomicUsize::new(1);

pub(crate) fn routes() -> Vec<Route> {
    use ProblemCode::*;

    vec![
        Route::get("attach_terminal", "/v1/sessions/{session}/terminal", AccessScope::Read, terminal)
            .about(
                "Attaches to the terminal over a WebSocket. The sub-protocol is `berth.terminal.v1`; \
                 docs/gateway.md describes it. Typing needs the scope `control`.",
            )
            .query::<AttachQuery>()
            .gives_as(101, "attached", "application/octet-stream", None)
            .fails(&[NotFound, Usage, NotAllowed, Full]),
    ]
}

/// The way to attach.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
struct AttachQuery {
    /// Role of the client: an observer by default.
    #[serde(default)]
    role: AttachRole,
    /// Height of the terminal. Used for a writer only.
    rows: Option<u16>,
    /// Width of the terminal. Used for a writer only.
    cols: Option<u16>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema, Debug, Default)]
#[serde(rename_all = "lowercase")]
enum AttachRole {
    /// Reads and types; refused while another client is the writer.
    Writer,
    /// Reads and types; takes over from the client that is the writer.
    Take,
    /// Reads only.
    #[default]
    Observer,
}

impl AttachRole {
    fn role(self) -> AttachMode {
        match self {
            Self::Writer => AttachMode::Writer,
            Self::Take => AttachMode::Take,
            Self::Observer => AttachMode::Observer,
        }
    }
}

/// A text message of the browser.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
enum BrowserMessage {
    Resize { rows: u16, cols: u16 },
}

/// A text message to the browser.
#[derive(Serialize, Debug)]
#[serde(rename_all = "snake_case")]
enum TerminalMessage {
    /// The client is attached; `fence` is absent if it may not type.
    Attached { fence: Option<u64> },
    /// The terminal has this size from here on, which is the writer's.
    Size { rows: u16, cols: u16 },
    /// The next bytes are a whole screen: the client clears its own first.
    Screen(bool),
    /// Another client has become the writer, and this one is an observer now.
    Replaced { by: String },
    /// The run has ended: the state of the session.
    Ended(Box<berth_api::SessionStatus>),
    /// A request failed.
    Problem(ProblemBody),
}

impl TerminalMessage {
    fn message(&self) -> Message {
        Message::text(serde_json::to_string(self).expect("a remark is plain data"))
    }
}

/// The upgrade to a WebSocket; a refusal is a problem, as for other routes.
struct SocketUpgrade(WebSocketUpgrade);

impl<S: Send + Sync> FromRequestParts<S> for SocketUpgrade {
    type Rejection = HttpProblem;

    async fn from_request_parts(
        parts: &mut axum::http::request::Parts,
        state: &S,
    ) -> Result<Self, HttpProblem> {
        let upgrade = WebSocketUpgrade::from_request_parts(parts, state).await;
        upgrade.map(Self).map_err(|rejection: WebSocketUpgradeRejection| {
            let what = format!("this route needs a WebSocket: {}", rejection.body_text());
            HttpProblem::usage(what)
                .hint("use `new WebSocket(…)` in a browser, or a program like websocat")
                .status(rejection.status())
        })
    }
}

async fn terminal(
    State(state): State<Arc<AppState>>,
    target: RequestedSession,
    QueryParams(how): QueryParams<AttachQuery>,
    SocketUpgrade(upgrade): SocketUpgrade,
) -> Result<Response, HttpProblem> {
    if how.role != AttachRole::Observer {
        target.caller.needs(AccessScope::Control)?;
    }
    let upgrade = upgrade
        .protocols([PROTOCOL])
        .max_message_size(MAX_MESSAGE_BYTES)
        .max_frame_size(MAX_MESSAGE_BYTES)
        // Every message is flushed at once.
        .write_buffer_size(0);
    if upgrade.selected_protocol().is_none() {
        return Err(HttpProblem::usage(format!("the sub-protocol `{PROTOCOL}` was not offered"))
            .hint(format!("send `Sec-WebSocket-Protocol: {PROTOCOL}`"))
            .status(StatusCode::BAD_REQUEST));
    }
    let place = state.terminals.enter(&target.caller, &target.id)?;
    let default = WindowSize::default();
    let size = WindowSize { rows: how.rows.unwrap_or(default.rows), cols: how.cols.unwrap_or(default.cols) };
    let role = how.role.role();
    let mut target = target;
    // Each tab of a browser is a client of its own, which may want to type.
    let number = TERMINALS.fetch_add(1, Ordering::Relaxed);
    target.ctx.place = format!("{}, terminal {number}", target.ctx.place);
    let visit = TerminalConnection { target, role, size, ending: state.ending.clone(), _place: place };
    Ok(upgrade.on_upgrade(move |socket| visit.run(socket)).into_response())
}

/// One connection to a terminal.
struct TerminalConnection {
    target: RequestedSession,
    role: AttachMode,
    size: WindowSize,
    /// Cancelled when the gateway shuts down.
    ending: CancellationToken,
    /// Place in the limit of open terminals.
    _place: TerminalPermit,
}

/// State that the two directions share.
#[derive(Default)]
struct DuplexState {
    /// Number of pings since the last message of the browser.
    pings: AtomicUsize,
    /// True once another client has become the writer.
    was_replaced: AtomicBool,
}

/// Reason for the end of a connection.
enum DisconnectReason {
    /// The browser disconnected.
    Gone,
    /// The browser gets a last message and a close code with a reason.
    Told(Option<TerminalMessage>, u16, String),
}

impl DisconnectReason {
    fn problem(problem: Problem) -> Self {
        let code = PROBLEM + problem.code.http_status();
        let why = problem.what.clone();
        Self::Told(Some(TerminalMessage::Problem(problem.into())), code, why)
    }
}

impl TerminalConnection {
    async fn run(mut self, socket: WebSocket) {
        let (mut sink, mut stream) = socket.split();
        let ending = self.ending.clone();
        let left = tokio::select! {
            left = self.stay(&mut sink, &mut stream) => left,
            () = ending.cancelled() => DisconnectReason::Told(None, GOING_AWAY, "the gateway shuts down".to_owned()),
        };
        let DisconnectReason::Told(remark, code, why) = left else { return };
        if let Some(remark) = remark {
            let _ = sink.send(remark.message()).await;
        }
        let mut reason = why;
        // A close frame has room for this much text.
        reason.truncate(reason.floor_char_boundary(120));
        let _ = sink.send(Message::Close(Some(CloseFrame { code, reason: reason.into() }))).await;
    }

    async fn stay(
        &mut self,
        sink: &mut SplitSink<WebSocket, Message>,
        stream: &mut SplitStream<WebSocket>,
    ) -> DisconnectReason {
        let mut size = self.size;
        loop {
            let (mut hearing, mut saying, fence) = match self.attach(size).await {
                Ok(Some(attached)) => attached,
                Ok(None) => return self.ended().await,
                Err(problem) => return DisconnectReason::problem(problem),
            };
            if sink.send(TerminalMessage::Attached { fence }.message()).await.is_err() {
                return DisconnectReason::Gone;
            }
            let (remarks, mut waiting) = mpsc::channel(MAX_REMARKS);
            let both = DuplexState::default();
            let left = tokio::select! {
                left = show(&mut hearing, sink, &mut waiting, &both, self) => left,
                left = listen(stream, &mut saying, fence, &mut size, &both, &remarks) => Some(left),
            };
            if let Some(left) = left {
                return left;
            }
            // The keeper disconnected: the run has ended, or the keeper replaced its own program and is back soon. A
            // client that lost the writer role stays an observer.
            if fence.is_none() || both.was_replaced.load(Ordering::Relaxed) {
                self.role = AttachMode::Observer;
            } else if self.role == AttachMode::Take {
                self.role = AttachMode::Writer;
            }
        }
    }

    /// Attaches; `None` when there is no keeper to attach to.
    async fn attach(
        &self,
        size: WindowSize,
    ) -> Result<Option<(KeeperReader, KeeperWriter, Option<u64>)>, Problem> {
        let until = Instant::now() + PATIENCE;
        loop {
            let RequestedSession { ctx, id, .. } = &self.target;
            let (waiting_ctx, waiting_id) = (ctx.clone(), id.clone());
            // Waits for a keeper that is starting or replacing itself.
            let there = run_blocking(move || waiting_ctx.keeper_of(&waiting_id))
                .await
                .map_err(|fault| fault.problem)?;
            if there.is_none() {
                return Ok(None);
            }
            drop(there);
            let request = KeeperRequest::Attach { role: self.role, size };
            let asked = async {
                let (mut hearing, mut saying) =
                    keeper_client::open(ctx.home.session(id), ctx.asker()).await?;
                saying.ask(request).await?;
                let answer = hearing.next().await?;
                Ok::<_, io::Error>((hearing, saying, answer))
            };
            match tokio::time::timeout_at(until, asked).await {
                Ok(Ok((
                    hearing,
                    saying,
                    Some(KeeperMessage::Answer(KeeperAnswer::Attached { fence, .. })),
                ))) => {
                    return Ok(Some((hearing, saying, fence)));
                }
                Ok(Ok((_, _, Some(KeeperMessage::Answer(KeeperAnswer::Problem { problem }))))) => {
                    return Err(problem);
                }
                Ok(Ok((_, _, Some(other)))) => {
                    return Err(Problem::bug(format!("the keeper gave an unexpected answer: {other:?}")));
                }
                // The keeper disconnected during the call.
                Ok(Ok((_, _, None)) | Err(_)) => tokio::time::sleep(Duration::from_millis(5)).await,
                Err(_) => {
                    let what = format!("the keeper of session {id} did not answer in time");
                    return Err(Problem::unreachable(what).hint("`berth why` shows the evidence"));
                }
            }
        }
    }

    /// The current size at the keeper, which no event carries.
    async fn size_now(&self) -> Option<TerminalMessage> {
        let (ctx, id) = (self.target.ctx.clone(), self.target.id.clone());
        let (status, _) = run_blocking(move || ctx.known(&id)).await.ok()?;
        (status.rows > 0 && status.cols > 0)
            .then_some(TerminalMessage::Size { rows: status.rows, cols: status.cols })
    }

    async fn ended(&self) -> DisconnectReason {
        let (ctx, id) = (self.target.ctx.clone(), self.target.id.clone());
        match run_blocking(move || ctx.known(&id)).await {
            Ok((status, _)) if status.epoch == 0 => {
                DisconnectReason::problem(problem::refusal(&Refusal::NotRunning, &self.target.handle))
            }
            Ok((mut status, _)) => {
                // This status is not sent as a `Json` answer, so it is redacted here.
                status.hide_from(&self.target.caller.viewer());
                DisconnectReason::Told(
                    Some(TerminalMessage::Ended(Box::new(status))),
                    NORMAL,
                    "the run is over".into(),
                )
            }
            Err(fault) => DisconnectReason::problem(fault.problem),
        }
    }
}

/// Forwards output of the keeper as fast as the browser reads it, until one of the two disconnects. Returns `None` if
/// the keeper did.
async fn show(
    hearing: &mut KeeperReader,
    sink: &mut SplitSink<WebSocket, Message>,
    remarks: &mut mpsc::Receiver<TerminalMessage>,
    both: &DuplexState,
    visit: &TerminalConnection,
) -> Option<DisconnectReason> {
    let mut pings = tokio::time::interval_at(Instant::now() + PING_EVERY, PING_EVERY);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let arrival = tokio::select! {
            arrival = hearing.next() => arrival.ok().flatten()?,
            Some(remark) = remarks.recv() => {
                if sink.send(remark.message()).await.is_err() {
                    return Some(DisconnectReason::Gone);
                }
                continue;
            }
            _ = pings.tick() => {
                // Too many pings in a row were not answered.
                if both.pings.fetch_add(1, Ordering::Relaxed) >= MAX_UNANSWERED {
                    return Some(DisconnectReason::Gone);
                }
                if sink.send(Message::Ping(bytes::Bytes::new())).await.is_err() {
                    return Some(DisconnectReason::Gone);
                }
                continue;
            }
        };
        let message = match arrival {
            KeeperMessage::Output(bytes) => Message::binary(bytes),
            KeeperMessage::Screen(bytes) => {
                // A screen is drawn for one size, so a change of size needs a new screen.
                for remark in visit.size_now().await.into_iter().chain([TerminalMessage::Screen(true)]) {
                    if sink.feed(remark.message()).await.is_err() {
                        return Some(DisconnectReason::Gone);
                    }
                }
                Message::binary(bytes)
            }
            KeeperMessage::Notice(KeeperNotice::Replaced { by, .. }) => {
                both.was_replaced.store(true, Ordering::Relaxed);
                TerminalMessage::Replaced { by }.message()
            }
            KeeperMessage::Answer(KeeperAnswer::Problem { problem }) => {
                TerminalMessage::Problem(problem.into()).message()
            }
            KeeperMessage::Answer(
                KeeperAnswer::Done { .. }
                | KeeperAnswer::Heard
                | KeeperAnswer::Decided { .. }
                | KeeperAnswer::Attached { .. }
                | KeeperAnswer::Screen { .. }
                | KeeperAnswer::Turn { .. }
                | KeeperAnswer::Turns(_)
                | KeeperAnswer::Receipt { .. },
            )
            | KeeperMessage::Notice(
                KeeperNotice::Event { .. }
                | KeeperNotice::Output { .. }
                | KeeperNotice::Said { .. }
                | KeeperNotice::Doing { .. }
                | KeeperNotice::Resized { .. },
            ) => continue,
        };
        if sink.send(message).await.is_err() {
            return Some(DisconnectReason::Gone);
        }
    }
}

/// Forwards messages of the browser until it disconnects.
async fn listen(
    stream: &mut SplitStream<WebSocket>,
    saying: &mut KeeperWriter,
    fence: Option<u64>,
    size: &mut WindowSize,
    both: &DuplexState,
    remarks: &mpsc::Sender<TerminalMessage>,
) -> DisconnectReason {
    let complain = |what: String| {
        let problem = Problem::usage(what).hint("docs/gateway.md describes the messages");
        // A client that does not read its messages may miss some of these.
        let _ = remarks.try_send(TerminalMessage::Problem(problem.into()));
    };
    let mut was_told = false;
    loop {
        let message = match stream.next().await {
            Some(Ok(message)) => message,
            Some(Err(error)) => return broken(error),
            None => return DisconnectReason::Gone,
        };
        both.pings.store(0, Ordering::Relaxed);
        // A disconnected keeper is detected by the reading side; keys typed until then are lost.
        match message {
            Message::Binary(keys) => {
                // The keeper decides whether a fence is still valid.
                if let Some(fence) = fence {
                    let _ = saying.type_keys(fence, &keys).await;
                }
                let may_type = fence.is_some() && !both.was_replaced.load(Ordering::Relaxed);
                if !may_type && !std::mem::replace(&mut was_told, true) {
                    complain("an observer cannot type; nothing was typed".to_owned());
                }
            }
            Message::Text(text) => match serde_json::from_str::<BrowserMessage>(&text) {
                Ok(BrowserMessage::Resize { rows, cols }) => {
                    *size = WindowSize { rows, cols };
                    let _ = saying.ask(KeeperRequest::Resize { size: *size }).await;
                }
                Err(error) => complain(format!("the message is not valid: {error}")),
            },
            Message::Close(_) => return DisconnectReason::Gone,
            Message::Ping(_) | Message::Pong(_) => {}
        }
    }
}

fn broken(error: axum::Error) -> DisconnectReason {
    let error = error.into_inner();
    match error.downcast_ref::<tungstenite::Error>() {
        Some(tungstenite::Error::Capacity(_)) => DisconnectReason::Told(
            None,
            TOO_LARGE,
            format!("a message is longer than {MAX_MESSAGE_BYTES} bytes"),
        ),
        Some(_) | None => DisconnectReason::Gone,
    }
}
