//! Requests that are for other hosts: passed on through `ssh TARGET berth proxy`, answers and streams passed back.
//!
//! Promise: whoever asks may do there what they may do here, and no more; a connection that broke off is not used
//! again; a few stay open for the next request, and none for long.
//! Not here: which hosts there are (see `berth_verbs::hosts`).
//! Start with [`Fleet::pass_on`].

use std::collections::HashMap;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, Request, Response, StatusCode, Uri, header};
use berth_api::{Code, Problem};
use berth_verbs::hosts::{Host, ssh};
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;

use crate::caller::Caller;
use crate::fault::Fault;

/// How many connections to one host stay open for the next request.
const MAX_IDLE: usize = 4;
/// How many connections there are to one host at a time: each is a process here and one there.
const MAX_BUSY: usize = 32;
/// How long one stays open that nobody uses.
const IDLE_PATIENCE: Duration = Duration::from_secs(60);
/// How long a host may take to begin an answer.
const ANSWER_PATIENCE: Duration = Duration::from_secs(45);
/// How long a connection may take to be usable again after an answer.
const TURN_AROUND: Duration = Duration::from_secs(2);
/// How much of what ssh complains about is kept.
const MAX_COMPLAINT_BYTES: u64 = 4 * 1024;

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

/// The connections to other hosts.
#[derive(Debug, Default)]
pub(crate) struct Fleet {
    lines: Mutex<HashMap<String, Lines>>,
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
    ssh: Ssh,
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
    key: String,
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
    /// Asks the host what the client asks, at `path`, and gives what it answers.
    pub(crate) async fn pass_on(
        self: &Arc<Self>,
        host: &Host,
        caller: &Caller,
        path: &str,
        mut request: Request<Body>,
    ) -> Result<Response<Body>, Fault> {
        let on_upgrade = hyper::upgrade::on(&mut request);
        let is_upgrade = request.headers().contains_key(header::UPGRADE);
        let (mut parts, body) = request.into_parts();
        let query = parts.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
        parts.uri =
            Uri::try_from(format!("{path}{query}")).map_err(|_| Fault::usage("the path is no text"))?;
        for name in NOT_PASSED_ON {
            parts.headers.remove(name);
        }
        if !is_upgrade {
            parts.headers.remove(header::CONNECTION);
        }
        parts.headers.insert(header::HOST, HeaderValue::from_static("localhost"));
        parts.headers.insert(SCOPE_HEADER, HeaderValue::from_static(caller.scope.word()));
        if let Ok(place) = HeaderValue::from_str(&caller.place) {
            parts.headers.insert(PLACE_HEADER, place);
        }
        let mut busy = self.line(host).await?;
        let line = busy.line.as_mut().ok_or_else(|| away(host, "the connection is gone"))?;
        let asked = line.sender.send_request(Request::from_parts(parts, body));
        let mut response = match tokio::time::timeout(ANSWER_PATIENCE, asked).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(broke_off(host, busy, &error).await),
            Err(_) => return Err(away(host, "it does not answer")),
        };
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            let there = hyper::upgrade::on(&mut response);
            tokio::spawn(async move {
                let (Ok(here), Ok(there)) = tokio::join!(on_upgrade, there) else { return };
                let _ =
                    tokio::io::copy_bidirectional(&mut TokioIo::new(here), &mut TokioIo::new(there)).await;
                drop(busy);
            });
            return Ok(response.map(Body::new));
        }
        let (parts, incoming) = response.into_parts();
        let stream =
            futures_util::stream::unfold((incoming, Some(busy)), |(mut incoming, busy)| async move {
                use http_body_util::BodyExt;
                let busy = busy?;
                match incoming.frame().await {
                    Some(frame) => Some((
                        frame.map(|frame| frame.into_data().unwrap_or_default()),
                        (incoming, Some(busy)),
                    )),
                    None => {
                        tokio::spawn(busy.give_back());
                        None
                    }
                }
            });
        Ok(Response::from_parts(parts, Body::from_stream(stream)))
    }

    /// A connection to the host: one that is there, or a new one.
    async fn line(self: &Arc<Self>, host: &Host) -> Result<Busy, Fault> {
        let key = host.name.clone();
        let found = {
            let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
            // Whoever comes by takes note of what nobody used for long.
            for of_host in lines.values_mut() {
                of_host
                    .idle
                    .retain(|(since, line)| since.elapsed() < IDLE_PATIENCE && !line.sender.is_closed());
            }
            lines.retain(|_, of_host| of_host.busy > 0 || !of_host.idle.is_empty());
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

async fn open(host: &Host) -> Result<Line, Fault> {
    let mut command = ssh::command(host, ssh::Asking::Nobody, &["proxy".to_owned()])?;
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| ssh::no_ssh(&error))?;
    let ends = child.stdin.take().zip(child.stdout.take());
    let ssh = Ssh(Some(child));
    let (write, read) = ends.ok_or_else(|| away(host, "ssh has no ends"))?;
    let bad = |error: std::io::Error| away(host, &error.to_string());
    let write = pipe::Sender::from_owned_fd(write.into()).map_err(bad)?;
    let read = pipe::Receiver::from_owned_fd(read.into()).map_err(bad)?;
    let io = TokioIo::new(tokio::io::join(read, write));
    let (sender, connection) =
        hyper::client::conn::http1::handshake(io).await.map_err(|error| away(host, &error.to_string()))?;
    tokio::spawn(connection.with_upgrades());
    Ok(Line { sender, ssh })
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
async fn broke_off(host: &Host, mut busy: Busy, error: &hyper::Error) -> Fault {
    let child = busy.line.as_mut().and_then(|line| line.ssh.0.as_mut());
    let stderr = child.and_then(|child| child.stderr.take());
    let Some(read) = stderr.and_then(|stderr| pipe::Receiver::from_owned_fd(stderr.into()).ok()) else {
        return away(host, &error.to_string());
    };
    let mut said = Vec::new();
    let _ = tokio::time::timeout(TURN_AROUND, read.take(MAX_COMPLAINT_BYTES).read_to_end(&mut said)).await;
    let said = String::from_utf8_lossy(&said);
    let said = said.trim();
    away(host, if said.is_empty() { "ssh ended" } else { said })
}
