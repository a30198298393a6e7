//! A session's terminal over a WebSocket: attached as the one writer, or as an observer.
//!
//! Promise: the keeper decides who may type; every key carries the number its right was given with, so a right that
//! was taken away types nothing. Who reads slowly holds up nobody: the keeper keeps a bounded queue for us, and
//! when that is full a fresh screen, whole sequences only. Closing the socket detaches and changes nothing else.
//! Not here: screens and queues (see the keeper, `client_table`).
//! Start with [`Visit::run`].

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade};
use axum::extract::{FromRequestParts, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use berth_api::client::Arrival;
use berth_api::message::{Answer, Notice, Request, Role, Size};
use berth_api::{Code, Problem, Scope, problem};
use berth_core::Refusal;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use crate::caller::Target;
use crate::fault::{Fault, ProblemBody};
use crate::gate::{Gate, work};
use crate::http::body::Query;
use crate::live::client::{self, Hearing, Saying};
use crate::live::terminals::Place;
use crate::routes::Route;

/// What is spoken.
pub(crate) const PROTOCOL: &str = "berth.terminal.v1";
/// The largest message of a browser. Longer pastes come in pieces.
const MAX_MESSAGE_BYTES: usize = 128 * 1024;
/// How often the browser is asked whether it is there.
const PING_EVERY: Duration = Duration::from_secs(20);
/// How many times in a row it may leave that unanswered.
const MAX_UNANSWERED: usize = 3;
/// How long a keeper may take to let somebody in.
const PATIENCE: Duration = Duration::from_secs(10);
/// How many remarks may wait for a browser that reads nothing.
const MAX_REMARKS: usize = 16;
/// Close: a message was too large.
const TOO_LARGE: u16 = 1009;
/// Close: the session's run is over, or you left.
const NORMAL: u16 = 1000;
/// Close: the gateway ends; the run goes on.
const GOING_AWAY: u16 = 1001;
/// Close: a problem; the HTTP status it would have had comes on top.
const PROBLEM: u16 = 4000;

/// The number of the next terminal, for people to tell them apart.
static TERMINALS: AtomicUsize = AtomicUsize::new(1);

pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::get("attach_terminal", "/v1/sessions/{session}/terminal", Scope::Read, terminal)
            .about(
                "The terminal over a WebSocket (sub-protocol `berth.terminal.v1`; docs/gateway.md). \
                 Typing needs the scope `control`.",
            )
            .query::<How>()
            .gives_as(101, "attached", "application/octet-stream", None)
            .fails(&[Code::NotFound, Code::Usage, Code::NotAllowed, Code::Full]),
    ]
}

/// How to attach.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
struct How {
    /// As what.
    #[serde(default)]
    role: As,
    /// The height of the terminal. Counts for a writer only.
    rows: Option<u16>,
    /// The width of the terminal.
    cols: Option<u16>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema, Debug, Default)]
#[serde(rename_all = "lowercase")]
enum As {
    /// See and type, if no other client does.
    Writer,
    /// See and type, and take over from the client that types.
    Take,
    /// See.
    #[default]
    Observer,
}

impl As {
    fn role(self) -> Role {
        match self {
            Self::Writer => Role::Writer,
            Self::Take => Role::Take,
            Self::Observer => Role::Observer,
        }
    }
}

/// What a browser says in text.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
enum Said {
    Resize { rows: u16, cols: u16 },
}

/// What is said to a browser in text.
#[derive(Serialize, Debug)]
#[serde(rename_all = "snake_case")]
enum Remark {
    /// You are attached; the number your keys have, if you may type.
    Attached { fence: Option<u64> },
    /// The terminal has this size from here on: the writer's.
    Size { rows: u16, cols: u16 },
    /// The next bytes are a whole screen: forget what was shown.
    Screen(bool),
    /// Another client types now; you observe.
    Replaced { by: String },
    /// The run is over: what is known then.
    Ended(Box<berth_api::Status>),
    /// Something did not happen.
    Problem(ProblemBody),
}

impl Remark {
    fn message(&self) -> Message {
        Message::text(serde_json::to_string(self).expect("a remark is plain data"))
    }
}

/// The upgrade, or why there is none, in our words.
struct Upgrade(WebSocketUpgrade);

impl<S: Send + Sync> FromRequestParts<S> for Upgrade {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut axum::http::request::Parts, state: &S) -> Result<Self, Fault> {
        let upgrade = WebSocketUpgrade::from_request_parts(parts, state).await;
        upgrade.map(Self).map_err(|rejection: WebSocketUpgradeRejection| {
            let what = format!("this needs a WebSocket: {}", rejection.body_text());
            Fault::usage(what)
                .hint("a browser's `new WebSocket(…)`, or a program like websocat")
                .status(rejection.status())
        })
    }
}

async fn terminal(
    State(gate): State<Arc<Gate>>,
    target: Target,
    Query(how): Query<How>,
    Upgrade(upgrade): Upgrade,
) -> Result<Response, Fault> {
    if how.role != As::Observer {
        target.caller.needs(Scope::Control)?;
    }
    let upgrade = upgrade
        .protocols([PROTOCOL])
        .max_message_size(MAX_MESSAGE_BYTES)
        .max_frame_size(MAX_MESSAGE_BYTES)
        // What is sent is flushed at once; nothing gathers here.
        .write_buffer_size(0);
    if upgrade.selected_protocol().is_none() {
        return Err(Fault::usage(format!("the sub-protocol `{PROTOCOL}` was not offered"))
            .hint(format!("send `Sec-WebSocket-Protocol: {PROTOCOL}`"))
            .status(StatusCode::BAD_REQUEST));
    }
    let place = gate.terminals.enter(&target.caller, &target.id)?;
    let default = Size::default();
    let size = Size { rows: how.rows.unwrap_or(default.rows), cols: how.cols.unwrap_or(default.cols) };
    let role = how.role.role();
    let mut target = target;
    // Two tabs of one browser are two who may want to type.
    let number = TERMINALS.fetch_add(1, Ordering::Relaxed);
    target.ctx.place = format!("{}, terminal {number}", target.ctx.place);
    let visit = Visit { target, role, size, ending: gate.ending.clone(), _place: place };
    Ok(upgrade.on_upgrade(move |socket| visit.run(socket)).into_response())
}

/// Somebody at the terminal.
struct Visit {
    target: Target,
    role: Role,
    size: Size,
    /// Cancelled when the gateway ends.
    ending: CancellationToken,
    /// One of the terminals that may be open at once.
    _place: Place,
}

/// What the two directions know of each other.
#[derive(Default)]
struct Both {
    /// How often the browser was asked whether it is there since it was last heard.
    pings: AtomicUsize,
    /// Somebody else may type now.
    was_replaced: AtomicBool,
}

/// Why it is over.
enum Left {
    /// The browser is gone, or said goodbye.
    Gone,
    /// It is told why, and then the socket is closed.
    Told(Option<Remark>, u16, String),
}

impl Left {
    fn problem(problem: Problem) -> Self {
        let code = PROBLEM + problem.code.http_status();
        let why = problem.what.clone();
        Self::Told(Some(Remark::Problem(problem.into())), code, why)
    }
}

impl Visit {
    async fn run(mut self, socket: WebSocket) {
        let (mut sink, mut stream) = socket.split();
        let ending = self.ending.clone();
        let left = tokio::select! {
            left = self.stay(&mut sink, &mut stream) => left,
            () = ending.cancelled() => Left::Told(None, GOING_AWAY, "the gateway ends".to_owned()),
        };
        let Left::Told(remark, code, why) = left else { return };
        if let Some(remark) = remark {
            let _ = sink.send(remark.message()).await;
        }
        let mut reason = why;
        // The frame has room for this much.
        reason.truncate(reason.floor_char_boundary(120));
        let _ = sink.send(Message::Close(Some(CloseFrame { code, reason: reason.into() }))).await;
    }

    async fn stay(
        &mut self,
        sink: &mut SplitSink<WebSocket, Message>,
        stream: &mut SplitStream<WebSocket>,
    ) -> Left {
        let mut size = self.size;
        loop {
            let (mut hearing, mut saying, fence) = match self.attach(size).await {
                Ok(Some(attached)) => attached,
                Ok(None) => return self.ended().await,
                Err(problem) => return Left::problem(problem),
            };
            if sink.send(Remark::Attached { fence }.message()).await.is_err() {
                return Left::Gone;
            }
            let (remarks, mut waiting) = mpsc::channel(MAX_REMARKS);
            let both = Both::default();
            let left = tokio::select! {
                left = show(&mut hearing, sink, &mut waiting, &both, self) => left,
                left = listen(stream, &mut saying, fence, &mut size, &both, &remarks) => Some(left),
            };
            if let Some(left) = left {
                return left;
            }
            // The keeper went away: the run is over, or it replaced its own program and is back at once. Whoever was
            // replaced as writer stays an observer.
            if fence.is_none() || both.was_replaced.load(Ordering::Relaxed) {
                self.role = Role::Observer;
            } else if self.role == Role::Take {
                self.role = Role::Writer;
            }
        }
    }

    /// Attaches; `None` when there is no keeper to attach to.
    async fn attach(&self, size: Size) -> Result<Option<(Hearing, Saying, Option<u64>)>, Problem> {
        let until = Instant::now() + PATIENCE;
        loop {
            let Target { ctx, id, .. } = &self.target;
            let (waiting_ctx, waiting_id) = (ctx.clone(), id.clone());
            // One that starts or replaces itself is waited for.
            let there =
                work(move || waiting_ctx.keeper_of(&waiting_id)).await.map_err(|fault| fault.problem)?;
            if there.is_none() {
                return Ok(None);
            }
            drop(there);
            let request = Request::Attach { role: self.role, size };
            let asked = async {
                let (mut hearing, mut saying) = client::open(ctx.home.session(id), ctx.asker()).await?;
                saying.ask(request).await?;
                let answer = hearing.next().await?;
                Ok::<_, io::Error>((hearing, saying, answer))
            };
            match tokio::time::timeout_at(until, asked).await {
                Ok(Ok((hearing, saying, Some(Arrival::Answer(Answer::Attached { fence, .. }))))) => {
                    return Ok(Some((hearing, saying, fence)));
                }
                Ok(Ok((_, _, Some(Arrival::Answer(Answer::Problem { problem }))))) => return Err(problem),
                Ok(Ok((_, _, Some(other)))) => {
                    return Err(Problem::new(Code::Bug, format!("the keeper gave an odd answer: {other:?}")));
                }
                // It went away in that moment.
                Ok(Ok((_, _, None)) | Err(_)) => tokio::time::sleep(Duration::from_millis(5)).await,
                Err(_) => {
                    let what = format!("the keeper of session {id} did not answer in time");
                    return Err(Problem::new(Code::Unreachable, what).hint("`berth why` tells what is known"));
                }
            }
        }
    }

    /// The size that the keeper has: no event tells it.
    async fn size_now(&self) -> Option<Remark> {
        let (ctx, id) = (self.target.ctx.clone(), self.target.id.clone());
        let (status, _) = work(move || ctx.known(&id)).await.ok()?;
        (status.rows > 0 && status.cols > 0).then_some(Remark::Size { rows: status.rows, cols: status.cols })
    }

    async fn ended(&self) -> Left {
        let (ctx, id) = (self.target.ctx.clone(), self.target.id.clone());
        match work(move || ctx.known(&id)).await {
            Ok((status, _)) if status.epoch == 0 => {
                Left::problem(problem::refusal(&Refusal::NotRunning, &self.target.handle))
            }
            Ok((mut status, _)) => {
                // It is no answer, so nobody else hides anything of it.
                status.hide_from(&self.target.caller.viewer());
                Left::Told(Some(Remark::Ended(Box::new(status))), NORMAL, "the run is over".into())
            }
            Err(fault) => Left::problem(fault.problem),
        }
    }
}

/// Passes on what the keeper tells, as fast as the browser takes it, until one of them is gone. `None`: the keeper is.
async fn show(
    hearing: &mut Hearing,
    sink: &mut SplitSink<WebSocket, Message>,
    remarks: &mut mpsc::Receiver<Remark>,
    both: &Both,
    visit: &Visit,
) -> Option<Left> {
    let mut pings = tokio::time::interval_at(Instant::now() + PING_EVERY, PING_EVERY);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let arrival = tokio::select! {
            arrival = hearing.next() => arrival.ok().flatten()?,
            Some(remark) = remarks.recv() => {
                if sink.send(remark.message()).await.is_err() {
                    return Some(Left::Gone);
                }
                continue;
            }
            _ = pings.tick() => {
                // Once a ping was not answered, and the next was not either.
                if both.pings.fetch_add(1, Ordering::Relaxed) >= MAX_UNANSWERED {
                    return Some(Left::Gone);
                }
                if sink.send(Message::Ping(bytes::Bytes::new())).await.is_err() {
                    return Some(Left::Gone);
                }
                continue;
            }
        };
        let message = match arrival {
            Arrival::Output(bytes) => Message::binary(bytes),
            Arrival::Screen(bytes) => {
                // A screen is made for one size, and comes anew whenever that changes.
                for remark in visit.size_now().await.into_iter().chain([Remark::Screen(true)]) {
                    if sink.feed(remark.message()).await.is_err() {
                        return Some(Left::Gone);
                    }
                }
                Message::binary(bytes)
            }
            Arrival::Notice(Notice::Replaced { by, .. }) => {
                both.was_replaced.store(true, Ordering::Relaxed);
                Remark::Replaced { by }.message()
            }
            Arrival::Answer(Answer::Problem { problem }) => Remark::Problem(problem.into()).message(),
            Arrival::Answer(
                Answer::Done { .. }
                | Answer::Heard
                | Answer::Decided { .. }
                | Answer::Attached { .. }
                | Answer::Screen { .. }
                | Answer::Turn { .. }
                | Answer::Turns(_)
                | Answer::Events { .. }
                | Answer::Receipt { .. },
            )
            | Arrival::Notice(
                Notice::Event { .. }
                | Notice::Output { .. }
                | Notice::Said { .. }
                | Notice::Doing { .. }
                | Notice::Resized { .. },
            ) => continue,
        };
        if sink.send(message).await.is_err() {
            return Some(Left::Gone);
        }
    }
}

/// Passes on what the browser says, until it is gone.
async fn listen(
    stream: &mut SplitStream<WebSocket>,
    saying: &mut Saying,
    fence: Option<u64>,
    size: &mut Size,
    both: &Both,
    remarks: &mpsc::Sender<Remark>,
) -> Left {
    let complain = |what: String| {
        let problem = Problem::new(Code::Usage, what).hint("docs/gateway.md tells what can be said");
        // Who does not read complaints misses some.
        let _ = remarks.try_send(Remark::Problem(problem.into()));
    };
    let mut was_told = false;
    loop {
        let message = match stream.next().await {
            Some(Ok(message)) => message,
            Some(Err(error)) => return broken(error),
            None => return Left::Gone,
        };
        both.pings.store(0, Ordering::Relaxed);
        // A keeper that is gone is noticed by who listens to it, and what is typed meanwhile reaches nobody.
        match message {
            Message::Binary(keys) => {
                // The keeper knows best whether a number still counts.
                if let Some(fence) = fence {
                    let _ = saying.type_keys(fence, &keys).await;
                }
                let may_type = fence.is_some() && !both.was_replaced.load(Ordering::Relaxed);
                if !may_type && !std::mem::replace(&mut was_told, true) {
                    complain("an observer cannot type; nothing was".to_owned());
                }
            }
            Message::Text(text) => match serde_json::from_str::<Said>(&text) {
                Ok(Said::Resize { rows, cols }) => {
                    *size = Size { rows, cols };
                    let _ = saying.ask(Request::Resize { size: *size }).await;
                }
                Err(error) => complain(format!("this was not understood: {error}")),
            },
            Message::Close(_) => return Left::Gone,
            Message::Ping(_) | Message::Pong(_) => {}
        }
    }
}

fn broken(error: axum::Error) -> Left {
    let error = error.into_inner();
    match error.downcast_ref::<tungstenite::Error>() {
        Some(tungstenite::Error::Capacity(_)) => {
            Left::Told(None, TOO_LARGE, format!("a message has {MAX_MESSAGE_BYTES} bytes at most"))
        }
        Some(_) | None => Left::Gone,
    }
}
