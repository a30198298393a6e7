//! Requests that are for other hosts: passed on through `ssh TARGET berth proxy`, answers and streams passed back.
//!
//! Promise: whoever asks may do there what they may do here, and no more; a connection that broke off is not used
//! again; a few stay open for the next request, and none for long.
//! Not here: which hosts there are (see `berth_verbs::hosts`).
//! Start with [`Fleet::pass_on`].

use std::collections::HashMap;
use std::io;
use std::process::{Child, ChildStderr, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use berth_api::turn::LONGEST_WAIT_MS;
use berth_api::{Code, Problem, Scope};
use berth_store::killpoint;
use berth_verbs::hosts::{Host, Look, ssh};
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::task::JoinHandle;

use crate::caller::Caller;
use crate::fault::Fault;
use crate::live::terminals::PlaceElsewhere;
use crate::one_look::Recent;
use crate::trace;

/// How long what was seen of the hosts counts. The page looks every 15 seconds, in each of its tabs.
const KNOWN_FOR: Duration = Duration::from_secs(2);
/// How many connections to one host stay open for the next request.
const MAX_IDLE: usize = 4;
/// How many connections there are to one host at a time: each is a process here and one there.
const MAX_BUSY: usize = 32;
/// How long one stays open that nobody uses.
const IDLE_PATIENCE: Duration = Duration::from_secs(60);
/// How often it is looked which those are within that time, while there are any.
const IDLE_LOOKS: u32 = 4;
/// The variable by which tests are less patient with those, in milliseconds. Not in release builds.
const IDLE_VARIABLE: &str = "BERTH_IDLE_LINE_MS";
/// How long a host may take to be there, and to begin an answer that waits for nothing.
const ANSWER_PATIENCE: Duration = Duration::from_secs(45);
/// How long it may take to begin one that waits for something: longer than the longest wait there is. That the
/// connection is dead ssh notices before that.
const WAIT_PATIENCE: Duration = Duration::from_millis(LONGEST_WAIT_MS + 2 * 60 * 1000);
/// How long a connection may take to be usable again after an answer.
const TURN_AROUND: Duration = Duration::from_secs(2);
/// How much of what ssh complains about is kept.
const MAX_COMPLAINT_BYTES: usize = 4 * 1024;

/// Says how far whoever asks may go, to the other side; see `auth`.
pub(crate) const SCOPE_HEADER: HeaderName = HeaderName::from_static("berth-scope");
/// Says where whoever asks is, to the other side.
pub(crate) const PLACE_HEADER: HeaderName = HeaderName::from_static("berth-place");

/// What is about one connection, or about who asks here, and means nothing there.
const NOT_PASSED_ON: [HeaderName; 6] = [
    header::HOST,
    header::AUTHORIZATION,
    header::COOKIE,
    header::ORIGIN,
    header::REFERER,
    header::TRANSFER_ENCODING,
];

/// What of an answer is passed back. Whoever runs another host says nothing else to a browser that trusts this one: no
/// cookies, no policies, no way to anywhere.
const PASSED_BACK: [HeaderName; 12] = [
    header::CONTENT_TYPE,
    header::CONTENT_LENGTH,
    header::CONTENT_DISPOSITION,
    header::RETRY_AFTER,
    header::CONNECTION,
    header::UPGRADE,
    header::SEC_WEBSOCKET_ACCEPT,
    header::SEC_WEBSOCKET_PROTOCOL,
    HeaderName::from_static("x-output-from"),
    HeaderName::from_static("x-output-end"),
    HeaderName::from_static("x-events-end"),
    HeaderName::from_static("x-accel-buffering"),
];

/// What the API answers with. Anything else is bytes to a browser here: no page, and no script of ours.
const KNOWN_TYPES: [&str; 8] = [
    "application/json",
    "application/problem+json",
    "application/octet-stream",
    "application/x-ndjson",
    "application/x-asciicast",
    "text/event-stream",
    "text/markdown",
    "text/plain",
];

/// The connections to other hosts.
#[derive(Debug)]
pub(crate) struct Fleet {
    /// What was seen of all hosts: each look is a process here and one there for each.
    pub(crate) known: Recent<Vec<Host>, Arc<[Look]>>,
    lines: Mutex<HashMap<Key, Lines>>,
    /// Whether somebody looks which lines nobody uses.
    is_looked_after: AtomicBool,
}

impl Default for Fleet {
    fn default() -> Self {
        Self {
            known: Recent::new(|_| KNOWN_FOR),
            lines: Mutex::default(),
            is_looked_after: AtomicBool::default(),
        }
    }
}

/// What makes it the same host: one that was added again may be another.
type Key = (String, String, String);

fn key_of(host: &Host) -> Key {
    (host.name.clone(), host.target.clone(), host.berth.clone())
}

#[derive(Debug, Default)]
struct Lines {
    idle: Vec<(Instant, Line)>,
    busy: usize,
}

/// One ssh, and HTTP on it. Ending this ends ssh, and that the proxy on the other side.
#[derive(Debug)]
struct Line {
    sender: SendRequest<Body>,
    complaint: Complaint,
    _ssh: Ssh,
}

/// What ssh said on standard error: the beginning is kept, and the rest read, so that it never waits for us.
#[derive(Debug)]
struct Complaint {
    said: Arc<Mutex<Vec<u8>>>,
    listening: JoinHandle<()>,
}

impl Complaint {
    fn listen(stderr: ChildStderr) -> io::Result<Self> {
        let mut from = pipe::Receiver::from_owned_fd(stderr.into())?;
        let said = Arc::new(Mutex::new(Vec::new()));
        let kept = said.clone();
        let listening = tokio::spawn(async move {
            let mut buffer = [0; 1024];
            while let Ok(count @ 1..) = from.read(&mut buffer).await {
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                let room = MAX_COMPLAINT_BYTES.saturating_sub(kept.len());
                kept.extend_from_slice(&buffer[..count.min(room)]);
            }
        });
        Ok(Self { said, listening })
    }

    /// All of it, from one that is ending.
    async fn whole(&mut self) -> String {
        let _ = tokio::time::timeout(TURN_AROUND, &mut self.listening).await;
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&said).trim().to_owned()
    }
}

#[derive(Debug)]
struct Ssh(Option<Child>);

impl Drop for Ssh {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            // It is dead, and only has to be taken note of.
            std::thread::spawn(move || child.wait());
        }
    }
}

/// A connection that is in use; counted until it is not.
struct Busy {
    fleet: Arc<Fleet>,
    key: Key,
    line: Option<Line>,
}

impl Drop for Busy {
    fn drop(&mut self) {
        let line = self.line.take();
        let mut lines = self.fleet.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(of_host) = lines.get_mut(&self.key) else { return };
        of_host.busy -= 1;
        let line = line.filter(|line| line.sender.is_ready() && of_host.idle.len() < MAX_IDLE);
        of_host.idle.extend(line.map(|line| (Instant::now(), line)));
        let is_idle = !of_host.idle.is_empty();
        drop(lines);
        if is_idle {
            self.fleet.look_after_idle();
        }
    }
}

impl Busy {
    /// Gives the connection back once it can be used again; one that cannot is ended.
    async fn give_back(mut self) {
        if let Some(line) = &mut self.line {
            let is_ready = tokio::time::timeout(TURN_AROUND, line.sender.ready()).await;
            if !matches!(is_ready, Ok(Ok(()))) {
                self.line = None;
            }
        }
    }
}

impl Fleet {
    /// Asks the host what the client asks, at `path`, and gives what it answers. They may go so far there.
    pub(crate) async fn pass_on(
        self: &Arc<Self>,
        host: &Host,
        (caller, scope): (&Caller, Scope),
        place: PlaceElsewhere,
        path: &str,
        mut request: Request<Body>,
    ) -> Result<Response<Body>, Fault> {
        let on_upgrade = hyper::upgrade::on(&mut request);
        let is_upgrade = request.headers().contains_key(header::UPGRADE);
        let (mut parts, body) = request.into_parts();
        let query = parts.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
        parts.uri =
            Uri::try_from(format!("{path}{query}")).map_err(|_| Fault::usage("the path is not UTF-8"))?;
        // What they say of themselves is theirs to say to us, and not ours to say to others.
        for name in NOT_PASSED_ON.into_iter().chain([SCOPE_HEADER, PLACE_HEADER]) {
            parts.headers.remove(name);
        }
        if !is_upgrade {
            parts.headers.remove(header::CONNECTION);
        }
        parts.headers.insert(header::HOST, HeaderValue::from_static("localhost"));
        parts.headers.insert(SCOPE_HEADER, HeaderValue::from_static(scope.word()));
        if let Ok(place) = HeaderValue::from_str(&caller.place) {
            parts.headers.insert(PLACE_HEADER, place);
        }
        // One request has one id on its whole way, also if whoever asks gave it none.
        if let Some(id) = trace::current().and_then(|id| HeaderValue::from_str(&id).ok()) {
            parts.headers.insert(trace::REQUEST_ID, id);
        }
        let patience = if parts.method == Method::POST { WAIT_PATIENCE } else { ANSWER_PATIENCE };
        let mut busy = self.line(host).await?;
        let line = busy.line.as_mut().ok_or_else(|| away(host, "the connection is gone"))?;
        let asked = line.sender.send_request(Request::from_parts(parts, body));
        let mut response = match tokio::time::timeout(patience, asked).await {
            Ok(Ok(response)) => response,
            Ok(Err(_)) => return Err(broke_off(host, &mut line.complaint).await),
            Err(_) => return Err(away(host, "it does not answer")),
        };
        // A login here is not theirs to end: a page that is told 401 asks its person to sign in.
        if response.status() == StatusCode::UNAUTHORIZED {
            return Err(away(host, "berth there asks for a token, and does not take ssh for one"));
        }
        let turn = place_here(host, &response);
        clean(response.headers_mut());
        response.headers_mut().extend(turn.map(|turn| (header::LOCATION, turn)));
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            let there = hyper::upgrade::on(&mut response);
            tokio::spawn(async move {
                let (Ok(here), Ok(there)) = tokio::join!(on_upgrade, there) else { return };
                let _ =
                    tokio::io::copy_bidirectional(&mut TokioIo::new(here), &mut TokioIo::new(there)).await;
                drop((busy, place));
            });
            return Ok(response.map(Body::new));
        }
        let (parts, incoming) = response.into_parts();
        let stream = futures_util::stream::unfold(
            (incoming, Some((busy, place))),
            |(mut incoming, kept)| async move {
                use http_body_util::BodyExt;
                let (busy, place) = kept?;
                match incoming.frame().await {
                    Some(frame) => Some((
                        frame.map(|frame| frame.into_data().unwrap_or_default()),
                        (incoming, Some((busy, place))),
                    )),
                    None => {
                        tokio::spawn(busy.give_back());
                        None
                    }
                }
            },
        );
        Ok(Response::from_parts(parts, Body::from_stream(stream)))
    }

    /// Sees to it that lines which nobody uses are ended, also if nobody ever asks again.
    fn look_after_idle(self: &Arc<Self>) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if self.is_looked_after.swap(true, Ordering::Relaxed) {
            return;
        }
        let fleet = Arc::downgrade(self);
        runtime.spawn(async move {
            loop {
                tokio::time::sleep(idle_patience() / IDLE_LOOKS).await;
                let Some(fleet) = fleet.upgrade() else { return };
                let mut lines = fleet.lines.lock().unwrap_or_else(PoisonError::into_inner);
                forget_idle(&mut lines);
                if lines.values().all(|of_host| of_host.idle.is_empty()) {
                    // While the lock is held: whoever gives one back from now on begins anew.
                    fleet.is_looked_after.store(false, Ordering::Relaxed);
                    return;
                }
            }
        });
    }

    /// A connection to the host: one that is there, or a new one.
    async fn line(self: &Arc<Self>, host: &Host) -> Result<Busy, Fault> {
        let key = key_of(host);
        let found = {
            let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
            forget_idle(&mut lines);
            let of_host = lines.entry(key.clone()).or_default();
            if of_host.busy >= MAX_BUSY {
                let what = format!("{MAX_BUSY} requests to `{}` are under way", host.name);
                return Err(
                    Fault::from(Problem::new(Code::Full, what).hint("try again in a moment")).retry_after(1)
                );
            }
            of_host.busy += 1;
            of_host.idle.pop()
        };
        let mut busy = Busy { fleet: Arc::clone(self), key, line: found.map(|(_, line)| line) };
        if busy.line.is_none() {
            busy.line = Some(open(host).await?);
        }
        Ok(busy)
    }
}

/// Leaves what may be passed back.
fn clean(headers: &mut HeaderMap) {
    let passed = |name: &HeaderName| {
        let values = headers.get(name).into_iter();
        values.map(|value| (name.clone(), value.clone())).collect::<Vec<_>>()
    };
    let mut kept: HeaderMap = PASSED_BACK.iter().flat_map(passed).collect();
    if let Some(kind) = kept.get_mut(header::CONTENT_TYPE) {
        let essence = kind.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim();
        if !KNOWN_TYPES.iter().any(|known| known.eq_ignore_ascii_case(essence)) {
            *kind = HeaderValue::from_static("application/octet-stream");
        }
    }
    *headers = kept;
}

/// Where what was accepted is, as it is asked for here. Only for what the API gives one for: nobody is sent anywhere.
fn place_here<B>(host: &Host, response: &Response<B>) -> Option<HeaderValue> {
    let there =
        response.headers().get(header::LOCATION).filter(|_| response.status() == StatusCode::ACCEPTED)?;
    let rest = there.to_str().ok()?.strip_prefix("/v1/sessions/")?;
    let is_plain = rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'/');
    HeaderValue::from_str(&format!("/v1/hosts/{}/sessions/{rest}", host.name)).ok().filter(|_| is_plain)
}

fn idle_patience() -> Duration {
    killpoint::patience(IDLE_VARIABLE, IDLE_PATIENCE)
}

/// Ends what nobody used for long, or has ended.
fn forget_idle(lines: &mut HashMap<Key, Lines>) {
    let patience = idle_patience();
    for of_host in lines.values_mut() {
        of_host.idle.retain(|(since, line)| since.elapsed() < patience && !line.sender.is_closed());
    }
    lines.retain(|_, of_host| of_host.busy > 0 || !of_host.idle.is_empty());
}

async fn open(host: &Host) -> Result<Line, Fault> {
    let mut command = ssh::command(host, ssh::Asking::Nobody, &["proxy".to_owned()])?;
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| ssh::no_ssh(&error))?;
    let ends = child.stdin.take().zip(child.stdout.take()).zip(child.stderr.take());
    let ssh = Ssh(Some(child));
    let ((write, read), stderr) = ends.ok_or_else(|| away(host, "ssh has no ends"))?;
    let bad = |error: io::Error| away(host, &error.to_string());
    let write = pipe::Sender::from_owned_fd(write.into()).map_err(bad)?;
    let read = pipe::Receiver::from_owned_fd(read.into()).map_err(bad)?;
    let complaint = Complaint::listen(stderr).map_err(bad)?;
    let io = TokioIo::new(tokio::io::join(read, write));
    let (sender, connection) =
        hyper::client::conn::http1::handshake(io).await.map_err(|error| away(host, &error.to_string()))?;
    tokio::spawn(connection.with_upgrades());
    let mut line = Line { sender, complaint, _ssh: ssh };
    // Nothing is asked of who is not there: what waits for long must not wait for that.
    match tokio::time::timeout(ANSWER_PATIENCE, is_there(&mut line.sender)).await {
        Ok(Ok(())) => Ok(line),
        Ok(Err(_)) => Err(broke_off(host, &mut line.complaint).await),
        Err(_) => Err(away(host, "it does not answer")),
    }
}

/// Asks the smallest question there is, and waits until the next one can be asked.
async fn is_there(sender: &mut SendRequest<Body>) -> hyper::Result<()> {
    use http_body_util::BodyExt;
    let mut question = Request::new(Body::empty());
    *question.uri_mut() = Uri::from_static("/healthz");
    question.headers_mut().insert(header::HOST, HeaderValue::from_static("localhost"));
    let mut answer = sender.send_request(question).await?;
    while let Some(frame) = answer.frame().await {
        frame?;
    }
    sender.ready().await
}

fn away(host: &Host, why: &str) -> Fault {
    Problem::new(Code::Unreachable, format!("host `{}` is away: {why}", host.name))
        .hint(format!(
            "`ssh {} true` has to work without a password; GET /v1/hosts tells what is known",
            host.target
        ))
        .into()
}

/// What ssh said before it ended is the reason.
async fn broke_off(host: &Host, complaint: &mut Complaint) -> Fault {
    let said = complaint.whole().await;
    away(host, if said.is_empty() { "ssh ended" } else { &said })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_a_turn_is_at_another_host_is_said_as_it_is_asked_for_here_and_nobody_is_sent_anywhere() {
        let host = Host { name: "box".into(), target: "box".into(), berth: "berth".into(), added_at: None };
        let place = |status: StatusCode, location: &str| {
            let response = Response::builder().status(status).header(header::LOCATION, location).body(());
            place_here(&host, &response.expect("a response"))
        };
        let turn = "/v1/sessions/mj277ycbmc9g/turns/1";
        assert_eq!(
            place(StatusCode::ACCEPTED, turn).expect("a place"),
            "/v1/hosts/box/sessions/mj277ycbmc9g/turns/1"
        );
        assert_eq!(place(StatusCode::SEE_OTHER, turn), None);
        for odd in
            ["//example.com", "https://example.com/v1/sessions/x", "/v1/sessions/../../x", "/login", ""]
        {
            assert_eq!(place(StatusCode::ACCEPTED, odd), None, "{odd}");
        }
    }
}
