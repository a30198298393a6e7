//! Events: those of a session, in pages or as a stream; and the list of sessions as a stream of changes.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Extension, State};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use berth_api::{AccessScope, Problem, ProblemCode};
use berth_verbs::events::{self, EventLine};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::app_state::{AppState, run_blocking};
use crate::auth::ConnectionDetails;
use crate::caller::{RequestCaller, RequestedSession};
use crate::http::extractors::QueryParams;
use crate::http_problem::HttpProblem;
use crate::live::reader;
use crate::quota::{LastingKind, LastingPermit};
use crate::routes::{Route, text};
use crate::viewer_filter::JsonAnswer;

/// Default number of events in a page.
const PAGE_EVENTS: u64 = 1000;
/// Largest number of events in a page.
const MAX_PAGE_EVENTS: u64 = 10_000;
/// A page is full once its events exceed this size.
const PAGE_BYTES: usize = 4 * 1024 * 1024;
/// Timeout for finding out the state of a session, whose keeper may not answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Timeout for this gateway to see an event that the client has seen already.
const NEWS_PATIENCE: Duration = Duration::from_secs(2);
/// Header with the number of the last event of the session.
const END: &str = "x-events-end";

pub(crate) fn routes() -> Vec<Route> {
    use ProblemCode::*;

    vec![
        Route::get("list_events", "/v1/sessions/{session}/events", AccessScope::Read, events)
            .about(
                "Events of a session: a page of them, or (with `Accept: text/event-stream`) a stream \
                 that goes on.",
            )
            .query::<EventsQuery>()
            .header(
                "Last-Event-ID",
                "number of the last event received: the stream continues after it; overrides `after`",
            )
            .gives::<Vec<EventLine>>(200, "the events, oldest first")
            .gives_as(200, "the events, oldest first", "text/event-stream", Some(text))
            .response_header("X-Events-End", "Number of the last event of the session.")
            .fails(&[NotFound, Usage]),
        Route::get("watch_sessions", "/v1/events", AccessScope::Read, list)
            .about(
                "The list of sessions as a stream of changes: first `hello` with all sessions, then `session` \
                 and `gone` for each change.",
            )
            .filtered()
            .query::<ListStreamQuery>()
            .gives_as(200, "server-sent events", "text/event-stream", Some(text)),
    ]
}

/// The part of the events that the client asks for.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
struct EventsQuery {
    /// Number of the last event that the client has already.
    #[serde(default)]
    after: u64,
    /// Largest number of events in the page. Not for a stream.
    #[schemars(range(min = 1, max = 10_000))]
    limit: Option<u64>,
}

/// The sessions that the client asks for.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
struct ListStreamQuery {
    /// Include archived sessions.
    #[serde(default)]
    all: bool,
}

/// True if the client accepts a stream of server-sent events.
pub(crate) fn wants_stream(headers: &HeaderMap) -> bool {
    let accept = headers.get_all(header::ACCEPT).iter().filter_map(|accept| accept.to_str().ok());
    accept.flat_map(|accept| accept.split(',')).any(|kind| {
        kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("text/event-stream"))
    })
}

async fn events(
    State(state): State<Arc<AppState>>,
    target: RequestedSession,
    Extension(wire): Extension<ConnectionDetails>,
    headers: HeaderMap,
    QueryParams(from): QueryParams<EventsQuery>,
) -> Result<Response, HttpProblem> {
    // An invalid header is refused for pages as well, where it has no effect.
    let last = last_event_id(&headers)?;
    if wants_stream(&headers) {
        let stay = state.quotas.stay(&target.caller, LastingKind::Stream, Some(wire.revocation));
        stream(&state, target, last.unwrap_or(from.after), &from, stay).await
    } else {
        page(target, &from).await
    }
}

/// The number of the event behind which the client resumes an interrupted stream.
fn last_event_id(headers: &HeaderMap) -> Result<Option<u64>, HttpProblem> {
    let Some(id) = headers.get("last-event-id") else { return Ok(None) };
    let is_number = |id: &&str| (1..=20).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_digit());
    let id = id.to_str().ok().map(str::trim).filter(is_number).and_then(|id| id.parse().ok());
    id.map(Some).ok_or_else(|| HttpProblem::usage("`Last-Event-ID` is not the number of an event"))
}

async fn page(target: RequestedSession, from: &EventsQuery) -> Result<Response, HttpProblem> {
    let limit = from.limit.unwrap_or(PAGE_EVENTS);
    if !(1..=MAX_PAGE_EVENTS).contains(&limit) {
        return Err(HttpProblem::usage(format!("`limit` is {limit}, and can be 1 to {MAX_PAGE_EVENTS}")));
    }
    let after = from.after;
    let (lines, end) = run_blocking(move || {
        let RequestedSession { ctx, id, .. } = &target;
        // Events that the keeper has not acknowledged yet are left out, even if they can be read.
        let (status, _) = ctx.known(id)?;
        let to = after.saturating_add(limit).min(status.seq);
        let lines: Vec<EventLine> = events::read(ctx, id, after.saturating_add(1), to, PAGE_BYTES)?;
        Ok((lines, status.seq))
    })
    .await?;
    Ok(([(END, end.to_string())], JsonAnswer(lines)).into_response())
}

async fn stream(
    state: &Arc<AppState>,
    target: RequestedSession,
    after: u64,
    from: &EventsQuery,
    stay: LastingPermit,
) -> Result<Response, HttpProblem> {
    if from.limit.is_some() {
        return Err(HttpProblem::usage("a stream has no `limit`"));
    }
    let RequestedSession { id, caller, .. } = target;
    let subscription = state.live.subscribe(&id);
    let mut bell = subscription.feed.bell();
    let known = async {
        while !subscription.feed.is_ready() {
            // The sender of the notifications belongs to the feed, which this function holds.
            let _ = bell.changed().await;
        }
    };
    if tokio::time::timeout(PATIENCE, known).await.is_err() {
        let what = format!("the state of session {id} could not be found out in time");
        return Err(Problem::unreachable(what).hint("`berth why` shows the evidence").into());
    }
    let feed = &subscription.feed;
    if feed.cursor(after).is_err() {
        // The client may have the number of an event that another process wrote a moment ago, and that this feed has
        // not read.
        feed.request_read();
        let caught_up = async {
            while feed.cursor(after).is_err() {
                let _ = bell.changed().await;
            }
        };
        let _ = tokio::time::timeout(NEWS_PATIENCE, caught_up).await;
    }
    let cursor = feed.cursor(after).map_err(|last| {
        HttpProblem::usage(format!("there is no event {after}: the last one of session {id} is {last}"))
            .hint("begin with `after=0`, or with the `seq` of its status")
    })?;
    Ok(reader::session(subscription, cursor, id, caller.viewer(), stay))
}

async fn list(
    State(state): State<Arc<AppState>>,
    caller: RequestCaller,
    Extension(wire): Extension<ConnectionDetails>,
    QueryParams(which): QueryParams<ListStreamQuery>,
) -> Response {
    let stay = state.quotas.stay(&caller, LastingKind::Stream, Some(wire.revocation));
    reader::list(state.live.list.subscribe(), which.all, caller.viewer(), stay)
}
