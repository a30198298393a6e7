//! The terminal without attaching to it: its bytes, its screen, and typing once.

use axum::http::header;
use axum::response::{IntoResponse, Response};
use berth_api::{AccessScope, Problem, ProblemCode, SessionStatus};
use berth_verbs::{input, output, screen};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::app_state::run_blocking;
use crate::caller::RequestedSession;
use crate::http::extractors::{JsonBody, QueryParams};
use crate::http_problem::HttpProblem;
use crate::routes::{Route, bytes, text};
use crate::viewer_filter::JsonAnswer;

/// Largest piece of output in one answer: it stays in memory for as long as a slow client reads.
const PIECE_BYTES: usize = 1024 * 1024;
/// Largest `limit` that a client may send.
const MAX_PIECE_BYTES: usize = 8 * 1024 * 1024;
/// Header with the offset of the first byte.
const FROM: &str = "x-output-from";
/// Header with the offset of the end of the output.
const END: &str = "x-output-end";

pub(crate) fn routes() -> Vec<Route> {
    use ProblemCode::*;

    vec![
        Route::get("get_output", "/v1/sessions/{session}/output", AccessScope::Read, output_)
            .about(
                "Raw output of the agent's terminal. `X-Output-From` is the offset of the first byte (later \
                 than requested if earlier output is no longer kept), `X-Output-End` that of the end of the \
                 output.",
            )
            .query::<OutputQuery>()
            .gives_as(200, "the bytes", "application/octet-stream", Some(bytes))
            .response_header("X-Output-From", "Offset of the first byte.")
            .response_header("X-Output-End", "Offset of the end of the output.")
            .fails(&[NotFound, Usage]),
        Route::get("get_screen", "/v1/sessions/{session}/screen", AccessScope::Read, screen_)
            .about("The screen of the terminal, also after the run has ended.")
            .query::<ScreenQuery>()
            .gives_as(200, "the screen", "text/plain", Some(text))
            .fails(&[NotFound, Usage]),
        Route::post("type_input", "/v1/sessions/{session}/input", AccessScope::Control, input_)
            .about("Types into the terminal, once, as its one writer.")
            .takes::<InputRequest>()
            .gives::<SessionStatus>(200, "the text was typed; the state of the session afterwards")
            .fails(&[NotFound, Usage, Held, Refused]),
    ]
}

/// The bytes that the client asks for.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
struct OutputQuery {
    /// Offset of the first byte.
    #[serde(default)]
    from: u64,
    /// Largest number of bytes, up to 8 MiB. One answer has at most 1 MiB: ask for the rest behind it.
    #[schemars(range(max = 8_388_608))]
    limit: Option<usize>,
}

async fn output_(
    target: RequestedSession,
    QueryParams(piece): QueryParams<OutputQuery>,
) -> Result<Response, HttpProblem> {
    let limit = piece.limit.unwrap_or(PIECE_BYTES);
    if limit > MAX_PIECE_BYTES {
        return Err(HttpProblem::usage(format!("`limit` is {limit}, and can be {MAX_PIECE_BYTES} at most")));
    }
    let limit = limit.min(PIECE_BYTES);
    let piece = run_blocking(move || output::read(&target.ctx, &target.id, piece.from, limit)).await?;
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
        (header::CACHE_CONTROL, "no-store".to_owned()),
        (header::HeaderName::from_static(FROM), piece.from.to_string()),
        (header::HeaderName::from_static(END), piece.end.to_string()),
    ];
    Ok((headers, piece.bytes).into_response())
}

/// The form in which the client asks for the screen.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
struct ScreenQuery {
    /// Format of the screen: plain text, or with colours.
    #[serde(default)]
    format: ScreenFormat,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema, Debug, Default)]
#[serde(rename_all = "lowercase")]
enum ScreenFormat {
    /// Plain text, without colours.
    #[default]
    Text,
    /// Text with the escape sequences for colours.
    Ansi,
}

async fn screen_(
    target: RequestedSession,
    QueryParams(look): QueryParams<ScreenQuery>,
) -> Result<Response, HttpProblem> {
    let text =
        run_blocking(move || screen::screen_text(&target.ctx, &target.id, look.format == ScreenFormat::Ansi))
            .await?;
    let headers = [(header::CONTENT_TYPE, "text/plain; charset=utf-8"), (header::CACHE_CONTROL, "no-store")];
    Ok((headers, text + "\n").into_response())
}

/// The text to type.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
struct InputRequest {
    /// Text to type.
    text: String,
    /// Press Enter after the text.
    #[serde(default)]
    enter: bool,
    /// Take over the terminal from the client that is its writer now.
    #[serde(default)]
    take: bool,
    /// Question that the text answers. If it is no longer open, nothing is typed.
    question: Option<OpenQuestion>,
}

/// A question of the agent.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
struct OpenQuestion {
    /// Id of the question: `turns.asks[].request` of the session.
    request: String,
    /// Number of the run that asks: `epoch` of the session.
    epoch: u64,
}

impl OpenQuestion {
    fn check(&self, status: &SessionStatus) -> Result<(), Problem> {
        let asks = status.turns.iter().flat_map(|turns| &turns.asks);
        let is_open = status.epoch == self.epoch && asks.into_iter().any(|ask| ask.request == self.request);
        let gone = || Problem::refused("the question is no longer open; nothing was typed");
        is_open.then_some(()).ok_or_else(|| gone().hint("look at the session again"))
    }
}

async fn input_(
    target: RequestedSession,
    JsonBody(keys): JsonBody<InputRequest>,
) -> Result<JsonAnswer<SessionStatus>, HttpProblem> {
    let text = if keys.enter { keys.text + "\r" } else { keys.text };
    let RequestedSession { ctx, id, handle, .. } = target;
    let typed = run_blocking(move || {
        if let Some(question) = keys.question {
            question.check(&ctx.known(&id)?.0)?;
        }
        input::type_into_session(&ctx, &id, &handle, text, keys.take)
    });
    Ok(JsonAnswer(typed.await?))
}
