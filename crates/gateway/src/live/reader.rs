//! A stream to one client: what a feed or the list has for it, as fast as it takes it.
//!
//! Promise: nothing is made before the client has room for it; in between a heartbeat tells both sides that the other
//! is there, and whether it may still listen is asked again.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use berth_api::Viewer;
use berth_core::SessionId;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use tokio::time::{Interval, MissedTickBehavior};

use super::feed::{Cursor, Feed, Taken};
use super::hub::Subscription;
use super::list::{Looking, Told};
use super::sse;
use crate::fault::ProblemBody;
use crate::quota::Stay;

/// How often a stream says that it is alive. Proxies give up after a minute.
pub(crate) const HEARTBEAT_EVERY: Duration = Duration::from_secs(15);

/// A session's news, from where the cursor is.
pub(crate) fn session(
    subscription: Subscription,
    cursor: Cursor,
    id: SessionId,
    viewer: Viewer,
    stay: Stay,
) -> Response {
    let bell = subscription.feed.bell();
    let reader = Reader { subscription, cursor, bell, id, viewer, ready: start(), heartbeat: heartbeat() };
    let news = stream::unfold(Some(reader), |reader| async {
        let mut reader = reader?;
        let (bytes, goes_on) = reader.next().await?;
        Some((bytes, goes_on.then_some(reader)))
    });
    respond(news, stay)
}

/// The list, and then what changes.
pub(crate) fn list(looking: Looking, all: bool, viewer: Viewer, stay: Stay) -> Response {
    let reader = ListReader { looking, all, viewer, ready: start(), heartbeat: heartbeat(), is_over: false };
    let news = stream::unfold(reader, |mut reader| async {
        let bytes = reader.next().await?;
        Some((bytes, reader))
    });
    respond(news, stay)
}

fn start() -> VecDeque<Bytes> {
    [Bytes::from_static(sse::HELLO)].into()
}

fn heartbeat() -> Interval {
    let mut heartbeat =
        tokio::time::interval_at(tokio::time::Instant::now() + HEARTBEAT_EVERY, HEARTBEAT_EVERY);
    heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    heartbeat
}

/// Sends the news until they end, or until the stream is closed in favour of a newer one of its token; then the last event
/// says why.
fn respond(news: impl stream::Stream<Item = Bytes> + Send + 'static, stay: Stay) -> Response {
    let news = news.take_until(stay.closed().clone().cancelled_owned());
    let last = stream::once(async move {
        let is_closed = stay.closed().is_cancelled();
        is_closed.then(|| sse::event("problem", &ProblemBody::from(stay.why().problem)))
    });
    let stream = news.chain(last.filter_map(std::future::ready)).map(Ok::<Bytes, Infallible>);
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
        // nginx would gather what is meant to arrive at once.
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    (headers, Body::from_stream(stream)).into_response()
}

struct Reader {
    subscription: Subscription,
    cursor: Cursor,
    bell: tokio::sync::watch::Receiver<()>,
    id: SessionId,
    viewer: Viewer,
    ready: VecDeque<Bytes>,
    heartbeat: Interval,
}

impl Reader {
    /// The next bytes, and whether more may follow.
    async fn next(&mut self) -> Option<(Bytes, bool)> {
        loop {
            if let Some(bytes) = self.ready.pop_front() {
                return Some((bytes, true));
            }
            self.bell.mark_unchanged();
            match self.subscription.feed.take(&mut self.cursor, &self.viewer) {
                Taken::News(news) => self.ready.extend(news),
                Taken::Behind { from, to } => {
                    match self.subscription.feed.pages.get(from, to, &self.viewer).await {
                        Ok((bytes, last)) => {
                            Feed::caught_up(&mut self.cursor, last);
                            return Some((bytes, true));
                        }
                        // What it had not heard yet went with the session.
                        Err(_) if self.subscription.feed.pages.is_gone() => {
                            return Some((
                                sse::event("gone", &serde_json::json!({ "id": self.id.as_str() })),
                                false,
                            ));
                        }
                        // Said, and over: who comes back is told again, or by then it is better.
                        Err(problem) => {
                            return Some((sse::event("problem", &ProblemBody::from(problem)), false));
                        }
                    }
                }
                Taken::Nothing => tokio::select! {
                    // The feed is held by us, so its bell is there.
                    _ = self.bell.changed() => {}
                    _ = self.heartbeat.tick() => {
                        return Some((Bytes::from_static(sse::HEARTBEAT), true));
                    }
                },
                Taken::Over => return None,
            }
        }
    }
}

struct ListReader {
    looking: Looking,
    all: bool,
    viewer: Viewer,
    ready: VecDeque<Bytes>,
    heartbeat: Interval,
    /// There is nothing more to say.
    is_over: bool,
}

impl ListReader {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(bytes) = self.ready.pop_front() {
                return Some(bytes);
            }
            if self.is_over {
                return None;
            }
            match self.looking.take(&self.viewer, self.all) {
                // Said, and over: who comes back is told again, or by then it is better.
                Some(Told::Trouble(problem)) => {
                    self.is_over = true;
                    return Some(sse::event("problem", &ProblemBody::from(problem)));
                }
                Some(Told::All(sessions)) => return Some(hello(&sessions)),
                Some(Told::Some(changes)) => {
                    self.ready.extend(changes.into_iter().map(|(id, status)| match status {
                        Some(json) => raw("session", &json),
                        None => sse::event("gone", &serde_json::json!({ "id": id.as_str() })),
                    }));
                }
                None => tokio::select! {
                    () = self.looking.wait() => {}
                    _ = self.heartbeat.tick() => {
                        return Some(Bytes::from_static(sse::HEARTBEAT));
                    }
                },
            }
        }
    }
}

fn hello(sessions: &[Bytes]) -> Bytes {
    let size = sessions.iter().map(|json| json.len() + 1).sum::<usize>();
    let mut json = Vec::with_capacity(size + 32);
    json.extend_from_slice(b"{\"sessions\":[");
    for (at, session) in sessions.iter().enumerate() {
        if at > 0 {
            json.push(b',');
        }
        json.extend_from_slice(session);
    }
    json.extend_from_slice(b"]}");
    raw("hello", &json)
}

/// An event whose data is JSON already.
fn raw(kind: &str, json: &[u8]) -> Bytes {
    [b"event: ", kind.as_bytes(), b"\ndata: ", json, b"\n\n"].concat().into()
}
