//! What was said and done in a session: in pieces for a page, or as a file for others.

use std::time::Duration;

use axum::body::Body;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use berth_api::{Code, Problem, Scope};
use berth_verbs::export::{self, Exported, Write};
use berth_verbs::transcript::{self, MOST_TURNS, Page, USUAL_TURNS};
use bytes::Bytes;
use futures_util::stream;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::sync::mpsc;

use crate::caller::Target;
use crate::fault::Fault;
use crate::gate::work;
use crate::http::body::Query;
use crate::routes::{Route, text};
use crate::seats::{self, Seat, Waiting, reading};
use crate::visible::Json;

/// How many pieces of a file may wait for a slow client, and how large one is.
const PIECES_AHEAD: usize = 4;
const PIECE_BYTES: usize = 64 * 1024;

pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::get("transcript", "/v1/sessions/{session}/transcript", Scope::Read, told)
            .about(
                "What was said and done, turn by turn; what only the agent's own record has comes before \
                 the first turn.",
            )
            .query::<Part>()
            .gives::<Page>(200, "the turns")
            .fails(&[Code::NotFound, Code::Refused]),
        Route::get("export_session", "/v1/sessions/{session}/export", Scope::Read, file)
            .about("A session as a file: a text, its events, or a recording of its terminal.")
            .query::<Wanted>()
            .gives_as(200, "the file", "text/markdown", Some(text))
            .gives_as(200, "the file", "application/x-ndjson", Some(text))
            .gives::<serde_json::Value>(200, "the file")
            .gives_as(200, "the file", "application/x-asciicast", Some(text))
            .tells("Content-Disposition", "What to call the file.")
            .fails(&[Code::NotFound, Code::Usage, Code::Refused, Code::Full]),
    ]
}

/// Which part of a transcript.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
struct Part {
    /// Only turns behind this one, by number.
    #[serde(default)]
    after: u64,
    /// At most so many turns.
    limit: Option<usize>,
    /// Not turns but what the agent's own record has before this place: `before` of a `record`.
    before: Option<u64>,
}

async fn told(target: Target, Query(part): Query<Part>) -> Result<Json<Page>, Fault> {
    let limit = part.limit.unwrap_or(USUAL_TURNS).clamp(1, MOST_TURNS);
    let page = reading(move || match part.before {
        Some(before) => transcript::earlier(&target.ctx, &target.id, before, limit),
        None => transcript::page(&target.ctx, &target.id, part.after, limit),
    });
    Ok(Json(page.await?))
}

/// What kind of file.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
struct Wanted {
    /// The format; by default a text of an agent that takes turns and a recording of a terminal.
    format: Option<Format>,
    /// Only this run.
    run: Option<u64>,
    /// With `cast`: pauses are at most so long.
    idle_limit_ms: Option<u64>,
}

/// What kind of file.
#[derive(Deserialize, JsonSchema, Clone, Copy, PartialEq, Debug)]
#[serde(rename_all = "snake_case")]
enum Format {
    /// A text people read, in Markdown.
    Markdown,
    /// Its events and turns, a line of JSON each.
    Events,
    /// The same as one array.
    Json,
    /// A recording of its terminal: asciicast v2.
    Cast,
}

async fn file(target: Target, Query(wanted): Query<Wanted>) -> Result<Response, Fault> {
    let seat = seats::export()?;
    let (id, sessions) = (target.id.clone(), target.caller.sessions.clone());
    let session = work(move || Exported::load(&target.ctx, &target.id, wanted.run)).await?;
    let usual = if session.takes_turns() { Format::Markdown } else { Format::Cast };
    let format = wanted.format.unwrap_or(usual);
    if format == Format::Cast {
        session.check_playable()?;
    } else if wanted.idle_limit_ms.is_some() {
        return Err(Fault::usage("only a recording has pauses").hint("use `idle_limit_ms` with format=cast"));
    }
    let (kind, ending) = match format {
        Format::Markdown => ("text/markdown; charset=utf-8", "md"),
        Format::Events => ("application/x-ndjson", "jsonl"),
        Format::Json => ("application/json", "json"),
        Format::Cast => ("application/x-asciicast", "cast"),
    };
    // Names are safe in a header by construction.
    let name = session.status.name.clone().unwrap_or_else(|| id.to_string());
    let headers = [
        (header::CONTENT_TYPE, kind.to_owned()),
        (header::CONTENT_DISPOSITION, format!("attachment; filename=\"{name}.{ending}\"")),
    ];
    let idle_limit = wanted.idle_limit_ms.map(Duration::from_millis);
    let body = written(seat, move |to| match format {
        Format::Markdown => export::markdown(&session, &(), to),
        Format::Events => export::events(&session, sessions.as_ref(), false, to),
        Format::Json => export::events(&session, sessions.as_ref(), true, to),
        Format::Cast => export::cast(&session, idle_limit, &(), to),
    });
    Ok((headers, body).into_response())
}

/// A body that is written while it is sent; a slow client costs a few pieces of it, a thread and a seat, and one that
/// goes away ends it.
fn written(seat: Seat, write: impl FnOnce(&mut Write<'_>) -> Result<(), Problem> + Send + 'static) -> Body {
    let (sender, receiver) = mpsc::channel::<Result<Bytes, std::io::Error>>(PIECES_AHEAD);
    let waiting = Waiting::default();
    // An export has no limit of size. It ends when its client leaves.
    let write = waiting.bound(u64::MAX, move || {
        let _seat = seat;
        let mut ahead = Vec::with_capacity(PIECE_BYTES);
        let gone = || Problem::new(Code::Refused, "the client disconnected");
        let mut take = |bytes: &[u8]| {
            ahead.extend_from_slice(bytes);
            if ahead.len() < PIECE_BYTES {
                return Ok(());
            }
            let piece = std::mem::replace(&mut ahead, Vec::with_capacity(PIECE_BYTES));
            sender.blocking_send(Ok(piece.into())).map_err(|_| gone())
        };
        // The status is sent already: what goes wrong now can only be told by breaking off.
        let last = match write(&mut take) {
            Ok(()) => Ok(Bytes::from(ahead)),
            Err(problem) => Err(std::io::Error::other(problem.what)),
        };
        let _ = sender.blocking_send(last);
    });
    tokio::task::spawn_blocking(write);
    let pieces = stream::unfold((receiver, waiting), |(mut receiver, waiting)| async move {
        receiver.recv().await.map(|piece| (piece, (receiver, waiting)))
    });
    Body::from_stream(pieces)
}
