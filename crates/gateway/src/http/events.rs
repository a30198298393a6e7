//! Events: what happened in a session, in pages or as it happens; and the list as it changes.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Extension, State};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use berth_api::{Code, Problem, Scope};
use berth_verbs::events::{self, Line};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::auth::Wire;
use crate::caller::{Caller, Target};
use crate::fault::Fault;
use crate::gate::{Gate, work};
use crate::http::body::Query;
use crate::live::reader;
use crate::quota::{Lasting, Stay};
use crate::routes::{Route, text};
use crate::visible::Json;

/// How many events a page has, if nothing is said.
const PAGE_EVENTS: u64 = 1000;
/// How many it may have.
const MAX_PAGE_EVENTS: u64 = 10_000;
/// How large a page gets: one event more, and it is full.
const PAGE_BYTES: usize = 4 * 1024 * 1024;
/// How long a session may take to be known at all, with a keeper that does not answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long what a client knows already may take to be known here, too.
const NEWS_PATIENCE: Duration = Duration::from_secs(2);
/// The number of the last event there is.
const END: &str = "x-events-end";

pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::get("list_events", "/v1/sessions/{session}/events", Scope::Read, events)
            .about(
                "What happened in a session: a page of it, or (with `Accept: text/event-stream`) a stream \
                 that goes on.",
            )
            .query::<From>()
            .header(
                "Last-Event-ID",
                "where a stream goes on: the number of the last event heard; wins over `after`",
            )
            .gives::<Vec<Line>>(200, "the events, oldest first")
            .gives_as(200, "the events, oldest first", "text/event-stream", Some(text))
            .tells("X-Events-End", "The number of the last event there is.")
            .fails(&[Code::NotFound, Code::Usage]),
        Route::get("watch_sessions", "/v1/events", Scope::Read, list)
            .about("The list as it changes: `hello` with all, then `session` and `gone`.")
            .filtered()
            .query::<Which>()
            .gives_as(200, "server-sent events", "text/event-stream", Some(text)),
    ]
}

/// From where on.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
struct From {
    /// The number of the last event that is known already.
    #[serde(default)]
    after: u64,
    /// How many at most, up to 10,000. Nothing for a stream.
    #[schemars(range(min = 1, max = 10_000))]
    limit: Option<u64>,
}

/// Which sessions.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
struct Which {
    /// Those that are put away, too.
    #[serde(default)]
    all: bool,
}

/// Whether a stream is wanted.
pub(crate) fn wants_stream(headers: &HeaderMap) -> bool {
    let accept = headers.get_all(header::ACCEPT).iter().filter_map(|accept| accept.to_str().ok());
    accept.flat_map(|accept| accept.split(',')).any(|kind| {
        kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("text/event-stream"))
    })
}

async fn events(
    State(gate): State<Arc<Gate>>,
    target: Target,
    Extension(wire): Extension<Wire>,
    headers: HeaderMap,
    Query(from): Query<From>,
) -> Result<Response, Fault> {
    // Wrong is wrong, also where it does not count.
    let last = last_event_id(&headers)?;
    if wants_stream(&headers) {
        let stay = gate.quotas.stay(&target.caller, Lasting::Stream, Some(wire.leash));
        stream(&gate, target, last.unwrap_or(from.after), &from, stay).await
    } else {
        page(target, &from).await
    }
}

/// Where a stream that broke off goes on.
fn last_event_id(headers: &HeaderMap) -> Result<Option<u64>, Fault> {
    let Some(id) = headers.get("last-event-id") else { return Ok(None) };
    let is_number = |id: &&str| (1..=20).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_digit());
    let id = id.to_str().ok().map(str::trim).filter(is_number).and_then(|id| id.parse().ok());
    id.map(Some).ok_or_else(|| Fault::usage("`Last-Event-ID` is not the number of an event"))
}

async fn page(target: Target, from: &From) -> Result<Response, Fault> {
    let limit = from.limit.unwrap_or(PAGE_EVENTS);
    if !(1..=MAX_PAGE_EVENTS).contains(&limit) {
        return Err(Fault::usage(format!("`limit` is {limit}, and can be 1 to {MAX_PAGE_EVENTS}")));
    }
    let after = from.after;
    let (lines, end) = work(move || {
        let Target { ctx, id, .. } = &target;
        // What the keeper has not acknowledged is not shown, even if it can be read.
        let (status, _) = ctx.known(id)?;
        let to = after.saturating_add(limit).min(status.seq);
        let lines: Vec<Line> = events::read(ctx, id, after.saturating_add(1), to, PAGE_BYTES)?;
        Ok((lines, status.seq))
    })
    .await?;
    Ok(([(END, end.to_string())], Json(lines)).into_response())
}

async fn stream(
    gate: &Arc<Gate>,
    target: Target,
    after: u64,
    from: &From,
    stay: Stay,
) -> Result<Response, Fault> {
    if from.limit.is_some() {
        return Err(Fault::usage("a stream has no `limit`"));
    }
    let Target { id, caller, .. } = target;
    let subscription = gate.live.subscribe(&id);
    let mut bell = subscription.feed.bell();
    let known = async {
        while !subscription.feed.is_ready() {
            // The bell is the feed's, and we hold that.
            let _ = bell.changed().await;
        }
    };
    if tokio::time::timeout(PATIENCE, known).await.is_err() {
        let what = format!("what is known about session {id} could not be found out in time");
        return Err(Problem::new(Code::Unreachable, what).hint("`berth why` tells more").into());
    }
    let feed = &subscription.feed;
    if feed.cursor(after).is_err() {
        // It comes with the number of what was done a moment ago, by somebody who is not us.
        feed.look();
        let caught_up = async {
            while feed.cursor(after).is_err() {
                let _ = bell.changed().await;
            }
        };
        let _ = tokio::time::timeout(NEWS_PATIENCE, caught_up).await;
    }
    let cursor = feed.cursor(after).map_err(|last| {
        Fault::usage(format!("there is no event {after}: the last one of session {id} is {last}"))
            .hint("begin with `after=0`, or with the `seq` of its status")
    })?;
    Ok(reader::session(subscription, cursor, id, caller.viewer(), stay))
}

async fn list(
    State(gate): State<Arc<Gate>>,
    caller: Caller,
    Extension(wire): Extension<Wire>,
    Query(which): Query<Which>,
) -> Response {
    let stay = gate.quotas.stay(&caller, Lasting::Stream, Some(wire.leash));
    reader::list(gate.live.list.subscribe(), which.all, caller.viewer(), stay)
}
