//! History: what is kept of a session's transcript, and putting that back.

use berth_api::{Code, Scope};
use berth_verbs::history::{self, History, Restored};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::caller::Target;
use crate::fault::Fault;
use crate::gate::work;
use crate::http::body::Body;
use crate::routes::Route;
use crate::visible::Json;

pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::get("get_history", "/v1/sessions/{session}/history", Scope::Read, show)
            .about("What is kept of a session's transcript: a copy from the end of each turn.")
            .gives::<History>(200, "what the copies can give back, the oldest first")
            .fails(&[Code::NotFound, Code::Refused]),
        Route::post("restore_history", "/v1/sessions/{session}/history/restore", Scope::Control, put_back)
            .about(
                "Puts a transcript back to where the agent looks for it. A file that is there is not \
                 written over.",
            )
            .takes::<HistoryChoice>()
            .gives::<Restored>(200, "it is back")
            .fails(&[Code::NotFound, Code::Held, Code::Refused, Code::Unreachable]),
    ]
}

async fn show(target: Target) -> Result<Json<History>, Fault> {
    Ok(Json(work(move || history::of(&target.ctx, &target.id)).await?))
}

/// Which state of a transcript.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
struct HistoryChoice {
    /// Its number; the last one if none is given.
    at: Option<u64>,
}

async fn put_back(
    target: Target,
    Body(HistoryChoice { at }): Body<HistoryChoice>,
) -> Result<Json<Restored>, Fault> {
    Ok(Json(work(move || history::restore(&target.ctx, &target.id, at, None)).await?))
}
