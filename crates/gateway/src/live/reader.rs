//! An event stream to one client: events of a feed or of the list, sent as fast as the client reads.
//!
//! Promise: nothing is serialized before the client has room for it. In between, heartbeats show both sides that the
//! other is alive, and the right of the client to listen is checked again.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use berth_api::ViewerRights;
use berth_core::SessionId;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use tokio::time::{Interval, MissedTickBehavior};

use super::feed::{FeedCursor, FeedUpdate, SessionFeed};
use super::hub::FeedSubscription;
use super::live_list::{LiveListSubscription, LiveListUpdate};
use super::sse;
use crate::http_problem::ProblemBody;
use crate::quota::LastingPermit;

/// Interval of heartbeats on an idle stream. Proxies close a connection after a minute of silence.
pub(crate) const HEARTBEAT_EVERY: Duration = Duration::from_secs(15);

/// Streams the events of a session behind the cursor.
pub(crate) fn session(
    subscription: FeedSubscription,
    cursor: FeedCursor,
    id: SessionId,
    viewer: ViewerRights,
    stay: LastingPermit,
) -> Response {
    let bell = subscription.feed.bell();
    let reader =
        FeedReader { subscription, cursor, bell, id, viewer, ready: start(), heartbeat: heartbeat() };
    let news = stream::unfold(Some(reader), |reader| async {
        let mut reader = reader?;
        let (bytes, goes_on) = reader.next().await?;
        Some((bytes, goes_on.then_some(reader)))
    });
    respond(news, stay)
}

/// Streams the whole list, and then its changes.
pub(crate) fn list(
    looking: LiveListSubscription,
    all: bool,
    viewer: ViewerRights,
    stay: LastingPermit,
) -> Response {
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

/// Sends events until they end, or until the stream is closed in favour of a newer one of its token. In the latter case
/// the last event gives the reason.
fn respond(news: impl stream::Stream<Item = Bytes> + Send + 'static, stay: LastingPermit) -> Response {
    let news = news.take_until(stay.closed().clone().cancelled_owned());
    let last = stream::once(async move {
        let is_closed = stay.closed().is_cancelled();
        is_closed.then(|| sse::event("problem", &ProblemBody::from(stay.close_problem().problem)))
    });
    let stream = news.chain(last.filter_map(std::future::ready)).map(Ok::<Bytes, Infallible>);
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
        // By default nginx buffers answers, which would delay events.
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    (headers, Body::from_stream(stream)).into_response()
}

struct FeedReader {
    subscription: FeedSubscription,
    cursor: FeedCursor,
    bell: tokio::sync::watch::Receiver<()>,
    id: SessionId,
    viewer: ViewerRights,
    ready: VecDeque<Bytes>,
    heartbeat: Interval,
}

impl FeedReader {
    /// The next bytes, and whether more may follow. `None` at the end of the stream.
    async fn next(&mut self) -> Option<(Bytes, bool)> {
        loop {
            if let Some(bytes) = self.ready.pop_front() {
                return Some((bytes, true));
            }
            self.bell.mark_unchanged();
            match self.subscription.feed.take(&mut self.cursor, &self.viewer) {
                FeedUpdate::News(news) => self.ready.extend(news),
                FeedUpdate::Behind { from, to } => {
                    match self.subscription.feed.pages.get(from, to, &self.viewer).await {
                        Ok((bytes, last)) => {
                            SessionFeed::caught_up(&mut self.cursor, last);
                            return Some((bytes, true));
                        }
                        // The events that the client lacked were deleted with the session.
                        Err(_) if self.subscription.feed.pages.is_gone() => {
                            return Some((
                                sse::event("gone", &serde_json::json!({ "id": self.id.as_str() })),
                                false,
                            ));
                        }
                        // The stream ends with the problem. A client that reconnects sees the problem again, unless it
                        // is solved by then.
                        Err(problem) => {
                            return Some((sse::event("problem", &ProblemBody::from(problem)), false));
                        }
                    }
                }
                FeedUpdate::Nothing => tokio::select! {
                    // The stream holds the feed, so the sender of this channel exists.
                    _ = self.bell.changed() => {}
                    _ = self.heartbeat.tick() => {
                        return Some((Bytes::from_static(sse::HEARTBEAT), true));
                    }
                },
                FeedUpdate::Over => return None,
            }
        }
    }
}

struct ListReader {
    looking: LiveListSubscription,
    all: bool,
    viewer: ViewerRights,
    ready: VecDeque<Bytes>,
    heartbeat: Interval,
    /// True after the last event.
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
                // The stream ends with the problem. A client that reconnects sees the problem again, unless it is
                // solved by then.
                Some(LiveListUpdate::Trouble(problem)) => {
                    self.is_over = true;
                    return Some(sse::event("problem", &ProblemBody::from(problem)));
                }
                Some(LiveListUpdate::All(sessions)) => return Some(hello(&sessions)),
                Some(LiveListUpdate::Some(changes)) => {
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

/// Writes an event whose data is JSON already.
fn raw(kind: &str, json: &[u8]) -> Bytes {
    [b"event: ", kind.as_bytes(), b"\ndata: ", json, b"\n\n"].concat().into()
}
