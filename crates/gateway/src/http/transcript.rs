//! Transcript of a session: in pages for a client, or exported as a file.

use std::time::Duration;

use axum::body::Body;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use berth_api::{AccessScope, Problem, ProblemCode};
use berth_verbs::export::{self, ExportWriter, SessionExport};
use berth_verbs::transcript::{self, MOST_TURNS, TranscriptPage, USUAL_TURNS};
use bytes::Bytes;
use futures_util::stream;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::sync::mpsc;

use crate::app_state::run_blocking;
use crate::caller::RequestedSession;
use crate::http::extractors::QueryParams;
use crate::http_problem::HttpProblem;
use crate::routes::{Route, text};
use crate::viewer_filter::JsonAnswer;
use crate::work_limits::{self, ReadCancelGuard, WorkPermit, read_work};

/// Number of pieces of a file that are queued for a slow client, and the size of one.
const PIECES_AHEAD: usize = 4;
const PIECE_BYTES: usize = 64 * 1024;

pub(crate) fn routes() -> Vec<Route> {
    use ProblemCode::*;

    vec![
        Route::get("transcript", "/v1/sessions/{session}/transcript", AccessScope::Read, transcript_page)
            .about(
                "Transcript of a session, turn by turn. Entries found only in the agent's transcript come before \
                 the first turn.",
            )
            .query::<TranscriptQuery>()
            .gives::<TranscriptPage>(200, "the turns")
            .fails(&[NotFound, Refused]),
        Route::get("export_session", "/v1/sessions/{session}/export", AccessScope::Read, file)
            .about("Exports a session as a file: a text, its events, or a recording of its terminal.")
            .query::<TranscriptFileQuery>()
            .gives_as(200, "the file", "text/markdown", Some(text))
            .gives_as(200, "the file", "application/x-ndjson", Some(text))
            .gives::<serde_json::Value>(200, "the file")
            .gives_as(200, "the file", "application/x-asciicast", Some(text))
            .response_header("Content-Disposition", "Suggested name of the file.")
            .fails(&[NotFound, Usage, Refused, Full]),
    ]
}

/// The part of the transcript that the client asks for.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
struct TranscriptQuery {
    /// Number of the last turn that the client has already.
    #[serde(default)]
    after: u64,
    /// Largest number of turns.
    limit: Option<usize>,
    /// Entries of the agent's transcript that come before this place, instead of turns: `before` of a `record`.
    before: Option<u64>,
}

async fn transcript_page(
    target: RequestedSession,
    QueryParams(part): QueryParams<TranscriptQuery>,
) -> Result<JsonAnswer<TranscriptPage>, HttpProblem> {
    let limit = part.limit.unwrap_or(USUAL_TURNS).clamp(1, MOST_TURNS);
    let page = read_work(move || match part.before {
        Some(before) => transcript::earlier(&target.ctx, &target.id, before, limit),
        None => transcript::page(&target.ctx, &target.id, part.after, limit),
    });
    Ok(JsonAnswer(page.await?))
}

/// The kind of file that the client asks for.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
struct TranscriptFileQuery {
    /// Format of the file; by default a text of an agent that takes turns and a recording of a terminal.
    format: Option<TranscriptFormat>,
    /// Number of the run to export; all runs if absent.
    run: Option<u64>,
    /// With `cast`: longest pause in the recording, in milliseconds; longer pauses are cut.
    idle_limit_ms: Option<u64>,
}

/// Format of an exported file.
#[derive(Deserialize, JsonSchema, Clone, Copy, PartialEq, Debug)]
#[serde(rename_all = "snake_case")]
enum TranscriptFormat {
    /// A readable text in Markdown.
    Markdown,
    /// Events and turns of the session, as one JSON object in each line.
    Events,
    /// Events and turns of the session, as one JSON array.
    Json,
    /// A recording of the terminal: asciicast v2.
    Cast,
}

async fn file(
    target: RequestedSession,
    QueryParams(wanted): QueryParams<TranscriptFileQuery>,
) -> Result<Response, HttpProblem> {
    let seat = work_limits::export()?;
    let (id, sessions) = (target.id.clone(), target.caller.sessions.clone());
    let session = run_blocking(move || SessionExport::load(&target.ctx, &target.id, wanted.run)).await?;
    let usual = if session.takes_turns() { TranscriptFormat::Markdown } else { TranscriptFormat::Cast };
    let format = wanted.format.unwrap_or(usual);
    if format == TranscriptFormat::Cast {
        session.check_playable()?;
    } else if wanted.idle_limit_ms.is_some() {
        return Err(HttpProblem::usage(
            "`idle_limit_ms` needs the format `cast`: only a recording has pauses",
        )
        .hint("add `format=cast`, or leave `idle_limit_ms` out"));
    }
    let (kind, ending) = match format {
        TranscriptFormat::Markdown => ("text/markdown; charset=utf-8", "md"),
        TranscriptFormat::Events => ("application/x-ndjson", "jsonl"),
        TranscriptFormat::Json => ("application/json", "json"),
        TranscriptFormat::Cast => ("application/x-asciicast", "cast"),
    };
    // A valid session name is safe in a header.
    let name = session.status.name.clone().unwrap_or_else(|| id.to_string());
    let headers = [
        (header::CONTENT_TYPE, kind.to_owned()),
        (header::CONTENT_DISPOSITION, format!("attachment; filename=\"{name}.{ending}\"")),
    ];
    let idle_limit = wanted.idle_limit_ms.map(Duration::from_millis);
    let body = written(seat, move |to| match format {
        TranscriptFormat::Markdown => export::markdown(&session, &(), to),
        TranscriptFormat::Events => export::events(&session, sessions.as_ref(), false, to),
        TranscriptFormat::Json => export::events(&session, sessions.as_ref(), true, to),
        TranscriptFormat::Cast => export::cast(&session, idle_limit, &(), to),
    });
    Ok((headers, body).into_response())
}

/// A body that is written while it is sent. A slow client keeps a few pieces, a thread and a seat; a client that
/// disconnects ends the work.
fn written(
    seat: WorkPermit,
    write: impl FnOnce(&mut ExportWriter<'_>) -> Result<(), Problem> + Send + 'static,
) -> Body {
    let (sender, receiver) = mpsc::channel::<Result<Bytes, std::io::Error>>(PIECES_AHEAD);
    let waiting = ReadCancelGuard::default();
    // An export has no size limit. It ends when its client disconnects.
    let write = waiting.bound(u64::MAX, move || {
        let _seat = seat;
        let mut ahead = Vec::with_capacity(PIECE_BYTES);
        let gone = || Problem::refused("the client disconnected");
        let mut take = |bytes: &[u8]| {
            ahead.extend_from_slice(bytes);
            if ahead.len() < PIECE_BYTES {
                return Ok(());
            }
            let piece = std::mem::replace(&mut ahead, Vec::with_capacity(PIECE_BYTES));
            sender.blocking_send(Ok(piece.into())).map_err(|_| gone())
        };
        // The status has been sent already, so an error can only be shown by breaking off the body.
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
