//! Requests for other hosts, passed on through `ssh TARGET berth proxy`; answers and streams are passed back.
//!
//! Promise: the caller can do there what it can do here, and no more. An interrupted connection is not used again. A
//! few idle connections stay open for the next request, for a short time.
//! Not here: the list of hosts (see `berth_verbs::hosts`).
//! Start with [`RemoteHosts::pass_on`].

use std::collections::HashMap;
use std::io;
use std::process::{Child, ChildStderr, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use berth_api::turn::LONGEST_WAIT_MS;
use berth_api::{AccessScope, Problem};
use berth_store::killpoint;
use berth_verbs::hosts::{HostStatus, RemoteHost, ssh};
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::task::JoinHandle;

use crate::caller::RequestCaller;
use crate::http_problem::HttpProblem;
use crate::live::terminal_limits::RemotePermit;
use crate::single_flight::ProbeCache;
use crate::trace;

/// How long the state of the hosts is cached. The page asks for it every 15 seconds, in each of its tabs.
const KNOWN_FOR: Duration = Duration::from_secs(2);
/// Number of idle connections to one host that stay open.
const MAX_IDLE: usize = 4;
/// Number of connections to one host in use: each is a process here and one there.
const MAX_BUSY: usize = 32;
/// Time after which an idle connection is closed.
const IDLE_PATIENCE: Duration = Duration::from_secs(60);
/// Number of checks for idle connections within that time.
const IDLE_LOOKS: u32 = 4;
/// Environment variable with which tests shorten that time, in milliseconds. Not in release builds.
const IDLE_VARIABLE: &str = "BERTH_IDLE_LINE_MS";
/// Timeout for a host to answer the first request, and to begin an answer that does not wait.
const ANSWER_PATIENCE: Duration = Duration::from_secs(45);
/// Timeout for a host to begin an answer that waits: longer than the longest wait of the API. ssh itself detects a dead
/// connection earlier.
const WAIT_PATIENCE: Duration = Duration::from_millis(LONGEST_WAIT_MS + 2 * 60 * 1000);
/// Timeout for a connection to be usable again after an answer.
const TURN_AROUND: Duration = Duration::from_secs(2);
/// Size limit of the kept error output of ssh.
const MAX_COMPLAINT_BYTES: usize = 4 * 1024;

/// Header that tells the other side the scope of the caller; see `auth`.
pub(crate) const SCOPE_HEADER: HeaderName = HeaderName::from_static("berth-scope");
/// Header that tells the other side the place of the caller.
pub(crate) const PLACE_HEADER: HeaderName = HeaderName::from_static("berth-place");

/// Headers that concern one connection, or the caller on this host, and mean nothing there.
const NOT_PASSED_ON: [HeaderName; 6] = [
    header::HOST,
    header::AUTHORIZATION,
    header::COOKIE,
    header::ORIGIN,
    header::REFERER,
    header::TRANSFER_ENCODING,
];

/// Headers of an answer that are passed back. The owner of another host can send no others to a browser that trusts
/// this one: no cookies, no policies, no redirects.
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

/// Media types of the API. A browser gets any other type as plain bytes: no page and no script of this origin.
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
pub(crate) struct RemoteHosts {
    /// Cache of the state of all hosts: finding it takes a process here and one there for each host.
    pub(crate) known: ProbeCache<Vec<RemoteHost>, Arc<[HostStatus]>>,
    lines: Mutex<HashMap<RemoteHostKey, HostConnections>>,
    /// True while a task checks for idle connections.
    is_looked_after: AtomicBool,
}

impl Default for RemoteHosts {
    fn default() -> Self {
        Self {
            known: ProbeCache::new(|_| KNOWN_FOR),
            lines: Mutex::default(),
            is_looked_after: AtomicBool::default(),
        }
    }
}

/// Identity of a host: a host that was removed and added again may be another one.
type RemoteHostKey = (String, String, String);

fn key_of(host: &RemoteHost) -> RemoteHostKey {
    (host.name.clone(), host.target.clone(), host.berth.clone())
}

#[derive(Debug, Default)]
struct HostConnections {
    idle: Vec<(Instant, SshConnection)>,
    busy: usize,
}

/// An ssh process with HTTP on it. Dropping it ends ssh, and thereby the proxy on the other side.
#[derive(Debug)]
struct SshConnection {
    sender: SendRequest<Body>,
    complaint: SshErrorOutput,
    _ssh: SshProcess,
}

/// Error output of ssh. The beginning is kept, and the rest is read and dropped, so that ssh is never blocked.
#[derive(Debug)]
struct SshErrorOutput {
    said: Arc<Mutex<Vec<u8>>>,
    listening: JoinHandle<()>,
}

impl SshErrorOutput {
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

    /// The whole error output of an ssh that is ending.
    async fn whole(&mut self) -> String {
        let _ = tokio::time::timeout(TURN_AROUND, &mut self.listening).await;
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&said).trim().to_owned()
    }
}

#[derive(Debug)]
struct SshProcess(Option<Child>);

impl Drop for SshProcess {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            // The process is dead already; this only reaps it.
            std::thread::spawn(move || child.wait());
        }
    }
}

/// A connection that is in use, counted until it is dropped.
struct BusyConnection {
    fleet: Arc<RemoteHosts>,
    key: RemoteHostKey,
    line: Option<SshConnection>,
}

impl Drop for BusyConnection {
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

impl BusyConnection {
    /// Returns the connection to the idle ones once it is usable again; otherwise closes it.
    async fn give_back(mut self) {
        if let Some(line) = &mut self.line {
            let is_ready = tokio::time::timeout(TURN_AROUND, line.sender.ready()).await;
            if !matches!(is_ready, Ok(Ok(()))) {
                self.line = None;
            }
        }
    }
}

impl RemoteHosts {
    /// Sends the request of the client to the host, at `path` and with this scope, and returns the answer.
    pub(crate) async fn pass_on(
        self: &Arc<Self>,
        host: &RemoteHost,
        (caller, scope): (&RequestCaller, AccessScope),
        place: RemotePermit,
        path: &str,
        mut request: Request<Body>,
    ) -> Result<Response<Body>, HttpProblem> {
        let on_upgrade = hyper::upgrade::on(&mut request);
        let is_upgrade = request.headers().contains_key(header::UPGRADE);
        let (mut parts, body) = request.into_parts();
        let query = parts.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
        parts.uri = Uri::try_from(format!("{path}{query}"))
            .map_err(|_| HttpProblem::usage("the path is not UTF-8"))?;
        // A client could forge these headers, so its own are removed.
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
        // A request keeps its id on both hosts, even if the client sent none.
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
        // A 401 would end the login on this host: the page asks the user to sign in when it gets one.
        if response.status() == StatusCode::UNAUTHORIZED {
            return Err(away(host, "berth on that host asks for a token, although the request came by ssh"));
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

    /// Starts the task that closes idle connections, so that they are closed even if no request ever follows.
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
                    // Set while the lock is held: a connection returned after this starts a new task.
                    fleet.is_looked_after.store(false, Ordering::Relaxed);
                    return;
                }
            }
        });
    }

    /// A connection to the host: an idle one, or a new one.
    async fn line(self: &Arc<Self>, host: &RemoteHost) -> Result<BusyConnection, HttpProblem> {
        let key = key_of(host);
        let found = {
            let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
            forget_idle(&mut lines);
            let of_host = lines.entry(key.clone()).or_default();
            if of_host.busy >= MAX_BUSY {
                let what = format!("{MAX_BUSY} requests to `{}` are under way", host.name);
                return Err(
                    HttpProblem::from(Problem::full(what).hint("try again in a moment")).retry_after(1)
                );
            }
            of_host.busy += 1;
            of_host.idle.pop()
        };
        let mut busy = BusyConnection { fleet: Arc::clone(self), key, line: found.map(|(_, line)| line) };
        if busy.line.is_none() {
            busy.line = Some(open(host).await?);
        }
        Ok(busy)
    }
}

/// Removes the headers that are not passed back.
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

/// The path of an accepted turn, as a client of this host asks for it. Every other redirect is dropped.
fn place_here<B>(host: &RemoteHost, response: &Response<B>) -> Option<HeaderValue> {
    let there =
        response.headers().get(header::LOCATION).filter(|_| response.status() == StatusCode::ACCEPTED)?;
    let rest = there.to_str().ok()?.strip_prefix("/v1/sessions/")?;
    let is_plain = rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'/');
    HeaderValue::from_str(&format!("/v1/hosts/{}/sessions/{rest}", host.name)).ok().filter(|_| is_plain)
}

fn idle_patience() -> Duration {
    killpoint::patience(IDLE_VARIABLE, IDLE_PATIENCE)
}

/// Closes connections that were idle for long, or have ended.
fn forget_idle(lines: &mut HashMap<RemoteHostKey, HostConnections>) {
    let patience = idle_patience();
    for of_host in lines.values_mut() {
        of_host.idle.retain(|(since, line)| since.elapsed() < patience && !line.sender.is_closed());
    }
    lines.retain(|_, of_host| of_host.busy > 0 || !of_host.idle.is_empty());
}

async fn open(host: &RemoteHost) -> Result<SshConnection, HttpProblem> {
    let mut command = ssh::ssh_command(host, ssh::PasswordPrompt::Never, &["proxy".to_owned()])?;
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| ssh::no_ssh(&error))?;
    let ends = child.stdin.take().zip(child.stdout.take()).zip(child.stderr.take());
    let ssh = SshProcess(Some(child));
    let ((write, read), stderr) = ends.ok_or_else(|| away(host, "ssh has no ends"))?;
    let bad = |error: io::Error| away(host, &error.to_string());
    let write = pipe::Sender::from_owned_fd(write.into()).map_err(bad)?;
    let read = pipe::Receiver::from_owned_fd(read.into()).map_err(bad)?;
    let complaint = SshErrorOutput::listen(stderr).map_err(bad)?;
    let io = TokioIo::new(tokio::io::join(read, write));
    let (sender, connection) =
        hyper::client::conn::http1::handshake(io).await.map_err(|error| away(host, &error.to_string()))?;
    tokio::spawn(connection.with_upgrades());
    let mut line = SshConnection { sender, complaint, _ssh: ssh };
    // A short request comes first: a request that may wait for long must not wait for a host that is down.
    match tokio::time::timeout(ANSWER_PATIENCE, is_there(&mut line.sender)).await {
        Ok(Ok(())) => Ok(line),
        Ok(Err(_)) => Err(broke_off(host, &mut line.complaint).await),
        Err(_) => Err(away(host, "it does not answer")),
    }
}

/// Sends the smallest request, and waits until the next one can be sent.
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

fn away(host: &RemoteHost, why: &str) -> HttpProblem {
    Problem::unreachable(format!("host `{}` is away: {why}", host.name))
        .hint(format!(
            "`ssh {} true` has to work without a password; GET /v1/hosts lists the hosts",
            host.target
        ))
        .into()
}

/// The error output of ssh before it ended is the reason.
async fn broke_off(host: &RemoteHost, complaint: &mut SshErrorOutput) -> HttpProblem {
    let said = complaint.whole().await;
    away(host, if said.is_empty() { "ssh ended" } else { &said })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_location_of_a_turn_at_another_host_is_rewritten_and_other_redirects_are_dropped() {
        let host =
            RemoteHost { name: "box".into(), target: "box".into(), berth: "berth".into(), added_at: None };
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
