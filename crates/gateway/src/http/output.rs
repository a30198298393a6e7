//! The terminal without attaching to it: its bytes, its screen, and typing once.

use axum::http::header;
use axum::response::{IntoResponse, Response};
use berth_api::{Code, Problem, Scope, Status};
use berth_verbs::{input, output, screen};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::caller::Target;
use crate::fault::Fault;
use crate::gate::work;
use crate::http::body::{Body, Query};
use crate::routes::{Route, bytes, text};
use crate::visible::Json;

/// How much output is given at a time, whatever is asked for: a client that reads slowly costs as much memory.
const PIECE_BYTES: usize = 1024 * 1024;
/// How much can be asked for.
const MAX_PIECE_BYTES: usize = 8 * 1024 * 1024;
/// Where the bytes given begin.
const FROM: &str = "x-output-from";
/// How far the output reaches in all.
const END: &str = "x-output-end";

pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::get("get_output", "/v1/sessions/{session}/output", Scope::Read, output_)
            .about(
                "What the agent wrote, byte for byte. `X-Output-From` says where the bytes begin (later \
                 than asked for if that is no longer kept), `X-Output-End` how far the output reaches in \
                 all.",
            )
            .query::<Piece>()
            .gives_as(200, "the bytes", "application/octet-stream", Some(bytes))
            .tells("X-Output-From", "Where the bytes begin.")
            .tells("X-Output-End", "How far the output reaches in all.")
            .fails(&[Code::NotFound, Code::Usage]),
        Route::get("get_screen", "/v1/sessions/{session}/screen", Scope::Read, screen_)
            .about("What is on the screen, also of a session that is over.")
            .query::<Look>()
            .gives_as(200, "the screen", "text/plain", Some(text))
            .fails(&[Code::NotFound, Code::Usage]),
        Route::post("type_input", "/v1/sessions/{session}/input", Scope::Control, input_)
            .about("Types into the terminal, once, as the one writer.")
            .takes::<Keys>()
            .gives::<Status>(200, "typed; what is known then")
            .fails(&[Code::NotFound, Code::Usage, Code::Held, Code::Refused]),
    ]
}

/// Which bytes.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
struct Piece {
    /// The offset of the first byte.
    #[serde(default)]
    from: u64,
    /// How many at most, up to 8 MiB. No more than 1 MiB comes at a time: go on behind it.
    #[schemars(range(max = 8_388_608))]
    limit: Option<usize>,
}

async fn output_(target: Target, Query(piece): Query<Piece>) -> Result<Response, Fault> {
    let limit = piece.limit.unwrap_or(PIECE_BYTES);
    if limit > MAX_PIECE_BYTES {
        return Err(Fault::usage(format!("`limit` is {limit}, and can be {MAX_PIECE_BYTES} at most")));
    }
    let limit = limit.min(PIECE_BYTES);
    let piece = work(move || output::read(&target.ctx, &target.id, piece.from, limit)).await?;
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
        (header::CACHE_CONTROL, "no-store".to_owned()),
        (header::HeaderName::from_static(FROM), piece.from.to_string()),
        (header::HeaderName::from_static(END), piece.end.to_string()),
    ];
    Ok((headers, piece.bytes).into_response())
}

/// How the screen is wanted.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
struct Look {
    /// In plain text, or with colours.
    #[serde(default)]
    format: Format,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema, Debug, Default)]
#[serde(rename_all = "lowercase")]
enum Format {
    /// Plain text.
    #[default]
    Text,
    /// With the sequences that make colours.
    Ansi,
}

async fn screen_(target: Target, Query(look): Query<Look>) -> Result<Response, Fault> {
    let text = work(move || screen::text(&target.ctx, &target.id, look.format == Format::Ansi)).await?;
    let headers = [(header::CONTENT_TYPE, "text/plain; charset=utf-8"), (header::CACHE_CONTROL, "no-store")];
    Ok((headers, text + "\n").into_response())
}

/// What to type.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
struct Keys {
    /// The keys.
    text: String,
    /// Press Enter behind them.
    #[serde(default)]
    enter: bool,
    /// Take over from the client that types.
    #[serde(default)]
    take: bool,
    /// The question that the keys answer. If it is no longer open, nothing is typed.
    question: Option<OpenQuestion>,
}

/// A question of the agent.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
struct OpenQuestion {
    /// Name of the question: `turns.asks[].request` of the session.
    request: String,
    /// The run in which it is asked: `epoch` of the session.
    epoch: u64,
}

impl OpenQuestion {
    fn check(&self, status: &Status) -> Result<(), Problem> {
        let asks = status.turns.iter().flat_map(|turns| &turns.asks);
        let is_open = status.epoch == self.epoch && asks.into_iter().any(|ask| ask.request == self.request);
        let gone = || Problem::new(Code::Refused, "the question is no longer open; nothing was typed");
        is_open.then_some(()).ok_or_else(|| gone().hint("look at the session again"))
    }
}

async fn input_(target: Target, Body(keys): Body<Keys>) -> Result<Json<Status>, Fault> {
    let text = if keys.enter { keys.text + "\r" } else { keys.text };
    let Target { ctx, id, handle, .. } = target;
    let typed = work(move || {
        if let Some(question) = keys.question {
            question.check(&ctx.known(&id)?.0)?;
        }
        input::type_text(&ctx, &id, &handle, text, keys.take)
    });
    Ok(Json(typed.await?))
}
