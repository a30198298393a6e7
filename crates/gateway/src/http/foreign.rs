//! Conversations that were had without berth: the list, what was said in one, bringing one here.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use berth_api::message::Take;
use berth_api::{Code, Problem, Scope, Status};
use berth_verbs::Progress;
use berth_verbs::foreign::adopt::{self, Others};
use berth_verbs::foreign::import::{self, Imported};
use berth_verbs::foreign::said::{self, Said};
use berth_verbs::foreign::{self, Conversation, Found, USUAL_PAST, Wanted};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::caller::Caller;
use crate::fault::Fault;
use crate::gate::{Gate, or_no_store};
use crate::http::body::{Body, Path, Query};
use crate::http::sessions::made;
use crate::routes::Route;
use crate::seats::{at_most_an_hour, long_work, reading};
use crate::visible::{Json, nothing_hidden};

/// The most conversations that are imported by one call.
const MOST_IMPORTED: usize = 1000;
/// The most conversations of one list.
const MOST_LISTED: usize = 10_000;

pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::get("list_foreign", "/v1/foreign", Scope::Read, list)
            .about("Conversations that agents keep and no session here has; open ones first.")
            .query::<WhichForeign>()
            .gives::<Found>(200, "the list")
            .fails(&[Code::Usage, Code::Unreachable]),
        Route::get("get_foreign", "/v1/foreign/{agent}/{conversation}", Scope::Read, one)
            .about("What is known about a conversation, and what was said in it.")
            .gives::<ForeignConversation>(200, "what is known")
            .fails(&[Code::NotFound, Code::Usage, Code::Refused, Code::Unreachable]),
        Route::post("adopt_foreign", "/v1/foreign/{agent}/{conversation}/adopt", Scope::Send, adopted)
            .about("Goes on with a conversation in a session here; answered when its agent takes turns.")
            .takes::<AdoptForeign>()
            .gives::<Status>(201, "it runs in a new session")
            .gives::<Status>(200, "it runs in the session that had it")
            .fails(&[
                Code::NotFound,
                Code::Usage,
                Code::Refused,
                Code::Held,
                Code::InUse,
                Code::NotAllowed,
                Code::TimedOut,
                Code::Full,
                Code::Unreachable,
            ]),
        Route::post("import_foreign", "/v1/foreign/import", Scope::Send, imported)
            .about("Makes sessions of past conversations: searchable and resumable, and nothing is started.")
            .takes::<ImportForeign>()
            .gives::<ImportedForeign>(200, "what became of each")
            .fails(&[
                Code::NotFound,
                Code::Usage,
                Code::Refused,
                Code::NotAllowed,
                Code::Full,
                Code::Unreachable,
            ]),
    ]
}

nothing_hidden!(Found, ForeignConversation, ImportedForeign);

/// Which conversations.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
struct WhichForeign {
    /// Kind of the conversations, as `conversation_kind` of an agent has it; all kinds if it is not given.
    agent: Option<String>,
    /// Only those that were had in this directory, or below it.
    #[schemars(regex(pattern = "^/"))]
    cwd: Option<PathBuf>,
    /// Those that sessions here have, too.
    #[serde(default)]
    ours: bool,
    /// At most so many that are not open; 50 by default.
    limit: Option<usize>,
}

fn wanted(agent: Option<&str>, cwd: Option<PathBuf>, limit: Option<usize>) -> Result<Wanted, Problem> {
    if let Some(dir) = cwd.as_ref().filter(|dir| !dir.is_absolute()) {
        return Err(Problem::new(Code::Usage, format!("`{}` is not an absolute path", dir.display()))
            .hint("write the directory from / on"));
    }
    Ok(Wanted { agent: agent.map(foreign::kind).transpose()?, under: cwd, ours_too: false, limit })
}

async fn list(
    State(gate): State<Arc<Gate>>,
    caller: Caller,
    Query(which): Query<WhichForeign>,
) -> Result<Json<Found>, Fault> {
    let ctx = caller.ctx(&gate);
    let found = reading(move || {
        let limit = which.limit.unwrap_or(USUAL_PAST).min(MOST_LISTED);
        let wanted = wanted(which.agent.as_deref(), which.cwd, Some(limit))?;
        Ok(foreign::list(&ctx, &Wanted { ours_too: which.ours, ..wanted }))
    });
    Ok(Json(found.await?))
}

/// A conversation, and what was said in it.
#[derive(Serialize, JsonSchema)]
struct ForeignConversation {
    /// What is known.
    conversation: Conversation,
    /// What was said in it; nothing if nothing was.
    said: Option<Said>,
}

async fn one(
    State(gate): State<Arc<Gate>>,
    caller: Caller,
    Path((agent, id)): Path<(String, String)>,
) -> Result<Json<ForeignConversation>, Fault> {
    let ctx = caller.ctx(&gate);
    let told = reading(move || {
        let conversation = foreign::find(&ctx, &id, Some(foreign::kind(&agent)?))?;
        let said = conversation.file.as_deref().map(said::read).transpose()?;
        Ok(ForeignConversation { conversation, said })
    });
    Ok(Json(told.await?))
}

/// How to go on with it here.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
struct AdoptForeign {
    /// The name of the session; by default guessed from how it began.
    #[schemars(regex(pattern = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"))]
    name: Option<String>,
    /// End the programs that have it open.
    #[serde(default)]
    take: bool,
    /// End these programs that have it open, by their pids. If others have it open, none is ended, and the answer is
    /// 409.
    take_only: Option<Vec<u32>>,
    /// Wait so long until no program has it open, at most an hour; then the answer is 504.
    #[schemars(range(max = 3_600_000))]
    wait_ms: Option<u64>,
    /// The agent's own terminal interface.
    #[serde(default)]
    tui: bool,
}

async fn adopted(
    State(gate): State<Arc<Gate>>,
    caller: Caller,
    Path((agent, id)): Path<(String, String)>,
    Body(how): Body<AdoptForeign>,
) -> Result<Response, Fault> {
    if how.take || how.take_only.is_some() {
        caller.needs(Scope::Control)?;
    }
    let others = match (how.take, how.take_only, how.wait_ms) {
        (true, None, None) => Others::Take(Take::Anybody),
        (false, Some(pids), None) => Others::Take(Take::Only(pids)),
        (false, None, Some(ms)) => Others::Wait(Some(Duration::from_millis(at_most_an_hour("wait_ms", ms)?))),
        (false, None, None) => Others::Refuse,
        _ => return Err(Fault::usage("of `take`, `take_only` and `wait_ms` only one can be said")),
    };
    let ctx = caller.ctx(&gate);
    let adopted = long_work(move || {
        let order = adopt::Order { name: how.name, others, tui: how.tui };
        let conversation = foreign::find(&ctx, &id, Some(foreign::kind(&agent)?))?;
        let done = adopt::adopt(&ctx, &conversation, &order, &mut |_| {});
        let done = done.map_err(|problem| or_no_store(&ctx.home, problem))?;
        Ok((done.status, done.was_ours))
    });
    let (status, was_ours) = adopted.await?;
    Ok(if was_ours { Json(status).into_response() } else { made(status) })
}

/// Which to import.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
struct ImportForeign {
    /// These, by their ids.
    #[serde(default)]
    conversations: Vec<String>,
    /// All there are.
    #[serde(default)]
    all: bool,
    /// Those that were had in this directory, or below it.
    #[schemars(regex(pattern = "^/"))]
    cwd: Option<PathBuf>,
    /// Kind of the conversations, as `conversation_kind` of an agent has it; all kinds if it is not given.
    agent: Option<String>,
    /// What people will call it; only for one.
    #[schemars(regex(pattern = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"))]
    name: Option<String>,
    /// Only say what would be done.
    #[serde(default)]
    dry_run: bool,
}

/// What became of each.
#[derive(Serialize, JsonSchema)]
struct ImportedForeign {
    /// Of each, in order.
    conversations: Vec<Imported>,
    /// How many more there are: ask again.
    beyond: usize,
    /// What could not be looked at.
    damaged: Vec<String>,
}

async fn imported(
    State(gate): State<Arc<Gate>>,
    caller: Caller,
    Body(which): Body<ImportForeign>,
) -> Result<Json<ImportedForeign>, Fault> {
    let ways = [!which.conversations.is_empty(), which.all, which.cwd.is_some()];
    if ways.into_iter().filter(|way| *way).count() != 1 {
        return Err(Fault::usage("say which: `conversations`, `all`, or `cwd`, and one of them"));
    }
    if which.conversations.len() > MOST_IMPORTED {
        return Err(Fault::usage(format!("more than {MOST_IMPORTED} conversations at once")));
    }
    let ctx = caller.ctx(&gate);
    let done = long_work(move || {
        let agent = which.agent.as_deref().map(foreign::kind).transpose()?;
        let mut found = Found::default();
        if which.conversations.is_empty() {
            let wanted = wanted(which.agent.as_deref(), which.cwd, Some(MOST_IMPORTED))?;
            found = foreign::list(&ctx, &wanted);
        } else {
            found.conversations = foreign::find_each(&ctx, &which.conversations, agent)?;
        }
        let order = import::Order { name: which.name, dry_run: which.dry_run };
        let nobody: &dyn Progress = &();
        let conversations = import::import(&ctx, &found.conversations, &order, nobody)
            .map_err(|problem| or_no_store(&ctx.home, problem))?;
        Ok(ImportedForeign { conversations, beyond: found.beyond, damaged: found.damaged })
    });
    Ok(Json(done.await?))
}
