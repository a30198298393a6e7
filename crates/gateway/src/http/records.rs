//! The transcripts that agents keep themselves: what is broken in one, and how its turns hang together.
//!
//! Promise: they are only read, and only those of sessions here and of conversations that are listed: no path is taken
//! from a client. Mending is not here: it writes files where agents look for theirs, at a path of that machine, and
//! whoever may do that has the command there.

use std::path::PathBuf;
use std::sync::Arc;

use axum::extract::State;
use berth_api::{Code, Problem, Scope};
use berth_verbs::records::{self, Checked};
use berth_verbs::{Ctx, foreign};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use crate::caller::{Caller, Target};
use crate::fault::Fault;
use crate::gate::Gate;
use crate::http::body::Path;
use crate::routes::Route;
use crate::seats::reading;
use crate::visible::{Json, nothing_hidden};

pub(crate) fn routes() -> Vec<Route> {
    let of_session = |route: Route| route.fails(&[Code::NotFound, Code::Refused, Code::Full]);
    let of_foreign = |route: Route| {
        route.fails(&[Code::NotFound, Code::Usage, Code::Refused, Code::Full, Code::Unreachable])
    };
    const CHECK: &str = "What is broken in an agent's own transcript, and what a resume would lose.";
    const TREE: &str = "The turns of an agent's own transcript, its branches, and what a resume takes up.";
    vec![
        of_session(
            Route::get(
                "check_transcript",
                "/v1/sessions/{session}/transcript/check",
                Scope::Read,
                check_session,
            )
            .about(CHECK)
            .gives::<TranscriptReports>(200, "what was found"),
        ),
        of_session(
            Route::get(
                "transcript_tree",
                "/v1/sessions/{session}/transcript/tree",
                Scope::Read,
                tree_session,
            )
            .about(TREE)
            .gives::<Value>(200, "as `berth transcript tree --json` prints it"),
        ),
        of_foreign(
            Route::get(
                "check_foreign",
                "/v1/foreign/{agent}/{conversation}/check",
                Scope::Read,
                check_foreign,
            )
            .about(CHECK)
            .gives::<TranscriptReports>(200, "what was found"),
        ),
        of_foreign(
            Route::get("foreign_tree", "/v1/foreign/{agent}/{conversation}/tree", Scope::Read, tree_foreign)
                .about(TREE)
                .gives::<Value>(200, "as `berth transcript tree --json` prints it"),
        ),
    ]
}

nothing_hidden!(TranscriptReports, Value);

/// What was found in transcripts.
#[derive(Serialize, JsonSchema)]
struct TranscriptReports {
    /// Whether nothing is broken.
    is_clean: bool,
    /// An object for each file, as `berth transcript check --json` prints them.
    files: Vec<Value>,
}

fn check(files: &[PathBuf]) -> Result<TranscriptReports, Problem> {
    let mut found = TranscriptReports { is_clean: true, files: vec![] };
    records::check_files(files, &(), |checked| {
        let (is_clean, file) = match checked {
            Checked::Report(report) => (report.is_clean(), json!(report)),
            Checked::Unreadable { path, why } => {
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
        [one] => Ok(json!(records::tree_of(one, &())?)),
        _ => Err(Problem::new(Code::Refused, format!("it has {} transcripts", files.len()))
            .hint("`berth transcript tree FILE` on that machine draws one of them")),
    }
}

async fn check_session(target: Target) -> Result<Json<TranscriptReports>, Fault> {
    Ok(Json(reading(move || check(&records::of_session(&target.ctx, &target.id, &target.handle)?)).await?))
}

async fn tree_session(target: Target) -> Result<Json<Value>, Fault> {
    Ok(Json(reading(move || tree(&records::of_session(&target.ctx, &target.id, &target.handle)?)).await?))
}

fn of_foreign(ctx: &Ctx, agent: &str, id: &str) -> Result<Vec<PathBuf>, Problem> {
    let conversation = foreign::find(ctx, id, Some(foreign::kind(agent)?))?;
    let file = conversation.file.ok_or_else(|| Problem::new(Code::Refused, "nothing was said in it yet"))?;
    Ok(vec![file])
}

async fn check_foreign(
    State(gate): State<Arc<Gate>>,
    caller: Caller,
    Path((agent, id)): Path<(String, String)>,
) -> Result<Json<TranscriptReports>, Fault> {
    let ctx = caller.ctx(&gate);
    Ok(Json(reading(move || check(&of_foreign(&ctx, &agent, &id)?)).await?))
}

async fn tree_foreign(
    State(gate): State<Arc<Gate>>,
    caller: Caller,
    Path((agent, id)): Path<(String, String)>,
) -> Result<Json<Value>, Fault> {
    let ctx = caller.ctx(&gate);
    Ok(Json(reading(move || tree(&of_foreign(&ctx, &agent, &id)?)).await?))
}
