//! Transcripts that agents keep themselves: damage in one, and the tree of its turns.
//!
//! Promise: transcripts are only read, and only those of sessions here and of conversations that are listed: a client
//! cannot choose a path. Not here: repairing a transcript. A repair writes a file where the agent looks for its own, at
//! a path of that machine, and a user who may do that can run the command there.

use std::path::PathBuf;
use std::sync::Arc;

use axum::extract::State;
use berth_api::{AccessScope, Problem, ProblemCode};
use berth_verbs::transcript_files::{self, CheckedTranscript};
use berth_verbs::{VerbContext, foreign};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use crate::app_state::AppState;
use crate::caller::{RequestCaller, RequestedSession};
use crate::http::extractors::PathParams;
use crate::http_problem::HttpProblem;
use crate::routes::Route;
use crate::viewer_filter::{JsonAnswer, nothing_hidden};
use crate::work_limits::read_work;

pub(crate) fn routes() -> Vec<Route> {
    use ProblemCode::*;

    let of_session = |route: Route| route.fails(&[NotFound, Refused, Full]);
    let of_foreign = |route: Route| route.fails(&[NotFound, Usage, Refused, Full, Unreachable]);
    const CHECK: &str = "Damage in an agent's own transcript, and what a resume would lose.";
    const TREE: &str =
        "The turns of an agent's own transcript, its branches, and the one that a resume continues.";
    vec![
        of_session(
            Route::get(
                "check_transcript",
                "/v1/sessions/{session}/transcript/check",
                AccessScope::Read,
                check_session,
            )
            .about(CHECK)
            .gives::<TranscriptReports>(200, "the report"),
        ),
        of_session(
            Route::get(
                "transcript_tree",
                "/v1/sessions/{session}/transcript/tree",
                AccessScope::Read,
                tree_session,
            )
            .about(TREE)
            .gives::<Value>(200, "the tree, as `berth transcript tree --json` prints it"),
        ),
        of_foreign(
            Route::get(
                "check_foreign",
                "/v1/foreign/{agent}/{conversation}/check",
                AccessScope::Read,
                check_foreign,
            )
            .about(CHECK)
            .gives::<TranscriptReports>(200, "the report"),
        ),
        of_foreign(
            Route::get(
                "foreign_tree",
                "/v1/foreign/{agent}/{conversation}/tree",
                AccessScope::Read,
                tree_foreign,
            )
            .about(TREE)
            .gives::<Value>(200, "the tree, as `berth transcript tree --json` prints it"),
        ),
    ]
}

nothing_hidden!(TranscriptReports, Value);

/// A report about transcripts.
#[derive(Serialize, JsonSchema)]
struct TranscriptReports {
    /// True if no transcript is damaged.
    is_clean: bool,
    /// Report of each file, as `berth transcript check --json` prints it.
    files: Vec<Value>,
}

fn check(files: &[PathBuf]) -> Result<TranscriptReports, Problem> {
    let mut found = TranscriptReports { is_clean: true, files: vec![] };
    transcript_files::check_files(files, &(), |checked| {
        let (is_clean, file) = match checked {
            CheckedTranscript::Report(report) => (report.is_clean(), json!(report)),
            CheckedTranscript::Unreadable { path, why } => {
                (false, json!({"path": path.to_string_lossy(), "error": why}))
            }
        };
        found.is_clean &= is_clean;
        found.files.push(file);
        Ok(())
    })?;
    Ok(found)
}

fn tree(files: &[PathBuf]) -> Result<Value, Problem> {
    match files {
        [one] => Ok(json!(transcript_files::tree_of(one, &())?)),
        _ => Err(Problem::refused(format!("the conversation has {} transcripts", files.len()))
            .hint("`berth transcript tree FILE` on that machine draws one of them")),
    }
}

async fn check_session(target: RequestedSession) -> Result<JsonAnswer<TranscriptReports>, HttpProblem> {
    Ok(JsonAnswer(
        read_work(move || check(&transcript_files::of_session(&target.ctx, &target.id, &target.handle)?))
            .await?,
    ))
}

async fn tree_session(target: RequestedSession) -> Result<JsonAnswer<Value>, HttpProblem> {
    Ok(JsonAnswer(
        read_work(move || tree(&transcript_files::of_session(&target.ctx, &target.id, &target.handle)?))
            .await?,
    ))
}

fn of_foreign(ctx: &VerbContext, agent: &str, id: &str) -> Result<Vec<PathBuf>, Problem> {
    let conversation = foreign::find(ctx, id, Some(foreign::kind(agent)?))?;
    let file = conversation.file.ok_or_else(|| Problem::refused("the conversation has no transcript yet"))?;
    Ok(vec![file])
}

async fn check_foreign(
    State(state): State<Arc<AppState>>,
    caller: RequestCaller,
    PathParams((agent, id)): PathParams<(String, String)>,
) -> Result<JsonAnswer<TranscriptReports>, HttpProblem> {
    let ctx = caller.ctx(&state);
    Ok(JsonAnswer(read_work(move || check(&of_foreign(&ctx, &agent, &id)?)).await?))
}

async fn tree_foreign(
    State(state): State<Arc<AppState>>,
    caller: RequestCaller,
    PathParams((agent, id)): PathParams<(String, String)>,
) -> Result<JsonAnswer<Value>, HttpProblem> {
    let ctx = caller.ctx(&state);
    Ok(JsonAnswer(read_work(move || tree(&of_foreign(&ctx, &agent, &id)?)).await?))
}
